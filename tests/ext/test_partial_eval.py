"""mjax_ext.interpreters.partial_eval: rules and jaxprs."""

from __future__ import annotations

import numpy as np

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import ad, mlir, partial_eval

X = np.arange(3, dtype=np.float32)
F3 = mjax.typeof(X)


def names(jaxpr):
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def test_tracing_flat_functions():
    big = mjax.device_put(X)
    jaxpr, out_avals, consts = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.mul(x, big), lax.sin(y)], [F3, F3])
    assert names(jaxpr) == ["mul", "sin"] and out_avals == [F3, F3]
    assert consts[0] is big and len(consts) == 1


def test_dce():
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.sin(x), lax.cos(y)], [F3, F3])
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert names(smaller) == ["cos"] and used == [False, True]
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [False, True], True)
    assert used == [True, True] and len(smaller.invars) == 2


def test_dce_rule():
    p = core.Primitive("pair", multiple_results=True)
    p.def_abstract_eval(lambda *avals: list(avals))

    def rule(used_outputs, eqn):
        if not any(used_outputs):
            return [False] * len(eqn.invars), None
        keep = [i for i, used in enumerate(used_outputs) if used]
        return used_outputs, eqn.replace(invars=[eqn.invars[i] for i in keep],
                                         outvars=[eqn.outvars[i] for i in keep])

    partial_eval.dce_rules[p] = rule
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: p.bind(lax.sin(x), lax.cos(y)), [F3, F3])
    smaller, used = partial_eval.dce_jaxpr(jaxpr, [True, False])
    core.check_jaxpr(smaller)
    assert names(smaller) == ["sin", "pair"] and used == [True, False]
    assert names(partial_eval.dce_jaxpr(jaxpr, [False, False])[0]) == []


def test_partial_evaluation_of_a_jaxpr():
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(
        lambda x, y: [lax.mul(lax.sin(x), y), lax.cos(x)], [F3, F3])
    parts = partial_eval.partial_eval_jaxpr(jaxpr, [False, True])
    assert isinstance(parts, partial_eval.PartialEvaluated)
    assert names(parts.known) == ["sin", "cos"] and names(parts.unknown) == ["mul"]


def test_partial_evaluation_rule():
    """A primitive of two independent halves, cut between what is known and what is not."""
    p, asked = core.Primitive("halves", multiple_results=True), []
    p.def_abstract_eval(lambda x, y: [x, y])
    mlir.register_lowering(p, mlir.lower_fun(lambda x, y: [lax.sin(x), lax.cos(y)]))

    def rule(interpreter, x, y):
        asked.append([interpreter.is_unknown(x), interpreter.is_unknown(y)])
        first = lax.sin(x) if interpreter.is_unknown(x) else interpreter.call_known(lax.sin, x)
        second = lax.cos(y) if interpreter.is_unknown(y) else interpreter.call_known(lax.cos, y)
        return [first, second]

    partial_eval.custom_partial_eval_rules[p] = rule
    jaxpr, *_ = partial_eval.trace_to_jaxpr_dynamic(lambda x, y: p.bind(x, y), [F3, F3])
    parts = partial_eval.partial_eval_jaxpr(jaxpr, [False, True])
    assert asked == [[False, True]]
    assert parts.unknown_outs == [False, True]
    assert names(parts.known) == ["sin"] and names(parts.unknown) == ["cos"]
    assert p not in ad.primitive_jvps
