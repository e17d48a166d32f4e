"""Small helpers that need nothing else of the engine."""

from __future__ import annotations

import enum
import functools
import importlib
import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from mjax._engine.base.errors import LazyArgumentError, LazyAxisError, LazyValueError

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


class _NotGiven:
    """The default of parameters for which None is a value of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()


class Keyed:
    """Base of values of one class that are equal where their `_key()` is."""

    __slots__ = ()

    def _key(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and bool(self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


def alias(f: F, name: str, module: str | None = None) -> F:
    """The same function under a second public name, which is its `__name__`.

    Args:
      f: a function.
      name: the name under which it is found, also in tracebacks and pickles.
      module: the module that has this name; that of `f` if not given.
    """
    plain = cast(FunctionType, f)
    twin = FunctionType(plain.__code__, plain.__globals__, name, plain.__defaults__,
                        plain.__closure__)
    twin.__kwdefaults__ = plain.__kwdefaults__
    functools.update_wrapper(twin, plain)
    twin.__name__ = twin.__qualname__ = name
    twin.__module__ = module or plain.__module__
    return cast(F, twin)


def split_list(values: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Cuts `values` into pieces of the given sizes and one of the rest.

    Args:
      values: the values.
      sizes: the sizes of the first pieces.

    Returns:
      A list of lists, one more than `sizes` has entries.

    Raises:
      TypeError: `values` is not a sequence, or `sizes` does not hold integers.

    Example:
      >>> split_list([1, 2, 3, 4], [1, 2])
      [[1], [2, 3], [4]]
    """
    pieces, start = [], 0
    for size in sizes:
        pieces.append(list(values[start : start + size]))
        start += size
    pieces.append(list(values[start:]))
    return pieces


def partition_list(which: Sequence[bool], values: Sequence[T]) -> tuple[list[T], list[T]]:
    """The values whose flag is false, and those whose flag is true.

    Args:
      which: a bool for each value.
      values: the values.

    Returns:
      Two lists.

    Raises:
      ValueError: there are more or fewer flags than values.
      TypeError: the flags or the values cannot be iterated over.

    Example:
      >>> partition_list([False, True, False], "abc")
      (['a', 'c'], ['b'])
    """
    falses: list[T] = []
    trues: list[T] = []
    try:
        for flag, value in zip(which, values, strict=True):
            (trues if flag else falses).append(value)
    except ValueError:
        check_count("partition_list", "which", which, values, "value")
        raise
    return falses, trues


def selected(which: Sequence[bool], values: Iterable[T]) -> list[T]:
    """The values whose flag is true."""
    return [value for flag, value in zip(which, values, strict=True) if flag]


def per_item(flags: bool | Sequence[bool], count: int) -> tuple[bool, ...]:
    """One flag per item, from those or from one for all."""
    return (flags,) * count if isinstance(flags, bool) else tuple(flags)


def merge_lists(which: Sequence[bool], falses: Sequence[T], trues: Sequence[T]) -> list[T]:
    """Inverse of `partition_list`.

    Args:
      which: for each place whether its element is in `trues`.
      falses: the elements of the other places, in order.
      trues: the elements of these places, in order.

    Returns:
      A list.

    Raises:
      ValueError: `falses` or `trues` has too few elements, or too many.
      TypeError: an argument cannot be iterated over.

    Example:
      >>> merge_lists([False, True, False], ["a", "c"], ["b"])
      ['a', 'b', 'c']
    """
    false_iter, true_iter = iter(falses), iter(trues)
    try:
        merged = [next(true_iter) if flag else next(false_iter) for flag in which]
    except StopIteration:
        pass
    else:
        if next(false_iter, NOT_GIVEN) is next(true_iter, NOT_GIVEN) is NOT_GIVEN:
            return merged
    flags = list(map(bool, which))
    msg = (f"merge_lists: `which` has {flags.count(False)} false and {flags.count(True)} true "
           f"flags, but there are {len(falses)} `falses` and {len(trues)} `trues`.")
    raise ValueError(msg)


def canonicalize_axis(axis: Any, ndim: int) -> int:
    """`axis` as an int in `[0, ndim)`.

    Raises:
      ValueError: it is out of range.
      TypeError: it is not an integer.
    """
    try:
        index = operator.index(axis)
    except TypeError:
        if getattr(axis, "ndim", 0):
            msg = ("an axis must be an integer, got an array of shape "
                   f"{axis.shape}: where several arrays are meant, pass a list of them.")
            raise LazyArgumentError(msg) from None
        if hasattr(axis, "aval"):
            raise
        hint = (" Over axes with names, those of maps and meshes, go the collectives, as lax.psum."
                if isinstance(axis, str) else "")
        msg = f"an axis must be an integer, got {axis!r} of type {type(axis).__name__}.{hint}"
        raise LazyArgumentError(msg) from None
    if not -ndim <= index < ndim:
        msg = f"axis {index} is out of bounds for an array of dimension {ndim}."
        raise LazyAxisError(msg)
    return index + ndim if index < 0 else index


def unused_name(name: str, taken: set[str]) -> str:
    """The name, or with a number behind it if it is taken; it is taken now."""
    candidate, n = name, 0
    while candidate in taken:
        n += 1
        candidate = f"{name}_{n}"
    taken.add(candidate)
    return candidate


