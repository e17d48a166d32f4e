"""Dtypes: those that exist, canonical ones, extended ones, and those of Python scalars.

Dtypes are canonicalized (64-bit types become 32-bit ones unless x64 is on) in exactly two
places: `types.typeof` of foreign values, and `canonical_dtype` of dtype arguments.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import warn

#: The dtype of tangents of integers, booleans and keys: it has one value.
float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])

bfloat16 = np.dtype(ml_dtypes.bfloat16)
#: Narrow types of `ml_dtypes`, by name, with their kind.
NARROW_FLOATS = ("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
                 "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
                 "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn")
NARROW_INTS = ("int1", "int2", "int4", "uint1", "uint2", "uint4")
#: Names of 1-bit types; ml_dtypes has them since 0.6.
ONE_BIT = ("int1", "uint1") if hasattr(ml_dtypes, "int1") else ()

_KINDS: dict[Any, str] = {bfloat16: "f"}
_KINDS |= {np.dtype(getattr(ml_dtypes, n)): "f" for n in NARROW_FLOATS if hasattr(ml_dtypes, n)}
_KINDS |= {np.dtype(getattr(ml_dtypes, n)): n[0] for n in NARROW_INTS if hasattr(ml_dtypes, n)}

#: The dtypes of NumPy and of `ml_dtypes` that arrays can have.
NUMPY_DTYPES = (*map(np.dtype, (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128")), *_KINDS)

#: 64-bit dtype -> its 32-bit sibling.
TO_32 = {np.dtype(a): np.dtype(b) for a, b in (
    ("int64", "int32"), ("uint64", "uint32"), ("float64", "float32"),
    ("complex128", "complex64"))}

#: Type of a Python scalar -> its default dtype with x64 on; all are weakly typed.
PYTHON_SCALARS = {bool: np.dtype("bool"), int: np.dtype("int64"), float: np.dtype("float64"),
                  complex: np.dtype("complex128")}


class extended(np.generic):
    """Abstract class of extended dtypes, for `issubdtype`.

    Example:
      >>> jnp.issubdtype(random.key(0).dtype, mjax.dtypes.extended)
      True
    """

    __module__ = "mjax.dtypes"


class prng_key(extended):
    """Abstract class of the dtypes of PRNG keys, for `issubdtype`.

    Example:
      >>> jnp.issubdtype(random.key(0).dtype, mjax.dtypes.prng_key)
      True
    """

    __module__ = "mjax.dtypes"


class ExtendedDType:
    """A dtype whose elements are stored as small arrays of a physical dtype.

    Subclasses are hashable and compare by value. One element of shape `()` is stored as an
    array of shape `element_shape` and dtype `element_dtype`; `types.physical_aval` is the
    one place that applies this.
    """

    name: str
    type: Any = extended
    element_shape: tuple[int, ...]
    element_dtype: np.dtype[Any]
    kind = "X"

    def wrap(self, physical: Any) -> Any:
        """The array of this dtype that an array of `element_dtype` stores."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.name


def no_numbers(dtype: ExtendedDType) -> TypeError:
    """The error of an array of keys where numbers are needed."""
    return TypeError(f"an array of numbers is needed, got one of dtype {dtype}: keys are not "
                     "numbers. random.key_data gives the numbers behind a key.")


DType = Any  # np.dtype or ExtendedDType; a union would make every arithmetic use a cast


def kind(dtype: DType) -> str:
    """One letter: b(ool), i(nt), u(int), f(loat), c(omplex), V (float0), X (extended)."""
    return _KINDS.get(dtype) or dtype.kind


def is_extended(dtype: DType) -> bool:
    """Whether the elements are stored as arrays of another dtype."""
    return isinstance(dtype, ExtendedDType)


def is_inexact(dtype: DType) -> bool:
    """Whether values of this dtype have tangents of the same dtype."""
    return kind(dtype) in "fc"


def is_float(dtype: DType) -> bool:
    """Whether the dtype is a real floating-point one, narrow ones included."""
    return kind(dtype) == "f"


def is_complex(dtype: DType) -> bool:
    """Whether the dtype is complex."""
    return kind(dtype) == "c"


def is_integer(dtype: DType) -> bool:
    """Whether the dtype is a signed or unsigned integer (bool is not)."""
    return kind(dtype) in "iu"


