"""The type checker: the specification of well-formed jaxprs, on one screen.

A jaxpr is well typed under four conditions. Each variable is bound once, before its uses. Each
equation has the params of the primitive's schema, if it declares one. Its results have the types
that the abstract evaluation returns. The jaxpr's effects include those of its equations. If a
primitive's params hold jaxprs, its `typecheck` compares their types with the operands'.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NoReturn

from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import (
    DropVar,
    Jaxpr,
    JaxprEqn,
    Literal,
    Var,
    effects_of,
    jaxprs_in_params,
)
from mjax._engine.ir.schema import Schema
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import AbstractValue, same_type_but_weak, typeof, types_of


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Type-checks a jaxpr and those in its params.

    Args:
      jaxpr: the program.

    Raises:
      JaxprTypeError: it is not well typed; the text names the equation and the user's line.
      TypeError: it is not a jaxpr.

    Example:
      >>> from mjax_ext import core
      >>> core.check_jaxpr(mjax.make_jaxpr(lax.sin)(1.0))
    """
    if not isinstance(jaxpr, Jaxpr):
        msg = (f"check_jaxpr takes a jaxpr, such as mjax.make_jaxpr(f)(*args) gives; got "
               f"{jaxpr!r} of type {type(jaxpr).__name__}.")
        raise TypeError(msg)
    bound: set[Var] = set()
    if len(jaxpr.constvars) != len(jaxpr.consts):
        _fail(f"{len(jaxpr.constvars)} constvars but {len(jaxpr.consts)} consts")
    for var, const in zip(jaxpr.constvars, jaxpr.consts, strict=True):
        _define(bound, var)
        if not same_type_but_weak(typeof(const), var.aval):
            _fail(f"constant of type {typeof(const)} for a variable of type {var.aval}")
    for var in jaxpr.invars:
        _define(bound, var)
    places = jaxpr.places()
    for eqn in jaxpr.eqns:
        _check_equation(bound, eqn)
        undeclared = effects_of(eqn, places) - jaxpr.effects
        if undeclared:
            _fail(f"effects {set(undeclared)} are not all declared", eqn)
    for atom in jaxpr.outvars:
        _type_of(bound, atom)


def _check_equation(bound: set[Var], eqn: JaxprEqn) -> None:
    in_avals = [_type_of(bound, atom, eqn) for atom in eqn.invars]
    scope, schema = eqn.primitive.scope, eqn.primitive.schema
    if schema is not None:
        _check_params(schema, eqn)
    with contextlib.nullcontext() if scope is None else scope(**eqn.params):
        for inner in jaxprs_in_params(eqn.params):
            inner.cached(("checked", thread.settings), functools.partial(_checked, inner))
    if eqn.primitive.typecheck is not None:
        try:
            eqn.primitive.typecheck(*in_avals, **eqn.params)
        except TypeError as error:
            _fail(str(error), eqn)
    out_avals, effects = eqn.primitive.infer(in_avals, eqn.params)
    if len(out_avals) != len(eqn.outvars):
        _fail(f"{len(eqn.outvars)} results bound where {len(out_avals)} are made", eqn)
    for var, aval in zip(eqn.outvars, out_avals, strict=True):
        if var.aval != aval:
            _fail(f"result bound at type {var.aval}, inferred {aval}", eqn)
        _define(bound, var, eqn)
    if not effects <= eqn.effects:
        _fail(f"effects {set(effects)} are not all declared", eqn)


def _check_params(schema: Schema, eqn: JaxprEqn) -> None:
    """Compares names and types of the params with the schema."""
    name, params = eqn.primitive.name, eqn.params
    wrong = schema.misnamed(params)
    if wrong:
        _fail(f"{wrong}: the params of {name} are ({schema})", eqn)
    wrong = schema.mistyped(params)
    if wrong:
        _fail(f"{name}: {wrong}", eqn)
    for param, value in params.items():
        if param not in schema.bodies and any(jaxprs_in_params({param: value})):
            _fail(f"{name}: param {param!r} holds a jaxpr, so Jaxpr must be part of its type in "
                  "the schema", eqn)


def _type_of(bound: set[Var], atom: Any, eqn: JaxprEqn | None = None) -> Any:
    """The type of a variable that is bound, or of a literal."""
    if type(atom) is Literal:
        # A literal varies as the operands beside it do.
        plain = atom.aval.with_varying(frozenset())
        if not _is_of_type(atom.val, plain) or not plain.literal:
            _fail(f"literal {atom.val!r} does not have the type {atom.aval} it claims", eqn)
    elif atom not in bound:
        _fail(f"variable of type {atom.aval} is used but not bound", eqn)
    return atom.aval


def _is_of_type(value: Any, aval: Any) -> bool:
    """Whether a literal may have this type: x64 may have been on or off where it was made."""
    return any(same_type_but_weak(a, aval) for a in types_of(value))


def _define(bound: set[Var], var: Any, eqn: JaxprEqn | None = None) -> None:
    if not isinstance(var.aval, AbstractValue):
        _fail(f"variable has no type but {var.aval!r}", eqn)
    if var in bound:
        _fail(f"variable of type {var.aval} is bound twice", eqn)
    if type(var) is not DropVar:
        bound.add(var)


def _fail(what: str, eqn: JaxprEqn | None = None) -> NoReturn:
    raise JaxprTypeError(lambda: what if eqn is None else (
        f"{what}\nin equation: {eqn}\nfrom {summarize(eqn.source)}"))


def _checked(jaxpr: Jaxpr) -> bool:
    """Type-checks a jaxpr; returns True, because `Jaxpr.cached` does not keep None."""
    check_jaxpr(jaxpr)
    return True
