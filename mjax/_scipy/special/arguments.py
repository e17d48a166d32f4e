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
from mjax._numpy.core import as_array, cast, check_array, choose, promote_args_inexact

#: Fragments of docstrings; see `documented`.
X = {"x": "x: array or scalar; ints and booleans become the default float."}
GIVES = {
    "one": "Returns:\n  An array of the shape of `x`, of its dtype if that is inexact.",
    "broadcast": "Returns:\n  An array of the shape that the arguments broadcast to, of their "
                 "common dtype\n  if that is inexact, else of the default float.",
    "real": "Raises:\n  TypeError: an argument is not an array or scalar.\n"
            "  ValueError: an argument is complex.",
    "float": "Raises:\n  TypeError: an argument is not an array or scalar, or is complex.",
}

_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def inexact_arguments(name: str, *args: Any, ordered: bool = False) -> list[Any]:
    """Arguments as arrays of one inexact dtype and one rank.

    Args:
      name: the function, for messages.
      args: what it was given.
      ordered: whether it compares them: complex numbers are then refused.

    Raises:
      TypeError: an argument is not a number or an array of numbers.
      ValueError, TypeError: the shapes do not broadcast.
    """
    out = [as_array(x) for x in promote_args_inexact(name, *args)]
    if ordered and dtypes.is_complex(typeof(out[0]).dtype):
        raise LazyArgumentError(lambda: (
            f"{name} takes real numbers, got {', '.join(str(typeof(x)) for x in out)}: complex "
            "ones have no order."))
    return out


def settled_arguments(name: str, *args: Any, ordered: bool = False,
                      settling: Sequence[int] = (0,)) -> list[Any]:
    """As `inexact_arguments`; weak types become strong ones where JAX's constants make them so.

    Args:
      name: the function, for messages.
      args: what it was given.
      ordered: whether it compares them: complex numbers are then refused.
      settling: the places of the arguments that have this effect where they have axes. All have it
        where the arguments have several ranks.
    """
    out = inexact_arguments(name, *args, ordered=ordered)
    ranks = {len(typeof(x).shape) for x in args} - {0}
    settled = len(ranks) > 1 or any(typeof(out[i]).shape for i in settling)
    return strong(*out) if settled else out


def strong(*args: Any) -> list[Any]:
    """Arrays without their weak types."""
    return [cast(x, typeof(x).dtype) for x in args]


def real_arguments(name: str, *args: Any) -> list[Any]:
    """As `inexact_arguments`; complex numbers are refused.

    Raises:
      ValueError: the common dtype is complex.
    """
    out = inexact_arguments(name, *args)
    if dtypes.is_complex(typeof(out[0]).dtype):
        shapes = ", ".join(str(typeof(x)) for x in out)
        msg = (f"{name} does not support complex-valued inputs, got {shapes}. Take "
               "real(x) or abs(x) first, if that is what is meant.")
        raise ValueError(msg)
    return out


def wide_argument(name: str, x: Any, argument: str = "x") -> Any:
    """An argument of float32 or float64, for functions that take nothing else.

    Raises:
      TypeError: its dtype is another one.
    """
    x = as_array(check_array(name, x))
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

    Where `within` bounds |x|, coefficients that make no difference at its precision are left out.
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
    """A quotient of polynomials, which ones depends on where `x` is.

    All of them are computed: the others may give NaN, and have no derivatives.
    """
    out = None
    for upper, center, numerator, denominator in reversed(pieces):
        t = x - center if center else x
        value = polynomial(t, numerator) / polynomial(t, denominator)
        out = value if out is None else where(x <= upper, value, out)
    return out


def widened(function: Callable[..., Any], *args: Any) -> Any:
    """A function of arguments of one float dtype, computed in float32 where that is narrower."""
    aval = typeof(args[0])
    if aval.dtype.itemsize >= 4:
        return function(*args)
    out = function(*[cast(x, np.dtype(np.float32)) for x in args])
    return cast(out, aval.dtype, aval.weak_type)
