"""The lattice of dtypes: tables, laws, weak types, strict mode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import dtypes, lax
from mjax.errors import TypePromotionError

ORDER = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
         "bfloat16", "float16", "float32", "float64", "complex64", "complex128")
#: Only a weak float is an upper bound of uint64 and signed integers.
WIDE = tuple(d for d in ORDER if d != "uint64")

#: The table of JAX's documentation: rows and columns b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c8 c16.
SHORT = {"b1": "bool", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "i1": "int8",
         "i2": "int16", "i4": "int32", "i8": "int64", "bf": "bfloat16", "f2": "float16",
         "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128", "i*": int,
         "f*": float, "c*": complex}
TABLE = """
    --  b1  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
    b1  b1  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
    u1  u1  u1  u2  u4  u8  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 u1  f*  c*
    u2  u2  u2  u2  u4  u8  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 u2  f*  c*
    u4  u4  u4  u4  u4  u8  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 u4  f*  c*
    u8  u8  u8  u8  u8  u8  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 u8  f*  c*
    i1  i1  i2  i4  i8  f*  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i1  f*  c*
    i2  i2  i2  i4  i8  f*  i2  i2  i4  i8  bf  f2  f4  f8  c8  c16 i2  f*  c*
    i4  i4  i4  i4  i8  f*  i4  i4  i4  i8  bf  f2  f4  f8  c8  c16 i4  f*  c*
    i8  i8  i8  i8  i8  f*  i8  i8  i8  i8  bf  f2  f4  f8  c8  c16 i8  f*  c*
    bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  f4  f8  c8  c16 bf  bf  c8
    f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f2  f4  f8  c8  c16 f2  f2  c8
    f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8  c8  c16 f4  f4  c8
    f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  c16 c16 f8  f8  c16
    c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c8  c16 c8  c16 c8  c8  c8
    c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16 c16
    i*  i*  u1  u2  u4  u8  i1  i2  i4  i8  bf  f2  f4  f8  c8  c16 i*  f*  c*
    f*  f*  f*  f*  f*  f*  f*  f*  f*  f*  bf  f2  f4  f8  c8  c16 f*  f*  c*
    c*  c*  c*  c*  c*  c*  c*  c*  c*  c*  c8  c8  c8  c16 c8  c16 c*  c*  c*
    """
ROWS = [line.split() for line in TABLE.strip().splitlines()]


@pytest.fixture
def x64() -> Any:
    with mjax.enable_x64(True):
        yield


@pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row[0])
def test_the_documented_table(row: list[str], x64: Any) -> None:
    for column, expected in zip(ROWS[0][1:], row[1:], strict=True):
        a, b = SHORT[row[0]], SHORT[column]
        dtype, weak = dtypes.result_type(a, b, return_weak_type_flag=True)
        assert weak == expected.endswith("*"), (row[0], column)
        assert dtype == np.dtype(SHORT[expected]), (row[0], column)


def test_laws(x64: Any) -> None:
    for a, b in itertools.product(ORDER, repeat=2):
        join = jnp.promote_types(a, b)
        assert join == jnp.promote_types(b, a)
        assert jnp.promote_types(a, join) == join
    for a, b, c in itertools.product(WIDE, repeat=3):
        assert jnp.result_type(a, b, c) == jnp.promote_types(jnp.promote_types(a, b), c)


def test_values_promote_as_their_types() -> None:
    x = jnp.arange(3, dtype="int8")
    assert (x + 1).dtype == np.int8 and not (x + 1).weak_type
    assert (x + 1.0).dtype == np.float32 and (x + 1.0).weak_type
    assert (x.astype("float16") + 1.0).dtype == np.float16
    assert (x.astype("bfloat16") * np.float32(1)).dtype == np.float32
    assert (x + np.int64(1)).dtype == np.int32
    assert (1 + jnp.array(True)).dtype == np.int32
    assert (jnp.array(1.0) + jnp.array([1], "float16")).dtype == np.float16
    assert mjax.eval_shape(lambda y: y + 1.0, x).weak_type
    assert jnp.result_type(x, 2**40) == np.int8


@pytest.mark.parametrize(("args", "expected"), [
    ((1, 2.0), "float32"), ((int, "float16"), "float16"), (("int8", None), "float32"),
    ((3,), "int32"), ((np.float64,), "float32"), ((True, 1), "int32"), ((jnp.int4,), "int4"),
    (("uint32", "int32"), "int32"), (("uint64", "int8"), "int32")])
def test_result_type(args: Any, expected: str) -> None:
    assert jnp.result_type(*args) == jnp.dtype(expected)


def test_narrow_types_do_not_promote() -> None:
    for a, b in (("int4", "int8"), ("float8_e5m2", "float32"), ("float8_e5m2", "float8_e4m3fn"),
                 ("uint2", "int2"), ("float4_e2m1fn", "bfloat16")):
        with pytest.raises(TypePromotionError, match=rf"{a}.*astype"):
            jnp.promote_types(a, b)
    assert (jnp.ones(2, "float8_e5m2") * 2.0).dtype == "float8_e5m2"
    assert (jnp.ones(2, "int4") + 1).dtype == "int4"


def test_strict_mode() -> None:
    f, i = jnp.ones(3), jnp.arange(3)
    with mjax.numpy_dtype_promotion("strict"):
        assert (f + 1).dtype == np.float32 and (i + 1).dtype == np.int32 and (f * 2.0).shape == (3,)
        assert (i / 2).dtype == np.float32
        assert (1 + 2.0) == 3.0 and jnp.add(1, 2.0) == 3.0
        # Constants of the program do not take part in promotion.
        assert (f ** 2).dtype == (f ** True).dtype == (f ** np.int8(2)).dtype == np.float32
        assert (i ** True).dtype == np.int32
        assert jnp.trapezoid(i).dtype == jnp.trapezoid(i, dx=2.0).dtype == np.float32
        for call in (lambda: f + i, lambda: i + 1.0, lambda: f + True, lambda: f + np.float16(1),
                     lambda: jnp.where(i > 1, f, i), lambda: mjax.jit(jnp.add)(f, i),
                     lambda: f ** i, lambda: 2.0 ** i, lambda: i ** f,
                     lambda: jnp.trapezoid(f, i)):
            with pytest.raises(TypePromotionError, match=r"strict.*astype"):
                call()
        with pytest.raises(TypePromotionError, match="int32, Python float"):
            i + 1.0
    assert (f + i).dtype == (f ** i).dtype == (2.0 ** i).dtype == np.float32


def test_keys_are_not_promoted() -> None:
    key = mjax.random.key(0)
    with pytest.raises((TypeError, ValueError), match=r"key"):
        jnp.result_type(key, 1)
    with pytest.raises((TypeError, ValueError), match=r"key"):
        key + 1


def test_x64_decides_what_python_scalars_are(x64: Any) -> None:
    assert jnp.array(1).dtype == np.int64 and jnp.array(1.0).dtype == np.float64
    assert jnp.sin(jnp.int32(1)).dtype == np.float32 and jnp.sin(1).dtype == np.float64
    assert (jnp.float32(1) * 0.1).dtype == np.float32
    assert jnp.sum(jnp.ones(2, "int32")).dtype == np.int64


def test_functions_that_strengthen() -> None:
    """If a function computes in a dtype of its own, the result has that dtype."""
    weak = jnp.stack([1.0, 2.0])
    assert weak.weak_type
    for out in (jnp.spacing(weak), jnp.unwrap(weak), jnp.choose(0, [weak, weak]),
                jnp.choose(0, [1, 2.0]), jnp.unique(1j)):
        assert not out.weak_type
    ints, floats = jnp.array([1, 2]), jnp.array([1.0, 2.0])
    assert not jnp.rint(2).weak_type and jnp.rint(2.0).weak_type
    for f in (jnp.hypot, jnp.logaddexp2):
        assert f(1.0, 2.0).weak_type
        assert not f(ints, 2.0).weak_type and not f(2.0, ints > 1).weak_type
    assert jnp.logaddexp(ints, 2.0).weak_type and not jnp.logaddexp(ints, 2j).weak_type
    assert jnp.heaviside(2.0, ints).weak_type and not jnp.heaviside(ints, 2.0).weak_type
    assert not jnp.copysign(2.0, floats).weak_type and jnp.copysign(2.0, ints).weak_type
    assert not jnp.power(2, ints > 1).weak_type and jnp.power(2, 3).weak_type
    assert not jnp.angle(2.0).weak_type
    assert jnp.angle(floats.astype("bfloat16")).dtype == jnp.bfloat16
    with pytest.raises(TypeError, match="complex fill_value 1j cannot be stored in dtype int32"):
        jnp.full_like(ints, 1j)


def test_weak_results_that_are_strengthened() -> None:
    weak = jnp.array(2.0)
    assert weak.weak_type and not (weak + jnp.float32(1)).weak_type
    assert (weak + 1).weak_type and jnp.sqrt(4).weak_type
    assert not (weak > np.float32(1)).weak_type and not jnp.astype(weak, "float32").weak_type


# ---- mjax.dtypes -----------------------------------------------------------------------


def test_canonicalize_dtype() -> None:
    assert dtypes.canonicalize_dtype("float64") == np.float32
    assert dtypes.canonicalize_dtype(jnp.int64) == np.int32
    assert dtypes.canonicalize_dtype(None) == np.float32
    with mjax.enable_x64(True):
        assert dtypes.canonicalize_dtype("float64") == np.float64
    key = mjax.random.key(0).dtype
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) == key
    with pytest.raises(ValueError, match="extended"):
        dtypes.canonicalize_dtype(key)


def test_issubdtype() -> None:
    for dtype, kind, expected in (
            (jnp.bfloat16, jnp.floating, True), (jnp.float8_e5m2, jnp.inexact, True),
            (jnp.int4, jnp.integer, True), (jnp.uint4, jnp.signedinteger, False),
            (jnp.bool_, jnp.integer, False), ("complex64", jnp.complexfloating, True),
            (mjax.random.key(0).dtype, dtypes.prng_key, True),
            (mjax.random.key(0).dtype, dtypes.extended, True),
            (jnp.float32, dtypes.extended, False),
            (dtypes.prng_key, dtypes.extended, True), (np.float32, jnp.float32, True),
            (jnp.floating, jnp.inexact, True)):
        assert jnp.issubdtype(dtype, kind) == expected == dtypes.issubdtype(dtype, kind)


def test_sizes_and_scalar_types() -> None:
    sizes = {"int4": 4, "bool": 8, "bfloat16": 16, "complex64": 64, "uint2": 2,
             "float64": 64, "float4_e2m1fn": 4, "float8_e5m2": 8, "complex128": 128}
    assert {d: dtypes.itemsize_bits(d) for d in sizes} == sizes
    assert [dtypes.scalar_type_of(v) for v in (True, 1, jnp.float16(1), 1j)] == [
        bool, int, float, complex]
    assert jnp.finfo(jnp.bfloat16).eps == 0.0078125 and jnp.iinfo("int4").max == 7
    assert jnp.finfo(jnp.ones(2)).dtype == np.float32


def test_scalar_types() -> None:
    assert jnp.float32 == np.float32 and jnp.float32 == np.dtype("float32")
    assert jnp.float32 != jnp.float64 and jnp.float32 != None  # noqa: E711
    assert {jnp.float32: 1}[np.float32] == 1
    assert np.dtype(jnp.bfloat16) == jnp.bfloat16.dtype
    assert isinstance(np.float32(1), jnp.float32)
    out = jnp.float32(1)
    assert isinstance(out, mjax.Array) and out.dtype == jnp.float32 and not out.weak_type
    assert jnp.isdtype(jnp.int8, ("bool", "integral")) and not jnp.isdtype("float32", "integral")
    with pytest.raises(ValueError, match="'foo'"):
        jnp.isdtype(jnp.int8, "foo")


def test_questions_about_values() -> None:
    x = jnp.ones((2, 3))
    assert jnp.shape(x) == (2, 3) and jnp.ndim(x) == 2 and jnp.size(x) == 6
    assert jnp.size(x, 1) == 3 and jnp.size(x, (0, -1)) == 6
    assert jnp.shape([[1, 2]]) == (1, 2) and jnp.ndim(3) == 0
    assert jnp.iscomplexobj(jnp.complex64) and jnp.isrealobj(jnp.float32)
    assert jnp.iscomplexobj([1j]) and not jnp.iscomplexobj(x) and jnp.isrealobj(1.0)
    assert jnp.isscalar(3) and jnp.isscalar(jnp.array(3)) and not jnp.isscalar(x)
    assert jnp.iterable(x) and not jnp.iterable(jnp.array(1))


def test_tests_of_weak_values_are_weak() -> None:
    weak = jnp.full((2,), 1.0)
    for test in (jnp.less(weak, 2), jnp.equal(weak, 1.0), jnp.isfinite(weak), jnp.isnan(weak),
                 jnp.logical_or(1.0, 0.0), ~jnp.less(weak, 2), lax.eq(1.0, 1.0)):
        assert test.dtype == bool and test.weak_type
    # As in JAX, constants strengthen results beside arrays, and promotion makes no weak booleans.
    for strong in (jnp.sinc(weak), jnp.rad2deg(weak), jnp.logical_or(weak, 0.0), jnp.any(weak < 2),
                   jnp.round(weak, 1), jnp.less(weak, 2) & True, jnp.less(weak, np.float32(2))):
        assert not strong.weak_type
    carry, _ = lax.scan(lambda c, _: (c < 2.0, None), jnp.zeros((), bool), None, length=2)
    assert carry.dtype == bool


def test_default_floats_with_x64() -> None:
    with mjax.enable_x64(True):
        for x in (np.ones(2, bool), np.ones(2, np.int8), np.ones(2, np.uint32), 1):
            assert jnp.rint(x).dtype == jnp.angle(x).dtype == np.float64
        assert jnp.rint(np.float32(1)).dtype == np.float32


def test_stop_gradient_keeps_numpy_and_python_values() -> None:
    tree = [1.0, 2, True, np.ones(2), np.float32(1)]
    assert list(map(type, lax.stop_gradient(tree))) == list(map(type, tree))
    assert isinstance(lax.stop_gradient(jnp.ones(2)), mjax.Array)
    assert mjax.jit(lambda: lax.stop_gradient(np.ones(2)))().tolist() == [1, 1]
    with pytest.raises(TypeError):
        lax.stop_gradient("a")
