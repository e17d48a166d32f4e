"""Running totals: cumsum, cumprod, cummax, cummin, cumlogsumexp, linear_recurrence."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax._engine.primitives import arithmetic
from mjax._engine.primitives import cumulative as lax
from mjax._engine.primitives.associative import scan_in_tree
from mjax._engine.primitives.composed import broadcast
from mjax._engine.primitives.cumulative import linear_recurrence_p
from tests.engine.primitives.harness import Case, table

INTS = "i32 i8 i16 i64 u32 u8 u16 u64"
FLOATS = "f32 f16 bf16 f64"
INF, NAN = np.inf, np.nan


def complex_extremum(better):
    """Running extrema of complex numbers as a loop."""

    def accumulate(x, axis):
        out = x.copy()
        for i in range(1, x.shape[axis]):
            here = tuple([slice(None)] * axis + [i])
            before = tuple([slice(None)] * axis + [i - 1])
            out[here] = np.where(better(out[before], x[here]), out[before], x[here])
        return out

    return accumulate


def logaddexp(x, axis):
    if x.dtype.kind == "c":
        return np.log(np.cumsum(np.exp(x), axis))
    return np.logaddexp.accumulate(x, axis)


def in_dtype(ufunc):
    return lambda x, axis: ufunc.accumulate(x, axis, x.dtype)


NUMPY = {"cumsum": in_dtype(np.add), "cumprod": in_dtype(np.multiply),
         "cummax": in_dtype(np.maximum), "cummin": in_dtype(np.minimum),
         "cumlogsumexp": logaddexp}


def flipped(function, axis):
    """The same from the end to the start."""
    return lambda x: np.flip(function(np.flip(x, axis), axis), axis)


def row(name, types, T, axis, reverse):
    function, reference = getattr(lax, name), NUMPY[name]
    return Case(name, lambda x: function(x, axis, reverse),
                flipped(reference, axis) if reverse else lambda x: reference(x, axis), types, T,
                linear=[(0,)] if name == "cumsum" else (),
                label=f"{axis},{'reverse' if reverse else 'forward'}")


def recurrence(a, b):
    """Along axis 1, by its definition."""
    out = b.copy()
    for i in range(1, b.shape[1]):
        out[:, i] = a[:, i] * out[:, i - 1] + b[:, i]
    return out


CASES = [
    *[row(name, types, T if i == 0 else "f32", axis, reverse)
      for name, T in [("cumsum", f"{FLOATS} c64 c128 {INTS}"),
                      ("cumprod", f"{FLOATS} c64 c128 {INTS}"), ("cummax", f"{FLOATS} {INTS}"),
                      ("cummin", f"{FLOATS} {INTS}"), ("cumlogsumexp", FLOATS)]
      for i, (types, axis, reverse) in enumerate([
          ("T[2,3]; T[2,1]; T[2,0]; T[0,3]", 1, False), ("T[5,2]", 0, True)])],
    Case("cumlogsumexp", lax.cumlogsumexp, lambda x: logaddexp(x, 0), "T[4]", "c64 c128",
         label="complex"),
    Case("cummax", lax.cummax, lambda x: complex_extremum(
        lambda a, b: (a.real > b.real) | ((a.real == b.real) & (a.imag > b.imag)))(x, 0),
         "T[4,2]", "c64 c128", label="complex"),
    Case("linear_recurrence", lambda a, b: linear_recurrence_p.bind(a, b, axis=1, reverse=False),
         recurrence, "T[2,3] T[2,3]; T[1,1] T[1,1]; T[2,0] T[2,0]", "f32 f64 c64",
         linear=[(1,)]),
    Case("linear_recurrence", lambda a, b: linear_recurrence_p.bind(a, b, axis=1, reverse=True),
         lambda a, b: recurrence(a[:, ::-1], b[:, ::-1])[:, ::-1], "T[2,4] T[2,4]", "f32",
         linear=[(1,)], label="reverse"),
]


@table(CASES)
def test_cumulative(check, sample):
    check(sample)


# ---- lengths, accuracy -----------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((256,), 0), ((257,), 0), ((1000, 2), 0),
                                             ((2, 290), 1), ((2, 300, 2), 1)])
def test_long_axes_are_cut_into_blocks(shape, axis, reverse):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    wide = x.astype(np.float64)
    for name, reference in [("cumsum", np.add.accumulate), ("cumlogsumexp", logaddexp)]:
        out = getattr(lax, name)(x, axis, reverse)
        expected = flipped(reference, axis)(wide) if reverse else reference(wide, axis)
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_long_sums_keep_their_digits():
    for dtype, tolerance in [(np.float32, 3e-6), (np.float16, 2e-3), (ml_dtypes.bfloat16, 8e-3)]:
        x = np.random.default_rng(0).uniform(0, 0.5, 20_000).astype(dtype)
        expected = np.cumsum(x.astype(np.float64))
        np.testing.assert_allclose(np.asarray(lax.cumsum(x), np.float64), expected, tolerance)


def test_a_zero_ends_a_product_that_overflows_later():
    x = np.float32([2, 0] + [1e30] * 300)
    out = np.asarray(lax.cumprod(x))
    np.testing.assert_array_equal(out, [2] + [0] * 301)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 13])
def test_scans_of_logarithmic_depth(name, n):
    combine = {"cumsum": arithmetic.add, "cumprod": arithmetic.mul, "cummax": arithmetic.max,
               "cummin": arithmetic.min, "cumlogsumexp": lax._logaddexp}[name]
    x = np.random.default_rng(0).normal(size=(2, n)).astype(np.float32)
    out, = scan_in_tree(lambda a, b: [combine(a[0], b[0])], [x], 1)
    np.testing.assert_allclose(out, NUMPY[name](x, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
def test_other_platforms_agree_with_the_loop(reverse):
    x, a = np.random.default_rng(0).normal(size=(2, 3, 11)).astype(np.float32)
    for primitive, operands in [(lax.cumsum_p, [x]), (lax.cumlogsumexp_p, [x]),
                                (linear_recurrence_p, [a, x])]:
        params = {"axis": 1, "reverse": reverse}
        tree = primitive.lowerings[None].function(*operands, **params)
        np.testing.assert_allclose(tree, primitive.bind(*operands, **params), rtol=1e-5)


# ---- NaN, infinities, ties -------------------------------------------------------------


def test_nan_and_infinities():
    x = np.float32([[1, NAN, 3, 2], [-INF, -INF, 1, 2], [0, INF, 1, -INF], [1, -INF, 2, INF]])
    for name in ("cummax", "cummin", "cumlogsumexp"):
        with np.errstate(invalid="ignore"):
            expected = NUMPY[name](x, 1)
        np.testing.assert_allclose(getattr(lax, name)(x, 1), expected, rtol=1e-6)


def test_derivatives_of_cumlogsumexp_at_infinities():
    jacobian = mjax.jit(mjax.jacrev(lax.cumlogsumexp))
    np.testing.assert_allclose(jacobian(np.float32([-INF, 0, 0])),
                               [[1, 0, 0], [0, 1, 0], [0, 0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(jacobian(np.float32([0, INF, 1])),
                               [[1, 0, 0], [0, 1, 0], [0, 1, 0]], rtol=1e-6)


def test_ties_of_extrema_share_the_derivative():
    x = np.float32([1, 1, 0, 2, 2])
    expected = [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 0, 1, 0],
                [0, 0, 0, 0.5, 0.5]]
    np.testing.assert_array_equal(mjax.jit(mjax.jacrev(lax.cummax))(x), expected)
    np.testing.assert_array_equal(mjax.jit(mjax.jacfwd(lax.cummin))(-x), expected)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_products_with_zeros(reverse):
    x = np.float32([2, 0, 3, 0, 5])
    expected = np.zeros((5, 5))
    for i in range(5):
        factors = range(i, 5) if reverse else range(i + 1)
        for j in factors:
            expected[i, j] = np.prod([x[k] for k in factors if k != j])
    for jacobian in (mjax.jacfwd, mjax.jacrev):
        f = mjax.jit(jacobian(lambda x: lax.cumprod(x, 0, reverse)))
        np.testing.assert_array_equal(f(x), expected)


def test_the_derivative_of_a_running_total_is_one_recurrence():
    x = np.ones(100, np.float32)
    for function in (lax.cumprod, lax.cummax, lax.cumlogsumexp):
        jaxpr = mjax.make_jaxpr(lambda x, t, f=function: mjax.jvp(f, (x,), (t,)))(x, x)
        names = [eqn.primitive.name for eqn in jaxpr.eqns]
        assert names.count("linear_recurrence") == 1
        assert len(names) < 25


# ---- types and refusals ----------------------------------------------------------------

f32 = np.zeros((2, 3), np.float32)


def test_weak_types_are_kept():
    aval, = mjax.make_jaxpr(lambda x: lax.cumsum(broadcast(x, (3,))))(1.0).out_avals
    assert aval.weak_type
    assert not lax.cumsum(f32).weak_type


@pytest.mark.parametrize(("function", "args", "error", "text"), [
    (lax.cumsum, (f32, 2), ValueError, "cumsum: axis 2 is not an axis of an operand of shape"),
    (lax.cumsum, (f32, -1), ValueError, "cumsum: axis -1 is not an axis of an operand"),
    (lax.cummax, (np.float32(1),), ValueError, "cummax: axis 0 is not an axis of an operand"),
    (lax.cumsum, (f32 > 0,), TypeError, "cumsum does not accept dtype bool"),
    (lax.cumlogsumexp, (np.arange(3),), TypeError, "cumlogsumexp does not accept dtype int32"),
    (lambda a, b: linear_recurrence_p.bind(a, b, axis=0, reverse=False), (f32, f32[0]), TypeError,
     "linear_recurrence needs operands of one shape and dtype"),
])
def test_wrong_totals_are_refused(function, args, error, text):
    with pytest.raises(error, match=re.escape(text)):
        function(*args)
