"""The symbols of symbolic shapes, computed from the sizes of arguments, and their checks.

Each size `e` of an argument's type is an equation `e == size`. An equation with one unknown symbol,
in one term `k*s`, gives `s`. The others are checked, and so are the scope's constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import InconclusiveDimensionOperation, LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.ir.dimensions import DimExpr, evaluate, symbols_of
from mjax._engine.primitives.emit import compare_sizes, hlo, i64_attr, ir, op, size_ir

#: An argument and an axis of it.
Place = tuple[int, int]


class Solution(Record):
    """The derivation of symbols from sizes.

    Attributes:
      steps: a symbol s, the place of its equation, and the parts of `factor*s + rest`.
      checks: the place and the expression of each equation that gives no symbol.
      scope: of the symbols; None: there are none.
    """

    steps: list[tuple[str, Place, int, Any]]
    checks: list[tuple[Place, Any]]
    scope: Any


def solve(shapes: Sequence[Sequence[Any]]) -> Solution:
    """The equations of symbolic shapes.

    Raises:
      ValueError: the sizes do not determine some symbols.
    """
    open_equations = [((i, j), size) for i, shape in enumerate(shapes)
                      for j, size in enumerate(shape) if type(size) is DimExpr]
    scope = open_equations[0][1].scope if open_equations else None
    steps: list[tuple[str, Place, int, Any]] = []
    checks: list[tuple[Place, Any]] = []
    known: set[str] = set()
    while open_equations:
        left = []
        for place, size in open_equations:
            free = symbols_of(size) - known
            if not free:
                checks.append((place, size))
                continue
            found = _linear(size, *free) if len(free) == 1 else None
            if found is None:
                left.append((place, size))
                continue
            known |= free
            steps.append((*free, place, *found))
        if len(left) == len(open_equations):
            names = sorted(set().union(*(symbols_of(e) for _, e in left)) - known)
            msg = (f"the symbols {', '.join(names)} do not follow from the sizes "
                   f"{', '.join(str(e) for _, e in left)} of the arguments: each symbol must be in "
                   "a size k*symbol + known symbols.")
            raise ValueError(msg)
        open_equations = left
    return Solution(steps, checks, scope)


def _linear(size: DimExpr, symbol: str) -> tuple[int, Any] | None:
    factor = dict(size.terms).get(((symbol, 1),))
    if factor is None:
        return None
    rest = size - size.scope.expression({((symbol, 1),): factor})
    return None if symbol in symbols_of(rest) else (factor, rest)


def values_of(solution: Solution, shapes: Sequence[Sequence[Any]], who: str,
              describe: Callable[[int, int], str]) -> dict[str, Any]:
    """The values of symbols for sizes of arguments, which may be symbolic themselves.

    Args:
      solution: the solution for the types.
      shapes: the shapes of the arguments.
      who: the function, for messages.
      describe: gives a name for an argument and an axis.

    Raises:
      ValueError: the sizes do not fit.
    """
    values: dict[str, Any] = {}

    def refuse(text: str) -> None:
        found = ", ".join(f"{s} = {v}" for s, v in values.items())
        raise LazyValueError(lambda: f"{who}: {text}{f' for {found}' if found else ''}.")

    def holds(condition: Any) -> bool:
        try:
            return bool(condition())
        except InconclusiveDimensionOperation:
            return True  # the program itself checks it, when it is compiled

    for symbol, (i, j), factor, rest in solution.steps:
        size = shapes[i][j]
        value, over = divmod(size - evaluate(rest, values), factor)
        wanted = f"{describe(i, j)} is {size}, and must be {_sum(factor, symbol, rest)}"
        if type(over) is int and over:
            refuse(f"{wanted}, with a whole {symbol}")
        if not holds(lambda value=value: value >= 1):
            refuse(f"{wanted}, with {symbol} of at least 1 (it would be {value})")
        values[symbol] = value
    for (i, j), e in solution.checks:
        if evaluate(e, values) != shapes[i][j]:
            refuse(f"{describe(i, j)} is {shapes[i][j]}, and must be {e} = {evaluate(e, values)}")
    for text, difference, equal in solution.scope.constraints if solution.scope else ():
        value = None
        if symbols_of(difference) <= values.keys():
            value = evaluate(difference, values)
        if value is not None and not holds(
                lambda value=value, equal=equal: value == 0 if equal else value >= 0):
            refuse(f"the constraint {text} does not hold")
    return values


def _sum(factor: int, symbol: str, rest: Any) -> str:
    text = symbol if factor == 1 else f"{factor}*{symbol}"
    return text if type(rest) is int and rest == 0 else f"{text} + {rest}"


def emit_symbols(solution: Solution, args: Sequence[Any], names: Sequence[str]
                 ) -> dict[str, Any]:
    """Emits the values of symbols, and checks, for the arguments of the function being lowered."""
    values: dict[str, Any] = {}
    sizes = {place: hlo.get_dimension_size(args[place[0]], i64_attr(place[1])) for place in [
        *(place for _, place, _, _ in solution.steps), *(place for place, _ in solution.checks)]}
    for symbol, place, factor, rest in solution.steps:
        whole = sizes[place]
        if not (type(rest) is int and rest == 0):
            whole = hlo.subtract(whole, size_ir(rest, values))
        values[symbol] = whole if factor == 1 else hlo.divide(whole, size_ir(factor))
        where = f"axis {place[1]} of argument {place[0]}"
        if factor != 1:
            _assert(compare_sizes(hlo.multiply(values[symbol], size_ir(factor)), whole, "EQ"),
                    f"{where} is {{0}}, and must be {_sum(factor, symbol, rest)} with a whole "
                    f"{symbol}", sizes[place])
        _assert(compare_sizes(values[symbol], size_ir(1), "GE"),
                f"{where} is {{0}}, and must be {_sum(factor, symbol, rest)} with {symbol} of at "
                "least 1", sizes[place])
    for place, e in solution.checks:
        _assert(compare_sizes(size_ir(e, values), sizes[place], "EQ"),
                f"axis {place[1]} of argument {place[0]} is {{0}}, and must be {e}", sizes[place])
    for text, difference, equal in solution.scope.constraints if solution.scope else ():
        if symbols_of(difference) <= values.keys():
            value = size_ir(difference, values)
            _assert(compare_sizes(value, size_ir(0), "EQ" if equal else "GE"),
                    f"the constraint {text} does not hold; the sides differ by {{0}}", value)
    return {name: values[name] for name in names}


def _assert(condition: Any, text: str, value: Any) -> None:
    """Emits a check for the time when shapes are known; the text has `{0}` for the value."""
    op("stablehlo.custom_call", [], [condition, value], {
        "call_target_name": ir.StringAttr.get("shape_assertion"),
        "error_message": ir.StringAttr.get(text), "has_side_effect": ir.BoolAttr.get(True),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1)})
