"""custom_vjp: rules under every transformation, what they are given, what is refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.custom.custom_lin import custom_lin_p
from mjax._engine.control.custom.custom_vjp import custom_vjp_call_p
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr
from mjax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from mjax.dtypes import float0
from mjax.errors import UnexpectedTracerError
from tests.engine.control.custom_programs import (
    DX,
    DY,
    FORWARD,
    INSIDE,
    REVERSE,
    VJP,
    XS,
    X,
    Y,
    assert_same,
    product,
    same,
    simple_vjp,
    total,
    with_rules,
)
from tests.engine.reading import names
from tests.marks import some

QUICK = ["eval", "jit", "vjp", "vmap", "vmap of grad", "grad of vmap", "jit of vjp", "vjp of jit",
         "jit of grad of vmap", "grad of scan", "grad of remat"]


@pytest.mark.parametrize("name", QUICK)
def test_simple(name):
    pair = simple_vjp()
    assert_same(REVERSE[name](pair.custom), REVERSE[name](pair.plain))


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERSE)
@pytest.mark.parametrize("make", VJP)
def test_every_composition(make, name):
    pair = VJP[make]()
    assert_same(REVERSE[name](pair.custom), REVERSE[name](pair.plain))


@pytest.mark.parametrize("name", sorted(set(FORWARD) - {"transpose of linearize"}))
def test_forward_mode_is_refused(name):
    with pytest.raises(TypeError, match=r"forward-mode differentiation \(jvp, jacfwd, linear"
                       r"ize\) reached the custom_vjp function product at .*programs.py:(?s:.)*"
                       r"mjax.custom_jvp, from which both modes follow.\nIt was applied at\n  .*"):
        FORWARD[name](simple_vjp().custom)


def test_forward_mode_that_asks_for_no_tangent_of_it():
    pair = simple_vjp()
    name = "transpose of linearize"
    assert_same(FORWARD[name](pair.custom), FORWARD[name](pair.plain))
    # The gradient's tangent is that of the bwd rule; the function's is not needed.
    f = mjax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (3 * jnp.cos(x) * ct,))
    np.testing.assert_allclose(mjax.hessian(f)(1.0), -3 * np.sin(1), 1e-6)


# ---- values ----------------------------------------------------------------------------


@pytest.mark.parametrize("around", [same, mjax.jit])
def test_against_finite_differences(around):
    f = mjax.custom_vjp(lambda x: jnp.log(jnp.cosh(x)))
    f.defvjp(lambda x: (f(x), jnp.tanh(x)), lambda t, ct: (t * ct,))
    with mjax.enable_x64(True):
        x, h = np.linspace(-3, 3, 7), 1e-5
        slope = (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(around(f)))(x), slope, 1e-8)
        np.testing.assert_allclose(mjax.vjp(around(f), x)[1](np.ones(7))[0], slope, 1e-8)
        second = mjax.vmap(mjax.grad(mjax.grad(around(f))))(x)
        np.testing.assert_allclose(second, 1 / np.cosh(x) ** 2, 1e-10)


def test_a_rule_that_calls_the_function_applies_at_every_order():
    f = mjax.custom_vjp(lambda x: jnp.exp(x))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (2 * f(x) * ct,))
    for value in (f, mjax.jit(f), mjax.checkpoint(f)):
        for order in range(4):
            np.testing.assert_allclose(value(0.5), 2**order * np.exp(0.5), 1e-5)
            value = mjax.grad(value)


def test_python_control_flow_on_values():
    f = mjax.custom_vjp(lambda x: x * 2 if x > 0 else x)
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (7 * ct if x > 0 else 9 * ct,))
    assert f(2.0) == 4 and f(-2.0) == -2
    assert mjax.grad(f)(2.0) == 7 and mjax.grad(f)(-2.0) == 9
    found = mjax.grad(lambda x: mjax.vmap(lambda z: f(x) * z)(X).sum())(-2.0)
    np.testing.assert_allclose(found, 9 * X.sum(), 1e-6)


def test_bools_of_python_among_the_residuals_stay_bools():
    seen = []

    def bwd(residuals, g):
        up, (down, x) = residuals
        seen.append((up, down))
        return ((3.0 if up else -3.0) * g * jnp.ones_like(x),)

    for up in (True, False):
        f = mjax.custom_vjp(lambda x: 3.0 * x)
        f.defvjp(lambda x, up=up: (3.0 * x, (up, (not up, x))), bwd)
        for g in (mjax.grad(f), mjax.jit(mjax.grad(f)), mjax.grad(mjax.jit(f)),
                  lambda x, f=f: mjax.vmap(mjax.grad(f))(jnp.stack([x, x]))[1]):
            assert g(np.float32(2.0)) == (3.0 if up else -3.0)
            assert seen[-1][0] is up and seen[-1][1] is not up


def test_residuals_may_be_any_tree():
    seen = []

    def bwd(r, ct):
        seen.append(r["numbers"])
        return (r["f"](ct) * r["numbers"][0] * r["numbers"][1],)

    f = with_rules(lambda x: (x * 2, {"f": mjax.tree_util.Partial(jnp.multiply, x), "none": None,
                                      "numbers": (3, 2.5)}), bwd)
    for g in (f, mjax.jit(f)):
        np.testing.assert_allclose(mjax.grad(g)(2.0), 15.0)
    assert all(n.dtype == d for numbers in seen for n, d in
               zip(numbers, (np.int32, np.float32), strict=True))


@pytest.mark.parametrize("around", [same, mjax.jit])
def test_cotangents_of_integers(around):
    def bwd(n, ct):
        assert ct[1].dtype == float0 and ct[1].shape == (3,)
        # An integer does not have a cotangent, whatever the rule returns.
        return 5 * ct[0], {"none": None, "zero": np.zeros(3, float0), "number": 7, "float": 7.5}

    f = with_rules(lambda x, n: (f(x, n), n["none"]), bwd, lambda x, n: (x * n["none"], n["zero"]))
    n = dict.fromkeys(("none", "zero", "number", "float"), np.arange(3))
    (_, m), pull = mjax.vjp(around(f), X, n)
    np.testing.assert_array_equal(m, np.arange(3))
    x_ct, n_ct = pull((DX, np.zeros(3, float0)))
    np.testing.assert_allclose(x_ct, 5 * DX, 1e-6)
    assert {ct.dtype for ct in n_ct.values()} == {float0}


def test_none_stands_for_zeros():
    tree = {"a": X, "b": (Y, np.float32(1)), "none": None}
    cts = [({"a": X, "b": None, "none": None},), ({"a": X, "b": (None, None), "none": X},), (None,)]
    for ct in cts:
        f = with_rules(lambda d: (d["a"].sum(), None), lambda _, c, ct=ct: ct,
                       lambda d: d["a"].sum())
        found = mjax.grad(f)(tree)
        np.testing.assert_array_equal(found["a"], X if ct != (None,) else np.zeros(3))
        np.testing.assert_array_equal(found["b"][0], np.zeros(3))
        assert found["b"][1] == 0 and found["none"] is None


def test_a_list_of_cotangents():
    f = with_rules(lambda x: (x, None), lambda _, ct: [3 * ct])
    assert mjax.grad(f)(1.0) == 3


def test_what_elements_of_a_batch_share():
    """Each element has cotangents of its own; those of what they share are summed."""
    f = mjax.custom_vjp(lambda x, y: (x * y, y * 2, 1.0))
    f.defvjp(lambda x, y: (f(x, y), (x, y)),
             lambda r, ct: (ct[0] * r[1], ct[0] * r[0] + 2 * ct[1] + 7.0))
    for around in (same, mjax.jit):
        def loss(y, around=around):
            a, b, c = around(mjax.vmap(f, (0, None)))(X, y)
            return a.sum() + b.sum() + c.sum()
        np.testing.assert_allclose(mjax.grad(loss)(2.0), X.sum() + 2 * 3 + 7 * 3, 1e-5)


# ---- arguments -------------------------------------------------------------------------


def test_defaults_and_names_are_resolved_to_positions():
    given = []
    f = mjax.custom_vjp(lambda x, y=3.0: x * y)

    def fwd(*args):
        given.append(len(args))
        return f(*args), None

    f.defvjp(fwd, lambda _, ct: (5 * ct, 6 * ct))
    assert mjax.grad(f)(2.0) == 5
    assert mjax.grad(lambda y: f(y=y, x=2.0))(4.0) == 6 and given == [2, 2]
    with pytest.raises(TypeError, match="custom_vjp of <lambda>: too many positional arguments"):
        f(1.0, 2.0, 3.0)
    g = with_rules(lambda x: (x, None), lambda r, ct: (ct,), lambda x, *, y: x)
    with pytest.raises(TypeError, match="custom_vjp of <lambda>: the keyword arguments y have no"):
        g(1.0, y=2.0)


def test_nondiff_arguments():
    orders = []

    def bwd(a, c, r, ct):
        orders.append((a is jnp.sin, c))
        return 3 * ct, None

    f = with_rules(lambda a, x, y, c: (f(a, x, y, c), x), bwd, lambda a, x, y, c: a(x) * y + c,
                   nondiff_argnums=(0,), nondiff_argnames="c")
    for g in (lambda x: f(jnp.sin, x, 2.0, 5), mjax.jit(lambda x: f(jnp.sin, x, 2.0, c=5))):
        assert mjax.grad(g)(1.0) == 3
    assert orders == [(True, 5)] * 2


@pytest.mark.parametrize("transformed", [
    lambda f: mjax.jit(f)(2.0, 1.0), lambda f: mjax.grad(f)(2.0, 1.0),
    lambda f: mjax.vmap(f, (0, None))(X, 1.0)])
def test_nondiff_arguments_that_are_traced(transformed):
    f = with_rules(lambda w, x: (w[0] * x, None), lambda w, r, ct: (ct,), lambda w, x: w[0] * x,
                   nondiff_argnums=(0,))
    with pytest.raises(UnexpectedTracerError, match="argument 0 of the custom_vjp function "
                       "<lambda> at .* is one of its nondiff arguments, but is or holds a traced "
                       r"value of type ~?float32\[\]. They are for what can never be traced"):
        transformed(lambda w, x: f([w], x))
    assert f([2.0], 3.0) == 6  # arrays are not tracers
    assert mjax.grad(f, 1)([X[0]], 3.0) == 1


def test_symbolic_zeros():
    seen = []

    def fwd(x, y, n):
        assert all(type(a) is CustomVJPPrimal for a in (x, y, n))
        seen.append((x.perturbed, y.perturbed, n.perturbed))
        return (x.value * 2, y.value * n.value), None

    def bwd(_, cts):
        seen.append(tuple(type(ct) is SymbolicZero for ct in cts))
        a, b = cts
        return (SymbolicZero.from_primal_value(X) if type(a) is SymbolicZero else 3 * a,
                None if type(b) is SymbolicZero else 4 * b, None)

    f = with_rules(fwd, bwd, lambda x, y, n: (x * 2, y * n), symbolic_zeros=True)
    for around in (same, mjax.jit):
        _, pull = mjax.vjp(around(lambda x: f(x, Y, 3)[0]), X)
        np.testing.assert_allclose(pull(DX)[0], 3 * DX, 1e-6)
        _, pull = mjax.vjp(around(lambda x, y: f(x, y, 3)[1]), X, Y)
        np.testing.assert_allclose(pull(DX)[1], 4 * DX, 1e-6)
    assert seen == 2 * [(True, False, False), (False, True), (True, True, False), (True, False)]
    assert mjax.vjp(lambda x: f(x, Y, 3)[1], X)[1](DX)[0].max() == 0
    found = mjax.grad(lambda x: total(mjax.vmap(f, (0, None, None))(x, Y, 3)[0]))(XS)
    np.testing.assert_allclose(found, 2 * 2 * XS * 3, 1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "complex64"])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_a_weak_cotangent_takes_the_dtype_of_its_argument(dtype, shape):
    f = mjax.custom_vjp(lambda x, s: x * s)
    half = jnp.full(shape, 0.5)  # weak, as the number is
    f.defvjp(lambda x, s: (x * s, s), lambda s, ct: (ct * s, half if shape else 0.5))
    args = jnp.ones(shape, dtype), jnp.full(shape, 2, dtype)
    for how in (lambda f: f, mjax.jit):
        _, pull = mjax.vjp(how(f), *args)
        found = pull(jnp.ones(shape, dtype))
        assert [ct.dtype for ct in found] == [dtype] * 2
        np.testing.assert_array_equal(np.asarray(found[1], np.complex64), np.full(shape, 0.5))


# ---- tracing ---------------------------------------------------------------------------


def test_function_and_rules_are_traced_once_per_types():
    counts = {"function": 0, "fwd": 0, "bwd": 0}

    @mjax.custom_vjp
    def f(x):
        counts["function"] += 1
        return jnp.sin(x)

    def fwd(x):
        counts["fwd"] += 1
        return jnp.sin(x), x

    def bwd(x, ct):
        counts["bwd"] += 1
        return (2 * jnp.cos(x) * ct,)

    f.defvjp(fwd, bwd)

    def chain(x):
        for _ in range(5):
            x = f(x)
        return x.sum()

    jitted = mjax.jit(chain)
    jitted(X)
    assert counts == {"function": 1, "fwd": 0, "bwd": 0}
    mjax.grad(jitted)(X)
    mjax.jit(mjax.grad(chain))(X)
    mjax.grad(mjax.jit(lambda x: mjax.vmap(chain)(x).sum()))(XS)
    mjax.grad(mjax.jit(mjax.checkpoint(chain)))(X)
    mjax.jit(mjax.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 3)[0].sum()))(X)
    mjax.jacrev(mjax.grad(jitted))(X)
    assert counts == {"function": 1, "fwd": 1, "bwd": 1}
    mjax.grad(jitted)(XS)
    assert counts == {"function": 2, "fwd": 2, "bwd": 2}


def test_nothing_is_kept_alive(small_heap):
    def use():
        f = mjax.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (f(x), x), lambda x, ct: (x * ct,))
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


def closing():
    def outer(w, x):
        f = mjax.custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, w), lambda w, ct: (7 * w * ct,))
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
    jaxpr = mjax.make_jaxpr(outer)(2.0, 3.0)
    assert jaxpr.eqns[0].params["num_consts"] == 1 and len(jaxpr.eqns[0].invars) == 2


@pytest.mark.parametrize("transformed", [
    lambda f: mjax.grad(f)(2.0, 3.0),
    lambda f: mjax.grad(f, (0, 1))(2.0, 3.0),
    lambda f: mjax.grad(mjax.jit(f))(2.0, 3.0),
    lambda f: mjax.grad(lambda w: mjax.vmap(f)(w, X).sum())(X),
    lambda f: mjax.grad(mjax.checkpoint(f))(2.0, 3.0),
])
def test_closing_over_values_that_are_differentiated(transformed):
    with pytest.raises(UnexpectedTracerError, match="custom_vjp function <lambda> .*that is being "
                       "differentiated.*(?s:.)*pass the value as an argument"):
        transformed(closing())


@pytest.mark.parametrize("inside", INSIDE)
@pytest.mark.parametrize("who", some(["bwd", "function", "fwd"], 3))
def test_rules_that_run_elsewhere(inside, who):
    """Closed-over values are operands, whether or not their trace has ended."""
    def loss(w, x):
        f = mjax.custom_vjp(lambda x: x * (w if who == "function" else 2.0))
        f.defvjp(lambda x: (f(x), w if who == "fwd" else x),
                 lambda r, ct: ((7 * r if who == "fwd" else 7 * w) * ct,))
        return INSIDE[inside](f)(x)

    assert mjax.jit(mjax.grad(loss, 1))(2.0, 3.0) == 14
    assert mjax.grad(mjax.jit(loss), 1)(2.0, 3.0) == 14
    np.testing.assert_allclose(mjax.vmap(mjax.grad(loss, 1), (0, None))(X, 3.0), 7 * X, 1e-6)
    for around in (mjax.jit, mjax.checkpoint):
        found = mjax.grad(around(lambda x: mjax.vmap(loss)(X, x).sum()))(Y * Y)
        np.testing.assert_allclose(found, 7 * X, 1e-6)


def test_rules_whose_closure_cannot_be_looked_into():
    class Holder:
        pass

    def loss(w, x):
        holder = Holder()
        holder.w = w
        f = mjax.custom_vjp(lambda x: x * 2)
        f.defvjp(lambda x: (f(x), holder.w), lambda w, ct: (w * ct,))
        return mjax.jit(lambda x: f(x))(x)

    with pytest.raises(UnexpectedTracerError, match="had ended(?s:.)*used by the fwd rule of "
                       "custom_vjp function <lambda>.*pass what a rule needs to the function, as"):
        mjax.grad(mjax.jit(loss), 1)(2.0, 3.0)


# ---- named axes ------------------------------------------------------------------------


def test_rules_may_name_axes():
    """A copy to all devices: its pullback sums over them."""
    f = mjax.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "i"),))

    def loss(x):
        return (mjax.vmap(f, axis_name="i")(x) * DX).sum()

    def shared(y):
        return (mjax.vmap(lambda x: x * f(y), axis_name="i")(X) * DX).sum()

    for around in (same, mjax.jit):
        np.testing.assert_allclose(mjax.grad(around(loss))(X), np.full(3, DX.sum()), 1e-5)
        # One application for all elements, whose cotangent is summed over the axis.
        np.testing.assert_allclose(mjax.grad(around(shared))(1.0), 3 * (X * DX).sum(), 1e-5)


# ---- the primitives --------------------------------------------------------------------


def test_they_have_all_rules():
    rules = custom_vjp_call_p.rules()
    assert not [name for name, where in rules.items() if where == "missing"]
    assert rules["dce"] != "default: dropped if unused and without effects"
    assert not [name for name, where in custom_lin_p.rules().items() if where == "missing"]


def program():
    f = mjax.custom_vjp(lambda x, y: (x * y, jnp.sin(y)))
    f.defvjp(lambda x, y: (f(x, y), (x, y)),
             lambda r, ct: (2 * ct[0] * r[1], 2 * (ct[0] * r[0] + ct[1] * jnp.cos(r[1]))))
    return mjax.make_jaxpr(lambda x, y: f(x, jnp.exp(y)))(X, Y)


def pulled(jaxpr, cts, *args):
    return mjax.vjp(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a), *args)[1](list(cts))


def test_dead_code_elimination_keeps_the_rules():
    jaxpr = program()
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    check_jaxpr(smaller)
    call = smaller.eqns[-1]
    assert call.primitive is custom_vjp_call_p and len(call.outvars) == 1
    assert "mul" not in names(smaller) and used == [True, True]
    expected = pulled(jaxpr, (0 * X, DY), X, Y)
    for a, e in zip(pulled(smaller, (DY,), X, Y), expected, strict=True):
        np.testing.assert_allclose(a, e, 1e-6)
    nothing, used = dce_jaxpr(jaxpr, [False, False])
    assert not nothing.eqns and used == [False, False]


def test_partial_evaluation_and_recomputation_keep_the_rules():
    jaxpr = program()
    parts = partial_eval_jaxpr(jaxpr, [True, False])
    assert names(parts.known) == ["exp"] and "custom_vjp_call" in names(parts.unknown)
    parts = recompute_jaxpr(jaxpr, [True] * 2, [True] * 2, lambda *_, **__: False)
    assert "custom_vjp_call" in names(parts.unknown)
    expected = pulled(jaxpr, (DX, DY), X, Y)
    for a, e in zip(pulled(parts.unknown, (DX, DY), X, Y), expected, strict=True):
        np.testing.assert_allclose(a, e, 1e-6)


def test_batching_keeps_the_rules():
    jaxpr = program()
    batched, dims = batch_jaxpr(jaxpr, AxisData(None, 4), [0, None])
    check_jaxpr(batched)
    assert dims == [0, 0]
    x_ct, y_ct = mjax.vjp(lambda x, y: eval_jaxpr(batched, batched.consts, x, y)[0], XS, Y)[1](XS)
    np.testing.assert_allclose(x_ct, 2 * XS * np.exp(Y), 1e-5)
    np.testing.assert_allclose(y_ct, (2 * XS * XS).sum(0) * np.exp(Y), 1e-4)


def test_linear_programs_can_be_transformed():
    parts = linearize_jaxpr(program(), [True, False])
    lin = [e for e in parts.unknown.eqns if e.primitive is custom_lin_p]
    assert len(lin) == 1 and lin[0].params["in_zeros"] == (False, True)
    check_jaxpr(parts.unknown)
    n = len(parts.residual_forwarding)
    dims = [None] * n + [0]
    batched, out_dims = batch_jaxpr(parts.unknown, AxisData(None, 4), dims)
    check_jaxpr(batched)
    assert out_dims == [0, 0]
    transposed, _ = transpose_jaxpr(batched, [False] * n + [True], [True, True])
    outs = eval_jaxpr(parts.known, parts.known.consts, X, Y)
    residuals = parts.residuals([X, Y], outs)
    found, = eval_jaxpr(transposed, transposed.consts, *residuals, XS, 0 * XS)
    np.testing.assert_allclose(found, 2 * XS * np.exp(Y), 1e-5)
    assert "bwd=<lambda>" in str(parts.unknown)


@pytest.mark.parametrize("transformed", [
    lambda f, x: f(x), lambda f, x: mjax.jit(f)(x), lambda f, x: mjax.jvp(f, (x,), (x,)),
    lambda f, x: mjax.vmap(f)(np.stack([x, x]))])
def test_linear_programs_cannot_be_evaluated(transformed):
    for around in (same, mjax.jit):
        _, linear = mjax.linearize(around(simple_vjp().custom), X, Y)
        with pytest.raises(TypeError, match="forward-mode differentiation .* reached the "
                           "custom_vjp function product"):
            transformed(lambda x, linear=linear: linear(x, x), X)


def test_transposed_where_it_is_linear():
    # The residuals do not depend on the argument in which it is linear.
    f = with_rules(lambda a, x: (a * x, a), lambda a, ct: (None, 7 * a * ct), lambda a, x: a * x)
    np.testing.assert_allclose(mjax.linear_transpose(lambda x: f(X, x), Y)(DX)[0], 7 * X * DX, 1e-6)
    g = mjax.custom_jvp(lambda x: jnp.sin(x))
    g.defjvp(lambda p, t: (g(*p), f(2.0, t[0])))
    for h in (g, mjax.jit(g)):
        assert mjax.grad(h)(1.0) == 14
    k = with_rules(lambda x: (3 * x, x), lambda x, ct: (ct,), lambda x: 3 * x)
    with pytest.raises(NotImplementedError, match="the custom_vjp function <lambda> at .* cannot "
                       "be transposed as a linear function: its fwd rule gives residuals that"):
        mjax.linear_transpose(k, X)(X)


def test_an_equation_that_is_not_well_typed():
    jaxpr = program()
    jaxpr.eqns[-1] = jaxpr.eqns[-1].replace(invars=jaxpr.eqns[-1].invars[:1] * 3)
    with pytest.raises(JaxprTypeError, match="custom_vjp_call of a program that takes.* applied"):
        check_jaxpr(jaxpr)


def test_how_it_is_printed():
    f = mjax.custom_vjp(product)

    def fwd(x, y):
        return x, y

    f.defvjp(fwd, lambda r, ct: ct)
    text = str(mjax.make_jaxpr(f)(X, Y))
    for part in ("custom_vjp_call[", "name=product", "fwd=fwd", "bwd=<lambda>",
                 "symbolic_zeros=False"):
        assert part in text
