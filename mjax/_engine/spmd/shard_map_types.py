"""The primitive `shard_map`: its types and its lowering.

    shard_map[jaxpr, mesh, in_specs, out_specs, check_vma, manual_axes] whole arrays -> whole arrays

Along the manual axes of the mesh each device runs the jaxpr on its own pieces. In the checked
mode inputs and results of the jaxpr vary along exactly the axes of their specs. So a result that a
spec does not cut along an axis is the same on all devices of that axis. In the unchecked mode types
do not vary, and such a result is taken from one of the devices.

Source: JAX's `shard_map`; JEP 14273 (shard_map), JEP 17111 (device variance).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.records import Record
from mjax._engine.base.util import split_list
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import cuts, shard_shape
from mjax._engine.ir.types import ShapedArray, physical_aval, same_type_but_weak, typeof
from mjax._engine.lowering.context import nested_constants
from mjax._engine.lowering.regions import WHOLE, Port, computation_with_effects, manual_computation
from mjax._engine.lowering.shardings import check_size
from mjax._engine.primitives.emit import constant, ir
from mjax._engine.spmd.axes import in_manual
from mjax._engine.tracing.primitive import EnginePrimitive

T = TypeVar("T")
Specs = tuple[PartitionSpec, ...]

shard_map_p = EnginePrimitive("shard_map", params={
    "jaxpr": Jaxpr, "mesh": Any, "in_specs": tuple[PartitionSpec, ...],
    "out_specs": tuple[PartitionSpec, ...], "manual_axes": frozenset[Any], "check_vma": bool},
    multiple_results=True)


class Region(Record):
    """The params of `shard_map` beside its jaxpr and the specs.

    Attributes:
      mesh: the mesh.
      manual_axes: the mesh axes along which it cuts; the others are left to XLA.
      check_vma: whether types track variance along these.
    """

    mesh: Mesh | AbstractMesh
    manual_axes: frozenset[Any]
    check_vma: bool

    def inside(self, f: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls a function with the region's axes in scope."""
        with self.scope():
            return f(*args, **kwargs)

    def scope(self) -> AbstractContextManager[Any]:
        """The region's axes in scope."""
        return in_manual(self.mesh, self.manual_axes,
                         "checked" if self.check_vma else "unchecked")

    def in_order(self, axes: frozenset[Any]) -> tuple[Any, ...]:
        """The manual axes among these, in the mesh's order."""
        return tuple(a for a in self.mesh.axis_names if a in axes and a in self.manual_axes)

    def varying(self, spec: PartitionSpec) -> frozenset[Any]:
        """The region's axes along which pieces of a spec vary."""
        return frozenset(spec.axes) if self.check_vma else frozenset()

    def piece(self, aval: ShapedArray, spec: PartitionSpec, who: str = "shard_map") -> ShapedArray:
        """The type of a piece from that of the whole.

        Raises:
          ValueError: the spec is too long, or a size is not divisible.
        """
        return aval.update(shape=shard_shape(spec, self.mesh, aval.shape, who),
                           varying=aval.varying | self.varying(spec))

    def whole(self, aval: ShapedArray, spec: PartitionSpec) -> ShapedArray:
        """The type of the whole from that of a piece."""
        counts = cuts(spec, self.mesh, aval.ndim)
        return aval.update(
            shape=tuple(size * n for size, n in zip(aval.shape, counts, strict=True)),
            varying=aval.varying - self.manual_axes)

    def apply(self, jaxpr: Jaxpr, args: Sequence[Any], in_specs: Sequence[PartitionSpec],
              out_specs: Sequence[PartitionSpec]) -> list[Any]:
        """Applies `shard_map`."""
        return shard_map_p.bind(*args, **self.params(jaxpr, in_specs, out_specs))

    def params(self, jaxpr: Jaxpr, in_specs: Sequence[PartitionSpec],
               out_specs: Sequence[PartitionSpec]) -> dict[str, Any]:
        """The params of `shard_map`."""
        return {"jaxpr": jaxpr, "in_specs": tuple(in_specs), "out_specs": tuple(out_specs),
                **self._asdict()}


def check_varying(avals: Sequence[Any], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
                  **params: Any) -> None:
    """Checks that inputs vary along the axes of their specs and of the whole operand, and results
    along those of their specs. It always runs, because derivatives rely on it.

    Raises:
      TypeError: one does not.
    """
    region = Region(**params)
    for aval, spec, inner in zip(avals, in_specs, jaxpr.in_avals, strict=True):
        if inner.varying != aval.varying | region.varying(spec):
            raise LazyTypeError(lambda aval=aval, spec=spec, inner=inner: (  # type: ignore[misc]
                f"shard_map gives {aval} by {spec} to an input of type {inner}"))
    for spec, inner in zip(out_specs, jaxpr.out_avals, strict=True):
        if inner.varying & region.manual_axes != region.varying(spec):
            raise LazyTypeError(lambda spec=spec, inner=inner: (  # type: ignore[misc]
                f"shard_map takes a result of type {inner} by {spec}"))


