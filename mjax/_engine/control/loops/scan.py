"""The primitive `scan`: a loop of known length over the leading axes of arrays.

    scan[jaxpr, length, ...] (consts, carry, xs) -> (carry, ys)
    jaxpr: (consts, carry, x) -> (carry, y)

Its rules transform the body and sort what that needs into consts (the same in each
iteration), carry (handed from one to the next) and xs (one slice each). What they derive is
kept on the body, so that the same scan finds the same programs again. Here are its type, its
lowering, forward mode, batching and dead-code elimination; `scan_cuts` has the rest.

Source: the scan of functional programming (Bird 1987) with XLA's While below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.records import Record
from mjax._engine.base.util import split_list
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import (
    Axes,
    bind_retyped,
    joined,
    only_cast,
    varying_of,
    widened,
)
from mjax._engine.control.loops.carries import fixpoint
from mjax._engine.control.loops.while_loop import Parts
from mjax._engine.control.loops.while_loop import bind as bind_while
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import ShapedArray, physical_aval, same_type_but_weak, typeof
from mjax._engine.primitives.arithmetic import add_p, lt_p, sub_p
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from mjax._engine.primitives.shapes import reshape_p, zeros_of
from mjax._engine.primitives.slicing import slice_p
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.primitive import Primitive, no_axes, traced
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData, batch_jaxpr, to_dim
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr

scan_p = Primitive("scan", multiple_results=True, types_cacheable=False, own_varying=True)


class Loop(Record):
    """What stays of a scan's params when its body is replaced."""

    length: int
    reverse: bool
    unroll: int


def bind(jaxpr: Jaxpr, num_consts: int, num_carry: int, args: Sequence[Any], loop: Loop
         ) -> list[Any]:
    """Applies `scan`."""
    return bind_retyped(scan_p, args, scan_params(jaxpr, num_consts, num_carry, loop))


