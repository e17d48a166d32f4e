"""dot_general: values against einsum, dtypes, precisions, every rule, shape checks."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.dot import batch_matmul, dot, dot_general
from mjax._engine.primitives.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
    canonical_precision,
)
from tests.engine.primitives.harness import Case, normal, table


def einsum(lhs, rhs, contracting, batch):
    """dot_general in NumPy's words: a letter for each axis."""
    (lc, rc), (lb, rb) = contracting, batch
    left = [chr(97 + i) for i in range(lhs.ndim)]
    right = [chr(65 + i) for i in range(rhs.ndim)]
    for i, j in [*zip(lc, rc, strict=True), *zip(lb, rb, strict=True)]:
        right[j] = left[i]
    out = [left[i] for i in lb]
    out += [c for i, c in enumerate(left) if i not in (*lc, *lb)]
    out += [c for j, c in enumerate(right) if j not in (*rc, *rb)]
    subscripts = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    if lhs.dtype == bool:
        return np.einsum(subscripts, lhs.astype(int), rhs.astype(int)) > 0
    return np.einsum(subscripts, lhs, rhs)


def row(label, contracting, batch, operands, **fields):
    """A case of dot_general with these dimension numbers."""
    function = partial(dot_general, dimension_numbers=(contracting, batch))
    return Case("dot_general", function,
                lambda x, y: einsum(x, y, contracting, batch), operands, label=label,
                linear=[(0,), (1,)], **fields)


MATRICES = ((1,), (0,)), ((), ())
ALL = "f32 f64 bf16 f16 c64 c128 i8 i32 i64 u8 u32 bool"
CASES = [
    row("matrices", *MATRICES, "T[2,3] T[3,4]; T[2,0] T[0,4]; T[0,3] T[3,4]; T[1,1] T[1,1]", T=ALL),
    row("vectors", ((0,), (0,)), ((), ()), "T[3] T[3]", T="f32 c64 i32"),
    row("outer", ((), ()), ((), ()), "T[2] T[3]; T[] T[]; T[2,3] T[]"),
    row("transposed", ((0,), (1,)), ((), ()), "T[3,2] T[4,3]", T="f32 c64"),
    row("two pairs", ((0, 2), (1, 0)), ((), ()), "T[2,4,3] T[3,2,5]"),
    row("two pairs, crossed", ((2, 0), (0, 1)), ((), ()), "T[2,4,3] T[3,2,5]"),
    row("all axes", ((1, 0), (0, 1)), ((), ()), "T[2,3] T[3,2]"),
    row("batch", ((2,), (1,)), ((0,), (0,)), "T[2,3,4] T[2,4,5]", T="f32 c64 i32 bf16"),
    row("batch in the middle", ((0,), (2,)), ((1,), (0,)), "T[4,2,3] T[2,5,4]"),
    row("two batch axes", ((3,), (0,)), ((2, 0), (1, 3)), "T[2,3,4,5] T[5,4,6,2]"),
    row("batch alone", ((), ()), ((0,), (0,)), "T[3] T[3]; T[2,3] T[2,4]"),
]


@table(CASES)
def test_dot_general(check, sample):
    check(sample)


# ---- dtypes ----------------------------------------------------------------------------

#: lhs, rhs, preferred -> result
DTYPES = [
    ("bfloat16", "bfloat16", "float32", "float32"), ("float16", "float16", "float32", "float32"),
    ("int8", "int8", "int32", "int32"), ("int8", "uint8", "int32", "int32"),
    ("float32", "bfloat16", None, "float32"), ("bfloat16", "float32", None, "float32"),
    ("bfloat16", "float16", None, "bfloat16"), ("float16", "bfloat16", None, "bfloat16"),
    ("int8", "float32", None, "float32"), ("int32", "uint32", None, "int32"),
    ("bool", "int8", None, "int8"), ("complex64", "float32", None, "complex64"),
    ("float32", "float32", "bfloat16", "bfloat16"), ("int32", "int32", "float32", "float32"),
    ("float32", "float32", "int32", "int32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32", "float32"),
    ("float8_e4m3fn", "float8_e5m2", "bfloat16", "bfloat16"),
]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize(("left", "right", "preferred", "result"), DTYPES)
def test_dtypes(left, right, preferred, result):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2 if left == "bool" else 4, (2, 3)).astype(dtype_of(left))
    y = rng.integers(0, 4, (3, 4)).astype(dtype_of(right))
    f = partial(dot_general, dimension_numbers=MATRICES, preferred_element_type=preferred)
    out = f(x, y)
    assert out.dtype == dtype_of(result)
    assert not out.weak_type
    np.testing.assert_array_equal(np.asarray(out).astype(complex), x.astype(complex) @ y.astype(
        complex))
    np.testing.assert_array_equal(np.asarray(mjax.jit(f)(x, y)), np.asarray(out))


def test_narrow_integers_wrap_unless_a_wider_dtype_is_preferred():
    x, y = np.full((1, 3), 100, np.int8), np.full((3, 1), 2, np.int8)
    assert np.asarray(dot(x, y)).item() == np.int64(600).astype(np.int8)
    assert np.asarray(dot(x, y, preferred_element_type=np.int32)).item() == 600


