"""Rules that authors left out: what is shown to write in their place."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.interpreters import mlir
from tests.ext.mistakes import (
    RULES,
    X,
    current,
    grad,
    jit,
    jvp,
    make_jaxpr,
    run,
    scale,
    vmap,
)

MISSING = {
    "impl": (lambda: scale(without=("impl", "abstract_eval", "lowering")), run,
             "no implementation, which evaluation", "@scale_p.def_impl\n    def scale_impl(x, y)"),
    "abstract_eval": (lambda: scale(without=("abstract_eval",)), make_jaxpr,
                      "no abstract evaluation, which staging",
                      "@scale_p.def_abstract_eval\n    def scale_abstract_eval(x, y):"),
    "lowering": (lambda: scale(without=("lowering",)), jit,
                 "no lowering for platform cpu, which compilation",
                 "mlir.register_lowering(scale_p, scale_lowering)"),
    "jvp": (lambda: scale(without=("jvp",)), jvp, "no jvp rule, which differentiation",
            "ad.primitive_jvps[scale_p] = scale_jvp"),
    "transpose": (lambda: scale(without=("transpose",)), grad,
                  "no transpose rule, which transposition",
                  "def scale_transpose(cotangent, x, y):"),
    "batch": (lambda: scale(without=("batch",)), vmap, "no batching rule, which vectorization",
              "batching.primitive_batchers[scale_p] = scale_batch"),
}


@pytest.mark.parametrize("rule", MISSING)
def test_missing_rule(rule):
    """(measured) Names primitive, transformation and the user's line, and shows what to write."""
    make, use, who, spelling = MISSING[rule]
    f = make()
    with pytest.raises(MissingRuleError) as caught:
        use(f)
    text = str(caught.value)
    assert text.startswith(f"Primitive 'scale' has {who}")
    assert spelling in text
    assert "mistakes" in text and f"({use.__name__})" in text
    assert isinstance(caught.value, NotImplementedError)


def test_missing_rule_shows_the_parameters():
    p = core.Primitive("cut-off", multiple_results=True)
    with pytest.raises(MissingRuleError) as caught:
        p.bind(X, axis=0, limit=2)
    assert "def cut_off_impl(x, *, axis, limit):" in str(caught.value)
    with pytest.raises(MissingRuleError) as caught:
        mjax.make_jaxpr(lambda *xs: p.bind(*xs))(*[X] * 6)
    assert "def cut_off_abstract_eval(*operands):" in str(caught.value)
    assert "return [ShapedArray(shape, dtype), ...]" in str(caught.value)


def test_text_of_a_missing_rule_is_built_when_it_is_shown():
    f = scale(without=("jvp",))
    try:
        jvp(f)
    except MissingRuleError as error:
        assert callable(error._text)
        assert "jvp" in str(error)


def test_lowering_for_another_platform_only():
    f = scale(without=("lowering",))
    mlir.register_lowering(current[-1], RULES["lowering"], platform="tpu")
    with pytest.raises(MissingRuleError, match=r"for platform cpu \(only for tpu\)"):
        jit(f)


def region(**options):
    """A primitive that holds a program, without a rule."""
    p = core.Primitive("region", **options)
    body = mjax.make_jaxpr(lax.sin)(X)
    return p, lambda x: p.bind(x, body=body)


@pytest.mark.parametrize("declared", [True, False])
def test_missing_rules_of_primitives_that_hold_programs(declared):
    """The template is a frame. For the two rules that it lacks, the program is evaluated."""
    p, f = region(**{"params": {"body": core.Jaxpr}} if declared else {})
    with pytest.raises(MissingRuleError) as caught:
        mjax.make_jaxpr(f)(X)
    text = str(caught.value)
    assert "Its param 'body' holds a program. A frame derives this rule" in text
    assert "region_p = core.Primitive('region', multiple_results=True)" in text
    assert "core.Frame(region_p, 'body')" in text
    with pytest.raises(MissingRuleError) as caught:
        f(X)
    assert "return core.eval_jaxpr(body, body.consts, *operands)" in str(caught.value)
    p.def_abstract_eval(lambda x, *, body: x)
    for use in (lambda: mjax.jvp(f, (X,), (X,)), lambda: mjax.vmap(f)(X)):
        with pytest.raises(MissingRuleError, match=r"core\.Frame\(region_p, 'body'\)"):
            use()
    with pytest.raises(MissingRuleError, match=r"return ctx\.inline\(body, \*operands\)"):
        mjax.jit(f)(X)


def test_the_template_of_a_frame_works():
    p, f = region(multiple_results=True)
    core.Frame(p, "body")
    p.def_impl(lambda *operands, body: core.eval_jaxpr(body, body.consts, *operands))
    p.def_lowering(lambda ctx, *operands, body: ctx.inline(body, *operands))
    np.testing.assert_allclose(mjax.jit(mjax.grad(lambda x: f(x)[0].sum()))(X), np.cos(X))
