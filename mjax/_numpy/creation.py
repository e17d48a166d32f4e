"""Making arrays: from Python and NumPy values, and of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.foreign_values import is_foreign_array
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.ir.types import ShapedArray, is_array_value, typeof
from mjax._engine.primitives.joining import stack_p
from mjax._engine.primitives.shapes import (
    array_of,
    broadcast_in_dim_p,
    canonical_shape,
    copy_p,
    reshape_p,
)
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.full import on_device, placed
from mjax._engine.runtime.arrays.out_sharding import chosen_place
from mjax._engine.runtime.arrays.transfer import put
from mjax._engine.tracing.evaluate import evaluation
from mjax._numpy.core import (
    broadcast_to,
    cast,
    check_array,
    check_fill,
    dtype_argument,
    expand_rank,
    size_of,
    weak_type_of,
)

#: Eager arrays up to this size are made by NumPy: a transfer costs less than a compilation.
_SMALL = 1 << 16


# ---- from values -----------------------------------------------------------------------


@boundary
def array(object: Any, dtype: Any = None, copy: bool = True, order: str | None = "K",
          ndmin: int = 0, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of the given values.

    Args:
      object: an array, a scalar, a nested sequence of them, an object with `__array__`,
        `__jax_array__` or the buffer protocol; with a dtype also strings of numbers.
      dtype: its dtype; by default that of the values, or the common one of a sequence's.
      copy: whether the array must be a new one.
      order: "K" or "C"; the compiler chooses the memory layout.
      ndmin: the least number of axes; axes of size 1 are put in front.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array; weakly typed where `object` is a Python number and no dtype is given.

    Raises:
      TypeError: the values are not numbers or booleans (strings, objects, None).
      ValueError: rows of different lengths; a string that is not a number.
      OverflowError: a Python int that the dtype cannot hold.

    Source: `numpy.array`.

    Example:
      >>> jnp.array([1.0, 2.0])
      Array([1., 2.], dtype=float32)
      >>> jnp.array([[1, 2], [3, 4]], dtype=jnp.int8)
      Array([[1, 2],
             [3, 4]], dtype=int8)
    """
    if order not in ("K", "C", None):
        msg = f"array: order={order!r} is not supported: arrays have no memory layout; use 'K'."
        raise NotImplementedError(msg)
    device = chosen_place("array", device, out_sharding)
    out = _convert(object, dtype_argument(dtype, "array"))
    if copy and out is object:
        out = copy_p.bind(out)
    if out.ndim < ndmin:
        out = expand_rank(out, ndmin)
    return out if device is None and out is object else on_device(out, device)


@boundary
def asarray(a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None,
            device: Any = None, out_sharding: Any = None) -> Any:
    """The given values as an array; an array of that dtype is returned as it is.

    Args:
      a: an array, a scalar, a nested sequence of them, an object with `__array__`,
        `__jax_array__` or the buffer protocol.
      dtype: its dtype; by default that of the values.
      order: "K", "C" or None; the compiler chooses the memory layout.
      copy: whether the array must be a new one. NumPy's arrays are always copied.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array.

    Raises:
      TypeError, ValueError, OverflowError: as `array`.

    Source: `numpy.asarray`.

    Example:
      >>> jnp.asarray([1, 2, 3])
      Array([1, 2, 3], dtype=int32)
    """
    return array(a, dtype, bool(copy), order, device=chosen_place("asarray", device, out_sharding))


