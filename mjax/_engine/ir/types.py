"""Types of values: `AbstractValue`, `ShapedArray`, and `typeof`.

    type ::= dtype[shape]{varying axes}

A `ShapedArray` is immutable and interned: equal types are one object, so that comparing is
an identity test, hashing is free, and caches keyed by types cost one dict lookup.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyArgumentError, LazyNoArrayError, LazyTypeError
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import listed, pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.dimensions import DimExpr
from mjax._engine.ir.dtypes import DType, float0
from mjax._engine.ir.foreign_values import instead, refuse_masked_array
from mjax._engine.ir.manual_axes import ManualAxisType
from mjax._engine.ir.sizes import integers_of_shape

_NOTHING: frozenset[Any] = frozenset()
_table: dict[Any, weakref.ref[ShapedArray]] = {}
_lock = threading.RLock()


class AbstractValue:
    """Base of all types: the questions that the engine asks about the type of a value.

    Users may subclass it for values that primitives make and take inside of programs. A subclass
    defines `__repr__`, and also `__eq__` and `__hash__` unless equal types are one object. Using a
    method that it does not define raises an error that names the method.

    A jitted function takes and gives values of a type that defines `physical`. Its compiled program
    takes and gives the arrays that represent them.

    Attributes:
      inexact: whether values have tangents that are not zero.
      literal: whether values may stand in programs as literals.
      extended: whether values are arrays of elements with a meaning of their own, as keys are.
      weak_type: whether promotion may pick another type.
      varies: whether the type records mesh axes along which devices may hold different values.
      varying: these axes.
      is_high: whether values outside of programs are objects of a class of the author's, which
        `lower_val` and `raise_val` convert (`mjax.experimental.hijax.HiType`).

    Example:
      >>> from mjax_ext.core import AbstractValue, Primitive
      >>> class Interval(AbstractValue):
      ...     def __init__(self, bound):
      ...         self.bound = bound
      ...     def __eq__(self, other):
      ...         return type(other) is Interval and other.bound == self.bound
      ...     def __hash__(self):
      ...         return hash(self.bound)
      ...     def __repr__(self):
      ...         return f"Interval({self.bound})"
      ...     def physical(self):
      ...         return self.bound, self.bound
      >>> make_p, upper_p = Primitive("make"), Primitive("upper")
      >>> _ = make_p.def_abstract_eval(lambda low, high: Interval(low))
      >>> _ = make_p.def_lowering(lambda ctx, low, high: [(low, high)])
      >>> _ = upper_p.def_abstract_eval(lambda interval: interval.bound)
      >>> _ = upper_p.def_lowering(lambda ctx, interval: [interval[1]])
      >>> mjax.jit(lambda x: upper_p.bind(make_p.bind(x, x + 1.0)))(jnp.float32(1))
      Array(2., dtype=float32)
    """

    __slots__ = ()
    #: Whether values are arrays, whose attributes the type has.
    _is_array = False
    #: Whether one array stores a value outside of programs.
    _is_stored = False
    inexact = literal = extended = weak_type = varies = is_high = False
    varying: frozenset[Any] = _NOTHING

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Code that takes values for arrays asks for their shape or dtype. The types of arrays have
        # no `__getattr__`: CPython would not specialize reading their attributes.
        if not (cls._is_array or hasattr(cls, "__getattr__")):
            cls.__getattr__ = _refuse_attribute  # type: ignore[method-assign]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Attributes of arrays."""

    def to_tangent(self) -> AbstractValue:
        """The type of tangents of values; the same for types without tangents."""
        return self

    def to_cotangent(self) -> AbstractValue:
        """The type of cotangents in the transpose of a linear program."""
        return self.to_tangent()

    def strip_weak_type(self) -> AbstractValue:
        """This type, strongly typed."""
        return self

    def with_varying(self, varying: frozenset[Any]) -> AbstractValue:
        """This type for values that vary along these mesh axes; unchanged if it records none."""
        return self

    def matches(self, other: AbstractValue) -> bool:
        """Whether another type is the same but for weak typing and device variance."""
        return self == other

    def element(self, dim: int) -> AbstractValue:
        """The type of one element of a batch or a loop, for values with one part per element."""
        self._refuse("element(dim)", "cannot be batched, nor be handed to iterations one by one")

    def batched(self, dim: int, size: int) -> AbstractValue:
        """The type of `size` values at once; its `element(dim)` is this type."""
        self._refuse("batched(dim, size)", "cannot be batched, nor be stacked by loops")

    def axis_size(self, dim: int) -> int | None:
        """The number of elements along a dimension; None if values have no such dimension."""
        return None

    def physical(self) -> tuple[ShapedArray, ...]:
        """The types of the arrays that represent a value in compiled programs, any number of them.

        Lowering rules take and give a tuple of IR values, unless it is one.
        """
        self._refuse("physical()", "cannot be compiled")

    def zeros(self) -> Any:
        """A zero of this type, made by primitives; for tangents that are known to be zero."""
        self._refuse("zeros()", "cannot be zero")

    # JAX's spellings, which types that are made of others call on these.

    if TYPE_CHECKING:  # `primitives/tangents.py` defines it

        def vspace_add(self, x: Any, y: Any) -> Any:
            """The sum of two values, made by primitives."""

    def to_tangent_aval(self) -> AbstractValue:
        """The type of tangents."""
        return self.to_tangent()

    def to_ct_aval(self) -> AbstractValue:
        """The type of cotangents in derivatives."""
        return self.to_tangent_aval()

    def at_least_vspace(self) -> AbstractValue:
        """The type of tangents."""
        return self.to_tangent_aval()

    def normalize(self) -> AbstractValue:
        """This type, strongly typed."""
        return self.strip_weak_type()

    def lo_ty(self) -> list[Any]:
        """The types of the values that represent a value of this type: it represents itself."""
        return [self]

    def lower_val(self, hi_val: Any) -> list[Any]:
        """The values that represent a value."""
        return [hi_val]

    def raise_val(self, *lo_vals: Any) -> Any:
        """The value that values represent."""
        value, = lo_vals
        return value

    def leading_axis_spec(self) -> Any:
        """Where loops look for the axis of their iterations."""
        return 0

    def dec_rank(self, size: int | None, spec: Any) -> AbstractValue:
        """The type of one element along an axis; this one if the axis is None."""
        return self if spec is None else self.element(spec)

    def inc_rank(self, size: int | None, spec: Any) -> AbstractValue:
        """The type of values with one more axis; this one if the axis is None."""
        return self if spec is None else self.batched(spec, size)  # type: ignore[arg-type]

    def vspace_zero(self) -> Any:
        """A zero, made by primitives."""
        return self.zeros()

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        """Its text in messages; printed jaxprs use the short names of dtypes."""
        return str(self)

    def _refuse(self, method: str, what: str) -> NoReturn:
        raise LazyTypeError(lambda: (
            f"values of type {self} {what}: {type(self).__name__} does not define {method}."))


