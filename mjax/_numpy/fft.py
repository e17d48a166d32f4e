"""Discrete Fourier transforms of `numpy.fft`."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.fft import MOST_AXES, FftType
from mjax._engine.primitives.fft import fft as _transform
from mjax._engine.primitives.shapes import array_of, transpose
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._numpy.arithmetic import divide
from mjax._numpy.core import (
    cast,
    check_array,
    concrete_int,
    dtype_argument,
    promote_dtypes_inexact,
    shape_of,
)
from mjax._numpy.creation import asarray, on_device
from mjax._numpy.fused import fused
from mjax._numpy.reordering import roll

_FFT, _IFFT, _RFFT, _IRFFT = FftType

# ---- the common part -------------------------------------------------------------------


def scale(norm: str | None, swapped: bool = False) -> str:
    """The canonical name of a norm; that of the inverse transform if `swapped`."""
    if norm is None:
        norm = "backward"
    if norm not in ("backward", "ortho", "forward"):
        msg = f'invalid norm {norm!r}: it must be "backward", "ortho" or "forward".'
        raise ValueError(msg)
    return {"backward": "forward", "forward": "backward"}.get(norm, norm) if swapped else norm


def _scaled(x: Any, kind: FftType, count: int, norm: str) -> Any:
    """The transform, scaled from XLA's norm ("backward") to the requested one."""
    inverse = kind in (_IFFT, _IRFFT)
    power = {"backward": 0.0, "ortho": -0.5, "forward": -1.0}[norm] + inverse * {
        "backward": 0.0, "ortho": 1.0, "forward": 2.0}[norm]
    if norm == "backward" or not count:
        return x
    return lax.mul(x, constant_like(x, count ** power))


def fitted(x: Any, axis: int, size: int) -> Any:
    """Truncates, or pads with zeros at the end, to a size along an axis."""
    have = shape_of(x)[axis]
    if have > size:
        return slice_in_dim(x, 0, size, axis=axis)
    if have < size:
        config = [(0, 0, 0)] * typeof(x).ndim
        config[axis] = (0, size - have, 0)
        return pad(x, constant_like(x, 0), config)
    return x


def sizes_argument(name: str, s: Any) -> tuple[int, ...] | None:
    if s is None:
        return None
    sizes = tuple([concrete_int(n, f"{name}: a size") for n in s])
    if any(n <= 0 for n in sizes):
        msg = f"{name}: sizes must be positive, got {s}."
        raise ValueError(msg)
    return sizes


