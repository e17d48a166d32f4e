"""Sums of exponentials: logsumexp and the softmax family, with masks for `nn`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axes
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like as _c
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy.core import cast, choose, promote_dtypes_inexact
from mjax._numpy.fused import fused
from mjax._numpy.reductions import keep_axes, mask_argument, masked, max, sum
from mjax._scipy.special.arguments import inexact_arguments


@fused(values=("a", "b", "where"), static_argnames=("axis", "keepdims", "return_sign"))
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False,
              return_sign: bool = False, where: Any = None) -> Any:
    """The logarithm of a sum of exponentials over axes, `log(sum(b * exp(a)))`, without overflow.

    Args:
      a: array or scalar; ints and booleans become the default float.
      axis: an axis or a sequence of them; None: all.
      b: factors of the exponentials, broadcast with `a`. Infinite elements of
        `a` with factor 0 do not count.
      keepdims: whether the axes stay, with size 1.
      return_sign: whether to return the signs of the sums, too.
      where: mask of the elements to include.

    Returns:
      An array without the axes; -inf for empty sums, NaN for negative ones. With `return_sign`, a
      pair: the logarithms of the absolute values, and the signs, which for complex `a` are
      complex numbers of modulus 1.

    Raises:
      ValueError: an axis is out of range or named twice; `where` is not a mask.

    Source: `scipy.special.logsumexp`, which does not have `where`.

    Example:
      >>> print(f"{mjax.scipy.special.logsumexp(jnp.array([1000.0, 1000.0])):.3f}")
      1000.693
    """
    if where is not None:
        a = masked("logsumexp", a, where, 0)
    if b is None:
        a, = inexact_arguments("logsumexp", a)
    else:
        a, b = inexact_arguments("logsumexp", a, b)
        a = choose(lax.ne(b, _c(b, 0)), a, _c(a, -np.inf))
    shape = typeof(a).shape
    axes = canonicalize_axes(axis, len(shape))
    is_complex = dtypes.is_complex(typeof(a).dtype)
    sizes = lax.real(a) if is_complex else a
    greatest = max(sizes, axes, initial=-np.inf, where=where)
    # An infinite maximum is not subtracted: inf - inf is NaN.
    greatest = stop_gradient(choose(lax.is_finite(greatest), greatest, _c(greatest, 0)))
    terms = lax.exp(lax.sub(a, cast(keep_axes(greatest, shape, axes), typeof(a).dtype)))
    if b is not None:
        terms = lax.mul(terms, b)
    total = sum(terms, axes, where=where)
    size = total
    if return_sign or (b is not None and not is_complex):
        size = lax.abs(total)
    out = lax.add(lax.log(size), cast(greatest, typeof(size).dtype, typeof(size).weak_type))
    if keepdims:
        out, total = keep_axes(out, shape, axes), keep_axes(total, shape, axes)
    if return_sign:
        return out, lax.sign(total)
    if b is not None and not is_complex:
        out = choose(lax.lt(total, _c(total, 0)), _c(out, np.nan), out)
    return out


def _without(x: Any, where: Any) -> Any:
    """The elements where the mask is true, and -inf elsewhere."""
    if where is None:
        return x
    return masked("softmax", x, where, -np.inf)


def softmax_over(x: Any, axis: Any, where: Any) -> Any:
    """Exponentials divided by their sum over axes; 0 where a mask is false.

    The derivative is computed from the result, so that equal elements share it evenly.

    Args:
      x: values of an inexact dtype.
      axis: an axis or a sequence of them; None: all.
      where: mask of the elements to include, or None.
    """
    return _softmax(axis, x) if where is None else _masked_softmax(axis, x, where)


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _softmax(axis: Any, x: Any) -> Any:
    powers = lax.exp(lax.sub(x, max(x, axis, keepdims=True, initial=-np.inf)))
    return lax.div(powers, sum(powers, axis, keepdims=True))


@_softmax.defjvp
def _softmax_jvp(axis: Any, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    out = _softmax(axis, x)
    return out, lax.mul(out, lax.sub(t, sum(lax.mul(out, t), axis, keepdims=True)))


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _masked_softmax(axis: Any, x: Any, where: Any) -> Any:
    kept = _without(x, where)
    greatest = max(kept, axis, keepdims=True, initial=-np.inf)
    powers = lax.exp(lax.sub(kept, greatest))
    # If all elements are masked, the quotients are NaN and are masked below.
    out = lax.div(powers, sum(powers, axis, keepdims=True))
    return masked("softmax", out, where, 0)


@_masked_softmax.defjvp
def _masked_softmax_jvp(axis: Any, primals: Any, tangents: Any) -> Any:
    (x, where), (t, _) = primals, tangents
    out = _masked_softmax(axis, x, where)
    return out, lax.mul(out, lax.sub(t, sum(lax.mul(out, t), axis, keepdims=True, where=where)))


def log_softmax_over(x: Any, axis: Any, where: Any) -> Any:
    """Logarithms of `softmax_over`, computed without it; -inf where a mask is false.

    Args:
      x: values of an inexact dtype.
      axis: an axis or a sequence of them; None: all.
      where: mask of the elements to include, or None.
    """
    kept = _without(x, where)
    greatest = stop_gradient(max(kept, axis, keepdims=True, initial=-np.inf))
    shifted = lax.sub(kept, greatest)
    out = lax.sub(shifted, lax.log(sum(lax.exp(shifted), axis, keepdims=True)))
    return out if where is None else masked("log_softmax", out, where, -np.inf)


def softmax_arguments(name: str, x: Any, where: Any = None) -> tuple[Any, Any]:
    """The argument of a softmax in an inexact dtype, and its mask broadcast with it."""
    x, = map(array_of, promote_dtypes_inexact(x))
    if where is None:
        return x, None
    where = mask_argument(name, where)
    return x, where


@fused(values=("x",), static_argnames=("axis",))
def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """Exponentials divided by their sum over axes: positive numbers whose sum is 1.

    Args:
      x: array or scalar; ints and booleans become the default float.
      axis: an axis or a sequence of them; None: all.

    Returns:
      An array of the shape of `x`; NaN where the greatest element is infinite.

    Raises:
      ValueError: an axis is out of range or named twice.

    Source: `scipy.special.softmax`.

    Example:
      >>> print(mjax.scipy.special.softmax(jnp.array([0.0, 0.0, -jnp.inf])))
      [0.5 0.5 0. ]
    """
    x, _ = softmax_arguments("softmax", x)
    return softmax_over(x, axis, None)


@fused(values=("x",), static_argnames=("axis",))
def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """Logarithms of the softmax: `x - logsumexp(x, axis, keepdims=True)`.

    Args:
      x: array or scalar; ints and booleans become the default float.
      axis: an axis or a sequence of them; None: all.

    Returns:
      An array of the shape of `x`; NaN where the greatest element is infinite.

    Raises:
      ValueError: an axis is out of range or named twice.

    Source: `scipy.special.log_softmax`.

    Example:
      >>> print(mjax.scipy.special.log_softmax(jnp.array([0.0, 0.0])))
      [-0.6931472 -0.6931472]
    """
    x, _ = softmax_arguments("log_softmax", x)
    return log_softmax_over(x, axis, None)
