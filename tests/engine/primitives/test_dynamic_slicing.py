"""Slices at computed places: values against NumPy, every rule, static and computed indices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from tests.engine.primitives.harness import linear, normal, table

DTYPES = "f32 i32 bool u8 bf16 c64 f64"
X = np.arange(24).reshape(2, 3, 4)


def anywhere(rng, shape, dtype):
    """Indices inside and on both sides of small arrays."""
    return np.asarray(rng.integers(0 if dtype.kind == "u" else -1, 5, shape), dtype)


def box(x, starts, sizes):
    """The place of a box of these sizes, moved inside."""
    return tuple(slice(s, s + n) for s, n in zip(
        [min(max(int(i), 0), size - n) for i, n, size in zip(starts, sizes, x.shape, strict=True)],
        sizes, strict=True))


def put(x, update, starts):
    out = np.array(x)
    out[box(x, starts, update.shape)] = update
    return out


def cut_case(label, sizes, operands, **fields):
    return linear("dynamic_slice", operands,
                  lambda x, *i: dynamic_slice_p.bind(x, *i, slice_sizes=sizes),
                  lambda x, *i: x[box(x, i, sizes)], label=label,
                  draw=[normal] + [anywhere] * len(sizes), **fields)


def put_case(label, rank, operands, **fields):
    return linear("dynamic_update_slice", operands, dynamic_update_slice_p.bind,
                  lambda x, u, *i: put(x, u, i), label=label,
                  draw=[normal, normal] + [anywhere] * rank, **fields)


CASES = [
    cut_case("box", (2, 3), "T[3,4] i32[] i32[]", T=DTYPES),
    put_case("box", 2, "T[3,4] T[2,3] i32[] i32[]", T=DTYPES),
]
SWEEP = [
    cut_case("whole", (3, 4), "T[3,4] i32[] i32[]"),
    cut_case("empty", (0, 2), "T[3,4] i32[] i32[]; T[0,4] i32[] i32[]"),
    cut_case("scalar", (), "T[]"),
    cut_case("narrow indices", (2,), "T[200] i8[]; T[200] u8[]"),
    put_case("whole", 2, "T[3,2] T[3,2] i32[] i32[]"),
    put_case("empty", 2, "T[3,2] T[0,2] i32[] i32[]"),
    put_case("narrow indices", 1, "T[200] T[1] i8[]; T[200] T[1] u8[]; T[200] T[1] i16[]"),
    put_case("scalar", 0, "T[] T[]"),
]


@table(CASES)
def test_dynamic_slicing(check, sample):
    check(sample)


@pytest.mark.slow
@table(SWEEP)
def test_dynamic_slicing_sweep(check, sample):
    check(sample)


# ---- along one axis --------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 2, -2])
@pytest.mark.parametrize("index", [0, 1, -1, -2])
@pytest.mark.parametrize("keepdims", [True, False])
def test_dynamic_index_in_dim(axis, index, keepdims):
    expected = np.take(X, [index] if keepdims else index, axis)
    f = lambda x, i: lax.dynamic_index_in_dim(x, i, axis, keepdims)
    np.testing.assert_array_equal(f(X, index), expected)
    np.testing.assert_array_equal(mjax.jit(f)(X, index), expected)


@pytest.mark.parametrize("start", [0, 1, -1, 5, -9, np.int8(-2), np.uint8(1)])
@pytest.mark.parametrize("computed", [False, True])
def test_starts_along_one_axis(start, computed):
    """Negative starts count from the end, then the box is moved inside."""
    cut = lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1)
    place = lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1)
    i = int(start) + 3 if start < 0 else int(start)
    i = min(max(i, 0), 1)
    args = (mjax.jit(cut), mjax.jit(place)) if computed else (cut, place)
    np.testing.assert_array_equal(args[0](X, start), X[:, i : i + 2])
    expected = X.copy()
    expected[:, i : i + 2] = -1
    np.testing.assert_array_equal(args[1](X, np.full((2, 2, 4), -1), start), expected)


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4), (1, 1, 2)])
def test_dynamic_update_index_in_dim(shape):
    update = -np.arange(np.prod(shape)).reshape(shape) - 1
    expected = X.copy()
    padded = update.reshape(2, 1, 4) if len(shape) == 2 else update
    expected[: padded.shape[0], 2:3, : padded.shape[2]] = padded
    np.testing.assert_array_equal(lax.dynamic_update_index_in_dim(X, update, -1, 1), expected)


# ---- start indices ---------------------------------------------------------------------


def test_starts_may_be_a_vector():
    expected = X[0:1, 1:3, 2:4]
    for starts in ((0, 1, 2), [np.int32(0), 1, 2], np.array([0, 1, 2])):
        np.testing.assert_array_equal(lax.dynamic_slice(X, starts, (1, 2, 2)), expected)
    f = mjax.jit(lambda x, i: lax.dynamic_slice(x, i, (1, 2, 2)))
    np.testing.assert_array_equal(f(X, np.array([0, 1, 2])), expected)


def test_python_ints_take_the_dtype_of_the_other_starts():
    with mjax.enable_x64(True):
        f = mjax.jit(lambda x, i: lax.dynamic_slice(x, (i, -2, 0), (1, 2, 4)))
        np.testing.assert_array_equal(f(X, np.int32(1)), X[1:, 1:])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u4", "i8"])
def test_starts_of_any_integer_dtype(dtype):
    x = np.arange(300)
    start = np.array(200 if dtype[0] == "u" else -100).astype(dtype)
    f = mjax.jit(lambda x, i: lax.dynamic_slice(x, (i,), (2,)))
    np.testing.assert_array_equal(f(x, start), [200, 201])


def test_negative_starts_are_let_alone_where_not_allowed():
    f = partial(lax.dynamic_slice, X[0, 0], slice_sizes=(2,), allow_negative_indices=False)
    np.testing.assert_array_equal(mjax.jit(lambda i: f((i,)))(-1), [0, 1])
    with pytest.raises(ValueError, match="start index -1 is out of bounds for an axis of size 4"):
        f((-1,))
    jaxpr = mjax.make_jaxpr(lambda i: f((i,)))(0)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["dynamic_slice"]


def test_static_starts_need_no_computation():
    jaxpr = mjax.make_jaxpr(lambda x: lax.dynamic_slice(x, (0, -1, 1), (1, 1, 1)))(X)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["dynamic_slice"]


def test_vmap_with_common_starts_stays_dynamic():
    def names(f, *args, dims):
        return {e.primitive.name for e in mjax.make_jaxpr(mjax.vmap(f, dims))(*args).jaxpr.eqns}

    x = X.astype(np.float32)
    cut = lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2), allow_negative_indices=False)
    put = lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0), allow_negative_indices=False)
    assert names(cut, x, 1, dims=(1, None)) <= {"dynamic_slice", "transpose"}
    assert "gather" in names(cut, x, np.array([0, 1, 2]), dims=(1, 0))
    assert names(put, x, x[:, :1], 1, dims=(0, 0, None)) == {"dynamic_update_slice"}
    assert "scatter" in names(put, x, x[:, :1], np.array([0, 1]), dims=(0, 0, 0))


def test_index_take():
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(
        lax.index_take(x, [np.array([0, -1, 4]), np.array([-5, 7, 2])], (0, 1)), [3, 11, 6])
    np.testing.assert_array_equal(lax.index_take(x, [np.array([-1, 5])], (1,)), x.T[[3, 1]])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32"])
def test_index_take_of_an_axis_longer_than_the_indices_reach(dtype):
    x = np.arange(70_000)
    info = np.iinfo(dtype)
    index = np.array([info.min, 0, 1, info.max], dtype)
    np.testing.assert_array_equal(lax.index_take(x, [index], (0,)),
                                  index.astype(np.int64) % len(x))


def test_index_take_errors():
    x = np.zeros((3, 4))
    with pytest.raises(ValueError, match="indices must have an integer type, not float32"):
        lax.index_take(x, [np.zeros(2)], (0,))
    with pytest.raises(TypeError, match="vectors of one length and dtype"):
        lax.index_take(x, [np.array([1, 2]), np.array([1])], (0, 1))
    with pytest.raises(TypeError, match="vectors of one length and dtype"):
        lax.index_take(x, [np.array([1], np.int8), np.array([1])], (0, 1))


def test_weak_types():
    def weak(f, *args):
        return mjax.make_jaxpr(f)(*args).out_avals[0].weak_type

    assert weak(lambda x: lax.dynamic_slice(lax.broadcast(x, (2,)), (0,), (1,)), 1.0)
    assert not weak(lambda x, u: lax.dynamic_update_slice(lax.broadcast(x, (2,)), u, (0,)), 1.0,
                    np.ones(1, np.float32))


# ---- refusals --------------------------------------------------------------------------

F = X.astype(np.float32)


@pytest.mark.parametrize(("f", "error", "text"), [
    (lambda: lax.dynamic_slice(X, (0, 0), (1, 1, 1)), ValueError, "one index for each axis"),
    (lambda: lax.dynamic_slice(X, np.zeros((3, 1), int), (1, 1, 1)), ValueError, "one index"),
    (lambda: lax.dynamic_slice(X, (0, 0, 0), (1, 1)), TypeError, "slice_sizes .* for each axis"),
    (lambda: lax.dynamic_slice(X, (0, 0, 0), (3, 1, 1)), TypeError, "from 0 to its size"),
    (lambda: lax.dynamic_slice(X, (0.5, 0, 0), (1, 1, 1)), TypeError, "integers of one dtype"),
    (lambda: lax.dynamic_slice(X, (np.zeros(1, int), 0, 0), (1, 1, 1)), TypeError, "one scalar"),
    (lambda: lax.dynamic_update_slice(X, X[0], (0, 0, 0)), TypeError, "as many axes"),
    (lambda: lax.dynamic_update_slice(X[1:], X, (0, 0, 0)), TypeError, "of at most their sizes"),
    (lambda: lax.dynamic_update_slice(X, F, (0, 0, 0)), TypeError, "same dtypes, got int32 and"),
])
def test_refused(f, error, text):
    with pytest.raises(error, match=text):
        f()
