"""Partial evaluation as transformations of wrapped functions.

Each takes a plain function or a `linear_util.WrappedFun`, and gives a `WrappedFun`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.control.calls.call_primitive import as_wrapped
from mjax._engine.control.calls.wrapped import (
    WrappedFun,
    transformation2,
    transformation_with_aux2,
)
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import call_with
from mjax._engine.tracing.rule_errors import refuse_results
from mjax_ext._checked import flags_for
from mjax_ext.interpreters._traces import JaxprTrace
from mjax_ext.interpreters.partial_eval._tracing import info_of
from mjax_ext.interpreters.partial_eval._unknown import (
    PartialVal,
    instantiate_const_at,
    partition_pvals,
    tracers_to_jaxpr,
)


def _traced(f: Callable[..., Any], trace: Any, instantiate: Any, info: DebugInfo,
            pvals: Sequence[PartialVal]) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    ins = [trace.new_arg(p.get_aval()) if not p.is_known() else p.get_known() for p in pvals]
    outs = call_with(trace, f, *ins)
    if not isinstance(outs, (list, tuple)):
        refuse_results(f, outs, "trace_to_subjaxpr_nounits")
    wanted = flags_for("trace_to_subjaxpr_nounits", "instantiate", instantiate, outs, "result")
    outs = [instantiate_const_at(trace, w, o) for o, w in zip(outs, wanted, strict=True)]
    unknown = [trace.is_unknown(o) for o in outs]
    jaxpr, consts, _ = tracers_to_jaxpr(
        [x for x, p in zip(ins, pvals, strict=True) if not p.is_known()],
        [o for o, u in zip(outs, unknown, strict=True) if u], debug_info=info, trace=trace)
    return jaxpr, [PartialVal.unknown(typeof(o)) if u else PartialVal.known(o)
                   for o, u in zip(outs, unknown, strict=True)], list(consts)


def trace_to_subjaxpr_nounits(fun: Callable[..., Any], trace: JaxprTrace,
                              instantiate: bool | Sequence[bool] = False,
                              debug_info: DebugInfo | None = None) -> WrappedFun:
    """A function of values as one of `PartialVal`s, in a trace in progress.

    Args:
      fun: takes one value per `PartialVal`, and gives a list.
      trace: the trace. It stays open.
      instantiate: which results are unknown in any case.
      debug_info: names for messages.

    Returns:
      A function `call_wrapped(pvals)` that gives the program from the unknown inputs to the unknown
      results; and a triple of the results as `PartialVal`s, the values of the program's constants,
      and an empty tuple.

    Raises:
      TypeError: `fun` is not a function, or `instantiate` neither a bool nor a sequence; at calls:
        `fun` does not return a list, or a result to instantiate is not an array.
      ValueError: at calls: `instantiate` has more or fewer entries than there are results.
      AttributeError: at calls: `trace` does not stage, or an input is not a `PartialVal`.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> with core.take_current_trace() as parent:
      ...   trace = pe.JaxprTrace(parent)
      ...   f = pe.trace_to_subjaxpr_nounits(lambda x, y: [lax.mul(lax.sin(x), y)], trace)
      ...   jaxpr, (outs, consts, _) = f.call_wrapped(
      ...       [pe.PartialVal.known(0.0), pe.PartialVal.unknown(mjax.typeof(1.0))])
      >>> [eqn.primitive for eqn in jaxpr.eqns], [float(c) for c in consts]
      ([mul], [0.0])
    """
    info = info_of(fun, debug_info, "trace_to_subjaxpr_nounits")
    flags = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    return _subjaxpr(as_wrapped(fun), trace, flags, info)


@transformation2
def _subjaxpr(f: Callable[..., Any], trace: Any, instantiate: Any, info: DebugInfo,
              pvals: Sequence[PartialVal]) -> Any:
    jaxpr, outs, consts = _traced(f, trace, instantiate, info, pvals)
    return jaxpr, (outs, consts, ())


def trace_to_subjaxpr_nounits_fwd(fun: Callable[..., Any], tag: Any,
                                  debug_info: DebugInfo | None = None,
                                  instantiate: bool | Sequence[bool] = False) -> WrappedFun:
    """The same in a trace of its own, which tells constants that are known inputs.

    Args:
      fun: takes one value per `PartialVal`, and gives a list.
      tag: a `core.TraceTag`.
      debug_info: names for messages.
      instantiate: which results are unknown in any case.

    Returns:
      A function `call_wrapped(pvals)` that gives the program; and a tuple: for each of its
      constants the number of the known input that it is, or None; the results as `PartialVal`s;
      the values of the other constants; and an empty tuple.

    Raises:
      TypeError: `fun` is not a function, or `instantiate` neither a bool nor a sequence; at calls:
        `fun` does not return a list, or a result to instantiate is not an array.
      ValueError: at calls: `instantiate` has more or fewer entries than there are results.
      AttributeError: at calls: an input is not a `PartialVal`.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> f = pe.trace_to_subjaxpr_nounits_fwd(
      ...     lambda x, y: [lax.mul(lax.mul(lax.sin(x), x), lax.mul(x, y))], core.TraceTag())
      >>> x = jnp.ones(2)
      >>> _, (forwarded, _, rest, _) = f.call_wrapped(
      ...     [pe.PartialVal.known(x), pe.PartialVal.unknown(mjax.typeof(x))])
      >>> forwarded, len(rest)
      ([0, None], 1)
    """
    info = info_of(fun, debug_info, "trace_to_subjaxpr_nounits_fwd")
    flags = instantiate if isinstance(instantiate, bool) else tuple(instantiate)
    return _forwarding(as_wrapped(fun), tag, flags, info)


@transformation2
def _forwarding(f: Callable[..., Any], tag: Any, instantiate: Any, info: DebugInfo,
                pvals: Sequence[PartialVal]) -> Any:
    trace = JaxprTrace(thread.interpreter, (), tag)
    jaxpr, outs, consts = _traced(f, trace, instantiate, info, pvals)
    trace.alive = False
    places = {id(p.get_known()): i for i, p in enumerate([p for p in pvals if p.is_known()])}
    forwarded = [places.get(id(c)) for c in consts]
    return jaxpr, (forwarded, outs, [c for c, place in zip(consts, forwarded, strict=True)
                                     if place is None], ())


def partial_eval_wrapper_nounits(fun: Callable[..., Any], in_knowns: Sequence[bool],
                                 in_avals: Sequence[Any]) -> tuple[WrappedFun, Callable[[], Any]]:
    """A function of `PartialVal`s as one of the known values alone.

    Args:
      fun: the result of `trace_to_subjaxpr_nounits`, or of its variant that forwards.
      in_knowns: which inputs are known.
      in_avals: the types of the others.

    Returns:
      A function from the known inputs to the known results and the constants of the program of the
      rest; and one that gives, after it, which results are known, the types of the others, the
      program, and an empty tuple (and before these which constants are inputs, if forwarded).

    Raises:
      TypeError: `fun` is not a function, or the flags or types are not sequences; at calls: an
        entry of `in_avals` is not a type.
      StopIteration: at calls: there are fewer known values, or fewer types, than `in_knowns` says.
      StoreException: the second function is called before the first, or the first one twice.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> inner = pe.trace_to_subjaxpr_nounits_fwd(
      ...     lambda x, y: [lax.sin(x), lax.mul(lax.cos(x), y)], core.TraceTag())
      >>> f, rest = pe.partial_eval_wrapper_nounits(inner, [True, False], [mjax.typeof(1.0)])
      >>> [float(v) for v in f.call_wrapped(0.0)]
      [0.0, 1.0]
      >>> forwarded, out_knowns, out_avals, jaxpr, _ = rest()
      >>> out_knowns, [eqn.primitive for eqn in jaxpr.eqns]
      ([True, False], [mul])
    """
    return _of_known(as_wrapped(fun), tuple(in_knowns), tuple(in_avals))


@transformation_with_aux2
def _of_known(f: Callable[..., Any], store: Any, in_knowns: Sequence[bool],
              in_avals: Sequence[Any], *consts: Any) -> tuple[Any, ...]:
    avals, known = iter(in_avals), iter(consts)
    jaxpr, (*forwarded, outs, residuals, env) = f([
        PartialVal.known(next(known)) if k else PartialVal.unknown(next(avals))
        for k in in_knowns])
    out_knowns, out_avals, out_consts = partition_pvals(outs)
    store.store((*forwarded, out_knowns, out_avals, jaxpr, env))
    return (*out_consts, *residuals)
