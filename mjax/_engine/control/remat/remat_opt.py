"""`remat_opt`: the forward pass of a `custom_vjp` function with `optimize_remat=True`.

It gives residuals and results. Where nobody wants the residuals, because a rematerialized
function will compute them again, it becomes a call of the function itself, which may be
cheaper than its forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.control.cast_varying import Axes, joined, varying_of, widened
from mjax._engine.control.trace_body import Body
from mjax._engine.ir.effects import renumbered
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.jvp import jvp_flat
from mjax._engine.transforms.linearize import linearize_jaxpr

remat_opt_p = Primitive("remat_opt", multiple_results=True, types_cacheable=False,
                        own_varying=True)


class Fallback:
    """The function in place of its forward pass: an application of a primitive.

    Args:
      primitive: the primitive.
      params: its params.
      batch: `(axis, dims, params)` to the params for a batch.
    """

    __slots__ = ("batch", "names_in_scope", "params", "primitive")

    def __init__(self, primitive: Primitive, params: dict[str, Any], batch: Callable[..., Any]):
        self.primitive, self.params, self.batch = primitive, params, batch
        self.names_in_scope = params["fwd_jaxpr_thunk"].names_in_scope

    def batched(self, axis: AxisData, dims: Sequence[int | None]) -> Fallback:
        """The same for a batch."""
        return Fallback(self.primitive, self.batch(axis, dims, self.params), self.batch)


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
    return remat_opt_p.bind(*body.consts, *consts, *args, fwd_jaxpr=body.jaxpr,
                            fun_jaxpr_thunk=fallback, num_consts=len(body.consts),
                            num_fun_consts=len(consts), num_res=num_res)


def _program(args: Sequence[Any], num_consts: int, num_fun_consts: int) -> list[Any]:
    """The operands of the forward pass."""
    return [*args[:num_consts], *args[num_consts + num_fun_consts:]]


@remat_opt_p.def_impl
def _impl(*args: Any, fwd_jaxpr: Jaxpr, num_consts: int, num_fun_consts: int, **params: Any
          ) -> list[Any]:
    return eval_jaxpr(fwd_jaxpr, fwd_jaxpr.consts, *_program(args, num_consts, num_fun_consts))


@remat_opt_p.def_effectful_abstract_eval
def _type(*avals: Any, fwd_jaxpr: Jaxpr, num_consts: int, num_fun_consts: int, **params: Any
          ) -> Any:
    return fwd_jaxpr.out_avals, renumbered(
        fwd_jaxpr.effects, _program(range(len(avals)), num_consts, num_fun_consts))


def _cast_varying(varying: Sequence[Axes], *, fwd_jaxpr: Jaxpr, num_consts: int,
                  num_fun_consts: int, **params: Any) -> Any:
    own = joined(_program(varying, num_consts, num_fun_consts), varying_of(fwd_jaxpr))
    rest = varying[num_consts:num_consts + num_fun_consts]
    return [*own[:num_consts], *rest, *own[num_consts:]], {
        "fwd_jaxpr": widened(fwd_jaxpr, own), "num_consts": num_consts,
        "num_fun_consts": num_fun_consts, **params}


remat_opt_p.cast_varying = _cast_varying


@remat_opt_p.def_lowering
def _lowering(ctx: Any, *operands: Any, fwd_jaxpr: Jaxpr, num_consts: int, num_fun_consts: int,
              **params: Any) -> Any:
    return ctx.inline(fwd_jaxpr, *_program(operands, num_consts, num_fun_consts))


@remat_opt_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, fwd_jaxpr: Jaxpr, num_consts: int, num_fun_consts: int,
         **params: Any) -> Any:
    """Residuals are differentiated: what follows reads them."""
    return jvp_flat(lambda *args: eval_jaxpr(fwd_jaxpr, fwd_jaxpr.consts, *args),
                    _program(primals, num_consts, num_fun_consts),
                    _program(tangents, num_consts, num_fun_consts))


def _linearize(nonzeros: Any, *primals: Any, fwd_jaxpr: Jaxpr, num_consts: int,
               num_fun_consts: int, **params: Any) -> Any:
    # Not by the jvp rule: the function may stand in its own forward pass.
    parts = linearize_jaxpr(fwd_jaxpr, _program(nonzeros, num_consts, num_fun_consts))
    ins = _program(primals, num_consts, num_fun_consts)
    outs = eval_jaxpr(parts.primal, parts.primal.consts, *ins)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = [t for t in _program(tangents, num_consts, num_fun_consts) if type(t) is not Zero]
        found = iter(eval_jaxpr(parts.linear, parts.linear.consts, *residuals, *given))
        return [next(found) if nz else Zero(a.to_tangent())
                for a, nz in zip(fwd_jaxpr.out_avals, parts.nonzero_outs, strict=True)]

    n = len(fwd_jaxpr.outvars)
    return outs[:n], parts.nonzero_outs, parts.residuals(ins, outs), linear


remat_opt_p.linearize = _linearize


def _batch(axis: AxisData, args: Any, dims: Any, *, fwd_jaxpr: Jaxpr, fun_jaxpr_thunk: Fallback,
           num_consts: int, num_fun_consts: int, num_res: int) -> Any:
    own = _program(dims, num_consts, num_fun_consts)
    # Results are batched if those of the function are.
    results = [False] * num_res + [True] * (len(fwd_jaxpr.outvars) - num_res)
    batched, out_dims = batch_jaxpr(fwd_jaxpr, axis, own, results)
    key = ("batched fallback", fun_jaxpr_thunk, axis, tuple(dims))
    fallback = fwd_jaxpr.cached(key, lambda: fun_jaxpr_thunk.batched(axis, dims[num_consts:]))
    return remat_opt_p.bind(*args, fwd_jaxpr=batched, fun_jaxpr_thunk=fallback,
                            num_consts=num_consts, num_fun_consts=num_fun_consts,
                            num_res=num_res), out_dims


remat_opt_p.axis_batch = _batch


def _dce(used: Sequence[bool], eqn: Any) -> Any:
    params = eqn.params
    if not any(used) and not params["fwd_jaxpr"].effects:
        return [False] * len(eqn.invars), None
    num_res = params["num_res"]
    if any(used[:num_res]):
        return [True] * len(eqn.invars), eqn
    fallback, skip = params["fun_jaxpr_thunk"], params["num_consts"]
    invars, outvars = eqn.invars[skip:], eqn.outvars[num_res:]
    call = widened(fallback.params["call_jaxpr"], [v.aval.varying for v in invars],
                   [v.aval.varying for v in outvars])
    inner = eqn.replace(primitive=fallback.primitive, invars=invars, outvars=outvars,
                        params={**fallback.params, "call_jaxpr": call}, effects=call.effects)
    used_ins, smaller = fallback.primitive.dce(used[num_res:], inner)
    return [False] * skip + used_ins, smaller


remat_opt_p.dce = _dce


def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    shown = {name: params[name] for name in ("fwd_jaxpr", "num_consts", "num_res")}
    return {**shown, "fun_jaxpr_thunk": params["fun_jaxpr_thunk"].params["call_jaxpr"]}


remat_opt_p.pretty = _pretty

__all__ = ["Fallback", "forward", "remat_opt_p"]
