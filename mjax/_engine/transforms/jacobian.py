"""Jacobians and Hessians: `jacfwd`, `jacrev`, `hessian`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P
from mjax._engine.base.util import alias
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import keystr, tree_flatten, tree_flatten_with_path
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import add, eq
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.iota import broadcasted_iota
from mjax._engine.primitives.shapes import reshape, zeros_of
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.tracing.flat import (
    argument_numbers,
    check_callable,
    choose_arguments,
    described,
    function_name,
    wraps,
)
from mjax._engine.tracing.reference import refuse_differentiated
from mjax._engine.transforms.forward import linearize
from mjax._engine.transforms.reverse import vjp
from mjax._engine.transforms.vmap import vmap


def _basis(tree: Any) -> Any:
    """The standard basis of a tree: along a new leading axis, one element after the other is 1."""
    leaves, treedef = tree_flatten(tree)
    avals = [typeof(leaf) for leaf in leaves]
    total, start, rows = sum(a.size for a in avals), 0, []
    for aval in avals:
        row = broadcasted_iota("int32", (total, aval.size), 0)
        column = broadcasted_iota("int32", (total, aval.size), 1)
        ones = eq(row, add(column, np.int32(start)))
        rows.append(reshape(convert(ones, aval.dtype, aval.weak_type), (total, *aval.shape)))
        start += aval.size
    return treedef.unflatten(rows)


def _cut(tree: Any, axis: int, rows: Any) -> Any:
    """Cuts an axis that counts the elements of a tree into a tree of arrays.

    Args:
      tree: the tree whose elements the axis counts.
      axis: 0, for axes in front, or -1.
      rows: the array.
    """
    leaves, treedef = tree_flatten(tree)
    pieces, start = [], 0
    for leaf in leaves:
        aval = typeof(leaf)
        piece = slice_in_dim(rows, start, start + aval.size, axis=axis)
        shape = typeof(piece).shape
        pieces.append(reshape(piece, (*aval.shape, *shape[1:]) if axis == 0
                              else (*shape[:-1], *aval.shape)))
        start += aval.size
    return treedef.unflatten(pieces)


def _check_inputs(who: str, trees: Any, holomorphic: bool, allow_int: bool = False) -> None:
    for path, leaf in tree_flatten_with_path(trees)[0]:
        refuse_differentiated(who, f"argument{keystr(path)}", leaf)
        dtype = typeof(leaf).dtype
        if holomorphic and not dtypes.is_complex(dtype):
            msg = (f"{who} with holomorphic=True requires complex inputs; argument"
                   f"{keystr(path)} has dtype {dtype}.")
            raise TypeError(msg)
        if not holomorphic and not (dtypes.is_float(dtype) or allow_int or (
                who == "jacrev" and dtypes.is_inexact(dtype))):
            msg = (f"{who} requires real-valued inputs (floating dtype); argument{keystr(path)} "
                   f"has dtype {dtype}.")
            raise TypeError(msg)


def _check_outputs(who: str, fun: Callable[..., Any], tree: Any, holomorphic: bool) -> None:
    for leaf in tree_flatten(tree)[0]:
        dtype = typeof(leaf).dtype
        if not (dtypes.is_complex(dtype) if holomorphic else dtypes.is_float(dtype)):
            kind = "complex" if holomorphic else "real-valued (floating)"
            raise LazyTypeError(
                f"{who} requires {kind} outputs; {function_name(fun)} returned {dtype}.")


def _numbers(columns: Any, out: Any) -> Any:
    """The columns; for an output without a derivative, zeros of its own dtype."""
    aval = typeof(columns)
    if aval.dtype != dtypes.float0:
        return columns
    return zeros_of(aval.update(dtype=typeof(out).dtype))


@boundary
def jacfwd(fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False) -> Function[P, Any]:
    """A function that gives the Jacobian of `fun`, column by column in forward mode.

    Args:
      fun: a function of pytrees of arrays.
      argnums: positions of the arguments to differentiate in.
      has_aux: whether `fun` returns a pair `(outputs, aux)`.
      holomorphic: whether `fun` is a holomorphic function of complex arguments.

    Returns:
      A function of the same arguments. For an output of shape `s` and an argument of shape
      `t` the Jacobian has shape `(*s, *t)`; trees of outputs hold trees of arguments. The
      Jacobian of an integer output is zeros of its dtype.

    Raises:
      TypeError: an argument is not a float; an argument or result is not a complex number with
        `holomorphic`.

    Example:
      >>> mjax.jacfwd(lambda x: x ** 2)(jnp.array([1.0, 3.0]))
      Array([[2., 0.],
             [0., 6.]], dtype=float32)
    """
    check_callable("jacfwd", fun)
    numbers = argument_numbers("jacfwd", argnums)

    @wraps(fun)
    @boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        f, primals, _, single = choose_arguments("jacfwd", fun, numbers, args, kwargs)
        _check_inputs("jacfwd", primals, holomorphic)
        linearized = linearize(f, *primals, has_aux=has_aux)
        if holomorphic:
            _check_outputs("jacfwd", fun, linearized[0], True)
        columns = vmap(linearized[1], out_axes=-1)(*_basis(primals))
        leaves, out_tree = tree_flatten(columns)
        jacobians = [_cut(primals, -1, _numbers(rows, out)) for rows, out in zip(
            leaves, tree_flatten(linearized[0])[0], strict=True)]
        jacobian = out_tree.unflatten([j[0] if single else j for j in jacobians])
        return (jacobian, linearized[2]) if has_aux else jacobian

    jacobian_of.__doc__ = described(
        f"Jacobian of {function_name(fun)} in argument {argnums}.", fun)
    return jacobian_of


@boundary
def jacrev(fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
           holomorphic: bool = False, allow_int: bool = False) -> Function[P, Any]:
    """A function that gives the Jacobian of `fun`, row by row in reverse mode.

    Args:
      fun: a function of pytrees of arrays.
      argnums: positions of the arguments to differentiate in.
      has_aux: whether `fun` returns a pair `(outputs, aux)`.
      holomorphic: whether `fun` is a holomorphic function of complex arguments.
      allow_int: whether integer arguments are accepted; their Jacobians are float0.

    Returns:
      A function of the same arguments; the Jacobian has the tree structure of that of `jacfwd`.

    Raises:
      TypeError: an argument or result has no suitable dtype.

    Example:
      >>> mjax.jacrev(lambda x: x ** 2)(jnp.array([1.0, 3.0]))
      Array([[2., 0.],
             [0., 6.]], dtype=float32)
    """
    check_callable("jacrev", fun)
    numbers = argument_numbers("jacrev", argnums)

    @wraps(fun)
    @boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        f, primals, _, single = choose_arguments("jacrev", fun, numbers, args, kwargs)
        _check_inputs("jacrev", primals, holomorphic, allow_int)
        out, pullback, *aux = vjp(f, *primals, has_aux=has_aux)
        _check_outputs("jacrev", fun, out, holomorphic)
        rows = vmap(pullback)(_basis(out))
        leaves, in_tree = tree_flatten(rows)
        # Now a tree of outputs for each leaf of the arguments; the result is the other way round.
        cut = [_cut(out, 0, leaf) for leaf in leaves]
        out_tree = tree_flatten(out)[1]
        by_output = zip(*[out_tree.flatten_up_to(c) for c in cut], strict=True)
        jacobians = [in_tree.unflatten(row) for row in by_output]
        jacobian = out_tree.unflatten([j[0] if single else j for j in jacobians])
        return (jacobian, *aux) if has_aux else jacobian

    jacobian_of.__doc__ = described(
        f"Jacobian of {function_name(fun)} in argument {argnums}.", fun)
    return jacobian_of


jacobian: Final = alias(jacrev, "jacobian")


@boundary
def hessian(fun: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False,
            holomorphic: bool = False) -> Function[P, Any]:
    """A function that gives the Hessian of `fun`: `jacfwd` of `jacrev`.

    For an output of shape `s` and arguments of shapes `t` and `u` the block of second derivatives
    has shape `(*s, *t, *u)`.

    Args:
      fun: a function whose results are arrays of real dtype, or complex with `holomorphic`.
      argnums: positions of the arguments to differentiate in.
      has_aux: whether `fun` returns a pair `(result, aux)`.
      holomorphic: whether `fun` is a holomorphic function of complex arguments.

    Returns:
      A function of the same arguments that gives the trees of second derivatives; `(hessian, aux)`
      with `has_aux`.

    Raises:
      TypeError: `fun` is not a function, or `argnums` not integers; at calls: an argument or result
        does not have a floating dtype, or not a complex one with `holomorphic`.
      ValueError: at calls: `argnums` names an argument that is not given, or one twice.

    Example:
      >>> mjax.hessian(lambda x: x[0] * x[1] ** 2)(jnp.array([1.0, 3.0]))
      Array([[0., 6.],
             [6., 2.]], dtype=float32)
    """
    numbers = argument_numbers("hessian", argnums)
    hessian_of = jacfwd(jacrev(fun, numbers, has_aux, holomorphic), numbers, has_aux, holomorphic)
    hessian_of.__doc__ = described(
        f"Hessian of {function_name(fun)} in argument {argnums}.", fun)
    return hessian_of
