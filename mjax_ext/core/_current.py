"""The current trace and the named axes in scope: questions about them, and ways to set them."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.tracing.evaluate import Evaluation, evaluation
from mjax._engine.tracing.interpreter import Interpreter, axes_in_scope, interpreters, staging
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.transforms.batching import BatchInterpreter

EvalTrace = Evaluation



@contextmanager
def take_current_trace() -> Iterator[Any]:
    """Gives the current trace, and makes evaluation current in the body of a `with`.

    Example:
      >>> from mjax_ext import core
      >>> with core.take_current_trace() as trace:
      ...   print(isinstance(trace, core.Trace))
      True

    Source: JAX, `jax.extend.core.take_current_trace`.
    """
    taken = thread.interpreter
    thread.interpreter = evaluation
    try:
        yield taken
    finally:
        thread.interpreter = taken


@contextmanager
def set_current_trace(trace: Any, check_leaks: bool = False) -> Iterator[None]:
    """Makes a trace current in the body of a `with`.

    Args:
      trace: a `Trace`, such as the one that `take_current_trace` gave.
      check_leaks: whether the trace ends with the body. Under `mjax.checking_leaks` it is then
        refused that tracers of it are still alive.

    Returns:
      A context manager.

    Raises:
      TypeError: it is not a trace.
      UnexpectedTracerError: tracers have leaked.

    Example:
      >>> from mjax_ext import core
      >>> with core.take_current_trace() as trace, core.set_current_trace(trace):
      ...   print(core.find_top_trace(()) is trace)
      True

    Source: JAX, `jax.extend.core.set_current_trace`.
    """
    if not isinstance(trace, Interpreter):
        msg = (f"set_current_trace takes a core.Trace, got {trace!r} of type "
               f"{type(trace).__name__}.")
        raise TypeError(msg)
    previous = thread.interpreter
    thread.interpreter = trace
    try:
        yield
    finally:
        thread.interpreter = previous
    if check_leaks and thread.options.check_tracer_leaks:
        trace.invalidate()
        refuse_leaks(trace)


@contextmanager
def eval_context() -> Iterator[None]:
    """Makes evaluation current in the body of a `with`: operations run on arrays, at once.

    Example:
      >>> from mjax_ext import core
      >>> @mjax.jit
      ... def f(x):
      ...   with core.eval_context():
      ...     print(lax.add(1, 2))
      ...   return x
      >>> f(1.0)
      3
      Array(1., dtype=float32, weak_type=True)

    Source: JAX, `jax.core.eval_context`.
    """
    with set_current_trace(evaluation):
        yield


def find_top_trace(xs: Any) -> Any:
    """The current trace, whatever the values are.

    Args:
      xs: values.

    Returns:
      A trace.

    Example:
      >>> from mjax_ext import core
      >>> isinstance(core.find_top_trace((1.0,)), core.EvalTrace)
      True

    Source: JAX, `jax.extend.core.find_top_trace`.
    """
    return thread.interpreter


class OpaqueTraceState:
    """The trace that was current when it was made, to be compared and nothing else."""

    __slots__ = ("_trace",)
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    def __init__(self, trace: Any):
        self._trace = weakref.ref(trace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """The state of tracing: equal where the same trace is current, in one of its runs.

    Libraries that keep values in objects compare it to find out that a transformation began or
    ended in between.

    Args:
      convention: the name of the library that asks; it changes nothing.

    Returns:
      A state, which can be compared.

    Example:
      >>> from mjax_ext import core
      >>> before = core.get_opaque_trace_state(convention="mine")
      >>> before == core.get_opaque_trace_state()
      True
      >>> mjax.jit(lambda x: (print(before == core.get_opaque_trace_state()), x)[1])(1.0)
      False
      Array(1., dtype=float32, weak_type=True)

    Source: JAX, `jax.extend.core.get_opaque_trace_state`.
    """
    return OpaqueTraceState(thread.interpreter)


def trace_state_clean() -> bool:
    """Whether evaluation is current, without named axes in scope: no transformation is open.

    Example:
      >>> from mjax_ext import core
      >>> core.trace_state_clean()
      True

    Source: JAX, `jax._src.core.trace_state_clean`.
    """
    return thread.interpreter is evaluation and not thread.axis_env


def unsafe_am_i_under_a_jit() -> bool:
    """Whether a program is being staged around the call. Meaning may depend on it: avoid it.

    Example:
      >>> from mjax_ext import core
      >>> core.unsafe_am_i_under_a_jit_DO_NOT_USE()
      False

    Source: JAX, `jax.extend.core.unsafe_am_i_under_a_jit_DO_NOT_USE`.
    """
    return staging()


def unsafe_am_i_under_a_vmap() -> bool:
    """Whether a function is being batched around the call. Meaning may depend on it: avoid it.

    Example:
      >>> from mjax_ext import core
      >>> core.unsafe_am_i_under_a_vmap_DO_NOT_USE()
      False

    Source: JAX, `jax.extend.core.unsafe_am_i_under_a_vmap_DO_NOT_USE`.
    """
    return any(isinstance(interp, BatchInterpreter) for interp in interpreters())


# ---- named axes --------------------------------------------------------------------------


@contextmanager
def extend_axis_env_nd(name_size_pairs: Iterable[tuple[Any, int]]) -> Iterator[None]:
    """Brings named axes into scope in the body of a `with`, so that collectives may refer to them.

    A trace that maps over an axis does so around the function, and interprets the collectives
    (`lax.psum`, `lax.axis_index`) over it.

    Args:
      name_size_pairs: the name of each axis and its size.

    Returns:
      A context manager.

    Raises:
      TypeError: at the start of the `with`: the pairs cannot be iterated over, or one does not
        hold a name, which can be hashed, and a size.
      ValueError: a size is negative.

    Example:
      >>> from mjax_ext import core
      >>> with core.extend_axis_env_nd([("i", 4)]):
      ...   print(core.get_axis_env().axis_size("i"), lax.axis_size("i"))
      4 4

    Source: JAX, `jax._src.core.extend_axis_env_nd`.
    """
    try:
        pairs = [(name, size) for name, size in name_size_pairs]
    except ValueError:
        msg = "extend_axis_env_nd takes pairs of a name and a size."
        raise TypeError(msg) from None
    for name, size in pairs:
        hash(name)
        if is_symbolic_dim(size):
            continue
        try:
            number = operator.index(size)
        except TypeError:
            msg = (f"extend_axis_env_nd: the size of axis {name!r} must be an int, got "
                   f"{describe_value(size)}.")
            raise TypeError(msg) from None
        if number < 0:
            msg = f"extend_axis_env_nd: the size of axis {name!r} must not be negative, got {size}."
            raise ValueError(msg)
    with axes_in_scope(pairs):
        yield


class AxisEnv(Record):
    """The named axes in scope.

    Attributes:
      axis_sizes: name -> size.
    """

    axis_sizes: dict[Any, int]

    def axis_size(self, axis_name: Any) -> int:
        """The size of an axis.

        Raises:
          NameError: no such axis is in scope.
        """
        if axis_name not in self.axis_sizes:
            msg = (f"no axis {axis_name!r} is in scope; axes: "
                   f"{', '.join(map(repr, self.axis_sizes)) or 'none'}.")
            raise NameError(msg)
        return self.axis_sizes[axis_name]

    def axis_exists(self, axis_name: Any) -> bool:
        """Whether an axis is in scope."""
        return axis_name in self.axis_sizes

    def axis_names(self) -> tuple[Any, ...]:
        """The names, the outermost first."""
        return tuple(self.axis_sizes)


def get_axis_env() -> AxisEnv:
    """The named axes in scope.

    Example:
      >>> from mjax_ext import core
      >>> mjax.vmap(lambda x: (print(core.get_axis_env().axis_names()), x)[1], axis_name="i")(
      ...   jnp.ones(2))
      ('i',)
      Array([1., 1.], dtype=float32)

    Source: JAX, `jax._src.core.get_axis_env`.
    """
    return AxisEnv({axis.name: axis.size for axis in thread.axis_env})


def unsafe_get_axis_names() -> list[Any]:
    """The names of the axes in scope. Meaning may depend on them: avoid it.

    Example:
      >>> from mjax_ext import core
      >>> core.unsafe_get_axis_names_DO_NOT_USE()
      []

    Source: JAX, `jax.extend.core.unsafe_get_axis_names_DO_NOT_USE`.
    """
    return list(get_axis_env().axis_sizes)


def nonempty_axis_env() -> bool:
    """Whether a named axis is in scope. Meaning may depend on it: avoid it.

    Example:
      >>> from mjax_ext import core
      >>> core.nonempty_axis_env_DO_NOT_USE()
      False

    Source: JAX, `jax.extend.core.nonempty_axis_env_DO_NOT_USE`.
    """
    return bool(thread.axis_env)


class TracingContext:
    """The state of tracing of a thread, as one object: `core.trace_ctx`.

    Example:
      >>> from mjax_ext import core
      >>> core.trace_ctx.is_top_level(), core.trace_ctx.axis_env.axis_names()
      (True, ())

    Source: JAX, `jax.core.trace_ctx` of release 0.10.2.
    """

    __slots__ = ()

    @property
    def trace(self) -> Any:
        """The current trace."""
        return thread.interpreter

    @property
    def axis_env(self) -> AxisEnv:
        """The named axes in scope."""
        return get_axis_env()

    def is_top_level(self) -> bool:
        """Whether no transformation is open; see `trace_state_clean`."""
        return trace_state_clean()

    def set_trace(self, trace: Any) -> None:
        """Makes a trace current; `set_current_trace` does so for the body of a `with`."""
        thread.interpreter = trace


trace_ctx: TracingContext = TracingContext()
