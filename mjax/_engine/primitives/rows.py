"""Rows of the tables of elementwise functions: a primitive and its public function each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NotRequired

from mjax._engine.ir.schema import NO_PARAMS
from mjax._engine.primitives.accuracy import AccuracyMode, Tolerance
from mjax._engine.primitives.elementwise import define_elementwise, public_function
from mjax._engine.primitives.tangents import ZERO, define_jvp_from_result, define_zero_jvp
from mjax._engine.tracing.primitive import Primitive


def unary(name: str, kinds: str, lowering: Any, derivative: Callable[..., Any] | None, doc: str,
          result: Callable[[Any], Any] | None = None, public: str = "", args: str = "x",
          example: str = "", params: Mapping[str, Any] = NO_PARAMS) -> tuple[Primitive, Any]:
    """A row of the tables: an elementwise function of one operand, with these params."""
    primitive = define_elementwise(name, kinds, lowering, result, params)
    _define_derivatives(primitive, derivative)
    return primitive, public_function(primitive, public or name, doc, args, kinds, example,
                                      result)


def _define_derivatives(primitive: Primitive, *derivatives: Callable[..., Any] | None) -> None:
    """None, since the primitive gets its jvp rule later."""
    if all(d is ZERO for d in derivatives):
        define_zero_jvp(primitive)
    elif None not in derivatives:
        define_jvp_from_result(primitive, *derivatives)


_ACCURACY = """

Args:
  x: array of a floating-point{} dtype.
  accuracy: a `Tolerance` or an `AccuracyMode`, for compilers with several implementations;
    derivatives made of such functions have the same accuracy.

Raises:
  TypeError: another dtype, or `accuracy` is not an accuracy.
  NotImplementedError: a tolerance with a jaxlib older than 0.5.3."""


def to_an_accuracy(name: str, kinds: str, lowering: Any, derivative: Callable[..., Any], doc: str,
                   example: str = "") -> tuple[Primitive, Any]:
    """`unary` for functions that take `accuracy`, which is a param only if it is given.

    Derivatives take the param; those made of such functions pass it on.
    """
    return unary(name, kinds, lowering, derivative,
                 doc + _ACCURACY.format(" or complex" if "c" in kinds else ""),
                 args="x, *, accuracy=None", example=example,
                 params={"accuracy": NotRequired[Tolerance | AccuracyMode | None]})


def binary(name: str, kinds: str, lowering: Any, left: Callable[..., Any] | None,
           right: Callable[..., Any] | None, doc: str,
           result: Callable[[Any], Any] | None = None, public: str = "",
           args: str = "x, y", example: str = "") -> tuple[Primitive, Any]:
    """A row of the tables: an elementwise function of two operands of one dtype."""
    primitive = define_elementwise(name, (kinds, kinds), lowering, result)
    _define_derivatives(primitive, left, right)
    return primitive, public_function(primitive, public or name, doc, args, kinds, example,
                                      result)
