"""Elementwise primitives and those that move elements: arithmetic, convert, select, shapes."""

from __future__ import annotations

import re
import warnings

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.shapes import copy_p
from mjax._engine.primitives.tangents import add_any_p
from tests.engine.primitives.harness import DTYPES, Case, kind, normal, table

INTS = "i32 i8 i16 i64"
UINTS = "u32 u8 u16 u64"
FLOATS = "f32 f16 bf16 f64"
COMPLEX = "c64 c128"
SHAPES = "T[3]; T[]; T[0,2]; T[2,1]"
PAIRS = "T[2,3] T[2,3]; T[] T[3]; T[3] T[]; T[2,1] T[2,3]; T[2,1] T[1,3]; T[0,1] T[0,2]; T[] T[]"

# ---- operands --------------------------------------------------------------------------


def positive(rng, shape, dtype):
    """At least 1/2; small integers from 1 on."""
    if kind(dtype) in "iu":
        return rng.integers(1, 6, shape).astype(dtype)
    return (np.abs(normal(rng, shape, np.dtype("f8"))) + 0.5).astype(dtype)


def nonzero(rng, shape, dtype):
    """At least 1/2 in absolute value."""
    x = positive(rng, shape, dtype)
    return x if kind(dtype) == "u" else x * rng.choice(np.array([-1, 1], dtype), shape)


def within_one(rng, shape, dtype):
    """Between -0.8 and 0.8 in both parts."""
    x = rng.uniform(-0.8, 0.8, shape)
    return np.asarray(x + 0.5j * rng.uniform(-0.8, 0.8, shape) if kind(dtype) == "c" else x, dtype)


def above_one(rng, shape, dtype):
    return positive(rng, shape, dtype) + np.asarray(1, dtype)


def between_integers(rng, shape, dtype):
    """Not near an integer nor a half: rounding does not have a derivative at its jumps."""
    x = rng.integers(-3, 3, shape) + rng.choice([0.2, 0.3, 0.7, 0.8], shape)
    return np.asarray(x, dtype)


def distinct(rng, shape, dtype):
    """No two elements near each other, in one operand or in several."""
    return np.asarray(np.round(4 * normal(rng, shape, dtype)) + rng.uniform(0, 0.4), dtype)


def low_bound(rng, shape, dtype):
    return np.asarray(rng.uniform(0.5, 1, shape) * (2 if kind(dtype) == "u" else -2), dtype)


def high_bound(rng, shape, dtype):
    return np.asarray(rng.uniform(4.5, 5, shape), dtype)


def around_bounds(rng, shape, dtype):
    low = 0 if kind(dtype) in "ub" else -6
    return np.asarray(rng.integers(low, 9, shape) + rng.uniform(0, 0.4), dtype)


def with_ties(rng, shape, dtype):
    return np.asarray(rng.integers(0, 2, shape), dtype)


