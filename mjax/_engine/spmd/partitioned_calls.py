"""Answers what XLA asks about a call of `custom_partitioning` while it cuts a program."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import AbstractMesh, Mesh, PartitionSpec
from mjax._engine.ir.pytree import tree_leaves
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.lowering.shardings import Partition
from mjax._engine.runtime.arrays.constraints import mesh_in_force
from mjax._engine.runtime.arrays.gspmd_sharding import GSPMDSharding, chosen_sharding, in_order
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import NamedSharding, Sharding, mesh_over
from mjax._engine.runtime.xla_errors import remember
from mjax._engine.spmd.axes import in_manual
from mjax._engine.spmd.sharding_rules import (
    ArrayMapping,
    SdyShardingRule,
    rule_attribute,
    rule_of_text,
)
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import call_with
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjaxlib_shim.mlir import bytecode
from mjaxlib_shim.partitioners import Part, Partitioner, register_partitioner, tile_shape
from mjaxlib_shim.shardings import hlo_sharding_of, replicated

#: The target of the calls. JAX's is another one, so that both can be in a process.
TARGET = "mjax_custom_partitioning"

_numbers = itertools.count()
_calls: weakref.WeakValueDictionary[bytes, PartitionedCall] = weakref.WeakValueDictionary()
_lock = threading.Lock()
_registered = False


def _register() -> None:
    global _registered
    with _lock:
        if not _registered:
            register_partitioner(TARGET, _calls.__getitem__)
            _registered = True


def mesh_of(mctx: Any) -> Mesh:
    """The mesh that authors' functions get: the one in force, or one that the program names."""
    mesh = mesh_in_force()
    if isinstance(mesh, AbstractMesh) and mesh.size == len(mctx.devices):
        return mesh_over(mesh, mctx.devices, "custom_partitioning")
    if isinstance(mesh, Mesh) and set(mesh.flat_devices) == set(mctx.devices):
        return mesh
    found: Mesh = mctx.mesh
    return found


