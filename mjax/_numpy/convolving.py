"""Convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import conj
from mjax._engine.primitives.convolution import conv_general_dilated
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import (
    broadcast_in_dim,
    squeeze,
)
from mjax._numpy.core import check_arrays, promote_dtypes_inexact
from mjax._numpy.fused import fused

_STATIC = ("mode", "precision", "preferred_element_type")
#: Mode -> the padding before and after, for the size of the kernel.
_PADDING = {"full": lambda n: (n - 1, n - 1), "same": lambda n: (n // 2, n - n // 2 - 1),
            "valid": lambda n: (0, 0)}


def _vectors(name: str, a: Any, v: Any, mode: str) -> list[Any]:
    a, v = check_arrays(name, a, v)
    shapes = typeof(a).shape, typeof(v).shape
    if any(len(shape) != 1 for shape in shapes):
        msg = (f"{name} takes two vectors, got arrays of shapes {shapes[0]} and {shapes[1]}; "
               "lax.conv_general_dilated has any number of axes.")
        raise ValueError(msg)
    if (0,) in shapes:
        msg = f"{name}: vectors must not be empty, got shapes {shapes[0]} and {shapes[1]}."
        raise ValueError(msg)
    if mode not in _PADDING:
        msg = f"{name}: mode must be one of {', '.join(map(repr, _PADDING))}, got {mode!r}."
        raise ValueError(msg)
    return promote_dtypes_inexact(a, v)


def _slide(x: Any, kernel: Any, mode: str, precision: Any, preferred_element_type: Any,
           backwards: bool = False) -> Any:
    """The scalar products of a kernel with all parts of a vector that is at least as long."""
    sizes = typeof(x).shape[0], typeof(kernel).shape[0]
    x, kernel = [broadcast_in_dim(v, (1, 1, n), (2,))
                 for v, n in zip((x, kernel), sizes, strict=True)]
    out = conv_general_dilated(x, kernel, (1,), [_PADDING[mode](sizes[1])], precision=precision,
                               preferred_element_type=preferred_element_type)
    return squeeze(rev(out, (2,)) if backwards else out, (0, 1))


@fused(static_argnames=_STATIC)
def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None,
             preferred_element_type: Any = None) -> Any:
    """The convolution of two vectors, `out[k] = sum(a[k - j] * v[j] for j)`.

    Args:
      a: vector of `m` elements.
      v: vector of `n` elements.
      mode: which k: `"full"`: all where vectors overlap, `m + n - 1`; `"same"`: the `max(m, n)`
        in the middle; `"valid"`: those where one is inside of the other.
      precision: as in `lax.conv_general_dilated`.
      preferred_element_type: as in `lax.conv_general_dilated`.

    Returns:
      A vector of floats or complex numbers; unlike NumPy's also for integers.

    Raises:
      ValueError: an argument is empty or not a vector, or the mode is unknown.

    Source: `numpy.convolve`.

    Example:
      >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0, 0.5]))
      Array([0. , 1. , 2.5, 4. , 1.5], dtype=float32)
    """
    a, v = _vectors("convolve", a, v, mode)
    if typeof(a).shape < typeof(v).shape:
        a, v = v, a
    return _slide(a, rev(v, (0,)), mode, precision, preferred_element_type)


@fused(static_argnames=_STATIC)
def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: Any = None) -> Any:
    """The correlation of two vectors, `out[k] = sum(a[k + j] * conj(v[j]) for j)`.

    Args:
      a: vector of `m` elements.
      v: vector of `n` elements.
      mode: which k: `"full"`: all where vectors overlap, `m + n - 1`; `"same"`: the `max(m, n)`
        in the middle; `"valid"`: those where one is inside of the other.
      precision: as in `lax.conv_general_dilated`.
      preferred_element_type: as in `lax.conv_general_dilated`.

    Returns:
      A vector of floats or complex numbers; unlike NumPy's also for integers.

    Raises:
      ValueError: an argument is empty or not a vector, or the mode is unknown.

    Source: `numpy.correlate`.

    Example:
      >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0, 0.5]), "same")
      Array([2. , 3.5, 3. ], dtype=float32)
    """
    a, v = _vectors("correlate", a, v, mode)
    if dtypes.is_complex(typeof(v).dtype):
        v = conj(v)
    if typeof(a).shape < typeof(v).shape:
        return _slide(v, a, mode, precision, preferred_element_type, backwards=True)
    return _slide(a, v, mode, precision, preferred_element_type)
