"""Effects: identity and equality, policies, what transformations read off them."""

from pathlib import Path

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.control.callback_primitives import IOEffect, OrderedIOEffect
from mjax._engine.ir.effects import (
    QUESTIONS,
    Effect,
    EffectPolicy,
    OperandEffect,
    describe,
    forbidden,
    join_effects,
    keeps_equation,
    no_effects,
    policy_table,
    token_name,
    token_names,
)
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms.dce import dce_jaxpr


class Pure(Effect):
    policy = EffectPolicy(kept_by_dce=False)


class Log(Effect):
    policy = EffectPolicy(ordered=True, token="log", control_flow=False, batchable=False)


class Unlowerable(Effect):
    policy = EffectPolicy(lowerable=False)


class Numbered(Effect):
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return type(other) is Numbered and other.number == self.number

    def __hash__(self):
        return hash(self.number)

    def __repr__(self):
        return f"Numbered({self.number})"


def effectful(name, effect):
    """The identity, with an effect."""
    p = Primitive(name)
    p.def_effectful_abstract_eval(lambda x: (x, {effect}))
    p.def_lowering(lambda ctx, x: [x])
    return p


def test_policies_are_immutable_and_say_yes_by_default():
    policy = EffectPolicy()
    with pytest.raises(AttributeError):
        policy.ordered = True
    values = policy._asdict()
    assert (values.pop("ordered"), values.pop("token")) == (False, None)
    assert all(values.values())
    assert Effect.policy == policy


@pytest.mark.parametrize(("policy", "error", "text"), [
    (True, TypeError, "Odd.policy is True of type bool; it must be a core.EffectPolicy"),
    (EffectPolicy, TypeError, "Odd.policy is <class .*it must be a core.EffectPolicy"),
    (EffectPolicy(ordered="log"), TypeError, "has ordered='log'; it must be True or False"),
    (EffectPolicy(ordered=True, token=3), TypeError, "has token=3; it must be a text or None"),
    (EffectPolicy(token="log"), ValueError, "names the token 'log', but is not ordered")])
@pytest.mark.parametrize("base", [Effect, OperandEffect])
def test_policies_that_are_refused(policy, error, text, base):
    with pytest.raises(error, match=text):
        type("Odd", (base,), {"policy": policy})


def test_effects_are_compared_by_identity_unless_they_say_otherwise():
    assert Pure() != Pure() and len({Pure(), Pure()}) == 2
    assert Numbered(1) == Numbered(1) and len({Numbered(1), Numbered(1), Numbered(2)}) == 2


def test_join():
    log, pure = Log(), Pure()
    assert join_effects([]) is no_effects or join_effects([]) == frozenset()
    assert join_effects([frozenset({log}), no_effects, frozenset({log, pure})]) == {log, pure}


def test_forbidden_is_in_a_stable_order():
    log, pure, numbers = Log(), Pure(), [Numbered(n) for n in range(3)]
    assert forbidden(frozenset({log, pure}), "control_flow") == [log]
    assert forbidden(frozenset({log, pure}), "lowerable") == []
    assert forbidden(frozenset({pure, log, *numbers}), "ordered") == [*numbers, pure]
    with pytest.raises(AttributeError):
        forbidden(frozenset({log}), "no_such_field")


def test_what_dead_code_elimination_asks():
    assert not keeps_equation(no_effects) and not keeps_equation(frozenset({Pure()}))
    assert keeps_equation(frozenset({Pure(), Log()}))


def test_description_is_sorted():
    assert describe([Numbered(2), Log(), Numbered(1)]) == "Log, Numbered(1), Numbered(2)"


def test_jaxprs_carry_the_effects_of_their_equations():
    log, pure = Log(), Pure()
    first, second = effectful("first", log), effectful("second", pure)

    def f(x):
        return lax.add(first.bind(x), second.bind(x))

    jaxpr = mjax.make_jaxpr(f)(1.0)
    assert jaxpr.effects == {log, pure}
    assert [e.effects for e in jaxpr.eqns] == [{log}, {pure}, no_effects]
    assert mjax.make_jaxpr(mjax.jit(f))(1.0).effects == {log, pure}
    assert mjax.make_jaxpr(lax.neg)(1.0).effects == no_effects


def test_unused_equations_stay_if_their_effect_says_so():
    kept, dropped = effectful("kept", Numbered(1)), effectful("dropped", Pure())

    def f(x):
        kept.bind(x)
        dropped.bind(x)
        return lax.neg(x)

    jaxpr = mjax.make_jaxpr(f)(1.0)
    smaller, _ = dce_jaxpr(jaxpr, [True], True)
    assert [e.primitive.name for e in smaller.eqns] == ["kept", "neg"]
    assert smaller.effects == {Numbered(1)}


def test_programs_that_cannot_be_compiled():
    p = effectful("p", Unlowerable())
    for f in (p.bind, lambda x: p.bind(x), lambda x: mjax.jit(p.bind)(x)):
        with pytest.raises(ValueError, match=r"effects Unlowerable: .* lowerable=False.\n"
                           r"Primitive 'p' has Unlowerable. It was applied at\n.*test_effects.py"):
            mjax.jit(f)(np.float32(1))
    assert mjax.make_jaxpr(lambda x: p.bind(x))(1.0).eqns


# ---- what is asked ---------------------------------------------------------------------


def test_every_field_of_the_policy_is_a_question_or_says_how():
    fields = set(EffectPolicy._fields)
    assert set(QUESTIONS) == fields - {"ordered", "token", "kept_by_dce"}


def test_the_table():
    class Own(Effect):
        policy = EffectPolicy(ordered=True, remat=False, kept_by_dce=False)

    lines = policy_table([Own, Log]).splitlines()
    rows = {cells[0]: cells[1:] for cells in (
        [c.strip() for c in line.strip("|").split("|")] for line in lines)}
    assert rows.pop("") == ["`Own`", "`Log`"] and rows.pop("---") == ["---", "---"]
    assert rows.pop("order") == [f"token `{token_name(Own)}`", "token `log`"]
    assert rows.pop("dead-code elimination") == ["drops", "keeps"]
    assert rows.pop("checkpoint") == ["no", "yes"] and rows.pop("vmap") == ["yes", "no"]
    assert set(rows) == {q.functions for f, q in QUESTIONS.items()
                         if f not in ("remat", "batchable")}


def test_the_page_about_effects_has_the_table():
    ours = [mjax.debug.DebugEffect, mjax.debug.OrderedDebugEffect, IOEffect, OrderedIOEffect]
    page = Path(__file__).parents[3] / "docs" / "effects.md"
    assert policy_table(ours) in page.read_text()


def test_tokens_are_named_by_the_policy_or_the_class():
    class Own(Effect):
        policy = EffectPolicy(ordered=True)

    assert token_name(Log()) == token_name(Log) == "log"
    assert token_name(Own()) == f"{__name__}.{Own.__qualname__}"
    assert token_name(Numbered(1)) is None
    assert token_names(frozenset({Log(), Own(), Log(), Numbered(2)})) == tuple(
        sorted(["log", token_name(Own)]))
    assert token_names(no_effects) == ()
