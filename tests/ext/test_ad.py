"""mjax_ext.interpreters.ad: tables over the records, makers of rules, symbolic zeros."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.interpreters import ad, batching, mlir, partial_eval

X = np.array([0.5, 1.0, 2.0], np.float32)
Y = np.array([2.0, 0.25, -1.0], np.float32)


def make(name, function, multiple_results=False):
    """A primitive that does what a function of arrays does."""
    p = core.Primitive(name, multiple_results=multiple_results)

    def types(*avals, **params):
        flat = mjax.make_jaxpr(lambda *xs: function(*xs, **params))(
            *[mjax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]).out_avals
        return flat if multiple_results else flat[0]

    p.def_abstract_eval(types)
    mlir.register_lowering(p, mlir.lower_fun(function, multiple_results=multiple_results))
    return p


def derivative(f, args, direction, eps=1e-2):
    """Central difference of a function of arrays along a direction."""
    plus, minus = ([np.float64(a) + s * eps * np.float64(d)
                    for a, d in zip(args, direction, strict=True)] for s in (1, -1))
    return (np.asarray(f(*map(np.float32, plus)), np.float64)
            - np.asarray(f(*map(np.float32, minus)), np.float64)) / (2 * eps)


# ---- the tables --------------------------------------------------------------------------


@pytest.mark.parametrize("table, field, define", [
    (ad.primitive_jvps, "jvp", "def_jvp"),
    (ad.primitive_transposes, "transpose", "def_transpose"),
    (ad.primitive_linearizations, "linearize", None),
    (batching.primitive_batchers, "batch", "def_batch"),
    (batching.fancy_primitive_batchers, "axis_batch", None),
])
def test_both_spellings_register_the_same(table, field, define):
    p = core.Primitive("p")
    assert p not in table and table.get(p) is None
    with pytest.raises(KeyError):
        table[p]

    def rule(*args):
        return args

    table[p] = rule
    assert getattr(p, field) is rule and table[p] is rule and p in table and p in list(table)
    assert len(table) == len(list(table))
    if define:
        def other(*args):
            return args

        assert getattr(p, define)(other) is other
        assert table[p] is other
    del table[p]
    assert getattr(p, field) is None and p not in table
    with pytest.raises(KeyError):
        del table[p]


def test_tables_say_what_they_hold():
    names = [p.name for p in ad.primitive_jvps]
    assert names == sorted(names) and {"sin", "mul", "jit"} <= set(names)
    assert "RuleTable('jvp'" in repr(ad.primitive_jvps)
    assert lax.sin_p not in ad.primitive_transposes and lax.neg_p in ad.primitive_transposes


def test_tables_refuse_what_is_not_a_rule():
    with pytest.raises(TypeError, match=r"'sin' of type str is not an mjax_ext\.core\.Primitive"):
        ad.primitive_jvps["sin"] = lambda *args: args
    with pytest.raises(TypeError, match="jvp rule of primitive 'p' must be a function, not 3"):
        ad.primitive_jvps[core.Primitive("p")] = 3


def test_get_primitive_transpose():
    assert ad.get_primitive_transpose(lax.neg_p) is lax.neg_p.transpose
    with pytest.raises(MissingRuleError, match="'lonely' has no transpose rule"):
        ad.get_primitive_transpose(core.Primitive("lonely"))


# ---- makers of rules ---------------------------------------------------------------------


def test_defjvp_sums_contributions_and_leaves_out_zeros():
    p = make("product", lambda x, y, *, power: lax.mul(x, lax.integer_pow(y, power)))
    seen = []

    def in_x(t, x, y, *, power):
        seen.append("x")
        return p.bind(t, y, power=power)

    def in_y(t, x, y, *, power):
        seen.append("y")
        return lax.mul(t, lax.mul(float(power), p.bind(x, y, power=power - 1)))

    ad.defjvp(p, in_x, in_y)

    def f(x, y):
        return p.bind(x, y, power=3)

    out, tangent = mjax.jvp(f, (X, Y), (Y, X))
    np.testing.assert_allclose(out, X * Y**3, rtol=1e-5)
    np.testing.assert_allclose(tangent, derivative(f, (X, Y), (Y, X)), rtol=1e-2)
    assert seen == ["x", "y"]
    mjax.jvp(lambda x: f(x, Y), (X,), (X,))
    assert seen == ["x", "y", "x"]
    ad.defjvp(p, None, None)
    _, tangent = mjax.jvp(f, (X, Y), (X, Y))
    np.testing.assert_array_equal(tangent, 0 * X)
    assert ".py:" in p.rules()["jvp"]


def test_defjvp2_gets_the_result():
    p = make("exponential", lambda x: lax.exp(x))
    ad.defjvp2(p, lambda t, out, x: lax.mul(t, out))
    np.testing.assert_allclose(mjax.grad(lambda x: lax.reduce_sum(p.bind(x), (0,)))(X), np.exp(X),
                               rtol=1e-5)
    assert "test_ad.py:" in p.rules()["jvp"]


@pytest.mark.parametrize("give", [
    lambda p: ad.defjvp(p, None), lambda p: ad.defjvp2(p, None), ad.defjvp_zero,
    lambda p: ad.defbilinear(p, print, print), lambda p: ad.deflinear(p, print),
    batching.defvectorized, batching.defbroadcasting, batching.defreducer,
    lambda p: mlir.register_lowering(p, print)])
@pytest.mark.parametrize("other", ["sin_p", core.Primitive, None])
def test_rules_belong_to_primitives(give, other):
    with pytest.raises(TypeError, match="rules belong to primitives: .* is not an mjax_ext.core.P"):
        give(other)


@pytest.mark.parametrize("give", [
    lambda p: ad.defjvp(p, 3), lambda p: ad.defjvp2(p, None, 3), lambda p: ad.deflinear(p, 3),
    lambda p: ad.deflinear2(p, 3), lambda p: ad.defbilinear(p, 3, print),
    lambda p: ad.defbilinear(p, print, 3)])
def test_rules_are_functions(give):
    p = make("product", lambda x, y: lax.mul(x, y))
    with pytest.raises(TypeError, match="must be a function.* 3"):
        give(p)
    assert p.jvp is p.transpose is None


@pytest.mark.parametrize("cls", [ad.Zero, ad.UndefinedPrimal])
def test_symbolic_values_are_nodes_of_trees(cls):
    value = cls(mjax.typeof(X))
    assert mjax.tree.leaves([value, 1]) == [1]
    again = mjax.jit(lambda x: x)(value)
    assert type(again) is cls and again.aval == value.aval
    assert mjax.tree.map(lambda x: 3, value, is_leaf=lambda x: type(x) is cls) == 3


@pytest.mark.parametrize(("call", "text"), [
    (lambda j: ad.jvp_jaxpr(j, [True], False), "jvp_jaxpr: nonzeros has 1 entry for 2 inputs"),
    (lambda j: ad.jvp_jaxpr(j, [True] * 2, [True] * 2), "instantiate has 2 entries for 1 result"),
    (lambda j: ad.linearize_jaxpr(j, [True]), "linearize_jaxpr: nonzeros has 1 entry for 2 inp"),
    (lambda j: ad.linearize_jaxpr(j, [True] * 2, [True] * 2), "instantiate has 2 entries for 1"),
    (lambda j: ad.transpose_jaxpr(j, [True], [True]), "transpose_jaxpr: undefined has 1 entry for"),
    (lambda j: ad.transpose_jaxpr(j, [True, False], []), "nonzero_cts has 0 entries for 1 result"),
    (lambda j: partial_eval.partial_eval_jaxpr(j, [True]), "unknown has 1 entry for 2 inputs"),
    (lambda j: partial_eval.partial_eval_jaxpr(j, [True] * 2, [True] * 2),
     "partial_eval_jaxpr: instantiate has 2 entries for 1 result")])
def test_flags_for_each_input_and_result(call, text):
    with pytest.raises(ValueError, match=text):
        call(mjax.make_jaxpr(lax.mul)(X, Y))


def test_defjvp_with_too_few_functions():
    p = make("product", lambda x, y: lax.mul(x, y))
    ad.defjvp(p, lambda t, x, y: p.bind(t, y))
    with pytest.raises(TypeError, match=r"jvp rule of primitive 'product'.* of 1 function for 2"
                       ) as caught:
        mjax.jvp(p.bind, (X, Y), (X, Y))
    told = "\n".join([str(caught.value), *caught.value.__notes__])
    assert told.count("It was applied at") == 1


def sum_and_difference(x, y):
    return [lax.add(x, y), lax.sub(x, y)]


def test_deflinear2_with_several_operands_and_results():
    p = make("butterfly", sum_and_difference, multiple_results=True)

    def transpose(cts, x, y):
        both = p.bind(*map(ad.instantiate_zeros, cts))
        return [ct if ad.is_undefined_primal(a) else None
                for ct, a in zip(both, (x, y), strict=True)]

    ad.deflinear2(p, transpose)
    _, tangents = mjax.jvp(p.bind, (X, Y), (Y, X))
    np.testing.assert_allclose(tangents[1], Y - X)
    outs, pullback = mjax.vjp(lambda x, y: p.bind(x, y), X, Y)
    np.testing.assert_allclose(outs[0], X + Y)
    np.testing.assert_allclose(pullback([X, Y])[0], X + Y)
    # Only one result is used: the other's cotangent is a Zero.
    one = mjax.grad(lambda x: lax.reduce_sum(lax.mul(p.bind(x, Y)[1], Y), (0,)))(X)
    np.testing.assert_allclose(one, Y)  # the tangent of Y was an array of zeros
    assert p.rules()["jvp"].startswith("derived")


def test_deflinear_does_not_look_at_the_operand():
    p = make("triple", lambda x: lax.mul(x, 3.0))
    ad.deflinear(p, lambda ct: [p.bind(ct)])
    np.testing.assert_allclose(mjax.linear_transpose(p.bind, X)(Y)[0], 3 * Y)
    _, tangent = mjax.jvp(lambda x: p.bind(lax.floor(x)), (X,), (X,))
    np.testing.assert_array_equal(tangent, 0 * X)


def test_defbilinear():
    p = make("times", lambda x, y: lax.mul(x, y))
    ad.defbilinear(p, lambda ct, x, y: lax.mul(ct, y), lambda ct, x, y: lax.mul(x, ct))

    def f(x, y):
        return lax.reduce_sum(p.bind(x, y), (0,))

    np.testing.assert_allclose(mjax.grad(f, argnums=(0, 1))(X, Y), (Y, X))
    np.testing.assert_allclose(mjax.jvp(p.bind, (X, Y), (Y, X))[1], Y * Y + X * X, rtol=1e-6)


def test_linearization_rule():
    p = make("square", lambda x: lax.mul(x, x))
    ad.defjvp(p, lambda t, x: lax.mul(t, lax.mul(2.0, x)))

    def linearize(nonzeros, x):
        assert nonzeros == [True]

        def linear(residuals, tangent):
            return lax.mul(tangent, residuals[0])

        return p.bind(x), True, [lax.mul(2.0, x)], linear

    ad.primitive_linearizations[p] = linearize
    np.testing.assert_allclose(mjax.grad(lambda x: lax.reduce_sum(p.bind(x), (0,)))(X), 2 * X)
    np.testing.assert_allclose(mjax.jit(mjax.vmap(mjax.grad(lambda x: lax.mul(x, 3.0))))(X),
                               0 * X + 3)


# ---- symbolic zeros ----------------------------------------------------------------------


def test_symbolic_zeros():
    zero = ad.Zero(mjax.typeof(X))
    assert isinstance(ad.Zero.from_primal_value(X), ad.Zero)
    np.testing.assert_array_equal(ad.instantiate_zeros(zero), 0 * X)
    np.testing.assert_array_equal(zero.instantiate(), 0 * X)
    assert ad.instantiate_zeros(X) is X
    assert ad.add_tangents(zero, X) is X and ad.add_tangents(X, zero) is X
    np.testing.assert_array_equal(ad.add_tangents(X, Y), X + Y)
    np.testing.assert_array_equal(ad.add_jaxvals(X, Y), X + Y)
    np.testing.assert_array_equal(ad.zeros_like_aval(mjax.typeof(X)), 0 * X)
    assert not ad.is_undefined_primal(X) and ad.is_undefined_primal(
        ad.UndefinedPrimal(mjax.typeof(X)))


def test_jvp_rule_sees_a_zero_for_what_is_constant():
    p, seen = make("keep", lambda x, y: lax.add(x, y)), []

    def jvp(primals, tangents):
        seen.append([type(t) is ad.Zero for t in tangents])
        return p.bind(*primals), ad.add_tangents(*tangents)

    ad.primitive_jvps[p] = jvp
    mjax.jvp(lambda x: p.bind(x, Y), (X,), (X,))
    mjax.jvp(mjax.jit(lambda x: p.bind(x, Y)), (X,), (X,))
    mjax.jvp(lambda x: p.bind(lax.floor(x), x), (X,), (X,))
    assert seen == [[False, True], [False, True], [True, False]]


def test_a_rule_may_differentiate_a_function_at_its_primals():
    f = lambda x, y: lax.sin(x) * y
    p, seen = make("sine by", f), []

    def jvp(primals, tangents):
        seen.append((type(primals), type(tangents)))
        return mjax.jvp(f, primals, tuple(map(ad.instantiate_zeros, tangents)))

    ad.primitive_jvps[p] = jvp
    np.testing.assert_allclose(mjax.jvp(lambda x: p.bind(x, Y), (X,), (X,))[1], np.cos(X) * X * Y,
                               rtol=1e-6)
    np.testing.assert_allclose(mjax.grad(lambda x: p.bind(x, Y).sum())(X), np.cos(X) * Y, rtol=1e-6)
    assert seen == [(tuple, tuple)] * 2


def test_a_rule_of_one_equation_for_results_and_tangents():
    cube_p = core.Primitive("cube")
    pushed_p = core.Primitive("pushed_cube", multiple_results=True)
    for p, f in ((cube_p, lambda x: x * x * x),
                 (pushed_p, lambda x, dx: [x * x * x, 3.0 * x * x * dx])):
        p.def_impl(f)
        p.def_abstract_eval(lambda x, *dx: [x, *dx] if dx else x)
        mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=p is pushed_p))
    ad.primitive_jvps[cube_p] = lambda xs, dxs: tuple(pushed_p.bind(*xs, *dxs))
    batching.primitive_batchers[pushed_p] = lambda args, dims: (
        [args[0] * args[0] * args[0], 3.0 * args[0] * args[0] * args[1]], [dims[0], dims[1]])
    x = np.float32(2)
    np.testing.assert_allclose(mjax.jvp(cube_p.bind, (x,), (x,))[1], 24)
    for f in (cube_p.bind, mjax.jit(cube_p.bind), lambda x: cube_p.bind(0.0 + x)):
        for derivative in (mjax.jacfwd(f), mjax.jit(mjax.jacfwd(f))):
            np.testing.assert_allclose(derivative(x), 12)
        out, push = mjax.linearize(f, x)
        np.testing.assert_allclose([out, push(x)], [8, 24])
        with pytest.raises(MissingRuleError, match="'pushed_cube' has no transpose rule"):
            mjax.grad(f)(x)


def test_integer_operands_have_zero_tangents():
    p = core.Primitive("repeat")
    p.def_abstract_eval(lambda x, n: core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(
        lambda x, n: lax.mul(x, lax.convert_element_type(n, x.dtype)), multiple_results=False))
    ad.defjvp(p, lambda t, x, n: p.bind(t, n), None)
    ad.primitive_transposes[p] = lambda ct, x, n: [p.bind(ct, n), None]
    assert float(mjax.grad(lambda x: p.bind(x, np.int32(3)))(2.0)) == 3


# ---- transformations of jaxprs -----------------------------------------------------------


def test_transformations_of_jaxprs():
    jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(X, Y)
    jvp, nonzero = ad.jvp_jaxpr(jaxpr, [True, False], False)
    assert nonzero == [True]
    np.testing.assert_allclose(core.jaxpr_as_fun(jvp)(X, Y, X)[1], X * Y)
    transposed, _ = ad.transpose_jaxpr(jaxpr, [True, False], [True])
    np.testing.assert_allclose(core.jaxpr_as_fun(transposed)(Y, X)[0], X * Y)
    undefined = ad.UndefinedPrimal(mjax.typeof(X))
    for stack in (False, True):
        ct, zero = ad.backward_pass(jaxpr, stack, jaxpr.consts, [undefined, Y], [X])
        np.testing.assert_allclose(ct, X * Y)
        assert type(zero) is ad.Zero
    assert type(ad.closed_backward_pass(jaxpr, False, [undefined, Y], [
        ad.Zero(mjax.typeof(X))])[0]) is ad.Zero
    with pytest.raises(TypeError, match="transform_stack must be a bool, got a list"):
        ad.backward_pass(jaxpr, jaxpr.consts, [undefined, Y], [X], [])
    with pytest.raises(ValueError, match="primals_in has 1 entry for 2"):
        ad.backward_pass(jaxpr, False, [], [undefined], [X])


def test_alternating_binders():
    jaxpr = mjax.make_jaxpr(lambda a, b, c, da, db, dc: [a, b, da, db])(*range(6))
    moved = ad.rearrange_binders(jaxpr, [1, 2], [2, 1], [1, 1], [0, 2])
    args = dict(zip(["a", "b", "c", "da", "db", "dc"], range(6), strict=True))
    given = [args[n] for n in ("a", "da", "db", "b", "c", "dc")]
    assert list(map(int, core.jaxpr_as_fun(moved)(*given))) == [0, 1, 3, 4]
    assert moved.debug_info.arg_names == ("a", "da", "db", "b", "c", "dc")
    with pytest.raises(ValueError, match=r"primals and \[1\] tangents for 6 inputs"):
        ad.rearrange_binders(jaxpr, [1, 2], [1], [2], [2])


def test_transposed_calls():
    call_p = core.CallPrimitive("region")
    body = mjax.make_jaxpr(lambda x, y: [lax.mul(x, y), lax.neg(x)])(X, Y)
    zero, undefined = ad.Zero(mjax.typeof(X)), ad.UndefinedPrimal(mjax.typeof(X))

    def transpose(cts, ct_params=None):
        return ad.call_transpose(call_p, {"name": "region"}, body, [undefined, Y], cts, None)

    np.testing.assert_allclose(transpose([X, zero])[0], X * Y)
    np.testing.assert_allclose(transpose([X, Y])[0], X * Y - Y)
    assert transpose([X, Y])[1] is None and type(transpose([zero, zero])[0]) is ad.Zero
    seen = []

    def update(params, linear, nonzero):
        seen.append((linear, nonzero))
        return {**params, "name": "transposed"}

    ad.call_transpose_param_updaters[call_p] = update
    try:
        (eqn,) = mjax.make_jaxpr(lambda ct: transpose([ct, zero])[0])(X).eqns
    finally:
        del ad.call_transpose_param_updaters[call_p]
    assert seen == [([True, False], [True, False])] and eqn.params["name"] == "transposed"
    # As the rule of a primitive of one's own:
    ad.primitive_transposes[call_p] = lambda cts, *args, call_jaxpr, **params: ad.call_transpose(
        call_p, params, call_jaxpr, args, cts)
    np.testing.assert_allclose(
        mjax.grad(lambda x: lax.reduce_sum(call_p.bind(x, Y, call_jaxpr=body)[0], (0,)))(X), Y)


# ---- derivatives of functions ------------------------------------------------------------


def rational(x, y):
    return {"q": lax.div(x, y), "rest": [lax.floor(x), 2]}


def test_jvp_with_symbolic_zeros():
    zero = ad.Zero(mjax.typeof(Y))
    out, tangents = ad.jvp(rational, [X, Y], [X, zero], instantiate=False)
    np.testing.assert_allclose(out["q"], X / Y)
    np.testing.assert_allclose(tangents["q"], X / Y)
    assert all(type(t) is ad.Zero for t in tangents["rest"])
    _, tangents = ad.jvp(rational, [X, Y], [X, zero])
    np.testing.assert_array_equal(tangents["rest"][0], 0 * X)
    out, tangent, aux = ad.jvp(lambda x: (lax.sin(x), {"kept": x}), [X], [Y], has_aux=True)
    np.testing.assert_allclose(tangent, np.cos(X) * Y, rtol=1e-6)
    np.testing.assert_array_equal(aux["kept"], X)
    with pytest.raises(TypeError, match=r"tangent 0 has type float32\[2\], but its primal has"):
        ad.jvp(lax.sin, [X], [X[:2]])
    with pytest.raises(TypeError, match="primals have the structure"):
        ad.jvp(lax.sin, [X], [[X]])
    integers = ad.jvp(lambda n: n, [np.int32(3)], [np.zeros((), mjax.float0)], instantiate=False)
    assert type(integers[1]) is ad.Zero


def pair(x, y):
    return [lax.mul(x, y), lax.floor(x)]


@pytest.mark.parametrize("wrap", [lambda f: f, lu.wrap_init])
def test_transformations_of_wrapped_functions(wrap):
    zero = ad.Zero(mjax.typeof(Y))
    for pushed in (ad.jvp(wrap(pair), instantiate=[False, True]),
                   ad.jvpfun(wrap(pair), (False, True), True)):
        outs, tangents = pushed.call_wrapped([X, Y], [Y, zero])
        np.testing.assert_allclose(outs[0], X * Y)
        np.testing.assert_allclose(tangents[0], Y * Y)
        np.testing.assert_array_equal(tangents[1], 0 * X)
    pushed, aux = ad.jvp(wrap(lambda x, y: (pair(x, y), [x])), has_aux=True, instantiate=False)
    _, tangents = pushed.call_wrapped([X, Y], [Y, zero])
    assert type(tangents[1]) is ad.Zero and aux()[0] is X
    tag = core.TraceTag()
    _, tangents = ad.jvp_subtrace(wrap(pair), tag).call_wrapped([X, Y], [zero, X])
    np.testing.assert_allclose(tangents[0], X * X)
    pushed, aux = ad.jvp_subtrace_aux(wrap(lambda x, y: (pair(x, y), [y])), tag)
    _, tangents = pushed.call_wrapped([X, Y], [X, X])
    np.testing.assert_allclose(tangents[0], X * Y + X * X)
    assert aux()[0] is Y


def test_functions_of_primals_and_tangents_as_functions_of_arrays():
    pushed = ad.jvpfun(pair, False)
    flat, nonzero = ad.f_jvp_traceable(pushed, (False, True))
    jaxpr, avals, _ = partial_eval.trace_to_jaxpr_dynamic(flat, [mjax.typeof(X)] * 3)
    assert nonzero() == [True, False] and len(avals) == 3
    np.testing.assert_allclose(core.eval_jaxpr(jaxpr, [], X, Y, Y)[2], X * Y)
    tree = mjax.tree_util.tree_structure(([X, Y], [X, None]))
    flat, out_tree = ad.traceable(ad.jvpfun(pair, False), tree)
    outs = flat.call_wrapped(X, Y, X)
    np.testing.assert_allclose(outs[2], X * Y)
    assert len(outs) == 3 and str(out_tree()) == "PyTreeDef(([*, *], [*, None]))"
    same, which = ad.nonzero_outputs(lambda x: [ad.Zero(mjax.typeof(x)), x])
    assert same.call_wrapped(X)[1] is X and which() == [False, True]
    same, which = ad.nonzero_tangent_outputs(ad.jvpfun(pair, False))
    same.call_wrapped([X, Y], [X, Y])
    assert which() == [True, False]


def test_linearize_gives_a_program():
    def f(x, n):
        return {"a": lax.mul(lax.sin(x), lax.convert_element_type(n, np.float32)), "b": n}

    out, zeros, jaxpr, consts = ad.linearize(f, [X, np.int32(3)])
    np.testing.assert_allclose(out["a"], 3 * np.sin(X), rtol=1e-6)
    assert zeros == [False, True] and len(jaxpr.invars) == 2
    (tangent,) = core.eval_jaxpr(jaxpr, consts, Y, np.zeros((), mjax.float0))
    np.testing.assert_allclose(tangent, 3 * np.cos(X) * Y, rtol=1e-6)
    *_, aux = ad.linearize(lambda x: (x, "aux"), [X], has_aux=True)
    assert aux == "aux"
    with pytest.raises(TypeError, match="primals must be a list of the function's arguments"):
        ad.linearize(f, X, np.int32(3))


def test_vjp_of_flat_values():
    outs, pull = ad.vjp(pair, [X, Y])
    np.testing.assert_allclose(outs[0], X * Y)
    ct_x, ct_y = mjax.jit(lambda p, ct: p(ct, ct))(pull, X)  # it is a pytree
    np.testing.assert_allclose(ct_x, X * Y)
    np.testing.assert_allclose(ct_y, X * X)
    _, pull, aux = ad.vjp(lu.wrap_init(lambda x, y: (pair(x, y), [x])), [X, Y], has_aux=True)
    np.testing.assert_array_equal(aux[0], X)
    np.testing.assert_allclose(pull(Y, Y)[1], X * Y)


# ---- rules as functions ------------------------------------------------------------------


def test_rules_for_partial():
    p = make("product", lambda x, y: lax.mul(x, y))
    rules = [lambda t, x, y: p.bind(t, y), None]
    ad.primitive_jvps[p] = functools.partial(ad.standard_jvp, rules, p)
    np.testing.assert_allclose(mjax.jvp(p.bind, (X, Y), (X, X))[1], X * Y)
    ad.primitive_jvps[p] = functools.partial(ad.standard_jvp2, [None, None], p)
    np.testing.assert_array_equal(mjax.jvp(p.bind, (X, Y), (X, X))[1], 0 * X)
    with pytest.raises(TypeError, match=r"'product'.* of 1 function for 2 operands"):
        ad.standard_jvp(rules[:1], p, [X, Y], [X, Y])
    ad.primitive_jvps[p] = functools.partial(ad.standard_jvp, [
        lambda t, x, y: p.bind(t, y), lambda t, x, y: p.bind(x, t)], p)
    ad.primitive_transposes[p] = functools.partial(
        ad.bilinear_transpose, lambda ct, x, y: p.bind(ct, y), lambda ct, x, y: p.bind(x, ct))
    for got, want in zip(mjax.grad(lambda x, y: lax.reduce_sum(p.bind(x, y), (0,)), (0, 1))(X, Y),
                         (Y, X), strict=True):
        np.testing.assert_allclose(got, want)
    zero, undefined = ad.Zero(mjax.typeof(X)), ad.UndefinedPrimal(mjax.typeof(X))
    assert type(ad.bilinear_transpose(None, None, zero, X, undefined)[1]) is ad.Zero
    assert type(ad.linear_transpose(None, zero, undefined)[0]) is ad.Zero
    assert ad.zero_jvp(lax.top_k_p, [X], [X], k=2, axis=0)[1][1].aval.dtype == mjax.float0
    np.testing.assert_array_equal(ad.zeros_like_jaxval(X), 0 * X)
    assert ad.instantiate_zeros(ad.replace_rule_output_symbolic_zeros(
        ad.replace_internal_symbolic_zeros(zero))).shape == X.shape
