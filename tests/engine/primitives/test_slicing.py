"""Slices, pads and joins: values against NumPy, every rule."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import export, lax
from tests.engine.primitives.harness import linear, table

DTYPES = "f32 i32 bool u8 bf16 c64 f64"


def padded(x, value, config):
    """The result of lax.pad."""
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


def sliced(starts, limits, strides=None):
    return {"function": lambda x: lax.slice(x, starts, limits, strides),
            "reference": lambda x: x[tuple(map(slice, starts, limits,
                                               strides or [1] * len(starts)))]}


def pad_case(label, config, operands, **fields):
    return linear("pad", operands, lambda x, v: lax.pad(x, v, config),
                  lambda x, v: padded(x, v, config), label=label, **fields)


CASES = [
    linear("slice", "T[7,4]", **sliced((1, 0), (6, 4), (3, 2)), T=DTYPES),
    pad_case("edges", [(1, 2, 0), (0, -1, 1)], "T[2,3] T[]; T[0,3] T[]", T=DTYPES),
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


# ---- particular values -----------------------------------------------------------------


def test_cotangent_of_a_padding_value_is_exact():
    """Not the difference of two sums, of which a great one would leave nothing."""
    x = np.full(3, 1e8, np.float32)
    _, pull = mjax.vjp(lambda x, v: lax.pad(x, v, [(1, 1, 0)]), x, np.float32(0))
    assert float(pull(np.array([0.25, 1e8, 1e8, 1e8, 0.5], np.float32))[1]) == 0.75


def test_symbolic_sizes_that_may_be_empty():
    """A pad's size is that of the slice it undoes, whether or not this is empty."""
    b, = export.symbolic_shape("b")
    for stride in 1, 2, 3:
        cut = lambda x, s=stride: lax.slice(x, (1,), (x.shape[0],), (s,))
        x = mjax.ShapeDtypeStruct((b,), np.float32)
        gradient = mjax.eval_shape(mjax.grad(lambda x, cut=cut: cut(x).sum()), x)
        assert gradient.shape == (b,)
        padded = mjax.eval_shape(lambda x, cut=cut: lax.pad(cut(x), 0., [(2, -1, 1)]), x)
        for n in range(1, 8):
            size = len(range(1, n, stride))
            assert padded.shape[0].evaluate({"b": n}) == 2 + max(2 * size - 1, 0) - 1


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
    (lambda: lax.concatenate([], 0), ValueError, "at least one array"),
    (lambda: lax.concatenate([X, F], 0), TypeError, "same dtypes, got int32, float32"),
    (lambda: lax.concatenate([X, X[0]], 0), TypeError, "all other axes must have equal sizes"),
    (lambda: lax.concatenate([X, X[:, :2]], 0), TypeError, "cannot concatenate arrays of shapes"),
    (lambda: lax.concatenate([X, X], 3), TypeError, "dimension 3 is not an axis"),
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
