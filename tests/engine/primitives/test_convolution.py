"""Convolutions: values against loops, every rule, groups, dtypes, precision, variants, refusals."""

from __future__ import annotations

import doctest
import itertools
import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.primitives.convolution import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated,
)
from tests.engine.primitives.harness import DTYPES, Case, normal, primitive_names, table
from tests.engine.primitives.sliding import convolution


def row(label, operands, strides, padding, base=None, step=None, numbers=None, features=1,
        batches=1, **fields):
    """A case of conv_general_dilated with these params."""
    function = partial(conv_general_dilated, window_strides=strides, padding=padding,
                       lhs_dilation=base, rhs_dilation=step, dimension_numbers=numbers,
                       feature_group_count=features, batch_group_count=batches)
    return Case("conv_general_dilated", function,
                lambda x, k: convolution(x, k, strides, padding, base, step, numbers, features,
                                         batches),
                operands, label=label, linear=[(0,), (1,)], **fields)


F32 = DTYPES["f32"]
ALL = "f32 f64 bf16 f16 c64 c128 i8 i16 i32 i64 u8 u16 u32 u64 bool"
NONE = [(0, 0)]
CASES = [
    row("plain", "T[2,3,5] T[4,3,2]; T[1,1,3] T[1,1,3]; T[0,3,5] T[4,3,2]; T[2,0,5] T[4,0,2]; "
        "T[2,3,5] T[0,3,2]; T[2,3,0] T[4,3,2]; T[2,3,1] T[4,3,2]", (1,), NONE, T=ALL),
    row("strides", "T[2,2,7] T[3,2,3]; T[2,2,8] T[3,2,3]", (2,), NONE),
    row("padding", "T[1,2,3] T[3,2,2]; T[1,2,1] T[3,2,5]", (1,), [(1, 3)]),
    row("cut", "T[1,2,6] T[3,2,2]; T[1,2,3] T[3,2,1]", (1,), [(-2, -1)]),
    row("cut and pad", "T[1,2,6] T[3,2,2]", (2,), [(-1, 2)]),
    row("holes in lhs", "T[2,1,3] T[2,1,2]; T[2,1,1] T[2,1,2]", (1,), [(1, 2)], base=(3,)),
    row("holes in rhs", "T[2,2,6] T[1,2,2]; T[2,2,6] T[1,2,3]", (1,), NONE, step=(2,)),
    row("all at once", "T[1,2,4] T[2,2,3]", (2,), [(3, 1)], base=(3,), step=(2,)),
    row("no spatial axes", "T[2,3] T[4,3]; T[2,0] T[4,0]", (), []),
    row("two axes", "T[1,2,4,3] T[2,2,2,3]", (1, 2), [(1, 0), (0, 1)], step=(2, 1)),
    row("three axes", "T[1,1,3,2,3] T[2,1,2,2,1]", (1, 1, 2), [(0, 0), (1, 0), (0, 1)]),
    row("order", "T[5,3,2] T[2,4,3]", (1,), NONE, numbers=("WCN", "WOI", "NWC"), T="f32 c64"),
    row("feature groups", "T[2,4,5] T[6,2,2]; T[2,2,5] T[2,1,2]", (2,), [(1, 1)], features=2,
        T="f32 c64 i32"),
    row("depthwise", "T[1,3,4] T[6,1,2]", (1,), [(1, 0)], base=(2,), features=3),
    row("feature groups in order", "T[5,2,4] T[3,6,2]", (1,), NONE, features=2,
        numbers=("WNC", "WOI", "CWN")),
    row("batch groups", "T[4,3,5] T[6,3,2]; T[2,1,3] T[2,1,2]", (2,), [(1, 1)], batches=2,
        T="f32 c64 i32"),
    row("batch groups in order", "T[5,6,2] T[3,6,2]", (1,), [(0, 1)], step=(2,), batches=3,
        numbers=("WNC", "WOI", "CWN")),
]


@table(CASES)
def test_conv_general_dilated(check, sample):
    check(sample)


# ---- padding by name -------------------------------------------------------------------


