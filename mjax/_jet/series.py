"""The interpreter of Taylor mode.

A tracer carries a primal and the Taylor coefficients after it, `x(t) = x + t x1 + t^2 x2 + ...`.
A primitive in `jet_rules` has its own rule. Other rules follow from jvp rules: the coefficients of
`y' = df(x, x')` are those of a program of one order less. If that program does not read the primals
that vary, the primitive is linear and applies to each coefficient separately.

Source: Griewank and Walther 2008, chapter 13; Bettencourt, Johnson and Duvenaud 2019.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import per_item, selected
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import mul
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import with_zeros
from mjax._engine.tracing.interpreter import Interpreter, Tracer, register_tracer, running
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_flat

#: Coefficients after the first one; None if all of them are zero.
Terms = list[Any] | None
#: From primals, terms and params to results and their terms.
Rule = Callable[..., Any]



class Sparse:
    """A rule that takes None for terms that are all zero; other rules take zeros, as in JAX.

    Args:
      rule: the function.
    """

    __slots__ = ("rule",)

    def __init__(self, rule: Rule):
        self.rule = rule

    def __call__(self, primals: Any, terms: Any, **params: Any) -> Any:
        return self.rule(primals, terms, **params)


#: Rules of primitives, `(primals, terms, **params) -> result, terms` (lists with multiple results).
jet_rules: dict[Primitive, Rule] = {}
#: Rules that apply even if no operand has terms: `(order, primals, terms, **params)`.
always_rules: dict[Primitive, Rule] = {}

_programs = ProgramCache()


@register_tracer
class JetTracer(Tracer):
    """A primal with the coefficients after it."""

    __slots__ = ("primal", "terms")

    def __init__(self, interp: Interpreter, primal: Any, terms: list[Any]):
        self.interp = interp
        self.aval = typeof(primal)
        self.primal = primal
        self.terms = terms

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    def below(self) -> Any:
        return self.primal

    def provenance(self) -> str:
        return self.primal.provenance() if isinstance(self.primal, Tracer) else ""


class JetInterpreter(Interpreter):
    """Pushes truncated power series forward.

    Args:
      parent: the interpreter below.
      order: the number of coefficients after the first.
      memo: results for the same values, inside a rule made of derivatives, which often meets the
        same series.
    """

    __slots__ = ("memo", "order")
    name = mark = "jet"

    def __init__(self, parent: Interpreter | None, order: int, memo: dict[Any, Any] | None):
        super().__init__(parent)
        self.order = order
        self.memo = memo

    def detach(self, value: Any) -> Any:
        return value.primal if type(value) is JetTracer and value.interp is self else value

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals, terms = _split(self, args)
        thread.interpreter = self.parent
        try:
            if primitive not in always_rules and all(t is None for t in terms):
                return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            outs, series = self._known(primitive, primals, terms, params)
        finally:
            thread.interpreter = self
        if primitive.multiple_results:
            return list(map(self.result, outs, series))
        return self.result(outs, series)

    def result(self, primal: Any, terms: Terms) -> Any:
        """A tracer, or the primal itself if the terms are zero."""
        return primal if terms is None else JetTracer(self, primal, terms)

    def _known(self, primitive: Primitive, primals: list[Any], terms: list[Terms],
               params: dict[str, Any]) -> Any:
        if self.memo is None or primitive.effects_of(list(map(typeof, primals)), params):
            return self.expand(primitive, primals, terms, params)
        key = (primitive, self.order, *primitive.params_key(params), *map(id, primals),
               *(None if t is None else tuple(map(id, t)) for t in terms))
        if key not in self.memo:  # operands are kept, so that their ids stay their own
            self.memo[key] = primals, terms, self.expand(primitive, primals, terms, params)
        return self.memo[key][2]

    def expand(self, primitive: Primitive, primals: list[Any], terms: list[Terms],
               params: dict[str, Any]) -> Any:
        """Results and their terms; runs with the parent current."""
        if primitive.frame is not None and "jvp" in primitive.derived:  # else its users' rule
            return primitive.frame.taylor(functools.partial(jet_jaxpr, self.order), self.order,
                                          primals, terms, params)
        if primitive in always_rules:
            return always_rules[primitive](self.order, primals, terms, **params)
        if primitive in jet_rules:
            rule = jet_rules[primitive]
            given: list[Any] = terms if type(rule) is Sparse else [
                instantiated(x, t, self.order) for x, t in zip(primals, terms, strict=True)]
            return rule(primals, given, **params)
        return self.by_derivative(primitive, primals, terms, params)

    def by_derivative(self, primitive: Primitive, primals: list[Any], terms: list[Terms],
                      params: dict[str, Any]) -> Any:
        """The rule that the jvp rule implies."""
        nonzeros = tuple(t is not None for t in terms)
        program, used, marks = _derivative(primitive, tuple(map(typeof, primals)), nonzeros, params)
        out = primitive.bind(*primals, **params)
        moving = [t for t in terms if t is not None]
        if not any(map(all, zip(used[:len(primals)], nonzeros, strict=True))):
            found = [eval_jaxpr(program, program.consts, *selected(
                used, [*primals, *(t[k] for t in moving)])) for k in range(self.order)]
            series = [list(same) for same in zip(*found, strict=True)]
        else:
            series = self._integrated(program, used, primals, terms, moving)
        given = iter(series)
        every = [next(given) if mark else None for mark in marks]
        return out, every if primitive.multiple_results else every[0]

    def _integrated(self, program: Jaxpr, used: Sequence[bool], primals: list[Any],
                    terms: list[Terms], moving: list[list[Any]]) -> list[list[Any]]:
        """The terms of results, from the program of their derivatives."""
        memo: dict[Any, Any] = {} if self.memo is None else self.memo
        less = self.order - 1

        def times(factor: int, x: Any) -> Any:
            return memo.setdefault(("times", factor, id(x)), (x, scaled(factor, x)))[1]

        speeds = [[times(k + 1, t[k]) for k in range(1, self.order)] for t in moving]
        outs, series = jet_flat(
            functools.partial(eval_jaxpr, program, program.consts),
            selected(used, [*primals, *(t[0] for t in moving)]),
            selected(used, [*(t and t[:less] for t in terms), *speeds]), less, memo)
        return [[out, *(scaled(1 / (k + 2), t) for k, t in enumerate(
            instantiated(out, s, less)))] for out, s in zip(outs, series, strict=True)]


def _split(interp: Interpreter, values: Sequence[Any]) -> tuple[list[Any], list[Terms]]:
    """The primals of values, and their terms."""
    primals: list[Any] = []
    terms: list[Terms] = []
    for value in values:
        own = type(value) is JetTracer and value.interp is interp
        primals.append(value.primal if own else value)
        terms.append(value.terms if own else None)
    return primals, terms


def scaled(factor: float, x: Any) -> Any:
    """A term times a number."""
    return x if factor == 1 else mul(x, constant_like(x, factor))


def instantiated(primal: Any, terms: Terms, order: int) -> list[Any]:
    """Arrays of zeros for terms that are zero."""
    return [zeros_of(typeof(primal))] * order if terms is None else terms


def _derivative(primitive: Primitive, avals: tuple[Any, ...], nonzeros: tuple[bool, ...],
                params: dict[str, Any]) -> tuple[Jaxpr, list[bool], list[bool]]:
    """A primitive's tangent program, its live operands and tangents, and its nonzero results."""
    key = (primitive, *avals, nonzeros, thread.settings, *primitive.params_key(params))

    def make() -> tuple[Jaxpr, list[bool], list[bool]]:
        marks: list[bool] = []

        def apply(*args: Any) -> Any:
            out = primitive.bind(*args, **params)
            return out if primitive.multiple_results else [out]

        def tangents(*args: Any) -> list[Any]:
            n = len(avals)
            _, found = jvp_flat(apply, args[:n], with_zeros(nonzeros, args[n:], avals))
            marks.extend(type(t) is not Zero for t in found)
            return [t for t in found if type(t) is not Zero]

        jaxpr = trace_to_jaxpr(tangents, [*avals, *(
            a.to_tangent() for a in selected(nonzeros, avals))])
        return (*dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars)), marks)

    known = _programs.get(key)
    return _programs.put(key, make()) if known is None else known


