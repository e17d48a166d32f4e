"""The primitive `while`: repeats a body as long as a condition on its carries holds.

    while[cond_jaxpr, body_jaxpr] (cond consts, body consts, carry) -> carry

Its frame, in `while_frame`, derives its rules; this file contains its lowering.

Source: XLA's While operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.util import split_list
from mjax._engine.control.cast_varying import bind_cast
from mjax._engine.ir.effects import Effects, renumbered, token_names
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray, same_type_but_weak
from mjax._engine.primitives.emit import flat, hlo, ir
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import EnginePrimitive

while_p = EnginePrimitive("while", params={
    "cond_jaxpr": Jaxpr, "body_jaxpr": Jaxpr, "cond_nconsts": int, "body_nconsts": int},
    multiple_results=True)


class Parts(Record):
    """The operands of a `while`."""

    cond_consts: list[Any]
    body_consts: list[Any]
    carry: list[Any]


def parts_of(values: Sequence[Any], cond_nconsts: int, body_nconsts: int) -> Parts:
    """Splits a list with one item per operand."""
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


@while_p.def_lowering
def _while_lowering(ctx: Any, *operands: Any, cond_jaxpr: Jaxpr, cond_nconsts: int,
                    body_jaxpr: Jaxpr, body_nconsts: int) -> Any:
    cond_consts, body_consts, carry = parts_of(operands, cond_nconsts, body_nconsts)
    # A condition's region returns only the predicate. So a condition with ordered effects runs
    # before the loop and at the end of its body, and the predicate is a carry.
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


__all__ = ["Parts", "bind_while", "parts_of", "while_p"]
