"""The dispatcher: from a call to the program that computes it, by as few lookups as possible.

`program_for` looks programs up by settings and placements. Eager primitives begin there.
Functions of trees have short calls before it. A short call takes one lookup, then goes from buffers
to results; the function that users call is here. Its key consists of the placements of the leaves
and the form of the call (see `forms`), or the structure if there is no function for the form. An
unknown call takes the long way, which adds its key here if executing the program is enough.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.config import defaults
from mjax._engine.base.folding import fold
from mjax._engine.base.program_caches import PlainCache, ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN, exact
from mjax._engine.ir.pytree import registry
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.donation import explain_failure
from mjax._engine.runtime.arrays.transfer import SCALARS, from_scalar, own_scalar
from mjax._engine.runtime.dispatch.forms import Keyed, Taker, taker_of
from mjax._engine.runtime.dispatch.host_arguments import is_host_value, with_host_values
from mjax._engine.runtime.dispatch.runners import Runners
from mjax._engine.runtime.effects.pending import PendingArray
from mjax._engine.tracing.evaluate import evaluation

_flatten = registry.flatten
placement_of = operator.attrgetter("_placement")
#: In place of the parts of a function that returns one array.
_NOT_ONE = (None, None, None)
#: The most forms of calls of one function.
_MOST_FORMS = 8

#: Takes any call under evaluation the long way: from its positional and keyword arguments, its key
#: or None, and the arguments of its program.
Evaluated = Callable[[tuple[Any, ...], dict[str, Any], Any, Sequence[Any]], Any]
#: Takes any call under another interpreter, with its positional and keyword arguments.
Staged = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def program_for(known: ProgramCache, what: tuple[Any, ...], placements: tuple[Any, ...],
                compile: Callable[..., Runners], *context: Any) -> Runners:
    """The program for arguments with these placements; compiled if there is none.

    Args:
      known: (settings, placements, *what) -> runners.
      what: identifies the computation.
      placements: those of the arguments.
      compile: makes the runners from the placements and the context.
    """
    key = (thread.settings, placements, *what)
    found = known.get(key)
    return known.put(key, compile(placements, *context)) if found is None else found


class Caches:
    """Known calls of one function under one set of options.

    Attributes:
      short: the key of a call -> its first settings, a function of buffers for these, and the three
        parts of `forms.runner_of` if the result is one array, else None three times;
        `(settings, key)` -> the same for other settings.
      calls: (settings, placements, rest of the key) -> runners.
      traces: (settings, axes, structure, static arguments, types) -> trace.
    """

    __slots__ = ("calls", "short", "traces")

    def __init__(self) -> None:
        self.short = PlainCache()
        self.calls = ProgramCache()
        self.traces = ProgramCache()

    def clear(self) -> None:
        """Forgets everything."""
        for cache in (self.short, self.calls, self.traces):
            cache.clear()


class ShortCalls:
    """The short calls of one function.

    Args:
      numbers, names: positions and names of the arguments that are static.
      known: the function's `Caches.short`.
      donated: positions and names of the arguments that are donated. Their scalars are arrays of
        their own; all others may share one with equal scalars.
    """

    __slots__ = ("attempts", "donated", "known", "names", "numbers", "takers")

    def __init__(self, numbers: Collection[int], names: Collection[str], known: PlainCache,
                 donated: Collection[int | str] = ()):
        self.known = known
        self.numbers, self.names = numbers, names
        self.donated = donated
        #: The takers for the forms of earlier calls, and the number of forms still to be added;
        #: None before the first call, which may be the only one.
        self.takers: list[Taker] = [_no_taker]
        self.attempts: int | None = None

    def dispatcher(self, evaluated: Evaluated, staged: Staged) -> Any:
        """The function that calls of users run.

        Args:
          evaluated: takes any call under evaluation the long way.
          staged: takes any call under another interpreter.
        """
        entries, takers, new = self.known.entries, self.takers, object.__new__
        of_other_form, under_others = self.of_other_form, self.under_others
        # The class of arrays, where the first positional argument, or the second one, is never
        # static; else a class that no argument has.
        first: Any
        second: Any
        first, second = (Array if min(self.numbers, default=2) > i else _Nothing for i in range(2))
        host: Any = np.ndarray if first is Array else _Nothing

        # Two parameters of its own cost less than a tuple of arguments.
        def jitted(x: Any = NOT_GIVEN, y: Any = NOT_GIVEN, /, *args: Any, **kwargs: Any) -> Any:
            try:
                # The state of the thread is read once: a read costs as much as the rest of the key.
                mine = thread.__dict__
                if mine["interpreter"] is not evaluation:
                    return staged(_arguments(x, y, args), kwargs)
                key: Any
                values: Sequence[Any]
                # The commonest forms are written out, since every step counts.
                if y is NOT_GIVEN and type(x) is first and not kwargs:
                    key = x._placement
                    values = x._buffer,
                elif not (args or kwargs) and type(x) is second and type(y) is Array:
                    key = x._placement, y._placement
                    values = x._buffer, y._buffer
                elif not kwargs and y is NOT_GIVEN and type(x) is host:
                    key = x.dtype, x.shape
                    values = [x]
                else:
                    taken = takers[0](x, y, args, kwargs)
                    key, values = (of_other_form(x, y, args, kwargs) if taken is None else taken)
                try:
                    settings, run, execute, handlers, placement = entries[key]
                except (KeyError, TypeError):  # TypeError: a static argument is not hashable
                    settings = None
                if settings is (mine["settings"] if "settings" in mine  # noqa: SIM401
                                else defaults.settings):
                    if execute is None:
                        return run(values)
                    # The same as `run`, without a Python call.
                    try:
                        buffer, = execute(values).consume_with_handlers(handlers)
                    except Exception as error:
                        explain_failure(error, run.names, values)
                        raise
                    result = new(Array)
                    result._buffer = buffer
                    result._placement = placement
                    return result
                run = under_others(key) if settings is not None else None
                return (evaluated(_arguments(x, y, args), kwargs, key, values) if run is None
                        else run(values))
            except Exception as error:
                fold(error)
                raise

        return jitted

    def under_others(self, key: Any) -> Callable[..., Any] | None:
        """The entry of a call under settings other than those of its first entry."""
        found = self.known.entries.get((thread.settings, key))
        return found and found[1]

    def of_other_form(self, x: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
                      ) -> Keyed | tuple[None, Sequence[Any]]:
        """The key of a call that does not have the first form, and the arguments of its program;
        `(None, ())` for calls that are not short."""
        for take in self.takers[1:]:
            taken = take(x, y, args, kwargs)
            if taken is not None:
                return taken
        return self.of_new_form(x, y, args, kwargs)

    def of_new_form(self, x: Any, y: Any, others: tuple[Any, ...], kwargs: dict[str, Any]
                    ) -> Keyed | tuple[None, Sequence[Any]]:
        """The key of a call of an unknown form, and the arguments of its program; `(None, ())` for
        calls that are not short."""
        args = _arguments(x, y, others)
        count = len(args)
        places = {n + count if n < 0 else n for n in self.numbers if n < count}
        if self.attempts is None:
            self.attempts = _MOST_FORMS
        elif self.attempts > 0:  # threads may count it down together
            donated = {n + count if type(n) is int and n < 0 else n for n in self.donated}
            take = taker_of(args, kwargs, places, self.names, donated)
            if take is None:
                self.attempts -= 1
            elif take not in self.takers:
                self.attempts -= 1
                self.takers.append(take)
                if self.takers[0] is _no_taker:
                    del self.takers[0]
            taken = take(x, y, others, kwargs) if take is not None else None
            if taken is not None:
                return taken
        head: tuple[Any, ...] = ()
        if self.numbers or self.names:
            # Checks are unnecessary: a call with wrong arguments never gets an entry.
            static: list[Any] = [(n, exact(args[n])) for n in sorted(places) if n >= 0]
            static += [(name, exact(kwargs[name])) for name in self.names if name in kwargs]
            head = (tuple(static),)
            args = tuple([arg for i, arg in enumerate(args) if i not in places])
            kwargs = {name: arg for name, arg in kwargs.items() if name not in self.names}
        leaves, tree = _flatten((args, kwargs) if kwargs else args, None)
        # The tree alone does not distinguish the two.
        return _keyed((*head, bool(kwargs), tree), leaves, not self.donated) or (None, ())

    def run(self, key: Any, values: Sequence[Any], program: Runners, arrays: Sequence[Any]) -> Any:
        """The end of the long way: runs a program, and adds an entry if the call can be short.

        Args:
          key, values: the key of the call, or None, and the arguments of its program.
          program: the program.
          arrays: all leaves.
        """
        run, of_buffers = program
        if of_buffers is not None and key is not None:
            self.put(key, values, of_buffers)
        return run(*arrays)

    def put(self, key: Any, values: Sequence[Any], run: Callable[..., Any]) -> None:
        """Adds an entry for a call.

        Args:
          key, values: the key of the call, and the arguments of its program.
          run: computes the results from the buffers of all leaves.
        """
        settings = thread.settings
        first = self.known.entries.get(key)
        parts = getattr(run, "one", _NOT_ONE)
        if any(map(is_host_value, values)):
            run, parts = with_host_values(run, values), _NOT_ONE
        self.known.put(key if first is None or first[0] is settings else (settings, key),
                       (settings, run, *parts))


class _Nothing:
    """A class without objects."""


def _no_taker(x: Any, y: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Knows no form."""


def _arguments(x: Any, y: Any, others: tuple[Any, ...]) -> tuple[Any, ...]:
    """The positional arguments, of which the first two have parameters of their own."""
    if y is not NOT_GIVEN:
        return x, y, *others
    return others if x is NOT_GIVEN else (x,)


def _keyed(head: tuple[Any, ...], leaves: Sequence[Any], shared: bool) -> Keyed | None:
    """The key `head` followed by these leaves, and their values for a program; None if a leaf is
    not of the commonest classes. Equal scalars may be one array if they are `shared`."""
    try:  # most likely they are all arrays
        return (*head, *[x._placement for x in leaves]), [x._buffer for x in leaves]
    except AttributeError:
        pass
    key, values = [*head], list[Any]()
    for leaf in leaves:
        kind = type(leaf)
        if kind is np.ndarray:
            key += leaf.dtype, leaf.shape
            values.append(leaf)
            continue
        if kind in SCALARS:
            try:
                leaf = (from_scalar if shared else own_scalar)(leaf)
            except OverflowError:  # an int that may fit another dtype than the default
                return None
        elif kind is not Array and kind is not PendingArray:
            return None
        key.append(leaf._placement)
        values.append(leaf._buffer)
    return tuple(key), values
