"""Interpreters and tracers: the parts of every transformation.

One interpreter per thread is current; `Primitive.bind` hands it the call. A transformation
installs an interpreter of its own that remembers the one before it as `parent`, and runs
its rules with the parent current. A tracer carries a value through Python code on behalf of
one interpreter. Every other value is a constant to that interpreter, so derivatives of
different levels cannot be confused.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

import numpy as np

from mjax._engine.base.errors import (
    ConcretizationTypeError,
    LazyAttributeError,
    LazyNoArrayError,
    LazyText,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import Class
from mjax._engine.base.thread import NamedAxis, thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import typeof_handlers
from mjax._engine.tracing.flat import describe_function


class Interpreter:
    """Base of interpreters. Subclasses interpret primitives in `process`."""

    __slots__ = ("__weakref__", "alive", "function", "parent")
    parent: Interpreter | None
    #: The name of the transformation in messages.
    name = "interpreter"
    #: Its mark in the names of scopes inside of it, if there is one.
    mark = ""
    #: Whether it stages every operation, so that values are known by type only.
    stages_all = False

    def __init__(self, parent: Interpreter | None):
        self.parent = parent
        #: The name of the function under evaluation, for messages; None if it is not known.
        self.function: Any = None
        #: False after its trace has ended, when its tracers are refused; a `Refusal` while they
        #: are refused for another reason.
        self.alive: bool | Refusal = True

    def detach(self, value: Any) -> Any:
        """A value as outer code may keep it: without the facts it carries in this trace."""
        return value

    def describe_origin(self, tracer: Any) -> str:
        """Says where a tracer came from; may be empty."""
        f = getattr(self.function, "f", None)  # of a `FlatFunction`
        return "" if f is None else f" It was made while evaluating {describe_function(f)}."

    def process(self, primitive: Any, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Interprets one application of a primitive.

        Returns what `bind` returns: one value, or a list where the primitive has multiple
        results. Runs with `self` current; must leave it current.
        """
        raise NotImplementedError

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        """Interprets a call of a function with derivative rules of its own.

        The default binds an equation that holds the function and its rules. Runs with `self`
        current.

        Args:
          call: the call (`control.custom.custom_calls`).
          values: its operands.
        """
        outs: list[Any] = call.apply(values)
        return outs

    def process_call(self, primitive: Any, f: Any, tracers: Sequence[Any], params: dict[str, Any]
                     ) -> list[Any]:
        """Interprets a call of a function; by default an equation holds its staged program.

        Args:
          primitive: a `CallPrimitive`.
          f: the function, of flat values.
          tracers: its operands.
          params: the primitive's params.
        """
        outs: list[Any] = call_with(self, primitive.staged, f, tracers, params)
        return outs

    # JAX's spellings, for those who hold an interpreter as a trace (`mjax_ext.core.Trace`).

    @property
    def parent_trace(self) -> Any:
        """The interpreter below this one, which runs its rules."""
        return self.parent

    @property
    def main(self) -> Any:
        """Tells the traces of two applications of a transformation apart: this one itself."""
        return self

    def process_primitive(self, primitive: Any, tracers: Sequence[Any], params: dict[str, Any]
                          ) -> Any:
        """Applies a primitive by this interpreter, whichever one is current."""
        return call_with(self, self.process, primitive, tuple(tracers), params)

    def is_valid(self) -> bool:
        """Whether its tracers may be used."""
        return bool(self.alive)

    def invalidate(self) -> None:
        """Ends the trace: its tracers are refused from now on."""
        self.alive = False


def interpreters() -> Iterator[Interpreter]:
    """The current interpreter and those below it."""
    interp: Interpreter | None = thread.interpreter
    while interp is not None:
        yield interp
        interp = interp.parent


def staging() -> bool:
    """Whether a program is being staged, which is compiled as a whole."""
    interp: Interpreter | None = thread.interpreter
    while interp is not None:
        if interp.stages_all:
            return True
        interp = interp.parent
    return False