@pytest.mark.parametrize(("padding", "pairs"), [
    ("SAME", [(1, 1), (1, 2)]), ("SAME_LOWER", [(1, 1), (2, 1)]), ("valid", [(0, 0)] * 2)])
def test_padding_by_name(padding, pairs):
    rng = np.random.default_rng(0)
    x, k = normal(rng, (2, 2, 5, 6), F32), normal(rng, (3, 2, 3, 4), F32)
    out = conv_general_dilated(x, k, (2, 1), padding)
    np.testing.assert_allclose(out, convolution(x, k, (2, 1), pairs), rtol=1e-5, atol=1e-5)
    if padding != "valid":
        assert out.shape[2:] == (3, 6)
    assert lax.padtype_to_pads((5, 6), (3, 4), (2, 1), padding) == pairs


def test_same_padding_counts_the_holes_of_the_kernel():
    x, k = np.ones((1, 1, 7), np.float32), np.ones((1, 1, 3), np.float32)
    assert conv_general_dilated(x, k, (1,), "SAME", rhs_dilation=(3,)).shape == (1, 1, 7)


# ---- dtypes and precision --------------------------------------------------------------


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize(("given", "preferred"), [
    ("bfloat16", "float32"), ("float16", "float32"), ("int8", "int32"), ("uint8", "int32"),
    ("int32", "float32"), ("bool", "int32"), ("bool", "float32"), ("float16", "bfloat16"),
    ("float8_e4m3fn", "float32"), ("float32", "float32")])
def test_preferred_dtype(given, preferred):
    rng = np.random.default_rng(0)
    x, k = [normal(rng, s, DTYPES["i32"]).clip(0).astype(dtype_of(given))
            for s in ((1, 2, 5), (3, 2, 2))]
    f = partial(conv_general_dilated, window_strides=(1,), padding="VALID",
                preferred_element_type=preferred)
    out = f(x, k)
    assert (out.dtype, out.weak_type) == (dtype_of(preferred), False)
    want = convolution(x.astype(float), k.astype(float), (1,), [(0, 0)])
    np.testing.assert_array_equal(np.asarray(out).astype(float), want)
    np.testing.assert_array_equal(np.asarray(mjax.jit(f)(x, k)), np.asarray(out))


def test_narrow_integers_wrap_unless_a_wider_dtype_is_preferred():
    x, k = np.full((1, 1, 3), 100, np.int8), np.full((1, 1, 3), 2, np.int8)
    assert np.asarray(lax.conv(x, k, (1,), "VALID")).item() == np.int64(600).astype(np.int8)
    assert np.asarray(lax.conv(x, k, (1,), "VALID", preferred_element_type="int32")).item() == 600


def test_cotangents_have_the_operands_dtypes():
    rng = np.random.default_rng(0)
    x, k = [normal(rng, s, DTYPES["bf16"]) for s in ((2, 2, 5), (3, 2, 2))]
    f = partial(conv_general_dilated, window_strides=(1,), padding="VALID",
                preferred_element_type=np.float32)
    out, vjp = mjax.vjp(f, x, k)
    assert out.dtype == np.float32
    with mjax.enable_x64(True):
        wide = mjax.vjp(partial(lax.conv, window_strides=(1,), padding="VALID"),
                        x.astype("f8"), k.astype("f8"))[1]
        want = wide(np.ones(out.shape))
    for got, exact, primal in zip(vjp(np.ones(out.shape, np.float32)), want, (x, k), strict=True):
        assert got.dtype == primal.dtype
        np.testing.assert_allclose(np.asarray(got).astype(float), exact, rtol=2e-2, atol=2e-2)


def test_complex_convolution_is_three_real_ones():
    x, k = np.ones((1, 1, 3), np.complex64), np.ones((1, 1, 2), np.complex64)
    text = mjax.jit(lambda x, k: lax.conv(x, k, (1,), "VALID")).lower(x, k).as_text()
    assert text.count("stablehlo.convolution") == 3


X, K = np.ones((1, 2, 5, 6), np.float32), np.ones((4, 2, 3, 2), np.float32)


