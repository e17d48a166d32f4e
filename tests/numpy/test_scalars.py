"""Dtypes, limits, scalar types, questions about values: against NumPy."""

from __future__ import annotations

import itertools
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp

NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
         "float16", "float32", "float64", "complex64", "complex128")
CLASSES = ("generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact",
           "floating", "complexfloating")


@pytest.mark.parametrize("name", [*NAMES, "bfloat16"])
def test_classes_of_dtypes(name: str) -> None:
    for cls in CLASSES:
        expected = (np.issubdtype(name, getattr(np, cls)) if name != "bfloat16"
                    else cls in ("generic", "number", "inexact", "floating"))
        for spec in (name, jnp.dtype(name), getattr(jnp, f"{name}_" if name == "bool" else name)):
            assert jnp.issubdtype(spec, getattr(jnp, cls)) == expected, (spec, cls)
    assert jnp.issubdtype(name, name)


@pytest.mark.parametrize("name", NAMES)
def test_kinds_of_dtypes(name: str) -> None:
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                 "complex floating", "numeric"):
        assert jnp.isdtype(name, kind) == np.isdtype(np.dtype(name), kind), kind
    assert jnp.isdtype(name, ("bool", "numeric")) and jnp.isdtype(name, np.dtype(name))
    assert not jnp.isdtype("int8", "int16")
    assert jnp.isdtype("bfloat16", "real floating")


def test_conversions() -> None:
    for a, b in itertools.product(NAMES, repeat=2):
        for casting in ("safe", "same_kind", "no"):
            assert jnp.can_cast(a, b, casting) == np.can_cast(a, b, casting)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn"])
def test_limits_of_floats(name: str) -> None:
    ours, theirs = jnp.finfo(name), ml_dtypes.finfo(jnp.dtype(name))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "nmant"):
        assert getattr(ours, field) == getattr(theirs, field)
    assert jnp.finfo(jnp.zeros(2, "float16")).bits == 16
    assert isinstance(ours, jnp.finfo) and not isinstance(ours, jnp.iinfo)
    assert isinstance(jnp.iinfo(jnp.int8), jnp.iinfo)


@pytest.mark.parametrize("name", ["int4", "uint4", "int8", "uint8", "int32", "uint64"])
def test_limits_of_integers(name: str) -> None:
    ours, theirs = jnp.iinfo(name), ml_dtypes.iinfo(jnp.dtype(name))
    assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)


VALUES = [0, 1.5, 2j, True, np.float32(1), np.ones(3), np.ones((2, 0), np.complex64), np.array(1)]


@pytest.mark.parametrize("x", VALUES, ids=repr)
def test_questions(x: Any) -> None:
    for name in ("shape", "ndim", "size", "iscomplexobj", "isrealobj", "iterable"):
        for y in (x, jnp.asarray(x)):
            assert getattr(jnp, name)(y) == getattr(np, name)(x), name
    assert jnp.isscalar(x) == (np.ndim(x) == 0)
    traced: list[Any] = []

    @mjax.jit
    def f(v: Any) -> Any:
        traced.append((jnp.shape(v), jnp.ndim(v), jnp.size(v), jnp.iscomplexobj(v)))
        return v

    f(x)
    assert traced[0] == (np.shape(x), np.ndim(x), np.size(x), np.iscomplexobj(x))


def test_sizes_of_axes() -> None:
    x = jnp.zeros((2, 3, 4))
    assert [jnp.size(x, a) for a in (0, -1, (0, 2), None)] == [2, 4, 8, 24]
    assert not jnp.iterable(3) and jnp.iterable([1])


def test_broadcast_shapes() -> None:
    for shapes in (((3, 1), (4,)), ((), (2, 0)), ((1,), (1, 1), (5, 1, 2)), (3, (2, 1)), ()):
        assert jnp.broadcast_shapes(*shapes) == np.broadcast_shapes(*shapes)
    with pytest.raises(ValueError, match=r"\(2,\), \(3,\) cannot be broadcast together"):
        jnp.broadcast_shapes((2,), (3,))


