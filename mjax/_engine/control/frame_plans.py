"""Plans of equations that hold programs: transformed programs for marks of their operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.base.util import selected
from mjax._engine.control.cast_varying import varying_of
from mjax._engine.control.frame_types import FrameTypes
from mjax._engine.control.held import Held, Params, Runner
from mjax._engine.ir.jaxpr import Var
from mjax._engine.ir.references import written
from mjax._engine.transforms.dce import with_inputs
from mjax._engine.transforms.discharge import discharge_jaxpr, moved_last


class FramePlans(FrameTypes):
    """The parts that rules of a frame share; see `control.frame.Frame`."""

    # Rules look up earlier results for the same marks. They derive new ones within their own Python
    # frame: each further frame would lower the possible depth of nested programs.

    def _key(self, rule: str, params: Params, *marks: Any) -> Any:
        """The key of a plan: everything it depends on besides the body that keeps it."""
        rest = params.copy()
        del rest[self.param]
        return (rule, self.primitive, *marks, thread.settings, *rest.values())

    def complete(self, held: Held, marks: Sequence[bool], transform: Callable[..., Any],
                 marked_outs: Callable[[Any], Sequence[bool]],
                 carries: Sequence[tuple[int, int]] | None = None) -> tuple[list[bool], Any]:
        """Transforms the body, and marks carries until an iteration marks no more of them.

        Marks stand for tangents that are not zero, or for values that are batched or unknown.

        Args:
          held: the program.
          marks: of the operands.
          transform: from the body, the marks of its inputs, and the required marks of its results
            to a transformed body.
          marked_outs: the marks of the results of a transformed body.
          carries: pairs of operands and results that are marked alike, if not the program's.

        Returns:
          All marks of the operands, and the transformed body.
        """
        marks, carries = list(marks), self.carries(held) if carries is None else carries
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

    def differentiated(self, params: Params) -> Held:
        """The program whose derivatives are taken."""
        held = self.open(params)
        return held if self.rules_have_derivatives else self.again(held)

    def has_rules(self, held: Held) -> bool:
        """Whether users' rules of the program are transformed along with it."""
        return bool(self.rules) and held.rest is not None

    def ruled(self, held: Held, transform: Callable[[Any], Any]) -> Held:
        """The same with each of its rules transformed."""
        return held._replace(rest={
            **held.rest, **{name: transform(held.rest[name]) for name in self.rules}}
        ) if self.has_rules(held) else held

    def threading(self, params: Params, transform: Callable[..., Any], n: int) -> Runner:
        """Applies the primitive to transformed programs, which thread values.

        Args:
          params: its params.
          transform: from each program to one that takes n values behind its inputs, and gives n
            behind its results; to one that gives them only where devices run the body apart.
          n: their number.

        Returns:
          A function from the operands, and n values, to the results, and n values.
        """
        held = self.open(params)
        held, how = held if self.rules_thread else self.again(held), self.apart(held)
        with self.scope(held):
            if how is not None:
                held = held.transformed(transform, (), [how] * n)
                cut = [self.entered(held, how)] * n
                return self.runner(held._replace(body=self.transforms.cast(
                    held.body, varying_of(held.body),
                    [*(a.varying for a in held.body.out_avals[:-n]), *cut])))
            more = [self.threaded] * n
            new = held.transformed(transform, more, more)
        return self.runner(self.ruled(new, lambda rule: rule.threading(new, n))
                           if self.rules_thread else new)

    def _pruned(self, held: Held, used: Sequence[bool]) -> tuple[Held, list[bool], list[bool]]:
        """The program without the other results, but for what a later iteration reads; which
        results it gives, and which operands it takes."""
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
        smaller = Held(body, selected(used_ins, held.ins), selected(used, held.outs), held.rest)
        if self.has_rules(held) and not all(used):
            wanted = selected(used, range(len(used)))
            key = ("pruned", self.primitive, *wanted, *held.rest.values())
            smaller = held.body.cached(key, lambda: self.ruled(
                smaller, lambda rule: rule.pruned(wanted)))
        return smaller, used, used_ins

    # -- references ----------------------------------------------------------------

    def writes(self, params: Params) -> bool:
        """Whether an equation writes references that it is given."""
        effects = self.body(params).effects
        return bool(effects) and bool(written(effects))

    def discharged(self, params: Params, refs: Sequence[int], finals: Sequence[int],
                   last: bool = False, same: tuple[tuple[int, int], ...] = (),
                   kept: Sequence[int] = ()) -> Runner:
        """Applies the primitive to contents of references, followed by the kept references.

        Args:
          params: its params.
          refs: the operands that are references; their contents take their places.
          finals: those of them whose final contents are given, too, after the results.
          last, same, kept: see `discharge_jaxpr`.

        Raises:
          ValueError: the program has rules of its user's own for these references.
        """
        body = self.body(params)
        key = self._key("discharged", params, tuple(refs), tuple(finals), last, same,
                        tuple(kept))
        run: Runner = body.recall(key) or body.keep(
            key, self._discharged(params, refs, finals, last, same, kept))
        return run

    def _discharged(self, params: Params, refs: Sequence[int], finals: Sequence[int], last: bool,
                    same: tuple[tuple[int, int], ...], kept: Sequence[int]) -> Runner:
        held, n = self.open(params), self.aside
        if last and refs and self.has_rules(held):
            held = held._replace(rest=None)
        elif not last and not self.rules_thread:
            held = self.again(held)
        places, ends, more = ([i - n for i in numbers] for numbers in (refs, finals, kept))
        if refs and self.has_rules(held) and (same or not self.rules_thread):
            raise LazyValueError(lambda: (
                f"{self.primitive}: a function with a rule of its own takes references that the "
                "program around it reads or writes, and that program is transformed. Hand the "
                "function arrays, ref[...], and write its results to the references."))
        with self.scope(held):
            inner = held.transformed(
                lambda jaxpr: discharge_jaxpr(jaxpr, places, ends, last, tuple(
                    (i - n, j - n) for i, j in same), more).jaxpr)
        order = moved_last(len(held.ins), ends)
        hows = [self.mutable(held.ins[i], last) for i in ends]
        inner = inner._replace(
            ins=[*(held.ins[i] for i in order[:len(order) - len(ends)]), *(i for i, _ in hows),
                 *(held.ins[i] for i in more)],
            outs=[*held.outs, *(o for _, o in hows)])
        taken = [*order, *range(len(order), len(order) + len(more))]
        if refs and self.has_rules(inner):
            run = held.rest[self.rules[0]].of_contents(self, inner, order, places, ends, more)
        else:
            if more:
                inner, taken = self._without_unread(inner, taken, len(order))
            run = self.runner(inner)
        return lambda args: run([*args[:n], *(args[n + i] for i in taken)])

    def _without_unread(self, held: Held, operands: Sequence[int], n: int
                        ) -> tuple[Held, list[int]]:
        """The same without the operands behind the first n that no jaxpr reads."""
        read = {v for jaxpr in held.jaxprs for eqn in jaxpr.eqns for v in eqn.invars
                if type(v) is Var}
        wanted = [i < n or any(jaxpr.invars[i] in read for jaxpr in held.jaxprs)
                  for i in range(len(held.ins))]
        return held.transformed(lambda jaxpr: with_inputs(
            jaxpr, selected(wanted, jaxpr.invars)))._replace(
                ins=selected(wanted, held.ins)), selected(wanted, operands)
