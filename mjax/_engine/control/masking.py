"""Programs with a mask: their effects happen only where it holds.

A `cond` with a batched index runs all branches for all elements of the batch. A branch takes as a
mask whether its element takes it. The mask is threaded through the programs that it holds, and
primitives with a rule in `mask_rules` read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import forbidden
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray
from mjax._engine.tracing.interpreter import Interpreter, running
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr

#: Primitive -> its application where the mask, a scalar, holds: `(mask, args, params) -> results`.
mask_rules: dict[Primitive, Callable[[Any, Sequence[Any], dict[str, Any]], Any]] = {}

_MASK = ShapedArray((), np.dtype(bool))


def reads_mask(jaxpr: Jaxpr) -> bool:
    """Whether a primitive in the program reads a mask."""
    found: bool = bool(jaxpr.effects) and jaxpr.cached("reads mask", lambda: any(
        _reads_mask(eqn.primitive, eqn.params) for eqn in jaxpr.eqns))
    return found


def _reads_mask(primitive: Primitive, params: dict[str, Any]) -> bool:
    return primitive in mask_rules or any(map(reads_mask, _programs(primitive, params)))


def _programs(primitive: Primitive, params: dict[str, Any]) -> Sequence[Jaxpr]:
    """The programs through which a mask is threaded."""
    frame = primitive.frame
    if frame is None:
        return ()
    held = frame.open(params)
    programs: Sequence[Jaxpr] = held.jaxprs if frame.apart(held) is None else ()
    return programs


def maskable(jaxpr: Jaxpr) -> bool:
    """Whether all effects that need a mask get it."""
    return all(eqn.primitive in mask_rules or _all_maskable(_programs(eqn.primitive, eqn.params))
               for eqn in jaxpr.eqns if forbidden(eqn.effects, "masked"))


def _all_maskable(programs: Sequence[Jaxpr]) -> bool:
    return bool(programs) and all(map(maskable, programs))


def masked(jaxpr: Jaxpr) -> Jaxpr:
    """The program with a mask as an additional last input and result."""

    def run(*args: Any) -> list[Any]:
        with running(_MaskInterpreter(thread.interpreter, args[-1])):
            outs = eval_jaxpr(jaxpr, jaxpr.consts, *args[:-1])
        return [*outs, args[-1]]

    made: Jaxpr = jaxpr.cached(("masked", thread.settings, thread.axis_env), lambda: trace_to_jaxpr(
        run, [*jaxpr.in_avals, _MASK], jaxpr.debug_info._replace(arg_names=None)))
    return made


class _MaskInterpreter(Interpreter):
    """Evaluates a program under a mask."""

    __slots__ = ("mask",)
    name = "vmap"

    def __init__(self, parent: Interpreter, mask: Any):
        super().__init__(parent)
        self.mask = mask

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        thread.interpreter = self.parent
        try:
            if primitive in mask_rules:
                return mask_rules[primitive](self.mask, args, params)
            if _reads_mask(primitive, params):
                return primitive.frame.threading(params, masked, 1)([*args, self.mask])[:-1]
            return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
        finally:
            thread.interpreter = self
