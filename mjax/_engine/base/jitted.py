"""The type of functions that `jit` gives."""

from __future__ import annotations

import functools
import inspect
from types import MethodType
from typing import Any, TypeGuard

from mjax._engine.base.folding import boundary


class _Signature:
    """An attribute of the function under `jit`; a non-data descriptor, so users can override it."""

    def __get__(self, function: PjitFunction | None, owner: Any = None) -> inspect.Signature:
        try:
            return inspect.signature(function._fun)  # type: ignore[union-attr]
        except (TypeError, ValueError) as error:
            raise AttributeError(str(error)) from None


class PjitFunction(functools.partial[Any]):
    """A function under `jit`. Calls run no Python code of this class.

    That is the only reason why it is a `functools.partial` of no arguments. Code that looks for
    the partials of users asks `is_partial`.
    """

    __slots__ = ("_jitted",)
    __signature__ = _Signature()
    #: Traces, compiles and runs the function: see `jit`.
    _jitted: Any

    @property
    def _fun(self) -> Any:
        """The user's function."""
        return self._jitted.fun

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        # As for functions: pickles hold the name, and a copy is the function itself.
        return self.__qualname__  # type: ignore[attr-defined]

    @boundary
    def trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """Traces for these arguments, or for `ShapeDtypeStruct`s in their place."""
        return self._jitted.trace(*args, **kwargs)

    @boundary
    def lower(self, /, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers for these arguments, or for `ShapeDtypeStruct`s."""
        return self._jitted.lower(*args, **kwargs)

    @boundary
    def eval_shape(self, /, *args: Any, **kwargs: Any) -> Any:
        """The types of the results for these arguments, without computing them."""
        return self._jitted.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forgets the programs of this function."""
        self._jitted.caches.clear()

    def _cache_size(self) -> int:
        """The number of kinds of calls that have programs."""
        return len(self._jitted.caches.calls)


def is_partial(f: Any) -> TypeGuard[functools.partial[Any]]:
    """True for a `functools.partial` that users made."""
    return isinstance(f, functools.partial) and type(f) is not PjitFunction


__all__ = ["PjitFunction", "is_partial"]