def check_pieces(avals: Sequence[Any], *, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
                 **params: Any) -> None:
    """Compares the pieces of the operands with the inputs of the jaxpr.

    Raises:
      TypeError: a type differs.
    """
    region = Region(**params)
    for aval, spec, inner in zip(avals, in_specs, jaxpr.in_avals, strict=True):
        if not same_type_but_weak(region.piece(aval, spec), inner):
            msg = f"shard_map gives {aval} by {spec} to an input of type {inner}"
            raise TypeError(msg)


shard_map_p.def_scope(lambda mesh, manual_axes, check_vma, **params: Region(
    mesh, manual_axes, check_vma).scope())


@shard_map_p.def_pretty
def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    """Shows manual axes if some are not, and the check if it is off."""
    shown = {name: params[name] for name in ("jaxpr", "mesh", "in_specs", "out_specs")}
    if params["manual_axes"] != frozenset(params["mesh"].axis_names):
        shown["manual_axes"] = Region(params["mesh"], params["manual_axes"], True).in_order(
            params["manual_axes"])
    return shown if params["check_vma"] else {**shown, "check_vma": False}


# ---- lowering --------------------------------------------------------------------------


@shard_map_p.def_lowering
def _shard_map_lowering(ctx: Any, *operands: Any, jaxpr: Jaxpr, in_specs: Specs, out_specs: Specs,
                        **params: Any) -> Any:
    """The region does not see values from outside: tokens and constants are operands too.

    Arrays without elements do not cross its boundary: XLA loses their shardings.
    """
    region, mctx, tokens = Region(**params), ctx.module_context, ctx.tokens_in
    if not mctx.partitioned:
        check_size(mctx, region.mesh)
        return region.inside(ctx.inline, jaxpr, *operands)
    held = {id(c): typeof(c) for c in nested_constants(jaxpr) if id(c) in ctx.constants}
    constants = [ctx.constants[i] for i, a in held.items() if physical_aval(a).size]
    same = [Port(t, t.type, WHOLE, 0) for t in tokens.values()]
    given = [*same, *(Port(v, v.type, WHOLE, ir.RankedTensorType(v.type).rank)
                      for v in constants),
             *(Port(v, mctx.type_of(a), s, physical_aval(a).ndim) for v, a, s in zip(
                 operands, jaxpr.in_avals, in_specs, strict=True) if physical_aval(a).size)]
    wanted = [*same, *(Port(None, mctx.type_of(a), s, physical_aval(a).ndim) for a, s in zip(
        ctx.avals_out, out_specs, strict=True) if physical_aval(a).size)]

    def body(*args: Any) -> list[Any]:
        inner_tokens, values, rest = split_list(args, [len(tokens), len(constants)])
        inner = ctx.replace(tokens=tokens.replaced(inner_tokens),
                            constants=dict(zip(held, _with_empty(values, held.values()),
                                               strict=True)))
        outs = _inlined(inner, region, jaxpr, _with_empty(rest, jaxpr.in_avals))
        return [*inner.tokens.values(), *(
            o for o, a in zip(outs, jaxpr.out_avals, strict=True) if physical_aval(a).size)]

    emit = manual_computation if wanted else computation_with_effects
    results = emit(mctx, region.mesh, region.manual_axes, given, wanted, body)
    if len(tokens):
        ctx.set_tokens_out(tokens.replaced(results[:len(tokens)]))
    return _with_empty(results[len(tokens):], ctx.avals_out)


def _inlined(ctx: Any, region: Region, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """Lowers the jaxpr at the insertion point.

    Its calls have functions of their own, not shared with outside or with other regions: the
    meaning of collectives depends on the axes in scope.
    """
    mctx = ctx.module_context
    functions, mctx.functions = mctx.functions, {}
    outs: list[Any] = region.inside(ctx.inline, jaxpr, *args)
    mctx.functions = functions
    return outs


def _with_empty(values: Sequence[Any], avals: Iterable[Any]) -> list[Any]:
    """A value for each type; those without elements are made here."""
    given = iter(values)
    return [next(given) if p.size else constant(np.zeros(p.shape, p.dtype))
            for p in map(physical_aval, avals)]
