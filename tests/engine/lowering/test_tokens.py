"""Compiler tokens: which programs have them, how they are threaded, what rules do wrong."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.lowering.tokens import TokenSet, no_tokens
from mjax.experimental import io_callback
from mjax_ext.core import Effect, EffectPolicy, Primitive
from mjax_ext.interpreters import mlir
from mjax_ext.interpreters.mlir import hlo

X = np.float32(1)


class Log(Effect):
    policy = EffectPolicy(ordered=True, token="log")


class AlsoLog(Effect):
    policy = EffectPolicy(ordered=True, token="log")


class Other(Effect):
    policy = EffectPolicy(ordered=True)


class Unordered(Effect):
    pass


def passing_on(name, *effects, rule=None):
    """The identity, whose effects are nothing but an operation on their tokens."""
    p = Primitive(name)
    p.def_effectful_abstract_eval(lambda x: (x, set(effects)))

    def lower(ctx, x):
        ctx.set_tokens_out(TokenSet({
            effect: hlo.after_all([ctx.tokens_in.get(effect)]) for effect in effects}))
        return [x]

    mlir.register_lowering(p, rule or lower)
    return p


def text_of(f, *args):
    return mjax.jit(f).lower(*(args or (X,))).as_text()


def signature(text):
    return re.search(r"func.func public @main\((.*?)\) -> (.*?) \{", text, re.DOTALL).groups()


# ---- sets ------------------------------------------------------------------------------


def test_sets_of_tokens():
    tokens = TokenSet({Log(): 1, "zebra": 2, Other: 3})
    other = f"{__name__}.Other"
    assert tokens.names == tuple(sorted(["log", "zebra", other])) and len(tokens) == 3
    assert tokens.get("log") == tokens.get(AlsoLog()) == tokens.get(Log) == 1
    assert tokens.get(Other()) == 3
    assert tokens.values() == [v for _, v in tokens.items()]
    assert dict(tokens.subset(["log"]).items()) == {"log": 1}
    changed = tokens.update_tokens(TokenSet({"log": 5}))
    assert changed.get("log") == 5 and changed.get("zebra") == 2 and tokens.get("log") == 1
    assert tokens.replaced("abc").values() == list("abc")
    assert repr(no_tokens) == "TokenSet()" and len(no_tokens) == 0
    with pytest.raises(ValueError, match="Unordered is not ordered: it has no token"):
        TokenSet({Unordered(): 1})
    with pytest.raises(KeyError):
        tokens.get("nobody")


# ---- modules ---------------------------------------------------------------------------


def test_programs_take_one_token_per_name():
    log, also, other, none = (passing_on(n, e) for n, e in [
        ("log", Log()), ("also", AlsoLog()), ("other", Other()), ("none", Unordered())][:3]
        + [("plain", Log())])
    args, results = signature(text_of(lambda x: also.bind(log.bind(x))))
    assert args.count("token") == results.count("token") == 1
    args, results = signature(text_of(lambda x: other.bind(none.bind(also.bind(log.bind(x))))))
    assert args.count("token") == results.count("token") == 2


def test_programs_without_ordered_effects_take_none():
    p = Primitive("unordered")
    p.def_effectful_abstract_eval(lambda x: (x, {Unordered()}))
    mlir.register_lowering(p, lambda ctx, x: [x])
    for f in (p.bind, lax.sin, lambda x: mjax.debug.callback(print, x)):
        assert "token" not in text_of(f)


def test_tokens_pass_every_equation_in_order():
    log, other = passing_on("log", Log()), passing_on("other", Other())
    text = text_of(lambda x: log.bind(other.bind(log.bind(x))))
    lines = re.findall(r"(%\S+) = stablehlo.after_all (%\S+) ", text)
    # Arguments are in the order of the names: first "log", whose second use reads the first.
    assert [source for _, source in lines] == ["%arg0", "%arg1", lines[0][0]]


def test_tokens_pass_calls_branches_and_loops():
    log = passing_on("log", Log())
    inner = mjax.jit(lambda x: log.bind(x))

    def f(x):
        x = inner(x)
        x = lax.cond(x > 0, inner, lambda x: x, x)
        x, _ = lax.scan(lambda c, _: (inner(c), None), x, None, 3)
        return lax.while_loop(lambda x: x < 3, lambda x: inner(x) + 1, x)

    text = text_of(f)
    function = re.search(
        r"func.func private @\S+\(%arg0: !stablehlo.token, .*\) -> \(!stablehlo.to", text)
    assert function and text.count("stablehlo.after_all") == 1
    for op in ("case", "while"):
        types = re.findall(rf"stablehlo.{op}.*?\}}\) : .*? -> \((.*?)\)|"
                           rf"stablehlo.{op}\(.*?\) : (.*?)\n", text, re.DOTALL)
        assert types and all("token" in "".join(t) for t in types)


def test_a_condition_with_ordered_effects_stands_before_the_loop_and_in_its_body():
    log = passing_on("log", Log())
    f = lambda x: lax.while_loop(lambda x: log.bind(x) < 3, lambda x: x + 1, x)
    text = text_of(f)
    condition, body = re.search(r"stablehlo.while.*?cond \{(.*?)\} do \{(.*?)\}", text,
                                re.DOTALL).groups()
    assert "after_all" not in condition and "after_all" in body
    assert text.count("after_all") == 2


def test_programs_that_an_effect_leaves_early():
    """A loop of no iterations and a branch without the effect hand tokens on."""
    log = passing_on("log", Log())
    for f in (lambda x: lax.scan(lambda c, _: (log.bind(c), None), x, None, 0)[0],
              lambda x: lax.cond(x > 0, log.bind, lambda x: x, x)):
        args, results = signature(text_of(lambda x, f=f: log.bind(f(log.bind(x)))))
        assert args.count("token") == results.count("token") == 1


# ---- rules that do it wrong ------------------------------------------------------------


def test_a_rule_that_sets_no_token_is_refused_by_name():
    p = passing_on("forgetful", Log(), rule=lambda ctx, x: [x])
    for f in (p.bind, lambda x: lax.cond(x > 0, p.bind, lambda x: x, x), mjax.jit(p.bind),
              lambda x: lax.scan(lambda c, _: (p.bind(c), None), x, None, 2)[0]):
        with pytest.raises(TypeError, match=r"lowering of primitive 'forgetful' \(.*test_tokens.py:"
                           r"\d+\) does not set the tokens after its ordered effects "
                           r"\(log\)(.|\n)*set_tokens_out(.|\n)*test_tokens.py"):
            text_of(f)


def test_a_rule_that_sets_anothers_token_is_refused():
    def lower(ctx, x):
        ctx.set_tokens_out(TokenSet({Other(): ctx.tokens_in.get(Log())}))
        return [x]

    p = passing_on("confused", Log(), rule=lower)
    with pytest.raises(TypeError, match=r"the lowering of confused sets the tokens .*Other, but "
                                        r"its effects have the tokens log.\n(.|\n)*test_tokens.py"):
        text_of(p.bind)
    q = passing_on("unasked", rule=lambda ctx, x: (
        ctx.set_tokens_out(TokenSet({"log": None})), [x])[1])
    with pytest.raises(TypeError, match=r"unasked sets the tokens log, but .* tokens of nothing"):
        text_of(q.bind)
    r = passing_on("half", Log(), Other(), rule=lambda ctx, x: (
        ctx.set_tokens_out(ctx.tokens_in.subset(["log"])), [x])[1])
    with pytest.raises(TypeError, match=r"half sets the tokens log, but its effects have the "
                                        r"tokens log, .*Other"):
        text_of(r.bind)


def test_a_rule_that_asks_for_a_token_it_has_not():
    p = passing_on("greedy", Log(), rule=lambda ctx, x: [ctx.tokens_in.get(Other())])
    with pytest.raises(KeyError, match="Other"):
        text_of(p.bind)


def test_a_traced_rule_without_the_effect_is_refused():
    p = passing_on("silent", Log(), rule=mlir.lower_fun(lambda x: x + 1, multiple_results=False))
    with pytest.raises(TypeError, match=r"'silent' .* does not set the tokens"):
        text_of(p.bind)


def test_a_traced_rule_with_the_effect():
    log = passing_on("log", Log())
    p = passing_on("loud", Log(), rule=mlir.lower_fun(lambda x: log.bind(x) + 1,
                                                      multiple_results=False))
    args, _ = signature(text_of(lambda x: p.bind(log.bind(x))))
    assert args.count("token") == 1


def test_effects_that_cannot_be_lowered():
    class Secret(Effect):
        policy = EffectPolicy(lowerable=False)

    p = passing_on("p", Secret(), rule=lambda ctx, x: [x])
    for f in (p.bind, lambda x: lax.cond(x > 0, p.bind, lambda x: x, x)):
        with pytest.raises(ValueError, match=r"Secret(.|\n)*lowerable=False"):
            text_of(f)


def test_callbacks_without_a_client_are_refused():
    from mjax._engine.lowering.module import lower_to_module

    jaxpr = mjax.make_jaxpr(lambda x: io_callback(print, None, x, ordered=True))(1.0)
    try:
        lowered = lower_to_module(jaxpr, "f", "cpu")
    except RuntimeError as error:  # where the client describes callbacks
        assert "without a client" in str(error)
    else:
        assert lowered.tokens == ("story",) and len(lowered.host_callbacks) == 1
