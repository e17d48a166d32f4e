"""Spectra of signals: short-time Fourier transforms, time-averaged periodograms."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary as _boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.shapes import array_of, reduce_sum
from mjax._numpy.core import (
    broadcast_shapes,
    check_array,
    check_arrays,
    concrete_int,
    promote_dtypes_inexact,
    shape_of,
)
from mjax._numpy.creation import asarray, zeros
from mjax._numpy.fft import fft, fftfreq, ifft, irfft, rfft, rfftfreq
from mjax._numpy.fused import fused
from mjax._numpy.padding import pad
from mjax._numpy.quantiles import median
from mjax._numpy.selecting import where
from mjax._numpy.shapes import moveaxis, reshape, swapaxes
from mjax._numpy.statistics import mean
from mjax._numpy.taking import take
from mjax._scipy.signal.detrending import detrend as _detrend

_documented = documented(
    x="x: signals along an axis; integers are converted to floats.",
    fs="fs: the sampling frequency.",
    window=("window: the weights of a segment: a vector, or an argument of\n"
            '  `scipy.signal.get_window`, as `"hann"` or `("kaiser", 4.0)`.'),
    segments=("nperseg: the number of samples in a segment; by default those of the window,\n"
              "  or 256, or all for `csd` and `welch`.\n"
              "noverlap: the number of samples that neighbours share; by default half of them.\n"
              "nfft: the length of the transform, with zeros appended; by default `nperseg`."),
    detrend=('detrend: how the trend of each segment is removed: `"constant"` or `"linear"`;\n'
             "  a function of an array with segments along its last axis; or False."),
    onesided="return_onesided: whether to return only non-negative frequencies of real signals.",
    axis="axis: the axis of time.",
    average='average: how segments are averaged: `"mean"` or `"median"`.',
    scaling=('scaling: `"density"`, power per frequency, or `"spectrum"`, power.'),
    raises=("ValueError: the segments do not fit the signal or each other, or a name is unknown.\n"
            "TypeError: a signal is not an array, or a size is not an integer."),
)

# ---- windows and segments --------------------------------------------------------------


def named_window(window: Any, size: int) -> np.ndarray[Any, Any]:
    """A periodic window of SciPy's, as a constant."""
    if window == "hann":
        return np.sin(np.pi * np.arange(size) / size) ** 2 if size > 1 else np.ones(1)
    windows = importlib.import_module("scipy.signal.windows")
    return np.asarray(windows.get_window(window, size))


def _window(name: str, window: Any, nperseg: int | None, size: int, dtype: Any
            ) -> tuple[Any, int]:
    """The weights and the number of samples of a segment.

    The weights of a named window are None: the program computes them.
    """
    if isinstance(window, (str, tuple)):
        count = size if nperseg is None else nperseg
        if count > size:
            warn(f"{name}: there are only {size} samples, fewer than nperseg={count}: "
                 f"nperseg={size} is taken.")
            count = size
        return None, count
    win = asarray(window)
    if typeof(win).ndim != 1 or shape_of(win)[0] > size:
        msg = (f"{name}: the window must be a vector that is not longer than the signal, of {size} "
               f"samples; got {typeof(win)}.")
        raise ValueError(msg)
    if nperseg not in (None, shape_of(win)[0]):
        msg = (f"{name}: nperseg={nperseg} differs from the number of weights of the window, "
               f"{shape_of(win)[0]}.")
        raise ValueError(msg)
    return convert(win, dtype), shape_of(win)[0]


def _segment_sizes(name: str, nperseg: int, noverlap: Any, nfft: Any) -> tuple[int, int]:
    overlap = nperseg // 2 if noverlap is None else concrete_int(
        noverlap, f"{name}: noverlap", truncate=True)
    count = nperseg if nfft is None else concrete_int(nfft, f"{name}: nfft", truncate=True)
    if count < nperseg:
        msg = f"{name}: nfft={count} must not be smaller than nperseg={nperseg}."
        raise ValueError(msg)
    if overlap >= nperseg:
        msg = f"{name}: noverlap={overlap} must be smaller than nperseg={nperseg}."
        raise ValueError(msg)
    return overlap, count