class running:
    """Makes an interpreter current for the body of a `with` statement, then ends it.

    Its tracers are refused afterwards. Each trace runs this, and a class costs a third of a
    generator.
    """

    __slots__ = ("interpreter", "previous")

    def __init__(self, interpreter: Interpreter):
        self.interpreter = interpreter

    def __enter__(self) -> None:
        self.previous, thread.interpreter = thread.interpreter, self.interpreter

    def __exit__(self, *error: object) -> None:
        thread.interpreter = self.previous
        self.interpreter.alive = False


class Refusal:
    """The reason for refusing an interpreter's tracers for a while. It is falsy as `alive`.

    Args:
      text: gives the message for a tracer that was used.
    """

    __slots__ = ("text",)
    text: Callable[[Tracer], str]

    def __init__(self, text: Callable[[Tracer], str]):
        self.text = text

    def __bool__(self) -> bool:
        return False


@contextmanager
def refusing(interpreter: Interpreter, text: Callable[[Tracer], str]) -> Iterator[None]:
    """Refuses an interpreter's tracers in the body of a `with`."""
    before, interpreter.alive = interpreter.alive, Refusal(text)
    try:
        yield
    finally:
        interpreter.alive = before


@contextmanager
def axes_in_scope(axes: Iterable[Iterable[Any]]) -> Iterator[None]:
    """Lets collectives refer to named axes, `(name, size[, manual])`, in the body of a `with`."""
    outer = thread.axis_env
    thread.axis_env = (*outer, *[NamedAxis(*axis) for axis in axes])
    try:
        yield
    finally:
        thread.axis_env = outer


#: Conversion of a value to Python -> advice for traced functions.
_REMEDIES = {
    "item": "Work with the traced value itself, which is a scalar if its shape is ()",
    "tolist": "Work with the traced value itself",
    "format": "Print values at run time with mjax.debug.print",
}


