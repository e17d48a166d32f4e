"""Eager execution: single primitives, compiled once per types, params and placements.

And the program that brings an array into another sharding, and the last one of all.
"""

from __future__ import annotations

import atexit
import operator
import time
from typing import Any

from mjax._engine.base.config import override
from mjax._engine.base.programs import ProgramCache
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays import devices
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.shardings import Sharding
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.device_assignment import moved_to
from mjax._engine.runtime.dispatch.executable import Program
from mjax._engine.runtime.dispatch.forms import LEAF
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjaxlib_shim import client as shim

_placement_of = operator.attrgetter("_placement")


def execute(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Runs one application of a primitive; the evaluating interpreter's executor."""
    try:
        placements = tuple(map(_placement_of, args))
    except AttributeError:
        placements = None
    if placements is None:
        args = tuple([a if type(a) is Array else to_array(a) for a in args])
        placements = tuple(map(_placement_of, args))
    key: tuple[Any, ...] = (thread.settings, placements)
    if params:
        key = (*key, *(primitive.params_key(params) if primitive.exact_params else params.items()))
    known = primitive.executables if primitive.types_cacheable else primitive.programs_of(params)
    try:
        run = known.get(key)
    except TypeError:
        primitive._refuse_unhashable(params)
    if run is None:
        run = known.put(key, _compile(primitive, placements, params))
    return run(*args)


def _compile(primitive: Primitive, placements: tuple[Any, ...], params: dict[str, Any]) -> Any:
    if primitive.abstract_eval is None:
        primitive.missing("impl", operands=len(placements), params=params)

    def f(*args: Any) -> Any:
        out = primitive.bind(*args, **params)
        return out if primitive.multiple_results else [out]

    jaxpr = trace_to_jaxpr(f, [p.aval for p in placements])
    program = Program(jaxpr, primitive.name, placements)
    return program.runner() if primitive.multiple_results else program.tree_runner(LEAF)


sockets.execute = execute


def exchange(array: Array, sharding: Sharding) -> Array:
    """An array in another sharding over the same devices, by a program that exchanges parts."""
    key = (thread.settings, array._placement, sharding)
    run = _exchangers.get(key)
    if run is None:
        jaxpr = trace_to_jaxpr(lambda x: [copy_p.bind(x)], [array.aval])
        with override(mesh_for_all=False):  # its devices are those that were asked for
            run = _exchangers.put(key, Program(
                jaxpr, "device_put", [array._placement], out_shardings=[sharding]).runner())
    return run(array)[0]


_exchangers = ProgramCache()
sockets.exchange = exchange


@jit_p.def_impl
def _jit_impl(*args: Any, jaxpr: Jaxpr, name: str, donated_invars: tuple[bool, ...],
              keep_unused: bool, device: Any = None,
              compiler_options_kvs: tuple[tuple[str, Any], ...] = (), **params: Any) -> list[Any]:
    """Runs `jit` equations that are evaluated outside of `jit`'s own dispatch."""
    if thread.settings.disable_jit:
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)
    shared = not any(donated_invars)
    arrays = [a if type(a) is Array else to_array(a, shared) for a in args]
    placements = tuple([a._placement for a in arrays])
    key = ("runner", thread.settings, placements, donated_invars, keep_unused, device,
           exact(compiler_options_kvs))
    run = jaxpr.cached(key, lambda: Program(
        jaxpr, name, placements, donated_invars, keep_unused, device,
        moved_to(jaxpr, placements)).runner(dict(compiler_options_kvs)))
    return run(*arrays)


@atexit.register
def _wait_until_idle() -> None:
    """Waits for what this process computes alone, where jaxlib may crash at its end otherwise.

    A thread's computations on CPU run in their order: those whose results were dropped are done
    when one more is. It asks again and again, so that the user can interrupt it.
    """
    if devices.options:  # with several processes: what a missing one has to do never ends
        return
    for client in devices.made():
        buffers = shim.unfinished_at_exit(client)
        if buffers is not None:
            last = execute(copy_p, (to_array(0),), {})
            for buffer in [last._buffer, *buffers]:
                while not buffer.is_deleted() and not buffer.is_ready():
                    time.sleep(0.001)
