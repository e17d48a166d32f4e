"""Declarations: how an equation holds a program, by default as a call.

A subclass changes how operands enter the program and results leave it, and the other declarations;
the kit in `control/frame.py` derives the rules from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from mjax._engine.control.cast_varying import Axes, bind_cast
from mjax._engine.control.held import OF_JAXPRS, Held, How, Params, Runner, Split
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr

_NOWHERE: AbstractContextManager[Any] = nullcontext()


class Declarations:
    """How the equations of a primitive hold a program; see `control.frame.Frame`."""

    #: The primitive whose equations these are.
    primitive: Primitive
    #: The name of the param with the program.
    param: str
    #: Whether an equation keeps operands that its body does not read.
    keeps_operands = False
    #: Whether a body without equations is evaluated in place of an equation.
    drops_empty = False
    #: The number of leading operands that do not enter the body; derived equations have them too.
    aside = 0
    #: How a value that iterations pass on enters and leaves.
    threaded: How = None
    #: How a value of each run of the body leaves, and enters the same run of this or of another
    #: program; if devices run the body apart, `apart` says it.
    each: How = None
    #: Whether only one of several jaxprs in the body runs.
    one_runs = False
    #: The frame of derived equations, if these are calls rather than of this primitive.
    becomes: Declarations | None = None
    #: The functions that transform the body.
    transforms = OF_JAXPRS
    #: The params that are users' rules of the program, which are transformed along with it.
    rules: tuple[str, ...] = ()
    #: Whether these can become rules of a program that threads more values.
    rules_thread = False
    #: Whether these are differentiated and transposed, too; else derivatives do not have them.
    rules_have_derivatives = False

    def body(self, params: Params) -> Any:
        """The program that is transformed, a jaxpr; plans are kept on it."""
        return params[self.param]

    def open(self, params: Params) -> Held:
        """The program that an equation with these params holds."""
        rest = {name: value for name, value in params.items() if name != self.param}
        body = self.body(params)
        return Held(body, [None] * len(body.invars), [None] * len(body.outvars), rest)

    def close(self, held: Held) -> Params:
        """The params of an equation that holds this program."""
        return {self.param: held.body, **held.rest}

    def again(self, held: Held) -> Held:
        """The same, for equations that are made from this one and may read its operands, too."""
        return held

    def derivative(self, how: How) -> How:
        """How a tangent of an operand or a cotangent of a result enters, and how the tangent of a
        result or the cotangent of an operand leaves."""
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
        """A function from operands to results that applies the primitive, or evaluates a program
        that is only a body."""
        body = held.body
        if held.rest is None or (self.drops_empty and not body.eqns):
            return lambda args: eval_jaxpr(body, body.consts, *args)
        if self.becomes is not None:
            return self.becomes.runner(held._replace(rest={}))
        params = self.close(held)
        return lambda args: bind_cast(self.primitive, args, params)

    def apart(self, held: Held) -> How:
        """How a value of each device leaves, with a new leading axis, if each device runs the body
        by itself; None if values are threaded."""
        return None

    def times(self, held: Held) -> int | None:
        """The number of runs of the body; None if that is not known at compilation.

        A loop of unknown length cannot keep values of its iterations. Its linear program, and
        that of its unknown results, run it once more.
        """
        return 1

    def runs_on(self, held: Held) -> bool:
        """Whether the body also runs for elements of a batch that do not need it any more."""
        return False

    def pieces(self, held: Held) -> int:
        """The number of devices that run the body, each with a piece of its own."""
        return 1

    def mutable(self, how: How, last: bool) -> tuple[How, How]:
        """For a written reference that enters this way: how its contents enter, and how the final
        contents leave; the last time, no derivatives will follow."""
        return self.threaded, self.threaded

    def carries(self, held: Held) -> list[tuple[int, int]]:
        """The results that an iteration passes to the next: pairs of the place of the operand and
        the place of the result."""
        return []

    def batch_dim(self, how: How) -> int | None:
        """The batch dimension that an operand or a result must have; None: any."""
        return None

    def nothing_ahead(self, first: Held, unknown_outs: Sequence[bool]) -> bool:
        """Whether the known part is too small for an equation of its own."""
        return not first.body.eqns

    def hand_on(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        """Lets the residuals of a program that is cut in two leave the first and enter the second.

        The second may pass on values between iterations, too, and compute them again.

        Args:
          first: its body also gives residuals that are neither operands nor results; how these
            leave is not among its `outs` yet.
          second: its body takes all residuals first; how these enter is not among its `ins` yet.
          residual_forwarding: where they are among the inputs and results of the first body.
        """
        n = len(first.ins)
        body, sources = self._with_each(
            first, residual_forwarding, {n + j for _, j in self.carries(first)})
        more = len(body.outvars) - len(first.outs)
        hows = [*map(self.derivative, first.outs), *[self.derivative(self.each)] * more]
        hows = [*first.ins, *hows]
        return Split(
            first._replace(body=body, outs=[*first.outs, *[self.each] * more]),
            second._replace(ins=[*(hows[s] for s in sources), *second.ins]), sources)

    def split(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        """`hand_on` for derivatives and partial evaluation, where what is handed on may be chosen.

        The second gets the values that the first passes on between iterations.
        """
        body, sources = self._with_each(
            first, residual_forwarding, {i for i, _ in self.carries(first)})
        return self.hand_on(first._replace(body=body), second, sources)

    def _with_each(self, first: Held, sources: Sequence[int], passed_on: set[int]
                   ) -> tuple[Any, list[int]]:
        """A body that also gives, in each run, the residuals among the values that iterations pass
        on; and where all residuals are then."""
        body, n = first.body, len(first.ins)
        moved = [s for s in dict.fromkeys(sources) if s in passed_on]
        if not moved:
            return body, list(sources)
        atoms, places = [*body.invars, *body.outvars], dict(zip(sources, sources, strict=True))
        given = {atoms[n + j]: n + j for j, how in enumerate(first.outs) if how == self.each}
        for s in moved:
            if atoms[s] not in given:
                given[atoms[s]] = len(atoms)
                atoms.append(atoms[s])
            places[s] = given[atoms[s]]
        return body.replace(outvars=atoms[n:]), [places[s] for s in sources]

    def handed_on(self, split: Split) -> None:
        """Told of each application that was split, for derivatives and for partial evaluation."""

    def alike(self, held: Held) -> list[bool]:
        """The results of a program with rules that are batched if any operand or result is."""
        return [True] * len(held.outs)

    def transposed(self, held: Held, back: Held, known: int) -> Runner:
        """Applies the transpose, which is that of the body alone so far.

        Args:
          held: the program.
          back: from known operands and the cotangents of results to the cotangents of operands.
          known: the number of these operands.
        """
        return self.runner(back)