def canonicalize(dtype: DType) -> DType:
    """The 32-bit sibling of a 64-bit dtype unless x64 is on; other dtypes as they are."""
    return dtype if thread.settings.enable_x64 else TO_32.get(dtype, dtype)


def narrow(dtype: DType) -> DType:
    """The 32-bit sibling of a 64-bit dtype; other dtypes as they are."""
    return TO_32.get(dtype, dtype)


def is_wide(dtype: DType) -> bool:
    """Whether the dtype exists only with x64 on."""
    return dtype in TO_32


def as_dtype(spec: Any) -> DType:
    """A dtype from what users write: names, NumPy scalar types, Python types, dtypes.

    Raises:
      TypeError: the argument names no dtype an array can have.
      ValueError: it is an array, which is nearly always a mistake.
    """
    if isinstance(spec, ExtendedDType):
        return spec
    if isinstance(spec, np.dtype):
        return _supported(spec, spec)
    if spec is None:
        msg = "None is not a dtype; leave the argument out for the default."
        raise LazyArgumentError(msg)
    inner = getattr(spec, "dtype", None)
    if isinstance(inner, (np.dtype, ExtendedDType)) and not isinstance(spec, np.generic):
        if hasattr(type(spec), "__array__"):
            msg = (f"an array of dtype {inner} was given where a dtype belongs: pass its .dtype, "
                   "or, where several arrays are meant, a list of them.")
            raise ValueError(msg)
        return inner
    return _supported(numpy_dtype(spec), spec)


def numpy_dtype(spec: Any) -> np.dtype[Any]:
    """The NumPy dtype of a spelling, an array or a scalar, even one that no array can have.

    Classes of scalars have an attribute `dtype` too, which is not a dtype.
    """
    own = getattr(spec, "dtype", spec)
    if isinstance(own, np.dtype):
        return own
    if isinstance(own, ExtendedDType):
        raise no_numbers(own)
    if isinstance(spec, str) and hasattr(ml_dtypes, spec):
        return np.dtype(getattr(ml_dtypes, spec))
    return np.dtype(spec)


def dtype_behind(x: Any) -> DType:
    """`as_dtype` that also takes arrays, and gives their dtype."""
    own = getattr(x, "dtype", None)
    return as_dtype(own if isinstance(own, (np.dtype, ExtendedDType)) else x)


def why_refused(dtype: np.dtype[Any]) -> str:
    """Why no array has a dtype that only NumPy has."""
    if dtype.kind in "fc":
        return "NumPy's longdouble exists on no device; convert it to float64 or complex128."
    if "complex" in dtype.name:
        return "no device computes with it; convert it to complex64."
    return "arrays hold numbers, booleans or keys, not objects, strings or dates."


#: The dtypes NumPy calls `longdouble`: devices do not compute with them.
_EXTENDED_PRECISION = frozenset(map(np.dtype, (np.longdouble, np.clongdouble))) - frozenset(
    NUMPY_DTYPES)


def _supported(dtype: np.dtype[Any], spec: Any) -> np.dtype[Any]:
    if dtype.newbyteorder("=") in _EXTENDED_PRECISION or (
            dtype.kind not in "biufc" and dtype not in _KINDS):
        if dtype == float0:
            return float0  # one object, because others make equal ones and we compare by identity
        msg = f"dtype {dtype} ({spec!r}) is not supported: {why_refused(dtype)}"
        raise TypeError(msg)
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def from_int(value: int, dtype: np.dtype[Any]) -> Any:
    """A Python int of any size as a scalar of a dtype; it wraps around in narrow integer dtypes.

    Raises:
      OverflowError: an integer dtype, and more than 64 bits are needed.
    """
    if -(2**63) <= value < 2**64:
        with np.errstate(all="ignore"):
            return np.asarray(value).astype(dtype)[()]
    if is_integer(dtype):
        msg = f"Python int {value} is too large to convert to {dtype}."
        raise OverflowError(msg)
    return np.asarray(float(value)).astype(dtype)[()]


def canonical_dtype(spec: Any) -> DType:
    """The canonical dtype that a dtype argument stands for."""
    return canonicalize(as_dtype(spec))


