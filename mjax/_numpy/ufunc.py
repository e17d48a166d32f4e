"""Elementwise functions: makes functions of the rows of the tables.

The conversions of a call's operands (dtypes, aligned ranks) depend on their types alone. They are
a *plan*, found by one dictionary lookup. Under evaluation the whole call, conversions included, is
one compiled program; known types of arrays lead directly to it.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.program_caches import PlainCache, ProgramCache
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type, inexact_dtype
from mjax._engine.ir.types import typeof, typeof_handlers
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.transfer import to_array
from mjax._engine.runtime.dispatch.short import ShortCalls, placement_of, program_for
from mjax._numpy.core import (
    cast,
    check_array,
    check_ranks,
    common_shape,
    expand_rank,
    incompatible_shapes,
    numeric_dtype,
    weak_type_of,
)
from mjax._numpy.fused import compile_for

#: Operand dtype and weak type after promotion, or None; rank after promotion, or None.
Step = tuple[Any, bool, int | None] | None


def _target(kind: str, dtype: Any) -> Any:
    if kind == "inexact":
        return inexact_dtype(dtype)
    return numeric_dtype(dtype) if kind == "numeric" else dtype


#: `(types, shapes, dtype) -> whether` a result that promotion makes weakly typed stays so; `types`
#: are the operands' pairs of dtype and weak type, `dtype` is their promoted dtype.
WeakRule = Callable[[Sequence[tuple[Any, bool]], Sequence[tuple[int, ...]], Any], bool]


def if_scalar(types: Sequence[tuple[Any, bool]], shapes: Sequence[tuple[int, ...]], dtype: Any
              ) -> bool:
    """Keeps weak types of scalar results."""
    return not any(shapes)


def _plan(name: str, kind: str, args: Sequence[Any], weak_rule: WeakRule | None = None
          ) -> tuple[Step, ...] | None:
    """The conversion of each operand; None if it is not converted."""
    avals = [weak_type_of(x) for x in args]
    if any(own == dtypes.float0 for own, _ in avals):
        msg = (f"{name} does not accept float0: it is the dtype of tangents of integers, which "
               "do not hold numbers. Leave such tangents out.")
        raise TypeError(msg)
    if len({own for own, _ in avals}) > 1 and any(dtypes.is_extended(own) for own, _ in avals):
        msg = (f"{name} does not accept dtypes {', '.join(str(own) for own, _ in avals)} together: "
               "keys are not numbers. random.key_data returns the numbers of a key.")
        raise LazyArgumentError(msg)
    dtype, weak = common_type(*avals)
    dtype = _target(kind, dtype)
    shapes = [() if type(x) is int else typeof(x).shape for x in args]
    weak = weak and (weak_rule is None or weak_rule(avals, shapes, dtype))
    if any(s != shapes[0] for s in shapes):
        try:
            common_shape(shapes)
        except ValueError:
            raise incompatible_shapes(name, shapes) from None
    ranks = {len(s) for s in shapes if s}
    rank = max(ranks) if len(ranks) > 1 else None
    if rank is not None:
        check_ranks(name, shapes)
    # The result is weak if all operands are, so making one strong is enough. Promotion makes
    # several weak booleans strong.
    settle = not weak and all(own_weak for _, own_weak in avals) and (
        weak_rule is not None or len(avals) > 1)
    steps: list[Step] = []
    for (own, own_weak), shape in zip(avals, shapes, strict=True):
        convert = own != dtype or settle or (weak and not own_weak)
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


_UNKNOWN: Any = object()
_types = typeof_handlers


class Elementwise:
    """A function of values of one dtype, extended to operands that promote and broadcast.

    Calling it applies it under the current interpreter, primitive by primitive.

    Args:
      name: its name in messages.
      function: traceable, of values of one dtype and one rank, or scalars.
      kind: the dtypes that it accepts: "any", "numeric" (no bool) or "inexact".
      names: its arguments' names.
      weak_rule: whether results of weakly typed promotions are weak; by default they are.
    """

    def __init__(self, name: str, function: Callable[..., Any], kind: str, names: tuple[str, ...],
                 weak_rule: WeakRule | None = None):
        self.name = name
        self.function = function
        self.kind = kind
        self.names = names
        self.weak_rule = weak_rule
        #: (settings, types of the operands) -> plan.
        self.plans = BoundedCache()
        #: (settings, placements of the operands) -> runners.
        self.calls = ProgramCache()
        self.short = ShortCalls((), (), PlainCache())

    def __call__(self, *args: Any) -> Any:
        return self.staged(args, {})

    def staged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call under the current interpreter, primitive by primitive."""
        if kwargs or len(args) != len(self.names):
            self._check_arguments(args, kwargs)
        try:
            # `typeof`, inlined: it is most of the cost of a traced call.
            if len(args) == 2:
                x, y = args
                plan = self.plans[thread.settings, _types[type(x)](x), _types[type(y)](y)]
            else:
                plan = self.plans[thread.settings, *[_types[type(x)](x) for x in args]]
        except (KeyError, TypeError, OverflowError):
            plan = _UNKNOWN
        if plan is _UNKNOWN:
            args, plan = self.prepare(args)
        if plan is None:
            return self.function(*args)
        return self.function(*map(_adapt, args, plan))

    def prepare(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        """Checked operands and their plan, which is remembered.

        A Python int that the default int dtype cannot hold may fit the other operand's.
        """
        alone = all(type(x) is int for x in args)
        args = tuple(x if type(x) is int and not alone else check_array(self.name, x, i)
                     for i, x in enumerate(args))
        plan = _plan(self.name, self.kind, args, self.weak_rule)
        settled = tuple(self._settled_int(x, args) if type(x) is int else x for x in args)
        if all(map(operator.is_, settled, args)) and thread.settings.numpy_rank_promotion != "warn":
            self.plans.put((thread.settings, *map(typeof, args)), plan)
        return settled, plan

    def _settled_int(self, x: int, args: Sequence[Any]) -> Any:
        """The int itself; in the dtype of the result if it is too large."""
        if -(2**31) <= x < 2**31 or (thread.settings.enable_x64 and -(2**63) <= x < 2**63):
            return x
        dtype = _target(self.kind, common_type(*map(weak_type_of, args))[0])
        if dtypes.is_integer(dtype):
            low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
            if not low <= x <= high:
                typeof(x)  # raises
        return cast(x, dtype)

    def evaluated(self, args: tuple[Any, ...], kwargs: dict[str, Any], short_key: Any,
                  values: Sequence[Any]) -> Any:
        """A call under evaluation, and its key for later calls: see `ShortCalls.put`."""
        if thread.settings.disable_jit:
            return self.staged(args, kwargs)
        if kwargs or len(args) != len(self.names):
            self._check_arguments(args, kwargs)
        arrays = None
        try:
            arrays = [x if type(x) is Array else to_array(x) for x in args]
        except (TypeError, OverflowError):
            pass
        if arrays is None:
            arrays, short_key = list(map(to_array, self.prepare(args)[0])), None
        program = program_for(self.calls, (), tuple(map(placement_of, arrays)), compile_for, self,
                              self.name)
        return self.short.run(short_key, values, program, arrays)

    def _check_arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        try:
            _signature(self.names).bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{self.name}(): {error}."
            raise TypeError(msg) from None


@functools.cache
def _signature(names: tuple[str, ...]) -> inspect.Signature:
    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY)
                              for n in names])


