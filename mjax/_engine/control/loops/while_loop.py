"""The primitive `while`: repeats a body as long as a condition on what it carries holds.

    while[cond_jaxpr, body_jaxpr] (cond consts, body consts, carry) -> carry

Reverse mode is refused: how much there is to remember is known only when the loop has run. A
carry that the body hands on as it is has no need of it.

Source: XLA's While operation; its batching rule is that of Frostig et al. 2018 (JAX).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache, split_list
from mjax._engine.control.cast_varying import (
    Axes,
    bind_cast,
    joined,
    refuse_alone,
    varying_of,
    widened,
)
from mjax._engine.control.loops.carries import fixpoint
from mjax._engine.ir.effects import Effects, keeps_equation, renumbered, token_names
from mjax._engine.ir.jaxpr import Jaxpr, Var
from mjax._engine.ir.types import ShapedArray, same_type_but_weak
from mjax._engine.primitives.emit import flat, hlo, ir
from mjax._engine.primitives.reductions import reduce_or_p
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.shapes import broadcast_in_dim_p
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.primitive import Primitive, no_axes
from mjax._engine.tracing.rule_errors import refuse_masked_effects
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr

while_p = Primitive("while", multiple_results=True, types_cacheable=False, own_varying=True)


def _plan(cond: Jaxpr, body: Jaxpr, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What is derived of a loop, made once and kept with its body.

    Not without end: a body of a module's may meet conditions that are made anew each time.
    """
    known = body.cached("plans of while", lambda: BoundedCache(64))
    key = (cond, *key, thread.settings)
    found = known.get(key)
    return known.put(key, make()) if found is None else found


class Parts(Record):
    """The operands of a `while`."""

    cond_consts: list[Any]
    body_consts: list[Any]
    carry: list[Any]


