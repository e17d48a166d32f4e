"""Compiling a jaxpr, and the closures that run what was compiled.

A *runner* takes arrays of known placements and gives a list of arrays. Which arguments the
program reads, which results are arguments passed through, what has to be moved: all that
is settled when the runner is made, so that a call does nothing but execute.
"""

from __future__ import annotations

import logging
import operator
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr, Literal
from mjax._engine.lowering.module import LoweredModule, lower_to_module
from mjax._engine.runtime.array import Array, Placement, SingleDeviceSharding, placement_of
from mjax._engine.runtime.devices import default_device
from mjax._engine.runtime.transfer import move, sharding_of, to_array, unshared
from mjax._engine.transforms.dce import dce_jaxpr
from mjaxlib_shim import executables as shim

Runner = Callable[..., list[Array]]
logger = logging.getLogger("mjax")
_buffer_of = operator.attrgetter("_buffer")


def execution_device(placements: Sequence[Placement], used: Collection[int],
                     describe: Callable[[int], str]) -> tuple[SingleDeviceSharding, bool]:
    """Where a computation on arguments so placed runs, and whether its results are committed.

    Args:
      placements: those of the arguments.
      used: which arguments are asked.
      describe: the name of an argument.

    Raises:
      ValueError: committed arguments are on different devices.
    """
    committed = [(i, p) for i, p in enumerate(placements) if p.committed and i in used]
    if not committed:
        return SingleDeviceSharding(default_device()), False
    first, chosen = committed[0]
    for i, placement in committed[1:]:
        if placement.sharding is not chosen.sharding:
            one, other = (f"{d.platform}:{d.id}" for d in
                          (chosen.sharding.device, placement.sharding.device))
            msg = (f"arguments are committed to different devices: {describe(first)} is on {one}, "
                   f"{describe(i)} on {other}. Move one with mjax.device_put.")
            raise ValueError(msg)
    return chosen.sharding, True


