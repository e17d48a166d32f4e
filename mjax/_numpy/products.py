"""Products of arrays: dot, matmul and their variants, in terms of `dot_general`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import bitwise_and, conj, mul, sub
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.shapes import (
    array_of,
    expand_dims,
    reshape,
    squeeze,
    transpose,
)
from mjax._engine.primitives.slicing import index_in_dim
from mjax._engine.runtime.arrays.out_sharding import lays_out
from mjax._numpy.core import (
    broadcast_shapes,
    broadcast_to,
    cast,
    check_arrays,
    concrete_int,
    refuse_out,
    shape_of,
    weak_type_of,
)
from mjax._numpy.fused import fused
from mjax._numpy.joining import stack
from mjax._numpy.shapes import moveaxis, ravel

_PRODUCT = ("precision", "preferred_element_type")


class Accuracy:
    """The computation and the result type of a product.

    Args:
      precision: as in `lax.dot_general`.
      preferred_element_type: dtype of sums and result, or None.
      weak: whether the result is weakly typed.
    """

    __slots__ = ("precision", "preferred", "weak")

    def __init__(self, precision: Any, preferred_element_type: Any, weak: bool):
        self.precision = precision
        self.preferred = (None if preferred_element_type is None
                          else dtypes.asked_dtype(preferred_element_type, "preferred_element_type"))
        self.weak = weak and preferred_element_type is None

    def contract(self, a: Any, b: Any, dimension_numbers: Any) -> Any:
        """`dot_general` of operands of one dtype."""
        preferred = typeof(a).dtype if self.preferred is None else self.preferred
        out = dot_general(a, b, dimension_numbers, self.precision, preferred)
        return cast(out, typeof(out).dtype, self.weak)


def operands(args: Sequence[Any], precision: Any, preferred_element_type: Any
             ) -> tuple[list[Any], Accuracy]:
    """Arguments promoted to one dtype, and the `Accuracy` of their product."""
    dtype, weak = common_type(*map(weak_type_of, args))
    values = [array_of(cast(x, dtype, weak)) for x in args]
    return values, Accuracy(precision, preferred_element_type, weak)


def multiply(a: Any, b: Any) -> Any:
    """The elementwise product of operands of one dtype, with scalars broadcast; `and` for bools."""
    return (bitwise_and if typeof(a).dtype == np.bool_ else mul)(a, b)


# ---- dot, matmul -----------------------------------------------------------------------


@fused(values=("a", "b"), static_argnames=_PRODUCT, out_sharding=True)
def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Product of two arrays: sums over the last axis of `a` and the last but one of `b`.

    Args:
      a: array of shape `(..., k)`, or a scalar.
      b: array of shape `(k,)` or `(..., k, n)`, or a scalar.
      precision: None, a `lax.Precision` or its name, a pair of those, or a dot algorithm.
      preferred_element_type: dtype of sums and result.

    Returns:
      An array whose axes are those of `a` and then those of `b`, without the axes summed over;
      for scalars the elementwise product.

    Raises:
      TypeError: the sizes of the axes summed over differ.

    Source: `numpy.dot`.

    Example:
      >>> jnp.dot(jnp.array([1, 2]), jnp.array([3, 4]))
      Array(11, dtype=int32)
    """
    (a, b), how = operands((a, b), precision, preferred_element_type)
    left, right = typeof(a).ndim, typeof(b).ndim
    if left == 0 or right == 0:
        out = multiply(a, b)
        return out if how.preferred is None else cast(out, how.preferred)
    _check_contracted("dot", a, b, left - 1, max(right - 2, 0))
    return how.contract(a, b, (((left - 1,), (max(right - 2, 0),)), ((), ())))


def _check_contracted(name: str, a: Any, b: Any, i: int, j: int) -> None:
    if shape_of(a)[i] != shape_of(b)[j]:
        msg = (f"{name} requires contracting dimensions to have the same shape, got "
               f"{shape_of(a)[i]} and {shape_of(b)[j]}: axis {i} of the first operand, of shape "
               f"{shape_of(a)}, and axis {j} of the second, of shape {shape_of(b)}.")
        raise TypeError(msg)


