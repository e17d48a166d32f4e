"""Compiling a program, stage by stage.

    Asked -> place -> Placed -> shard -> Program
          -> lower -> LoweredModule -> compile_module -> Loaded

The last stage, `run`, is in `runners`, and so is `runners_of`, which goes through all of them.
Ahead-of-time compilation takes them one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from mjax._engine.base.frame_room import with_room
from mjax._engine.base.monitoring import LOWER
from mjax._engine.base.platforms import names_of
from mjax._engine.base.records import Record
from mjax._engine.base.util import check_order
from mjax._engine.ir.jaxpr import Jaxpr, Literal
from mjax._engine.ir.references import INSIDE
from mjax._engine.lowering.module import LoweredModule, lower_to_module
from mjax._engine.runtime.arrays.donation import ArgumentNames, Donation, settle
from mjax._engine.runtime.arrays.layouts import Format, Layout, sharding_behind
from mjax._engine.runtime.dispatch.device_assignment import (
    Place,
    check_demands,
    demands_of,
    execution_place,
    out_memories,
    out_spaces,
    place_text,
)
from mjax._engine.runtime.dispatch.disk_cache import compiled, sha256
from mjax._engine.runtime.dispatch.explain import Joined, log_compile, timed
from mjax._engine.runtime.dispatch.nan_checks import nan_checks_enabled
from mjax._engine.runtime.dispatch.program_shardings import Shardings
from mjax._engine.runtime.xla_errors import explaining_compilation
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.discharge import discharge_jaxpr
from mjaxlib_shim import client as shim_client
from mjaxlib_shim import executables as shim


class Asked(Record):
    """A program, and the options of its compilation.

    Attributes:
      jaxpr: the program.
      name: the module's name.
      placements: the placements of the arguments.
      donated: which arguments' buffers may be reused; empty: none.
      keep_unused: whether unused arguments are passed anyway.
      device: the device to run on, wherever the arguments are; None: they decide.
      in_shardings, out_shardings: per argument and per result a sharding, a format with a layout,
        or None: the argument's own, or XLA's choice. Empty: None for all.
      stored: the arguments whose final contents are the last results, and take their memory.
    """

    jaxpr: Jaxpr
    name: str
    placements: Sequence[Any]
    donated: Sequence[bool] = ()
    keep_unused: bool = False
    device: Any = None
    in_shardings: Sequence[Any] = ()
    out_shardings: Sequence[Any] = ()
    stored: Sequence[int] = ()


class Placed(Record):
    """A program with its devices.

    Attributes:
      names: the names of the program and its arguments.
      jaxpr: the program without dead code.
      kept: the arguments that it reads.
      copied: per result: the argument that it is a copy of, or None.
      place: where it runs.
      in_shardings, out_shardings: per argument and per result the requested sharding, or None.
    """

    names: ArgumentNames
    jaxpr: Jaxpr
    kept: list[int]
    copied: list[int | None]
    place: Place
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]


class Program(Record):
    """A program that can be lowered.

    Attributes:
      asked: the original program and its options.
      names, jaxpr, kept, place: the same as in `Placed`.
      shardings: the shardings of its arguments and results.
      moved: the arguments that have to be moved.
      donation: the results that take over the memory of inputs.
      in_layouts, out_layouts: the requested layouts, by the number of the argument and the result.
    """

    asked: Asked
    names: ArgumentNames
    jaxpr: Jaxpr
    kept: list[int]
    place: Place
    shardings: Shardings
    moved: list[int]
    donation: Donation
    in_layouts: dict[int, Layout]
    out_layouts: dict[int, Layout]

    @property
    def name(self) -> str:
        """The module's name."""
        return self.asked.name

    @property
    def devices(self) -> Sequence[Any]:
        """The devices that it runs on, in the order of the partitions."""
        return self.shardings.devices

    @property
    def platform(self) -> str:
        """The platform of the devices, by the vendor's name."""
        return shim_client.vendor_platform(self.devices[0])


class Loaded(Record):
    """A compiled program.

    Attributes:
      program: the program, with the shardings that XLA chose.
      lowered: the module that it was compiled from.
      executable: jaxlib's loaded executable.
      has_collectives: whether its devices wait for each other.
    """

    program: Program
    lowered: LoweredModule
    executable: Any
    has_collectives: bool


