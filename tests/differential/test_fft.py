"""Discrete Fourier transforms, on both libraries."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, assert_same_equations

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4)).astype(np.float32)
Q = rng.normal(size=(2, 1, 3, 2)).astype(np.float32)
REAL = ("rfft", "ihfft", "rfft2", "rfftn")
OTHER = ("fft", "ifft", "irfft", "hfft", "fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn")


def operand(name):
    return X if name in REAL else (X + 1j * X[::-1]).astype(np.complex64)


@pytest.mark.parametrize("name", [*REAL, *OTHER])
def test_transforms(name):
    def transform(m, x):
        return getattr(m.numpy.fft, name)(x)

    assert_agree(transform, operand(name))
    if name != "ihfft":  # jax scales after the conjugation
        assert_same_equations(transform, operand(name))
    assert_agree(lambda m, x: m.jvp(lambda x: transform(m, x), (x,), (x,)), operand(name))

    def pullback(m, x):
        out, vjp = m.vjp(lambda x: transform(m, x), x)
        return vjp(out)

    assert_agree(pullback, operand(name))
    assert_agree(lambda m, x: m.vmap(lambda x: transform(m, x), in_axes=2)(x),
                 np.stack([operand(name)] * 2, 2))


@pytest.mark.parametrize("x64", [False, True])
def test_types(x64):
    for name, dtype in itertools.product([*REAL, *OTHER], (
            "bool", "int8", "uint32", "int64", "float16", "float32", "float64")):
        if name in REAL and dtype == "float16":
            continue
        with mjax.enable_x64(x64):
            assert_agree(lambda m, x, name=name, x64=x64: _under(m, name, x, x64), X.astype(dtype))


def _under(m, name, x, x64):
    with m.enable_x64(x64):
        return getattr(m.numpy.fft, name)(x)


def test_more_axes_than_xla_transforms():
    for name in ("fftn", "ifftn", "rfftn", "irfftn"):
        assert_agree(lambda m, x, name=name: getattr(m.numpy.fft, name)(x, norm="ortho"), Q)
        assert_agree(lambda m, x, name=name: getattr(m.numpy.fft, name)(x, axes=(3, 1, 2, 0)), Q)


def test_frequencies_and_shifts():
    for n, d in itertools.product((1, 4, 5), (1.0, 0.1, np.float32(2), 3)):
        for dtype in (None, "float16", ml_dtypes.bfloat16, "complex64"):
            assert_agree(lambda m, n=n, d=d, dtype=dtype: (
                m.numpy.fft.fftfreq(n, d, dtype=dtype), m.numpy.fft.rfftfreq(n, d, dtype=dtype)),
                tolerance=1e-2 if dtype else 2e-5)
    for axes in (None, 0, -1, (0, 1), ()):
        assert_agree(lambda m, x, axes=axes: (
            m.numpy.fft.fftshift(x, axes), m.numpy.fft.ifftshift(x, axes)), X)
