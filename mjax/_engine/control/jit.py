"""The primitive `jit`: a call of a jaxpr that is compiled as one program.

Every transformation of it is the same transformation of its jaxpr, cached there. What the
function closed over comes as operands, except arrays, which stay the jaxpr's constants.
The runtime gives it its impl.

Params: `jaxpr`; `name`, of the function; `donated_invars`, whose memory the results may take
over; `keep_unused`, whether inputs that nothing reads are passed; `inline`, kept for readers of
jaxprs; `device`, to run on, or None; `compiler_options_kvs`, XLA options as pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mjax._engine.ir.jaxpr import DropVar, Jaxpr, Var
from mjax._engine.ir.types import same_type_but_weak
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import StageInterpreter
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recompute import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr

_NOTHING: Mapping[str, Any] = {}

jit_p = Primitive("jit", multiple_results=True, types_cacheable=False, own_varying=True)


@jit_p.def_effectful_abstract_eval
def _jit_type(*avals: Any, jaxpr: Jaxpr, **params: Any) -> Any:
    return jaxpr.out_avals, jaxpr.effects


def _jit_typecheck(*avals: Any, jaxpr: Jaxpr, **params: Any) -> None:
    if len(avals) != len(jaxpr.invars) or not all(
            map(same_type_but_weak, avals, jaxpr.in_avals)):
        msg = (f"jit of a program that takes {', '.join(map(str, jaxpr.in_avals))} applied to "
               f"{', '.join(map(str, avals))}")
        raise TypeError(msg)


jit_p.typecheck = _jit_typecheck


@jit_p.def_lowering
def _jit_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    return ctx.call(jaxpr, name, *operands)


def call(jaxpr: Jaxpr, name: str, args: Sequence[Any], like: Mapping[str, Any] = _NOTHING
         ) -> list[Any]:
    """Applies `jit` to a jaxpr without donation; it runs where and as the params `like` say."""
    return jit_p.bind(*args, jaxpr=jaxpr, name=name, **_like(like, len(args)))


def _like(params: Mapping[str, Any], operands: int) -> dict[str, Any]:
    """The params of a `jit` equation made from one with these, but for its jaxpr and name."""
    return {"donated_invars": (False,) * operands, "inline": False, "keep_unused": False,
            "device": params.get("device"),
            "compiler_options_kvs": params.get("compiler_options_kvs", ())}


@jit_p.def_jvp
def _jit_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, False)
    outs = call(jvp, name, [*primals, *[t for t in tangents if type(t) is not Zero]], params)
    n = len(jaxpr.outvars)
    given = iter(outs[n:])
    return outs[:n], [next(given) if nz else Zero(a.to_tangent())
                      for a, nz in zip(jaxpr.out_avals, nonzero_outs, strict=True)]


def _jit_linearize(nonzeros: Any, *primals: Any, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    parts = linearize_jaxpr(jaxpr, nonzeros)
    outs = call(parts.primal, name, primals, params)
    n = len(jaxpr.outvars)

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = iter(call(parts.linear, name, [
            *residuals, *[t for t in tangents if type(t) is not Zero]], params)
            if parts.linear.outvars else ())
        return [next(given) if nz else Zero(a.to_tangent())
                for a, nz in zip(jaxpr.out_avals, parts.nonzero_outs, strict=True)]

    return outs[:n], parts.nonzero_outs, parts.residuals(primals, outs), linear


jit_p.linearize = _jit_linearize


def _jit_partial_eval(interp: PartialEvalInterpreter, *args: Any, jaxpr: Jaxpr, name: str,
                      **params: Any) -> Any:
    unknown = [interp.is_unknown(a) for a in args]
    parts = partial_eval_jaxpr(jaxpr, unknown, effects_known=interp.effects_known)
    if not parts.known.eqns:
        # Nothing can be done ahead: one equation says the same as two.
        return StageInterpreter.process(interp, jit_p, args, {"jaxpr": jaxpr, "name": name,
                                                              **params})
    known_ins = [a for a, u in zip(args, unknown, strict=True) if not u]
    known = interp.call_known(call, parts.known, name, known_ins, params)
    n = len(jaxpr.outvars) - sum(parts.unknown_outs)
    residuals = parts.residuals(known_ins, known)
    unknown_ins = [a for a, u in zip(args, unknown, strict=True) if u]
    staged = StageInterpreter.process(interp, jit_p, (*residuals, *unknown_ins), {
        "jaxpr": parts.unknown, "name": name,
        **_like(params, len(residuals) + len(unknown_ins))})
    known_outs, unknown_outs = iter(known[:n]), iter(staged)
    return [next(unknown_outs) if u else next(known_outs) for u in parts.unknown_outs]


jit_p.partial_eval = _jit_partial_eval


@jit_p.def_transpose
def _jit_transpose(cts: Any, *args: Any, jaxpr: Jaxpr, name: str, **params: Any) -> Any:
    undefined = [type(a) is UndefinedPrimal for a in args]
    nonzero_cts = [type(ct) is not Zero for ct in cts]
    transposed, nonzero_ins = transpose_jaxpr(jaxpr, undefined, nonzero_cts)
    outs = iter(call(transposed, name, [
        *[a for a, u in zip(args, undefined, strict=True) if not u],
        *[ct for ct in cts if type(ct) is not Zero]], params))
    nonzero = iter(nonzero_ins)
    return [(next(outs) if next(nonzero) else Zero(a.to_tangent())) if u else None
            for a, u in zip(jaxpr.in_avals, undefined, strict=True)]


def _jit_batch(axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, name: str, **params: Any
               ) -> Any:
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    return call(batched, name, args, params), out_dims


jit_p.axis_batch = _jit_batch


def _jit_dce(used: Sequence[bool], eqn: Any) -> Any:
    jaxpr, used_ins = dce_jaxpr(eqn.params["jaxpr"], used)
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    params = {**eqn.params, "jaxpr": jaxpr, "donated_invars": tuple(
        d for d, u in zip(eqn.params["donated_invars"], used_ins, strict=True) if u)}
    return used_ins, eqn.replace(
        params=params, invars=[v for v, u in zip(eqn.invars, used_ins, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        effects=jaxpr.effects)


jit_p.dce = _jit_dce


def _jit_recompute(saveable: Policy, used: Sequence[bool], eqn: Any) -> Any:
    parts = recompute_jaxpr(eqn.params["jaxpr"], [True] * len(used), used, saveable)
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    outvars += [Var(a) for a in parts.known.out_avals[len(outvars):]]
    invars = parts.residuals(eqn.invars, outvars)
    # What is read a second time must not be donated the first time.
    known = eqn.replace(outvars=outvars, params={
        **eqn.params, "jaxpr": parts.known, "donated_invars": (False,) * len(eqn.invars)})
    again = eqn.replace(
        invars=invars, outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u],
        effects=parts.again.effects, params={
            **eqn.params, "jaxpr": parts.again, "donated_invars": (False,) * len(invars)})
    return known, again


jit_p.recompute = _jit_recompute


def _jit_pretty(params: dict[str, Any]) -> dict[str, Any]:
    shown = {"name": params["name"], "jaxpr": params["jaxpr"]}
    if any(params["donated_invars"]):
        shown["donated_invars"] = params["donated_invars"]
    return shown | {name: params[name] for name in ("device", "compiler_options_kvs")
                    if params.get(name)}


jit_p.pretty = _jit_pretty
