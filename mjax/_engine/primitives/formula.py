"""Numerical algorithms as lowering rules: MLIR values with Python's operators, and a loop.

    def hypotenuse(x: Number, y: Number) -> Number:
        return (x * x + y * y).sqrt()

    lowering = by_formula(hypotenuse)

All numbers of an algorithm have one shape and one float dtype; truth values have the shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import (
    constant,
    dense_i64,
    hlo,
    ir,
    ir_type,
    op,
    reducer_region,
)

_bool = np.dtype(bool)
_NARROW = np.dtype(np.float32)


class Truth:
    """A boolean for each element."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray):
        self.value = value
        #: The type of the numbers it is about.
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
        """`yes` where this is true, else `no`."""
        values = [_value(yes, self.aval), _value(no, self.aval)]
        return Number(op("stablehlo.select", [values[0].type], [self.value, *values])[0],
                      self.aval)

    def any(self) -> Any:
        """A scalar value: whether this is true of any element."""
        if not self.aval.shape:
            return self.value
        reduce = hlo.ReduceOp([ir_type(ShapedArray((), _bool))], [self.value],
                              [constant(np.False_)], dense_i64(range(self.aval.ndim)))
        reducer_region(reduce.regions[0], [_bool], lambda a, b: [hlo.or_(a, b)])
        return reduce.results[0]


class Number:
    """A float for each element."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray):
        self.value = value
        self.aval = aval

    @property
    def eps(self) -> float:
        """The distance from 1 to the next greater number."""
        return float(ml_dtypes.finfo(self.aval.dtype).eps)

    def _apply(self, name: str, *others: Number | float) -> Number:
        values = [self.value, *[_value(o, self.aval) for o in others]]
        return Number(op(name, [self.value.type], values)[0], self.aval)

    def __add__(self, other: Number | float) -> Number:
        return self._apply("stablehlo.add", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._apply("stablehlo.subtract", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._apply("stablehlo.multiply", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._apply("stablehlo.divide", other)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: float) -> Number:
        return Number(_value(other, self.aval), self.aval) - self

    def __rtruediv__(self, other: float) -> Number:
        return Number(_value(other, self.aval), self.aval) / self

    def __neg__(self) -> Number:
        return self._apply("stablehlo.negate")

    def __abs__(self) -> Number:
        return self._apply("stablehlo.abs")

    def sqrt(self) -> Number:
        """Square root."""
        return self._apply("stablehlo.sqrt")

    def exp(self) -> Number:
        """Exponential."""
        return self._apply("stablehlo.exponential")

    def expm1(self) -> Number:
        """Exponential minus one."""
        return self._apply("stablehlo.exponential_minus_one")

    def log(self) -> Number:
        """Natural logarithm."""
        return self._apply("stablehlo.log")

    def log1p(self) -> Number:
        """Natural logarithm of one more."""
        return self._apply("stablehlo.log_plus_one")

    def erfc(self) -> Number:
        """Complementary error function."""
        return self._apply("chlo.erfc")

    def lgamma(self) -> Number:
        """Logarithm of the gamma function."""
        return self._apply("chlo.lgamma")

    def digamma(self) -> Number:
        """Logarithmic derivative of the gamma function."""
        return self._apply("chlo.digamma")

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

    def compare(self, direction: str, other: Number | float) -> Truth:
        """Elementwise comparison; `direction` is EQ, NE, GE, GT, LE or LT."""
        return Truth(hlo.compare(self.value, _value(other, self.aval),
                                 hlo.ComparisonDirectionAttr.get(direction),
                                 compare_type=hlo.ComparisonTypeAttr.get("FLOAT")), self.aval)

    def __lt__(self, other: Number | float) -> Truth:
        return self.compare("LT", other)

    def __le__(self, other: Number | float) -> Truth:
        return self.compare("LE", other)

    def __gt__(self, other: Number | float) -> Truth:
        return self.compare("GT", other)

    def __ge__(self, other: Number | float) -> Truth:
        return self.compare("GE", other)

    def is_(self, other: Number | float) -> Truth:
        """Elementwise equality."""
        return self.compare("EQ", other)

    def is_nan(self) -> Truth:
        """Whether it is not a number."""
        return self.compare("NE", self)


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
    """Repeats `body` until no element is active any more, or `limit` times.

    Args:
      body: `(n, state, fixed) -> which elements go on, new state`, for n = 1, 2, ...; uses no
        other numbers but these. Elements that have stopped are computed on as long as others
        are active.
      active: which elements need the first step.
      state: what changes.
      fixed: what `body` needs besides.
      limit: bound of the number of steps.

    Returns:
      The state after the last step.
    """
    aval = active.aval
    scalar = ShapedArray((), aval.dtype)
    values = [constant(np.ones((), aval.dtype)), active.value,
              *[_value(s, aval) for s in state], *[f.value for f in fixed]]
    types = [v.type for v in values]
    loop_op = hlo.WhileOp(types, values)
    condition = loop_op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(condition):
        count, going = condition.arguments[:2]
        in_time = hlo.compare(count, constant(np.full((), limit, aval.dtype)),
                              hlo.ComparisonDirectionAttr.get("LE"),
                              compare_type=hlo.ComparisonTypeAttr.get("FLOAT"))
        hlo.return_([hlo.and_(in_time, Truth(going, aval).any())])
    block = loop_op.regions[1].blocks.append(*types)
    with ir.InsertionPoint(block):
        count, going, *rest = block.arguments
        splat = hlo.broadcast_in_dim(ir_type(aval), count, dense_i64([])) if aval.shape else count
        numbers = [Number(v, aval) for v in rest]
        go_on, new = body(Number(splat, aval), numbers[:len(state)], numbers[len(state):])
        following = Number(count, scalar) + 1.0
        hlo.return_([following.value, (Truth(going, aval) & go_on).value,
                     *[n.value for n in new], *rest[len(state):]])
    return [Number(v, aval) for v in list(loop_op.results)[2:2 + len(state)]]


def by_formula(formula: Callable[..., Number]) -> Callable[..., Any]:
    """The lowering rule of an elementwise primitive that is computed by a formula.

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
