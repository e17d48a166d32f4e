"""Frames: how primitives hold programs, and the rules that follow from it.

A primitive that holds a jaxpr says how each operand enters it and how each result leaves it: as it
is, cut by a spec, with a flag of its own. Every transformation of the primitive is then the same
transformation of its jaxpr, whose new inputs and results enter and leave as those they come from.
The kit derives the rules from the declarations (`control/declarations.py`): those that work on
types in `frame_types`, the others below; they share `frame_plans`. A frame overrides what is truly
its own.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.util import merge_lists, partition_list, selected
from mjax._engine.control.frame_plans import FramePlans
from mjax._engine.control.held import Held, How, Params, Runner, Split
from mjax._engine.control.references import transformations
from mjax._engine.ir.effects import keeps_equation
from mjax._engine.ir.jaxpr import DropVar, JaxprEqn, Var
from mjax._engine.ir.references import touches_references
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import instantiate, with_zeros
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjax._engine.tracing.rule_results import cast_varying
from mjax._engine.tracing.stage import StageInterpreter
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, to_dim
from mjax._engine.transforms.dce import with_inputs
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter
from mjax._engine.transforms.recomputation import Policy

#: The rules of a frame whose equations are neither split nor reduced.
UNCUT = ("abstract_eval", "typecheck", "cast_varying", "jvp", "linearize", "transpose",
         "axis_batch")


class Frame(FramePlans):
    """Gives a primitive that holds a jaxpr its rules, except for impl and lowering.

    By default the primitive is a call: its operands are the inputs of the jaxpr, and its results
    those of the jaxpr. A subclass changes that by `open`, `close` and the other declarations. A
    transformation of the primitive transforms the jaxpr.

    Args:
      primitive: the primitive; its applications give several results. It is found again as
        `primitive.frame`.
      param: the name of the param with the jaxpr.

    Raises:
      TypeError: the primitive does not have `multiple_results=True`, or its schema lacks the param.

    Example:
      >>> from mjax_ext import core
      >>> region_p = core.Primitive("region", multiple_results=True)
      >>> frame = core.Frame(region_p, "jaxpr")
      >>> region_p.def_impl(lambda *args, jaxpr: core.eval_jaxpr(jaxpr, jaxpr.consts, *args))
      ... # doctest: +ELLIPSIS
      <function ...>
      >>> region_p.def_lowering(lambda ctx, *args, jaxpr: ctx.inline(jaxpr, *args))
      ... # doctest: +ELLIPSIS
      <function ...>
      >>> body = mjax.make_jaxpr(lambda x: lax.sin(x))(1.0)
      >>> f = lambda x: region_p.bind(x, jaxpr=body)[0]
      >>> float(mjax.grad(f)(0.0)), mjax.vmap(f)(jnp.zeros(2))
      (1.0, Array([0., 0.], dtype=float32))

    Source: `docs/design/0009-frames.md`.
    """

    #: The rules that the primitive gets from the frame.
    derives: tuple[str, ...] = (*UNCUT, "partial_eval", "dce", "recompute")

    def __init__(self, primitive: Primitive, param: str = "jaxpr"):
        refuse_other(primitive)
        if not primitive.multiple_results:
            msg = (f"a frame for the primitive {primitive.name!r}: it holds a program, which gives "
                   "a list of results; make it with multiple_results=True.")
            raise TypeError(msg)
        schema, opens = primitive.schema, type(self).open is not Frame.open
        if schema is not None and param not in schema.params and not opens:
            msg = (f"a frame for the primitive {primitive.name!r}: name the param that holds the "
                   f"program. Its schema ({schema}) does not have {param!r}.")
            raise TypeError(msg)
        self.primitive = primitive
        self.param = param
        primitive.frame = self
        # The types of its results, and the axes along which they vary, follow from the body.
        primitive.types_cacheable, primitive.own_varying = False, True
        for field in self.derives:
            primitive.define(field, getattr(self, field),
                             derived=getattr(type(self), field) is getattr(Frame, field))

    # -- derivatives -------------------------------------------------------------------------

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The forward derivative."""
        body = self.body(params)
        if body.effects and touches_references(body.effects):
            return transformations.jvp(self, primals, tangents, params)
        tangents = tangents[self.aside:]
        nonzeros = tuple([type(t) is not Zero for t in tangents])
        key = self._key("jvp", params, nonzeros)
        run, nonzeros, nonzero_outs = body.recall(key) or body.keep(
            key, self._jvp_plan(self.differentiated(params), nonzeros))
        outs = run([*primals, *map(instantiate, selected(nonzeros, tangents))])
        n = len(nonzero_outs)
        return outs[:n], with_zeros(nonzero_outs, outs[n:], map(typeof, outs))

    def _jvp_plan(self, held: Held, nonzeros: Sequence[bool]) -> Any:
        pushed, nonzeros, nonzero_outs = self._pushed(held, nonzeros)
        return self.runner(pushed), nonzeros, nonzero_outs

    def _pushed(self, held: Held, nonzeros: Sequence[bool]) -> tuple[Held, Any, Any]:
        """The program with tangents, and which operands and results have one.

        With rules, all results of inexact types have one: a rule may give a tangent where the
        function does not.
        """
        smooth = [a.inexact for a in held.body.out_avals] if self.has_rules(held) else None
        jvp = self.transforms.along(jvp_jaxpr)
        nonzeros, (body, nonzero_outs) = self.complete(
            held, nonzeros, lambda body, marks, wanted: jvp(body, marks, smooth or wanted),
            operator.itemgetter(1))
        return self.ruled(Held(
            body, [*held.ins, *self._derivatives(nonzeros, held.ins)],
            [*held.outs, *self._derivatives(nonzero_outs, held.outs)], held.rest),
            lambda rule: rule.pushed(held, nonzeros)), nonzeros, nonzero_outs

    def _tangents(self, pushed: Held, n: int) -> Runner:
        """Applies a program with tangents, and gives those of its `n` results alone."""
        if len(pushed.outs) == n:
            return lambda args: []
        tangents, given, read = self._pruned(pushed, [i >= n for i in range(len(pushed.outs))])
        run, before = self.runner(tangents), sum(given[:n])
        return lambda args: run(selected(read, args))[before:]

    def _derivatives(self, nonzeros: Sequence[bool], hows: Sequence[How]) -> list[How]:
        return [self.derivative(how) for how in selected(nonzeros, hows)]

    def taylor(self, push: Callable[..., Any], order: int, primals: Sequence[Any],
               terms: Sequence[list[Any] | None], params: Params) -> Any:
        """The results and their terms; these enter and leave as derivatives do.

        Args:
          push: from a jaxpr to one with so many terms in the place of each tangent, as `jvp_jaxpr`.
          order: the number of terms.
          primals: the operands.
          terms: those of each operand; None where they are zero.
          params: the params.
        """
        body = self.body(params)
        if body.effects and touches_references(body.effects):
            return transformations.taylor(self, push, order, primals, terms, params)
        held = self.again(self.open(params))
        nonzeros, (body, nonzero_outs) = self.complete(
            held, [t is not None for t in terms[self.aside:]], self.transforms.along(push),
            operator.itemgetter(1))
        ins, outs = ([*hows, *(how for how in self._derivatives(marks, hows) for _ in range(order))]
                     for hows, marks in ((held.ins, nonzeros), (held.outs, nonzero_outs)))
        given = [t or [zeros_of(typeof(x).to_tangent())] * order for x, t, nz in zip(
            primals[self.aside:], terms[self.aside:], nonzeros, strict=True) if nz]
        found = self.runner(held._replace(body=body, ins=ins, outs=outs))(
            [*primals, *(t for series in given for t in series)])
        rest = iter(found[len(held.outs):])
        return found[:len(held.outs)], [
            [next(rest) for _ in range(order)] if nz else None for nz in nonzero_outs]

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        """The results, and the linear program of their tangents."""
        body = self.body(params)
        if body.effects and touches_references(body.effects):
            return transformations.linearize(self, nonzeros, primals, params)
        nonzeros = tuple(nonzeros[self.aside:])
        key = self._key("linearize", params, nonzeros)
        first, second, split, nonzeros, nonzero_outs = body.recall(key) or body.keep(
            key, self._linearize_plan(self.differentiated(params), nonzeros))
        self.handed_on(split)
        outs, n = first(primals), self.aside
        avals = list(map(typeof, outs[:len(nonzero_outs)]))

        def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            found = second([*residuals, *map(instantiate, selected(nonzeros, tangents[n:]))]) if (
                any(nonzero_outs)) else ()
            return with_zeros(nonzero_outs, found, avals)

        residuals = [*primals[:n], *split.residuals(primals[n:], outs)]
        return outs[:len(nonzero_outs)], nonzero_outs, residuals, linear

    def _linearize_plan(self, held: Held, nonzeros: Sequence[bool]) -> Any:
        if self.times(held) is None or self.has_rules(held):
            pushed, nonzeros, nonzero_outs = self._pushed(held, nonzeros)
            return (self.runner(held), self._tangents(pushed, len(held.outs)),
                    Split(held, held, range(len(held.ins))), nonzeros, nonzero_outs)
        nonzeros, parts = self.complete(
            held, nonzeros, self.transforms.linearize, operator.attrgetter("unknown_outs"))
        split = self.split(
            held._replace(body=parts.known),
            Held(parts.unknown, self._derivatives(nonzeros, held.ins),
                 self._derivatives(parts.unknown_outs, held.outs), held.rest),
            parts.residual_forwarding)
        return (self.runner(split.first), self.runner(split.second), split, nonzeros,
                parts.unknown_outs)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        """The cotangents of the operands in which the body is linear."""
        aside, args = args[:self.aside], args[self.aside:]
        undefined = tuple([type(a) is UndefinedPrimal for a in args])
        nonzeros = tuple([type(ct) is not Zero for ct in cts])
        body, key = self.body(params), self._key("transpose", params, undefined, nonzeros)
        ahead, run, linear, nonzeros, nonzero_ins = body.recall(key) or body.keep(
            key, self._transpose_plan(self.differentiated(params), undefined, nonzeros))
        given, places = partition_list(linear, args)
        if ahead is not None:
            first, split = ahead
            given = split.residuals(given, first([*aside, *given]))
        found = run([*aside, *given, *map(instantiate, selected(nonzeros, cts))]) if any(
            nonzero_ins) else ()
        back = merge_lists(linear, [None] * (len(args) - len(places)), with_zeros(
            nonzero_ins, found,
            [x.aval if type(x) is UndefinedPrimal else typeof(x) for x in places]))
        if linear != undefined:
            back = [ct if u else None for u, ct in zip(undefined, back, strict=True)]
        return [*[None] * len(aside), *back]

    def _transpose_plan(self, held: Held, linear: Sequence[bool], nonzeros: Sequence[bool]) -> Any:
        """The part that runs ahead, the program backwards, and the marks of operands and results.

        A carry may start at a known zero, a tangent before the first step: it is linear, too. The
        part of a loop with carries that are not linear, such as a counter, runs ahead.
        """
        carries = self.carries(held)
        if not all(linear[i] for i, _ in carries):
            linear, parts = self.complete(
                held, linear, self.transforms.partial_eval, operator.attrgetter("unknown_outs"))
            if not all(linear[i] for i, _ in carries):
                split, unknown = self._cut(held, linear, parts), parts.unknown_outs
                n = len(split.residual_forwarding)
                _, run, _, nonzeros, nonzero_ins = self._transpose_plan(
                    split.second, [i >= n for i in range(len(split.second.ins))],
                    selected(unknown, nonzeros))
                return ((self.runner(split.first), split), run, linear, merge_lists(
                    unknown, [False] * unknown.count(False), nonzeros), nonzero_ins)
        known, back = partition_list(linear, held.ins)
        places = list(itertools.accumulate(linear))
        nonzeros, (body, nonzero_ins) = self.complete(
            Held(held.body, held.outs, back, held.rest), nonzeros,
            lambda body, marks, wanted: self.transforms.transpose(
                body, linear, marks, self.has_rules(held) or wanted),
            operator.itemgetter(1), [(j, places[i] - 1) for i, j in carries])
        reverse = self.ruled(Held(
            body, [*known, *self._derivatives(nonzeros, held.outs)],
            self._derivatives(nonzero_ins, back), held.rest),
            lambda rule: rule.transposed(held, linear, nonzeros))
        return None, self.transposed(held, reverse, len(known)), linear, nonzeros, nonzero_ins

    def _cut(self, held: Held, unknown: Sequence[bool], parts: Any) -> Split:
        """A program whose body was cut into a known part and the rest."""
        (known_ins, unknown_ins), (known_outs, unknown_outs) = (
            partition_list(unknown, held.ins), partition_list(parts.unknown_outs, held.outs))
        return self.split(
            Held(parts.known, known_ins, known_outs, held.rest),
            Held(parts.unknown, unknown_ins, unknown_outs, held.rest),
            parts.residual_forwarding)

    # -- the other rules ---------------------------------------------------------------------

    def partial_eval(self, interp: PartialEvalInterpreter, *args: Any, **params: Any) -> Any:
        """Runs the known part, and stages the rest."""
        unknown = tuple([interp.is_unknown(a) for a in args])
        body, key = self.body(params), self._key(
            "partial_eval", params, unknown, interp.effects_known)
        plan, n = () if any(unknown[:self.aside]) or (
            body.effects and touches_references(body.effects)) else body.recall(key), self.aside
        if plan is None:
            plan = body.keep(key, self._partial_eval_plan(
                self.again(self.open(params)), unknown[n:], interp.effects_known))
        if not plan:
            return StageInterpreter.process(interp, self.primitive, args, params)
        first, second, split, unknown, unknown_outs = plan
        self.handed_on(split)
        given, rest = partition_list(unknown, args[n:])
        known = interp.call_known(first, [*args[:n], *given])
        staged = interp.call_staged(second, [
            *args[:n], *split.residuals(given, known), *rest])
        return merge_lists(unknown_outs, known[:unknown_outs.count(False)], staged)

    def _partial_eval_plan(self, held: Held, unknown: Sequence[bool], effects_known: bool) -> Any:
        """None if nothing can be computed ahead: then one equation is enough."""
        carries = self.carries(held)
        if carries and held.body.effects and not effects_known:
            return ()
        unknown, parts = self.complete(
            held, unknown,
            functools.partial(self.transforms.partial_eval, effects_known=effects_known),
            operator.attrgetter("unknown_outs"))
        if not (parts.known.eqns or carries):
            return ()
        if self.times(held) is None:
            return self._run_again_plan(held, unknown, parts.unknown_outs)
        split = self._cut(held, unknown, parts)
        if self.nothing_ahead(split.first, parts.unknown_outs):
            return ()
        return (self.runner(split.first), self.runner(split.second), split, unknown,
                parts.unknown_outs)

    def _run_again_plan(self, held: Held, unknown: Sequence[bool], unknown_outs: Sequence[bool]
                        ) -> Any:
        """Runs the equations for known results, and stages the whole for the unknown ones."""
        if held.body.effects or all(unknown_outs):
            return ()
        known, known_outs = ([not u for u in flags] for flags in (unknown, unknown_outs))
        first, _, read = self._pruned(held, known_outs)
        run_first, whole, n = self.runner(first), self.runner(held), sum(known)
        read = selected(known, read)

        def run_again(args: Sequence[Any]) -> list[Any]:
            return selected(unknown_outs, whole(merge_lists(unknown, args[:n], args[n:])))

        return (lambda args: run_first(selected(read, args)), run_again,
                Split(first, held, range(n)), unknown, unknown_outs)

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        """The same for a batch, of the same operands."""
        body = self.body(params)
        if body.effects and touches_references(body.effects):
            return transformations.batch(self, axis, args, dims, params)
        dims, n = tuple(dims[self.aside:]), self.aside
        key = self._key("batch", params, axis, dims)
        run, moves, out_dims = body.recall(key) or body.keep(
            key, self._batch_plan(self.open(params), axis, dims))
        if moves is not None:
            args = [*args[:n], *(
                x if place is None else to_dim(x, d, place, axis.size)
                for x, d, place in zip(args[n:], dims, moves, strict=True))]
        return run(args), out_dims

    def _batch_plan(self, held: Held, axis: AxisData, dims: Sequence[int | None]) -> Any:
        batched, moves, out_dims = self.batched(held, axis, dims)
        return (self.runner(batched), None if all(place is None for place in moves) else moves,
                [None if d is None else self.batch_dim(how) or 0
                 for d, how in zip(out_dims, held.outs, strict=True)])

    def batched(self, held: Held, axis: AxisData, dims: Sequence[int | None]
                ) -> tuple[Held, list[int | None], list[int | None]]:
        """The program for a batch, where the batch dims of its operands have to be (None: as they
        are), and those of the results of its body."""
        places = list(map(self.batch_dim, held.ins))

        def batch(body: Any, marks: Sequence[bool], wanted: Sequence[bool]) -> Any:
            in_dims = [d if place is None else 0 if mark else None
                       for mark, d, place in zip(marks, dims, places, strict=True)]
            if self.rules and any(marks):
                wanted = self.alike(held)
            found = self.transforms.batch(body, axis, in_dims, wanted)
            if self.rules and not any(marks) and any(d is not None for d in found[1]):
                return self.transforms.batch(body, axis, in_dims, self.alike(held))
            return found

        marks, (body, out_dims) = self.complete(
            held, [d is not None for d in dims], batch,
            lambda found: [d is not None for d in found[1]])
        new = held._replace(body=body)
        if self.rules:
            new = self.ruled(new, lambda rule: rule.batched(new, axis, dims, out_dims))
        return new, [place if mark else None
                     for mark, place in zip(marks, places, strict=True)], out_dims

    def dce(self, used: Sequence[bool], eqn: JaxprEqn) -> Any:
        """The equation that gives the used results only."""
        held = self.open(eqn.params)
        smaller, used, used_ins = self._pruned(held, used)
        if not any(used) and not keeps_equation(smaller.body.effects):
            return [False] * len(eqn.invars), None
        if smaller.body == held.body:
            return [True] * len(eqn.invars), eqn
        used_ins = [*[True] * self.aside, *used_ins]
        return used_ins, self.equation(
            eqn, smaller, selected(used_ins, eqn.invars), selected(used, eqn.outvars))

    def recompute(self, saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> Any:
        """The equation that also returns saved values, and the one that recomputes results."""
        held, n = self.again(self.open(eqn.params)), self.aside
        carries = self.carries(held)
        # A carry is wanted again if its result is, or if a later iteration reads it.
        wanted, parts = self.complete(
            Held(held.body, held.outs, held.ins, held.rest), used,
            lambda body, marks, _: self.transforms.recompute(
                body, [True] * len(used), marks, saveable=saveable),
            lambda parts: [i in parts.residual_forwarding for i in range(len(held.ins))],
            [(j, i) for i, j in carries])
        second, sources = parts.unknown, parts.residual_forwarding
        if carries:
            read = dict(zip(sources, second.invars, strict=True))
            read = {i: Var(held.body.in_avals[i]) for i, j in carries if wanted[j]} | read
            sources = sorted(read)
            second = with_inputs(second, [read[s] for s in sources])
        split = self.hand_on(held._replace(body=parts.known), held._replace(
            body=second, ins=[], outs=selected(wanted, held.outs)), sources)
        outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
        known = self.equation(eqn, split.first, eqn.invars, outvars)
        types = self.primitive.infer([v.aval for v in known.invars], known.params)[0]
        outvars += map(Var, types[len(outvars):])
        return known.replace(outvars=outvars), self.equation(
            eqn, split.second, [*eqn.invars[:n], *split.residuals(eqn.invars[n:], outvars)],
            [v if u else DropVar(v.aval)
             for v, u, w in zip(eqn.outvars, used, wanted, strict=True) if w])

    def equation(self, eqn: JaxprEqn, held: Held, invars: Sequence[Any], outvars: Sequence[Any]
                 ) -> JaxprEqn:
        """An equation that holds this, made from another."""
        params, varying = self.close(held), [v.aval.varying for v in invars]
        if any(varying) and self.primitive.cast_varying is not None:
            params = cast_varying(self.primitive, varying, params)[1]
        return eqn.replace(params=params, invars=list(invars), outvars=list(outvars),
                           effects=self.effects(held.body))
