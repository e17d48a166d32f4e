"""The public function for vectorization: `vmap`."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Function, P, R
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.pytree import (
    broadcast_prefix,
    broadcast_prefix_to,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
)
from mjax._engine.ir.types import is_array_value, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.shapes import held, reduce_sum
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_arguments,
    check_callable,
    debug_info_of,
    described,
    function_name,
    parameter_name,
    refuse_leaf,
    wraps,
)
from mjax._engine.tracing.reference import check_aliases
from mjax._engine.transforms.batching import AxisData, batch_flat, to_dim
from mjax._engine.transforms.elements import (
    iotas,
    is_spec,
    is_vmappable,
    map_elements,
    numbers_of,
    refuse_spec,
    vmappables,
)


@boundary
def vmap(fun: Callable[P, R], in_axes: Any = 0, out_axes: Any = 0,
         axis_name: Hashable | None = None, axis_size: int | None = None,
         spmd_axis_name: Any = None, sum_match: bool = False) -> Function[P, R]:
    """A function that maps `fun` over axes of its arguments, as one vectorized computation.

    Args:
      fun: a function of pytrees of arrays.
      in_axes: which axis of each argument is mapped: an int, None for arguments that are the
        same for all elements (and need not be arrays), or a tuple with a tree prefix of ints and
        None per argument. Arguments given by keyword are mapped along axis 0.
      out_axes: where the mapped axis appears in the results; a tree prefix of ints and None
        (None: the result must not depend on the mapped arguments). Both may hold specs of
        classes of one's own (`mjax_ext.interpreters.batching.register_vmappable`).
      axis_name: the name of the axis for collectives in `fun`.
      axis_size: its size; required if no argument is mapped.
      spmd_axis_name: mesh axes over which it is spread.
      sum_match: whether results that depend on mapped arguments and have None in `out_axes` are
        summed over the mapped axis, rather than refused.

    Returns:
      A function of arguments with one more axis, whose results have one more axis.

    Raises:
      ValueError: sizes of mapped axes differ, an axis is out of range, or the trees of
        axes do not fit; at calls.
      TypeError: `in_axes` holds anything but ints and None; at calls: a mapped argument or a
        result is not an array.

    Example:
      >>> mjax.vmap(lax.add, in_axes=(0, None))(jnp.arange(3), 10)
      Array([10, 11, 12], dtype=int32)
    """
    check_callable("vmap", fun)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)  # a list would be taken for one argument's tree
    specs = _have_specs("in_axes", in_axes) | _have_specs("out_axes", out_axes)

    @wraps(fun)
    @boundary
    def batched(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            msg = (f"vmap: in_axes has {len(in_axes)} entries, but {function_name(fun)} was called "
                   f"with {len(args)} positional arguments: give one entry per argument."
                   f"{_KEYWORDS if kwargs else ''}")
            raise ValueError(msg)
        if specs or vmappables:
            return _over_elements(fun, args, kwargs, (in_axes, out_axes), axis_name, axis_size,
                                  spmd_axis_name, sum_match)
        leaves, in_tree = tree_flatten((args, kwargs))
        axes = flat_axes("vmap", fun, in_axes, args) + [0] * len(tree_leaves(kwargs))
        if not all([axis is None or is_array_value(leaf)
                    for leaf, axis in zip(leaves, axes, strict=True)]):
            _refuse_values(fun, args, kwargs, leaves, axes)
        dims, size = dims_and_size("vmap", fun, args, kwargs, leaves, axes, axis_size)
        check_aliases(lambda: debug_info_of("vmap", fun, args, kwargs), leaves)
        flat = FlatFunction(fun, in_tree)
        axis = AxisData(axis_name, size, spmd_axis_name)
        outs, out_dims = batch_flat(flat, axis, held(leaves, [d is not None for d in dims]), dims)
        if not all(map(is_array_value, outs)):
            check_arguments(f"vmap of {function_name(fun)}", flat.out_tree.unflatten(outs),
                            "result")
        wanted = _out_axes(out_axes, flat.out_tree)
        return flat.out_tree.unflatten([
            _place(o, d, w, size, fun, sum_match)
            for o, d, w in zip(outs, out_dims, wanted, strict=True)])

    batched.__doc__ = described(
        f"Vectorized {function_name(fun)}: takes its arguments, and gives its results, with one "
        "more axis where in_axes and out_axes say so.", fun)
    return batched


_KEYWORDS = (" Arguments given by keyword do not have entries, and are mapped along axis 0: give "
             "others by position.")


def _over_elements(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                   axes: tuple[Any, Any], axis_name: Hashable | None, axis_size: Any,
                   spmd_axis_name: Any, sum_match: bool) -> Any:
    """The same where some values may be of classes of `register_vmappable`."""
    leaves, in_tree = tree_flatten((args, kwargs), is_vmappable)
    ins = flat_axes("vmap", fun, axes[0], args, is_vmappable) + [0] * len(
        tree_leaves(kwargs, is_vmappable))
    own = [is_vmappable(leaf) or not (axis is None or type(axis) is int)
           for leaf, axis in zip(leaves, ins, strict=True)]
    arrays = [None if o else a for a, o in zip(ins, own, strict=True)]
    if not all([a is None or is_array_value(x) for x, a in zip(leaves, arrays, strict=True)]):
        _refuse_values(fun, args, kwargs, leaves, arrays)
    size = axis_size
    if size is not None and type(size) in iotas:
        size = numbers_of(size).shape[0]
    dims, size = dims_and_size("vmap", fun, args, kwargs, leaves, arrays, size)
    flat = FlatFunction(fun, in_tree, is_leaf=is_vmappable)
    outs = map_elements(
        flat, AxisData(axis_name, size, spmd_axis_name), size if axis_size is None else axis_size,
        held(leaves, [d is not None for d in dims]),
        [a if o else d for a, d, o in zip(ins, dims, own, strict=True)],
        lambda: _out_axes(axes[1], flat.out_tree, is_spec),
        lambda value, dim, wanted: _place(value, dim, wanted, size, fun, sum_match))
    return flat.out_tree.unflatten(outs)


def _have_specs(what: str, axes: Any) -> bool:
    """Whether axes given by the user hold specs of authors' classes.

    Raises:
      TypeError: they hold something else than these, ints and None.
    """
    leaves = tree_leaves(axes, is_leaf=is_spec)
    for leaf in leaves:
        if not is_spec(leaf):
            msg = (f"vmap: {what} must be an int, None or a tree of them, got {leaf!r} of type "
                   f"{type(leaf).__name__} in {axes!r}.")
            raise TypeError(msg)
    return any(leaf is not None and type(leaf) is not int for leaf in leaves)


def _is_none(x: Any) -> bool:
    return x is None


def flat_axes(who: str, fun: Callable[..., Any], in_axes: Any, args: tuple[Any, ...],
              leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The mapped axis of each leaf of a function's positional arguments.

    Args:
      who: the public function, for messages.
      fun: the function.
      in_axes: the axes given by the user.
      args: the arguments.
      leaf: what counts as a leaf besides arrays.

    Raises:
      ValueError: `in_axes` is not a tree prefix of the arguments.
    """
    try:
        if leaf is not None:
            return broadcast_prefix_to(in_axes, tree_flatten(args, leaf)[1], is_leaf=is_spec)
        return broadcast_prefix(in_axes, args, is_leaf=_is_none)
    except ValueError as error:
        msg = (f"{who}: in_axes must be a tree prefix of the arguments of {function_name(fun)}: an "
               f"int, or a tuple with one entry per argument. in_axes is {in_axes!r}: {error}")
        raise ValueError(msg) from None


