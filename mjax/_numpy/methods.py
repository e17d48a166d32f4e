"""Operators and methods of arrays and tracers, set on both classes when mjax is imported.

Functions of the front end whose first argument is the array become methods directly; the tables
list them. Operators check their other operand first. Operands that are not numbers keep their own
operators (`NotImplemented`); lists are refused.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyAttributeError
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import itemsize_bits
from mjax._engine.ir.references import AbstractRef
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import complex as lax_complex
from mjax._engine.primitives.convert import bitcast_convert_type
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.joining import unstack
from mjax._engine.primitives.shapes import reshape as lax_reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.device_put import device_put
from mjax._engine.runtime.arrays.out_sharding import laid_out
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import Ref
from mjax._numpy import (
    arithmetic,
    bits,
    comparison,
    creation,
    joining,
    matrices,
    products,
    reductions,
    references,
    rounding,
    searching,
    selecting,
    shapes,
    sorting,
    statistics,
    taking,
)
from mjax._numpy.core import dtype_argument, refuse_out
from mjax._numpy.indexing import update
from mjax._numpy.indexing.read import getitem
from mjax._numpy.metadata import __array_api_version__

# ---- operators -------------------------------------------------------------------------

_NUMBERS = (np.ndarray, np.generic, int, float, complex, Tracer)
_REFUSED = (list, tuple, set, dict)
#: The result for unknown short calls; see `ShortCalls`.
_UNKNOWN: Any = (None,) * 5


def _is_operand(other: Any, symbol: str) -> bool:
    """Whether an operator accepts this value; refuses lists.

    Raises:
      TypeError: a list, tuple, set or dict, which NumPy would convert.
    """
    if is_array(other) or isinstance(other, _NUMBERS) or hasattr(type(other), "__jax_array__"):
        return True
    # Subclasses, such as named tuples, may have operators of their own.
    if type(other) in _REFUSED:
        msg = (f"unsupported operand types for {symbol}: 'Array' and {type(other).__name__!r}; "
               "convert it with mjax.numpy.asarray.")
        raise TypeError(msg)
    return False


def _binary(function: Any, symbol: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    """An operator from a function of two arguments."""
    known = getattr(function, "known", {})

    def operator(self: Any, other: Any) -> Any:
        try:
            kind = type(other)
            if kind is Array:
                # A shortcut without the function: both are concrete, and their call is known.
                if type(self) is Array and thread.interpreter is evaluation:
                    settings, run, _, _, _ = known.get(
                        (self._placement, other._placement), _UNKNOWN)
                    if settings is thread.settings:
                        return run((self._buffer, other._buffer))
            elif kind is not float and kind is not int and not _is_operand(other, symbol):
                return NotImplemented
            return function(self, other)
        except Exception as error:
            fold(error)
            raise

    def reflected(self: Any, other: Any) -> Any:
        try:
            return function(other, self) if _is_operand(other, symbol) else NotImplemented
        except Exception as error:
            fold(error)
            raise

    return reflected if swapped else operator


_OPERATORS: dict[str, tuple[Any, str]] = {
    "add": (arithmetic.add, "+"), "sub": (arithmetic.subtract, "-"),
    "mul": (arithmetic.multiply, "*"), "truediv": (arithmetic.divide, "/"),
    "floordiv": (arithmetic.floor_divide, "//"), "mod": (arithmetic.remainder, "%"),
    "divmod": (arithmetic.divmod, "divmod"), "pow": (arithmetic.power, "**"),
    "matmul": (products.matmul, "@"), "and": (bits.bitwise_and, "&"),
    "or": (bits.bitwise_or, "|"), "xor": (bits.bitwise_xor, "^"),
    "lshift": (bits.left_shift, "<<"), "rshift": (bits.right_shift, ">>"),
}
_COMPARISONS: dict[str, tuple[Any, str]] = {
    "eq": (comparison.equal, "=="), "ne": (comparison.not_equal, "!="),
    "lt": (comparison.less, "<"), "le": (comparison.less_equal, "<="),
    "gt": (comparison.greater, ">"), "ge": (comparison.greater_equal, ">="),
}


@boundary
def _round(self: Any, ndigits: int | None = None) -> Any:
    """Rounds like Python's numbers: without `ndigits` to integers."""
    rounded = rounding.round(self, ndigits or 0)
    return rounded.astype(int) if ndigits is None and rounded.dtype.kind in "fV" else rounded


