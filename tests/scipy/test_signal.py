"""mjax.scipy.signal: against SciPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.signal as ss

import mjax
import mjax.numpy as jnp
from mjax.scipy import signal
from tests.engine.primitives.harness import check_derivatives

rng = np.random.default_rng(0)


def draw(dtype: str, *shape: int) -> Any:
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype == "c8" else x).astype(dtype)


def close(actual: Any, expected: Any, tolerance: float = 2e-5) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = max(1, np.abs(expected).max(initial=0))
    np.testing.assert_allclose(actual / scale, expected / scale, rtol=0, atol=tolerance)


SWEPT = ["f4", pytest.param("c8", marks=pytest.mark.slow)]
MODES = ("full", "same", "valid")

# ---- convolution -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SWEPT)
@pytest.mark.parametrize("mode", MODES)
def test_matrices(mode: str, dtype: str) -> None:
    for a, b in ((draw(dtype, 5, 6), draw(dtype, 3, 2)), (draw(dtype, 2, 3), draw(dtype, 4, 4))):
        for name in ("convolve2d", "correlate2d", "convolve", "correlate", "fftconvolve"):
            close(getattr(signal, name)(a, b, mode), getattr(ss, name)(a, b, mode))
        for name in ("convolve", "correlate"):
            close(getattr(signal, name)(a, b, mode, method="fft"), getattr(ss, name)(a, b, mode))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("mode", MODES)
def test_any_number_of_axes(mode: str, dtype: str) -> None:
    for first, second in (((5,), (3,)), ((3,), (5,)), ((4,), (4,)), ((3, 4, 5), (2, 2, 2)),
                          ((1, 3), (2, 1)), ((4, 4), (4, 4))):
        a, b = draw(dtype, *first), draw(dtype, *second)
        for name in ("convolve", "correlate"):
            if mode == "valid" and first == (1, 3):
                continue
            for method in ("direct", "fft"):
                if first != (1, 3) or method == "fft":
                    close(getattr(signal, name)(a, b, mode, method),
                          getattr(ss, name)(a, b, mode, method))


def test_chosen_axes() -> None:
    a, b = draw("f4", 3, 6), draw("f4", 3, 2)
    for mode in MODES:
        close(signal.fftconvolve(a, b, mode, axes=1), ss.fftconvolve(a, b, mode, axes=1))
    ints = np.arange(4)
    out = signal.convolve(ints, ints)
    assert out.dtype == np.float32
    close(out, ss.convolve(ints, ints))


# ---- trends ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SWEPT)
def test_detrend(dtype: str) -> None:
    x = draw(dtype, 3, 20, 2)
    for kwargs in ({"axis": 1}, {"axis": 0, "type": "constant"},
                   {"axis": None, "type": "constant"}, {"axis": 1, "bp": [5, 6]}):
        close(signal.detrend(x, **kwargs), ss.detrend(x, **kwargs))
    close(signal.detrend([1, 3, 5, 9]), ss.detrend([1, 3, 5, 9]))


# ---- spectra ---------------------------------------------------------------------------

X = {d: draw(d, 2, 64) for d in ("f4", "c8")}
Y = {d: draw(d, 2, 64) for d in ("f4", "c8")}
OPTIONS: list[dict[str, Any]] = [
    {"nperseg": 16}, {"nperseg": 15, "noverlap": 4}, {"nperseg": 16, "nfft": 32, "fs": 10.0},
    {"nperseg": 8, "window": "hamming"}, {"nperseg": 8, "window": ("kaiser", 4.0)},
    {"window": np.linspace(0.5, 1, 8).astype("f4"), "nperseg": 8},
    {"nperseg": 16, "detrend": "linear"}, {"nperseg": 16, "detrend": False},
    {"nperseg": 16, "return_onesided": False}, {"nperseg": 1, "noverlap": 0},
]
DENSITIES = [*OPTIONS, {"nperseg": 64}, {"nperseg": 16, "scaling": "spectrum"},
             {"nperseg": 16, "average": "median"}]


def _check(name: str, args: Any, options: dict[str, Any]) -> None:
    if args[0].dtype.kind == "c":
        options = {**options, "return_onesided": False}
    ours, theirs = getattr(signal, name)(*args, **options), getattr(ss, name)(*args, **options)
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other, 1e-4)


def test_densities() -> None:
    for options in DENSITIES[:3]:
        _check("welch", (X["f4"],), options)
    _check("csd", (X["f4"], Y["f4"]), DENSITIES[0])
    assert signal.csd(X["f4"], None)[1].dtype == np.float32
    assert signal.csd(X["f4"], X["f4"])[1].dtype == np.complex64


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("number", range(len(DENSITIES)))
def test_densities_with_options(number: int, dtype: str) -> None:
    for axis in (0, 1):
        x, y = [v[dtype] if axis == 1 else v[dtype].T.copy() for v in (X, Y)]
        _check("welch", (x,), {**DENSITIES[number], "axis": axis})
        _check("csd", (x, y), {**DENSITIES[number], "axis": axis})


def test_signals_of_different_lengths() -> None:
    x, y = X["f4"], Y["f4"][:, :40]
    _check("csd", (x, y), {"nperseg": 16})
    _check("csd", (y, x), {"nperseg": 16})
    for out in signal.welch(np.zeros((2, 0), "f4")):
        assert out.shape == (2, 0)


def test_short_time_transforms() -> None:
    for boundary, padded in (("zeros", True), ("odd", False), (None, True)):
        _check("stft", (X["f4"],), {"nperseg": 15, "boundary": boundary, "padded": padded})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("boundary", ["zeros", "even", "odd", "constant", None])
def test_short_time_transforms_with_options(boundary: str | None, dtype: str) -> None:
    for options in OPTIONS:
        for padded in (True, False):
            _check("stft", (X[dtype],), {**options, "boundary": boundary, "padded": padded})


@pytest.mark.parametrize("dtype", SWEPT)
def test_back(dtype: str) -> None:
    onesided = dtype == "f4"
    for options in ({"nperseg": 16}, {"nperseg": 9, "noverlap": 8}):
        z = ss.stft(X[dtype], return_onesided=onesided, **options)[2].astype("c8")
        _, x = signal.istft(z, input_onesided=onesided, **options)
        assert x.dtype == dtype
        close(x[:, :64], X[dtype], 1e-4)
        moved = np.moveaxis(z, 2, 0)
        ours, theirs = [m.istft(moved, fs=4.0, input_onesided=onesided, time_axis=0, freq_axis=2,
                                **options) for m in (signal, ss)]
        for one, other in zip(ours, theirs, strict=True):
            close(one, other, 1e-4)
    options = {"nperseg": 16, "window": "hamming"}
    z = ss.stft(X[dtype], return_onesided=onesided, boundary=None, **options)[2].astype("c8")
    close(signal.istft(z, input_onesided=onesided, boundary=False, **options)[1], X[dtype], 1e-4)


def test_sizes_are_cut_to_integers() -> None:
    x, sizes, cut = X["f4"][0], {"nperseg": 16.0, "noverlap": 4.5, "nfft": 20.9}, (16, 4, 20)
    z = signal.stft(x, **sizes)[2]
    close(z, signal.stft(x, nperseg=cut[0], noverlap=cut[1], nfft=cut[2])[2])
    close(signal.istft(z, **sizes)[1],
          signal.istft(z, nperseg=cut[0], noverlap=cut[1], nfft=cut[2])[1])


def test_transformations() -> None:
    f = lambda x: signal.welch(x, nperseg=16)[1]
    x = X["f4"]
    close(mjax.jit(f)(x), f(x))
    close(mjax.vmap(f)(x), f(x))
    slope = mjax.grad(lambda x: f(x).sum())(x[0])
    # The density is a quadratic form: its derivative in the direction of x is twice its value.
    close((slope * x[0]).sum(), 2 * f(x[0]).sum(), 1e-4)
    g = lambda x: signal.istft(signal.stft(x, nperseg=16, detrend=jnp.positive)[2])[1]
    close(mjax.grad(lambda x: (g(x) * x).sum())(x[0]), 2 * x[0], 1e-4)


@pytest.mark.slow
def test_derivatives() -> None:
    with mjax.enable_x64():
        a, b = rng.normal(size=(4, 5)), rng.normal(size=(2, 3))
        for f in (signal.convolve2d, signal.correlate2d, signal.fftconvolve):
            check_derivatives(lambda *x, f=f: (f(*x),), [a, b], rng, 2)
        check_derivatives(lambda x: (signal.detrend(x),), [a], rng, 2)
        check_derivatives(lambda x: (signal.csd(x, x[::-1], nperseg=8)[1],),
                          [rng.normal(size=32)], rng, 2)


# ---- warnings and errors ---------------------------------------------------------------


def test_warnings() -> None:
    with pytest.warns(UserWarning, match="only 64 samples, fewer than nperseg=256"):
        signal.stft(X["f4"])
    with pytest.warns(UserWarning, match="return_onesided=False is taken"):
        assert signal.welch(X["c8"], nperseg=16)[0].shape == (16,)


A, B = np.ones((3, 4), "f4"), np.ones((2, 2), "f4")
ERRORS = [
    (ValueError, "convolve: the arrays must have as many axes", lambda: signal.convolve(A, A[0])),
    (ValueError, "convolve: mode must be one of", lambda: signal.convolve(A, B, "odd")),
    (ValueError, "convolve: method must be", lambda: signal.convolve(A, B, method="odd")),
    (ValueError, "convolve: empty arrays", lambda: signal.convolve(A, B[:0])),
    (ValueError, "one array must be at least as large", lambda: signal.correlate(A, A.T)),
    (ValueError, "convolve2d: the arrays must have 2 axes", lambda: signal.convolve2d(A[0], B[0])),
    (NotImplementedError, "only boundary='fill'", lambda: signal.correlate2d(A, B, fillvalue=1)),
    (ValueError, "fftconvolve: axes other than (1,)", lambda: signal.fftconvolve(
        A, B, axes=(1,))),
    (TypeError, "convolve requires ndarray", lambda: signal.convolve([1, 2], A)),
    (ValueError, "detrend: type must be", lambda: signal.detrend(A, type="odd")),
    (ValueError, "detrend: breakpoints must be integers from 0 to 4", lambda: signal.detrend(
        A, bp=[5])),
    (TypeError, "detrend: breakpoints must be integers", lambda: signal.detrend(A, bp=[2.0])),
    (NotImplementedError, "detrend: overwrite_data", lambda: signal.detrend(
        A, overwrite_data=True)),
    (ValueError, "stft: boundary must be one of", lambda: signal.stft(A, boundary="odder")),
    (ValueError, "welch: scaling must be", lambda: signal.welch(A, scaling="odd")),
    (ValueError, "welch: nperseg must be a positive", lambda: signal.welch(A, nperseg=0)),
    (ValueError, "welch: nfft=2 must not be smaller", lambda: signal.welch(A, nperseg=4, nfft=2)),
    (ValueError, "welch: noverlap=4 must be smaller", lambda: signal.welch(
        A, nperseg=4, noverlap=4)),
    (ValueError, "welch: average must be", lambda: signal.welch(A, nperseg=2, average="odd")),
    (ValueError, "welch: the window must be a vector", lambda: signal.welch(A, window=A)),
    (ValueError, "differs from the number of weights", lambda: signal.welch(
        A, window=np.ones(2), nperseg=3)),
    (ValueError, "csd: x and y must have equally many axes", lambda: signal.csd(A, A[0])),
    (ValueError, "istft: Zxx must have an axis", lambda: signal.istft(A[0])),
    (ValueError, "istft: time_axis and freq_axis must differ", lambda: signal.istft(
        A, time_axis=0, freq_axis=0)),
    (ValueError, "istft: the window must be a vector of 4 weights", lambda: signal.istft(
        A, window=np.ones(3))),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