def along(name: str, kind: FftType, a: Any, s: tuple[int, ...] | None, axes: tuple[int, ...],
           norm: str) -> Any:
    """The transform along some axes, which are canonical and distinct."""
    if not axes:
        return _transform(a, kind, ())
    shape = shape_of(a)
    if s is None:
        s = tuple([shape[i] for i in axes])
        if kind is _IRFFT:
            s = (*s[:-1], max(0, 2 * (s[-1] - 1)))
    if kind is _RFFT and dtypes.is_complex(typeof(a).dtype):
        other = name.replace("h", "").removeprefix("r")
        msg = (f"{name}: the array must be real, got {typeof(a)}; take its real part, or use "
               f"{other}.")
        raise ValueError(msg)
    if kind is _RFFT and not s[-1]:
        msg = f"{name}: there is nothing to transform along axis {axes[-1]} of shape {shape}."
        raise ValueError(msg)
    for axis, size in zip(axes, s, strict=True):
        a = fitted(a, axis, size // 2 + 1 if kind is _IRFFT and axis == axes[-1] else size)
    others = [i for i in range(len(shape)) if i not in axes]
    order = (*others, *axes)
    out = _over_last(transpose(a, order), kind, s)
    out = transpose(out, [order.index(i) for i in range(len(shape))])
    return _scaled(out, kind, math.prod(s), norm)


def _over_last(a: Any, kind: FftType, s: tuple[int, ...]) -> Any:
    """The transform over the last axes, as many at once as XLA allows."""
    if len(s) <= MOST_AXES:
        return _transform(a, kind, s)
    first, last = s[:-MOST_AXES], s[-MOST_AXES:]
    complex_kind = {_RFFT: _FFT, _IRFFT: _IFFT}.get(kind, kind)

    def over_first(x: Any) -> Any:
        rank, count = typeof(x).ndim, len(s)
        forth = (*range(rank - count), *range(rank - MOST_AXES, rank),
                 *range(rank - count, rank - MOST_AXES))
        back = [forth.index(i) for i in range(rank)]
        return transpose(_over_last(transpose(x, forth), complex_kind, first), back)

    # Real transforms halve the spectrum along the last axis, so they include it.
    if kind is _IRFFT:
        return _transform(over_first(a), kind, last)
    return over_first(_transform(a, kind, last))


def _one(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: str) -> Any:
    if isinstance(axis, (tuple, list)):
        msg = (f"{name} does not support multiple axes, got axis={axis}; transform along several "
               f"by {name}n.")
        raise ValueError(msg)
    axes = canonicalize_axes((axis,), typeof(a).ndim)
    return along(name, kind, a, sizes_argument(name, None if n is None else (n,)), axes, norm)


#: Inserts common parts into the functions' docstrings.
documents = documented(
    a="a: array; integers are converted to floats.",
    real="a: real array; integers are converted to floats.",
    n=("n: how many elements are transformed: the axis is cut, or filled with zeros, to this\n"
       "  size; by default all."),
    n_half=("n: the size of the result along the axis; by default `2 * (size - 1)`. The axis is\n"
            "  cut, or padded with zeros, to `n // 2 + 1` elements."),
    axis="axis: the axis; the last by default.",
    s="s: sizes to which the axes are cut, or padded with zeros; by default their own.",
    s_half=("s: sizes of the result along the axes; by default those of `a`, and\n"
            "  `2 * (size - 1)` along the last of them."),
    axes="axes: the axes, distinct; by default the last `len(s)`, or all.",
    two="axes: the two axes.",
    norm=('norm: `"backward"`: inverse transforms are divided by the number of elements, n;\n'
          '  `"forward"`: the others are; `"ortho"`: both are divided by `sqrt(n)`.'),
    raises=("ValueError: an unknown norm, sizes that are not positive, axes out of range or\n"
            "  repeated."),
    raises_real=("ValueError: an unknown norm, sizes that are not positive, axes out of range or\n"
                 "  repeated, complex numbers, floats of 16 bits."),
)

# ---- along one axis --------------------------------------------------------------------


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Discrete Fourier transform along one axis.

    Args:
      [a]
      [n]
      [axis]
      [norm]

    Returns:
      A complex array of the shape of `a`, with `n` elements along the axis.

    Raises:
      [raises]

    Source: `numpy.fft.fft`.

    Example:
      >>> jnp.fft.fft(jnp.array([1.0, 0.0, 0.0, 0.0]))
      Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("fft", _FFT, a, n, axis, scale(norm))


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `fft`.

    Args:
      [a]
      [n]
      [axis]
      [norm]

    Returns:
      A complex array of the shape of `a`, with `n` elements along the axis.

    Raises:
      [raises]

    Source: `numpy.fft.ifft`.

    Example:
      >>> jnp.fft.ifft(jnp.array([1.0, 1.0, 1.0, 1.0]))
      Array([1.+0.j, 0.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """
    return _one("ifft", _IFFT, a, n, axis, scale(norm))


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Fourier transform of real numbers along one axis, without the redundant half.

    Args:
      [real]
      [n]
      [axis]
      [norm]

    Returns:
      A complex array with `n // 2 + 1` elements along the axis.

    Raises:
      [raises_real]

    Source: `numpy.fft.rfft`.

    Example:
      >>> jnp.fft.rfft(jnp.array([1.0, 0.0, 0.0, 0.0]))
      Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("rfft", _RFFT, a, n, axis, scale(norm))


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `rfft`: real numbers from half of their spectrum.

    Args:
      [a]
      [n_half]
      [axis]
      [norm]

    Returns:
      A real array with `n` elements along the axis.

    Raises:
      [raises]

    Source: `numpy.fft.irfft`.

    Example:
      >>> jnp.fft.irfft(jnp.array([1.0, 1.0, 1.0]))
      Array([1., 0., 0., 0.], dtype=float32)
    """
    return _one("irfft", _IRFFT, a, n, axis, scale(norm))


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Fourier transform of a signal with Hermitian symmetry, which is real.

    Args:
      [a]
      [n_half]
      [axis]
      [norm]

    Returns:
      A real array with `n` elements along the axis.

    Raises:
      [raises]

    Source: `numpy.fft.hfft`.

    Example:
      >>> jnp.fft.hfft(jnp.array([1.0, 0.0, 0.0]))
      Array([1., 1., 1., 1.], dtype=float32)
    """
    x, = promote_dtypes_inexact(a)
    if dtypes.is_complex(typeof(x).dtype):
        x = lax.conj(x)
    return _one("hfft", _IRFFT, x, n, axis, scale(norm, swapped=True))


@fused(values=("a",), static_argnames=("n", "axis", "norm"))
@documents
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """Inverse of `hfft`: half of a signal with Hermitian symmetry from its real spectrum.

    Args:
      [real]
      [n]
      [axis]
      [norm]

    Returns:
      A complex array with `n // 2 + 1` elements along the axis.

    Raises:
      [raises_real]

    Source: `numpy.fft.ihfft`.

    Example:
      >>> jnp.fft.ihfft(jnp.array([1.0, 1.0, 1.0, 1.0]))
      Array([1.-0.j, 0.-0.j, 0.-0.j], dtype=complex64)
    """
    return lax.conj(_one("ihfft", _RFFT, a, n, axis, scale(norm, swapped=True)))


# ---- frequencies and their order -------------------------------------------------------


def _frequencies(name: str, steps: Any, n: int, d: Any, dtype: Any, device: Any) -> Any:
    if isinstance(d, (tuple, list)):
        msg = f"{name}: the spacing d must be a single number, got {d}."
        raise ValueError(msg)
    if dtypes.is_complex(typeof(check_array(name, d, "d")).dtype):
        msg = f"{name}: the spacing d must be a real number, got {d!r}."
        raise LazyArgumentError(msg)
    asked = dtype_argument(dtype, name) or dtypes.dtype_of_python(float)
    steps = asarray(steps.astype(asked))
    return on_device(divide(steps, cast(d * n, inexact_dtype(asked))), device)


@boundary
def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the elements of a discrete Fourier transform, in cycles per unit of `d`.

    Args:
      n: the number of elements.
      d: distance of two samples.
      dtype: dtype of the frequencies; the default float by default.
      device: the device to put them on.

    Returns:
      An array of shape `(n,)`: frequencies from 0 up, then the negative ones.

    Raises:
      TypeError: `n` is not an integer, or `d` is complex.
      ValueError: `d` is a sequence.

    Source: `numpy.fft.fftfreq`.

    Example:
      >>> jnp.fft.fftfreq(4)
      Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    n = concrete_int(n, "fftfreq: n")
    steps = np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return _frequencies("fftfreq", steps, n, d, dtype, device)


@boundary
def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """Frequencies of the elements of `rfft`, in cycles per unit of `d`.

    Args:
      n: the number of elements of the real signal.
      d: distance of two samples.
      dtype: dtype of the frequencies; the default float by default.
      device: the device to put them on.

    Returns:
      An array of shape `(n // 2 + 1,)`.

    Raises:
      TypeError: `n` is not an integer, or `d` is complex.
      ValueError: `d` is a sequence.

    Source: `numpy.fft.rfftfreq`.

    Example:
      >>> jnp.fft.rfftfreq(4)
      Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = concrete_int(n, "rfftfreq: n")
    return _frequencies("rfftfreq", np.arange(n // 2 + 1), n, d, dtype, device)


def _shifted(x: Any, axes: Any, sign: int) -> Any:
    x = array_of(x)
    shape = shape_of(x)
    if isinstance(axes, (tuple, list)):  # repeated axes are shifted repeatedly
        chosen = tuple([canonicalize_axis(i, len(shape)) for i in axes])
    else:
        chosen = canonicalize_axes(axes, len(shape))
    # Forward by half the size rounded down, back by the rest.
    steps = [sign * (shape[i] // 2) for i in chosen]
    return roll(x, tuple(map(operator.index, steps)), chosen) if chosen else x


@fused(values=("x",), static_argnames=("axes",))
def fftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Moves the frequency 0 from the start of each axis to its middle.

    Args:
      x: array.
      axes: the axes; all by default.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: an axis is out of range.

    Source: `numpy.fft.fftshift`.

    Example:
      >>> jnp.fft.fftshift(jnp.fft.fftfreq(4))
      Array([-0.5 , -0.25,  0.  ,  0.25], dtype=float32)
    """
    return _shifted(x, axes, 1)


@fused(values=("x",), static_argnames=("axes",))
def ifftshift(x: Any, axes: int | Sequence[int] | None = None) -> Any:
    """Inverse of `fftshift`, for axes of odd size too.

    Args:
      x: array.
      axes: the axes; all by default.

    Returns:
      An array of the shape and dtype of `x`.

    Raises:
      ValueError: an axis is out of range.

    Source: `numpy.fft.ifftshift`.

    Example:
      >>> jnp.fft.ifftshift(jnp.array([-1, 0, 1]))
      Array([ 0,  1, -1], dtype=int32)
    """
    return _shifted(x, axes, -1)