def test_precision():
    def found(f, *args):
        return [e.params["precision"] for e in mjax.make_jaxpr(f)(*args).jaxpr.eqns
                if e.primitive.name == "conv_general_dilated"]

    high, highest = lax.Precision.HIGH, lax.Precision.HIGHEST
    f = partial(lax.conv, window_strides=(1, 1), padding="SAME", precision=("high", "highest"))
    ct = np.ones((1, 4, 5, 6), np.float32)
    assert found(lambda x, k: mjax.vjp(f, x, k)[1](ct), X, K) == [(high, highest)] * 3
    with mjax.default_matmul_precision("float32"):
        assert found(lambda x, k: lax.conv(x, k, (1, 1), "SAME"), X, K) == [(highest, highest)]
    text = mjax.jit(f).lower(X, K).as_text()
    assert "precision HIGH>, #stablehlo<precision HIGHEST>" in text


# ---- what the rules are made of --------------------------------------------------------


@pytest.mark.parametrize(("axes", "features", "batches", "groups", "names"), [
    ((0, None), 1, 1, (1, 1), ["reshape", "conv_general_dilated", "reshape"]),
    ((None, 0), 1, 1, (1, 1), ["reshape", "conv_general_dilated", "reshape"]),
    ((0, 0), 1, 1, (7, 1), ["transpose", "reshape", "reshape", "conv_general_dilated",
                            "reshape"]),
    ((0, 0), 2, 1, (14, 1), None), ((0, 0), 1, 2, (1, 14), None), ((None, 0), 2, 1, (2, 1), None),
    ((0, None), 1, 2, (1, 2), None)])
