"""Functions of several primitives, compiled as one program each.

Under evaluation, a function decorated by `fused` is compiled for the types of its arguments and
run. Under any other interpreter it is traced once for those types. That interpreter gets its jaxpr:
as one `jit` equation if it is long, else equation by equation. Compared to `jit`, arguments are
flat, and Python scalars in a trace keep their values.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.control.calls.jit import call
from mjax._engine.ir.jaxpr import Jaxpr, Literal
from mjax._engine.ir.pytree import is_one_leaf, registry
from mjax._engine.ir.types import typeof, typeof_handlers
from mjax._engine.primitives.shapes import array_of
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.out_sharding import laid_out, with_out_sharding
from mjax._engine.runtime.arrays.transfer import to_array, unshared
from mjax._engine.runtime.dispatch.executable import Asked
from mjax._engine.runtime.dispatch.runners import Runners, runners_of
from mjax._engine.runtime.dispatch.short import Caches, ShortCalls, placement_of
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._numpy.core import check_fill

F = TypeVar("F", bound=Callable[..., Any])

#: Exact types of NumPy's and Python's values that become operands of the program.
_FOREIGN = frozenset({bool, int, float, complex, np.ndarray})


#: Types whose values a trace keeps static, because functions read them (`x ** 2`).
_SCALARS = frozenset({bool, int, float, complex})
#: The greatest number of equations of a jaxpr that is replayed, not called.
_SHORT = 3


class NotFlat(Exception):
    """A call whose arguments do not have a cache key: it runs primitive by primitive."""


def fused(f: F | None = None, *, values: Sequence[str] = (), static_argnames: Sequence[str] = (),
          out_sharding: bool = False, gives_back: bool = False) -> Any:
    """Decorator: eager calls run as one compiled program.

    Args:
      f: a function of values, of lists and tuples of them, and of static arguments.
      values: names of the arguments that are one value each. They are converted here, once, by
        `core.check_array`; the function gets None for one that is left out.
      static_argnames: names of the arguments that are hashable Python values.
      out_sharding: whether the function takes an argument `out_sharding`; see `laid_out`.
      gives_back: whether a call that changes nothing returns its operand itself, not a copy.
    """
    if f is None:
        return functools.partial(fused, values=values, static_argnames=static_argnames,
                                 out_sharding=out_sharding, gives_back=gives_back)
    names = frozenset(static_argnames)
    code = f.__code__
    positions = frozenset(i for i, n in enumerate(code.co_varnames[: code.co_argcount])
                          if n in names)
    caches = Caches()
    short = ShortCalls(positions, names, caches.short)

    def evaluated(args: tuple[Any, ...], kwargs: dict[str, Any], short_key: Any,
                  given: Sequence[Any]) -> Any:
        if out_sharding and "out_sharding" in kwargs:
            place = kwargs.pop("out_sharding")
            return laid_out(wrapper(*args, **kwargs), place, f.__name__)
        # In the order of names, in which short calls take them.
        kwargs = dict(sorted(kwargs.items()))
        key = known = None
        try:
            key, arrays = _key_of([thread.settings], _add_operand, args, kwargs, positions, names)
            known = caches.calls.get(key)
        except (NotFlat, TypeError, OverflowError):
            key = None
        if known is None:
            if (call := _unknown(f, wrapper, values, args, kwargs, key)) is not None:
                return call()
            known = caches.calls.put(key, compile_for(
                tuple(map(placement_of, arrays)),
                _of_operands(f, args, kwargs, positions, names, _is_given), f.__name__,
                gives_back))
        return short.run(short_key, given, known, arrays)

    def staged(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if out_sharding and "out_sharding" in kwargs:
            return evaluated(args, kwargs, None, ())
        key = known = None
        try:
            key, operands = _key_of([thread.settings], _add_traced, args, kwargs, positions,
                                    names)
            known = caches.traces.get(key)
        except (NotFlat, TypeError, OverflowError):
            key = None
        if known is None:
            if (call := _unknown(f, wrapper, values, args, kwargs, key)) is not None:
                return call()
            known = caches.traces.put(key, _applier(
                _of_operands(f, args, kwargs, positions, names, _is_operand), f.__name__, operands))
        return known(operands)

    wrapper: Any = functools.wraps(f)(short.dispatcher(evaluated, staged))
    wrapper.known = short.known.entries
    if out_sharding:
        with_out_sharding(wrapper, f)
    return wrapper


# ---- arguments -------------------------------------------------------------------------


def _unknown(f: Callable[..., Any], public: Callable[..., Any], values: Sequence[str],
             args: Sequence[Any], kwargs: dict[str, Any], key: Any) -> Callable[[], Any] | None:
    """A function that answers a new kind of call; None: compile a program for it.

    Args:
      f: the function.
      public: the public function.
      values: names of the arguments that are one value each.
      args, kwargs: the arguments.
      key: the key of the call; None if it does not have one.

    Raises:
      TypeError, OverflowError: one of the values is not one.
    """
    code = f.__code__
    parameters = code.co_varnames[: code.co_argcount]
    required = parameters[: len(parameters) - len(f.__defaults__ or ())]
    who = f.__name__.lstrip("_")

    def converted(name: str, x: Any) -> Any:
        if name not in values or (x is None and name not in required):
            return x
        return check_fill(who, x, required.index(name) if name in required else name)

    given = [*map(converted, parameters, args), *args[len(parameters):]]
    named = {name: converted(name, x) for name, x in kwargs.items()}
    if not all(map(operator.is_, [*given, *named.values()], [*args, *kwargs.values()])):
        return lambda: public(*given, **named)
    if key is None or thread.settings.disable_jit:
        return lambda: f(*args, **kwargs)
    return None


def _key_of(key: list[Any], add: Callable[..., None], args: Sequence[Any],
            kwargs: dict[str, Any], positions: frozenset[int], names: frozenset[str]
            ) -> tuple[tuple[Any, ...], list[Any]]:
    """The key of a call, and its operands.

    Args:
      key: the start of the key.
      add: `(argument, key, operands)`: appends to both.
      args: the arguments.
      kwargs: those by name.
      positions: positions of static arguments.
      names: names of static arguments.
    """
    operands: list[Any] = []
    for position, arg in enumerate(args):
        if position in positions:
            key.append(_static(arg))
        else:
            add(arg, key, operands)
    for name, arg in kwargs.items():
        key.append(name)
        if name in names:
            key.append(_static(arg))
        else:
            add(arg, key, operands)
    return tuple(key), operands


def _static(arg: Any) -> Any:
    """A static argument in a key; refuses sequences that compare by identity: they may change."""
    kind = type(arg)
    hashed_by: Any = kind.__hash__
    if hashed_by is object.__hash__ and hasattr(kind, "__len__"):
        raise NotFlat
    return exact(arg)


def _add_operand(arg: Any, key: list[Any], arrays: list[Array]) -> None:
    if type(arg) is Array:
        key.append(arg._placement)
        arrays.append(arg)
    elif arg is None:
        key.append(None)
    elif isinstance(arg, (list, tuple)):
        _add_leaves(arg, _add_operand, key, arrays)
    elif type(arg) in _FOREIGN or isinstance(arg, np.generic):
        _add_operand(to_array(arg), key, arrays)
    else:
        raise NotFlat


def _add_traced(arg: Any, key: list[Any], operands: list[Any]) -> None:
    kind = type(arg)
    if not _is_operand(arg):
        key.append(exact(arg))
    elif kind in typeof_handlers:
        key.append(typeof_handlers[kind](arg))
        operands.append(arg)
    elif isinstance(arg, (list, tuple)):
        _add_leaves(arg, _add_traced, key, operands)
    elif isinstance(arg, (Array, Tracer, np.ndarray)):
        key.append(typeof(arg))
        operands.append(arg)
    else:
        raise NotFlat


def _add_leaves(arg: Any, add: Callable[..., None], key: list[Any], operands: list[Any]) -> None:
    leaves, tree = registry.flatten(arg, None)
    key.append(tree)
    for leaf in leaves:
        add(leaf, key, operands)


def _is_operand(leaf: Any) -> bool:
    """Whether a leaf is an operand in a trace; scalars are not: a trace keeps their values."""
    return leaf is not None and type(leaf) not in _SCALARS


def _is_given(leaf: Any) -> bool:
    return leaf is not None


def _of_operands(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
                 positions: frozenset[int], names: frozenset[str],
                 is_operand: Callable[[Any], bool]) -> Callable[..., Any]:
    """A call as a function of its operands, which are leaves of its arguments."""

    def call(*operands: Any) -> Any:
        given = iter(operands)

        def fill(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                leaves, tree = registry.flatten(arg, None)
                return tree.unflatten(map(fill, leaves))
            return next(given) if is_operand(arg) else arg

        return f(*[a if i in positions else fill(a) for i, a in enumerate(args)],
                 **{k: a if k in names else fill(a) for k, a in kwargs.items()})

    return call


# ---- programs --------------------------------------------------------------------------


def _traced(f: Callable[..., Any], avals: Sequence[Any]) -> tuple[Jaxpr, Any]:
    """The program of a function of values of these types, and its results' tree structure."""
    out_tree: Any = None

    def flat(*values: Any) -> list[Any]:
        nonlocal out_tree
        leaves, out_tree = registry.flatten(f(*values), None)
        return leaves

    return trace_to_jaxpr(flat, avals), out_tree