def _convert(x: Any, dtype: Any) -> Any:
    """The array of an argument of `array`, for a canonical dtype or None."""
    if hasattr(x, "aval") and is_array_value(x):  # not another library's
        x = x if type(x) is Array else check_array("array", x)
        return x if dtype is None else cast(x, dtype)
    kind = type(x)
    if dtype is not None and _is_text(x):
        return _from_text(x, dtype)
    if kind in dtypes.PYTHON_SCALARS or isinstance(x, (np.ndarray, np.generic)):
        if dtype is None:
            return array_of(check_array("array", x))
        return _from_numpy(_fitting(x, dtype), dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if hasattr(x, "__jax_array__"):
        return _convert(x.__jax_array__(), dtype)
    if x is None:
        msg = "None is not a valid value for jnp.array."
        raise ValueError(msg)
    python: Any
    for python in (int, float, complex):
        if isinstance(x, python):  # of a subclass, such as IntEnum
            return _convert(python(x), dtype)
    return _from_object(x, dtype)


def _is_text(x: Any) -> bool:
    return isinstance(x, (str, bytes)) or getattr(x, "dtype", _NO_TEXT).kind in "SU"


_NO_TEXT = np.dtype(bool)


def _from_text(x: Any, dtype: Any) -> Array:
    """Numbers from strings, parsed as NumPy does.

    Raises:
      ValueError, TypeError, OverflowError: a string is not a number of the dtype.
    """
    if dtypes.is_extended(dtype):
        return _from_object(str(x), dtype)  # raises
    return _from_numpy(np.array(x, dtype), dtype)


def _from_numpy(value: Any, dtype: Any) -> Array:
    return put(value, ShapedArray(value.shape, dtype))


def _from_object(x: Any, dtype: Any) -> Array:
    if is_foreign_array(x) and str(x.dtype).startswith("key<"):
        check_array("array", x)  # raises
    if not isinstance(x, (str, bytes, dict, set, frozenset)):
        value = np.asarray(x)
        if value.dtype.kind not in "OSUMm":
            target = dtype or typeof(value).dtype
            return _from_numpy(value.astype(target), target)
    msg = (f"{x!r} of type {type(x).__name__} cannot become an array: arrays hold numbers and "
           "booleans, not objects or strings.")
    raise LazyArgumentError(msg)


def _fitting(x: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Python or NumPy values in a dtype; Python ints must fit."""
    if dtypes.is_extended(dtype):
        msg = f"numbers cannot be converted to dtype {dtype}; make keys with mjax.random.key."
        raise TypeError(msg)
    if isinstance(x, (np.ndarray, np.generic)):
        check_array("array", x)
        value = np.asarray(x)
        if dtypes.is_complex(value.dtype) and not dtypes.is_complex(dtype) and dtype != np.bool_:
            value = value.real
        with np.errstate(all="ignore"):
            return value.astype(dtype)
    value = np.asarray(x)
    if value.dtype.kind in "iu" and dtypes.is_integer(dtype):
        _check_range(value, dtype)
    if value.dtype.kind == "O":
        for bad in value.flat:
            if not isinstance(bad, (int, float, complex)):
                _convert(bad, None)  # raises
        if dtypes.is_integer(dtype):
            msg = f"Python int too large to convert to {dtype}."
            raise OverflowError(msg)
        value = value.astype(complex if dtypes.is_complex(dtype) else float)
    if dtypes.is_complex(value.dtype) and not dtypes.is_complex(dtype) and dtype != np.bool_:
        msg = f"complex numbers cannot be converted to dtype {dtype} implicitly; take .real."
        raise TypeError(msg)
    with np.errstate(all="ignore"):
        return value.astype(dtype)


def _check_range(value: np.ndarray[Any, Any], dtype: Any) -> None:
    if value.size and value.dtype != dtype:
        name = dtype.name
        bits = int(name.removeprefix("u").removeprefix("int"))
        low, high = (0, 2**bits - 1) if name[0] == "u" else (-(2 ** (bits - 1)),
                                                             2 ** (bits - 1) - 1)
        least, greatest = int(value.min()), int(value.max())
        if least < low or greatest > high:
            bad = least if least < low else greatest
            msg = (f"Python int {bad} is out of bounds for {dtype}; give a wider dtype"
                   + ("." if thread.settings.enable_x64 else
                      ", or switch on 64-bit types with mjax.enable_x64(True)."))
            raise OverflowError(msg)


def _from_sequence(x: Sequence[Any], dtype: Any) -> Any:
    leaves = tree_leaves(x)
    by_type = {type(leaf): leaf for leaf in leaves}
    if any(hasattr(leaf, "aval") or hasattr(leaf, "__jax_array__") for leaf in by_type.values()):
        return _stacked(x, dtype if dtype is not None else common_type(
            *[weak_type_of(check_array("array", _resolve(leaf))) for leaf in leaves])[0])
    if not all(kind in dtypes.PYTHON_SCALARS for kind in by_type):
        # NumPy values and objects that convert themselves.
        value = np.asarray(x)
        if value.dtype.kind in "OSUMm":
            if value.dtype.kind == "O" and all(map(is_array_value, leaves)):
                # NumPy does not have some common dtypes, such as that of bfloat16 and float16.
                return _stacked(x, dtype if dtype is not None else common_type(
                    *map(weak_type_of, leaves))[0])
            if dtype is not None and _is_text(value):
                return _from_text(value, dtype)
            bad = next((v for v in leaves if np.asarray(v).dtype.kind in "OSUMm"), value)
            return _from_object(bad, None)
        target = dtype if dtype is not None else common_type(*{
            weak_type_of(v) if isinstance(v, (*dtypes.PYTHON_SCALARS, np.generic, np.ndarray))
            else (dtypes.canonical_dtype(value.dtype), False) for v in leaves})[0]
        return _from_numpy(_fitting(value, target), target)
    if dtype is None:
        dtype = common_type(*[weak_type_of(_ZEROS[kind]) for kind in by_type] or [
            (dtypes.dtype_of_python(float), False)])[0]
    value = _fitting(x, dtype)
    return _from_numpy(value, dtype)


_ZEROS = {bool: False, int: 0, float: 0.0, complex: 0j}


def _resolve(x: Any) -> Any:
    return x.__jax_array__() if hasattr(x, "__jax_array__") else x


def _stacked(x: Any, dtype: Any) -> Any:
    """The array of a nested sequence with arrays or tracers, joined by one equation per level."""
    if not isinstance(x, (list, tuple)):
        return array_of(cast(_resolve(x), dtype))
    if not x:
        return full((0,), 0, dtype)
    parts = [_stacked(v, dtype) for v in x]
    if any(p.shape != parts[0].shape for p in parts):
        msg = ("array: the rows of a nested sequence must have one shape, got "
               f"{', '.join(str(p.shape) for p in parts[:5])}{', ...' if len(parts) > 5 else ''}.")
        raise LazyArgumentError(msg)
    if len(parts) == 1:
        return reshape_p.bind(parts[0], new_sizes=(1, *parts[0].shape), dimensions=None)
    return stack_p.bind(*parts, axis=0)


@boundary
def copy(a: Any, order: str | None = None) -> Any:
    """A new array with the same elements.

    Args:
      a: array-like.
      order: "K", "C" or None.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: the values are not numbers or booleans.
      ValueError: `a` is None, or has rows of different lengths.
      OverflowError: a Python int that the default integer dtype cannot hold.
      NotImplementedError: another `order`.

    Source: `numpy.copy`.

    Example:
      >>> jnp.copy(jnp.array([1, 2]))
      Array([1, 2], dtype=int32)
    """
    return array(a, copy=True, order=order)


@boundary
def astype(x: Any, dtype: Any, /, *, copy: bool = False, device: Any = None) -> Any:
    """An array in another dtype.

    Args:
      x: array or scalar.
      dtype: the dtype; None: the default float.
      copy: whether the result must be a new array.
      device: the device to put it on.

    Returns:
      An array of the shape of `x`. Floats are rounded towards zero on the way to integers;
      complex numbers lose their imaginary part on the way to reals.

    Raises:
      TypeError: `x` is not an array or scalar, or `dtype` not a dtype; or one of them is of keys,
        and the other one of numbers.
      ValueError: `device` is not a device or sharding, or a sharding does not fit the shape.
      OverflowError: `x` is a Python int that the default integer dtype cannot hold.

    Source: `numpy.astype`.

    Example:
      >>> jnp.astype(jnp.array([1.7, -1.7]), int)
      Array([ 1, -1], dtype=int32)
    """
    target = dtype_argument(float if dtype is None else dtype, "astype")
    x = check_array("astype", x)
    out = array_of(cast(x, target))
    return on_device(copy_p.bind(out) if copy and out is x else out, device)


# ---- of one value ----------------------------------------------------------------------


def filled_on(shape: Sequence[int], value: Any, dtype: Any, device: Any, weak: bool = False
              ) -> Any:
    """`filled`, on a device if one is given."""
    return placed(lambda: filled(shape, value, dtype, weak), shape, value, dtype, device)


def filled(shape: Sequence[int], value: Any, dtype: Any, weak: bool = False) -> Any:
    """An array of one Python or NumPy number; the shape and dtype are canonical."""
    shape = tuple(shape)
    if dtypes.is_extended(dtype):
        return dtype.wrap(filled((*shape, *dtype.element_shape), value, dtype.element_dtype))
    if thread.interpreter is evaluation and size_of(shape) <= _SMALL:
        if dtype == dtypes.float0:
            return np.zeros(shape, dtype)
        return put(np.full(shape, value, dtype), ShapedArray(shape, dtype, weak))
    return broadcast_in_dim_p.bind(cast(value, dtype, weak), shape=shape, broadcast_dimensions=())


@boundary
def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of zeros.

    Args:
      shape: its shape: an int or a sequence of ints.
      dtype: its dtype; the default float if not given.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of shape `shape`.

    Raises:
      TypeError: a size is negative or not an integer.

    Source: `numpy.zeros`.

    Example:
      >>> jnp.zeros(3)
      Array([0., 0., 0.], dtype=float32)
    """
    dtype = dtype_argument(float if dtype is None else dtype, "zeros")
    return filled_on(canonical_shape(shape), 0, dtype, chosen_place("zeros", device, out_sharding))


@boundary
def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of ones.

    Args:
      shape: its shape: an int or a sequence of ints.
      dtype: its dtype; the default float if not given.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of shape `shape`.

    Raises:
      TypeError: a size is negative or not an integer.

    Source: `numpy.ones`.

    Example:
      >>> jnp.ones(3, dtype=int)
      Array([1, 1, 1], dtype=int32)
    """
    dtype = dtype_argument(float if dtype is None else dtype, "ones")
    return filled_on(canonical_shape(shape), 1, dtype, chosen_place("ones", device, out_sharding))


@boundary
def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """An array of unspecified values; they are zeros.

    Args:
      shape: its shape: an int or a sequence of ints.
      dtype: its dtype; the default float if not given.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array of shape `shape`.

    Raises:
      TypeError: a size is negative or not an integer; `dtype` or `out_sharding` has a wrong type.
      ValueError: `device` is not a device or sharding, or is given beside `out_sharding`. A
        sharding does not fit the shape, or no mesh is set for a spec.

    Source: `numpy.empty`.

    Example:
      >>> jnp.empty(2)
      Array([0., 0.], dtype=float32)
    """
    dtype = dtype_argument(float if dtype is None else dtype, "empty")
    return filled_on(canonical_shape(shape), 0, dtype, chosen_place("empty", device, out_sharding))


@boundary
def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None,
         out_sharding: Any = None) -> Any:
    """An array of one value.

    Args:
      shape: its shape: an int or a sequence of ints.
      fill_value: the value; an array is broadcast to the shape.
      dtype: its dtype; that of the value if not given.
      device: the device to put it on.
      out_sharding: how it is cut over devices: a `NamedSharding`, or a `PartitionSpec` for the
        mesh that is set; in place of `device`.

    Returns:
      An array; weakly typed where `fill_value` is and no dtype is given.

    Raises:
      TypeError: a size is negative or not an integer; the value is not an array or scalar.
      ValueError: the value does not broadcast to the shape.

    Source: `numpy.full`.

    Example:
      >>> jnp.full((2, 2), 7.0)
      Array([[7., 7.],
             [7., 7.]], dtype=float32, weak_type=True)
    """
    shape, device = canonical_shape(shape), chosen_place("full", device, out_sharding)
    dtype = dtype_argument(dtype, "full")
    if dtype is not None:
        return full_of(shape, check_fill("full", fill_value, 1), dtype, False, device)
    value = check_array("full", fill_value, 1)
    aval = typeof(value)
    return full_of(shape, value, aval.dtype, aval.weak_type, device)


def full_of(shape: tuple[int, ...], value: Any, dtype: Any, weak: bool, device: Any) -> Any:
    """`full` of a number or array that is checked, for a canonical shape and dtype."""
    if not hasattr(value, "aval") and not getattr(value, "ndim", 0):
        return _filled_with(shape, value, dtype, weak, device)
    return on_device(broadcast_to(cast(value, dtype, weak), shape), device)


def _filled_with(shape: tuple[int, ...], value: Any, dtype: Any, weak: bool, device: Any) -> Any:
    """`filled` with a Python or NumPy number, which may be of another dtype."""
    if isinstance(value, (complex, np.generic, np.ndarray)) and np.iscomplexobj(value) and (
            dtypes.kind(dtype) in "iuf"):
        msg = (f"the complex fill_value {value} cannot be stored in dtype {dtype}; take its real "
               "part.")
        raise TypeError(msg)
    if not weak:
        value = cast(value, dtype.element_dtype if dtypes.is_extended(dtype) else dtype)
    return filled_on(shape, value, dtype, device, weak)