class Tracer:
    """A value of an interpreter. It behaves like an array of type `aval`.

    The NumPy front end adds operators and array methods.

    Args:
      trace: the interpreter, a `core.Trace` if the subclass is an author's.
      aval: the type.

    Example:
      >>> from mjax_ext import core
      >>> def show(x):
      ...     print(isinstance(x, core.Tracer), x.aval, x.shape)
      ...     return x
      >>> _ = mjax.make_jaxpr(show)(np.ones(2, "float32"))
      True float32[2] (2,)

    Source: JAX, `jax.core.Tracer`.
    """

    __slots__ = ("__weakref__", "aval", "interp")
    interp: Interpreter
    aval: Any
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, trace: Any, aval: Any):
        self.interp = trace
        self.aval = aval

    # -- facts about the type --

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether promotion may pick the other operand's dtype."""
        return self.aval.weak_type

    @boundary
    def __len__(self) -> int:
        return self.aval.length()

    # -- conversions to Python values --

    def concrete(self) -> Any:
        """The array behind this tracer if there is one (eager jvp), else None."""
        return None

    def below(self) -> Any:
        """The value of the parent interpreter behind this tracer; None if there is none."""
        return None

    def full_lower(self) -> Any:
        """The value by itself if the tracer adds nothing to it; else the tracer."""
        return self

    def provenance(self) -> str:
        """Names the arguments that the value depends on; part of error texts."""
        return ""

    def origin(self) -> str:
        """The origin of the value, as part of messages; that of a reference names its line."""
        below = self.below() if is_reference(self.aval) else None
        return self.interp.describe_origin(self) + (
            below.origin() if isinstance(below, Tracer) else "")

    def _concretize(self, error: type[ConcretizationTypeError], what: str, remedy: str) -> Any:
        if not self.interp.alive:
            refuse_dead(self)
        if is_reference(self.aval):
            refuse_reference(self)
        value = self.concrete()
        if value is None:
            raise error(lambda: (
                f"{what} needs a concrete value, but this one is only known by its type "
                f"{self.aval} while {self.interp.name} traces the function."
                f"{self.provenance()}\n{remedy}"))
        return value

    @boundary
    def __bool__(self) -> bool:
        return bool(self._concretize(
            TracerBoolConversionError, "The truth of a value (if, while, and, or, not, assert)",
            "Use mjax.numpy.where or mjax.lax.cond to choose between values, mjax.lax.while_loop "
            "to loop, or mark the argument static (static_argnums, static_argnames)."))

    @boundary
    def __int__(self) -> int:
        return int(self._as_number("int"))

    @boundary
    def __float__(self) -> float:
        return float(self._as_number("float"))

    @boundary
    def __complex__(self) -> complex:
        return complex(self._as_number("complex"))

    def _as_number(self, kind: str) -> Any:
        if self.aval.shape:
            msg = (f"{kind}(): only scalar arrays become a Python {kind}, and this value is of "
                   f"type {self.aval}. Use .astype({kind}) to convert the dtype.")
            raise TypeError(msg)
        value = self._as_scalar(kind)
        if dtypes.is_complex(self.aval.dtype) and kind != "complex":
            msg = (f"{kind}(): a complex number does not become a Python {kind}, and this value "
                   f"is of type {self.aval}; take x.real first.")
            raise TypeError(msg)
        return value

    def _as_scalar(self, kind: str) -> Any:
        remedy = _REMEDIES.get(kind, f"Use .astype({kind}) to convert the dtype of a traced value")
        return self._concretize(
            ConcretizationTypeError, f"{kind}()",
            f"{remedy}, or mark the argument static if the Python value itself is needed.")

    @boundary
    def __index__(self) -> int:
        return operator.index(self._concretize(
            TracerIntegerConversionError, "Using a value as a Python integer (range, index, size)",
            "Shapes, sizes and bounds of Python loops must be known when the function is traced: "
            "mark the argument static, index with mjax.lax.dynamic_slice or array indexing, or "
            "loop with mjax.lax.fori_loop."))

    @boundary
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self._as_array(self._concretize(
            TracerArrayConversionError, "A NumPy function (or numpy.asarray)",
            "Use the function of the same name in mjax.numpy, or move the NumPy call out of the "
            "transformed function.")).__array__(*args, **kwargs)

    def _as_array(self, concrete: Any) -> Any:
        """The concrete value, with array methods even if it is a Python scalar."""
        return concrete if hasattr(concrete, "__array__") else np.asarray(concrete, self.dtype)

    @boundary
    def tolist(self) -> Any:
        """Nested lists of Python scalars; refused for values known by type only."""
        return self._as_array(self._as_scalar("tolist")).tolist()

    @boundary
    def item(self, *args: int) -> Any:
        """One element as a Python scalar; refused for values known by type only."""
        return self._as_array(self._as_scalar("item")).item(*args)

    def __repr__(self) -> str:
        return f"Traced<{self.aval}>with<{type(self.interp).__name__}>"

    @boundary
    def __format__(self, spec: str) -> str:
        if spec:
            return format(self._as_scalar("format"), spec)
        return repr(self)

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __reduce__(self) -> Any:
        self._refuse("pickle or serialize it")

    # -- JAX's spellings, for those who write or read tracers --

    @property
    def _trace(self) -> Any:
        return self.interp

    @_trace.setter
    def _trace(self, trace: Any) -> None:
        self.interp = trace

    def to_concrete_value(self) -> Any:
        """The array behind this tracer if there is one, else None."""
        return self.concrete()

    # -- attributes of arrays alone --

    def _refuse(self, what: str, error: type[LazyText] = ConcretizationTypeError) -> NoReturn:
        if not self.interp.alive:
            refuse_dead(self)
        raise error(lambda: (
            f"A value of type {self.aval} has no memory on devices while {self.interp.name} traces "
            f"the function, so that one cannot {what}.{self.provenance()}\n"
            "Do so outside of the traced function, with its arguments or results. Types, with "
            "shardings where they are part of them, are in mjax.typeof(x)."))

    @property
    def flat(self) -> Any:
        """Refused, as arrays refuse it."""
        msg = "arrays have no attribute flat; use x.ravel(), or x.at[...] to set elements."
        raise NotImplementedError(msg)

    @property
    def addressable_shards(self) -> Any:
        """Only arrays have parts on devices."""
        self._refuse("ask for addressable_shards")

    @property
    def global_shards(self) -> Any:
        """Only arrays have parts on devices."""
        self._refuse("ask for global_shards")

    @property
    def is_fully_addressable(self) -> bool:
        """Only arrays are on devices."""
        self._refuse("ask for is_fully_addressable")

    @property
    def is_fully_replicated(self) -> bool:
        """Only arrays are on devices."""
        self._refuse("ask for is_fully_replicated")

    @property
    def committed(self) -> bool:
        """Only arrays are on devices."""
        self._refuse("ask for committed")

    @property
    def sharding(self) -> Any:
        """Only arrays are on devices: `typeof` has the sharding of the type."""
        self._refuse("ask for sharding", LazyAttributeError)

    @property
    def block_until_ready(self) -> Any:
        """Only arrays are computed: `mjax.block_until_ready` takes any tree."""
        self._refuse("call block_until_ready()", LazyAttributeError)

    @property
    def copy_to_host_async(self) -> Any:
        """Only arrays are computed: `mjax.copy_to_host_async` takes any tree."""
        self._refuse("call copy_to_host_async()", LazyAttributeError)

    def addressable_data(self, index: int) -> Any:
        """Only arrays have parts on devices."""
        self._refuse("call addressable_data()")

    def devices(self) -> set[Any]:
        """Only arrays are on devices."""
        self._refuse("call devices()")

    def delete(self) -> None:
        """Only arrays can be deleted."""
        self._refuse("call delete()")

    def is_deleted(self) -> bool:
        """Only arrays can be deleted."""
        self._refuse("call is_deleted()")

    def on_device_size_in_bytes(self) -> int:
        """Only arrays have bytes."""
        self._refuse("call on_device_size_in_bytes()")

    def tobytes(self, order: str = "C") -> bytes:
        """Only arrays have bytes."""
        self._refuse("call tobytes()")

    def unsafe_buffer_pointer(self) -> int:
        """Only arrays have an address."""
        self._refuse("call unsafe_buffer_pointer()")


