"""Examples in the schemas of the engine's primitives: applications, made when they are asked for.

The engine declares the params; programs that apply its primitives need what is above it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import mjax
from mjax._engine.ir.jaxpr import Jaxpr, Literal, jaxprs_in_params
from mjax._engine.ir.schema import Example
from mjax._engine.ir.types import ShapedArray
from mjax._engine.tracing.primitive import Primitive
from mjax_ext._drawn import drawn
from mjax_ext._operands import Operands

Application = tuple[Primitive, list[Any], dict[str, Any]]


def declare(primitives: Iterable[Primitive]) -> None:
    """Gives schemas their examples, as functions that load the table of programs."""
    for p in primitives:
        if p.schema is not None and not p.schema.examples:
            p.schema = p.schema._replace(examples=partial(_examples, p))


def _examples(primitive: Primitive) -> list[Example]:
    """The example of the table; none if that does not have the primitive."""
    table: Any = importlib.import_module("mjax_ext.core._example_programs")
    if primitive in table.APPLIED:
        return [table.APPLIED[primitive]]
    if primitive in table.MADE:
        return [table.MADE[primitive]()]
    if primitive not in table.PROGRAMS:
        return []
    f, args = table.PROGRAMS[primitive]
    found = _applications(mjax.make_jaxpr(f)(*args), args)
    operands, params = next((o, params) for p, o, params in found if p is primitive)
    first = Operands(operands, table.FITS.get(primitive)), params
    return [first, *([table.FURTHER[primitive]] if primitive in table.FURTHER else [])]


def _applications(jaxpr: Jaxpr, args: Sequence[Any]) -> Iterator[Application]:
    """The equations of a program, with operands. In bodies these are random."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*jaxpr.consts, *args], strict=True))
    for eqn in jaxpr.eqns:
        operands = [a.val if isinstance(a, Literal) else values[a] for a in eqn.invars]
        yield eqn.primitive, operands, eqn.params
        for body in jaxprs_in_params(eqn.params):
            yield from _inside(body)
        out = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(eqn.params))
        values.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out],
                          strict=True))


def _inside(jaxpr: Jaxpr) -> Iterator[Application]:
    random = np.random.default_rng(0)
    for eqn in jaxpr.eqns:
        if all(isinstance(a.aval, ShapedArray) for a in eqn.invars):
            yield eqn.primitive, [drawn(random, a.aval) for a in eqn.invars], eqn.params
        for body in jaxprs_in_params(eqn.params):
            yield from _inside(body)
