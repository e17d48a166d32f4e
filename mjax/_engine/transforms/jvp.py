"""Forward-mode differentiation.

A tracer carries a primal and its tangent. Rules run with the parent interpreter current, on
bare primals and tangents. A tangent known to be zero is a `Zero` and costs nothing. A result
with such a tangent needs no tracer: it is a constant to this interpreter.

Source: Wengert 1964; the rules' form is that of Siskind and Pearlmutter 2008.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, per_item
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.source import DERIVATIVE_OF, Scope, source_info_of
from mjax._engine.ir.types import AbstractValue, same_array_type, same_type_but_weak, typeof
from mjax._engine.primitives.tangents import instantiate as as_array
from mjax._engine.primitives.tangents import with_zeros, zero_tangent
from mjax._engine.tracing.agreed import LONGEST, note
from mjax._engine.tracing.interpreter import (
    Interpreter,
    Tracer,
    call_with,
    refusing,
    register_tracer,
    running,
)
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import (
    as_pair,
    bad_rule_result,
    check_lists,
    describe_value,
    name_rule,
    refuse_flags,
    refuse_results,
)
from mjax._engine.tracing.rule_results import refuse_misfits
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.tracing.variance import vary_as


@register_tracer
class JVPTracer(Tracer):
    """A primal with its tangent; `jvp` makes them.

    Attributes:
      primal: the value.
      tangent: its tangent.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> seen = []
      >>> _ = mjax.jvp(lambda x: (seen.append(isinstance(x, ad.JVPTracer)), x)[1], (1.0,), (2.0,))
      >>> seen
      [True]
    """

    __slots__ = ("primal", "tangent")

    def __init__(self, trace: Interpreter, primal: Any, tangent: Any):
        self.interp = trace
        self.aval = typeof(primal)
        self.primal = primal
        self.tangent = tangent

    def concrete(self) -> Any:
        primal = self.primal
        return primal.concrete() if isinstance(primal, Tracer) else primal

    def below(self) -> Any:
        return self.primal

    def provenance(self) -> str:
        return self.primal.provenance() if isinstance(self.primal, Tracer) else ""


def tracer_of(interp: Interpreter, primal: Any, tangent: Any, aval: Any) -> JVPTracer:
    """`JVPTracer(interp, primal, tangent)` for a primal of known type."""
    tracer = object.__new__(JVPTracer)
    tracer.interp, tracer.aval = interp, aval
    tracer.primal, tracer.tangent = primal, tangent
    return tracer


class JVPInterpreter(Interpreter):
    """Pushes tangents forward."""

    __slots__ = ()
    name = mark = "jvp"

    def detach(self, value: Any) -> Any:
        return value.primal if type(value) is JVPTracer and value.interp is self else value

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        primals: list[Any] = []
        tangents: list[Any] = []
        constants: list[int] = []
        types: Any = ()
        for arg in args:
            if type(arg) is JVPTracer and arg.interp is self:
                primals.append(arg.primal)
                tangents.append(arg.tangent)
                types = types, arg.aval
            else:
                constants.append(len(primals))
                primals.append(arg)
                tangents.append(None)
        thread.interpreter = self.parent
        if not types and not primitive.always:
            try:
                return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            finally:
                thread.interpreter = self
        try:
            for i in constants:
                aval = typeof(primals[i])
                tangents[i] = Zero(aval.to_tangent())
                types = types, i, aval
            pair = self.differentiate(primitive, primals, tangents, params)
            thread.interpreter = self
            out, tangent = pair
            if primitive.compares_one:
                if primitive._narrow or len(args) < LONGEST:
                    aval = out.aval
                    if params in primitive.agreed[types, aval, tangent.aval]:
                        return out if type(tangent) is Zero else tracer_of(
                            self, out, tangent, aval)
            elif primitive.compares_list:
                if primitive._narrow or len(args) < LONGEST:
                    results, key = [], (types, out.__class__, tangent.__class__)
                    for o, t in zip(out, tangent):  # `strict` takes longer than `len`
                        aval = o.aval
                        key = key, aval, t.aval
                        results.append(o if type(t) is Zero else tracer_of(self, o, t, aval))
                    if len(out) == len(tangent) < LONGEST and params in primitive.agreed[key]:
                        return results
            elif primitive.multiple_results:
                return list(map(self.result, repeat(primitive), out, tangent))
            elif type(tangent) is Zero:
                return out
            else:
                aval = out.aval
                if tangent.aval is aval and aval.inexact:
                    return tracer_of(self, out, tangent, aval)
        except Exception:
            if thread.interpreter is not self or "pair" not in locals():  # The rule raised it.
                thread.interpreter = self
                refuse_misfits(primitive, primals, params, "differentiable")
                raise
        except BaseException:
            thread.interpreter = self
            raise
        return self._compare(primitive, primals, types, params, pair)

    def _compare(self, primitive: Primitive, primals: list[Any], types: Any,
                params: dict[str, Any], pair: Any) -> Any:
        """The results of a rule, compared with the abstract evaluation; notes types that agree."""
        rule, several = self.rule_name(primitive), primitive.multiple_results
        out, tangent = as_pair(primitive, rule, pair, "a primal and a tangent")
        if not primitive.compared:
            return (list(map(self.result, repeat(primitive), out, tangent)) if several else
                    self.result(primitive, out, tangent))
        declared = primitive.declared(list(map(typeof, primals)), params, "differentiable")
        if several:
            count = None if declared is None else len(declared)
            check_lists(primitive, rule, (out, tangent), count,
                        "a list of primals and one of tangents")
        outs, dots = (out, tangent) if several else ([out], [tangent])
        known = repeat(None) if declared is None else declared if several else [declared]
        results = list(map(self.result, repeat(primitive), outs, dots, known))
        if declared is not None and len(primals) < LONGEST > len(outs) and all(
                map(_as_given, outs, dots, results)):
            note(primitive.agreed, ((o.aval, t.aval) for o, t in zip(outs, dots, strict=True)),
                 params, start=(types, type(out), type(tangent)) if several else types)
        return results if several else results[0]

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        with refusing(self, call.outside):
            if any(type(v) is JVPTracer and v.interp is self for v in values):
                return self.process(call.frame.primitive, tuple(values), call.at_once())
            parent: Any = self.parent
            return call_with(parent, parent.process_custom, call, values)

    def rule_name(self, primitive: Primitive) -> str:
        """The field of the record that holds the rule in use."""
        return "jvp"

    def differentiate(self, primitive: Primitive, primals: list[Any], tangents: list[Any],
                      params: dict[str, Any]) -> tuple[Any, Any]:
        """The primal and tangent results of the rule. Runs with the parent current."""
        rule = primitive.free_jvp
        if rule is None:  # An effect that is refused must not happen.
            primitive.declared(list(map(typeof, primals)), params, "differentiable")
            rule = primitive.jvp or primitive.missing(
                "jvp", operands=len(primals), params=params)
        try:
            if primitive.own:
                return rule(primals, tangents, **params)
            return rule(tuple(primals), tuple(tangents), **params)  # as JAX gives them
        except Exception as error:
            name_rule(error, primitive, "jvp", params)
            raise

    def result(self, primitive: Primitive, primal: Any, tangent: Any, declared: Any = None
               ) -> Any:
        """A tracer, or the bare primal if the tangent is zero; checks the types of both."""
        try:
            aval, actual = typeof(primal), None if type(tangent) is Zero else typeof(tangent)
        except TypeError:
            bad_rule_result(primitive, self.rule_name(primitive), lambda: (
                f"returned {describe_value(primal)} with the tangent {describe_value(tangent)}; "
                "both must be arrays (a tangent may be an ad.Zero)."))
        if declared is not None and aval is not declared and not same_array_type(aval, declared):
            bad_rule_result(primitive, self.rule_name(primitive), lambda: (
                f"returned a primal of type {aval}, but the abstract evaluation says {declared}."))
        if actual is None:
            return primal
        if actual is aval and aval.inexact:
            return tracer_of(self, primal, tangent, aval)
        expected = aval.to_tangent()
        if actual is not expected and not same_type_but_weak(actual, expected):
            cast = call_with(self.parent, vary_as, tangent, actual, expected)
            if cast is not None:
                return tracer_of(self, primal, cast, aval)
            bad_rule_result(primitive, self.rule_name(primitive), lambda: (
                f"returned a tangent of type {actual} for a result of type {aval}; it must have "
                f"type {expected}."))
        # The tangent of an integer is float0, which is always zero.
        return tracer_of(self, primal, tangent, aval) if aval.inexact else primal


def _as_given(primal: Any, tangent: Any, result: Any) -> bool:
    """Whether a result has the tangent that the rule gave, and a zero is of the right type."""
    if type(tangent) is Zero:
        aval = tangent.aval  # Some rules give Zero(array), which JAX takes.
        return isinstance(aval, AbstractValue) and aval == typeof(primal).to_tangent()
    return type(result) is JVPTracer and result.tangent is tangent


def are_named() -> bool:
    """Whether derivatives tell of which operations they are, for messages about NaNs."""
    return bool(thread.settings.debug_nans or thread.settings.debug_infs)


def under_its_name(differentiate: Callable[..., Any]) -> Callable[..., Any]:
    """A method `differentiate` that names the operation in the sources of its derivative."""

    def named(self: JVPInterpreter, primitive: Primitive, primals: list[Any], tangents: list[Any],
              params: dict[str, Any]) -> Any:
        before = thread.source
        outer = before if type(before) is Scope else None
        info = None if before is None or outer is not None else source_info_of(before)
        thread.source = Scope((f"{DERIVATIVE_OF}{primitive.name}",), thread.interpreter, outer,
                              info.traceback if outer is None and info else
                              outer and outer.traceback)
        try:
            return differentiate(self, primitive, primals, tangents, params)
        finally:
            thread.source = before

    return named


class _NamingInterpreter(JVPInterpreter):
    __slots__ = ()
    differentiate = under_its_name(JVPInterpreter.differentiate)


def jvp_flat(f: Callable[..., Sequence[Any]], primals: Sequence[Any], tangents: Sequence[Any],
             interpreter: type[JVPInterpreter] | None = None
             ) -> tuple[list[Any], list[Any]]:
    """Evaluates a function of flat values with tangents; those may be and become `Zero`s."""
    kind = interpreter or (_NamingInterpreter if are_named() else JVPInterpreter)
    interp = kind(thread.interpreter)
    interp.function = f
    with running(interp):
        results = split_results(interp, f(*[
            p if type(t) is Zero else JVPTracer(interp, p, t)
            for p, t in zip(primals, tangents, strict=True)]))
    refuse_leaks(interp)
    return results


def split_results(interp: Interpreter, outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Primals and tangents of a function's results under a jvp interpreter."""
    primals, tangents = [], []
    if not isinstance(outs, (list, tuple)):
        refuse_results(interp.function, outs)
    for out in outs:
        if type(out) is JVPTracer and out.interp is interp:
            primals.append(out.primal)
            tangents.append(out.tangent)
        else:
            primals.append(out)
            tangents.append(zero_tangent(out))
    return primals, tangents


