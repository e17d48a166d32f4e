"""Systems of linear equations, inverses and pseudo-inverses."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.control.custom.custom_linear_solve import custom_linear_solve
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.lu import lu_p, lu_solve
from mjax._engine.linalg.matrices import (
    adjoint,
    column,
    dot,
    eye_like,
    over,
    row,
    symmetrized,
    zeros,
)
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like, stretch
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import (
    array_of,
    expand_dims,
    moveaxis,
    reduce_sum,
    reshape,
    squeeze,
)
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    check_array,
    concrete_int,
    promote_dtypes_inexact,
    shape_of,
    size_of,
)
from mjax._numpy.decompositions import operand, svd
from mjax._numpy.fused import fused
from mjax._numpy.shapes import moveaxis as move_axes

# ---- square systems --------------------------------------------------------------------


def solve_square(a: Any, b: Any) -> Any:
    """Solves `a @ x = b` for stacks of one shape, `b` of shape `(..., n, k)`, by LU factors."""
    factors, _, order = lu_p.bind(stop_gradient(a))
    return custom_linear_solve(
        lambda x: dot(a, x), b, solve=lambda _, b: lu_solve(factors, order, b),
        transpose_solve=lambda _, b: lu_solve(factors, order, b, trans=1))


@fused(values=("a", "b"))
def solve(a: Any, b: Any) -> Any:
    """Solves systems of linear equations, `a @ x = b`.

    Args:
      a: matrices of shape `(..., n, n)`.
      b: a vector of shape `(n,)`, or right-hand sides of shape `(..., n, k)`; leading axes
        broadcast.

    Returns:
      The solutions, of the shape of `b` with the leading axes of both.

    Raises:
      ValueError: the matrices are not square, or `b` does not fit.

    Source: `numpy.linalg.solve`; LAPACK, `getrf`.

    Example:
      >>> jnp.linalg.solve(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0]))
      Array([1., 2.], dtype=float32)
    """
    a, b = promote_dtypes_inexact(a, b)
    operand("solve", a)
    (n, left), right = (shape_of(a)[-1], shape_of(a)[:-2]), shape_of(b)
    if not right or right[0 if len(right) == 1 else -2] != n:
        msg = (f"solve: a matrix of shape {shape_of(a)} takes right-hand sides of shape ({n},) or "
               f"(..., {n}, k), got {right}. Give vectors in a stack as columns, b[..., None].")
        raise ValueError(msg)
    if len(right) == 1:
        b = over(column(b), (*left, n, 1))
        return squeeze(solve_square(a, b), (len(left) + 1,))
    if not left and len(right) > 2:
        # One matrix: the right-hand sides of all elements become columns of one system.
        b = moveaxis(b, len(right) - 2, 0)
        shape = shape_of(b)
        out = solve_square(a, reshape(b, (n, size_of(shape[1:]))))
        return moveaxis(reshape(out, shape), 0, len(right) - 2)
    stack = broadcast_shapes(left, right[:-2])
    return solve_square(broadcast_to(a, (*stack, n, n)), broadcast_to(b, (*stack, *right[-2:])))


@fused(values=("a",))
def inv(a: Any) -> Any:
    """Inverse of square matrices.

    Args:
      a: matrices of shape `(..., n, n)`.

    Returns:
      Matrices of the same shape; results for singular ones are not finite.

    Raises:
      ValueError: the matrices are not square.

    Source: `numpy.linalg.inv`.

    Example:
      >>> jnp.linalg.inv(jnp.array([[2.0, 0.0], [0.0, 4.0]]))
      Array([[0.5 , 0.  ],
             [0.  , 0.25]], dtype=float32)
    """
    a = operand("inv", a)
    return solve_square(a, eye_like(a))


@fused(values=("a",), static_argnames=("ind",))
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Inverse of an array as a linear map between arrays.

    Args:
      a: array whose first `ind` axes have as many elements as the others.
      ind: the number of axes that belong to results.

    Returns:
      An array of shape `a.shape[ind:] + a.shape[:ind]`, whose `tensordot` with `a` over `ind` axes
      is the identity.

    Raises:
      ValueError: `ind` is not positive, or the numbers of elements differ.

    Source: `numpy.linalg.tensorinv`.

    Example:
      >>> jnp.linalg.tensorinv(2 * jnp.eye(4).reshape(2, 2, 4), ind=2).shape
      (4, 2, 2)
    """
    ind = concrete_int(ind, "tensorinv: ind")
    shape = shape_of(a)
    if ind <= 0:
        msg = f"tensorinv: ind must be positive, got {ind}."
        raise ValueError(msg)
    first, rest = shape[:ind], shape[ind:]
    if size_of(first) != size_of(rest):
        msg = (f"tensorinv: the first {ind} axes of shape {shape} have {size_of(first)} elements, "
               f"the others {size_of(rest)}; the numbers must be equal.")
        raise ValueError(msg)
    flat = inv(reshape(a, (size_of(first), size_of(rest))))
    return reshape(flat, (*rest, *first))


