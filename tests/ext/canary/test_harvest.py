"""Values of programs harvested and planted, through every primitive that holds a program."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, tree_util
from mjax.sharding import PartitionSpec
from mjax_ext import core
from mjax_ext.check import check_primitive
from mjax_ext.core import primitives
from mjax_ext.interpreters import mlir
from tests.ext.canary.harvest import (
    HarvestError,
    call_and_reap,
    harvest,
    plant,
    reap,
    sow,
    sow_p,
)

X = np.array([0.3, -0.7, 1.1], np.float32)
P = np.array([2.0, 3.0, 5.0], np.float32)
SIN, COS = np.sin(X), np.cos(X)


def named(x, name="a", mode="strict", tag="t"):
    return sow(x, tag=tag, name=name, mode=mode)


def close(actual, expected):
    assert tree_util.tree_structure(actual) == tree_util.tree_structure(expected)
    for a, b in zip(tree_util.tree_leaves(actual), tree_util.tree_leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


region_p = core.Primitive("region", multiple_results=True, params={"program": core.Jaxpr})
core.Frame(region_p, "program")


@region_p.def_impl
def _evaluate(*args, program):
    return core.eval_jaxpr(program, program.consts, *args)


mlir.register_lowering(region_p, mlir.lower_fun(_evaluate, multiple_results=True))


def region(f):
    return lambda *args: region_p.bind(*args, program=mjax.make_jaxpr(f)(*args))[0]


@mjax.custom_jvp
def forward_rule(x):
    return 2.0 * named(jnp.sin(x))


@mjax.custom_vjp
def reverse_rule(x):
    return 2.0 * named(jnp.sin(x))


@mjax.custom_batching.custom_vmap
def batched_rule(x):
    return 2.0 * named(jnp.sin(x))


forward_rule.defjvp(lambda xs, dxs: (forward_rule(*xs), 100.0 * dxs[0]))
reverse_rule.defvjp(lambda x: (reverse_rule(x), x), lambda x, ct: (100.0 * x * ct,))
batched_rule.def_vmap(lambda size, batched, x: (2.0 * named(jnp.sin(x)), True))


def doubled(x):
    return 2.0 * named(jnp.sin(x))


def first(branch):
    return lambda x: lax.switch(branch, [lambda x: doubled(x), lambda x: named(x) - 1.0], x)


#: Programs of one array that sow `a` once, what they sow, and their result for a plant.
ONCE = {
    "plain": (doubled, SIN, 2 * P),
    "jit": (mjax.jit(doubled), SIN, 2 * P),
    "jit twice": (mjax.jit(lambda x: mjax.jit(doubled)(x)), SIN, 2 * P),
    "checkpoint": (mjax.checkpoint(doubled), SIN, 2 * P),
    "first branch": (first(0), SIN, 2 * P),
    "second branch": (first(1), X, P - 1),
    "vmap": (mjax.vmap(doubled), SIN, 2 * P),
    "region": (region(doubled), SIN, 2 * P),
    "custom_jvp": (forward_rule, SIN, 2 * P),
    "custom_vjp": (reverse_rule, SIN, 2 * P),
    "custom_vmap": (batched_rule, SIN, 2 * P),
    "grad": (mjax.grad(lambda x: jnp.sum(x * doubled(x))), SIN, 2 * P + 2 * X * COS),
    "grad of jit": (mjax.grad(mjax.jit(lambda x: jnp.sum(x * doubled(x)))), SIN,
                    2 * P + 2 * X * COS),
    "grad of custom_vjp": (mjax.grad(lambda x: jnp.sum(x * reverse_rule(x))), SIN,
                           2 * P + 100 * X * X),
    "jvp of custom_jvp": (lambda x: mjax.jvp(forward_rule, (x,), (x,))[0], SIN, 2 * P),
}


@pytest.mark.parametrize("name", ONCE)
def test_a_value_is_harvested_from_a_program(name):
    f, sown, planted = ONCE[name]
    fun = harvest(f, tag="t")
    core.check_jaxpr(mjax.make_jaxpr(fun)({}, X))
    core.check_jaxpr(mjax.make_jaxpr(fun)({"a": P}, X))
    close(fun({}, X), (f(X), {"a": sown}))
    close(fun({"a": P}, X), (planted, {"a": P}))
    close(mjax.jit(fun)({"a": P}, X), (planted, {"a": P}))
    close(mjax.jit(reap(f, tag="t"))(X), {"a": sown})
    names = str(mjax.make_jaxpr(fun)({}, X))
    assert "sow[" not in names and "sow[" in str(mjax.make_jaxpr(f)(X))


def test_programs_that_hold_programs_are_kept():
    for f, primitive in ((mjax.jit(doubled), primitives.jit_p), (region(doubled), region_p),
                         (mjax.checkpoint(doubled), primitives.remat_p),
                         (forward_rule, primitives.custom_jvp_call_p),
                         (reverse_rule, primitives.custom_vjp_call_p)):
        (eqn,) = mjax.make_jaxpr(call_and_reap(f, tag="t"))(X).eqns
        assert eqn.primitive is primitive and len(eqn.outvars) == 2


# ---- loops -------------------------------------------------------------------------------


def products(x):
    def step(c, x):
        c = named(c * x, "products", "append")
        return named(c, "last", "clobber"), 2.0 * c

    return lax.scan(step, jnp.float32(1.0), x)


def test_a_scan_stacks_and_passes_on():
    fun, expected = harvest(products, tag="t"), np.cumprod(X)
    core.check_jaxpr(mjax.make_jaxpr(fun)({"products": P, "last": 7.0}, X))
    close(fun({}, X), ((expected[-1], 2 * expected),
                       {"products": expected, "last": expected[-1]}))
    close(fun({"products": P}, X), ((P[-1], 2 * P), {"products": P, "last": P[-1]}))
    planted, reaped = fun({"last": 7.0}, X)
    sown = np.array([X[0], 7 * X[1], 7 * X[2]])
    close((planted, reaped), ((7.0, 2 * sown), {"products": sown, "last": 7.0}))
    close(mjax.vmap(fun)({"products": np.stack([P, X])}, np.stack([X, X]))[1]["products"],
          np.stack([P, X]))
    close(mjax.grad(lambda x: jnp.sum(reap(products, tag="t")(x)["products"]))(X),
          np.array([1 + X[1] + X[1] * X[2], X[0] + X[0] * X[2], X[0] * X[1]]))
    close(mjax.grad(lambda p: fun({"products": p}, X)[0][0])(P), np.array([0, 0, 1], np.float32))


def test_loops_in_loops():
    def f(x):
        named(x, "rows", "append")
        y, _ = mjax.jit(lambda x: lax.scan(
            lambda c, _: (products(c)[1] / 2.0, named(c, "rows", "append")), x, length=2))(x)
        return y

    fun = harvest(f, tag="t")
    once, twice = np.cumprod(X), np.cumprod(np.cumprod(X))
    close(fun({}, X), (twice, {"rows": np.stack([X, X, once]), "last": twice[-1],
                               "products": np.concatenate([once, twice])}))
    rows = np.stack([P, X, P])
    result, reaped = fun({"rows": rows}, X)
    close(reaped["rows"], rows)
    close(result, twice)  # their results are not read


def test_a_while_loop_gives_the_last_value():
    def f(x):
        named(x, "last", "clobber")
        return lax.while_loop(lambda c: c < named(10.0, "limit", "clobber"),
                              lambda c: 2.0 * named(c, "last", "clobber"), x)

    fun = harvest(f, tag="t")
    core.check_jaxpr(mjax.make_jaxpr(fun)({"limit": 3.0}, 1.0))
    close(fun({}, 1.0), (16.0, {"last": 8.0, "limit": 10.0}))
    close(fun({"limit": 3.0}, 1.0), (4.0, {"last": 2.0, "limit": 3.0}))
    close(fun({"last": 20.0}, 1.0), (40.0, {"last": 20.0, "limit": 10.0}))
    close(fun({}, 12.0), (12.0, {"last": 12.0, "limit": 10.0}))
    close(mjax.vmap(reap(f, tag="t"))(np.float32([1, 6, 12])),
          {"last": np.float32([8, 6, 12]), "limit": np.float32([10, 10, 10])})


def test_devices_append_their_values():
    mesh = mjax.make_mesh((2,), ("i",))
    xs = np.concatenate([X, P, X, P])

    def region(mode):
        return mjax.shard_map(
            lambda x: x[0] + named(named(2.0 * x, mode=mode), "all", "append").sum(keepdims=True),
            mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))

    fun = harvest(region("append"), tag="t")
    core.check_jaxpr(mjax.make_jaxpr(fun)({"a": xs.reshape(2, 6)}, xs))
    rows = 2 * xs.reshape(2, 6)
    close(fun({}, xs), (xs[::6] + rows.sum(1), {"a": rows, "all": rows}))
    close(fun({"a": rows / 2}, xs), (xs[::6] + rows.sum(1) / 2, {"a": rows / 2, "all": rows / 2}))
    for mode, message in (("strict", "in a loop"), ("clobber", "by several devices")):
        with pytest.raises(HarvestError, match=f"'a' is sown {message}"):
            harvest(region(mode), tag="t")({}, xs)


def test_branches_of_elements():
    f = lambda x: lax.cond(x > 0, lambda x: named(x, "x") + named(1.0, "positive", "clobber"),
                           lambda x: named(-x, "x"), x)
    close(mjax.vmap(call_and_reap(f, tag="t"))(X),
          (np.where(X > 0, X + 1, -X), {"x": abs(X), "positive": np.float32(X > 0)}))


# ---- derivatives -------------------------------------------------------------------------


def test_functions_with_rules_keep_them():
    found = mjax.jvp(call_and_reap(forward_rule, tag="t"), (X,), (P,))
    close(found, ((2 * SIN, {"a": SIN}), (100 * P, {"a": COS * P})))
    planted = mjax.jvp(harvest(forward_rule, tag="t"), ({"a": P}, X), ({"a": X}, P))
    close(planted, ((2 * P, {"a": P}), (100 * P, {"a": X})))
    _, pull = mjax.vjp(call_and_reap(reverse_rule, tag="t"), X)
    close(pull((np.ones_like(X), {"a": P})), (100 * X + COS * P,))
    _, pull = mjax.vjp(harvest(reverse_rule, tag="t"), {"a": P}, X)
    close(pull((np.ones_like(X), {"a": P})), ({"a": P}, 100 * X))
    rows = np.stack([X, P])
    close(mjax.vmap(mjax.grad(lambda x: jnp.sum(call_and_reap(reverse_rule, tag="t")(x)[0])))(rows),
          100 * rows)
    close(mjax.jit(mjax.grad(lambda x: reap(mjax.checkpoint(forward_rule), tag="t")(x)["a"][1]))(X),
          np.float32([0, COS[1], 0]))


def test_symbolic_zeros_of_rules():
    product = mjax.custom_jvp(lambda x, y: x * named(y))

    def rule(primals, tangents):
        zeros = [type(t).__name__ == "SymbolicZero" for t in tangents]
        return product(*primals), (tangents[1] if zeros[0] else 3.0 * tangents[0])

    product.defjvp(rule, symbolic_zeros=True)
    found = mjax.jvp(lambda x: call_and_reap(product, tag="t")(x, 2.0), (X,), (P,))
    close(found, ((2 * X, {"a": np.float32(2)}), (3 * P, {"a": np.float32(0)})))


def test_what_checkpoint_computes_again_is_sown_once():
    f = mjax.grad(mjax.checkpoint(lambda x: jnp.sum(jnp.sin(named(x * x)))))
    assert str(mjax.make_jaxpr(f)(X)).count("sow[") == 2
    close(call_and_reap(f, tag="t")(X), (2 * X * np.cos(X * X), {"a": X * X}))


# ---- tags and trees ----------------------------------------------------------------------


def test_harvests_of_several_tags():
    @mjax.jit
    def f(x):
        return named(named(jnp.sin(x), tag="inner") + 1.0, tag="outer")

    inner = call_and_reap(f, tag="inner")
    close(call_and_reap(inner, tag="outer")(X), ((SIN + 1, {"a": SIN}), {"a": SIN + 1}))
    both = plant(harvest(f, tag="inner"), tag="outer")
    close(both({"a": P}, {"a": X}, X), (P, {"a": X}))
    # Reaped values may be sown again.
    again = lambda x: named(reap(f, tag="inner")(x)["a"], "b")
    close(reap(again, tag="t")(X), {"b": SIN})


def test_trees_and_keywords():
    def f(x, *, scale):
        named({}, "nothing")
        tree = named({"x": x, "pair": (1, scale)}, "tree")
        return tree["x"] * tree["pair"][1]

    out, reaped = call_and_reap(f, tag="t")(X, scale=2.0)
    close((out, reaped), (2 * X, {"nothing": {}, "tree": {"x": X, "pair": (1, 2.0)}}))
    close(plant(f, tag="t")({"tree": {"x": P, "pair": (1, 3.0)}, "other": 1.0}, X, scale=2.0),
          3 * P)


def test_keys_are_sown():
    def f(key):
        def step(key, _):
            key, sub = mjax.random.split(key)
            return key, mjax.random.normal(named(sub, "keys", "append"))

        return lax.scan(step, key, length=3)[1]

    draws, reaped = call_and_reap(f, tag="t")(mjax.random.key(0))
    close(mjax.vmap(mjax.random.normal)(reaped["keys"]), draws)
    again = plant(f, tag="t")({"keys": reaped["keys"][::-1]}, mjax.random.key(1))
    close(again, draws[::-1])


# ---- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize("f, message", [
    (lambda x: named(named(x)), "'a' is sown twice; its mode is 'strict'"),
    (lambda x: named(named(x), mode="append"), "'a' is sown in two ways"),
    (lambda x: lax.map(named, x), "'a' is sown in a loop; its mode is 'strict'"),
    (lambda x: lax.while_loop(lambda x: x[0] < 1, lambda x: named(x, mode="append"), x),
     "'a' is sown in a loop of unknown length"),
    (lambda x: lax.cond(x[0] > 0, named, lambda x: x, x), "'a' is not sown alike in all branches"),
    # A batched predicate runs both branches.
    (mjax.vmap(lambda x: lax.cond(x > 0, named, lambda x: named(-x), x)), "'a' is sown twice"),
])
def test_refusals(f, message):
    with pytest.raises(HarvestError, match=message):
        reap(f, tag="t")(X)


def test_plants_have_the_types_of_what_is_sown():
    with pytest.raises(HarvestError, match=r"'a' must be a tree .* of the shapes \[\(3,\)\]"):
        plant(doubled, tag="t")({"a": 1.0}, X)


def test_a_mode_that_does_not_exist():
    with pytest.raises(TypeError, match=r"sow: param 'mode' is 'twice'.*'strict', 'append'"):
        core.check_jaxpr(mjax.make_jaxpr(lambda x: named(x, mode="twice"))(X))


def test_the_primitive_passes_the_checker():
    tree = tree_util.tree_structure((0, 0))
    check_primitive(sow_p, X, np.arange(6, dtype=np.float32).reshape(3, 2), tag="t", name="a",
                    mode="strict", tree=tree).raise_for_findings()
