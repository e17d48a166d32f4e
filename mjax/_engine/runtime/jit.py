"""`jit` as users call it: from Python arguments to a compiled program, by as few lookups as
can be.

Three levels, each a dictionary lookup: arrays as only arguments (keyed by their
placements), any pytrees under evaluation (keyed by structure and placements), and traces
(keyed by structure and types), which every interpreter uses.
"""

from __future__ import annotations

import functools
import inspect
import operator
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.folding import boundary, fold
from mjax._engine.base.util import BoundedCache, exact
from mjax._engine.control.jit import jit_p
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import registry, tree_structure, treedef_is_leaf
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.array import Array
from mjax._engine.runtime.devices import devices
from mjax._engine.runtime.executable import Program, single_runner
from mjax._engine.runtime.stages import Lowered, Traced, out_info
from mjax._engine.runtime.transfer import refuse_deleted, to_array
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_arguments,
    debug_info_of,
    function_name,
)
from mjax._engine.tracing.interpreter import refuse_dead
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage

_flatten = registry.flatten
_placement_of = operator.attrgetter("_placement")
#: Types of leaves that become arrays when they reach a compiled function.
FOREIGN = frozenset({np.ndarray, bool, int, float, complex, np.float32, np.int32, np.bool_})


class Options(NamedTuple):
    """What `jit` was asked for, normalized."""

    static_argnums: tuple[int, ...]
    static_argnames: tuple[str, ...]
    donate_argnums: tuple[int, ...]
    donate_argnames: tuple[str, ...]
    keep_unused: bool
    inline: bool
    device: Any
    compiler_options: tuple[tuple[str, Any], ...]


class Trace(NamedTuple):
    """A traced function: the jaxpr, what it closed over, and how its results are nested."""

    jaxpr: Jaxpr
    closed_over: tuple[Any, ...]
    out_tree: Any


class Caches:
    """What is remembered about one function under one set of options."""

    __slots__ = ("__weakref__", "arrays", "calls", "traces")

    def __init__(self) -> None:
        self.arrays: BoundedCache = BoundedCache()
        self.calls: BoundedCache = BoundedCache()
        self.traces: BoundedCache = BoundedCache()

    def clear(self) -> None:
        """Forgets everything."""
        for cache in (self.arrays, self.calls, self.traces):
            cache.clear()


