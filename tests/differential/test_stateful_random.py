"""Generators that keep their state, beside JAX."""

from __future__ import annotations

import jax
import jax.experimental.random
import numpy as np
import pytest

import mjax
import mjax.experimental.random

DRAWS = {
    "random": lambda r: r.random((2, 3)), "scalar": lambda r: r.random(),
    "uniform": lambda r: r.uniform(1, np.float32([2, 3])), "size": lambda r: r.uniform(-1, 1, 4),
    "half": lambda r: r.uniform(dtype="bfloat16"),
    "normal": lambda r: r.normal(np.zeros(3, "float32"), np.float32([[1], [2]])),
    "normal half": lambda r: r.normal(np.float32(1), 2, 3, dtype="float16"),
    "integers": lambda r: r.integers(10, size=5),
    "between": lambda r: r.integers(np.int32([3, 4]), 90, dtype="int8"),
}


def agree(f):
    found, wanted = (f(lib, lib.experimental.random.stateful_rng(7)) for lib in (mjax, jax))
    for a, b in zip(mjax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(np.asarray(a, "float64"), np.asarray(b, "float64"), 1e-5)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("jitted", [False, True])
def test_draws(name, jitted):
    draw = DRAWS[name]

    def twice(lib, rng):
        f = lib.jit(draw) if jitted else draw
        return f(rng), f(rng), rng._counter[...]

    agree(twice)


def test_keys():
    def keys(lib, rng):
        found = rng.key(), rng.key(3), rng.key((2, 2)), *(r.key() for r in rng.spawn(2))
        return [lib.random.key_data(k) for k in found]

    agree(keys)


def test_programs():
    def draws(lib, rng):
        step = lambda c, _: (c + rng.uniform(), rng.integers(9))
        total = lib.lax.scan(step, 0.0, None, length=3)
        many = rng.split((3,))
        each = lib.vmap(lambda r, x: x + r.uniform())(many, np.arange(3, dtype="float32"))
        inside = lib.jit(lambda seed: lib.experimental.random.stateful_rng(seed).normal())(3)
        return total, each, inside, many._counter[...], rng._counter[...]

    agree(draws)


@pytest.mark.parametrize("f", [
    lambda m, r: m.StatefulPRNG(np.zeros(2, "uint32"), None), lambda m, r: r.split(2).key(),
    lambda m, r: m.stateful_rng(1.5), lambda m, r: r.random(dtype="int32"),
    lambda m, r: r.split(2).spawn(2)])
def test_refusals(f):
    for lib in (mjax, jax):
        with pytest.raises((TypeError, ValueError)):
            f(lib.experimental.random, lib.experimental.random.stateful_rng(7))


def test_seeds_of_numpy():
    with pytest.raises(TypeError, match="needs a seed in a traced function"):
        mjax.jit(lambda: mjax.experimental.random.stateful_rng().random())()
    np.random.seed(0)
    first = mjax.experimental.random.stateful_rng().random()
    np.random.seed(0)
    assert first == mjax.experimental.random.stateful_rng().random()
