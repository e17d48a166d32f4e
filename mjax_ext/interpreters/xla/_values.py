"""Values as operands of compiled programs, and primitives as programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.sockets import sockets
from mjax._engine.ir.dtypes import PYTHON_SCALARS
from mjax._engine.ir.types import is_array_value, typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.transfer import converted
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import describe_value


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Applies a primitive by its lowering, compiled once per types and params.

    A primitive without an implementation is evaluated in this way.
    `p.def_impl(functools.partial(xla.apply_primitive, p))` does the same.

    Args:
      primitive: the primitive.
      args: arrays or numbers.
      params: its params.

    Returns:
      One array, or a list of them if the primitive has multiple results.

    Raises:
      MissingRuleError: it does not have a lowering for the platform.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> float(xla.apply_primitive(lax.neg_p, 1.0))
      -1.0
    """
    return sockets.execute(primitive, args, params)


def abstractify(x: Any) -> Any:
    """The type of a value, as programs see it.

    Args:
      x: array or scalar.

    Returns:
      A `ShapedArray`.

    Raises:
      TypeError: the value is not an array or a number.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> xla.abstractify(np.arange(3))
      ShapedArray(int32[3])
    """
    return typeof(canonicalize_dtype(x))


def canonicalize_dtype(x: Any, allow_opaque_dtype: bool = False) -> Any:
    """A value with a dtype that programs have: 32 bits in place of 64 where x64 is off.

    Args:
      x: an array, a number, or a value of a class in `canonicalize_dtype_handlers`.
      allow_opaque_dtype: not read: arrays of keys are values like others.

    Returns:
      A value.

    Raises:
      TypeError: it is none of these.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> xla.canonicalize_dtype(np.arange(3)).dtype
      dtype('int32')
    """
    for kind in type(x).__mro__:
        handler = canonicalize_dtype_handlers.get(kind)
        if handler is not None:
            return handler(x)
    if is_array_value(x):
        return x  # an array or a tracer
    msg = (f"canonicalize_dtype takes an array or a number, or a value of a class in "
           f"canonicalize_dtype_handlers; got {describe_value(x)}.")
    raise TypeError(msg)


def _canonical(x: Any) -> Any:
    aval = typeof(x)
    if isinstance(x, np.generic):
        return converted(x, aval)[()]
    return x if getattr(x, "dtype", None) == aval.dtype else converted(x, aval)


#: Class -> the function that makes values of it canonical. A class of one's own needs an entry only
#: for `canonicalize_dtype`: programs take values that have an `aval`, and read them by `__array__`.
canonicalize_dtype_handlers: dict[type, Callable[[Any], Any]] = {
    Array: lambda x: x, **dict.fromkeys((np.ndarray, np.generic, *PYTHON_SCALARS), _canonical)}
