"""Types of values: interning, tangent types, typeof."""

import copy
import gc
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest

import mjax
from mjax._engine.ir import dtypes, types
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof, typeof_handlers


def test_equal_types_are_one_object():
    assert ShapedArray((2, 3), np.float32) is ShapedArray([2, np.int64(3)], "float32")
    assert ShapedArray((2,), "int32") is not ShapedArray((2,), "int32", True)
    assert ShapedArray((1,), "int32") is ShapedArray((True,), "int32")
    assert ShapedArray(917, "int32") is ShapedArray((917,), "int32")
    for wrong in (917.5,), ("ab",), [[1]], None, "ab":
        with pytest.raises(TypeError, match="shapes must be sequences of integers, got"):
            ShapedArray(wrong, "int32")


def test_types_survive_pickle_and_copy_as_themselves():
    aval = ShapedArray((4,), ml_dtypes.bfloat16, True, frozenset({"i"}))
    assert pickle.loads(pickle.dumps(aval)) is aval
    assert copy.deepcopy(aval) is aval and copy.copy(aval) is aval


def test_types_of_a_subclass_are_those_of_all_arrays():
    """As in JAX: a subclass does not give its class to arrays that have the type."""
    class Mine(ShapedArray):
        pass

    aval = Mine((7, 11), np.dtype("float32"))
    assert type(aval) is ShapedArray and aval is ShapedArray((7, 11), np.dtype("float32"))


def test_interning_is_weak():
    key = ((12345, 7), np.dtype("int8"), False, frozenset())
    aval = ShapedArray(*key)
    assert key in types._table
    del aval
    gc.collect()
    assert key not in types._table


def test_interning_is_atomic():
    made, barrier = [], threading.Barrier(8)

    def make():
        barrier.wait()
        made.append([ShapedArray((n, 991), "float32") for n in range(300)])

    threads = [threading.Thread(target=make) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for column in zip(*made, strict=True):
        assert len({id(a) for a in column}) == 1


def test_types_are_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        ShapedArray((), "int32").shape = (1,)


def test_tangent_types():
    assert ShapedArray((3,), "float32").to_tangent() is ShapedArray((3,), "float32")
    assert ShapedArray((3,), "int32").to_tangent() is ShapedArray((3,), dtypes.float0)
    assert ShapedArray((), "bool").to_tangent().dtype == dtypes.float0


@pytest.mark.parametrize(("value", "expected"), [
    (True, "bool[]"), (2, "~int32[]"), (2.5, "~float32[]"), (2j, "~complex64[]"),
    (np.float64(1), "float32[]"), (np.ones((2, 3), np.int64), "int32[2,3]"),
    (np.ones(2, ml_dtypes.bfloat16), "bfloat16[2]"), (np.uint8(3), "uint8[]"),
])
def test_typeof_canonicalizes(value, expected):
    assert str(typeof(value)) == expected


@pytest.mark.parametrize(("aval", "text", "shown", "short"), [
    (ShapedArray((3,), "float32"), "float32[3]", "ShapedArray(float32[3])", "f32[3]"),
    (ShapedArray((), "int8", True), "~int8[]", "ShapedArray(int8[], weak_type=True)", "i8[]"),
    (ShapedArray((2, 0), ml_dtypes.bfloat16), "bfloat16[2,0]", "ShapedArray(bfloat16[2,0])",
     "bf16[2,0]"),
    (ShapedArray((2,), dtypes.float0), "float0[2]", "ShapedArray(float0[2])", "float0[2]"),
    (ShapedArray((1,), "uint8", varying=frozenset({"i"})), "uint8[1]{V:i}",
     "ShapedArray(uint8[1]{V:i})", "u8[1]{V:i}"),
    (ShapedArray((), "bool", varying=frozenset({"j", "i"})), "bool[]{V:(i,j)}",
     "ShapedArray(bool[]{V:(i,j)})", "bool[]{V:(i,j)}"),
    (abstract_token, "AbstractToken()", "AbstractToken()", "Tok"),
])
def test_texts_of_types_are_those_of_jax(aval, text, shown, short):
    assert (str(aval), repr(aval), aval.str_short(True)) == (text, shown, short)
    if aval is not abstract_token:
        assert aval.str_short() == text.lstrip("~")
        assert aval.str_short(mesh_axis_types=True) == text.lstrip("~") + "({})"


def test_typeof_with_x64():
    with mjax.enable_x64(True):
        assert str(typeof(2)) == "~int64[]"
        assert str(typeof(np.ones(2))) == "float64[2]"
    assert str(typeof(np.ones(2))) == "float32[2]"


@pytest.mark.parametrize("dtype", dtypes.NUMPY_DTYPES, ids=lambda d: d.name)
def test_types_of_numpy_scalars_are_those_of_arrays(dtype):
    scalar = np.ones((), dtype)[()]
    assert type(scalar) in typeof_handlers
    for x64 in (False, True):
        with mjax.enable_x64(x64):
            assert typeof(scalar) is typeof(np.ones((), dtype))
            assert typeof(scalar).dtype == (dtype if x64 else dtypes.TO_32.get(dtype, dtype))


@pytest.mark.parametrize("value", ["text", [1, 2], None, object(), {"a": 1}])
def test_typeof_refuses_what_is_no_array(value):
    with pytest.raises(TypeError, match="not a valid array"):
        typeof(value)


def test_typeof_refuses_object_arrays():
    with pytest.raises(TypeError, match="dtype object"):
        typeof(np.array([object()]))


def test_typeof_refuses_ints_that_overflow():
    with pytest.raises(OverflowError, match="too large to convert to int32.*enable_x64"):
        typeof(2**31)
    with mjax.enable_x64(True):
        assert typeof(2**31).dtype == np.int64
        with pytest.raises(OverflowError, match="int64"):
            typeof(2**63)


def test_physical_type_of_keys():
    class Pair(dtypes.ExtendedDType):
        name = "pair"
        element_shape = (2,)
        element_dtype = np.dtype("uint32")

    assert physical_aval(ShapedArray((3,), Pair())) is ShapedArray((3, 2), "uint32")


def test_dtypes_are_of_native_byte_order():
    x = np.arange(3, dtype=">f4")
    assert typeof(x) is ShapedArray((3,), np.float32) is ShapedArray((3,), ">f4")
    assert dtypes.as_dtype(">i8") == np.int64 and dtypes.as_dtype(">i8").isnative
    for f in (lambda x: x + 1, mjax.jit(lambda x: x + 1)):
        np.testing.assert_array_equal(f(mjax.numpy.asarray(x)), x + 1)
    np.testing.assert_array_equal(mjax.jit(lambda x: mjax.lax.add(x, x))(x), x + x)
    np.testing.assert_array_equal(mjax.lax.add(x, x), x + x)


def test_names_of_ml_dtypes_that_are_no_dtypes():
    for name in ("finfo", "iinfo"):
        with pytest.raises(TypeError, match="not supported"):
            dtypes.as_dtype(name)