def _refuse_attribute(self: AbstractValue, name: str) -> NoReturn:
    def text() -> str:
        try:
            return f"a value of type {self} does not have {name}: it is not an array."
        except Exception:  # Its `__repr__` reads attributes that it does not have yet.
            return f"{type(self).__name__!r} object has no attribute {name!r}."

    raise LazyNoArrayError(text)


@pickled_by("shaped_array_v1", "shape", "dtype", "weak_type", "varying")
class ShapedArray(AbstractValue):
    """The type of an array.

    Args:
      shape: sizes of the axes; an int stands for one axis.
      dtype: a dtype or what `dtypes.as_dtype` takes; not canonicalized here.
      weak_type: whether promotion may pick the other operand's dtype (Python scalars).
      varying: manual mesh axes along which devices may hold different values.
      sharding: has no effect: shardings belong to arrays. JAX's types have one.

    Example:
      >>> from mjax_ext import core
      >>> core.ShapedArray((2, 3), jnp.dtype("float32"))
      ShapedArray(float32[2,3])
    """

    _is_array = _is_stored = True
    __slots__ = ("__weakref__", "dtype", "extended", "inexact", "literal", "ndim", "shape", "size",
                 "varying", "weak_type")
    varies = True
    shape: tuple[int, ...]
    dtype: DType
    weak_type: bool
    varying: frozenset[Any]
    ndim: int
    size: int

    def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False,
                varying: frozenset[Any] = _NOTHING, *, sharding: Any = None) -> ShapedArray:
        key = (shape if type(shape) is tuple else listed(shape), dtype, weak_type, varying)
        try:
            known = _table.get(key)
        except TypeError:
            known = None
        if known is not None:
            self = known()
            # True == 1 and np.int64(1) == 1, so a key built of those may find its int twin.
            # The types stored below are always normalized.
            if self is not None:
                return self
        shape = integers_of_shape(key[0])
        key = (shape, dtypes.as_dtype(dtype), bool(weak_type), frozenset(varying))
        with _lock:
            known = _table.get(key)
            self = known() if known is not None else None
            if self is None:
                # Not of a subclass: every value of this type would have its class.
                self = object.__new__(ShapedArray)
                size, extended = 1, dtypes.is_extended(key[1])
                for n in shape:
                    size *= n
                for name, value in zip(
                        ("shape", "dtype", "weak_type", "varying", "ndim", "size", "inexact",
                         "extended", "literal"),
                        (*key, len(shape), size, dtypes.is_inexact(key[1]), extended,
                         not (shape or extended)), strict=True):
                    object.__setattr__(self, name, value)
                _table[key] = weakref.ref(self, lambda ref: _forget(key, ref))
            return self

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"ShapedArray is immutable; use .update({name}=...)."
        raise AttributeError(msg)

    def __copy__(self) -> ShapedArray:
        return self

    def __deepcopy__(self, memo: Any) -> ShapedArray:
        return self

    def update(self, **fields: Any) -> ShapedArray:
        """This type with some of `shape, dtype, weak_type, varying` replaced."""
        fields.pop("sharding", None)
        return ShapedArray(fields.pop("shape", self.shape), fields.pop("dtype", self.dtype),
                           fields.pop("weak_type", self.weak_type),
                           fields.pop("varying", self.varying), **fields)

    def strip_weak_type(self) -> ShapedArray:
        """This type, strongly typed."""
        return ShapedArray(self.shape, self.dtype, False, self.varying) if self.weak_type else self

    def to_tangent(self) -> ShapedArray:
        """The tangent type: the same for inexact dtypes, float0 for all others."""
        return self if self.inexact else ShapedArray(self.shape, float0, False, self.varying)

    def to_cotangent(self) -> ShapedArray:
        """The tangent type; of integers this type, for linear functions of integers."""
        return self if dtypes.is_integer(self.dtype) else self.to_tangent()

    def with_varying(self, varying: frozenset[Any]) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype, self.weak_type, varying)

    def matches(self, other: AbstractValue) -> bool:
        """Whether two types agree in shape and dtype."""
        return isinstance(other, ShapedArray) and (
            self.shape == other.shape and bool(self.dtype == other.dtype))

    def element(self, dim: int) -> ShapedArray:
        return self.update(shape=self.shape[:dim] + self.shape[dim + 1 :])

    def batched(self, dim: int, size: int) -> ShapedArray:
        return self.update(shape=(*self.shape[:dim], size, *self.shape[dim:]))

    def axis_size(self, dim: int) -> int | None:
        return self.shape[dim] if isinstance(dim, int) and 0 <= dim < self.ndim else None

    def physical(self) -> tuple[ShapedArray, ...]:
        if not self.extended:
            return (self,)
        return (ShapedArray((*self.shape, *self.dtype.element_shape), self.dtype.element_dtype,
                            False, self.varying),)

    # JAX's spellings, which downstream interpreters call.
    to_cotangent_aval: Final = to_tangent

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """`varying`, as JAX has it since 0.10."""
        return ManualAxisType(varying=self.varying)

    @property
    def vma(self) -> frozenset[Any]:
        """`varying`, as JAX had it before."""
        return self.varying

    @property
    def sharding(self) -> Any:
        """For code that reads JAX's types: a sharding over an empty mesh, which cuts nothing."""
        return sockets.sharding_shown(self.ndim)

    def str_short(self, short_dtypes: bool = False, mesh_axis_types: bool = False) -> str:
        """`float32[2,3]{V:i}`, or `f32[2,3]{V:i}` as printed jaxprs have it; see `str`.

        Args:
          short_dtypes: whether dtypes have their short names.
          mesh_axis_types: whether the axes of the type's mesh follow. That mesh is empty.
        """
        name = dtypes.short_name(self.dtype) if short_dtypes else dtypes.long_name(self.dtype)
        axes = sorted(map(str, self.varying))
        listed = axes[0] if len(axes) == 1 else f"({','.join(axes)})"
        return (f"{name}[{','.join(map(str, self.shape))}]{f'{{V:{listed}}}' if axes else ''}"
                f"{'({})' if mesh_axis_types else ''}")

    def __str__(self) -> str:
        """`float32[2,3]`, with a `~` in front where the type is weak."""
        return f"{'~' if self.weak_type else ''}{self.str_short()}"

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' if self.weak_type else ''})"

    def length(self) -> int:
        """`len` of a value. It is not `__len__`, because a type is never falsy."""
        if not self.shape:
            msg = "len() of unsized object"
            raise TypeError(msg)
        return self.shape[0]


