"""Public functions for branches: `cond`, `switch`, `platform_dependent`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.signatures import Operands, R
from mjax._engine.base.thread import thread
from mjax._engine.base.util import NOT_GIVEN
from mjax._engine.control.branches.branches import Branches
from mjax._engine.control.branches.cond import bind_cond, platform_index_p
from mjax._engine.control.trace_body import (
    Body,
    Typed,
    agree,
    differences,
    share_consts,
    stage_body,
)
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import ne_p
from mjax._engine.primitives.clamp import clamp_p
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.shapes import as_settled
from mjax._engine.tracing.flat import check_arguments, check_callable
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import check_aliases

_int32 = np.dtype(np.int32)


@overload
def cond(pred: Any, true_fun: Callable[[*Operands], R],
         false_fun: Callable[[*Operands], R], *operands: *Operands) -> R: ...
@overload
def cond(pred: Any, true_fun: Callable[[Any], R], false_fun: Callable[[Any], R], *,
         operand: Any) -> R: ...
@boundary  # type: ignore[misc]
def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any,
         operand: Any = NOT_GIVEN) -> Any:
    """Applies one of two functions, chosen by a predicate.

    It means `true_fun(*operands) if pred else false_fun(*operands)`, for a predicate that need
    not be known when the program is traced. Both functions are traced, and one is run. Under
    `vmap` over the predicate both are run, and results are chosen element by element.

    Args:
      pred: a scalar; booleans and real numbers, which are true unless they are zero.
      true_fun: applied if `pred` is true.
      false_fun: applied if it is false; returns results of the same structure, shapes and dtypes.
      operands: pytrees of arrays for both. The functions may also close over arrays.
      operand: one operand, by name.

    Returns:
      The result of the function. If only one of the functions gives a weakly typed result,
      `false_fun` decides.

    Raises:
      TypeError: the predicate is not a scalar number; a function is not callable; results
        of the functions differ in structure, shape or dtype; an operand is not an array.

    Example:
      >>> mjax.jit(lambda x: lax.cond(x > 0, lambda y: y, lambda y: -2 * y, x))(-1.5)
      Array(3., dtype=float32, weak_type=True)

    Source: the public interface of `jax.lax.cond`.
    """
    if not (callable(true_fun) and callable(false_fun)):
        if callable(false_fun) and len(operands) == 2 and callable(operands[1]):
            # The old form: a function and an operand of its own for each case.
            of_true, on_true, (of_false, on_false) = true_fun, false_fun, operands
            return cond(pred, _of_nth(on_true, 0), _of_nth(on_false, 1), of_true, of_false)
        check_callable("cond", true_fun)
        check_callable("cond", false_fun)
    operands = _operands("cond", operands, operand)
    _check_predicate(pred)
    if thread.settings.disable_jit:
        known = _concrete(pred)
        if known is not None:
            return (true_fun if known else false_fun)(*operands)
    staged = _stage("cond", {"true_fun": true_fun, "false_fun": false_fun}, operands)
    return _apply(_index_of(pred), staged._replace(branches=Branches(staged.branches[::-1])))


@overload
def switch(index: Any, branches: Sequence[Callable[[*Operands], R]], *operands: *Operands
           ) -> R: ...
@overload
def switch(index: Any, branches: Sequence[Callable[[Any], R]], *, operand: Any) -> R: ...
@boundary  # type: ignore[misc]
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any,
           operand: Any = NOT_GIVEN) -> Any:
    """Applies one of several functions, chosen by an index.

    It means `branches[clip(index, 0, len(branches) - 1)](*operands)`, for an index that need
    not be known when the program is traced.

    Args:
      index: an integer scalar.
      branches: functions whose results agree in structure, shapes and dtypes.
      operands: pytrees of arrays for all of them.
      operand: one operand, by name.

    Returns:
      The result of the function. The first branch decides which results are weakly typed.

    Raises:
      TypeError: the index is not a scalar integer; a branch is not callable; results of
        branches differ in structure, shape or dtype; an operand is not an array.
      ValueError: the sequence of branches is empty.

    Example:
      >>> lax.switch(7, [lambda x: x, lambda x: x * 10], 4)
      Array(40, dtype=int32, weak_type=True)

    Source: the public interface of `jax.lax.switch`.
    """
    branches = _sequence(branches)
    operands = _operands("switch", operands, operand)
    aval = _scalar_type("switch", "the index", index)
    if dtypes.kind(aval.dtype) not in "iu":
        msg = f"switch: the index must be an integer, got {aval.dtype}."
        raise TypeError(msg)
    if len(branches) == 1:
        return branches[0](*operands)
    last = len(branches) - 1
    if thread.settings.disable_jit:
        known = _concrete(index)
        if known is not None:
            return branches[min(max(int(known), 0), last)](*operands)
    names = {f"branch {i}": f for i, f in enumerate(branches)}
    return _apply(_clamped(index, aval, last), _stage("switch", names, operands))


@boundary
def platform_dependent(*args: Any, default: Callable[..., Any] | None = None,
                       **per_platform: Callable[..., Any]) -> Any:
    """Applies the function for the platform that the program is compiled for.

    All functions are traced. Lowering chooses the one that becomes part of the compiled program.

    Args:
      args: pytrees of arrays for all functions.
      default: the function for platforms that are not mentioned.
      per_platform: functions by platform: `cpu`, `tpu`, `cuda`, `rocm`.

    Returns:
      The result of the function.

    Raises:
      TypeError: a function is not callable; results differ in structure, shape or dtype.
      ValueError: no function is given, or one for `gpu`, which is not a single platform.
      MissingRuleError: when lowered for a platform without a function.

    Example:
      >>> lax.platform_dependent(jnp.ones(2), cpu=lambda x: x + 1, default=lambda x: x)
      Array([2., 2.], dtype=float32)

    Source: the public interface of `jax.lax.platform_dependent`.
    """
    functions: dict[Any, list[str]] = {}
    for platform, f in per_platform.items():
        check_callable(f"platform_dependent: {platform}", f)
        if platform == "gpu":
            msg = "platform_dependent: give functions for 'cuda' or 'rocm', not for 'gpu'."
            raise ValueError(msg)
        functions.setdefault(f, []).append(platform)
    branches, platforms = list(functions), [tuple(names) for names in functions.values()]
    if default is not None:
        check_callable("platform_dependent: default", default)
        branches, platforms = [*branches, default], [*platforms, None]  # type: ignore[list-item]
    if not branches:
        msg = "platform_dependent needs a function: by platform, or a default."
        raise ValueError(msg)
    index = platform_index_p.bind(platforms=tuple(platforms))
    known = _concrete(index)
    if known is not None:
        return branches[int(known)](*args)
    names = {"default" if p is None else f"{', '.join(p)}": f
             for p, f in zip(platforms, branches, strict=True)}
    return _apply(index, _stage("platform_dependent", names, args),
                  branches_platforms=tuple(platforms))


# ---- predicates and indices ------------------------------------------------------------


def _scalar_type(who: str, what: str, value: Any) -> Any:
    try:
        aval = typeof(value)
    except TypeError as error:
        msg = f"{who}: {what} must be a scalar: {error}"
        raise TypeError(msg) from None
    if aval.shape:
        msg = (f"{who}: {what} must be a scalar, got {aval}. To choose element by element, map "
               "over it with vmap, or use mjax.numpy.where or lax.select_n.")
        raise TypeError(msg)
    return aval


def _check_predicate(pred: Any) -> None:
    aval = _scalar_type("cond", "the predicate", pred)
    if dtypes.kind(aval.dtype) not in "biuf":
        msg = f"cond: the predicate must be a boolean or a real number, got {aval.dtype}."
        raise TypeError(msg)


def _concrete(value: Any) -> Any:
    """The value if there is one; None if only the type is known."""
    return value.concrete() if isinstance(value, Tracer) else value


def _index_of(pred: Any) -> Any:
    """0 for false, 1 for true."""
    if not hasattr(pred, "aval"):
        return np.int32(bool(pred))
    dtype = typeof(pred).dtype
    if dtype != np.bool_:
        pred = ne_p.bind(pred, as_settled(dtype.type(0)))
    return convert(pred, _int32)


def _clamped(index: Any, aval: Any, last: int) -> Any:
    """An index in range, as int32."""
    if is_symbolic_dim(index):
        index = convert(index, _int32)
    if not hasattr(index, "aval"):
        return np.int32(min(max(int(index), 0), last))
    if aval.dtype.itemsize > 4 or aval.dtype == np.uint32:
        # The conversion would wrap values that an int32 cannot hold.
        of = aval.dtype.type
        return convert(clamp_p.bind(of(0), index, of(last)), _int32)
    return clamp_p.bind(np.int32(0), convert(index, _int32), np.int32(last))


# ---- from functions to branches --------------------------------------------------------


class _Staged(Record):
    """Staged functions of the same types: their branches, operands and tree of results."""

    branches: Branches
    operands: list[Any]
    out_tree: Any


def _operands(who: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    if operand is NOT_GIVEN:
        return operands
    if operands:
        msg = (f"{who} takes operands by position or one by the name operand, not both; got "
               f"{len(operands)} by position.")
        raise TypeError(msg)
    return (operand,)


def _of_nth(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """The function of several operands that applies `f` to one of them."""
    return functools.wraps(f)(lambda *operands: f(operands[n]))


def _sequence(branches: Any) -> tuple[Callable[..., Any], ...]:
    try:
        functions = tuple(branches)
    except TypeError:
        msg = f"switch: branches must be a sequence of functions, got {branches!r}."
        raise TypeError(msg) from None
    if not functions:
        msg = "switch needs at least one branch, got an empty sequence."
        raise ValueError(msg)
    for i, f in enumerate(functions):
        check_callable(f"switch: branches[{i}]", f)
    return functions


def _stage(who: str, functions: Mapping[str, Callable[..., Any]], operands: tuple[Any, ...]
           ) -> _Staged:
    """Stages functions for the same operands, and refuses results that differ.

    Args:
      who: the public function, for messages.
      functions: the functions by their names in messages.
      operands: their arguments.
    """
    leaves, in_tree = tree_flatten((operands, {}))
    check_arguments(who, operands, "operands")
    avals = list(map(typeof, leaves))
    bodies = {name: stage_body(who, f, in_tree, avals) for name, f in functions.items()}
    (first_name, first), *others = bodies.items()
    for name, body in others:
        _check_alike(who, first_name, first, name, body)
    jaxprs, consts = share_consts([*bodies.values()])
    info = first.jaxpr.debug_info
    check_aliases(lambda: info._replace(arg_names=(*["a closed-over value"] * len(consts), *(
        info.arg_names or ())[-len(leaves):])), [*consts, *leaves])
    return _Staged(Branches(jaxprs), [*consts, *leaves], first.out_tree)


def _check_alike(who: str, name1: str, body1: Body, name2: str, body2: Body) -> None:
    a, b = (Typed(name, body.out_tree, body.jaxpr.out_avals)
            for name, body in ((name1, body1), (name2, body2)))
    if not agree(a, b):
        raise LazyTypeError(lambda: (
            f"{who}: the results of {name1} and {name2} must have the same structure, shapes and "
            f"dtypes, but differ:\n{differences(a, b, 'result')}\n"
            f"{name1} is {body1.jaxpr.debug_info.func_src_info}\n"
            f"{name2} is {body2.jaxpr.debug_info.func_src_info}"))


def _apply(index: Any, staged: _Staged, **params: Any) -> Any:
    """Binds `cond`; a result that is the same operand in all branches bypasses it."""
    values = staged.operands
    arrays = tuple(hasattr(v, "aval") for v in values)
    branches, forwarded = staged.branches.cached(
        ("forward", *arrays), lambda: _forwarding(staged.branches, arrays))
    given = iter(bind_cond(index, values, branches, **params))
    return staged.out_tree.unflatten(
        [next(given) if place is None else values[place] for place in forwarded])


def _forwarding(branches: Branches, arrays: Sequence[bool]
                ) -> tuple[Branches, list[int | None]]:
    """Branches without the results that are the same operand, an array, in all of them.

    Returns:
      The branches, and for each original result the operand that it is, or None.
    """
    places = [_places(b) for b in branches]
    forwarded: list[int | None] = [
        same[0] if same[0] is not None and len(set(same)) == 1 and arrays[same[0]] else None
        for same in zip(*places, strict=True)]
    if all(place is None for place in forwarded):
        return branches, forwarded
    return Branches(b.replace(outvars=[v for v, place in zip(b.outvars, forwarded, strict=True)
                                       if place is None]) for b in branches), forwarded


def _places(branch: Jaxpr) -> list[int | None]:
    """For each result the operand that it is, or None."""
    place: dict[Any, int] = {v: i for i, v in enumerate(branch.invars)}
    return [place.get(v) if v in place else None for v in branch.outvars]


__all__ = ["cond", "platform_dependent", "switch"]