def jet_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any], terms: Sequence[Terms],
             order: int, memo: dict[Any, Any] | None = None) -> tuple[list[Any], list[Terms]]:
    """Evaluates a function of flat values that have terms, or None for zero ones."""
    interp = JetInterpreter(thread.interpreter, order, memo)
    interp.function = f
    with running(interp):
        results = _split(interp, f(*[
            JetTracer(interp, p, t) if t else p for p, t in zip(primals, terms, strict=True)]))
    refuse_leaks(interp)
    return results


def jet_jaxpr(order: int, jaxpr: Jaxpr, nonzeros: Sequence[bool],
              instantiate_outs: bool | Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """As `jvp_jaxpr`, with terms in place of each tangent."""
    wanted, nonzeros = per_item(instantiate_outs, len(jaxpr.outvars)), tuple(nonzeros)

    def make() -> tuple[Jaxpr, list[bool]]:
        marks: list[bool] = []
        n = len(jaxpr.invars)

        def f(*args: Any) -> list[Any]:
            given = iter(args[n:])
            terms: list[Terms] = [
                [next(given) for _ in range(order)] if nz else None for nz in nonzeros]
            outs, series = jet_flat(functools.partial(eval_jaxpr, jaxpr, jaxpr.consts),
                                    args[:n], terms, order)
            series = [instantiated(o, s, order) if w else s
                      for o, s, w in zip(outs, series, wanted, strict=True)]
            marks.extend(s is not None for s in series)
            return [*outs, *(t for s in series if s is not None for t in s)]

        avals = jaxpr.in_avals + [a.to_tangent() for a in selected(nonzeros, jaxpr.in_avals)
                                  for _ in range(order)]
        return trace_to_jaxpr(f, avals, jaxpr.debug_info), marks

    made: tuple[Jaxpr, list[bool]] = jaxpr.cached(
        ("jet", order, nonzeros, wanted, thread.settings), make)
    return made
