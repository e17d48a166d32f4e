"""Bits, uniform floats, integers, coins: ranges, distributions, dtypes, errors."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from scipy import stats

import mjax
from mjax import lax, random
from tests.random.statistics import check_continuous, check_discrete

KEY = random.key(42)
FLOATS = ["float32", "float16", "bfloat16", "float64"]
IMPLS = ["threefry2x32", "rbg", "unsafe_rbg"]


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("impl", [
    pytest.param(impl, marks=[] if impl in IMPLS[:2] else [pytest.mark.slow]) for impl in IMPLS])
@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_every_bit_is_a_fair_coin(width, impl):
    with mjax.enable_x64(True):
        out = np.asarray(random.bits(random.key(1, impl=impl), (2000,), f"uint{width}"))
    assert out.dtype == np.dtype(f"uint{width}")
    bits = out[:, None] >> np.arange(width, dtype=out.dtype) & np.ones((), out.dtype)
    ones = bits.sum(0, dtype=int)
    assert stats.binomtest(int(ones.sum()), 2000 * width).pvalue > 1e-3
    assert np.abs(ones - 1000).max() < 5 * np.sqrt(2000 / 4)


def test_bits_of_small_integers_are_uniform():
    for partitionable in (True, False):
        with mjax.threefry_partitionable(partitionable):
            check_discrete(random.bits(KEY, (20_000,), "uint8"), np.ones(256))


@pytest.mark.parametrize("shape", [(), 3, (0,), (2, 0), (2, 3), [2, 3]])
def test_shapes(shape):
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    for f in (random.bits, random.uniform, random.rademacher):
        assert f(KEY, shape).shape == sizes
    assert random.randint(KEY, shape, 0, 5).shape == sizes


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform(dtype):
    with mjax.enable_x64(dtype == "float64"):
        out = np.asarray(random.uniform(KEY, (5000,), dtype))
    assert out.dtype == dtype_of(dtype)
    out = out.astype(np.float64)
    assert out.min() >= 0
    assert out.max() < 1
    steps = out * 2.0 ** ml_dtypes.finfo(dtype_of(dtype)).nmant
    np.testing.assert_array_equal(steps, np.round(steps))
    if dtype in ("float32", "float64"):
        check_continuous(out, "uniform")


def test_uniform_between_bounds():
    out = np.asarray(random.uniform(KEY, (3000,), minval=-2, maxval=5))
    assert out.dtype == np.float32
    check_continuous(out, stats.uniform(-2, 7).cdf)
    low, high = np.float32([[0], [10]]), np.float32([1, 2, 3])
    out = np.asarray(random.uniform(KEY, (2, 3), minval=low, maxval=high + 10))
    assert (out >= low).all()
    assert (out < high + 10).all()
    # The bound below is never gone under by rounding.
    assert (np.asarray(random.uniform(KEY, (1000,), minval=1e8, maxval=1e8 + 1)) >= 1e8).all()


def test_uniform_has_derivatives_in_its_bounds():
    def f(low, high):
        return random.uniform(KEY, (), minval=low, maxval=high)

    at = float(f(0.0, 1.0))
    slopes = mjax.grad(f, (0, 1))(0.0, 1.0)
    np.testing.assert_allclose([float(s) for s in slopes], [1 - at, at], rtol=1e-5)


@pytest.mark.parametrize(("dtype", "low", "high"), [
    ("int32", 0, 7), ("int32", -3, 4), ("uint8", 250, 256), ("int8", -128, -120),
    ("uint32", 0, 5), ("int64", 10, 15), ("int16", -2, 5)])
def test_randint(dtype, low, high):
    with mjax.enable_x64(dtype == "int64"):
        out = np.asarray(random.randint(KEY, (5000,), low, high, dtype))
    assert out.dtype == np.dtype(dtype)
    check_discrete(out.astype(int) - low, np.ones(high - low))


def test_randint_over_the_whole_range():
    for dtype in ("int32", "uint32", "int8", "uint16"):
        info = np.iinfo(dtype)
        if dtype == "uint32":
            with mjax.enable_x64(True):
                out = np.asarray(random.randint(KEY, (2000,), 0, 2**32, dtype))
        else:
            out = np.asarray(random.randint(KEY, (2000,), info.min, np.uint32(info.max + 1), dtype))
        scaled = (out.astype(np.float64) - info.min) / 2.0**info.bits
        assert scaled.max() > 0.99
        check_continuous(scaled + 0.5 / 2**info.bits if info.bits < 32 else scaled, "uniform") \
            if info.bits >= 16 else check_discrete(out.astype(int) - info.min, np.ones(256))


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_randint_of_four_bits(dtype):
    info = ml_dtypes.iinfo(dtype)
    out = np.asarray(random.randint(KEY, (5000,), info.min, info.max + 1, dtype))
    assert out.dtype == np.dtype(getattr(ml_dtypes, dtype))
    check_discrete(out.astype(int) - info.min, np.ones(16))


def test_randint_bounds():
    assert np.asarray(random.randint(KEY, (3,), 5, 5)).tolist() == [5, 5, 5]
    assert np.asarray(random.randint(KEY, (3,), 5, 2)).tolist() == [5, 5, 5]
    low = np.int32([0, 10, 20])
    out = np.asarray(random.randint(KEY, (100, 3), low, low + 3))
    assert (out >= low).all()
    assert (out < low + 3).all()
    # Bounds beyond the dtype are cut to it.
    out = np.asarray(random.randint(KEY, (1000,), -500, 500, "int8"))
    assert (out.min(), out.max()) == (-128, 127)


@pytest.mark.parametrize("mode", ["low", "high"])
def test_bernoulli(mode):
    out = random.bernoulli(KEY, 0.3, (3000,), mode)
    assert out.dtype == np.bool_
    check_discrete(np.asarray(out).astype(int), [0.7, 0.3])
    assert not np.asarray(random.bernoulli(KEY, 0.0, (3000,), mode)).any()
    assert np.asarray(random.bernoulli(KEY, 1.0, (3000,), mode)).all()
    p = np.float32([[0.1], [0.9]])
    out = np.asarray(random.bernoulli(KEY, p, (2, 3000), mode))
    check_discrete(out[0].astype(int), [0.9, 0.1])
    check_discrete(out[1].astype(int), [0.1, 0.9])
    assert random.bernoulli(KEY, p, mode=mode).shape == (2, 1)


def test_bernoulli_of_a_small_probability():
    p = np.float32(2.0**-28)  # below the step of uniform floats
    out = random.bernoulli(KEY, p, (1_000_000,), "high")
    assert np.asarray(out).sum() < 5


def test_rademacher():
    for dtype in ("int32", "float32", "int8", "complex64"):
        out = np.asarray(random.rademacher(KEY, (2000,), dtype))
        assert out.dtype == np.dtype(dtype)
        check_discrete(((out.real + 1) / 2).astype(int), [1, 1])


def test_default_dtypes():
    assert random.bits(KEY).dtype == np.uint32
    assert random.uniform(KEY).dtype == np.float32
    assert random.randint(KEY, (), 0, 2).dtype == random.rademacher(KEY).dtype == np.int32
    with mjax.enable_x64(True):
        assert random.bits(KEY).dtype == np.uint64
        assert random.uniform(KEY).dtype == np.float64
        assert random.randint(KEY, (), 0, 2).dtype == random.rademacher(KEY).dtype == np.int64


def test_one_number_does_not_depend_on_how_many_are_drawn():
    """Partitionable threefry; the old mode does not have this property."""
    few, many = random.bits(KEY, (3,)), random.bits(KEY, (1000,))
    np.testing.assert_array_equal(np.asarray(few), np.asarray(many)[:3])


def test_gradient_through_a_mask():
    x = np.arange(8, dtype=np.float32)

    def dropout(x):
        mask = random.bernoulli(KEY, 0.5, (8,))
        return lax.reduce_sum(lax.select(mask, lax.mul(x, x), np.zeros(8, np.float32)), (0,))

    mask = np.asarray(random.bernoulli(KEY, 0.5, (8,)))
    np.testing.assert_allclose(np.asarray(mjax.grad(dropout)(x)), np.where(mask, 2 * x, 0))


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: random.bits(KEY, (2,), "int32"), ValueError,
     "dtype argument to `bits` must be an unsigned int dtype, got int32"),
    (lambda: random.uniform(KEY, (2,), "int32"), ValueError, "`uniform` must be a float dtype"),
    (lambda: random.uniform(KEY, (2,), "float4_e2m1fn"), TypeError, "float4_e2m1fn are not supp"),
    (lambda: random.uniform(KEY, (2,), minval=np.zeros(3)), ValueError,
     r"uniform: parameters of shapes \(3,\), \(\) do not broadcast to the shape \(2,\)"),
    (lambda: random.uniform(KEY, "ab"), TypeError, "uniform: "),
    (lambda: random.uniform(KEY, (-1,)), TypeError, "uniform: .* negative"),
    (lambda: random.randint(KEY, (2,), 0, 5, "float32"), TypeError, "`randint` must be an int"),
    (lambda: random.randint(KEY, (2,), 0, 2, bool), TypeError, "an int dtype, got bool"),
    (lambda: random.randint(KEY, (2,), 0, 5j), TypeError, "randint takes integers as bounds"),
    (lambda: random.randint(KEY, (2,), np.zeros(3, int), 5), ValueError, "do not broadcast to"),
    (lambda: random.bernoulli(KEY, 1), TypeError, "`p` must have a floating dtype, got int32"),
    (lambda: random.bernoulli(KEY, 0.5, mode="middle"), ValueError, "or 'high', got 'middle'"),
    (lambda: random.bernoulli(KEY, np.zeros(3, np.float32), (2,)), ValueError, "bernoulli: param"),
    (lambda: random.rademacher(KEY, (2,), object), TypeError, "not supported"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_shapes_in_the_places_of_others_are_refused_by_name():
    with pytest.raises(TypeError, match=r"random.randint: the argument maxval must be an array or "
                                        r"a number, got a tuple of 1\..*shape=\.\.\."):
        random.randint(KEY, 0, 10, (3,))
    for wrong in ((3,), [1, 2]):
        with pytest.raises(TypeError, match=r"random.normal: the argument key must be a key, as "
                                            r"random.key makes, got a (tuple|list) of"):
            random.normal(wrong)


def test_traced_shapes_say_what_to_do():
    for f in (lambda n: random.normal(KEY, (n,)), lambda n: random.split(KEY, n),
              lambda n: lax.broadcast(1.0, (n,)), lambda n: mjax.numpy.zeros((2, n))):
        with pytest.raises(mjax.errors.TracerIntegerConversionError, match="argument static"):
            mjax.jit(f)(3)


@pytest.mark.parametrize("wrong", ["a", None, float])
def test_what_is_not_an_array_is_refused_by_name(wrong):
    said = r"random.bernoulli: the argument p must be an array or a number, got "
    for _ in range(2):  # The second time the program is known.
        with pytest.raises(TypeError, match=said):
            random.bernoulli(KEY, wrong)
        random.bernoulli(KEY, 0.5)
    with pytest.raises(TypeError, match=r"random.beta: the argument b must be"):
        random.beta(KEY, 1.0, wrong)
    for name in ("choice", "permutation"):
        with pytest.raises(TypeError, match=f"{name} requires ndarray or scalar arguments"):
            getattr(random, name)(KEY, wrong)
