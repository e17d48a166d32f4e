"""Types of equations that hold programs: of results, of operands, and of carries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from mjax._engine.base.util import counted
from mjax._engine.control.cast_varying import Axes, joined, only_cast, varying_of
from mjax._engine.control.declarations import Declarations
from mjax._engine.control.held import Held, Params
from mjax._engine.ir.effects import Effects, renumbered
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.source import here
from mjax._engine.ir.types import same_array_type, same_type_but_weak, typeof
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at, describe_value, where


class FrameTypes(Declarations):
    """The rules of a frame that work on types; see `control.frame.Frame`."""

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        """Types of the results, and the effects of the body."""
        body = self.body(params)
        if type(self).outer is Declarations.outer:  # a fast path: each traced call runs this
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

    def check_operands(self, args: Sequence[Any], params: Params) -> None:
        """Refuses operands that the program does not take. They may vary otherwise, as long as the
        equation is not made.

        Raises:
          TypeError: their number or a type differs; shows both.
        """
        self.primitive.check_params(params)
        if type(self).body is Declarations.body and not isinstance(
                program := params.get(self.param), Jaxpr):
            msg = (f"primitive {self.primitive.name!r} holds a program: its param {self.param!r} "
                   "must be a jaxpr, as mjax.make_jaxpr(f)(*args) gives, not "
                   f"{describe_value(program)}.")
            raise TypeError(msg)
        held = (self.open if type(self).open is Declarations.open else self._opened)(params)
        avals = list(map(typeof, args))
        expected = [*avals[:self.aside], *(self.outer(held, a, how) for a, how in zip(
            held.body.in_avals, held.ins, strict=True))]
        if len(avals) != len(expected) or not all(map(same_array_type, avals, expected)):
            _refuse_operands(self.primitive, expected, avals)

    def _opened(self, params: Params) -> Held:
        """The result of an author's `open`, checked.

        Raises:
          TypeError: it is not a program with its operands and results.
        """
        cls, name = type(self), self.primitive.name
        who = f"{cls.__name__}.open ({where(cls.open)}), for the primitive {name!r}"
        try:
            held = self.open(params)
        except Exception as error:
            error.add_note(f"Raised in {who}.\n{applied_at(here())}")
            raise
        if not isinstance(held, Held):
            msg = f"{who}, returned {describe_value(held)}; it must return a core.Held."
            raise TypeError(msg)
        if not held.jaxprs or not all(isinstance(body, Jaxpr) for body in held.jaxprs):
            msg = (f"{who}, returned {describe_value(held.body)} for the body; it must be a jaxpr, "
                   "or a tuple of jaxprs.")
            raise TypeError(msg)
        for field, entries, avals, what in (("ins", held.ins, held.body.in_avals, "input"),
                                            ("outs", held.outs, held.body.out_avals, "result")):
            if not isinstance(entries, Sequence) or len(entries) != len(avals):
                msg = (f"{who}, returned {describe_value(entries)} for {field}; it must be a list, "
                       f"one for each of {counted(len(avals), what)} of the program.")
                raise TypeError(msg)
        return held

    def cast_varying(self, varying: Sequence[Axes], **params: Any) -> Any:
        """The axes along which operands vary, and params for them; see `tracing.primitive`."""
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
        """A body whose carries vary along the same axes before and after an iteration.

        Another operand that the body only casts is cast in front of the loop. So its cotangent is
        summed over devices once, not once per iteration.
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


def check_program_inputs(primitive: Primitive, expected: Sequence[Any], avals: Sequence[Any]
                         ) -> None:
    """Compares the operands of a primitive with those that its program takes.

    Raises:
      TypeError: their number or a type differs; shows both.
    """
    if len(avals) != len(expected) or not all(map(same_type_but_weak, avals, expected)):
        _refuse_operands(primitive, expected, avals)


def _refuse_operands(primitive: Primitive, expected: Sequence[Any], avals: Sequence[Any]
                     ) -> NoReturn:
    msg = (f"{primitive} of a program that takes {', '.join(map(str, expected)) or 'nothing'} "
           f"applied to {', '.join(map(str, avals)) or 'nothing'}: the operands must have the "
           "types of the program's inputs.")
    raise TypeError(msg)
