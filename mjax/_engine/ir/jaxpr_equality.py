"""Tells whether two jaxprs are one program traced twice, so that they can share cached results."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir.jaxpr import Atom, Jaxpr, Literal
from mjax._engine.ir.source import annotations_of


def same_program(a: Jaxpr, b: Jaxpr) -> bool:
    """Whether two jaxprs do the same with the same constants.

    Constants are the same if they are one immutable object. So two jaxprs with a NumPy array are
    never the same.
    """
    if (len(a.eqns) != len(b.eqns) or len(a.outvars) != len(b.outvars) or a.effects != b.effects
            or a.in_avals != b.in_avals or not _same(tuple(a.consts), tuple(b.consts))):
        return False
    names = dict(zip([*a.constvars, *a.invars], [*b.constvars, *b.invars], strict=True))

    def same_atoms(ones: list[Atom], others: list[Atom]) -> bool:
        return len(ones) == len(others) and all(
            _same_literal(x, y) if isinstance(x, Literal) else names.get(x) is y
            for x, y in zip(ones, others, strict=True))

    for one, other in zip(a.eqns, b.eqns, strict=True):
        if not (one.primitive is other.primitive and same_atoms(one.invars, other.invars)
                and _same(one.params, other.params)
                and annotations_of(one.source) == annotations_of(other.source)):
            return False
        names.update(zip(one.outvars, other.outvars, strict=True))
    return same_atoms(a.outvars, b.outvars)


def _same_literal(a: Literal, b: Atom) -> bool:
    return isinstance(b, Literal) and a.aval == b.aval and (a.val is b.val or (
        type(a.val) is type(b.val) and np.asarray(a.val).tobytes() == np.asarray(b.val).tobytes()))


def _same(a: Any, b: Any) -> bool:
    """Whether params are the same; equal ones need not be."""
    if isinstance(a, np.ndarray):  # it may have changed since
        return False
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, Jaxpr):
        return same_program(a, b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return repr(a) == repr(b)
    try:
        return hash(a) == hash(b) and bool(a == b)
    except TypeError:  # not hashable, as arrays are not
        return False


__all__ = ["same_program"]