@boundary
def _refuse_assignment(self: Any, index: Any, value: Any) -> None:
    msg = ("arrays are immutable and do not support item assignment. Instead of x[i] = y, use "
           "x = x.at[i].set(y), or another .at method.")
    raise TypeError(msg)


#: The number of parts that one program reads from an array.
_AT_ONCE = 100


@boundary
def _iterate(self: Any) -> Iterator[Any]:
    if not self.shape:
        msg = "iteration over a 0-d array"
        raise TypeError(msg)
    if is_array(self) and len(self.devices()) > 1:
        return (self[i] for i in range(self.shape[0]))
    if is_array(self) and self.shape[0] > _AT_ONCE:
        return _in_chunks(self)
    return iter(unstack(self, axis=0))


def _in_chunks(x: Any) -> Iterator[Any]:
    """The parts of an array along its first axis, computed only as far as needed."""
    whole = len(x) - len(x) % _AT_ONCE
    for start in range(0, whole, _AT_ONCE):
        yield from unstack(dynamic_slice_in_dim(x, start, _AT_ONCE), axis=0)
    if whole < len(x):
        yield from unstack(slice_in_dim(x, whole, None), axis=0)


@boundary
def _contains(self: Any, value: Any) -> bool:
    return bool(reductions.any(comparison.equal(self, value)))


@boundary
def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
    """The module of functions for these arrays, for the Python array API.

    Args:
      self: array.
      api_version: the version of the standard that the caller wants; by default any.

    Raises:
      ValueError: it is not the version that `mjax.numpy` follows.
    """
    if api_version not in (None, __array_api_version__):
        msg = (f"__array_namespace__: mjax.numpy follows version {__array_api_version__} of the "
               f"array API standard, not {api_version!r}.")
        raise ValueError(msg)
    return importlib.import_module("mjax.numpy")


# ---- methods whose signatures differ from their functions' -----------------------------


def _arguments(args: tuple[Any, ...]) -> Any:
    """`x.reshape(2, 3)` is `x.reshape((2, 3))`."""
    return args[0] if len(args) == 1 else args


@boundary
def reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None,
            out_sharding: Any = None) -> Any:
    """The array with another shape; see `mjax.numpy.reshape`."""
    out = shapes.reshape(self, _arguments(args), order, copy=copy)
    return out if out_sharding is None else laid_out(out, out_sharding, "reshape")


@boundary
def transpose(self: Any, *args: Any) -> Any:
    """The array with its axes permuted; see `mjax.numpy.transpose`."""
    if not args:
        return shapes.transpose(self)
    axes = _arguments(args)
    return shapes.transpose(self, axes if axes is None or isinstance(axes, (tuple, list))
                            else (axes,))


@boundary
def flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as an array of one axis; see `mjax.numpy.ravel`."""
    return shapes.ravel(self, order, out_sharding=out_sharding)


@boundary
def astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype; see `mjax.numpy.astype`."""
    return creation.astype(self, dtype, copy=copy, device=device)


@boundary
def clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """The array clipped to bounds; see `mjax.numpy.clip`."""
    return selecting.clip(self, min, max)


@boundary
def copy(self: Any) -> Any:
    """A new array with the same elements."""
    return creation.array(self, copy=True)


@boundary
def compress(self: Any, condition: Any, axis: int | None = None, *, out: None = None,
             size: int | None = None, fill_value: Any = 0) -> Any:
    """The slices along an axis where a condition holds; see `mjax.numpy.compress`."""
    refuse_out("compress", out)
    return taking.compress(condition, self, axis, size=size, fill_value=fill_value)


