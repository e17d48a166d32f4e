"""sort, sort_key_val, argsort, top_k."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax._engine.ir.dtypes import float0
from mjax._engine.primitives import scatter  # noqa: F401 - has the transposes of gathers
from mjax._engine.primitives import sort as lax
from tests.engine.primitives.harness import Case, normal, table

FLOATS = "f32 f16 bf16 f64"
INTS = "i32 i8 i16 i64 u32 u8 u16 u64"
ALL = f"{FLOATS} c64 c128 {INTS} bool"
INF, NAN = np.inf, np.nan


def shuffled(rng, shape, dtype):
    """Distinct numbers along every axis, far apart."""
    x = rng.permutation(int(np.prod(shape))).reshape(shape) - 3
    return x.astype(dtype)


def few(rng, shape, dtype):
    """Many ties."""
    return rng.integers(0, 2, shape).astype(dtype)


def by_key(*operands, axis, keys=1):
    """Lexicographic order by the first operands, stable."""
    moved = [np.moveaxis(x, axis, -1) for x in operands]
    order = np.lexsort(moved[:keys][::-1], axis=-1)
    return [np.moveaxis(np.take_along_axis(x, order, -1), -1, axis) for x in moved]


def greatest(x, k, axis):
    """Of distinct numbers."""
    order = np.flip(np.argsort(x, axis), axis).astype(np.int32)
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, order, axis), order


CASES = [
    Case("sort", lambda x: lax.sort(x, 1), lambda x: np.sort(x, 1),
         "T[2,3]; T[2,1]; T[2,0]; T[0,2]", ALL, shuffled),
    Case("sort", lambda x: lax.sort(x, 0, is_stable=False), lambda x: np.sort(x, 0),
         "T[4,2]; T[5]", "f32", shuffled, label="not stable"),
    Case("sort", lambda k, v: lax.sort((k, v), 0), lambda k, v: by_key(k, v, axis=0),
         "T[4,2] T[4,2]; T[5] T[5]", "f32", shuffled, label="two"),
    Case("sort", lambda k, v: lax.sort((k, v), 1), lambda k, v: by_key(k, v, axis=1),
         "i32[2,6] T[2,6]", "f32 c64 i8 bool", [few, normal], result="i32 T", label="ties"),
    Case("sort", lambda a, b, v: lax.sort((a, b, v), 0, num_keys=2),
         lambda a, b, v: by_key(a, b, v, axis=0, keys=2), "T[4,2] i32[4,2] T[4,2]", "f32",
         [shuffled, few, normal], label="two keys"),
    Case("top_k", lambda x: lax.top_k(x, 2), lambda x: greatest(x, 2, -1), "T[2,5]; T[0,5]; T[2]",
         f"{FLOATS} {INTS}", shuffled, result="T i32", native=True),
    Case("top_k", lambda x: lax.top_k(x, 3, axis=0), lambda x: greatest(x, 3, 0),
         "T[5,2]; T[3]; T[4,2,3]", "f32", shuffled, label="axis 0"),
    Case("top_k", lambda x: lax.top_k(x, 2, axis=1), lambda x: greatest(x, 2, 1), "T[2,4,3]",
         "f32 i32", shuffled, result="T i32", label="axis 1"),
    Case("top_k", lambda x: lax.top_k(x, 0), lambda x: greatest(x, 0, -1), "T[2,3]; T[2,0]",
         "f32", label="none"),
]


@table(CASES)
def test_sort(check, sample):
    check(sample)


# ---- order -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_nan_is_last_and_zeros_are_equal(dtype):
    x = np.array([0, -0.0, NAN, -NAN, INF, -INF, 1, -0.0, 0], dtype)
    keys, order = lax.sort_key_val(x, np.arange(9))
    np.testing.assert_array_equal(order, [5, 0, 1, 7, 8, 6, 4, 2, 3])
    np.testing.assert_array_equal(np.signbit(np.asarray(keys)[1:5]), [False, True, True, False])
    np.testing.assert_array_equal(lax.argsort(x), order)


def test_complex_numbers_are_ordered_by_real_part_then_imaginary():
    x = np.array([complex(1, NAN), complex(NAN, 1), 1 + 2j, 1 + 1j, complex(0, INF), 3j,
                  complex(-0.0, 2)], np.complex64)
    _, order = lax.sort_key_val(x, np.arange(7))
    np.testing.assert_array_equal(order, [6, 5, 4, 3, 2, 0, 1])


def test_later_keys_decide_between_equal_ones_nan_included():
    rng = np.random.default_rng(0)
    first = rng.choice(np.float32([0, -0.0, 1, NAN]), 200)
    second = rng.choice(np.complex64([0, 1j, 1]), 200)
    *_, order = lax.sort((first, second, np.arange(200)), num_keys=2)
    np.testing.assert_array_equal(order, np.lexsort((second.imag, second.real, first)))


@pytest.mark.parametrize("platform", ["cpu", None])
def test_both_forms_of_the_comparator_agree(platform):
    x = np.float32([3, NAN, -0.0, 0, -INF, 2, -NAN, INF])
    original = lax._less_ir
    less = lambda a, b, aval, otherwise, _: original(a, b, aval, otherwise, platform)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lax, "_less_ir", less)
        f = mjax.jit(lambda x, i: lax.sort((x, i), num_keys=1))
        _, order = f(x, np.arange(8))
    np.testing.assert_array_equal(order, [4, 2, 3, 5, 0, 7, 1, 6])


def test_top_k_takes_the_first_of_equal_ones_and_nan_before_numbers():
    values, indices = lax.top_k(np.float32([1, NAN, 5, 5, INF, 1]), 5)
    np.testing.assert_array_equal(indices, [1, 4, 2, 3, 0])
    np.testing.assert_array_equal(values, np.float32([NAN, INF, 5, 5, 1]))
    values, indices = lax.top_k(np.array([False, True, True]), 2)
    np.testing.assert_array_equal(values, [True, True])
    np.testing.assert_array_equal(indices, [1, 2])


# ---- structure, derivatives ------------------------------------------------------------


def test_sort_gives_what_it_was_given():
    x = np.float32([2, 1])
    assert isinstance(lax.sort(x), mjax.Array)
    assert isinstance(lax.sort([x]), tuple)
    keys, values = lax.sort_key_val(x, np.array([10, 20]))
    np.testing.assert_array_equal(keys, [1, 2])
    np.testing.assert_array_equal(values, [20, 10])


def test_tangents_follow_their_elements():
    x, t = np.float32([3, 1, 1, 2]), np.float32([10, 20, 30, 40])
    _, tangent = mjax.jvp(lax.sort, (x,), (t,))
    np.testing.assert_array_equal(tangent, [20, 30, 40, 10])
    i = np.arange(4)
    (_, _), (tangent, none) = mjax.jvp(lambda x: lax.sort((x, i)), (x,), (t,))
    np.testing.assert_array_equal(tangent, [20, 30, 40, 10])
    assert none.dtype == float0
    grad = mjax.grad(lambda x: mjax.lax.reduce_sum(mjax.lax.mul(lax.top_k(x, 2)[0],
                                                                np.float32([5, 7])), (0,)))(x)
    np.testing.assert_array_equal(grad, [5, 0, 0, 7])


def test_values_alone_are_differentiated_by_one_sort():
    x = np.ones(3, np.float32)
    jaxpr = mjax.make_jaxpr(lambda x, t: mjax.jvp(lambda v: lax.sort((x, v)), (x,), (t,)))(x, x)
    assert [eqn.primitive.name for eqn in jaxpr.eqns].count("sort") == 1


# ---- refusals --------------------------------------------------------------------------

f32 = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(("function", "args", "options", "error", "text"), [
    (lax.sort, ((),), {}, TypeError, "sort needs at least one operand"),
    (lax.sort, ((f32, f32[0]),), {}, TypeError, "sort needs operands of equal shapes, got (2, 3)"),
    (lax.sort, (f32, 2), {}, ValueError, "axis 2 is out of bounds"),
    (lax.sort, ((f32, f32),), {"num_keys": 3}, ValueError, "num_keys=3 must be between 1 and"),
    (lax.sort, (f32,), {"num_keys": 0}, ValueError, "num_keys=0 must be between 1 and"),
    (lax.top_k, (f32, 4), {}, ValueError, "top_k: k=4 must be between 0 and 3"),
    (lax.top_k, (f32, -1), {}, ValueError, "top_k: k=-1 must be between 0 and 3"),
    (lax.top_k, (f32, 3), {"axis": 0}, ValueError, "top_k: k=3 must be between 0 and 2"),
    (lax.top_k, (np.float32(1), 1), {}, ValueError, "axis -1 is out of bounds"),
    (lax.sort, ([3, 1],), {}, ValueError, "got a scalar, 3, in a list of operands"),
    (lax.sort, (3,), {}, ValueError, "must have an axis to sort along, got a scalar, 3. Convert"),
    (lax.top_k, (np.zeros(3, np.complex64), 1), {}, ValueError, "top_k does not accept dtype"),
])
def test_wrong_sorts_are_refused(function, args, options, error, text):
    with pytest.raises(error, match=re.escape(text)):
        function(*args, **options)


@pytest.mark.parametrize("dtype", ["int2", "uint2"])
def test_numbers_of_two_bits(dtype):
    """XLA ends the process when it joins them, sorts them wrongly, and does not find the greatest
    one; so does jax."""
    x = np.array([1, 0, 1, 1, 0], getattr(ml_dtypes, dtype))
    values = x.astype(np.int32)
    for f, expected in (
        (lambda x: lax.sort(x), np.sort(values)),
        (lambda x: lax.sort((x, np.arange(5)), num_keys=1)[1], np.argsort(values, kind="stable")),
        (lambda x: lax.top_k(x, 2)[0], [1, 1]),
        (lambda x: mjax.lax.argmax(x, 0, np.int32), 0),
        (lambda x: mjax.lax.argmin(mjax.lax.concatenate([x] * 5, 0)[2:], 0, np.int32), 2),
        (lambda x: mjax.lax.concatenate([x, x], 0), np.tile(values, 2)),
        (lambda x: mjax.lax.concatenate([x] * 20, 0), np.tile(values, 20)),
    ):
        for call in (f, mjax.jit(f)):
            np.testing.assert_array_equal(np.asarray(call(x)).astype(np.int32), expected)