def test_preferred_dtype_is_canonicalized():
    x = np.ones((2, 2), np.float32)
    with pytest.warns(UserWarning, match="float64 was asked for, but 64-bit types are off"):
        assert dot(x, x, preferred_element_type=np.float64).dtype == np.float32
    with mjax.enable_x64(True):
        assert dot(x, x, preferred_element_type=np.float64).dtype == np.float64


def test_products_of_floats_in_integers_do_not_vary():
    x = np.ones((2, 2), np.float32)
    for f in (partial(dot, preferred_element_type=np.int32), lambda x, y: lax.ragged_dot(
            x, y[None], np.array([2]), preferred_element_type=np.int32)):
        out, tangent = mjax.jvp(f, (x, x), (x, x))
        assert out.dtype == np.int32 and tangent.dtype == mjax.dtypes.float0
        got = mjax.jit(mjax.grad(lambda x, f=f: (x * f(x, x)).sum()))(x)
        np.testing.assert_array_equal(got, np.full((2, 2), 2.0))


@pytest.mark.parametrize(("left", "right", "preferred"), [
    ("float32", "bfloat16", None), ("bfloat16", "bfloat16", "float32"),
    ("complex64", "float32", None), ("float32", "complex64", None)])
def test_cotangents_have_the_operands_dtypes(left, right, preferred):
    rng = np.random.default_rng(0)
    x = normal(rng, (2, 3), dtype_of(left))
    y = normal(rng, (3, 4), dtype_of(right))
    f = partial(dot_general, dimension_numbers=MATRICES, preferred_element_type=preferred)
    out, vjp = mjax.vjp(f, x, y)
    ct = normal(rng, out.shape, out.dtype)
    for got, want, primal in zip(vjp(ct), (ct @ np.asarray(y).T, np.asarray(x).T @ ct), (x, y),
                                 strict=True):
        assert got.dtype == primal.dtype
        want = want if primal.dtype.kind == "c" else want.real
        np.testing.assert_allclose(np.asarray(got).astype(complex), want.astype(complex),
                                   rtol=2e-2, atol=2e-2)


def test_integer_operands_have_no_derivative():
    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.ones((3, 2), np.float32)
    out, tangent = mjax.jvp(lambda y: dot_general(x, y, MATRICES), (y,), (2 * y,))
    np.testing.assert_array_equal(np.asarray(tangent), 2 * np.asarray(out))


# ---- precision -------------------------------------------------------------------------


def precision_of(f, *args):
    return mjax.make_jaxpr(f)(*args).jaxpr.eqns[0].params["precision"]


X = np.ones((2, 2), np.float32)


@pytest.mark.parametrize(("given", "canonical"), [
    (None, None), ("highest", (Precision.HIGHEST,) * 2), ("float32", (Precision.HIGHEST,) * 2),
    ("bfloat16", (Precision.DEFAULT,) * 2), (Precision.HIGH, (Precision.HIGH,) * 2),
    (("high", Precision.DEFAULT), (Precision.HIGH, Precision.DEFAULT)),
    ("F32_F32_F32", DotAlgorithmPreset.F32_F32_F32),
    (DotAlgorithmPreset.F64_F64_F64, DotAlgorithmPreset.F64_F64_F64)])
def test_precision_arguments(given, canonical):
    assert canonical_precision(given) == canonical
    assert precision_of(lambda x: dot(x, x, precision=given), X) == canonical
    np.testing.assert_allclose(np.asarray(dot(X, X, precision=given)), X @ X)


def test_precisions_are_printed_by_name():
    # haiku looks for `str(precision).lower()` in HLO.
    assert [f"{p}" for p in Precision] == ["DEFAULT", "HIGH", "HIGHEST"]
    assert repr(Precision.HIGH) == "Precision.HIGH"


def test_default_precision_is_a_setting():
    with mjax.default_matmul_precision("float32"):
        assert precision_of(lambda x: dot(x, x), X) == (Precision.HIGHEST, Precision.HIGHEST)
        assert precision_of(lambda x: dot(x, x, precision="default"), X) == (
            Precision.DEFAULT, Precision.DEFAULT)


def test_precision_follows_its_operand_into_derivatives():
    f = partial(dot, precision=("high", "highest"))
    jaxpr = mjax.make_jaxpr(lambda x, y, ct: mjax.vjp(f, x, y)[1](ct))(X, X, X)
    found = [e.params["precision"] for e in jaxpr.jaxpr.eqns if e.primitive.name == "dot_general"]
    high, highest = Precision.HIGH, Precision.HIGHEST
    # For the product, for the cotangent with x, for the cotangent with y.
    assert sorted(found, key=str) == sorted([(high, highest), (highest, high), (high, highest)],
                                            key=str)


@pytest.mark.parametrize("preset", ["F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3",
                                    "BF16_BF16_F32_X6", "F32_F32_F32", "F64_F64_F64", "DEFAULT"])
