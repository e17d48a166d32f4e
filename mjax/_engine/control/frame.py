"""Frames: how primitives hold programs, and the rules that follow from it.

A primitive that holds a jaxpr says how each operand enters it and how each result leaves it: as it
is, cut by a spec, with a flag of its own. Every transformation of the primitive is then the same
transformation of its jaxpr, whose new inputs and results enter and leave as those they come from.
The kit below derives the rules; a frame overrides what is truly its own.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import merge_lists, partition_list, selected
from mjax._engine.control.cast_varying import (
    Axes,
    bind_cast,
    joined,
    only_cast,
    varying_of,
)
from mjax._engine.control.held import OF_JAXPRS, Held, How, Params, Runner, Split
from mjax._engine.ir.effects import Effects, renumbered
from mjax._engine.ir.jaxpr import DropVar, JaxprEqn, Var
from mjax._engine.ir.types import same_type_but_weak, typeof
from mjax._engine.primitives.tangents import instantiate, with_zeros
from mjax._engine.tracing.primitive import Primitive, no_axes
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, to_dim
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter
from mjax._engine.transforms.recomputation import Policy

_NOWHERE: AbstractContextManager[Any] = nullcontext()
#: The rules of a frame whose equations are neither made two nor smaller.
UNCUT = ("abstract_eval", "typecheck", "cast_varying", "jvp", "linearize", "transpose",
         "axis_batch")


class Frame:
    """Gives a primitive that holds a jaxpr its rules, but for impl and lowering.

    As it is, the frame says that the primitive is a call: its operands are the inputs of the jaxpr,
    its results those of the jaxpr. A subclass says otherwise, by `open`, `close` and the other
    declarations. What transforms the primitive transforms the jaxpr.

    Args:
      primitive: the primitive; its applications give several results. It is found again as
        `primitive.frame`.
      param: which of its params is the jaxpr.

    Raises:
      TypeError: the primitive was made without `multiple_results=True`.

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
    #: Whether an equation keeps operands that its body does not read.
    keeps_operands = False
    #: How many leading operands do not enter the body; each equation that is made has them too.
    aside = 0
    #: How a value enters and leaves that each iteration, if there are several, hands to the next.
    threaded: How = None
    #: The functions that transform the body.
    transforms = OF_JAXPRS
    #: The params that are users' rules of the program, which are transformed along with it.
    rules: tuple[str, ...] = ()

    def __init__(self, primitive: Primitive, param: str = "jaxpr"):
        if not primitive.multiple_results:
            msg = (f"a frame for the primitive {primitive.name!r}: it holds a program, which gives "
                   "a list of results; make it with multiple_results=True.")
            raise TypeError(msg)
        self.primitive = primitive
        self.param = param
        primitive.frame = self
        # The types of its results, and along which axes they vary, are those of the body.
        primitive.types_cacheable, primitive.own_varying = False, True
        for field in self.derives:
            primitive.define(field, getattr(self, field),
                             derived=getattr(type(self), field) is getattr(Frame, field))

    # -- what a frame declares: here, a call ------------------------------------------------

    def body(self, params: Params) -> Any:
        """The program that is transformed, a jaxpr; plans are kept on it."""
        return params[self.param]

    def open(self, params: Params) -> Held:
        """The program that an equation with these params holds."""
        rest = {name: value for name, value in params.items() if name != self.param}
        body = self.body(params)
        return Held(body, [None] * len(body.invars), [None] * len(body.outvars), rest)

    def close(self, held: Held) -> Params:
        """The params of an equation that holds this."""
        return {self.param: held.body, **held.rest}

    def again(self, held: Held) -> Held:
        """The same, for equations that are made from this one and may read its operands, too."""
        return held

    def derivative(self, how: How) -> How:
        """How a tangent of an operand, or a cotangent of a result, enters, and how that of a result
        or of an operand leaves."""
        return how

    def scope(self, held: Held) -> AbstractContextManager[Any]:
        """The context in which the body is transformed: its axes are in scope."""
        return _NOWHERE

    def entered(self, held: Held, how: How) -> Axes:
        """The mesh axes along which an operand varies because it enters."""
        return no_axes

    def outer(self, held: Held, aval: Any, how: How) -> Any:
        """The type of a result that leaves the body with this type."""
        return aval

    def runner(self, held: Held) -> Runner:
        """A function from operands to results that applies the primitive, or evaluates the body
        where nothing else is held."""
        if held.rest is None:
            body = held.body
            return lambda args: eval_jaxpr(body, body.consts, *args)
        params = self.close(held)
        return lambda args: bind_cast(self.primitive, args, params)

    def times(self, held: Held) -> int | None:
        """How often the body runs; None if that is not known when the program is compiled.

        A loop of unknown length cannot keep values of its iterations. Its linear program, and
        that of its unknown results, run it once more.
        """
        return 1

    def carries(self, held: Held) -> list[tuple[int, int]]:
        """Which results an iteration hands to the next, and the operands that take them: pairs of
        their places, operand first."""
        return []

    def batch_dim(self, how: How) -> int | None:
        """The batch dimension that an operand or a result must have; None: any."""
        return None

    def nothing_ahead(self, first: Held, unknown_outs: Sequence[bool]) -> bool:
        """Whether the known part does nothing that is worth an equation of its own."""
        return not first.body.eqns

    def hand_on(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        """Lets the residuals of a program that is cut in two leave the first and enter the second.

        Args:
          first: its body also gives residuals that are neither operands nor results; how these
            leave is not among its `outs` yet.
          second: its body takes all residuals first; how these enter is not among its `ins` yet.
          residual_forwarding: where they are among the inputs and results of the first body.
        """
        more = len(first.body.outvars) - len(first.outs)
        hows = [*first.ins, *map(self.derivative, first.outs), *[self.derivative(None)] * more]
        return Split(first._replace(outs=[*first.outs, *[None] * more]), second._replace(
            ins=[*(hows[s] for s in residual_forwarding), *second.ins]), residual_forwarding)

    def split(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        """`hand_on` where what is handed on may be chosen: for derivatives, partial evaluation."""
        return self.hand_on(first, second, residual_forwarding)

    def handed_on(self, split: Split) -> None:
        """Told of each application that was split, for derivatives and for partial evaluation."""

    def alike(self, held: Held) -> list[bool]:
        """Which results of a program with rules are batched if any operand or result is."""
        return [True] * len(held.outs)

    def transposed(self, held: Held, back: Held, known: int) -> Held:
        """The transpose as it is to be, from that of the body alone.

        Args:
          held: the program.
          back: from so many known operands and the cotangents of results to those of operands.
          known: the number of these operands.
        """
        return back

    # -- the kit: marks and plans -----------------------------------------------------------

    # Rules look up what was derived for the same marks before. They call what derives it from
    # their own frame: programs are nested as deep as Python's stack lets them be.

    def _key(self, rule: str, params: Params, *marks: Any) -> Any:
        """The key of a plan: everything it depends on besides the body that keeps it."""
        rest = params.copy()
        del rest[self.param]
        return (rule, self.primitive, *marks, thread.settings, *rest.values())

    def complete(self, held: Held, marks: Sequence[bool], transform: Callable[..., Any],
                 marked_outs: Callable[[Any], Sequence[bool]]) -> tuple[list[bool], Any]:
        """Transforms the body, and marks carries until an iteration marks no more of them.

        Marks stand for tangents that are not zero, or for values that are batched or unknown.

        Args:
          held: the program.
          marks: of the operands.
          transform: from the body, the marks of its inputs, and which results have to be marked,
            to a transformed body.
          marked_outs: which results of that are marked.

        Returns:
          All marks of the operands, and the transformed body.
        """
        marks, carries = list(marks), self.carries(held)
        while True:
            wanted = [False] * len(held.outs)
            for i, j in carries:
                wanted[j] = marks[i]
            with self.scope(held):
                found = transform(held.body, marks, wanted)
            outs = marked_outs(found)
            grown = [i for i, j in carries if outs[j] and not marks[i]]
            if not grown:
                return marks, found
            for i in grown:
                marks[i] = True

    def ruled(self, held: Held, transform: Callable[[Any], Any]) -> Held:
        """The same with each rule transformed."""
        return held._replace(rest={
            **held.rest, **{name: transform(held.rest[name]) for name in self.rules}})

    # -- the kit: types ---------------------------------------------------------------------

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """Types of the results, and the effects of the body."""
        body = self.body(params)
        if type(self).outer is Frame.outer:  # each call that is traced asks
            return body.out_avals, self.effects(body)
        held = self.open(params)
        return [self.outer(held, a, how) for a, how in zip(
            body.out_avals, held.outs, strict=True)], self.effects(body)

    def effects(self, body: Any) -> Effects:
        """The effects of an equation that holds a body."""
        effects: Effects = body.effects
        return effects and renumbered(
            effects, range(self.aside, self.aside + len(body.invars)))

    def typecheck(self, *avals: Any, **params: Any) -> None:
        """Compares the operands with the inputs of the body, and carries after an iteration with
        those before it."""
        held = self.open(params)
        body = held.body
        check_program_inputs(self.primitive, [self.outer(held, a, how) for a, how in zip(
            body.in_avals, held.ins, strict=True)], avals)
        for i, j in self.carries(held):
            before, after = body.in_avals[i], body.out_avals[j]
            if not same_type_but_weak(before, after):
                msg = f"{self.primitive}: the carry {before} becomes {after}"
                raise TypeError(msg)

    def cast_varying(self, varying: Sequence[Axes], **params: Any) -> Any:
        """Along which axes the operands vary, and params for that; see `tracing.primitive`."""
        held = self.open(params)
        entered = [self.entered(held, how) for how in held.ins]
        wanted, carries = joined(varying, entered, varying_of(held.body)), self.carries(held)
        with self.scope(held):
            body = self.transforms.cast(held.body, wanted)
            if carries:
                body, wanted = self._steady(held, carries, body, wanted)
        return [w - e for w, e in zip(wanted, entered, strict=True)], self.close(
            held._replace(body=body))

    def _steady(self, held: Held, carries: Sequence[tuple[int, int]], body: Any,
                wanted: list[Axes]) -> tuple[Any, list[Axes]]:
        """A body whose carries vary before an iteration along what they vary along after it.

        Another operand that the body does nothing with but cast it is cast in front of the loop:
        its cotangent is summed over devices once, not once per iteration.
        """
        while True:
            grown = list(wanted)
            for i, j in carries:
                grown[i] |= body.out_avals[j].varying
            if grown == wanted:
                break
            wanted = grown
            body = self.transforms.cast(held.body, wanted)
        carried = {i for i, _ in carries}
        wanted = [w if i in carried else w | only_cast(body, var)
                  for i, (w, var) in enumerate(zip(wanted, body.invars, strict=True))]
        outs = [no_axes] * len(held.outs)
        for i, j in carries:
            outs[j] = wanted[i]
        return self.transforms.cast(held.body, wanted, outs), wanted

    # -- the kit: derivatives ---------------------------------------------------------------

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> Any:
        """The forward derivative."""
        tangents = tangents[self.aside:]
        nonzeros = tuple([type(t) is not Zero for t in tangents])
        body, key = self.body(params), self._key("jvp", params, nonzeros)
        run, nonzeros, nonzero_outs = body.recall(key) or body.keep(
            key, self._jvp_plan(self.again(self.open(params)), nonzeros))
        outs = run([*primals, *map(instantiate, selected(nonzeros, tangents))])
        n = len(nonzero_outs)
        return outs[:n], with_zeros(nonzero_outs, outs[n:], map(typeof, outs))

    def _jvp_plan(self, held: Held, nonzeros: Sequence[bool]) -> Any:
        nonzeros, (body, nonzero_outs) = self.complete(
            held, nonzeros, self.transforms.jvp, operator.itemgetter(1))
        return self.runner(held._replace(
            body=body, ins=[*held.ins, *self._derivatives(nonzeros, held.ins)],
            outs=[*held.outs, *self._derivatives(nonzero_outs, held.outs)])), nonzeros, nonzero_outs

    def _derivatives(self, nonzeros: Sequence[bool], hows: Sequence[How]) -> list[How]:
        return [self.derivative(how) for how in selected(nonzeros, hows)]

    def linearize(self, nonzeros: Sequence[bool], *primals: Any, **params: Any) -> Any:
        """The results, and the linear program of their tangents."""
        nonzeros = tuple(nonzeros[self.aside:])
        body, key = self.body(params), self._key("linearize", params, nonzeros)
        first, second, split, nonzeros, nonzero_outs = body.recall(key) or body.keep(
            key, self._linearize_plan(self.again(self.open(params)), nonzeros))
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
        if self.times(held) is None:
            run, nonzeros, nonzero_outs = self._jvp_plan(held, nonzeros)
            n = len(held.outs)
            return (self.runner(held), lambda args: run(args)[n:],
                    Split(held, held, range(len(held.ins))), nonzeros, nonzero_outs)
        nonzeros, parts = self.complete(
            held, nonzeros, self.transforms.linearize, operator.attrgetter("unknown_outs"))
        split = self.split(
            held._replace(body=parts.known),
            held._replace(body=parts.unknown, ins=self._derivatives(nonzeros, held.ins),
                          outs=self._derivatives(parts.unknown_outs, held.outs)),
            parts.residual_forwarding)
        return (self.runner(split.first), self.runner(split.second), split, nonzeros,
                parts.unknown_outs)

    def transpose(self, cts: Any, *args: Any, **params: Any) -> Any:
        """The cotangents of the operands in which the body is linear."""
        aside, args = args[:self.aside], args[self.aside:]
        undefined = tuple([type(a) is UndefinedPrimal for a in args])
        nonzeros = tuple([type(ct) is not Zero for ct in cts])
        body, key = self.body(params), self._key("transpose", params, undefined, nonzeros)
        run, nonzero_ins = body.recall(key) or body.keep(
            key, self._transpose_plan(self.again(self.open(params)), undefined, nonzeros))
        given, places = partition_list(undefined, args)
        found = run([*aside, *given, *selected(nonzeros, cts)]) if any(nonzero_ins) else ()
        return [*[None] * len(aside), *merge_lists(undefined, [None] * len(given), with_zeros(
            nonzero_ins, found, [p.aval for p in places]))]

    def _transpose_plan(self, held: Held, undefined: Sequence[bool], nonzeros: Sequence[bool]
                        ) -> Any:
        with self.scope(held):
            body, nonzero_ins = self.transforms.transpose(held.body, undefined, nonzeros, False)
        known, linear = partition_list(undefined, held.ins)
        return self.runner(self.transposed(held, held._replace(
            body=body, ins=[*known, *self._derivatives(nonzeros, held.outs)],
            outs=self._derivatives(nonzero_ins, linear)), len(known))), nonzero_ins

    # -- the kit: the other rules -----------------------------------------------------------

    def partial_eval(self, interp: PartialEvalInterpreter, *args: Any, **params: Any) -> Any:
        """Runs what is known, and stages the rest."""
        unknown = tuple([interp.is_unknown(a) for a in args])
        body, key = self.body(params), self._key(
            "partial_eval", params, unknown, interp.effects_known)
        plan, n = () if any(unknown[:self.aside]) else body.recall(key), self.aside
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
        """Nothing, if nothing can be done ahead: one equation says the same as two then."""
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
        (known_ins, unknown_ins), (known_outs, unknown_outs) = (
            partition_list(unknown, held.ins), partition_list(parts.unknown_outs, held.outs))
        split = self.split(
            held._replace(body=parts.known, ins=known_ins, outs=known_outs),
            held._replace(body=parts.unknown, ins=unknown_ins, outs=unknown_outs),
            parts.residual_forwarding)
        if self.nothing_ahead(split.first, parts.unknown_outs):
            return ()
        return (self.runner(split.first), self.runner(split.second), split, unknown,
                parts.unknown_outs)

    def _run_again_plan(self, held: Held, unknown: Sequence[bool], unknown_outs: Sequence[bool]
                        ) -> Any:
        """Runs what the known results need, and stages the whole for the unknown ones."""
        if held.body.effects or all(unknown_outs):
            return ()
        known, known_outs = ([not u for u in flags] for flags in (unknown, unknown_outs))
        body, _ = self.transforms.dce(held.body, known_outs, known)
        first = held._replace(body=body, ins=selected(known, held.ins),
                              outs=selected(known_outs, held.outs))
        whole, n = self.runner(held), sum(known)

        def run_again(args: Sequence[Any]) -> list[Any]:
            return selected(unknown_outs, whole(merge_lists(unknown, args[:n], args[n:])))

        return self.runner(first), run_again, Split(first, held, range(n)), unknown, unknown_outs

    def axis_batch(self, axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
        """The same for a batch, of the same operands."""
        dims, n = tuple(dims[self.aside:]), self.aside
        body, key = self.body(params), self._key("batch", params, axis, dims)
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
        used, carries, kept = list(used), self.carries(held), [self.keeps_operands] * len(held.ins)
        while True:
            for i, j in carries:
                kept[i] = used[j]
            body, used_ins = self.transforms.dce(held.body, used, kept)
            read = [j for i, j in carries if used_ins[i] and not used[j]]
            if not read:
                break
            for j in read:  # by a later iteration
                used[j] = True
        if not any(used) and not body.effects:
            return [False] * len(eqn.invars), None
        smaller = held._replace(body=body, ins=selected(used_ins, held.ins),
                                outs=selected(used, held.outs))
        if self.rules and not all(used):
            wanted = [i for i, u in enumerate(used) if u]
            smaller = held.body.cached(self._key("pruned", eqn.params, *wanted), lambda: self.ruled(
                smaller, lambda rule: rule.pruned(wanted)))
        used_ins = [*[True] * self.aside, *used_ins]
        return used_ins, self.equation(
            eqn, smaller, selected(used_ins, eqn.invars), selected(used, eqn.outvars))

    def recompute(self, saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> Any:
        """The equation that also gives what it saves, and the one that gives results again."""
        held, n = self.again(self.open(eqn.params)), self.aside
        with self.scope(held):
            parts = self.transforms.recompute(held.body, [True] * len(used), used, saveable)
        split = self.hand_on(held._replace(body=parts.known), held._replace(
            body=parts.unknown, ins=[], outs=selected(used, held.outs)), parts.residual_forwarding)
        outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
        known = self.equation(eqn, split.first, eqn.invars, outvars)
        types = self.primitive.infer([v.aval for v in known.invars], known.params)[0]
        outvars += map(Var, types[len(outvars):])
        return known.replace(outvars=outvars), self.equation(
            eqn, split.second, [*eqn.invars[:n], *split.residuals(eqn.invars[n:], outvars)],
            selected(used, eqn.outvars))

    def equation(self, eqn: JaxprEqn, held: Held, invars: Sequence[Any], outvars: Sequence[Any]
                 ) -> JaxprEqn:
        """An equation that holds this, made from another."""
        params, varying = self.close(held), [v.aval.varying for v in invars]
        if any(varying) and self.primitive.cast_varying is not None:
            params = self.primitive.cast_varying(varying, **params)[1]
        return eqn.replace(params=params, invars=list(invars), outvars=list(outvars),
                           effects=self.effects(held.body))


def check_program_inputs(primitive: Primitive, expected: Sequence[Any], avals: Sequence[Any]
                         ) -> None:
    """Compares the operands of a primitive with those that its program takes.

    Raises:
      TypeError: their number or a type differs; shows both.
    """
    if len(avals) != len(expected) or not all(map(same_type_but_weak, avals, expected)):
        msg = (f"{primitive} of a program that takes {', '.join(map(str, expected))} "
               f"applied to {', '.join(map(str, avals))}")
        raise TypeError(msg)
