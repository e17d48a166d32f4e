"""Functions and jaxprs of which some inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import join_effects, keeps_equation
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Literal, no_debug_info, used_variables
from mjax._engine.ir.types import AbstractValue, typeof
from mjax._engine.tracing.interpreter import check_alive, running
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.rule_errors import as_jaxpr, describe_value, refuse_results
from mjax._engine.tracing.stage import StageTracer
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter, partial_eval_jaxpr
from mjax_ext._checked import as_function, flags_for
from mjax_ext.interpreters.partial_eval._tracing import info_of


class PartialVal(tuple[Any, Any]):
    """A value that is known, or of which only the type is: `(None, value)` or `(type, None)`.

    Make it by `PartialVal.known(value)` or `PartialVal.unknown(aval)`.

    Args:
      xs: the pair.

    Raises:
      TypeError: the first entry is neither a type nor None.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> known = partial_eval.PartialVal.known(2.0)
      >>> known.is_known(), known.get_known(), known.get_aval()
      (True, 2.0, ShapedArray(float32[], weak_type=True))
    """

    __slots__ = ()

    def __new__(cls, xs: tuple[AbstractValue | None, Any]) -> PartialVal:
        aval, _ = xs
        if not (aval is None or isinstance(aval, AbstractValue)):
            msg = (f"PartialVal takes (None, value) or (type, None); got {describe_value(aval)} in "
                   "the first place.")
            raise TypeError(msg)
        return tuple.__new__(cls, xs)

    @classmethod
    def known(cls, const: Any) -> PartialVal:
        """A known value."""
        return cls((None, const))

    @classmethod
    def unknown(cls, aval: AbstractValue) -> PartialVal:
        """An unknown value of a type."""
        return cls((aval, None))

    def is_known(self) -> bool:
        """Whether the value is known."""
        return self[0] is None

    def get_known(self) -> Any:
        """The value, or None if it is unknown."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> Any:
        """The type."""
        return typeof(self[1]) if self[0] is None else self[0]


def partition_pvals(pvals: Sequence[PartialVal]) -> tuple[list[bool], list[Any], list[Any]]:
    """Which values are known, the types of those that are not, and the known values.

    Args:
      pvals: the values.

    Returns:
      A list of bools, a list of types, a list of values.

    Raises:
      AttributeError: an entry is not a `PartialVal`.
      TypeError: it cannot be iterated over.

    Example:
      >>> from mjax_ext.interpreters.partial_eval import PartialVal, partition_pvals
      >>> partition_pvals([PartialVal.known(2.0), PartialVal.unknown(mjax.typeof(jnp.ones(2)))])
      ([True, False], [ShapedArray(float32[2])], [2.0])
    """
    return ([p.is_known() for p in pvals], [p.get_aval() for p in pvals if not p.is_known()],
            [p.get_known() for p in pvals if p.is_known()])


def trace_to_jaxpr_nounits(fun: Callable[..., Sequence[Any]], pvals: Sequence[PartialVal],
                           instantiate: bool | Sequence[bool] = False,
                           debug_info: DebugInfo = no_debug_info
                           ) -> tuple[Jaxpr, list[PartialVal], list[Any]]:
    """Evaluates what the known inputs of a function determine, and traces the rest.

    Args:
      fun: takes one value for each of `pvals`, and gives a list; also a `linear_util.WrappedFun`.
      pvals: its inputs.
      instantiate: which results are results of the jaxpr even if they are known.
      debug_info: names for messages.

    Returns:
      A jaxpr from the unknown inputs to the unknown results; the results, known or unknown; and
      the values of the jaxpr's constants, which are known.

    Raises:
      TypeError: `fun` does not return a list of arrays.
      ValueError: `instantiate` has more or fewer entries than there are results.

    Example:
      >>> from mjax_ext.interpreters.partial_eval import PartialVal, trace_to_jaxpr_nounits
      >>> jaxpr, outs, consts = trace_to_jaxpr_nounits(
      ...     lambda x, y: [lax.neg(x), lax.mul(y, x)],
      ...     [PartialVal.known(2.0), PartialVal.unknown(mjax.typeof(1.0))])
      >>> outs[0].get_known(), outs[1].is_known(), [eqn.primitive for eqn in jaxpr.eqns]
      (Array(-2., dtype=float32, weak_type=True), False, [mul])
    """
    who = "trace_to_jaxpr_nounits"
    call = as_function(who, fun)
    interp = PartialEvalInterpreter(thread.interpreter, info_of(fun, debug_info, who))
    with running(interp):
        outs = call(*[p.get_known() if p.is_known() else interp.new_arg(p.get_aval())
                      for p in pvals])
        if not isinstance(outs, (list, tuple)):
            refuse_results(fun, outs, who)
        wanted = flags_for(who, "instantiate", instantiate, outs, "result")
        unknown = [w or interp.is_unknown(o) for o, w in zip(outs, wanted, strict=True)]
        out_pvals = [PartialVal.unknown(typeof(o)) if u else PartialVal.known(o)
                     for o, u in zip(outs, unknown, strict=True)]
        atoms = [interp.atom(o) for o, u in zip(outs, unknown, strict=True) if u]
    del outs
    refuse_leaks(interp)
    jaxpr = interp.build(atoms)
    jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    return jaxpr, out_pvals, jaxpr.consts


