"""Arrays with some elements changed: `x.at[index].set(...)` and its siblings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.dynamic_slicing import dynamic_update_slice_p
from mjax._engine.primitives.gather import GatherScatterMode
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.scatter import (
    ScatterDimensionNumbers,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mode,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from mjax._engine.primitives.scatter_apply import scatter_apply
from mjax._engine.primitives.shapes import expand_dims, full, reshape, scalar_of, squeeze
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import staging
from mjax._numpy.arithmetic import divide, power
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    fits,
    shape_of,
    weak_type_of,
)
from mjax._numpy.indexing.eager import (
    Programs,
    grown_shape,
    put_together,
    take_apart,
    with_operands,
)
from mjax._numpy.indexing.parse import NEW, At, Each, Index, parse
from mjax._numpy.indexing.plan import box, is_box, result_axes, windows
from mjax._numpy.indexing.read import select

_FILL = GatherScatterMode.FILL_OR_DROP
_START = ShapedArray((), np.dtype(np.int32))
_SCATTERS = {"set": scatter_p, "add": scatter_add_p, "subtract": scatter_sub_p,
             "multiply": scatter_mul_p, "min": scatter_min_p, "max": scatter_max_p}

# ---- writing the selection of a parsed index -------------------------------------------


def write(operation: str, x: Any, values: Any, index: Index,
          mode: GatherScatterMode = _FILL, indices_are_sorted: bool = False,
          unique_indices: bool = False) -> Any:
    """An array with the elements that an index selects changed.

    Args:
      operation: "set", "add", "subtract", "multiply", "min" or "max".
      x: array.
      values: the new values; they broadcast to the shape that the index selects.
      index: parsed for the shape of `x`.
      mode: the treatment of places outside.
      indices_are_sorted: a promise of the user.
      unique_indices: a promise of the user.
    """
    aval, entries = typeof(x), index.entries
    if 0 in result_axes(entries)[0]:
        return x  # nothing is selected, for values of any shape
    if not dtypes.is_extended(aval.dtype):
        dtype, weak = common_type((aval.dtype, aval.weak_type), weak_type_of(values))
        x, values = cast(x, dtype, weak), cast(values, dtype, weak)
    if index.grown:
        x = expand_dims(x, index.grown)
    values = _in_axes_of_windows(operation, values, entries)
    if 0 in shape_of(x):
        out = x
    elif (operation == "set" and is_box(entries, only_inside=mode is _FILL)
          and all(type(e) is At or abs(e.step) == 1 for e in entries if e is not NEW)):
        lows, sizes, static = box(shape_of(x), entries, clip=False)
        starts = [scalar_of(_START, i) for i in lows] if static else lows
        out = dynamic_update_slice_p.bind(x, reshape(values, sizes), *starts)
    else:
        w = windows(shape_of(x), entries)
        ordered = not any(type(e) is Each for e in entries)
        out = _SCATTERS[operation].bind(
            x, w.indices, values, dimension_numbers=ScatterDimensionNumbers(*w.dims), mode=mode,
            indices_are_sorted=indices_are_sorted or ordered,
            unique_indices=unique_indices or ordered)
    if index.grown:
        out = squeeze(out, index.grown)
    return out if dtypes.is_extended(aval.dtype) else cast(out, aval.dtype, aval.weak_type)


def _in_axes_of_windows(operation: str, values: Any, entries: tuple[Any, ...]) -> Any:
    """Values broadcast to the selection of an index, without its new axes, steps positive."""
    target, new, flipped = result_axes(entries)
    try:
        values = broadcast_to(values, target)
    except ValueError:
        msg = (f"x.at[...].{operation}: values of shape {shape_of(values)} do not broadcast to "
               f"{target}, the shape of the selection.")
        raise ValueError(msg) from None
    if flipped:
        values = rev(values, flipped)
    return squeeze(values, new) if new else values


def _write_structure(static: Any, x: Any, values: Any, *numbers: Any) -> Any:
    operation, structure, options = static
    return write(operation, x, values, put_together(structure, numbers)[0], *options)


_write_programs = Programs(_write_structure, "scatter")


def update(operation: str, x: Any, idx: Any, values: Any, mode: Any, indices_are_sorted: bool,
           unique_indices: bool, wrap_negative_indices: bool = True) -> Any:
    """`write` for an unparsed index, in any context."""
    index = parse(shape_of(x), idx, wrap_negative_indices)
    values = _checked_values(operation, x, values)
    options = (_mode_of_writing(mode), bool(indices_are_sorted), bool(unique_indices))
    shape = grown_shape(shape_of(x), index)
    if thread.interpreter is evaluation and type(x) is Array:
        structure, numbers = take_apart(index, shape)
        return _write_programs((operation, structure, options), x, to_array(values), *numbers)
    return write(operation, x, values,
                 index if staging() else with_operands(index, shape), *options)


def _mode_of_writing(mode: Any) -> GatherScatterMode:
    """The mode of a scatter; "one_hot", which reads zeros outside, drops there."""
    mode = GatherScatterMode.from_any(mode)
    return _FILL if mode is GatherScatterMode.ONE_HOT else scatter_mode(mode)


def _checked_values(operation: str, x: Any, values: Any) -> Any:
    """The values as an array; with a warning if `x` cannot hold them.

    Raises:
      TypeError: they are not an array, or keys for numbers, or numbers for keys.
    """
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
    own = typeof(x)
    if type(values) is int and fits(values, own.dtype):
        return cast(values, own.dtype)
    values = check_array(f"x.at[...].{operation}", values, "values")
    given = weak_type_of(values)
    if own.dtype == given[0]:
        return values
    if dtypes.is_extended(own.dtype) or dtypes.is_extended(given[0]):
        msg = (f"x.at[...].{operation}: values of dtype {given[0]} cannot go into an array of "
               f"dtype {own.dtype}.")
        raise TypeError(msg)
    if common_type((own.dtype, False), given)[0] != own.dtype:
        warnings.warn(
            f"scatter inputs have incompatible types: cannot safely cast value from "
            f"dtype={given[0]} to dtype={own.dtype}. Convert the values with .astype, or the "
            "array before it is updated.", FutureWarning, stacklevel=6)
    return values


# ---- x.at ------------------------------------------------------------------------------


class _IndexUpdateHelper:
    """The property `x.at`: with an index it has the methods that change `x` there.

    `x.at[idx].set(y)` is an array with `y` at `idx` that equals `x` elsewhere; `x` itself does
    not change. Inside `jit` the update happens in place if `x` is not used any more.

    ============================== ===============================================
    `x.at[idx].get()`              `x[idx]`
    `x.at[idx].set(y)`             `x[idx] = y`
    `x.at[idx].add(y)`             `x[idx] += y`; all are added where places repeat
    `x.at[idx].subtract(y)`        `x[idx] -= y`
    `x.at[idx].multiply(y)`, `mul` `x[idx] *= y`
    `x.at[idx].divide(y)`          `x[idx] /= y`
    `x.at[idx].power(y)`           `x[idx] **= y`
    `x.at[idx].min(y)`, `max`      `x[idx] = minimum(x[idx], y)`
    `x.at[idx].apply(f)`           `f.at(x, idx)`
    ============================== ===============================================

    Example:
      >>> jnp.zeros(3).at[1].set(2)
      Array([0., 2., 0.], dtype=float32)
    """

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> _IndexUpdateRef:
        return _IndexUpdateRef(self.array, index)

    def __repr__(self) -> str:
        return f"_IndexUpdateHelper({self.array!r})"


class _IndexUpdateRef:
    """The object `x.at[index]`; see the documentation of `x.at`."""

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array = array
        self.index = index

    def __repr__(self) -> str:
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"

    @boundary
    def get(self, *, indices_are_sorted: bool = False, unique_indices: bool = False,
            mode: str | GatherScatterMode | None = None, fill_value: Any = None,
            wrap_negative_indices: bool = True) -> Any:
        """The elements at the index: `x[index]`, with a choice for places outside the array.

        Args:
          indices_are_sorted: a promise that the places increase.
          unique_indices: a promise that no place occurs twice.
          mode: for places outside: `"clip"` clamps them, `"fill"` returns the
            fill value, `"promise_in_bounds"` (the default) promises that there are none;
            `"one_hot"` reads by a matrix product, with zeros for places outside.
          fill_value: by default NaN for inexact dtypes, the lowest value for signed, the
            highest for unsigned integers, True for bool. Static.
          wrap_negative_indices: whether negative integers count from the end.

        Returns:
          An array of the dtype of `x`.

        Raises:
          ValueError: an unknown mode.

        Example:
          >>> jnp.arange(3.).at[jnp.array([2, 7])].get(mode="fill")
          Array([ 2., nan], dtype=float32)
        """
        mode = (GatherScatterMode.PROMISE_IN_BOUNDS if mode is None
                else GatherScatterMode.from_any(mode))
        index = parse(shape_of(self.array), self.index, wrap_negative_indices)
        return select(self.array, index, mode, _static_scalar(fill_value),
                      bool(indices_are_sorted), bool(unique_indices))

    @boundary
    def apply(self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False,
              unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
              wrap_negative_indices: bool = True) -> Any:
        """Applies a function to the elements at the index, once for each occurrence of a place.

        Args:
          func: maps a scalar of the dtype of `x` to another; must not close over arrays.
          indices_are_sorted: a promise that the places increase.
          unique_indices: a promise that no place occurs twice.
          mode: for places outside: `"drop"` (the default), `"clip"`, `"promise_in_bounds"`.
          wrap_negative_indices: whether negative integers count from the end.

        Returns:
          An array like `x`.

        Example:
          >>> jnp.array([1, 2, 3]).at[0].apply(lambda v: v + 5)
          Array([6, 2, 3], dtype=int32)
        """
        x, mode = self.array, _mode_of_writing(mode)
        index = parse(shape_of(x), self.index, wrap_negative_indices)
        if not staging():
            index = with_operands(index, grown_shape(shape_of(x), index))
        if index.grown:
            x = expand_dims(x, index.grown)
        w = windows(shape_of(x), index.entries)
        out = x if 0 in w.shape or 0 in shape_of(x) else scatter_apply(
            x, w.indices, func, ScatterDimensionNumbers(*w.dims), update_shape=w.shape, mode=mode,
            indices_are_sorted=indices_are_sorted, unique_indices=unique_indices)
        return squeeze(out, index.grown) if index.grown else out


def _static_scalar(value: Any) -> Any:
    """A fill value as a Python or NumPy scalar, to be a param."""
    if value is None or isinstance(value, (bool, int, float, complex, np.generic)):
        return value
    return np.asarray(value)[()]


_ARGUMENTS = """

    Args:
      values: array or scalar that broadcasts to the shape of `x[index]`.
      indices_are_sorted: a promise that the places increase.
      unique_indices: a promise that no place occurs twice; results are undefined if one does.
      mode: for places outside the array: `"drop"` (the default) ignores them, `"clip"` clamps
        them, `"promise_in_bounds"` promises that there are none; `"one_hot"` means `"drop"`.
      wrap_negative_indices: whether negative integers count from the end.

    Returns:
      An array of the shape and dtype of `x`, which itself does not change.{more}

    Raises:
      IndexError: the index does not fit the array.
      ValueError: the values do not broadcast, or the mode is unknown.

    Warns:
      FutureWarning: the dtype of `x` cannot hold the values.

    Example:
      >>> jnp.array({array}).at[1].{name}(2)
      {result}