def test_constants() -> None:
    for name in ("pi", "e", "inf", "euler_gamma", "newaxis"):
        assert getattr(jnp, name) == getattr(np, name)
    assert np.isnan(jnp.nan)


@pytest.mark.parametrize("name", ["int8", "uint32", "float16", "float32", "bfloat16", "complex64"])
def test_scalar_types_make_arrays(name: str) -> None:
    make = getattr(jnp, name)
    out = make(3)
    assert isinstance(out, mjax.Array) and out.dtype == jnp.dtype(name) and not out.weak_type
    np.testing.assert_array_equal(np.asarray(make([1, 2])), np.array([1, 2], jnp.dtype(name)))
    assert make == make and jnp.dtype(make) == jnp.dtype(name)
    assert hash(make) == hash(np.dtype(name).type) or jnp.zeros(2, make).dtype == make


def test_texts() -> None:
    x = jnp.array([[1.5, 2.25], [1e-7, 3.0]])
    assert jnp.array_str(x) == str(np.asarray(x))
    assert jnp.array_repr(x).startswith("Array([[1.5")
    with jnp.printoptions(precision=2, suppress=True):
        assert jnp.get_printoptions()["precision"] == 2
        assert repr(jnp.array([1.23456])) == "Array([1.23], dtype=float32)"
    before = jnp.get_printoptions()["linewidth"]
    jnp.set_printoptions(linewidth=before)
    assert issubclass(jnp.ComplexWarning, Warning)


@pytest.mark.parametrize(("error", "text", "use"), [
    (ValueError, "kind must be a dtype or one of 'bool'", lambda: jnp.isdtype("int8", "large")),
    (TypeError, "no-such-type", lambda: jnp.issubdtype("no-such-type", jnp.floating)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.size(jnp.zeros(2), 2)),
    (ValueError, "'text'", lambda: jnp.float32("text")),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


SPELLINGS = [
    (np.dtype(np.float32), ["float32", "f4", "single", np.float32, np.dtype("float32"),
                            jnp.float32, np.float32(1)]),
    (np.dtype(np.int8), ["int8", "i1", np.int8, np.dtype("int8"), jnp.int8]),
    (np.dtype(np.complex64), ["complex64", "c8", np.complex64, jnp.complex64]),
    (np.dtype(ml_dtypes.bfloat16), ["bfloat16", ml_dtypes.bfloat16, jnp.bfloat16]),
    (np.dtype(ml_dtypes.int4), ["int4", ml_dtypes.int4, jnp.int4]),
    (np.dtype(np.bool_), ["bool", "?", bool, np.bool_, jnp.bool_]),
]


@pytest.mark.parametrize(("dtype", "spellings"), SPELLINGS, ids=lambda x: getattr(x, "name", ""))
def test_spellings_of_dtypes(dtype: Any, spellings: list[Any]) -> None:
    for spec in spellings:
        assert mjax.lax.dtype(spec) == dtype
        assert jnp.can_cast(spec, dtype) and jnp.can_cast(dtype, spec)
        assert jnp.isdtype(dtype, spec) and jnp.isdtype(spec, dtype)
        assert jnp.promote_types(spec, spec) == jnp.result_type(spec) == dtype
        assert mjax.ShapeDtypeStruct((), spec).dtype == jnp.zeros((), spec).dtype == dtype
        if jnp.issubdtype(spec, jnp.inexact):
            assert jnp.finfo(spec).bits == ml_dtypes.finfo(dtype).bits
        elif dtype != np.bool_:
            assert jnp.iinfo(spec).max == ml_dtypes.iinfo(dtype).max


def test_python_types_and_none_as_dtypes() -> None:
    for python, name in ((int, "int32"), (float, "float32"), (complex, "complex64")):
        assert mjax.lax.dtype(python) == jnp.result_type(python) == name
    assert jnp.finfo(float).bits == jnp.iinfo(int).bits == 64
    assert jnp.isdtype(None, "real floating") and not jnp.isdtype(object, "numeric")
    assert jnp.promote_types(None, "float16") == np.float64
    assert jnp.frombuffer(np.ones(2), None).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="got None"):
        mjax.lax.dtype(None)
