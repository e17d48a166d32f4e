"""Eager execution: single primitives, compiled once per types, params and placements.

Also: resharding by program, and the wait at exit.
"""

from __future__ import annotations

import atexit
import time
from typing import Any

from mjax._engine.base.config import override
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_structure
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.runtime.arrays import devices
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.shardings import Sharding
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.device_assignment import moved_to
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.runtime.dispatch.forms import LEAF
from mjax._engine.runtime.dispatch.runners import Runners, buffer_of, runners_of
from mjax._engine.runtime.dispatch.short import placement_of, program_for
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.reference import Ref
from mjax._engine.tracing.rule_errors import refuse_unhashable
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.user_types import Packed
from mjaxlib_shim import client as shim

#: Types of operands that need no conversion.
_TAKEN = frozenset({Array, Packed, Ref})


def execute(primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
    """Runs one application of a primitive; the evaluating interpreter's executor."""
    try:
        placements = tuple(map(placement_of, args))
    except AttributeError:
        placements = None
    if placements is None:
        args = tuple([a if type(a) in _TAKEN else to_array(a) for a in args])
        placements = tuple(map(placement_of, args))
    known = primitive.executables if primitive.types_cacheable else primitive.programs_of(params)
    key: tuple[Any, ...] = (thread.settings, placements)
    if params:
        key = (*key, *(primitive.params_key(params) if primitive.exact_params else params.items()))
    try:
        found = known.get(key)  # as `program_for` does, without a call
    except TypeError:
        refuse_unhashable(primitive, params)
        raise
    run, of_buffers = found or program_for(known, key[2:], placements, compile_primitive,
                                           primitive, params)
    return run(*args) if of_buffers is None else of_buffers([*map(buffer_of, args)])


def compile_primitive(placements: tuple[Any, ...], primitive: Primitive, params: dict[str, Any],
                      out_tree: Any = None) -> Runners:
    """One application of a primitive, compiled.

    Args:
      placements: of the operands.
      primitive, params: the primitive and its params.
      out_tree: the tree of the results; None: as the primitive returns them.
    """
    if primitive.abstract_eval is None:
        primitive.missing("impl", operands=len(placements), params=params)

    def f(*args: Any) -> Any:
        out = primitive.bind(*args, **params)
        return out if primitive.multiple_results else [out]

    jaxpr = trace_to_jaxpr(f, [p.aval for p in placements])
    return runners_of(Asked(jaxpr, primitive.name, placements), out_tree or (
        _listed(jaxpr) if primitive.multiple_results else LEAF))


def _listed(jaxpr: Jaxpr) -> Any:
    """The structure of the list of results."""
    return tree_structure([0] * len(jaxpr.outvars))


sockets.execute = execute


def exchange(array: Array, sharding: Sharding) -> Array:
    """An array in another sharding over the same devices, by a program that exchanges parts."""
    exchanged: Array = program_for(_exchangers, (sharding,), (array._placement,), _compile_exchange,
                                   sharding).arrays(array)
    return exchanged


def _compile_exchange(placements: tuple[Any, ...], sharding: Sharding) -> Runners:
    jaxpr = trace_to_jaxpr(lambda x: [copy_p.bind(x)], [placements[0].aval])
    with override(mesh_for_all=False):  # it runs on the requested devices
        return runners_of(Asked(jaxpr, "device_put", placements, out_shardings=[sharding]), LEAF)


_exchangers = ProgramCache()
sockets.exchange = exchange


@jit_p.def_impl
def _jit_impl(*args: Any, jaxpr: Jaxpr, name: str, donated_invars: tuple[bool, ...],
              keep_unused: bool, device: Any = None,
              compiler_options_kvs: tuple[tuple[str, Any], ...] = (), **params: Any) -> list[Any]:
    """Runs evaluated `jit` equations, outside of `jit`'s own dispatch."""
    if thread.settings.disable_jit:
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)
    shared = not any(donated_invars)
    arrays = [a if type(a) in _TAKEN else to_array(a, shared) for a in args]
    compile = lambda placements: runners_of(
        Asked(jaxpr, name, placements, donated_invars, keep_unused, device,
              moved_to(jaxpr, placements)), _listed(jaxpr), dict(compiler_options_kvs))
    what = ("jit", donated_invars, keep_unused, device, exact(compiler_options_kvs))
    outs: list[Any] = program_for(jit_p.programs_of({"jaxpr": jaxpr}), what,
                                  tuple(map(placement_of, arrays)), compile).arrays(*arrays)
    return outs


@atexit.register
def _wait_until_idle() -> None:
    """Waits for computations of this process alone: jaxlib could crash at exit otherwise.

    A thread's computations on CPU run in order. When one more is done, so are those with dropped
    results. It polls, so that the user can interrupt it.
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
