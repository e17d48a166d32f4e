"""Partial evaluation by a policy, which decides what is computed a second time.

Each value of a program is known or unknown, and instantiated or not: instantiated values are
available to the second program without a residual. An unknown value always is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from mjax._engine.base.util import partition_list, selected
from mjax._engine.control.calls.closed_call import closed_call_p
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.control.remat.policies import Decided
from mjax._engine.ir.effects import join_effects, keeps_equation
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import as_jaxpr, bad_rule_result, describe_value
from mjax_ext._checked import flags_for

#: `(saveable, unks_in, inst_in, eqn) -> known equation, staged equation, unks_out, inst_out,
#: residuals`.
PartialEvalCustomResult = tuple[JaxprEqn | None, JaxprEqn | None, Sequence[bool], Sequence[bool],
                                list[Var]]
#: `(saveable, unks_in, inst_in, eqn) -> known eqn, staged eqn, unks_out, inst_out, residuals`.
PartialEvalCustomRule = Callable[[Callable[..., Any], Sequence[bool], Sequence[bool], JaxprEqn],
                                 PartialEvalCustomResult]
#: `(unks_in, inst_in, kept_outs_known, kept_outs_staged, number of residuals, known params, staged
#: params) -> both params`.
ParamsUpdater = Callable[..., tuple[dict[str, Any], dict[str, Any]]]
#: `(known params, type of a residual inside) -> its type outside`.
ResAvalUpdater = Callable[[dict[str, Any], Any], Any]


def partial_eval_jaxpr_custom(jaxpr: Jaxpr, in_unknowns: Sequence[bool],
                              in_inst: bool | Sequence[bool],
                              ensure_out_unknowns: bool | Sequence[bool],
                              ensure_out_inst: bool | Sequence[bool],
                              saveable: Callable[..., Any]
                              ) -> tuple[Jaxpr, Jaxpr, list[bool], list[bool], int]:
    """Cuts a jaxpr into a part that runs now, and one that runs later and may compute again.

    Args:
      jaxpr: the program.
      in_unknowns: which inputs are unknown.
      in_inst: which inputs the second part is given. Unknown ones must be.
      ensure_out_unknowns: which results count as unknown in any case.
      ensure_out_inst: which results the second part gives in any case.
      saveable: a checkpoint policy, `(primitive, *types of operands, **params) -> bool`: whether
        results may be residuals. Otherwise their equation is repeated in the second part.

    Returns:
      A program from the known inputs to the known results and the residuals; one from the residuals
      and the instantiated inputs to the instantiated results; which results are unknown, and which
      are instantiated; and the number of residuals.

    Raises:
      ValueError: there are more or fewer flags than inputs, or than results; an unknown input is
        not instantiated.
      TypeError: the policy or a rule returns something else.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: lax.mul(lax.sin(lax.cos(x)), y))(1.0, 1.0)
      >>> known, staged, *_ , residuals = partial_eval.partial_eval_jaxpr_custom(
      ...     jaxpr, [False, True], [False, True], False, False,
      ...     lambda primitive, *avals, **params: primitive.name == "cos")
      >>> [eqn.primitive for eqn in staged.eqns], residuals
      ([sin, mul], 1)
    """
    who = "partial_eval_jaxpr_custom"
    as_jaxpr(who, jaxpr)
    unknown = flags_for(who, "in_unknowns", in_unknowns, jaxpr.invars, "input")
    inst = flags_for(who, "in_inst", in_inst, jaxpr.invars, "input")
    if any(u and not i for u, i in zip(unknown, inst, strict=True)):
        msg = (f"{who}: an unknown input must be instantiated; in_unknowns is {list(unknown)}, and "
               f"in_inst {list(inst)}.")
        raise ValueError(msg)
    walk = _Walk(jaxpr, unknown, inst, Decided(saveable))
    out_unknown, out_inst = (list(flags) for flags in walk.states(jaxpr.outvars))
    wanted = flags_for(who, "ensure_out_inst", ensure_out_inst, jaxpr.outvars, "result")
    for atom, i, w in zip(jaxpr.outvars, out_inst, wanted, strict=True):
        if w and not i:
            walk.add_residual(atom)
    more = flags_for(who, "ensure_out_unknowns", ensure_out_unknowns, jaxpr.outvars, "result")
    out_unknown = [a or b for a, b in zip(out_unknown, more, strict=True)]
    out_inst = [a or b for a, b in zip(out_inst, wanted, strict=True)]
    residuals = list(walk.residuals)
    known = _program(jaxpr, partition_list(unknown, jaxpr.invars)[0], walk.known,
                     [*partition_list(out_unknown, jaxpr.outvars)[0], *residuals])
    staged = _program(jaxpr, [*residuals, *selected(inst, jaxpr.invars)], walk.staged,
                      selected(out_inst, jaxpr.outvars))
    return known, staged, out_unknown, out_inst, len(residuals)


def _program(jaxpr: Jaxpr, invars: Sequence[Var], eqns: Sequence[JaxprEqn],
             outvars: Sequence[Any]) -> Jaxpr:
    return jaxpr.replace(invars=invars, eqns=eqns, outvars=outvars,
                         effects=join_effects(eqn.effects for eqn in eqns),
                         debug_info=jaxpr.debug_info._replace(arg_names=None))


class _Walk:
    """The equations of both programs, and the residuals."""

    def __init__(self, jaxpr: Jaxpr, unknown: Sequence[bool], inst: Sequence[bool],
                 saveable: Callable[..., bool]):
        self.known: list[JaxprEqn] = []
        self.staged: list[JaxprEqn] = []
        self.residuals: dict[Var, None] = {}
        self._states: dict[Any, tuple[bool, bool]] = dict.fromkeys(jaxpr.constvars, (False, True))
        self._states.update(zip(jaxpr.invars, zip(unknown, inst, strict=True), strict=True))
        for eqn in jaxpr.eqns:
            rule = partial_eval_jaxpr_custom_rules.get(eqn.primitive)
            if rule is None:
                self._default(eqn, saveable)
            else:
                self._by_rule(eqn, rule, saveable)

    def states(self, atoms: Sequence[Any]) -> tuple[Sequence[bool], Sequence[bool]]:
        """Which atoms are unknown, and which are instantiated."""
        found = [(False, True) if type(a) is Literal else self._states[a] for a in atoms]
        return [u for u, _ in found], [i for _, i in found]

    def add_residual(self, atom: Any) -> None:
        """Hands a known value on to the second program."""
        self.residuals[atom] = None

    def _stage(self, eqn: JaxprEqn, inst: Sequence[bool]) -> None:
        for atom, i in zip(eqn.invars, inst, strict=True):
            if not i:
                self.add_residual(atom)
        self.staged.append(eqn)

    def _default(self, eqn: JaxprEqn, saveable: Callable[..., bool]) -> None:
        unknown, inst = self.states(eqn.invars)
        if any(unknown):
            self._stage(eqn, inst)
            self._states.update(dict.fromkeys(eqn.outvars, (True, True)))
            return
        self.known.append(eqn)
        saved = keeps_equation(eqn.effects) or saveable(
            eqn.primitive, *[a.aval for a in eqn.invars], **eqn.params)
        if not saved:
            self._stage(eqn, inst)
        self._states.update(dict.fromkeys(eqn.outvars, (False, not saved)))

    def _by_rule(self, eqn: JaxprEqn, rule: PartialEvalCustomRule,
                 saveable: Callable[..., bool]) -> None:
        known, staged, unks_out, inst_out, residuals = call_rule(
            rule, saveable, *self.states(eqn.invars), eqn)
        if known is not None:
            self.known.append(known)
        if staged is not None:
            self.staged.append(staged)
        self.residuals.update(dict.fromkeys(residuals))
        self._states.update(zip(eqn.outvars, zip(unks_out, inst_out, strict=True), strict=True))


def call_rule(rule: PartialEvalCustomRule, saveable: Callable[..., Any], unks_in: Sequence[bool],
              inst_in: Sequence[bool], eqn: JaxprEqn) -> PartialEvalCustomResult:
    """The result of a rule, which must be of the right form.

    Raises:
      TypeError: it is not.
    """
    result = rule(saveable, list(unks_in), list(inst_in), eqn)
    n = len(eqn.outvars)
    if not (isinstance(result, (tuple, list)) and len(result) == 5
            and all(e is None or isinstance(e, JaxprEqn) for e in result[:2])
            and len(result[2]) == len(result[3]) == n):
        bad_rule_result(eqn.primitive, "partial_eval_jaxpr_custom", lambda: (
            f"returned {describe_value(result)}; it must return the known equation or None, the "
            f"staged equation or None, {n} flags for unknown results, {n} for instantiated ones, "
            "and a list of residuals."), eqn.source)
    return result


class _Rules(MutableMapping[Primitive, PartialEvalCustomRule]):
    """Primitive -> rule. `checkpoint` follows the rules that users set."""

    def __init__(self, engine: dict[Primitive, PartialEvalCustomRule]):
        self._rules: WeakKeyDictionary[Primitive, PartialEvalCustomRule] = WeakKeyDictionary(engine)

    def __getitem__(self, primitive: Primitive) -> PartialEvalCustomRule:
        return self._rules[primitive]

    def __setitem__(self, primitive: Primitive, rule: PartialEvalCustomRule) -> None:
        if not isinstance(primitive, Primitive) or not callable(rule):
            msg = ("partial_eval_jaxpr_custom_rules maps primitives to functions (saveable, "
                   f"unks_in, inst_in, eqn); got {describe_value(primitive)} and "
                   f"{describe_value(rule)}.")
            raise TypeError(msg)
        primitive.define("recompute", partial(_recompute, rule))
        self._rules[primitive] = rule

    def __delitem__(self, primitive: Primitive) -> None:
        del self._rules[primitive]
        primitive.undefine("recompute")

    def __iter__(self) -> Iterator[Primitive]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)


def _recompute(rule: PartialEvalCustomRule, saveable: Callable[..., Any], used: Sequence[bool],
               eqn: JaxprEqn) -> tuple[JaxprEqn, JaxprEqn | None]:
    """The engine's rule `recompute`: all operands are known, and available a second time."""
    n = len(eqn.invars)
    known, staged, unks_out, *_ = call_rule(rule, saveable, [False] * n, [True] * n, eqn)
    if known is None or any(unks_out):
        bad_rule_result(eqn.primitive, "partial_eval_jaxpr_custom", lambda: (
            "calls results unknown although all operands are known."), eqn.source)
    return known, staged


