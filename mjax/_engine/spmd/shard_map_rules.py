"""The transformations of `shard_map`: those of its jaxpr, with its axes in scope.

Since in the checked mode results vary along exactly the axes of their specs, and inputs too,
transposing is transposing the jaxpr and swapping the specs: a result that is the same on all
devices but that a spec cuts gets its sum from the transpose of the cast to its spec, an input
that is not cut from the transposes of casts inside.

Source: JEP 17111 (efficient transposition of shard_map).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.control.cast_varying import Axes, joined, varying_of, widened
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Var, named_axes
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import div
from mjax._engine.primitives.shapes import expand_dims, scalar_of, squeeze
from mjax._engine.spmd.reductions import psum
from mjax._engine.spmd.shard_map_errors import spmd_names
from mjax._engine.spmd.shard_map_types import WHOLE, Region, Specs, shard_map_p
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import pvary_p, sorted_axes
from mjax._engine.transforms.batching import AxisData, batch_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax._engine.transforms.recomputation import Policy, recompute_jaxpr
from mjax._engine.transforms.transpose import transpose_jaxpr


def fit(region: Region, jaxpr: Jaxpr, specs: Sequence[PartitionSpec]) -> Jaxpr:
    """The jaxpr with results that vary along exactly the axes of their specs.

    None may vary along more of the region's.
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


def _cast_varying(varying: Sequence[Axes], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
            **params: Any) -> Any:
    """Along axes of the maps around operands vary as they come; a piece varies along those of its
    spec besides."""
    region = Region(**params)
    pieces = [v | region.varying(s) for v, s in zip(varying, in_specs, strict=True)]
    wanted = joined(pieces, varying_of(jaxpr))
    return [w - region.varying(s) for w, s in zip(wanted, in_specs, strict=True)], {
        "jaxpr": region.inside(widened, jaxpr, wanted), "in_specs": in_specs,
        "out_specs": out_specs, **params}


shard_map_p.cast_varying = _cast_varying

# ---- derivatives -----------------------------------------------------------------------


@shard_map_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
         **params: Any) -> Any:
    region = Region(**params)
    nonzeros = [type(t) is not Zero for t in tangents]
    jvp, nonzero_outs = region.inside(jvp_jaxpr, jaxpr, nonzeros, False)
    outs = region.bind(jvp, [*primals, *_where(nonzeros, tangents)],
                       [*in_specs, *_where(nonzeros, in_specs)],
                       [*out_specs, *_where(nonzero_outs, out_specs)])
    n = len(out_specs)
    given = iter(outs[n:])
    return outs[:n], [next(given) if nz else Zero(typeof(o).to_tangent())
                      for o, nz in zip(outs, nonzero_outs, strict=False)]


def _where(flags: Sequence[bool], values: Sequence[Any]) -> list[Any]:
    return [v for v, flag in zip(values, flags, strict=True) if flag]


def _linearize(nonzeros: Any, *primals: Any, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
               **params: Any) -> Any:
    region = Region(**params)
    parts = region.inside(linearize_jaxpr, jaxpr, nonzeros)
    cut = cut_in_two(region, parts.primal, parts.linear, parts.sources, in_specs, out_specs)
    outs = region.bind(cut.first, primals, in_specs, cut.first_specs)
    out_avals = [typeof(o) for o in outs[:len(out_specs)]]

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = iter(region.bind(cut.second, [*residuals, *_where(nonzeros, tangents)],
                                 [*cut.residual_specs, *_where(nonzeros, in_specs)],
                                 _where(parts.nonzero_outs, out_specs))
                     if any(parts.nonzero_outs) else ())
        return [next(given) if nz else Zero(a.to_tangent())
                for a, nz in zip(out_avals, parts.nonzero_outs, strict=True)]

    return (outs[:len(out_specs)], parts.nonzero_outs, cut.residuals([*primals, *outs]), linear)


shard_map_p.linearize = _linearize


@shard_map_p.def_transpose
def _transpose(cts: Any, *args: Any, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
               **params: Any) -> Any:
    region = Region(**params)
    undefined = [type(a) is UndefinedPrimal for a in args]
    defined = [not u for u in undefined]
    nonzero = [type(ct) is not Zero for ct in cts]
    transposed, nonzero_ins = region.inside(transpose_jaxpr, jaxpr, undefined, nonzero)
    ct_specs = _where(nonzero, out_specs)
    linear_specs = _where(nonzero_ins, _where(undefined, in_specs))
    if not region.check_vma:
        axes = _known_to(region, jaxpr, in_specs, out_specs)
        transposed = _averaged(region, transposed, axes, ct_specs, linear_specs)
    outs = iter(region.bind(transposed, [*_where(defined, args), *_where(nonzero, cts)],
                            [*_where(defined, in_specs), *ct_specs], linear_specs)
                if any(nonzero_ins) else ())
    given = iter(nonzero_ins)
    return [(next(outs) if next(given) else Zero(a.aval.to_tangent())) if u else None
            for a, u in zip(args, undefined, strict=True)]


