"""`debug.flops`: the costs of a program, by primitive and by line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.control.custom.custom_linear_solve import linear_solve_p
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn
from mjax._engine.ir.source import summarize
from mjax._engine.runtime.dispatch.make_jaxpr import make_jaxpr
from mjax._engine.tracing.flat import check_callable
from mjax._tools.flop_rules import OPAQUE, of_combining, of_equation


@pickled_by("flops_v1")
class Flops(Record):
    """The result of `mjax.debug.flops`; `str` gives a table.

    Attributes:
      total: floating-point operations.
      by_primitive: the same by the name of the primitive, the greatest first.
      by_line: the same by line of the user's code, `file:line (function)`.
      bytes: of the operands and results of all equations.
      bytes_by_primitive: the same by primitive.
      bytes_by_line: the same by line.
      while_loops: the lines of loops of unknown length, which count as one iteration.
      uncounted: primitives whose operations are not known, with their lines: they count 0.

    Example:
      >>> mjax.debug.flops(lax.exp, jnp.ones(3)).total
      3
    """

    total: float
    by_primitive: dict[str, float]
    by_line: dict[str, float]
    bytes: float
    bytes_by_primitive: dict[str, float]
    bytes_by_line: dict[str, float]
    while_loops: tuple[str, ...]
    uncounted: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = [_table("primitive", self.by_primitive, self.bytes_by_primitive, self),
                 _table("line", self.by_line, self.bytes_by_line, self)]
        if self.while_loops:
            parts.append("Counted once, since their length is not known:\n" + "\n".join(
                f"  while at {line}" for line in self.while_loops))
        if self.uncounted:
            parts.append("Not counted, since their operations are not known:\n" + "\n".join(
                f"  {line}" for line in self.uncounted))
        return "\n\n".join(parts)


def _table(of: str, flops: dict[str, float], moved: dict[str, float], found: Flops) -> str:
    rows = [(name, f"{flops[name]:,.0f}", f"{moved[name]:,.0f}") for name in flops]
    rows = [(of, "flops", "bytes"), *rows, ("total", f"{found.total:,.0f}", f"{found.bytes:,.0f}")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(f"{name:<{widths[0]}}  {count:>{widths[1]}}  {size:>{widths[2]}}"
                     for name, count, size in rows)


#: (primitive, line) -> operations and bytes.
_Counts = dict[tuple[str, str], tuple[float, float]]


@boundary
def flops(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Flops:
    """Counts the floating-point operations and bytes of a function, without running it.

    An operation on each element counts as one, whatever it is: an addition, a comparison, an
    exponential. A matrix product of `m` by `k` and `k` by `n` counts `2 m n k`, a convolution the
    same without padding. A reduction of `n` elements counts `n - 1`, a Fourier transform
    `5 n log2 n` (half if one side is real), a sort `n log2 n`. Factorizations have LAPACK's counts.
    Complex multiplications are six and additions two operations, in products and factorizations.
    Moving and converting data counts 0.

    Loops are multiplied by their length. A loop whose length is known only when it runs counts
    once, and is listed. Only the branch with the most operations counts. The operations of all
    devices of a `shard_map` are added up. Callbacks, foreign functions and exported programs are
    listed, and count 0.

    Args:
      f: a function of pytrees of arrays; a call of a jitted function counts as its program.
      args: its arguments, arrays or `ShapeDtypeStruct`s.
      kwargs: its keyword arguments.

    Returns:
      A `Flops`, with `total`, `by_primitive`, `by_line`, `bytes`, `while_loops` and `uncounted`.
      Bytes are those of the operands and results of each equation; compiled programs fuse equations
      and move less.

    Raises:
      TypeError: `f` cannot be called, or an argument is not an array.

    Example:
      >>> found = mjax.debug.flops(lambda a, b: lax.exp(lax.dot(a, b)), jnp.ones((2, 3)),
      ...                          jnp.ones((3, 4)))
      >>> found.total, found.by_primitive
      (56, {'dot_general': 48, 'exp': 8})
    """
    check_callable("flops", f)
    jaxpr = make_jaxpr(f)(*args, **kwargs)
    counter = _Counter()
    counts = counter.program(jaxpr)
    by_primitive, by_line = ([_summed(counts, place, which) for which in (0, 1)]
                             for place in (0, 1))
    total, moved = (_whole(sum(c[which] for c in counts.values())) for which in (0, 1))
    return Flops(total, by_primitive[0], by_line[0], moved, by_primitive[1], by_line[1],
                 tuple(counter.loops), tuple(counter.uncounted))


def _summed(counts: _Counts, place: int, which: int) -> dict[str, float]:
    """Counts by one half of their keys: a table of operations, and a table of bytes."""
    totals: dict[str, list[float]] = {}
    for key, (operations, size) in counts.items():
        total = totals.setdefault(key[place], [0, 0])
        total[0] += operations
        total[1] += size
    order = sorted(totals, key=lambda name: (-totals[name][0], -totals[name][1], name))
    return {name: _whole(totals[name][which]) for name in order}


def _whole(count: float) -> float:
    """Converts whole numbers to int; formulas divide."""
    return round(count) if abs(count - round(count)) < 1e-6 * max(count, 1) else count


class _Counter:
    """Counts programs; one that is called often is counted once."""

    def __init__(self) -> None:
        self.loops: dict[str, None] = {}
        self.uncounted: dict[str, None] = {}
        self.known: dict[int, tuple[Jaxpr, _Counts]] = {}

    def program(self, jaxpr: Jaxpr) -> _Counts:
        """The counts of a jaxpr, including the programs that its equations hold."""
        if id(jaxpr) not in self.known:
            counts: _Counts = {}
            for eqn in jaxpr.eqns:
                for key, found in self.equation(eqn).items():
                    _add(counts, key, found)
            self.known[id(jaxpr)] = jaxpr, counts
        return self.known[id(jaxpr)][1]

    def equation(self, eqn: JaxprEqn) -> _Counts:
        """The counts of an equation."""
        frame = eqn.primitive.frame
        if eqn.primitive is linear_solve_p:
            return self.program(eqn.params["jaxprs"].solve)
        if frame is None:
            count = of_combining(eqn, self.total)
            key = (eqn.primitive.name, summarize(eqn.source))
            if eqn.primitive.name in OPAQUE:
                self.uncounted[f"{key[0]} at {key[1]}"] = None
            return {key: (of_equation(eqn) if count is None else count, _bytes(eqn))}
        held = frame.open(eqn.params)
        times = frame.times(held)
        if times is None:
            self.loops[summarize(eqn.source)] = None
        programs = list(map(self.program, held.jaxprs))
        if frame.one_runs:
            programs = [max(programs, key=lambda counts: sum(c[0] for c in counts.values()))]
        counts: _Counts = {}
        factor = (1 if times is None else times) * frame.pieces(held)
        for program in programs:
            for key, (operations, size) in program.items():
                _add(counts, key, (factor * operations, factor * size))
        return counts

    def total(self, jaxpr: Jaxpr) -> float:
        """The operations of a jaxpr."""
        return sum(count for count, _ in self.program(jaxpr).values())


def _add(counts: _Counts, key: tuple[str, str], more: tuple[float, float]) -> None:
    operations, size = counts.get(key, (0, 0))
    counts[key] = operations + more[0], size + more[1]


def _bytes(eqn: JaxprEqn) -> float:
    return sum(math.prod(v.aval.shape) * v.aval.dtype.itemsize
               for v in (*eqn.invars, *eqn.outvars) if hasattr(v.aval, "shape"))