def dims_and_size(who: str, fun: Callable[..., Any], args: Any, kwargs: Any, leaves: list[Any],
                  axes: list[int | None], axis_size: int | None
                  ) -> tuple[list[int | None], int]:
    """The mapped dimension of each leaf of a function's arguments, and their common size.

    Args:
      who: the public function, for messages.
      fun: the function.
      args, kwargs: its arguments.
      leaves: the leaves of these.
      axes: the mapped axis of each, maybe negative.
      axis_size: the size given by the user.

    Raises:
      ValueError: an axis is out of range, sizes differ, or nothing is mapped.
      TypeError: a value of an author's type is mapped by a number.
    """
    dims: list[int | None] = []
    sizes: list[int] = [] if axis_size is None else [axis_size]
    for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is None:
            dims.append(None)
            continue
        aval = typeof(leaf)
        if aval.is_high and not hasattr(aval, "shape"):
            msg = (f"{who} of {function_name(fun)}: {_leaf_name(fun, args, kwargs, i)} is a value "
                   f"of type {aval}, which is not an array and has no axis {axis}. Give a "
                   "MappingSpec of the type in its place in in_axes, and axis_size.")
            raise TypeError(msg)
        shape = aval.shape
        if not -len(shape) <= axis < len(shape):
            msg = (f"{who} of {function_name(fun)}: {_leaf_name(fun, args, kwargs, i)} has shape "
                   f"{shape}, which has no axis {axis} to map over.")
            raise ValueError(msg)
        dims.append(axis % len(shape))
        sizes.append(shape[axis])
    if not sizes:
        msg = (f"{who} of {function_name(fun)} must have at least one mapped argument, or be given "
               "axis_size.")
        raise ValueError(msg)
    if any(n != sizes[0] for n in sizes):
        raise LazyValueError(lambda: _sizes_text(
            who, fun, args, kwargs, leaves, dims, axis_size))
    return dims, sizes[0]