def scan_params(jaxpr: Jaxpr, num_consts: int, num_carry: int, loop: Loop) -> dict[str, Any]:
    """The params of an equation."""
    return {"jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry, **loop._asdict()}


def stacked(aval: ShapedArray, length: int) -> ShapedArray:
    """The type of one value per iteration."""
    return aval.update(shape=(length, *aval.shape))


def rearranged(jaxpr: Jaxpr, ins: Sequence[int], outs: Sequence[int] | None = None) -> Jaxpr:
    """The same program with inputs and results in another order; results may be left out."""
    return jaxpr.replace(
        invars=[jaxpr.invars[i] for i in ins],
        outvars=jaxpr.outvars if outs is None else [jaxpr.outvars[i] for i in outs])


@scan_p.def_effectful_abstract_eval
def _scan_type(*avals: Any, jaxpr: Jaxpr, num_carry: int, length: int, **params: Any) -> Any:
    outs = jaxpr.out_avals
    return outs[:num_carry] + [stacked(y, length) for y in outs[num_carry:]], jaxpr.effects


def _scan_typecheck(*avals: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int,
                    **params: Any) -> None:
    n = num_consts + num_carry
    wanted = [*jaxpr.in_avals[:n], *(stacked(a, length) for a in jaxpr.in_avals[n:])]
    if len(avals) != len(wanted) or not all(map(same_type_but_weak, avals, wanted)):
        msg = (f"scan of a body over operands {', '.join(map(str, wanted))} applied to "
               f"{', '.join(map(str, avals))}")
        raise TypeError(msg)
    before, after = jaxpr.in_avals[num_consts:n], jaxpr.out_avals[:num_carry]
    if len(after) < num_carry or not all(map(same_type_but_weak, before, after)):
        msg = (f"scan: the carry {', '.join(map(str, before))} becomes "
               f"{', '.join(map(str, after))}")
        raise TypeError(msg)


scan_p.typecheck = _scan_typecheck


def _scan_cast_varying(varying: Sequence[Axes], *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
                 **params: Any) -> Any:
    """A carry varies along what it varies along after an iteration, and so on.

    A const, or an x, that the body does nothing with but cast it is cast in front of the loop:
    its cotangent is summed over devices once, not once per iteration.
    """
    carry = slice(num_consts, num_consts + num_carry)
    wanted = joined(varying, varying_of(jaxpr))
    while True:
        body = widened(jaxpr, wanted)
        grown = [a | o.varying for a, o in zip(wanted[carry], body.out_avals, strict=False)]
        if grown == wanted[carry]:
            break
        wanted[carry] = grown
    for i, var in enumerate(body.invars):
        if not carry.start <= i < carry.stop:
            wanted[i] |= only_cast(body, var)
    body = widened(jaxpr, wanted, [*wanted[carry], *[no_axes] * (len(body.outvars) - num_carry)])
    return wanted, {"jaxpr": body, "num_consts": num_consts, "num_carry": num_carry, **params}


scan_p.cast_varying = _scan_cast_varying

# ---- lowering: a while loop ------------------------------------------------------------


def _as_while(*args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int,
              reverse: bool, unroll: int) -> list[Any]:
    consts, carry, xs = split_list(args, [num_consts, num_carry])
    y_avals = jaxpr.out_avals[num_carry:]
    step = _Step(jaxpr, len(consts), num_carry, length, reverse)
    trips = length // unroll if length > unroll else 0
    ys = [_empty(stacked(a, length)) for a in y_avals]
    if trips:
        cond, body = jaxpr.cached(("scan_as_while", step[1:], unroll, trips),
                                  lambda: step.loop(trips * unroll, unroll))
        start: list[Any] = [np.int32(0), *carry, *ys]
        _, *outs = bind_while(cond, body, Parts([], [*consts, *xs], start))
        carry, ys = outs[:num_carry], outs[num_carry:]
    for i in range(trips * unroll, length):
        carry, ys = step.take(np.int32(i), consts, carry, xs, ys)
    return [*carry, *ys]


class _Step(Record):
    """One iteration, on whole arrays."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    length: int
    reverse: bool

    def take(self, i: Any, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any],
             ys: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Carry and ys after iteration `i`."""
        last = np.int32(self.length - 1)
        if self.reverse:
            i = last - i if isinstance(i, np.int32) else sub_p.bind(last, i)
        rows = [_row(x, i) for x in xs]
        outs = call(self.jaxpr, "body", [*consts, *carry, *rows])
        return outs[:self.num_carry], [
            _with_row(y, out, i) for y, out in zip(ys, outs[self.num_carry:], strict=True)]

    def loop(self, stop: int, unroll: int) -> tuple[Jaxpr, Jaxpr]:
        """Condition and body of the while loop that makes `unroll` iterations at a time."""
        n = self.num_consts + self.num_carry
        in_avals, y_avals = self.jaxpr.in_avals, self.jaxpr.out_avals[self.num_carry:]
        counter = typeof(np.int32(0))
        xs = [stacked(a, self.length) for a in in_avals[n:]]
        carry = [counter, *in_avals[self.num_consts:n], *(stacked(a, self.length) for a in y_avals)]

        def more(i: Any, *rest: Any) -> list[Any]:
            return [lt_p.bind(i, np.int32(stop))]

        def body(*args: Any) -> list[Any]:
            consts, xs, (i,), carry, ys = split_list(
                args, [self.num_consts, len(in_avals) - n, 1, self.num_carry])
            for k in range(unroll):
                at = add_p.bind(i, np.int32(k)) if k else i
                carry, ys = self.take(at, consts, carry, xs, ys)
            return [add_p.bind(i, np.int32(unroll)), *carry, *ys]

        return (trace_to_jaxpr(more, carry, self.jaxpr.debug_info),
                trace_to_jaxpr(body, [*in_avals[:self.num_consts], *xs, *carry],
                                       self.jaxpr.debug_info))


def _row(x: Any, i: Any) -> Any:
    aval = typeof(x)
    shape = aval.shape[1:]
    if isinstance(i, np.int32):
        row = slice_p.bind(x, start_indices=(int(i), *(0 for _ in shape)),
                           limit_indices=(int(i) + 1, *shape), strides=None)
    else:
        row = dynamic_slice_p.bind(x, i, *(np.int32(0) for _ in shape), slice_sizes=(1, *shape))
    return reshape_p.bind(row, new_sizes=shape, dimensions=None)


def _with_row(y: Any, row: Any, i: Any) -> Any:
    shape = typeof(row).shape
    row = reshape_p.bind(row, new_sizes=(1, *shape), dimensions=None)
    return dynamic_update_slice_p.bind(y, row, i, *(np.int32(0) for _ in shape))


def _empty(aval: ShapedArray) -> Any:
    """An array to be filled."""
    if dtypes.is_extended(aval.dtype):
        return aval.dtype.wrap(zeros_of(physical_aval(aval)))
    return zeros_of(aval)


scan_p.def_lowering(traced(_as_while, multiple_results=True))

# ---- forward mode ----------------------------------------------------------------------


class _Tangents(Record):
    """The scan that carries tangents too; places of operands and results in its own."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    nonzeros: list[bool]
    operands: list[int]
    results: list[int]
    nonzero_outs: list[bool]


def _with_tangents(jaxpr: Jaxpr, nonzeros: Sequence[bool], nc: int, nk: int) -> _Tangents:
    n, m, ys = len(jaxpr.invars), len(jaxpr.outvars), [False] * (len(jaxpr.outvars) - nk)
    # A carry may get a tangent in a later iteration.
    nonzeros = fixpoint(nonzeros, slice(nc, nc + nk),
                        lambda nz: jvp_jaxpr(jaxpr, nz, [*nz[nc:nc + nk], *ys])[1])
    jvp, nonzero_outs = jvp_jaxpr(jaxpr, nonzeros, [*nonzeros[nc:nc + nk], *ys])
    groups = [slice(nc), slice(nc, nc + nk), slice(nc + nk, n)]
    operands, sizes = _interleaved(n, nonzeros, groups)
    results, _ = _interleaved(m, nonzero_outs, [slice(nk), slice(nk, m)])
    return _Tangents(rearranged(jvp, operands, results), sizes[0], sizes[1], nonzeros, operands,
                     results, nonzero_outs)


def _interleaved(n: int, nonzeros: Sequence[bool], groups: Sequence[slice]
                 ) -> tuple[list[int], list[int]]:
    """From `(values, tangents of some)` to `(values, tangents)` for each group of values.

    Returns:
      The places of the elements before, and the sizes of the groups after.
    """
    places = iter(range(n, n + sum(nonzeros)))
    tangent_at = [next(places) if nz else None for nz in nonzeros]
    cut = [[*range(n)[g], *(t for t in tangent_at[g] if t is not None)] for g in groups]
    return [i for group in cut for i in group], list(map(len, cut))


@scan_p.def_jvp
def _scan_jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, num_consts: int, num_carry: int,
              **loop: Any) -> Any:
    key = ("scan_jvp", tuple(type(t) is not Zero for t in tangents), num_consts, num_carry,
           ctx.settings)
    plan = jaxpr.cached(key, lambda: _with_tangents(jaxpr, key[1], num_consts, num_carry))
    given = [*primals, *(instantiate(t) for t, nz in zip(tangents, plan.nonzeros, strict=True)
                         if nz)]
    found = dict(zip(plan.results, bind(
        plan.jaxpr, plan.num_consts, plan.num_carry, [given[i] for i in plan.operands],
        Loop(**loop)), strict=True))
    outs = [found[i] for i in range(len(jaxpr.outvars))]
    places = iter(range(len(outs), len(found)))
    return outs, [found[next(places)] if nz else Zero(typeof(out).to_tangent())
                  for out, nz in zip(outs, plan.nonzero_outs, strict=True)]


# ---- batching and dead code ------------------------------------------------------------


class _Batched(Record):
    jaxpr: Jaxpr
    flags: list[bool]
    out_dims: list[int | None]


def _batched_body(jaxpr: Jaxpr, axis: AxisData, flags: Sequence[bool], nc: int, nk: int
                  ) -> _Batched:
    ys = [False] * (len(jaxpr.outvars) - nk)

    def batch(b: Sequence[bool]) -> tuple[Jaxpr, list[int | None]]:
        return batch_jaxpr(jaxpr, axis, [0 if f else None for f in b], [*b[nc:nc + nk], *ys])

    flags = fixpoint(flags, slice(nc, nc + nk), lambda b: [d is not None for d in batch(b)[1]])
    batched, dims = batch(flags)
    return _Batched(batched, flags, [
        None if d is None else int(i >= nk) for i, d in enumerate(dims)])


def _scan_batch(axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, num_consts: int,
                num_carry: int, **loop: Any) -> Any:
    n = num_consts + num_carry
    key = ("scan_batch", axis, tuple(d is not None for d in dims), num_consts, num_carry,
           ctx.settings)
    plan = jaxpr.cached(key, lambda: _batched_body(jaxpr, axis, key[2], num_consts, num_carry))
    args = [to_dim(a, d, int(i >= n), axis.size) if b else a
            for i, (a, d, b) in enumerate(zip(args, dims, plan.flags, strict=True))]
    return bind(plan.jaxpr, num_consts, num_carry, args, Loop(**loop)), plan.out_dims


scan_p.axis_batch = _scan_batch


def _scan_dce(used: Sequence[bool], eqn: Any) -> Any:
    if not any(used) and not keeps_equation(eqn.effects):
        return [False] * len(eqn.invars), None
    jaxpr, nc, nk = (eqn.params[k] for k in ("jaxpr", "num_consts", "num_carry"))
    # A carry is used if its result is, or if a later iteration reads it.
    used = fixpoint(used, slice(nk), lambda u: dce_jaxpr(jaxpr, u)[1][nc:nc + nk])
    n_xs = len(jaxpr.invars) - nc - nk
    body, used_ins = dce_jaxpr(jaxpr, used, [False] * nc + used[:nk] + [False] * n_xs)
    params = {**eqn.params, "jaxpr": body, "num_consts": sum(used_ins[:nc]),
              "num_carry": sum(used[:nk])}
    return used_ins, eqn.replace(
        params=params, effects=body.effects,
        invars=[v for v, u in zip(eqn.invars, used_ins, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used, strict=True) if u])


scan_p.dce = _scan_dce

__all__ = ["Loop", "bind", "rearranged", "scan_p", "scan_params", "stacked"]
