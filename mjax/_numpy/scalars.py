"""Scalar types, which make arrays when called; constants; queries of dtypes and values."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axes
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._numpy.core import check_array
from mjax._numpy.creation import array

# ---- scalar types ----------------------------------------------------------------------


class ScalarMeta(type):
    """The metaclass of `jnp.float32` and its siblings.

    They replace NumPy's scalar types wherever a dtype is expected, and are equal to them.
    Unlike NumPy's, they make arrays when called.
    """

    dtype: np.dtype[Any]

    @boundary
    def __call__(cls, x: Any) -> Any:
        return array(x, dtype=cls.dtype)

    def __eq__(cls, other: object) -> bool:
        if cls is other:
            return True
        if isinstance(other, (ScalarMeta, np.dtype)):
            return bool(cls.dtype == getattr(other, "dtype", other))
        return cls.dtype.type is other

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.dtype.type)

    def __repr__(cls) -> str:
        return f"<class 'mjax.numpy.{cls.__name__}'>"


def _scalar_type(name: str, dtype: Any) -> Any:
    return ScalarMeta(name, (object,), {
        "dtype": np.dtype(dtype), "__slots__": (), "__module__": "mjax.numpy",
        "__doc__": f"The dtype {name}; called, it makes an array of that dtype."})


bool_ = _scalar_type("bool", np.bool_)
if dtypes.ONE_BIT:
    uint1, int1 = _scalar_type("uint1", ml_dtypes.uint1), _scalar_type("int1", ml_dtypes.int1)
uint2, uint4 = _scalar_type("uint2", ml_dtypes.uint2), _scalar_type("uint4", ml_dtypes.uint4)
uint8, uint16 = _scalar_type("uint8", np.uint8), _scalar_type("uint16", np.uint16)
uint32, uint64 = _scalar_type("uint32", np.uint32), _scalar_type("uint64", np.uint64)
int2, int4 = _scalar_type("int2", ml_dtypes.int2), _scalar_type("int4", ml_dtypes.int4)
int8, int16 = _scalar_type("int8", np.int8), _scalar_type("int16", np.int16)
int32, int64 = _scalar_type("int32", np.int32), _scalar_type("int64", np.int64)
float8_e4m3b11fnuz = _scalar_type("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz)
float8_e4m3fn = _scalar_type("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = _scalar_type("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = _scalar_type("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e5m2fnuz = _scalar_type("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz)
float8_e3m4 = _scalar_type("float8_e3m4", ml_dtypes.float8_e3m4)
float8_e4m3 = _scalar_type("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e8m0fnu = _scalar_type("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
float4_e2m1fn = _scalar_type("float4_e2m1fn", ml_dtypes.float4_e2m1fn)
float6_e2m3fn = _scalar_type("float6_e2m3fn", ml_dtypes.float6_e2m3fn)
float6_e3m2fn = _scalar_type("float6_e3m2fn", ml_dtypes.float6_e3m2fn)
bfloat16 = _scalar_type("bfloat16", ml_dtypes.bfloat16)
float16, float32 = _scalar_type("float16", np.float16), _scalar_type("float32", np.float32)
float64 = _scalar_type("float64", np.float64)
complex64 = _scalar_type("complex64", np.complex64)
complex128 = _scalar_type("complex128", np.complex128)
int_, uint, float_, complex_ = int64, uint64, float64, complex128
single, double, csingle, cdouble = float32, float64, complex64, complex128

# ---- dtypes and constants --------------------------------------------------------------

dtype = np.dtype
generic, number, integer, signedinteger = np.generic, np.number, np.integer, np.signedinteger
unsignedinteger, inexact, floating = np.unsignedinteger, np.inexact, np.floating
complexfloating, character, flexible, object_ = (
    np.complexfloating, np.character, np.flexible, np.object_)
ndarray = Array
#: Numbers and the index of a new axis, as in NumPy.
pi, e, inf, nan, euler_gamma, newaxis = math.pi, math.e, math.inf, math.nan, np.euler_gamma, None


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype belongs to a class of dtypes, as `numpy.issubdtype`.

    Args:
      arg1: a dtype, or a class of dtypes such as `jnp.floating`.
      arg2: the same.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is not a dtype.

    Example:
      >>> jnp.issubdtype(jnp.bfloat16, jnp.floating)
      True
    """
    return dtypes.issubdtype(arg1, arg2)


class _Info(type):
    """The metaclass of `finfo` and `iinfo`, whose calls give objects of `made`."""

    made: type

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.made)


class finfo(metaclass=_Info):
    """Limits of a floating-point dtype, as `numpy.finfo`; narrow dtypes included.

    Args:
      dtype: a dtype, or an array of it.

    Example:
      >>> float(jnp.finfo(jnp.bfloat16).eps)
      0.0078125
    """

    made: type = np.finfo  # `ml_dtypes.finfo` derives from it, and gives one for narrow dtypes
    bits: int
    dtype: np.dtype[Any]
    eps: np.floating[Any]
    epsneg: np.floating[Any]
    iexp: int
    machep: int
    max: np.floating[Any]
    maxexp: int
    min: np.floating[Any]
    minexp: int
    negep: int
    nexp: int
    nmant: int
    precision: int
    resolution: np.floating[Any]
    smallest_normal: np.floating[Any]
    smallest_subnormal: np.floating[Any]
    tiny: np.floating[Any]

    def __new__(cls, dtype: Any) -> finfo:
        return ml_dtypes.finfo(dtypes.numpy_dtype(dtype))


