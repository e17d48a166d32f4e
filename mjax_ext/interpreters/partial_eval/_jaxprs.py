"""Jaxprs with their inputs in another order, and without what nobody needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mjax._engine.base.util import alias, counted, partition_list, split_list
from mjax._engine.ir.effects import Effects, join_effects, keeps_equation
from mjax._engine.ir.jaxpr import Atom, Jaxpr, JaxprEqn, Var
from mjax._engine.tracing.rule_errors import as_jaxpr
from mjax._engine.transforms import dce
from mjax_ext._checked import flags_for

#: `(used_outputs, eqn) -> used inputs, the new equation or None`.
DCERule = Callable[[list[bool], JaxprEqn], tuple[list[bool], JaxprEqn | None]]


def close_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """A program without constants, as a closed one. mjax has one class for both: it is returned.

    Args:
      jaxpr: the program.

    Returns:
      A `Jaxpr`.

    Raises:
      ValueError: it has constants; `convert_constvars_jaxpr` makes inputs of them.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> partial_eval.close_jaxpr(mjax.make_jaxpr(lax.sin)(1.0)).consts
      []
    """
    if as_jaxpr("close_jaxpr", jaxpr).constvars:
        msg = (f"close_jaxpr: the jaxpr has {counted(len(jaxpr.constvars), 'constant')}, so it is "
               "not closed without their values: make inputs of them by convert_constvars_jaxpr, "
               "or give the values, core.ClosedJaxpr(jaxpr, consts).")
        raise ValueError(msg)
    return jaxpr


def convert_constvars_jaxpr(jaxpr: Jaxpr) -> Jaxpr:
    """The program that takes its constants as leading inputs; cached on it.

    Args:
      jaxpr: of `n` constants and `m` inputs.

    Returns:
      A program of `n + m` inputs and no constants.

    Raises:
      TypeError: it is not a `Jaxpr`.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> ones = jnp.ones(2)
      >>> jaxpr = mjax.make_jaxpr(lambda x: lax.mul(x, ones))(ones)
      >>> lifted = partial_eval.convert_constvars_jaxpr(jaxpr)
      >>> core.eval_jaxpr(lifted, (), *jaxpr.consts, jnp.full(2, 3.0))
      [Array([3., 3.], dtype=float32)]
    """
    n = len(as_jaxpr("convert_constvars_jaxpr", jaxpr).constvars)
    names = jaxpr.debug_info.arg_names
    lifted: Jaxpr = jaxpr.cached("convert_constvars", lambda: jaxpr.replace(
        constvars=(), consts=(), invars=[*jaxpr.constvars, *jaxpr.invars],
        debug_info=jaxpr.debug_info._replace(
            arg_names=None if names is None else ("a constant",) * n + tuple(names))))
    return lifted


def convert_invars_to_constvars(jaxpr: Jaxpr, n: int) -> Jaxpr:
    """The program with its first inputs as constants, whose values the caller keeps.

    Args:
      jaxpr: a program without constants.
      n: the number of these inputs.

    Returns:
      A program of `n` constants. `core.eval_jaxpr(result, values, *args)` evaluates it.

    Raises:
      ValueError: the program has constants, or fewer than `n` inputs.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lax.sub)(1.0, 2.0)
      >>> core.eval_jaxpr(partial_eval.convert_invars_to_constvars(jaxpr, 1), [5.0], 2.0)
      [Array(3., dtype=float32, weak_type=True)]
    """
    if as_jaxpr("convert_invars_to_constvars", jaxpr).constvars and n:
        msg = ("convert_invars_to_constvars: the jaxpr has "
               f"{counted(len(jaxpr.constvars), 'constant')} already; "
               "convert_envvars_to_constvars adds to them.")
        raise ValueError(msg)
    return _with_constants("convert_invars_to_constvars", jaxpr, n)


def convert_envvars_to_constvars(jaxpr: Jaxpr, num_env_vars: int) -> Jaxpr:
    """The program with its first inputs as further constants, after those that it has.

    Args:
      jaxpr: the program.
      num_env_vars: the number of these inputs.

    Returns:
      A `Jaxpr`.

    Raises:
      ValueError: it has fewer inputs.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lax.sub)(1.0, 2.0)
      >>> len(partial_eval.convert_envvars_to_constvars(jaxpr, 2).constvars)
      2
    """
    return _with_constants("convert_envvars_to_constvars", as_jaxpr(
        "convert_envvars_to_constvars", jaxpr), num_env_vars)


def _with_constants(who: str, jaxpr: Jaxpr, n: int) -> Jaxpr:
    if not 0 <= n <= len(jaxpr.invars):
        msg = (f"{who}: the jaxpr has {counted(len(jaxpr.invars), 'input')}, of which {n} cannot "
               "be taken.")
        raise ValueError(msg)
    moved, invars = split_list(jaxpr.invars, [n])
    names = jaxpr.debug_info.arg_names
    return jaxpr.replace(
        constvars=[*jaxpr.constvars, *moved], invars=invars,
        debug_info=jaxpr.debug_info._replace(arg_names=names and names[n:]))


def separate_consts(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """A program without constants, whose leading inputs they are, and their values.

    Args:
      jaxpr: a program with constants.

    Returns:
      The program, and a list of values.

    Raises:
      TypeError: it is not a `Jaxpr`.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> ones = jnp.ones(2)
      >>> jaxpr = mjax.make_jaxpr(lambda x: lax.mul(x, ones))(ones)
      >>> open_jaxpr, consts = partial_eval.separate_consts(jaxpr)
      >>> len(open_jaxpr.invars), len(consts)
      (2, 1)
    """
    return convert_constvars_jaxpr(jaxpr), list(jaxpr.consts)


def move_binders_to_front(closed_jaxpr: Jaxpr, to_move: Sequence[bool]) -> Jaxpr:
    """The program with some inputs before the others, each group in its order.

    Args:
      closed_jaxpr: the program.
      to_move: which inputs come first.

    Returns:
      A `Jaxpr`.

    Raises:
      ValueError: there are more or fewer flags than inputs.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lax.sub)(1.0, 2.0)
      >>> core.eval_jaxpr(partial_eval.move_binders_to_front(jaxpr, [False, True]), (), 5.0, 2.0)
      [Array(-3., dtype=float32, weak_type=True)]
    """
    jaxpr = as_jaxpr("move_binders_to_front", closed_jaxpr)
    flags = flags_for("move_binders_to_front", "to_move", to_move, jaxpr.invars, "input")
    moved: Jaxpr = jaxpr.cached(("binders", flags), lambda: _moved(jaxpr, flags))
    return moved


def _moved(jaxpr: Jaxpr, flags: Sequence[bool]) -> Jaxpr:
    def order(values: Iterable[Any]) -> list[Any]:
        rest, first = partition_list(flags, list(values))
        return first + rest

    names = jaxpr.debug_info.arg_names
    known = names is not None and len(names) == len(flags)
    return jaxpr.replace(invars=order(jaxpr.invars), debug_info=jaxpr.debug_info._replace(
        arg_names=tuple(order(names)) if known else None))  # type: ignore[arg-type]


def move_binders_to_back(closed_jaxpr: Jaxpr, to_move: Sequence[bool]) -> Jaxpr:
    """The program with some inputs after the others, each group in its order.

    Args:
      closed_jaxpr: the program.
      to_move: which inputs come last; those beyond the flags do not.

    Returns:
      A `Jaxpr`.

    Raises:
      ValueError: there are more flags than inputs.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lax.sub)(1.0, 2.0)
      >>> core.eval_jaxpr(partial_eval.move_binders_to_back(jaxpr, [True, False]), (), 5.0, 2.0)
      [Array(-3., dtype=float32, weak_type=True)]
    """
    jaxpr, n = as_jaxpr("move_binders_to_back", closed_jaxpr), len(closed_jaxpr.invars)
    flags = flags_for("move_binders_to_back", "to_move",
                      [*to_move, *[False] * (n - len(to_move))], jaxpr.invars, "input")
    return move_binders_to_front(jaxpr, [not flag for flag in flags])


def make_jaxpr_effects(constvars: Sequence[Var], invars: Sequence[Var], outvars: Sequence[Atom],
                       eqns: Sequence[JaxprEqn]) -> Effects:
    """The effects of a program of these parts.

    Those of equations on operands become effects on the program's inputs. Those on values that the
    program makes itself, such as its own references, are left out.

    Args:
      constvars, invars, outvars, eqns: the parts of a `core.Jaxpr`.

    Returns:
      A frozenset of effects.

    Raises:
      AttributeError: an entry of `eqns` is not an equation.
      TypeError: `constvars`, `invars` or `eqns` cannot be iterated over.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lax.sin)(1.0)
      >>> partial_eval.make_jaxpr_effects(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, jaxpr.eqns)
      frozenset()
    """
    effects = join_effects(eqn.effects for eqn in eqns)
    return Jaxpr(constvars, invars, outvars, eqns, effects).effects


# ---- dead code ---------------------------------------------------------------------------


def has_effects(eqn: JaxprEqn) -> bool:
    """Whether dead-code elimination keeps an equation whose results are unused.

    Args:
      eqn: the equation.

    Returns:
      A bool.

    Raises:
      AttributeError: it is not an equation.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x: mjax.debug.print("{}", lax.sin(x)))(1.0)
      >>> [partial_eval.has_effects(eqn) for eqn in jaxpr.eqns]
      [False, True]
    """
    return keeps_equation(eqn.effects)


def dce_jaxpr(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool],
              instantiate: bool | Sequence[bool] = False) -> tuple[Jaxpr, list[bool]]:
    """The part of a jaxpr that determines some of its results.

    Args:
      jaxpr: the program.
      used_outputs: which results are wanted.
      instantiate: which inputs stay even if unused.

    Returns:
      The smaller program, of the wanted results and the inputs it uses, and which inputs of
      `jaxpr` these are. It has all constants; `dce_jaxpr_consts` leaves unused ones out.

    Raises:
      ValueError: there are more or fewer flags than results, or than inputs.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> jaxpr = mjax.make_jaxpr(lambda x: (lax.sin(x), lax.cos(x)))(1.0)
      >>> smaller, used = partial_eval.dce_jaxpr(jaxpr.jaxpr, [True, False])
      >>> len(smaller.eqns), used
      (1, [True])
    """
    smaller, used = _eliminated("dce_jaxpr", jaxpr, used_outputs, instantiate)
    if len(smaller.constvars) < len(jaxpr.constvars):
        # The caller may hold their values apart, and pair them with the variables.
        smaller = smaller.replace(constvars=jaxpr.constvars, consts=jaxpr.consts)
    return smaller, used


def dce_jaxpr_consts(jaxpr: Jaxpr, used_outputs: bool | Sequence[bool],
                     instantiate: bool | Sequence[bool] = False
                     ) -> tuple[Jaxpr, list[bool], list[bool]]:
    """`dce_jaxpr` that drops unused constants too.

    Args:
      jaxpr: the program.
      used_outputs: which results are wanted.
      instantiate: which constants and inputs stay even if unused, constants first.

    Returns:
      The smaller program, which constants of `jaxpr` it has, and which inputs.

    Raises:
      ValueError: there are more or fewer flags than results, or than constants and inputs.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> ones = jnp.ones(2)
      >>> jaxpr = mjax.make_jaxpr(lambda x: (lax.mul(x, ones), lax.sin(x)))(ones)
      >>> smaller, used_consts, used = partial_eval.dce_jaxpr_consts(jaxpr, [False, True])
      >>> used_consts, used, smaller.consts
      ([False], [True], [])
    """
    n = len(as_jaxpr("dce_jaxpr_consts", jaxpr).constvars)
    lifted, used = _eliminated("dce_jaxpr_consts", convert_constvars_jaxpr(jaxpr), used_outputs,
                               instantiate)
    used_consts, used = used[:n], used[n:]
    kept = [c for c, u in zip(jaxpr.consts, used_consts) if u]
    smaller = _with_constants("dce_jaxpr_consts", lifted, sum(used_consts))
    return smaller.replace(consts=kept), used_consts, used


def _eliminated(who: str, jaxpr: Jaxpr, used_outputs: Any, instantiate: Any
                ) -> tuple[Jaxpr, list[bool]]:
    as_jaxpr(who, jaxpr)
    return dce.dce_jaxpr(
        jaxpr, flags_for(who, "used_outputs", used_outputs, jaxpr.outvars, "result"),
        flags_for(who, "instantiate", instantiate, jaxpr.invars, "input"))


def dce_jaxpr_call_rule(used_outputs: Sequence[bool], eqn: JaxprEqn
                        ) -> tuple[list[bool], JaxprEqn | None]:
    """The `dce` rule of a primitive that calls the program in its param `call_jaxpr`.

    Args:
      used_outputs: which results of the equation are wanted.
      eqn: its operands are the inputs of the program, and its results those of the program.

    Returns:
      Which operands are used, and the equation of the smaller program. It is None, and no operand
      is used, where no result is wanted and no effect keeps it.

    Raises:
      AttributeError: `eqn` is not an equation.
      KeyError: it does not have a param `call_jaxpr`.
      TypeError: that is not a `Jaxpr`, or `used_outputs` is not a sequence of bools.
      ValueError: there are more or fewer flags than results, or operands than inputs. Equations
        that are dropped are not checked.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> call_p = core.Primitive("call", multiple_results=True)
      >>> call_p.def_abstract_eval(lambda *avals, call_jaxpr: call_jaxpr.out_avals)
      ... # doctest: +ELLIPSIS
      <function ...>
      >>> partial_eval.dce_rules[call_p] = partial_eval.dce_jaxpr_call_rule
      >>> inner = mjax.make_jaxpr(lambda x, y: (lax.sin(x), lax.cos(y)))(1.0, 1.0)
      >>> outer = mjax.make_jaxpr(lambda x, y: call_p.bind(x, y, call_jaxpr=inner))(1.0, 1.0)
      >>> smaller, used = partial_eval.dce_jaxpr(outer, [False, True])
      >>> len(smaller.eqns[0].params["call_jaxpr"].eqns), used
      (1, [False, True])
    """
    used_outputs = list(used_outputs)
    if not any(used_outputs) and not has_effects(eqn):
        return [False] * len(eqn.invars), None
    inner, used = dce_jaxpr(eqn.params["call_jaxpr"], used_outputs)
    if not any(used_outputs) and not keeps_equation(inner.effects):
        return [False] * len(eqn.invars), None
    return used, eqn.replace(
        invars=[a for a, u in zip(eqn.invars, used, strict=True) if u],
        outvars=[v for v, u in zip(eqn.outvars, used_outputs, strict=True) if u],
        params={**eqn.params, "call_jaxpr": inner}, effects=inner.effects)


dce_jaxpr_closed_call_rule: Final = alias(dce_jaxpr_call_rule, "dce_jaxpr_closed_call_rule")