_EXTENSIONS: dict[str | None, dict[str, str] | None] = {
    "even": {"mode": "reflect"}, "odd": {"mode": "reflect", "reflect_type": "odd"},
    "constant": {"mode": "edge"}, "zeros": {"mode": "constant"}, None: None}


def _extended(name: str, x: Any, boundary: str | None, width: int, before: int) -> Any:
    """Signals extended at both ends, with zeros appended."""
    option, last = _EXTENSIONS[boundary], typeof(x).ndim - 1
    if option is not None and width:
        if boundary == "odd" and width > shape_of(x)[-1] - 1:
            msg = (f"{name}: boundary='odd' needs more than {width} samples, half of a segment; "
                   f"there are {shape_of(x)[-1]}.")
            raise ValueError(msg)
        x = pad(x, [(0, 0)] * last + [(width, width)], **option)
    return pad(x, [(0, 0)] * last + [(0, before)]) if before else x


# ---- spectra of segments ---------------------------------------------------------------


def _check_options(name: str, boundary: Any, scaling: Any, detrend: Any) -> None:
    if boundary not in _EXTENSIONS:
        msg = f"{name}: boundary must be one of {list(_EXTENSIONS)}, got {boundary!r}."
        raise ValueError(msg)
    if scaling not in ("density", "spectrum"):
        msg = f"{name}: scaling must be 'density' or 'spectrum', got {scaling!r}."
        raise ValueError(msg)
    if detrend and not isinstance(detrend, str) and not callable(detrend):
        msg = f"{name}: detrend must be a string, a function or False, got {detrend!r}."
        raise ValueError(msg)


def _spectra(name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any,
             nfft: Any, detrend: Any, return_onesided: bool, scaling: str, axis: Any, mode: str,
             boundary: str | None = None, padded: bool = False, average: str | None = None
             ) -> tuple[Any, Any, Any]:
    """Frequencies, times, and the spectra's product for each segment, or its average."""
    _check_options(name, boundary, scaling, detrend)
    signals = [array_of(v) for v in promote_dtypes_inexact(
        *check_arrays(name, *([x] if y is None else [x, y])))]
    x, y = signals[0], signals[-1]
    dtype, ndim = typeof(x).dtype, typeof(x).ndim
    axis = canonicalize_axis(concrete_int(axis, f"{name}: axis"), ndim)
    outer = _outer_shape(name, x, y, axis)
    if nperseg is not None and concrete_int(nperseg, f"{name}: nperseg", truncate=True) < 1:
        msg = f"{name}: nperseg must be a positive integer, got {nperseg}."
        raise ValueError(msg)
    size = shape_of(x)[axis]
    win, count = _window(name, window, None if nperseg is None else int(nperseg), size, dtype)
    overlap, total = _segment_sizes(name, count, noverlap, nfft) if count else (0, 0)
    if not typeof(x).size or not typeof(y).size:
        shape = (*outer[:axis], min(size, shape_of(y)[axis]), *outer[axis:])
        real = dtypes.real_dtype(dtypes.complex_dtype(dtype))
        return zeros(shape, real), zeros(shape, real), zeros(shape, dtypes.complex_dtype(dtype))
    twosided = not return_onesided
    if return_onesided and dtypes.is_complex(dtype):
        warn(f"{name}: the signals are complex: return_onesided=False is taken.")
        twosided = True
    settings = {"sizes": (count, overlap, total), "mode": mode, "boundary": boundary,
                "padded": bool(padded), "scaling": scaling, "twosided": twosided, "axis": axis,
                "detrend": detrend if callable(detrend) else detrend or None, "name": name,
                "window": window if win is None else None, "average": average}
    return _transformed(x, None if len(signals) == 1 else y, fs, win, **settings)


def _outer_shape(name: str, x: Any, y: Any, axis: int) -> tuple[int, ...]:
    """The broadcast shape of the signals without the time axis."""
    own, other = shape_of(x), shape_of(y)
    if len(own) != len(other):
        msg = f"{name}: x and y must have equally many axes, got shapes {own} and {other}."
        raise ValueError(msg)
    return broadcast_shapes(*[s[:axis] + s[axis + 1:] for s in (own, other)])


@fused(static_argnames=("sizes", "mode", "boundary", "padded", "scaling", "twosided", "axis",
                        "detrend", "name", "window", "average"))