class iinfo(metaclass=_Info):
    """Limits of an integer dtype, as `numpy.iinfo`; narrow dtypes included.

    Args:
      int_type: a dtype, or an array of it.

    Example:
      >>> jnp.iinfo(jnp.int8).max
      127
    """

    made: type = ml_dtypes.iinfo
    bits: int
    dtype: np.dtype[Any]
    kind: str
    max: int
    min: int

    def __new__(cls, int_type: Any) -> iinfo:
        return ml_dtypes.iinfo(dtypes.PYTHON_SCALARS[int] if type(int_type) is int
                               else dtypes.numpy_dtype(int_type))


@boundary
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
      dtype: a dtype.
      kind: a dtype, one of "bool", "signed integer", "unsigned integer", "integral",
        "real floating", "complex floating" and "numeric", or a tuple of these.

    Returns:
      A bool.

    Raises:
      ValueError: an unknown kind.

    Source: `numpy.isdtype`.

    Example:
      >>> jnp.isdtype(jnp.int8, "integral")
      True
    """
    own = dtype if isinstance(dtype, dtypes.ExtendedDType) else dtypes.numpy_dtype(dtype)
    return any(_is_kind(own, k) for k in (kind if isinstance(kind, tuple) else (kind,)))


_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
          "real floating": "f", "complex floating": "c", "numeric": "iufc"}


def _is_kind(own: Any, kind: Any) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return own in dtypes.NUMPY_DTYPES and dtypes.kind(own) in _KINDS[kind]
    try:
        return bool(own == dtypes.dtype_behind(kind))
    except TypeError:
        msg = (f"isdtype: kind must be a dtype or one of {', '.join(map(repr, _KINDS))}; got "
               f"{kind!r}.")
        raise ValueError(msg) from None


@boundary
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether NumPy's rules allow a conversion between dtypes; see `numpy.can_cast`.

    Args:
      from_: a dtype, or an array of it.
      to: a dtype.
      casting: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns:
      A bool.

    Raises:
      TypeError: an argument is not a dtype.

    Example:
      >>> jnp.can_cast(jnp.int8, jnp.int16)
      True
    """
    if from_ is None or to is None:
        msg = "can_cast needs two dtypes, got None."
        raise TypeError(msg)
    ours, theirs = dtypes.numpy_dtype(from_), dtypes.numpy_dtype(to)
    return bool(np.can_cast(ours, theirs, casting=casting))  # type: ignore[arg-type]


# ---- queries of values -----------------------------------------------------------------


@boundary
def shape(a: Any) -> tuple[int, ...]:
    """Sizes of the axes of an array-like.

    Args:
      a: array, scalar, or nested sequence of numbers.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.shape`.

    Example:
      >>> jnp.shape(jnp.zeros((2, 3)))
      (2, 3)
    """
    return _aval_of("shape", a)[0]


@boundary
def ndim(a: Any) -> int:
    """The number of axes of an array-like.

    Args:
      a: array, scalar, or nested sequence of numbers.

    Returns:
      An int.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.ndim`.

    Example:
      >>> jnp.ndim(jnp.zeros((2, 3)))
      2
    """
    return len(_aval_of("ndim", a)[0])


@boundary
def size(a: Any, axis: Any = None) -> int:
    """The number of elements of an array-like, or its size along axes.

    Args:
      a: array, scalar, or nested sequence of numbers.
      axis: an axis or a sequence of them; None: all.

    Returns:
      An int.

    Raises:
      ValueError: an axis is out of range.

    Source: `numpy.size`.

    Example:
      >>> jnp.size(jnp.zeros((2, 3)))
      6
    """
    own = _aval_of("size", a)[0]
    if axis is None:
        return math.prod(own)
    return math.prod(own[i] for i in canonicalize_axes(axis, len(own)))


def _aval_of(name: str, a: Any) -> tuple[tuple[int, ...], Any]:
    if isinstance(a, (list, tuple)):
        a = array(a)
    elif hasattr(a, "shape") and hasattr(a, "dtype"):
        return tuple(a.shape), a.dtype
    aval = typeof(check_array(name, a))
    return aval.shape, aval.dtype


@boundary
def iscomplexobj(x: Any) -> bool:
    """Whether the dtype of an array-like, or of a scalar type such as `jnp.float32`, is complex.

    Args:
      x: an array-like, a dtype or a scalar type.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.iscomplexobj`.

    Example:
      >>> jnp.iscomplexobj(jnp.array([1j]))
      True
    """
    if isinstance(dtype := getattr(x, "dtype", None), np.dtype):
        return dtype.kind == "c"
    return x is not None and dtypes.is_complex(_aval_of("iscomplexobj", x)[1])


@boundary
def isrealobj(x: Any) -> bool:
    """Whether the dtype of an array-like is not complex.

    Args:
      x: an array-like, a dtype or a scalar type.

    Returns:
      A bool.

    Raises:
      TypeError: an argument is not an array or scalar.

    Source: `numpy.isrealobj`.

    Example:
      >>> jnp.isrealobj(jnp.array([1j]))
      False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether a value is a scalar: a Python or NumPy one, a string, an array without axes.

    Args:
      element: any value.

    Returns:
      A bool.

    Raises:
      Exception: the method `__jax_array__` of `element` raised it.

    Source: `numpy.isscalar`.

    Example:
      >>> jnp.isscalar(3.0), jnp.isscalar(jnp.zeros(3))
      (True, False)
    """
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    if hasattr(element, "aval"):
        return not element.shape
    return bool(np.isscalar(element)) or (isinstance(element, np.ndarray) and not element.shape)


def iterable(y: Any) -> bool:
    """Whether a value can be iterated over.

    Args:
      y: any value.

    Returns:
      A bool.

    Raises:
      Exception: the method `__iter__` of `y` raised it, and it is not a TypeError.

    Source: `numpy.iterable`.

    Example:
      >>> jnp.iterable(jnp.zeros(3))
      True
    """
    return bool(y.shape) if hasattr(y, "aval") else bool(np.iterable(y))