def _elements_read_as_one(shape: tuple[int, ...], old: Any, new: Any) -> int:
    """The number of elements of the old dtype per element of the new one; 0 if it is narrower.

    Raises:
      TypeError: a dtype is a key dtype.
      ValueError: the size of the last axis is not a multiple of this number.
    """
    if dtypes.is_extended(old) or dtypes.is_extended(new):
        msg = (f"view: {old} cannot be read as {new}: keys are not numbers. Use random.key_data "
               "and random.wrap_key_data.")
        raise TypeError(msg)
    ratio, rest = divmod(itemsize_bits(new), itemsize_bits(old))
    if rest and not shape:
        msg = f"view: a scalar of dtype {old} cannot be read as the narrower dtype {new}."
        raise ValueError(msg)
    if ratio > 1 and (not shape or shape[-1] % ratio):
        msg = (f"view: the last axis of shape {shape} and dtype {old} cannot be read as "
               f"dtype {new}: its size must be a multiple of {ratio}.")
        raise ValueError(msg)
    return ratio


@boundary
def view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bytes as an array of another dtype.

    Args:
      self: array.
      dtype: dtype of the result; the size of the last axis changes with its size.

    Raises:
      ValueError: the sizes do not fit.
    """
    if type is not None:
        msg = "view: the argument type is not supported: arrays are of one class."
        raise NotImplementedError(msg)
    new: Any = dtype_argument(self.dtype if dtype is None else dtype, "view")
    old = self.dtype
    if new == old:
        return self
    ratio = _elements_read_as_one(self.shape, old, new)
    if old == np.bool_ or new == np.bool_:
        through = np.dtype(np.uint8)
        return view(self.astype(through), new) if old == np.bool_ else view(
            self, through) != np.uint8(0)
    if dtypes.is_complex(old):
        parts = creation.array([self.real, self.imag])
        last = lax_reshape(shapes.moveaxis(parts, 0, -1), (*self.shape[:-1], self.shape[-1] * 2))
        return view(last, new)
    if dtypes.is_complex(new):
        halves = view(self, dtypes.real_dtype(new))
        return lax_complex(halves[..., ::2], halves[..., 1::2])
    if ratio > 1:
        self = lax_reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
        return bitcast_convert_type(self, new)
    out = bitcast_convert_type(self, new)
    if out.ndim > self.ndim:
        out = lax_reshape(out, (*out.shape[:-2], math.prod(out.shape[-2:])))
    return out


@boundary
def byteswap(self: Any) -> Any:
    """The array with the bytes of each element in reverse order.

    Raises:
      TypeError: it holds keys.

    Example:
      >>> jnp.arange(3, dtype='int16').byteswap()
      Array([  0, 256, 512], dtype=int16)
    """
    if dtypes.is_extended(self.dtype):
        msg = f"byteswap: {self.dtype} holds keys, whose bytes have no order; use random.key_data."
        raise TypeError(msg)
    if dtypes.is_complex(self.dtype):
        return lax_complex(byteswap(self.real), byteswap(self.imag))
    if self.dtype.itemsize == 1:
        return self
    return bitcast_convert_type(
        bitcast_convert_type(self, np.dtype(np.uint8))[..., ::-1], self.dtype)


@boundary
def to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device; see `mjax.device_put`."""
    if stream is not None:
        msg = "to_device: streams are not supported."
        raise NotImplementedError(msg)
    return device_put(self, device)


# ---- installation ----------------------------------------------------------------------