def jvp_jaxpr(jaxpr: Jaxpr, nonzeros: Sequence[bool], instantiate: bool | Sequence[bool]
              ) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr of a jaxpr's jvp, cached on it.

    Args:
      jaxpr: inputs `(primals...)`, results `(outs...)`.
      nonzeros: which inputs have a tangent.
      instantiate: for which results a zero tangent is made an array.

    Returns:
      A jaxpr from `(primals..., nonzero tangents...)` to `(outs..., nonzero tangents...)`,
      and which results have a tangent.

    Raises:
      TypeError: `jaxpr` is not a jaxpr, `nonzeros` is not iterable, `instantiate` is neither a bool
        nor iterable, or a jvp rule gives what does not fit.
      ValueError: there are more or fewer flags than inputs or results.
      MissingRuleError: a primitive does not have a jvp rule.

    Example:
      >>> from mjax_ext.interpreters import ad
      >>> jvp, _ = ad.jvp_jaxpr(mjax.make_jaxpr(lax.sin)(1.0), [True], False)
      >>> len(jvp.in_avals), len(jvp.out_avals)
      (2, 2)
    """
    try:
        wanted = per_item(instantiate, len(jaxpr.outvars))
        nonzeros = tuple(nonzeros)
    except (AttributeError, TypeError):
        refuse_flags("jvp_jaxpr", jaxpr, nonzeros=nonzeros, instantiate=instantiate)
        raise

    def make() -> tuple[Jaxpr, list[bool]]:
        check_count("jvp_jaxpr", "nonzeros", nonzeros, jaxpr.invars, "input")
        check_count("jvp_jaxpr", "instantiate", wanted, jaxpr.outvars, "result")
        nonzero_outs: list[bool] = []
        n = len(jaxpr.invars)

        def f(*args: Any) -> list[Any]:
            tangents = with_zeros(nonzeros, args[n:], jaxpr.in_avals)
            outs, out_tangents = jvp_flat(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a),
                                          args[:n], tangents)
            out_tangents = [as_array(t) if w else t
                            for t, w in zip(out_tangents, wanted, strict=True)]
            nonzero_outs.extend(type(t) is not Zero for t in out_tangents)
            return [*outs, *[t for t in out_tangents if type(t) is not Zero]]

        avals = jaxpr.in_avals + [a.to_tangent() for a, nz in
                                  zip(jaxpr.in_avals, nonzeros, strict=True) if nz]
        return trace_to_jaxpr(f, avals, jaxpr.debug_info), nonzero_outs

    return jaxpr.cached(("jvp", nonzeros, wanted, thread.settings), make)