def test_a_batch_is_one_convolution(axes, features, batches, groups, names):
    x, k = np.zeros((7, 4, 4, 5), np.float32), np.zeros((7, 4, 4 // features, 2), np.float32)
    f = partial(conv_general_dilated, window_strides=(1,), padding="VALID",
                feature_group_count=features, batch_group_count=batches)
    args = [a if d == 0 else a[0] for a, d in zip((x, k), axes, strict=True)]
    jaxpr = mjax.make_jaxpr(mjax.vmap(f, axes))(*args)
    found = [e.params for e in jaxpr.eqns if e.primitive.name == "conv_general_dilated"]
    assert [(p["feature_group_count"], p["batch_group_count"]) for p in found] == [groups]
    if names is not None:
        assert primitive_names(jaxpr)[:len(names)] == names


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("groups", [{}, {"feature_group_count": 2}, {"batch_group_count": 2}])
def test_empty_batches(axes, groups):
    k = np.zeros((0, 4, 4 // groups.get("feature_group_count", 1), 2), np.float32)
    x = np.zeros((0, 2, 4, 5), np.float32)
    args = [a if d == 0 else np.ones(a.shape[1:], np.float32)
            for a, d in zip((x, k), axes, strict=True)]
    f = partial(conv_general_dilated, window_strides=(1,), padding="VALID", **groups)
    out = mjax.vmap(f, axes)(*args)
    assert out.shape == (0, 2 // groups.get("batch_group_count", 1), 4, 4)


def test_printed_form():
    text = str(mjax.make_jaxpr(lambda x, k: lax.conv(x, k, (1, 1), "SAME"))(X, K))
    assert "padding=((1, 1), (0, 1))" in text
    assert "precision" not in text


# ---- dimension numbers -----------------------------------------------------------------


def test_dimension_numbers():
    shapes = (1, 5, 6, 2), (3, 2, 2, 4)
    numbers = conv_dimension_numbers(*shapes, ("NHWC", "HWIO", "NCHW"))
    assert numbers == ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 1, 2, 3))
    assert conv_dimension_numbers(*shapes, numbers) == numbers
    assert conv_dimension_numbers(*shapes, None) == ConvDimensionNumbers(*[(0, 1, 2, 3)] * 3)
    assert lax.conv_general_permutations(("NHWC", "WHIO", "NCHW")) == (
        (0, 3, 2, 1), (3, 2, 0, 1), (0, 1, 3, 2))


@pytest.mark.parametrize(("numbers", "text"), [
    (("NCHW", "OIHW"), "must be None, three strings such as ('NHWC', 'HWIO', 'NHWC'), or a"),
    (3, "or a lax.ConvDimensionNumbers, got 3."),
    (("NCHW", "OIHW", "NCWX"), "must all name the same spatial axes."),
    (("XCHW", "OIHW", "NCHW"), "dimension_numbers[0], 'XCHW', must contain the characters 'N' and "
                               "'C' exactly once."),
    (("NCHW", "OOHW", "NCHW"), "dimension_numbers[1], 'OOHW', must contain the characters 'O'"),
    (("NCH", "OIHW", "NCHW"), "dimension_numbers[0], 'NCH', must have one character for each of "
                              "the 4 axes"),
    (("NCHH", "OIHH", "NCHH"), "dimension_numbers[0], 'NCHH', must not repeat a character."),
    (ConvDimensionNumbers((0, 1, 2, 2), (0, 1, 2, 3), (0, 1, 2, 3)), "lhs_spec (0, 1, 2, 2) of"),
    (ConvDimensionNumbers((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2)), "out_spec (0, 1, 2) of the "
     "dimension_numbers must name each of the 4 axes once."),
])
def test_wrong_dimension_numbers(numbers, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        conv_general_dilated(X, K, (1, 1), "SAME", dimension_numbers=numbers)


# ---- refusals --------------------------------------------------------------------------

X_INT = X.astype(np.int32)


@pytest.mark.parametrize(("args", "fields", "error", "text"), [
    ((X, K[0], (1, 1), "SAME"), {}, TypeError, "Got lhs of shape (1, 2, 5, 6) and rhs of shape "
                                               "(2, 3, 2)."),
    ((X[0, 0, 0], K[0, 0, 0], (), "SAME"), {}, TypeError, "of equal rank, at least 2"),
    ((X, K, (1,), "SAME"), {}, ValueError, "window_strides (1,) must hold one number for each of "
                                           "the 2 spatial axes."),
    ((X, K, 2, "SAME"), {}, TypeError, "window_strides must be a sequence of integers, got 2."),
    ((X, K, (0, 1), "SAME"), {}, ValueError, "window_strides (0, 1) must be positive."),
    ((X, K, (1, 1), "FOO"), {}, ValueError, "padding must be 'SAME', 'SAME_LOWER' or 'VALID', got "
                                            "'FOO'."),
    ((X, K, (1, 1), 1), {}, ValueError, "or a sequence of (low, high) pairs of integers, got 1."),
    ((X, K, (1, 1), [1, 1]), {}, ValueError, "pairs of integers, got [1, 1]."),
    ((X, K, (1, 1), [(0, 0)]), {}, TypeError, "padding ((0, 0),) must hold one pair for each of "
                                              "the 2 axes."),
    ((X, K, (1, 1), [(-3, -3), (0, 0)]), {}, ValueError, "takes more elements away than there "
                                                         "are along axes of sizes (5, 6)."),
    ((X, K, (1, 1), "SAME", (2, 1)), {}, ValueError, "padding 'SAME' is not defined for a "
                                                     "dilated lhs (lhs_dilation (2, 1))"),
    ((X, K, (1, 1), [(0, 0)] * 2, (0, 1)), {}, TypeError, "lhs_dilation (0, 1) must be positive"),
    ((X, K, (1, 1), "SAME", None, (1,)), {}, TypeError, "rhs_dilation (1,) must hold one number"),
    ((X, K, (1, 1), "SAME", None, (1, -1)), {}, TypeError, "rhs_dilation (1, -1) must be positive"),
    ((X, K[:, :1], (1, 1), "SAME"), {}, ValueError, "the lhs has 2 features; in 1 groups "
     "(feature_group_count) of the 1 input features of the rhs there would be 1."),
    ((X, K, (1, 1), "SAME"), {"feature_group_count": 2}, ValueError, "there would be 4."),
    ((X, K[:3, :1], (1, 1), "SAME"), {"feature_group_count": 2}, ValueError,
     "output features of the rhs, 3, must be a multiple of feature_group_count, 2."),
    ((X, K, (1, 1), "SAME"), {"feature_group_count": 0}, ValueError,
     "feature_group_count must be positive, got 0."),
    ((X, K, (1, 1), "SAME"), {"batch_group_count": 2}, ValueError,
     "the batch size of the lhs, 1, must be a multiple of batch_group_count, 2."),
    ((X, K, (1, 1), "SAME"), {"batch_group_count": 2, "feature_group_count": 2}, ValueError,
     "only one of feature_group_count, 2, and batch_group_count, 2, may be greater than 1."),
    ((X, K[:, :, :0], (1, 1), "VALID"), {}, ValueError, "spatial sizes of the rhs, (0, 2), must"),
    ((X, K.astype(np.int32), (1, 1), "SAME"), {}, TypeError,
     "requires lhs and rhs of one dtype, got float32 and int32"),
    ((X, K, (1, 1), "SAME"), {"preferred_element_type": "int32"}, TypeError,
     "preferred_element_type int32 is not a wider form of float32"),
    ((X, K, (1, 1), "SAME"), {"preferred_element_type": "bfloat16"}, TypeError, "not narrower."),
    ((X_INT, K.astype(np.int32), (1, 1), "SAME"), {"preferred_element_type": "uint32"}, TypeError,
     "preferred_element_type uint32 is not a wider form of int32"),
    ((X, K, (1, 1), "SAME"), {"precision": "best"}, ValueError, "precision 'best' is not"),
])
def test_what_does_not_fit_is_refused(args, fields, error, text):
    with pytest.raises(error, match=re.escape(text)):
        conv_general_dilated(*args, **fields)


def test_keys_are_refused():
    keys = mjax.random.split(mjax.random.key(0), (1, 2, 3))
    with pytest.raises(TypeError, match="needs numeric or boolean operands, got key<fry>"):
        lax.conv(keys, keys, (1,), "VALID")


# ---- variants --------------------------------------------------------------------------


def test_conv_and_conv_with_general_padding():
    rng = np.random.default_rng(0)
    x, k = normal(rng, (2, 2, 5), F32), normal(rng, (3, 2, 2), F32)
    np.testing.assert_allclose(lax.conv(x, k, (2,), "SAME"), convolution(x, k, (2,), [(0, 1)]),
                               rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        lax.conv_with_general_padding(x, k, (2,), [(2, 1)], (2,), (3,)),
        convolution(x, k, (2,), [(2, 1)], (2,), (3,)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 0), (0, 1)]])
@pytest.mark.parametrize(("strides", "step"), [((1, 1), None), ((2, 3), None), ((2, 1), (1, 2))])
def test_conv_transpose_is_the_gradient_of_a_convolution(strides, step, padding):
    rng = np.random.default_rng(0)
    ct, k = normal(rng, (1, 3, 4, 2), F32), normal(rng, (3, 2, 3, 2), F32)
    numbers = ("NHWC", "HWIO", "NHWC")
    out = lax.conv_transpose(ct, k, strides, padding, step, transpose_kernel=True,
                             use_consistent_padding=True)

    def forward(x):
        return conv_general_dilated(x, k, strides, padding, None, step, numbers)

    assert forward(out).shape == ct.shape
    _, vjp = mjax.vjp(forward, np.zeros(out.shape, np.float32))
    np.testing.assert_allclose(out, vjp(ct)[0], rtol=1e-5, atol=1e-5)


def test_conv_transpose_padding():
    x, k = np.ones((1, 3, 1), np.float32), np.ones((3, 1, 1), np.float32)
    direct = lax.conv_transpose(x, k, (2,), [(1, 0)])
    np.testing.assert_array_equal(direct[0, :, 0], [1, 2, 1, 2])
    consistent = lax.conv_transpose(x, k, (2,), [(1, 0)], use_consistent_padding=True)
    assert consistent.shape == (1, 6, 1)
    for given in ("SAME_LOWER", "FOO"):
        with pytest.raises(ValueError, match=f"'SAME', 'VALID' or .*, got '{given}'"):
            lax.conv_transpose(x, k, (2,), given)
    with pytest.raises(TypeError, match=r"conv_transpose: strides \(2, 2\) must hold one number"):
        lax.conv_transpose(x, k, (2, 2), "SAME")


def patches(x, window, strides, padding, base, step):
    """What a window sees, for axes (batch, feature, spatial): one-hot kernels."""
    outs = []
    for c, *index in np.ndindex(x.shape[1], *window):
        kernel = np.zeros((1, x.shape[1], *window), x.dtype)
        kernel[(0, c, *index)] = 1
        outs.append(convolution(x, kernel, strides, padding, base, step))
    return np.concatenate(outs, axis=1)


@pytest.mark.parametrize("numbers", [None, ("NCHW", "OIHW", "WNCH"), ("HWNC", "WOHI", "NCHW")])
@pytest.mark.parametrize(("strides", "padding", "base", "step"), [
    ((1, 1), [(0, 0), (0, 0)], (1, 1), (1, 1)), ((2, 1), [(1, 0), (2, -1)], (1, 2), (2, 1)),
    ((1, 1), [(0, 0), (-2, -2)], (1, 1), (1, 1))])
def test_patches(strides, padding, base, step, numbers):
    rng = np.random.default_rng(0)
    lhs, rhs, out = numbers or ("NCHW", "OIHW", "NCHW")
    # Other arguments, and features, name spatial axes in the order of the kernel.
    axes = "NC" + "".join(c for c in rhs if c in "HW")
    x = normal(rng, (2, 2, 5, 6), F32)
    given = x.transpose([axes.index(c) for c in lhs])
    got = lax.conv_general_dilated_patches(given, (2, 3), strides, padding, base, step, numbers)
    want = patches(x, (2, 3), strides, padding, base, step)
    np.testing.assert_array_equal(np.asarray(got).transpose([out.index(c) for c in axes]), want)


def test_patches_keep_what_is_not_finite_in_its_place():
    x = np.array([[[1, np.inf, np.nan, 4]]], np.float32)
    out = lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
    np.testing.assert_array_equal(out, [[[1, np.inf, np.nan], [np.inf, np.nan, 4]]])
    wide = lax.conv_general_dilated_patches(x.astype(np.float16), (2,), (1,), "SAME",
                                            preferred_element_type=np.float32)
    assert (wide.shape, wide.dtype) == ((1, 2, 4), np.float32)
    assert lax.conv_general_dilated_patches(x, (5,), (1,), "VALID").shape == (1, 5, 0)


def test_wrong_patches():
    with pytest.raises(TypeError, match=r"filter_shape \(3,\) must hold one size for each spatial"):
        lax.conv_general_dilated_patches(X, (3,), (1, 1), "VALID")
    with pytest.raises(TypeError, match=r"filter_shape \(0, 1\) must be positive"):
        lax.conv_general_dilated_patches(X, (0, 1), (1, 1), "VALID")
    with pytest.raises(ValueError, match="padding 'SAME' is not defined for a dilated lhs"):
        lax.conv_general_dilated_patches(X, (3, 2), (1, 1), "SAME", (2, 1))
    with pytest.raises(TypeError, match="must contain the characters 'N' and 'C'"):
        lax.conv_general_dilated_patches(X, (3, 2), (1, 1), "SAME",
                                         dimension_numbers=("XCHW", "OIHW", "NCHW"))
    with pytest.raises(ValueError, match="precision 'text' is not understood"):
        lax.conv_general_dilated_patches(X, (3, 2), (1, 1), "SAME", precision="text")


@pytest.mark.parametrize("numbers", [None, ("NHWC", "HWIO", "CNHW"), ConvDimensionNumbers(
    (0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))])
def test_unshared_kernels(numbers):
    rng = np.random.default_rng(0)
    window, places = (2, 3), (4, 2)
    x, k = normal(rng, (2, 2, 5, 6), F32), normal(rng, (3, 2 * 2 * 3, *places), F32)
    want = np.einsum("nfhw,ofhw->nohw", patches(x, window, (1, 2), [(0, 0)] * 2, None, None), k)
    if numbers and isinstance(numbers[0], str):
        x, k, want = [a.transpose([given.index(c) for c in spec]) for a, given, spec in zip(
            (x, k, want), ("NCHW", "OIHW", "NCHW"), numbers, strict=True)]
    out = lax.conv_general_dilated_local(x, k, (1, 2), "VALID", window, dimension_numbers=numbers)
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-5)


def test_unshared_kernels_that_do_not_fit():
    k = np.ones((4, 12, 3, 2), np.float32)
    with pytest.raises(TypeError, match=re.escape(
            "of shape (4, 12, 3, 2), must have 12 input features, one for each element of a window "
            "in each feature of the lhs, and spatial sizes (3, 5), one kernel for each place; it "
            "has 12 and (3, 2).")):
        lax.conv_general_dilated_local(X, k, (1, 1), "VALID", (3, 2))


# ---- shapes ----------------------------------------------------------------------------


def test_shape_functions_say_what_comes_out():
    numbers = ("NHWC", "HWIO", "CNHW")
    x, k = np.zeros((2, 5, 6, 2), np.float32), np.zeros((3, 2, 2, 4), np.float32)
    for strides, padding in itertools.product([(1, 1), (2, 3)],
                                              ["SAME", "VALID", [(1, 0), (0, 2)]]):
        out = conv_general_dilated(x, k, strides, padding, dimension_numbers=numbers)
        assert lax.conv_general_shape_tuple(x.shape, k.shape, strides, padding, numbers
                                            ) == out.shape
        out = lax.conv_transpose(x, k, strides, padding, dimension_numbers=numbers)
        assert lax.conv_transpose_shape_tuple(x.shape, k.shape, strides, padding, numbers
                                              ) == out.shape
    assert lax.conv_shape_tuple((-1, 2, 5), (6, 2, 3), (2,), "VALID") == (-1, 6, 2)
    numbers = ("NHC", "HIO", "NHC")
    assert lax.conv_general_shape_tuple((-1, 5, 2), (3, 2, 6), (2,), "VALID", numbers
                                        ) == (-1, 2, 6)
    assert lax.conv_transpose_shape_tuple((-1, 5, 2), (3, 2, 6), (2,), "SAME", numbers
                                          ) == (-1, 10, 6)
    with pytest.raises(TypeError, match="negative sizes"):
        lax.conv_transpose_shape_tuple((5, -1, 2), (3, 2, 6), (2,), "SAME", numbers)
    assert lax.conv_shape_tuple((4, 2, 5), (6, 2, 3), (2,), "VALID", 2) == (2, 6, 2)
    with pytest.raises(ValueError, match="batch size, 3, must be a multiple"):
        lax.conv_shape_tuple((3, 2, 5), (6, 2, 3), (2,), "VALID", 2)


def test_wrong_padtype_to_pads():
    with pytest.raises(TypeError, match="padding must be a string, got 3"):
        lax.padtype_to_pads((5,), (3,), (1,), 3)
    with pytest.raises(TypeError, match="must be of one length"):
        lax.padtype_to_pads((5, 6), (3,), (1,), "SAME")
    with pytest.raises(TypeError, match=r"window_strides \(0,\) must be positive"):
        lax.padtype_to_pads((5,), (3,), (0,), "SAME")


# ---- docstrings ------------------------------------------------------------------------

FUNCTIONS = """conv conv_dimension_numbers conv_general_dilated conv_general_dilated_local
    conv_general_dilated_patches conv_general_permutations conv_general_shape_tuple
    conv_shape_tuple conv_transpose conv_transpose_shape_tuple conv_with_general_padding
    padtype_to_pads reduce_window_shape_tuple""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", FUNCTIONS)
def test_examples_run(name):
    examples = doctest.DocTestParser().get_doctest(
        getattr(lax, name).__doc__, {"lax": lax, "jnp": jnp}, name, None, None)
    assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)
