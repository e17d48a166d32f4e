"""Compiled programs that take and give values of users' types: they take and give their arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import AbstractValue
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.user_types import (
    SINGLE,
    Packed,
    PackedPlacement,
    from_parts,
    to_parts,
    types_of_parts,
)


def has_packed(asked: Asked) -> bool:
    """Whether an argument or a result is a value of a user's type."""
    return (any(type(p) is PackedPlacement for p in asked.placements)
            or not all(isinstance(v.aval, SINGLE) for v in asked.jaxpr.outvars))


def of_arrays(asked: Asked) -> Asked:
    """The program that takes and gives the arrays of such values."""
    jaxpr, groups = asked.jaxpr, [_parts(p) for p in asked.placements]
    sizes = [None if g is None else len(g) for g in groups]
    outs = [None if isinstance(v.aval, SINGLE) else len(types_of_parts(v.aval))
            for v in jaxpr.outvars]
    return asked._replace(
        jaxpr=_of_arrays(jaxpr),
        placements=[q for p, g in zip(asked.placements, groups, strict=True)
                    for q in ((p,) if g is None else g)],
        donated=_spread(asked.donated, sizes),
        in_shardings=_spread(asked.in_shardings, sizes),
        out_shardings=_spread(asked.out_shardings, outs))


def _parts(placement: Any) -> tuple[Any, ...] | None:
    return placement.parts if type(placement) is PackedPlacement else None


def _spread(given: Sequence[Any], sizes: Sequence[int | None]) -> list[Any]:
    """An option of a value, once for each of its arrays; empty if it is not given."""
    return [x for x, n in zip(given, sizes, strict=True)
            for _ in range(1 if n is None else n)] if given else []


def _of_arrays(jaxpr: Jaxpr) -> Jaxpr:
    def run(*arrays: Any) -> list[Any]:
        return to_parts(eval_jaxpr(jaxpr, jaxpr.consts, *from_parts(jaxpr.in_avals, arrays)))

    avals = [part for aval in jaxpr.in_avals for part in types_of_parts(aval)]
    return trace_to_jaxpr(run, avals, jaxpr.debug_info._replace(arg_names=None))


def with_packed(compute: Callable[..., Any], out_avals: Sequence[AbstractValue],
                    out_tree: Any) -> Callable[..., Any]:
    """The function of packed values, given that of their arrays.

    Args:
      compute: takes arrays, and gives a list of arrays.
      out_avals: the types of the results.
      out_tree: the tree of the results.
    """
    def run(*args: Any) -> Any:
        arrays = [x for a in args for x in (a.parts if type(a) is Packed else (a,))]
        return out_tree.unflatten(from_parts(out_avals, compute(*arrays), _outside))

    return run


def _outside(aval: AbstractValue, parts: Sequence[Any]) -> Any:
    """A value of a user's type outside of programs."""
    return aval.raise_val(*parts) if aval.is_high else Packed(aval, parts)


__all__ = ["has_packed", "of_arrays", "with_packed"]
