"""Random programs of symbolic shapes: one artifact, several sizes, against JAX and its exports."""

from __future__ import annotations

import random

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import mjax
import mjax.export
import mjax.numpy as mnp

pytest.importorskip("flatbuffers")

W = np.linspace(-1, 1, 9, dtype="float32").reshape(3, 3)

#: From an array of shape (n, 3), n at least 2, to another one of at least two rows.
STEPS = [
    lambda lib, np_, x: x[::-1] + x[:1],
    lambda lib, np_, x: np_.concatenate([x, x[1:]]),
    lambda lib, np_, x: np_.tanh(x @ W) - x.mean(0),
    lambda lib, np_, x: x[np_.argsort(x[:, 0])],
    lambda lib, np_, x: np_.cumsum(x, 0) / x.shape[0],
    lambda lib, np_, x: np_.pad(x, ((1, 2), (0, 0)), mode="edge"),
    lambda lib, np_, x: np_.where(np_.arange(x.shape[0])[:, None] % 2 == 0, x, -x),
    lambda lib, np_, x: lib.lax.scan(lambda c, row: (c * 0.5 + row, c), np_.zeros(3), x)[1],
    lambda lib, np_, x: lib.vmap(lambda row: row * np_.sin(row).sum())(x),
    lambda lib, np_, x: x.at[-1].set(np_.max(x, 0)).at[1:].multiply(0.5),
    lambda lib, np_, x: lib.grad(lambda x: (np_.sin(x) @ x.T).sum())(x) / x.shape[0],
    lambda lib, np_, x: np_.reshape(np_.ravel(x) * np_.linspace(0.0, 1.0, x.size), (-1, 3)),
    lambda lib, np_, x: lib.nn.softmax(x, 0) @ W,
    lambda lib, np_, x: np_.tril(x @ x.T) @ x / x.size,
    lambda lib, np_, x: np_.repeat(x, 2, axis=0)[::3] if x.shape[0] >= 2 else x,
    lambda lib, np_, x: np_.roll(x, 1, 0) * np_.std(x),
    lambda lib, np_, x: lib.lax.fori_loop(0, 3, lambda i, c: np_.cos(c) + i * x[0], x),
    lambda lib, np_, x: lib.lax.cond(x[0, 0] > 0, np_.sin, np_.cos, x),
    lambda lib, np_, x: lib.random.uniform(lib.random.key(1), x.shape) * x,
    lambda lib, np_, x: lib.lax.reduce_window(x, 0.0, lib.lax.add, (2, 1), (1, 1), "SAME"),
]


def program(lib, np_, seed):
    steps = random.Random(seed).choices(STEPS, k=5)

    def f(x):
        for step in steps:
            x = step(lib, np_, x)
        return x, x.sum(0)

    return f


def specs(lib):
    return lib.ShapeDtypeStruct(
        lib.export.symbolic_shape("b, 3", constraints=["b >= 2"]), "float32")


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed < 6 else pytest.mark.slow) for seed in range(60)])
def test_random_programs(seed):
    exported = mjax.export.export(mjax.jit(program(mjax, mnp, seed)))(specs(mjax))
    data = exported.serialize()
    ours, theirs = mjax.export.deserialize(data), jax.export.deserialize(data)
    direct = jax.jit(program(jax, jnp, seed))
    for n in (2, 3, 6):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype("float32")
        wanted = direct(x)
        for got in ours.call(x), theirs.call(x):
            for one, other in zip(got, wanted, strict=True):
                assert one.shape == other.shape
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("seed", [
    pytest.param(seed, marks=() if seed < 2 else pytest.mark.slow) for seed in range(20)])
def test_programs_of_jax_run_here(seed):
    theirs = jax.export.export(jax.jit(program(jax, jnp, seed)))(specs(jax))
    ours = mjax.export.deserialize(theirs.serialize())
    for n in (2, 5):
        x = np.random.default_rng(n).normal(size=(n, 3)).astype("float32")
        for one, other in zip(ours.call(x), theirs.call(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
