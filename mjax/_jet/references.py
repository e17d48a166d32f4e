"""References in Taylor mode: each has further references, one per coefficient.

Reading and writing are linear, so each coefficient is read and written by itself.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.control.references.primitives import (
    addupdate_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    refuse_tangent,
    swap_p,
)
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._jet.series import Rule, Sparse, Terms, always_rules, instantiated, jet_rules


def _reading(primitive: Primitive) -> Rule:
    """The rule of a primitive that reads or ends a reference."""

    def rule(primals: Any, terms: Any, **params: Any) -> Any:
        return primitive.bind(*primals, **params), [
            primitive.bind(ref, *primals[1:], **params) for ref in terms[0]]

    return rule


def _writing(primitive: Primitive) -> Rule:
    """The rule of a primitive that writes its second operand to a reference."""

    def rule(order: int, primals: Any, terms: list[Terms], **params: Any) -> Any:
        ref, value, *rest = primals
        out, refs = primitive.bind(*primals, **params), terms[0]
        if refs is None and terms[1] is not None:
            refuse_tangent(primitive.name, ref)
        series = None if refs is None else [
            primitive.bind(r, t, *rest, **params)
            for r, t in zip(refs, instantiated(value, terms[1], order), strict=True)]
        return out, [] if primitive.multiple_results else series

    return rule


def _new_ref(order: int, primals: Any, terms: list[Terms]) -> Any:
    (x,), (series,) = primals, terms
    out = new_ref_p.bind(x)
    return out, [new_ref_p.bind(t) for t in instantiated(x, series, order)] if (
        typeof(out).inexact) else None


for _primitive in (get_p, freeze_p, free_ref_p):
    jet_rules[_primitive] = Sparse(_reading(_primitive))
for _primitive in (swap_p, addupdate_p):
    always_rules[_primitive] = _writing(_primitive)
always_rules[new_ref_p] = _new_ref
