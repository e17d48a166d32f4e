"""checkpoint side by side with jax: values, what is saved, what is computed again."""

from __future__ import annotations

import collections
import math
import re

import jax
import jax.ad_checkpoint
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree

X, Y = np.random.default_rng(0).normal(size=(2, 3)).astype("float32") / 2
W = np.random.default_rng(1).normal(size=(4, 3, 3)).astype("float32") / 2


def chain(m, x, y):
    for _ in range(3):
        x = m.lax.mul(m.lax.sin(m.lax.mul(x, y)), m.lax.exp(x))
    return x


def named(m, x, y):
    name = m.ad_checkpoint.checkpoint_name
    z = name(m.lax.tanh(m.lax.sin(m.lax.mul(x, y))), "keep")
    return m.lax.mul(name(m.lax.exp(m.lax.sin(z)), "drop"), z)


def calls(m, x, y):
    inner = m.jit(lambda x, y: (m.lax.sin(m.lax.mul(x, y)), m.lax.cos(x)))
    a, b = inner(x, m.lax.sin(y))
    c, _ = inner(a, b)
    return m.lax.mul(c, b)


def products(m, x, y):
    """Products with and without batch dimensions."""
    outer = m.lax.dot_general(x, y, (((), ()), ((), ())))
    rows = m.lax.dot_general(m.lax.sin(outer), outer, (((1,), (0,)), ((0,), (1,))))
    return m.lax.mul(m.lax.exp(rows), m.lax.sin(
        m.lax.dot_general(outer, x, (((1,), (0,)), ((), ())))))


def nested(m, x, y):
    z = m.checkpoint(lambda z: m.lax.mul(m.lax.sin(m.lax.exp(m.lax.sin(z))), y))
    return m.jit(m.checkpoint(lambda x: m.lax.mul(m.lax.sin(z(m.lax.tanh(x))), x)))(x)


def layers(m, x, y):
    """checkpoint in scan."""
    name = m.ad_checkpoint.checkpoint_name

    def layer(c, w):
        z = name(m.lax.dot_general(w, c, (((1,), (0,)), ((), ()))), "keep")
        return m.lax.mul(m.lax.sin(z), m.lax.cos(m.lax.mul(c, y)))

    layer = m.checkpoint(layer, prevent_cse=False)
    return m.lax.scan(lambda c, w: (layer(c, w), m.lax.exp(c)), x, W)[0]


POLICIES = {
    "none": lambda p: None,
    "nothing": lambda p: p.nothing_saveable,
    "everything": lambda p: p.everything_saveable,
    "dots": lambda p: p.dots_saveable,
    "dots without batches": lambda p: p.checkpoint_dots_with_no_batch_dims,
    "one name": lambda p: p.save_only_these_names("keep"),
    "other names": lambda p: p.save_any_names_but_these("keep"),
    "dots or names": lambda p: p.save_from_both_policies(
        p.dots_saveable, p.save_only_these_names("keep")),
    "sines": lambda p: lambda primitive, *_, **__: primitive.name == "sin",
}
FLAT = [chain, named, calls, products]
FUNCTIONS = [*FLAT, nested, layers]


def checkpointed(m, f, policy):
    return m.checkpoint(lambda x, y: f(m, x, y), policy=POLICIES[policy](m.checkpoint_policies))


def total(m, x):
    return m.lax.reduce_sum(m.lax.mul(x, x), (0,))


TRANSFORMED = {
    "value": lambda m, f: f(X, Y),
    "value and grad": lambda m, f: m.value_and_grad(lambda x, y: total(m, f(x, y)), (0, 1))(X, Y),
    "jit of grad": lambda m, f: m.jit(m.grad(lambda x: total(m, f(x, Y))))(X),
    "jvp": lambda m, f: m.jvp(f, (X, Y), (Y, X)),
    "vmap of grad": lambda m, f: m.vmap(m.grad(lambda x, y: total(m, f(x, y))), (0, None))(
        W[0], Y),
    "hessian": lambda m, f: m.hessian(lambda x: total(m, f(x, Y)))(X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize(("f", "policy"), [
    (chain, "none"), (named, "one name"), (calls, "sines"), (products, "dots"),
    (nested, "everything"), (layers, "one name")])
def test_values(f, policy, name):
    assert_agree(lambda m: TRANSFORMED[name](m, checkpointed(m, f, policy)), tolerance=1e-4)


def saved(capsys, m, f, policy):
    """The printed text, without source lines; scalars that are literals are not arrays of ours."""
    m.ad_checkpoint.print_saved_residuals(checkpointed(m, f, policy), X, Y)
    lines = capsys.readouterr().out.splitlines()
    return [re.sub(r" from /.*", "", line) for line in lines if not line.endswith("a literal")]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("f", FLAT)
def test_the_same_is_saved(f, policy, capsys):
    ours, theirs = (collections.Counter(saved(capsys, m, f, policy)) for m in (mjax, jax))
    assert ours == theirs


def elements(lines):
    return sum(math.prod(map(int, filter(None, re.match(r"\w+\[(.*?)\]", line)[1].split(","))))
               for line in lines)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("f", [nested, layers])
def test_no_more_is_saved(f, policy, capsys):
    ours, theirs = (elements(saved(capsys, m, f, policy)) for m in (mjax, jax))
    assert ours <= theirs


def primitives(jaxpr):
    """How often each stands in a program. Rounding, which is nothing at 32 bits, aside."""
    found = collections.Counter()
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr")
        if inner is not None:
            found += primitives(getattr(inner, "jaxpr", inner))
        elif eqn.primitive.name != "reduce_precision":
            found[eqn.primitive.name] += 1
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("f", FLAT)
def test_the_same_is_computed_again(f, policy):
    ours, theirs = (primitives(m.make_jaxpr(m.grad(
        lambda x, y, m=m: total(m, checkpointed(m, f, policy)(x, y)), (0, 1)))(X, Y).jaxpr)
        for m in (mjax, jax))
    assert ours == theirs


def test_the_equation():
    ours, theirs = (m.make_jaxpr(checkpointed(m, chain, "nothing"))(X, Y).jaxpr.eqns[0]
                    for m in (mjax, jax))
    assert ours.primitive.name == theirs.primitive.name
    assert sorted(ours.params) == sorted(theirs.params)
    assert ([e.primitive.name for e in ours.params["jaxpr"].eqns]
            == [e.primitive.name for e in theirs.params["jaxpr"].eqns])
    for name in ("prevent_cse", "differentiated"):
        assert ours.params[name] == theirs.params[name]


def test_names():
    assert set(vars(mjax.checkpoint_policies)) == set(vars(jax.checkpoint_policies))
    public = {n for n in dir(jax.ad_checkpoint) if not n.startswith("_")}
    assert public <= set(mjax.ad_checkpoint.__all__)
