"""Reductions: prod, max, min, and, or, xor, argmax, argmin."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax._engine.ir.dtypes import float0
from mjax._engine.primitives import reductions as lax
from mjax._engine.primitives.reductions import highest, lowest
from tests.engine.primitives.harness import Case, table

INTS = "i32 i8 i16 i64 u32 u8 u16 u64"
FLOATS = "f32 f16 bf16 f64"
ORDERED = f"{FLOATS} {INTS} bool"


def over(function, *args):
    """The function of its first operand."""
    return lambda x: function(x, *args)


def reduced(ufunc, axes):
    """NumPy's result, in the operand's dtype."""
    return lambda x: ufunc.reduce(x, axes, x.dtype)


def extreme(function, axes):
    return lambda x: function(x, axes)


AXES = [("T[2,3]; T[1,3]; T[2,0]", (0,)), ("T[2,3]", (1,)), ("T[2,3,2]", (0, 2)), ("T[5]", (0,)),
        ("T[2,3]", ()), ("T[7,2]", (0, 1))]
CASES = [
    *[Case("reduce_prod", over(lax.reduce_prod, axes), reduced(np.multiply, axes), types,
           f"{FLOATS} c64 c128 {INTS}" if i == 0 else "f32", label=str(axes))
      for i, (types, axes) in enumerate([*AXES, ("T[0,2]", (0,))])],
    *[Case(name, over(getattr(lax, name), axes), extreme(function, axes), types,
           f"{ORDERED} c64 c128" if i == 0 else "f32", label=str(axes))
      for name, function in [("reduce_max", np.max), ("reduce_min", np.min)]
      for i, (types, axes) in enumerate(AXES)],
    *[Case(name, over(getattr(lax, name), axes), reduced(ufunc, axes), types,
           f"{INTS} bool" if i == 0 else "i32", label=str(axes))
      for name, ufunc in [("reduce_and", np.bitwise_and), ("reduce_or", np.bitwise_or),
                          ("reduce_xor", np.bitwise_xor)]
      for i, (types, axes) in enumerate([*AXES, ("T[0,2]", (0,))])],
    *[Case(name, over(getattr(lax, name), axis, dtype), extreme(function, axis), types,
           ORDERED if i == 0 else "f32", result=result, order=0, native=True,
           label=f"{axis},{dtype}")
      for name, function in [("argmax", np.argmax), ("argmin", np.argmin)]
      for i, (types, axis, dtype, result) in enumerate([
          ("T[2,3]; T[2,1]; T[0,3]", 1, np.int32, "i32"), ("T[2,3]", 0, np.uint8, "u8"),
          ("T[40]", 0, np.int32, "i32"), ("T[2,40,2]", 1, np.int8, "i8")])],
]


@table(CASES)
def test_reductions(check, sample):
    check(sample)


# ---- NaN, ties, infinities -------------------------------------------------------------

NAN, INF = np.nan, np.inf
ROWS = [[1, NAN, 3, NAN], [NAN, 1, 2, 3], [INF, 1, -INF, 2], [-INF, -INF, -INF, -INF],
        [0, -0.0, 0, -1], [2, 2, 1, 1]]


@pytest.mark.parametrize("repeats", [1, 10])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_nan_and_ties_are_as_numpys(dtype, repeats):
    x = np.repeat(np.array(ROWS), repeats, axis=1)
    narrow = x.astype(dtype)
    for name, function in [("max", np.max), ("min", np.min)]:
        out = getattr(lax, f"reduce_{name}")(narrow, (1,))
        np.testing.assert_array_equal(np.asarray(out, np.float64), function(x, 1))
        index = getattr(lax, f"arg{name}")(narrow, 1, np.int32)
        np.testing.assert_array_equal(index, getattr(np, f"arg{name}")(x, 1))


@pytest.mark.parametrize("size", [3, 40])
def test_booleans_and_extreme_integers_have_a_first_one(size):
    for x in (np.zeros(size, bool), np.ones(size, bool), np.full(size, -128, np.int8),
              np.full(size, 255, np.uint8), np.full(size, np.iinfo(np.int32).min)):
        assert int(lax.argmax(x, 0, np.int32)) == 0
        assert int(lax.argmin(x, 0, np.int32)) == 0


def test_complex_extrema_compare_real_parts_first():
    x = np.array([1 + 2j, 1 + 3j, 0 + 9j, -1 - 1j, -1 - 2j], np.complex64)
    assert complex(lax.reduce_max(x, (0,))) == 1 + 3j
    assert complex(lax.reduce_min(x, (0,))) == -1 - 2j
    low = np.array([complex(-INF, -5), complex(-INF, -7)], np.complex64)
    assert complex(lax.reduce_max(low, (0,))) == complex(-INF, -5)


@pytest.mark.parametrize(("dtype", "low", "high"), [
    (np.float32, -INF, INF), (np.int8, -128, 127), (np.uint16, 0, 65535), (bool, False, True)])
def test_empty_extrema_are_the_extremes_of_the_dtype(dtype, low, high):
    empty = np.zeros((2, 0), dtype)
    np.testing.assert_array_equal(lax.reduce_max(empty, (1,)), np.full(2, low, dtype))
    np.testing.assert_array_equal(lax.reduce_min(empty, (1,)), np.full(2, high, dtype))


def test_extremes_of_dtypes_without_infinity():
    assert float(lowest(np.dtype(ml_dtypes.float8_e4m3fn))) == -448
    assert float(highest(np.dtype(ml_dtypes.float8_e4m3fn))) == 448
    assert float(highest(np.dtype(ml_dtypes.float8_e5m2))) == INF
    assert int(lowest(np.dtype(ml_dtypes.int4))) == -8


# ---- derivatives -----------------------------------------------------------------------


@pytest.mark.parametrize("function", [lax.reduce_max, lax.reduce_min])
def test_ties_share_the_derivative_equally(function):
    x = np.float32([[2, 2, 2], [1, 1, 1]])
    extreme_row = 0 if function is lax.reduce_max else 1
    grad = np.asarray(mjax.grad(lambda x: function(x, (0, 1)))(x))
    np.testing.assert_allclose(grad[extreme_row], np.full(3, 1 / 3), rtol=1e-6)
    np.testing.assert_array_equal(grad[1 - extreme_row], np.zeros(3))


def product_tensor(x, order):
    """All derivatives of this order of the product of a vector, by their definition."""
    out = np.zeros((len(x),) * order)
    for indices in itertools.permutations(range(len(x)), order):
        out[indices] = np.prod(np.delete(x, indices))
    return out


@pytest.mark.parametrize("x", [[2.0, 0, 3, 5, -1], [2.0, 0, 3, 0, 7], [0.0, 0, 0, 4, 1],
                               [1.0, 2, 3, 4, 5, 6], [3.0], [3.0, 0]])
def test_all_derivatives_of_a_product_with_zeros(x):
    x = np.array(x, np.float32)
    first = mjax.jacrev(lambda x: lax.reduce_prod(x, (0,)))
    for f, order in [(first, 1), (mjax.jacfwd(first), 2), (mjax.jacrev(first), 2),
                     (mjax.jacfwd(mjax.jacfwd(first)), 3)]:
        np.testing.assert_allclose(mjax.jit(f)(x), product_tensor(x, order))


def test_integer_reductions_have_no_tangents():
    x = np.arange(3)
    for function in (lax.reduce_prod, lax.reduce_max, lax.reduce_or):
        _, tangent = mjax.jvp(lambda x, f=function: f(x, (0,)), (x,),
                              (np.zeros(3, float0),))
        assert tangent.dtype == float0


# ---- types and refusals ----------------------------------------------------------------


def test_weak_types_are_kept():
    weak = mjax.make_jaxpr(lambda x: lax.reduce_max(x, ()))(1.0)
    assert weak.out_avals[0].weak_type
    assert not mjax.make_jaxpr(lambda x: lax.reduce_max(x, ()))(np.float32(1)).out_avals[
        0].weak_type


f32, i32, c64 = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.int32), np.zeros(3, np.complex64)


@pytest.mark.parametrize(("function", "args", "error", "text"), [
    (lax.reduce_max, (f32, (2,)), ValueError, "reduce_max: axes (2,) must be distinct axes"),
    (lax.reduce_max, (f32, (-1,)), ValueError, "reduce_max: axes (-1,)"),
    (lax.reduce_prod, (f32, (0, 0)), ValueError, "reduce_prod: axes (0, 0)"),
    (lax.reduce_prod, (i32 > 0, (0,)), TypeError, "reduce_prod does not accept dtype bool"),
    (lax.reduce_and, (f32, (0,)), TypeError, "reduce_and does not accept dtype float32"),
    (lax.argmax, (f32, 2, np.int32), ValueError, "argmax: axis 2 is not an axis of an operand"),
    (lax.argmax, (f32, -1, np.int32), ValueError, "argmax: axis -1 is not an axis"),
    (lax.argmin, (f32[:0], 0, np.int32), ValueError, "argmin of an empty sequence: axis 0"),
    (lax.argmax, (f32, 0, np.float32), TypeError, "index_dtype must be an integer dtype"),
    (lax.argmax, (np.zeros(300), 0, np.int8), ValueError, "int8 cannot count the 300 elements"),
    (lax.argmax, (c64, 0, np.int32), TypeError, "argmax does not accept dtype complex64"),
])
def test_wrong_reductions_are_refused(function, args, error, text):
    with pytest.raises(error, match=re.escape(text)):
        function(*args)
