"""mjax_ext.interpreters.mlir: lowering rules and what they are written with."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import core
from mjax_ext.interpreters import mlir

X = np.arange(4, dtype=np.float32)


def make(name, rule, types=lambda *avals, **params: avals[0]):
    p = core.Primitive(name)
    p.def_abstract_eval(types)
    mlir.register_lowering(p, rule)
    return p


def test_rule_is_told_types_params_and_platform():
    seen = {}

    def rule(ctx, x, *, by):
        seen.update(ctx=ctx, by=by)
        assert isinstance(ctx, mlir.LoweringRuleContext)
        assert isinstance(ctx.module_context, mlir.ModuleContext)
        return mlir.hlo.MulOp(x, mlir.ir_constant(np.full(4, by, np.float32))).results

    p = make("scaled", rule)
    np.testing.assert_array_equal(mjax.jit(lambda x: p.bind(x, by=2))(X), 2 * X)
    ctx = seen["ctx"]
    assert seen["by"] == 2 and ctx.primitive is p and ctx.platform == "cpu"
    assert ctx.avals_in == ctx.avals_out == [mjax.typeof(X)]
    assert [str(t) for t in ctx.out_types] == ["tensor<4xf32>"]


def test_rule_for_a_platform_wins():
    p = make("p", lambda ctx, x: [x])
    mlir.register_lowering(p, lambda ctx, x: mlir.hlo.NegOp(x).results, platform="cpu")
    mlir.register_lowering(p, lambda ctx, x: 1 / 0, platform="tpu")
    np.testing.assert_array_equal(p.bind(X), -X)
    assert {"lowering[any]", "lowering[cpu]", "lowering[tpu]"} <= set(p.rules())


def test_rule_must_be_a_function():
    with pytest.raises(TypeError, match="lowering of primitive 'p' must be a function, not None"):
        mlir.register_lowering(core.Primitive("p"), None)


def test_operations_take_operations():
    p = make("p", lambda ctx, x: mlir.hlo.AddOp(mlir.hlo.MulOp(x, x), x).results)
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), X * X + X)


def test_register_lowering_gives_the_rule_back():
    def rule(ctx, x):
        return [x]

    assert mlir.register_lowering(core.Primitive("p"), rule) is rule


# ---- lower_fun ---------------------------------------------------------------------------


def test_lower_fun():
    p = make("cosine_plus", mlir.lower_fun(lambda x, *, by: lax.add(lax.cos(x), by),
                                           multiple_results=False))
    np.testing.assert_allclose(p.bind(X, by=1.0), np.cos(X) + 1, rtol=1e-6)
    text = mjax.jit(lambda x: lax.add(p.bind(x, by=1.0), p.bind(x, by=1.0))).lower(X).as_text()
    assert text.count("stablehlo.cosine") == 1  # one function, called twice


def test_lower_fun_per_platform_keeps_rules_apart():
    p = make("p", mlir.lower_fun(lax.neg, multiple_results=False))
    np.testing.assert_array_equal(p.bind(X), -X)
    mlir.register_lowering(p, mlir.lower_fun(lax.abs, multiple_results=False), platform="cpu")
    np.testing.assert_array_equal(p.bind(X), X)


def test_lower_fun_closes_over_arrays():
    weights = mjax.device_put(np.float32([1, 2, 3, 4]))
    p = make("weighted", mlir.lower_fun(lambda x: lax.mul(x, weights), multiple_results=False))
    np.testing.assert_array_equal(mjax.jit(p.bind)(X), X * np.float32([1, 2, 3, 4]))


def test_lower_fun_called_by_another_rule():
    def rule(ctx, x):
        (s,) = mlir.lower_fun(lax.sin, multiple_results=False)(ctx, x)
        inner = ctx.replace(primitive=None, avals_in=[ctx.avals_in[0]] * 2)
        assert inner.primitive is ctx.primitive  # for messages
        return mlir.lower_fun(lambda a, b: [lax.mul(a, b)])(inner, s, x)

    p = make("x_sin_x", rule)
    np.testing.assert_allclose(mjax.jit(p.bind)(X), X * np.sin(X), rtol=1e-6)


# ---- types, constants, attributes --------------------------------------------------------


@pytest.mark.parametrize("value", [
    np.arange(6, dtype=np.int32).reshape(2, 3), np.array([True, False, True]), np.bool_(True),
    np.arange(3).astype(ml_dtypes.bfloat16), np.complex64(1 + 2j), np.float16([1, 2]),
    np.zeros((0, 3), np.float32), 3, 2.5, True,
], ids=str)
def test_ir_constant(value):
    aval = mjax.typeof(value)
    p = core.Primitive("constant")
    p.def_abstract_eval(lambda: aval.strip_weak_type())
    mlir.register_lowering(p, lambda ctx: [mlir.ir_constant(value)])
    out = mjax.jit(p.bind)()
    assert out.dtype == aval.dtype
    np.testing.assert_array_equal(np.asarray(out), np.asarray(value))


@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (2, 4), (9,), (3, 0), (17,)])
@pytest.mark.parametrize("offset", [0, 1])
def test_booleans_of_every_size(shape, offset):
    """jaxlib 0.9.1 changed how attributes hold them, in silence up to eight."""
    value = ((np.arange(np.prod(shape, dtype=int)) + offset) % 3 == 0).reshape(shape)
    p = core.Primitive("constant")
    p.def_abstract_eval(lambda: mjax.typeof(value))
    mlir.register_lowering(p, lambda ctx: [mlir.ir_constant(value)])
    np.testing.assert_array_equal(np.asarray(mjax.jit(p.bind)()), value)


@pytest.mark.parametrize("value", [np.arange(3), np.float64(2), np.complex128([1j])], ids=repr)
def test_constants_of_numpy_keep_their_dtype(value):
    with (mlir.make_ir_context(), mlir.ir.Location.unknown(),
          mlir.ir.InsertionPoint(mlir.ir.Module.create().body)):
        made = mlir.ir_constant(value)
        assert made.type.element_type == mlir.dtype_to_ir_type(value.dtype)
        canonical = mlir.ir_constant(value, aval=mjax.typeof(value))
        assert canonical.type == mlir.aval_to_ir_type(mjax.typeof(value))


def test_ir_constant_of_a_given_type():
    aval = core.ShapedArray((), np.int8)
    p = core.Primitive("constant")
    p.def_abstract_eval(lambda: aval)
    mlir.register_lowering(p, lambda ctx: [mlir.ir_constant(3, aval=aval)])
    assert int(p.bind()) == 3


def test_types_and_attributes():
    said = {}

    def rule(ctx, x):
        aval, module = ctx.avals_in[0], ctx.module_context
        said["types"] = [str(mlir.dtype_to_ir_type("bfloat16")), str(mlir.dtype_to_ir_type(bool)),
                         str(mlir.aval_to_ir_type(aval)), str(mlir.aval_to_ir_type(module, aval)),
                         str(mlir.aval_to_ir_types(module, aval)[0])]
        said["attributes"] = [str(a) for a in (
            mlir.i32_attr(3), mlir.i64_attr(4), mlir.dense_int_array([1, 2]),
            mlir.dense_bool_array([True]), mlir.dense_int_elements([5, 6]))]
        return [x]

    mjax.jit(make("p", rule).bind)(X)
    assert said["types"] == ["bf16", "i1", "tensor<4xf32>", "tensor<4xf32>", "tensor<4xf32>"]
    assert said["attributes"] == ["3 : i32", "4 : i64", "array<i64: 1, 2>", "array<i1: true>",
                                  "dense<[5, 6]> : tensor<2xi64>"]


def test_reducer_region():
    def rule(ctx, x):
        zero = mlir.ir_constant(np.float32(0))
        reduce = mlir.hlo.ReduceOp(ctx.out_types, [x], [zero], mlir.dense_int_array([0]))
        mlir.reducer_region(reduce.regions[0], [np.float32], lambda a, b: [mlir.hlo.add(a, b)])
        return reduce.results

    p = make("total", rule, lambda x: core.ShapedArray((), x.dtype))
    assert float(p.bind(X)) == 6


# ---- custom calls ------------------------------------------------------------------------


def lowered(p, *args):
    return mjax.jit(p.bind).lower(*args).as_text()


def test_custom_call():
    def rule(ctx, x, y):
        call = mlir.custom_call(
            "somewhere", result_types=ctx.out_types, operands=[x, y], backend_config="opaque",
            has_side_effect=True, api_version=2, operand_output_aliases={1: 0},
            operand_layouts=[[0], [0]], result_layouts=[[0]],
            extra_attributes={"note": mlir.ir.StringAttr.get("mine")})
        return call.results

    text = lowered(make("p", rule), X, X)
    for part in ("stablehlo.custom_call @somewhere", 'backend_config = "opaque"',
                 "has_side_effect = true", "operand_index = 1", "operand_layouts = [dense<0>",
                 'note = "mine"'):
        assert part in text, text


def test_custom_call_of_the_typed_ffi():
    def rule(ctx, x):
        return mlir.custom_call(
            "typed", result_types=ctx.out_types, operands=[x], api_version=4,
            backend_config={"size": mlir.i64_attr(3)}).results

    text = lowered(make("p", rule), X)
    assert "api_version = 4" in text and "size = 3 : i64" in text


@pytest.mark.parametrize("call, expected", [
    (lambda: mlir.i32_attr(np.int64(-1 << 31)), "-2147483648 : i32"),
    (lambda: mlir.i32_attr(1 << 31), (OverflowError, "2147483648 does not fit in .* 32 bits")),
    (lambda: mlir.i32_attr(-(1 << 31) - 1), (OverflowError, "does not fit")),
    (lambda: mlir.i32_attr(1.0), (TypeError, "i32_attr takes an int, got 1.0")),
    (lambda: mlir.i64_attr(np.int64(3)), "3 : i64"),
    (lambda: mlir.i64_attr(1 << 63), (OverflowError, "does not fit in .* 64 bits")),
    (lambda: mlir.i64_attr(1.0), (TypeError, "i64_attr takes an int, got 1.0")),
    (lambda: mlir.dense_int_elements(np.arange(4).reshape(2, 2).T), "dense<[[0, 2], [1, 3]]>"),
    (lambda: mlir.dense_int_elements(np.uint64([1 << 63])), (OverflowError, "does not fit")),
    (lambda: mlir.dtype_to_ir_type("complex32"), (TypeError, "complex32.*convert it to complex64")),
    (lambda: mlir.dtype_to_ir_type(mjax.random.key(0).dtype), (TypeError, "a dtype of keys")),
    (lambda: mlir.aval_to_ir_type(3), (TypeError, "takes a type, .* got 3")),
    (lambda: mlir.aval_to_ir_type(core.ShapedArray((2, -3), np.dtype("f4"))),
     (TypeError, r"sizes must not be negative: float32\[2,-3\]")),
    (lambda: mlir.ir_constant(np.arange(3, dtype=">i4")), "dense<[0, 1, 2]> : tensor<3xi32>"),
    (lambda: mlir.ir_attribute(np.arange(3, dtype=">i4")), "dense<[0, 1, 2]> : tensor<3xi32>"),
    (lambda: mlir.ir_attribute(np.array(["a"])), (TypeError, "does not have arrays of dtype <U1")),
    (lambda: mlir.ir_attribute({1: 2}), (TypeError, "keys of a dict .* must be strings, got 1")),
    (lambda: mlir.get_constant_handler(3), (TypeError, "takes a class, got 3")),
    (lambda: mlir.deserialize_portable_artifact(b""), (ValueError, "the artifact is empty")),
    (lambda: mlir.shape_tensor(None, [np.int64(3)]), "dense<3> : tensor<1xi32>"),
    (lambda: mlir.shape_tensor(None, np.array([3, 4])), "concatenate"),
    (lambda: mlir.shape_tensor(None, [np.int64(1 << 31)]), (OverflowError, "2147483648")),
    (lambda: mlir.shape_tensor(None, [1, 2.0]), (TypeError, "entry 1 must be an int .* got 2.0")),
])
def test_values_at_the_edge(call, expected):
    with mlir.make_ir_context(), mlir.ir.Location.unknown():
        module = mlir.ir.Module.create()
        with mlir.ir.InsertionPoint(module.body):
            if isinstance(expected, str):
                assert expected in str(call())
            else:
                with pytest.raises(expected[0], match=expected[1]):
                    call()


def test_results_of_callbacks_are_compared_with_their_types():
    """XLA read beyond the arrays, and ended the process for large ones."""
    given = []
    p = make("called", lambda ctx, x: mlir.emit_python_callback(
        ctx, lambda x: given[0](x), None, [x], ctx.avals_in, ctx.avals_out,
        has_side_effect=False)[0])
    f = mjax.jit(p.bind)
    for good in (lambda x: (x[::-1],), lambda x: [mjax.numpy.asarray(x[::-1])]):
        given[:] = [good]
        np.testing.assert_array_equal(f(X), X[::-1])
    for wrong, text in (
        (lambda x: (), r"called: the Python callback must return a tuple of 1 array, but returned "
         r"a tuple of 0"),
        (lambda x: x, "must return a tuple of 1 array"),
        (lambda x: (x, x), "returned a tuple of 2"),
        (lambda x: (x[:3],), r"float32\[3\] as result 0, which must have type float32\[4\]"),
        (lambda x: (x.astype(">f4"),), r">f4\[4\] as result 0"),
        (lambda x: (x.astype(np.int32),), r"int32\[4\] as result 0"),
        (lambda x: (list(x),), r"list\[4\] as result 0"),
    ):
        given[:] = [wrong]
        with pytest.raises(RuntimeError, match=text):
            np.asarray(f(X))


@pytest.mark.parametrize("avals, function, error, text", [
    (lambda avals: [], lambda x: (x,), ValueError, "operand_avals has 0 entries for 1 operand"),
    (lambda avals: [core.ShapedArray((4000,), X.dtype)], lambda x: (x,), TypeError,
     r"operand 0 has the type tensor<4xf32>, not that of float32\[4000\]"),
    (lambda avals: avals, 3, TypeError, "callback must be a function, got 3"),
])
def test_operands_of_callbacks_are_compared_with_their_types(avals, function, error, text):
    p = make("called", lambda ctx, x: mlir.emit_python_callback(
        ctx, function, None, [x], avals(ctx.avals_in), ctx.avals_out, has_side_effect=False)[0])
    with pytest.raises(error, match=text):
        mjax.jit(p.bind)(X)