@fused(values=("a", "b"), static_argnames=("axes",))
def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """Solves `tensordot(a, x, x.ndim) = b`.

    Args:
      a: array of shape `b.shape + x.shape`, where `x` has as many elements as `b`.
      b: the right-hand side.
      axes: axes of `a` that are moved to its end first.

    Returns:
      The solution.

    Raises:
      ValueError: the shapes do not fit.

    Source: `numpy.linalg.tensorsolve`.

    Example:
      >>> jnp.linalg.tensorsolve(2 * jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2)))
      Array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """
    if axes is not None:
        a = move_axes(a, tuple(axes), len(axes) * (typeof(a).ndim - 1,))
    shape, right = shape_of(a), shape_of(b)
    rest = shape[len(right):]
    if shape[:len(right)] != right:
        msg = (f"tensorsolve: the shape of a, {shape} after the axes were moved, must begin with "
               f"that of b, {right}.")
        raise ValueError(msg)
    if size_of(rest) != size_of(right):
        msg = (f"tensorsolve: the axes of a after the first {len(right)}, {rest}, must have as "
               f"many elements as b, {size_of(right)}.")
        raise ValueError(msg)
    n = size_of(right)
    return reshape(solve(reshape(a, (n, n)), reshape(b, (n,))), rest)


# ---- pseudo-inverses, least squares ----------------------------------------------------


@fused(values=("a", "rtol", "rcond"), static_argnames=("hermitian",))
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """Moore-Penrose pseudo-inverse.

    Args:
      a: matrices of shape `(..., m, n)`.
      rtol: singular values of at most `rtol` times the greatest count as zero; by default
        `10 * max(m, n)` times the machine epsilon. An array broadcasts with the stack of matrices.
      hermitian: whether the matrices are Hermitian, which is faster.
      rcond: another name of `rtol`.

    Returns:
      Matrices of shape `(..., n, m)`.

    Raises:
      ValueError: both `rtol` and `rcond` are given, or fewer than two axes.
      TypeError: `rtol` does not broadcast with the stack of matrices.

    Source: `numpy.linalg.pinv`; the derivative: G. Golub and V. Pereyra, "The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate", 1973.

    Example:
      >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
      Array([[0.5, 0. ],
             [0. , 0. ]], dtype=float32)
    """
    if rcond is not None:
        if rtol is not None:
            msg = "pinv: rtol and rcond are names of one argument: give one of them."
            raise ValueError(msg)
        rtol = rcond
    a = operand("pinv", a, square=hermitian)
    shape, dtype = shape_of(a), typeof(a).dtype
    if 0 in shape[-2:]:
        return zeros((*shape[:-2], shape[-1], shape[-2]), dtype)
    if rtol is None:
        rtol = 10 * max(shape[-2:]) * float(ml_dtypes.finfo(dtype).eps)
    rtol = cast(rtol, dtypes.real_dtype(dtype))
    try:
        stack = broadcast_shapes(shape[:-2], shape_of(rtol))
    except ValueError:
        msg = (f"pinv: rtol of shape {shape_of(rtol)} must broadcast with a stack of matrices of "
               f"shape {shape[:-2]}.")
        raise TypeError(msg) from None
    a = broadcast_to(a, (*stack, *shape[-2:]))
    return _pinv(hermitian, a, stop_gradient(rtol))


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _pinv(hermitian: bool, a: Any, rtol: Any) -> Any:
    u, s, vh = svd(a, full_matrices=False, hermitian=hermitian)
    greatest = slice_in_dim(s, 0, 1, axis=typeof(s).ndim - 1)
    cutoff = lax.mul(broadcast_to(expand_dims(rtol, (typeof(rtol).ndim,)), shape_of(greatest)),
                     greatest)
    counts = lax.gt(s, stretch(cutoff, shape_of(s)))
    s = select_n(counts, stretch(constant_like(s, np.inf), shape_of(s)), s)
    inverse = convert(lax.div(constant_like(s, 1), s), typeof(a).dtype)
    return dot(lax.mul(adjoint(vh), stretch(row(inverse), shape_of(adjoint(vh)))), adjoint(u))


@_pinv.defjvp
def _pinv_jvp(hermitian: bool, primals: Any, tangents: Any) -> Any:
    (a, rtol), (t, _) = primals, tangents
    p = _pinv(hermitian, a, rtol)
    if hermitian:
        a, t = symmetrized(a), symmetrized(t)
    m, n = shape_of(a)[-2:]
    t_adjoint, p_adjoint = adjoint(t), adjoint(p)
    # The order of products keeps inner ones small.
    if m >= n:
        left = dot(dot(p, p_adjoint), t_adjoint)
        right = dot(dot(t_adjoint, p_adjoint), p)
        terms = [dot(dot(p, t), p), dot(dot(left, a), p), dot(dot(p, a), right)]
    else:
        left = dot(p, dot(p_adjoint, t_adjoint))
        right = dot(t_adjoint, dot(p_adjoint, p))
        terms = [dot(p, dot(t, p)), dot(left, dot(a, p)), dot(p, dot(a, right))]
    out = lax.sub(lax.add(left, right), lax.add(terms[0], lax.add(terms[1], terms[2])))
    return p, out


