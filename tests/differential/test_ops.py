"""Reductions of segments, on both libraries."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.differential.compare import assert_agree

rng = np.random.default_rng(0)
X = rng.normal(size=(6, 2)).astype(np.float32)
IDS = np.array([0, 2, 1, 0, -1, 7], np.int32)
NAMES = ("segment_sum", "segment_prod", "segment_max", "segment_min")


@pytest.mark.parametrize("name", NAMES)
def test_segments(name):
    f = lambda m, x, **kw: getattr(m.ops, name)(x, IDS, **kw)
    assert_agree(f, X)
    for mode, size in itertools.product((None, "clip", "drop"), (None, 4)):
        assert_agree(lambda m, x, mode=mode, size=size: f(
            m, x, num_segments=4, mode=mode, bucket_size=size), X)
    assert_agree(lambda m, x: getattr(m.ops, name)(x, np.sort(IDS)[1:3], 3, True, True), X[:2])
    for dtype in ("int8", "uint8", "bool", ml_dtypes.bfloat16, "complex64"):
        if dtype != ("bool" if name in NAMES[:2] else "complex64"):
            assert_agree(lambda m, x: f(m, x, num_segments=4), (3 * X).astype(dtype))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_of_segments(name):
    f = lambda m: lambda x: getattr(m.ops, name)(x, IDS[:3], 4, unique_indices=True)
    assert_agree(lambda m, x: m.jvp(f(m), (x,), (x,)), X[:3])
    assert_agree(lambda m, x: m.vjp(f(m), x)[1](np.ones((4, 2), np.float32)), X[:3])
    assert_agree(lambda m, x: m.vmap(f(m), 1)(x), X[:3])
