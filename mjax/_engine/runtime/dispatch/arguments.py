"""The options of `jit` applied to a call: static and donated arguments, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.util import exact
from mjax._engine.control.calls.static_arguments import Parameters
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import registry, tree_structure
from mjax._engine.runtime.arrays.transfer import HostArgument
from mjax._engine.tracing.flat import debug_info_of

_flatten = registry.flatten


class JitOptions(Record):
    """The normalized options of `jit`.

    Negative argument numbers count from the last argument of a call. They remain only for functions
    that take any number of arguments.
    """

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
      leaves: the leaves of the dynamic arguments.
      tree: their structure.
      static: the static arguments, as `(position or name, value)`.
      static_key: their form in cache keys.
    """

    leaves: list[Any]
    tree: Any
    static: tuple[tuple[int | str, Any], ...] = ()
    static_key: tuple[Any, ...] = ()

    def given(self) -> Any:
        """The dynamic arguments `(args, kwargs)`, with arrays in place of scalars."""
        return self.tree.unflatten([
            leaf.value if type(leaf) is HostArgument else leaf for leaf in self.leaves])


# ---- options ---------------------------------------------------------------------------


def normalize(parameters: Parameters, nums: Any, names: Any, what: str
              ) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Argument numbers and names, each completed from the other by the signature.

    Args:
      parameters: the parameters of the function.
      nums: an int, several, or None.
      names: a name, several, or None.
      what: "static" or "donate".

    Raises:
      TypeError: a number is not an integer, or a name is not a string.
      ValueError: the function has no such argument.
    """
    numbers, words = parameters.numbers(what, nums), parameters.words(what, names)
    positional, unnamed = parameters.positional, parameters.unnamed
    if names is None:
        words = tuple([positional[n] for n in numbers if unnamed <= n < len(positional)])
    elif nums is None:
        numbers = tuple([i for i, name in enumerate(positional) if i >= unnamed and name in words])
    return numbers, words


def compiler_options_of(options: Any) -> tuple[tuple[str, Any], ...]:
    """XLA options as sorted pairs that make a cache key.

    Raises:
      TypeError: they are not a dict from names to bools, numbers and strings. Fields of jaxlib's
        own options may be sequences of these.
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


def take_apart(parameters: Parameters, options: JitOptions, args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> JitCall:
    """Separates static arguments and flattens the others.

    Raises:
      ValueError: a static argument is not hashable, or a negative number has no argument.
    """
    static: list[tuple[int | str, Any]] = []
    if options.static_argnums or options.static_argnames:
        places = parameters.places("static", options.static_argnums, len(args))
        static = [(i, parameters.hashable(args[i], f"argument {i}")) for i in places]
        args = tuple([arg for i, arg in enumerate(args) if i not in places])
        words = sorted(k for k in kwargs if k in options.static_argnames)
        static += [(k, parameters.hashable(kwargs[k], f"argument {k!r}")) for k in words]
        kwargs = {k: v for k, v in kwargs.items() if k not in options.static_argnames}
    leaves, tree = _flatten((args, kwargs), None)
    return JitCall(leaves, tree, tuple(static), tuple([(n, exact(v)) for n, v in static]))


def names_of(f: Callable[..., Any], call: JitCall, traced_for: str = "jit") -> DebugInfo:
    """The names of a call's leaves, for messages."""
    args, kwargs = call.given()
    places = {name for name, _ in call.static if isinstance(name, int)}
    given = iter(args)
    # None, which has no leaves, replaces static arguments.
    all_args = [None if i in places else next(given) for i in range(len(args) + len(places))]
    return debug_info_of(traced_for, f, all_args, kwargs)


def donated_leaves(parameters: Parameters, options: JitOptions, call: JitCall) -> tuple[bool, ...]:
    """For each leaf of a call, whether it belongs to a donated argument."""
    if not options.donate_argnums and not options.donate_argnames:
        return (False,) * len(call.leaves)
    args, kwargs = call.given()
    static = {name for name, _ in call.static if isinstance(name, int)}
    count = len(args) + len(static)
    donated = set(parameters.places("donate", options.donate_argnums, count))
    flags: list[bool] = []
    for number, arg in zip([i for i in range(count) if i not in static], args, strict=True):
        flags += [number in donated] * tree_structure(arg).num_leaves
    for key in sorted(kwargs):
        flags += [key in options.donate_argnames] * tree_structure(kwargs[key]).num_leaves
    return tuple(flags)