@boundary
def lstsq(a: Any, b: Any, rcond: Any = None, *, numpy_resid: bool = False
          ) -> tuple[Any, Any, Any, Any]:
    """Least squares: the shortest `x` that minimizes the norm of `b - a @ x`.

    Args:
      a: a matrix of shape `(m, n)`.
      b: a vector of shape `(m,)`, or right-hand sides of shape `(m, k)`.
      rcond: singular values below `rcond` times the greatest count as zero; by default `max(m, n)`
        times the machine epsilon; negative values mean the machine epsilon. A vector has one for
        each singular value.
      numpy_resid: whether residuals are empty in the same cases as NumPy's. They depend on the
        rank, so it is not available under `jit`.

    Returns:
      `(x, residuals, rank, s)`: the solution, of shape `(n,)` or `(n, k)`; the squared norms of
      `b - a @ x`; the rank of `a`; its singular values, of shape `(min(m, n),)`.

    Raises:
      ValueError: `a` and `b` have different numbers of rows.
      TypeError: `a` is not a matrix, or `b` is neither a vector nor a matrix, or `rcond` is of
        another shape.

    Source: `numpy.linalg.lstsq`.

    Example:
      >>> a, b = jnp.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), jnp.array([1.0, 4.0, 3.0])
      >>> x, residuals, rank, s = jnp.linalg.lstsq(a, b)
      >>> x, residuals
      (Array([1., 2.], dtype=float32), Array([9.], dtype=float32))
    """
    out: tuple[Any, Any, Any, Any] = _lstsq(a, b, rcond)
    if numpy_resid:
        x, residuals, rank, s = out
        m, n = shape_of(a)
        if m <= n or int(rank) < n:
            return x, array_of(np.zeros(0, typeof(residuals).dtype)), rank, s
    return out


@fused(values=("a", "b"))
def _lstsq(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any, Any]:
    a, b = promote_dtypes_inexact(a, b)
    shape, right = shape_of(a), shape_of(b)
    if shape[:1] != right[:1]:
        msg = f"lstsq: a and b must have as many rows, got shapes {shape} and {right}."
        raise ValueError(msg)
    if len(shape) != 2 or len(right) not in (1, 2):
        msg = (f"lstsq: a must be a matrix and b a vector or a matrix, got shapes {shape} and "
               f"{right}.")
        raise TypeError(msg)
    vector = len(shape_of(b)) == 1
    b = column(b) if vector else b
    real = dtypes.real_dtype(typeof(a).dtype)
    if 0 in shape_of(a):
        x, s = zeros((shape_of(a)[1], shape_of(b)[1]), typeof(a).dtype), zeros((0,), real)
        rank = zeros((), dtypes.dtype_of_python(int))
    else:
        x, rank, s = _by_svd(a, b, rcond)
    rest = lax.abs(lax.sub(b, dot(a, x)))
    residuals = reduce_sum(lax.mul(rest, rest), (0,))
    return squeeze(x, (1,)) if vector else x, residuals, rank, s


def _by_svd(a: Any, b: Any, rcond: Any) -> tuple[Any, Any, Any]:
    """Solution, rank and singular values of a system with a non-empty matrix."""
    dtype, real = typeof(a).dtype, dtypes.real_dtype(typeof(a).dtype)
    eps = float(ml_dtypes.finfo(dtype).eps)
    u, s, vh = svd(a, full_matrices=False)
    full = lambda c: stretch(constant_like(s, c), shape_of(s))
    if rcond is None:
        rcond = full(eps * max(shape_of(a)))
    else:
        rcond = cast(check_array("lstsq", rcond, "rcond"), real)
        if shape_of(rcond) not in ((), (1,), shape_of(s)):
            msg = ("lstsq: rcond must be a number, or a vector of one for each singular value; got "
                   f"{typeof(rcond)}.")
            raise TypeError(msg)
        rcond = stretch(rcond, shape_of(s))
        rcond = select_n(lax.lt(rcond, full(0)), rcond, full(eps))
    cutoff = lax.mul(rcond, stretch(slice_in_dim(s, 0, 1), shape_of(s)))
    counts = lax.bitwise_and(lax.gt(s, constant_like(s, 0)), lax.ge(s, cutoff))
    inverse = select_n(counts, full(0), lax.div(full(1), select_n(counts, full(1), s)))
    inside = dot(adjoint(u), b)
    inside = lax.mul(inside, stretch(column(convert(inverse, dtype)), shape_of(inside)))
    rank = reduce_sum(convert(counts, dtypes.dtype_of_python(int)), (0,))
    return dot(adjoint(vh), inside), rank, s


__all__ = ["inv", "lstsq", "pinv", "solve", "solve_square", "tensorinv", "tensorsolve"]