def _refuse_values(fun: Callable[..., Any], args: Any, kwargs: Any, leaves: list[Any],
                   axes: list[int | None]) -> NoReturn:
    """Raises the error for a mapped leaf that is not an array."""
    for i, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if axis is not None and not is_array_value(leaf):
            try:
                typeof(leaf)
            except (TypeError, OverflowError) as error:
                refuse_leaf(f"vmap of {function_name(fun)}: {_leaf_name(fun, args, kwargs, i)}",
                            error, " Arguments with None in in_axes are passed as they are.")
    raise AssertionError("each value that is mapped is an array")


def _leaf_name(fun: Callable[..., Any], args: Any, kwargs: Any, index: int) -> str:
    """`argument 1['k'] (y)`, by number and parameter; keyword arguments by name alone."""
    path, _ = tree_flatten_with_path((args, kwargs))[0][index]
    head, rest = path[1], path[2:]
    number = f"argument {keystr((head,)).strip('[]')}{keystr(rest)}"
    if path[0].idx == 1:
        return number
    return f"{number} ({parameter_name(fun, head.idx)})"


def _sizes_text(who: str, fun: Callable[..., Any], args: Any, kwargs: Any, leaves: list[Any],
                dims: list[int | None], axis_size: int | None) -> str:
    lines = [f"{who} of {function_name(fun)} got inconsistent sizes for the axis to be mapped:"]
    if axis_size is not None:
        lines.append(f"  axis_size is {axis_size}")
    for i, (leaf, dim) in enumerate(zip(leaves, dims, strict=True)):
        if dim is not None:
            shape = typeof(leaf).shape
            lines.append(f"  {_leaf_name(fun, args, kwargs, i)} of shape {shape} has size "
                         f"{shape[dim]} along axis {dim}")
    return "\n".join([*lines, "Map over axes of one size, or give None in in_axes for arguments "
                      "that are not mapped."])


def _out_axes(out_axes: Any, out_tree: Any, leaf: Callable[[Any], bool] = _is_none
              ) -> list[Any]:
    try:
        return broadcast_prefix_to(out_axes, out_tree, is_leaf=leaf)
    except ValueError as error:
        msg = f"vmap: out_axes {out_axes!r} is not a tree prefix of the output {out_tree}: {error}"
        raise ValueError(msg) from None


def _place(value: Any, dim: int | None, wanted: Any, size: int,
           fun: Callable[..., Any], sum_match: bool) -> Any:
    aval = typeof(value)
    if wanted is None:
        if dim is not None and sum_match and not aval.is_high:
            return reduce_sum(convert(value, np.dtype("int32")) if typeof(value).dtype == bool
                              else value, (dim,))
        if dim is not None:
            msg = (f"vmap has mapped output but out_axes is None: a result of type "
                   f"{typeof(value)} of {function_name(fun)} depends on a mapped argument. Give "
                   "an axis in out_axes, reduce over the mapped axis inside, or pass "
                   "sum_match=True to sum over it.")
            raise ValueError(msg)
        return value
    if aval.is_high:
        return to_dim(value, dim, wanted, size)
    if not isinstance(wanted, int):
        refuse_spec("out_axes", wanted, aval)
    ndim = aval.ndim + (dim is None)
    if not -ndim <= wanted < ndim:
        msg = (f"vmap: out_axes {wanted} is out of range for a result of {function_name(fun)} with "
               f"{ndim} axes.")
        raise ValueError(msg)
    return to_dim(value, dim, wanted % ndim, size)


def _over_batch(f: Callable[..., Any], axes: tuple[int | None, ...]) -> Callable[..., Any]:
    return vmap(f, axes)


sockets.over_batch = _over_batch
