"""Type promotion: the common dtype of several values.

Dtypes form a lattice; a pair is promoted to its least upper bound. Types of Python scalars are
*weak*: three points of their own, below the sized dtypes of their kind. So `x + 2.0` keeps the
dtype of a float array `x`:

    bool -> i* -> every int -> ... -> int64 -> f* -> every float -> ... -> float64
                                               f* -> c* -> complex64 -> complex128

In mode "strict" only Python scalars are promoted.

Source: https://docs.jax.dev/en/latest/type_promotion.html
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Literal, overload

import numpy as np

from mjax._engine.base.errors import LazyArgumentError, TypePromotionError
from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir import dtypes
from mjax._engine.ir.dtypes import DType
from mjax._engine.ir.types import typeof

#: The points of the lattice that stand for weak types, by the kind of the dtype.
WEAK = {"i": "i*", "u": "i*", "f": "f*", "c": "c*"}

_INTS = ("uint1", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
         "int1", "int2", "int4", "int8", "int16", "int32", "int64")
_FLOATS = (*dtypes.NARROW_FLOATS, "bfloat16", "float16", "float32", "float64")
_COMPLEX = ("complex64", "complex128")

#: Point -> the points directly above it.
_STANDARD = {
    "bool": ("i*",),
    "i*": ("uint1", "uint2", "uint4", "uint8", "int1", "int2", "int4", "int8"),
    "uint8": ("int16", "uint16"), "uint16": ("int32", "uint32"), "uint32": ("int64", "uint64"),
    "int8": ("int16",), "int16": ("int32",), "int32": ("int64",),
    "int64": ("f*",), "uint64": ("f*",),
    "f*": (*dtypes.NARROW_FLOATS, "bfloat16", "float16", "c*"),
    "bfloat16": ("float32",), "float16": ("float32",), "float32": ("float64", "complex64"),
    "float64": ("complex128",),
    "c*": ("complex64",), "complex64": ("complex128",),
}
_STRICT = {"i*": ("f*", *_INTS), "f*": ("c*", *_FLOATS), "c*": _COMPLEX}


def _upper_bounds(above: dict[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """Each point with all points that are not below it."""
    bounds: dict[str, frozenset[str]] = {}

    def visit(point: str) -> frozenset[str]:
        if point not in bounds:
            bounds[point] = frozenset({point}).union(*map(visit, above.get(point, ())))
        return bounds[point]

    for point in ("bool", *_INTS, *_FLOATS, *_COMPLEX, *WEAK.values()):
        visit(point)
    return bounds


@functools.cache
def _bounds(mode: str) -> dict[str, frozenset[str]]:
    return _upper_bounds(_STRICT if mode == "strict" else _STANDARD)


@functools.cache
def _join(mode: str, points: frozenset[str]) -> str | None:
    """The least upper bound of points, if they have one."""
    if len(points) == 1:
        return next(iter(points))
    bounds = _bounds(mode)
    common = frozenset.intersection(*[bounds[p] for p in points])
    least = [p for p in common if common <= bounds[p]]
    return least[0] if least else None


def _point(dtype: DType, weak: bool) -> str:
    if dtypes.is_extended(dtype) or dtype == dtypes.float0:
        msg = (f"dtype {dtypes.short_name(dtype)} takes no part in promotion: it holds no numbers."
               + (" random.key_data gives the numbers behind a key." if dtype != dtypes.float0
                  else ""))
        raise LazyArgumentError(msg)
    return WEAK.get(dtypes.kind(dtype), dtype.name) if weak else dtype.name


_common = BoundedCache()


def common_type(*types: tuple[DType, bool]) -> tuple[DType, bool]:
    """The type that values of the given types are promoted to.

    Args:
      types: pairs of dtype and weak type.

    Returns:
      The canonical dtype, and whether it is weak. It is if all types are, or if the least upper
      bound is a weak point, as for an int array and a Python float.

    Raises:
      TypePromotionError: the types do not have a common one in the promotion mode in force.
      ValueError: no types.
      TypeError, ValueError: there are keys, which are not promoted.
    """
    key = (thread.settings, types)
    known = _common.get(key)
    if known is None:
        dtype, weak = _least_upper_bound(types)
        # A dtype shared by all strongly typed operands stays as it is.
        if len(types) > 1 and (weak or any(d != dtype for d, _ in types)):
            dtype = dtypes.canonicalize(dtype)
        known = _common.put(key, (dtype, weak))
    return known


def _least_upper_bound(types: tuple[tuple[DType, bool], ...]) -> tuple[DType, bool]:
    if not types:
        msg = "at least one array or dtype is required to find a common type."
        raise ValueError(msg)
    first = types[0][0]
    if all(dtype == first for dtype, _ in types):
        return first, all(weak for _, weak in types) and first != np.bool_
    all_weak = all(weak for _, weak in types)
    mode = thread.settings.numpy_dtype_promotion
    # Weak values alone promote as their dtypes do, whatever the mode.
    points = frozenset(_point(dtype, weak and not all_weak) for dtype, weak in types)
    point = _join("standard" if all_weak else mode, points)
    if point is None:
        raise TypePromotionError(lambda: _refusal(types, mode))
    if point in _PYTHON_TYPES:
        return dtypes.PYTHON_SCALARS[_PYTHON_TYPES[point]], True
    dtype = dtypes.as_dtype(point)
    return dtype, all_weak and dtype != np.bool_


_PYTHON_TYPES = {"i*": int, "f*": float, "c*": complex}


def _refusal(types: Iterable[tuple[DType, bool]], mode: str) -> str:
    names = [f"Python {_PYTHON_TYPES[_point(d, True)].__name__}" if weak else str(d)
             for d, weak in dict.fromkeys(types)]
    text = f"Input dtypes {', '.join(names)} have no available implicit dtype promotion path"
    if mode == "strict":
        return (f"{text} with numpy_dtype_promotion='strict'. Convert the inputs to the dtype you "
                "want with x.astype(dtype), or set numpy_dtype_promotion='standard'.")
    narrow = [n for n in names if n in (*dtypes.NARROW_FLOATS, *dtypes.NARROW_INTS)]
    why = f": {', '.join(narrow)} would lose its purpose if it widened in silence" if narrow else ""
    return f"{text}{why}. Convert the inputs to the dtype you want with x.astype(dtype)."


def _type_of(x: Any) -> tuple[DType, bool]:
    """Dtype and weak type of a value, or of a spelling of a dtype."""
    if x is None:
        return dtypes.dtype_of_python(float), False
    if isinstance(x, type) and x in dtypes.PYTHON_SCALARS:
        return dtypes.dtype_of_python(x), x is not bool
    if type(x) is int:
        return dtypes.dtype_of_python(int), True
    if isinstance(x, (str, type, np.dtype, dtypes.ExtendedDType)) or not _is_value(x):
        return dtypes.asked_dtype(x, None), False
    aval = typeof(x)
    return aval.dtype, aval.weak_type


def _is_value(x: Any) -> bool:
    return hasattr(x, "aval") or isinstance(x, (np.ndarray, np.generic, *dtypes.PYTHON_SCALARS))


@overload
def result_type(*args: Any, return_weak_type_flag: Literal[False] = ...) -> np.dtype[Any]: ...
@overload
def result_type(*args: Any, return_weak_type_flag: Literal[True]
                ) -> tuple[np.dtype[Any], bool]: ...
@overload
def result_type(*args: Any, return_weak_type_flag: bool = ...) -> Any: ...
@boundary
def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that an operation on these values promotes them to.

    Args:
      args: values (arrays, tracers, scalars), or dtypes in any spelling.
      return_weak_type_flag: whether to return the pair of dtype and weak type.

    Returns:
      The dtype.

    Raises:
      ValueError: no arguments.
      TypePromotionError: the dtypes do not have a common one in the promotion mode in force.

    Source: `numpy.result_type`, by JAX's lattice.

    Example:
      >>> jnp.result_type(np.int8, 1.0)
      dtype('float32')
      >>> jnp.result_type(np.float16, 1.0)
      dtype('float16')
    """
    dtype, weak = common_type(*[_type_of(a) for a in args])
    if weak:
        # A result on its own has the default size of its kind.
        dtype = dtypes.dtype_of_python(_PYTHON_TYPES[_point(dtype, True)])
    return (dtype, weak) if return_weak_type_flag else dtype


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The least dtype that both dtypes are promoted to.

    Args:
      a: a dtype, or a Python type (`int`), which is weak; None is float64.
      b: the same.

    Returns:
      A dtype.

    Raises:
      TypePromotionError: the dtypes do not have a common one in the promotion mode in force.

    Source: `numpy.promote_types`, by JAX's lattice.

    Example:
      >>> jnp.promote_types("int32", "float16")
      dtype('float16')
    """
    types = _named_type(a), _named_type(b)
    dtype = _least_upper_bound(types)[0]
    # 64-bit dtypes are kept: this is about dtypes, not about values.
    return dtype if any(dtypes.is_wide(d) for d, _ in types) else dtypes.canonicalize(dtype)


def _named_type(x: Any) -> tuple[DType, bool]:
    if isinstance(x, type) and x in dtypes.PYTHON_SCALARS:
        return dtypes.PYTHON_SCALARS[x], x is not bool
    return dtypes.dtype_behind(float if x is None else x), False


def inexact_dtype(dtype: DType) -> DType:
    """The dtype in which functions like `sin` compute: `dtype` itself, or a float for integers.

    That is float32, and with x64 on float64 for 64-bit integers.
    """
    if dtypes.is_inexact(dtype):
        return dtype
    return np.dtype(np.float64 if dtypes.is_wide(dtype) else np.float32)


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> np.dtype[Any]:
    """The dtype of arrays that are requested as `dtype`: 64 bits become 32 unless x64 is on.

    Args:
      dtype: a dtype in any spelling, or None for the default float.
      allow_extended_dtype: whether dtypes of keys are accepted.

    Returns:
      A dtype.

    Raises:
      ValueError: an extended dtype, if these are not accepted.

    Example:
      >>> mjax.dtypes.canonicalize_dtype("float64")
      dtype('float32')
    """
    canonical = dtypes.canonical_dtype(float if dtype is None else dtype)
    if dtypes.is_extended(canonical) and not allow_extended_dtype:
        msg = f"dtype {canonical} is an extended one; pass allow_extended_dtype=True to accept it."
        raise ValueError(msg)
    return canonical


def scalar_type_of(x: Any) -> type:
    """The Python type (`bool`, `int`, `float`, `complex`) of the kind of a value's dtype.

    Args:
      x: array, scalar or dtype.

    Returns:
      A class.

    Raises:
      TypeError: the value holds no numbers.

    Example:
      >>> mjax.dtypes.scalar_type_of(jnp.ones(2))
      <class 'float'>
    """
    kind = dtypes.kind(_type_of(x)[0])
    python = {"b": bool, "i": int, "u": int, "f": float, "c": complex}.get(kind)
    if python is None:
        msg = f"{x!r} holds no numbers: it has no scalar type."
        raise TypeError(msg)
    return python


def itemsize_bits(dtype: Any) -> int:
    """The number of bits of an element; 8 for bool.

    Args:
      dtype: a dtype, or a name of one.

    Returns:
      An int.

    Raises:
      TypeError: `dtype` is not a dtype of numbers or booleans.

    Example:
      >>> mjax.dtypes.itemsize_bits("int4")
      4
    """
    name = dtypes.dtype_behind(dtype).name
    if name in dtypes.NARROW_INTS:
        return int(name.removeprefix("u").removeprefix("int"))
    narrow = name.startswith(("float4_", "float6_"))  # and not float64
    return int(name[5]) if narrow else 8 * int(np.dtype(name).itemsize)