@fused(values=("a", "b"), static_argnames=_PRODUCT, out_sharding=True)
def matmul(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Product of matrices, or of stacks of matrices: `a @ b`.

    Args:
      a: array of shape `(k,)` or `(..., m, k)`.
      b: array of shape `(k,)` or `(..., k, n)`; leading axes broadcast against those of `a`.
      precision: None, a `lax.Precision` or its name, a pair of those, or a dot algorithm.
      preferred_element_type: dtype of sums and result.

    Returns:
      An array of shape `(..., m, n)`, without `m` or `n` if that operand is a vector.

    Raises:
      ValueError: an operand is a scalar, or leading axes do not broadcast.
      TypeError: the sizes of the axes summed over differ.

    Source: `numpy.matmul`.

    Example:
      >>> jnp.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
      Array([3, 7], dtype=int32)
    """
    (a, b), how = operands((a, b), precision, preferred_element_type)
    for i, x in enumerate((a, b)):
        if not shape_of(x):
            msg = (f"matmul: input operand {i} must have ndim at least 1, but it has ndim 0; use "
                   "multiply for scalars.")
            raise ValueError(msg)
    _check_contracted("matmul", a, b, typeof(a).ndim - 1, max(typeof(b).ndim - 2, 0))
    if typeof(a).ndim <= 2 and typeof(b).ndim <= 2:
        return how.contract(a, b, (((typeof(a).ndim - 1,), (0,)), ((), ())))
    return _stacked_matmul(a, b, how)


def _stacked_matmul(a: Any, b: Any, how: Accuracy) -> Any:
    """A product of stacks of matrices that does not repeat operands in memory.

    Leading axes are free axes if the other operand does not have them, or has size 1 there.
    """
    matrix_a, matrix_b = typeof(a).ndim > 1, typeof(b).ndim > 1
    lead_a, lead_b = shape_of(a)[:-2], shape_of(b)[:-2]
    try:
        lead = broadcast_shapes(lead_a, lead_b)
    except ValueError:
        msg = (f"Incompatible types for matmul arguments: {typeof(a)} and {typeof(b)}; their "
               f"leading axes {lead_a} and {lead_b} do not broadcast.")
        raise ValueError(msg) from None
    rank = len(lead)
    full_a, full_b = [(1,) * (rank - len(s)) + s for s in (lead_a, lead_b)]
    has_a = [n == m for n, m in zip(full_a, lead, strict=True)]
    has_b = [n == m for n, m in zip(full_b, lead, strict=True)]
    # An axis of size 1 in both may be missing in one of them.
    has_a = [h and i >= rank - len(lead_a) for i, h in enumerate(has_a)]
    has_b = [h and i >= rank - len(lead_b) for i, h in enumerate(has_b)]
    a = squeeze(a, [i - rank + len(lead_a) for i in range(rank - len(lead_a), rank)
                    if not has_a[i]])
    b = squeeze(b, [i - rank + len(lead_b) for i in range(rank - len(lead_b), rank)
                    if not has_b[i]])
    axes_a = [i for i in range(rank) if has_a[i]]
    axes_b = [i for i in range(rank) if has_b[i]]
    both = [i for i in axes_a if i in axes_b]
    contracted_b = len(axes_b)
    out = how.contract(a, b, (
        ((len(axes_a) + matrix_a,), (contracted_b,)),
        ([axes_a.index(i) for i in both], [axes_b.index(i) for i in both])))
    names = [*both, *[i for i in axes_a if i not in both], *(["m"] if matrix_a else []),
             *[i for i in axes_b if i not in both], *(["n"] if matrix_b else [])]
    wanted = [*range(rank), *(["m"] if matrix_a else []), *(["n"] if matrix_b else [])]
    return transpose(out, [names.index(i) for i in wanted])


# ---- products of vectors ---------------------------------------------------------------


@fused(values=("a", "b"), static_argnames=_PRODUCT)
def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Scalar product of all elements of two arrays, with the first one conjugated.

    Args:
      a: array.
      b: array of as many elements.
      precision: as in `dot`.
      preferred_element_type: as in `dot`.

    Returns:
      A scalar.

    Raises:
      TypeError: the numbers of elements differ.

    Source: `numpy.vdot`.

    Example:
      >>> jnp.vdot(jnp.array([1j, 2]), jnp.array([1j, 3]))
      Array(7.+0.j, dtype=complex64)
    """
    return dot(_conjugate(ravel(a)), ravel(b), precision=precision,
               preferred_element_type=preferred_element_type)


def _conjugate(x: Any) -> Any:
    return conj(x) if dtypes.is_complex(typeof(x).dtype) else x


@fused(values=("x1", "x2"), static_argnames=("axis", *_PRODUCT))
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: Any = None) -> Any:
    """Scalar products of the vectors along an axis, with the first array conjugated.

    Args:
      x1: array.
      x2: array that broadcasts against `x1`.
      axis: the axis of the vectors.
      precision: as in `dot`.
      preferred_element_type: as in `dot`.

    Returns:
      An array without that axis.

    Raises:
      ValueError: the axes have different sizes, or the other axes do not broadcast.

    Source: `numpy.vecdot`.

    Example:
      >>> jnp.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    (x1, x2), how = operands((x1, x2), precision, preferred_element_type)
    x1, x2 = [moveaxis(x, canonicalize_axis(axis, typeof(x).ndim), -1) for x in (x1, x2)]
    if shape_of(x1)[-1] != shape_of(x2)[-1]:
        msg = (f"vecdot: axes must match; the vectors along axis {axis} have sizes "
               f"{shape_of(x1)[-1]} and {shape_of(x2)[-1]}.")
        raise ValueError(msg)
    x1 = expand_dims(_conjugate(x1), (typeof(x1).ndim - 1,))
    x2 = expand_dims(x2, (typeof(x2).ndim,))
    out = _stacked_matmul(x1, x2, how)
    return squeeze(out, (typeof(out).ndim - 2, typeof(out).ndim - 1))


@fused(values=("x1", "x2"))
def matvec(x1: Any, x2: Any, /) -> Any:
    """Products of matrices and vectors.

    Args:
      x1: array of shape `(..., m, n)`.
      x2: array of shape `(..., n)`; leading axes broadcast.

    Returns:
      An array of shape `(..., m)`.

    Raises:
      ValueError: an operand has too few axes, or leading axes do not broadcast.
      TypeError: the sizes `n` differ.

    Source: `numpy.matvec`.

    Example:
      >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10]))
      Array([21, 43], dtype=int32)
    """
    (x1, x2), how = operands((x1, x2), None, None)
    _check_rank("matvec", "x1", x1, 2)
    _check_rank("matvec", "x2", x2, 1)
    _check_contracted("matvec", x1, x2, typeof(x1).ndim - 1, typeof(x2).ndim - 1)
    out = _stacked_matmul(x1, expand_dims(x2, (typeof(x2).ndim,)), how)
    return squeeze(out, (typeof(out).ndim - 1,))


@fused(values=("x1", "x2"))
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Products of conjugated vectors and matrices.

    Args:
      x1: array of shape `(..., n)`.
      x2: array of shape `(..., n, m)`; leading axes broadcast.

    Returns:
      An array of shape `(..., m)`.

    Raises:
      ValueError: an operand has too few axes, or leading axes do not broadcast.
      TypeError: the sizes `n` differ.

    Source: `numpy.vecmat`.

    Example:
      >>> jnp.vecmat(jnp.array([1, 10]), jnp.array([[1, 2], [3, 4]]))
      Array([31, 42], dtype=int32)
    """
    (x1, x2), how = operands((x1, x2), None, None)
    _check_rank("vecmat", "x1", x1, 1)
    _check_rank("vecmat", "x2", x2, 2)
    _check_contracted("vecmat", x1, x2, typeof(x1).ndim - 1, typeof(x2).ndim - 2)
    out = _stacked_matmul(expand_dims(_conjugate(x1), (typeof(x1).ndim - 1,)), x2, how)
    return squeeze(out, (typeof(out).ndim - 2,))


