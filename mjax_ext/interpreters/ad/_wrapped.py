"""Derivatives as transformations of wrapped functions, which take and give lists of flat values.

Each takes a plain function or a `linear_util.WrappedFun`, and gives a `WrappedFun`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, counted
from mjax._engine.control.calls.call_primitive import as_wrapped
from mjax._engine.control.calls.wrapped import (
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.pytree import PyTreeDef, tree_flatten
from mjax._engine.ir.types import same_type_but_weak, typeof
from mjax._engine.primitives.tangents import instantiate as instantiate_zeros
from mjax._engine.primitives.tangents import with_zeros, zero_tangent
from mjax._engine.tracing.interpreter import running
from mjax._engine.tracing.rule_errors import describe_value
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.jvp import JVPTracer, jvp_flat, split_results
from mjax_ext._checked import as_list, as_listed_pair, flags_for
from mjax_ext.interpreters._traces import JVPTrace

Aux = tuple[WrappedFun, Callable[[], Any]]


def _tangent(who: str, i: int, primal: Any, tangent: Any) -> Any:
    """A tangent of a primal's type, or a `Zero`."""
    expected = typeof(primal).to_tangent()
    if type(tangent) is Zero or tangent is None:
        return Zero(expected)
    given = typeof(tangent)
    if not same_type_but_weak(given, expected):
        msg = (f"{who}: tangent {i} has type {given}, but its primal has type {typeof(primal)}, "
               f"whose tangents have type {expected}.")
        raise TypeError(msg)
    return Zero(expected) if getattr(given, "dtype", None) == float0 else tangent


