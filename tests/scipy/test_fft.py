"""mjax.scipy.fft: against SciPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.fft as sf

import mjax
import mjax.numpy as jnp
from mjax.scipy import fft
from tests.engine.primitives.harness import check_derivatives

rng = np.random.default_rng(0)
X = rng.normal(size=(2, 5, 3)).astype("f4")
NAMES = ("dct", "idct")


@pytest.mark.parametrize("norm", [None, "ortho"])
@pytest.mark.parametrize("name", NAMES)
def test_along_one_axis(name: str, norm: str | None) -> None:
    ours, theirs = getattr(fft, name), getattr(sf, name)
    for kwargs in ({"axis": 1}, {"n": 4}, {"n": 2, "axis": 1}):
        out, expected = ours(X, norm=norm, **kwargs), theirs(X, norm=norm, **kwargs)
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(out, expected, atol=1e-5)
    np.testing.assert_allclose(fft.idct(fft.dct(X, norm=norm), norm=norm), X, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
def test_sizes(size: int) -> None:
    x = rng.normal(size=(2, size)).astype("f4")
    for name in NAMES:
        for norm in (None, "backward", "ortho"):
            np.testing.assert_allclose(getattr(fft, name)(x, norm=norm),
                                       getattr(sf, name)(x, norm=norm), atol=1e-5)


@pytest.mark.parametrize("name", ["dctn", "idctn"])
def test_along_several_axes(name: str) -> None:
    ours, theirs = getattr(fft, name), getattr(sf, name)
    for kwargs in ({}, {"axes": (0, 1)}, {"s": (3, 2)}, {"s": (3,), "axes": (1,), "norm": "ortho"}):
        np.testing.assert_allclose(ours(X, **kwargs), theirs(X, **kwargs), atol=2e-5)


def test_other_dtypes() -> None:
    z = X + 1j * X[::-1]
    out = fft.dct(z)
    assert out.dtype == np.complex64
    np.testing.assert_allclose(out, sf.dct(X) + 1j * sf.dct(X[::-1]), atol=1e-5)
    np.testing.assert_allclose(fft.dct(np.arange(4)), sf.dct(np.arange(4.0)), atol=1e-5)
    with mjax.enable_x64():
        assert fft.idct(np.arange(4)).dtype == np.float64


def test_transformations() -> None:
    np.testing.assert_allclose(mjax.jit(fft.dct)(X), fft.dct(X), atol=1e-5)
    np.testing.assert_allclose(mjax.vmap(fft.dct, 1, 1)(X), fft.dct(X), atol=1e-5)
    # The orthogonal transform's gradient is the inverse transform.
    slope = mjax.grad(lambda x: (fft.dctn(x, norm="ortho") * X[0]).sum())(X[1])
    np.testing.assert_allclose(slope, sf.idctn(X[0], norm="ortho"), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
def test_derivatives(name: str) -> None:
    with mjax.enable_x64():
        for x in (X.astype("f8"), (X + 1j * X[::-1]).astype("c16")):
            check_derivatives(lambda x: (getattr(fft, name)(x),), [x], rng, 2)


ERRORS = [
    (NotImplementedError, "dct: only type 2 is supported, got type=1", lambda: fft.dct(X, 1)),
    (ValueError, 'idct: norm must be None, "backward" or "ortho"', lambda: fft.idct(X, norm="odd")),
    (ValueError, "dct: there is nothing to transform", lambda: fft.dct(X[:0], axis=0)),
    (ValueError, "dctn: s must have at most 3 sizes", lambda: fft.dctn(X, s=(1, 2, 3, 4))),
    (ValueError, "axis 3 is out of", lambda: fft.dct(X, axis=3)),
    (TypeError, "dct requires ndarray", lambda: fft.dct([1.0, 2.0])),
    (TypeError, "dct: a size must be an integer", lambda: fft.dct(X, n=2.5)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


def test_default_dtype() -> None:
    assert fft.dct(jnp.arange(4)).dtype == np.float32
