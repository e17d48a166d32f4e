"""Common parts of sampling functions: programs per static arguments, keys, shapes, dtypes."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from types import FunctionType, NoneType
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import ConcretizationTypeError, LazyArgumentError, TypePromotionError
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.source import warn
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import counter_generators as counter_generators  # registers key types
from mjax._engine.primitives import rng as rng  # registers key types, with threefry
from mjax._engine.primitives.composed import common_shape
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.keys import PRNGImpl, is_key_dtype, resolve_impl, wrap
from mjax._engine.primitives.shapes import broadcast_in_dim_p, canonical_shape, reshape
from mjax._engine.runtime.dispatch.jit import jit

#: Inserts common parts into the docstrings of distributions.
documents = documented(
    key="key: a key.",
    shape="shape: shape of the result; by default that of the parameters together.",
    dtype="dtype: a float dtype; by default float32, or float64 in x64 mode.",
    raises=("TypeError: `key` is not a key.\n"
            "ValueError: another kind of dtype, parameters that do not fit the shape, or several\n"
            "  keys."),
    raises_safe=("TypeError: `key` is not a key.\n"
                 "ValueError: another kind of dtype, a parameter that it may not hold, parameters\n"
                 "  that do not fit the shape, or several keys."),
)

#: `(function's name, argument) -> the canonical argument`.
Normalizer = Callable[[str, Any], Any]


def sampler(**normalizers: Normalizer) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: runs a traceable function as a single jitted program.

    Static arguments are looked up as the user wrote them, and checked when a program is made. So a
    call costs two dictionary lookups and the execution. Types of keys are checked when a program
    is traced.

    Args:
      normalizers: for each static (keyword) argument of the function, in order, a function that
        makes it canonical and refuses invalid ones.

    Returns:
      A decorator; the decorated function takes arrays by position and all static arguments
      by keyword, in this order.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        programs = ProgramCache()
        name = f.__name__.removeprefix("_")

        def program_for(static: dict[str, Any]) -> Callable[..., Any]:
            values = {n: normalizers[n](name, value) for n, value in static.items()}
            key = _lookup_key(values)
            known = programs.get(key)
            if known is None:
                known = programs.put(key, _compiled(f, name, values))
            try:
                programs.put(_lookup_key(static), known)
            except TypeError:
                pass  # a list for a shape: found by its canonical form only
            return known

        @functools.wraps(f)
        def sample(*arrays: Any, **static: Any) -> Any:
            try:
                program = programs[_lookup_key(static)]
            except (KeyError, TypeError):
                program = program_for(static)
            try:
                return program(*arrays)
            except TypeError:
                _refuse_others(f, name, arrays)
                raise

        return sample

    return decorate


def _compiled(f: Callable[..., Any], name: str, values: dict[str, Any]) -> Callable[..., Any]:
    """A jitted program of a function with these static arguments."""

    @functools.wraps(f)
    def program(*arrays: Any) -> Any:
        _refuse_others(f, name, arrays)
        return f(*arrays, **values)

    # Signatures are read from `__wrapped__`, but the program does not take static arguments.
    del program.__wrapped__
    compiled = jit(program)
    if thread.settings.legacy_prng_key != "allow" and name != "raw_key":
        return _typed_keys_only(name, compiled)
    return compiled


def _refuse_others(f: Callable[..., Any], name: str, arrays: tuple[Any, ...]) -> None:
    """Refuses values that are not arrays: strings, None, or a shape in place of another argument.

    Raises:
      TypeError: names the argument.
    """
    for parameter, value in zip(inspect.signature(f).parameters, arrays, strict=False):
        if isinstance(value, (tuple, list, dict)):
            found = f"a {type(value).__name__} of {len(value)}"
        elif isinstance(value, (NoneType, str, bytes, type, FunctionType)):
            found = repr(value)
        else:
            continue
        wanted = "a key, as random.key makes" if parameter == "key" else "an array or a number"
        msg = (f"random.{name}: the argument {parameter} must be {wanted}, got {found}. "
               "Convert lists with mjax.numpy.asarray; give a shape by its name (shape=...).")
        raise LazyArgumentError(msg)


def _typed_keys_only(name: str, program: Callable[..., Any]) -> Callable[..., Any]:
    """A sampling program under the setting `legacy_prng_key`, which refuses or warns of raw keys.

    Programs are looked up by settings, so other settings are not slowed down.
    """
    def checked(key: Any, *arrays: Any) -> Any:
        if is_raw_key(key):
            text = (f"random.{name}: the key is an array of uint32, and the flag legacy_prng_key "
                    f"is {thread.settings.legacy_prng_key!r}. Make keys with random.key, or set "
                    "jax_legacy_prng_key='allow'.")
            if thread.settings.legacy_prng_key == "error":
                raise ValueError(text)
            warn(text)
        return program(key, *arrays)

    return checked


def _lookup_key(static: dict[str, Any]) -> tuple[Any, ...]:
    # Types are keys as well: 2.0 and True equal integers, but are not sizes.
    values = static.values()
    shape = static.get("shape")
    if type(shape) is tuple:
        return (thread.settings, *values, *map(type, values), *map(type, shape))
    return (thread.settings, *values, *map(type, values))


# ---- normalizers of static arguments ---------------------------------------------------


def shape_argument(name: str, shape: Any) -> tuple[int, ...]:
    """A shape: an int or a sequence of them.

    Raises:
      TypeError: the argument is invalid.
    """
    try:
        return canonical_shape(shape)
    except ConcretizationTypeError:  # its message says what to do
        raise
    except TypeError as error:
        msg = f"{name}: {error}"
        raise TypeError(msg) from None


def size_argument(name: str, size: Any) -> int:
    """A size: an integer that is not negative.

    Raises:
      TypeError: it is not.
    """
    return shape_argument(name, (size,))[0]


def optional_shape(name: str, shape: Any) -> tuple[int, ...] | None:
    """A shape, or None for that of the parameters."""
    return None if shape is None else shape_argument(name, shape)


def dtype_argument(kinds: str, default: Any, called: str,
                   error: type[Exception] = ValueError) -> Normalizer:
    """The normalizer of a dtype of certain kinds.

    Args:
      kinds: letters of `dtypes.kind`.
      default: the dtype for None.
      called: the kinds in words.
      error: the exception for others.
    """

    def normalize(name: str, dtype: Any) -> Any:
        dtype = (dtypes.canonical_dtype(default) if dtype is None
                 else dtypes.asked_dtype(dtype, name))
        if dtypes.kind(dtype) not in kinds:
            msg = f"dtype argument to `{name}` must be {called} dtype, got {dtype}."
            raise error(msg)
        return dtype

    return normalize


float_dtype = dtype_argument("f", np.float64, "a float")
inexact_dtype = dtype_argument("fc", np.float64, "a float or complex")
int_dtype = dtype_argument("iu", np.int64, "an int")
numeric_dtype = dtype_argument("biufc", np.int64, "a numeric")
uint_dtype = dtype_argument("u", np.uint64, "an unsigned int")


def as_given(name: str, value: Any) -> Any:
    """Any hashable value, unchanged."""
    return value


def axis_argument(name: str, axis: Any) -> int:
    """An axis: an integer; its range is checked with the array."""
    try:
        return operator.index(axis)
    except TypeError:
        msg = f"{name}: axis must be an integer, got {axis!r}."
        raise TypeError(msg) from None


def flag(name: str, value: Any) -> bool:
    """A boolean."""
    return bool(value)


def one_of(argument: str, *accepted: Any) -> Normalizer:
    """The normalizer of an argument with a fixed set of values."""

    def normalize(name: str, value: Any) -> Any:
        if value not in accepted:
            msg = (f"{name}: {argument} must be {' or '.join(map(repr, accepted))}, got "
                   f"{value!r}.")
            raise ValueError(msg)
        return value

    return normalize


# ---- keys ------------------------------------------------------------------------------


def is_raw_key(key: Any) -> bool:
    """Whether a key is an array of uint32 and not of keys."""
    return not is_key_dtype(typeof(key).dtype)


def raw_key_impl(name: str, data: Any) -> PRNGImpl:
    """The generator that raw key data belongs to: the default one.

    Raises:
      TypeError: the data does not have the dtype or shape of its keys.
    """
    impl, aval = resolve_impl(), typeof(data)
    rank = len(impl.key_shape)
    if aval.dtype != np.uint32 or aval.ndim < rank or aval.shape[aval.ndim - rank :] != (
            impl.key_shape):
        msg = (f"{name} needs a PRNG key, as random.key makes, or raw key data of dtype uint32 and "
               f"shape {impl.key_shape}; got an array of type {aval}.")
        raise TypeError(msg)
    return impl


def typed_keys(name: str, keys: Any) -> Any:
    """An array of keys, from one or from raw key data.

    Raises:
      TypeError: it is neither.
    """
    return wrap(keys, raw_key_impl(name, keys)) if is_raw_key(keys) else keys


def one_key(name: str, key: Any) -> Any:
    """A single typed key, from one or from raw key data.

    Raises:
      TypeError: it is neither.
      ValueError: it is an array of several keys.
    """
    key = typed_keys(name, key)
    if key.shape:
        msg = (f"{name} takes one key, but was given an array of keys of shape {key.shape}; use "
               "mjax.vmap to map over them.")
        raise ValueError(msg)
    return key


# ---- shapes and values -----------------------------------------------------------------


def result_shape(name: str, shape: tuple[int, ...] | None, *parameters: Any) -> tuple[int, ...]:
    """The shape of a result: as given, by default that of the parameters together.

    Raises:
      ValueError: the parameters do not broadcast to the shape.
    """
    return fitting_shape(name, shape, [typeof(p).shape for p in parameters])


def fitting_shape(name: str, shape: tuple[int, ...] | None, shapes: Sequence[tuple[int, ...]]
                  ) -> tuple[int, ...]:
    """`result_shape` for parameters of these shapes."""
    try:
        together = common_shape(shapes)
        if shape is None or common_shape([shape, together]) == shape:
            return together if shape is None else shape
    except ValueError:
        pass
    given = ", ".join(map(str, shapes))
    if shape is None:
        msg = f"{name}: parameters of shapes {given} do not broadcast to one shape."
    else:
        msg = f"{name}: parameters of shapes {given} do not broadcast to the shape {shape}."
    raise ValueError(msg)


def to_rank(x: Any, ndim: int) -> Any:
    """An array with axes of size 1 in front, for NumPy's broadcasting."""
    shape = typeof(x).shape
    return reshape(x, ((1,) * (ndim - len(shape)) + shape)) if 0 < len(shape) < ndim else x


