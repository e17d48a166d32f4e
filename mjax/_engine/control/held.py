"""Programs as equations hold them, and the functions that transform them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.control.cast_varying import widened
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.transforms.batching import batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

Params = dict[str, Any]
#: From operands to results.
Runner = Callable[[Sequence[Any]], list[Any]]
#: How an operand enters a program, or a result leaves it; its meaning is the frame's own.
How = Any


class Held(Record):
    """A program as an equation holds it.

    Attributes:
      body: a jaxpr, or a tuple of jaxprs: branches, or the body and the condition of a loop.
      ins: how each operand enters it.
      outs: how each result leaves it.
      rest: all other params; None for a program by itself.

    Example:
      >>> from mjax_ext import core
      >>> eqn, = mjax.make_jaxpr(mjax.jit(lax.sin))(1.0).eqns
      >>> held = eqn.primitive.frame.open(eqn.params)
      >>> held.ins, held.outs  # not donated
      ((False,), [None])
    """

    body: Any
    ins: Sequence[How]
    outs: Sequence[How]
    rest: Any

    @property
    def jaxprs(self) -> tuple[Jaxpr, ...]:
        """The jaxprs of the body."""
        return self.body if isinstance(self.body, tuple) else (self.body,)

    def transformed(self, f: Callable[[Jaxpr], Jaxpr], more_ins: Sequence[How] = (),
                    more_outs: Sequence[How] = ()) -> Held:
        """The same with each jaxpr transformed.

        Args:
          f: the transformation; it may append inputs and results.
          more_ins: how operands enter the added inputs.
          more_outs: how the added results leave.
        """
        body = (type(self.body)(map(f, self.body)) if isinstance(self.body, tuple)
                else f(self.body))
        return self._replace(body=body, ins=[*self.ins, *more_ins], outs=[*self.outs, *more_outs])


class Split(Record):
    """A program split in two: the second takes operands and results of the first, its residuals.

    Attributes:
      first: returns its own results, then residuals that are neither operands nor results.
      second: takes all residuals, then its own operands.
      residual_forwarding: the place of each residual among the operands and results of `first`.
    """

    first: Held
    second: Held
    residual_forwarding: Sequence[int]

    def residuals(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the operands and results of `first`."""
        both = [*ins, *outs]
        return [both[i] for i in self.residual_forwarding]


class Transforms(Record):
    """Functions that transform bodies; `OF_JAXPRS` are those of jaxprs."""

    #: From a transformation of a jaxpr that adds inputs and results, as jvp does, to one of bodies.
    along: Callable[[Callable[..., Any]], Callable[..., Any]]
    linearize: Callable[..., Any]
    transpose: Callable[..., Any]
    partial_eval: Callable[..., Any]
    batch: Callable[..., Any]
    dce: Callable[..., Any]
    recompute: Callable[..., Any]
    cast: Callable[..., Any]


OF_JAXPRS = Transforms(lambda push: push, linearize_jaxpr, transpose_jaxpr, partial_eval_jaxpr,
                       batch_jaxpr, dce_jaxpr, recompute_jaxpr, widened)