_TAKES = {"any": "array or scalar.",
          "numeric": "array or scalar; booleans count as ints.",
          "inexact": "array or scalar; ints and booleans become the default float."}


def _document(name: str, kind: str, names: tuple[str, ...], text: str, gives: str) -> str:
    """A docstring from a row of a table: a summary and an example."""
    summary, _, example = inspect.cleandoc(text).partition(">>>")
    if len(names) == 1:
        shape, raises = f"of the shape of `{names[0]}`", "is not an array or scalar"
    else:
        shape = f"of the shape that `{names[0]}` and `{names[1]}` broadcast to"
        raises = "is not an array or scalar, or the shapes do not broadcast"
    takes = "".join(f"  {n}: {_TAKES[kind]}\n" for n in names)
    return (f"{summary.strip()}\n\nArgs:\n{takes}\nReturns:\n  An array {shape}{gives}.\n\n"
            f"Raises:\n  TypeError: an argument {raises};\n    or its dtype is not accepted.\n\n"
            f"Source: `numpy.{name}`.\n\nExample:\n  >>>"
            + example.rstrip().replace("\n", "\n  ") + "\n")


def _ufunc(apply: Elementwise, text: str, gives: str) -> Any:
    """The function of a row of the tables."""
    f: Any = apply.short.dispatcher(apply.evaluated, apply.staged)
    f.__name__ = f.__qualname__ = apply.name
    f.__module__ = "mjax.numpy"
    f.__doc__ = _document(apply.name, apply.kind, apply.names, text, gives)
    f.__signature__ = _signature(apply.names)
    f.known = apply.short.known.entries
    return f


def unary(name: str, function: Callable[[Any], Any], kind: str, text: str,
          names: tuple[str, ...] = ("x",), gives: str = "",
          weak_rule: WeakRule | None = None) -> Any:
    """A row of the tables: a function of one array.

    Args:
      name: its name.
      function: traceable, of one value of the promoted dtype.
      kind: as in `Elementwise`.
      text: a summary and an example, for its docstring.
      names: name of the argument.
      gives: what its docstring adds about the dtype of the result.
      weak_rule: as in `Elementwise`.
    """
    return _ufunc(Elementwise(name, function, kind, names, weak_rule), text, gives)


def binary(name: str, function: Callable[[Any, Any], Any], kind: str, text: str,
           names: tuple[str, ...] = ("x", "y"), gives: str = "",
           weak_rule: WeakRule | None = None) -> Any:
    """A row of the tables: a function of two arrays that are promoted and broadcast.

    Args:
      name: its name.
      function: traceable, of two values of one dtype and one rank, or scalars.
      kind: as in `Elementwise`.
      text: a summary and an example, for its docstring.
      names: names of the arguments.
      gives: what its docstring adds about the dtype of the result.
      weak_rule: as in `Elementwise`.
    """
    return _ufunc(Elementwise(name, function, kind, names, weak_rule), text, gives)
