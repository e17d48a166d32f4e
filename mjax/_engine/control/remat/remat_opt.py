"""`remat_opt`: the forward pass of a `custom_vjp` function with `optimize_remat=True`.

It returns residuals and results. If the residuals are unused, because a rematerialized function
will recompute them, it becomes a call of the function itself, which may be cheaper.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.control.calls.closed_call import evaluates_as_call
from mjax._engine.control.cast_varying import widened
from mjax._engine.control.frame import UNCUT, Frame
from mjax._engine.control.held import Held, Params
from mjax._engine.control.trace_body import Body
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Var
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.transforms.batching import AxisData

remat_opt_p: EnginePrimitive = EnginePrimitive("remat_opt", params={
    "fwd_jaxpr": Jaxpr, "fun_jaxpr_thunk": Any, "num_consts": int, "num_res": int},
    multiple_results=True)


class Fallback:
    """The function in place of its forward pass: an equation of a primitive.

    Args:
      frame: the frame of the primitive.
      params: its params.
    """

    __slots__ = ("frame", "names_in_scope", "params")

    def __init__(self, frame: Any, params: Params):
        self.frame, self.params = frame, params
        self.names_in_scope = params[frame.rule].names_in_scope

    def batched(self, held: Held, axis: AxisData, dims: Sequence[int | None],
                out_dims: Sequence[int | None]) -> Fallback:
        """The same for a batch; see `custom_batching.Rule`."""
        own = self.frame.open(self.params)
        new, _, _ = self.frame.batched(own, axis, dims[held.rest["num_consts"]:])
        return Fallback(self.frame, self.frame.close(new))


class _RematOptFrame(Frame):
    """A batch of the equation keeps the function; derivatives and other parts drop it."""

    derives = (*UNCUT, "dce")
    rules = ("fun_jaxpr_thunk",)

    def again(self, held: Held) -> Held:
        # Derivatives use the residuals.
        return held._replace(rest=None)

    def alike(self, held: Held) -> list[bool]:
        return [i >= held.rest["num_res"] for i in range(len(held.outs))]

    def dce(self, used: Sequence[bool], eqn: JaxprEqn) -> Any:
        params = eqn.params
        if not any(used) and not params["fwd_jaxpr"].effects:
            return [False] * len(eqn.invars), None
        num_res, skip = params["num_res"], params["num_consts"]
        if any(used[:num_res]):
            return [True] * len(eqn.invars), eqn
        fallback, invars, outvars = (
            params["fun_jaxpr_thunk"], eqn.invars[skip:], eqn.outvars[num_res:])
        call = widened(fallback.params["call_jaxpr"], [v.aval.varying for v in invars],
                       [v.aval.varying for v in outvars])
        used_ins, smaller = fallback.frame.dce(used[num_res:], eqn.replace(
            primitive=fallback.frame.primitive, invars=invars, outvars=outvars,
            params={**fallback.params, "call_jaxpr": call}, effects=call.effects))
        return [False] * skip + used_ins, smaller


_RematOptFrame(remat_opt_p, "fwd_jaxpr")
evaluates_as_call(remat_opt_p, "fwd_jaxpr")


def forward(body: Body, fallback: Fallback, consts: Sequence[Any], num_res: int,
            args: Sequence[Any]) -> list[Any]:
    """Applies the primitive.

    Args:
      body: the forward pass: residuals, then results.
      fallback: the function; takes `consts` in front of `args`.
      consts: what the function closes over.
      num_res: the number of residuals.
      args: the arguments.
    """
    jaxpr, n = body.jaxpr, len(body.consts)
    # All operands are inputs of the forward pass; it ignores those of the function.
    jaxpr = jaxpr.cached(("with consts", *map(typeof, consts)), lambda: jaxpr.replace(invars=[
        *jaxpr.invars[:n], *(Var(typeof(c)) for c in consts), *jaxpr.invars[n:]]))
    return remat_opt_p.bind(*body.consts, *consts, *args, fwd_jaxpr=jaxpr,
                            fun_jaxpr_thunk=fallback, num_consts=n, num_res=num_res)


@remat_opt_p.def_pretty
def _pretty(params: Params) -> Params:
    shown = {name: params[name] for name in ("fwd_jaxpr", "num_consts", "num_res")}
    return {**shown, "fun_jaxpr_thunk": params["fun_jaxpr_thunk"].params["call_jaxpr"]}

__all__ = ["Fallback", "forward", "remat_opt_p"]
