"""Values, types and modules of `mjax_ext.interpreters.mlir`, beside those of jax."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import mjax

X = np.float32([0.5, 1.0, 2.0])


def library(m):
    """A library's modules, wherever it keeps them."""
    if m is mjax:
        homes = "mjax_ext.interpreters.mlir", "mjax_ext.core", "mjax_ext.interpreters.mlir"
    else:
        homes = "jax._src.interpreters.mlir", "jax._src.core", "jax._src.sharding_impls"
    mlir, core, contexts = map(importlib.import_module, homes)
    return SimpleNamespace(mlir=mlir, core=core, context=contexts.ShardingContext(1), lax=m.lax,
                           jit=m.jit, closed=m.make_jaxpr)


BOTH = [library(mjax), library(jax)]


def agree(program):
    ours, theirs = (program(m) for m in BOTH)
    assert ours == theirs
    return ours


def in_module(m, build):
    """What `build()` gives inside a module's body."""
    mlir = m.mlir
    with mlir.make_ir_context() as context, mlir.ir.Location.unknown(context):
        module = mlir.ir.Module.create()
        with mlir.ir.InsertionPoint(module.body):
            return build(mlir)


@pytest.mark.parametrize("value", [
    np.float32(2), np.int8([[1, 2]]), np.zeros((2, 3), np.bool_), np.float64(1.5), np.arange(4),
    np.bool_(True), np.float16([1, 2]), np.complex128(1j), np.zeros((0, 2), np.uint32),
], ids=repr)
def test_constants(value):
    def program(m):
        def build(mlir):
            constant = mlir.ir_constant(value)
            # Booleans are the same values in other operations; see `emit.constant`.
            return str(constant.type), value.dtype == bool or str(constant.owner)
        return in_module(m, build)

    agree(program)


@pytest.mark.parametrize("value", [
    True, 3, 2.5, "text", b"bytes", np.float32(2), np.int32([1, 2]), [1, "a"], {"a": 1, "b": [2.0]},
    np.dtype("float32"),
], ids=repr)
def test_attributes(value):
    agree(lambda m: in_module(m, lambda mlir: str(mlir.ir_attribute(value))))


def test_dense_attributes_and_types():
    def program(m):
        def build(mlir):
            made = [mlir.dense_int_elements([1, 2]), mlir.dense_int_array([1, 2]),
                    mlir.i32_attr(3), mlir.i64_attr(4), mlir.token_type(),
                    mlir.dtype_to_ir_type(np.dtype("int16"))]
            return [str(each) for each in made]
        return in_module(m, build)

    agree(program)


def operations(module):
    """The operations of a module's functions, inlined ones by their order of appearance."""
    return re.findall(r"stablehlo\.\w+|call @", str(module))


def test_modules():
    def program(m):
        def f(x, y):
            return [m.lax.mul(m.lax.sin(x), y), m.jit(lambda a: m.lax.exp(a))(y)]

        jaxpr = m.closed(f)(X, X)
        result = m.mlir.lower_jaxpr_to_module(
            "m", jaxpr, num_const_args=0, in_avals=jaxpr.in_avals, ordered_effects=[], backend=None,
            platforms=["cpu"], axis_context=m.context,
            donated_args=[False, True], lowering_parameters=m.mlir.LoweringParameters())
        main = m.mlir.ir.SymbolTable(result.module.operation)["main"]
        return operations(result.module), str(main.type)

    agree(program)


def test_rules():
    def program(m):
        p = m.core.Primitive("thrice")
        p.def_abstract_eval(lambda x: x)
        seen = []

        def rule(ctx, x):
            seen.append((ctx.avals_in[0].shape, ctx.avals_out[0].shape,
                         ctx.module_context.platforms, str(x.type)))
            full = m.mlir.full_like_aval(ctx, 3, ctx.avals_out[0])
            return m.mlir.hlo.MulOp(x, full).results

        m.mlir.register_lowering(p, rule)
        text = m.jit(lambda x: p.bind(x)).lower(X).as_text()
        values = np.asarray(m.jit(lambda x: p.bind(x))(X)).tolist()
        return seen[0], re.findall(r"stablehlo\.\w+", text), values

    agree(program)


def test_custom_call():
    def program(m):
        def build(mlir):
            f32 = mlir.ir.RankedTensorType.get([3], mlir.ir.F32Type.get())
            operand = mlir.ir_constant(X)
            call = mlir.custom_call(
                "target", result_types=[f32], operands=[operand], backend_config="text",
                api_version=4, has_side_effect=True, operand_output_aliases={0: 0},
                operand_layouts=[[0]], result_layouts=[[0]])
            return str(call)
        return in_module(m, build)

    agree(program)