def all_bits(rng, shape, dtype):
    """Any pattern of bits."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype, endpoint=True)


def shift_amounts(rng, shape, dtype):
    """Up to more than there are bits."""
    return rng.integers(0, 8 * dtype.itemsize + 3, shape).astype(dtype)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e10, -3e10, 1e-10]


def special(rng, shape, dtype):
    """Numbers that are singular to some function."""
    return np.resize(np.array(SPECIAL, dtype), shape)


# ---- unary -----------------------------------------------------------------------------


def popcount(x):
    return np.vectorize(lambda n: int(n).bit_count(), [x.dtype])(x.view(f"u{x.dtype.itemsize}"))


def leading_zeros(x):
    bits = 8 * x.dtype.itemsize
    return np.vectorize(lambda n: bits - int(n).bit_length(), [x.dtype])(x.view(f"u{bits // 8}"))


def away_from_zero(x):
    return np.trunc(x + np.copysign(0.5, x))


FC = f"{FLOATS} {COMPLEX}"
# Name, NumPy function, dtypes, where it is smooth.
UNARY = [
    ("neg", np.negative, f"{FC} {INTS} {UINTS}", normal),
    ("sign", np.sign, f"{FLOATS} {INTS} {UINTS}", nonzero),
    ("abs", np.abs, f"{FC} {INTS}", nonzero),
    ("square", np.square, f"{FC} {INTS} {UINTS}", normal),
    ("floor", np.floor, FLOATS, between_integers),
    ("ceil", np.ceil, FLOATS, between_integers),
    ("round", away_from_zero, FLOATS, between_integers),
    ("is_finite", np.isfinite, FLOATS, normal),
    ("sqrt", np.sqrt, FC, positive),
    ("rsqrt", lambda x: 1 / np.sqrt(x), FC, positive),
    ("cbrt", np.cbrt, FLOATS, nonzero),
    ("exp", np.exp, FC, normal),
    ("exp2", np.exp2, FC, normal),
    ("expm1", np.expm1, FC, normal),
    ("log", np.log, FC, positive),
    ("log1p", np.log1p, FC, positive),
    ("logistic", lambda x: 1 / (1 + np.exp(-x)), FC, normal),
    ("sin", np.sin, FC, normal),
    ("cos", np.cos, FC, normal),
    ("tan", np.tan, FC, within_one),
    ("asin", np.arcsin, FC, within_one),
    ("acos", np.arccos, FC, within_one),
    ("atan", np.arctan, FC, within_one),
    ("sinh", np.sinh, FC, normal),
    ("cosh", np.cosh, FC, normal),
    ("tanh", np.tanh, FC, within_one),
    ("asinh", np.arcsinh, FC, within_one),
    ("acosh", np.arccosh, FC, above_one),
    ("atanh", np.arctanh, FC, within_one),
    ("conj", lambda x: np.conj(x) + 0j, f"f32 f64 {COMPLEX}", normal),
    ("real", np.real, COMPLEX, normal),
    ("imag", np.imag, COMPLEX, normal),
]
LINEAR = {"neg", "conj", "real", "imag"}
CASES = [
    Case(name, getattr(lax, name), reference, SHAPES, T, draw,
         linear=[(0,)] if name in LINEAR else ())
    for name, reference, T, draw in UNARY
] + [
    Case(name, getattr(lax, name), reference, f"T[{len(SPECIAL)}]", "f32 f64", special, order=0,
         label="special")
    for name, reference, T, _ in UNARY if T.startswith("f32")
] + [
    # Its derivative is 0 by convention, for complex numbers too.
    Case("sign", lax.sign, lambda x: x / np.abs(x), "T[3]", COMPLEX, nonzero, order=0,
         label="complex"),
    Case("not", lax.bitwise_not, np.invert, SHAPES, f"bool {INTS} {UINTS}"),
    Case("population_count", lax.population_count, popcount, SHAPES, f"{INTS} {UINTS}", all_bits),
    Case("clz", lax.clz, leading_zeros, SHAPES, f"{INTS} {UINTS}", all_bits),
    Case("round", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.round, "T[7]",
         FLOATS, lambda rng, shape, dtype: np.arange(-1.5, 2, 0.5).astype(dtype), order=0,
         label="even"),
]
for y in (0, 1, 2, 3, 7, -1, -2):
    CASES.append(Case("integer_pow", lambda x, y=y: lax.integer_pow(x, y), lambda x, y=y: x**y,
                      SHAPES, FC if y < 0 else f"{FC} {INTS} {UINTS}", nonzero, label=str(y)))

# ---- binary ----------------------------------------------------------------------------


def quotient(x, y):
    return x / y if kind(x.dtype) in "fc" else np.trunc(x / y).astype(x.dtype)


def complex_atan2(x, y):
    if kind(x.dtype) == "f":
        return np.arctan2(x, y)
    return -1j * np.log((y + 1j * x) / np.sqrt(x**2 + y**2))


ARITHMETIC = f"{FC} {INTS} {UINTS}"
ORDERED = f"{FLOATS} {INTS} {UINTS} bool"
CASES += [
    Case("add", lax.add, np.add, PAIRS, ARITHMETIC, linear=[(0, 1)]),
    Case("sub", lax.sub, np.subtract, PAIRS, ARITHMETIC, linear=[(0, 1)]),
    Case("mul", lax.mul, np.multiply, PAIRS, ARITHMETIC, linear=[(0,), (1,)]),
    Case("div", lax.div, quotient, PAIRS, ARITHMETIC, nonzero, linear=[(0,)]),
    Case("rem", lax.rem, np.fmod, PAIRS, f"{FLOATS} {INTS} {UINTS}", [between_integers, positive]),
    Case("rem", lax.rem, np.fmod, "T[4] T[4]", f"{INTS} {UINTS}", nonzero, label="integers"),
    Case("max", lax.max, np.maximum, PAIRS, f"{FC} {INTS} {UINTS} bool", distinct),
    Case("min", lax.min, np.minimum, PAIRS, f"{FC} {INTS} {UINTS} bool", distinct),
    Case("max", lax.max, np.maximum, "T[9] T[9]", "f32", [normal, special], order=0,
         label="special"),
    Case("pow", lax.pow, np.power, PAIRS, FC, positive),
    Case("pow", lax.pow, np.power, "T[2,3] i32[2,3]; T[3] i32[]; T[2,1] i32[2,3]", FC,
         [nonzero, normal], label="integer exponent", tolerance=40),
    Case("atan2", lax.atan2, complex_atan2, PAIRS, FC, positive),
    Case("nextafter", lax.nextafter, np.nextafter, PAIRS, "f32 f64", native=True, order=0),
    Case("complex", lax.complex, lambda x, y: x + 1j * y, PAIRS, "f32 f64", linear=[(0, 1)]),
    Case("clamp", lax.clamp, lambda low, x, high: np.minimum(np.maximum(x, low), high),
         "T[2,3] T[2,3] T[2,3]; T[] T[3] T[]; T[] T[3] T[3]; T[] T[0] T[0]; T[] T[] T[]",
         ORDERED, [low_bound, around_bounds, high_bound]),
    # Complex numbers compare by real parts, then by imaginary ones; no derivative.
    Case("clamp", lax.clamp, lambda low, x, high: np.minimum(np.maximum(x, low), high),
         "T[2,3] T[2,3] T[2,3]; T[] T[3] T[]", COMPLEX, with_ties, order=0, label="complex"),
]
CASES += [
    Case(name, getattr(lax, name), reference, PAIRS, f"{T} {INTS} {UINTS} bool", with_ties)
    for name, reference, T in [
        ("eq", np.equal, FC), ("ne", np.not_equal, FC), ("ge", np.greater_equal, FLOATS),
        ("gt", np.greater, FLOATS), ("le", np.less_equal, FLOATS), ("lt", np.less, FLOATS)]
] + [
    Case(f"{name}_to", getattr(lax, f"{name}_to_p").bind, reference, PAIRS,
         f"{FLOATS} {INTS} {UINTS} bool", with_ties)
    for name, reference in [("eq", np.equal), ("le", np.less_equal), ("lt", np.less)]
] + [
    Case(name, getattr(lax, f"bitwise_{name}"), reference, PAIRS, f"{INTS} {UINTS} bool")
    for name, reference in [
        ("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)]
]


def upper_half(x, y):
    """Of the product in Python's integers."""
    bits = 8 * x.dtype.itemsize
    return np.vectorize(lambda a, b: int(a) * int(b) >> bits, [x.dtype])(x, y)


