"""The frame of primitives that hold a function and its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.control.calls.closed_call import evaluates_as_call
from mjax._engine.control.custom.custom_batching import BatchedRule, PrunedRule, batch_call
from mjax._engine.control.frame import OF_JAXPRS, Frame, Held, Params
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms.batching import AxisData


class CustomFrame(Frame):
    """Each transformation of the function is one of the rule, too.

    A batched rule applies the rule to a batch, a pruned one drops results.

    Args:
      primitive: the primitive.
      rule: which of its params is the rule.
      param: which is the function.
    """

    derives: tuple[str, ...] = ("abstract_eval", "typecheck", "cast_varying", "jvp", "transpose",
                                "axis_batch", "dce")
    keeps_operands = True  # rules may read them
    transforms = OF_JAXPRS._replace(batch=batch_call)

    def __init__(self, primitive: Primitive, rule: str, param: str = "call_jaxpr"):
        self.rule = rule
        super().__init__(primitive, param)
        evaluates_as_call(primitive, param)
        primitive.def_lowering(self.lowering)
        primitive.define("pretty", self.pretty)

    def params(self, rule: Any, jaxpr: Jaxpr | None = None, num_consts: int = 0) -> Params:
        """The params of an equation; without a jaxpr where the rule runs at once."""
        return self.close(Held(jaxpr, (), (), {
            self.rule: rule, "num_consts": num_consts,
            "symbolic_zeros": rule.custom.symbolic_zeros}))

    def open(self, params: Params) -> Held:
        """A result leaves by its index."""
        held = super().open(params)
        return held._replace(outs=range(len(held.outs)))

    def again(self, held: Held) -> Held:
        """Programs derived from the function by itself do not have the rule."""
        return held._replace(rest=None)

    def batched(self, held: Held, axis: AxisData, dims: Sequence[int | None],
                out_dims: Sequence[int | None]) -> Held:
        rule = BatchedRule(held.rest[self.rule], axis, dims, out_dims[:1] != [None])
        return held._replace(rest={**held.rest, self.rule: rule})

    def batched_params(self, params: Params, axis: AxisData, dims: Sequence[int | None]
                       ) -> tuple[Params, list[int | None]]:
        """The params of the equation of a batch, and the batch dims of its results."""

        def make() -> tuple[Params, list[int | None]]:
            held = self.open(params)
            body, out_dims = batch_call(held.body, axis, dims)
            return self.close(self.batched(
                held._replace(body=body), axis, dims, out_dims)), out_dims

        known: tuple[Params, list[int | None]] = self.body(params).cached(
            self._key("batched params", params, axis, tuple(dims)), make)
        return known

    def equation(self, eqn: JaxprEqn, held: Held, invars: Sequence[Any], outvars: Sequence[Any]
                 ) -> JaxprEqn:
        if len(held.outs) < len(eqn.outvars):
            rule = PrunedRule(held.rest[self.rule], held.outs)
            held = held._replace(rest={**held.rest, self.rule: self.body(eqn.params).cached(
                self._key("pruned", eqn.params, *held.outs), lambda: rule)})
        return super().equation(eqn, held, invars, outvars)

    def lowering(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """A call of the function."""
        return ctx.call(params["call_jaxpr"], params[self.rule].custom.__name__, *operands)

    def pretty(self, params: Params) -> Params:
        """The params as jaxprs show them: the user's rules."""
        custom = params[self.rule].custom
        shown = {"name": custom.__name__, "call_jaxpr": params["call_jaxpr"], **custom.rules(),
                 "symbolic_zeros": params["symbolic_zeros"]}
        return shown | ({"num_consts": params["num_consts"]} if params["num_consts"] else {})


__all__ = ["CustomFrame"]