def spread(x: Any, shape: Sequence[int]) -> Any:
    """An array broadcast to a shape, as in NumPy."""
    own = typeof(x).shape
    if own == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(
        range(len(shape) - len(own), len(shape))))


def parameter(x: Any, dtype: Any, shape: Sequence[int]) -> Any:
    """A parameter in the dtype of the result and of its rank.

    Raises:
      TypePromotionError: a complex parameter of real numbers, which would lose its imaginary part.
    """
    own = typeof(x).dtype
    if dtypes.is_complex(own) and not dtypes.is_complex(dtype):
        msg = (f"a parameter of dtype {own} cannot be converted to dtype {dtype}, that of the "
               "result: give its real part, x.real.")
        raise TypePromotionError(msg)
    return to_rank(convert(x, dtype), len(shape))


def safe_parameter(name: str, x: Any, dtype: Any, shape: Sequence[int]) -> Any:
    """`parameter` with a dtype that the result's dtype holds by the rules of promotion.

    Raises:
      TypePromotionError: it does not, as float32 does not hold float64.
    """
    aval, out = typeof(x), parameter(x, dtype, shape)
    known = (aval.dtype, aval.weak_type), (dtype, False)
    if aval.dtype != dtype and common_type(*known)[0] != dtype:
        msg = (f"{name}: a parameter of dtype {aval.dtype} cannot be converted safely to dtype "
               f"{dtype}, that of the result; convert it with astype.")
        raise TypePromotionError(msg)
    return out


def scalar(dtype: Any, value: Any) -> Any:
    """A constant beside values of a dtype."""
    return np.asarray(value, dtype)[()]


def tiny(dtype: Any) -> Any:
    """The least normal number of a dtype."""
    return ml_dtypes.finfo(dtype).smallest_normal


def uint_of(width: int) -> np.dtype[Any]:
    """The unsigned dtype of a width in bits."""
    return np.dtype(f"uint{width}")
