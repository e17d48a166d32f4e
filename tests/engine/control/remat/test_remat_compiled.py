"""checkpoint: what compiled programs compute again and keep."""

from __future__ import annotations

import collections
import functools

import numpy as np

import mjax
from mjax import lax
from mjax.ad_checkpoint import checkpoint_name, saved_residuals
from mjax.tree_util import tree_leaves

policies = mjax.checkpoint_policies
X, _ = np.random.default_rng(1).normal(size=(2, 3)).astype("float32") / 2


def total(out):
    return functools.reduce(lax.add, [lax.reduce_sum(lax.mul(o, o), tuple(range(np.ndim(o))))
                                      for o in tree_leaves(out)])


def layers(x, w):
    for _ in range(3):
        x = lax.sin(lax.dot(x, w))
    return x


M = np.random.default_rng(3).normal(size=(16, 16)).astype("float32") / 4


def value_and_pull(f, *args):
    def g(*args):
        out, pull = mjax.vjp(f, *args)
        return out, pull(out)

    return mjax.jit(g).lower(*args)


def test_the_second_computation_is_behind_a_barrier():
    plain = value_and_pull(layers, M, M).as_text()
    guarded = value_and_pull(mjax.checkpoint(layers), M, M).as_text()
    bare = value_and_pull(mjax.checkpoint(layers, prevent_cse=False), M, M).as_text()
    assert "optimization_barrier" not in plain + bare
    assert guarded.count("optimization_barrier") == 1
    assert plain.count("stablehlo.sine") == 3
    # The value of the last layer is not needed for its derivative.
    assert guarded.count("stablehlo.sine") == bare.count("stablehlo.sine") == 3 + 2


def heeds_barriers():
    """Whether the compiler does: XLA's for CPUs since jaxlib 0.11.2."""
    text = mjax.jit(lambda x: (lax.dot(x, x), lax.dot(*[lax.optimization_barrier(x)] * 2))).lower(
        M).compile().as_text()
    return text.count(" dot(") == 2


def test_the_compiler_does_not_merge_the_two():
    def dots(f):
        return value_and_pull(f, M, M).compile().as_text().count(" dot(")

    assert dots(layers) == 9  # 3 forward, 2 backward for each
    assert dots(mjax.checkpoint(layers, prevent_cse=False)) == 9  # merged
    assert dots(mjax.checkpoint(layers, policy=policies.dots_saveable)) == 9
    if heeds_barriers():
        assert dots(mjax.checkpoint(layers)) == 12


def test_nothing_to_compute_again_needs_no_barrier():
    f = mjax.checkpoint(layers, policy=policies.everything_saveable)
    assert "optimization_barrier" not in value_and_pull(f, M, M).as_text()


def test_operands_without_a_barrier():
    f = mjax.checkpoint(layers, prevent_cse=(False, True))
    found = [line for line in value_and_pull(f, M, M).as_text().splitlines()
             if "optimization_barrier" in line]
    assert len(found) == 1
    assert found[0].count("%arg1") == 1 and found[0].count("%arg0") == 0
    g = mjax.checkpoint(lambda p, *, scale: layers(lax.mul(p["x"], scale), p["w"]),
                        prevent_cse=(({"x": True, "w": False},), {"scale": False}))
    (eqn,) = mjax.make_jaxpr(g)({"x": M, "w": M}, scale=2.0).eqns
    assert eqn.params["prevent_cse"] == (False, True, False)  # w, x, scale


def test_a_jaxpr_is_lowered_once():
    layer = mjax.checkpoint(lambda x: lax.sin(lax.sin(x)))

    def f(x):
        for _ in range(5):
            x = layer(x)
        return total(x)

    text = mjax.jit(mjax.grad(f)).lower(X).as_text()
    assert text.count("stablehlo.sine") == 2 + 1  # forward, backward


def test_in_a_scan_only_its_carry_is_stacked():
    def loss(layer):
        def f(x, ws):
            return total(lax.scan(lambda x, w: (layer(x, w), None), x, ws)[0])

        return f

    ws = np.stack([M] * 5)
    plain, kept = (saved_residuals(loss(g), M, ws) for g in (
        layers, mjax.checkpoint(layers, prevent_cse=False)))
    shapes = collections.Counter(aval.shape for aval, _ in kept)
    # The weights, the carry in front of each iteration, and what `total` needs.
    assert shapes == {(5, 16, 16): 2, (16, 16): 1}
    assert sum(aval.shape == (5, 16, 16) for aval, _ in plain) == 7
    compiled = [mjax.jit(mjax.grad(loss(g), (0, 1))).lower(M, ws).compile() for g in (
        layers, mjax.checkpoint(layers, prevent_cse=False))]
    assert [c.as_text().count(" dot(") for c in compiled] == [9, 12]
    plain, kept = (c.memory_analysis().temp_size_in_bytes for c in compiled)
    assert plain - kept > 4 * ws.nbytes  # of the five stacks that are not kept


def test_what_is_saved_is_what_the_first_computation_went_on_with():
    """The compiler keeps more digits of bfloat16 than are stored; what is made of a value must
    be the same the second time."""
    save = policies.save_only_these_names("keep")
    factor = mjax.numpy.asarray(1.1, "bfloat16")

    def f(x):
        y = checkpoint_name(lax.mul(x, factor), "keep")
        z = lax.convert_element_type(y, np.float32)  # as it is with more digits, or rounded
        return z, lax.reduce_sum(lax.sin(y), (0,))

    @mjax.jit
    def run(x):
        (z, _), pull = mjax.vjp(mjax.checkpoint(f, policy=save), x)
        return z, tree_leaves(pull)

    x = mjax.numpy.asarray(np.random.default_rng(0).normal(size=100), "bfloat16")
    z, kept = run(x)
    (kept,) = [k for k in kept if k.shape == x.shape]
    assert np.array_equal(np.asarray(kept, "float32"), z)

    @mjax.jit
    def argument(x):
        def f(y):
            return lax.convert_element_type(y, np.float32), lax.reduce_sum(lax.sin(y), (0,))

        (z, _), pull = mjax.vjp(mjax.checkpoint(f), lax.mul(x, factor))
        return z, tree_leaves(pull)

    z, (kept,) = argument(x)
    assert np.array_equal(np.asarray(kept, "float32"), z)
