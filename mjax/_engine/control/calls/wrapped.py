"""Functions of flat values with transformations around them, and results beside their results.

JAX's `linear_util`. A transformation is a function `(f, *static, *args, **kwargs) -> results`
around the function `f`; one with a further result also gets a store for it. Static arguments are
hashable, so equal wrapped functions find each other's results (`cache`).

`call_primitive.CallPrimitive` and the primitives of functions with rules take these as operands.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.folding import boundary
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.closures import MadeOfFunctions
from mjax._engine.ir.jaxpr import DebugInfo
from mjax._engine.ir.types import AbstractValue
from mjax._engine.tracing.flat import check_callable, debug_info_of, function_name


class StoreException(Exception):
    """A store was read before it was filled, or filled twice.

    Raised by the second result of `transformation_with_aux` and by `merge_linear_aux`.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation_with_aux
      ... def counted(*args):
      ...     outs = yield args, {}
      ...     yield outs, len(outs)
      >>> _, count = counted(lu.wrap_init(lambda x: [x, x]))
      >>> try:
      ...     count()
      ... except lu.StoreException:
      ...     print("it has not run yet")
      it has not run yet

    Source: JAX, `jax.linear_util.StoreException`.
    """


_EMPTY: Any = object()


class Store:
    """A place for one value, which is filled once."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = _EMPTY

    def __bool__(self) -> bool:
        return self._value is not _EMPTY

    @property
    def val(self) -> Any:
        """The value."""
        if not self:
            raise StoreException("Store empty: the function that fills it has not run yet.")
        return self._value

    def store(self, val: Any) -> None:
        """Fills it."""
        if self:
            self._again(val)
        self._value = val

    def reset(self) -> None:
        """Empties it, before the function runs again."""
        self._value = _EMPTY

    def _again(self, val: Any) -> None:
        raise StoreException("Store occupied: the function that fills it runs a second time.")


class EqualStore(Store):
    """A store that also takes values equal to the first."""

    __slots__ = ()

    def _again(self, val: Any) -> None:
        if not self._value == val:
            raise StoreException(
                f"Store occupied: the function that fills it gave {self._value!r} before and "
                f"{val!r} now.")


