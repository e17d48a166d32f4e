"""Checks the solvers' arguments and runs a solver as one program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.control.custom.custom_linear_solve import custom_linear_solve
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import tree_flatten, tree_leaves, tree_map, tree_structure
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import check_array, promote_dtypes_inexact, shape_of
from mjax._numpy.fused import fused
from mjax._numpy.like import zeros_like
from mjax._numpy.staged import Staged, staged
from mjax._scipy.krylov import vectors

#: Fragments of docstrings; see `documented`.
FRAGMENTS = {
    "A": """\
A: a square matrix, or a function that multiplies it by a vector: from a tree like `b`
  to a tree like `b`. Values that it closes over are differentiable.""",
    "b": "b: the right-hand side: an array, or a pytree of arrays that form one vector.",
    "x0": "x0: the starting point, a tree like `b`; by default zeros.",
    "tol": """\
tol, atol: the method converges when the norm of the residual is at most
  `max(tol * norm(b), atol)`.""",
    "M": "M: the preconditioner, an approximate inverse of `A`: a matrix, or a function as `A`.",
    "raises": """\
Raises:
  TypeError: `A` or `M` is neither a matrix nor a function.
  ValueError: a matrix is not square, or `x0` is not a tree like `b`.""",
    "derivatives": """\
Derivatives solve linear equations by the same method, and so are equally accurate.""",
}

#: Static part of a matrix, whose operand is the matrix itself.
_MATRIX = "matrix"


def solved(name: str, method: Any, A: Any, b: Any, x0: Any, M: Any, symmetric: bool,
           **numbers: Any) -> Any:
    """Checks the arguments and solves the system.

    Args:
      name: the function's name, for messages.
      method: `method(matvec, b, x0, precondition, **numbers)` returns the solution.
      A, b, x0, M: the function's arguments.
      symmetric: whether `A`, if real, is known to be symmetric.
      numbers: further arguments of `method`, which may be traced.
    """
    b = tree_map(lambda x: array_of(check_array(name, x, "b")), b)
    x0 = _start(name, b, x0)
    pairs = tree_map(promote_dtypes_inexact, b, x0)
    b, x0 = [tree_map(lambda _, pair, i=i: pair[i], b, pairs) for i in (0, 1)]
    leaves, tree = tree_flatten(b)
    if not leaves:
        return b
    matrix, preconditioner = _linear(name, "A", A, b), _linear(name, "M", M, b)
    real = not any(dtypes.is_complex(typeof(x).dtype) for x in leaves)
    return _solved(leaves, tree_leaves(x0), matrix[1], preconditioner[1],
                   list(numbers.values()), names=tuple(numbers), method=method, tree=tree,
                   matrix=matrix[0], preconditioner=preconditioner[0],
                   symmetric=symmetric and real)


@fused(static_argnames=("names", "method", "tree", "matrix", "preconditioner", "symmetric"))
def _solved(b: Sequence[Any], x0: Sequence[Any], of_matrix: Any, of_preconditioner: Any,
            numbers: Sequence[Any], *, names: tuple[str, ...], method: Any, tree: Any,
            matrix: Any, preconditioner: Any, symmetric: bool) -> Any:
    start, options = tree.unflatten(x0), dict(zip(names, numbers, strict=True))
    precondition = _function(preconditioner, of_preconditioner)

    def solve(matvec: Callable[[Any], Any], b: Any) -> Any:
        return method(matvec, b, start, precondition, **options)

    return custom_linear_solve(_function(matrix, of_matrix), tree.unflatten(b), solve, solve,
                               symmetric)


def _start(name: str, b: Any, x0: Any) -> Any:
    if x0 is None:
        return tree_map(zeros_like, b)
    x0 = tree_map(lambda x: array_of(check_array(name, x, "x0")), x0)
    if tree_structure(x0) != tree_structure(b):
        raise LazyValueError(lambda: (
            f"{name}: x0 must have the tree structure of b, {tree_structure(b)}, but has "
            f"{tree_structure(x0)}."))
    shapes = [list(map(shape_of, tree_leaves(tree))) for tree in (x0, b)]
    if shapes[0] != shapes[1]:
        raise LazyValueError(lambda: (
            f"{name}: the arrays of x0 must have the shapes of those of b, {shapes[1]}, but have "
            f"{shapes[0]}."))
    return x0


def _linear(name: str, argument: str, f: Any, b: Any) -> tuple[Any, list[Any]]:
    """Splits a linear function into a static argument and operands; None is the identity."""
    if f is None:
        return None, []
    if callable(f):
        return _staged(name, argument, f, b)
    shape = getattr(f, "shape", None)
    if not hasattr(f, "__matmul__") or shape is None:
        raise LazyTypeError(lambda: (
            f"{name}: {argument} must be a square matrix or a function, got {f!r}."))
    if len(shape) != 2 or shape[0] != shape[1]:
        raise LazyValueError(lambda: (
            f"{name}: {argument} must be a square matrix, but has shape {tuple(shape)}."))
    try:
        matrix = array_of(check_array(name, f, argument))
    except TypeError:  # a user's object with its own `@`
        return _staged(name, argument, functools.partial(operator.matmul, f), b)
    leaves = tree_leaves(b)
    if len(leaves) > 1 or shape_of(leaves[0])[-2:][:1] != tuple(shape[:1]):
        raise LazyTypeError(lambda: (
            f"{name}: {argument} of shape {tuple(shape)} takes a vector of {shape[0]} elements, "
            f"but b is {_told(tree_map(typeof, b))}. Give a function for other trees."))
    return _MATRIX, [matrix]


def _staged(name: str, argument: str, f: Callable[[Any], Any], b: Any
            ) -> tuple[Staged, list[Any]]:
    """A user's linear function."""
    static, operands = staged(name, f, b)
    wanted, found = tree_map(typeof, b), static.result_types
    if tree_structure(found) != tree_structure(wanted) or any(
            x.shape != y.shape for x, y in zip(
                tree_leaves(found), tree_leaves(wanted), strict=True)):
        raise LazyValueError(lambda: (
            f"{name}: {argument} must return a tree of the shapes of b, {_told(wanted)}, but "
            f"{static.name} returns {_told(found)}."))
    return static, operands


def _told(types: Any) -> str:
    return str(tree_map(str, types)).replace("'", "")


def _function(static: Staged | str | None, operands: Sequence[Any]) -> Callable[[Any], Any]:
    if static is None:
        return identity
    if isinstance(static, str):
        return lambda x: vectors.dot(operands[0], x)
    return lambda x: static(operands, x)


def identity(x: Any) -> Any:
    """The identity."""
    return x


def size_of_tree(b: Any) -> int:
    """The number of elements of a vector."""
    return sum([typeof(x).size for x in tree_leaves(b)])
