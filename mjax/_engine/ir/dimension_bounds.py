"""Bounds of symbolic dimensions, for all values of the symbols that the constraints allow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from mjax._engine.ir.dimension_terms import Operation, Term, terms_of

_INFINITY = math.inf


def bounds(e: Any) -> tuple[float, float]:
    """Bounds of an expression for all values of its symbols, not always tight.

    They come from interval arithmetic, and from adding expressions known not to be negative.
    """
    if isinstance(e, int):
        return e, e
    known = e.scope.bounds.get(e)
    if known is None:
        e.scope.bounds[e] = _interval(e)  # if asked for again below
        known = e.scope.bounds[e] = (_lowest(e, 3), -_lowest(-e, 3))
    return known


def _interval(e: Any) -> tuple[float, float]:
    low = high = 0.0
    for term, count in e.terms:
        a, b = _term_bounds(term)
        if count < 0:
            a, b = b, a
        low, high = low + count * a, high + count * b
    return _whole(low), _whole(high)


def _whole(x: float) -> float:
    return x if math.isinf(x) else int(x)


def _term_bounds(term: Term) -> tuple[float, float]:
    low, high = 1.0, 1.0
    for factor, power in term:
        a, b = (1.0, _INFINITY) if type(factor) is str else _operation_bounds(factor)
        for _ in range(power):
            products = [_product(x, y) for x in (low, high) for y in (a, b)]
            low, high = min(products), max(products)
    return low, high


def _product(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y


def _operation_bounds(factor: Operation) -> tuple[float, float]:
    (a, b), (c, d) = map(bounds, factor.operands)
    if factor.name in ("max", "min"):
        pick = max if factor.name == "max" else min
        return pick(a, c), pick(b, d)
    if c <= 0:
        return -_INFINITY, _INFINITY
    if factor.name == "mod":
        return 0, min(d - 1, b if a >= 0 else _INFINITY)
    quotients = [_quotient(x, y) for x in (a, b) for y in (c, d)]
    return min(quotients), max(quotients)


def _quotient(x: float, y: float) -> float:
    if math.isinf(y):
        return 0 if x >= 0 else -1
    return x if math.isinf(x) else x // y


def _lowest(e: Any, depth: int) -> float:
    """The lower bound of an expression.

    If c is not negative and n > 0, the bound is at least that of e - n*c. The n is chosen to
    cancel a term of e.
    """
    if isinstance(e, int):
        return float(e)
    best = _interval(e)[0]
    if depth == 0:
        return best
    here = dict(e.terms)
    for term, count in e.terms:
        cases = _cases(term, count)
        if cases:
            rest = e - e.scope.expression({term: count})
            best = max(best, min(_lowest(rest + case * count, depth - 1) for case in cases))
    for known in _known_of(e):
        for term, count in terms_of(known):
            mine = here.get(term, 0)
            if not term or mine * count <= 0:
                continue
            # scale*e = rest + factor*known
            divisor = math.gcd(mine, count)
            scale, factor = abs(count) // divisor, abs(mine) // divisor
            rest = _lowest(e * scale - known * factor, depth - 1)
            if rest > -_INFINITY:
                best = max(best, math.ceil(rest / scale))
    return _whole(best)


def _cases(term: Term, count: int) -> tuple[Any, ...]:
    """The two operands of a term that is a max or min, if either in its place may bound the sum.

    For instance, 10 - max(a, b) is the smaller of 10 - a and 10 - b.
    """
    if len(term) == 1 and term[0][1] == 1 and type(term[0][0]) is not str and (
            term[0][0].name == ("max" if count < 0 else "min")):
        return term[0][0].operands
    return ()


def _known_of(e: Any) -> Iterable[Any]:
    """Expressions known not to be negative, by constraints and by the operations in them."""
    yield from e.scope.non_negative
    for term, _ in e.terms:
        for factor, _ in term:
            if type(factor) is not str:
                yield from _implied(e.scope, factor)


def _implied(scope: Any, factor: Operation) -> Iterable[Any]:
    left, right = factor.operands
    value = scope.expression({((factor, 1),): 1})
    if factor.name in ("max", "min"):
        sign = 1 if factor.name == "max" else -1
        yield from ((value - e) * sign for e in (left, right))
    elif bounds(right)[0] > 0:
        if factor.name == "floordiv":
            yield left - right * value
            yield right * value - left + right - 1
        else:
            yield right - 1 - value
            yield left - value if bounds(left)[0] >= 0 else 0