def _tangents(who: str, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    primals, tangents = as_list(who, "primals", primals), as_list(who, "tangents", tangents)
    if len(primals) != len(tangents):
        msg = (f"{who}: there are {counted(len(primals), 'primal')} and "
               f"{counted(len(tangents), 'tangent')}; give one for each.")
        raise TypeError(msg)
    return [_tangent(who, i, p, t) for i, (p, t) in enumerate(zip(primals, tangents, strict=True))]


def pushed(who: str, f: Callable[..., Any], instantiate: Any, primals: Sequence[Any],
            tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    outs, out_tangents = jvp_flat(f, primals, _tangents(who, primals, tangents))
    wanted = flags_for(who, "instantiate", instantiate, outs, "result")
    return outs, [instantiate_zeros(t) if w else t
                  for t, w in zip(out_tangents, wanted, strict=True)]


def jvpfun(fun: Callable[..., Any], instantiate: bool | Sequence[bool],
           transform_stack: bool = True) -> WrappedFun:
    """From a function of values to that of primals and tangents.

    Args:
      fun: takes one value per primal, and gives a list.
      instantiate: for which results a `Zero` is made an array.
      transform_stack: not read: names of scopes show the transformation.

    Returns:
      A function `call_wrapped(primals, tangents) -> results, their tangents`.

    Raises:
      TypeError: at calls: a tangent does not have the type of its primal.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> _, tangents = ad.jvpfun(lambda x: [lax.sin(x)], False).call_wrapped([0.0], [2.0])
      >>> float(tangents[0])
      2.0
    """
    return _jvpfun(as_wrapped(fun), instantiate)


@transformation2
def _jvpfun(f: Callable[..., Any], instantiate: Any, primals: Sequence[Any],
            tangents: Sequence[Any]) -> Any:
    return pushed("jvp", f, instantiate, primals, tangents)


@transformation_with_aux2
def jvpfun_with_aux(f: Callable[..., Any], store: Any, instantiate: Any, primals: Sequence[Any],
                    tangents: Sequence[Any]) -> Any:
    """`jvpfun` of a function that also gives values that are not differentiated."""
    found: list[Any] = []

    def first(*args: Any) -> Any:
        outs, aux = as_listed_pair("jvp", f(*args))
        found.extend(map(thread.interpreter.detach, aux))
        return outs

    results = pushed("jvp", first, instantiate, primals, tangents)
    store.store(found)
    return results


def jvp_subtrace(fun: Callable[..., Any], tag: Any) -> WrappedFun:
    """`jvpfun(fun, False)`, by a trace that has a tag.

    Args:
      fun: takes one value per primal, and gives a list.
      tag: a `core.TraceTag`.

    Returns:
      A `WrappedFun`.

    Raises:
      TypeError: `fun` is not a function; at calls: there are more or fewer tangents than primals,
        or a tangent does not have the type of its primal.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> pushed = ad.jvp_subtrace(lambda x: [lax.sin(x)], core.TraceTag())
      >>> float(pushed.call_wrapped([0.0], [2.0])[1][0])
      2.0
    """
    return _jvp_subtrace(as_wrapped(fun), tag)


@transformation2
def _jvp_subtrace(f: Callable[..., Any], tag: Any, primals: Sequence[Any],
                  tangents: Sequence[Any]) -> Any:
    interp = JVPTrace(thread.interpreter, tag)
    interp.function = f
    with running(interp):
        return split_results(interp, f(*_tracers(interp, primals, tangents)))


def jvp_subtrace_aux(fun: Callable[..., Any], tag: Any) -> Aux:
    """`jvp_subtrace` of a function that also gives a list of values that are not differentiated.

    Args:
      fun: gives a pair of lists.
      tag: a `core.TraceTag`.

    Returns:
      The function of primals and tangents; and one that gives, after it, the second list.

    Raises:
      TypeError: `fun` is not a function; at calls: there are more or fewer tangents than primals,
        or a tangent does not have the type of its primal.
      StoreException: by the second function, if the first has not run; by the first's second run.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> pushed, aux = ad.jvp_subtrace_aux(lambda x: ([lax.sin(x)], [x]), core.TraceTag())
      >>> _ = pushed.call_wrapped([0.5], [2.0])
      >>> aux()
      [0.5]
    """
    return _jvp_subtrace_aux(as_wrapped(fun), tag)


@transformation_with_aux2
def _jvp_subtrace_aux(f: Callable[..., Any], store: Any, tag: Any, primals: Sequence[Any],
                      tangents: Sequence[Any]) -> Any:
    interp = JVPTrace(thread.interpreter, tag)
    interp.function = f
    with running(interp):
        outs, aux = as_listed_pair("jvp_subtrace_aux", f(*_tracers(interp, primals, tangents)))
        store.store([interp.detach(a) for a in aux])
        return split_results(interp, outs)


def _tracers(interp: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    return [p if type(t) is Zero else JVPTracer(interp, p, t)
            for p, t in zip(primals, _tangents("jvp_subtrace", primals, tangents), strict=True)]


def f_jvp_traceable(fun: Callable[..., Any], nonzeros: Sequence[bool]) -> Aux:
    """A function of primals and tangents as one of arrays alone.

    Args:
      fun: `(primals, tangents) -> results, their tangents`, such as `jvpfun` gives.
      nonzeros: which primals have a tangent.

    Returns:
      A function from all primals, then the tangents that there are, to all results, then the
      tangents that are not zero; and one that gives, after it, which results have one.

    Raises:
      TypeError: `fun` is not a function, or `nonzeros` is not a list.
      ValueError: at calls: there are not as many primals as flags, or tangents as true ones.
      StoreException: by the second function, if the first has not run; by the first's second run.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> flat, which = ad.f_jvp_traceable(
      ...     ad.jvpfun(lambda x, y: [lax.sin(x), y], False), (True, False))
      >>> [float(v) for v in flat.call_wrapped(0.0, 5.0, 2.0)], which()
      ([0.0, 5.0, 2.0], [True, False])
    """
    flags = tuple(as_list("f_jvp_traceable", "nonzeros", nonzeros))
    return _f_jvp_traceable(as_wrapped(fun), flags)


@transformation_with_aux2
def _f_jvp_traceable(f: Callable[..., Any], store: Any, nonzeros: Sequence[bool],
                     *primals_and_tangents: Any) -> list[Any]:
    n = len(nonzeros)
    if len(primals_and_tangents) != n + sum(map(bool, nonzeros)):
        msg = (f"f_jvp_traceable: there are {counted(len(primals_and_tangents), 'value')} for "
               f"nonzeros={list(nonzeros)}; give {counted(n, 'primal')}, then a tangent for each "
               "true flag.")
        raise ValueError(msg)
    primals = list(primals_and_tangents[:n])
    tangents = with_zeros(nonzeros, primals_and_tangents[n:], map(typeof, primals))
    outs, out_tangents = f(primals, tangents)
    store.store([type(t) is not Zero for t in out_tangents])
    return [*outs, *[t for t in out_tangents if type(t) is not Zero]]


def traceable(fun: Callable[..., Any], in_tree: Any) -> Aux:
    """A function of primals and tangents as one of the leaves of both.

    Args:
      fun: `(primals, tangents) -> results, their tangents`.
      in_tree: the structure of the pair of both lists; None stands for a zero tangent.

    Returns:
      A function of the leaves that gives the leaves of the results; and one that gives, after it,
      their structure.

    Raises:
      TypeError: `fun` is not a function, or `in_tree` is not a `PyTreeDef`.
      ValueError: at calls: there are more or fewer leaves than `in_tree` has, or more or fewer
        tangents than primals.
      StoreException: by the second function, if the first has not run; by the first's second run.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> tree = mjax.tree_util.tree_structure(([1.0, 1.0], [1.0, None]))
      >>> flat, out_tree = ad.traceable(ad.jvpfun(lambda x, y: [lax.mul(x, y)], False), tree)
      >>> [float(v) for v in flat.call_wrapped(3.0, 4.0, 1.0)], out_tree()
      ([12.0, 4.0], PyTreeDef(([*], [*])))
    """
    if not isinstance(in_tree, PyTreeDef):
        msg = ("traceable: in_tree must be the structure of (primals, tangents), from "
               f"mjax.tree.structure; got {describe_value(in_tree)}.")
        raise TypeError(msg)
    return _traceable(as_wrapped(fun), in_tree)


@transformation_with_aux2
def _traceable(f: Callable[..., Any], store: Any, in_tree: Any, *primals_and_tangents: Any
               ) -> list[Any]:
    primals, tangents = in_tree.unflatten(primals_and_tangents)
    check_count("traceable", "the list of tangents in in_tree", tangents, primals, "primal")
    outs, out_tangents = f(primals, [
        zero_tangent(p) if t is None else t for p, t in zip(primals, tangents, strict=True)])
    leaves, tree = tree_flatten((outs, [None if type(t) is Zero else t for t in out_tangents]))
    store.store(tree)
    return leaves


def nonzero_outputs(fun: Callable[..., Any]) -> Aux:
    """The function, and one that gives, after it, which of its results are not `Zero`s.

    Args:
      fun: the function, or a `WrappedFun`.

    Returns:
      The function, and a function without arguments that gives a list of bools.

    Raises:
      TypeError: `fun` is not a function; at calls: its result is not iterable.
      StoreException: by the second function, if the first has not run; by the first's second run.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> same, which = ad.nonzero_outputs(lambda x: [x, ad.Zero(mjax.typeof(x))])
      >>> _ = same.call_wrapped(1.0)
      >>> which()
      [True, False]
    """
    return _nonzero_outputs(as_wrapped(fun))


@transformation_with_aux2
def _nonzero_outputs(f: Callable[..., Any], store: Any, *args: Any, **kwargs: Any) -> Any:
    results = f(*args, **kwargs)
    store.store([type(r) is not Zero for r in as_list(
        "nonzero_outputs", "the result of the function", results)])
    return results


def nonzero_tangent_outputs(fun: Callable[..., Any]) -> Aux:
    """The function, which gives primals and tangents, and one that gives, after it, which of the
    tangents are not `Zero`s.

    Args:
      fun: the function, or a `WrappedFun`.

    Returns:
      The function, and a function without arguments that gives a list of bools.

    Raises:
      TypeError: `fun` is not a function; at calls: its second result is not iterable.
      StoreException: by the second function, if the first has not run; by the first's second run.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> same, which = ad.nonzero_tangent_outputs(
      ...     ad.jvpfun(lambda x: [x, lax.floor(x)], False))
      >>> _ = same.call_wrapped([1.0], [1.0])
      >>> which()
      [True, False]
    """
    return _nonzero_tangent_outputs(as_wrapped(fun))


@transformation_with_aux2
def _nonzero_tangent_outputs(f: Callable[..., Any], store: Any, *args: Any, **kwargs: Any) -> Any:
    results = f(*args, **kwargs)
    _, tangents = as_listed_pair("nonzero_tangent_outputs", results)
    store.store([type(t) is not Zero for t in tangents])
    return results
