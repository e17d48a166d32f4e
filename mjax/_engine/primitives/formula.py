"""Numerical algorithms as lowering rules: MLIR values with Python's operators, and a loop.

    def hypotenuse(x: Number, y: Number) -> Number:
        return (x * x + y * y).sqrt()

    lowering = by_formula(hypotenuse)

All numbers of an algorithm have one shape and one float dtype; booleans have the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.emit import (
    broadcast_ir,
    constant,
    hlo,
    ir,
    ir_type,
    op,
    reduce_ir,
    while_ir,
)

_bool = np.dtype(bool)
_NARROW = np.dtype(np.float32)


class Truth:
    """A boolean for each element."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray):
        self.value = value
        #: The type of the numbers that it belongs to.
        self.aval = aval

    def __and__(self, other: Truth) -> Truth:
        return self._apply("stablehlo.and", other)

    def __or__(self, other: Truth) -> Truth:
        return self._apply("stablehlo.or", other)

    def __invert__(self) -> Truth:
        return self._apply("stablehlo.not")

    def _apply(self, name: str, *others: Truth) -> Truth:
        values = [self.value, *[o.value for o in others]]
        return Truth(op(name, [self.value.type], values)[0], self.aval)

    def where(self, yes: Number | float, no: Number | float) -> Number:
        """Elementwise `yes` where this is true, else `no`."""
        values = [_value(yes, self.aval), _value(no, self.aval)]
        return Number(op("stablehlo.select", [values[0].type], [self.value, *values])[0],
                      self.aval)

    def any(self) -> Any:
        """A scalar value: whether any element is true."""
        if not self.aval.shape:
            return self.value
        return reduce_ir(ir_type(ShapedArray((), _bool)), self.value, _bool,
                         range(self.aval.ndim), False, hlo.or_)


def _operation(name: str) -> Callable[..., Number]:
    """A method of numbers: the operation with this name."""

    def method(self: Number, *others: Number | float) -> Number:
        values = [self.value, *[_value(o, self.aval) for o in others]]
        return Number(op(name, [self.value.type], values)[0], self.aval)

    return method


def _comparison(direction: str) -> Callable[..., Truth]:
    """A method of numbers: elementwise comparison."""
    return lambda self, other: Truth(
        compare_ir(self.value, _value(other, self.aval), direction, self.aval.dtype), self.aval)


