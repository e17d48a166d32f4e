"""Convolution and correlation along any number of axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.matrices import conj
from mjax._engine.primitives.convolution import conv_general_dilated
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import (
    array_of,
    expand_dims,
    squeeze,
)
from mjax._engine.primitives.slicing import slice as slice_of
from mjax._numpy.core import check_arrays, promote_dtypes_inexact, shape_of
from mjax._numpy.fftn import fftn, ifftn, irfftn, rfftn
from mjax._numpy.fused import fused

_documented = documented(
    operands="in1: array.\nin2: array of as many axes.",
    matrices="in1: matrix.\nin2: matrix.",
    mode=('mode: the size of the result. `"full"`: wherever the arrays overlap; `"same"`: the\n'
          '  size of `in1`, centered; `"valid"`: where one array lies inside the other.'),
    method='method: `"direct"`, `"fft"` or `"auto"`, which is `"direct"`.',
    precision="precision: as in `lax.conv_general_dilated`.",
    boundary='boundary: must be `"fill"`.\nfillvalue: must be 0.',
    result="Returns:\n  An array of floats or complex numbers.",
    raises=("ValueError: the numbers of axes differ, an array is empty, `mode` is unknown, or\n"
            "  neither array fits inside the other."),
)
_MODES = ("full", "same", "valid")


def _operands(name: str, in1: Any, in2: Any, mode: str, ndim: int | None = None) -> list[Any]:
    a, b = [array_of(x) for x in promote_dtypes_inexact(*check_arrays(name, in1, in2))]
    if typeof(a).ndim != typeof(b).ndim or ndim not in (None, typeof(a).ndim):
        wanted = f"{ndim} axes" if ndim else "as many axes as each other"
        msg = f"{name}: the arrays must have {wanted}, got {typeof(a)} and {typeof(b)}."
        raise ValueError(msg)
    if mode not in _MODES:
        msg = f"{name}: mode must be one of {', '.join(map(repr, _MODES))}; got {mode!r}."
        raise ValueError(msg)
    return [a, b]


def _inside(name: str, own: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the first shape fits inside the second and differs from it.

    Raises:
      ValueError: neither fits inside the other.
    """
    if all(n >= m for n, m in zip(own, other, strict=True)):
        return False
    if any(n > m for n, m in zip(own, other, strict=True)):
        msg = (f"{name}: one array must be at least as large as the other along every axis, got "
               f"shapes {tuple(own)} and {tuple(other)}.")
        raise ValueError(msg)
    return True


def _direct(name: str, a: Any, b: Any, mode: str, precision: Any) -> Any:
    if not typeof(a).size or not typeof(b).size:
        msg = f"{name}: empty arrays are not convolved, got {typeof(a)} and {typeof(b)}."
        raise ValueError(msg)
    own, other = shape_of(a), shape_of(b)
    if _inside(name, own, other):
        a, b = b, a
    sizes, ndim = shape_of(b), typeof(b).ndim
    padding = {
        "full": [(n - 1, n - 1) for n in sizes],
        # The size of the first array; an odd surplus is cut at the end.
        "same": [(n - 1 - (m - 1) // 2, n - m + (m - 1) // 2)
                 for n, m in zip(sizes, other, strict=True)],
        "valid": [(0, 0)] * ndim,
    }[mode]
    b = rev(b, tuple(range(ndim)))
    out = conv_general_dilated(expand_dims(a, (0, 1)), expand_dims(b, (0, 1)), (1,) * ndim,
                               padding, precision=precision)
    return squeeze(out, (0, 1))


def _reversed(x: Any) -> Any:
    return rev(x, tuple(range(typeof(x).ndim)))


@fused(static_argnames=("mode", "axes"))
@_documented
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Sequence[int] | None = None) -> Any:
    """Convolution by fast Fourier transforms, faster for large arrays.

    Args:
      [operands]
      [mode]
      axes: the axes to convolve, by default all. The other axes must have equal sizes.

    [result]

    Raises:
      ValueError: the shapes do not match, or `mode` is unknown.

    Source: `scipy.signal.fftconvolve`.

    Example:
      >>> out = mjax.scipy.signal.fftconvolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
      >>> bool(jnp.allclose(out, jnp.array([1.0, 3.0, 2.0]), atol=1e-5))
      True
    """
    a, b = _operands("fftconvolve", in1, in2, mode)
    return _by_transforms("fftconvolve", a, b, mode, axes)


