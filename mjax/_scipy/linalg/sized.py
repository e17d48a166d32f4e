"""Matrices determined by their size: Hilbert, Pascal, DFT and others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import concrete_int, dtype_argument

_documented = documented(
    n="n: the number of rows and columns.",
    kind='kind: `"symmetric"`, which is the default, `"lower"` or `"upper"`: a triangle.',
    not_integer="TypeError: `n` is not an integer.\nValueError: `n` is negative.",
    not_kind="ValueError: an unknown kind.",
)


def _size(name: str, n: Any, least: int = 0) -> int:
    n = concrete_int(n, f"{name}: n")
    if n < least:
        msg = f"{name}: n must be at least {least}, got {n}."
        raise ValueError(msg)
    return n


def _floats(x: Any) -> Any:
    """The matrix as an array of the default float dtype."""
    return array_of(np.asarray(x, np.float64).astype(dtypes.dtype_of_python(float)))


@boundary
@_documented
def hilbert(n: int) -> Any:
    """The Hilbert matrix, whose elements are `1 / (i + j + 1)`.

    Args:
      [n]

    Returns:
      A matrix of the default float dtype.

    Raises:
      [not_integer]

    Source: `scipy.linalg.hilbert`.

    Example:
      >>> mjax.scipy.linalg.hilbert(2)
      Array([[1.        , 0.5       ],
             [0.5       , 0.33333334]], dtype=float32)
    """
    i = np.arange(_size("hilbert", n))
    return _floats(1 / (i[:, None] + i + 1))


@boundary
@_documented
def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix, whose elements are integers.

    Args:
      [n]

    Returns:
      A matrix of the default float dtype: the rounded integers.

    Raises:
      [not_integer]

    Source: `scipy.linalg.invhilbert`.

    Example:
      >>> mjax.scipy.linalg.invhilbert(2)
      Array([[ 4., -6.],
             [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n)

    def element(i: int, j: int) -> float:
        size = (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1) * (
            math.comb(i + j, i)**2)
        return -_rounded(size) if (i + j) % 2 else _rounded(size)

    return _floats(np.array([[element(i, j) for j in range(n)] for i in range(n)]).reshape(n, n))


def _rounded(x: int) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf


def _binomials(name: str, n: Any, kind: str | None) -> tuple[Any, str]:
    """Pascal's triangle: the lower one."""
    n = _size(name, n)
    kind = "symmetric" if kind is None else kind
    if kind not in ("symmetric", "lower", "upper"):
        msg = f"{name}: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}."
        raise ValueError(msg)
    return np.array([[_rounded(math.comb(i, j)) for j in range(n)] for i in range(n)]).reshape(
        n, n), kind


@boundary
@_documented
def pascal(n: int, kind: str | None = None) -> Any:
    """The Pascal matrix, of binomial coefficients.

    Args:
      [n]
      [kind]

    Returns:
      A float32 matrix; SciPy's is of integers.

    Raises:
      [not_integer]
      [not_kind]

    Source: `scipy.linalg.pascal`.

    Example:
      >>> mjax.scipy.linalg.pascal(3)
      Array([[1., 1., 1.],
             [1., 2., 3.],
             [1., 3., 6.]], dtype=float32)
    """
    lower, kind = _binomials("pascal", n, kind)
    out = lower if kind == "lower" else lower.T if kind == "upper" else lower @ lower.T
    return array_of(out.astype(np.float32))


@boundary
@_documented
def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of the Pascal matrix.

    Args:
      [n]
      [kind]

    Returns:
      A matrix of the default float dtype; SciPy's is of integers.

    Raises:
      [not_integer]
      [not_kind]

    Source: `scipy.linalg.invpascal`.

    Example:
      >>> mjax.scipy.linalg.invpascal(3)
      Array([[ 3., -3.,  1.],
             [-3.,  5., -2.],
             [ 1., -2.,  1.]], dtype=float32)
    """
    lower, kind = _binomials("invpascal", n, kind)
    i = np.arange(len(lower))
    lower = lower * (1 - 2.0 * ((i[:, None] - i) % 2)) + 0.0
    return _floats(lower if kind == "lower" else lower.T if kind == "upper" else lower.T @ lower)


@boundary
@_documented
def helmert(n: int, full: bool = False) -> Any:
    """The Helmert matrix, whose orthonormal rows contrast each value with the preceding ones.

    Args:
      [n]
      full: whether to include the first row, of equal elements.

    Returns:
      A matrix of the default float dtype and shape `(n - 1, n)`, or `(n, n)`.

    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is not positive.

    Source: `scipy.linalg.helmert`.

    Example:
      >>> mjax.scipy.linalg.helmert(2, full=True)
      Array([[ 0.70710677,  0.70710677],
             [ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _size("helmert", n, 1)
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    rows /= np.sqrt((rows * rows).sum(1, keepdims=True))
    return _floats(rows if full else rows[1:])


@boundary
@_documented
def hadamard(n: int, dtype: Any = int) -> Any:
    """Sylvester's Hadamard matrix: orthogonal rows of elements 1 and -1.

    Args:
      n: the number of rows and columns, a power of 2.
      dtype: its dtype.

    Returns:
      A matrix of shape `(n, n)`.

    Raises:
      TypeError: `n` is not an integer.
      ValueError: `n` is not a power of 2.

    Source: `scipy.linalg.hadamard`.

    Example:
      >>> mjax.scipy.linalg.hadamard(2)
      Array([[ 1,  1],
             [ 1, -1]], dtype=int32)
    """
    n = _size("hadamard", n, 1)
    if n & (n - 1):
        msg = f"hadamard: n must be a power of 2, got {n}."
        raise ValueError(msg)
    out = np.ones((1, 1), np.int64)
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return array_of(out.astype(dtype_argument(dtype, "hadamard")))


@boundary
@_documented
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform: `dft(n) @ x` is `jnp.fft.fft(x)`.

    Args:
      [n]
      scale: None; or `"sqrtn"` or `"n"`: divided by `sqrt(n)` or `n`.
      dtype: a complex dtype; None: the default complex dtype.

    Returns:
      A matrix of shape `(n, n)`.

    Raises:
      [not_integer]
      ValueError: `scale` is unknown, or `dtype` is not complex.

    Source: `scipy.linalg.dft`.

    Example:
      >>> mjax.scipy.linalg.dft(2).real
      Array([[ 1.,  1.],
             [ 1., -1.]], dtype=float32)
    """
    n = _size("dft", n)
    if scale not in (None, "sqrtn", "n"):
        msg = f"dft: scale must be None, 'sqrtn' or 'n', got {scale!r}."
        raise ValueError(msg)
    asked = dtypes.dtype_of_python(complex) if dtype is None else dtype_argument(dtype, "dft")
    if not dtypes.is_complex(asked):
        msg = f"dft: dtype must be complex, got {asked}."
        raise ValueError(msg)
    i = np.arange(n)
    # Removing whole turns keeps the angles small and their exponentials accurate.
    out = np.exp(-2j * np.pi * ((i[:, None] * i) % max(n, 1)) / max(n, 1))
    out = out / {None: 1, "sqrtn": math.sqrt(n), "n": n}[scale] if n else out
    return array_of(out.astype(asked))


__all__ = ["dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"]
