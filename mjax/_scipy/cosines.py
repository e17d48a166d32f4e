"""Discrete cosine transforms, following `scipy.fft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.util import canonicalize_axes, canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._numpy.core import cast, check_array, concrete_int, promote_dtypes_inexact
from mjax._numpy.fft import fft, fitted, ifft
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate

_documented = documented(
    x="x: array; integers are converted to floats, complex numbers transformed part by part.",
    type="type: must be 2.",
    n=("n: the length of the transform, by default that of the axis, which is cut or padded\n"
       "  with zeros to `n`."),
    axis="axis: the axis; the last by default.",
    s="s: lengths to which the axes are cut or zero-padded; by default their own.",
    axes="axes: the axes; by default the last `len(s)`, or all.",
    norm=('norm: `"backward"`, the default: the inverse transform has the factor `1 / (2 * n)`;\n'
          '  `"ortho"`: both are orthogonal.'),
    result=("Returns:\n  An array of the shape of `x`, except for the lengths `n` or `s`."),
    raises=("NotImplementedError: `type` is not 2.\n"
            "ValueError: `norm` is unknown, an axis is out of range, or an axis is empty."),
)

# ---- shared parts ----------------------------------------------------------------------


def _argument(name: str, x: Any, kind: int, norm: str | None) -> Any:
    x = array_of(promote_dtypes_inexact(check_array(name, x))[0])
    if kind != 2:
        msg = f"{name}: only type 2 is supported, got type={kind}."
        raise NotImplementedError(msg)
    if norm not in (None, "backward", "ortho"):
        msg = f'{name}: norm must be None, "backward" or "ortho", got {norm!r}.'
        raise ValueError(msg)
    return x


def _sized(name: str, x: Any, axis: int, n: Any) -> Any:
    if n is not None:
        n = concrete_int(n, f"{name}: a size")
    if (typeof(x).shape[axis] if n is None else n) < 1:
        msg = f"{name}: there is nothing to transform along axis {axis} of {typeof(x)} with n={n}."
        raise ValueError(msg)
    return x if n is None else fitted(x, axis, n)


def _of_parts(f: Callable[[Any], Any], x: Any) -> Any:
    """Applies a real transform, to complex numbers part by part."""
    if dtypes.is_complex(typeof(x).dtype):
        return lax.complex(f(lax.real(x)), f(lax.imag(x)))
    return f(cast(x, typeof(x).dtype))


def _along(values: Any, x: Any, axis: int) -> Any:
    """A vector placed along an axis of arrays like `x`, in their dtype."""
    shape = [1] * typeof(x).ndim
    shape[axis] = -1
    return np.asarray(values).reshape(shape).astype(typeof(x).dtype)


def _norms(n: int, norm: str | None) -> np.ndarray[Any, Any]:
    """The factors of the orthogonal transform, or those of the plain one."""
    if norm != "ortho":
        return np.full(n, 2.0)
    factors = np.full(n, np.sqrt(2 / n))
    factors[0] = np.sqrt(1 / n)
    return factors


def _forward(x: Any, axis: int, norm: str | None) -> Any:
    # The FFT of the even elements followed by the reversed odd ones, up to a phase.
    n = typeof(x).shape[axis]
    even = slice_in_dim(x, 0, None, 2, axis)
    odd = rev(slice_in_dim(x, 1, None, 2, axis), (axis,)) if n > 1 else slice_in_dim(
        x, 1, None, 1, axis)
    out = fft(concatenate([even, odd], axis), axis=axis)
    turn = np.exp(-0.5j * np.pi * np.arange(n) / n) * _norms(n, norm)
    return lax.real(out * _along(turn, out, axis))


def _backward(x: Any, axis: int, norm: str | None) -> Any:
    n = typeof(x).shape[axis]
    turn = 2 * np.exp(0.5j * np.pi * np.arange(n) / n)
    # The first element has half the weight of the others.
    turn[0] = 1
    factors = _norms(n, norm) * n / 2 if norm == "ortho" else np.full(n, 0.5)
    factors[0] *= 2 if norm == "ortho" else 1
    weights = turn * factors
    x = cast(x, dtypes.complex_dtype(typeof(x).dtype))
    out = lax.real(ifft(x * _along(weights, x, axis), axis=axis))
    middle = -(-n // 2)
    even = slice_in_dim(out, 0, middle, axis=axis)
    odd = rev(slice_in_dim(out, middle, None, axis=axis), (axis,))
    return lax.add(_spread(even, axis, 0, n), _spread(odd, axis, 1, n))


def _spread(x: Any, axis: int, first: int, n: int) -> Any:
    """The elements, each followed by a zero."""
    count = typeof(x).shape[axis]
    config = [(0, 0, 0)] * typeof(x).ndim
    config[axis] = (first, n - first - max(2 * count - 1, 0), 1)
    return pad(x, constant_like(x, 0), config)


def _one(name: str, f: Any, x: Any, kind: int, n: Any, axis: int, norm: str | None) -> Any:
    x = _argument(name, x, kind, norm)
    axis = canonicalize_axis(axis, typeof(x).ndim)
    return _of_parts(lambda x: f(x, axis, norm), _sized(name, x, axis, n))


def _several(name: str, f: Any, x: Any, kind: int, s: Any, axes: Any, norm: str | None) -> Any:
    x = _argument(name, x, kind, norm)
    ndim = typeof(x).ndim
    sizes = s if s is None or isinstance(s, Sequence) else (concrete_int(s, f"{name}: s"),)
    if sizes is not None and len(sizes) > ndim:
        msg = f"{name}: s must have at most {ndim} sizes, for an array {typeof(x)}, got {s}."
        raise ValueError(msg)
    if axes is None:
        axes = range(ndim if sizes is None else ndim - len(sizes), ndim) if sizes else range(ndim)
    axes = canonicalize_axes(axes, ndim)
    for axis, n in zip(axes, sizes or (None,) * len(axes), strict=False):
        x = _sized(name, x, axis, n)

    def transform(x: Any) -> Any:
        for axis in axes:
            x = f(x, axis, norm)
        return x

    return _of_parts(transform, x)


# ---- the functions ---------------------------------------------------------------------


@fused(static_argnames=("type", "n", "axis", "norm"))
@_documented
def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
        ) -> Any:
    """Discrete cosine transform along one axis.

    Args:
      [x]
      [type]
      [n]
      [axis]
      [norm]

    [result]

    Raises:
      [raises]

    Source: `scipy.fft.dct`; J. Makhoul, "A fast cosine transform in one and two dimensions", 1980.

    Example:
      >>> mjax.scipy.fft.dct(jnp.ones(4))[0]
      Array(8., dtype=float32)
    """
    return _one("dct", _forward, x, type, n, axis, norm)


@fused(static_argnames=("type", "n", "axis", "norm"))
@_documented
def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
         ) -> Any:
    """Inverse of `dct`.

    Args:
      [x]
      [type]
      [n]
      [axis]
      [norm]

    [result]

    Raises:
      [raises]

    Source: `scipy.fft.idct`; see `dct`.

    Example:
      >>> mjax.scipy.fft.idct(jnp.array([8.0, 0.0, 0.0, 0.0]))
      Array([1., 1., 1., 1.], dtype=float32)
    """
    return _one("idct", _backward, x, type, n, axis, norm)


@fused(static_argnames=("type", "s", "axes", "norm"))
@_documented
def dctn(x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Any:
    """Discrete cosine transform along several axes.

    Args:
      [x]
      [type]
      [s]
      [axes]
      [norm]

    [result]

    Raises:
      [raises]

    Source: `scipy.fft.dctn`; see `dct`.

    Example:
      >>> mjax.scipy.fft.dctn(jnp.ones((2, 2)))[0, 0]
      Array(16., dtype=float32)
    """
    return _several("dctn", _forward, x, type, s, axes, norm)


@fused(static_argnames=("type", "s", "axes", "norm"))
@_documented
def idctn(x: Any, type: int = 2, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Any:
    """Inverse of `dctn`.

    Args:
      [x]
      [type]
      [s]
      [axes]
      [norm]

    [result]

    Raises:
      [raises]

    Source: `scipy.fft.idctn`; see `dct`.

    Example:
      >>> mjax.scipy.fft.idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]]))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """
    return _several("idctn", _backward, x, type, s, axes, norm)


__all__ = ["dct", "dctn", "idct", "idctn"]
