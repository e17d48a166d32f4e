"""Traces of users: the protocol between a `core.Trace` and the engine."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.errors import TracerBoolConversionError, UnexpectedTracerError
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives
from mjax_ext.interpreters import ad, batching

X = np.array([0.5, 1.0, 2.0], np.float32)


class Tracer(core.Tracer):
    def __init__(self, trace, value):
        super().__init__(trace, mjax.typeof(value))
        self.value = value


class Noting(core.Trace):
    """Notes the names of primitives, and runs them below."""

    def __init__(self, parent):
        super().__init__()
        self.parent_trace, self.names = parent, []

    def value(self, x):
        return x.value if isinstance(x, Tracer) and x._trace is self else x

    def process_primitive(self, primitive, tracers, params):
        self.names.append(primitive.name)
        with core.set_current_trace(self.parent_trace):
            out = primitive.bind(*map(self.value, tracers), **params)
        return [Tracer(self, x) for x in out] if primitive.multiple_results else Tracer(self, out)


def run(cls, f, *args):
    """Runs a function under a trace of a class; gives the result and the trace."""
    with core.take_current_trace() as parent:
        trace = cls(parent)
        with core.set_current_trace(trace):
            out = f(*[Tracer(trace, x) for x in args])
    return mjax.tree.map(trace.value, out), trace


def test_all_operations_come_to_the_current_trace():
    out, trace = run(Noting, lambda x: (lax.sin(x) + jnp.zeros(3), lax.exp(1.0)), X)
    np.testing.assert_allclose(out[0], np.sin(X), rtol=1e-6)
    assert trace.names == ["sin", "broadcast_in_dim", "add", "exp"]


def test_values_of_other_traces_are_operands_like_others():
    def f(x, y):
        return run(Noting, lambda z: z * x + y, x)[0]

    np.testing.assert_allclose(mjax.jit(f)(X, X), X * X + X)
    np.testing.assert_allclose(mjax.jvp(f, (X, X), (X, X))[1], 2 * X * X + X, rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(f, in_axes=(0, None))(X, 1.0), X * X + 1)
    (inner, _), outer = run(Noting, lambda x: run(Noting, lambda y: y * x, x), X)
    np.testing.assert_allclose(inner, X * X)
    assert outer.names == ["mul"]


def test_values_are_raised_to_themselves():
    trace = Noting(None)  # quax calls it for each result
    assert trace.full_raise(X) is X and trace.full_raise(2.0) == 2.0


def test_tracers_are_arrays():
    seen = []
    run(Noting, lambda x: seen.append((isinstance(x, mjax.Array), x.shape, x.dtype, len(x),
                                       repr(x))) or x[0], X)
    assert seen == [(True, (3,), np.dtype("float32"), 3, "Traced<float32[3]>with<Noting>")]
    with pytest.raises(TracerBoolConversionError, match="while Noting traces"):
        run(Noting, lambda x: 1 if x[0] > 0 else 0, X)


def test_a_tracer_that_adds_nothing_becomes_its_value_under_evaluation():
    class Thin(Tracer):
        def full_lower(self):
            return core.full_lower(self.value)

    trace = Noting(core.find_top_trace(()))
    np.testing.assert_allclose(lax.sin(Thin(trace, Thin(trace, X))), np.sin(X), rtol=1e-6)
    with pytest.raises(UnexpectedTracerError):
        lax.sin(Tracer(trace, X))


def test_tracers_of_an_ended_trace_are_refused():
    leaked = []
    _, trace = run(Noting, lambda x: leaked.append(x) or x, X)
    assert trace.is_valid() and trace.main is trace
    trace.invalidate()
    assert not trace.is_valid()
    for use in (lax.sin, mjax.jit(lax.sin), lambda x: run(Noting, lax.sin, x)):
        with pytest.raises(UnexpectedTracerError, match="after the Noting trace"):
            use(leaked[0])


def test_tracers_of_the_engine_that_have_ended_are_refused_below():
    leaked = []
    mjax.jit(lambda x: leaked.append(x) or x)(X)
    mjax.grad(lambda x: leaked.append(x) or x)(1.0)
    mjax.vmap(lambda x: leaked.append(x) or x)(X)
    for tracer, name in zip(leaked, ("jit", "linearize", "vmap"), strict=True):
        for transform in lambda f: f, mjax.jit, mjax.vmap, mjax.grad:
            with pytest.raises(UnexpectedTracerError, match=f"after the {name} trace"):
                transform(lambda x, t=tracer: run(Noting, lambda y: (y * t).sum(), x)[0])(
                    X[0] if transform is mjax.grad else X)


def test_errors_of_what_leaves_its_trace_current_are_kept():
    p, current, held = core.Primitive("left"), [], []

    def left(*args):
        held.append(core.set_current_trace(current[-1]))
        held[-1].__enter__()
        raise RuntimeError("left")

    class Leaving(Noting):
        process_primitive = left

    def bound(x):
        current.append(x._trace)
        return p.bind(x)

    p.def_abstract_eval(lambda x: x)
    ad.primitive_jvps[p] = batching.primitive_batchers[p] = left
    for f in (lambda: mjax.jvp(bound, (X,), (X,)), lambda: mjax.vmap(bound)(X),
              lambda: run(Leaving, bound, X)):
        with pytest.raises(RuntimeError, match="left"):
            f()


def test_leaks_are_found_where_a_trace_ends():
    leaked = []

    def go():
        with core.take_current_trace() as parent:
            trace = Noting(parent)
            with core.set_current_trace(trace, check_leaks=True):
                leaked.append(lax.sin(Tracer(trace, X)))

    go()
    with mjax.checking_leaks(), pytest.raises(UnexpectedTracerError, match="outlived the Noting"):
        go()


class Silent(Noting):
    def process_primitive(self, primitive, tracers, params):
        return None


class Single(Noting):
    def process_primitive(self, primitive, tracers, params):
        return Tracer(self, X)


@mjax.custom_jvp
def ruled(x):
    return lax.sin(x)


ruled.defjvp(lambda p, t: (lax.sin(*p), t[0]))


@mjax.custom_vjp
def pulled(x):
    return lax.sin(x)


pulled.defvjp(lambda x: (lax.sin(x), None), lambda _, ct: (ct,))
several_p = core.Primitive("several", multiple_results=True)
several_p.def_abstract_eval(lambda x: [x, x])


class Listing(Noting):
    def process_primitive(self, primitive, tracers, params):
        return [Tracer(self, X)]


class Three(Noting):
    def process_primitive(self, primitive, tracers, params):
        return [Tracer(self, X)] * 3


region_p = core.CallPrimitive("region")
REGION = lambda x: region_p.bind(x, subfuns=(lu.wrap_init(lambda x: [lax.sin(x)]),))[0]


@pytest.mark.parametrize(("cls", "f", "error", "text"), [
    (Silent, lax.sin, TypeError,
     "Silent.process_primitive returned None for primitive 'sin'; .*return statement"),
    (Listing, lax.sin, TypeError,
     "Listing.process_primitive returned a list of 1 .*'sin'; it must return a value"),
    (Single, several_p.bind, TypeError,
     "Single.process_primitive returned .* for primitive 'several'; it must return a list"),
    (Three, several_p.bind, TypeError,
     "Three.process_primitive returned a list of 3 .* 'several', which has 2 results"),
    (type("Bare", (core.Trace,), {"__init__": lambda self, p: core.Trace.__init__(self)}), lax.sin,
     NotImplementedError, r"Bare does not interpret primitive sin: define "
                          r"Bare.process_primitive\(primitive, tracers, params\)"),
    (Noting, ruled, NotImplementedError, "a call of ruled, which has a rule for jvp: define "
                                         "Noting.process_custom_jvp_call"),
    (Noting, pulled, NotImplementedError, "a call of pulled, .* define "
                                          "Noting.process_custom_vjp_call"),
    (Noting, REGION, NotImplementedError, "a call by region: define Noting.process_call"),
], ids=["None", "list", "no list", "three", "nothing", "jvp", "vjp", "call"])
def test_mistakes_in_traces_name_class_and_method(cls, f, error, text):
    with pytest.raises(error, match=text):
        run(cls, f, X)


def test_it_is_a_trace_that_is_set():
    context = core.set_current_trace(3)
    with pytest.raises(TypeError, match="takes a core.Trace, got 3 of type int"), context:
        pass


# ---- functions with rules ----------------------------------------------------------------


class Dropping(Noting):
    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        assert (primitive, symbolic_zeros) == (primitives.custom_jvp_call_p, False)
        assert fun.__name__ == "ruled" == fun.debug_info.func_name
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees,
                                symbolic_zeros):
        assert primitive is primitives.custom_vjp_call_p
        with core.set_current_trace(self):
            return fun.call_wrapped(*tracers)


@pytest.mark.parametrize("f", [ruled, pulled], ids=["jvp", "vjp"])
def test_rules_may_be_dropped(f):
    jaxpr = mjax.make_jaxpr(f)(X)
    for g in (f, lambda x: core.jaxpr_as_fun(jaxpr)(x)[0]):
        out, trace = run(Dropping, g, X)
        np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)
        assert trace.names == ["sin"]
    grad = mjax.grad(lambda x: run(Dropping, f, x)[0])(1.0)
    np.testing.assert_allclose(grad, np.cos(1.0), rtol=1e-6)


class Running(Noting):
    """Runs rules by hand."""

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        with core.set_current_trace(self):
            out, tangent = jvp.call_wrapped(*tracers, *tracers)
        return [tangent]

    def process_custom_vjp_call(self, primitive, fun, fwd, bwd, tracers, *, out_trees,
                                symbolic_zeros):
        with core.set_current_trace(self):
            *residuals, out = fwd.call_wrapped(*(x for t in tracers for x in (t, True)))
            out_tree, res_tree, forwarded = out_trees()
            assert (out_tree.num_leaves, res_tree.num_leaves) == (1, len(residuals))
            assert forwarded == [None] * len(residuals)
            return [bwd.call_wrapped(*residuals, out)[0]]


def test_rules_are_functions_of_flat_values():
    np.testing.assert_array_equal(run(Running, ruled, X)[0], X)  # the tangent given is X
    np.testing.assert_allclose(run(Running, pulled, X)[0], np.sin(X), rtol=1e-6)

    @mjax.custom_vjp
    def product(x, n):
        return x * n

    product.defvjp(lambda x, n: (x * n, (x, n)), lambda res, ct: (ct * res[1] * 10, None))
    np.testing.assert_allclose(run(Running, lambda x: product(x, 2), X)[0], 40 * X, rtol=1e-6)
    staged = lambda x: mjax.jit(lambda y: run(Running, lambda z: product(z, 2), y)[0])(x)
    np.testing.assert_allclose(staged(X), 40 * X, rtol=1e-6)


def bound(primitive, args, trace, **params):
    return primitive.bind_with_trace(trace, args, list(map(mjax.typeof, args)), params)


def test_functions_with_rules_are_bound_as_functions():
    ran = []

    @lu.transformation_with_aux2
    def noted(f, store, what, *args):
        ran.append(what)
        store.store(what)
        return f(*args)

    def g(x):
        fun, out1 = noted(lu.wrap_init(lambda x: [lax.sin(x)]), "fun")
        jvp, out2 = noted(lu.wrap_init(lambda x, t: [lax.sin(x), 100.0 * t]), "jvp")
        (out,) = primitives.custom_jvp_call_p.bind(x, subfuns=(fun, jvp), symbolic_zeros=False)
        assert lu.merge_linear_aux(out1, out2) == (ran[0] == "fun", ran[0])
        return out

    mapped = lambda x: mjax.vmap(g)(x[None])[0]
    for call, value, first in (
            (g, np.sin(1.0), "fun"), (mjax.jit(g), np.sin(1.0), "fun"), (mjax.grad(g), 100, "jvp"),
            (mjax.grad(mjax.jit(lambda x: g(x))), 100, "fun"), (mapped, np.sin(1.0), "fun")):
        ran.clear()
        np.testing.assert_allclose(call(np.float32(1.0)), value, rtol=1e-6)
        assert ran[0] == first


def test_functions_with_rules_are_bound_in_a_shard_map():
    ran = []

    @lu.transformation_with_aux2
    def noted(f, store, what, *args):
        store.store(what)
        return f(*args)

    def g(x):
        fun, out1 = noted(lu.wrap_init(lambda x: [lax.sin(x)]), "fun")
        jvp, out2 = noted(lu.wrap_init(lambda x, t: [lax.sin(x), 100.0 * t]), "jvp")
        (out,) = primitives.custom_jvp_call_p.bind(x, subfuns=(fun, jvp), symbolic_zeros=False)
        ran.append(lu.merge_linear_aux(out1, out2))  # types of the function are asked for, too
        return out

    mesh, spec = Mesh(np.array(mjax.devices()[:1]), ("i",)), PartitionSpec("i")
    slope = mjax.shard_map(mjax.vmap(mjax.grad(g)), mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(slope(X), np.full(3, 100))
    assert ran == [(False, "jvp")]


@pytest.mark.parametrize("options", [{}, {"symbolic": True}, {"forward": (None, None)}], ids=str)
def test_rules_for_vjp_are_bound_as_functions(options):
    def f(x, y, symbolic=False, forward=(0, None)):
        fwd = lambda x, nx, y, ny: [*([x] if forward[0] is None else []), lax.cos(x), x * y]
        bwd = lambda r, c, ct: [10.0 * c * ct, ad.Zero(mjax.typeof(r))]
        trees = mjax.tree.structure([0]), mjax.tree.structure([0, 0]), list(forward)
        (out,) = primitives.custom_vjp_call_p.bind(
            x, y, subfuns=(lu.wrap_init(lambda x, y: [x * y]), lu.wrap_init(fwd),
                           lu.wrap_init(bwd)),
            out_trees=lambda: trees, symbolic_zeros=symbolic)
        return out

    args = np.float32(1.0), np.float32(3.0)
    g = functools.partial(f, **options)
    np.testing.assert_allclose(g(*args), 3.0)
    for grad in (mjax.grad(g, (0, 1)), mjax.jit(mjax.grad(g, (0, 1))),
                 mjax.grad(mjax.jit(g), (0, 1))):
        np.testing.assert_allclose(grad(*args), (10 * np.cos(1.0), 0), rtol=1e-6)


def test_values_that_functions_close_over_may_be_traced():
    def f(x, scale):
        fun = lu.wrap_init(lambda x: [x * scale])
        jvp = lu.wrap_init(lambda x, t: [x * scale, t * scale * 10.0])
        return primitives.custom_jvp_call_p.bind(x, subfuns=(fun, jvp), symbolic_zeros=False)[0]

    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(1.0, 3.0), 30)
    np.testing.assert_allclose(mjax.grad(mjax.jit(f))(1.0, 3.0), 30)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(f), in_axes=(None, 0))(1.0, X), 10 * X)


# ---- calls of functions ------------------------------------------------------------------


def test_a_call_primitive_holds_a_function():
    def f(x):
        fun = lu.wrap_init(lambda a, b: [a * b, lax.sin(b)])
        return region_p.bind(2.0, x, subfuns=(fun,), name="inner")

    np.testing.assert_allclose(f(X)[0], 2 * X)
    jaxpr = mjax.make_jaxpr(f)(X)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive is region_p and eqn.primitive.call_primitive and not (
        primitives.sin_p.call_primitive)
    assert [e.primitive.name for e in eqn.params["call_jaxpr"].eqns] == ["mul", "sin"]
    core.check_jaxpr(jaxpr)
    for run_again in (
            lambda x: eqn.primitive.bind(2.0, x, **eqn.params),
            lambda x: eqn.primitive.bind(2.0, x, **eqn.primitive.get_bind_params(eqn.params)),
            core.jaxpr_as_fun(jaxpr), mjax.jit(f), mjax.jit(core.jaxpr_as_fun(jaxpr))):
        out = run_again(X)
        np.testing.assert_allclose(out[0], 2 * X)
        np.testing.assert_allclose(out[1], np.sin(X), rtol=1e-6)
    total = lambda x: jnp.sum(f(x)[0] + f(x)[1])
    np.testing.assert_allclose(mjax.grad(total)(X), 2 + np.cos(X), rtol=1e-6)
    np.testing.assert_allclose(mjax.vmap(f)(X)[1], np.sin(X), rtol=1e-6)
    assert 'call @inner' in mjax.jit(f).lower(X).as_text()


def test_a_call_primitive_calls_one_function():
    p, f = core.CallPrimitive("called alone"), lu.wrap_init(lambda x: [x])
    for functions in ((), (f, f)):
        with pytest.raises(TypeError, match=f"'called alone' calls one .* given {len(functions)}"):
            p.bind(1.0, subfuns=functions)


@pytest.mark.parametrize("how", [lambda f: f, mjax.jit, mjax.grad])
def test_a_function_without_a_list_of_results_is_named(how):
    p = core.CallPrimitive("called for one")
    f = lambda x: p.bind(x, subfuns=(lu.wrap_init(lambda x: lax.sin(x)),))[0]
    with pytest.raises(TypeError, match=r"calls <lambda> at .*test_trace.py:\d+, which returned "
                       r".*; functions of flat values return a list"):
        how(f)(1.0)


def test_params_come_last():
    with pytest.raises(TypeError, match="the last argument is a dict of the params"):
        primitives.sin_p.bind_with_trace(core.find_top_trace(()), (X,))


def test_equations_give_functions_with_rules_back():
    forward = mjax.custom_jvp(lambda x, y: lax.sin(x) * y)
    forward.defjvp(lambda p, t: (forward(*p), 100.0 * t[0]))
    reverse = mjax.custom_vjp(lambda x, y: lax.sin(x) * y)
    reverse.defvjp(lambda x, y: (reverse(x, y), x), lambda x, ct: (100.0 * ct, x))
    for f, names in ((forward, {"symbolic_zeros"}), (reverse, {"symbolic_zeros", "out_trees"})):
        (eqn,) = mjax.make_jaxpr(mjax.vmap(f))(X, X).eqns
        params = eqn.primitive.get_bind_params(eqn.params)
        assert params.keys() == {*names, "subfuns"} and "call_jaxpr" in eqn.params
        fun = params["subfuns"][0]
        np.testing.assert_allclose(fun.call_wrapped(X, X)[0], np.sin(X) * X, rtol=1e-6)
        # The function may be replaced, and keeps the rules.
        halved = lu.wrap_init(lambda *xs, fun=fun: [0.5 * y for y in fun.call_wrapped(*xs)])
        bound = {**params, "subfuns": (halved, *params["subfuns"][1:])}
        np.testing.assert_allclose(
            eqn.primitive.bind(X, X, **bound)[0], np.sin(X) * X / 2, rtol=1e-6)
        for given in (params, bound):
            total = lambda x, p=eqn.primitive, given=given: jnp.sum(p.bind(x, X, **given)[0])
            np.testing.assert_allclose(mjax.grad(total)(X), np.full_like(X, 100))
            np.testing.assert_allclose(mjax.grad(mjax.jit(total))(X), np.full_like(X, 100))


def test_the_impl_of_a_call_primitive_takes_the_function():
    counted_p, calls = core.CallPrimitive("counted"), []

    @counted_p.def_impl
    def counted(f, *args, name):
        calls.append(name)
        return core.call_impl(f, *args)

    fun = lu.wrap_init(lambda x: [lax.sin(x)])
    f = lambda x: counted_p.bind(x, subfuns=(fun,), name="waves")[0]
    jaxpr = mjax.make_jaxpr(f)(1.0)
    assert calls == []
    np.testing.assert_allclose(f(1.0), np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(core.jaxpr_as_fun(jaxpr)(1.0)[0], np.sin(1.0), rtol=1e-6)
    assert calls == ["waves", "waves"]
    assert "primitive" not in str(counted_p.rules()["impl"])


def test_values_that_a_call_closes_over_are_operands():
    def f(x, y):
        return region_p.bind(x, subfuns=(lu.wrap_init(lambda x: [x * y]),))[0]

    (eqn,) = mjax.make_jaxpr(f)(X, 2.0).eqns
    assert len(eqn.invars) == 2
    np.testing.assert_allclose(mjax.jit(mjax.grad(f, 1))(2.0, 3.0), 2)


def test_calls_of_the_engine_are_call_primitives():
    for p in (primitives.call_p, primitives.closed_call_p):
        assert isinstance(p, core.CallPrimitive)
    f = lambda x: primitives.call_p.bind(x, subfuns=(lambda x: [lax.sin(x)],))[0]
    jaxpr = mjax.make_jaxpr(f)(1.0)
    assert jaxpr.eqns[0].primitive is primitives.call_p
    assert [e.primitive.name for e in core.inline_calls(jaxpr).eqns] == ["sin"]


def in_front(params):
    """Changes the params to those of a program that also gives its operand, before the results."""
    program = params.pop("jaxpr")
    params["jaxpr"] = mjax.make_jaxpr(lambda x: (x, *core.jaxpr_as_fun(program)(x)))(
        *program.in_avals)


class Longer(Noting):
    def process_primitive(self, primitive, tracers, params):
        in_front(params)
        return super().process_primitive(primitive, tracers, params)[1:]


class LongerOfACopy(Longer):
    def process_primitive(self, primitive, tracers, params):
        return super().process_primitive(primitive, tracers, dict(params))


class LongerPrograms(core.Interpreter):
    def call(self, jaxpr, carried, params):
        in_front(params)
        return primitives.jit_p.bind(*carried, **params)[1:]


def test_methods_that_change_params():
    f = mjax.jit(lambda x: (lax.sin(x), 2 * x))
    for _ in range(2):
        np.testing.assert_allclose(LongerPrograms().run(f, X)[1], 2 * X)
        np.testing.assert_allclose(run(LongerOfACopy, f, X)[0][1], 2 * X)
    with pytest.raises(TypeError, match="Longer.process_primitive returned .* for primitive 'jit', "
                       "which has 3 results.*If the method changes params, let it change a copy"):
        run(Longer, f, X)


class NoHash(core.AbstractValue):
    def __eq__(self, other):
        return type(other) is NoHash

    def __repr__(self):
        return "NoHash()"


def test_types_without_a_hash_are_operands():
    class Typed(Noting):
        def process_primitive(self, primitive, tracers, params):
            value = Tracer(self, X)
            value.aval = NoHash()
            return [value, value]

    for _ in range(2):
        out, _ = run(Typed, lambda x: several_p.bind(several_p.bind(x)[0]), X)
        assert len(out) == 2


def test_results_are_counted_again_as_the_abstract_evaluation_comes():
    class Two(Noting):
        def process_primitive(self, primitive, tracers, params):
            return [tracers[0]] * 2

    later_p = core.Primitive("later", multiple_results=True)
    run(Two, later_p.bind, X)
    later_p.def_abstract_eval(lambda x: [x, x, x])
    with pytest.raises(TypeError, match="a list of 2 .* 'later', which has 3 results"):
        run(Two, later_p.bind, X)


class Forgetful(Noting):
    def process_primitive(self, primitive, tracers, params):
        out = super().process_primitive(primitive, tracers, params)
        if self.names.count("add_any") == 1:
            raise AttributeError("raised once")
        return out


def test_errors_of_sums_of_cotangents_are_not_taken_for_others():
    with pytest.raises(AttributeError, match="raised once"):
        run(Forgetful, mjax.grad(lambda x: lax.mul(lax.sin(x), lax.cos(x))), np.float32(1))


class Failing(Noting):
    def process_primitive(self, primitive, tracers, params):
        return {}[primitive.name]

    def process_custom_jvp_call(self, primitive, fun, jvp, tracers, *, symbolic_zeros):
        return {}[fun.__name__]


identity = mjax.custom_jvp(lambda x: x)
identity.defjvps(lambda t, out, x: t)


@pytest.mark.parametrize(("f", "name"), [(lax.sin, "sin"), (several_p.bind, "several"),
                                         (identity, "custom_jvp_call")])
def test_errors_of_methods_name_the_trace_and_the_primitive(f, name):
    with pytest.raises(KeyError) as caught:
        run(Failing, f, X)
    note = caught.value.__notes__[0]
    assert note.startswith(f"Raised while Failing interpreted primitive '{name}'.\nIt was applied")
    assert "test_trace.py" in note
