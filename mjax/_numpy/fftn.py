"""Discrete Fourier transforms along two or more axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.fft import FftType
from mjax._numpy.fft import along, documents, scale, sizes_argument
from mjax._numpy.fused import fused

_FFT, _IFFT, _RFFT, _IRFFT = FftType


def _several(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    norm, sizes, ndim = scale(norm), sizes_argument(name, s), typeof(a).ndim
    if axes is None and sizes is not None and len(sizes) > ndim:
        msg = (f"{name}: s={sizes} has more sizes than the array of shape {typeof(a).shape} has "
               "axes.")
        raise ValueError(msg)
    if axes is None:
        axes = range(ndim) if sizes is None else range(ndim - len(sizes), ndim)
    axes = tuple(axes)
    if sizes is not None and len(sizes) != len(axes):
        msg = f"{name}: the numbers of sizes s={sizes} and of axes={axes} must be equal."
        raise ValueError(msg)
    canonical = tuple([i for axis in axes for i in canonicalize_axes((axis,), ndim)])
    if len(set(canonical)) != len(canonical):
        msg = f"{name} does not support repeated axes, got axes={axes}."
        raise ValueError(msg)
    return along(name, kind, a, sizes, canonical, norm)


def _two(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    if len(axes) != 2:
        msg = f"{name} transforms along 2 axes, got axes={tuple(axes)}."
        raise ValueError(msg)
    return _several(name, kind, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def fft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
         norm: str | None = None) -> Any:
    """Discrete Fourier transform along two axes.

    Args:
      [a]
      [s]
      [two]
      [norm]

    Returns:
      A complex array of the shape of `a`, with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.fft2`.

    Example:
      >>> jnp.fft.fft2(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _two("fft2", _FFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def ifft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
          norm: str | None = None) -> Any:
    """Inverse of `fft2`.

    Args:
      [a]
      [s]
      [two]
      [norm]

    Returns:
      A complex array of the shape of `a`, with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.ifft2`.

    Example:
      >>> jnp.fft.ifft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
      Array([[1.+0.j, 1.+0.j],
             [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _two("ifft2", _IFFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def rfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
          norm: str | None = None) -> Any:
    """Fourier transform of real numbers along two axes, without the redundant half.

    Args:
      [real]
      [s]
      [two]
      [norm]

    Returns:
      A complex array; the last of the axes has `s[-1] // 2 + 1` elements.

    Raises:
      [raises_real]

    Source: `numpy.fft.rfft2`.

    Example:
      >>> jnp.fft.rfft2(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _two("rfft2", _RFFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def irfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
           norm: str | None = None) -> Any:
    """Inverse of `rfft2`.

    Args:
      [a]
      [s_half]
      [two]
      [norm]

    Returns:
      A real array with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.irfft2`.

    Example:
      >>> jnp.fft.irfft2(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """
    return _two("irfft2", _IRFFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def fftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Any:
    """Discrete Fourier transform along several axes.

    Args:
      [a]
      [s]
      [axes]
      [norm]

    Returns:
      A complex array of the shape of `a`, with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.fftn`.

    Example:
      >>> jnp.fft.fftn(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _several("fftn", _FFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def ifftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Any:
    """Inverse of `fftn`.

    Args:
      [a]
      [s]
      [axes]
      [norm]

    Returns:
      A complex array of the shape of `a`, with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.ifftn`.

    Example:
      >>> jnp.fft.ifftn(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
      Array([[1.+0.j, 1.+0.j],
             [1.+0.j, 1.+0.j]], dtype=complex64)
    """
    return _several("ifftn", _IFFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def rfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Any:
    """Fourier transform of real numbers along several axes, without the redundant half.

    Args:
      [real]
      [s]
      [axes]
      [norm]

    Returns:
      A complex array; the last of the axes has `s[-1] // 2 + 1` elements.

    Raises:
      [raises_real]

    Source: `numpy.fft.rfftn`.

    Example:
      >>> jnp.fft.rfftn(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _several("rfftn", _RFFT, a, s, axes, norm)


@fused(values=("a",), static_argnames=("s", "axes", "norm"))
@documents
def irfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
           norm: str | None = None) -> Any:
    """Inverse of `rfftn`.

    Args:
      [a]
      [s_half]
      [axes]
      [norm]

    Returns:
      A real array with the sizes `s` along the axes.

    Raises:
      [raises]

    Source: `numpy.fft.irfftn`.

    Example:
      >>> jnp.fft.irfftn(jnp.array([[4.0, 0.0], [0.0, 0.0]]))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """
    return _several("irfftn", _IRFFT, a, s, axes, norm)
