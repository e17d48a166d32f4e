"""Compiling a jaxpr, and the closures that run what was compiled.

A *runner* takes arrays of known placements and gives a list of arrays. Which arguments the
program reads and what has to be moved is settled when the runner is made, so that a call does
nothing but execute. Every result has memory of its own: the program copies an argument that it
gives back, so that deleting or donating one leaves the other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.monitoring import LOWER
from mjax._engine.base.platforms import names_of
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import Effects, token_name
from mjax._engine.ir.jaxpr import Jaxpr, Literal
from mjax._engine.ir.pytree import tree_structure
from mjax._engine.ir.types import abstract_token
from mjax._engine.lowering.module import LoweredModule, lower_to_module
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.donation import (
    ArgumentNames,
    Donation,
    explain_failure,
    refuse_deleted,
    refuse_shared,
    settle,
)
from mjax._engine.runtime.arrays.layouts import Format, Layout, check_order, sharding_behind
from mjax._engine.runtime.arrays.ordered import in_orders
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.token_values import Token
from mjax._engine.runtime.arrays.transfer import brought, move, to_array
from mjax._engine.runtime.dispatch.collective_throttle import few_at_a_time, in_turn
from mjax._engine.runtime.dispatch.debugging import checked, debugging
from mjax._engine.runtime.dispatch.device_assignment import (
    check_demands,
    demands_of,
    execution_place,
    out_memories,
    place_text,
)
from mjax._engine.runtime.dispatch.disk_cache import compiled
from mjax._engine.runtime.dispatch.explain import Joined, log_compile, timed
from mjax._engine.runtime.dispatch.forms import direct_runner_of, runner_of
from mjax._engine.runtime.dispatch.program_shardings import Shardings
from mjax._engine.runtime.effects.background import (
    after_readers,
    before_donating,
    holds_caller,
    in_background,
)
from mjax._engine.runtime.effects.tokens import thread_tokens, token_placement
from mjax._engine.transforms.dce import dce_jaxpr
from mjaxlib_shim import client as shim_client
from mjaxlib_shim import executables as shim
from mjaxlib_shim import guards

Runner = Callable[..., list[Array]]


def refuse_execution(name: str) -> NoReturn:
    """Raises what the flag no_execution has for the program of a name."""
    msg = f"the program {name} would be executed, which the flag no_execution refuses."
    raise RuntimeError(msg)


def _refused(name: str) -> Callable[..., NoReturn]:
    return lambda *_, **__: refuse_execution(name)


_buffer_of = operator.attrgetter("_buffer")


class Program:
    """A compiled jaxpr for arguments of given placements.

    Args:
      jaxpr: the program.
      name: the module's name.
      placements: those of the arguments.
      donated: which arguments' buffers may be reused.
      keep_unused: whether arguments that nothing reads are passed all the same.
      device: where to run, whatever the arguments say; None: where they say.
      in_shardings, out_shardings: per argument and per result a sharding, a format with a layout,
        or None: as it is, or as XLA chooses. Empty: None for all.
    """

    def __init__(self, jaxpr: Jaxpr, name: str, placements: Sequence[Placement],
                 donated: Sequence[bool] = (), keep_unused: bool = False, device: Any = None,
                 in_shardings: Sequence[Any] = (), out_shardings: Sequence[Any] = ()):
        #: The program as it was given; `jaxpr` is without what no result needs.
        self.whole = jaxpr
        self.name = name
        self.names = ArgumentNames(name, jaxpr.debug_info.arg_names, jaxpr.in_avals)
        self.arity = len(placements)
        in_shardings = in_shardings or (None,) * self.arity
        out_shardings = out_shardings or (None,) * len(jaxpr.outvars)
        #: The layouts that were asked for, by the number of the argument and of the result.
        self.in_layouts = self._layouts("in", in_shardings, jaxpr.in_avals)
        self.out_layouts = self._layouts("out", out_shardings, jaxpr.out_avals)
        in_shardings = list(map(sharding_behind, in_shardings))
        out_shardings = out_memories(jaxpr, list(map(sharding_behind, out_shardings)))
        self.jaxpr, kept = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), keep_unused)
        self.kept = [i for i, k in enumerate(kept) if k]
        input_of: dict[Any, int] = {v: i for i, v in enumerate(jaxpr.invars)}
        #: Per result: the argument that it is a copy of, or None.
        self.copied = [None if type(v) is Literal else input_of.get(v) for v in jaxpr.outvars]
        #: Whether the user said where to run: then arguments are moved there.
        self.chosen = device is not None
        place = execution_place(placements, set(self.kept), self.names, self.jaxpr,
                                device, in_shardings, out_shardings)
        #: Where it runs: the sharding of whole arrays there.
        self.sharding, self.committed = place.sharding, place.committed
        check_demands(name, demands_of(self.jaxpr), self.sharding)
        self.shardings = Shardings(
            place, self.names, placements, in_shardings, self.jaxpr.out_avals, out_shardings,
            self.copied)
        self.devices = self.shardings.devices
        self.moved = [i for i in self.kept
                      if placements[i].sharding is not self.shardings.inputs[i]]
        self.donation = self._settled(donated)
        #: What it is lowered for.
        self.platform = shim_client.vendor_platform(self.devices[0])
        self.lowered: LoweredModule | None = None
        self.loaded: Any = None
        #: Whether its devices wait for each other.
        self.has_collectives = False

    def _layouts(self, what: str, asked: Sequence[Any], avals: Sequence[Any]) -> dict[int, Layout]:
        found = {i: given.layout for i, given in enumerate(asked)
                 if type(given) is Format and isinstance(given.layout, Layout)}
        for i, layout in found.items():
            check_order(layout, avals[i].ndim, f"{self.name}: {what}_shardings of {i}")
        return found

    def _settled(self, donated: Sequence[bool]) -> Donation:
        # A program that may be run a second time, to find a NaN, keeps its arguments.
        usable = [n for n, i in enumerate(self.kept)
                  if donated and donated[i] and i not in self.moved and not debugging()]
        return settle(usable, self.jaxpr.in_avals, self.jaxpr.out_avals,
                      lambda n: self.names(self.kept[n]),
                      lambda n, out: self.shardings.agree(self.kept[n], out),
                      lambda n, out: self.copied[out] == self.kept[n])

    def lower(self) -> LoweredModule:
        """The StableHLO module."""
        if self.lowered is None:
            with timed("Finished lowering jit(%s) to StableHLO in %.6f s", self.name, event=LOWER):
                self.lowered = lower_to_module(
                    self.jaxpr, self.name, self.platform, *self.donation,
                    client=lambda: self.devices[0].client,
                    partition=self.shardings.partition(self.kept))
        return self.lowered

    def compile(self, options: dict[str, Any] | None = None) -> Any:
        """Compiles and loads the program.

        Raises:
          ValueError: it was lowered for another platform than its device's.
        """
        if self.loaded is None:
            if shim_client.vendor_platform(self.devices[0]) not in names_of(self.platform):
                msg = (f"{self.name} was lowered for {self.platform!r} and cannot be compiled for "
                       f"{place_text(self.sharding)}.")
                raise ValueError(msg)
            lowered = self.lower()
            options = self.shardings.options(self.kept, lowered) | (options or {})
            if self.shardings.single or lowered.host_callbacks or lowered.inspections:
                loaded = self._load(lowered, options)
            else:
                # Shardings that say the same in other words (P('x'), P('x', None)) make one module.
                key = ("loaded", self.devices, sha256(lowered.text().encode()).digest(),
                       repr(sorted(options.items())))
                loaded = self.whole.cached(key, lambda: self._load(lowered, options))
            if not self.shardings.single:
                self.shardings.read_back(self.kept, lowered, loaded)
                self.has_collectives = shim.has_collectives(loaded)
            self.shardings.tell(lowered)
            self.loaded = loaded
        return self.loaded

    def _load(self, lowered: LoweredModule, options: dict[str, Any]) -> Any:
        log_compile("Compiling jit(%s) for %s with arguments of types (%s)", self.name,
                    place_text(self.sharding), Joined(self.jaxpr.in_avals))
        for one in lowered.inspections:
            one.inspection.take()  # of a compilation that failed
        return compiled(lowered, self.name, self.devices, options)

    def out_shardings(self) -> list[Any]:
        """Those of all results."""
        return [self.shardings.moved_to.get(n, s) for n, s in enumerate(self.shardings.outputs)]

    def _out_placements(self) -> list[Placement]:
        return [placement_of(a, s, self.committed) for a, s in zip(
            self.jaxpr.out_avals, self.shardings.outputs, strict=True)]

    # Runners hold neither the program nor its module, which would stay in memory with them.

    def runner(self, options: dict[str, Any] | None = None) -> Runner:
        """A function from arrays of the given placements to the list of results."""
        run = self._runner(options)
        if self.in_layouts or self.out_layouts:
            return in_orders(run, self.names, self.in_layouts, self.out_layouts)
        return run

    def _runner(self, options: dict[str, Any] | None) -> Runner:
        if not self.jaxpr.outvars and not self.jaxpr.effects:
            if options:
                self.compile(options)  # for nothing but their errors
            return lambda *args: []
        execute = self._execute(options)
        if self._is_plain():
            return self._watched(direct_runner_of(
                execute, self._out_placements(), self.names,
                tree_structure([0] * len(self.jaxpr.outvars)), self.arity))
        handlers = [p.handler for p in self._out_placements()]
        if self.jaxpr.effects:
            execute = _with_effects(execute, handlers, self.lower().tokens, self.sharding,
                                    self.jaxpr.effects)
        constants = [self._constant(c)._buffer for c in self.lower().constants]
        return self._watched(self._general_runner(execute, handlers, constants))

    def _execute(self, options: dict[str, Any] | None = None) -> Callable[..., Any]:
        execute = self.compile(options).execute_sharded
        if thread.settings.no_execution:  # which runners are looked up by
            return _refused(self.name)
        if len(self.devices) == 1:
            return execute
        if not self.sharding.is_fully_addressable:
            execute = in_turn(execute)
        elif self.platform == "cpu" and (self.has_collectives or not self.lower().host_callbacks):
            execute = few_at_a_time(execute, self.has_collectives)
        return refuse_deleted(execute)

    def _is_plain(self) -> bool:
        """Whether it takes nothing but executing with all its arguments."""
        return (self._only_executes() and self.kept == list(range(self.arity))
                and not self.lower().constants)

    def _only_executes(self) -> bool:
        """Whether it takes nothing but executing: the arguments that it reads are where they are to
        be, and so are the results."""
        return (not self.in_layouts and not self.out_layouts
                and not self.jaxpr.effects and not self.moved and not self.shardings.moved_to
                and not self.lower().host_callbacks
                and not any(map(_is_no_array, self.jaxpr.out_avals)))

    def _in_background(self) -> bool:
        """Whether it is to run aside: it calls Python, which may take long.

        What donates frees its arguments when it is called; a breakpoint is to stop its caller.
        """
        return (self.platform == "cpu" and self.shardings.single
                and bool(self.lower().host_callbacks) and not self.moved and not debugging()
                and not any(self.donation) and not holds_caller(self.jaxpr))

    def takes_hosted(self) -> bool:
        """Whether the runner takes `HostArgument`s and cuts them for all devices."""
        return not self.shardings.single and not any(self.donation) and not debugging()

    def tree_runner(self, out_tree: Any) -> Callable[..., Any]:
        """A function from all arguments to the tree of results."""
        if self.jaxpr.outvars and self._is_plain() and not debugging():
            return self._watched(direct_runner_of(
                self._execute(), self._out_placements(), self.names, out_tree, self.arity))
        run = self.runner()
        return lambda *args: out_tree.unflatten(run(*args))

    def buffer_runner(self, out_tree: Any) -> Callable[..., Any] | None:
        """A function from the buffers of all arguments to the tree of results; None if it takes
        more than executing."""
        if not self.jaxpr.outvars or not self._only_executes() or debugging():
            return None
        constants = [self._constant(c)._buffer for c in self.lower().constants]
        execute = _picking(self._execute(), constants, self.kept, self.arity)
        run = runner_of(execute, self._out_placements(), self.names, out_tree)
        donated = self._donated()
        return before_donating(run, self.names, self.kept, donated) if donated else run

    def _donated(self) -> frozenset[int]:
        """The arguments that an execution deletes."""
        return frozenset(self.kept[n] for n in (*self.donation.aliases, *self.donation.donors))

    def _watched(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """A runner with the checks that only some programs need."""
        donated = self._donated()
        if donated and self.arity > 1:
            run = refuse_shared(run, self.names, self.kept, donated)
        if donated:
            run = after_readers(run, donated)
        return checked(run, self.whole, self.name) if debugging() else run

    def _constant(self, value: Any) -> Array:
        with guards.unguarded():  # part of the program
            return move(to_array(value), self.shardings.of_constant(value), self.committed)

    def _general_runner(self, execute: Any, handlers: list[Any], constants: list[Any]) -> Runner:
        moved = {i: self.shardings.inputs[i] for i in self.moved}
        kept, names, committed = self.kept, self.names, self.committed
        placements, moved_to = self._out_placements(), self.shardings.moved_to

        def buffers(*args: Any) -> Sequence[Any]:
            try:
                given = constants + [
                    (brought(args[i], moved[i], committed) if i in moved else args[i])._buffer
                    for i in kept]
                computed: Sequence[Any] = execute(given).consume_with_handlers(handlers)
            except Exception as error:
                explain_failure(error, names, map(_buffer_of, args))
                raise
            return computed

        compute = (in_background(buffers, placements, constants) if self._in_background() else
                   lambda *args: list(map(Array, buffers(*args), placements)))
        if not moved_to and not any(_is_no_array(p.aval) for p in placements):
            return compute

        def result(n: int, array: Array) -> Any:
            aval: Any = array._placement.aval
            if aval is abstract_token:
                return Token(array)
            if _is_no_array(aval):
                return np.zeros(aval.shape, dtypes.float0)
            return move(array, moved_to[n], committed) if n in moved_to else array

        return lambda *args: [result(n, array) for n, array in enumerate(compute(*args))]


def _is_no_array(aval: Any) -> bool:
    """Whether values of a type are something else than `Array`s."""
    return aval is abstract_token or bool(aval.dtype == dtypes.float0)


class _Results:
    """What an execution gave, without its tokens."""

    __slots__ = ("_buffers",)

    def __init__(self, buffers: Sequence[Any]):
        self._buffers = buffers

    def consume_with_handlers(self, handlers: Any) -> Sequence[Any]:
        """The buffers of the results; the handlers were applied to them already."""
        return self._buffers


def _with_effects(execute: Any, handlers: Sequence[Any], names: tuple[str, ...], sharding: Any,
                  effects: Effects) -> Callable[[list[Any]], _Results]:
    """`execute` that passes the thread's tokens to the program and keeps those it gives.

    Args:
      execute: of the loaded program.
      handlers: of its results.
      names: of the tokens that it takes and gives first.
      sharding: where it runs.
      effects: its effects.
    """
    placement = token_placement(sharding)
    handlers = [*(placement.handler for _ in names), *handlers]
    unordered = any(token_name(e) is None for e in effects)
    n = len(names)

    def execute_with_effects(given: list[Any]) -> _Results:
        mine = thread_tokens()
        taken = mine.take(names, placement)
        try:
            results = execute([*map(_buffer_of, taken), *given], with_tokens=unordered)
            buffers = results.consume_with_handlers(handlers)
        except Exception:
            mine.forget(names)
            raise
        if names:
            mine.set(names, [Array(b, placement) for b in buffers[:n]])
        if unordered:
            mine.add_output(results.consume_token())
        return _Results(buffers[n:])

    return execute_with_effects


def _picking(execute: Any, constants: list[Any], kept: list[int], arity: int) -> Any:
    """`execute` of the buffers of all arguments, which takes constants and those that are kept."""
    if len(kept) == arity:
        return execute if not constants else lambda buffers: execute([*constants, *buffers])
    return lambda buffers: execute([*constants, *[buffers[i] for i in kept]])
