"""Terms of symbolic dimensions: products of symbols and operations, in one order."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """A factor that is an operation: floordiv, mod, max or min of two expressions."""

    name: str
    operands: tuple[Any, Any]


#: Factors with exponents, the largest first; none: the number 1.
Term = tuple[tuple[Any, int], ...]


def terms_of(e: Any) -> tuple[tuple[Term, int], ...]:
    """The terms of an expression or an int."""
    if isinstance(e, int):
        return (((), e),) if e else ()
    found: tuple[tuple[Term, int], ...] = e.terms
    return found


@functools.cache
def term_key(term: Term) -> Any:
    """The sort key of terms."""
    return (sum(1 + power * _size(factor) for factor, power in term),
            tuple((factor_key(factor), power) for factor, power in term))


def _size(factor: Any) -> int:
    if type(factor) is str:
        return 1
    return 1 + sum(sum(term_key(t)[0] for t, _ in terms_of(e)) for e in factor.operands)


def factor_key(factor: Any) -> Any:
    """The sort key of factors."""
    if type(factor) is str:
        return (1, factor, ())
    return (_size(factor), factor.name,
            tuple(tuple((term_key(t), n) for t, n in terms_of(e)) for e in factor.operands))


def times(left: Term, right: Term) -> Term:
    """The product of two terms."""
    if not (left and right):
        return left or right
    powers = dict(left)
    for factor, power in right:
        powers[factor] = powers.get(factor, 0) + power
    return tuple(sorted(powers.items(), key=lambda f: factor_key(f[0]), reverse=True))


def without(term: Term, divisor: Term) -> Any:
    """The quotient of two terms, or None."""
    powers = dict(term)
    for factor, power in divisor:
        powers[factor] = powers.get(factor, 0) - power
        if powers[factor] < 0:
            return None
    return tuple((factor, power) for factor, power in powers.items() if power)
