"""v1: lowering rules. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax_ext.v1 import core
from mjax_ext.v1.interpreters import mlir

X = np.arange(3.0, dtype=np.float32)


def primitive(name, multiple_results=False):
    p = core.Primitive(name, multiple_results=multiple_results)
    p.def_abstract_eval(lambda x: [x, x] if multiple_results else x)
    return p


def test_rules_take_a_context_and_values():
    p, seen = primitive("v1_negative"), []

    def rule(ctx, x):
        seen.append((isinstance(ctx, mlir.LoweringRuleContext), ctx.avals_in, ctx.avals_out,
                     ctx.primitive, isinstance(x, mlir.ir.Value)))
        return mlir.hlo.NegOp(x).results

    mlir.register_lowering(p, rule)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), -X)
    (is_context, avals_in, avals_out, who, is_value), = seen
    aval = core.get_aval(X)
    assert is_context and is_value and who is p
    assert [*avals_in] == [aval] == [*avals_out]


def test_a_function_of_arrays_is_a_rule():
    p = primitive("v1_pair", multiple_results=True)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: [x + 1, jnp.sin(x)], multiple_results=True))
    a, b = mjax.jit(p.bind)(X)
    np.testing.assert_allclose([a, b], [X + 1, np.sin(X)], rtol=1e-6)


def test_a_rule_for_a_platform_goes_first():
    p = primitive("v1_platform")
    mlir.register_lowering(p, lambda ctx, x: [x])
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.NegOp(x).results, platform="cpu")
    if mjax.default_backend() == "cpu":
        np.testing.assert_array_equal(mjax.jit(p.bind)(X), -X)
    with pytest.raises(NotImplementedError):
        mlir.register_lowering(p, lambda ctx, x: [x], platform="abacus")


def test_the_context_tells_the_module():
    p, seen = primitive("v1_module"), []

    def rule(ctx, x):
        seen.append((ctx.module_context.platforms, ctx.is_forward_compat(),
                     str(ctx.module_context.module.operation.name)))
        inner = ctx.replace(avals_out=ctx.avals_in)
        assert inner.avals_out == ctx.avals_in and inner.primitive is p
        return [x]

    mlir.register_lowering(p, rule)
    mjax.jit(p.bind).lower(X)
    (platforms, forward, module), = seen
    assert tuple(platforms) == (mjax.default_backend(),) and not forward
    assert module == "builtin.module"


def test_types_and_constants_of_the_ir():
    p, seen = primitive("v1_types"), []

    def rule(ctx, x):
        seen.append([str(mlir.aval_to_ir_type(ctx.avals_in[0])),
                     str(mlir.dtype_to_ir_type(np.dtype("int32")))])
        return mlir.hlo.AddOp(x, mlir.ir_constant(np.ones(3, np.float32))).results

    mlir.register_lowering(p, rule)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), X + 1)
    assert seen == [["tensor<3xf32>", "i32"]]


def test_programs_are_inlined_and_called():
    body = mjax.make_jaxpr(lambda x: x * 3.0)(X)
    for name, rule in {"inline": lambda ctx, x: ctx.inline(body, x),
                       "call": lambda ctx, x: ctx.call(body, "body", x)}.items():
        p = primitive(f"v1_{name}")
        mlir.register_lowering(p, rule)
        np.testing.assert_array_equal(mjax.jit(p.bind)(X), 3 * X)


def test_constant_arrays_of_a_shape():
    p = primitive("v1_full")
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.AddOp(
        x, mlir.full_like_aval(ctx, 2.0, ctx.avals_out[0])).results)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), X + 2)


def test_rules_that_give_a_wrong_number_of_values_are_named():
    p = primitive("v1_two_for_one")
    mlir.register_lowering(p, lambda ctx, x: [x, x])
    with pytest.raises((TypeError, ValueError), match="v1_two_for_one"):
        mjax.jit(p.bind)(X)
