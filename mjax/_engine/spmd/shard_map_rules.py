"""The transformations of `shard_map`: those of its jaxpr, with its axes in scope.

In the checked mode inputs and results vary along exactly the axes of their specs. So the transpose
is the transposed jaxpr with swapped specs. Sums over devices are transposes
of casts. For an invariant result with axes in its spec, it is the cast to that spec. For an input
without axes in its spec, they are the casts in the body.

Source: JEP 17111 (efficient transposition of shard_map).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.control.cast_varying import Axes
from mjax._engine.control.frame import Frame
from mjax._engine.control.held import Held, Runner, Split
from mjax._engine.ir.jaxpr import Jaxpr, named_axes
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import div
from mjax._engine.primitives.shapes import expand_dims, scalar_of, squeeze
from mjax._engine.spmd.reductions import psum
from mjax._engine.spmd.shard_map_errors import spmd_names
from mjax._engine.spmd.shard_map_types import (
    WHOLE,
    Region,
    Specs,
    check_pieces,
    check_varying,
    shard_map_p,
)
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.variance import pvary_p, sorted_axes
from mjax._engine.transforms.batching import AxisData, batch_jaxpr


def fit(region: Region, jaxpr: Jaxpr, specs: Sequence[PartitionSpec]) -> Jaxpr:
    """The jaxpr with results that vary along exactly the axes of their specs.

    They must not vary along more of the region's axes already.
    """
    def missing(aval: Any, spec: PartitionSpec) -> frozenset[Any]:
        return region.varying(spec) - aval.varying

    def fitted(*args: Any) -> list[Any]:
        outs = eval_jaxpr(jaxpr, jaxpr.consts, *args)
        return [pvary_p.bind(o, axes=sorted_axes(m)) if (m := missing(typeof(o), s)) else o
                for o, s in zip(outs, specs, strict=True)]

    if not any(map(missing, jaxpr.out_avals, specs)):
        return jaxpr
    return jaxpr.cached(("shard_map fit", region, tuple(specs)), lambda: region.inside(
        trace_to_jaxpr, fitted, jaxpr.in_avals, jaxpr.debug_info))


def _averaged(region: Region, transposed: Jaxpr, axes: frozenset[Any],
              ct_specs: Sequence[PartitionSpec], out_specs: Sequence[PartitionSpec]) -> Jaxpr:
    """The transpose of an unchecked region, for cotangents in the form that outer code has them.

    It is not known which values are the same on all devices. A cotangent that is not cut is divided
    evenly between devices. Cotangents of an input that is not cut are summed over devices. Both
    happen along the axes that the program knows.
    """
    def uncut(spec: PartitionSpec) -> tuple[Any, ...]:
        return region.in_order(axes - frozenset(spec.axes))

    def f(*args: Any) -> list[Any]:
        n = len(args) - len(ct_specs)
        cts = [div(ct, scalar_of(typeof(ct), count)) if (count := _size(region, uncut(s))) > 1
               else ct for ct, s in zip(args[n:], ct_specs, strict=True)]
        outs = eval_jaxpr(transposed, transposed.consts, *args[:n], *cts)
        return [psum(o, uncut(s)) if uncut(s) else o for o, s in zip(outs, out_specs, strict=True)]

    return transposed.cached(
        ("shard_map averaged", region, axes, tuple(ct_specs), tuple(out_specs)),
        lambda: region.inside(trace_to_jaxpr, f, transposed.in_avals,
                              transposed.debug_info))


def _size(region: Region, axes: Sequence[Any]) -> int:
    sizes = dict(region.mesh.shape_tuple)
    return functools.reduce(lambda n, a: n * sizes[a], axes, 1)


# ---- cutting in two --------------------------------------------------------------------


def _make_cut(region: Region, first: Held, second: Held, sources: Sequence[int]) -> Split:
    """Cuts a region; a residual that is an input or a result is passed on whole, by its own spec.

    In the unchecked mode that holds for inputs only: a result that is not cut may differ from the
    residual on some devices.
    """
    known, rest, n, m = first.body, second.body, len(first.ins), len(first.outs)
    direct = n + m if region.check_vma else n
    extra = sorted({s for s in sources if s >= direct})
    axes = _known_to(region, known, first.ins)
    spec_of = {s: residual_spec(region, known.outvars[s - n].aval, axes) for s in extra}

    def run_first(*args: Any) -> list[Any]:
        outs = eval_jaxpr(known, known.consts, *args)
        return [*outs[:m], *(expand_dims(outs[s - n], (0,)) if spec_of[s] else outs[s - n]
                             for s in extra)]

    def run_second(*args: Any) -> list[Any]:
        given = [squeeze(x, (0,)) if spec_of.get(s) else x
                 for x, s in zip(args, sources, strict=False)]
        return eval_jaxpr(rest, rest.consts, *given, *args[len(sources):])

    avals = [a.update(shape=(1, *a.shape)) if spec_of.get(s) else a
             for a, s in zip(rest.in_avals, sources, strict=False)]
    both = [*first.ins, *first.outs]
    return Split(
        first._replace(body=trace_to_jaxpr(run_first, known.in_avals, known.debug_info),
                       outs=[*first.outs, *(spec_of[s] for s in extra)]),
        second._replace(
            body=trace_to_jaxpr(run_second, [*avals, *rest.in_avals[len(sources):]],
                                rest.debug_info),
            ins=[*(spec_of[s] if s in spec_of else both[s] for s in sources), *second.ins]),
        [n + m + extra.index(s) if s in spec_of else s for s in sources])


def _known_to(region: Region, jaxpr: Jaxpr, *specs: Sequence[PartitionSpec]) -> frozenset[Any]:
    """The region's axes that its program or its specs name. Along others all devices compute the
    same, in any mode."""
    named = named_axes({"jaxpr": jaxpr}).union(*(s.axes for given in specs for s in given))
    return region.manual_axes & named


def residual_spec(region: Region, aval: Any, axes: frozenset[Any]) -> PartitionSpec:
    """The spec of a residual. If it differs between devices, its values are joined along a new
    axis, whatever their shape; otherwise it is passed on as it is."""
    cut = region.in_order(aval.varying if region.check_vma else axes)
    return PartitionSpec(cut) if cut else WHOLE


# ---- the frame -------------------------------------------------------------------------


class _ShardMapFrame(Frame):
    """How operands enter and results leave: by their specs."""

    def open(self, params: dict[str, Any]) -> Held:
        rest = {name: params[name] for name in Region._fields}
        return Held(params["jaxpr"], params["in_specs"], params["out_specs"], rest)

    def close(self, held: Held) -> dict[str, Any]:
        return {"jaxpr": held.body, "in_specs": tuple(held.ins), "out_specs": tuple(held.outs),
                **held.rest}

    def scope(self, held: Held) -> AbstractContextManager[Any]:
        """Along axes of enclosing maps, operands keep their variance."""
        return Region(**held.rest).scope()

    def pieces(self, held: Held) -> int:
        region = Region(**held.rest)
        return _size(region, tuple(region.manual_axes))

    def entered(self, held: Held, how: PartitionSpec) -> Axes:
        return Region(**held.rest).varying(how)

    def outer(self, held: Held, aval: Any, how: PartitionSpec) -> Any:
        return Region(**held.rest).whole(aval, how)

    def mutable(self, how: PartitionSpec, last: bool) -> tuple[PartitionSpec, PartitionSpec]:
        return how, how

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        check_varying(avals, **params)
        return super().abstract_eval(*avals, **params)

    def typecheck(self, *avals: Any, **params: Any) -> None:
        check_pieces(avals, **params)
        check_varying(avals, **params)

    def apart(self, held: Held) -> PartitionSpec:
        region = Region(**held.rest)
        return PartitionSpec(region.in_order(region.manual_axes))

    def hand_on(self, first: Held, second: Held, residual_forwarding: Sequence[int]) -> Split:
        region, sources = Region(**first.rest), tuple(residual_forwarding)
        key = ("shard_map cut", region, second.body, sources, *first.ins, None, *first.outs, None,
               *second.ins, None, *second.outs)
        split: Split = first.body.cached(key, lambda: region.inside(
            _make_cut, region, first, second, sources))
        return split

    def transposed(self, held: Held, back: Held, known: int) -> Runner:
        region = Region(**held.rest)
        if not region.check_vma:
            axes = _known_to(region, held.body, held.ins, held.outs)
            back = back._replace(
                body=_averaged(region, back.body, axes, back.ins[known:], back.outs))
        return self.runner(back)

    def batched(self, held: Held, axis: AxisData, dims: Sequence[int | None]
                ) -> tuple[Held, list[int | None], list[int | None]]:
        """A batch is whole on every device, unless `spmd_axis_name` spreads it over mesh axes."""
        region = Region(**held.rest)
        spread = _spread(region, axis, held.body, (*held.ins, *held.outs))
        if axis.name in region.manual_axes:
            axis = axis._replace(name=None)  # inside, the name is that of the mesh axis
        body, out_dims = region.inside(_batched, region, axis, held.body, dims, spread)
        ins, outs = ([_inserted(spec, dim, spread or None) for spec, dim in zip(
            specs, given, strict=True)] for specs, given in (
                (held.ins, dims), (held.outs, out_dims)))
        return Held(fit(region, body, outs), ins, outs, held.rest), [None] * len(dims), out_dims


shard_map_frame = _ShardMapFrame(shard_map_p)

# ---- vmap ------------------------------------------------------------------------------


def _inserted(spec: PartitionSpec, dim: int | None, entry: Any) -> PartitionSpec:
    """A spec with an entry for a new dimension, if there is one."""
    if dim is None:
        return spec
    entries = [*spec, *[None] * (dim - len(spec))]
    return PartitionSpec(*entries[:dim], entry, *entries[dim:])


def _spread(region: Region, axis: AxisData, jaxpr: Jaxpr, specs: Specs) -> tuple[Any, ...]:
    """The mesh axes over which a batch is spread.

    It is not spread if the body names the batch's axis or one of these axes, or if residuals are
    cut along one. Elements have to be together to communicate, and values that differ between
    devices differ for each element.
    """
    spread = tuple(name for name in spmd_names(axis) if name in region.manual_axes)
    named = named_axes({"jaxpr": jaxpr}).union(*(s.axes for s in specs))
    return () if axis.name in named or not named.isdisjoint(spread) else spread


def _batched(region: Region, axis: AxisData, jaxpr: Jaxpr, dims: Sequence[int | None],
             spread: tuple[Any, ...]) -> tuple[Jaxpr, list[int | None]]:
    if not spread:
        return batch_jaxpr(jaxpr, axis, dims)
    count = _size(region, spread)
    if axis.size % count:
        raise LazyValueError(lambda: (
            f"vmap of shard_map: spmd_axis_name={axis.spmd_name!r} spreads a batch of {axis.size} "
            f"over {count} devices: {axis.size} = {axis.size // count} * {count} + "
            f"{axis.size % count}."))
    axis = axis._replace(size=axis.size // count)
    wider = frozenset(spread) if region.check_vma else frozenset()
    avals = [a if d is None else a.update(varying=a.varying | wider)
             for a, d in zip(jaxpr.in_avals, dims, strict=True)]
    if wider:
        jaxpr = jaxpr.cached(("shard_map spread", region, *avals), lambda: trace_to_jaxpr(
            functools.partial(eval_jaxpr, jaxpr, jaxpr.consts), avals, jaxpr.debug_info))
    batched, out_dims = batch_jaxpr(jaxpr, axis, dims)
    alone = [d is None and bool(a.varying & wider)
             for a, d in zip(batched.out_avals, out_dims, strict=True)]
    return batch_jaxpr(jaxpr, axis, dims, alone) if any(alone) else (batched, out_dims)
