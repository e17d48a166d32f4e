"""custom_jvp: rules under every transformation, what they are given, what is refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.custom.custom_jvp import custom_jvp_call_p
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax.custom_derivatives import SymbolicZero
from mjax.dtypes import float0
from mjax.errors import UnexpectedTracerError
from mjax.tree_util import Partial
from tests.engine.control.custom_programs import (
    DX,
    DY,
    FORWARD,
    INSIDE,
    JVP,
    REVERSE,
    XS,
    X,
    Y,
    assert_same,
    same,
    simple,
    total,
    with_rule,
)
from tests.engine.reading import names
from tests.marks import some

TRANSFORMED = {**REVERSE, **FORWARD}
QUICK = ["eval", "jit", "jvp", "vjp", "vmap", "vmap of grad", "grad of vmap", "jit of vjp",
         "jit of grad of vmap", "jvp of jit"]


@pytest.mark.parametrize("name", QUICK)
def test_simple(name):
    pair = simple()
    assert_same(TRANSFORMED[name](pair.custom), TRANSFORMED[name](pair.plain))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("make", JVP)
def test_every_composition(make, name):
    pair = JVP[make]()
    assert_same(TRANSFORMED[name](pair.custom), TRANSFORMED[name](pair.plain))


# ---- values ----------------------------------------------------------------------------


@pytest.mark.parametrize("jitted", [False, True])
def test_against_finite_differences(jitted):
    @mjax.custom_jvp
    def softplus(x):
        return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))

    softplus.defjvps(lambda dx, out, x: dx / (1 + jnp.exp(-x)))
    f = mjax.jit(softplus) if jitted else softplus
    with mjax.enable_x64(True):
        x, h = np.linspace(-3, 3, 7), 1e-5
        slope = (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)
        np.testing.assert_allclose(mjax.jvp(f, (x,), (np.ones(7),))[1], slope, 1e-8)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(x), slope, 1e-8)
        values = [np.asarray(f(x + d)) for d in (-1e-3, 0, 1e-3)]
        curvature = (values[0] - 2 * values[1] + values[2]) / 1e-6
        np.testing.assert_allclose(mjax.vmap(mjax.grad(mjax.grad(f)))(x), curvature, 1e-5)


def test_a_rule_that_calls_the_function_applies_at_every_order():
    f = mjax.custom_jvp(lambda x: jnp.exp(x))
    f.defjvp(lambda p, t: (f(*p), 2 * f(*p) * t[0]))
    for g in (f, mjax.jit(f), mjax.checkpoint(f)):
        value = g
        for order in range(4):
            np.testing.assert_allclose(value(0.5), 2**order * np.exp(0.5), 1e-5)
            value = mjax.grad(value)


def test_python_control_flow_on_values():
    @mjax.custom_jvp
    def f(x, y):
        return x * y if y > 0 else x

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, _) = primals, tangents
        return f(x, y), 2 * dx if x > 0 else 3 * dx

    assert f(2.0, 3.0) == 6.0 and f(2.0, -3.0) == 2.0
    assert mjax.grad(f)(2.0, 3.0) == 2.0 and mjax.grad(f)(-2.0, 3.0) == 3.0
    assert mjax.jvp(f, (2.0, 3.0), (1.0, 0.0)) == (6.0, 2.0)
    # Arguments that vmap does not map over stay values, above and below differentiation.
    np.testing.assert_array_equal(mjax.vmap(lambda z: f(2.0, 3.0) * z)(XS[0]), 6 * XS[0])
    found = mjax.grad(lambda x: mjax.vmap(lambda z: f(x, 3.0) * z)(XS[0]).sum())(-2.0)
    np.testing.assert_allclose(found, 3 * XS[0].sum(), 1e-5)
    with pytest.raises(mjax.errors.TracerBoolConversionError):
        mjax.jit(f)(2.0, 3.0)


def test_functions_see_arrays():
    seen = []
    f = mjax.custom_jvp(lambda x, n: x * n)

    @f.defjvp
    def f_jvp(primals, tangents):
        seen.extend([*primals, *tangents])
        return f(*primals), tangents[0] * primals[1]

    mjax.jvp(f, (2.0, 3), (1.0, np.zeros((), float0)))
    assert [(v.shape, v.dtype) for v in seen] == [((), np.float32), ((), np.int32),
                                                  ((), np.float32), ((), float0)]
    assert seen[0].weak_type


@pytest.mark.parametrize("around", [same, mjax.jit])
def test_tangents_of_integers(around):
    f = mjax.custom_jvp(lambda x, n: (x * n, n + 1))

    @f.defjvp
    def f_jvp(primals, tangents):
        assert tangents[1].dtype == float0 and tangents[1].shape == (3,)
        return f(*primals), (5 * tangents[0], tangents[1])

    n = np.arange(3)
    out, tangent = mjax.jvp(around(f), (X, n), (DX, np.zeros(3, float0)))
    np.testing.assert_array_equal(out[1], n + 1)
    np.testing.assert_allclose(tangent[0], 5 * DX, 1e-6)
    assert tangent[1].dtype == float0
    found = mjax.grad(lambda x, n: around(f)(x, n)[0].sum(), (0, 1), allow_int=True)(X, n)
    np.testing.assert_allclose(found[0], np.full(3, 5.0))
    assert found[1].dtype == float0


# ---- arguments -------------------------------------------------------------------------


def test_defaults_and_names_are_resolved_to_positions():
    given = []
    f = mjax.custom_jvp(lambda x, y=3.0, *rest, z=1.0: x * y)

    @f.defjvp
    def f_jvp(primals, tangents):
        given.append(len(primals))
        return f(*primals), 7 * tangents[0]

    assert mjax.grad(f)(2.0) == 7 and given == [2]
    assert mjax.grad(lambda x: f(y=4.0, x=x))(2.0) == 7 and given == [2, 2]
    assert mjax.grad(f)(2.0, 3.0, 4.0, 5.0) == 7 and given == [2, 2, 4]


@pytest.mark.parametrize(("call", "text"), [
    (lambda f: f(1.0, z=2.0), "custom_jvp of f: the keyword arguments z have no position"),
    (lambda f: f(1.0, 2.0, 3.0), "custom_jvp of f: too many positional arguments"),
    (lambda f: f(), "custom_jvp of f: missing a required argument: 'x'"),
    (lambda f: f(1.0, q=2.0), "custom_jvp of f: got an unexpected keyword argument 'q'"),
    (lambda f: f("a"), r"custom_jvp of f: argument\[0\] is not a valid array: 'a'"),
    (lambda f: f({"k": [jnp.sin]}), r"custom_jvp of f: argument\[0\]\['k'\]\[0\] is not a "),
])
@pytest.mark.parametrize("around", [same, lambda f: mjax.jit(lambda: f())])
def test_arguments_that_do_not_fit(call, text, around):
    def f(x, y=1.0, *, z=1.0):
        return x

    f = with_rule(lambda p, t: (p[0], t[0]), f)
    with pytest.raises(TypeError, match=text):
        around(lambda: call(f))()


def test_nondiff_arguments():
    orders = []
    f = mjax.custom_jvp(lambda a, x, b, y, c: a(x) * b(y) + c, nondiff_argnums=(-1, 0),
                        nondiff_argnames=("b",))

    @f.defjvp
    def f_jvp(a, b, c, primals, tangents):
        orders.append((a is jnp.sin, b is jnp.cos, c))
        return f(a, primals[0], b, primals[1], c), 3 * tangents[0]

    def g(x):
        return f(jnp.sin, x, jnp.cos, 2.0, 5)

    assert f.nondiff_argnums == (0, 2, 4)
    assert mjax.grad(g)(1.0) == 3 and mjax.grad(mjax.jit(g))(1.0) == 3
    assert orders == [(True, True, 5)] * 2


def test_nondiff_arguments_may_be_traced():
    f = mjax.custom_jvp(lambda w, x: w["a"][0] * x, nondiff_argnums=(0,))
    f.defjvp(lambda w, p, t: (f(w, *p), 5 * w["a"][0] * t[0]))

    def g(w, x):
        return f({"a": (w, "text")}, x)

    assert mjax.grad(g, (0, 1))(2.0, 3.0) == (0.0, 10.0)
    for h in (mjax.jit(g), mjax.checkpoint(g), mjax.jit(mjax.jit(g))):
        assert mjax.grad(h, (0, 1))(2.0, 3.0) == (0.0, 10.0)
    np.testing.assert_array_equal(mjax.vmap(mjax.grad(g, 1), (0, None))(X, 3.0), 5 * X)
    np.testing.assert_allclose(
        mjax.grad(lambda x: mjax.jit(mjax.vmap(g, (0, None)))(X, x).sum())(3.0), 5 * X.sum(), 1e-6)
    jaxpr = mjax.make_jaxpr(g)(2.0, 3.0)
    assert names(jaxpr)[:2] == ["stop_gradient", "custom_jvp_call"]


@pytest.mark.parametrize(("options", "error", "text"), [
    ({"nondiff_argnums": 2}, ValueError, "nondiff_argnums has 2, but f takes 1 positional"),
    ({"nondiff_argnums": (-2,)}, ValueError, "nondiff_argnums has -2, but f takes 1 positional"),
    ({"nondiff_argnames": "q"}, ValueError, "nondiff_argnames has 'q', which is not a positional"),
    ({"nondiff_argnums": ("a",)}, TypeError, "must be an integer or a tuple"),
])
def test_nondiff_arguments_that_are_not_there(options, error, text):
    def f(x):
        return x

    with pytest.raises(error, match=text):
        mjax.custom_jvp(f, **options)


def test_symbolic_zeros():
    seen = []
    f = mjax.custom_jvp(lambda x, y, n: (x * 2, y * n))

    def f_jvp(primals, tangents):
        seen.append([type(t) is SymbolicZero for t in tangents])
        dx, dy, dn = tangents
        assert dn.dtype == float0 and (dy.shape, dy.dtype) == ((3,), np.float32)
        zero = SymbolicZero.from_primal_value(primals[1])
        return f(*primals), (3 * dx, zero if type(dy) is SymbolicZero else 4 * dy)

    f.defjvp(f_jvp, symbolic_zeros=True)
    for around in (same, mjax.jit, mjax.checkpoint):
        found = mjax.grad(lambda x, g: total(g(x)))(X, Partial(around(lambda x: f(x, Y, 3))))
        np.testing.assert_allclose(found, 2 * 2 * X * 3, 1e-5)
        _, tangents = mjax.jvp(lambda x, y: f(x, y, 3), (X, Y), (DX, DY))
        np.testing.assert_allclose(tangents[1], 4 * DY, 1e-5)
    batched = mjax.grad(lambda x: total(mjax.vmap(f, (0, None, None))(x, Y, 3)))(XS)
    np.testing.assert_allclose(batched, 2 * 2 * XS * 3, 1e-5)
    # jit and checkpoint share one trace.
    assert seen.count([False, True, True]) == 3 and seen.count([False, False, True]) == 3


# ---- tracing ---------------------------------------------------------------------------


def test_function_and_rule_are_traced_once_per_types():
    counts = {"function": 0, "rule": 0}

    @mjax.custom_jvp
    def f(x):
        counts["function"] += 1
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        counts["rule"] += 1
        return jnp.sin(primals[0]), 2 * jnp.cos(primals[0]) * tangents[0]

    def chain(x):
        for _ in range(5):
            x = f(x)
        return x.sum()

    jitted = mjax.jit(chain)
    jitted(X)
    assert counts == {"function": 1, "rule": 0}
    mjax.grad(jitted)(X)
    mjax.jit(mjax.grad(chain))(X)
    mjax.jvp(jitted, (X,), (X,))
    mjax.grad(mjax.jit(lambda x: mjax.vmap(chain)(x).sum()))(XS)
    mjax.hessian(mjax.jit(chain))(X)
    assert counts == {"function": 1, "rule": 1}
    mjax.grad(jitted)(XS)
    assert counts == {"function": 2, "rule": 2}
    jaxpr = mjax.make_jaxpr(chain)(X)
    calls = [e.params for e in jaxpr.eqns if e.primitive is custom_jvp_call_p]
    assert len({id(p["call_jaxpr"]) for p in calls}) == 1
    assert len({id(p["jvp_jaxpr_fun"]) for p in calls}) == 1
    with mjax.enable_x64(True):
        mjax.make_jaxpr(chain)(X)
    assert counts["function"] == 3


def test_another_rule_takes_the_place_of_the_first():
    f = with_rule(lambda p, t: (p[0] * 2, 5 * t[0]))
    g = mjax.jit(lambda x: f(x))
    assert mjax.grad(g)(1.0) == 5
    f.defjvp(lambda p, t: (p[0] * 2, 7 * t[0]))
    assert mjax.grad(f)(1.0) == 7 and mjax.grad(mjax.jit(lambda x: f(x)))(1.0) == 7


def test_nothing_is_kept_alive(small_heap):
    def use():
        f = with_rule(lambda p, t: (p[0] * 2, 5 * t[0]), lambda x: x * 2)
        with mjax.checking_leaks():
            mjax.make_jaxpr(mjax.grad(lambda x: f(x)))(1.0)
            mjax.jit(mjax.vmap(mjax.grad(lambda x: f(x))))(X)
            mjax.grad(mjax.jit(lambda x: f(f(x))))(1.0)
        return weakref.ref(f.fun)

    function = use()
    mjax.clear_caches()
    gc.collect()
    assert function() is None


# ---- closures --------------------------------------------------------------------------


def closing(rule=lambda w, p, t: (p[0] * w, 7 * w * t[0])):
    def outer(w, x):
        f = mjax.custom_jvp(lambda x: x * w)
        f.defjvp(lambda p, t: rule(w, p, t))
        return f(x)

    return outer


def test_closing_over_traced_values_that_are_not_differentiated():
    outer = closing()
    assert mjax.grad(outer, 1)(2.0, 3.0) == 14
    assert mjax.jit(mjax.grad(outer, 1))(2.0, 3.0) == 14
    np.testing.assert_allclose(mjax.vmap(outer, (0, None))(X, 3.0), 3 * X)
    np.testing.assert_allclose(mjax.vmap(mjax.grad(outer, 1), (0, None))(X, 3.0), 7 * X)
    for around in (same, mjax.jit):
        found = around(mjax.grad(lambda x: mjax.vmap(outer)(X, x).sum()))(Y)
        np.testing.assert_allclose(found, 7 * X, 1e-6)
        _, tangent = around(lambda x: mjax.jvp(lambda x: mjax.vmap(outer, (0, None))(X, x), (x,),
                                               (2.0,)))(3.0)
        np.testing.assert_allclose(tangent, 14 * X, 1e-6)
    nested = mjax.grad(lambda x: mjax.vmap(mjax.vmap(outer, (None, 0)), (0, None))(X, x).sum())(Y)
    np.testing.assert_allclose(nested, np.full(3, 7 * X.sum()), 1e-5)
    jaxpr = mjax.make_jaxpr(outer)(2.0, 3.0)
    assert jaxpr.eqns[0].params["num_consts"] == 1 and len(jaxpr.eqns[0].invars) == 2


@pytest.mark.parametrize("transformed", [
    lambda f: mjax.grad(f)(2.0, 3.0),
    lambda f: mjax.grad(f, (0, 1))(2.0, 3.0),
    lambda f: mjax.jvp(f, (2.0, 3.0), (1.0, 0.0)),
    lambda f: mjax.grad(mjax.jit(f))(2.0, 3.0),
    lambda f: mjax.jit(mjax.grad(f))(2.0, 3.0),
    lambda f: mjax.grad(lambda w: mjax.vmap(f, (None, 0))(w, X).sum())(2.0),
    lambda f: mjax.grad(lambda w: mjax.vmap(f)(w, X).sum())(X),
    lambda f: mjax.grad(lambda w: mjax.jit(mjax.vmap(f))(w, X).sum())(X),
    lambda f: mjax.grad(mjax.checkpoint(f))(2.0, 3.0),
])
def test_closing_over_values_that_are_differentiated(transformed):
    with pytest.raises(UnexpectedTracerError, match="custom_jvp function <lambda> .*that is being "
                       "differentiated.*(?s:.)*pass the value as an argument"):
        transformed(closing())


def test_what_is_closed_over_can_be_held_constant():
    outer = closing()
    assert mjax.grad(lambda w: outer(lax.stop_gradient(w), w))(2.0) == 14


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("also_the_function", some([True, False], 2))
def test_rules_that_run_elsewhere(inside, also_the_function):
    """Closed-over values are operands, whether or not their trace has ended."""
    def loss(w, x):
        f = mjax.custom_jvp(lambda x: x * (w if also_the_function else 2.0))
        f.defjvp(lambda p, t: (f(*p), 7 * w * t[0]))
        return INSIDE[inside](f)(x)

    assert mjax.jit(mjax.grad(loss, 1))(2.0, 3.0) == 14
    assert mjax.grad(mjax.jit(loss), 1)(2.0, 3.0) == 14
    assert mjax.jvp(mjax.jit(lambda x: loss(2.0, x)), (3.0,), (1.0,))[1] == 14
    np.testing.assert_allclose(mjax.vmap(mjax.grad(loss, 1), (0, None))(X, 3.0), 7 * X, 1e-6)
    for around in (same, mjax.jit):
        found = mjax.grad(around(lambda x: mjax.vmap(loss)(X, x).sum()))(Y * Y)
        np.testing.assert_allclose(found, 7 * X, 1e-6)


def test_tracers_that_side_effects_left_behind():
    left = []

    def loss(x):
        f = mjax.custom_jvp(lambda x: x * 2)
        f.defjvp(lambda p, t: (left.append(p[0]) or f(*p), 7 * t[0]))
        return mjax.jit(lambda x: f(x))(x)

    for _ in range(2):
        assert mjax.jit(mjax.grad(loss))(1.0) == 7
    assert left


def test_second_derivatives_in_what_a_rule_closes_over():
    def loss(w, x):
        f = mjax.custom_jvp(lambda x: jnp.sin(x))
        f.defjvp(lambda p, t: (f(*p), w * w * t[0]))
        return mjax.grad(mjax.jit(lambda x: f(x)))(x)

    assert mjax.grad(loss)(3.0, 1.0) == 6 and mjax.grad(mjax.jit(loss))(3.0, 1.0) == 6


def test_rules_whose_closure_cannot_be_looked_into():
    class Holder:
        pass

    def loss(w, x):
        holder = Holder()
        holder.w = w
        f = mjax.custom_jvp(lambda x: x * 2)
        f.defjvp(lambda p, t: (f(*p), holder.w * t[0]))
        return mjax.jit(lambda x: f(x))(x)

    with pytest.raises(UnexpectedTracerError, match="had ended(?s:.)*used by the jvp rule of "
                       "custom_jvp function <lambda>.*pass what a rule needs to the function, as"):
        mjax.grad(mjax.jit(loss), 1)(2.0, 3.0)
    with pytest.raises(UnexpectedTracerError, match="jvp rule of custom_jvp function <lambda> at "
                       ".* closes over a value of type float32.* of a vmap trace that is not"):
        mjax.vmap(mjax.grad(loss, 1), (0, None))(X, 3.0)


# ---- named axes ------------------------------------------------------------------------


def test_rules_may_name_axes():
    f = mjax.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda p, t: (f(*p), lax.psum(t[0], "i")))

    def loss(x):
        return mjax.vmap(f, axis_name="i")(x)

    for g in (loss, mjax.jit(loss)):
        np.testing.assert_allclose(mjax.jvp(g, (X,), (DX,))[1], np.full(3, DX.sum()), 1e-5)
    # One application for all elements: its tangent is summed over the axis all the same.
    for around in (same, mjax.jit):
        g = around(lambda y: mjax.vmap(lambda x: x * f(y), axis_name="i")(X))
        np.testing.assert_allclose(mjax.jvp(g, (1.0,), (1.0,))[1], 3 * X, 1e-5)
    h = with_rule(lambda p, t: (p[0], t[0] * lax.axis_index("i")), lambda x: x)
    g = mjax.jit(lambda y: mjax.vmap(lambda x: x * h(y), axis_name="i")(X))
    with pytest.raises(TypeError, match="gives each element of the axis 'i' another result"):
        mjax.jvp(g, (1.0,), (1.0,))


def test_results_that_only_a_rule_makes_a_batch_of():
    f = mjax.custom_jvp(lambda x: (x, 1.0))
    f.defjvp(lambda p, t: (f(*p), (t[0], 5 * t[0])))
    for around in (same, mjax.jit):
        g = around(lambda x: mjax.vmap(f)(x)[1].sum())
        np.testing.assert_array_equal(mjax.grad(g)(X), np.full(3, 5.0))
    assert mjax.vmap(f, out_axes=(0, None))(X)[1] == 1.0


# ---- the primitive ---------------------------------------------------------------------


def test_it_has_all_rules():
    rules = custom_jvp_call_p.rules()
    assert not [name for name, where in rules.items() if where == "missing"]
    assert rules["dce"] != "default: dropped if unused and without effects"


def program():
    f = mjax.custom_jvp(lambda x, y: (x * y, jnp.sin(y)))

    @f.defjvp
    def f_jvp(primals, tangents):
        (x, y), (dx, dy) = primals, tangents
        return f(x, y), (2 * (dx * y + x * dy), 2 * jnp.cos(y) * dy)

    return mjax.make_jaxpr(lambda x, y: f(x, jnp.exp(y)))(X, Y)


def derivative(jaxpr, *args):
    return mjax.jvp(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a), args, (DX, DY))[1]


def test_dead_code_elimination_keeps_the_rule():
    jaxpr = program()
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    check_jaxpr(smaller)
    call = smaller.eqns[-1]
    assert call.primitive is custom_jvp_call_p and len(call.outvars) == 1
    assert "mul" not in names(smaller) and used == [True, True]  # the rule may read x
    np.testing.assert_allclose(derivative(smaller, X, Y)[0], derivative(jaxpr, X, Y)[1], 1e-6)
    nothing, used = dce_jaxpr(jaxpr, [False, False])
    assert not nothing.eqns and used == [False, False]


def test_partial_evaluation_and_recomputation_keep_the_rule():
    jaxpr = program()
    parts = partial_eval_jaxpr(jaxpr, [True, False])
    assert names(parts.known) == ["exp"] and "custom_jvp_call" in names(parts.unknown)
    parts = partial_eval_jaxpr(jaxpr, [False, False])
    assert "custom_jvp_call" in names(parts.known)
    parts = recompute_jaxpr(jaxpr, [True] * 2, [True] * 2, lambda *_, **__: False)
    assert "custom_jvp_call" in names(parts.unknown)
    expected = derivative(jaxpr, X, Y)
    for a, e in zip(derivative(parts.unknown, X, Y), expected, strict=True):
        np.testing.assert_allclose(a, e, 1e-6)


def test_batching_keeps_the_rule():
    jaxpr = program()
    batched, dims = batch_jaxpr(jaxpr, AxisData(None, 4), [0, None])
    check_jaxpr(batched)
    assert dims == [0, 0]
    _, tangents = mjax.jvp(lambda x: eval_jaxpr(batched, batched.consts, x, Y), (XS,), (XS,))
    np.testing.assert_allclose(tangents[0], 2 * XS * np.exp(Y), 1e-5)


def test_transposed_where_it_is_linear():
    f = mjax.custom_jvp(lambda a, x: (a * x, 3 * x))
    f.defjvp(lambda p, t: (f(*p), f(*p)))
    found = mjax.linear_transpose(lambda x: f(X, x), Y)((DX, DY))[0]
    np.testing.assert_allclose(found, X * DX + 3 * DY, 1e-5)
    # A rule that applies it to tangents.
    g = mjax.custom_jvp(lambda x: jnp.sin(x))
    g.defjvp(lambda p, t: (g(*p), f(2.0, t[0])[0]))
    for h in (g, mjax.jit(g)):
        assert mjax.grad(h)(1.0) == 2 and mjax.jvp(h, (1.0,), (3.0,))[1] == 6


def test_programs_are_kept_for_the_last_values_of_nondiff_argnums_only():
    f = mjax.custom_jvp(lambda a, x: a["n"] * x, nondiff_argnums=(0,))
    f.defjvp(lambda a, p, t: (f(a, *p), a["n"] * t[0]))
    g = mjax.custom_jvp(lambda n, x: n * x, nondiff_argnums=(0,))
    g.defjvp(lambda n, p, t: (g(n, *p), 2 * n * t[0]))
    h = lambda x: sum(f({"n": n}, g(n, x)) for n in range(100))
    assert mjax.jvp(mjax.jit(h), (1.0,), (1.0,))[1] == 2 * sum(n * n for n in range(100))
    assert 0 < len(g.signatures) <= 64 and not f.signatures  # dicts are not hashable


def test_an_equation_that_is_not_well_typed():
    jaxpr = program()
    jaxpr.eqns[-1] = jaxpr.eqns[-1].replace(invars=jaxpr.eqns[-1].invars[:1] * 3)
    with pytest.raises(JaxprTypeError, match="custom_jvp_call of a program that takes.* applied"):
        check_jaxpr(jaxpr)


def test_how_it_is_printed():
    text = str(mjax.make_jaxpr(simple().custom)(X, Y))
    for part in ("custom_jvp_call[", "name=product", "jvp=f_jvp", "symbolic_zeros=False"):
        assert part in text
