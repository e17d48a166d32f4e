"""Primitives of trees with `None` for zeros, passes that remove them, and a bounded loop."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax_ext import core
from mjax_ext.core import primitives
from tests.ext.canary import filtered
from tests.ext.canary.filtered import (
    FilteredPrimitive,
    any_of_all_p,
    bounded_while_loop,
    noinline,
    nonbatchable,
    nondifferentiable,
)
from tests.ext.canary.rewriting import finalised, mentions, operations, pruned, shared

X = np.array([0.5, -1.25, 2.0], np.float32)
Y = np.array([[1.0, 0.25, -0.5], [2.0, -1.0, 0.75]], np.float32)
SPECIAL = {p.primitive: p.evaluated for p in (
    filtered.noinline_p, filtered.nonbatchable_p, filtered.nondifferentiable_p, any_of_all_p)}


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def finite(f, x, direction, step=1e-3):
    """The derivative of a NumPy function along a direction."""
    x, direction = np.asarray(x, np.float64), np.asarray(direction, np.float64)
    return (f(x + step * direction) - f(x - step * direction)) / (2 * step)


# ---- a primitive of trees ----------------------------------------------------------------------

SEEN = []


def _weighted(tree, how):
    return {"sum": how["scale"] * tree["x"] + tree["y"], "name": how["name"]}


weighted_p = FilteredPrimitive("weighted", lambda tree, how: {
    "sum": mjax.ShapeDtypeStruct(np.broadcast_shapes(tree["x"].shape, tree["y"].shape), X.dtype),
    "name": how["name"]}, _weighted)


@weighted_p.def_jvp
def _(primals, tangents):
    (tree, how), (moved, how_moved) = primals, tangents
    SEEN.append((moved, how_moved))
    tangent = None
    if moved["x"] is not None:
        tangent = how["scale"] * moved["x"] * jnp.ones_like(tree["y"])
    if moved["y"] is not None:
        tangent = moved["y"] if tangent is None else tangent + moved["y"]
    return weighted_p(tree, how), {"sum": tangent, "name": None}


HOW = {"scale": 3.0, "name": "weights"}


def weighted(x, y):
    out = weighted_p({"x": x, "y": y}, HOW)
    assert out["name"] == "weights"
    return out["sum"]


def test_leaves_that_are_not_arrays_are_params():
    close(weighted(X, Y[0]), 3 * X + Y[0])
    close(mjax.jit(weighted)(X, Y[0]), 3 * X + Y[0])
    jaxpr = mjax.make_jaxpr(weighted)(X, Y[0])
    core.check_jaxpr(jaxpr)
    (eqn,) = jaxpr.eqns
    assert len(eqn.invars) == 2 and HOW["scale"] in eqn.params["form"].static


def test_zeros_are_none():
    SEEN.clear()
    tangent = mjax.jvp(lambda x: weighted(x, Y[0]), (X,), (Y[1],))[1]
    close(tangent, 3 * Y[1])
    ((moved, how),) = SEEN
    assert moved["y"] is None and moved["x"] is not None
    assert how == {"scale": None, "name": None}
    close(mjax.grad(lambda x, y: jnp.sum(weighted(x, y) ** 2), 1)(X, Y[0]), 2 * (3 * X + Y[0]))
    out, tangent = mjax.jvp(lambda n: weighted_p({"x": X, "y": Y[0]}, HOW)["sum"] + 0 * n, (1.0,),
                            (1.0,))
    close(tangent, 0 * X)


def test_a_rule_that_gives_another_tree_is_told():
    p = FilteredPrimitive("crooked", lambda x: x, lambda x: x)
    p.def_jvp(lambda primals, tangents: (primals[0], [tangents[0], tangents[0]]))
    with pytest.raises(TypeError, match="gave a tree of the form"):
        mjax.jvp(p, (X,), (X,))


# ---- functions that stay one operation ---------------------------------------------------------


def _energy(x, model):
    return {"energy": model["scale"] * jnp.sum(jnp.sin(x) * model["w"]), "sign": jnp.sign(x)}


def energy(x, w):
    return noinline(_energy)(x, {"scale": 2, "w": w})["energy"]


def test_noinline_is_one_operation():
    jaxpr = mjax.make_jaxpr(energy)(X, Y[0])
    assert operations(jaxpr) == ["noinline"]
    for f in (energy, mjax.jit(energy), mjax.jit(mjax.jit(energy))):
        close(f(X, Y[0]), 2 * np.sum(np.sin(X) * Y[0]))
    for f, count in ((mjax.grad(energy), 2), (mjax.vmap(energy, (None, 0)), 1)):
        names = operations(mjax.make_jaxpr(f)(X, Y if count == 1 else Y[0]))
        assert "sin" not in names and "cos" not in names and names.count("noinline") >= count


def test_derivatives_of_noinline():
    reference = lambda x, w: 2 * np.sum(np.sin(x) * w)
    for i, (x, direction) in enumerate([(X, Y[1]), (Y[0], X)]):
        args = [X, Y[0]]
        f = lambda v, i=i, args=args: reference(*[v if j == i else a for j, a in enumerate(args)])
        g = mjax.grad(energy, i)(*args)
        close(np.sum(np.asarray(g) * direction), finite(f, x, direction))
        tangents = [direction if j == i else 0 * a for j, a in enumerate(args)]
        close(mjax.jvp(energy, args, tangents)[1], finite(f, x, direction))
    # Second derivatives: the Hessian of sum(sin(x) w) is diagonal.
    close(mjax.jit(mjax.hessian(energy))(X, Y[0]), np.diag(-2 * np.sin(X) * Y[0]))


def test_batches_of_noinline():
    close(mjax.vmap(energy, (None, 0))(X, Y), [2 * np.sum(np.sin(X) * y) for y in Y])
    grads = mjax.jit(mjax.vmap(mjax.grad(energy), (0, None)))(Y, X)
    close(grads, 2 * np.cos(Y) * X)
    close(mjax.grad(lambda w: mjax.vmap(energy, (0, None))(Y, w).sum())(X), 2 * np.sin(Y).sum(0))


# ---- values with limits ------------------------------------------------------------------------


def test_limits():
    tree = {"x": X, "flag": True}
    assert nonbatchable(tree)["flag"] is True
    with pytest.raises(ValueError, match="the seed may not be batched"):
        mjax.vmap(lambda x: nonbatchable({"x": x}, "the seed")["x"])(X)
    close(mjax.vmap(lambda y: y * nonbatchable(X))(Y), Y * X)
    close(mjax.grad(lambda x: nonbatchable(x) ** 2)(3.0), 6.0)
    with pytest.raises(ValueError, match="the table may not be differentiated"):
        mjax.grad(lambda x: nondifferentiable(x, "the table") ** 2)(3.0)
    close(mjax.vmap(mjax.grad(lambda x, y: jnp.sum(x * nondifferentiable(y))), (None, 0))(X, Y), Y)


def test_any_of_all():
    f = lambda x: any_of_all_p(x > 1.5)
    assert bool(f(X)) and not bool(f(-X - 1))
    # Every element of a batch gets the answer for all.
    assert mjax.vmap(f)(X[:, None]).tolist() == [True] * 3
    out = mjax.jit(mjax.vmap(mjax.vmap(f)))(np.stack([X, 0 * X]))
    assert out.tolist() == [[True] * 3] * 2


# ---- passes over programs ----------------------------------------------------------------------


@mjax.custom_jvp
def scaled(x):
    return noinline(lambda x, k: k * x)(x, 2)


scaled.defjvp(lambda primals, tangents: (scaled(*primals), 2 * tangents[0]))


def everything(x):
    """The special primitives, in programs of every kind."""
    def body(carry, y):
        go = any_of_all_p(y > -2)
        return lax.cond(go, scaled, lambda c: c, nonbatchable(carry, "it")), jnp.sum(carry)

    carry, sums = lax.scan(body, x, Y)
    done = lax.while_loop(lambda c: any_of_all_p(c < 10),
                          lambda c: mjax.jit(nondifferentiable)(c) * 2, jnp.abs(carry) + 1)
    return mjax.checkpoint(noinline(lambda a, b: a * b))(done, sums[1])


def everything_reference(x):
    done = np.abs(4 * x) + 1
    while (done < 10).any():
        done = done * 2
    return done * np.sum(2 * x)


def test_finalised_programs_have_no_special_primitives():
    jaxpr = mjax.make_jaxpr(everything)(X)
    assert mentions(jaxpr, SPECIAL)
    names = operations(jaxpr)
    assert {"noinline", "any_of_all", "nonbatchable", "nondifferentiable"} <= set(names)
    assert {"scan", "cond", "while", "jit", "custom_jvp_call", "remat2"} <= set(names)
    plain = finalised(jaxpr, SPECIAL)
    core.check_jaxpr(plain)
    assert not mentions(plain, SPECIAL) and plain.out_avals == jaxpr.out_avals
    assert {"scan", "cond", "while", "jit", "custom_jvp_call", "remat2"} <= set(operations(plain))
    f = core.jaxpr_as_fun(plain)
    close(mjax.jit(f)(X)[0], everything_reference(X))
    # Refused calls are allowed now: batches, and rules of functions are kept.
    batch = mjax.jit(mjax.vmap(lambda x: f(x)[0]))(Y)
    close(batch, np.stack([everything_reference(y) for y in Y]))
    twice = finalised(mjax.make_jaxpr(scaled)(X), SPECIAL)
    close(mjax.jvp(core.jaxpr_as_fun(twice), (X,), (Y[0],))[1][0], 2 * Y[0])


def test_equal_equations_are_shared():
    def f(x, y):
        inner = mjax.jit(lambda x: jnp.sin(x) + jnp.sin(x))
        return inner(x) * inner(x), lax.exp(y) - lax.exp(y * 1.0), lax.add(x, 1.0), lax.add(x, 2.0)

    jaxpr = mjax.make_jaxpr(f)(X, Y[0])
    small = shared(jaxpr)
    core.check_jaxpr(small)
    before, after = operations(jaxpr), operations(small)
    assert before.count("sin") == 4 and after.count("sin") == 1
    assert after.count("jit") == 1 and after.count("exp") == 2 and after.count("add") == 3
    for found, expected in zip(core.jaxpr_as_fun(small)(X, Y[0]), (
            4 * np.sin(X) ** 2, 0 * X, X + 1, X + 2), strict=True):
        close(found, expected)


def test_effects_are_neither_shared_nor_dropped():
    calls = []

    def f(x):
        mjax.debug.callback(calls.append, x)
        mjax.debug.callback(calls.append, x)
        unused = lax.sin(x)
        del unused
        return lax.cos(x)

    jaxpr = pruned(shared(mjax.make_jaxpr(f)(X)))
    core.check_jaxpr(jaxpr)
    assert operations(jaxpr) == ["debug_callback"] * 2 + ["cos"]
    close(mjax.jit(core.jaxpr_as_fun(jaxpr))(X)[0], np.cos(X))
    mjax.effects_barrier()
    assert len(calls) == 2


def test_equations_by_hand():
    """A pass that writes equations: x * x becomes square(x)."""
    jaxpr = mjax.make_jaxpr(lambda x: x * x + lax.mul(x, 2 * x))(X)
    eqns = [core.new_jaxpr_eqn(e.invars[:1], e.outvars, primitives.square_p, {}, core.no_effects,
                               e.source_info)
            if e.primitive is primitives.mul_p and e.invars[0] is e.invars[1] else e
            for e in jaxpr.eqns]
    squared = jaxpr.replace(eqns=eqns)
    core.check_jaxpr(squared)
    assert operations(squared).count("square") == 1
    close(core.jaxpr_as_fun(squared)(X)[0], 3 * X * X)
    with pytest.raises(core.JaxprTypeError, match="float32"):
        core.check_jaxpr(squared.replace(eqns=[e.replace(outvars=[core.Var(
            core.ShapedArray((), np.dtype("float32")))]) for e in eqns]))


# ---- the bounded loop --------------------------------------------------------------------------


def grown(x, factor, max_steps=20):
    """x * factor**k for the least k that makes it 100 or more."""
    return bounded_while_loop(lambda v: v < 100, lambda v: v * factor, x, max_steps)


def steps_of(x, factor):
    return int(np.ceil(np.log(100 / x) / np.log(factor)))


def test_bounded_loop():
    f = mjax.jit(mjax.value_and_grad(grown, (0, 1)))
    for x in (1.5, 40.0, 150.0):
        k = max(steps_of(x, 1.5), 0)
        value, (in_x, in_factor) = f(x, 1.5)
        close(value, x * 1.5**k)
        close(in_x, 1.5**k)
        close(in_factor, x * k * 1.5 ** (k - 1))
    close(grown(1.0, 2.0, max_steps=3), 8.0)


def test_a_batch_of_bounded_loops_keeps_its_branches():
    xs = np.array([1.5, 40.0, 150.0], np.float32)
    jaxpr = mjax.make_jaxpr(mjax.vmap(lambda x: grown(x, 1.5)))(xs)
    assert operations(jaxpr).count("cond") == 3  # one for each level of scans
    plain = finalised(jaxpr, SPECIAL)
    core.check_jaxpr(plain)
    expected = [x * 1.5 ** max(steps_of(x, 1.5), 0) for x in xs]
    close(mjax.jit(core.jaxpr_as_fun(plain))(xs)[0], expected)
    close(mjax.jit(mjax.vmap(mjax.grad(lambda x: grown(x, 1.5))))(xs), np.array(expected) / xs)