class PartitionedCall(Partitioner):
    """One call in a program.

    Attributes:
      key: its name in the module.

    Args:
      mctx: the module.
      mesh: the mesh that authors' functions get.
      call: the program of the whole.
      source: where the function was called.
      in_tree, out_tree: the structures of its arguments and results.
      partition: the author's function.
      decode_shardings: whether shardings are given by axes of the mesh.
      static_args: arguments that the function gets first.
      params: further params of the primitive.
    """

    def __init__(self, mctx: Any, mesh: Mesh, call: Jaxpr, source: Any, *, in_tree: Any,
                 out_tree: Any, partition: Callable[..., Any], decode_shardings: bool,
                 static_args: Sequence[Any], **params: Any):
        self.devices, self.platform, self.targets = mctx.devices, mctx.platform, mctx.targets
        self.mesh, self.call, self.source = mesh, call, source
        self.in_tree, self.out_tree = in_tree, out_tree
        self.author, self.decode = partition, decode_shardings
        self.static = [argument.value for argument in static_args]
        self.settings = thread.settings
        self.key = str(next(_numbers))
        _register()
        _calls[self.key.encode()] = self

    def partition(self, operands: Sequence[Part], results: Sequence[Part]
                  ) -> tuple[bytes, Sequence[Any], Sequence[Any]]:
        """Called by XLA; its exception is kept, to be raised by the compilation."""
        previous, thread.settings = thread.settings, self.settings
        try:
            return call_with(evaluation, self._partition, operands, results)
        except BaseException as error:
            raise remember(error) from None
        finally:
            thread.settings = previous

    def _partition(self, operands: Sequence[Part], results: Sequence[Part]
                   ) -> tuple[bytes, Sequence[Any], Sequence[Any]]:
        answer = self.author(*self.static, self.mesh, self.in_tree.unflatten(
            map(self._struct, operands)), self.out_tree.unflatten(map(self._struct, results)))
        if not isinstance(answer, (tuple, list)) or len(answer) != 4:
            self._refuse(TypeError, "partition must return a mesh, a function, and the shardings "
                         f"of the results and of the arguments; it returned {answer!r}")
        mesh, lower_fn, result_shardings, arg_shardings = answer
        if not isinstance(mesh, Mesh) or set(mesh.flat_devices) != set(self.devices):
            self._refuse(ValueError, f"the mesh that partition returns, {mesh!r}, is not of the "
                         "program's devices")
        given = self._native("arguments", self.in_tree, arg_shardings, operands)
        wanted = self._native("results", self.out_tree, result_shardings, results)
        return self._lowered(mesh, lower_fn, [
            aval.update(shape=tile_shape(hlo, aval.shape), weak_type=False)
            for hlo, aval in zip(given, self.call.in_avals, strict=True)], [
            aval.update(shape=tile_shape(hlo, aval.shape), weak_type=False)
            for hlo, aval in zip(wanted, self.call.out_avals, strict=True)]), given, wanted

    def _refuse(self, error: type[Exception], text: str) -> Any:
        kind = LazyTypeError if error is TypeError else LazyValueError
        raise kind(lambda: f"custom_partitioning: {text}.\n{applied_at(self.source)}")

    def _struct(self, part: Part) -> ShapeDtypeStruct:
        return ShapeDtypeStruct(part.shape, part.dtype, sharding=self._sharding(part))

    def _sharding(self, part: Part) -> Sharding:
        """XLA's sharding of an array as one of ours; specs name all dimensions."""
        hlo, ndim = part.sharding, len(part.shape)
        if not self.decode:
            return GSPMDSharding(self.devices, replicated() if hlo is None else hlo)
        found = (NamedSharding(self.mesh, PartitionSpec()) if hlo is None else
                 chosen_sharding(hlo, self.devices, [self.mesh], ndim, ()))
        if type(found) is not NamedSharding:
            return found
        return found.update(spec=PartitionSpec(*found.spec, *[None] * (ndim - len(found.spec))))

    def _native(self, what: str, tree: Any, shardings: Any, parts: Sequence[Part]) -> list[Any]:
        """The author's shardings as XLA's."""
        try:
            found = tree.flatten_up_to(
                tuple(shardings) if type(shardings) is list else shardings)
        except (TypeError, ValueError):
            self._refuse(ValueError, f"the shardings of the {what} that partition returns have the "
                         f"structure of {shardings!r}, but there is one for each leaf of {tree}")
        for sharding in found:
            if not isinstance(sharding, Sharding):
                self._refuse(ValueError, f"partition must return shardings of the {what}, such as "
                             f"NamedSharding; got {sharding!r} of type {type(sharding).__name__}")
        return [self._hlo(sharding, part) for sharding, part in zip(found, parts, strict=True)]

    def _hlo(self, sharding: Any, part: Part) -> Any:
        if type(sharding) is NamedSharding:
            sharding = sharding.over(self.devices, "custom_partitioning")
        if set(sharding.flat_devices) != set(self.devices):
            self._refuse(ValueError, f"partition returns {sharding}, which is not over the "
                         "program's devices")
        ndim = len(part.shape)
        return hlo_sharding_of(in_order(sharding, self.devices, ndim).native_for(ndim), ndim)

    def _lowered(self, mesh: Mesh, lower_fn: Callable[..., Any], in_avals: Sequence[Any],
                 out_avals: Sequence[Any]) -> bytes:
        """The module of the program of one device."""
        with in_manual(mesh, mesh.axis_names, "unchecked"):
            jaxpr = trace_to_jaxpr(
                lambda *args: tree_leaves(lower_fn(*self.in_tree.unflatten(args))), in_avals)
            found = [(a.shape, a.dtype) for a in jaxpr.out_avals]
            if found != [(a.shape, a.dtype) for a in out_avals]:
                self._refuse(ValueError, "the function that partition returns gives "
                             f"{', '.join(map(str, jaxpr.out_avals))}, but by its shardings the "
                             f"pieces of the results are {', '.join(map(str, out_avals))}")
            if jaxpr.effects:
                self._refuse(ValueError, "the function that partition returns has the effects "
                             f"{', '.join(map(str, jaxpr.effects))}")
            lowered = lower_to_module(jaxpr, "partition", self.platform, whole=True, partition=(
                Partition(self.devices, mesh, [None] * len(in_avals), [None] * len(out_avals),
                          lambda constant: None)))
        if lowered.host_callbacks:
            self._refuse(ValueError, "the function that partition returns calls Python functions")
        self.targets.update(lowered.targets)
        return bytecode(lowered.module)