_all_caches: weakref.WeakSet[Caches] = weakref.WeakSet()
_by_function: weakref.WeakKeyDictionary[Any, dict[Any, Caches]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def caches_of(f: Callable[..., Any], options: Options) -> Caches:
    """The caches of a function, shared by all `jit`s of it with the same options.

    A bound method is made anew at each attribute access, so it is known by its function
    and its object.
    """
    owner: Any = f
    key: tuple[Any, ...] = (options,)
    instance = getattr(f, "__self__", None)
    if inspect.ismethod(f):
        owner, key = f.__func__, (options, id(instance))
    with _lock:
        try:
            known = _by_function.setdefault(owner, {})
        except TypeError:  # not weakly referenceable or not hashable: not shared
            known = {}
        caches = known.get(key)
        if caches is None:
            caches = known[key] = Caches()
            _all_caches.add(caches)
            if len(key) == 2:
                try:
                    # An id may be given to another object once this one is gone.
                    weakref.finalize(instance, known.pop, key, None)
                except TypeError:
                    known.pop(key)
    return caches


def clear_caches() -> None:
    """Forgets all traces and compiled programs of jitted functions."""
    for caches in list(_all_caches):
        caches.clear()


def _as_tuple(value: Any, kind: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, kind) or not isinstance(value, (tuple, list, set, frozenset, range)):
        return (value,) if kind is str else (operator.index(value),)
    return tuple(value) if kind is str else tuple(map(operator.index, value))


def _normalize(f: Callable[..., Any], nums: Any, names: Any, what: str
               ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Argument numbers and names, each completed from the other by the signature."""
    numbers, words = _as_tuple(nums, int), _as_tuple(names, str)
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return numbers, words
    positional = [p.name for p in parameters
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for n in numbers:
        if not variadic and not -len(positional) <= n < len(positional):
            msg = (f"jit: {what}_argnums has {n}, but {function_name(f)} takes "
                   f"{len(positional)} positional arguments.")
            raise ValueError(msg)
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in words:
            if name not in {p.name for p in parameters}:
                msg = (f"jit: {what}_argnames has {name!r}, which is no argument of "
                       f"{function_name(f)}.")
                raise ValueError(msg)
    numbers = tuple(n + len(positional) if n < 0 else n for n in numbers)
    if names is None:
        words = tuple(positional[n] for n in numbers if n < len(positional)
                      and parameters[n].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    elif nums is None:
        numbers = tuple(i for i, name in enumerate(positional) if name in words)
    return numbers, words


class Call(NamedTuple):
    """A call taken apart.

    Attributes:
      leaves: those of the dynamic arguments.
      tree: their structure.
      static: the static arguments, as `(position or name, value)`.
      static_key: what stands for these in cache keys.
    """

    leaves: list[Any]
    tree: Any
    static: tuple[tuple[int | str, Any], ...] = ()
    static_key: tuple[Any, ...] = ()


def take_apart(f: Callable[..., Any], options: Options, args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> Call:
    """Separates static arguments and flattens the others.

    Raises:
      ValueError: a static argument is not hashable.
    """
    static: list[Any] = []
    if options.static_argnums or options.static_argnames:
        dynamic = []
        for i, arg in enumerate(args):
            if i in options.static_argnums:
                static.append((i, _hashable(f, arg, f"argument {i}")))
            else:
                dynamic.append(arg)
        args = tuple(dynamic)
        words = [k for k in kwargs if k in options.static_argnames]
        static += [(k, _hashable(f, kwargs[k], f"argument {k!r}")) for k in sorted(words)]
        kwargs = {k: v for k, v in kwargs.items() if k not in options.static_argnames}
    leaves, tree = _flatten((args, kwargs), None)
    return Call(leaves, tree, tuple(static), tuple([(n, exact(v)) for n, v in static]))


def _hashable(f: Callable[..., Any], value: Any, which: str) -> Any:
    try:
        hash(value)
    except TypeError:
        msg = (f"jit: static {which} of {function_name(f)} is not hashable: a "
               f"{type(value).__name__}. Static arguments are part of the cache key: pass a "
               "tuple for a list, a frozen dataclass for a mutable object, or do not mark the "
               "argument static.")
        raise ValueError(msg) from None
    return value


def with_static(f: Callable[..., Any], static: tuple[Any, ...]) -> Callable[..., Any]:
    """The function with its static arguments put back in their places."""
    if not static:
        return f
    places = {name: value for name, value in static if isinstance(name, int)}
    words = {name: value for name, value in static if isinstance(name, str)}

    def complete(*args: Any, **kwargs: Any) -> Any:
        given, total = iter(args), len(args) + len(places)
        return f(*[places[i] if i in places else next(given) for i in range(total)], **kwargs,
                 **words)

    return complete


def trace_call(f: Callable[..., Any], call: Call, avals: Sequence[Any], caches: Caches | None
               ) -> Trace:
    """Traces a function for a call; from the cache where nothing of outer traces is in it."""
    key = (ctx.settings, ctx.axis_env, call.tree, call.static_key, tuple(avals))
    if caches is not None:
        known = caches.traces.get(key)
        if known is not None:
            return known
    flat = FlatFunction(with_static(f, call.static), call.tree)
    args, kwargs = call.tree.unflatten(call.leaves)
    info = debug_info_of("jit", f, *_named_arguments(args, kwargs, call.static))
    jaxpr, closed_over = lift_tracers(stage(flat, avals, info))
    trace = Trace(jaxpr, tuple(closed_over), flat.out_tree)
    if caches is not None and not closed_over:
        caches.traces.put(key, trace)
    return trace


def _named_arguments(args: Sequence[Any], kwargs: dict[str, Any], static: tuple[Any, ...]
                     ) -> tuple[list[Any], dict[str, Any], tuple[int, ...]]:
    """Arguments with None in the places of static ones, which have no leaves."""
    places = {name for name, _ in static if isinstance(name, int)}
    given = iter(args)
    return [None if i in places else next(given) for i in range(len(args) + len(places))], \
        kwargs, tuple(places)


def donated_leaves(options: Options, call: Call) -> tuple[bool, ...]:
    """Which leaves of a call belong to donated arguments."""
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * len(call.leaves)
    args, kwargs = call.tree.unflatten(call.leaves)
    places = {name for name, _ in call.static if isinstance(name, int)}
    numbers = [i for i in range(len(args) + len(places)) if i not in places]
    flags: list[bool] = []
    for number, arg in zip(numbers, args, strict=True):
        flags += [number in options.donate_argnums] * tree_structure(arg).num_leaves
    for key in sorted(kwargs):
        flags += [key in options.donate_argnames] * tree_structure(kwargs[key]).num_leaves
    return tuple(flags)


@boundary
def jit(fun: Callable[..., Any] | None = None, *, static_argnums: Any = None,
        static_argnames: Any = None, donate_argnums: Any = None, donate_argnames: Any = None,
        keep_unused: bool = False, device: Any = None, backend: str | None = None,
        inline: bool = False, compiler_options: dict[str, Any] | None = None) -> Any:
    """Compiles a function, at its first call for each set of argument types.

    Args:
      fun: a function of pytrees of arrays, without side effects. Without it: a decorator.
      static_argnums: positions of arguments that are hashable Python values, known when the
        function is traced; each value is compiled for.
      static_argnames: the same by name; each is completed from the other.
      donate_argnums: positions of arguments whose memory the results may take over; the
        arrays cannot be used afterwards.
      donate_argnames: the same by name.
      keep_unused: whether arguments that are not read are passed to the program.
      device: the device to run on.
      backend: a platform to run on.
      inline: whether the equations go into an outer jaxpr in place of one `jit` equation.
      compiler_options: XLA options (`xla_...`) by name.

    Returns:
      A function of the same signature, with methods `trace`, `lower`, `eval_shape` and
      `clear_cache`.

    Raises:
      TypeError: `fun` is not callable; at calls: an argument is no array.
      ValueError: an argument number or name that `fun` does not have; at calls: a static
        argument that is not hashable.

    Example:
      >>> @mjax.jit
      ... def f(x):
      ...   return x * 2 + 1
      >>> f(3)
      Array(7, dtype=int32, weak_type=True)
    """
    if fun is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames,
            donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            keep_unused=keep_unused, device=device, backend=backend, inline=inline,
            compiler_options=compiler_options)
    if not callable(fun):
        msg = f"jit expects a function, got {fun!r} of type {type(fun).__name__}."
        raise TypeError(msg)
    if inspect.isgeneratorfunction(fun) or inspect.iscoroutinefunction(fun):
        msg = f"jit cannot compile the generator or coroutine function {function_name(fun)}."
        raise TypeError(msg)
    if backend is not None:
        device = devices(backend)[0]
    options = Options(
        *_normalize(fun, static_argnums, static_argnames, "static"),
        *_normalize(fun, donate_argnums, donate_argnames, "donate"), keep_unused, inline, device,
        tuple(sorted((compiler_options or {}).items())))
    both = set(options.static_argnums) & set(options.donate_argnums)
    if both:
        msg = f"jit: arguments {sorted(both)} cannot be static and donated at once."
        raise ValueError(msg)
    return _make(fun, options)


def _make(fun: Callable[..., Any], options: Options) -> Any:
    caches = caches_of(fun, options)
    arrays, calls = caches.arrays, caches.calls
    only_arrays = not (options.static_argnums or options.static_argnames)
    donates = bool(options.donate_argnums or options.donate_argnames)

    @functools.wraps(fun)
    def jitted(*args: Any, **kwargs: Any) -> Any:
        try:
            if ctx.interpreter is evaluation:
                if only_arrays and not kwargs:
                    # The commonest calls, spelled out: no pytree is flattened.
                    if len(args) == 1:
                        (x,) = args
                        if type(x) in FOREIGN:
                            x = to_array(x, not donates)
                        if type(x) is Array:
                            run = arrays.get((ctx.settings, x._placement))
                            if run is not None:
                                return run(x)
                    elif len(args) == 2:
                        x, y = args
                        if type(x) in FOREIGN:
                            x = to_array(x, not donates)
                        if type(y) in FOREIGN:
                            y = to_array(y, not donates)
                        if type(x) is Array and type(y) is Array:
                            run = arrays.get((ctx.settings, x._placement, y._placement))
                            if run is not None:
                                return run(x, y)
                return evaluated(args, kwargs)
            return staged(args, kwargs)
        except Exception as error:
            refuse_deleted(error, args)
            refuse_deleted(error, kwargs)
            fold(error)
            raise

    def evaluated(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        static: tuple[Any, ...] = ()
        static_key: tuple[Any, ...] = ()
        if only_arrays:
            leaves, tree = _flatten((args, kwargs), None)
        else:
            leaves, tree, static, static_key = take_apart(fun, options, args, kwargs)
        values: Any = None
        if leaves and type(leaves[-1]) is Array:
            # All arrays, most likely: the key is made without a Python loop.
            try:
                key = (ctx.settings, tree, static_key, *map(_placement_of, leaves))
                values = leaves
            except AttributeError:
                values = None
        if values is None:
            values = as_arrays(leaves, args, kwargs)
            key = (ctx.settings, tree, static_key, *map(_placement_of, values))
        known = calls.get(key)
        if known is None:
            if ctx.settings.disable_jit:
                return fun(*args, **kwargs)
            known = calls.put(key, compiled(Call(values, tree, static, static_key), args, kwargs))
        run, out_tree = known
        return out_tree.unflatten(run(*values))

    def as_arrays(leaves: list[Any], args: Any, kwargs: Any) -> list[Array]:
        try:
            return [a if type(a) is Array else to_array(a, not donates) for a in leaves]
        except TypeError:
            check_arguments(f"jit of {function_name(fun)}", args)
            check_arguments(f"jit of {function_name(fun)}", kwargs, "keyword argument ")
            raise

    def compiled(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        trace = trace_call(fun, call, [a.aval for a in call.leaves], caches)
        for value in trace.closed_over:
            refuse_dead(value)  # under evaluation no trace is open
        values = call.leaves
        program = Program(trace.jaxpr, function_name(fun), [a._placement for a in values],
                          donated_leaves(options, call), options.keep_unused, options.device)
        run = program.runner(dict(options.compiler_options))
        flat = not kwargs and len(args) in (1, 2) and all(
            type(a) is Array or type(a) in FOREIGN for a in args)
        if flat and only_arrays and treedef_is_leaf(trace.out_tree):
            one = single_runner(program, len(args))
            if one is not None:
                arrays.put((ctx.settings, *map(_placement_of, values)), one)
        return run, trace.out_tree

    def staged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if ctx.settings.disable_jit:
            return fun(*args, **kwargs)
        call = take_apart(fun, options, args, kwargs)
        try:
            avals = [typeof(a) for a in call.leaves]
        except TypeError:
            check_arguments(f"jit of {function_name(fun)}", args)
            raise
        trace = trace_call(fun, call, avals, caches)
        operands = [*trace.closed_over, *call.leaves]
        if options.inline:
            outs = eval_jaxpr(trace.jaxpr, trace.jaxpr.consts, *operands)
        else:
            donated = (False,) * len(trace.closed_over) + donated_leaves(options, call)
            outs = jit_p.bind(*operands, jaxpr=trace.jaxpr, name=function_name(fun),
                              donated_invars=donated, inline=False,
                              keep_unused=options.keep_unused)
        return trace.out_tree.unflatten(outs)

    def traced(*args: Any, **kwargs: Any) -> Traced:
        """Traces for these arguments, or for `ShapeDtypeStruct`s in their place."""
        call = take_apart(fun, options, args, kwargs)
        trace = trace_call(fun, call, [typeof(a) for a in call.leaves], caches)
        return Traced(trace.jaxpr, function_name(fun), call, trace.out_tree,
                      donated_leaves(options, call), options)

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        """Traces and lowers for these arguments, or for `ShapeDtypeStruct`s."""
        return traced(*args, **kwargs).lower()

    def eval_shape(*args: Any, **kwargs: Any) -> Any:
        """The types of the results for these arguments, without computing them."""
        return traced(*args, **kwargs).out_info

    jitted.trace = boundary(traced)  # type: ignore[attr-defined]
    jitted.lower = boundary(lower)  # type: ignore[attr-defined]
    jitted.eval_shape = boundary(eval_shape)  # type: ignore[attr-defined]
    jitted.clear_cache = caches.clear  # type: ignore[attr-defined]
    jitted._cache_size = lambda: len(calls)  # type: ignore[attr-defined]
    return jitted


@boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The types of a function's results, without computing them.

    Args:
      fun: a function of pytrees of arrays.
      args, kwargs: arguments, or `ShapeDtypeStruct`s in their place.

    Returns:
      The tree of `ShapeDtypeStruct`s of the results.

    Example:
      >>> mjax.eval_shape(lambda x: x @ x, mjax.ShapeDtypeStruct((3, 3), "float32"))
      ShapeDtypeStruct(shape=(3, 3), dtype=float32)
    """
    leaves, tree = _flatten((args, kwargs), None)
    trace = trace_call(fun, Call(leaves, tree), [typeof(a) for a in leaves], None)
    return out_info(trace.jaxpr, trace.out_tree)


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Evaluates what runs in the body of a `with` statement at once, under a trace too.

    Operations on tracers are refused there; those on constants give concrete arrays.
    """
    # Named axes belong to the interpreters that are left out.
    previous = ctx.interpreter, ctx.axis_env
    ctx.interpreter, ctx.axis_env = evaluation, ()
    try:
        yield
    finally:
        ctx.interpreter, ctx.axis_env = previous