def test_dot_algorithms(preset):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 3, 3)).astype(np.float32)
    out = dot(x, y, precision=preset)
    assert out.dtype == np.float32
    np.testing.assert_allclose(np.asarray(out), x @ y, atol=2e-2)
    half = dot(x.astype(np.float16), y.astype(np.float16), precision=preset)
    assert half.dtype == np.float16


def test_a_dot_algorithm_of_ones_own():
    algorithm = DotAlgorithm(np.float32, np.float32, np.float32)
    np.testing.assert_allclose(np.asarray(dot(X, X, precision=algorithm)), X @ X)


def test_algorithms_that_cpus_have_not():
    with pytest.raises(ValueError, match="TF32_TF32_F32 is not supported on CPU"):
        dot(X, X, precision="TF32_TF32_F32")


# ---- dot, batch_matmul -----------------------------------------------------------------


def test_dot_of_vectors_and_matrices():
    rng = np.random.default_rng(0)
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4))):
        x, y = rng.normal(size=left), rng.normal(size=right)
        np.testing.assert_allclose(np.asarray(dot(x, y)), x @ y, rtol=1e-5)
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
    out = dot(x, y, dimension_numbers=(((1,), (1,)), ((), ())))
    np.testing.assert_allclose(np.asarray(out), x @ y.T, rtol=1e-5)


def test_batch_matmul():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 2, 3, 4)), rng.normal(size=(5, 2, 4, 6))
    np.testing.assert_allclose(np.asarray(batch_matmul(x, y)), x @ y, rtol=1e-4, atol=1e-5)


def test_products_of_python_scalars_are_weak():
    out = dot_general(2.0, 3.0, (((), ()), ((), ())))
    assert (float(out), out.weak_type) == (6.0, True)


def test_unbatched_operand_is_not_repeated():
    x, y = np.ones((5, 2, 3), np.float32), np.ones((3, 4), np.float32)
    jaxpr = mjax.make_jaxpr(mjax.vmap(partial(dot_general, dimension_numbers=MATRICES),
                                      in_axes=(0, None)))(x, y)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["dot_general"]


def test_printed_form():
    text = str(mjax.make_jaxpr(lambda x: dot(x, x))(X))
    assert "dot_general[dimension_numbers=(([1], [0]), ([], []))] a a" in text


@pytest.mark.parametrize(("left", "right", "numbers", "text"), [
    ((2, 3), (2, 3), MATRICES, "axis 1 of the lhs, of shape \\(2, 3\\), has size 3 and axis 0 of "
     "the rhs, of shape \\(2, 3\\), has size 2"),
    ((2, 3), (3, 4), (((5,), (0,)), ((), ())), "axes \\(5,\\) .* of the lhs.* not among"),
    ((2, 3), (3, 4), (((-1,), (0,)), ((), ())), "not among its axes"),
    ((2, 3), (3, 4), (((1, 1), (0, 0)), ((), ())), "not distinct"),
    ((2, 3), (3, 4), (((1,), (0,)), ((1,), (0,))), "not distinct"),
    ((2, 3), (3, 4), (((1,), (0,)), ((0,), ())), "equal numbers of batch axes"),
    ((2, 3), (3, 4), (((1,), (0,)), ((0,), (1,))), "batch axes must have equal sizes"),
])
def test_shapes_that_do_not_fit(left, right, numbers, text):
    with pytest.raises(TypeError, match=text):
        dot_general(np.ones(left), np.ones(right), numbers)


def test_axes_may_be_bare_numbers():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(dot_general(x, y, ((1, np.int32(0)), ((), ()))), x @ y)
    np.testing.assert_array_equal(dot_general(x, x, ((1, 1), (0, 0))), (x * x).sum(1))


def test_other_errors():
    with pytest.raises(ValueError, match="lhs of shape \\(2, 3\\) and rhs of shape \\(2, 3\\)"):
        dot(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="at least 2, got shapes \\(2, 3\\) and \\(3,\\)"):
        batch_matmul(np.ones((2, 3)), np.ones(3))
    with pytest.raises(ValueError, match="precision 'best' is not understood: give None"):
        dot(X, X, precision="best")
    with pytest.raises(TypeError, match="preferred_element_type int8 is narrower than int32"):
        dot(np.ones((2, 2), np.int32), np.ones((2, 2), np.int32), preferred_element_type="int8")
    key = mjax.random.split(mjax.random.key(0))
    with pytest.raises(TypeError, match="needs numeric or boolean operands, got key<fry>"):
        dot(key, key)


def test_the_setting_takes_the_names_of_all_algorithms():
    for preset in lax.DotAlgorithmPreset:
        if preset is not lax.DotAlgorithmPreset.DEFAULT:
            with mjax.default_matmul_precision(preset.name):
                jaxpr = mjax.make_jaxpr(lambda x: lax.dot(x, x))(np.ones((2, 2), np.float32))
            assert jaxpr.eqns[0].params["precision"] is preset
    with mjax.default_matmul_precision("F32_F32_F32"):
        text = mjax.jit(lambda x: lax.dot(x, x)).lower(np.ones((2, 2), np.float32)).as_text()
    assert "accumulation_type = f32" in text
