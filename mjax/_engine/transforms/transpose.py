"""Transposition: walks a linear program backwards, from cotangents of its results to those
of its inputs.

Equations that do not depend on a linear input are run forwards first, as far as cotangents
depend on them. A variable's cotangent is complete when the equation that binds it is reached;
uses are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, per_item
from mjax._engine.ir.effects import keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, used_variables
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.source import Scope, SourceInfo, replayed
from mjax._engine.ir.types import same_type_but_weak, typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate
from mjax._engine.tracing.rule_errors import (
    SymbolicValueError,
    bad_rule_result,
    describe_value,
    name_rule,
    not_linear,
    refuse_flags,
)
from mjax._engine.tracing.stage import constants_of, settled, trace_to_jaxpr
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import not_summed, vary_as
from mjax._engine.transforms.discharge import without_references


def backward_pass(jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cts: Sequence[Any],
                  mark: str = "") -> list[Any]:
    """Cotangents of the linear inputs of a program.

    Args:
      jaxpr: linear in the inputs that are undefined.
      consts: values of its constants.
      args: an `UndefinedPrimal` for each linear input, values for the others.
      cts: a cotangent or a `Zero` for each result.
      mark: the mark of its equations in names of scopes.

    Returns:
      For each input its cotangent or a `Zero` if it is undefined, else None.
    """
    if jaxpr.effects:
        if any(type(a) is UndefinedPrimal and is_reference(a.aval) for a in args):
            raise LazyTypeError(lambda: (
                "a backward pass (vjp, linear_transpose) reached a reference among the arguments "
                f"of types {', '.join(map(str, jaxpr.in_avals))}: derivatives are taken in arrays. "
                "Make the reference in the function, mjax.new_ref(x)."))
        jaxpr, n = without_references(jaxpr), len(consts)
        consts = [*consts, *jaxpr.consts[n:]]
    jaxpr = settled(jaxpr)
    values = constants_of(jaxpr, consts)
    for var, arg in zip(jaxpr.invars, args, strict=True):
        if type(arg) is not UndefinedPrimal:
            values[var] = arg
    outer = thread.source
    try:
        linear, known = _split(jaxpr, values)
        if len(linear) < len(jaxpr.eqns):
            wanted = [atom for atom, ct in zip(jaxpr.outvars, cts, strict=True)
                      if type(ct) is not Zero]
            _run(_needed(jaxpr, wanted, known), values)
        cotangents: dict[Any, Any] = {}
        for atom, ct in zip(jaxpr.outvars, cts, strict=True):
            if type(ct) is not Zero and type(atom) is not Literal and atom not in known:
                if atom.aval.varying:
                    # A cotangent may come from outside, such as the initial 1 of grad.
                    cast = vary_as(ct, typeof(ct), atom.aval.to_cotangent())
                    ct = ct if cast is None else cast
                before = cotangents.get(atom)
                cotangents[atom] = ct if before is None else add_tangents(before, ct)
        scoped = type(outer) is Scope
        for eqn in reversed(linear):
            source = eqn.source
            thread.source = (replayed(source, outer, mark)
                             if scoped or type(source) is SourceInfo else source)
            _transpose_equation(eqn, values, cotangents)
    finally:
        thread.source = outer
    return [cotangents.get(var, Zero(var.aval.to_cotangent()))
            if type(arg) is UndefinedPrimal else None
            for var, arg in zip(jaxpr.invars, args, strict=True)]


def _split(jaxpr: Jaxpr, values: dict[Any, Any]) -> tuple[list[JaxprEqn], set[Any]]:
    """The equations that depend on undefined inputs, and the variables that do not."""
    known = set(values)
    linear = []
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if type(atom) is not Literal and atom not in known:
                linear.append(eqn)
                break
        else:
            known.update(eqn.outvars)
    return linear, known


def _needed(jaxpr: Jaxpr, wanted: Sequence[Any], known: set[Any]) -> list[JaxprEqn]:
    """The equations to run forwards: those that cotangents depend on, and those with effects.

    None of them depends on undefined inputs. The others only computed values of results, which are
    not needed here.
    """
    used = used_variables(wanted) - known
    needed = []
    for eqn in reversed(jaxpr.eqns):
        operands = used_variables(eqn.invars)
        is_known = operands <= known
        if not used.isdisjoint(eqn.outvars) or (is_known and keeps_equation(eqn.effects)):
            used |= operands
            if is_known:
                needed.append(eqn)
    return needed[::-1]


def _run(eqns: Sequence[JaxprEqn], values: dict[Any, Any]) -> None:
    """Runs equations whose operands have values."""
    for eqn in eqns:
        thread.source = eqn.source
        out = eqn.primitive.bind(
            *[a.val if type(a) is Literal else values[a] for a in eqn.invars], **eqn.params)
        values.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out],
                          strict=True))


def _transpose_equation(eqn: JaxprEqn, values: dict[Any, Any], cotangents: dict[Any, Any]) -> None:
    invars, outvars, primitive, params, _, _ = eqn
    if primitive.multiple_results:
        ct: Any = [cotangents.pop(v, None) for v in outvars]
        if all(c is None for c in ct):
            return
        ct = [Zero(v.aval.to_cotangent()) if c is None else c
              for v, c in zip(outvars, ct, strict=True)]
    else:
        ct = cotangents.pop(outvars[0], None)
        if ct is None:
            return
    rule = primitive.transpose or primitive.missing(
        "transpose", operands=len(invars), params=params)
    operands = [a.val if type(a) is Literal else values[a] if a in values
                else UndefinedPrimal(a.aval) for a in invars]
    try:
        results = rule(ct, *operands, **params)
    except Exception as error:
        if (isinstance(error, SymbolicValueError) and error.blamed is None
                and "transpose" not in primitive.foreign):
            not_linear(primitive)  # rules of the engine are tested, so their use is at fault
        name_rule(error, primitive, "transpose", params)
        raise
    try:
        if len(results) != len(operands):
            _check_form(primitive, results, operands)
        for atom, operand, result in zip(invars, operands, results):  # `strict` takes longer
            if type(operand) is UndefinedPrimal and result is not None and type(result) is not Zero:
                try:
                    aval = atom.aval
                    fits = result.aval is aval and aval.inexact
                except AttributeError:
                    fits = False  # It is a NumPy array or a number.
                if not fits:
                    result = _fitted(primitive, atom, result, results, operands)
                known = cotangents.get(atom)
                cotangents[atom] = result if known is None else add_tangents(known, result)
    except (TypeError, ValueError):
        _check_form(primitive, results, operands)
        raise


def _check_form(primitive: Any, results: Any, operands: Sequence[Any]) -> None:
    """Refuses what is not a list of one cotangent per operand."""
    if not isinstance(results, (list, tuple)) or len(results) != len(operands):
        bad_rule_result(primitive, "transpose", lambda: (
            f"returned {describe_value(results)}; it must return a list of {len(operands)}, one "
            "cotangent or None per operand."))


def _fitted(primitive: Any, atom: Any, ct: Any, results: Any, operands: Sequence[Any]) -> Any:
    """A cotangent among the results of a rule for an operand; it is cast if it varies less."""
    _check_form(primitive, results, operands)
    aval = atom.aval
    try:
        actual = typeof(ct)
    except TypeError:
        actual = None
    expected = aval.to_cotangent()
    if actual is expected or (actual is not None and same_type_but_weak(actual, expected)):
        return ct
    cast = None if actual is None else vary_as(ct, actual, expected)
    if cast is None:
        bad_rule_result(primitive, "transpose", lambda: (
            f"returned {'a cotangent of type ' + str(actual) if actual else describe_value(ct)} "
            f"for an operand of type {aval}; it must have type {expected}."
            + not_summed(actual, expected)))
    return cast


def transpose_jaxpr(jaxpr: Jaxpr, undefined: Sequence[bool], nonzero_cts: Sequence[bool],
                    instantiate_cts: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """The jaxpr of a linear jaxpr's transpose, cached on it.

    Args:
      jaxpr: linear in the inputs marked `undefined`.
      undefined: which inputs are linear.
      nonzero_cts: which results have a cotangent.
      instantiate_cts: which linear inputs get one in any case, zeros if need be.

    Returns:
      A jaxpr from the defined inputs and the nonzero cotangents to the cotangents of the
      linear inputs that have one, and which those are.

    Raises:
      TypeError: `jaxpr` is not a jaxpr, `undefined` or `nonzero_cts` is not iterable, an equation
        is not linear, or a transpose rule gives what does not fit.
      ValueError: there are more or fewer flags than inputs, results or linear inputs.
      MissingRuleError: a primitive does not have a transpose rule.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(x, y))(1.0, 1.0)
      >>> transposed, which = ad.transpose_jaxpr(jaxpr, [True, False], [True])
      >>> core.eval_jaxpr(transposed, transposed.consts, 5.0, 2.0), which
      ([Array(10., dtype=float32, weak_type=True)], [True])
    """
    try:
        undefined, nonzero_cts = tuple(undefined), tuple(nonzero_cts)
        wanted, cached = per_item(instantiate_cts, sum(undefined)), jaxpr.cached
    except (AttributeError, TypeError):
        refuse_flags("transpose_jaxpr", jaxpr, undefined=undefined, nonzero_cts=nonzero_cts,
                     instantiate_cts=instantiate_cts)
        raise

    def make() -> tuple[Jaxpr, list[bool]]:
        check_count("transpose_jaxpr", "undefined", undefined, jaxpr.invars, "input")
        check_count("transpose_jaxpr", "nonzero_cts", nonzero_cts, jaxpr.outvars, "result")
        nonzero_ins: list[bool] = []

        def f(*args: Any) -> list[Any]:
            given = iter(args)
            ins = [UndefinedPrimal(a) if u else next(given)
                   for a, u in zip(jaxpr.in_avals, undefined, strict=True)]
            cts = [next(given) if nz else Zero(a.to_cotangent())
                   for a, nz in zip(jaxpr.out_avals, nonzero_cts, strict=True)]
            results = [r for r, u in zip(backward_pass(jaxpr, jaxpr.consts, ins, cts), undefined,
                                         strict=True) if u]
            results = [instantiate(r) if w else r for r, w in zip(results, wanted, strict=True)]
            nonzero_ins.extend(type(r) is not Zero for r in results)
            return [r for r in results if type(r) is not Zero]

        avals = [a for a, u in zip(jaxpr.in_avals, undefined, strict=True) if not u]
        avals += [a.to_cotangent() for a, nz in zip(jaxpr.out_avals, nonzero_cts, strict=True)
                  if nz]
        return trace_to_jaxpr(f, avals, jaxpr.debug_info), nonzero_ins

    return cached(("transpose", undefined, nonzero_cts, wanted, thread.settings), make)