# ---- rules -----------------------------------------------------------------------------


def rule_for(mesh: Mesh, call: Jaxpr, out_types: Sequence[Any], in_types: Sequence[Any], *,
             sharding_rule: Any, infer_sharding_from_operands: Callable[..., Any] | None,
             static_args: Sequence[Any], in_tree: Any, out_tree: Any, **params: Any) -> Any:
    """The attribute of a call's sharding rule; None if it has none.

    Raises:
      ValueError: the rule does not fit.
    """
    static = [argument.value for argument in static_args]
    if callable(sharding_rule):
        sharding_rule, options = sharding_rule(*static, mesh, list(in_types), list(out_types)), {}
        if isinstance(sharding_rule, (list, tuple)) and len(sharding_rule) == 2:
            sharding_rule, options = sharding_rule
        if isinstance(sharding_rule, str):
            sharding_rule = rule_of_text(sharding_rule, **options)
        if not isinstance(sharding_rule, SdyShardingRule):
            msg = ("a function as sharding_rule must return a text or a SdyShardingRule, got "
                   f"{sharding_rule!r}.")
            raise ValueError(msg)
    elif sharding_rule is None and infer_sharding_from_operands is not None:
        sharding_rule = _inferred(
            mesh, lambda args, results: infer_sharding_from_operands(*static, mesh, args, results),
            call, in_tree, out_tree)
    if sharding_rule is None:
        return None
    return rule_attribute(sharding_rule, [a.shape for a in call.in_avals],
                          [a.shape for a in call.out_avals])


def _inferred(mesh: Mesh, infer: Callable[[Any, Any], Any], call: Jaxpr, in_tree: Any,
              out_tree: Any) -> SdyShardingRule | None:
    """A rule by an author's answers: how results are cut if one dimension of an operand is.

    A dimension of a result shares the factor of the first dimension of an operand that cuts it;
    further operands' dimensions that cut it too have that factor as well.
    """
    axis = next((name for name, size in mesh.shape.items() if size > 1), None)
    if axis is None:
        return None
    names = [[f"f{i}_{d}" for d in range(aval.ndim)] for i, aval in enumerate(call.in_avals)]
    outs: list[list[str | None]] = [[None] * aval.ndim for aval in call.out_avals]
    results = out_tree.unflatten([ShapeDtypeStruct(a.shape, a.dtype) for a in call.out_avals])
    for i, aval in enumerate(call.in_avals):
        for d in range(aval.ndim):
            given = in_tree.unflatten([_cut(mesh, a, axis if j == i else None, d)
                                       for j, a in enumerate(call.in_avals)])
            for r, sharding in enumerate(out_tree.flatten_up_to(infer(given, results))):
                for e in _dims_cut(sharding, axis):
                    if e < len(outs[r]) and call.out_avals[r].shape[e] == aval.shape[d]:
                        known = outs[r][e]
                        if known is None:
                            outs[r][e] = names[i][d]
                        else:
                            names[i][d] = known
    return SdyShardingRule([ArrayMapping(*dims) for dims in names], [
        ArrayMapping(*[name or f"r{r}_{e}" for e, name in enumerate(dims)])
        for r, dims in enumerate(outs)])


def _cut(mesh: Mesh, aval: Any, axis: Any, dim: int) -> ShapeDtypeStruct:
    spec = PartitionSpec(*[axis if axis is not None and d == dim else None
                           for d in range(aval.ndim)])
    return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=NamedSharding(mesh, spec))


def _dims_cut(sharding: Any, axis: Any) -> list[int]:
    """The dimensions that a sharding cuts along an axis; of a GSPMDSharding all that it cuts."""
    if type(sharding) is NamedSharding:
        return [i for i, axes in enumerate(sharding.spec.dims(len(sharding.spec))) if axis in axes]
    pieces = sharding.tiles.pieces if type(sharding) is GSPMDSharding else ()
    return [i for i, count in enumerate(pieces) if count > 1]


__all__ = ["TARGET", "PartitionedCall", "mesh_of", "rule_for"]
