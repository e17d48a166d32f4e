"""Sockets: all places where a lower layer calls a higher one.

Higher layers import lower ones, never the reverse. A lower layer that needs a function of a higher
one has a socket: an attribute of `sockets`, a table or a class. The higher layer fills it on
import. `SOCKETS` says which module fills each and why; a test compares it with the code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn


def _unfilled(name: str, *args: Any) -> NoReturn:
    raise RuntimeError(f"nothing has filled the socket {name!r} yet: import mjax.")


class Sockets:
    """Functions of higher layers, for lower ones; `SOCKETS` describes them."""

    __slots__ = ("array_of_type", "dimension_value", "exchange", "execute", "over_batch",
                 "sharding_shown", "wait_for_readers", "watch")
    array_of_type: Callable[[Any, Any], Any]
    dimension_value: Callable[[Any], Any]
    exchange: Callable[[Any, Any], Any]
    execute: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    over_batch: Callable[[Callable[..., Any], tuple[int | None, ...]], Callable[..., Any]]
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
    "sockets.dimension_value": (
        ("_export.symbolic",),
        "symbolic dimensions compute with arrays and floats: (dimension) -> tracer"),
    "sockets.exchange": (
        (f"{_DISPATCH}.eager",),
        "resharding compiles a program where devices exchange parts: (array, sharding) -> array"),
    "sockets.wait_for_readers": (
        ("_engine.runtime.effects.background",),
        "deleting an array waits for programs in the background that read it: (buffers) -> None"),
    "sockets.over_batch": (
        ("_engine.transforms.vmap",),
        "generators of users are functions of one key: (function, axes) -> function of a batch"),
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
    "Tracer": (
        ("_engine.tracing.aval_attributes", "_numpy.methods", "_numpy.references"),
        "tracers have the operators and methods of arrays, and of references; and the attributes "
        "that types define, once there are some"),
    "Ref": (("_numpy.methods",), "references lack the methods of arrays, by name"),
    "AbstractRef": (
        ("_engine.control.references.primitives",),
        "the zero of a type of references is a reference to zeros, which a primitive makes"),
    "Zero": (
        ("_engine.primitives.tangents",),
        "the array of a zero tangent is made by primitives"),
    **dict.fromkeys(("AbstractValue", "ShapedArray"), (
        ("_engine.primitives.tangents",), "types add and make zeros by primitives")),
    "types.typeof_handlers": (
        ("_engine.tracing.symbolic", "_engine.control.custom.symbolic_zeros", f"{_ARRAYS}.array",
         f"{_ARRAYS}.memory_order", f"{_ARRAYS}.token_values", "_engine.runtime.effects.pending",
         "_engine.tracing.interpreter"),
        "`typeof` finds the types of values of all layers: class -> function of the value"),
    "register_tracer": (
        ("_engine.tracing.stage", "_engine.transforms.batching", "_engine.transforms.jvp",
         "_engine.tracing.user_types", "_engine.tracing.reference", "_jet.series",
         "mjax_ext.core._interpreter"),
        "it is `typeof_handlers` for tracers"),
    "emit.ir_type_handlers": (
        ("mjax_ext.interpreters.mlir._types",),
        "users represent values of their types in MLIR: class of types -> function of the type"),
    "emit.constant_handlers": (
        ("mjax_ext.interpreters.mlir._constants",),
        "users write constants of their classes: class -> function of the value and its type"),
    **dict.fromkeys(("elements.vmappables", "elements.iotas"), (
        ("mjax_ext.interpreters.batching._elements",),
        "vmap takes values of users' classes, with specs and sizes of their axes")),
    "elements.spec_types": (
        ("_hijax.types", "mjax_ext.interpreters.batching._elements"), "the same"),
    "register_value_class": (
        ("_hijax.types",), "values of users' types are objects: class -> function of the object"),
    "masking.mask_rules": (
        ("_checkify.check",), "a branch that an element does not take has no effects for it"),
    "series.jet_rules": (
        ("_jet.references", "_jet.rules"),
        "Taylor mode looks for rules of primitives, which users add to"),
    "series.always_rules": (
        ("_jet.references",), "Taylor mode looks for rules that apply even without terms"),
    "register_factory": (
        ("mjax_ext.backend",), "users add platforms: name -> a function that makes the client"),
    "program_caches.registered": (
        ("mjax_ext.backend",), "users' caches are cleared together with those of the engine"),
    "register_prng": (
        ("_engine.primitives.counter_generators", "_engine.primitives.rng",
         "_engine.primitives.threefry"),
        "keys name their generator, and call its functions; users register theirs"),
    "register_pytree_node": (
        ("_checkify.check", "_engine.control.calls.static_arguments", "_engine.tracing.symbolic",
         "_library.optimizers"),
        "trees hold containers of any module, and of users: class -> functions"),
    "register_exclusion": (
        ("alias._private",), "libraries leave their files out of tracebacks, by a name of JAX's"),
    "register_dataclass": (("_library.stateful_random",), "the same"),
    "register_pytree_node_class": (("_scipy.stats.kde", "alias._sparse"), "the same"),
    "register_pytree_with_keys": (("_engine.ir.pytree", "_scipy.interpolate"), "the same"),
    "rules of copy_p": (
        (f"{_ARRAYS}.transfer",), "its impl has to know what shares memory with the operand"),
    "rules of debug_callback_p": (
        ("_engine.runtime.effects.callbacks",), "its impl calls Python between programs"),
    "rules of gather_p": (
        ("_checkify.rules", "_engine.primitives.scatter"),
        "its transpose is a scatter, whose transpose it is; checkify gives its checks"),
    "rules of div_p": (("_checkify.rules",), "checkify gives its checks"),
    "rules of dynamic_slice_p": (("_checkify.rules",), "checkify gives its checks"),
    "rules of dynamic_update_slice_p": (("_checkify.rules",), "checkify gives its checks"),
    "rules of inspect_sharding_p": (
        ("_tools.visualize",), "its impl shows shardings, as a tool does"),
    **dict.fromkeys(("spans.guards", "spans.recorders"), (
        ("_tools.trace_report",), "reports of traces and compilations are tools")),
    "rules of io_callback_p": (
        ("_engine.runtime.effects.callbacks",), "as of debug_callback_p"),
    "rules of jit_p": (
        (f"{_DISPATCH}.eager",), "its impl compiles the program"),
    "rules of pure_callback_p": (
        ("_engine.runtime.effects.callbacks",), "as of debug_callback_p"),
    "rules of pvary_p": (
        ("_engine.spmd.reductions",), "its transpose is a sum over devices"),
}
