"""Named axes of collectives: those in scope, their sizes, groups of their indices.

Under vmap the elements of a named axis are rows of one array, so every collective becomes an
operation on rows. Its batching rule handles one axis, that of the current vmap, and leaves the
others to the outer vmaps. Within shard_map the axes belong to a mesh, elements are on different
devices, and collectives communicate.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyNameError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import NamedAxis, thread
from mjax._engine.ir.mesh import AbstractMesh, Mesh
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.gather import GatherScatterMode, take_on_axis
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.shapes import batch_to_front, moveaxis, reshape
from mjax._engine.tracing.interpreter import axes_in_scope
from mjax._engine.tracing.operands import OperandsVaryError
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.transforms.batching import AxisData, batch_flat, element_type, to_dim

Names = tuple[Hashable, ...]
#: Sets of indices along an axis; a collective communicates only within each.
Groups = tuple[tuple[int, ...], ...]
#: The result of a batching rule.
Batched = tuple[Any, int | None]

#: How a shard_map tracks device variance. "checked": types name the mesh axes along which values
#: differ, and operands that do not vary alike are cast; "explicit": the author writes every cast;
#: "unchecked": types do not track it, and psum is its own transpose.
Mode = Literal["checked", "explicit", "unchecked"]


class Manual(NamedTuple):
    """Facts about a mesh axis in the body of a shard_map.

    Attributes:
      mesh: the mesh.
      axes: the manual axes of that mesh, those of enclosing shard_maps included.
      mode: how device variance is tracked.
    """

    mesh: Mesh | AbstractMesh
    axes: frozenset[Hashable]
    mode: Mode


def in_manual(mesh: Mesh | AbstractMesh, axes: Iterable[Hashable], mode: Mode
              ) -> AbstractContextManager[None]:
    """Brings the axes of a shard_map into scope, to stage, transform or lower its body.

    Args:
      mesh: its mesh.
      axes: the axes that it makes manual.
      mode: how it tracks device variance.
    """
    mine = frozenset(axes)
    around = frozenset(axis.name for axis in thread.axis_env
                       if axis.manual is not None and axis.name in mesh.axis_names)
    manual = Manual(mesh, mine | around, mode)
    return axes_in_scope([(name, size, manual) for name, size in mesh.shape_tuple if name in mine])


def axis_of(name: Hashable) -> NamedAxis | None:
    """The innermost axis of this name."""
    for axis in reversed(thread.axis_env):
        if axis.name == name:
            return axis
    return None


def manual_of(name: Hashable) -> Manual | None:
    """Facts about the innermost axis of this name if it belongs to a mesh."""
    axis = axis_of(name)
    return None if axis is None else axis.manual


def varying_names(names: Iterable[Hashable]) -> Names:
    """The axes among these along which types can vary: of a mesh, and not unchecked."""
    return tuple(n for n in names if (m := manual_of(n)) is not None and m.mode != "unchecked")


def require_varying(who: str, aval: ShapedArray, names: Iterable[Hashable]) -> None:
    """Checks, in a collective's type rule, that its operand varies along mesh axes.

    Raises:
      OperandsVaryError: it does not vary along all of them. Staging then casts it.
    """
    missing = [n for n in varying_names(names) if n not in aval.varying]
    if missing:
        raise OperandsVaryError(lambda: (
            f"{who} over {_listed(missing)} of {aval}, which does not vary along "
            f"{'them' if len(missing) > 1 else 'it'}. Cast it with mjax.lax.pcast(x, "
            f"{tuple(missing)}, to='varying')."), frozenset(missing))


def invariant_names(who: str, x: Any, names: Iterable[Hashable]) -> Names:
    """The axes among these along which a value is known to be the same on all devices.

    Raises:
      TypeError: there are some, but authors write the casts.
    """
    varying = typeof(x).varying
    found = tuple(n for n in varying_names(names) if n not in varying)
    explicit = [n for n in found if manual_of(n).mode == "explicit"]  # type: ignore[union-attr]
    if explicit:
        require_varying(who, typeof(x), explicit)
    return found


def _listed(names: Iterable[Hashable]) -> str:
    return ", ".join(map(repr, names))


def names_of(axis_name: Any) -> Names:
    """The names that an `axis_name` argument stands for.

    Raises:
      ValueError: a name is given twice.
    """
    if not isinstance(axis_name, (tuple, list)):
        return (axis_name,)
    if len(set(axis_name)) < len(axis_name):
        msg = f"a duplicate value in axis_name: {axis_name!r}; name each axis once."
        raise ValueError(msg)
    return tuple(axis_name)


def size_of(name: Hashable, who: str = "") -> int:
    """The size of the innermost axis of this name.

    Raises:
      NameError: there is none; the text lists the axes in scope.
    """
    axis = axis_of(name)
    if axis is None:
        refuse_unbound(name, who)
    return axis.size


def sizes_of(names: Names, who: str = "") -> list[int]:
    """The sizes of axes."""
    return [size_of(name, who) for name in names]


def parties(who: str, names: Names, groups: Groups | None = None) -> int:
    """The number of participants of a collective: elements of its axes, or of a group."""
    return len(groups[0]) if groups else math.prod(sizes_of(names, who))


@boundary
def axis_size(axis_name: Any) -> int:
    """The number of elements along a named axis, as a Python int.

    Args:
      axis_name: the name of an axis in scope, or a tuple of names.

    Returns:
      An int.

    Raises:
      NameError: no such axis is in scope.

    Example:
      >>> mjax.vmap(lambda x: x * lax.axis_size('i'), axis_name='i')(jnp.ones(3))
      Array([3., 3., 3.], dtype=float32)
    """
    return parties("axis_size", names_of(axis_name))


def refuse_unbound(name: Hashable, who: str = "") -> NoReturn:
    """Raises the error for an axis that is not in scope."""
    scope = ", ".join(f"{axis.name} (size {axis.size})" for axis in thread.axis_env) or "none"
    where = f", used by {who}" if who else ""
    raise LazyNameError(lambda: (
        f"unbound axis name: {name}{where}. Axes in scope: {scope}. Call the function under "
        f"mjax.vmap(..., axis_name={name!r}), or mjax.shard_map on a mesh with this axis."))


def collective(name: str, params: Mapping[str, Any], own_varying: bool = False) -> Primitive:
    """A primitive whose types depend on the axes in scope."""
    primitive = EnginePrimitive(name, params=params, types_cacheable=False, own_varying=own_varying)
    primitive.def_collective_axes(lambda *avals, **params: frozenset(_names_in(params)))
    return primitive


def _names_in(params: dict[str, Any]) -> Names:
    return names_of(params["axes"] if "axes" in params else params["axis_name"])


def _along_other_axes(primitive: Primitive, x: Any, dim: Any, places: Sequence[str],
                      params: dict[str, Any]) -> Batched:
    """Binds a collective for a batch along an axis that it does not name."""
    if places:
        x, dim = moveaxis(x, dim, 0), 0
        params = {**params, **{place: params[place] + 1 for place in places}}
    return primitive.bind(x, **params), dim


def def_mesh_batch(primitive: Primitive, *places: str) -> None:
    """Sets the batching rule of a collective over mesh axes only, whatever name the vmap axis has.

    Args:
      primitive: the collective.
      places: the params that are dimensions of its operand.
    """
    primitive.def_batch(lambda args, dims, **params: _along_other_axes(
        primitive, args[0], dims[0], places, params))


def def_collective_batch(primitive: Primitive, *places: str) -> Callable[..., Any]:
    """Decorator: sets the batching rule of a collective with one operand or none.

    The rule is for an axis that the collective names. A batch along another axis is one more
    dimension of the operand.

    Args:
      primitive: the collective.
      places: the params that are dimensions of its operand. With some, each group is an axis of its
        own, and the rule is without groups.
    """
    def define(rule: Callable[..., Batched]) -> Callable[..., Batched]:
        def batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Batched:
            check_types(primitive, args, dims, params)
            if axis.name not in _names_in(params):
                return _along_other_axes(primitive, args[0], dims[0], places, params)
            groups = params.get("axis_index_groups")
            if groups is None or not places:
                return rule(axis, *args, *dims, **params)
            return _by_groups(lambda x: primitive.bind(
                x, **{**params, "axis_index_groups": None}), axis, args[0], dims[0], groups)

        batch.__wrapped__ = rule  # type: ignore[attr-defined]
        primitive.def_axis_batch(batch)
        return rule

    return define


def check_types(primitive: Primitive, args: Any, dims: Any, params: dict[str, Any]) -> None:
    """Runs a collective's abstract evaluation for one element of a batch.

    It contains the checks. It would not run otherwise, because vmap replaces these equations.
    """
    with contextlib.suppress(OperandsVaryError):  # the parent casts what the rule binds
        primitive.type_of(tuple(typeof(x) if d is None else element_type(typeof(x), d)
                                for x, d in zip(args, dims, strict=True)), params)


def mapped(f: Callable[[Any], Any], axis: AxisData, x: Any, dim: int | None) -> Batched:
    """Applies a function of one array to each element of a batch."""
    (out,), (out_dim,) = batch_flat(lambda x: [f(x)], axis, [x], [dim])
    return out, out_dim


# ---- groups ----------------------------------------------------------------------------


def checked_groups(who: str, names: Names, groups: Any, alike: bool = True) -> Groups | None:
    """`axis_index_groups` as tuples.

    Args:
      who: the collective.
      names: its axes.
      groups: the user's argument.
      alike: whether they must have one size, because shapes depend on it.

    Raises:
      ValueError: the groups differ in size and must not, one is empty, or they do not hold each
        index once.
      NotImplementedError: there are several axes, and one of them is of a vmap.
    """
    if groups is None:
        return None
    found = tuple(tuple(map(operator.index, g)) for g in groups)
    size = parties(who, names)
    if len(names) != 1 and not all(map(manual_of, names)):
        msg = (f"{who}: axis_index_groups needs one axis, or several that are all of a mesh, got "
               f"{names}.")
        raise NotImplementedError(msg)
    if sorted(i for g in found for i in g) != list(range(size)) or not all(found) or (
            alike and differ(found)):
        msg = (f"{who}: axis_index_groups must cut the indices 0 to {size - 1} of axis "
               f"{', '.join(map(str, names))} into groups "
               f"{'of one size' if alike else 'that are not empty'}, got {found}.")
        raise ValueError(msg)
    return found


def differ(groups: Groups | None) -> bool:
    """Whether there are groups of different sizes."""
    return groups is not None and len(set(map(len, groups))) > 1


def _by_groups(collective: Callable[..., Any], axis: AxisData, x: Any, dim: int | None,
               groups: Groups) -> Batched:
    """Batches a collective within groups: each group is an axis of its own.

    Args:
      collective: applies the collective without groups.
      axis: the axis; inside, its name denotes the members of one group.
      x: the operand.
      dim: its batch dim.
      groups: the groups.
    """
    order = [i for group in groups for i in group]
    x = reorder(batch_to_front(x, dim, axis.size), order)
    members = axis._replace(size=len(groups[0]))
    x = reshape(x, (len(groups), members.size, *x.shape[1:]))

    def group(x: Any) -> Any:
        return to_dim(*mapped(collective, members, x, 0), 0, members.size)

    out = to_dim(*mapped(group, AxisData(None, len(groups)), x, 0), 0, len(groups))
    return reorder(reshape(out, (axis.size, *out.shape[2:])), np.argsort(order)), 0


def reduced_by_groups(reduce: Callable[[Any], Any], axis: AxisData, x: Any, dim: int | None,
                      groups: Groups) -> Batched:
    """Batches a reduction within groups, which may differ in size.

    Args:
      reduce: reduces over axis 1 of an array.
      axis: the axis.
      x: the operand.
      dim: its batch dim.
      groups: the groups.
    """
    x = batch_to_front(x, dim, axis.size)
    results: list[Any] = []
    result_of: dict[int, int] = {}
    for size in dict.fromkeys(map(len, groups)):  # one reduction for all groups of a size
        same = [group for group in groups if len(group) == size]
        first = len(set(result_of.values()))
        result_of.update({i: first + n for n, group in enumerate(same) for i in group})
        rows = reorder(x, [i for group in same for i in group])
        results.append(reduce(reshape(rows, (len(same), size, *x.shape[1:]))))
    return reorder(concatenate(results, 0), [result_of[i] for i in range(axis.size)]), 0


def reorder(x: Any, order: Any) -> Any:
    """The rows of an array in another order."""
    return take_on_axis(x, np.asarray(order, np.int32), 0,
                        mode=GatherScatterMode.PROMISE_IN_BOUNDS)