def _forget(key: Any, ref: Any) -> None:
    with _lock:
        if _table.get(key) is ref:
            del _table[key]


def same_type_but_weak(a: AbstractValue, b: AbstractValue) -> bool:
    """Whether two types agree when weak typing is not compared."""
    return a is b or a.strip_weak_type() == b.strip_weak_type()


def same_array_type(a: AbstractValue, b: AbstractValue) -> bool:
    """Whether two types agree but for weak typing and device variance."""
    return a is b or a.matches(b)


def physical_aval(aval: AbstractValue) -> ShapedArray:
    """The type in which values are stored: `uint32[3,2]` for `key<fry>[3]`; of tokens, buffers.

    Raises:
      TypeError: values of this type exist only inside programs, without an array.
    """
    if type(aval) is ShapedArray and not aval.extended:
        return aval
    if not aval._is_stored:
        raise LazyTypeError(lambda: (
            f"a value of type {aval} cannot be an argument of a program that is lowered ahead of "
            "its calls, nor a constant of one. Hand over the arrays that it is made of."))
    return aval.physical()[0]


# ---- typeof: the types of values -------------------------------------------------------

_INT_RANGE = {False: (-(2**31), 2**31), True: (-(2**63), 2**63)}


def _typeof_int(value: int) -> ShapedArray:
    x64 = thread.settings.enable_x64
    low, high = _INT_RANGE[x64]
    if not low <= value < high:
        msg = (f"Python int {value} too large to convert to {'int64' if x64 else 'int32'}; "
               "give it a dtype with numpy, as in np.uint32(value)"
               + ("." if x64 else ", or switch on 64-bit types with mjax.enable_x64(True)."))
        raise OverflowError(msg)
    return _PYTHON_AVALS[x64][int]