def _transformed(x: Any, y: Any, fs: Any, win: Any, sizes: tuple[int, int, int], mode: str,
                 boundary: str | None, padded: bool, scaling: str, twosided: bool, axis: int,
                 detrend: Any, name: str, window: Any, average: str | None
                 ) -> tuple[Any, Any, Any]:
    count, overlap, total = sizes
    step, real = count - overlap, dtypes.real_dtype(typeof(x).dtype)
    if win is None:
        win = array_of(named_window(window, count).astype(real))
    signals = [moveaxis(v, axis, -1) for v in ([x] if y is None else [x, y])]
    longest = max(shape_of(v)[-1] for v in signals)
    size = longest + 2 * (count // 2 if boundary is not None else 0)
    rest = -(size - count) % step % count if padded else 0
    signals = [_extended(name, _extended(name, v, None, 0, longest - shape_of(v)[-1]), boundary,
                         count // 2, rest) for v in signals]
    size = shape_of(signals[0])[-1]
    starts = np.arange(0, size - count + 1, step)
    places = starts[:, None] + np.arange(count)
    spectra = []
    for v in signals:
        v = _weighted(take(v, places, -1, mode="clip"), detrend, win)
        spectra.append(fft(v, total) if twosided else rfft(v, total))
    fs = convert(asarray(fs), real)
    weight = 1 / (fs * reduce_sum(win * win, (0,))) if scaling == "density" else (
        1 / lax.square(reduce_sum(win, (0,))))
    out = (spectra[0] * lax.sqrt(weight) if mode == "stft"
           else _products(spectra, y is None, weight, total, twosided))
    frequencies = (fftfreq if twosided else rfftfreq)(total, dtype=real) * fs
    times = (starts + count / 2).astype(real) / fs
    if boundary is not None:
        times = times - count / 2 / fs
    out = moveaxis(out, -1, axis)
    return frequencies, times, out if average is None else _averaged(name, out, average)


def _products(spectra: list[Any], own: bool, weight: Any, total: int, twosided: bool) -> Any:
    """Power, or cross power of two signals, at each frequency."""
    first, last = spectra[0], spectra[-1]
    # A one-sided spectrum counts negative frequencies, too.
    twice = np.ones(shape_of(first)[-1], typeof(weight).dtype)
    if not twosided:
        twice[1:None if total % 2 else -1] = 2
    power = (lax.square(lax.real(first)) + lax.square(lax.imag(first)) if own
             else lax.conj(first) * last)
    return power * (weight * twice)


def _weighted(segments: Any, detrend: Any, win: Any) -> Any:
    if isinstance(detrend, str):
        segments = _detrend(segments, -1, detrend)
    elif detrend is not None:
        segments = detrend(segments)
    return segments * win


# ---- the functions ---------------------------------------------------------------------


@_boundary
@_documented
def stft(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int = 256,
         noverlap: int | None = None, nfft: int | None = None, detrend: Any = False,
         return_onesided: bool = True, boundary: str | None = "zeros", padded: bool = True,
         axis: int = -1) -> tuple[Any, Any, Any]:
    """Short-time Fourier transform: the spectra of segments of a signal.

    Args:
      [x]
      [fs]
      [window]
      [segments]
      [detrend]
      [onesided]
      boundary: how both ends are extended by half a segment: `"zeros"`, `"constant"`, `"even"`,
        `"odd"`; None: not at all.
      padded: whether to append zeros so that whole segments fill the signal.
      [axis]

    Returns:
      `(f, t, Zxx)`: the frequencies, the times of the segments' centers, and the spectra. The
      spectra are complex, with frequencies in place of `axis` and times on a new last axis.

    Raises:
      [raises]

    Source: `scipy.signal.stft`.

    Example:
      >>> f, t, z = mjax.scipy.signal.stft(jnp.ones(16), nperseg=8)
      >>> z.shape
      (5, 5)
    """
    return _spectra("stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
                    "spectrum", axis, "stft", boundary, padded)


@_boundary
@_documented
def csd(x: Any, y: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
        return_onesided: bool = True, scaling: str = "density", axis: int = -1,
        average: str = "mean") -> tuple[Any, Any]:
    """Cross power spectral density by Welch's method.

    Args:
      [x]
      y: other signals; their other axes broadcast. If None, the result is the power spectral
        density of `x`.
      [fs]
      [window]
      [segments]
      [detrend]
      [onesided]
      [scaling]
      [axis]
      [average]

    Returns:
      `(f, Pxy)`: the frequencies, and an array with these in place of the axis; complex, unless `y`
      is None.

    Raises:
      [raises]

    Source: `scipy.signal.csd`; P. Welch, "The use of the fast Fourier transform for the estimation
    of power spectra", 1967.

    Example:
      >>> f, p = mjax.scipy.signal.csd(jnp.ones(16), jnp.arange(16.0), nperseg=8)
      >>> p.shape
      (5,)
    """
    return _density("csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided,
                    scaling, axis, average)


@_boundary
@_documented
def welch(x: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, detrend: Any = "constant",
          return_onesided: bool = True, scaling: str = "density", axis: int = -1,
          average: str = "mean") -> tuple[Any, Any]:
    """Power spectral density by Welch's method: the mean of segments' periodograms.

    Args:
      [x]
      [fs]
      [window]
      [segments]
      [detrend]
      [onesided]
      [scaling]
      [axis]
      [average]

    Returns:
      `(f, Pxx)`: the frequencies, and a real array with these in place of the axis.

    Raises:
      [raises]

    Source: `scipy.signal.welch`; see `csd`.

    Example:
      >>> f, p = mjax.scipy.signal.welch(jnp.arange(16.0) % 4, nperseg=8)
      >>> int(jnp.argmax(p))
      2
    """
    return _density("welch", x, None, fs, window, nperseg, noverlap, nfft, detrend,
                    return_onesided, scaling, axis, average)


def _density(name: str, x: Any, y: Any, fs: Any, window: Any, nperseg: Any, noverlap: Any,
             nfft: Any, detrend: Any, return_onesided: bool, scaling: str, axis: Any, average: str
             ) -> tuple[Any, Any]:
    frequencies, _, out = _spectra(name, x, y, fs, window, nperseg, noverlap, nfft, detrend,
                                   return_onesided, scaling, axis, "psd", average=average)
    if y is None and dtypes.is_complex(typeof(out).dtype):
        out = lax.real(out)  # the signal is empty
    return frequencies, out


def _averaged(name: str, out: Any, average: str) -> Any:
    count = shape_of(out)[-1]
    if count == 1:
        return out[..., 0]
    if average == "mean":
        return mean(out, -1)
    if average != "median":
        msg = f"{name}: average must be 'mean' or 'median', got {average!r}."
        raise ValueError(msg)
    # Corrects the bias of the median of exponentially distributed numbers.
    even = np.arange(2.0, count, 2)
    bias = float(1 + np.sum(1 / (even + 1) - 1 / even))
    if dtypes.is_complex(typeof(out).dtype):
        return lax.complex(median(lax.real(out), -1), median(lax.imag(out), -1)) / bias
    return median(out, -1) / bias


# ---- the inverse -----------------------------------------------------------------------


@_boundary
@_documented
def istft(Zxx: Any, fs: Any = 1.0, window: Any = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True,
          boundary: bool = True, time_axis: int = -1, freq_axis: int = -2) -> tuple[Any, Any]:
    """Inverse of `stft`, with the same window and overlap.

    Args:
      Zxx: spectra as `stft` returns them.
      [fs]
      [window]
      nperseg: the number of samples in a segment; by default from the number of frequencies.
      noverlap: the number of samples that neighbours share; by default half of them.
      nfft: the length of the transform; by default `nperseg`.
      input_onesided: whether `Zxx` has only non-negative frequencies.
      boundary: whether the signal was extended by half a segment at both ends.
      time_axis: the axis of the segments.
      freq_axis: the axis of the frequencies.

    Returns:
      `(t, x)`: times and signals.

    Raises:
      [raises]

    Source: `scipy.signal.istft`; D. Griffin and J. Lim, "Signal estimation from modified short-time
    Fourier transform", 1984.

    Example:
      >>> z = mjax.scipy.signal.stft(jnp.arange(16.0), nperseg=8)[2]
      >>> t, x = mjax.scipy.signal.istft(z)
      >>> bool(jnp.allclose(x, jnp.arange(16.0), atol=1e-5))
      True
    """
    z = array_of(check_array("istft", Zxx))
    ndim, dtype = typeof(z).ndim, dtypes.complex_dtype(inexact_dtype(typeof(z).dtype))
    if ndim < 2:
        msg = f"istft: Zxx must have an axis of times and one of frequencies, got {typeof(z)}."
        raise ValueError(msg)
    time, frequency = canonicalize_axis(time_axis, ndim), canonicalize_axis(freq_axis, ndim)
    if time == frequency:
        msg = f"istft: time_axis and freq_axis must differ, got {time_axis} and {freq_axis}."
        raise ValueError(msg)
    bins = shape_of(z)[frequency]
    default = 2 * (bins - 1) if input_onesided else bins
    count = default if nperseg is None else concrete_int(nperseg, "istft: nperseg", truncate=True)
    if count < 1:
        msg = f"istft: nperseg must be a positive integer, got {count}."
        raise ValueError(msg)
    if nfft is None:
        nfft_ = default + 1 if input_onesided and count == default + 1 else default
    else:
        nfft_ = concrete_int(nfft, "istft: nfft", truncate=True)
    overlap, total = _segment_sizes("istft", count, noverlap, nfft_)
    out_dtype = dtypes.real_dtype(dtype) if input_onesided else dtype
    win = None
    if not isinstance(window, (str, tuple)):
        win = asarray(window)
        if shape_of(win) != (count,):
            msg = f"istft: the window must be a vector of {count} weights, got {typeof(win)}."
            raise ValueError(msg)
        win = convert(win, out_dtype)
    return _overlapped(z, win, fs, sizes=(count, overlap, total), onesided=bool(input_onesided),
                       boundary=bool(boundary), axes=(time, frequency),
                       window=window if win is None else None)


@fused(static_argnames=("sizes", "onesided", "boundary", "axes", "window"))
def _overlapped(z: Any, win: Any, fs: Any, sizes: tuple[int, int, int], onesided: bool,
                boundary: bool, axes: tuple[int, int], window: Any) -> tuple[Any, Any]:
    (count, overlap, total), (time, frequency) = sizes, axes
    dtype, ndim = dtypes.complex_dtype(inexact_dtype(typeof(z).dtype)), typeof(z).ndim
    real = dtypes.real_dtype(dtype)
    if win is None:
        win = array_of(named_window(window, count).astype(real))
    z = moveaxis(convert(z, dtype), (frequency, time), (-2, -1))
    frames = swapaxes((irfft if onesided else ifft)(z, total, -2)[..., :count, :], -2, -1)
    step = count - overlap
    x = _added(frames * (win * reduce_sum(win, (0,))), step)
    # Normalizes by the sum of squared weights over the segments that contain a sample.
    norm = _added(where(np.ones((shape_of(frames)[-2], 1), bool), win * win, 0), step)
    if boundary and count // 2:
        x, norm = [v[..., count // 2:-(count // 2)] for v in (x, norm)]
    x = x / where(lax.abs(norm) > 1e-10, norm, 1)
    if ndim > 2 and time != ndim - 1:
        x = moveaxis(x, -1, time - (frequency < time))
    times = array_of(np.arange(shape_of(x)[0], dtype=real))
    return times / convert(asarray(fs), real), x


def _added(frames: Any, step: int) -> Any:
    """The sum of segments, each a step behind the one before it."""
    *stack, frame_count, size = shape_of(frames)
    pieces = -(-size // step)
    lead = [(0, 0)] * len(stack)
    x = pad(frames, [*lead, (0, 0), (0, pieces * step - size)])
    x = swapaxes(reshape(x, (*stack, frame_count, pieces, step)), -3, -2)
    # Rows of one element less than before: each begins one place behind the one above.
    width = frame_count + pieces
    x = reshape(pad(x, [*lead, (0, 0), (0, pieces), (0, 0)]), (*stack, pieces * width, step))
    x = reshape(x[..., :pieces * (width - 1), :], (*stack, pieces, width - 1, step))
    x = reshape(reduce_sum(x, (len(stack),)), (*stack, (width - 1) * step))
    return x[..., :step * (frame_count - 1) + size]


__all__ = ["csd", "istft", "named_window", "stft", "welch"]
