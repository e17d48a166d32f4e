"""Compiled programs that take and give values of users' types: they take and give their arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import AbstractToken, AbstractValue, ShapedArray
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.user_types import Packed, PackedPlacement, pack_p, unpack_p

_SINGLE = (ShapedArray, AbstractToken)


def has_packed(asked: Asked) -> bool:
    """Whether an argument or a result is a value of a user's type."""
    return (any(type(p) is PackedPlacement for p in asked.placements)
            or not all(isinstance(v.aval, _SINGLE) for v in asked.jaxpr.outvars))


def of_arrays(asked: Asked) -> Asked:
    """The program that takes and gives the arrays of such values."""
    jaxpr, groups = asked.jaxpr, [_parts(p) for p in asked.placements]
    sizes = [None if g is None else len(g) for g in groups]
    outs = [None if isinstance(v.aval, _SINGLE) else len(v.aval.physical())
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
        outs = eval_jaxpr(jaxpr, jaxpr.consts, *_packed(
            jaxpr.in_avals, arrays, lambda aval, parts: pack_p.bind(*parts, aval=aval)))
        return [x for out, v in zip(outs, jaxpr.outvars, strict=True)
                for x in ([out] if isinstance(v.aval, _SINGLE) else unpack_p.bind(out))]

    avals = [a for aval in jaxpr.in_avals
             for a in ((aval,) if isinstance(aval, _SINGLE) else aval.physical())]
    return trace_to_jaxpr(run, avals, jaxpr.debug_info._replace(arg_names=None))


def _packed(avals: Sequence[AbstractValue], arrays: Sequence[Any],
            pack: Callable[[Any, Sequence[Any]], Any]) -> list[Any]:
    rest = iter(arrays)
    return [next(rest) if isinstance(aval, _SINGLE) else
            pack(aval, [next(rest) for _ in aval.physical()]) for aval in avals]


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
        return out_tree.unflatten(_packed(out_avals, compute(*arrays), Packed))

    return run


__all__ = ["has_packed", "of_arrays", "with_packed"]
