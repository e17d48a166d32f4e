"""Converts functions of pytrees, which users write, to functions of flat values, which
interpreters run."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.jitted import is_partial
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.pytree import (
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_map,
)
from mjax._engine.ir.types import is_array_value, typeof


class FlatFunction:
    """A function of pytrees as a function of leaves.

    Args:
      f: the user's function.
      in_tree: structure of `(args, kwargs)`.
      has_aux: whether `f` returns a pair whose second part is set aside.
      is_leaf: which parts of the result are leaves, besides those that are anyway.

    Attributes:
      out_tree: structure of the result of `f`; set by the call.
      aux: its second result, with `has_aux`.
    """

    __slots__ = ("aux", "f", "has_aux", "in_tree", "is_leaf", "out_tree")

    def __init__(self, f: Callable[..., Any], in_tree: Any, has_aux: bool = False,
                 is_leaf: Callable[[Any], bool] | None = None):
        self.f = f
        self.is_leaf = is_leaf
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.aux: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = self.in_tree.unflatten(leaves)
        out = self.f(*args, **kwargs)
        if self.has_aux:
            if not (isinstance(out, (tuple, list)) and len(out) == 2):
                raise LazyTypeError(lambda: (
                    f"with has_aux=True the function must return a pair (output, aux), but "
                    f"{function_name(self.f)} returned {type(out).__name__}"
                    + (f" of length {len(out)}." if isinstance(out, (tuple, list)) else ".")))
            out, aux = out
            self.aux = tree_map(thread.interpreter.detach, aux)
        leaves_out, self.out_tree = tree_flatten(out, self.is_leaf)
        return leaves_out


class Chosen(Record):
    """A function of some of its arguments, the others held fixed.

    Attributes:
      function: takes the chosen arguments alone.
      values: the chosen arguments.
      places: their positions.
      single: whether `argnums` was an integer, not a sequence.
    """

    function: Callable[..., Any]
    values: tuple[Any, ...]
    places: list[int]
    single: bool


def argument_numbers(who: str, argnums: Any) -> int | tuple[int, ...]:
    """`argnums` as an int or a tuple of ints.

    Raises:
      TypeError: it is neither an integer nor a sequence of integers.
    """
    try:
        if hasattr(argnums, "__index__"):
            return operator.index(argnums)
        return tuple(map(operator.index, argnums))
    except TypeError:
        msg = f"{who}: argnums must be an integer or a sequence of integers, got {argnums!r}."
        raise TypeError(msg) from None


def choose_arguments(who: str, fun: Callable[..., Any], argnums: int | tuple[int, ...],
                     args: tuple[Any, ...], kwargs: dict[str, Any],
                     error: type[Exception] = ValueError) -> Chosen:
    """Takes the arguments that `argnums` names out of a call.

    Raises:
      error: it names an argument that the call does not have, or has twice.
      ValueError: it is below the number of arguments.
    """
    single = isinstance(argnums, int)
    numbers: Any = (argnums,) if single else argnums
    if not all(-len(args) <= n < len(args) for n in numbers):
        kind = error if all(n >= -len(args) for n in numbers) else ValueError
        raise kind(f"{who}: argnums={argnums} names an argument that {function_name(fun)} was "
                   f"not given: it was called with {len(args)} positional arguments (arguments "
                   "given by keyword are not differentiated).")
    places = [n % len(args) for n in numbers]
    if len(set(places)) < len(places):
        raise error(f"{who}: argnums={argnums} names an argument of {function_name(fun)} twice.")

    def partial_function(*chosen: Any) -> Any:
        complete = list(args)
        for i, value in zip(places, chosen, strict=True):
            complete[i] = value
        return fun(*complete, **kwargs)

    partial_function.__name__ = function_name(fun)
    partial_function.users = fun  # type: ignore[attr-defined]
    return Chosen(partial_function, tuple(args[i] for i in places), places, single)


def function_name(f: Callable[..., Any]) -> str:
    """The name of a function in messages and modules."""
    while is_partial(f):
        f = f.func
    return getattr(f, "__name__", None) or type(f).__name__


def wraps(fun: Callable[..., Any]) -> Callable[[Any], Any]:
    """`functools.wraps` for transformed functions.

    It names callable objects too.
    """

    def decorate(wrapper: Any) -> Any:
        if isinstance(getattr(fun, "__name__", None), str):
            functools.wraps(fun)(wrapper)
            if not hasattr(fun, "__annotations__"):
                wrapper.__annotations__ = {}  # not the wrapper's own
        else:  # a callable object; some have the attributes of functions, and None in them
            functools.wraps(fun, ("__module__", "__doc__"))(wrapper)
            wrapper.__name__ = wrapper.__qualname__ = function_name(fun)
            wrapper.__annotations__ = {}
        return wrapper

    return decorate


def described(sentence: str, fun: Callable[..., Any]) -> str:
    """The docstring of a transformed function."""
    doc = getattr(fun, "__doc__", None)
    return f"{sentence}\n\nDocumentation of the function:\n\n{doc}" if doc else sentence


def debug_info_of(traced_for: str, f: Callable[..., Any], args: Sequence[Any],
                  kwargs: dict[str, Any], static_argnums: Sequence[int] = (),
                  static_argnames: Sequence[str] = ()) -> DebugInfo:
    """Names of the function and of the leaves of its arguments, for messages."""
    known: DebugInfo | None = getattr(f, "users_info", None)  # that of the user's function
    if known is not None:
        return known
    names, rest = _parameters(f)
    leaves: list[str] = []
    for i, arg in enumerate(args):
        if i not in static_argnums:
            name = names[i] if i < len(names) else f"{rest}[{i - len(names)}]"
            leaves.extend(name + keystr(path) for path, _ in tree_flatten_with_path(arg)[0])
    for key in sorted(kwargs):
        if key not in static_argnames:
            leaves.extend(key + keystr(path) for path, _ in tree_flatten_with_path(kwargs[key])[0])
    return DebugInfo(traced_for, describe_function(f), tuple(leaves))


def _parameters(f: Callable[..., Any]) -> tuple[list[str], str]:
    """Names of the positional parameters of a function, and of its `*args` parameter."""
    if type(f) is FunctionType and not vars(f):  # a wrapper has attributes
        code = f.__code__
        names, n = code.co_varnames, code.co_argcount
        rest = names[n + code.co_kwonlyargcount] if code.co_flags & inspect.CO_VARARGS else "args"
        return list(names[:n]), rest
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [], "args"
    return ([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
            next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args"))


def parameter_name(f: Callable[..., Any], number: int) -> str:
    """The name of a positional argument of a function; `args[1]` where it does not have one."""
    names, rest = _parameters(f)
    return names[number] if number < len(names) else f"{rest}[{number - len(names)}]"


def describe_function(f: Callable[..., Any]) -> str:
    """`name at file:line`."""
    f = getattr(f, "users", f)  # of `choose_arguments`
    inner = inspect.unwrap(f) if callable(f) else f
    while is_partial(inner):
        inner = inner.func
    code = getattr(inner, "__code__", None)
    where = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
    return f"{function_name(f)}{where}"


def check_callable(who: str, f: Any) -> None:
    """Refuses an argument that is not a function, before it is called.

    Raises:
      TypeError: names the transformation and what it got.
    """
    if not callable(f):
        msg = f"{who} expects a function, got {f!r} of type {type(f).__name__}."
        raise TypeError(msg)


def check_arguments(who: str | Callable[[], str], tree: Any, what: str = "argument") -> None:
    """Refuses leaves that are not arrays, naming them by key path.

    Args:
      who: the function for messages, or a function that gives its name.
      tree: the leaves.
      what: the name of the tree.

    Raises:
      TypeError: a leaf is neither an array nor a number.
    """
    if all(map(is_array_value, tree_leaves(tree))):
        return  # Key paths are slow to make: only messages need them.
    for path, leaf in tree_flatten_with_path(tree)[0]:
        try:
            typeof(leaf)
        except (TypeError, OverflowError) as error:
            name = who() if callable(who) else who
            refuse_leaf(f"{name}: {what}{keystr(path)}", error)


def refuse_leaf(where: str, error: Exception, hint: str = "") -> NoReturn:
    """Raises the error for a leaf that is not an array.

    Args:
      where: the place of the leaf, for the message.
      error: the error of `typeof` for it.
      hint: further advice.
    """
    what, said, instead = str(error).partition(" is not a valid array: ")
    reason = f"{what}. {instead[:1].upper()}{instead[1:]}" if said else what
    raise type(error)(f"{where} is not a valid array: {reason}{hint}") from None


def refuse_operands(name: str, args: Sequence[Any]) -> None:
    """Raises the error for an operand of a primitive that is not an array, if one is not."""
    for i, arg in enumerate(args):
        try:
            typeof(arg)
        except TypeError as error:
            refuse_leaf(f"operand {i} of primitive {name!r}", error)
