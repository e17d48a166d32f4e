"""The accuracy of elementwise functions: `AccuracyMode`, `Tolerance`."""

from __future__ import annotations

import enum
from typing import Any

from mjax._engine.base.util import pickled_by
from mjaxlib_shim.mlir import result_accuracy


@pickled_by("accuracy_mode_v1")
class AccuracyMode(enum.Enum):
    """The choice between several implementations of an elementwise function.

    Attributes:
      HIGHEST: the most accurate one.
      DEFAULT: the compiler's default.

    Source: StableHLO, `result_accuracy`.

    Example:
      >>> print(lax.exp(1.0, accuracy=lax.AccuracyMode.DEFAULT))
      2.7182817
    """

    HIGHEST = 1
    DEFAULT = 2

    def __repr__(self) -> str:
        return f"AccuracyMode.{self.name}"

    __str__ = __repr__


@pickled_by("tolerance_v1", "atol", "rtol", "ulps")
class Tolerance:
    """The allowed error of an elementwise function's results.

    The compiler refuses a tolerance that none of its implementations satisfies. XLA knows the
    errors of few: on CPUs it accepts any tolerance. Equal tolerances compare equal, so that
    programs with equal ones are compiled once.

    Args:
      atol: absolute error.
      rtol: relative error.
      ulps: error in units of the last place.

    Raises:
      ValueError: none of them is given, or one is negative.
      TypeError: one is not a number, or `ulps` is not an integer.

    Example:
      >>> accuracy = lax.Tolerance(rtol=1e-5)
      >>> mjax.make_jaxpr(lambda x: lax.exp(x, accuracy=accuracy))(1.0).eqns[0].params
      {'accuracy': Tolerance(atol=0.0, rtol=1e-05, ulps=0)}

    Source: StableHLO, `result_accuracy`.
    """

    __slots__ = ("atol", "rtol", "ulps")
    atol: float
    rtol: float
    ulps: int

    def __init__(self, atol: float = 0.0, rtol: float = 0.0, ulps: int = 0):
        try:
            self.atol, self.rtol, self.ulps = float(atol), float(rtol), int(ulps)
        except (TypeError, ValueError):
            self.ulps = None  # type: ignore[assignment]
        if self.ulps is None or self.ulps != ulps:
            msg = ("Tolerance takes two numbers and an integer, got "
                   f"atol={atol!r}, rtol={rtol!r}, ulps={ulps!r}.")
            raise TypeError(msg)
        if not (self.atol >= 0 and self.rtol >= 0 and self.ulps >= 0):
            msg = f"Tolerances must be non-negative, got {self!r}."
            raise ValueError(msg)
        if not (self.atol or self.rtol or self.ulps):
            msg = "At least one of atol, rtol, or ulps must be set."
            raise ValueError(msg)

    def __eq__(self, other: Any) -> bool:
        if type(other) is not Tolerance:
            return NotImplemented
        return (self.atol, self.rtol, self.ulps) == (other.atol, other.rtol, other.ulps)

    def __hash__(self) -> int:
        return hash((Tolerance, self.atol, self.rtol, self.ulps))

    def __repr__(self) -> str:
        return f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps})"


def accuracy_params(name: str, accuracy: Any) -> dict[str, Any]:
    """The params of an elementwise primitive with an accuracy.

    Raises:
      TypeError: the argument is invalid.
    """
    if not isinstance(accuracy, (AccuracyMode, Tolerance)):
        msg = (f"{name}: accuracy must be None, a lax.AccuracyMode or a lax.Tolerance, got "
               f"{accuracy!r} of type {type(accuracy).__name__}.")
        raise TypeError(msg)
    return {"accuracy": accuracy}


def accuracy_attributes(accuracy: AccuracyMode | Tolerance | None) -> dict[str, Any] | None:
    """The attributes of an operation with this accuracy.

    Raises:
      NotImplementedError: a tolerance, which this jaxlib's compiler does not support.
    """
    if accuracy is None or accuracy is AccuracyMode.DEFAULT:
        return None
    if isinstance(accuracy, Tolerance):
        attribute = result_accuracy("TOLERANCE", accuracy.atol, accuracy.rtol, accuracy.ulps)
    else:
        attribute = result_accuracy(accuracy.name)
    return None if attribute is None else {"result_accuracy": attribute}
