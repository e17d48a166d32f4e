"""Elementwise functions: how a row of the tables in the ufunc files becomes a function.

What has to happen to the operands of a call (to which dtype each is converted, which ranks
are aligned) depends on their types alone; it is a *plan*, found by one dictionary lookup.
Under evaluation the whole call, conversions included, is one compiled program, and known
types of arrays lead straight to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.context import ctx
from mjax._engine.base.folding import fold
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.array import Array
from mjax._engine.runtime.transfer import to_array
from mjax._engine.tracing.evaluate import evaluation
from mjax._numpy.core import (
    broadcast_shapes,
    cast,
    check_array,
    check_arrays,
    check_ranks,
    expand_rank,
    incompatible_shapes,
    numeric_dtype,
    weak_type_of,
)
from mjax._numpy.fused import compile_for, new_cache

#: Operand dtype and weak type after promotion, or None; rank after promotion, or None.
Step = tuple[Any, bool, int | None] | None


def _target(kind: str, dtype: Any) -> Any:
    if kind == "inexact":
        return inexact_dtype(dtype)
    return numeric_dtype(dtype) if kind == "numeric" else dtype


def _plan(name: str, kind: str, args: list[Any]) -> tuple[Step, ...] | None:
    """What to do with each operand; None where there is nothing to do."""
    avals = [weak_type_of(x) for x in args]
    dtype, weak = common_type(*avals)
    dtype = _target(kind, dtype)
    shapes = [() if type(x) is int else typeof(x).shape for x in args]
    if any(s != shapes[0] for s in shapes):
        try:
            broadcast_shapes(*shapes)
        except ValueError:
            raise incompatible_shapes(name, shapes) from None
    ranks = {len(s) for s in shapes if s}
    rank = max(ranks) if len(ranks) > 1 else None
    if rank is not None:
        check_ranks(name, shapes)
    steps: list[Step] = []
    for (own, own_weak), shape in zip(avals, shapes, strict=True):
        # The result is weak if all operands are: one of them strong is enough.
        convert = own != dtype or (weak and not own_weak)
        expand = rank if rank is not None and shape and len(shape) < rank else None
        steps.append((dtype if convert else None, weak, expand) if convert or expand else None)
    return tuple(steps) if any(steps) else None


def _adapt(x: Any, step: Step) -> Any:
    if step is None:
        return x
    dtype, weak, rank = step
    if dtype is not None:
        x = cast(x, dtype, weak)
    return x if rank is None else expand_rank(x, rank)


_SIGNATURES: dict[tuple[str, ...], inspect.Signature] = {}

_TAKES = {"any": "array or scalar.",
          "numeric": "array or scalar; booleans count as ints.",
          "inexact": "array or scalar; ints and booleans become the default float."}


def _document(name: str, kind: str, names: tuple[str, ...], text: str, gives: str) -> str:
    """A docstring from what a row of a table says: a summary and an example."""
    summary, _, example = inspect.cleandoc(text).partition(">>>")
    if len(names) == 1:
        shape, raises = f"of the shape of `{names[0]}`", "is no array or scalar"
    else:
        shape = f"of the shape that `{names[0]}` and `{names[1]}` broadcast to"
        raises = "is no array or scalar, or the shapes do not broadcast"
    takes = "".join(f"  {n}: {_TAKES[kind]}\n" for n in names)
    return (f"{summary.strip()}\n\nArgs:\n{takes}\nReturns:\n  An array {shape}{gives}.\n\n"
            f"Raises:\n  TypeError: an argument {raises};\n    or its dtype is not accepted.\n\n"
            f"Source: `numpy.{name}`.\n\nExample:\n  >>>"
            + example.rstrip().replace("\n", "\n  ") + "\n")


def _finish(f: Any, name: str, kind: str, names: tuple[str, ...], text: str, gives: str,
            cache: Any, apply: Any) -> Any:
    """Gives a function of a table its name, signature and docstring."""
    f.__name__ = f.__qualname__ = name
    f.__module__ = "mjax.numpy"
    f.__doc__ = _document(name, kind, names, text, gives)
    f.cache = cache
    f.apply = apply
    if names not in _SIGNATURES:
        _SIGNATURES[names] = inspect.Signature([
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names])
    f.__signature__ = _SIGNATURES[names]
    return f


def operand(name: str, x: Any) -> Array:
    """A foreign value as an array, to be an operand of a compiled program."""
    return x if type(x) is Array else to_array(check_array(name, x))


def unary(name: str, function: Callable[[Any], Any], kind: str, text: str,
          names: tuple[str, ...] = ("x",), gives: str = "") -> Any:
    """A row of the tables: a function of one array.

    Args:
      name: its name.
      function: traceable, of one value of the promoted dtype.
      kind: which dtypes `function` is given: "any", "numeric" (no bool) or "inexact".
      text: a summary and an example, for its docstring.
      names: name of the argument.
      gives: what its docstring adds about the dtype of the result.
    """
    plans = BoundedCache()

    def apply(x: Any) -> Any:
        x = check_array(name, x)
        key = (ctx.settings, typeof(x))
        try:
            step = plans[key]
        except KeyError:
            plan = _plan(name, kind, [x])
            step = plans.put(key, plan and plan[0])
        return function(x if step is None else _adapt(x, step))

    apply.__name__ = name
    cache = new_cache(apply)

    def evaluate(x: Any) -> Any:
        if ctx.settings.disable_jit:
            return apply(x)
        x = operand(name, x)
        run = cache.get((ctx.settings, x._placement))
        if run is None:
            run = cache.put((ctx.settings, x._placement), compile_for(apply, name, [x]))
        return run(x)

    def ufunc(x: Any, /) -> Any:
        try:
            if ctx.interpreter is evaluation:
                if type(x) is Array:
                    run = cache.get((ctx.settings, x._placement))
                    if run is not None:
                        return run(x)
                return evaluate(x)
            return apply(x)
        except Exception as error:
            fold(error)
            raise

    return _finish(ufunc, name, kind, names, text, gives, cache, apply)


def binary(name: str, function: Callable[[Any, Any], Any], kind: str, text: str,
           names: tuple[str, ...] = ("x", "y"), gives: str = "") -> Any:
    """A row of the tables: a function of two arrays that are promoted and broadcast.

    Args:
      name: its name.
      function: traceable, of two values of one dtype and one rank, or scalars.
      kind: which dtypes `function` is given: "any", "numeric" (no bool) or "inexact".
      text: a summary and an example, for its docstring.
      names: names of the arguments.
      gives: what its docstring adds about the dtype of the result.
    """
    plans = BoundedCache()

    def apply(x: Any, y: Any) -> Any:
        try:
            plan = plans[ctx.settings, typeof(x), typeof(y)]
        except (KeyError, TypeError, OverflowError):
            x, y, plan = prepare(x, y)
        if plan is None:
            return function(x, y)
        return function(_adapt(x, plan[0]), _adapt(y, plan[1]))

    def prepare(x: Any, y: Any) -> Any:
        # A Python int that the default int dtype cannot hold may fit the other operand's.
        x = x if type(x) is int else check_array(name, x, 0)
        y = y if type(y) is int else check_array(name, y, 1)
        if type(x) is type(y) is int:
            check_arrays(name, x, y)
        plan = _plan(name, kind, [x, y])
        try:
            key = (ctx.settings, typeof(x), typeof(y))
        except OverflowError:
            return tuple(large_int(a, b) for a, b in ((x, y), (y, x))) + (plan,)
        if ctx.settings.numpy_rank_promotion != "warn":
            plans.put(key, plan)
        return x, y, plan

    def large_int(x: Any, other: Any) -> Any:
        if type(x) is not int:
            return x
        dtype = _target(kind, common_type(weak_type_of(x), weak_type_of(other))[0])
        if dtypes.kind(dtype) in "iu":
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            if not low <= x <= high:
                typeof(x)  # raises
        return cast(x, dtype)

    apply.__name__ = name
    cache = new_cache(apply)

    def evaluate(x: Any, y: Any) -> Any:
        if ctx.settings.disable_jit:
            return apply(x, y)
        try:
            x, y = operand(name, x), operand(name, y)
        except OverflowError:
            x, y = map(to_array, prepare(x, y)[:2])
        except TypeError:
            check_arrays(name, x, y)
            raise
        key = (ctx.settings, x._placement, y._placement)
        run = cache.get(key)
        if run is None:
            run = cache.put(key, compile_for(apply, name, [x, y]))
        return run(x, y)

    def ufunc(x: Any, y: Any, /) -> Any:
        try:
            if ctx.interpreter is evaluation:
                if type(x) is Array and type(y) is Array:
                    run = cache.get((ctx.settings, x._placement, y._placement))
                    if run is not None:
                        return run(x, y)
                return evaluate(x, y)
            return apply(x, y)
        except Exception as error:
            fold(error)
            raise

    return _finish(ufunc, name, kind, names, text, gives, cache, apply)
