"""Results of rules, compared with what each kind of rule has to give.

Errors name the primitive, the rule and what was expected; see `rule_errors`. Rules of the engine
are tested, so what costs time is compared for rules of others only (`Primitive.foreign`). Types
that were compared once are looked up (`Primitive.agreed`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from mjax._engine.base.util import counted
from mjax._engine.ir.effects import Effect, OperandEffect
from mjax._engine.ir.jaxpr import JaxprEqn, Var, used_variables
from mjax._engine.ir.types import AbstractValue, same_array_type, typeof
from mjax._engine.tracing.agreed import note_beside
from mjax._engine.tracing.operands import OperandsVaryError
from mjax._engine.tracing.rule_errors import (
    as_pair,
    bad_rule_result,
    check_lists,
    describe_value,
    name_rule,
)


def refuse_misfits(primitive: Any, values: Sequence[Any], params: dict[str, Any], policy: str
                   ) -> None:
    """Raises the error for operands or params that do not fit, in place of what a rule raised.

    Transformations type an application after its rule, and then from a cache.

    Args:
      primitive: the primitive.
      values: its operands.
      params: its params.
      policy: see `Primitive.declared`.
    """
    try:
        primitive.declared(list(map(typeof, values)), params, policy)
    except Exception as error:
        raise error from None


def _bad(primitive: Any, rule: str, what: str, source: Any = None) -> NoReturn:
    bad_rule_result(primitive, rule, lambda: f"returned {what}", source)


def apply_rule(primitive: Any, rule: str, args: Sequence[Any], params: Mapping[str, Any],
               source: Any = None) -> Any:
    """Calls a rule of the record; what it raises names the rule."""
    try:
        return getattr(primitive, rule)(*args, **params)
    except Exception as error:
        name_rule(error, primitive, rule, params, source)
        raise


def types_of_result(primitive: Any, result: Any, operands: int) -> tuple[Any, Any]:
    """Types and effects that an abstract evaluation gave.

    Args:
      primitive: the primitive.
      result: what the rule returned.
      operands: the number of operands.
    """
    if not (isinstance(result, tuple) and len(result) == 2
            and isinstance(result[1], (frozenset, set))):
        bad_rule_result(primitive, "abstract_eval", lambda: (
            f"returned {describe_value(result)}; an effectful one must return a pair of types "
            "and a set of effects."))
    out, effects = result
    for effect in effects:
        if not isinstance(effect, Effect):
            _bad(primitive, "abstract_eval", f"{effect!r} among the effects; they must be "
                 "instances of mjax_ext.core.Effect.")
        if isinstance(effect, OperandEffect) and effect.index not in (None, *range(operands)):
            _bad(primitive, "abstract_eval", f"the effect {effect!r} for {operands} operands; the "
                 "first one is 0.")
    outs: Any = out if primitive.multiple_results else [out]
    if not isinstance(outs, (list, tuple)) or not all(
            isinstance(aval, AbstractValue) for aval in outs):
        bad_rule_result(primitive, "abstract_eval", lambda: (
            f"returned {describe_value(out)}; " + (
                "since multiple_results=True it must return a list of types"
                if primitive.multiple_results else
                "it must return one type, or the primitive be made with multiple_results=True")
            + " (mjax_ext.core.ShapedArray)."))
    return outs, effects


def check_values(primitive: Any, rule: str, out: Any, operands: Sequence[Any],
                 params: dict[str, Any], source: Any = None) -> None:
    """Refuses results that are not values of the types of the abstract evaluation, if there is one.

    Notes types that agree.

    Args:
      primitive: the primitive.
      rule: the rule.
      out: what it returned.
      operands: the operands.
      params: the params.
      source: where it was applied; by default the present call.
    """
    declared = None
    if primitive.abstract_eval is not None and primitive.types_cacheable:
        declared = primitive.infer(list(map(typeof, operands)), params)[0]
    if primitive.multiple_results:
        check_lists(primitive, rule, [out], None if declared is None else len(declared),
                    "a list of results", source)
    outs = out if primitive.multiple_results else [out]
    for i, value in enumerate(outs):
        try:
            aval = typeof(value)
        except TypeError:
            _bad(primitive, rule, f"{describe_value(value)} for an array.", source)
        if declared is not None and not same_array_type(aval, declared[i]):
            _bad(primitive, rule, f"a result of type {aval}, but the abstract evaluation says "
                 f"{declared[i]}.", source)
    if declared is not None and not primitive.multiple_results:
        note_beside(primitive.comparisons, operands, params, rule, aval)


def refuse_other_count(primitive: Any, who: str, outs: Sequence[Any], args: Sequence[Any],
                       params: dict[str, Any], hint: str = "") -> None:
    """Refuses lists that do not have an element for each result of a primitive.

    Args:
      primitive: the primitive; it has multiple results.
      who: the method that returned the list, for messages.
      outs: the list.
      args: the operands.
      params: the params.
      hint: the end of the message.

    Raises:
      TypeError: names the method and the primitive.
    """
    if primitive.abstract_eval is None:
        return
    try:
        count = len(primitive.infer(list(map(typeof, args)), params)[0])
    except (TypeError, ValueError):
        return  # the method takes operands that the primitive itself does not
    if len(outs) != count:
        msg = (f"{who} returned {describe_value(outs)} for primitive {primitive.name!r}, which has "
               f"{counted(count, 'result')}; it must return a list with an element for each.{hint}")
        raise TypeError(msg)


def staged(primitive: Any, args: Sequence[Any], params: dict[str, Any], trace: Any) -> Any:
    """The results of a primitive that records its equations itself while a program is staged.

    Args:
      primitive: the primitive.
      args: the source, and the operands.
      params: the params.
      trace: the trace.
    """
    out = apply_rule(primitive, "staging", [trace, *args], params)
    if "staging" in primitive.foreign:
        if primitive.multiple_results:
            check_lists(primitive, "staging", [out], None, "a list of results")
        for value in out if primitive.multiple_results else [out]:
            try:
                typeof(value)
            except TypeError:
                _bad(primitive, "staging", f"{describe_value(value)} for a value of the program.")
    return out


def discharged(eqn: JaxprEqn, operands: Sequence[Any]) -> tuple[Any, Mapping[int, Any]]:
    """The results of an equation on contents of references, and their new contents by operand."""
    primitive = eqn.primitive
    found = apply_rule(primitive, "discharge", operands, eqn.params, eqn.source)
    out, new = as_pair(primitive, "discharge", found,
                       "the result, and the new contents by the number of the operand", eqn.source)
    if not isinstance(new, Mapping) or not set(new) <= set(range(len(operands))):
        bad_rule_result(primitive, "discharge", lambda: (
            f"returned {describe_value(new)} for the new contents; it must be a dict from numbers "
            f"of operands, of which there are {len(operands)}."), eqn.source)
    if primitive.multiple_results:
        check_lists(primitive, "discharge", [out], len(eqn.outvars), "a list of results",
                    eqn.source)
    return out, new


def recomputed(eqn: JaxprEqn, saveable: Any, used: Sequence[bool]
               ) -> tuple[JaxprEqn, JaxprEqn | None]:
    """The equation that also gives what it saves, and the one that gives used results again."""
    primitive = eqn.primitive
    try:
        found = primitive.recompute(saveable, used, eqn)
    except Exception as error:
        name_rule(error, primitive, "recompute", eqn.params, eqn.source)
        raise
    meaning = "the equation that saves values, and the one that gives used results again, or None"
    first, second = as_pair(primitive, "recompute", found, meaning, eqn.source)
    for new in first, second:
        if not isinstance(new, JaxprEqn) and (new is first or new is not None):
            _bad(primitive, "recompute", f"{describe_value(new)}; it must return a pair: "
                 f"{meaning}.", eqn.source)
    return first, second


def pruned(eqn: JaxprEqn, used: list[bool]) -> tuple[Sequence[bool], JaxprEqn | None]:
    """Which operands of an equation with these used results are used, and the new equation."""
    primitive = eqn.primitive
    try:
        found = primitive.dce(used, eqn)
    except Exception as error:
        name_rule(error, primitive, "dce", eqn.params, eqn.source)
        raise
    if "dce" not in primitive.foreign or (type(found) is tuple and len(found) == 2 and (
            found[1] is eqn) and found[0] == [True] * len(eqn.invars)):
        return found  # The rule is the engine's, or keeps all.
    used_ins, new = as_pair(primitive, "dce", found,
                            "which operands are used, and the new equation or None", eqn.source)
    if new is not None and (not isinstance(used_ins, (list, tuple))
                            or len(used_ins) != len(eqn.invars)):
        bad_rule_result(primitive, "dce", lambda: (
            f"returned {describe_value(used_ins)} to say which operands are used; it must return a "
            f"list of {counted(len(eqn.invars), 'boolean')}, one per operand."), eqn.source)
    _check_pruned(eqn, used, used_ins, new)
    return used_ins, new


def _check_pruned(eqn: JaxprEqn, used: Sequence[bool], used_ins: Sequence[bool], new: Any) -> None:
    """Refuses what does not bind used results, or reads operands that are said to be unused."""
    if new is None:
        if True in used:
            bad_rule_result(eqn.primitive, "dce", lambda: (
                f"returned None for the new equation, but result {used.index(True)} is used."),
                eqn.source)
        return
    if not isinstance(new, JaxprEqn):
        bad_rule_result(eqn.primitive, "dce", lambda: (
            f"returned {describe_value(new)} for the new equation; it must be a "
            "mjax_ext.core.JaxprEqn, such as eqn.replace(...), or None."), eqn.source)
    lost = [i for i, v in enumerate(eqn.outvars) if used[i] and v not in new.outvars]
    if lost:
        bad_rule_result(eqn.primitive, "dce", lambda: (
            f"returned an equation without result {lost[0]}, which is used."), eqn.source)
    given = {v for v, u in zip(eqn.invars, used_ins, strict=True) if u and type(v) is Var}
    if not used_variables(new.invars) <= given:
        bad_rule_result(eqn.primitive, "dce", lambda: (
            "returned an equation that reads operands which it says are unused: "
            f"{describe_value(used_ins)}."), eqn.source)
    _check_types(eqn, new)


def _check_types(eqn: JaxprEqn, new: JaxprEqn) -> None:
    """Refuses an equation in the place of another whose variables are not of its results' types."""
    primitive = new.primitive
    if new is eqn or primitive.abstract_eval is None or not primitive.types_cacheable:
        return
    try:
        types, _ = primitive.infer([v.aval for v in new.invars], new.params)
    except OperandsVaryError:
        return
    except Exception as error:
        name_rule(error, eqn.primitive, "dce", eqn.params, eqn.source)
        raise
    given = [v.aval for v in new.outvars]
    if len(types) != len(given) or not all(map(same_array_type, types, given)):
        bad_rule_result(eqn.primitive, "dce", lambda: (
            f"returned an equation with {_listed(given)}, but {primitive} with these operands and "
            f"params gives {_listed(types)}. Give it params for the results that are left, too: "
            "eqn.replace(params=..., outvars=...); or keep all results."), eqn.source)


