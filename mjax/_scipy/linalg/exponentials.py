"""The exponential of matrices, and its derivative."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mjax._engine.control.branches.branching import cond, switch
from mjax._engine.control.loops.looping import scan
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.matrices import column, dot, eye_like, real_of
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.clamp import clamp
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.reductions import reduce_max, reduce_or
from mjax._engine.primitives.shapes import array_of, reduce_sum
from mjax._engine.primitives.tangents import stop_gradient
from mjax._engine.transforms.forward import jvp
from mjax._numpy.arithmetic import add, multiply
from mjax._numpy.core import check_array, concrete_int, promote_dtypes_inexact, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.selecting import where
from mjax._numpy.systems import solve_square
from mjax._scipy.linalg.arguments import check_matrix, inexact

#: Padé approximants: bounds of the norm and degrees. The last one serves all larger norms, after
#: scaling.
_APPROXIMANTS = {
    np.dtype("f4"): ((4.258730016922831e-1, 3), (1.880152677804762, 5), (3.925724783138660, 7)),
    np.dtype("f8"): ((1.495585217958292e-2, 3), (2.539398330063230e-1, 5),
                     (9.504178996162932e-1, 7), (2.097847961257068, 9), (5.371920351148152, 13)),
}


def _coefficients(degree: int) -> list[float]:
    """Coefficients of the numerator of the diagonal Padé approximant of exp; the last is 1."""
    out = [1]
    for k in range(degree, 0, -1):
        out.append(out[-1] * k * (2 * degree - k + 1) // (degree - k + 1))
    return [float(c) for c in reversed(out)]


def _sum(terms: Any) -> Any:
    return functools.reduce(add, [multiply(x, c) for x, c in terms])


def _odd_and_even(a: Any, degree: int) -> tuple[Any, Any]:
    """The odd and the even part of the numerator."""
    b = _coefficients(degree)
    powers = [eye_like(a), dot(a, a)]
    while len(powers) < (4 if degree == 13 else (degree + 1) // 2):
        powers.append(dot(powers[-1], powers[1]))
    odd, even = b[1::2], b[0::2]
    if degree < 13:
        return dot(a, _sum(zip(powers, odd, strict=True))), _sum(zip(powers, even, strict=True))
    # Saves three products over computing all powers.
    high = powers[1:]
    u = add(dot(powers[3], _sum(zip(high, odd[4:], strict=True))),
            _sum(zip(powers, odd[:4], strict=True)))
    v = add(dot(powers[3], _sum(zip(high, even[4:], strict=True))),
            _sum(zip(powers, even[:4], strict=True)))
    return dot(a, u), v


@fused(static_argnames=("upper_triangular", "max_squarings"))
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponential of square matrices.

    Args:
      A: matrices of shape `(..., n, n)`; integers are converted to floats.
      upper_triangular: whether they are upper triangular, which is faster.
      max_squarings: the greatest number of times that the approximation is squared.

    Returns:
      Matrices of the same shape; NaN for those whose norm needs more squarings.

    Raises:
      ValueError: the matrices are not square.
      TypeError: `A` is a list, or its floats have fewer than 32 bits.

    Source: `scipy.linalg.expm`; N. Higham, "The scaling and squaring method for the matrix
    exponential revisited", 2005.

    Example:
      >>> out = mjax.scipy.linalg.expm(jnp.array([[0.0, jnp.pi], [-jnp.pi, 0.0]]))
      >>> bool(jnp.allclose(out, -jnp.eye(2), atol=1e-5))
      True
    """
    (a,) = map(array_of, promote_dtypes_inexact(check_array("expm", A)))
    most = concrete_int(max_squarings, "expm: max_squarings")
    check_matrix("expm", a, square=True)
    dtype, real = typeof(a).dtype, real_of(typeof(a).dtype)
    if real not in _APPROXIMANTS:
        msg = f"expm does not compute in {dtype}; convert the matrix to float32 first."
        raise TypeError(msg)
    if not typeof(a).size:
        return a
    approximants = _APPROXIMANTS[real]
    stack = tuple(range(typeof(a).ndim - 2))
    norms = reduce_max(reduce_sum(lax.abs(stop_gradient(a)), (len(stack),)), (len(stack),))
    doublings = lax.log(norms / approximants[-1][0]) / math.log(2)
    too_many = lax.floor(doublings) > most
    squarings = clamp(np.zeros((), real), lax.ceil(doublings), np.asarray(most + 1, real))
    expand = lambda x: column(column(x))
    a = a / convert(expand(lax.exp2(squarings)), dtype)
    # One degree for the whole stack: the degree for the largest norm suits all.
    largest = reduce_max(norms, stack)
    bounds = np.asarray([bound for bound, _ in approximants[:-1]], real)
    degree = reduce_sum(convert(largest >= bounds, np.dtype(np.int32)), (0,))
    odd, even = switch(degree, [functools.partial(_odd_and_even, degree=d)
                                for _, d in approximants], a)
    p, q = even + odd, even - odd
    out = triangular_solve(q, p, left_side=True) if upper_triangular else solve_square(q, p)

    def square(x: Any, i: Any) -> tuple[Any, None]:
        counts = i < squarings
        some = reduce_or(counts, stack)
        return cond(some, lambda x: where(expand(counts), dot(x, x), x) if stack else dot(x, x),
                    lambda x: x, x), None

    out, _ = scan(square, out, np.arange(most + 1, dtype=real))
    return where(expand(too_many), np.nan, out)


@fused(static_argnames=("method", "compute_expm"))
def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of matrices, and its derivative in the direction of others.

    Args:
      A: matrices of shape `(..., n, n)`.
      E: directions, of the same shape.
      method: has no effect.
      compute_expm: whether to return the exponential, too.

    Returns:
      A pair of the exponential and the derivative, or the derivative alone.

    Raises:
      ValueError: the matrices are not square, or the shapes differ.

    Source: `scipy.linalg.expm_frechet`.

    Example:
      >>> a, e = jnp.zeros((2, 2)), jnp.array([[1.0, 2.0], [3.0, 4.0]])
      >>> bool(jnp.allclose(mjax.scipy.linalg.expm_frechet(a, e, compute_expm=False), e))
      True
    """
    a, e = inexact(A, E)
    for x in (a, e):
        check_matrix("expm_frechet", x, square=True)
    if shape_of(a) != shape_of(e):
        msg = (f"expm_frechet: A and E must have one shape, got {shape_of(a)} and "
               f"{shape_of(e)}.")
        raise ValueError(msg)
    dtype = typeof(a).dtype
    out, derivative = jvp(expm, (convert(a, dtype),), (convert(e, dtype),))
    return (out, derivative) if compute_expm else derivative


__all__ = ["expm", "expm_frechet"]
