"""Partial evaluation: runs the known part of a function, and records the rest as a jaxpr.

A value is known unless it carries a variable of the program under construction. The parent runs
an equation with known operands only. Any other equation is staged, and the known values it reads
become constants of the program, its *residuals*. Two transformations use it: linearize (tangents
are unknown) and scan (loop invariants are known).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, per_item
from mjax._engine.ir.dtypes import PYTHON_SCALARS
from mjax._engine.ir.jaxpr import Atom, DebugInfo, Jaxpr, Literal, no_debug_info
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import Interpreter, call_with, check_alive, refusing, running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import check_lists, refuse_flags
from mjax._engine.tracing.rule_results import apply_rule, check_values
from mjax._engine.tracing.stage import (
    StageInterpreter,
    StageTracer,
    eval_jaxpr,
    lift_tracers,
    trace_to_jaxpr,
)
from mjax._engine.transforms.discharge import without_references


class PartialEvalInterpreter(StageInterpreter):
    """Stages the equations that depend on its own variables; its parent runs the others.

    Args:
      parent: the interpreter that runs known equations.
      debug_info: names for messages.
      effects_known: whether an equation with an effect and known operands is known. Otherwise it
        is staged: the known part of a loop's body runs once, but its effects must be repeated.
    """

    __slots__ = ("effects_known",)
    name = "partial evaluation"
    stages_all = False

    def __init__(self, parent: Interpreter, debug_info: DebugInfo = no_debug_info,
                 effects_known: bool = True):
        super().__init__(parent, debug_info)
        self.effects_known = effects_known

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        for arg in args:
            if type(arg) is StageTracer and arg.interp is self:
                if primitive.partial_eval is None:
                    return StageInterpreter.process(self, primitive, args, params)
                out = apply_rule(primitive, "partial_eval", [self, *args], params)
                if primitive.compared:
                    try:
                        known = primitive.agreed
                        for arg in args:
                            known = known[arg.aval]
                        if params in known["partial_eval"][out.aval]:
                            return out
                    except Exception:
                        pass  # Nothing was noted for these types.
                    check_values(primitive, "partial_eval", out, args, params)
                elif primitive.multiple_results:
                    check_lists(primitive, "partial_eval", [out], None, "a list of results")
                return out
        if not self.effects_known and primitive.effects_of(list(map(typeof, args)), params):
            return StageInterpreter.process(self, primitive, args, params)
        thread.interpreter = self.parent
        try:
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
        finally:
            thread.interpreter = self

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        if any(map(self.is_unknown, [*values, *call.hidden()])):
            return super().process_custom(call, values)
        with refusing(self, call.outside):
            return self.call_known(self.parent.process_custom, call, values)  # type: ignore[union-attr]

    def _lift(self, value: Any) -> Atom:
        # Arrays without axes stay residuals. They are data: as literals they would be missing
        # from the residuals when these are used as a pytree.
        known = self._const_vars.get(id(value))
        if known is not None:
            return known
        if type(value) in PYTHON_SCALARS:
            return Literal(value, typeof(value))
        if not hasattr(value, "aval"):
            return super()._lift(value)
        check_alive(value)
        return self.constant(value, typeof(value))

    def is_unknown(self, value: Any) -> bool:
        """Whether a value is a variable of the program under construction."""
        return type(value) is StageTracer and value.interp is self

    def call_known(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function with the parent current; for rules, which run with `self` current."""
        return call_with(self.parent, f, *args, **kwargs)

    def call_staged(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a function; stages all of its equations, also those of known values."""
        return call_with(_StageAll(self), f, *args, **kwargs)


class _StageAll(Interpreter):
    """Stages equations that a partial evaluation would run."""

    __slots__ = ()
    parent: PartialEvalInterpreter

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        return StageInterpreter.process(self.parent, primitive, args, params)


def find_residuals(residuals: Sequence[Any], ins: Sequence[Any], outs: Sequence[Any]
                   ) -> tuple[list[int], list[Any]]:
    """Finds residuals among the inputs and results of a program, so that it returns none twice.

    Args:
      residuals: the values wanted.
      ins: its inputs.
      outs: its results.

    Returns:
      The index of each residual in `[*ins, *outs, *extra]`, and `extra`: the residuals that are
      neither inputs nor results. These become results too.
    """
    places: dict[int, int] = {}
    for i, value in enumerate([*ins, *outs]):
        places.setdefault(id(value), i)
    extra: list[Any] = []
    for value in residuals:
        if id(value) not in places:
            places[id(value)] = len(ins) + len(outs) + len(extra)
            extra.append(value)
    return [places[id(r)] for r in residuals], extra


class PartialEvaluated(Record):
    """A jaxpr split in two. The second takes inputs and results of the first: residuals.

    Partial evaluation moves everything that the known inputs determine to the first. Linearization
    is the case of unknown tangents. In recomputation the second program repeats computations.

    Attributes:
      known: from the known inputs to the known results and the residuals that are neither inputs
        nor results; a jaxpr, or a frame's equivalent.
      unknown: from all residuals and the unknown inputs to the unknown results.
      residual_forwarding: the place of each residual among the inputs and results of `known`.
      unknown_outs: which results are unknown.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(1.0, 1.0)
      >>> partial_eval.partial_eval_jaxpr(jaxpr, [False, True]).residual_forwarding
      [0]
    """

    known: Any
    unknown: Any
    residual_forwarding: Sequence[int]
    unknown_outs: Sequence[bool]

    def residuals(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the inputs and results of `known`."""
        both = [*ins, *outs]
        return [both[i] for i in self.residual_forwarding]


def partial_eval_jaxpr(jaxpr: Jaxpr, unknown: Sequence[bool],
                       instantiate: bool | Sequence[bool] = False,
                       effects_known: bool = True) -> PartialEvaluated:
    """Cuts a jaxpr into the part that its known inputs determine and the rest; cached on it.

    Args:
      jaxpr: the program.
      unknown: which inputs are unknown.
      instantiate: which results have to be results of the unknown part.
      effects_known: whether equations with effects are known when their operands are.

    Returns:
      A `PartialEvaluated`: the two parts, and which results are unknown.

    Raises:
      TypeError: `jaxpr` is not a `Jaxpr`, `unknown` is not a sequence, or `instantiate` neither a
        bool nor a sequence.
      ValueError: there are more or fewer flags than inputs, or than results.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(lax.sin(x), y))(1.0, 1.0)
      >>> parts = partial_eval.partial_eval_jaxpr(jaxpr, [False, True])
      >>> [eqn.primitive for eqn in parts.known.eqns], [eqn.primitive for eqn in parts.unknown.eqns]
      ([sin], [mul])
    """
    try:
        if jaxpr.effects:
            jaxpr = without_references(jaxpr)
        unknown = tuple(unknown)
        wanted = per_item(instantiate, len(jaxpr.outvars))
    except (AttributeError, TypeError):
        refuse_flags("partial_eval_jaxpr", jaxpr, unknown=unknown, instantiate=instantiate)
        raise
    return jaxpr.cached(("partial_eval", unknown, wanted, effects_known, thread.settings),
                        lambda: _partial_eval_jaxpr(jaxpr, unknown, wanted, effects_known))


def _partial_eval_jaxpr(jaxpr: Jaxpr, unknown: Sequence[bool], wanted: Sequence[bool],
                        effects_known: bool) -> PartialEvaluated:
    check_count("partial_eval_jaxpr", "unknown", unknown, jaxpr.invars, "input")
    check_count("partial_eval_jaxpr", "instantiate", wanted, jaxpr.outvars, "result")
    made: list[Any] = []

    def run_known(*known_ins: Any) -> list[Any]:
        interp = PartialEvalInterpreter(thread.interpreter, jaxpr.debug_info, effects_known)
        with running(interp):
            given = iter(known_ins)
            ins = [interp.new_arg(aval) if u else next(given)
                   for aval, u in zip(jaxpr.in_avals, unknown, strict=True)]
            outs = eval_jaxpr(jaxpr, jaxpr.consts, *ins)
            unknown_outs = [w or interp.is_unknown(o) for o, w in zip(outs, wanted, strict=True)]
            atoms = [interp.atom(o) for o, u in zip(outs, unknown_outs, strict=True) if u]
        known_outs = [o for o, u in zip(outs, unknown_outs, strict=True) if not u]
        rest, residuals = lift_tracers(interp.build(atoms))
        forwarding, extra = find_residuals(residuals, known_ins, known_outs)
        made.extend((rest, forwarding, unknown_outs))
        return known_outs + extra

    known_avals = [a for a, u in zip(jaxpr.in_avals, unknown, strict=True) if not u]
    known = trace_to_jaxpr(run_known, known_avals, jaxpr.debug_info)
    return PartialEvaluated(known, *made)