class Number:
    """A float for each element."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray):
        self.value = value
        self.aval = aval

    @property
    def eps(self) -> float:
        """The distance from 1 to the next greater number (machine epsilon)."""
        return float(ml_dtypes.finfo(self.aval.dtype).eps)

    __add__ = _operation("stablehlo.add")
    __sub__ = _operation("stablehlo.subtract")
    __mul__ = _operation("stablehlo.multiply")
    __truediv__ = _operation("stablehlo.divide")
    __neg__ = _operation("stablehlo.negate")
    __abs__ = _operation("stablehlo.abs")
    sqrt = _operation("stablehlo.sqrt")
    exp = _operation("stablehlo.exponential")
    expm1 = _operation("stablehlo.exponential_minus_one")
    log = _operation("stablehlo.log")
    log1p = _operation("stablehlo.log_plus_one")
    erfc = _operation("chlo.erfc")
    digamma = _operation("chlo.digamma")
    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Number:
        return Number(_value(other, self.aval), self.aval) - self

    def __rtruediv__(self, other: float) -> Number:
        return Number(_value(other, self.aval), self.aval) / self

    def polynomial(self, coefficients: Sequence[float], within: float) -> Number:
        """`coefficients[0] + coefficients[1] * x + ...` for |x| <= within, by Horner's scheme.

        Coefficients that make no difference at this precision are left out.
        """
        coefficients = significant(coefficients, within, abs(coefficients[0]) * self.eps / 8)
        total = self * coefficients[-1] + coefficients[-2]
        for c in reversed(coefficients[:-2]):
            total = total * self + c
        return total

    def polynomial_of(self, coefficients: Sequence[Number]) -> Number:
        """`polynomial` with coefficients that are numbers."""
        total = coefficients[-1]
        for c in reversed(coefficients[:-1]):
            total = total * self + c
        return total

    def chebyshev(self, coefficients: Sequence[float]) -> Number:
        """`sum(c_k T_k(x))` for x in [-1, 1], by Clenshaw's scheme.

        Coefficients that make no difference at this precision are left out.
        """
        kept = [c for c in coefficients if abs(c) > self.eps / 8]
        twice = self + self
        high, low = twice * kept[-1] + kept[-2], Number(_value(kept[-1], self.aval), self.aval)
        for c in reversed(kept[1:-2]):
            high, low = twice * high - low + c, high
        return self * high - low + kept[0]

    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("LT", "LE", "GT", "GE"))
    is_ = _comparison("EQ")

    def is_nan(self) -> Truth:
        """Whether it is not a number."""
        return _comparison("NE")(self, self)


def _value(number: Number | float, aval: ShapedArray) -> Any:
    """The MLIR value of a number, or a splat constant of a Python float."""
    if isinstance(number, Number):
        return number.value
    element = ir.FloatAttr.get(ir_type(aval.update(shape=())).element_type, float(number))
    return hlo.ConstantOp(ir.DenseElementsAttr.get_splat(ir_type(aval), element)).result


def significant(coefficients: Sequence[float], within: float, tolerance: float
                ) -> Sequence[float]:
    """The first two coefficients of a polynomial, and those after them that count.

    Those left out make no more than `tolerance` together for |x| <= within.
    """
    rest = 0.0
    for n in range(len(coefficients) - 1, 1, -1):
        rest += abs(coefficients[n]) * within ** n
        if rest > tolerance:
            return coefficients[:n + 1]
    return coefficients[:2]


Body = Callable[[Number, list[Number], list[Number]], tuple[Truth, list[Number]]]


def loop(body: Body, active: Truth, state: Sequence[Number | float], fixed: Sequence[Number],
         limit: int) -> list[Number]:
    """Repeats `body` until all elements are inactive, at most `limit` times.

    Args:
      body: `(n, state, fixed) -> which elements remain active, new state`, for n = 1, 2, ...;
        uses no other numbers. Elements that have stopped are still computed as long as others
        are active.
      active: the elements that need the first step.
      state: the loop's state.
      fixed: loop invariants that `body` uses.
      limit: the maximum number of steps.

    Returns:
      The state after the last step.
    """
    aval = active.aval
    scalar = ShapedArray((), aval.dtype)
    values = [constant(np.ones((), aval.dtype)), active.value,
              *[_value(s, aval) for s in state], *[f.value for f in fixed]]

    def condition(count: Any, going: Any, *_: Any) -> Any:
        in_time = Number(count, scalar) <= float(limit)
        return hlo.and_(in_time.value, Truth(going, aval).any())

    def step(count: Any, going: Any, *rest: Any) -> list[Any]:
        splat = broadcast_ir(ir_type(aval), aval.shape, count, ()) if aval.shape else count
        numbers = [Number(v, aval) for v in rest]
        go_on, new = body(Number(splat, aval), numbers[:len(state)], numbers[len(state):])
        following = Number(count, scalar) + 1.0
        return [following.value, (Truth(going, aval) & go_on).value,
                *[n.value for n in new], *rest[len(state):]]

    return [Number(v, aval) for v in while_ir(values, condition, step)[2:2 + len(state)]]


def by_formula(formula: Callable[..., Number]) -> Callable[..., Any]:
    """The lowering rule of an elementwise primitive given by a formula.

    Dtypes narrower than float32 are computed in float32.
    """

    def rule(ctx: Any, *operands: Any, **params: Any) -> Any:
        aval = ctx.avals_out[0]
        if aval.dtype.itemsize >= _NARROW.itemsize:
            return [formula(*[Number(x, aval) for x in operands], **params).value]
        wide = aval.update(dtype=_NARROW)
        given = [Number(op("stablehlo.convert", [ir_type(wide)], [x])[0], wide)
                 for x in operands]
        return op("stablehlo.convert", ctx.out_types, [formula(*given, **params).value])

    rule.__wrapped__ = formula  # type: ignore[attr-defined]
    return rule
