"""Attributes of Python values, and their hashable forms."""

from __future__ import annotations

import enum

import ml_dtypes
import numpy as np
import pytest

from mjax._engine.primitives.custom_call_ir import frozen, ir_attribute
from mjaxlib_shim.mlir import ir


class Mode(enum.IntEnum):
    FAST = 2


def test_attributes():
    with ir.Context(), ir.Location.unknown():
        for value, text in (
                (True, "true"), (3, "3 : i64"), (-1.5, "-1.500000e+00 : f64"), ("a", '"a"'),
                (b"a", '"a"'), (np.int8(-3), "-3 : i8"), (np.uint8(200), "200 : ui8"),
                (np.uint64(2**64 - 1), "18446744073709551615 : ui64"), (Mode.FAST, "2 : i64"),
                (np.float32(2), "2.000000e+00 : f32"), (np.bool_(False), "false"),
                (ml_dtypes.bfloat16(2), "2.000000e+00 : bf16"), (np.dtype("f2"), "f16"),
                (np.array([1, 2], "i4"), "dense<[1, 2]> : tensor<2xi32>"),
                (np.array([[True, False]]), "dense<[[true, false]]> : tensor<1x2xi1>"),
                (np.zeros((0, 2), bool), "dense<> : tensor<0x2xi1>"),
                (np.array(1j, "c8"), "dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>"),
                (np.arange(4)[::2].astype("i2"), "dense<[0, 2]> : tensor<2xi16>"),
                ((1, "b"), '[1, "b"]'), ([True], "[true]"),
                ({"b": 1, "a": {"c": 2.0}}, "{a = {c = 2.000000e+00 : f64}, b = 1 : i64}")):
            for given in value, frozen(value) if not isinstance(value, list) else value:
                assert str(ir_attribute(given)) == text
        kept = ir.StringAttr.get("x")
        assert ir_attribute(kept) is kept


def test_values_without_an_attribute():
    with ir.Context(), ir.Location.unknown():
        for value, error in ((None, TypeError), (object(), TypeError), (1j, TypeError),
                             (2**64, OverflowError), (np.broadcast_to(1, (2,)), ValueError)):
            with pytest.raises(error):
                ir_attribute(value)


def test_frozen_values_are_equal_if_they_are_the_same_attribute():
    array = np.array([1, 2])
    value = {"a": array, "n": (1.0, {"b": 2})}
    known = frozen(value)
    assert known == frozen({"n": (1.0, {"b": 2}), "a": array.copy()})
    assert hash(known) == hash(frozen(dict(reversed(value.items()))))
    for other in ({"a": array.astype("i4"), "n": value["n"]}, {"a": array, "n": (1, {"b": 2})},
                  {"a": array, "n": (1.0, {"b": True})}):
        assert frozen(other) != known
    array[0] = 5
    assert known != frozen(value) and repr(known).startswith("{'a': array([1, 2]")
    for value in [1], {"a": [1]}, ([],):
        with pytest.raises(TypeError):
            frozen(value)