def _check_rank(name: str, argument: str, x: Any, rank: int) -> None:
    if typeof(x).ndim < rank:
        msg = (f"{name}: {argument} must have at least {rank} ax{'i' if rank == 1 else 'e'}s, got "
               f"shape {shape_of(x)}.")
        raise ValueError(msg)


@fused(values=("a", "b"), static_argnames=_PRODUCT)
def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Scalar products along the last axes.

    Args:
      a: array of shape `(..., k)`, or a scalar.
      b: array of shape `(..., k)`, or a scalar.
      precision: as in `dot`.
      preferred_element_type: as in `dot`.

    Returns:
      An array whose axes are those of `a` but the last, then those of `b` but the last.

    Raises:
      TypeError: the sizes of the last axes differ.

    Source: `numpy.inner`.

    Example:
      >>> jnp.inner(jnp.array([1, 2]), jnp.array([[1, 10], [0, 1]]))
      Array([21,  2], dtype=int32)
    """
    (a, b), how = operands((a, b), precision, preferred_element_type)
    left, right = typeof(a).ndim - 1, typeof(b).ndim - 1
    if left < 0 or right < 0:
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    _check_contracted("inner", a, b, left, right)
    return how.contract(a, b, (((left,), (right,)), ((), ())))


@fused(values=("a", "b"), static_argnames=("out",))
def outer(a: Any, b: Any, out: None = None) -> Any:
    """Products of each element of one array with each of another.

    Args:
      a: array of `m` elements, read in the order of `ravel`.
      b: array of `n` elements.
      out: not supported.

    Returns:
      An array of shape `(m, n)`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.outer`.

    Example:
      >>> jnp.outer(jnp.array([1, 2]), jnp.array([1, 10]))
      Array([[ 1, 10],
             [ 2, 20]], dtype=int32)
    """
    refuse_out("outer", out)
    (a, b), _ = operands((a, b), None, None)
    return multiply(reshape(a, (math.prod(shape_of(a)), 1)),
                    reshape(b, (1, math.prod(shape_of(b)))))


@fused(values=("a", "b"), static_argnames=("axisa", "axisb", "axisc", "axis"))
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Any:
    """Cross product of vectors of size 3, or 2.

    Args:
      a: array of vectors.
      b: array of vectors that broadcasts against `a`.
      axisa: axis of the vectors in `a`.
      axisb: axis of the vectors in `b`.
      axisc: axis of the vectors in the result.
      axis: all three.

    Returns:
      An array of vectors of size 3. If both operands have size 2, only the third components,
      without that axis.

    Raises:
      ValueError: the vectors have another size.

    Source: `numpy.cross`.

    Example:
      >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    (a, b), _ = operands((a, b), None, None)
    if axis is not None:
        axisa = axisb = axisc = axis
    vectors = [moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)]
    sizes = [shape_of(v)[-1] for v in vectors]
    if any(n not in (2, 3) for n in sizes):
        msg = (f"cross: the vectors must have 2 or 3 components, got arrays of shapes "
               f"{shape_of(a)} and {shape_of(b)} with {sizes[0]} and {sizes[1]}.")
        raise ValueError(msg)
    lead = broadcast_shapes(*[shape_of(v)[:-1] for v in vectors])
    parts = []
    for v in vectors:
        v = cast(v, typeof(v).dtype)
        column = [broadcast_to(index_in_dim(v, i, -1 + typeof(v).ndim, False), lead)
                  for i in range(shape_of(v)[-1])]
        parts.append(column)
    (a0, a1, *rest_a), (b0, b1, *rest_b) = parts
    third = sub(mul(a0, b1), mul(a1, b0))
    if not rest_a and not rest_b:
        return third
    a2, b2 = [rest[0] if rest else None for rest in (rest_a, rest_b)]
    first = _difference(a1, b2, a2, b1)
    second = _difference(a2, b0, a0, b2)
    return stack([first, second, third], axisc)


def _difference(a: Any, b: Any, c: Any, d: Any) -> Any:
    """`a * b - c * d`, where None is zero."""
    if a is None or b is None:
        return mul(_negated(c), d)
    return mul(a, b) if c is None or d is None else sub(mul(a, b), mul(c, d))


def _negated(x: Any) -> Any:
    return sub(np.zeros((), typeof(x).dtype), x)


# ---- products of arrays ----------------------------------------------------------------


@fused(static_argnames=("axes", *_PRODUCT))
def _tensordot(a: Any, b: Any, axes: Any, precision: Any, preferred_element_type: Any) -> Any:
    (a, b), how = operands((a, b), precision, preferred_element_type)
    return how.contract(a, b, (axes, ((), ())))


@lays_out
def tensordot(a: Any, b: Any, axes: Any = 2, *, precision: Any = None,
              preferred_element_type: Any = None) -> Any:
    """Sums the products of two arrays over pairs of axes.

    Args:
      a: array.
      b: array.
      axes: the number of last axes of `a` and first ones of `b`; or a pair of axes or of
        sequences of axes, one for each array.
      precision: as in `dot`.
      preferred_element_type: as in `dot`.

    Returns:
      An array whose axes are those of `a`, then those of `b`, without those summed over.

    Raises:
      TypeError: the axes do not exist, or their numbers or sizes differ.

    Source: `numpy.tensordot`.

    Example:
      >>> jnp.tensordot(jnp.ones((2, 3, 4)), jnp.ones((4, 3, 5)), axes=((1, 2), (1, 0))).shape
      (2, 5)
    """
    a, b = check_arrays("tensordot", a, b)
    left, right = shape_of(a), shape_of(b)
    if not isinstance(axes, (list, tuple)) and np.ndim(axes) == 0:
        n = concrete_int(axes, "tensordot: axes")
        if not 0 <= n <= min(len(left), len(right)):
            msg = (f"tensordot: axes={n} exceeds the number of axes of arrays of shapes {left} "
                   f"and {right}, or is negative.")
            raise TypeError(msg)
        pair: Any = (tuple(range(len(left) - n, len(left))), tuple(range(n)))
    else:
        if len(axes) != 2:
            msg = f"tensordot: axes must be an integer or a pair of sequences of axes, got {axes}."
            raise TypeError(msg)
        pair = tuple(tuple(canonicalize_axis(i, len(s)) for i in (
            x if isinstance(x, (list, tuple)) or np.ndim(x) else (x,)))
            for x, s in zip(axes, (left, right), strict=True))
    if len(pair[0]) != len(pair[1]):
        msg = f"tensordot requires axes lists to have equal length, got {axes[0]} and {axes[1]}."
        raise TypeError(msg)
    for i, j in zip(*pair, strict=True):
        _check_contracted("tensordot", a, b, i, j)
    return _tensordot(a, b, axes=pair, precision=precision,
                      preferred_element_type=preferred_element_type)


@fused(values=("a", "b"))
def kron(a: Any, b: Any) -> Any:
    """Kronecker product: each element of `a` times the whole of `b`.

    Args:
      a: array of shape `(m_0, m_1, ...)`.
      b: array of shape `(n_0, n_1, ...)`; the shorter shape is extended by leading ones.

    Returns:
      An array of shape `(m_0 * n_0, m_1 * n_1, ...)`.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.kron`.

    Example:
      >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
      Array([ 1,  2, 10, 20], dtype=int32)
    """
    (a, b), _ = operands((a, b), None, None)
    rank = max(typeof(a).ndim, typeof(b).ndim)
    left, right = [(1,) * (rank - typeof(x).ndim) + shape_of(x) for x in (a, b)]
    interleaved_a = [n for m in left for n in (m, 1)]
    interleaved_b = [n for m in right for n in (1, m)]
    out = multiply(reshape(a, interleaved_a), reshape(b, interleaved_b))
    return reshape(out, [m * n for m, n in zip(left, right, strict=True)])


__all__ = [
    "Accuracy", "cross", "dot", "inner", "kron", "matmul", "matvec", "multiply", "operands",
    "outer", "tensordot", "vdot", "vecdot", "vecmat",
]