def refuse_dead(tracer: Tracer) -> NoReturn:
    """Raises the error for an escaped tracer, or for a reference in place of an array."""
    if is_reference(tracer.aval) and tracer.interp in interpreters():
        refuse_reference(tracer)
    refusal, name = tracer.interp.alive, tracer.interp.name
    when = (f"outside of the {name} trace that made it, or in another thread" if refusal else
            f"after the {name} trace that made it had ended")

    def text() -> str:
        if isinstance(refusal, Refusal):
            return refusal.text(tracer)
        return (
            f"A value of type {tracer.aval} was used {when}.{tracer.origin()}\n"
            "It escaped through a side effect: a global, an attribute, a closure or a cache was "
            "set inside the transformed function. Return the value from the function instead. "
            "mjax.checking_leaks() raises where the leak happens.")

    raise UnexpectedTracerError(text)


def refuse_reference(tracer: Tracer) -> NoReturn:
    """Raises the error for a reference in place of an array."""
    raise LazyNoArrayError(lambda: (
        f"a reference of type {tracer.aval} was given where an array is needed: read it with "
        f"ref[...].{tracer.origin()}"))


def check_alive(value: Any) -> None:
    """Refuses a tracer whose trace has ended; other values pass."""
    if isinstance(value, Tracer) and not value.interp.alive:
        refuse_dead(value)


def register_tracer(cls: Class) -> Class:
    """Class decorator: makes `typeof` find the tracer's aval without a search."""
    typeof_handlers[cls] = operator.attrgetter("aval")
    return cls


def call_with(interpreter: Any, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls `f` with an interpreter current, without ending it."""
    previous = thread.interpreter
    thread.interpreter = interpreter
    try:
        return f(*args, **kwargs)
    finally:
        thread.interpreter = previous
