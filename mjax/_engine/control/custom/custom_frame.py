"""The frame of primitives that hold a function and its rules."""

from __future__ import annotations

from typing import Any

from mjax._engine.control.calls.closed_call import evaluates_as_call
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held, Params
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.primitive import Primitive


class CustomFrame(Frame):
    """Each transformation of the function also transforms the rule.

    A batched rule applies the rule to a batch, a pruned one drops results.

    Args:
      primitive: the primitive.
      rule: the name of the param with the rule.
      param: the name of the param with the function.
    """

    derives: tuple[str, ...] = ("abstract_eval", "typecheck", "cast_varying", "jvp", "transpose",
                                "axis_batch", "dce")
    keeps_operands = True  # rules may read them
    rules_thread = True

    def __init__(self, primitive: Primitive, rule: str, param: str = "call_jaxpr"):
        self.rule, self.rules = rule, (rule,)
        super().__init__(primitive, param)
        evaluates_as_call(primitive, param)
        primitive.def_lowering(self.lowering)
        primitive.define("pretty", self.pretty)

    def params(self, rule: Any, jaxpr: Jaxpr | None = None, num_consts: int = 0) -> Params:
        """The params of an equation; without a jaxpr if the rule runs at once."""
        return self.close(Held(jaxpr, (), (), {
            self.rule: rule, "num_consts": num_consts,
            "symbolic_zeros": rule.custom.symbolic_zeros}))

    def again(self, held: Held) -> Held:
        """Programs derived from the function alone do not have the rule."""
        return held._replace(rest=None)

    def lowering(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """A call of the function."""
        return ctx.call(params["call_jaxpr"], params[self.rule].custom.__name__, *operands)

    def pretty(self, params: Params) -> Params:
        """The params shown in jaxprs: the user's rules."""
        custom = params[self.rule].custom
        shown = {"name": custom.__name__, "call_jaxpr": params["call_jaxpr"], **custom.rules(),
                 "symbolic_zeros": params["symbolic_zeros"]}
        return shown | ({"num_consts": params["num_consts"]} if params["num_consts"] else {})


__all__ = ["CustomFrame"]