# ---- rules of calls ----------------------------------------------------------------------


def call_partial_eval_custom_rule(jaxpr_param_name: str, params_updater: ParamsUpdater,
                                  saveable: Callable[..., Any], unks_in: Sequence[bool],
                                  inst_in: Sequence[bool], eqn: JaxprEqn, *,
                                  res_aval: ResAvalUpdater = lambda params, aval: aval,
                                  ctx: Callable[[dict[str, Any]], Any] = lambda params: (
                                      nullcontext())
                                  ) -> PartialEvalCustomResult:
    """The rule for `partial_eval_jaxpr_custom_rules` of a primitive that calls a program.

    Bind the first two arguments: `functools.partial(call_partial_eval_custom_rule, "jaxpr", f)`.

    Args:
      jaxpr_param_name: the param with the program.
      params_updater: from which operands are unknown, which are instantiated, which results the
        known part has, which the staged one has, the number of residuals, and both params with
        their programs, to both params.
      saveable, unks_in, inst_in, eqn: the arguments of a rule.
      res_aval: from the known params and the type of a residual inside to its type outside.
      ctx: from the params to a context in which the program is cut.

    Returns:
      The known equation, the staged one, which results are unknown, which are instantiated, and the
      residuals.

    Raises:
      AttributeError: `eqn` is not an equation.
      KeyError: it does not have the param.
      TypeError: the param is not a `Jaxpr`; flags are not lists of bools; the policy does not
        return a decision, or the updater a pair.
      ValueError: there are more or fewer flags than inputs; an unknown input is not
        instantiated; the updater returns more or fewer than two values.

    Example:
      >>> from functools import partial
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> call_p = core.Primitive("call", multiple_results=True)
      >>> frame = core.Frame(call_p, "call_jaxpr")
      >>> pe.partial_eval_jaxpr_custom_rules[call_p] = partial(
      ...     pe.call_partial_eval_custom_rule, "call_jaxpr", lambda *args: args[-2:])
      >>> inner = mjax.make_jaxpr(lambda x, y: [lax.mul(lax.sin(x), y)])(1.0, 1.0)
      >>> outer = mjax.make_jaxpr(lambda x, y: call_p.bind(x, y, call_jaxpr=inner))(1.0, 1.0)
      >>> known, staged, *_ = pe.partial_eval_jaxpr_custom(
      ...     outer, [False, True], [False, True], False, False, lambda *_, **__: True)
      >>> [eqn.primitive for eqn in known.eqns[0].params["call_jaxpr"].eqns]
      [sin]
    """

    def update(*args: Any) -> Any:
        return params_updater(*args[:5], *args[6:])

    return closed_call_partial_eval_custom_rule(
        jaxpr_param_name, update, saveable, unks_in, inst_in, eqn, res_aval=res_aval, ctx=ctx)


