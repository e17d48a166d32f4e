"""What `jit` is asked for, and calls taken apart by it: static arguments, donated ones, names."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.util import exact
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import registry, tree_structure
from mjax._engine.runtime.arrays.transfer import HostArgument
from mjax._engine.tracing.flat import debug_info_of, function_name

_flatten = registry.flatten


class JitOptions(Record):
    """What `jit` was asked for, normalized. Argument numbers below zero count from the last
    argument of a call; only functions that take any number of them have such."""

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    device: Any = None
    compiler_options: tuple[tuple[str, Any], ...] = ()
    in_shardings: Any = None
    out_shardings: Any = None


class JitCall(Record):
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

    def given(self) -> Any:
        """The dynamic arguments as the user gave them, but scalars are arrays: `(args, kwargs)`."""
        return self.tree.unflatten([
            leaf.value if type(leaf) is HostArgument else leaf for leaf in self.leaves])


# ---- options ---------------------------------------------------------------------------


def normalize(f: Callable[..., Any], nums: Any, names: Any, what: str
              ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Argument numbers and names, each completed from the other by the signature.

    Args:
      f: the function.
      nums: an int, several, or None.
      names: a name, several, or None.
      what: "static" or "donate".

    Raises:
      ValueError: `f` has no such argument.
    """
    numbers, words = _as_tuple(nums, int), _as_tuple(names, str)
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return numbers, words
    positional = [p for p in parameters
                  if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if not variadic:
        numbers = tuple(n + len(positional) if -len(positional) <= n < 0 else n for n in numbers)
    _refuse_unknown(f, parameters, () if variadic else numbers, words, what, len(positional))
    by_keyword = [p.name if p.kind is p.POSITIONAL_OR_KEYWORD else None for p in positional]
    if names is None:
        words = tuple(by_keyword[n] for n in numbers
                      if 0 <= n < len(by_keyword) and by_keyword[n])
    elif nums is None:
        numbers = tuple(i for i, name in enumerate(by_keyword) if name in words)
    return numbers, words


def _as_tuple(value: Any, kind: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, kind) or not isinstance(value, (tuple, list, set, frozenset, range)):
        return (value,) if kind is str else (operator.index(value),)
    return tuple(value) if kind is str else tuple(map(operator.index, value))


def _refuse_unknown(f: Callable[..., Any], parameters: Sequence[inspect.Parameter],
                    numbers: Iterable[int], words: Iterable[str], what: str, count: int) -> None:
    for n in numbers:
        if not 0 <= n < count:
            msg = (f"jit: {what}_argnums has {n}, but {function_name(f)} takes {count} positional "
                   "arguments.")
            raise ValueError(msg)
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    known = {p.name for p in parameters
             if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for name in words:
        if name not in known:
            msg = (f"jit: {what}_argnames has {name!r}, which is not an argument of "
                   f"{function_name(f)} that is given by name.")
            raise ValueError(msg)


def compiler_options_of(options: Any) -> tuple[tuple[str, Any], ...]:
    """XLA options as sorted pairs that make a cache key.

    Raises:
      TypeError: they are not a dict from names to bools, numbers and strings, or for fields of
        jaxlib's own options to sequences of these.
    """
    if options is None:
        return ()
    if not isinstance(options, dict):
        msg = (f"compiler_options must be a dict from names to values, got {options!r} of type "
               f"{type(options).__name__}.")
        raise TypeError(msg)
    return tuple(sorted((_option_name(name), _option_value(name, value))
                        for name, value in options.items()))


def _option_name(name: Any) -> str:
    if isinstance(name, str):
        return name
    msg = f"compiler_options: the name {name!r} is not a string but a {type(name).__name__}."
    raise TypeError(msg)


def _option_value(name: str, value: Any) -> Any:
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and not name.startswith("xla_"):
        return tuple(_option_value(name, item) for item in value)
    msg = (f"compiler_options: the value of {name!r} is {value!r} of type {type(value).__name__}; "
           "XLA's options take bools, ints, floats and strings.")
    raise TypeError(msg)


# ---- calls -----------------------------------------------------------------------------


def take_apart(f: Callable[..., Any], options: JitOptions, args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> JitCall:
    """Separates static arguments and flattens the others.

    Raises:
      ValueError: a static argument is not hashable, or a negative number has no argument.
    """
    static: list[tuple[int | str, Any]] = []
    if options.static_argnums or options.static_argnames:
        places = _places(f, options.static_argnums, len(args), "static")
        static = [(i, _hashable(f, args[i], f"argument {i}")) for i in places]
        args = tuple([arg for i, arg in enumerate(args) if i not in places])
        words = sorted(k for k in kwargs if k in options.static_argnames)
        static += [(k, _hashable(f, kwargs[k], f"argument {k!r}")) for k in words]
        kwargs = {k: v for k, v in kwargs.items() if k not in options.static_argnames}
    leaves, tree = _flatten((args, kwargs), None)
    return JitCall(leaves, tree, tuple(static), tuple([(n, exact(v)) for n, v in static]))


def _places(f: Callable[..., Any], numbers: Iterable[int], count: int, what: str) -> list[int]:
    """The positions that argument numbers mean in a call with `count` positional arguments."""
    for n in numbers:
        if n < -count:
            msg = (f"jit: {what}_argnums has {n}, but {function_name(f)} was called with {count} "
                   "positional arguments.")
            raise ValueError(msg)
    return sorted({n + count if n < 0 else n for n in numbers if n < count})


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


def with_static(f: Callable[..., Any], static: Sequence[tuple[int | str, Any]]
                ) -> Callable[..., Any]:
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


def names_of(f: Callable[..., Any], call: JitCall, traced_for: str = "jit") -> DebugInfo:
    """The names of a call's leaves, for messages."""
    args, kwargs = call.given()
    places = {name for name, _ in call.static if isinstance(name, int)}
    given = iter(args)
    # None, which has no leaves, in the places of static arguments.
    all_args = [None if i in places else next(given) for i in range(len(args) + len(places))]
    return debug_info_of(traced_for, f, all_args, kwargs)


def donated_leaves(f: Callable[..., Any], options: JitOptions, call: JitCall) -> tuple[bool, ...]:
    """Which leaves of a call belong to donated arguments."""
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * len(call.leaves)
    args, kwargs = call.given()
    static = {name for name, _ in call.static if isinstance(name, int)}
    count = len(args) + len(static)
    donated = set(_places(f, options.donate_argnums, count, "donate"))
    flags: list[bool] = []
    for number, arg in zip([i for i in range(count) if i not in static], args, strict=True):
        flags += [number in donated] * tree_structure(arg).num_leaves
    for key in sorted(kwargs):
        flags += [key in options.donate_argnames] * tree_structure(kwargs[key]).num_leaves
    return tuple(flags)