def _python_avals(x64: bool) -> dict[type, ShapedArray]:
    narrow = (lambda d: d) if x64 else (lambda d: dtypes.TO_32.get(d, d))
    return {t: ShapedArray((), narrow(d), t is not bool)
            for t, d in dtypes.PYTHON_SCALARS.items()}


_PYTHON_AVALS = {x64: _python_avals(x64) for x64 in (False, True)}
_numpy_avals: dict[Any, ShapedArray] = {}


def _typeof_numpy(value: Any) -> ShapedArray:
    # A strong cache in front of the interning table: NumPy arguments are on jit's fast path.
    key = (value.shape, value.dtype, thread.settings.enable_x64)
    aval = _numpy_avals.get(key)
    if aval is None:
        if len(_numpy_avals) > 10_000:
            _numpy_avals.clear()
        try:
            dtype = dtypes.canonical_dtype(value.dtype)
        except TypeError:
            msg = (f"a NumPy array of dtype {value.dtype} is not a valid array: "
                   f"{dtypes.why_refused(value.dtype)}")
            raise TypeError(msg) from None
        aval = _numpy_avals[key] = ShapedArray(value.shape, dtype)
    return aval


def _numpy_scalar_handler(dtype: DType) -> Callable[[Any], ShapedArray]:
    """A fast `typeof` for the scalars of a dtype: reading their `dtype` would be slow."""
    narrow, wide = ShapedArray((), dtypes.TO_32.get(dtype, dtype)), ShapedArray((), dtype)
    if narrow is wide:
        return lambda value: wide
    return lambda value: wide if thread.settings.enable_x64 else narrow