class Program:
    """A compiled jaxpr for arguments of given placements.

    Args:
      jaxpr: the program.
      name: the module's name.
      placements: those of the arguments.
      donated: which arguments' buffers may be reused.
      keep_unused: whether arguments that nothing reads are passed all the same.
      device: where to run, whatever the arguments say; None: where they say.
    """

    def __init__(self, jaxpr: Jaxpr, name: str, placements: Sequence[Placement],
                 donated: Sequence[bool] = (), keep_unused: bool = False, device: Any = None):
        # Results of dtype float0 are NumPy arrays and are made anew.
        input_of: dict[Any, int] = {v: i for i, (v, p) in enumerate(
            zip(jaxpr.invars, placements, strict=True)) if not _is_float0(p)}
        #: Per result: the input that it is, or None.
        self.forwarded = [None if type(v) is Literal else input_of.get(v) for v in jaxpr.outvars]
        computed = [i is None for i in self.forwarded]
        smaller, kept = dce_jaxpr(jaxpr, computed, keep_unused)
        self.kept = [i for i, k in enumerate(kept) if k]
        shared = {i for i in self.forwarded if i is not None}
        #: Inputs that are results too, and may be scalars that others use.
        self.scalars = {i for i in shared if not placements[i].aval.shape}
        if device is None:
            self.sharding, self.committed = execution_device(
                placements, shared.union(self.kept), jaxpr.debug_info.arg_name)
        else:
            self.sharding, self.committed = sharding_of(device), True
        self.jaxpr = smaller
        self.moved = [i for i in self.kept if placements[i].sharding is not self.sharding]
        self.donated = [n for n, i in enumerate(self.kept)
                        if donated and donated[i] and i not in shared and i not in self.moved]
        self.out_placements = [placement_of(a, self.sharding, self.committed)
                               for a in smaller.out_avals]
        self.arity = len(placements)
        self.name = name
        self.lowered: LoweredModule | None = None
        self.loaded: Any = None

    def lower(self) -> LoweredModule:
        """The StableHLO module."""
        if self.lowered is None:
            platform = str(self.sharding.device.platform)
            aliases = self._aliases()
            self.lowered = lower_to_module(self.jaxpr, self.name, platform, aliases,
                                           [i for i in self.donated if i not in aliases])
        return self.lowered

    def _aliases(self) -> dict[int, int]:
        """Donated inputs, each with a result of its type to take over its buffer."""
        free: dict[Any, list[int]] = {}
        for i, aval in enumerate(self.jaxpr.out_avals):
            free.setdefault((aval.shape, aval.dtype), []).append(i)
        aliases = {}
        for i in self.donated:
            aval = self.jaxpr.in_avals[i]
            candidates = free.get((aval.shape, aval.dtype))
            if candidates:
                aliases[i] = candidates.pop(0)
        return aliases

    def compile(self, options: dict[str, Any] | None = None) -> Any:
        """Compiles and loads the program."""
        if self.loaded is None:
            lowered = self.lower()
            device = self.sharding.device
            start = time.perf_counter()
            self.loaded = shim.compile_module(device.client, lowered.module, [device],
                                              options=options,
                                              host_callbacks=lowered.host_callbacks)
            if ctx.options.log_compiles:
                logger.warning("Finished XLA compilation of %s in %.6f s", self.name,
                               time.perf_counter() - start)
        return self.loaded

    def runner(self, options: dict[str, Any] | None = None) -> Runner:
        """A function from arrays of the given placements to the list of results."""
        if not self.jaxpr.outvars and not self.jaxpr.effects:
            return self._forwarding_runner()
        loaded = self.compile(options)
        execute = loaded.execute_sharded
        handlers = [p.handler for p in self.out_placements]
        constants = [self._constant(c) for c in self.lower().constants]
        plain = (not constants and not self.moved and self.kept == list(range(self.arity))
                 and all(i is None for i in self.forwarded)
                 and not any(_is_float0(p) for p in self.out_placements))
        if plain:
            return _plain_runner(execute, handlers, self.out_placements)
        return self._general_runner(execute, handlers, [c._buffer for c in constants])

    def _constant(self, value: Any) -> Array:
        return move(to_array(value), self.sharding, self.committed)

    def _forwarding_runner(self) -> Runner:
        indices = [i for i in self.forwarded if i is not None]
        sharding, committed, scalars = self.sharding, self.committed, self.scalars
        return lambda *args: [
            move(unshared(args[i]) if i in scalars else args[i], sharding, committed)
            for i in indices]

    def _general_runner(self, execute: Any, handlers: list[Any], constants: list[Any]) -> Runner:
        kept, moved, forwarded = self.kept, set(self.moved), self.forwarded
        placements, sharding, committed = self.out_placements, self.sharding, self.committed
        scalars = self.scalars

        def run(*args: Any) -> list[Any]:
            buffers = constants + [
                (move(args[i], sharding, committed) if i in moved else args[i])._buffer
                for i in kept]
            computed = zip(execute(buffers).consume_with_handlers(handlers), placements,
                           strict=True)
            outs: list[Any] = []
            for i in forwarded:
                if i is not None:
                    outs.append(move(unshared(args[i]) if i in scalars else args[i], sharding,
                                     committed))
                else:
                    buffer, placement = next(computed)
                    outs.append(np.zeros(placement.aval.shape, dtypes.float0)
                                if _is_float0(placement) else Array(buffer, placement))
            return outs

        return run


def _is_float0(placement: Placement) -> bool:
    return bool(placement.aval.dtype == dtypes.float0)


def _plain_runner(execute: Any, handlers: list[Any], placements: list[Placement]) -> Runner:
    """The runner of a program that reads all its arguments and computes all its results."""
    if len(handlers) == 1:
        placement = placements[0]

        def run_one(*args: Any) -> list[Any]:
            return [Array(execute(list(map(_buffer_of, args))).consume_with_handlers(handlers)[0],
                          placement)]

        return run_one

    def run(*args: Any) -> list[Any]:
        buffers = execute(list(map(_buffer_of, args))).consume_with_handlers(handlers)
        return list(map(Array, buffers, placements))

    return run


def single_runner(program: Program, arity: int) -> Callable[..., Any] | None:
    """A runner that gives the one result itself, for one or two arguments; None if the
    program needs more than executing."""
    if (program.moved or program.kept != list(range(arity)) or program.forwarded != [None]
            or program.lower().constants or _is_float0(program.out_placements[0])):
        return None
    execute = program.compile().execute_sharded
    handlers, placement = [program.out_placements[0].handler], program.out_placements[0]
    if arity == 1:
        return lambda x: Array(
            execute([x._buffer]).consume_with_handlers(handlers)[0], placement)
    if arity == 2:
        return lambda x, y: Array(
            execute([x._buffer, y._buffer]).consume_with_handlers(handlers)[0], placement)
    return lambda *args: Array(
        execute([a._buffer for a in args]).consume_with_handlers(handlers)[0], placement)
