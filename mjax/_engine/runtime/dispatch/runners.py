"""Running compiled programs.

The runners of a program know which arguments it reads and which have to be moved, so that a call
only executes. Every result has memory of its own: the program copies an argument that it returns,
so that deleting or donating one leaves the other.

Runners hold neither the program nor its module, so that these can be freed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.effects import Effects, token_name
from mjax._engine.ir.pytree import tree_structure
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.donation import explain_failure, refuse_deleted
from mjax._engine.runtime.arrays.memory_order import in_orders
from mjax._engine.runtime.arrays.placement import Placement, placement_of
from mjax._engine.runtime.arrays.token_values import Token
from mjax._engine.runtime.arrays.transfer import arrived, brought, move, to_array
from mjax._engine.runtime.dispatch.collective_throttle import few_at_a_time, in_turn
from mjax._engine.runtime.dispatch.executable import (
    Asked,
    Loaded,
    Program,
    compile_module,
    lower,
    place,
    shard,
)
from mjax._engine.runtime.dispatch.forms import runner_of
from mjax._engine.runtime.dispatch.nan_checks import checked, nan_checks_enabled
from mjax._engine.runtime.dispatch.references import with_references
from mjax._engine.runtime.dispatch.user_types import has_packed, of_arrays, with_packed
from mjax._engine.runtime.effects.background import before_donating, holds_caller, in_background
from mjax._engine.runtime.effects.tokens import awaited_at_exit, thread_tokens, token_placement
from mjax._engine.tracing.reference import RefPlacement
from mjaxlib_shim import guards

buffer_of = operator.attrgetter("_buffer")


class Runners(Record):
    """Functions that run a compiled program, and return the tree of its results.

    Attributes:
      arrays: takes all arguments, arrays or `HostArgument`s.
      buffers: takes a list of the buffers of all arguments; None if executing is not enough.
    """

    arrays: Callable[..., Any]
    buffers: Callable[[Sequence[Any]], Any] | None


def refuse_execution(name: str) -> NoReturn:
    """Raises the error of the flag no_execution for a program."""
    msg = f"the program {name} would be executed, which the flag no_execution refuses."
    raise RuntimeError(msg)


def runners_of(asked: Asked, out_tree: Any, options: dict[str, Any] | None = None) -> Runners:
    """The functions that run a program.

    Args:
      asked: the program.
      out_tree: the tree of its results.
      options: of XLA, by name.
    """
    if any(type(p) is RefPlacement for p in asked.placements):
        return Runners(with_references(
            asked, out_tree, lambda pure, tree: runners_of(pure, tree, options).arrays), None)
    if has_packed(asked):
        inner = of_arrays(asked)
        made = runners_of(inner, tree_structure([0] * len(inner.jaxpr.outvars)), options)
        return Runners(with_packed(made.arrays, asked.jaxpr.out_avals, out_tree), None)
    program = shard(asked, place(asked))
    if not program.jaxpr.outvars and not program.jaxpr.effects and not options:
        return Runners(lambda *args: out_tree.unflatten(()), None)
    return run(compile_module(program, lower(program), options or {}), out_tree)


def run(loaded: Loaded, out_tree: Any) -> Runners:
    """The runners of a compiled program.

    Args:
      loaded: the program.
      out_tree: the tree of its results.
    """
    program, lowered = loaded.program, loaded.lowered
    names, kept, arity = program.names, program.kept, len(program.asked.placements)
    placements = [placement_of(a, s, program.place.committed) for a, s in zip(
        program.jaxpr.out_avals, program.shardings.outputs, strict=True)]
    donated = frozenset(kept[n] for n in (*program.donation.aliases, *program.donation.donors))
    constants = [_constant(program, c)._buffer for c in lowered.constants]
    execute = _execute(loaded)
    if placements and _only_executes(loaded):
        execute = _picking(execute, constants, kept, arity)
        of_buffers = runner_of(execute, placements, names, out_tree)
        if donated:
            of_buffers = before_donating(of_buffers, names, kept, donated)
        elif len(program.devices) == 1 and program.platform == "cpu":
            of_buffers.stages = len(placements), partial(  # type: ignore[attr-defined]
                runner_of, execute, placements, names, out_tree, True)
        return Runners(lambda *args: of_buffers([*map(buffer_of, args)]), of_buffers)
    compute = _general_runner(loaded, execute, placements, constants)
    if donated:
        compute = _guarded(compute, before_donating(len, names, kept, donated))
    if nan_checks_enabled():
        compute = checked(compute, program.asked.jaxpr, program.name)
    if program.in_layouts or program.out_layouts:
        compute = in_orders(compute, names, program.in_layouts, program.out_layouts)
    return Runners(lambda *args: out_tree.unflatten(compute(*args)), None)


def _execute(loaded: Loaded) -> Callable[..., Any]:
    program = loaded.program
    execute: Callable[..., Any] = loaded.executable.execute_sharded
    if thread.settings.no_execution:  # a setting, so it is part of the key of runners
        name = program.name
        return lambda *_, **__: refuse_execution(name)
    if len(program.devices) == 1:
        return execute
    if not program.place.sharding.is_fully_addressable:
        return refuse_deleted(in_turn(execute))
    if program.platform == "cpu" and (
            loaded.has_collectives or not loaded.lowered.host_callbacks):
        execute = few_at_a_time(execute, loaded.has_collectives)
    if loaded.lowered.host_callbacks and not program.jaxpr.effects:
        execute = awaited_at_exit(execute)
    return refuse_deleted(execute)


def _only_executes(loaded: Loaded) -> bool:
    """Whether executing is enough: the arguments that it reads need no move, nor do results."""
    program = loaded.program
    return not (program.in_layouts or program.out_layouts or program.jaxpr.effects
                or program.moved or program.shardings.moved_to or loaded.lowered.host_callbacks
                or nan_checks_enabled() or any(map(_is_not_array, program.jaxpr.out_avals)))


def _picking(execute: Any, constants: list[Any], kept: list[int], arity: int) -> Any:
    """`execute` for the buffers of all arguments: adds constants, drops unused arguments."""
    if len(kept) == arity:
        return execute if not constants else lambda buffers: execute([*constants, *buffers])
    return lambda buffers: execute([*constants, *[buffers[i] for i in kept]])


def _constant(program: Program, value: Any) -> Array:
    with guards.unguarded():  # part of the program
        return move(to_array(value), program.shardings.of_constant(value), program.place.committed)


def _guarded(compute: Callable[..., Any], check: Callable[[Sequence[Any]], Any]
             ) -> Callable[..., Any]:
    def guarded(*args: Any) -> Any:
        check([*map(buffer_of, args)])
        return compute(*args)

    return guarded


def _general_runner(loaded: Loaded, execute: Any, placements: Sequence[Placement],
                    constants: list[Any]) -> Callable[..., list[Array]]:
    """A function from arrays to the list of results, for programs that need more than executing."""
    program = loaded.program
    shardings, donation = program.shardings, program.donation
    handlers = [p.handler for p in placements]
    results_of = (
        _with_effects(execute, handlers, loaded.lowered.tokens, program.place.sharding,
                      program.jaxpr.effects) if program.jaxpr.effects else
        lambda given: execute(given).consume_with_handlers(handlers))
    moved = {i: shardings.inputs[i] for i in program.moved}
    kept, names, committed = program.kept, program.names, program.place.committed
    moved_to = shardings.moved_to
    # Parts of a NumPy array may share its memory, which must not be overwritten.
    whole = shardings.single or any(donation)
    bring = (lambda x, *to: brought(arrived(x), *to)) if whole else brought

    def buffers(*args: Any) -> Sequence[Any]:
        try:
            given = constants + [
                (bring(args[i], moved[i], committed) if i in moved else args[i])._buffer
                for i in kept]
            return results_of(given)
        except Exception as error:
            explain_failure(error, names, map(buffer_of, args))
            raise

    compute = (in_background(buffers, placements, constants) if _runs_aside(loaded) else
               lambda *args: list(map(Array, buffers(*args), placements)))
    if not moved_to and not any(_is_not_array(p.aval) for p in placements):
        return compute

    def result(n: int, array: Array) -> Any:
        aval: Any = array._placement.aval
        if aval is abstract_token:
            return Token(array)
        if _is_not_array(aval):
            return np.zeros(aval.shape, dtypes.float0)
        return move(array, moved_to[n], committed) if n in moved_to else array

    return lambda *args: [result(n, array) for n, array in enumerate(compute(*args))]


def _runs_aside(loaded: Loaded) -> bool:
    """Whether a program runs in the background: it calls Python, which may take long.

    A donating program does not, since it frees its arguments when called. Neither does one with a
    breakpoint, which has to stop its caller.
    """
    program = loaded.program
    return (program.platform == "cpu" and program.shardings.single
            and bool(loaded.lowered.host_callbacks) and not program.moved
            and not nan_checks_enabled() and not any(program.donation)
            and not holds_caller(program.jaxpr))


def _is_not_array(aval: Any) -> bool:
    """Whether values of a type are not `Array`s."""
    return not isinstance(aval, ShapedArray) or bool(aval.dtype == dtypes.float0)


def _with_effects(execute: Any, handlers: Sequence[Any], names: tuple[str, ...], sharding: Any,
                  effects: Effects) -> Callable[[list[Any]], Sequence[Any]]:
    """A function from the buffers that a program reads to those of its results. It passes the
    thread's tokens to the program and keeps the returned ones.

    Args:
      execute: that of the loaded program.
      handlers: those of its results.
      names: the names of its leading tokens, both arguments and results.
      sharding: where it runs.
      effects: its effects.
    """
    placement = token_placement(sharding)
    handlers = [*(placement.handler for _ in names), *handlers]
    unordered = any(token_name(e) is None for e in effects)
    n = len(names)

    def execute_with_effects(given: list[Any]) -> Sequence[Any]:
        mine = thread_tokens()
        taken = mine.take(names, placement)
        try:
            results = execute([*map(buffer_of, taken), *given], with_tokens=unordered)
            buffers: Sequence[Any] = results.consume_with_handlers(handlers)
        except Exception:
            mine.forget(names)
            raise
        if names:
            mine.set(names, [Array(b, placement) for b in buffers[:n]])
        if unordered:
            mine.add_output(results.consume_token())
        return buffers[n:]

    return execute_with_effects