#: Exact type of a value -> its abstract value. The runtime adds its array class.
typeof_handlers: dict[type, Callable[[Any], Any]] = {
    DimExpr: lambda value: _PYTHON_AVALS[thread.settings.enable_x64][int],
    bool: lambda value: _PYTHON_AVALS[False][bool], int: _typeof_int,
    float: lambda value: _PYTHON_AVALS[thread.settings.enable_x64][float],
    complex: lambda value: _PYTHON_AVALS[thread.settings.enable_x64][complex],
    np.ndarray: _typeof_numpy,
    **{d.type: _numpy_scalar_handler(d) for d in dtypes.NUMPY_DTYPES},
}


#: The classes of values whose types are `is_high`.
value_classes: set[type] = set()


def register_value_class(cls: type, type_of: Callable[[Any], AbstractValue]) -> None:
    """Gives objects of a class a type whose values they are, outside of programs.

    Args:
      cls: the class.
      type_of: from an object to its type, one that `is_high`.
    """
    typeof_handlers[cls] = type_of
    value_classes.add(cls)


def is_object_value(x: Any) -> bool:
    """Whether a value is an object of such a class."""
    return bool(value_classes) and not value_classes.isdisjoint(type(x).__mro__)


def typeof(x: Any) -> Any:
    """The type of a value: an array, a tracer, a NumPy array or scalar, a Python scalar.

    Args:
      x: the value.

    Returns:
      A `ShapedArray`, or the type that the author of another class of values has registered.

    Raises:
      TypeError: the value is none of these.
      OverflowError: a Python int that the default integer dtype cannot hold.

    Example:
      >>> typeof(2.0)
      ShapedArray(float32[], weak_type=True)
    """
    handler = typeof_handlers.get(type(x))
    if handler is not None:
        return handler(x)
    aval = getattr(x, "aval", None)
    if isinstance(aval, AbstractValue):
        return aval
    if isinstance(x, (np.ndarray, np.generic)):
        refuse_masked_array(x)
        return _typeof_numpy(x)
    for base in type(x).__mro__[1:]:
        # Subclasses of Python scalars, such as enum.IntEnum, and of users' classes.
        handler = typeof_handlers.get(base)
        if handler is not None:
            return handler(x)
    raise LazyArgumentError(lambda: (
        f"{x!r} of type {type(x).__name__} is not a valid array: {instead(x)}"))


def types_of(value: Any) -> list[Any]:
    """The types that a value has with x64 off and on."""
    if type(value) in _PYTHON_AVALS[True]:
        return [_PYTHON_AVALS[x64][type(value)] for x64 in (False, True)]
    own = typeof(value)
    if isinstance(value, (np.generic, np.ndarray)):
        return [own.update(dtype=dtypes.TO_32.get(value.dtype, value.dtype)),
                own.update(dtype=value.dtype)]
    return [own]


def has_array_type(x: Any) -> bool:
    """Whether a value is an array or a tracer of one: not a Python number, nor a reference."""
    return type(getattr(x, "aval", None)) is ShapedArray


def is_array_value(value: Any) -> bool:
    """Whether `typeof` accepts the value.

    Args:
      value: any object.

    Returns:
      A bool.

    Raises:
      ValueError: it is a masked array of NumPy.

    Example:
      >>> from mjax_ext import core
      >>> core.valid_jaxtype(1.0), core.valid_jaxtype("text")
      (True, False)
    """
    try:
        typeof(value)
    except (TypeError, OverflowError):
        return False
    return True
