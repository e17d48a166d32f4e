"""The shardings of a program's arguments and results: as requested, or as XLA chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.ir.types import physical_aval
from mjax._engine.lowering.module import LoweredModule
from mjax._engine.lowering.shardings import Partition
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.constraints import check_fits
from mjax._engine.runtime.arrays.donation import ArgumentNames
from mjax._engine.runtime.arrays.gspmd_sharding import chosen_sharding, in_order, spec_of_pieces
from mjax._engine.runtime.arrays.placement import Placement
from mjax._engine.runtime.arrays.shardings import NamedSharding, SingleDeviceSharding
from mjax._engine.runtime.dispatch.device_assignment import Place
from mjaxlib_shim import executables as shim


class Shardings:
    """The shardings of a program's arguments and results.

    A program computes in the default memory of its devices, and in one order of them. Arguments in
    another memory are moved there. Results requested in another memory, or with devices in another
    order, are moved or relabelled afterwards.

    Attributes:
      whole: of arrays that are not cut: on the only device, or copies on all.
      devices: the devices, in the order of the partitions.
      single: whether it runs on a device; a mesh of one device is a mesh.
      inputs: the required sharding per argument; None: XLA chooses, when it compiles.
      outputs: the sharding per result, likewise.
      moved_to: result -> the requested sharding, if it differs.

    Args:
      place: where the program runs.
      names: the names of the program and its arguments.
      placements: the placements of the arguments.
      asked: the requested sharding per argument, or None.
      out_avals: types of the results.
      out_asked: the requested sharding per result, or None.
      copied: per result the argument that it is a copy of, or None; it has the same sharding.

    Raises:
      ValueError: a requested sharding does not divide the array; or an argument is committed to
        another.
    """

    __slots__ = ("_avals", "_elsewhere", "_known", "_meshes", "devices", "inputs", "moved_to",
                 "outputs", "single", "whole")
    whole: Any
    devices: tuple[Any, ...]
    single: bool
    inputs: list[Any]
    outputs: list[Any]
    moved_to: dict[int, Any]

    def __init__(self, place: Place, names: ArgumentNames, placements: Sequence[Placement],
                 asked: Sequence[Any], out_avals: Sequence[Any], out_asked: Sequence[Any],
                 copied: Sequence[int | None]):
        self.whole = place.sharding
        self.devices = place.sharding.flat_devices
        self.single = type(place.sharding) is SingleDeviceSharding
        asked, out_asked = (
            [s.over(self.devices, f"{names.program}: {what} of {describe(i)}")
             if type(s) is NamedSharding else s for i, s in enumerate(given)]
            for what, describe, given in (("in_shardings", names, asked),
                                          ("out_shardings", "result {}".format, out_asked)))
        self._meshes, self._known = place.meshes, place.shardings
        self._avals = [p.aval for p in placements], out_avals
        self._elsewhere = {i: p.sharding for i, p in enumerate(placements)
                           if p.sharding is not p.sharding.in_default_memory}
        if any(asked):
            placements = [
                p if s is None else _agreed(p, s, names, i)
                for i, (p, s) in enumerate(zip(placements, asked, strict=True))]
        for i, (aval, sharding) in enumerate(zip(out_avals, out_asked, strict=True)):
            if sharding is not None:
                check_fits(sharding, aval, f"{names.program}: out_shardings of result {i}")
        self.inputs = [self._ordered(p.sharding, p.aval) for p in placements]
        self.outputs = [
            self._ordered(s, a) if s is not None or i is None else self.inputs[i]
            for s, a, i in zip(out_asked, out_avals, copied, strict=True)]
        self.moved_to = {n: asked for n, (asked, s) in enumerate(
            zip(out_asked, self.outputs, strict=True)) if asked is not None and asked is not s}

    def _ordered(self, sharding: Any, aval: Any) -> Any:
        """A sharding as far as it is known, over the devices in the program's order."""
        if self.single:
            return self.whole
        if sharding is None or type(sharding) is SingleDeviceSharding:
            return None
        return in_order(sharding.in_default_memory, self.devices, physical_aval(aval).ndim)

    def agree(self, argument: int, result: int) -> bool:
        """Whether a result is known to be cut as an argument."""
        one, other = self.inputs[argument], self.outputs[result]
        return one is not None is not other and one.is_equivalent_to(
            other, physical_aval(self._avals[0][argument]).ndim)

    def accept(self, argument: int, sharding: Any) -> bool:
        """Whether an argument in this sharding is where the compiled program takes it."""
        wanted, ndim = self.of_argument(argument), physical_aval(self._avals[0][argument]).ndim
        return sharding is wanted or sharding is self._elsewhere.get(argument) or (
            set(sharding.flat_devices) == set(self.devices)
            and in_order(sharding, self.devices, ndim).is_equivalent_to(wanted, ndim))

    def of_constant(self, value: Any) -> Any:
        """The sharding of a constant: its own if over the program's devices, otherwise copies."""
        own = None if not is_array(value) else self._ordered(value.sharding, value.aval)
        return self.whole if own is None else own

    def of_argument(self, argument: int) -> Any:
        """The sharding of an argument, as far as it is known."""
        return self.inputs[argument] or self.whole

    def partition(self, kept: Sequence[int]) -> Partition | None:
        """The facts for the lowering; None if it needs none.

        Args:
          kept: the arguments that are passed.
        """
        if self.single:
            return None
        return Partition(self.devices, self.whole.mesh, [self.inputs[i] for i in kept],
                         self.outputs, self.of_constant)

    def options(self, kept: Sequence[int], lowered: LoweredModule) -> dict[str, Any]:
        """Options that let XLA choose shardings without a request."""
        if len(self.devices) == 1:
            return {}
        tokens, constants = [False] * len(lowered.tokens), [False] * len(lowered.constants)
        return {
            "allow_spmd_sharding_propagation_to_parameters":
                tokens + constants + [self.inputs[i] is None for i in kept],
            "allow_spmd_sharding_propagation_to_output":
                tokens + [s is None for s in self.outputs]}

    def read_back(self, kept: Sequence[int], lowered: LoweredModule, loaded: Any) -> None:
        """Completes the shardings with XLA's choices."""
        as_ours = self._translation()

        def chosen(found: Any, index: int, aval: Any) -> Any:
            if found is None:  # a mesh of one device, whose shardings are all equivalent
                return next((s for s, a in zip(self.inputs, in_avals, strict=True)
                             if s is not None and a.ndim == aval.ndim), self.whole)
            return as_ours(found[index], aval)

        tokens, (in_avals, out_avals) = len(lowered.tokens), self._avals
        if None in self.inputs:
            found = shim.parameter_shardings(loaded)
            numbers = {i: n for n, i in enumerate(kept, tokens + len(lowered.constants))}
            self.inputs = [
                s or (chosen(found, numbers[i], aval) if i in numbers else None)
                for i, (s, aval) in enumerate(zip(self.inputs, in_avals, strict=True))]
        if None in self.outputs:
            found = shim.output_shardings(loaded)
            self.outputs = [s or chosen(found, tokens + n, a) for n, (s, a) in enumerate(
                zip(self.outputs, out_avals, strict=True))]

    def _translation(self) -> Callable[[Any, Any], Any]:
        """Gives XLA's shardings of arrays of a type as ours."""
        known = list(dict.fromkeys((*self._known, *filter(None, self.inputs))))
        return lambda hlo, aval: chosen_sharding(
            hlo, self.devices, self._meshes, physical_aval(aval).ndim, known)

    def tell(self, lowered: LoweredModule) -> None:
        """Calls the functions that inspect shardings, once the program is compiled."""
        as_ours = self._translation()
        told = [(one, one.inspection.take()) for one in lowered.inspections]  # some may raise
        for one, found in told:
            if len(self.devices) == 1:
                shardings = [self.whole]
            elif one.manual is None:
                shardings = [as_ours(hlo, one.aval) for hlo in found]
            else:
                shardings = [self._in_body(hlo, *one.manual) for hlo in found]
            for sharding in shardings:
                one.callback(sharding, one.aval.shape)

    def _in_body(self, hlo: Any, mesh: Any, manual: frozenset[Any]) -> NamedSharding:
        """The sharding of a value along the mesh axes that a shard_map does not know."""
        free = {a: n for a, n in mesh.shape.items() if a not in manual and n > 1}
        spec = spec_of_pieces(hlo, free)
        return NamedSharding(mesh, spec).over(self.devices, "inspect_array_sharding")


def _agreed(placement: Placement, asked: Any, names: ArgumentNames, index: int) -> Any:
    """The requested placement of an argument; its own if that is equivalent.

    Raises:
      ValueError: the sharding does not divide it; or it is committed to another sharding or
        memory.
    """
    aval, given = placement.aval, placement.sharding
    check_fits(asked, aval, f"{names.program}: in_shardings of {names(index)}")
    ndim = physical_aval(aval).ndim
    if given.is_equivalent_to(asked, ndim):
        return placement
    if placement.committed and not (
            given.memory_kind == asked.memory_kind and given.cuts_like(asked, ndim)):
        raise LazyValueError(lambda: (
            f"{names.program}: {names(index)} of type {aval} is committed to {given}, but "
            f"in_shardings asks for {asked}. Move it with mjax.device_put, or leave in_shardings "
            "out: then it is taken as it is."))
    return _Wanted(aval, asked)


class _Wanted(Record):
    """A placement without irrelevant facts: it only says where an argument has to be."""

    aval: Any
    sharding: Any