def partial_eval_jaxpr_nounits(jaxpr: Jaxpr, unknowns: Sequence[bool],
                               instantiate: bool | Sequence[bool]
                               ) -> tuple[Jaxpr, Jaxpr, list[bool], list[Any]]:
    """Cuts a jaxpr into the part that its known inputs determine, and the rest.

    Args:
      jaxpr: the program.
      unknowns: which inputs are unknown.
      instantiate: which results are results of the second part even if they are known.

    Returns:
      A program from the known inputs to the known results and the residuals; one from the residuals
      and the unknown inputs to the unknown results; which results are unknown; and the types of
      the residuals.

    Raises:
      ValueError: there are more or fewer flags than inputs, or than results.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: (lax.cos(x), lax.mul(lax.sin(x), y)))(1.0, 1.0)
      >>> known, unknown, out_unknowns, residuals = partial_eval.partial_eval_jaxpr_nounits(
      ...     jaxpr, [False, True], False)
      >>> [eqn.primitive for eqn in known.eqns], [eqn.primitive for eqn in unknown.eqns]
      ([cos, sin], [mul])
      >>> out_unknowns, residuals
      ([False, True], [ShapedArray(float32[], weak_type=True)])
    """
    who = "partial_eval_jaxpr_nounits"
    as_jaxpr(who, jaxpr)
    flags = flags_for(who, "unknowns", unknowns, jaxpr.invars, "input")
    parts = partial_eval_jaxpr(
        jaxpr, flags, flags_for(who, "instantiate", instantiate, jaxpr.outvars, "result"))
    known = parts.known
    places = [*known.invars, *known.outvars]
    residuals = [places[i] for i in parts.residual_forwarding]
    outs = known.outvars[:parts.unknown_outs.count(False)]
    return (known.replace(outvars=[*outs, *residuals]), parts.unknown, list(parts.unknown_outs),
            [v.aval for v in residuals])


def tracers_to_jaxpr(in_tracers: Sequence[Any], out_tracers: Sequence[Any],
                     effect_handles: Sequence[Any] = (), debug_info: DebugInfo = no_debug_info,
                     *, trace: Any = None) -> tuple[Jaxpr, tuple[Any, ...], tuple[Any, ...]]:
    """The program between some values of a trace in progress.

    Args:
      in_tracers: its inputs, of one trace that stages: any of its values.
      out_tracers: its results: values of that trace, or constants to it.
      effect_handles: not read: equations with effects on values that depend on the inputs are kept.
      debug_info: names for messages.
      trace: the trace; by default that of the first value.

    Returns:
      The program, the values of its constants, and an empty tuple, which in JAX holds further
      inputs.

    Raises:
      TypeError: no value is of a trace that stages.
      ValueError: a result depends on an input of the trace that is not among `in_tracers`.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> def f(x):
      ...     y = lax.sin(x)
      ...     print(partial_eval.tracers_to_jaxpr([y], [lax.mul(lax.cos(y), 2.0)])[0])
      ...     return y
      >>> _ = mjax.make_jaxpr(f)(1.0)
      { lambda  ; a:~f32[]. let
          b:~f32[] = cos a
          c:~f32[] = mul b 2.0:~f32[]
        in (c,) }
    """
    mine = next((t for t in (*in_tracers, *out_tracers) if type(t) is StageTracer), None)
    if mine is None and trace is None:
        msg = ("tracers_to_jaxpr takes values of a trace that stages, inside of make_jaxpr, jit or "
               f"trace_to_jaxpr_dynamic; got {list(map(describe_value, in_tracers))}.")
        raise TypeError(msg)
    check_alive(mine)
    interp: Any = trace or mine.interp  # type: ignore[union-attr]
    invars = [interp.atom(t) for t in in_tracers]
    outvars = [interp.atom(t) for t in out_tracers]
    needed, inputs = used_variables(outvars), set(invars)
    derived, kept = set(inputs), set[int]()
    for i, eqn in enumerate(interp.eqns):
        if not derived.isdisjoint(used_variables(eqn.invars)):
            derived.update(eqn.outvars)
            if keeps_equation(eqn.effects):
                kept.add(i)
    eqns = []
    for i, eqn in reversed([*enumerate(interp.eqns)]):
        if i in kept or any(v in needed and v not in inputs for v in eqn.outvars):
            eqns.append(eqn)
            needed |= used_variables(eqn.invars)
    missing = [v for v in interp.invars if v in needed and v not in inputs]
    if missing:
        msg = (f"tracers_to_jaxpr: a result depends on an input of the trace, of type "
               f"{missing[0].aval}, that is not among in_tracers: add it, or values between it and "
               "the result.")
        raise ValueError(msg)
    consts = [(v, c) for v, c in zip(interp.constvars, interp.consts, strict=True)
              if v in needed and v not in inputs]
    values = [c for _, c in consts]
    jaxpr = Jaxpr([v for v, _ in consts], invars, outvars, eqns[::-1],
                  join_effects(eqn.effects for eqn in eqns), debug_info, consts=values)
    return jaxpr, tuple(values), ()


def instantiate_const_at(trace: Any, instantiate: bool, tracer: Any) -> Any:
    """The value as a variable of a trace, or as it is.

    Args:
      trace: a trace that stages.
      instantiate: whether to make it a variable.
      tracer: the value.

    Returns:
      A value.

    Raises:
      AttributeError: with `instantiate`: `trace` is not a trace that stages.
      TypeError: with `instantiate`: the value is neither an array nor a number.
      UnexpectedTracerError: with `instantiate`: the trace that made the value has ended.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> ones = jnp.ones(2)
      >>> def f(x):
      ...     return partial_eval.instantiate_const_at(x.interp, True, ones)
      >>> len(mjax.make_jaxpr(f)(1.0).constvars)
      1
    """
    if not instantiate:
        return tracer
    atom = trace.atom(tracer)
    return trace.tracer_of(trace.constant(tracer, atom.aval) if type(atom) is Literal else atom)
