"""Discrete Fourier transforms: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
X, V = [rng.normal(size=s).astype(np.float32) for s in ((3, 4), (5,))]
C = (X + 1j * X[::-1]).astype(np.complex64)
Q = rng.normal(size=(2, 1, 3, 2, 2)).astype(np.float32)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
REAL = ("rfft", "ihfft", "rfft2", "rfftn")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")


def operand(name: str, real: Any, other: Any) -> Any:
    return real if name in REAL else other


ROWS = [
    *[call(f"fft.{name}", operand(name, X, C), **kwargs) for name in ONE for kwargs in (
        {}, {"n": 3}, {"n": 7}, {"n": 1}, {"axis": 0}, {"norm": "ortho"},
        {"n": 6, "axis": -2, "norm": "forward"})],
    *[call(f"fft.{name}", V) for name in ONE],
    *[call(f"fft.{name}", operand(name, X, C), **kwargs)
      for name in TWO
      for kwargs in ({}, {"s": (4, 2)}, {"axes": (1, 0)}, {"norm": "ortho"})],
    *[call(f"fft.{name}", operand(name, Q, Q * (1 + 2j)), **kwargs) for name in MANY for kwargs in (
        {"axes": (2, 3)}, {"s": (2, 3), "axes": (4, 0), "norm": "forward"},
        {"axes": (1, 0, 2, 4)}, {"norm": "ortho", "s": (1, 2, 2, 3, 4), "axes": range(5)})],
    *[call(f"fft.{name}", n, d, static=True) for name in ("fftfreq", "rfftfreq")
      for n in (1, 4, 5) for d in (1.0, 0.25)],
    *[call(f"fft.{name}", x, **kwargs) for name in ("fftshift", "ifftshift")
      for x in (V, X, np.arange(6))
      for kwargs in ({}, {"axes": 0}, {"axes": (-1,)}, {"axes": (0, 0)})],
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


def test_all_transforms_in_64_bits() -> None:
    with mjax.enable_x64(True):
        for name in ONE:
            x = operand(name, X, C).astype(operand(name, np.float64, np.complex128))
            out = getattr(jnp.fft, name)(x)
            expected = getattr(np.fft, name)(x)
            assert out.dtype == expected.dtype
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_integers_and_half_floats() -> None:
    for dtype in (np.bool_, np.int8, np.uint32, np.float16):
        out = jnp.fft.fft(np.ones(3, dtype))
        assert out.dtype == np.complex64
        np.testing.assert_allclose(out, [3, 0, 0], atol=1e-6)


def test_frequencies_in_a_dtype() -> None:
    assert jnp.fft.fftfreq(4, dtype=np.float16).dtype == np.float16
    assert jnp.fft.rfftfreq(4, dtype=np.complex64).dtype == np.complex64
    assert jnp.fft.rfftfreq(4, dtype=np.int32).dtype == np.float32
    device = mjax.devices()[0]
    assert jnp.fft.fftfreq(4, device=device).committed
    np.testing.assert_allclose(mjax.jit(lambda d: jnp.fft.fftfreq(4, d))(0.5), [0, 0.5, -1, -0.5])


def test_under_vmap_and_grad() -> None:
    np.testing.assert_allclose(mjax.vmap(jnp.fft.rfft, 1)(X), np.fft.rfft(X.T), rtol=1e-5,
                               atol=1e-5)

    def power(x: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.fft.fft(x)) ** 2)

    # Parseval's theorem: the power is 5 times the sum of squares.
    np.testing.assert_allclose(mjax.grad(power)(V), 10 * V, rtol=1e-5)
    np.testing.assert_allclose(mjax.hessian(power)(V), 10 * np.eye(5), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: jnp.fft.fft(X, norm="x"), ValueError, "invalid norm 'x'"),
    (lambda: jnp.fft.fft(X, n=0), ValueError, "fft: sizes must be positive, got (0,)"),
    (lambda: jnp.fft.fft(X, n=2.5), TypeError, "fft: a size must be an integer, got 2.5"),
    (lambda: jnp.fft.fft(X, axis=2), ValueError, "axis 2 is out of bounds"),
    (lambda: jnp.fft.fft(X, axis=(0, 1)), ValueError, "transform along several by fftn"),
    (lambda: jnp.fft.fft(1.0), ValueError, "out of bounds for an array of dimension 0"),
    (lambda: jnp.fft.fft([1.0]), TypeError, "mjax.numpy.asarray"),
    (lambda: jnp.fft.rfft(C), ValueError, "rfft: the array must be real, got complex"),
    (lambda: jnp.fft.rfftn(C), ValueError, "take its real part, or use fftn."),
    (lambda: jnp.fft.ihfft(C), ValueError, "take its real part, or use ifft."),
    (lambda: jnp.fft.fftn(X[0], s=(1, 2)), ValueError,
     "fftn: s=(1, 2) has more sizes than the array of shape"),
    (lambda: jnp.fft.rfft(np.zeros((2, 0))), ValueError, "rfft: there is nothing to transform"),
    (lambda: jnp.fft.fft2(X, axes=(0,)), ValueError, "fft2 transforms along 2 axes, got axes=(0,)"),
    (lambda: jnp.fft.fftn(X, axes=(0, -2)), ValueError, "repeated axes, got axes=(0, -2)"),
    (lambda: jnp.fft.fftn(X, s=(1, 2), axes=(0,)), ValueError, "must be equal"),
    (lambda: jnp.fft.fftfreq(4, d=[1.0]), ValueError, "fftfreq: the spacing d must be a single"),
    (lambda: jnp.fft.rfftfreq(4, d=1j), TypeError, "rfftfreq: the spacing d must be a real num"),
    (lambda: jnp.fft.rfftfreq(4.5), TypeError, "rfftfreq: n must be an integer"),
    (lambda: jnp.fft.fftshift(X, axes=2), ValueError, "axis 2 is out of bounds"),
    (lambda: mjax.jit(lambda n: jnp.fft.fft(X, n=n))(3), mjax.errors.TracerIntegerConversionError,
     "static"),
])
def test_refusals(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        make()
