"""Sockets: the places where a lower layer calls a higher one, and all that there are.

Imports lead from higher layers to lower ones only. Where a lower one needs a function of a higher
one, the higher one fills a socket when it is imported: an attribute of `sockets`, or a table or
class below it. `SOCKETS` says who fills each and why; a test compares it with the code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn


def _unfilled(name: str, *args: Any) -> NoReturn:
    raise RuntimeError(f"nothing has filled the socket {name!r} yet: import mjax.")


class Sockets:
    """Functions of higher layers, for lower ones; `SOCKETS` describes them."""

    __slots__ = ("array_of_type", "exchange", "execute", "sharding_shown", "wait_for_readers",
                 "watch")
    array_of_type: Callable[[Any, Any], Any]
    exchange: Callable[[Any, Any], Any]
    execute: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    sharding_shown: Callable[[int], Any]
    wait_for_readers: Callable[[Any], None]
    #: A `Watch`, or None if this process is alone.
    watch: Any

    def __init__(self) -> None:
        for name in self.__slots__:  # a __getattr__ would slow down all reads
            setattr(self, name, functools.partial(_unfilled, name))
        self.watch = None


sockets = Sockets()

_ARRAYS, _DISPATCH = "_engine.runtime.arrays", "_engine.runtime.dispatch"

#: Socket -> the modules of mjax that fill it, and why the lower module cannot import them.
SOCKETS: dict[str, tuple[tuple[str, ...], str]] = {
    "sockets.execute": (
        (f"{_DISPATCH}.eager",),
        "evaluation runs a primitive without an impl: (primitive, operands, params) -> results"),
    "sockets.array_of_type": (
        (f"{_ARRAYS}.transfer",),
        "tracing and primitives make constants that are on devices: (value, type) -> array"),
    "sockets.exchange": (
        (f"{_DISPATCH}.eager",),
        "resharding compiles a program where devices exchange parts: (array, sharding) -> array"),
    "sockets.wait_for_readers": (
        ("_engine.runtime.effects.background",),
        "deleting an array waits for programs in the background that read it: (buffers) -> None"),
    "sockets.watch": (
        ("_engine.runtime.processes.distributed",),
        "waiting for a value ends when another process is gone: a `Watch`, while there are others"),
    "sockets.sharding_shown": (
        (f"{_ARRAYS}.shardings",),
        "types show a sharding to code that reads JAX's: (number of dimensions) -> NamedSharding"),
    "config.checks": (
        (f"{_ARRAYS}.devices", "_engine.primitives.keys"),
        "flags that hold devices or key types refuse other values: flag -> function of the value"),
    "ThreadState": (
        ("_engine.base.config", "_engine.tracing.evaluate"),
        "each thread starts with the interpreter, settings and options that are its defaults"),
    "Array": (
        ("_numpy.methods",), "operators and methods of arrays are functions of the NumPy layer"),
    "Tracer": (("_numpy.methods",), "tracers have the operators and methods of arrays"),
    "types.typeof_handlers": (
        ("_engine.tracing.symbolic", "_engine.control.custom.symbolic_zeros", f"{_ARRAYS}.array",
         f"{_ARRAYS}.memory_order", f"{_ARRAYS}.token_values", "_engine.runtime.effects.pending",
         "_engine.tracing.interpreter"),
        "`typeof` finds the types of values of all layers: class -> function of the value"),
    "register_tracer": (
        ("_engine.tracing.stage", "_engine.transforms.batching", "_engine.transforms.jvp",
         "mjax_ext.core._interpreter"),
        "it is `typeof_handlers` for tracers"),
    "register_prng": (
        ("_engine.primitives.counter_generators", "_engine.primitives.rng",
         "_engine.primitives.threefry"),
        "keys name their generator, and call its functions; users register theirs"),
    "register_pytree_node": (
        ("_engine.control.calls.static", "_library.optimizers"),
        "trees hold containers of any module, and of users: class -> functions"),
    "register_pytree_node_class": (("_scipy.stats.kde",), "the same"),
    "register_pytree_with_keys": (("_engine.ir.pytree", "_scipy.interpolate"), "the same"),
    "rules of copy_p": (
        (f"{_ARRAYS}.transfer",), "its impl has to know what shares memory with the operand"),
    "rules of debug_callback_p": (
        ("_engine.runtime.effects.callbacks",), "its impl calls Python between programs"),
    "rules of gather_p": (
        ("_engine.primitives.scatter",), "its transpose is a scatter, whose transpose it is"),
    "rules of inspect_sharding_p": (
        ("_tools.visualize",), "its impl shows shardings, as a tool does"),
    "rules of io_callback_p": (
        ("_engine.runtime.effects.callbacks",), "as of debug_callback_p"),
    "rules of jit_p": (
        (f"{_DISPATCH}.eager",), "its impl compiles the program"),
    "rules of pure_callback_p": (
        ("_engine.runtime.effects.callbacks",), "as of debug_callback_p"),
    "rules of pvary_p": (
        ("_engine.spmd.reductions",), "its transpose is a sum over devices"),
}
