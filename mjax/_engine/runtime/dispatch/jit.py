"""The public `jit`: from Python arguments to a compiled program, by as few lookups as possible.

Three levels are dictionary lookups: short calls, from buffers to results (see `short`); all calls
under evaluation (keyed by settings, structure and placements); and traces (keyed by structure and
types), which every interpreter uses.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.jitted import PjitFunction
from mjax._engine.base.signatures import D, P, R
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN, exact
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.control.calls.static_arguments import Parameters
from mjax._engine.ir.foreign_values import is_foreign_array
from mjax._engine.ir.pytree import keystr, registry, tree_flatten_with_path
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.devices import devices
from mjax._engine.runtime.arrays.shape_dtype_struct import aval_of
from mjax._engine.runtime.arrays.transfer import HostArgument, arrived, sharding_of, to_array
from mjax._engine.runtime.dispatch.arguments import (
    JitCall,
    JitOptions,
    compiler_options_of,
    donated_leaves,
    normalize,
    take_apart,
)
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.runtime.dispatch.explain import explain_compilation
from mjax._engine.runtime.dispatch.jit_cache import TracedProgram, caches_of, trace_call
from mjax._engine.runtime.dispatch.runners import Runners, runners_of
from mjax._engine.runtime.dispatch.sharding_arguments import (
    asked,
    constrained,
    in_shardings_of,
    out_shardings_of,
)
from mjax._engine.runtime.dispatch.short import ShortCalls, placement_of, program_for
from mjax._engine.runtime.dispatch.spans import CALL, record, recorders
from mjax._engine.runtime.dispatch.stages import Lowered, Traced, out_info
from mjax._engine.runtime.dispatch.wrapped import JitFunction
from mjax._engine.runtime.effects.pending import PendingArray
from mjax._engine.tracing.evaluate import CompileTimeEvaluation, evaluation
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    function_name,
    parameter_name,
    refuse_leaf,
    wraps,
)
from mjax._engine.tracing.interpreter import Tracer, refuse_dead
from mjax._engine.tracing.reference import Ref, check_aliases
from mjax._engine.tracing.scopes import calling
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.user_types import Packed
from mjax._engine.tracing.variance import casts_are_written

if TYPE_CHECKING:
    from mjax._engine.base.signatures import NoFunction

_NO_FUNCTION = cast("NoFunction", NOT_GIVEN)
_flatten = registry.flatten
#: Types of leaves that need no conversion.
_ARRAYS = frozenset({Array, Packed, PendingArray, Ref})


@boundary
def jit(fun: Callable[P, D] = _NO_FUNCTION, /, *,  # type: ignore[assignment]
        in_shardings: Any = None, out_shardings: Any = None, static_argnums: Any = None,
        static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None,
        keep_unused: bool = False, device: Any = None, backend: str | None = None,
        inline: bool = False, compiler_options: dict[str, Any] | None = None
        ) -> JitFunction[P, D]:
    """Compiles a function, at its first call for each set of argument types.

    Args:
      fun: a function of pytrees of arrays, without side effects. Without it: a decorator.
      in_shardings: the shardings of arguments: a tree prefix of the tuple of positional arguments
        without static ones. Leaves are `NamedSharding`s, `PartitionSpec`s for the mesh that is set
        (`set_mesh`) at the call, or None: the argument's own, or XLA's choice for one that is
        uncommitted. Inside of another program they are constraints.
      out_shardings: the same for the results; None: XLA's choice.
      static_argnums: positions of arguments that are hashable Python values, known when the
        function is traced. The function is compiled for each value.
      static_argnames: the same by name; each is completed from the other.
      donate_argnums: positions of arguments whose memory the results may take over; the
        arrays cannot be used afterwards.
      donate_argnames: the same by name.
      keep_unused: whether arguments that are not read are passed to the program.
      device: the device to run on, wherever the arguments are; results are committed to it. The
        derivatives and batched forms of the function run there too, and so does a program that
        calls it.
      backend: a platform to run on; not with `device`.
      inline: whether the equations go into an outer jaxpr in place of one `jit` equation.
      compiler_options: XLA options (`xla_...`) by name; only for a `jit` that is not called
        inside of another.

    Returns:
      A function of the same signature, with methods `trace`, `lower`, `eval_shape` and
      `clear_cache`.

    Raises:
      TypeError: `fun` is not callable, or `compiler_options` are not a dict of XLA options; at
        calls: an argument is not an array.
      ValueError: an argument number or name that `fun` does not have; at calls: a static
        argument that is not hashable, arguments on different devices, or shardings that do not
        fit: trees, sizes that are not divisible, or an argument committed to another sharding.
      RuntimeError: at calls: an argument was donated before, or is donated and given twice.

    Example:
      >>> @mjax.jit
      ... def f(x):
      ...   return x * 2 + 1
      >>> f(3)
      Array(7, dtype=int32, weak_type=True)
    """
    if fun is _NO_FUNCTION:
        return cast("JitFunction[P, D]", functools.partial(
            jit, in_shardings=in_shardings, out_shardings=out_shardings,
            static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options))
    check_callable("jit", fun)
    if isinstance(fun, staticmethod):
        msg = (f"jit expects a function, got a staticmethod of {function_name(fun)}. Write "
               "@staticmethod above @jit.")
        raise TypeError(msg)
    if inspect.isgeneratorfunction(fun) or inspect.iscoroutinefunction(fun):
        msg = f"jit cannot compile the generator or coroutine function {function_name(fun)}."
        raise TypeError(msg)
    device = _device_of(device, backend)
    parameters = Parameters.of("jit", fun)
    options = JitOptions(
        *normalize(parameters, static_argnums, static_argnames, "static"),
        *normalize(parameters, donate_argnums, donate_argnames, "donate"), bool(keep_unused),
        bool(inline), device, compiler_options_of(compiler_options),
        asked(in_shardings, "in_shardings"), asked(out_shardings, "out_shardings"))
    if device is not None and (options.in_shardings or options.out_shardings):
        msg = ("jit: give a device (or backend) or shardings, not both: "
               "SingleDeviceSharding(device) is a sharding.")
        raise ValueError(msg)
    both = set(options.static_argnums) & set(options.donate_argnums)
    if both:
        msg = f"jit: arguments {sorted(both)} cannot be static and donated at once."
        raise ValueError(msg)
    jitted = Jitted(fun, options, parameters)
    function = PjitFunction(jitted.short.dispatcher(jitted.evaluated, jitted.staged))
    function._jitted = jitted
    return wraps(fun)(function)


def pjit(fun: Callable[P, R], in_shardings: Any = None, out_shardings: Any = None,
         static_argnums: Any = None, static_argnames: Any = None, donate_argnums: Any = None,
         donate_argnames: Any = None, keep_unused: bool = False, device: Any = None,
         backend: str | None = None, inline: bool = False,
         compiler_options: dict[str, Any] | None = None) -> JitFunction[P, R]:
    """`mjax.jit` that also takes all its arguments by position.

    Args:
      fun: a function of pytrees of arrays.
      in_shardings, out_shardings, static_argnums, static_argnames, donate_argnums, donate_argnames:
        as in `mjax.jit`.
      keep_unused, device, backend, inline, compiler_options: as in `mjax.jit`.

    Returns:
      A function of the same signature.

    Raises:
      TypeError: as in `mjax.jit`.
      ValueError: as in `mjax.jit`.

    Example:
      >>> from mjax.experimental.pjit import pjit
      >>> pjit(lambda x: x + 1)(1)
      Array(2, dtype=int32, weak_type=True)
    """
    options = locals()
    jitted: JitFunction[P, R] = jit(options.pop("fun"), **options)
    return jitted


def _device_of(device: Any, backend: str | None) -> Any:
    """The device to run on, given directly or by a platform; None: that of the arguments."""
    if backend is None:
        if device is not None:
            sharding_of(device)  # refuses anything else
        return device
    if device is not None:
        msg = f"jit: give a device or a backend, not both: {device} and {backend!r}."
        raise ValueError(msg)
    return devices(backend)[0]


def _is_library(fun: Callable[..., Any]) -> bool:
    return (getattr(fun, "__module__", None) or "").startswith("mjax.")


#: The key of `jit` without options in `caches_of`.
_PLAIN = JitOptions(), exact(())


class Jitted:
    """A function under `jit`: handles the calls that are not answered by one lookup.

    Args:
      fun: the user's function.
      options: the options of `jit`.
      parameters: the parameters of the function.
    """

    __slots__ = ("caches", "fun", "name", "options", "parameters", "shardings", "shared", "short")

    def __init__(self, fun: Callable[..., Any], options: JitOptions, parameters: Parameters):
        self.fun, self.parameters = fun, parameters
        self.options = options
        self.name = function_name(fun)
        # 1 and True are equal, but different options to XLA.
        self.caches = caches_of(fun, (options, exact(options.compiler_options)))
        self.shardings = bool(options.in_shardings or options.out_shardings)
        #: Whether equal scalars may share an array; not if they are donated.
        self.shared = not (options.donate_argnums or options.donate_argnames)
        self.short = ShortCalls(options.static_argnums, options.static_argnames, self.caches.short,
                                (*options.donate_argnums, *options.donate_argnames))

    # -- under evaluation --

    def evaluated(self, args: tuple[Any, ...], kwargs: dict[str, Any], short_key: Any,
                  taken: Sequence[Any]) -> Any:
        """A call under evaluation, and its key for later calls: see `ShortCalls.put`."""
        call = take_apart(self.parameters, self.options, args, kwargs)
        if not _ARRAYS.issuperset(map(type, call.leaves)):
            call = call._replace(leaves=self.as_placed(call.leaves, args, kwargs))
        if thread.settings.disable_jit:
            return self.fun(*args, **kwargs)
        program = program_for(self.caches.calls, (call.tree, call.static_key),
                              tuple(map(placement_of, call.leaves)), self.compiled, call)
        return self.short.run(short_key, taken, program, call.leaves)

    def as_placed(self, leaves: list[Any], args: Any, kwargs: Any) -> list[Any]:
        """Arguments as arrays, or as objects that become arrays later.

        Raises:
          TypeError: names the first that is not an array.
        """
        try:
            return [a if type(a) in _ARRAYS else HostArgument(a) if type(a) is np.ndarray else
                    to_array(a, self.shared) for a in leaves]
        except TypeError:
            self._check(args, kwargs)
            raise

    def _check(self, args: Any, kwargs: Any) -> None:
        """Refuses leaves that are not arrays, and advises how to pass them."""
        for given, what in ((args, "argument"), (kwargs, "keyword argument ")):
            for path, leaf in tree_flatten_with_path(given)[0]:
                try:
                    typeof(leaf)
                except (TypeError, OverflowError) as error:
                    place = getattr(path[0], "idx", None)
                    refuse_leaf(f"jit of {self.name}: {what}{keystr(path)}", error,
                                "" if is_foreign_array(leaf) or isinstance(error, OverflowError)
                                else self._static_hint(place, path[0]))

    def _static_hint(self, place: int | None, key: Any) -> str:
        name = key.key if place is None else parameter_name(self.fun, place)
        number = "" if place is None else f"static_argnums={place} or "
        return (f" If the argument {name} holds no arrays, mark it static: "
                f"{number}static_argnames={name!r}.")

    def compiled(self, placements: tuple[Any, ...], call: JitCall) -> Runners:
        """The functions that run calls like this one."""
        options = self.options
        if thread.options.explain_cache_misses:
            explain_compilation(self.fun, call, placements, self.caches.calls)
        if recorders:
            key = (thread.settings, placements, call.tree, call.static_key)
            record(CALL, self.name, 0.0, 0.0, (
                self.caches.calls, key, self.fun, call._replace(leaves=[])))
        trace = trace_call(self.fun, call, [a.aval for a in call.leaves], self.caches)
        for value in trace.closed_over:
            if isinstance(value, Tracer) and value.interp is not evaluation:
                refuse_dead(value)  # under evaluation no trace is open
        if trace.closed_over:
            return Runners(lambda *args: self.applied(trace, call, map(arrived, args)), None)
        return runners_of(
            Asked(trace.jaxpr, self.name, placements,
                  donated_leaves(self.parameters, options, call), options.keep_unused,
                  options.device, *self.asked(call, trace.out_tree)),
            trace.out_tree, dict(options.compiler_options))

    def asked(self, call: JitCall, out_tree: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The requested shardings of the leaves of arguments and results.

        Raises:
          ValueError: their trees do not fit, or no mesh is set for a spec.
        """
        return (in_shardings_of(self.name, self.options.in_shardings, call),
                out_shardings_of(self.name, self.options.out_shardings, out_tree))

    # -- under other interpreters --

    def staged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call under any other interpreter: an application of the primitive `jit`."""
        if thread.settings.disable_jit or (casts_are_written() and _is_library(self.fun)):
            # Authors write casts in their own functions. In the engine's functions numbers stay
            # literals this way, which need no casts.
            return self.fun(*args, **kwargs)
        options = self.options
        call = take_apart(self.parameters, options, args, kwargs)
        try:
            avals = [typeof(a) for a in call.leaves]
        except TypeError:
            self._check(args, kwargs)
            raise
        trace = trace_call(self.fun, call, avals, self.caches)
        return self.applied(trace, call, call.leaves)

    def applied(self, trace: TracedProgram, call: JitCall, leaves: Iterable[Any]) -> Any:
        """The primitive `jit`, applied to the leaves of a call."""
        options, operands = self.options, [*trace.closed_over, *leaves]
        if trace.jaxpr.effects:
            check_aliases(lambda: trace.jaxpr.debug_info, operands)
        if self.shardings:
            trace = trace._replace(jaxpr=constrained(trace.jaxpr, *self.asked(
                call, trace.out_tree)))
        if options.inline and options.device is None and not options.compiler_options:
            outs = eval_jaxpr(trace.jaxpr, trace.jaxpr.consts, *operands)
        else:
            donated = donated_leaves(self.parameters, options, call)
            outs = calling(
                f"jit({self.name})", jit_p.bind, *operands, jaxpr=trace.jaxpr, name=self.name,
                inline=options.inline, donated_invars=(False,) * len(trace.closed_over) + donated,
                keep_unused=options.keep_unused, device=options.device,
                compiler_options_kvs=options.compiler_options)
        return trace.out_tree.unflatten(outs)

    # -- ahead of time --

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces for these arguments, or for `ShapeDtypeStruct`s in their place."""
        call = take_apart(self.parameters, self.options, args, kwargs)
        trace = trace_call(self.fun, call, avals_of(self.name, call, args, kwargs), self.caches)
        return Traced(trace.jaxpr, trace.closed_over, self.name, call, trace.out_tree,
                      donated_leaves(self.parameters, self.options, call), self.options,
                      self.asked(call, trace.out_tree))

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers for these arguments, or for `ShapeDtypeStruct`s."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for these arguments, without computing them."""
        return self.trace(*args, **kwargs).out_info


@boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of a function's results, without computing them.

    Args:
      fun: a function of pytrees of arrays.
      args, kwargs: arguments, or `ShapeDtypeStruct`s in their place.

    Returns:
      The tree of `ShapeDtypeStruct`s of the results. They have the `out_shardings` of `jit` if
      `fun` is a jitted function.

    Raises:
      TypeError: `fun` is not callable; an argument or a result is not an array.
      ValueError: `fun` returns a reference.
      OverflowError: a Python int that the default integer dtype cannot hold.

    Example:
      >>> mjax.eval_shape(lambda x: x @ x, mjax.ShapeDtypeStruct((3, 3), "float32"))
      ShapeDtypeStruct(shape=(3, 3), dtype=float32)
    """
    if type(fun) is PjitFunction:
        return fun.eval_shape(*args, **kwargs)
    call = JitCall(*_flatten((args, kwargs), None))
    # Shared with jit(fun).
    caches = caches_of(fun, _PLAIN)
    trace = trace_call(fun, call, avals_of(function_name(fun), call, args, kwargs), caches,
                       "eval_shape")
    return out_info(trace.jaxpr, trace.out_tree)


def avals_of(name: str, call: JitCall, args: Any, kwargs: Any) -> list[Any]:
    """Types of the leaves of a call that needs only types.

    Raises:
      TypeError: names the first leaf without a type.
    """
    try:
        return list(map(aval_of, call.leaves))
    except TypeError:
        check_arguments(name, args)
        check_arguments(name, kwargs, "keyword argument ")
        raise


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluates operations in the body of a `with` statement at once, even during a trace.

    Operations on constants give concrete arrays there. Operations on tracers are not affected.

    Example:
      >>> @mjax.jit
      ... def f(x):
      ...   with mjax.ensure_compile_time_eval():
      ...     size = int(mjax.numpy.sum(mjax.numpy.arange(3)))
      ...     return mjax.numpy.ones(size) * x
      >>> f(2.0).shape
      (3,)
    """
    outer = thread.interpreter
    thread.interpreter = outer if outer is evaluation else CompileTimeEvaluation(outer)
    try:
        yield
    finally:
        thread.interpreter = outer
