"""The type checker: the specification of well-formed jaxprs, on one screen.

A jaxpr is well typed if no variable is used before it is bound, none is bound twice, each
equation's results have the types that the primitive's abstract evaluation gives, and its
effects are a superset of its equations' effects. Where a primitive's params hold jaxprs, its
`typecheck` compares their types with the operands'.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.context import ctx
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var, jaxprs_in_params
from mjax._engine.ir.pprint import print_eqn
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import AbstractToken, ShapedArray, same_type_but_weak, typeof


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Type-checks a jaxpr and those in its params.

    Raises:
      JaxprTypeError: it is not well typed; the text names the equation and the user's line.
    """
    bound: set[Var] = set()

    def fail(what: str, eqn: JaxprEqn | None = None) -> None:
        raise JaxprTypeError(lambda: what if eqn is None else (
            f"{what}\nin equation: {print_eqn(eqn)}\nfrom {summarize(eqn.source)}"))

    def read(atom: Any, eqn: JaxprEqn | None = None) -> Any:
        if type(atom) is Literal:
            # A literal varies as the operands beside it do.
            plain = atom.aval.update(varying=frozenset())
            if not same_type_but_weak(typeof(atom.val), plain) or plain.shape:
                fail(f"literal {atom.val!r} has not the type {atom.aval} it claims", eqn)
        elif atom not in bound:
            fail(f"variable of type {atom.aval} is used but not bound", eqn)
        return atom.aval

    def write(var: Any, eqn: JaxprEqn | None = None) -> None:
        if not isinstance(var.aval, (ShapedArray, AbstractToken)):
            fail(f"variable has no type but {var.aval!r}", eqn)
        if var in bound:
            fail(f"variable of type {var.aval} is bound twice", eqn)
        if type(var) is not DropVar:
            bound.add(var)

    if len(jaxpr.constvars) != len(jaxpr.consts):
        fail(f"{len(jaxpr.constvars)} constvars but {len(jaxpr.consts)} consts")
    for var, const in zip(jaxpr.constvars, jaxpr.consts, strict=True):
        write(var)
        if not same_type_but_weak(typeof(const), var.aval):
            fail(f"constant of type {typeof(const)} for a variable of type {var.aval}")
    for var in jaxpr.invars:
        write(var)
    for eqn in jaxpr.eqns:
        in_avals = [read(atom, eqn) for atom in eqn.invars]
        for inner in jaxprs_in_params(eqn.params):
            inner.cached(("checked", ctx.settings), lambda: _checked(inner))  # noqa: B023
        if eqn.primitive.typecheck is not None:
            try:
                eqn.primitive.typecheck(*in_avals, **eqn.params)
            except TypeError as error:
                fail(str(error), eqn)
        out_avals, effects = eqn.primitive.infer(in_avals, eqn.params)
        if len(out_avals) != len(eqn.outvars):
            fail(f"{len(eqn.outvars)} results bound where {len(out_avals)} are made", eqn)
        for var, aval in zip(eqn.outvars, out_avals, strict=True):
            if var.aval is not aval:
                fail(f"result bound at type {var.aval}, inferred {aval}", eqn)
            write(var, eqn)
        if not effects <= eqn.effects or not eqn.effects <= jaxpr.effects:
            fail(f"effects {set(effects)} are not all declared", eqn)
    for atom in jaxpr.outvars:
        read(atom)


def _checked(jaxpr: Jaxpr) -> bool:
    """Type-checks a jaxpr; true, because `Jaxpr.cached` keeps no None."""
    check_jaxpr(jaxpr)
    return True