CASES += [Case("mulhi", lax.mulhi, upper_half, PAIRS, f"{INTS} {UINTS}", all_bits)]


def shifted(operation):
    """A shift in Python's integers, which have no width, cut to the operand's."""

    def shift(x, n):
        bits = 8 * x.dtype.itemsize
        return np.vectorize(lambda x, n: operation(int(x), int(n), bits) % 2**bits, [np.uint64])(
            x, n).astype(f"u{bits // 8}").view(x.dtype)

    return shift


CASES += [
    Case(name, getattr(lax, name), shifted(operation), PAIRS, f"{INTS} {UINTS}",
         [all_bits, shift_amounts])
    for name, operation in [
        ("shift_left", lambda x, n, bits: x << n),
        ("shift_right_logical", lambda x, n, bits: (x % 2**bits) >> n),
        ("shift_right_arithmetic",
         lambda x, n, bits: ((x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)) >> n)]
]

# ---- conversion ------------------------------------------------------------------------


def converted(x):
    real = x.real if kind(x.dtype) == "c" else x
    return [(x if name[0] == "c" else real).astype(DTYPES[name]) for name in DTYPES]


def to(name):
    return quiet(lambda x: lax.convert_element_type(x, DTYPES[name]))


def quiet(f):
    """Without the warning that imaginary parts are dropped."""

    def g(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return f(x)

    return g


def bits_as(name):
    return lambda x: lax.bitcast_convert_type(x, DTYPES[name])


CASES += [
    Case("convert_element_type",
         quiet(lambda x: [lax.convert_element_type(x, dtype) for dtype in DTYPES.values()]),
         converted, "T[3]; T[0,2]; T[]", " ".join(DTYPES), positive, " ".join(DTYPES), order=0),
    *[Case("convert_element_type", to(new), lambda x: x, "T[3]; T[]", old, result=new,
           linear=[(0,)], label=new) for old, new in [("f64", "f32"), ("f32", "f64"),
                                                      ("f64", "c128"), ("c64", "c128")]],
    Case("convert_element_type", to("f64"), np.real, "T[3]; T[]", "c128", result="f64",
         linear=[(0,)], label="real part"),
    *[Case("bitcast_convert_type", bits_as(new), lambda x, new=new: x.view(DTYPES[new]), types, T,
           result=new, native=True, label=new)
      for T, types, new in [
          ("f32 i32", "T[3]; T[]; T[0,2]", "u32"), ("u32", "T[3]", "f32"), ("f64", "T[2]", "i64"),
          ("bf16 f16", "T[2]", "i16"), ("i8", "T[2]", "u8")]],
    Case("bitcast_convert_type", bits_as("u8"),
         lambda x: np.frombuffer(x.tobytes(), np.uint8).reshape(*x.shape, 4),
         "T[3]; T[]; T[2,1]", "f32 i32", result="u8", native=True, label="narrower"),
    Case("bitcast_convert_type", bits_as("f32"), lambda x: x.view(np.float32)[..., 0],
         "u16[3,2]; u16[2]; u16[2,1,2]", result="f32", native=True, label="wider",
         draw=lambda rng, shape, dtype: rng.integers(0, 2**14, shape, dtype)),
    *[Case("reduce_precision", lambda x, e=e, m=m: lax.reduce_precision(x, e, m),
           lambda x, dtype=dtype: x.astype(dtype).astype(np.float64), "T[3]; T[]; T[0,2]",
           "f32 f64", label=f"{e},{m}", order=0)
      for dtype, e, m in [(np.float16, 5, 10), (ml_dtypes.bfloat16, 8, 7)]],
    Case("reduce_precision", lambda x: lax.reduce_precision(x, 11, 52), lambda x: x, "T[3]",
         "f64", linear=[(0,)]),
]

# ---- selection -------------------------------------------------------------------------

ANY = "f32 f16 bf16 f64 c64 c128 i32 i8 u8 u64 bool"
CASES += [
    Case("select_n", lax.select_n, lambda which, a, b: np.where(which, b, a),
         "bool[2,3] T[2,3] T[2,3]; bool[] T[2,3] T[2,3]; bool[] T[] T[]; bool[0] T[0] T[0]", ANY,
         linear=[(1, 2)]),
    Case("select_n", lax.select_n, lambda which, *cases: np.choose(which, cases),
         "i32[3] T[3] T[3] T[3]; i32[] T[] T[] T[]; u8[3] T[3] T[3] T[3]", "f32 c64 i8 bool",
         [lambda rng, shape, dtype: rng.integers(0, 3, shape, dtype), *3 * [normal]],
         result="T", linear=[(1, 2, 3)], label="three"),
    Case("select_n", lax.select_n, lambda which, *cases: cases[which], "i32[] " + 5 * "T[] ",
         "f32", [lambda rng, shape, dtype: rng.integers(0, 5, shape, dtype), *5 * [normal]],
         order=1, linear=[(1, 2, 3, 4, 5)], label="five"),
    Case("select_n", lax.select_n, lambda which, case: case, "bool[3] T[3]; bool[] T[3]", "f32",
         [lambda rng, shape, dtype: np.zeros(shape, dtype), normal], linear=[(1,)], label="one"),
]

# ---- moving elements -------------------------------------------------------------------


def placed(shape, dims):
    """Reference of broadcast_in_dim: axes of size 1 where no axis of the operand goes."""

    def f(x):
        sizes = dict(zip(dims, x.shape, strict=True))
        return np.broadcast_to(x.reshape([sizes.get(i, 1) for i in range(len(shape))]), shape)

    return f


CASES += [
    *[Case("broadcast_in_dim", lambda x, s=shape, d=dims: lax.broadcast_in_dim(x, s, d),
           placed(shape, dims), types, T, linear=[(0,)], label=f"{shape},{dims}")
      for types, T, shape, dims in [
          ("T[3]", ANY, (2, 3), (1,)), ("T[3]", "f32", (3, 2), (0,)), ("T[]", "f32", (2, 2), ()),
          ("T[1,3]", "f32", (2, 4, 3), (0, 2)), ("T[0]", "f32", (0, 2), (0,)),
          ("T[1]", "f32", (0,), (0,)), ("T[1]", "f32", (1, 1), (1,))]],
    *[Case("reshape", lambda x, n=new: lax.reshape(x, n), lambda x, n=new: x.reshape(n), types, T,
           linear=[(0,)], label=str(new))
      for types, T, new in [
          ("T[2,3]", ANY, (3, 2)), ("T[2,3]; T[1,6]", "f32", (6,)), ("T[1,1]; T[1]", "f32", ()),
          ("T[]", "f32", (1, 1)), ("T[0,3]", "f32", (2, 0))]],
    Case("reshape", lambda x: lax.reshape(x, (6,), dimensions=(1, 0)), lambda x: x.T.reshape(6),
         "T[2,3]", linear=[(0,)], label="dimensions"),
    *[Case("transpose", lambda x, p=perm: lax.transpose(x, p), lambda x, p=perm: x.transpose(p),
           types, T, linear=[(0,)], label=str(perm))
      for types, T, perm in [
          ("T[2,3]; T[1,3]; T[0,2]", ANY, (1, 0)), ("T[2,3,4]", "f32", (1, 2, 0)),
          ("T[2,3,1]", "f32", (2, 0, 1))]],
    *[Case("squeeze", lambda x, d=dims: lax.squeeze(x, d), lambda x, d=dims: x.squeeze(d), types,
           T, linear=[(0,)], label=str(dims))
      for types, T, dims in [
          ("T[1,3]; T[1,0]", ANY, (0,)), ("T[2,1,3,1]", "f32", (1, 3)), ("T[1]", "f32", (-1,))]],
    *[Case("rev", lambda x, d=dims: lax.rev(x, d), lambda x, d=dims: np.flip(x, d), types, T,
           linear=[(0,)], label=str(dims))
      for types, T, dims in [
          ("T[3]; T[0]", ANY, (0,)), ("T[2,3]; T[1,3]", "f32", (1,)),
          ("T[2,3,2]", "f32", (0, 2))]],
    *[Case("reduce_sum", lambda x, a=axes: lax.reduce_sum(x, a), lambda x, a=axes: x.sum(a), types,
           T, linear=[(0,)], label=str(axes))
      for types, T, axes in [
          ("T[2,3]; T[0,3]; T[1,3]", ARITHMETIC, (0,)), ("T[2,3]; T[2,0]", "f32", (1,)),
          ("T[2,3,2]", "f32", (0, 2)), ("T[3]; T[0]", "f32", (0,))]],
    *[Case("iota", lambda T=T, d=d: lax.broadcasted_iota(DTYPES[T], (3, 2), d),
           lambda T=T, d=d: np.indices((3, 2))[d].astype(DTYPES[T]), "", T, result="T", order=0,
           label=str(d))
      for T in ARITHMETIC.split() for d in (0, 1)],
    Case("copy", copy_p.bind, np.copy, SHAPES, ANY, linear=[(0,)]),
    Case("stop_gradient", lax.stop_gradient, np.copy, SHAPES, ANY, order=0),
    Case("add_any", add_any_p.bind, np.add, "T[2,3] T[2,3]; T[0] T[0]; T[] T[]", FC,
         linear=[(0, 1)]),
]


@table(CASES)
def test_elementwise(check, sample):
    check(sample)


# ---- types of scalars ------------------------------------------------------------------


def test_python_scalars_are_weak_operands():
    for function, x, y in [(lax.add, np.float32(1), 2.0), (lax.mul, 3, np.int32(2))]:
        assert function(x, y).weak_type is False
        with pytest.raises(TypeError, match="same dtypes"):
            function(x, np.float16(y))
    assert lax.add(1.0, 2.0).weak_type is True
    assert lax.eq(1.0, 2.0).weak_type is lax.is_finite(1.0).weak_type is True
    assert lax.eq(np.float32(1), 2.0).weak_type is False


# ---- where two operands share the derivative -------------------------------------------


@pytest.mark.parametrize("function", [lax.max, lax.min])
def test_a_tie_shares_the_derivative(function):
    x = np.float32(2)
    assert list(map(float, mjax.grad(function, argnums=(0, 1))(x, x))) == [0.5, 0.5]


def test_derivatives_of_clamp_are_those_of_what_it_lets_through():
    # The upper bound is the result where the bounds cross, whatever the operand.
    for point, expected in [((3.0, 2.5, 2.0), (0, 0, 1)), ((3.0, 1.0, 2.0), (0, 0, 1)),
                            ((3.0, 5.0, 2.0), (0, 0, 1)), ((1.0, 2.0, 3.0), (0, 1, 0)),
                            ((1.0, 0.0, 3.0), (1, 0, 0))]:
        assert mjax.grad(lax.clamp, (0, 1, 2))(*point) == expected
        clamped = lambda low, x, high: lax.clamp(low, x, high).sum()
        x = np.full(2, point[1], np.float32)
        assert [float(np.sum(g)) / 2 for g in mjax.grad(clamped, (0, 1, 2))(
            np.float32(point[0]), x, np.float32(point[2]))] == list(expected)


def test_stopped_gradients():
    f = lambda x: lax.mul(x, lax.stop_gradient({"a": [x]})["a"][0])
    assert float(mjax.grad(f)(3.0)) == 3.0
    assert float(mjax.grad(mjax.grad(f))(3.0)) == 0.0


def test_derivative_of_abs_at_zero():
    # That of the side above 0, so that the square of the absolute value is a square here too.
    assert float(mjax.grad(lax.abs)(np.float32(0))) == 1
    assert float(mjax.grad(mjax.grad(lambda x: lax.square(lax.abs(x))))(np.float32(0))) == 2
    assert float(mjax.grad(lambda x: lax.abs(lax.complex(x, x)))(np.float32(0))) == 0


@pytest.mark.parametrize(("x", "y", "expected"), [(0.0, 2.0, (0, 0)), (2.0, 0.0, (0, np.log(2))),
                                                  (0.0, 0.0, (0, 0))])
def test_derivative_of_pow_at_zero(x, y, expected):
    grads = mjax.grad(lax.pow, argnums=(0, 1))(np.float32(x), np.float32(y))
    np.testing.assert_allclose(list(map(float, grads)), expected, rtol=1e-6)


# ---- refusals --------------------------------------------------------------------------

f32, i32, b1 = np.zeros(3, np.float32), np.zeros(3, np.int32), np.zeros(3, bool)


@pytest.mark.parametrize(("function", "operands", "text"), [
    (lax.add, (f32, i32), "add requires arguments to have the same dtypes, got float32, int32"),
    (lax.add, (b1, b1), "add does not accept dtype bool"),
    (lax.sin, (i32,), "sin does not accept dtype int32. Accepted dtypes: floating, complex"),
    (lax.clz, (f32,), "clz does not accept dtype float32"),
    (lax.abs, (np.zeros(3, np.uint8),), "abs does not accept dtype uint8"),
    (lax.conj, (i32,), "conj does not accept dtype int32. Accepted dtypes: floating, complex"),
    (lambda x: lax.full((2,), x), (f32,), "full needs a scalar fill_value, got one of shape (3,)"),
    (lax.bitwise_and, (f32, f32), "and does not accept dtype float32"),
    (lax.real, (f32,), "real does not accept dtype float32. Accepted dtypes: complex"),
    (lax.add, (f32, np.zeros(4, np.float32)), r"add got operands of shapes (3,), (4,)"),
    (lax.add, (f32, np.zeros((2, 3), np.float32)), "equal rank"),
    (lax.pow, (f32, np.zeros(3, np.float16)), "pow needs an exponent of dtype float32"),
    (lax.pow, (i32, i32), "pow does not accept dtype int32"),
    (lambda x: lax.integer_pow(x, -1), (i32,), "negative power -1"),
    (lambda x: lax.integer_pow(x, 2.5), (f32,), "exponent y must be an integer, not 2.5"),
    (lambda x: lax.convert_element_type(1j, "f4"), (f32,), "1j cannot become float32"),
    (lambda x: lax.convert_element_type(1j, int), (f32,), "1j cannot become int32"),
    (lax.clamp, (i32, f32, f32), "clamp requires arguments to have the same dtypes"),
    (lax.clamp, (np.zeros(2, np.float32), f32, f32), "clamp: min must be a scalar"),
    (lax.select_n, (f32, f32, f32), "select_n chooses by booleans or integers, not by float32"),
    (lax.select_n, (b1, f32, i32), "select_n cases must have one shape and dtype"),
    (lax.select_n, (b1, f32, f32, f32), "at most two cases, got 3"),
    (lax.select_n, (np.zeros(2, bool), f32, f32), "`which` must be a scalar or have"),
    (lax.select, (f32, f32, f32), "select_n chooses by booleans or integers"),
    (lambda x: lax.reshape(x, (2,)), (f32,), "cannot reshape an array of shape (3,) (size 3)"),
    (lambda x: lax.reshape(x, (-3,)), (f32,), "negative sizes"),
    (lambda x: lax.transpose(x, (0, 0)), (f32,), "is not a permutation of the axes"),
    (lambda x: lax.broadcast_in_dim(x, (4,), (0,)), (f32,), "does not broadcast to (4,)"),
    (lambda x: lax.broadcast_in_dim(x, (2, 3), (1, 0)), (f32,), "must name one axis"),
    (lambda x: lax.broadcast_in_dim(x, (3, 3), (1, 1)), (np.zeros((1, 3), np.float32),),
     "must be distinct"),
    (lax.complex, (np.zeros(3, np.float16),) * 2, "complex does not accept dtype float16"),
    (lambda x: lax.rev(x, (-1,)), (f32,), "rev: dimensions (-1,) must be distinct axes"),
    (lambda x: lax.convert_element_type(x, "S3"), (f32,), "is not supported"),
    (lambda x: lax.reduce_sum(x, (0,)), (b1,), "reduce_sum needs a numeric operand, not bool"),
    (lambda x: lax.bitcast_convert_type(x, np.bool_), (f32,), "does not go from float32 to bool"),
])
def test_what_does_not_fit_is_refused(function, operands, text):
    for f in (function, mjax.jit(function)):
        with pytest.raises(TypeError, match=re.escape(text)):
            f(*operands)


@pytest.mark.parametrize(("function", "operands", "text"), [
    (lambda x: lax.squeeze(x, (0,)), (f32,), "cannot squeeze axes (0,) of an array of shape (3,)"),
    (lambda x: lax.squeeze(x, (1,)), (f32,), "axis 1 is out of bounds"),
    (lambda x: lax.rev(x, (0, 0)), (f32,), "rev: dimensions (0, 0) must be distinct"),
    (lambda x: lax.reduce_sum(x, (1,)), (f32,), "axes (1,) must be distinct axes"),
    (lambda x: lax.bitcast_convert_type(x.astype(np.float16), np.float32), (f32,),
     "needs a last axis of size 2"),
    (lambda: lax.broadcasted_iota(np.int32, (2,), 1), (), "dimension 1 is not an axis of shape"),
    (lambda: lax.broadcasted_iota(np.int32, (2,), -1), (), "dimension -1 is not an axis"),
    (lambda x: lax.reduce_precision(x, 0, 2), (f32,), "exponent_bits of at least 1"),
    (lambda x: lax.reduce_precision(x, 5, -2), (f32,), "got exponent_bits=5 and mantissa_bits=-2"),
])
def test_axes_that_do_not_exist_are_refused(function, operands, text):
    with mjax.enable_x64(True), pytest.raises(ValueError, match=re.escape(text)):
        function(*operands)


def test_nextafter_has_the_names_of_jax():
    assert lax.nextafter(x1=np.float32(1), x2=np.float32(2)) == np.nextafter(np.float32(1), 2)


def test_broadcasting_may_permute_axes():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    f = lambda x: lax.broadcast_in_dim(x, (3, 4, 2), (2, 0))
    expected = np.broadcast_to(x.T[:, None], (3, 4, 2))
    for g in (f, mjax.jit(f)):
        np.testing.assert_array_equal(g(x), expected)
    weights = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    out = mjax.grad(lambda x: lax.reduce_sum(lax.mul(f(x), weights), (0, 1, 2)))(x)
    np.testing.assert_array_equal(out, weights.sum(1).T)
    np.testing.assert_array_equal(mjax.vmap(f)(np.stack([x, 2 * x])), [expected, 2 * expected])


# ---- what need not be computed ---------------------------------------------------------


@pytest.mark.parametrize("function", [
    lambda x: lax.reduce_sum(x, ()), lambda x: lax.squeeze(x, ()), lambda x: lax.integer_pow(x, 1),
    lambda x: lax.broadcast_in_dim(x, np.shape(x), tuple(range(np.ndim(x)))),
    lambda x: lax.broadcast(x, ()), lambda x: lax.expand_dims(x, ()),
    lambda x: lax.reshape(x, np.shape(x)), lambda x: lax.transpose(x, tuple(range(np.ndim(x)))),
    lambda x: lax.convert_element_type(x, np.float32)])
def test_nothing_to_do_still_gives_arrays(function):
    for x in (f32, np.float32(2), 2.0):
        out = function(x)
        assert isinstance(out, mjax.Array)
        assert out.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(out), x)


