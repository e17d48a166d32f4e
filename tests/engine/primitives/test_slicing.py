"""Slices, pads and joins: values against NumPy, every rule, static and computed indices."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from tests.engine.primitives.harness import Case, normal, table

DTYPES = "f32 i32 bool u8 bf16 c64 f64"


def anywhere(rng, shape, dtype):
    """Indices inside and on both sides of small arrays."""
    return np.asarray(rng.integers(0 if dtype.kind == "u" else -1, 5, shape), dtype)


def box(x, starts, sizes):
    """The place of a box of these sizes, moved inside."""
    return tuple(slice(s, s + n) for s, n in zip(
        [min(max(int(i), 0), size - n) for i, n, size in zip(starts, sizes, x.shape, strict=True)],
        sizes, strict=True))


def padded(x, value, config):
    """What lax.pad gives."""
    for axis, (low, high, interior) in enumerate(config):
        n = x.shape[axis]
        spread = np.full((*x.shape[:axis], n + max(n - 1, 0) * interior, *x.shape[axis + 1 :]),
                         value, x.dtype)
        spread[(slice(None),) * axis + (slice(None, None, interior + 1),)] = x
        edges = [(max(low, 0), max(high, 0)) if i == axis else (0, 0) for i in range(x.ndim)]
        x = np.pad(spread, edges, constant_values=value)
        stop = x.shape[axis] - max(-high, 0)
        x = x[(slice(None),) * axis + (slice(max(-low, 0), stop),)]
    return x


def put(x, update, starts):
    out = np.array(x)
    out[box(x, starts, update.shape)] = update
    return out


def linear(name, operands, function, reference, **fields):
    """A case of a primitive that is linear in its operands, but for indices."""
    first = [t for t in operands.split(";")[0].split() if t.startswith("T")]
    return Case(name, function, reference, operands, linear=[tuple(range(len(first)))], order=1,
                **fields)


def sliced(starts, limits, strides=None):
    return {"function": lambda x: lax.slice(x, starts, limits, strides),
            "reference": lambda x: x[tuple(map(slice, starts, limits,
                                               strides or [1] * len(starts)))]}


def pad_case(label, config, operands, **fields):
    return linear("pad", operands, lambda x, v: lax.pad(x, v, config),
                  lambda x, v: padded(x, v, config), label=label, **fields)


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
    linear("slice", "T[7,4]", **sliced((1, 0), (6, 4), (3, 2)), T=DTYPES),
    pad_case("edges", [(1, 2, 0), (0, -1, 1)], "T[2,3] T[]; T[0,3] T[]", T=DTYPES),
    cut_case("box", (2, 3), "T[3,4] i32[] i32[]", T=DTYPES),
    put_case("box", 2, "T[3,4] T[2,3] i32[] i32[]", T=DTYPES),
    linear("concatenate", "T[2,3] T[1,3]; T[2] T[3] T[0]", lambda *xs: lax.concatenate(xs, 0),
           lambda *xs: np.concatenate(xs, 0), T=DTYPES),
    linear("split", "T[3,2]; T[3]", lambda x: lax.split(x, (1, 0, 2), 0),
           lambda x: np.split(x, (1, 1), 0), T=DTYPES),
    linear("stack", "T[2,3] T[2,3]; T[] T[]; T[0] T[0]", lambda *xs: lax.stack(xs, 0),
           lambda *xs: np.stack(xs, 0), T=DTYPES),
    linear("unstack", "T[2,3]", lambda x: lax.unstack(x, axis=1), lambda x: list(x.T), T=DTYPES),
    linear("tile", "T[3,2]; T[0,2]", lambda x: lax.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)),
           T=DTYPES),
]
SWEEP = [
    linear("slice", "T[3,4]", **sliced((1, 0), (3, 3)), label="no strides"),
    linear("slice", "T[3,4]", **sliced((1, 2), (1, 4), (2, 1)), label="empty"),
    linear("slice", "T[]", **sliced((), ()), label="scalar"),
    pad_case("interior", [(1, 2, 2), (0, 0, 1)], "T[2,3] T[]; T[0,1] T[]"),
    pad_case("cut off", [(-1, 2, 0), (2, -2, 0)], "T[2,3] T[]"),
    pad_case("cut off and interior", [(-2, -1, 2), (-1, 1, 1)], "T[3,3] T[]"),
    pad_case("scalar", [], "T[] T[]"),
    cut_case("whole", (3, 4), "T[3,4] i32[] i32[]"),
    cut_case("empty", (0, 2), "T[3,4] i32[] i32[]; T[0,4] i32[] i32[]"),
    cut_case("scalar", (), "T[]"),
    cut_case("narrow indices", (2,), "T[200] i8[]; T[200] u8[]"),
    put_case("whole", 2, "T[3,2] T[3,2] i32[] i32[]"),
    put_case("empty", 2, "T[3,2] T[0,2] i32[] i32[]"),
    put_case("narrow indices", 1, "T[200] T[1] i8[]; T[200] T[1] u8[]; T[200] T[1] i16[]"),
    put_case("scalar", 0, "T[] T[]"),
    linear("concatenate", "T[2,3] T[2,1] T[2,2]", lambda *xs: lax.concatenate(xs, 1),
           lambda *xs: np.concatenate(xs, 1), label="axis 1"),
    linear("split", "T[3,4]", lambda x: lax.split(x, (2, 2), -1)[1], lambda x: x[:, 2:],
           label="one part used"),
    *(linear("stack", "T[2,3] T[2,3]", lambda *xs, axis=axis: lax.stack(xs, axis),
             lambda *xs, axis=axis: np.stack(xs, axis), label=f"axis {axis}")
      for axis in (1, 2)),
    *(linear("unstack", "T[2,3,4]", lambda x, axis=axis: lax.unstack(x, axis=axis),
             lambda x, axis=axis: list(np.moveaxis(x, axis, 0)), label=f"axis {axis}")
      for axis in (0, 1, 2)),
    linear("tile", "T[3,2]", lambda x: lax.tile(x, (0, 1)), lambda x: np.tile(x, (0, 1)),
           label="nothing"),
    linear("tile", "T[]", lambda x: lax.tile(x, ()), lambda x: x, label="scalar"),
]


@table(CASES)
def test_slicing(check, sample):
    check(sample)


@pytest.mark.slow
@table(SWEEP)
def test_slicing_sweep(check, sample):
    check(sample)


# ---- along one axis --------------------------------------------------------------------

X = np.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("start", "limit", "stride"), [
    (None, None, 1), (1, None, 1), (None, -1, 1), (-2, 2, 1), (0, 2, 2), (None, None, 3)])
def test_slice_in_dim(axis, start, limit, stride):
    out = lax.slice_in_dim(X, start, limit, stride, axis)
    expected = np.moveaxis(np.moveaxis(X, axis, 0)[start:limit:stride], 0, axis)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("axis", [0, 2, -2])
@pytest.mark.parametrize("index", [0, 1, -1, -2])
@pytest.mark.parametrize("keepdims", [True, False])
def test_index_in_dim(axis, index, keepdims):
    expected = np.take(X, [index] if keepdims else index, axis)
    np.testing.assert_array_equal(lax.index_in_dim(X, index, axis, keepdims), expected)
    for f in (lambda x, i: x, mjax.jit):
        g = lambda x, i: lax.dynamic_index_in_dim(x, i, axis, keepdims)
        np.testing.assert_array_equal((f(g, 0) if f is not mjax.jit else f(g))(X, index), expected)


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


# ---- particular values -----------------------------------------------------------------


def test_cotangent_of_a_padding_value_is_exact():
    """Not the difference of two sums, of which a great one would leave nothing."""
    x = np.full(3, 1e8, np.float32)
    _, pull = mjax.vjp(lambda x, v: lax.pad(x, v, [(1, 1, 0)]), x, np.float32(0))
    assert float(pull(np.array([0.25, 1e8, 1e8, 1e8, 0.5], np.float32))[1]) == 0.75


def test_many_operands_are_joined_in_a_tree():
    xs = [np.full((2, i % 3), i) for i in range(300)]
    np.testing.assert_array_equal(mjax.jit(lambda *xs: lax.concatenate(xs, 1))(*xs),
                                  np.concatenate(xs, 1))
    ys = [np.full(2, i) for i in range(40)]
    np.testing.assert_array_equal(lax.stack(ys, 1), np.stack(ys, 1))


def test_one_operand_is_the_result():
    x = lax.full((3,), 1)
    assert lax.concatenate([x], 0) is x
    assert isinstance(lax.concatenate([np.ones(3)], 0), mjax.Array)


def test_weak_types():
    def weak(f, *args):
        return mjax.make_jaxpr(f)(*args).out_avals[0].weak_type

    strong = np.float32(1)
    assert weak(lambda x: lax.stack([x, x]), 1.0)
    assert not weak(lambda x, y: lax.stack([x, y]), 1.0, strong)
    assert not weak(lambda x, y: lax.pad(lax.broadcast(x, (2,)), y, [(1, 1, 0)]), 1.0, strong)
    assert weak(lambda x: lax.slice(lax.broadcast(x, (2,)), (0,), (1,)), 1.0)
    assert weak(lambda x: lax.dynamic_slice(lax.broadcast(x, (2,)), (0,), (1,)), 1.0)
    assert not weak(lambda x, u: lax.dynamic_update_slice(lax.broadcast(x, (2,)), u, (0,)), 1.0,
                    strong.reshape(1))


# ---- refusals --------------------------------------------------------------------------

F = X.astype(np.float32)


@pytest.mark.parametrize(("f", "error", "text"), [
    (lambda: lax.slice(X, (0, 0), (1, 1, 1)), TypeError, "start_indices .* one number for each"),
    (lambda: lax.slice(X, (0, 0, 0), (3, 1, 1)), TypeError, "0 <= start <= limit <= size"),
    (lambda: lax.slice(X, (-1, 0, 0), (1, 1, 1)), TypeError, "0 <= start <= limit <= size"),
    (lambda: lax.slice(X, (1, 0, 0), (0, 1, 1)), TypeError, "0 <= start <= limit <= size"),
    (lambda: lax.slice(X, (0, 0, 0), (1, 1, 1), (1, 0, 1)), TypeError, "must be positive"),
    (lambda: lax.slice(X, (0.5, 0, 0), (1, 1, 1)), TypeError, "integer"),
    (lambda: lax.slice_in_dim(X, 0, 1, axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: lax.index_in_dim(X, 2), IndexError, "index 2 is out of bounds for axis 0 with size 2"),
    (lambda: lax.pad(F, 1, [(0, 0, 0)] * 3), TypeError, "one dtype, got float32, int32"),
    (lambda: lax.pad(X, np.array([1]), [(0, 0, 0)] * 3), ValueError, "must be a scalar"),
    (lambda: lax.pad(X, 1, [(0, 0, 0)]), ValueError, "for each axis of the operand"),
    (lambda: lax.pad(X, 1, [(0, 0)] * 3), ValueError, "padding_config must hold three integers"),
    (lambda: lax.pad(X, 1, [0, 1, 2]), TypeError, "for each axis of the operand, got .0, 1, 2."),
    (lambda: lax.pad(X, 1, 3), TypeError, "padding_config must hold three integers"),
    (lambda: lax.pad(X, 1, [(0.5, 0, 0)] * 3), TypeError, "padding_config must hold three int"),
    (lambda: lax.pad(X, 1, [(0, 0, -1)] * 3), ValueError, "interior not negative"),
    (lambda: lax.pad(X, 1, [(-2, -1, 0)] * 3), ValueError, "takes more away"),
    (lambda: lax.dynamic_slice(X, (0, 0), (1, 1, 1)), ValueError, "one index for each axis"),
    (lambda: lax.dynamic_slice(X, np.zeros((3, 1), int), (1, 1, 1)), ValueError, "one index"),
    (lambda: lax.dynamic_slice(X, (0, 0, 0), (1, 1)), TypeError, "slice_sizes .* for each axis"),
    (lambda: lax.dynamic_slice(X, (0, 0, 0), (3, 1, 1)), TypeError, "from 0 to its size"),
    (lambda: lax.dynamic_slice(X, (0.5, 0, 0), (1, 1, 1)), TypeError, "integers of one dtype"),
    (lambda: lax.dynamic_slice(X, (np.zeros(1, int), 0, 0), (1, 1, 1)), TypeError, "one scalar"),
    (lambda: lax.dynamic_update_slice(X, X[0], (0, 0, 0)), TypeError, "as many axes"),
    (lambda: lax.dynamic_update_slice(X[1:], X, (0, 0, 0)), TypeError, "of at most their sizes"),
    (lambda: lax.dynamic_update_slice(X, F, (0, 0, 0)), TypeError, "same dtypes, got int32 and"),
    (lambda: lax.concatenate([], 0), ValueError, "at least one array"),
    (lambda: lax.concatenate([X, F], 0), TypeError, "same dtypes, got int32, float32"),
    (lambda: lax.concatenate([X, X[0]], 0), TypeError, "all other axes must have equal sizes"),
    (lambda: lax.concatenate([X, X[:, :2]], 0), TypeError, "cannot concatenate arrays of shapes"),
    (lambda: lax.concatenate([X, X], 3), TypeError, "dimension 3 is no axis"),
    (lambda: lax.split(X, (1, 2)), ValueError, "must sum up to 2"),
    (lambda: lax.split(X, (3, -1)), ValueError, "must not be negative"),
    (lambda: lax.split(X, (1, 1), 3), ValueError, "axis 3 is out of bounds"),
    (lambda: lax.stack([]), ValueError, "at least one array"),
    (lambda: lax.stack([X, X[0]]), TypeError, "cannot stack arrays of shapes"),
    (lambda: lax.stack([X, X], 4), ValueError, "axis 4 is out of bounds"),
    (lambda: lax.unstack(X, axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: lax.tile(X, (1, 2)), TypeError, "one non-negative number for each axis"),
])
def test_refused(f, error, text):
    with pytest.raises(error, match=text):
        f()
