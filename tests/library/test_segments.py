"""Reductions of segments: against loops in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import ops

rng = np.random.default_rng(0)
X = rng.normal(size=(7, 2)).astype(np.float32)
IDS = np.array([0, 3, 1, 0, -1, 9, 3])
REDUCTIONS = {"segment_sum": (np.sum, 0), "segment_prod": (np.prod, 1),
              "segment_max": (np.max, -np.inf), "segment_min": (np.min, np.inf)}


def expected(name, x, count, empty=None):
    reduce, identity = REDUCTIONS[name]
    empty = identity if empty is None else empty
    return np.stack([reduce(x[i == IDS], axis=0) if (i == IDS).any() else
                     np.full(x.shape[1:], empty, x.dtype) for i in range(count)])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    f = getattr(ops, name)
    np.testing.assert_allclose(f(X, IDS), expected(name, X, 10), 1e-6)
    for size in (None, 2, 3, 100):
        out = mjax.jit(lambda x, i, size=size: f(x, i, 5, bucket_size=size))(X, IDS)
        np.testing.assert_allclose(out, expected(name, X, 5), 1e-6)
    small = (3 * X).astype(np.int8)
    extremes = {"segment_max": -128, "segment_min": 127}
    out = f(small, IDS, 5)
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, expected(name, small, 5, extremes.get(name)))


def test_modes():
    last = ops.segment_sum(X, IDS, 4, mode="clip")[3]
    np.testing.assert_allclose(last, X[[1, 5, 6]].sum(0), 1e-5)
    assert ops.segment_sum(X[:, 0], IDS, 2).shape == (2,)
    assert ops.segment_sum(X, IDS, 0).shape == (0, 2)
    assert ops.segment_max(jnp.array([True, False]), jnp.array([2, 0])).tolist() == [
        False, False, True]


def test_derivatives():
    slope = mjax.grad(lambda x: (ops.segment_sum(x, IDS, 5) ** 2).sum())(X)
    sums = expected("segment_sum", X, 5)
    rows = [2 * sums[i] if 0 <= i < 5 else np.zeros(2) for i in IDS]
    np.testing.assert_allclose(slope, rows, 1e-5)


def test_vmap():
    out = mjax.vmap(lambda x: ops.segment_sum(x, IDS, 5), 1, 1)(X)
    np.testing.assert_allclose(out, expected("segment_sum", X, 5), 1e-6)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: ops.segment_sum([1.0], IDS), TypeError, "segment_sum requires ndarray"),
    (lambda: ops.segment_sum(X, IDS, -1), ValueError, "num_segments must not be negative, got -1"),
    (lambda: ops.segment_sum(X, IDS, 2.5), TypeError, "num_segments"),
    (lambda: mjax.jit(ops.segment_sum)(X, IDS), mjax.errors.ConcretizationTypeError,
     "Give num_segments=, which is static."),
    (lambda: ops.segment_max(X, IDS[:3], 4), ValueError, "segment_max: segment_ids must have one "
     "index for each row of data, shape (7,) for data of shape (7, 2); got (3,)"),
    (lambda: ops.segment_sum(X[:6].reshape(2, 3, 2), IDS[:6].reshape(2, 3), 4), ValueError,
     "Flatten several leading axes"),
    (lambda: ops.segment_prod(X, 1, 4), ValueError, "segment_prod: segment_ids must have one"),
    (lambda: ops.segment_min(X, X[:, 0], 4), TypeError,
     "segment_min: segment_ids must be of an integer dtype, got float32[7]"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
