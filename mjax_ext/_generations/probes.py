"""Measurements of the engine: with what rules are called, and which objects they receive.

Each probe makes a primitive of two operands and one param, gives it a rule that notes its
arguments, and runs a transformation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, MutableMapping
from typing import Any

import numpy as np

import mjax
from mjax._engine.ir.effects import no_effects
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.lowering.context import LoweringContext
from mjax._engine.tracing.interpreter import Interpreter, Tracer
from mjax_ext.core import JaxprEqn, Primitive, ShapedArray
from mjax_ext.interpreters import partial_eval

_ONE = np.float32(1)


#: Rules that a table has rather than the record.
_TABLES: dict[str, Any] = {"recompute": partial_eval.partial_eval_jaxpr_custom_rules}


class _Noted(Exception):
    """Ends a probe: the rule was called."""


def called() -> dict[str, str]:
    """Rule -> the arguments with which the engine calls it, as text."""
    return dict(_called())


@functools.cache
def _called() -> tuple[tuple[str, str], ...]:
    return tuple((rule, _text(*note(rule))) for rule in _RUNS)


def called_by(rule: str, table: MutableMapping[Primitive, Any]) -> str:
    """The arguments with which a rule of a table of an older generation is called, as text.

    Args:
      rule: the field of the record that holds it in the end.
      table: the table.
    """
    return _text(*note(rule, table.__setitem__))


def note(rule: str, register: Callable[[Primitive, Any], Any] | None = None
         ) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which the engine calls a rule.

    Args:
      rule: the field of the record, or `recompute`: that of `partial_eval_jaxpr_custom_rules`.
      register: gives the rule to the primitive; None: the record does.

    Raises:
      AssertionError: it did not call it.
    """
    p = Primitive(f"probe_of_{rule}", params={"k": int})
    p.def_abstract_eval(lambda x, y, *, k: x)
    notes: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def taken(*args: Any, **params: Any) -> Any:
        notes.append((args, params))
        raise _Noted

    if register is not None:
        register(p, taken)
    elif rule in ("abstract_eval", "lowering"):
        getattr(p, f"def_{rule}")(taken)
    elif rule in _TABLES:
        _TABLES[rule][p] = taken
    else:
        p.define(rule, taken)
    try:
        _RUNS[rule](functools.partial(p.bind, k=1))
    except Exception:
        if not notes:
            raise
    assert notes, rule
    return notes[0]


def _dead(f: Callable[..., Any]) -> None:
    partial_eval.dce_jaxpr(mjax.make_jaxpr(lambda x: f(x, x))(_ONE), [True])


def _partly(f: Callable[..., Any]) -> None:
    aval = mjax.typeof(_ONE)
    partial_eval.trace_to_jaxpr_nounits(
        f, [partial_eval.PartialVal.known(_ONE), partial_eval.PartialVal.unknown(aval)])


def _saving(f: Callable[..., Any]) -> None:
    partial_eval.partial_eval_jaxpr_custom(
        mjax.make_jaxpr(f)(_ONE, _ONE), [False, True], [False, True], False, False,
        lambda *_, **__: False)


#: Rule -> a transformation that calls it, of a function that applies the primitive.
_RUNS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "impl": lambda f: f(_ONE, _ONE),
    "abstract_eval": lambda f: mjax.make_jaxpr(f)(_ONE, _ONE),
    "lowering": lambda f: mjax.jit(f).lower(_ONE, _ONE),
    "jvp": lambda f: mjax.jvp(lambda x: f(x, _ONE), (_ONE,), (_ONE,)),
    "linearize": lambda f: mjax.linearize(lambda x: f(x, _ONE), _ONE),
    "transpose": lambda f: mjax.linear_transpose(lambda x: f(x, _ONE), _ONE)(_ONE),
    "batch": lambda f: mjax.vmap(lambda x: f(x, _ONE))(np.ones(3, np.float32)),
    "axis_batch": lambda f: mjax.vmap(lambda x: f(x, _ONE))(np.ones(3, np.float32)),
    "dce": _dead,
    "partial_eval": _partly,
    "recompute": _saving,
    "staging": lambda f: mjax.make_jaxpr(f)(_ONE, _ONE),
}


def _text(args: tuple[Any, ...], params: dict[str, Any]) -> str:
    return ", ".join([*map(_describe, args), *(f"{k}={v!r}" for k, v in params.items())])


#: Classes -> how a note tells their values.
_WORDS: dict[Any, str] = {
    JaxprEqn: "equation", Tracer: "value", Interpreter: "trace", ShapedArray: "type",
    LoweringContext: "context", np.generic: "value", np.ndarray: "value", float: "value"}


def _describe(value: Any) -> str:
    for kind, word in _WORDS.items():
        if isinstance(value, kind):
            return word
    if value is None or isinstance(value, (bool, int)):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_describe, value))}]"
    if isinstance(value, tuple) and type(value) is tuple:
        return f"({', '.join(map(_describe, value))})"
    if isinstance(value, mjax.Array):
        return "value"
    if type(value).__name__ in ("BlockArgument", "OpResult", "Value"):
        return "ir.Value"
    return "function" if callable(value) else type(value).__name__


@functools.cache
def received() -> dict[str, Any]:
    """Name -> the object that rules and programs have in that place.

    Classes of the values that rules receive, and of the parts of programs; and `not_mapped`.
    """
    jaxpr = mjax.make_jaxpr(lambda x: mjax.lax.mul(x, 2.0))(1.0)
    eqn, = jaxpr.eqns
    return {
        "interpreters.ad.Zero": type(note("jvp")[0][1][1]),
        "interpreters.ad.UndefinedPrimal": type(note("transpose")[0][1]),
        "interpreters.batching.not_mapped": note("batch")[0][1][1],
        "core.JaxprEqn": type(eqn),
        "core.Var": type(eqn.invars[0]),
        "core.Literal": type(eqn.invars[1]),
        "core.ShapedArray": type(eqn.invars[0].aval),
        "core.abstract_token": abstract_token,
        "core.no_effects": no_effects,
    }
