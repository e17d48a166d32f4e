"""vmap over values of users' classes, which say themselves what one element of them is.

A class is registered with the class of its specs, which stand in `in_axes` and `out_axes`, and with
two functions: from a value and its spec to one element, and back. Both call `cont` on the arrays
inside, with their axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.iota import iota_p
from mjax._engine.primitives.shapes import canonical_shape
from mjax._engine.tracing.interpreter import axes_in_scope, call_with, running
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.transforms.batching import AxisData, BatchInterpreter, BatchTracer, split_results


class Vmappable(Record):
    """How vmap treats values of a class.

    Attributes:
      spec_type: the class of specs.
      axis_size_type: the class of sizes of their axes.
      to_elt: `(cont, get_index, value, spec) -> element`, with `cont(array, axis) -> element`.
      from_elt: `(cont, axis_size, element, spec) -> value`, with `cont(axis_size, element, axis)
        -> array`.
    """

    spec_type: type
    axis_size_type: type
    to_elt: Callable[..., Any]
    from_elt: Callable[..., Any]


#: Class -> how vmap treats its values.
vmappables: dict[type, Vmappable] = {}
#: The classes of specs; their subclasses are some too.
spec_types: set[type] = set()
#: Class of axis sizes -> from a size to the numbers of the elements, an array.
iotas: dict[type, Callable[[Any], Any]] = {}


def is_vmappable(value: Any) -> bool:
    """Whether a value is of a class that `register_vmappable` registered.

    Args:
      value: any object.

    Returns:
      A bool.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.is_vmappable(jnp.ones(2))
      False
    """
    return type(value) in vmappables


def is_spec(value: Any) -> bool:
    """Whether a value stands for an axis in `in_axes` and `out_axes`."""
    return value is None or type(value) is int or not spec_types.isdisjoint(type(value).__mro__)


def numbers_of(axis_size: Any) -> Any:
    """The numbers of the elements along an axis, as an array."""
    known = iotas.get(type(axis_size))
    if known is not None:
        return known(axis_size)
    return iota_p.bind(shape=canonical_shape(int(axis_size)), dtype=np.dtype(np.int32), dimension=0)


def to_elt(interp: BatchInterpreter, get_index: Callable[[], Any], value: Any, spec: Any) -> Any:
    """One element of a value, for a function under an interpreter."""
    known = vmappables.get(type(value))
    if known is not None:
        return known.to_elt(lambda x, s: to_elt(interp, get_index, x, s), get_index, value, spec)
    if spec is None:
        return value
    aval = typeof(value)
    if isinstance(spec, int):
        return BatchTracer(interp, value, canonicalize_axis(spec, aval.ndim))
    if not aval.is_high:
        refuse_spec("in_axes", spec, aval)
    return BatchTracer(interp, value, spec)


def refuse_spec(what: str, spec: Any, aval: Any) -> NoReturn:
    """Refuses an author's spec for an axis of an array.

    Raises:
      TypeError: always.
    """
    raise LazyTypeError(lambda: (
        f"vmap: {what} has {spec!r} for a value of type {aval}. Give an int or None for arrays."))


def from_elt(interp: BatchInterpreter, axis_size: Any, element: Any, spec: Any,
             place: Callable[[Any, int | None, Any], Any]) -> Any:
    """The value of an element.

    Args:
      interp: the interpreter.
      axis_size: as the user gave it.
      element: the element.
      spec: where its axis goes.
      place: `(value, its axis, where the axis goes) -> value`, for arrays.
    """
    known = vmappables.get(type(element))
    if known is not None:
        return known.from_elt(lambda size, e, s: from_elt(interp, size, e, s, place), axis_size,
                              element, spec)
    (value,), (dim,) = split_results(interp, [element])
    return place(value, dim, spec)


def map_elements(f: Callable[..., Sequence[Any]], axis: AxisData, axis_size: Any,
                 args: Sequence[Any], specs: Sequence[Any],
                 out_specs: Callable[[], Sequence[Any]],
                 place: Callable[[Any, int | None, Any], Any]) -> list[Any]:
    """Evaluates a function of flat values, some of users' classes, for a batch.

    Args:
      f: the function.
      axis: the axis.
      axis_size: its size, as the user gave it.
      args: the values.
      specs: for each value an axis, a spec of its class, or None.
      out_specs: gives, after the call, the same for each result.
      place: as for `from_elt`.
    """
    interp = BatchInterpreter(thread.interpreter, axis)
    interp.function = f
    numbers: list[Any] = []

    def get_index() -> Any:
        if not numbers:
            numbers.append(BatchTracer(interp, call_with(interp.parent, numbers_of, axis_size), 0))
        return numbers[0]

    names = () if axis.name is None else ((axis.name, axis.size),)
    with axes_in_scope(names), running(interp):
        # In here, since users' functions may compute with elements and their numbers.
        elements = [to_elt(interp, get_index, x, s) for x, s in zip(args, specs, strict=True)]
        outs = f(*elements)
        results = [from_elt(interp, axis_size, o, s, place)
                   for o, s in zip(outs, out_specs(), strict=True)]
    del elements, outs
    numbers.clear()
    refuse_leaks(interp)
    return results
