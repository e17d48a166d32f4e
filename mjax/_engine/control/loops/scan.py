"""The primitive `scan`: a loop of known length over the leading axes of arrays.

    scan[jaxpr, length, ...] (consts, carry, xs) -> (carry, ys)
    jaxpr: (consts, carry, x) -> (carry, y)

Its frame, in `scan_frame`, derives its rules; this file contains its lowering.

Source: the scan of functional programming (Bird 1987) with XLA's While below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.util import split_list
from mjax._engine.control.calls.jit import call
from mjax._engine.control.cast_varying import bind_cast
from mjax._engine.control.loops.while_loop import Parts, bind_while
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.arithmetic import add_p, lt_p, sub_p
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from mjax._engine.primitives.shapes import reshape_p, scalar_of, zeros_of
from mjax._engine.primitives.slicing import slice_p
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.user_types import from_parts, to_parts, types_of_parts
from mjax._engine.transforms.batching import batched_type

COUNTER = ShapedArray((), np.dtype(np.int32))

scan_p = EnginePrimitive("scan", params={
    "jaxpr": Jaxpr, "length": int, "reverse": bool, "unroll": int, "num_consts": int,
    "num_carry": int}, multiple_results=True)


class Loop(Record):
    """The params of a scan that stay if its body is replaced."""

    length: int
    reverse: bool
    unroll: int


def bind_scan(jaxpr: Jaxpr, num_consts: int, num_carry: int, args: Sequence[Any], loop: Loop
              ) -> list[Any]:
    """Applies `scan`."""
    return bind_cast(scan_p, args, scan_params(jaxpr, num_consts, num_carry, loop))


def scan_params(jaxpr: Jaxpr, num_consts: int, num_carry: int, loop: Loop) -> dict[str, Any]:
    """The params of an equation."""
    return {"jaxpr": jaxpr, "num_consts": num_consts, "num_carry": num_carry, **loop._asdict()}


def stacked(aval: Any, length: int) -> Any:
    """The type of one value per iteration."""
    return batched_type(aval, 0, length)


def rearranged(jaxpr: Jaxpr, ins: Sequence[int], outs: Sequence[int] | None = None) -> Jaxpr:
    """The same program with inputs and results in another order, possibly with fewer results."""
    return jaxpr.replace(
        invars=[jaxpr.invars[i] for i in ins],
        outvars=jaxpr.outvars if outs is None else [jaxpr.outvars[i] for i in outs])


# ---- lowering: a while loop ------------------------------------------------------------


def _as_while(*args: Any, jaxpr: Jaxpr, num_consts: int, num_carry: int, length: int,
              reverse: bool, unroll: int) -> list[Any]:
    consts, carry, xs = split_list(args, [num_consts, num_carry])
    y_avals = jaxpr.out_avals[num_carry:]
    if not all(isinstance(a, ShapedArray) for a in (
            *jaxpr.in_avals[num_consts + num_carry:], *y_avals)):
        return _in_parts(consts, carry, xs, jaxpr, length, reverse=reverse, unroll=unroll)
    step = _Step(jaxpr, len(consts), num_carry, length, reverse)
    trips = length // unroll if is_symbolic_dim(length) or length > unroll else 0
    ys = [zeros_of(stacked(a, length)) for a in y_avals]
    if trips:
        cond, body = jaxpr.cached(("scan_as_while", step[1:], unroll, trips),
                                  lambda: step.loop(trips * unroll, unroll))
        start: list[Any] = [np.int32(0), *carry, *ys]
        _, *outs = bind_while(cond, body, Parts([], [*consts, *xs], start))
        carry, ys = outs[:num_carry], outs[num_carry:]
    for i in () if is_symbolic_dim(length) else range(trips * unroll, length):
        carry, ys = step.take(np.int32(i), consts, carry, xs, ys)
    return [*carry, *ys]


def _in_parts(consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], jaxpr: Jaxpr,
              length: int, **params: Any) -> list[Any]:
    """A scan over values of users' types: over the arrays that represent them."""
    nc, nk = len(consts), len(carry)
    rows, y_avals = jaxpr.in_avals[nc + nk:], jaxpr.out_avals[nk:]

    def of_parts() -> Jaxpr:
        def body(*args: Any) -> list[Any]:
            head, parts = split_list(args, [nc + nk])
            outs = eval_jaxpr(jaxpr, jaxpr.consts, *head, *from_parts(rows, parts))
            return [*outs[:nk], *to_parts(outs[nk:])]

        return trace_to_jaxpr(body, [*jaxpr.in_avals[:nc + nk], *(
            part for a in rows for part in types_of_parts(a))], jaxpr.debug_info)

    outs = _as_while(*consts, *carry, *to_parts(xs), num_consts=nc, num_carry=nk, length=length,
                     jaxpr=jaxpr.cached(("scan_in_parts", nc, nk), of_parts), **params)
    return [*outs[:nk], *from_parts([stacked(a, length) for a in y_avals], outs[nk:])]


class _Step(Record):
    """One iteration, on whole arrays."""

    jaxpr: Jaxpr
    num_consts: int
    num_carry: int
    length: int
    reverse: bool

    def take(self, i: Any, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any],
             ys: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The carry and ys after iteration `i`."""
        last = scalar_of(COUNTER, self.length - 1)
        if self.reverse:
            known = isinstance(i, np.int32) and isinstance(last, np.int32)
            i = last - i if known else sub_p.bind(last, i)
        rows = [row_of(x, i) for x in xs]
        outs = call(self.jaxpr, "body", [*consts, *carry, *rows])
        return outs[:self.num_carry], [
            with_row(y, out, i) for y, out in zip(ys, outs[self.num_carry:], strict=True)]

    def loop(self, stop: int, unroll: int) -> tuple[Jaxpr, Jaxpr]:
        """Condition and body of the while loop that makes `unroll` iterations at a time."""
        n = self.num_consts + self.num_carry
        in_avals, y_avals = self.jaxpr.in_avals, self.jaxpr.out_avals[self.num_carry:]
        xs = [stacked(a, self.length) for a in in_avals[n:]]
        carry = [COUNTER, *in_avals[self.num_consts:n],
                 *(stacked(a, self.length) for a in y_avals)]

        def more(i: Any, *rest: Any) -> list[Any]:
            return [lt_p.bind(i, scalar_of(COUNTER, stop))]

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


def row_of(x: Any, i: Any) -> Any:
    """The slice of an array for one iteration."""
    aval = typeof(x)
    shape = aval.shape[1:]
    if isinstance(i, np.int32):
        row = slice_p.bind(x, start_indices=(int(i), *(0 for _ in shape)),
                           limit_indices=(int(i) + 1, *shape), strides=None)
    else:
        row = dynamic_slice_p.bind(x, i, *(np.int32(0) for _ in shape), slice_sizes=(1, *shape))
    return reshape_p.bind(row, new_sizes=shape, dimensions=None)


def with_row(y: Any, row: Any, i: Any) -> Any:
    """The array with another slice for one iteration."""
    shape = typeof(row).shape
    row = reshape_p.bind(row, new_sizes=(1, *shape), dimensions=None)
    return dynamic_update_slice_p.bind(y, row, i, *(np.int32(0) for _ in shape))


scan_p.def_lowering(traced(_as_while, multiple_results=True))


__all__ = ["COUNTER", "Loop", "bind_scan", "rearranged", "row_of", "scan_p", "scan_params",
           "stacked", "with_row"]