def _averaged(region: Region, transposed: Jaxpr, axes: frozenset[Any],
              ct_specs: Sequence[PartitionSpec], out_specs: Sequence[PartitionSpec]) -> Jaxpr:
    """The transpose of an unchecked region, between cotangents as those outside have them.

    Nobody knows which values are the same on all devices. A cotangent that is not cut is shared
    out evenly, whichever device's value it belongs to; what the devices give for an input that
    is not cut is summed; both along the axes that the program knows.
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


class _Cut(Record):
    """A region's program cut in two.

    `first` also gives what `second` needs and cannot have otherwise. Its leading inputs are
    residuals: entries `sources` of the operands and results of `first`.
    """

    first: Jaxpr
    first_specs: Specs
    second: Jaxpr
    residual_specs: Specs
    sources: list[int]

    def residuals(self, values: Sequence[Any]) -> list[Any]:
        """The residuals in order, from the operands and results of `first`."""
        return [values[s] for s in self.sources]


def cut_in_two(region: Region, first: Jaxpr, second: Jaxpr, sources: Sequence[int],
               in_specs: Specs, out_specs: Specs) -> _Cut:
    """Cuts a region; cached on the first part.

    Args:
      region: its params.
      first: from the inputs to the results, and residuals that are neither.
      second: from the residuals and other inputs to other results.
      sources: where the residuals are among the inputs and results of `first`.
      in_specs: of the inputs of `first`.
      out_specs: of its results.
    """
    sources = tuple(sources)
    key = ("shard_map cut", region, second, sources, in_specs, out_specs)
    return first.cached(key, lambda: region.inside(
        _make_cut, region, first, second, sources, in_specs, out_specs))


def _make_cut(region: Region, first: Jaxpr, second: Jaxpr, sources: Sequence[int],
              in_specs: Specs, out_specs: Specs) -> _Cut:
    """An input or a result is handed on whole, by its own spec; but where nothing is checked,
    a result that is not cut may not be what the residual is on each device."""
    n, m = len(in_specs), len(out_specs)
    direct = n + m if region.check_vma else n
    extra = sorted({s for s in sources if s >= direct})
    axes = _known_to(region, first, in_specs)
    spec_of = {s: residual_spec(region, first.outvars[s - n].aval, axes) for s in extra}

    def run_first(*args: Any) -> list[Any]:
        outs = eval_jaxpr(first, first.consts, *args)
        return [*outs[:m], *(expand_dims(outs[s - n], (0,)) if spec_of[s] else outs[s - n]
                             for s in extra)]

    def run_second(*args: Any) -> list[Any]:
        given = [squeeze(x, (0,)) if spec_of.get(s) else x
                 for x, s in zip(args, sources, strict=False)]
        return eval_jaxpr(second, second.consts, *given, *args[len(sources):])

    avals = [a.update(shape=(1, *a.shape)) if spec_of.get(s) else a
             for a, s in zip(second.in_avals, sources, strict=False)]
    both = [*in_specs, *out_specs]
    return _Cut(
        trace_to_jaxpr(run_first, first.in_avals, first.debug_info),
        (*out_specs, *(spec_of[s] for s in extra)),
        trace_to_jaxpr(run_second, [*avals, *second.in_avals[len(sources):]],
                               second.debug_info),
        tuple(spec_of[s] if s in spec_of else both[s] for s in sources),
        [n + m + extra.index(s) if s in spec_of else s for s in sources])


def _known_to(region: Region, jaxpr: Jaxpr, *specs: Specs) -> frozenset[Any]:
    """The region's axes that its program or its specs name: along others all devices do the same,
    checked or not."""
    named = named_axes({"jaxpr": jaxpr}).union(*(s.axes for given in specs for s in given))
    return region.manual_axes & named


def residual_spec(region: Region, aval: Any, axes: frozenset[Any]) -> PartitionSpec:
    """The devices' values are put together along a new axis, whatever their shape; one that is
    the same on all of them is handed on as it is."""
    cut = region.in_order(aval.varying if region.check_vma else axes)
    return PartitionSpec(cut) if cut else WHOLE


# ---- the other rules -------------------------------------------------------------------


def _partial_eval(interp: PartialEvalInterpreter, *args: Any, jaxpr: Jaxpr, in_specs: Specs,
                  out_specs: Specs, **params: Any) -> Any:
    region = Region(**params)
    unknown = [interp.is_unknown(a) for a in args]
    known = [not u for u in unknown]
    parts = region.inside(partial_eval_jaxpr, jaxpr, unknown, effects_known=interp.effects_known)
    if not parts.known.eqns:
        # Nothing can be done ahead: one equation says the same as two.
        return StageInterpreter.process(interp, shard_map_p, args, {
            "jaxpr": jaxpr, "in_specs": in_specs, "out_specs": out_specs, **params})
    known_outs = [not u for u in parts.unknown_outs]
    in_known, out_known = tuple(_where(known, in_specs)), tuple(_where(known_outs, out_specs))
    cut = cut_in_two(region, parts.known, parts.unknown, parts.sources, in_known, out_known)
    values = _where(known, args)
    outs = interp.call_known(region.bind, cut.first, values, in_known, cut.first_specs)
    staged = interp.call_staged(
        region.bind, cut.second, [*cut.residuals([*values, *outs]), *_where(unknown, args)],
        [*cut.residual_specs, *_where(unknown, in_specs)], _where(parts.unknown_outs, out_specs))
    of_known, of_unknown = iter(outs), iter(staged)
    return [next(of_unknown) if u else next(of_known) for u in parts.unknown_outs]


shard_map_p.partial_eval = _partial_eval


def _dce(used: Sequence[bool], eqn: JaxprEqn) -> Any:
    jaxpr, used_ins = dce_jaxpr(eqn.params["jaxpr"], used)
    if not any(used) and not jaxpr.effects:
        return [False] * len(eqn.invars), None
    return used_ins, eqn.replace(
        params={**eqn.params, "jaxpr": jaxpr,
                "in_specs": tuple(_where(used_ins, eqn.params["in_specs"])),
                "out_specs": tuple(_where(used, eqn.params["out_specs"]))},
        invars=_where(used_ins, eqn.invars), outvars=_where(used, eqn.outvars),
        effects=jaxpr.effects)


shard_map_p.dce = _dce


def _recompute(saveable: Policy, used: Sequence[bool], eqn: JaxprEqn) -> Any:
    params = dict(eqn.params)
    jaxpr, in_specs, out_specs = (params.pop(k) for k in ("jaxpr", "in_specs", "out_specs"))
    region = Region(**params)
    parts = region.inside(recompute_jaxpr, jaxpr, [True] * len(used), used, saveable)
    cut = cut_in_two(region, parts.known, parts.again, parts.sources, in_specs, out_specs)
    outvars = [Var(v.aval) if type(v) is DropVar else v for v in eqn.outvars]
    n = len(outvars)
    outvars += [Var(region.whole(a, s)) for a, s in zip(
        cut.first.out_avals[n:], cut.first_specs[n:], strict=True)]
    known = eqn.replace(outvars=outvars, params={
        **eqn.params, "jaxpr": cut.first, "out_specs": cut.first_specs})
    again = eqn.replace(
        invars=cut.residuals([*eqn.invars, *outvars]), outvars=_where(used, eqn.outvars),
        effects=cut.second.effects, params={
            **eqn.params, "jaxpr": cut.second, "in_specs": cut.residual_specs,
            "out_specs": tuple(_where(used, out_specs))})
    return known, again


shard_map_p.recompute = _recompute


# ---- vmap ------------------------------------------------------------------------------


def _batch(axis: AxisData, args: Any, dims: Any, *, jaxpr: Jaxpr, in_specs: Specs,
           out_specs: Specs, **params: Any) -> Any:
    """A batch is whole on every device, unless `spmd_axis_name` spreads it over mesh axes."""
    region = Region(**params)
    spread = _spread(region, axis, jaxpr, (*in_specs, *out_specs))
    if axis.name in region.manual_axes:
        axis = axis._replace(name=None)  # inside, the name is that of the mesh axis
    batched, out_dims = region.inside(_batched, region, axis, jaxpr, dims, spread, out_specs)
    entry = spread or None

    def spec(spec: PartitionSpec, dim: int | None) -> PartitionSpec:
        if dim is None or entry is None:
            return spec if dim is None else _inserted(spec, dim, None)
        return _inserted(spec, dim, entry)

    specs = [spec(s, d) for s, d in zip(out_specs, out_dims, strict=True)]
    outs = region.bind(fit(region, batched, specs), args,
                       [spec(s, d) for s, d in zip(in_specs, dims, strict=True)], specs)
    return outs, out_dims


shard_map_p.axis_batch = _batch


def _inserted(spec: PartitionSpec, dim: int, entry: Any) -> PartitionSpec:
    """A spec with an entry for a new dimension."""
    entries = [*spec, *[None] * (dim - len(spec))]
    return PartitionSpec(*entries[:dim], entry, *entries[dim:])


def _spread(region: Region, axis: AxisData, jaxpr: Jaxpr, specs: Specs) -> tuple[Any, ...]:
    """The mesh axes over which a batch is spread.

    Not where the body names the batch's axis, or one of these, or what is saved for derivatives is
    cut along one: elements have to be together to communicate, and what differs between devices
    differs for each element.
    """
    spread = tuple(name for name in spmd_names(axis) if name in region.manual_axes)
    named = named_axes({"jaxpr": jaxpr}).union(*(s.axes for s in specs))
    return () if axis.name in named or not named.isdisjoint(spread) else spread


def _batched(region: Region, axis: AxisData, jaxpr: Jaxpr, dims: Sequence[int | None],
             spread: tuple[Any, ...], out_specs: Specs) -> tuple[Jaxpr, list[int | None]]:
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