#: Method -> function whose first argument is the array.
METHODS: dict[str, Callable[..., Any]] = {
    "all": reductions.all, "any": reductions.any, "argmax": reductions.argmax,
    "argmin": reductions.argmin, "argpartition": sorting.argpartition, "argsort": sorting.argsort,
    "astype": astype, "byteswap": byteswap, "choose": taking.choose,
    "clip": clip, "compress": compress,
    "conj": rounding.conj, "conjugate": rounding.conjugate, "copy": copy,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum, "diagonal": matrices.diagonal, "dot": products.dot,
    "flatten": flatten, "max": reductions.max, "mean": statistics.mean, "min": reductions.min,
    "nonzero": selecting.nonzero, "prod": reductions.prod, "ptp": reductions.ptp,
    "ravel": shapes.ravel, "repeat": joining.repeat, "reshape": reshape, "round": rounding.round,
    "searchsorted": searching.searchsorted, "sort": sorting.sort, "squeeze": shapes.squeeze,
    "std": statistics.std, "sum": reductions.sum, "swapaxes": shapes.swapaxes,
    "take": taking.take, "to_device": to_device, "trace": matrices.trace,
    "transpose": transpose, "var": statistics.var, "view": view,
}
#: Property -> function of the array.
PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "T": shapes.transpose, "mT": shapes.matrix_transpose, "real": rounding.real,
    "imag": rounding.imag, "at": update._IndexUpdateHelper,
}
_SPECIAL: dict[str, Any] = {
    "__neg__": arithmetic.negative, "__pos__": arithmetic.positive, "__abs__": arithmetic.abs,
    "__invert__": bits.invert, "__round__": _round,
    "__getitem__": getitem, "__setitem__": _refuse_assignment, "__contains__": _contains,
    "__array_namespace__": __array_namespace__, "__array_priority__": 100,
}


def _install(cls: type) -> None:
    for name, (function, symbol) in _OPERATORS.items():
        setattr(cls, f"__{name}__", _binary(function, symbol))
        setattr(cls, f"__r{name}__", _binary(function, symbol, swapped=True))
    for name, (function, symbol) in _COMPARISONS.items():
        setattr(cls, f"__{name}__", _binary(function, symbol))
    for name, method in (_SPECIAL | METHODS).items():
        setattr(cls, name, method)
    for name, function in PROPERTIES.items():
        setattr(cls, name, property(function))


_install(Array)
_install(Tracer)


def _getitem(self: Any, index: Any) -> Any:
    return references.get(self, index) if type(self.aval) is AbstractRef else getitem(self, index)


def _setitem(self: Any, index: Any, value: Any) -> None:
    (references.set if type(self.aval) is AbstractRef else _refuse_assignment)(self, index, value)


def _at(self: Any) -> Any:
    return (references._At if type(self.aval) is AbstractRef else update._IndexUpdateHelper)(self)


def _lacks(name: str, what: str) -> Callable[[Any], NoReturn]:
    """The getter of an attribute that a value does not have: it raises AttributeError."""
    def refuse(self: Any) -> NoReturn:
        raise LazyAttributeError(lambda: (
            f"a value of type {self.aval} does not have {name}: {what}{self.origin()}"))

    return refuse


def _only_of_references(name: str, method: Callable[..., Any]) -> property:
    """A method of references as a property, which raises AttributeError for other values."""
    lacks = _lacks(name, "only references do.")
    return property(lambda self: functools.partial(method, self)
                    if type(self.aval) is AbstractRef else lacks(self))


for _name, _method in (("__getitem__", _getitem), ("__setitem__", _setitem), ("at", property(_at))):
    setattr(Tracer, _name, _method)
for _name, _method in references.METHODS.items():
    setattr(Tracer, _name, _only_of_references(_name, _method))
for _name in (METHODS | PROPERTIES).keys() - {"at"}:
    setattr(Ref, _name, property(_lacks(_name, "read the reference with ref[...].")))
Tracer.__iter__ = Array.__iter__ = _iterate  # type: ignore[attr-defined, method-assign]
Tracer.nbytes = property(lambda self: typeof(self).size * self.dtype.itemsize)  # type: ignore[attr-defined]
Tracer.itemsize = property(lambda self: self.dtype.itemsize)  # type: ignore[attr-defined]