class WrappedFun(MadeOfFunctions):
    """A function with transformations around it, of flat values. `wrap_init` makes one.

    Two are equal if they do the same: functions, transformations, their static arguments, params,
    input type and debug info are.

    Attributes:
      f: the function inside.
      f_transformed: the function with the transformations.
      transforms: pairs of a transformation and its static arguments, the outermost first.
      stores: for each transformation the store of its further result, or None.
      params: keyword arguments of `f`, as sorted pairs.
      in_type: types of the operands, if `annotate` gave them.
      debug_info: names for messages.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation2
      ... def negated(f, *args):
      ...   return [lax.neg(y) for y in f(*args)]
      >>> info = mjax.api_util.debug_info("example", lax.sin, (1.0,), {})
      >>> fun = negated(lu.wrap_init(lambda x: [lax.exp(x)], debug_info=info))
      >>> [float(y) for y in fun.call_wrapped(0.0)]
      [-1.0]
    """

    __slots__ = ("debug_info", "f", "f_transformed", "in_type", "params", "stores", "transforms")
    f: Callable[..., Any]
    f_transformed: Callable[..., Any]
    transforms: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...]
    stores: tuple[Store | None, ...]
    params: tuple[tuple[str, Any], ...]
    in_type: tuple[Any, ...] | None
    debug_info: DebugInfo

    def __init__(self, f: Callable[..., Any], f_transformed: Callable[..., Any],
                 transforms: tuple[tuple[Callable[..., Any], tuple[Any, ...]], ...],
                 stores: tuple[Store | None, ...], params: tuple[tuple[str, Any], ...],
                 in_type: tuple[Any, ...] | None, debug_info: DebugInfo):
        self.f, self.f_transformed = f, f_transformed
        self.transforms, self.stores, self.params = transforms, stores, params
        self.in_type, self.debug_info = in_type, debug_info

    @property
    def __name__(self) -> str:
        return function_name(self.f)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with its transformations, under the current interpreter."""
        return self.f_transformed(*args, **kwargs)

    def wrap(self, gen: Callable[..., Any], gen_static_args: tuple[Any, ...],
             out_store: Store | None) -> WrappedFun:
        """The function with one more transformation around it.

        Args:
          gen: the transformation.
          gen_static_args: its static arguments.
          out_store: the store of its further result, which it takes after the function; or None.
        """
        more = gen_static_args if out_store is None else (out_store, *gen_static_args)
        return WrappedFun(
            self.f, functools.partial(gen, self.f_transformed, *more),
            ((gen, gen_static_args), *self.transforms), (out_store, *self.stores), self.params,
            None, self.debug_info)

    def populate_stores(self, stores: Sequence[Store | None]) -> None:
        """Fills its stores from those of an equal function, which has run."""
        for own, other in zip(self.stores, stores, strict=True):
            if own is not None and other is not None:
                own.store(other.val)

    def replace_debug_info(self, debug_info: DebugInfo) -> WrappedFun:
        """The same function with other names for messages."""
        return WrappedFun(self.f, self.f_transformed, self.transforms, self.stores, self.params,
                          self.in_type, debug_info)

    def with_unknown_names(self) -> WrappedFun:
        """The same function without names of arguments and results, after these changed."""
        return self.replace_debug_info(self.debug_info.with_unknown_names())

    def functions(self) -> Iterable[Any]:
        """The function and what the transformations are given, to look for traced values."""
        return self.f, *(x for _, static in self.transforms for x in static)

    def _key(self) -> tuple[Any, ...]:
        return self.f, self.transforms, self.params, self.in_type, self.debug_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        names = [function_name(gen) for gen, _ in self.transforms]
        return f"WrappedFun({' of '.join([*names, self.__name__])})"


@boundary
def wrap_init(f: Callable[..., Any], params: dict[str, Any] | None = None, *,
              debug_info: DebugInfo | None = None) -> WrappedFun:
    """Wraps a function, so that transformations can be put around it.

    Args:
      f: a function of flat values.
      params: keyword arguments of each call; hashable.
      debug_info: names for messages (`mjax.api_util.debug_info`); by default those of `f`.

    Returns:
      A `WrappedFun`.

    Raises:
      TypeError: `f` is not a function.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> fun = lu.wrap_init(lambda x, power: [x ** power], {"power": 2})
      >>> fun.call_wrapped(3.0)
      [9.0]

    Source: JAX, `jax.extend.linear_util.wrap_init`.
    """
    check_callable("wrap_init", f)
    info = debug_info or debug_info_of("wrap_init", f, (), {})._replace(arg_names=None)
    return WrappedFun(f, functools.partial(f, **(params or {})), (), (),
                      tuple(sorted((params or {}).items())), None, info._replace(result_paths=None))


@boundary
def transformation2(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """Makes `gen(f, *static, *args, **kwargs) -> results` a transformation of wrapped functions.

    Args:
      gen: calls `f`; its first arguments after `f` are the static ones.

    Returns:
      A function `(fun, *static) -> WrappedFun`.

    Raises:
      TypeError: `gen` is not a function; at calls: `fun` is not a `WrappedFun`.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation2
      ... def scaled(f, factor, *args):
      ...   return [factor * y for y in f(*args)]
      >>> scaled(lu.wrap_init(lambda x: [x + 1]), 10).call_wrapped(2)
      [30]

    Source: JAX, `jax.extend.linear_util.transformation2`.
    """
    check_callable("transformation2", gen)
    return functools.partial(_add, gen)


def _add(gen: Callable[..., Any], fun: WrappedFun, *static: Any) -> WrappedFun:
    _check(gen, fun)
    return fun.wrap(gen, static, None)


@boundary
def transformation_with_aux2(gen: Callable[..., Any]
                             ) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """Makes `gen(f, store, *static, *args, **kwargs) -> results` a transformation with a further
    result, which it hands to `store.store`.

    Args:
      gen: calls `f`, and fills the store.

    Returns:
      A function `(fun, *static, use_eq_store=False) -> WrappedFun, further`, where `further()`
      gives the further result once the function has run. `use_eq_store`: whether the function may
      run again if it gives an equal one.

    Raises:
      TypeError: `gen` is not a function; at calls: `fun` is not a `WrappedFun`.
      StoreException: by `further()`, if the function has not run; by its second run.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation_with_aux2
      ... def counted(f, store, *args):
      ...   outs = f(*args)
      ...   store.store(len(outs))
      ...   return outs
      >>> fun, count = counted(lu.wrap_init(lambda x: [x, x]))
      >>> fun.call_wrapped(1), count()
      ([1, 1], 2)

    Source: JAX, `jax.extend.linear_util.transformation_with_aux2`.
    """
    check_callable("transformation_with_aux2", gen)
    return functools.partial(_add_with_aux, gen)


def _add_with_aux(gen: Callable[..., Any], fun: WrappedFun, *static: Any,
                  use_eq_store: bool = False, unk_names: bool = False
                  ) -> tuple[WrappedFun, Callable[[], Any]]:
    _check(gen, fun)
    store = EqualStore() if use_eq_store else Store()
    wrapped = fun.wrap(gen, static, store)
    return wrapped.with_unknown_names() if unk_names else wrapped, lambda: store.val


def _check(gen: Callable[..., Any], fun: Any) -> None:
    if not isinstance(fun, WrappedFun):
        msg = (f"{function_name(gen)} transforms a WrappedFun, got {fun!r} of type "
               f"{type(fun).__name__}. Wrap a function with linear_util.wrap_init.")
        raise TypeError(msg)


@boundary
def transformation(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """`transformation2` for generators: `gen(*static, *args, **kwargs)` yields the arguments of
    the function, as `args, kwargs`, gets its results, and yields its own.

    Args:
      gen: a generator function.

    Returns:
      A function `(fun, *static) -> WrappedFun`.

    Raises:
      TypeError: `gen` is not a function; at calls: `fun` is not a `WrappedFun`.
      ValueError: when the function runs: the first `yield` gives a tuple that is not a pair.
      StopIteration: when the function runs: `gen` yields less than twice.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation
      ... def doubled(x):
      ...   outs = yield (2 * x,), {}
      ...   yield outs
      >>> doubled(lu.wrap_init(lambda x: [x + 1])).call_wrapped(3)
      [7]

    Source: JAX, `jax.extend.linear_util.transformation`.
    """
    check_callable("transformation", gen)

    @functools.wraps(gen)
    def around(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return _through(gen(*args, **kwargs), f)

    return functools.partial(_add, around)


@boundary
def transformation_with_aux(gen: Callable[..., Any]
                            ) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    """`transformation_with_aux2` for generators, whose second `yield` is of a pair: the results
    and the further result.

    Args:
      gen: a generator function.

    Returns:
      A function `(fun, *static) -> WrappedFun, further`.

    Raises:
      TypeError: `gen` is not a function; at calls: `fun` is not a `WrappedFun`.
      ValueError: when the function runs: a `yield` gives a tuple that is not a pair.
      StopIteration: when the function runs: `gen` yields less than twice.
      StoreException: by `further()`, if the function has not run; by its second run.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation_with_aux
      ... def first(*args):
      ...   outs = yield args, {}
      ...   yield outs[:1], len(outs)
      >>> fun, count = first(lu.wrap_init(lambda x: [x, -x]))
      >>> fun.call_wrapped(1), count()
      ([1], 2)

    Source: JAX, `jax.extend.linear_util.transformation_with_aux`.
    """
    check_callable("transformation_with_aux", gen)

    @functools.wraps(gen)
    def around(f: Callable[..., Any], store: Store, *args: Any, **kwargs: Any) -> Any:
        outs, aux = _through(gen(*args, **kwargs), f)
        store.store(aux)
        return outs

    return functools.partial(_add_with_aux, around)


def _through(generator: Any, f: Callable[..., Any]) -> Any:
    args, kwargs = next(generator)
    return generator.send(f(*args, **kwargs))


def merge_linear_aux(aux1: Callable[[], Any], aux2: Callable[[], Any]) -> tuple[bool, Any]:
    """The further result of that one of two functions which has run.

    A function and its rule are handed on together, and one of them runs.

    Args:
      aux1: gives the further result of the first.
      aux2: the same of the second.

    Returns:
      Whether the first has run, and the further result.

    Raises:
      StoreException: neither has run, or both have.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.transformation_with_aux2
      ... def noted(f, store, *args):
      ...   store.store("ran")
      ...   return f(*args)
      >>> f, f_ran = noted(lu.wrap_init(lambda x: [x]))
      >>> _, rule_ran = noted(lu.wrap_init(lambda x: [x]))
      >>> f.call_wrapped(1), lu.merge_linear_aux(f_ran, rule_ran)
      ([1], (True, 'ran'))

    Source: JAX, `jax.extend.linear_util.merge_linear_aux`.
    """
    found = [_read(aux) for aux in (aux1, aux2)]
    ran = [i for i, value in enumerate(found) if value is not _EMPTY]
    if len(ran) != 1:
        raise StoreException("both stores occupied" if ran else "neither store occupied")
    return ran == [0], found[ran[0]]


def _read(aux: Callable[[], Any]) -> Any:
    try:
        return aux()
    except StoreException:
        return _EMPTY


def annotate(f: WrappedFun, in_type: tuple[Any, ...] | None) -> WrappedFun:
    """The same function with the types of its operands.

    Args:
      f: a function without them.
      in_type: a tuple of types; None: leaves the function as it is.

    Returns:
      A `WrappedFun`.

    Raises:
      TypeError: it is not a tuple of types, or the function has types already.

    Example:
      >>> from mjax_ext import core, linear_util as lu
      >>> fun = lu.annotate(lu.wrap_init(lax.sin), (core.ShapedArray((), "float32"),))
      >>> fun.in_type
      (ShapedArray(float32[]),)

    Source: JAX, `linear_util.annotate` of release 0.10.2.
    """
    if f.in_type is not None:
        _refuse_type(f"{f!r} has the types {f.in_type} already")
    if in_type is None:
        return f
    if type(in_type) is not tuple or not all(isinstance(a, AbstractValue) for a in in_type):
        _refuse_type(f"in_type must be a tuple of types (core.ShapedArray), got {in_type!r}")
    return WrappedFun(f.f, f.f_transformed, f.transforms, f.stores, f.params, in_type,
                      f.debug_info)


def _refuse_type(reason: str) -> NoReturn:
    msg = f"linear_util.annotate: {reason}."
    raise TypeError(msg)


@boundary
def cache(call: Callable[..., Any], *, explain: Callable[..., Any] | None = None
          ) -> Callable[..., Any]:
    """Keeps the results of a function whose first argument is a `WrappedFun`.

    A call with an equal `WrappedFun`, equal further arguments, settings and named axes in scope
    gives the same result, and fills the stores of the `WrappedFun` as its run did. Results live as
    long as the function inside of it. Replaced rules of primitives make all results forgotten.

    Args:
      call: the function; its further arguments are hashable.
      explain: called after each miss, if `mjax.explain_cache_misses` is on, with the `WrappedFun`,
        whether its function is new to the cache, the cache, the key, and the seconds that `call`
        took.

    Returns:
      The function with results kept. `evict_function(f)` forgets those of one function,
      `cache_clear()` all.

    Raises:
      TypeError: `call` is not a function; at calls: a further argument, or the function inside of
        the `WrappedFun`, is not hashable.
      AttributeError: at calls: the first argument is not a `WrappedFun`.
      StoreException: at calls: a store of the `WrappedFun` was filled before.

    Example:
      >>> from mjax_ext import linear_util as lu
      >>> @lu.cache
      ... def run(fun, x):
      ...   print("runs")
      ...   return fun.call_wrapped(x)
      >>> f = lambda x: [x + 1]
      >>> run(lu.wrap_init(f), 1), run(lu.wrap_init(f), 1)
      runs
      ([2], [2])

    Source: JAX, `jax.extend.linear_util.cache`.
    """
    check_callable("cache", call)
    caches: weakref.WeakKeyDictionary[Any, ProgramCache] = weakref.WeakKeyDictionary()

    @functools.wraps(call)
    def kept(fun: WrappedFun, *args: Any) -> Any:
        known = caches.get(fun.f)
        cache = caches.setdefault(fun.f, ProgramCache()) if known is None else known
        key = (fun.transforms, fun.params, fun.in_type, args, thread.settings, thread.axis_env)
        found = cache.get(key)
        if found is None:
            start = time.perf_counter()
            found = cache.put(key, (call(fun, *args), fun.stores))
            if explain is not None and thread.options.explain_cache_misses:
                explain(fun, known is None, cache, key, time.perf_counter() - start)
        else:
            fun.populate_stores(found[1])
        return found[0]

    def evict_function(f: Callable[..., Any]) -> None:
        caches.pop(f, None)

    kept.evict_function = evict_function  # type: ignore[attr-defined]
    kept.cache_clear = caches.clear  # type: ignore[attr-defined]
    return kept


__all__ = ["EqualStore", "Store", "StoreException", "WrappedFun", "annotate", "cache",
           "merge_linear_aux", "transformation", "transformation2", "transformation_with_aux",
           "transformation_with_aux2", "wrap_init"]