"""


def _method(name: str, change: Callable[..., Any], summary: str, result: str,
            array: str = "[5, 6, 7]", more: str = "") -> Any:
    """A row of the table of methods: `change(x, index, values, *options)`."""

    def method(self: _IndexUpdateRef, values: Any, *, indices_are_sorted: bool = False,
               unique_indices: bool = False, mode: str | GatherScatterMode | None = None,
               wrap_negative_indices: bool = True) -> Any:
        return change(self.array, self.index, values, mode, indices_are_sorted, unique_indices,
                      wrap_negative_indices)

    method.__name__ = name
    method.__qualname__ = f"_IndexUpdateRef.{name}"
    method.__doc__ = summary + _ARGUMENTS.format(name=name, result=result, array=array, more=more)
    method = boundary(method)
    setattr(_IndexUpdateRef, name, method)
    return method


def _by_scatter(operation: str) -> Callable[..., Any]:
    return lambda x, *args: update(operation, x, *args)


_method("set", _by_scatter("set"), "Replaces elements: `x[index] = values`. If a place occurs "
        "twice, the value that stays is not specified.", "Array([5, 2, 7], dtype=int32)")
_method("add", _by_scatter("add"), "Adds to elements: `x[index] += values`, once for each "
        "occurrence of a place.", "Array([5, 8, 7], dtype=int32)")
_method("subtract", _by_scatter("subtract"), "Subtracts from elements: `x[index] -= values`, once "
        "for each occurrence of a place.", "Array([5, 4, 7], dtype=int32)")
_method("multiply", _by_scatter("multiply"), "Multiplies elements: `x[index] *= values`, once for "
        "each occurrence of a place.", "Array([ 5, 12,  7], dtype=int32)")
_IndexUpdateRef.mul = _IndexUpdateRef.multiply  # type: ignore[attr-defined]
_method("min", _by_scatter("min"), "Takes the smaller of elements and values: `x[index] = "
        "minimum(x[index], values)`.", "Array([5, 2, 7], dtype=int32)")
_method("max", _by_scatter("max"), "Takes the greater of elements and values: `x[index] = "
        "maximum(x[index], values)`.", "Array([5, 6, 7], dtype=int32)")


def _by_factors(combine: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Operations on all elements, with the value 1 outside of the index."""

    def change(x: Any, idx: Any, values: Any, *options: Any) -> Any:
        ones = full(shape_of(x), 1, typeof(x).dtype)
        return combine(x, update("multiply", ones, idx, values, *options))

    return change


_method("divide", _by_factors(divide), "Divides elements: `x[index] /= values`, once for each "
        "occurrence of a place.", "Array([5., 3., 7.], dtype=float32)",
        more=" Integers become floats.")
_method("power", _by_factors(power), "Raises elements to powers: `x[index] **= values`. If a "
        "place occurs twice, its exponents are multiplied.", "Array([ 5, 36,  7], dtype=int32)")
