"""Images in other sizes, on both libraries."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.differential.compare import assert_agree

rng = np.random.default_rng(0)
X = rng.normal(size=(2, 5, 7)).astype(np.float32)
METHODS = ("nearest", "linear", "lanczos3", "lanczos5", "cubic", "cubic-pytorch", "area")


@pytest.mark.parametrize("method", METHODS)
def test_resize(method):
    for shape, antialias in itertools.product(((2, 3, 9), (2, 8, 7)), (True, False)):
        f = lambda m, x, s=shape, a=antialias: m.image.resize(x, s, method, antialias=a)
        assert_agree(f, X)
    power = lambda m: lambda x: (m.image.resize(x, (2, 3, 9), method) ** 2).sum()
    assert_agree(lambda m, x: m.grad(power(m))(x), X, tolerance=1e-4)
    assert_agree(lambda m, x: m.image.resize(x, (2, 5, 7), method), X)


def test_dtypes_and_names():
    for dtype in ("int8", "uint8", "bool", ml_dtypes.bfloat16, "complex64"):
        for method in ("nearest", "trilinear"):
            assert_agree(lambda m, x, method=method: m.image.resize(x, (2, 5, 4), method),
                         X.astype(dtype))
    for name in ("bilinear", "triangle", "bicubic", "tricubic", "bicubic-pytorch"):
        assert_agree(lambda m, x, name=name: m.image.resize(x, (2, 5, 4), name), X)


@pytest.mark.parametrize("method", METHODS[1:])
def test_scale_and_translate(method):
    # No edges of pixels meet, where those of areas have no derivative.
    scale, translation = np.float32([0.7, 1.5]), np.float32([1.25, -0.4])
    for antialias in (True, False):
        if method == "cubic-pytorch" and antialias:
            continue
        f = lambda m, x, s, t, a=antialias: m.image.scale_and_translate(
            x, (2, 6, 9), (1, -1), s, t, method, antialias=a)
        assert_agree(f, X, scale, translation, tolerance=1e-4)
    assert_agree(lambda m, *xs: m.jvp(lambda *xs: f(m, *xs), xs, xs), X, scale, translation,
                 tolerance=1e-3)
