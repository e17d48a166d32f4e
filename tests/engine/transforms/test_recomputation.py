"""Recomputation: what is saved and what is computed again."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.recomputation import recompute_jaxpr, round_saved
from tests.engine.transforms.programs import (
    NAMES,
    PROGRAMS,
    X,
    Y,
    close,
    evaluate,
    split,
    staged,
    subsets,
)


class Withholding:
    """Saves all but what is negated, and not the result of that either."""

    def __call__(self, primitive, *avals, **params):
        return primitive is not lax.neg_p

    def withholds(self, primitive, **params):
        return primitive is lax.neg_p


POLICIES = {
    "nothing": lambda primitive, *avals, **params: False,
    "everything": lambda primitive, *avals, **params: True,
    "sines": lambda primitive, *avals, **params: primitive is lax.sin_p,
    "products and calls": lambda primitive, *avals, **params: primitive.name in ("mul", "jit"),
    "withholding": Withholding(),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", NAMES)
def test_recomputed_results_are_the_same(name, policy):
    jaxpr, inputs = staged(name)
    expected = evaluate(jaxpr, *inputs)
    n = len(expected)
    for wanted in subsets(n) if n <= 3 else subsets(n)[:: 2**n // 8 - 1]:
        for keep in ([True] * n, [not w for w in wanted]):
            parts = recompute_jaxpr(jaxpr, keep, wanted, POLICIES[policy])
            first = evaluate(parts.known, *inputs)
            close(first[: sum(keep)], split(keep, expected)[1])
            again = evaluate(parts.unknown, *parts.residuals(inputs, first))
            close(again, split(wanted, expected)[1])
            # Nothing is saved twice, and nothing in vain.
            assert len(set(parts.residual_forwarding)) == len(parts.residual_forwarding)
            extra = range(len(inputs) + sum(keep), len(inputs) + len(first))
            assert set(extra) <= set(parts.residual_forwarding)
            if policy == "nothing":
                assert not extra


def computed(jaxpr):
    """The equations of a program, calls aside: these may hand operands on."""
    names = []
    for eqn in jaxpr.eqns:
        inner = list(jaxprs_in_params(eqn.params))
        names += [n for j in inner for n in computed(j)] if inner else [eqn.primitive.name]
    return names


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_that_may_be_saved_is_computed_again(name):
    jaxpr, _ = staged(name)
    n = len(jaxpr.outvars)
    parts = recompute_jaxpr(jaxpr, [True] * n, [True] * n, POLICIES["everything"])
    assert not computed(parts.unknown)


def cut(f, policy, *args):
    """Of a function of one result: the part that computes it again."""
    jaxpr = stage(lambda *a: [f(*a)], list(map(typeof, args)))
    return recompute_jaxpr(jaxpr, [False], [True], POLICIES[policy])


def test_the_walk_ends_at_what_is_saved():
    parts = cut(lambda x: lax.exp(lax.neg(lax.sin(lax.cos(x)))), "sines", X)
    assert computed(parts.unknown) == ["neg", "exp"] and parts.residual_forwarding == [1]
    assert computed(parts.known) == ["cos", "sin"]


def test_the_policy_is_asked_about_what_is_in_calls():
    f = mjax.jit(lambda x: lax.exp(lax.sin(lax.cos(x))))
    assert computed(cut(f, "sines", X).unknown) == ["exp"]
    # Not about the call: what it would save of one may not be saved inside of it.
    assert computed(cut(f, "products and calls", X).unknown) == ["cos", "sin", "exp"]


def test_what_is_withheld_is_saved_neither_before_nor_after():
    """A policy can keep a value from being saved whatever makes it, calls too."""
    made = mjax.jit(lambda x: lax.exp(lax.sin(x)))
    for f in (made, lambda x: lax.exp(lax.sin(x))):
        parts = cut(lambda x, f=f: lax.mul(lax.neg(f(x)), f(x)), "withholding", X)
        assert computed(parts.unknown) == []  # the product is saved
        parts = cut(lambda x, f=f: lax.neg(f(x)), "withholding", X)
        assert computed(parts.unknown)[-2:] == ["exp", "neg"]
    # Its operands may be saved, outside of calls.
    assert computed(cut(lambda x: lax.neg(lax.exp(lax.sin(x))), "withholding", X).unknown) == [
        "exp", "neg"]


def test_narrow_floats_are_rounded_where_they_are_saved():
    narrow = ShapedArray((2,), np.dtype("float16"))
    jaxpr = stage(lambda x, y: [lax.mul(lax.sin(x), y)], [narrow, narrow])
    sine = jaxpr.eqns[0].outvars[0]
    rounded = round_saved(jaxpr, [sine, jaxpr.invars[1]])
    assert computed(rounded) == ["reduce_precision", "sin", "reduce_precision", "mul"]
    assert rounded.eqns[0].params == {"exponent_bits": 5, "mantissa_bits": 10}
    # Once; and not what nothing reads, nor wide floats.
    assert round_saved(rounded, [sine, rounded.eqns[0].invars[0]]).eqns == rounded.eqns
    assert round_saved(jaxpr, [jaxpr.outvars[0]]).eqns == jaxpr.eqns
    wide = stage(lambda x, y: [lax.mul(lax.sin(x), y)], [typeof(X), typeof(Y)])
    assert round_saved(wide, [wide.eqns[0].outvars[0], *wide.invars]) is wide