def _listed(types: Sequence[Any]) -> str:
    return ", ".join([counted(len(types), "result"), *map(str, types)])


def cast_varying(primitive: Any, given: Sequence[Any], params: dict[str, Any]
                 ) -> tuple[Sequence[Any], dict[str, Any]]:
    """The mesh axes along which operands have to vary, and params for that."""
    found = apply_rule(primitive, "cast_varying", [given], params)
    if "cast_varying" in primitive.foreign:
        wanted, new = as_pair(primitive, "cast_varying", found,
                              "the axes of each operand, and the params")
        if not isinstance(wanted, (list, tuple)) or len(wanted) != len(given) or not all(
                isinstance(axes, frozenset) for axes in wanted) or not isinstance(new, dict):
            bad_rule_result(primitive, "cast_varying", lambda: (
                f"returned {describe_value(found)}; it must return a list of {len(given)} "
                "frozensets of axes, one per operand, and a dict of params."))
    wanted, new = found
    return wanted, new


def collective_axes(eqn: JaxprEqn) -> frozenset[Any]:
    """The named axes over which devices wait for each other in an equation."""
    primitive, avals = eqn.primitive, [v.aval for v in eqn.invars]
    if primitive.collective_axes is None:
        return frozenset()
    found = apply_rule(primitive, "collective_axes", avals, eqn.params, eqn.source)
    if not isinstance(found, (frozenset, set)):
        bad_rule_result(primitive, "collective_axes", lambda: (
            f"returned {describe_value(found)}; it must return a set of names of axes."),
            eqn.source)
    return frozenset(found)
