"""Window functions, weights that decrease towards both ends; and the Bessel function in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.special import bessel_i0e
from mjax._numpy.bessel import bessel_i0
from mjax._numpy.core import cast, concrete_int, promote_dtypes_inexact
from mjax._numpy.fused import fused


def _constant(name: str, M: Any) -> Any:
    """NumPy's window in the default float dtype; a constant, since its size is static."""
    window = getattr(np, name)(concrete_int(M, f"{name}: M", truncate=True))
    return array_of(window.astype(dtypes.dtype_of_python(float)))


@boundary
def hanning(M: int) -> Any:
    """The Hann window, a raised cosine that ends in 0.

    Args:
      M: the number of points; none for `M < 1`.

    Returns:
      An array of shape `(M,)` and the default float dtype.

    Raises:
      TypeError: `M` is not an integer.

    Source: `numpy.hanning`.

    Example:
      >>> jnp.hanning(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _constant("hanning", M)


@boundary
def hamming(M: int) -> Any:
    """The Hamming window, a raised cosine that ends in 0.08.

    Args:
      M: the number of points; none for `M < 1`.

    Returns:
      An array of shape `(M,)` and the default float dtype.

    Raises:
      TypeError: `M` is not an integer.

    Source: `numpy.hamming`.

    Example:
      >>> jnp.hamming(5)
      Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _constant("hamming", M)


@boundary
def blackman(M: int) -> Any:
    """The Blackman window, a sum of three cosine terms.

    Args:
      M: the number of points; none for `M < 1`.

    Returns:
      An array of shape `(M,)` and the default float dtype.

    Raises:
      TypeError: `M` is not an integer.

    Source: `numpy.blackman`.

    Example:
      >>> print(jnp.blackman(5)[1:4])
      [0.34 1.   0.34]
    """
    return _constant("blackman", M)


@boundary
def bartlett(M: int) -> Any:
    """The Bartlett window, a triangle that ends in 0.

    Args:
      M: the number of points; none for `M < 1`.

    Returns:
      An array of shape `(M,)` and the default float dtype.

    Raises:
      TypeError: `M` is not an integer.

    Source: `numpy.bartlett`.

    Example:
      >>> jnp.bartlett(5)
      Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _constant("bartlett", M)


@fused(values=("beta",), static_argnames=("M",))
def kaiser(M: int, beta: Any) -> Any:
    """The Kaiser window, made of a Bessel function.

    Args:
      M: the number of points; none for `M < 1`.
      beta: scalar, the rate of decrease: 0 is a constant, 5 is near Hamming's.

    Returns:
      An array of shape `(M,)` and the default float dtype.

    Raises:
      TypeError: `M` is not an integer.
      ValueError: `beta` is not a real scalar.

    Source: `numpy.kaiser`.

    Example:
      >>> print(jnp.kaiser(3, 0.0))
      [1. 1. 1.]
    """
    count = concrete_int(M, "kaiser: M", truncate=True)
    beta, = promote_dtypes_inexact(beta)
    aval = typeof(beta)
    if aval.shape or dtypes.is_complex(aval.dtype):
        msg = f"kaiser: beta must be a real scalar, got {aval}."
        raise ValueError(msg)
    dtype = dtypes.dtype_of_python(float)
    # From -1 to 1, where 0 is in the middle.
    places = np.linspace(-1, 1, max(count, 0)) if count != 1 else np.zeros(1)
    heights = np.sqrt(1 - places**2).astype(dtype)
    beta = cast(beta, dtype)
    # The functions themselves may overflow although the quotient does not.
    size = lax.mul(heights, beta)
    scale = lax.exp(lax.sub(lax.abs(size), lax.abs(beta)))
    return lax.mul(scale, lax.div(bessel_i0e(size), bessel_i0e(beta)))


@fused(values=("x",))
def i0(x: Any) -> Any:
    """Elementwise modified Bessel function of the first kind and order 0.

    Args:
      x: real array or scalar.

    Returns:
      An array of the shape of `x`.

    Raises:
      ValueError: complex `x`.

    Source: `numpy.i0`.

    Example:
      >>> print(f"{jnp.i0(1):.3f}")
      1.266
    """
    x, = promote_dtypes_inexact(x)
    if dtypes.is_complex(typeof(x).dtype):
        msg = f"i0 is for real numbers, got dtype {typeof(x).dtype}."
        raise ValueError(msg)
    return bessel_i0(x)
