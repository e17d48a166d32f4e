"""The tests of the library, on jax or on mjax: `HALVES_ON` says which."""

import importlib
import os

import halves
import numpy as np

on = importlib.import_module(os.environ["HALVES_ON"])
X = np.array([1.0, 3.0, -2.0], np.float32)


def test_values():
    np.testing.assert_array_equal(halves.half(X), X / 2)
    np.testing.assert_array_equal(on.jit(halves.half)(X), X / 2)


def test_derivatives():
    np.testing.assert_array_equal(on.grad(lambda x: halves.half(x).sum())(X), np.full(3, 0.5))
    assert on.jvp(halves.half, (2.0,), (3.0,))[1] == 1.5


def test_batches():
    np.testing.assert_array_equal(on.vmap(halves.half)(X), X / 2)
    np.testing.assert_array_equal(on.jit(on.vmap(on.grad(halves.half)))(X), np.full(3, 0.5))


def test_programs():
    f = lambda x: on.jit(halves.half)(x) + halves.half(x)
    closed = on.make_jaxpr(f)(1.0)
    assert list(halves.primitives_of(closed.jaxpr)).count("half") == 2
    assert halves.doubled(closed, 3.0) == [12.0]
