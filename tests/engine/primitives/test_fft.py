"""Discrete Fourier transforms: fft."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
from mjax._engine.primitives.fft import FftType, fft
from tests.engine.primitives.harness import Case, table

COMPLEX, REAL = "c64 c128", "f32 f64"


def row(kind, types, lengths, T):
    """A case; NumPy's function of several axes is the reference."""
    axes = range(-len(lengths), 0)
    function = getattr(np.fft, kind.lower() + "n")
    return Case("fft", lambda x: fft(x, kind, lengths), lambda x: function(x, lengths, axes),
                types, T, linear=[(0,)], label=f"{kind}, {len(lengths)}")


CASES = [
    *[row(kind, types, lengths, COMPLEX) for kind in ("FFT", "IFFT") for types, lengths in (
        ("T[4]; T[2,4]", (4,)), ("T[3,5]", (3, 5)), ("T[2,1,3,2]", (1, 3, 2)))],
    *[row("RFFT", types, lengths, REAL) for types, lengths in (
        ("T[4]; T[2,4]", (4,)), ("T[5]", (5,)), ("T[1]", (1,)), ("T[3,4]", (3, 4)),
        ("T[2,2,3,3]", (2, 3, 3)))],
    *[row("IRFFT", types, lengths, COMPLEX) for types, lengths in (
        ("T[3]; T[2,3]", (4,)), ("T[3]", (5,)), ("T[1]", (1,)), ("T[3,3]", (3, 4)),
        ("T[2,2,3,2]", (2, 3, 3)))],
]


@table(CASES)
def test_fft(check, sample):
    check(sample)


@pytest.mark.parametrize(("kind", "shape", "lengths", "out"), [
    ("FFT", (0,), (0,), (0,)), ("IFFT", (0, 3), (3,), (0, 3)), ("RFFT", (3, 0), (0,), (3, 1)),
    ("RFFT", (0, 4), (4,), (0, 3)), ("IRFFT", (1,), (0,), (0,)), ("IRFFT", (0, 3), (4,), (0, 4))])
def test_sums_of_nothing_are_zero(kind, shape, lengths, out):
    x = np.ones(shape, np.float32 if kind == "RFFT" else np.complex64)
    y, pullback = mjax.vjp(lambda x: fft(x, kind, lengths), x)
    assert y.shape == out and not np.asarray(y).any()
    assert not np.asarray(pullback(y)[0]).any()


def test_kinds_have_names_and_numbers():
    x = np.arange(4, dtype=np.complex64)
    for kind in FftType:
        lengths = (6,) if kind is FftType.IRFFT else (4,)
        operand = x.real if kind is FftType.RFFT else x
        for spelling in (kind, kind.name, kind.name.lower()):
            np.testing.assert_array_equal(fft(operand, spelling, lengths),
                                          fft(operand, kind, lengths))


def test_integers_become_floats():
    assert fft(np.arange(4), "RFFT", (4,)).dtype == np.complex64
    assert fft(np.arange(4), "FFT", ()).dtype == np.complex64


@pytest.mark.parametrize(("args", "error", "text"), [
    ((np.ones(4), "nope", (4,)), ValueError, "'nope'; it is one of FFT, IFFT, RFFT, IRFFT"),
    ((np.ones(4), 0, (4,)), TypeError, "must be an FftType"),
    ((np.ones(4), "FFT", (3,)), ValueError, "sizes (3,) for fft_lengths (3,)"),
    ((np.ones(4), "IRFFT", (4,)), ValueError, "must have sizes (3,)"),
    ((np.ones(4), "FFT", (4, 4)), ValueError, "more axes than the operand"),
    ((np.ones((2, 2, 2, 2)), "FFT", (2, 2, 2, 2)), ValueError, "1 to 3 sizes"),
    ((np.ones(4, complex), "RFFT", (4,)), ValueError, "take its real part"),
    ((np.ones(4, np.float16), "RFFT", (4,)), ValueError, "float32 or float64"),
    ((mjax.numpy.ones(4), "FFT", 4), TypeError, "not iterable"),
])
def test_refusals(args, error, text):
    with pytest.raises(error, match=re.escape(text)):
        fft(*args)


def test_keys_are_refused():
    with pytest.raises(TypeError, match="fft does not accept dtype key"):
        fft(mjax.random.split(mjax.random.key(0), 4), "FFT", (4,))