def test_scalars_of_full_are_no_equations():
    make = lambda: (lax.full((), 1.5), lax.full((), 2, np.int8), lax.full_like(1.0, 3),
                    lax.convert_element_type(1, np.float16))
    assert not mjax.make_jaxpr(make)().eqns
    outs = mjax.jit(make)()
    assert [float(x) for x in outs] == [1.5, 2, 3, 1]
    assert [x.dtype.name for x in outs] == ["float32", "int8", "float32", "float16"]
    assert [x.weak_type for x in outs] == [True, False, True, False]


def test_full_converts():
    x = lax.convert_element_type(2.7, np.float32)
    out = lax.full((2,), x, np.int32)
    assert (out.dtype, out.tolist()) == (np.int32, [2, 2])
    assert not lax.full((2,), lax.full((), 1.0), np.float32).weak_type
    assert lax.full((2,), lax.full((), 1.0)).weak_type
    with pytest.raises(TypeError, match="complex value 1j cannot be stored in dtype float32"):
        lax.full((2,), 1j, np.float32)


def test_total_order():
    order = np.array([-np.nan, -np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    order[0], order[-1] = np.copysign(np.nan, -1), np.copysign(np.nan, 1)
    n = len(order)
    for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
        x, y = (np.array(v, dtype) for v in np.broadcast_arrays(order[:, None], order))
        for name, matrix in [("eq", np.eye(n)), ("le", np.triu(np.ones((n, n)))),
                             ("lt", np.triu(np.ones((n, n)), 1))]:
            out = getattr(lax, f"{name}_to_p").bind(x, y)
            np.testing.assert_array_equal(out, matrix.astype(bool), f"{name} {dtype}")


def test_extremes_of_mulhi():
    for name in (*INTS.split(), *UINTS.split()):
        info = np.iinfo(DTYPES[name])
        x = np.array([info.min, info.max, 0, 1, info.max // 2], DTYPES[name])
        x, y = (np.array(v) for v in np.broadcast_arrays(x[:, None], x))
        with mjax.enable_x64(True):
            np.testing.assert_array_equal(lax.mulhi(x, y), upper_half(x, y), name)


def test_shape_as_value():
    out = lax.shape_as_value((2, 0, 3))
    assert (out.tolist(), out.dtype) == ([2, 0, 3], np.int32)
    assert mjax.jit(lambda: lax.shape_as_value(()))().shape == (0,)