def place(asked: Asked) -> Placed:
    """Removes dead code from a program, and decides on its devices.

    Raises:
      ValueError: its arguments, equations and shardings name different devices.
    """
    jaxpr = asked.jaxpr
    if INSIDE in jaxpr.effects:
        jaxpr = discharge_jaxpr(jaxpr, (), (), last=True).jaxpr
    names = ArgumentNames(asked.name, jaxpr.debug_info.arg_names, jaxpr.in_avals)
    in_shardings = [*map(sharding_behind, asked.in_shardings or [None] * len(jaxpr.invars))]
    out_shardings = out_memories(jaxpr, [
        *map(sharding_behind, asked.out_shardings or [None] * len(jaxpr.outvars))])
    live, used = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), asked.keep_unused)
    kept = [i for i, u in enumerate(used) if u]
    where = execution_place(asked.placements, {*kept, *asked.stored}, names, live, asked.device,
                            in_shardings, out_shardings)
    check_demands(asked.name, demands_of(live), where.sharding)
    out_shardings = out_spaces(jaxpr, out_shardings, where.sharding)
    input_of: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
    copied = [None if type(v) is Literal else input_of.get(v) for v in jaxpr.outvars]
    return Placed(names, live, kept, copied, where, in_shardings, out_shardings)


def shard(asked: Asked, placed: Placed) -> Program:
    """Decides on the shardings of arguments and results, and on the reuse of memory.

    Raises:
      ValueError: a requested sharding or layout does not fit.
    """
    names, jaxpr, kept, copied, where, in_shardings, out_shardings = placed
    in_layouts = _layouts("in", asked, asked.in_shardings, jaxpr.in_avals)
    out_layouts = _layouts("out", asked, asked.out_shardings, jaxpr.out_avals)
    shardings = Shardings(where, names, asked.placements, in_shardings, jaxpr.out_avals,
                          out_shardings, copied)
    moved = [i for i in kept if asked.placements[i].sharding is not shardings.inputs[i]]
    # A program that may run a second time, to find a NaN, keeps its arguments.
    usable = [n for n, i in enumerate(kept)
              if asked.donated and asked.donated[i] and i not in moved and not nan_checks_enabled()]
    stored = dict(zip(asked.stored, range(len(copied) - len(asked.stored), len(copied)),
                      strict=True))
    donation = settle(usable, jaxpr.in_avals, jaxpr.out_avals, lambda n: names(kept[n]),
                      lambda n, out: shardings.agree(kept[n], out),
                      lambda n, out: out == stored[kept[n]] if kept[n] in stored else
                      copied[out] == kept[n])
    return Program(asked, names, jaxpr, kept, where, shardings, moved, donation, in_layouts,
                   out_layouts)


def _layouts(what: str, asked: Asked, given: Sequence[Any], avals: Sequence[Any]
             ) -> dict[int, Layout]:
    found = {i: one.layout for i, one in enumerate(given)
             if type(one) is Format and isinstance(one.layout, Layout)}
    for i, layout in found.items():
        check_order(layout.major_to_minor, avals[i].ndim,
                    f"{asked.name}: {what}_shardings of {i}", layout)
    return found


def lower(program: Program, platform: str | None = None, whole: bool = False) -> LoweredModule:
    """The StableHLO module, by default for the platform of the devices; with `whole` its text
    contains all constants."""
    with timed("Finished lowering %s to StableHLO in %.6f s", program.name, event=LOWER):
        return with_room(lambda: lower_to_module(
            program.jaxpr, program.name, platform or program.platform, *program.donation,
            client=lambda: program.devices[0].client,
            partition=program.shardings.partition(program.kept), whole=whole,
            prepare=lambda mctx: mctx.note_devices(program.devices)))


def compile_module(program: Program, lowered: LoweredModule, options: dict[str, Any]) -> Loaded:
    """Compiles and loads a module.

    Args:
      program: the program.
      lowered: its module.
      options: of XLA, by name.

    Raises:
      ValueError: it was lowered for a platform other than that of its devices.
    """
    if program.platform not in names_of(lowered.platform):
        msg = (f"{program.name} was lowered for {lowered.platform!r} and cannot be compiled for "
               f"{place_text(program.place.sharding)}.")
        raise ValueError(msg)
    shardings, kept = copy(program.shardings), program.kept
    options = shardings.options(kept, lowered) | options
    if shardings.single or lowered.host_callbacks or lowered.inspections:
        executable = _load(program, lowered, options)
    else:
        # Equivalent shardings (P('x'), P('x', None)) make one module.
        key = ("loaded", program.devices, sha256(lowered.text().encode()).digest(),
               repr(sorted(options.items())))
        executable = program.asked.jaxpr.cached(key, lambda: _load(program, lowered, options))
    if not shardings.single:
        shardings.read_back(kept, lowered, executable)
    shardings.tell(lowered)
    return Loaded(program._replace(shardings=shardings), lowered, executable,
                  not shardings.single and shim.has_collectives(executable))


def _load(program: Program, lowered: LoweredModule, options: dict[str, Any]) -> Any:
    log_compile("Compiling jit(%s) for %s with arguments of types (%s)", program.name,
                place_text(program.place.sharding), Joined(program.jaxpr.in_avals))
    for one in lowered.inspections:
        one.inspection.take()  # of a compilation that failed
    if not (lowered.targets or lowered.keepalives):
        return compiled(lowered, program.name, program.devices, options)
    with explaining_compilation(lowered.targets, program.platform) as check:
        return check(compiled(lowered, program.name, program.devices, options))