def _by_transforms(name: str, a: Any, b: Any, mode: str, axes: Any) -> Any:
    ndim, own, other = typeof(a).ndim, shape_of(a), shape_of(b)
    axes = canonicalize_axes(axes, ndim)
    if any(own[i] != other[i] for i in range(ndim) if i not in axes):
        msg = (f"{name}: axes other than {axes} must have equal sizes, got "
               f"shapes {own} and {other}.")
        raise ValueError(msg)
    full = [own[i] + other[i] - 1 if i in axes else own[i] for i in range(ndim)]
    kept = list(own)
    if mode == "full":
        kept = full
    elif mode == "valid":
        swapped = _inside(name, [own[i] for i in axes], [other[i] for i in axes])
        large, small = (other, own) if swapped else (own, other)
        kept = [large[i] - small[i] + 1 if i in axes else own[i] for i in range(ndim)]
    if all(1 in (own[i], other[i]) for i in axes):
        out = a * b
    else:
        forward, backward = (fftn, ifftn) if dtypes.is_complex(typeof(a).dtype) else (rfftn, irfftn)
        sizes = tuple(full[i] for i in axes)
        out = backward(forward(a, sizes, axes) * forward(b, sizes, axes), sizes, axes)
    start = [(n - m) // 2 for n, m in zip(full, kept, strict=True)]
    if math.prod(kept) == typeof(out).size:
        return out
    return slice_of(out, start, [n + m for n, m in zip(start, kept, strict=True)])


@fused(static_argnames=("mode", "method", "precision"))
@_documented
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
             ) -> Any:
    """Convolution of two arrays of any number of axes.

    Args:
      [operands]
      [mode]
      [method]
      [precision]

    [result]

    Raises:
      [raises]
      ValueError: an unknown method.

    Source: `scipy.signal.convolve`.

    Example:
      >>> mjax.scipy.signal.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
      Array([1., 3., 2.], dtype=float32)
    """
    a, b = _operands("convolve", in1, in2, mode)
    return _convolved("convolve", a, b, mode, method, precision)


def _convolved(name: str, a: Any, b: Any, mode: str, method: str, precision: Any) -> Any:
    if method == "fft":
        return _by_transforms(name, a, b, mode, None)
    if method not in ("auto", "direct"):
        msg = f"{name}: method must be 'auto', 'direct' or 'fft', got {method!r}."
        raise ValueError(msg)
    return _direct(name, a, b, mode, precision)


@fused(static_argnames=("mode", "method", "precision"))
@_documented
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None
              ) -> Any:
    """Correlation of two arrays of any number of axes; `in2` is conjugated.

    Args:
      [operands]
      [mode]
      [method]
      [precision]

    [result]

    Raises:
      [raises]
      ValueError: an unknown method.

    Source: `scipy.signal.correlate`.

    Example:
      >>> mjax.scipy.signal.correlate(jnp.array([1.0, 2.0]), jnp.array([0.0, 1.0]))
      Array([1., 2., 0.], dtype=float32)
    """
    a, b = _operands("correlate", in1, in2, mode)
    return _convolved("correlate", a, _reversed(conj(b)), mode, method, precision)


@fused(static_argnames=("mode", "boundary", "fillvalue", "precision"))
@_documented
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill",
               fillvalue: float = 0, precision: Any = None) -> Any:
    """Convolution of two matrices.

    Args:
      [matrices]
      [mode]
      [boundary]
      [precision]

    [result]

    Raises:
      [raises]
      NotImplementedError: another `boundary` or `fillvalue`.

    Source: `scipy.signal.convolve2d`.

    Example:
      >>> mjax.scipy.signal.convolve2d(jnp.ones((2, 2)), jnp.ones((2, 2)), "valid")
      Array([[4.]], dtype=float32)
    """
    _check_boundary("convolve2d", boundary, fillvalue)
    a, b = _operands("convolve2d", in1, in2, mode, 2)
    return _direct("convolve2d", a, b, mode, precision)


def _check_boundary(name: str, boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        msg = (f"{name}: only boundary='fill' and fillvalue=0 are supported; pad in1 with jnp.pad "
               "and take mode='valid'.")
        raise NotImplementedError(msg)


@fused(static_argnames=("mode", "boundary", "fillvalue", "precision"))
@_documented
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill",
                fillvalue: float = 0, precision: Any = None) -> Any:
    """Correlation of two matrices; `in2` is conjugated.

    Args:
      [matrices]
      [mode]
      [boundary]
      [precision]

    [result]

    Raises:
      [raises]
      NotImplementedError: another `boundary` or `fillvalue`.

    Source: `scipy.signal.correlate2d`.

    Example:
      >>> mjax.scipy.signal.correlate2d(jnp.ones((2, 2)), jnp.ones((2, 2)), "valid")
      Array([[4.]], dtype=float32)
    """
    _check_boundary("correlate2d", boundary, fillvalue)
    a, b = _operands("correlate2d", in1, in2, mode, 2)
    if mode == "valid" and _inside("correlate2d", shape_of(a), shape_of(b)):
        # SciPy conjugates the smaller array in this case.
        return _direct("correlate2d", _reversed(b), conj(a), mode, precision)
    # Reversed before and after, so that "same" cuts an odd surplus at the front.
    return _reversed(_direct("correlate2d", _reversed(a), conj(b), mode, precision))


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]
