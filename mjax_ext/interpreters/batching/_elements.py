"""vmap over values of classes of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import batch_to_front, moveaxis, reduce_sum
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.transforms import elements
from mjax._engine.transforms.batching import AxisData, BatchInterpreter
from mjax._engine.transforms.elements import Vmappable as _Registered
from mjax._engine.transforms.elements import iotas, spec_types, vmappables

# Types of arguments: a value of a registered class, one element of it, and how it is mapped; the
# size of an axis; and functions of these.
Vmappable: TypeAlias = Any
Elt: TypeAlias = Any
MapSpec: TypeAlias = Any
AxisSize: TypeAlias = Any
#: Types of the functions that `register_vmappable` takes.
GetIdx = Callable[[], Any]
ToEltHandler = Callable[[Callable[..., Any], GetIdx, Vmappable, MapSpec], Elt]
FromEltHandler = Callable[[Callable[..., Any], AxisSize, Elt, MapSpec], Vmappable]
MakeIotaHandler = Callable[[AxisSize], Any]


def register_vmappable(data_type: type, spec_type: type, axis_size_type: type,
                       to_elt: ToEltHandler, from_elt: FromEltHandler,
                       make_iota: MakeIotaHandler | None) -> None:
    """Lets vmap take and return values of a class.

    They are leaves of arguments and results, even if the class is a pytree. Specs of theirs stand
    in `in_axes` and `out_axes`. An int or None there is given to the functions as it is.

    Args:
      data_type: the class; also that of one element of a value.
      spec_type: the class of specs.
      axis_size_type: the class of sizes of their axes: of vmap's `axis_size`, and of the argument
        of `from_elt` and `make_iota`.
      to_elt: `(cont, get_idx, value, spec) -> element`. `cont(array, axis) -> element` maps an
        array inside; `get_idx()` gives the number of the element.
      from_elt: `(cont, axis_size, element, spec) -> value`. `cont(axis_size, element, axis) ->
        array` is the reverse.
      make_iota: from an axis size to the array of the elements' numbers; None: sizes are ints.

    Raises:
      TypeError: one of the first three is not a class, or one of the others not a function.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> class Named:
      ...   def __init__(self, names, data):
      ...     self.names, self.data = names, data
      >>> class Over(str):
      ...   pass
      >>> def to_elt(cont, get_idx, value, name):
      ...   axis = value.names.index(name)
      ...   return Named([n for n in value.names if n != name], cont(value.data, axis))
      >>> def from_elt(cont, axis_size, element, name):
      ...   return Named([name, *element.names], cont(axis_size, element.data, 0))
      >>> batching.register_vmappable(Named, Over, int, to_elt, from_elt, None)
      >>> x = Named(["time", "place"], jnp.ones((2, 3)))
      >>> f = lambda x: Named(x.names, x.data.sum() + x.data)
      >>> y = mjax.vmap(f, Over("place"), Over("place"), axis_size=3)(x)
      >>> [str(name) for name in y.names], y.data.shape
      (['place', 'time'], (3, 2))
      >>> batching.unregister_vmappable(Named)
    """
    for name, value in (("data_type", data_type), ("spec_type", spec_type),
                        ("axis_size_type", axis_size_type)):
        if not isinstance(value, type):
            msg = f"register_vmappable: {name} must be a class, got {describe_value(value)}."
            raise TypeError(msg)
    for name, f in (("to_elt", to_elt), ("from_elt", from_elt), ("make_iota", make_iota)):
        if not (callable(f) or (f is None and name == "make_iota")):
            msg = f"register_vmappable: {name} must be a function, got {describe_value(f)}."
            raise TypeError(msg)
    vmappables[data_type] = _Registered(spec_type, axis_size_type, to_elt, from_elt)
    spec_types.add(spec_type)
    if make_iota is not None:
        iotas[axis_size_type] = make_iota


def unregister_vmappable(data_type: type) -> None:
    """Takes back what `register_vmappable` registered for a class.

    Args:
      data_type: the class.

    Raises:
      KeyError: the class is not registered.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.unregister_vmappable(int)
      Traceback (most recent call last):
      KeyError: <class 'int'>
    """
    spec_type, axis_size_type, *_ = vmappables.pop(data_type)
    rest = list(vmappables.values())
    if all(v.spec_type is not spec_type for v in rest):
        spec_types.discard(spec_type)
    if all(v.axis_size_type is not axis_size_type for v in rest):
        iotas.pop(axis_size_type, None)


def make_iota(axis_size: AxisSize) -> Any:
    """The numbers of the elements along an axis, as an array.

    Args:
      axis_size: an int, or a size of a class of `register_vmappable`.

    Returns:
      A vector of integers.

    Raises:
      TypeError: the size is not an integer, nor can it become one.
      ValueError: it is a string without an integer.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.make_iota(3)
      Array([0, 1, 2], dtype=int32)
    """
    return elements.numbers_of(axis_size)


def to_elt(trace: BatchInterpreter, get_idx: GetIdx, x: Vmappable, spec: MapSpec) -> Elt:
    """One element of a value, as a function under vmap sees it.

    Args:
      trace: the trace of the vmap.
      get_idx: gives the number of the element.
      x: an array, or a value of a registered class.
      spec: the axis of an array, None for the same array for all elements, or a spec.

    Returns:
      An element.

    Raises:
      TypeError: `x` is not an array and its spec not None, or an array has a spec other than an
        integer and None.
      ValueError: the axis is out of range.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> with core.take_current_trace() as parent:
      ...   trace = batching.BatchTrace(parent, core.TraceTag(), batching.AxisData(None, 3))
      ...   print(batching.to_elt(trace, None, jnp.ones((3, 2)), 0).shape)
      (2,)
    """
    return elements.to_elt(trace, get_idx, x, spec)


def from_elt(trace: BatchInterpreter, axis_size: AxisSize, mesh_axis: None, sum_match: bool,
             i: int, x: Elt, spec: MapSpec) -> tuple[Vmappable, MapSpec]:
    """The value of an element that a function under vmap computed, and its spec.

    Args:
      trace: the trace of the vmap.
      axis_size: the size of its axis.
      mesh_axis: None, as `AxisData.explicit_mesh_axis` is.
      sum_match: see `matchaxis`.
      i: the number of the result, which JAX's messages name.
      x: an array, or a value of a registered class.
      spec: where the axis goes.

    Returns:
      A value, and the spec of its batch.

    Raises:
      ValueError: it is None, and the element depends on mapped values.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> with core.take_current_trace() as parent:
      ...   trace = batching.BatchTrace(parent, core.TraceTag(), batching.AxisData(None, 3))
      ...   x = batching.to_elt(trace, None, jnp.ones((3, 2)), 0)
      ...   print(batching.from_elt(trace, 3, None, False, 0, x, 1)[0].shape)
      (2, 3)
    """
    return elements.from_elt(trace, axis_size, x, spec, lambda value, dim, wanted: matchaxis(
        trace.axis, dim, wanted, value, sum_match)), spec


def matchaxis(axis_data: AxisData, src: Any, dst: int | None, x: Any,
              sum_match: bool = False) -> Any:
    """A batch with its axis elsewhere.

    Args:
      axis_data: the axis.
      src: its place in the array; None: the array is the same for all elements.
      dst: its wanted place, in which case the array is repeated if need be; None: nowhere.
      x: the array.
      sum_match: whether an array that has the axis, and must not, is summed over it.

    Returns:
      An array of the dtype of `x`.

    Raises:
      ValueError: the array has the axis, `dst` is None, and `sum_match` false.
      TypeError: it is not an array.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> axis = batching.AxisData(None, 3)
      >>> batching.matchaxis(axis, 0, 1, jnp.ones((3, 2))).shape
      (2, 3)
      >>> batching.matchaxis(axis, None, -1, jnp.ones(2)).shape
      (2, 3)
    """
    ndim = typeof(x).ndim
    if src == dst:
        return x
    if dst is None:
        if sum_match:
            return reduce_sum(x, (src,))
        msg = (f"matchaxis: an array of type {typeof(x)} is mapped along axis {src}, but is wanted "
               "without a batch axis: it depends on a mapped value. Give an axis, or "
               "sum_match=True.")
        raise ValueError(msg)
    if src is None:
        return moveaxis(batch_to_front(x, None, axis_data.size), 0,
                        canonicalize_axis(dst, ndim + 1))
    return moveaxis(x, src, canonicalize_axis(dst, ndim))
