"""Arguments of special functions: checked, promoted to one inexact dtype, their ranks aligned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.formula import significant
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import cast, check_array, choose, promote_args_inexact

#: Fragments of docstrings; see `documented`.
X = {"x": "x: array or scalar; ints and booleans become the default float."}
GIVES = {
    "one": "Returns:\n  An array of the shape of `x`, in its dtype if inexact.",
    "broadcast": "Returns:\n  An array of the broadcast shape of the arguments. Its dtype is "
                 "their common dtype\n  if inexact, else the default float.",
    "real": "Raises:\n  TypeError: an argument is not an array or scalar.\n"
            "  ValueError: an argument is complex.",
    "float": "Raises:\n  TypeError: an argument is not an array or scalar, or is complex.",
}

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def inexact_arguments(name: str, *args: Any, ordered: bool = False) -> list[Any]:
    """Arguments as arrays of one inexact dtype and one rank.

    Args:
      name: the function, for messages.
      args: its arguments.
      ordered: whether it compares them: complex numbers are then refused.

    Raises:
      TypeError: an argument is not a number or an array of numbers.
      ValueError, TypeError: the shapes do not broadcast.
    """
    out = [array_of(x) for x in promote_args_inexact(name, *args)]
    if ordered and dtypes.is_complex(typeof(out[0]).dtype):
        raise LazyArgumentError(lambda: (
            f"{name} takes real numbers, got {', '.join(str(typeof(x)) for x in out)}: complex "
            "numbers are not ordered."))
    return out


def settled_arguments(name: str, *args: Any, ordered: bool = False,
                      settling: Sequence[int] = (0,)) -> list[Any]:
    """`inexact_arguments` that makes weak types strong wherever JAX's constants do.

    Args:
      name: the function, for messages.
      args: its arguments.
      ordered: whether it compares them: complex numbers are then refused.
      settling: the positions of arguments that have this effect unless they are scalars. If ranks
        differ, all arguments have it.
    """
    out = inexact_arguments(name, *args, ordered=ordered)
    ranks = {len(typeof(x).shape) for x in args} - {0}
    settled = len(ranks) > 1 or any(typeof(out[i]).shape for i in settling)
    return strong(*out) if settled else out


def strong(*args: Any) -> list[Any]:
    """Arrays without their weak types."""
    return [cast(x, typeof(x).dtype) for x in args]


def real_arguments(name: str, *args: Any) -> list[Any]:
    """`inexact_arguments` that refuses complex numbers.

    Raises:
      ValueError: the common dtype is complex.
    """
    out = inexact_arguments(name, *args)
    if dtypes.is_complex(typeof(out[0]).dtype):
        shapes = ", ".join(str(typeof(x)) for x in out)
        msg = (f"{name} does not support complex-valued inputs, got {shapes}. Take "
               "real(x) or abs(x) first.")
        raise ValueError(msg)
    return out


def wide_argument(name: str, x: Any, argument: str = "x") -> Any:
    """Checks that an argument is of dtype float32 or float64.

    Raises:
      TypeError: the dtype is another one.
    """
    x = array_of(check_array(name, x))
    if typeof(x).dtype not in _WIDE:
        raise LazyArgumentError(lambda: (
            f"{name}: the dtype of {argument} must be float32 or float64, got {typeof(x)}. Convert "
            f"it with {argument}.astype(float)."))
    return x


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` or `no`, at least one of them an array; numbers are constants of its type."""
    like = yes if hasattr(yes, "aval") else no
    return choose(condition, *[x if hasattr(x, "aval") else constant_like(like, x)
                               for x in (yes, no)])


def polynomial(x: Any, coefficients: Sequence[float], within: float | None = None) -> Any:
    """`coefficients[0] + coefficients[1] * x + ...`, by Horner's scheme.

    If `within` bounds |x|, coefficients below the precision of `x` are left out.
    """
    if within is not None:
        eps = float(ml_dtypes.finfo(typeof(x).dtype).eps)
        coefficients = significant(coefficients, within, abs(coefficients[0]) * eps / 8)
    total = x * coefficients[-1] + coefficients[-2]
    for c in reversed(coefficients[:-2]):
        total = total * x + c
    return total


#: Upper end, center, numerator, denominator; see `tables`.
Piece = tuple[float, float, Sequence[float], Sequence[float]]


def rational(x: Any, pieces: Sequence[Piece]) -> Any:
    """A quotient of polynomials chosen by the interval that contains `x`.

    All quotients are computed. Those not chosen may be NaN and do not affect derivatives.
    """
    out = None
    for upper, center, numerator, denominator in reversed(pieces):
        t = x - center if center else x
        value = polynomial(t, numerator) / polynomial(t, denominator)
        out = value if out is None else where(x <= upper, value, out)
    return out


def widened(function: Callable[..., Any], *args: Any) -> Any:
    """Wraps a function of floats, with one result or a tuple, to compute narrower dtypes in
    float32."""
    aval = typeof(args[0])
    if aval.dtype.itemsize >= 4:
        return function(*args)
    out = function(*[cast(x, np.dtype(np.float32)) for x in args])
    if isinstance(out, tuple):
        return tuple([cast(part, aval.dtype, aval.weak_type) for part in out])
    return cast(out, aval.dtype, aval.weak_type)
