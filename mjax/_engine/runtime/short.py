"""Short calls of jitted functions: one lookup, then from buffers to results.

The functions that users call are here, with static arguments and without. The placements of the
leaves stand for a call; where all arguments are arrays, nothing is flattened. A call that is not
known goes the long way, which makes it known here if its program takes nothing but executing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.folding import fold
from mjax._engine.base.programs import ProgramCache
from mjax._engine.base.util import EXACT, exact
from mjax._engine.ir.pytree import registry
from mjax._engine.runtime.arguments import Options
from mjax._engine.runtime.array import Array
from mjax._engine.runtime.transfer import SCALARS, from_scalar, host
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import wraps

_flatten = registry.flatten
_placement_of = operator.attrgetter("_placement")
_buffer_of = operator.attrgetter("_buffer")
#: Of a call that is not known; no settings are this.
_UNKNOWN: Any = (object(), None)

Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Keyed = tuple[tuple[Any, ...] | None, Sequence[Any]]


class ShortCalls:
    """The short calls of one function.

    Args:
      options: what `jit` was asked for.
      known: key -> settings, and a function of buffers under these.
    """

    __slots__ = ("known", "nested", "only", "options", "shared", "static")

    def __init__(self, options: Options, known: ProgramCache):
        self.options = options
        self.known = known
        numbers, names = options.static_argnums, options.static_argnames
        self.static = bool(numbers or names)
        #: The only number and the only name of a static argument, or None.
        self.only: tuple[Any, Any] = (
            numbers[0] if len(numbers) == 1 else None, names[0] if len(names) == 1 else None)
        #: Whether arrays made of equal scalars may be one; not where they are donated.
        self.shared = not (options.donate_argnums or options.donate_argnames)
        #: Whether an argument was ever a tree: then all calls are flattened.
        self.nested = False

    def dispatcher(self, fun: Callable[..., Any], call: Call) -> Any:
        """The function that users call.

        Args:
          fun: the function under `jit`.
          call: takes any call the long way.
        """
        if not self.static:
            return self._without_static(fun, call)
        return self._with_static(fun, call)

    def _without_static(self, fun: Callable[..., Any], call: Call) -> Any:
        known, key_of = self.known, self.key_of

        @wraps(fun)
        def jitted(*args: Any, **kwargs: Any) -> Any:
            try:
                if ctx.interpreter is evaluation:
                    count = len(args)
                    key: Any = None
                    values: Sequence[Any]
                    # Spelled out, since every step counts: arrays, one of them by name at most.
                    if kwargs:
                        if count == len(kwargs) == 1:
                            (x,), ((name, y),) = args, kwargs.items()
                            if type(x) is Array is type(y):
                                key, values = (name, x._placement, y._placement), (
                                    x._buffer, y._buffer)
                    elif count == 1:
                        x, = args
                        if type(x) is Array:
                            key, values = x._placement, (x._buffer,)
                        elif type(x) is np.ndarray:
                            key, values = (x.dtype, x.shape), args
                    elif count == 2:
                        x, y = args
                        if type(x) is Array is type(y):
                            key, values = (x._placement, y._placement), (x._buffer, y._buffer)
                    elif count == 3:
                        x, y, z = args
                        if type(x) is Array is type(y) and type(z) is Array:
                            key, values = (x._placement, y._placement, z._placement), (
                                x._buffer, y._buffer, z._buffer)
                    if key is None:
                        key, values = key_of((), args, kwargs)
                    settings, run = known.get(key, _UNKNOWN)
                    if settings is ctx.settings:
                        return run(values)
                return call(args, kwargs)
            except Exception as error:
                fold(error)
                raise

        return jitted

    def _with_static(self, fun: Callable[..., Any], call: Call) -> Any:
        known, key_of, split, after_array = self.known, self.key_of, self.split, self.after_array

        @wraps(fun)
        def jitted(*args: Any, **kwargs: Any) -> Any:
            try:
                if ctx.interpreter is evaluation:
                    key: Any = after_array(args, kwargs)
                    if key is not None:
                        settings, run = known.get(key, _UNKNOWN)
                        if settings is ctx.settings:
                            return run((args[0]._buffer,))
                    else:
                        key, values = key_of(*split(args, kwargs))
                        try:
                            settings, run = known.get(key, _UNKNOWN)
                        except TypeError:  # one is not hashable
                            settings = None
                        if settings is ctx.settings:
                            return run(values)
                return call(args, kwargs)
            except Exception as error:
                fold(error)
                raise

        return jitted

    def after_array(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The key of the commonest calls with static arguments: an array, and the only one that is
        static, a word or a number; None for others."""
        number, name = self.only
        if kwargs:
            value = kwargs.get(name, self) if len(kwargs) == len(args) == 1 else self
        else:
            # The number and the name may be those of two arguments: the key says which it is.
            name = None
            value = args[1] if number == 1 and len(args) == 2 else self
        if type(value) in EXACT and type(args[0]) is Array:
            return name, type(value), value, args[0]._placement
        return None

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]
              ) -> tuple[tuple[Any, ...], tuple[Any, ...], dict[str, Any]]:
        """The key of the static arguments of a call, and the other arguments. Nothing is checked: a
        call with wrong arguments was never made known."""
        count = len(args)
        places = {n + count if n < 0 else n for n in self.options.static_argnums if n < count}
        words = [name for name in self.options.static_argnames if name in kwargs]
        static: list[Any] = [(n, exact(args[n])) for n in sorted(places) if n >= 0]
        static += [(name, exact(kwargs[name])) for name in words]
        if places:
            args = tuple([arg for i, arg in enumerate(args) if i not in places])
        if words:
            kwargs = {name: arg for name, arg in kwargs.items() if name not in words}
        return (tuple(static),), args, kwargs

    def key_of(self, head: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Keyed:
        """The key of a call, and what its program takes: buffers, and NumPy arrays as they are;
        `(None, ())` for calls that are not short.

        It is the static arguments, the names of others or, where these are trees, their structure,
        and the placements of the leaves.

        Args:
          head: what it begins with.
          args, kwargs: the arguments that are not static.
        """
        leaves: Sequence[Any] = args
        if self.nested:
            if kwargs:
                leaves, tree = _flatten((args, kwargs), None)
                head = (*head, "named", tree)
            else:
                leaves, tree = _flatten(args, None)
                head = (*head, tree)
            try:
                return (*head, *map(_placement_of, leaves)), (*map(_buffer_of, leaves),)
            except AttributeError:
                return self._key_with_foreign(head, leaves) or (None, ())
        if kwargs:
            names = tuple(kwargs) if len(kwargs) == 1 else tuple(sorted(kwargs))
            leaves = (*args, *map(kwargs.__getitem__, names))
            head = (*head, names)
        for leaf in leaves:
            if type(leaf) is not Array:
                break
        else:
            return (*head, *map(_placement_of, leaves)), (*map(_buffer_of, leaves),)
        found = self._key_with_foreign(head, leaves)
        if found is None:
            self.nested = True  # most likely a tree
        return found or (None, ())

    def _key_with_foreign(self, head: tuple[Any, ...], leaves: Sequence[Any]) -> Keyed | None:
        """The same where a leaf is not an `Array`; None if one is not of the commonest classes."""
        key, values = [*head], list[Any]()
        for leaf in leaves:
            kind = type(leaf)
            if kind is np.ndarray:
                key += leaf.dtype, leaf.shape
                values.append(leaf)
                continue
            if kind is not Array:
                if kind not in SCALARS or not self.shared:
                    return None
                leaf = from_scalar(leaf)
            key.append(leaf._placement)
            values.append(leaf._buffer)
        return tuple(key), values

    def put(self, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[..., Any]) -> None:
        """Makes a call known.

        Args:
          args, kwargs: its arguments.
          run: gives the results from the buffers of all leaves.
        """
        taken = self.split(args, kwargs) if self.static else ((), args, kwargs)
        key, values = self.key_of(*taken)
        if key is None:
            return
        known = (ctx.settings, _with_hosted(run, values))
        self.known.put(key, known)
        # The keys that the functions above spell out.
        if self.static:
            key = self.after_array(args, kwargs)
            if key is not None:
                self.known.put(key, known)
        elif len(args) == 1 and not kwargs and type(args[0]) is np.ndarray:
            self.known.put((args[0].dtype, args[0].shape), known)
        elif {*map(type, args)} == {Array}:
            placements = tuple(map(_placement_of, args))
            if not kwargs:
                self.known.put(placements if len(args) > 1 else placements[0], known)
            elif len(args) == len(kwargs) == 1 and type((*kwargs.values(),)[0]) is Array:
                self.known.put((*kwargs, *placements, *map(_placement_of, kwargs.values())), known)


def _with_hosted(run: Callable[..., Any], values: Sequence[Any]) -> Callable[..., Any]:
    """A function of buffers, and of NumPy arrays where these values have them."""
    puts = [(i, host(value)[0]) for i, value in enumerate(values) if type(value) is np.ndarray]
    if not puts:
        return run
    (first, put_first), *others = puts
    if len(values) == 1:
        return lambda values: run((put_first(values[0]),))

    def hosting(values: list[Any]) -> Any:
        # The list is the call's own: see `_key_with_foreign`.
        values[first] = put_first(values[first])
        for i, put in others:
            values[i] = put(values[i])
        return run(values)

    return hosting
