"""custom_vmap, sequential_vmap: rules, their derivatives, what is refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.custom.custom_vmap import custom_vmap_call_p
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax.custom_batching import custom_vmap, sequential_vmap
from tests.engine.control.custom_programs import DX, DY, XS, YS, X, Y, assert_same, total
from tests.engine.reading import names


def same(f):
    return f


def product(seen=None):
    """`x * sin(y)`, for a batch three times that, so that a rule that got lost is seen."""
    f = custom_vmap(lambda x, y: x * jnp.sin(y))

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        if seen is not None:
            seen.append((axis_size, in_batched, x.shape, y.shape))
        return 3 * x * jnp.sin(y), True

    return f


def once(x, y):
    return x * jnp.sin(y)


def thrice(x, y):
    return 3 * x * jnp.sin(y)


BATCHED = {
    "vmap": (lambda f: mjax.vmap(f)(XS, YS)),
    "vmap of the first": lambda f: mjax.vmap(f, (0, None))(XS, Y),
    "vmap of the second": lambda f: mjax.vmap(f, (None, 0))(X, YS),
    "other axes": lambda f: mjax.vmap(f, (1, None), 1)(XS.T, Y),
    "jit of vmap": lambda f: mjax.jit(mjax.vmap(f))(XS, YS),
    "vmap of jit": lambda f: mjax.vmap(mjax.jit(f))(XS, YS),
    "jvp of vmap": lambda f: mjax.jvp(mjax.vmap(f, (0, None)), (XS, Y), (YS, DY)),
    "vmap of jvp": lambda f: mjax.vmap(lambda x, t: mjax.jvp(f, (x, Y), (t, DY)))(XS, YS),
    "vmap of jvp, fixed tangent": lambda f: mjax.vmap(
        lambda x: mjax.jvp(f, (x, Y), (DX, DY)))(XS),
    "jvp of jit of vmap": lambda f: mjax.jvp(mjax.jit(mjax.vmap(f)), (XS, YS), (YS, XS)),
    "grad of vmap": lambda f: mjax.grad(lambda x, y: total(mjax.vmap(f)(x, y)), (0, 1))(XS, YS),
    "grad of vmap of the first": lambda f: mjax.grad(
        lambda x, y: total(mjax.vmap(f, (0, None))(x, y)), (0, 1))(XS, Y),
    "vmap of grad": lambda f: mjax.vmap(mjax.grad(lambda x, y: f(x, y).sum(), (0, 1)))(XS, YS),
    "vmap of grad of the second": lambda f: mjax.vmap(mjax.grad(
        lambda x, y: f(x, y).sum(), (0, 1)), (None, 0))(X, YS),
    "vmap of jit of grad of jit": lambda f: mjax.vmap(mjax.jit(mjax.grad(mjax.jit(
        lambda x, y: f(x, y).sum()))))(XS, YS),
    "vmap of reverse over reverse": lambda f: mjax.vmap(lambda x, y: mjax.vjp(
        mjax.grad(lambda x, y: f(x, y).sum(), (0, 1)), x, y)[1]((DX, DY)))(XS, YS),
    "vmap of jvp of grad": lambda f: mjax.vmap(lambda x, y: mjax.jvp(
        mjax.grad(lambda x, y: f(x, y).sum()), (x, y), (DX, DY)))(XS, YS),
    "remat": lambda f: mjax.vmap(mjax.grad(lambda x, y: mjax.checkpoint(f)(x, y).sum()))(XS, YS),
    "scan": lambda f: mjax.grad(lambda y: total(lax.scan(
        lambda c, x: (c, mjax.vmap(f, (0, None))(x, c)), y, jnp.stack([XS, YS]))[1]))(Y),
    "vmap of scan": lambda f: mjax.vmap(lambda x: lax.scan(
        lambda c, y: (c, f(c, y)), x, YS)[1])(XS),
    "cond": lambda f: mjax.vmap(lambda x, y: lax.cond(True, f, lambda x, y: x, x, y))(XS, YS),
    # Tangents and cotangents are mapped over: the rule is told that nothing is batched.
    "jacfwd": lambda f: mjax.jacfwd(f, (0, 1))(X, Y),
    "jacrev": lambda f: mjax.jit(mjax.jacrev(f, (0, 1)))(X, Y),
}
SINGLE = {
    "eval": lambda f: f(X, Y), "jit": lambda f: mjax.jit(f)(X, Y),
    "jvp": lambda f: mjax.jvp(f, (X, Y), (DX, DY)),
    "vjp": lambda f: mjax.vjp(f, X, Y)[1](DX),
    "vjp of jit": lambda f: mjax.jit(lambda x: mjax.vjp(mjax.jit(f), x, Y)[1](DX))(X),
    "third order": lambda f: mjax.jit(mjax.grad(mjax.grad(mjax.grad(lambda y: f(y, y)))))(1.0),
}


@pytest.mark.parametrize("name", BATCHED)
def test_the_rule_is_applied_to_batches(name):
    assert_same(BATCHED[name](product()), BATCHED[name](thrice))


@pytest.mark.parametrize("name", SINGLE)
def test_the_function_is_applied_to_others(name):
    assert_same(SINGLE[name](product()), SINGLE[name](once))


def test_what_the_rule_is_given():
    seen = []
    f = product(seen)
    mjax.vmap(f, (0, None))(XS, Y)
    mjax.vmap(f, (None, 1))(X, YS.T)
    mjax.vmap(mjax.vmap(f, (None, 0)), (0, None))(XS, YS)
    assert seen == [(4, [True, False], (4, 3), (3,)), (4, [False, True], (3,), (4, 3)),
                    (4, [False, True], (3,), (4, 3))]
    trees = []
    g = custom_vmap(lambda d, n: {"a": d["x"] * n, "b": d["y"]})

    @g.def_vmap
    def rule(axis_size, in_batched, d, n):
        trees.append(in_batched)
        assert n.dtype == np.int32
        return {"a": d["x"] * n, "b": d["y"]}, {"a": in_batched[0]["x"], "b": False}

    out = mjax.vmap(lambda x: g({"x": x, "y": Y}, 2), out_axes={"a": 0, "b": None})(XS)
    assert trees == [[{"x": True, "y": False}, False]]
    np.testing.assert_allclose(out["a"], 2 * XS)
    np.testing.assert_allclose(out["b"], Y)


@pytest.mark.parametrize("tangents_only", [True, False])
def test_the_rule_of_a_derivative_is_that_of_the_function(tangents_only):
    # If no primal is batched together with its tangent, the rule gets no batch.
    seen = []

    @custom_vmap
    def f(x, y):
        return lax.sin(x) * y

    @f.def_vmap
    def rule(size, batched, x, y):
        seen.append((size, *batched, x.shape, y.shape))
        return lax.cos(x) * y, batched[0] or batched[1]

    def derivative(x, t):
        return mjax.jvp(f, (x, 2.0), (t, 0.5))

    row = np.float32([0.1, 0.2, 0.3])
    x, t = (0.3, row) if tangents_only else (row, 0.3)
    axes = (None, 0) if tangents_only else (0, None)
    expected = np.cos(x) * 2 + 0 * row, -np.sin(x) * t * 2 + np.cos(x) * 0.5
    linear = lambda x, t: mjax.linearize(f, x, 2.0)[1](t, 0.5)
    for g in (mjax.vmap(derivative, axes), mjax.jit(mjax.vmap(derivative, axes))):
        np.testing.assert_allclose(g(x, t), expected, rtol=1e-5)
    assert set(seen) == {(3, False, False, (), ())}
    np.testing.assert_allclose(mjax.vmap(linear, axes)(x, t), expected[1], rtol=1e-5)
    for jacobian in (mjax.jacfwd, mjax.jacrev):
        np.testing.assert_allclose(jacobian(f)(x, 2.0).sum(-1 if np.ndim(x) else None),
                                   -np.sin(x) * 2, rtol=1e-5)


def test_results_that_the_rule_says_are_batched_though_nothing_is():
    @custom_vmap
    def f(x):
        return 2 * x

    f.def_vmap(lambda size, batched, x: (x * (1 + jnp.arange(size)), True))
    out, tangent = mjax.vmap(lambda t: mjax.jvp(f, (1.0,), (t,)))(np.float32([4, 5, 6]))
    np.testing.assert_allclose(out, [1, 2, 3])
    np.testing.assert_allclose(tangent, [4, 10, 18])


def test_a_rule_that_maps_over_it_again():
    sizes = []
    f = custom_vmap(lambda x: jnp.sin(x))

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        sizes.append(axis_size)
        return f(x), True

    np.testing.assert_allclose(mjax.vmap(mjax.vmap(f))(XS), np.sin(XS), 1e-6)
    assert sizes == [3, 4]


def test_defaults_and_names_are_resolved_to_positions():
    f = custom_vmap(lambda x, y=3.0: x * y)
    f.def_vmap(lambda n, b, x, y: (x * y, any(b)))
    np.testing.assert_allclose(mjax.vmap(lambda x: f(x))(X), 3 * X)
    np.testing.assert_allclose(mjax.vmap(lambda x: f(y=x, x=2.0))(X), 2 * X)
    assert f(2.0) == 6
    with pytest.raises(TypeError, match="custom_vmap of <lambda>: got an unexpected keyword"):
        f(2.0, z=1.0)


def test_with_rules_for_derivatives_around():
    @mjax.custom_vjp
    @custom_vmap
    def f(x):
        return jnp.sin(x)

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        return 3 * jnp.sin(x), True

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (5 * ct,))
    np.testing.assert_allclose(mjax.vmap(f)(X), 3 * np.sin(X), 1e-6)
    for g in (mjax.vmap(mjax.grad(f)), mjax.grad(lambda x: mjax.vmap(f)(x).sum())):
        np.testing.assert_allclose(g(X), np.full(3, 5.0))
    value, _ = mjax.vjp(mjax.vmap(f), X)
    np.testing.assert_allclose(value, 3 * np.sin(X), 1e-6)


def test_it_is_traced_once_per_types():
    count = []
    f = custom_vmap(lambda x: (count.append(x), jnp.sin(x))[1])
    f.def_vmap(lambda n, b, x: (jnp.sin(x), True))
    jitted = mjax.jit(lambda x: f(f(f(x))))
    jitted(X)
    mjax.grad(lambda x: jitted(x).sum())(X)
    mjax.jit(lambda x: f(x))(X)
    assert len(count) == 1


def test_what_changed_since_is_seen():
    w = 2.0
    f = sequential_vmap(lambda x: x * w)
    for w in (2.0, 3.0, 2.0):
        np.testing.assert_allclose(mjax.vmap(f)(X), X * w, 1e-6)


def test_nothing_is_kept_alive(small_heap):
    def use():
        f = product()
        with mjax.checking_leaks():
            mjax.jit(mjax.vmap(mjax.grad(lambda x, y: f(x, y).sum())))(XS, YS)
        return weakref.ref(f.fun)

    function = use()
    mjax.clear_caches()
    gc.collect()
    assert function() is None


def test_closing_over_traced_values():
    def outer(w, x):
        f = custom_vmap(lambda x: w * x)
        f.def_vmap(lambda n, b, x: (3 * w * x, True))
        return f(x)

    np.testing.assert_allclose(mjax.jit(mjax.vmap(outer, (None, 0)))(2.0, X), 6 * X)
    assert mjax.grad(outer)(2.0, 5.0) == 5
    for around in (same, mjax.jit):
        found = around(mjax.grad(lambda w: mjax.vmap(outer, (None, 0))(w, X).sum()))(2.0)
        np.testing.assert_allclose(found, 3 * X.sum(), 1e-6)
    jaxpr = mjax.make_jaxpr(outer)(2.0, 3.0)
    assert len(jaxpr.eqns[0].invars) == 2
    with pytest.raises(ValueError, match=r"custom_vmap function <lambda> at .* closes over a value "
                       r"that is batched, of type float32\[3\] for the whole batch"):
        mjax.vmap(outer)(X, X)


def test_named_axes():
    f = custom_vmap(lambda x: x + lax.axis_index("i"))
    f.def_vmap(lambda n, b, x: (x * 2, True))
    np.testing.assert_allclose(mjax.vmap(lambda x: x * f(1.0), axis_name="i")(X), X * [1, 2, 3])
    np.testing.assert_allclose(mjax.vmap(f, axis_name="i")(X), 2 * X)


# ---- the primitive ---------------------------------------------------------------------


def test_it_has_all_rules():
    assert "missing" not in custom_vmap_call_p.rules().values()


def program():
    f = custom_vmap(lambda x, y: (x * y, jnp.sin(x)))
    f.def_vmap(lambda n, b, x, y: ((3 * x * y, 3 * jnp.sin(x)), (True, True)))
    return mjax.make_jaxpr(lambda x, y: f(jnp.exp(x), y))(X, Y)


def mapped(jaxpr, *args):
    return mjax.vmap(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a), (0, None))(*args)


def test_dead_code_elimination_and_remat_keep_the_rule():
    jaxpr = program()
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    check_jaxpr(smaller)
    assert "mul" not in names(smaller) and used == [True, True]
    np.testing.assert_allclose(mapped(smaller, XS, Y)[0], 3 * np.sin(np.exp(XS)), 1e-5)
    assert not dce_jaxpr(jaxpr, [False, False])[0].eqns
    parts = partial_eval_jaxpr(jaxpr, [False, True])
    assert names(parts.known) == ["exp"] and "custom_vmap_call" in names(parts.unknown)
    parts = recompute_jaxpr(jaxpr, [True] * 2, [True] * 2, lambda *_, **__: False)
    np.testing.assert_allclose(mapped(parts.unknown, XS, Y)[0], 3 * np.exp(XS) * Y, 1e-5)
    jaxpr.eqns[-1] = jaxpr.eqns[-1].replace(invars=jaxpr.eqns[-1].invars[:1])
    with pytest.raises(JaxprTypeError, match="custom_vmap_call of a program .* float32.* appl"):
        check_jaxpr(jaxpr)


def test_how_it_is_printed():
    text = str(mjax.make_jaxpr(product())(X, Y))
    assert "custom_vmap_call[" in text and "rule=rule" in text and "call={ lambda" in text


# ---- sequential_vmap -------------------------------------------------------------------


def test_sequential():
    shapes = []
    f = sequential_vmap(lambda x, d: (shapes.append(x.shape), {"out": x * jnp.sin(d["y"])})[1])

    def g(x, y):
        return f(x, {"y": y})["out"]

    for name in ("vmap", "vmap of the first", "jit of vmap", "grad of vmap", "vmap of grad"):
        assert_same(BATCHED[name](g), BATCHED[name](once))
    assert set(shapes) == {(3,)}
    jaxpr = mjax.make_jaxpr(mjax.vmap(g, (0, None)))(XS, Y)
    assert names(jaxpr)[:2] == ["scan", "custom_vmap_call"]


@pytest.mark.slow
@pytest.mark.parametrize("name", BATCHED)
def test_sequential_everywhere(name):
    assert_same(BATCHED[name](sequential_vmap(once)), BATCHED[name](once))


# ---- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "error", "text"), [
    (lambda x: x, TypeError, r"must return a pair \(output, which of it is batched\), but"),
    (lambda x: ((x, x), True), ValueError, r"must say of each leaf of its output whether it is"),
    (lambda x: ((x, x), (True, 2)), TypeError, r"say by True or False .* returned \(True, 2\)"),
    (lambda x: ((x, x, x), (True,) * 3), ValueError, r"(?s)each element .*output\[2\]: missing"),
    (lambda x: ((x, x[:2]), (True, True)), ValueError, r"of type float32\[2\] and says that it is"),
    (lambda x: ((x, 1.0), (True, True)), ValueError, r"of type ~float32\[\] and says that it is"),
    (lambda x: ((x, x), (True, False)), TypeError,
     r"(?s)output\[1\]: float32\[\] in .*, float32\[3\]"),
    (lambda x: ((x, x.astype(int)), (True, True)), TypeError, r"(?s)float32\[\] .*, int32\[\]"),
    (lambda x: ((x, "text"), (True, True)), TypeError, r"output\[1\] is not a valid array: 'text'"),
])
@pytest.mark.parametrize("around", [same, mjax.jit])
def test_rules_that_give_something_else(rule, error, text, around):
    f = custom_vmap(lambda x: (x, x))
    f.def_vmap(lambda n, b, x: rule(x))
    with pytest.raises(error, match="the vmap rule <lambda> at .*py:.* of custom_vmap function "
                       f"<lambda> at .*py:.*{text}" if "(?s)" not in text else text):
        around(mjax.vmap(f))(X)


def test_there_is_no_rule():
    @custom_vmap
    def f(x):
        return x

    for g in (f, mjax.jit(f), mjax.vmap(f)):
        with pytest.raises(AttributeError, match="custom_vmap function f at .* has no rule yet:"):
            g(X)


def test_definitions_that_are_refused():
    with pytest.raises(TypeError, match="custom_vmap expects a function, got 3"):
        custom_vmap(3)
    with pytest.raises(TypeError, match="sequential_vmap expects a function, got 3"):
        sequential_vmap(3)
    f = custom_vmap(once)
    with pytest.raises(TypeError, match="def_vmap expects a function, got 3"):
        f.def_vmap(3)
    f.def_vmap(lambda n, b, x, y: (x, True))
    with pytest.raises(TypeError, match=r"custom_vmap of once: argument\[1\] is not a valid array"):
        f(1.0, "text")
    assert f.__name__ == "once" and f.__wrapped__ is once