def _applier(f: Callable[..., Any], name: str, operands: Sequence[Any]
             ) -> Callable[[Sequence[Any]], Any]:
    """A function, traced for operands of these types, that binds in the current interpreter."""
    jaxpr, out_tree = _traced(f, [typeof(o) for o in operands])
    if len(jaxpr.eqns) > _SHORT:
        name = name.lstrip("_")
        run = lambda values: call(jaxpr, name, values)
    else:
        run = _replayer(jaxpr)
    if any(type(v) is Literal or v in jaxpr.invars for v in jaxpr.outvars):
        # A result that is an argument may be NumPy's.
        bare, run = run, lambda values: [array_of(out) for out in bare(values)]
    if is_one_leaf(out_tree):
        return lambda values: run(values)[0]
    return lambda values: out_tree.unflatten(run(values))


def _replayer(jaxpr: Jaxpr) -> Callable[[Sequence[Any]], list[Any]]:
    """Binds the equations anew: their source line is that of the call, not of the trace."""
    read = [*[eqn.invars for eqn in jaxpr.eqns], jaxpr.outvars]
    literals = [v for atoms in read for v in atoms if type(v) is Literal]
    fixed = [*jaxpr.consts, *[v.val for v in literals]]
    # Each value has a place in one list: operands, fixed values, results of each equation.
    defined = [*jaxpr.invars, *jaxpr.constvars, *literals]
    for eqn in jaxpr.eqns:
        defined += eqn.outvars
    place = {id(v): i for i, v in enumerate(defined)}
    steps = [(eqn.primitive, [place[id(v)] for v in eqn.invars], eqn.params) for eqn in jaxpr.eqns]
    results = [place[id(v)] for v in jaxpr.outvars]

    def replay(operands: Sequence[Any]) -> list[Any]:
        known = [*operands, *fixed]
        process = thread.interpreter.process
        for primitive, places, params in steps:
            out = process(primitive, tuple([known[i] for i in places]), params)
            if primitive.multiple_results:
                known += out
            else:
                known.append(out)
        return [known[i] for i in results]

    return replay


def compile_for(placements: tuple[Any, ...], f: Callable[..., Any], name: str,
                gives_back: bool = False) -> Runners:
    """A function compiled for arrays with these placements; the runners return the results of `f`.

    Args:
      placements: the operands' placements.
      f: a traceable function of these operands; its result may be any pytree.
      name: the program's name.
      gives_back: whether the result is an operand itself if it equals it.
    """
    jaxpr, out_tree = _traced(f, [p.aval for p in placements])
    if gives_back and len(jaxpr.invars) == 1 and is_one_leaf(out_tree) and (
            jaxpr.outvars == jaxpr.invars):
        return Runners(unshared, None)
    return runners_of(Asked(jaxpr, name, placements), out_tree)