def counted(count: int, noun: str) -> str:
    """A number of things, for messages.

    Example:
      >>> counted(1, "entry"), counted(2, "entry"), counted(0, "result")
      ('1 entry', '2 entries', '0 results')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"


def check_count(who: str, name: str, given: Sequence[Any], items: Sequence[Any], what: str
                ) -> None:
    """Refuses a sequence that does not have an entry per item.

    Args:
      who: the function, for messages.
      name: the name of its argument.
      given: the argument.
      items: what the entries are about.
      what: the name of one in messages.

    Raises:
      ValueError: there are more or fewer.
    """
    if len(given) != len(items):
        msg = (f"{who}: {name} has {counted(len(given), 'entry')} for "
               f"{counted(len(items), what)}; give one for each.")
        raise ValueError(msg)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of some names that a misspelled one may stand for; None if none is close."""
    # Imported here: otherwise every import of mjax would pay for it.
    found = importlib.import_module("difflib").get_close_matches(name, list(names), 1)
    return found[0] if found else None


def listed(x: Any) -> tuple[Any, ...]:
    """The contents of an argument that is one thing or a sequence of them, arrays included."""
    if type(x) is int:
        return (x,)
    if not isinstance(x, (tuple, list)):
        if hasattr(x, "ndim"):
            return tuple(x) if x.ndim else (x,)
        if isinstance(x, str) or not (hasattr(x, "__iter__") or hasattr(x, "__getitem__")):
            return (x,)
    return tuple(x)


def canonicalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis` (None, an int or a sequence) as distinct non-negative ints in the given order."""
    if axis is None:
        return tuple(range(ndim))
    result = tuple(canonicalize_axis(a, ndim) for a in listed(axis))
    if len(set(result)) != len(result):
        raise LazyArgumentError(lambda: f"duplicate value in axis: {axis}.")
    return result


#: Types whose equal values are interchangeable.
EXACT = frozenset({type(None), bool, int, str})


def check_order(order: Sequence[int], ndim: int, who: str, given: Any) -> None:
    """Refuses orders of an array's axes that do not name each axis once.

    Args:
      order: the axes.
      ndim: how many the array has.
      who: the call, for messages.
      given: the order as the user gave it.

    Raises:
      ValueError: the order does not.
    """
    if sorted(order) != list(range(ndim)):
        raise LazyValueError(lambda: (
            f"{who}: {given} does not name each of the {ndim} axes of the array once."))


def exact(value: Any) -> Any:
    """The form of a value in a cache key: equal only for values that are interchangeable.

    Python's equality ignores the type of a number and the sign of a zero (`True == 1`,
    `0.0 == -0.0`), and a NaN does not equal itself. Numbers in tuples and frozensets are told
    apart too. Values that are not hashable are returned as they are.

    Example:
      >>> exact(1.0) == exact(1), exact((0.0,)) == exact((-0.0,)), exact(np.nan) == exact(-np.nan)
      (False, False, True)
    """
    kind = type(value)
    if kind in EXACT:
        return kind, value
    if isinstance(value, tuple):
        kinds = tuple(map(type, value))
        if kind is tuple and EXACT.issuperset(kinds):
            return kinds, value
        return kind, *map(exact, value)
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if isinstance(value, (float, complex)):
        return kind, repr(complex(value))
    if kind is frozenset:
        return kind, frozenset(map(exact, value))
    return kind, value


class BoundedCache(dict[Hashable, Any]):
    """A dict that forgets its older half when it is full.

    Lookups are those of `dict`, at C speed; `put` inserts. The half that was inserted first is
    forgotten. A program that overflows a cache of thousands of entries rebuilds those it still
    uses; the hot path pays nothing.
    """

    __slots__ = ("maxsize",)
    maxsize: int

    def __init__(self, maxsize: int = 4096):
        super().__init__()
        self.maxsize = maxsize

    def put(self, key: Hashable, value: T) -> T:
        """Stores and returns `value`."""
        if len(self) >= self.maxsize and key not in self:
            forget_older_half(self)
        self[key] = value
        return value


def forget_older_half(cache: dict[Any, Any]) -> None:
    """Removes the half of the entries that was inserted first."""
    for old in list(cache)[: (len(cache) + 1) // 2]:
        cache.pop(old, None)


def pickled_as(name: str) -> Callable[[F], F]:
    """Decorator of functions that pickles call: they are found as `mjax._pickles.name`."""

    def rename(f: F) -> F:
        f.__module__, f.__name__, f.__qualname__ = "mjax._pickles", name, name
        return f

    return rename


def pickled_by(name: str, *fields: str) -> Callable[[C], C]:
    """Decorator of public classes of values: pickles find them as `mjax._pickles.name`, a function
    of the name of an enum's member, or of a value's fields.

    Args:
      name: that of the function.
      fields: attributes that are the arguments of the class; of records all of them.
    """

    def decorate(cls: C) -> C:
        kind: Any = cls
        is_enum = issubclass(cls, enum.Enum)

        @pickled_as(name)
        def made(*parts: Any) -> Any:
            return kind[parts[0]] if is_enum else kind(*parts)

        names = ("name",) if is_enum else fields or kind._fields
        kind.__reduce_ex__ = lambda self, protocol: (
            (made if type(self) is cls else type(self)),
            tuple([getattr(self, field) for field in names]))
        kind._from_pickle = made
        return cls

    return decorate


def from_pickle(cls: Any) -> Callable[..., Any]:
    """The function by which pickles find a class that `pickled_by` has decorated."""
    made: Callable[..., Any] = vars(cls)["_from_pickle"]
    return made