def parts_of(values: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> Parts:
    """Cuts what there is one of per operand."""
    return Parts(*split_list(values, [cond_nconsts, body_nconsts]))


def bind_while(cond: Jaxpr, body: Jaxpr, parts: Parts) -> list[Any]:
    """Applies `while`."""
    cond_consts, body_consts, carry = parts
    return bind_cast(while_p, [*cond_consts, *body_consts, *carry], {
        "cond_jaxpr": cond, "cond_nconsts": len(cond_consts),
        "body_jaxpr": body, "body_nconsts": len(body_consts)})


@while_p.def_effectful_abstract_eval
def _while_type(*avals: Any, cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr,
                body_nconsts: int) -> Any:
    return body_jaxpr.out_avals, _effects(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)


def _effects(cond: Jaxpr, body: Jaxpr, n_cond: int, n_body: int) -> Effects:
    n = n_cond + n_body + len(body.outvars)
    return renumbered(cond.effects, [*range(n_cond), *range(n_cond + n_body, n)]) | renumbered(
        body.effects, range(n_cond, n))


@while_p.def_typecheck
def _while_typecheck(*avals: Any, cond_jaxpr: Jaxpr, cond_nconsts: int, body_jaxpr: Jaxpr,
                     body_nconsts: int) -> None:
    cond_consts, body_consts, carry = parts_of(avals, cond_nconsts, body_nconsts)
    for name, given, wanted in (
            ("condition", cond_consts + carry, cond_jaxpr.in_avals),
            ("body", body_consts + carry, body_jaxpr.in_avals),
            ("carry after one iteration", body_jaxpr.out_avals, carry),
            ("predicate", [a.with_varying(no_axes) for a in cond_jaxpr.out_avals],
             [ShapedArray((), np.dtype(bool))])):
        if len(given) != len(wanted) or not all(map(same_type_but_weak, given, wanted)):
            msg = (f"while: the {name} has types {', '.join(map(str, given))} where "
                   f"{', '.join(map(str, wanted))} are needed")
            raise TypeError(msg)


@while_p.def_cast_varying
def _while_cast_varying(varying: Sequence[Axes], *, cond_jaxpr: Jaxpr, cond_nconsts: int,
                  body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    """A carry varies along what it varies along after an iteration, and along what decides how
    many iterations there are."""
    given = parts_of(varying, cond_nconsts, body_nconsts)
    carry = joined(given.carry, varying_of(cond_jaxpr)[cond_nconsts:],
                   varying_of(body_jaxpr)[body_nconsts:], [a.varying for a in body_jaxpr.out_avals])
    cond_consts = joined(given.cond_consts, varying_of(cond_jaxpr)[:cond_nconsts])
    body_consts = joined(given.body_consts, varying_of(body_jaxpr)[:body_nconsts])
    while True:
        cond = widened(cond_jaxpr, [*cond_consts, *carry])
        body = widened(body_jaxpr, [*body_consts, *carry])
        ends = cond.out_avals[0].varying
        grown = [c | o.varying | ends for c, o in zip(carry, body.out_avals, strict=True)]
        if grown == carry:
            break
        carry = grown
    refuse_alone("while", "the number of iterations", ends, (cond, body))
    return [*cond_consts, *body_consts, *carry], {
        "cond_jaxpr": cond, "cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts,
        "body_jaxpr": widened(body_jaxpr, [*body_consts, *carry], carry)}


@while_p.def_lowering
def _while_lowering(ctx: Any, *operands: Any, cond_jaxpr: Jaxpr, cond_nconsts: int,
                    body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    cond_consts, body_consts, carry = parts_of(operands, cond_nconsts, body_nconsts)
    # A condition's region gives nothing but the predicate: one with ordered effects runs before
    # the loop and at the end of its body, which carry the predicate.
    rotated = bool(token_names(cond_jaxpr.effects))
    tokens, first = ctx.tokens_in, []
    if rotated:
        first = ctx.inline(cond_jaxpr, *cond_consts, *carry)
        tokens = ctx.tokens
    n, start = len(tokens), [*tokens.values(), *first, *flat(carry)]
    types = [v.type for v in start]
    loop = hlo.WhileOp(types, start)
    block = loop.regions[0].blocks.append(*types)
    with ir.InsertionPoint(block):
        hlo.return_([block.arguments[n]] if rotated else
                    ctx.inline(cond_jaxpr, *cond_consts, *block.arguments[n:]))
    block = loop.regions[1].blocks.append(*types)
    with ir.InsertionPoint(block):
        inner = ctx.replace(tokens=tokens.replaced(block.arguments[:n]))
        outs = inner.inline(body_jaxpr, *body_consts, *block.arguments[n + rotated:])
        more = inner.inline(cond_jaxpr, *cond_consts, *outs) if rotated else []
        hlo.return_([*inner.tokens.values(), *more, *outs])
    results = list(loop.results)
    if n:
        ctx.set_tokens_out(tokens.replaced(results[:n]))
    return results[n + rotated:]


# ---- forward mode ----------------------------------------------------------------------


class _Tangents(Record):
    """The loop that carries tangents too.

    Attributes:
      cond, body: its programs.
      nonzeros: which body consts and carries have a tangent.
      still: for each carry that has one: whether each iteration hands its tangent on as it is,
        so that the loop need not carry it.
    """

    cond: Jaxpr
    body: Jaxpr
    nonzeros: list[bool]
    still: list[bool]


def _with_tangents(cond: Jaxpr, body: Jaxpr, nonzeros: Sequence[bool], n_consts: int) -> _Tangents:
    n_carry = len(body.outvars)
    nonzeros = fixpoint(nonzeros, slice(n_consts, None),
                        lambda nz: jvp_jaxpr(body, nz, nz[n_consts:])[1])
    jvp, _ = jvp_jaxpr(body, nonzeros, nonzeros[n_consts:])
    # From (consts, carry, tangents of consts, of the carry) to (consts both, carry both).
    consts, carry, const_tangents, tangents = split_list(
        jvp.invars, [n_consts, n_carry, sum(nonzeros[:n_consts])])
    outs, out_tangents = split_list(jvp.outvars, [n_carry])
    still = [o is t for o, t in zip(out_tangents, tangents, strict=True)]
    jvp = jvp.replace(
        invars=[*consts, *const_tangents, *_where(still, tangents), *carry,
                *_where(still, tangents, False)],
        outvars=[*outs, *_where(still, out_tangents, False)])
    # The condition does not read tangents.
    cond = cond.replace(invars=[*cond.invars, *[
        Var(t.aval) for t in _where(still, tangents, False)]])
    return _Tangents(cond, jvp, nonzeros, still)


def _where(flags: Sequence[bool], values: Sequence[Any], wanted: bool = True) -> list[Any]:
    return [v for f, v in zip(flags, values, strict=True) if f is wanted]


def _jvp_loop(primals: Parts, tangents: Parts, cond: Jaxpr, body: Jaxpr,
              only_tangents: bool = False) -> tuple[list[Any], list[Any]]:
    """Results and their tangents; `only_tangents`: not necessarily the results."""
    given = [*tangents.body_consts, *tangents.carry]
    n = len(primals.body_consts)
    nonzeros = tuple(type(t) is not Zero for t in given)
    loop = _plan(cond, body, ("jvp", nonzeros, n),
                 lambda: _with_tangents(cond, body, nonzeros, n))
    used = [instantiate(t) if nz else t for t, nz in zip(given, loop.nonzeros, strict=True)]
    carried = _nonzero(used[n:])
    still, moving = _where(loop.still, carried), _where(loop.still, carried, False)
    m = len(body.outvars)
    if moving or not only_tangents:
        outs = bind_while(loop.cond, loop.body, Parts(
            primals.cond_consts, [*primals.body_consts, *_nonzero(used[:n]), *still],
            [*primals.carry, *moving]))
    else:
        outs = [None] * m
    rest, ended = iter(still), iter(outs[m:])
    flags = iter(loop.still)
    return outs[:m], [
        (next(rest) if next(flags) else next(ended)) if nz else Zero(a.to_tangent())
        for a, nz in zip(body.out_avals, loop.nonzeros[n:], strict=True)]


def _nonzero(tangents: Sequence[Any]) -> list[Any]:
    return [t for t in tangents if type(t) is not Zero]


@while_p.def_jvp
def _while_jvp(primals: Any, tangents: Any, *, cond_jaxpr: Jaxpr, cond_nconsts: int,
               body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    sizes = cond_nconsts, body_nconsts
    return _jvp_loop(parts_of(primals, *sizes), parts_of(tangents, *sizes), cond_jaxpr,
                     body_jaxpr)


@while_p.def_linearize
def _while_linearize(nonzeros: Any, *primals: Any, cond_jaxpr: Jaxpr, cond_nconsts: int,
                     body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    """The linear program runs the loop once more: nothing of a first run could be kept."""
    sizes = cond_nconsts, body_nconsts
    outs = bind_while(cond_jaxpr, body_jaxpr, parts_of(primals, *sizes))
    moving = fixpoint(nonzeros[cond_nconsts:], slice(body_nconsts, None),
                      lambda nz: jvp_jaxpr(body_jaxpr, nz, nz[body_nconsts:])[1])

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        return _jvp_loop(parts_of(residuals, *sizes), parts_of(tangents, *sizes), cond_jaxpr,
                         body_jaxpr, only_tangents=True)[1]

    return outs, moving[body_nconsts:], list(primals), linear


@while_p.def_transpose
def _while_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    raise LazyValueError(
        "Reverse-mode differentiation of while_loop, or of fori_loop with bounds that are not "
        "known when it is traced, is not possible: the number of iterations, and so what would "
        "have to be remembered of them, is known only at run time. Use scan, or fori_loop with "
        "static bounds (stop early by masking with where), or give the loop a rule by "
        "custom_vjp or lax.custom_root; forward mode (jvp, jacfwd) works.")


# ---- the other rules -------------------------------------------------------------------


@while_p.def_partial_eval
def _while_partial_eval(interp: PartialEvalInterpreter, *args: Any, cond_jaxpr: Jaxpr,
                        cond_nconsts: int, body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    """The carries that no unknown reaches are known, if they alone decide when the loop ends;
    the others need the whole loop again."""
    unknown = [interp.is_unknown(a) for a in args]
    flags = fixpoint(unknown[cond_nconsts:], slice(body_nconsts, None),
                     lambda u: partial_eval_jaxpr(body_jaxpr, u, u[body_nconsts:]).unknown_outs)
    moving = flags[body_nconsts:]
    params = {"cond_jaxpr": cond_jaxpr, "cond_nconsts": cond_nconsts, "body_jaxpr": body_jaxpr,
              "body_nconsts": body_nconsts}
    staged = StageInterpreter.process(interp, while_p, args, params)
    decides = partial_eval_jaxpr(cond_jaxpr, [*unknown[:cond_nconsts], *moving]).unknown_outs[0]
    effects = cond_jaxpr.effects | body_jaxpr.effects
    if decides or all(moving) or effects:
        return staged
    loop = _without(cond_jaxpr, body_jaxpr, moving, parts_of(args, cond_nconsts, body_nconsts))
    known = iter(interp.call_known(bind_while, *loop))
    return [s if u else next(known) for s, u in zip(staged, moving, strict=True)]


def _without(cond: Jaxpr, body: Jaxpr, dropped: Sequence[bool], parts: Parts
             ) -> tuple[Jaxpr, Jaxpr, Parts]:
    """The loop without some carries, which neither the condition nor the others read."""
    kept = [not d for d in dropped]
    n_cond, n_body = len(parts.cond_consts), len(parts.body_consts)
    cond, cond_used = dce_jaxpr(cond, [True], [True] * n_cond + kept)
    body, body_used = dce_jaxpr(body, kept, [False] * n_body + kept)
    assert cond_used[n_cond:] == kept == body_used[n_body:]
    return cond, body, Parts(
        parts.cond_consts, [c for c, u in zip(parts.body_consts, body_used, strict=False) if u],
        [c for c, k in zip(parts.carry, kept, strict=True) if k])


class _Batched(Record):
    """The loop for a batch. With `masked` it carries in front which elements go on."""

    cond: Jaxpr
    body: Jaxpr
    first: Jaxpr | None
    carry_batched: list[bool]


def _batched_loop(cond: Jaxpr, body: Jaxpr, axis: AxisData, flags: Sequence[bool], n_cond: int,
                  n_body: int) -> _Batched:
    start = n_cond + n_body

    def step(b: Sequence[bool]) -> list[bool]:
        carry = list(b[start:])
        masked = _batch(cond, axis, [*b[:n_cond], *carry])[1][0]
        return [masked or o for o in _batch(body, axis, b[n_cond:], carry)[1]]

    flags = fixpoint(flags, slice(start, None), step)
    carry = flags[start:]
    many_cond, (masked,) = _batch(cond, axis, [*flags[:n_cond], *carry])
    many_body, _ = _batch(body, axis, flags[n_cond:], carry)
    if not masked:
        return _Batched(many_cond, many_body, None, carry)
    refuse_masked_effects("while_loop", (cond, body))
    going = ShapedArray((axis.size,), np.dtype(bool))
    carry_avals = many_cond.in_avals[n_cond:]

    def any_goes_on(going: Any, *carry: Any) -> list[Any]:
        return [reduce_or_p.bind(going, axes=(0,))]

    def masked_body(*args: Any) -> list[Any]:
        cond_consts, body_consts, (going, *old) = split_list(args, [n_cond, n_body])
        new = eval_jaxpr(many_body, many_body.consts, *body_consts, *old)
        kept = [_select(going, o, n) for o, n in zip(old, new, strict=True)]
        return [*eval_jaxpr(many_cond, many_cond.consts, *cond_consts, *kept), *kept]

    return _Batched(
        trace_to_jaxpr(any_goes_on, [going, *carry_avals], cond.debug_info),
        trace_to_jaxpr(masked_body, [
            *many_cond.in_avals[:n_cond], *many_body.in_avals[:n_body], going, *carry_avals],
            body.debug_info), many_cond, carry)


def _batch(jaxpr: Jaxpr, axis: AxisData, flags: Sequence[bool],
           out_batched: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    batched, dims = batch_jaxpr(jaxpr, axis, [0 if b else None for b in flags], out_batched)
    return batched, [d is not None for d in dims]


def _select(going: Any, old: Any, new: Any) -> Any:
    """The new value of the elements that go on, the old one of the others."""
    which = broadcast_in_dim_p.bind(going, shape=new.shape, broadcast_dimensions=(0,))
    return select_n_p.bind(which, old, new)


@while_p.def_axis_batch
def _while_batch(axis: AxisData, args: Any, dims: Any, *, cond_jaxpr: Jaxpr, cond_nconsts: int,
                 body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    n_cond, start = cond_nconsts, cond_nconsts + body_nconsts
    flags = tuple(d is not None for d in dims)
    loop = _plan(cond_jaxpr, body_jaxpr, ("batch", axis, flags, n_cond), lambda: _batched_loop(
        cond_jaxpr, body_jaxpr, axis, flags, n_cond, body_nconsts))
    cond_consts, body_consts, carry = parts_of(
        [to_dim(a, d, 0, axis.size) if b else a for a, d, b in zip(
            args, dims, [*flags[:start], *loop.carry_batched], strict=True)],
        cond_nconsts, body_nconsts)
    out_dims = [0 if b else None for b in loop.carry_batched]
    if loop.first is None:
        return bind_while(loop.cond, loop.body, Parts(cond_consts, body_consts, carry)), out_dims
    going = eval_jaxpr(loop.first, loop.first.consts, *cond_consts, *carry)
    parts = Parts([], [*cond_consts, *body_consts], [*going, *carry])
    outs = bind_while(loop.cond, loop.body, parts)
    return outs[1:], out_dims


@while_p.def_dce
def _while_dce(used: Sequence[bool], eqn: Any) -> Any:
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    if not any(used) and not keeps_equation(eqn.effects):
        return [False] * len(eqn.invars), None
    cond, cond_used = dce_jaxpr(cond, [True], [True] * n_cond + [False] * len(used))
    needed = fixpoint([u or c for u, c in zip(used, cond_used[n_cond:], strict=True)],
                      slice(None), lambda u: dce_jaxpr(body, u)[1][n_body:])
    cond, _ = dce_jaxpr(eqn.params["cond_jaxpr"], [True], [True] * n_cond + needed)
    body, body_used = dce_jaxpr(body, needed, [False] * n_body + needed)
    used_ins = [*cond_used[:n_cond], *body_used[:n_body], *needed]
    params = {"cond_jaxpr": cond, "cond_nconsts": n_cond, "body_jaxpr": body,
              "body_nconsts": sum(body_used[:n_body])}
    return used_ins, eqn.replace(
        params=params, effects=_effects(cond, body, n_cond, sum(body_used[:n_body])),
        invars=[v for v, u in zip(eqn.invars, used_ins, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, needed, strict=True) if u])

__all__ = ["Parts", "bind_while", "while_p"]