def asked_dtype(spec: Any, name: str | None) -> DType:
    """The dtype of arrays that a user asks for by an argument of the function `name`.

    With x64 off, the setting `explicit_x64_dtypes` decides about 64-bit dtypes. Python's types
    stand for their default dtypes. Without a name, the caller has warned or refused already.

    Raises:
      TypeError: the argument names no dtype an array can have.
      ValueError: the setting is "error", and the dtype is not available.
    """
    try:
        wanted = as_dtype(spec)
    except TypeError:
        if name is not None and isinstance(spec, (int, float, complex)):
            raise LazyArgumentError(_number_for_dtype(spec, name)) from None
        raise
    got = canonicalize(wanted)
    mode = thread.settings.explicit_x64_dtypes
    if got is wanted or (isinstance(spec, type) and spec in PYTHON_SCALARS):
        return got
    if mode == "allow":
        return wanted
    if name is not None:
        instead = "" if mode == "error" else f", and {got} is taken"
        text = (f"{name}: dtype {wanted} was asked for, but 64-bit types are off{instead}. Switch "
                "them on with mjax.enable_x64(True) or mjax.config.update('enable_x64', True).")
        if mode == "error":
            raise ValueError(text)
        warn(text)
    return got


def _number_for_dtype(spec: complex, name: str) -> str:
    """The message for a number where a dtype belongs: a size, or another argument."""
    remedy = ("Sizes of a shape are one argument, and so are axes: a tuple, as (2, 3)"
              if isinstance(spec, int) else "Give the arguments that follow the dtype by name")
    return (f"{name}: the argument dtype must be a dtype, such as jnp.float32 or int, got {spec!r} "
            f"of type {type(spec).__name__}. {remedy}.")


def dtype_of_python(python_type: type) -> DType:
    """The canonical dtype of values of `bool`, `int`, `float` or `complex`."""
    return canonicalize(PYTHON_SCALARS[python_type])


_ABSTRACT = {np.generic: "biufc", np.number: "iufc", np.integer: "iu", np.signedinteger: "i",
             np.unsignedinteger: "u", np.inexact: "fc", np.floating: "f",
             np.complexfloating: "c"}


def issubdtype(a: Any, b: Any) -> bool:
    """`numpy.issubdtype` that also knows narrow and extended dtypes.

    Args:
      a: a dtype or what makes one, or an abstract class of dtypes.
      b: the same.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is neither a dtype nor makes one, as NumPy says of it.

    Example:
      >>> mjax.dtypes.issubdtype(jnp.bfloat16, jnp.floating)
      True
    """
    if isinstance(b, type) and issubclass(b, extended):
        own = a.type if isinstance(a, ExtendedDType) else a
        return isinstance(own, type) and issubclass(own, b)
    if isinstance(a, ExtendedDType) or isinstance(b, ExtendedDType):
        return b is np.generic or a == b
    if isinstance(a, type) and issubclass(a, np.generic) and (
            a in _ABSTRACT or issubclass(a, extended)):
        return isinstance(b, type) and issubclass(a, b)
    try:
        dtype = dtype_behind(float if a is None else a)
        if isinstance(b, type) and b in _ABSTRACT:
            return b is np.generic or kind(dtype) in _ABSTRACT[b]
        return bool(dtype == dtype_behind(float if b is None else b))
    except (TypeError, ValueError):
        return bool(np.issubdtype(a, b))  # for dtypes of NumPy alone; others raise its error


def long_name(dtype: DType) -> str:
    """The name in texts of types: `float32`, `int8`, `bool`, `key<fry>`, `float0`."""
    return "float0" if dtype == float0 else str(dtype.name)


def short_name(dtype: DType) -> str:
    """The name in printed jaxprs: `f32`, `i8`, `bool`, `key<fry>`, `float0`."""
    name = long_name(dtype)
    if is_extended(dtype) or dtype == float0:
        return name
    for long, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"),
                        ("complex", "c")):
        if name.startswith(long):
            return short + name[len(long):]
    return name


def real_dtype(dtype: DType) -> DType:
    """The dtype of the real part of a complex dtype; real dtypes as they are."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: DType) -> DType:
    """The complex dtype whose parts have this float dtype (at least complex64)."""
    if dtype.kind == "c":
        return dtype
    return np.dtype("complex128") if dtype == np.float64 else np.dtype("complex64")