def closed_call_partial_eval_custom_rule(
        jaxpr_param_name: str, params_updater: ParamsUpdater, saveable: Callable[..., Any],
        unks_in: Sequence[bool], inst_in: Sequence[bool], eqn: JaxprEqn, *,
        res_aval: ResAvalUpdater = lambda params, aval: aval,
        ctx: Callable[[dict[str, Any]], Any] = lambda params: nullcontext()
        ) -> PartialEvalCustomResult:
    """`call_partial_eval_custom_rule` whose updater is given the number of residuals twice.

    Args:
      params_updater: from which operands are unknown, which are instantiated, which results the
        known part has, which the staged one has, the number of residuals that the known part
        gives, the number that the staged one takes, and both params, to both params.
      jaxpr_param_name, saveable, unks_in, inst_in, eqn, res_aval, ctx: as there.

    Returns:
      The known equation, the staged one, which results are unknown, which are instantiated, and the
      residuals.

    Raises:
      AttributeError, KeyError, TypeError, ValueError: as `call_partial_eval_custom_rule` does.

    Example:
      >>> from mjax_ext.core.primitives import jit_p
      >>> from mjax_ext.interpreters import partial_eval
      >>> jit_p in partial_eval.partial_eval_jaxpr_custom_rules
      True
    """
    with ctx(eqn.params):
        known, staged, unks_out, inst_out, n = partial_eval_jaxpr_custom(
            eqn.params[jaxpr_param_name], unks_in, inst_in, False, False, saveable)
    params = [{**eqn.params, jaxpr_param_name: part} for part in (known, staged)]
    params_known, params_staged = params_updater(
        list(unks_in), list(inst_in), [not u for u in unks_out], inst_out, n, n, *params)
    residuals = [Var(res_aval(params_known, v.aval)) for v in staged.invars[:n]]
    eqn_known = eqn.replace(
        invars=partition_list(unks_in, eqn.invars)[0], params=params_known,
        outvars=[*partition_list(unks_out, eqn.outvars)[0], *residuals], effects=known.effects)
    eqn_staged = eqn.replace(
        invars=[*residuals, *selected(inst_in, eqn.invars)], params=params_staged,
        outvars=selected(inst_out, eqn.outvars), effects=staged.effects)
    return eqn_known, eqn_staged, unks_out, inst_out, residuals


def _jit_params(unks_in: Sequence[bool], inst_in: Sequence[bool], kept_known: Any,
                kept_staged: Any, n_given: int, n_taken: int, known: dict[str, Any],
                staged: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Nothing is donated: the second part may read operands of the first."""
    return ({**known, "donated_invars": (False,) * unks_in.count(False)},
            {**staged, "donated_invars": (False,) * (n_taken + sum(inst_in))})


partial_eval_jaxpr_custom_rules: _Rules = _Rules({
    jit_p: partial(closed_call_partial_eval_custom_rule, "jaxpr", _jit_params),
    closed_call_p: partial(closed_call_partial_eval_custom_rule, "call_jaxpr",
                           lambda *args: args[-2:])})
