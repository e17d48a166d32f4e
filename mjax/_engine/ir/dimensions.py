"""Symbolic dimensions: sizes of axes that are not known yet, such as `2*b + 1`.

    expression ::= term * int + ...      term ::= factor^int * ...
    factor     ::= symbol | floordiv(e, e) | mod(e, e) | max(e, e) | min(e, e)

A `DimExpr` is immutable, in normal form, and interned in its scope: equal expressions are one
object. An expression without symbols is an int. A comparison has to hold for all values of the
symbols; these are at least 1 and fulfil the scope's constraints (see `dimension_bounds`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mjax._engine.base.errors import InconclusiveDimensionOperation, LazyValueError
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.dimension_bounds import bounds
from mjax._engine.ir.dimension_terms import (
    Operation,
    Term,
    factor_key,
    term_key,
    terms_of,
    times,
    without,
)


class Scope:
    """Facts about symbols. Symbols of one name are the same within a scope, not across scopes."""

    def __init__(self) -> None:
        self._known: dict[Any, DimExpr] = {}
        #: Term -> an expression and a number: so often the term is the expression.
        self.rules: dict[Term, tuple[Any, int]] = {}
        #: Expressions that are not negative.
        self.non_negative: list[DimExpr] = []
        #: Constraints: a text, and an expression that is 0 (if True), or at least 0.
        self.constraints: list[tuple[str, DimExpr, bool]] = []
        #: Expression -> its bounds.
        self.bounds: dict[Any, tuple[float, float]] = {}

    def require(self, text: str, left: Any, relation: str, right: Any) -> None:
        """Adds a constraint.

        Args:
          text: how messages and artifacts show it.
          left, right: sizes.
          relation: "==" or ">=".

        Raises:
          ValueError: it never holds.
        """
        difference, equal = left - right, relation == "=="
        if type(difference) is not DimExpr:
            if difference < 0 or (equal and difference):
                msg = f"the constraint {text!r} never holds."
                raise ValueError(msg)
            return
        if equal and type(left) is DimExpr and len(left.terms) == 1:
            term, count = left.terms[0]
            self.rules[term] = right, count
        self.constraints.append((text, difference, equal))
        self.non_negative += [difference, -difference] if equal else [difference]
        self.bounds.clear()

    def expression(self, terms: Mapping[Term, int]) -> Any:
        """The expression, or int, that is a sum of terms with these factors."""
        terms = self._normalized(terms)
        if not terms:
            return 0
        if len(terms) == 1 and () in terms:
            return terms[()]
        key = tuple(sorted(terms.items(), key=lambda item: term_key(item[0]), reverse=True))
        known = self._known.get(key)
        if known is None:
            known = self._known.setdefault(key, DimExpr(self, key))
        return known

    def _normalized(self, terms: Mapping[Term, int]) -> dict[Term, int]:
        terms = {t: n for t, n in terms.items() if n}
        for _ in range(32 * bool(self.rules)):  # rules may lead in a circle
            for term, count in terms.items():
                found = self._rewritten(term, count)
                if found is not None:
                    rest = {t: n for t, n in terms.items() if t != term}
                    for t, n in found.items():
                        rest[t] = rest.get(t, 0) + n
                    terms = {t: n for t, n in rest.items() if n}
                    break
            else:
                break
        return terms

    def _rewritten(self, term: Term, count: int) -> dict[Term, int] | None:
        for part in (term, *((factor,) for factor in (term if len(term) > 1 else ()))):
            replaced, often = self.rules.get(part, (None, 1))
            if replaced is not None and count % often == 0:
                rest = without(term, part)
                return {times(t, rest): n * (count // often) for t, n in terms_of(replaced)}
        return None

    def symbol(self, name: str) -> Any:
        """The symbol of a name; what equals it, if a constraint says so."""
        return self.expression({((name, 1),): 1})

    def operation(self, name: str, left: Any, right: Any) -> DimExpr:
        """The expression that is one operation."""
        return self.expression({((Operation(name, (left, right)), 1),): 1})

    def __repr__(self) -> str:
        texts = ", ".join(text for text, _, _ in self.constraints)
        return f"<scope {id(self):#x}{f' with {texts}' if texts else ''}>"


def _arithmetic(method: Callable[[DimExpr, Any], Any]) -> Callable[[DimExpr, Any], Any]:
    """An operator on expressions and ints; for other operands it computes with values."""
    symbol = method.__name__

    @functools.wraps(method)
    def apply(self: DimExpr, other: Any) -> Any:
        if type(other) is DimExpr:
            if other.scope is not self.scope:
                _refuse_scopes(self, other)
        elif type(other) is not int:
            try:
                other = operator.index(other)
            except TypeError:
                if hasattr(other, "aval"):
                    return NotImplemented  # arrays know what to do
                return getattr(sockets.dimension_value(self), symbol)(other)
        return method(self, other)

    return apply


def _refuse_scopes(left: DimExpr, right: DimExpr) -> None:
    raise LazyValueError(lambda: (
        f"the symbolic dimensions {left} and {right} are of different scopes, {left.scope} and "
        f"{right.scope}: make all symbols of a program with one symbolic_shape, or hand on "
        "scope=."))


class DimExpr:
    """A symbolic dimension: see the module."""

    __slots__ = ("scope", "terms")
    scope: Scope
    terms: tuple[tuple[Term, int], ...]
    # NumPy's scalars defer their operators to it.
    __array_priority__ = 1000
    __array_ufunc__ = None

    def __init__(self, scope: Scope, terms: tuple[tuple[Term, int], ...]):
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "terms", terms)

    def __setattr__(self, name: str, value: Any) -> None:
        msg = "symbolic dimensions are immutable."
        raise AttributeError(msg)

    def __copy__(self) -> DimExpr:
        return self

    def __deepcopy__(self, memo: Any) -> DimExpr:
        return self

    # -- arithmetic --

    @_arithmetic
    def __add__(self, other: Any) -> Any:
        terms = dict(self.terms)
        for term, count in terms_of(other):
            terms[term] = terms.get(term, 0) + count
        return self.scope.expression(terms)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return self * -1

    @_arithmetic
    def __sub__(self, other: Any) -> Any:
        return self + -other

    @_arithmetic
    def __rsub__(self, other: Any) -> Any:
        return -self + other

    @_arithmetic
    def __mul__(self, other: Any) -> Any:
        terms: dict[Term, int] = {}
        for t1, n1 in self.terms:
            for t2, n2 in terms_of(other):
                term = times(t1, t2)
                terms[term] = terms.get(term, 0) + n1 * n2
        return self.scope.expression(terms)

    __rmul__ = __mul__

    @_arithmetic
    def __floordiv__(self, other: Any) -> Any:
        return _divmod(self, other)[0]

    @_arithmetic
    def __rfloordiv__(self, other: Any) -> Any:
        return _divmod(other, self)[0]

    @_arithmetic
    def __mod__(self, other: Any) -> Any:
        return _divmod(self, other)[1]

    @_arithmetic
    def __rmod__(self, other: Any) -> Any:
        return _divmod(other, self)[1]

    @_arithmetic
    def __divmod__(self, other: Any) -> Any:
        return _divmod(self, other)

    @_arithmetic
    def __rdivmod__(self, other: Any) -> Any:
        return _divmod(other, self)

    def __pow__(self, power: Any) -> Any:
        if type(power) is not int:
            if not isinstance(power, np.integer):
                return sockets.dimension_value(self) ** power
            power = int(power)
        if power < 0:
            msg = f"symbolic dimensions do not have negative powers: {self} ** {power}."
            raise ValueError(msg)
        return math.prod([self] * power)

    def __rpow__(self, base: Any) -> Any:
        return base ** sockets.dimension_value(self)

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if hasattr(other, "aval") else sockets.dimension_value(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return NotImplemented if hasattr(other, "aval") else other / sockets.dimension_value(self)

    # -- comparison; equal expressions are one object --

    def __ge__(self, other: Any) -> Any:
        return _at_least(self, other, 0, ">=")

    def __gt__(self, other: Any) -> Any:
        return _at_least(self, other, 1, ">")

    def __le__(self, other: Any) -> Any:
        return _at_most(self, other, 0, "<=")

    def __lt__(self, other: Any) -> Any:
        return _at_most(self, other, 1, "<")

    def __int__(self) -> int:
        raise InconclusiveDimensionOperation(lambda: (
            f"the symbolic dimension {self} is used where a number must be known. Export for "
            "arguments in which this size is fixed, or compute with the size in the program, "
            "as jnp.asarray(size)."))

    def __jax_array__(self) -> Any:
        return sockets.dimension_value(self)

    # -- texts --

    def __repr__(self) -> str:
        texts = []
        for i, (term, count) in enumerate(self.terms):
            sign = "- " if count < 0 else ""
            lead = sign if i == 0 else f" {sign or '+ '}"
            factors = [] if abs(count) == 1 and term else [str(abs(count))]
            for factor, power in sorted(term, key=lambda f: factor_key(f[0])):
                text = factor if type(factor) is str else (
                    f"{factor.name}({', '.join(map(_text, factor.operands))})")
                factors.append(text if power == 1 else f"{text}^{power}")
            texts.append(lead + "*".join(factors))
        return "".join(texts)

    def symbols(self) -> set[str]:
        """The names of the symbols in it."""
        return {name for term, _ in self.terms for factor, _ in term
                for name in ({factor} if type(factor) is str else
                             set().union(*map(symbols_of, factor.operands)))}

    def evaluate(self, values: Mapping[str, Any], compute: Any = None) -> Any:
        """Its value for values of its symbols.

        Args:
          values: symbol -> an int, an expression, or what `compute` takes.
          compute: name of an operation, add, mul or those of factors -> a function of two values.
        """
        compute = compute or _COMPUTE
        total = None
        for term, count in self.terms:
            value = count if not term or count != 1 else None
            for factor, power in term:
                base = values[factor] if type(factor) is str else compute[factor.name](*[
                    evaluate(e, values, compute) for e in factor.operands])
                for _ in range(power):
                    value = base if value is None else compute["mul"](value, base)
            total = value if total is None else compute["add"](total, value)
        return total


def _text(e: Any) -> str:
    # Spaced as JAX writes it: JAX reads no other spelling.
    return f"- {-e}" if type(e) is int and e < 0 else str(e)


def symbols_of(e: Any) -> set[str]:
    """The names of the symbols in a size."""
    return e.symbols() if type(e) is DimExpr else set()


def evaluate(e: Any, values: Mapping[str, Any], compute: Any = None) -> Any:
    """The value of a size for values of its symbols; see `DimExpr.evaluate`."""
    return e.evaluate(values, compute) if type(e) is DimExpr else e


def _divmod(left: Any, right: Any) -> tuple[Any, Any]:
    """Quotient and remainder: of polynomials where these are exact, otherwise as operations."""
    if type(right) is int and right == 0:
        msg = f"division of the symbolic dimension {left} by zero."
        raise ZeroDivisionError(msg)
    scope = (left if type(left) is DimExpr else right).scope
    found = _polynomial_divmod(left, right, scope)
    if found is not None:
        return found
    return scope.operation("floordiv", left, right), scope.operation("mod", left, right)


def _polynomial_divmod(left: Any, right: Any, scope: Scope) -> tuple[Any, Any] | None:
    quotient: Any = 0
    lead, factor = terms_of(right)[0]
    for _ in range(100):
        if type(left) is not DimExpr:
            if type(right) is int:
                more, rest = divmod(left, right)
                return quotient + more, rest
            lowest = bounds(right)[0]
            if 0 <= left < lowest:
                return quotient, left
            if -lowest <= left < 0:
                return quotient - 1, left + right
            return (quotient, 0) if left == 0 else None
        term, count = left.terms[0]
        rest = without(term, lead)
        if rest is None or count % factor:
            return None
        part = scope.expression({rest: count // factor})
        quotient, left = quotient + part, left - part * right
    return None


_COMPUTE: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "max": lambda a, b: max_dim(a, b), "min": lambda a, b: min_dim(a, b)}


def _difference(left: DimExpr, right: Any) -> Any:
    try:
        return left - right
    except TypeError:
        return NotImplemented


def _at_least(left: DimExpr, right: Any, margin: int, sign: str) -> Any:
    difference = _difference(left, right)
    if difference is NotImplemented or hasattr(difference, "aval"):
        return _as_values(left, right, sign)
    return _decided(difference - margin, left, right, sign)


def _at_most(left: DimExpr, right: Any, margin: int, sign: str) -> Any:
    difference = _difference(left, right)
    if difference is NotImplemented or hasattr(difference, "aval"):
        return _as_values(left, right, sign)
    return _decided(-difference - margin, left, right, sign)


def _as_values(left: DimExpr, right: Any, sign: str) -> Any:
    compare = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}[sign]
    return compare(sockets.dimension_value(left), right)


def _decided(difference: Any, left: Any, right: Any, sign: str) -> bool:
    """Whether a difference is at least 0, for all values of the symbols."""
    if type(difference) is int:
        return difference >= 0
    low, high = bounds(difference)
    if low >= 0:
        return True
    if high < 0:
        return False
    raise InconclusiveDimensionOperation(lambda: (
        f"whether {left} {sign} {right} depends on the values of "
        f"{', '.join(sorted(symbols_of(difference)))}. If it holds for all arguments to come, "
        f"say so: symbolic_shape(..., constraints=[\"{_constraint(left, sign, right)}\"]); if for "
        f"none, constraints=[\"{_constraint(left, _OPPOSITE[sign], right)}\"]; else compute with "
        "the sizes as arrays."))


_OPPOSITE = {">=": "<", "<": ">=", "<=": ">", ">": "<="}


def _constraint(left: Any, sign: str, right: Any) -> str:
    """A comparison as constraints spell it, which are not strict."""
    margin = {">": 1, "<": -1}.get(sign, 0)
    return f"{left} {sign[0]}= {right + margin}"


def max_dim(d1: Any, d2: Any) -> Any:
    """The larger of two sizes; an expression if that depends on symbols.

    Args:
      d1: a size: an int or a symbolic dimension.
      d2: another one.

    Returns:
      A size.

    Raises:
      ValueError: they are symbolic, and of different scopes.
      TypeError: one is neither symbolic nor an integer.
      ConcretizationTypeError: one is a traced value.

    Example:
      >>> from mjax_ext import core
      >>> b, = mjax.export.symbolic_shape("b")
      >>> core.max_dim(b, 1), core.max_dim(b, 5)
      (b, max(b, 5))
    """
    return _either("max", d1, d2)


def min_dim(d1: Any, d2: Any) -> Any:
    """The smaller of two sizes; an expression if that depends on symbols.

    Args:
      d1: a size: an int or a symbolic dimension.
      d2: another one.

    Returns:
      A size.

    Raises:
      ValueError: they are symbolic, and of different scopes.
      TypeError: one is neither symbolic nor an integer.
      ConcretizationTypeError: one is a traced value.

    Example:
      >>> from mjax_ext import core
      >>> core.min_dim(2, 3)
      2
    """
    return _either("min", d1, d2)


def _either(name: str, left: Any, right: Any) -> Any:
    left, right = (_as_size(f"{name}_dim", size) for size in (left, right))
    if type(left) is not DimExpr and type(right) is not DimExpr:
        return max(left, right) if name == "max" else min(left, right)
    if surely(lambda: left >= right):
        return left if name == "max" else right
    if surely(lambda: left <= right):
        return right if name == "max" else left
    return (left if type(left) is DimExpr else right).scope.operation(name, left, right)


def _as_size(who: str, size: Any) -> Any:
    if type(size) is DimExpr or type(size) is int:
        return size
    try:
        return operator.index(size)
    except TypeError:
        if hasattr(size, "aval"):  # the errors of arrays say why
            raise
        msg = (f"{who}: a size must be an int or a symbolic dimension, got {size!r} of type "
               f"{type(size).__name__}.")
        raise TypeError(msg) from None


def surely(condition: Callable[[], Any]) -> bool:
    """Whether a comparison of sizes holds for all values of their symbols; False if that is open.

    Args:
      condition: makes the comparison.
    """
    try:
        return bool(condition())
    except InconclusiveDimensionOperation:
        return False
