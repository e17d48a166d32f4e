"""gather: values against a loop over windows, modes, every rule, shape checks."""

from __future__ import annotations

import copy
import pickle
from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.primitives.gather import gather_p, take_along_axis, take_on_axis
from tests.engine.primitives import windows
from tests.engine.primitives.harness import Case, normal, table

Dims = lax.GatherDimensionNumbers
CLIP, FILL = lax.GatherScatterMode.CLIP, lax.GatherScatterMode.FILL_OR_DROP


def within(low, high):
    """Draws indices in [low, high)."""
    return lambda rng, shape, dtype: np.asarray(rng.integers(low, high, shape), dtype)


def row(label, dims, sizes, operands, mode="clip", low=-2, high=5, fill=0, **fields):
    """A case of gather; indices are drawn from both sides of the bounds."""

    def reference(operand, indices):
        return windows.gather(operand, indices, dims, sizes, mode != "fill", fill)

    function = partial(lax.gather, dimension_numbers=dims, slice_sizes=sizes, mode=mode,
                       fill_value=fill)
    return Case("gather", function, reference, operands, label=label,
                draw=[normal, within(low, high)], linear=[(0,)] if not fill else [],
                order=1, **fields)


CASES = [
    row("rows", Dims((1,), (0,), (0,)), (1, 4), "T[3,4] i32[2,1]", T="f32 i32 bf16 c64 f64"),
    row("boxes, filled", Dims((1, 2), (), (0, 1)), (2, 3), "T[3,4] i32[4,2]", "fill"),
    row("batching", Dims((1,), (1,), (1,), (0,), (1,)), (1, 1, 2), "T[3,4,2] i32[2,3,1]"),
]
SWEEP = [
    row("rows, filled", Dims((1,), (0,), (0,)), (1, 4), "T[3,4] i32[5,1]", "fill",
        T="f32 i32 i8 c64"),
    row("filled with 7", Dims((1,), (0,), (0,)), (1, 4), "T[3,4] i32[5,1]", "fill", fill=7,
        T="f32 i32"),
    row("columns first", Dims((0,), (1,), (1,)), (3, 1), "T[3,4] i32[2,1]", "fill"),
    row("boxes", Dims((0, 2), (), (1, 0)), (2, 3), "T[3,4] i32[2,2]"),
    row("points", Dims((), (0, 1), (0, 1)), (1, 1), "T[3,4] i32[2,3,2]", "fill"),
    row("one index", Dims((0,), (0,), (0,)), (1, 4), "T[3,4] i32[1]", "fill"),
    row("batching, filled", Dims((), (1,), (1,), (0, 2), (1, 0)), (1, 1, 1),
        "T[3,4,2] i32[2,3,1]", "fill"),
    row("no index", Dims((0, 1), (), ()), (2, 2), "T[3,4] i32[0]", "fill"),
    row("nothing", Dims((1,), (0,), (0,)), (1, 0), "T[3,4] i32[2,1]; T[3,0] i32[2,1]"),
    row("no windows", Dims((1,), (0,), (0,)), (1, 4), "T[3,4] i32[0,1]", "fill"),
    *(row(f"indices {dtype}", Dims((), (0,), (0,)), (1,), f"T[200] {dtype}[6,1]", mode,
          low=0 if dtype[0] == "u" else -120, high=127)
      for dtype in ("i8", "u8", "i16", "u32", "i64") for mode in ("clip", "fill")),
    row("promised", Dims((1,), (0,), (0,)), (1, 4), "T[3,4] i32[2,1]", "promise_in_bounds",
        low=0, high=3),
]


@table(CASES)
def test_gather(check, sample):
    check(sample)


@pytest.mark.slow
@table(SWEEP)
def test_gather_sweep(check, sample):
    check(sample)


@pytest.mark.parametrize(("dtype", "expected"), [
    ("f4", np.nan), ("c8", np.nan), ("i4", -2**31), ("i1", -128), ("u2", 2**16 - 1), ("?", True)])
def test_default_fill_value(dtype, expected):
    out = lax.gather(np.ones(3, dtype), np.array([[7]]), Dims((), (0,), (0,)), (1,), mode="fill")
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, np.array([expected], dtype))


def test_nan_fill_values_are_one_param():
    def f(x, nan):
        return lax.gather(x, np.array([[7]]), Dims((), (0,), (0,)), (1,), mode="fill",
                          fill_value=nan)

    values = [mjax.make_jaxpr(partial(f, nan=nan))(np.ones(3, np.float32)).jaxpr.eqns[-1].params[
        "fill_value"] for nan in (float("nan"), np.float32("nan"), None)]
    assert all(value is np.nan for value in values)


def test_filled_windows_have_no_derivative():
    x = np.arange(3, dtype=np.float32)

    def f(x):
        return lax.gather(x, np.array([[0], [5]]), Dims((), (0,), (0,)), (1,), mode="fill",
                          fill_value=7.0)

    _, tangent = mjax.jvp(f, (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(tangent, [1, 0])
    (ct,) = mjax.vjp(f, x)[1](np.ones(2, np.float32))
    np.testing.assert_array_equal(ct, [1, 0, 0])


def test_index_beyond_32_bits_is_out_of_bounds():
    with mjax.enable_x64(True):
        x = np.arange(3.0)
        indices = np.array([[2**32], [1]])
        out = lax.gather(x, indices, Dims((), (0,), (0,)), (1,), mode="fill", fill_value=-1)
        np.testing.assert_array_equal(out, [-1, 1])


def test_repeated_reads_add_up_in_the_gradient():
    def f(x):
        return take_on_axis(x, np.array([1, 1, 0]), 0)

    (ct,) = mjax.vjp(f, np.zeros(3, np.float32))[1](np.array([1, 2, 4], np.float32))
    np.testing.assert_array_equal(ct, [4, 3, 0])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_take_on_axis(axis, shape):
    x = np.arange(24).reshape(2, 3, 4)
    indices = np.random.default_rng(0).integers(0, 2, shape)
    np.testing.assert_array_equal(take_on_axis(x, indices, axis), np.take(x, indices, axis))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("index_shape", [(2, 3, 4), (1, 1, 1), (2, 1, 4), (1, 3, 4)])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (2, 3, 1)])
def test_take_along_axis(axis, index_shape, shape):
    x = np.arange(np.prod(shape)).reshape(shape)
    indices = np.random.default_rng(0).integers(0, shape[axis], index_shape)
    others = [n for i, n in enumerate(shape) if i != axis % 3]
    index_others = [n for i, n in enumerate(index_shape) if i != axis % 3]
    if any(n != m and 1 not in (n, m) for n, m in zip(others, index_others, strict=True)):
        pytest.skip("shapes do not broadcast")
    np.testing.assert_array_equal(take_along_axis(x, indices, axis),
                                  np.take_along_axis(x, indices, axis))


def test_vmap_moves_no_array():
    """The batch axis stays where it is, for any subset of operands."""
    x, i = np.zeros((3, 4), np.float32), np.zeros((2, 1), np.int32)
    f = partial(lax.gather, dimension_numbers=Dims((1,), (0,), (0,)), slice_sizes=(1, 4))
    for x_dim in (None, 0, 1, 2):
        for i_dim in (None, 0, 1):
            if x_dim is i_dim is None:
                continue
            args = [a if d is None else np.stack([a] * 5, d) for a, d in ((x, x_dim), (i, i_dim))]
            jaxpr = mjax.make_jaxpr(mjax.vmap(lambda x, i: f(x, i), (x_dim, i_dim)))(*args)
            names = [e.primitive.name for e in jaxpr.jaxpr.eqns]
            assert names.count("gather") == 1
            assert names.count("transpose") <= 1, "only the result goes to axis 0"


def test_vmap_keeps_promises_only_where_they_hold():
    def params(dims, **promises):
        f = partial(lax.gather, dimension_numbers=Dims((), (0,), (0,)), slice_sizes=(1,),
                    **promises)
        args = [np.zeros((5, 5) if d is not None else (5,), np.float32) for d in dims[:1]]
        args += [np.zeros((5, 2, 1) if dims[1] is not None else (2, 1), np.int32)]
        jaxpr = mjax.make_jaxpr(mjax.vmap(lambda x, i: f(x, i), dims))(*args)
        (eqn,) = [e for e in jaxpr.jaxpr.eqns if e.primitive is gather_p]
        return eqn.params["indices_are_sorted"], eqn.params["unique_indices"]

    promises = {"indices_are_sorted": True, "unique_indices": True}
    assert params((0, None), **promises) == (True, True)
    assert params((0, 0), **promises) == (True, True)
    assert params((1, 0), **promises) == (False, True)
    assert params((None, 0), **promises) == (False, False)


def test_modes():
    mode = lax.GatherScatterMode
    assert mode.from_any(None) is mode.from_any("fill") is mode.from_any("drop") is FILL
    assert mode.from_any("clip") is mode.from_any(CLIP) is CLIP
    assert mode.from_any("promise_in_bounds") is mode.PROMISE_IN_BOUNDS
    assert pickle.loads(pickle.dumps(CLIP)) is copy.deepcopy(CLIP) is CLIP
    with pytest.raises(ValueError, match="unknown gather or scatter mode 'wrap'; known are 'fill'"):
        mode.from_any("wrap")
    with pytest.raises(ValueError, match="gather has no mode 'one_hot'"):
        lax.gather(np.zeros(3), np.zeros((1, 1), int), Dims((), (0,), (0,)), (1,), mode="one_hot")


X, INDICES = np.zeros((3, 4, 5), np.float32), np.zeros((2, 3, 1), np.int32)
GOOD = {"offset_dims": (2, 3), "collapsed_slice_dims": (1,), "start_index_map": (1,)}


@pytest.mark.parametrize(("change", "sizes", "error", "text"), [
    ({"start_index_map": (0, 1)}, None, TypeError, "must name one axis of the operand for each"),
    ({"start_index_map": (3,)}, None, TypeError, r"start_index_map \(3,\) must be in \[0, 3\)"),
    ({"offset_dims": (3, 2)}, None, TypeError, r"offset_dims \(3, 2\) must be sorted"),
    ({"offset_dims": (2, 2)}, None, TypeError, r"offset_dims \(2, 2\) must not repeat an axis"),
    ({"offset_dims": (2, 4)}, None, TypeError, r"offset_dims \(2, 4\) must be in \[0, 4\)"),
    ({"offset_dims": (2,)}, None, TypeError, "have its place in offset_dims"),
    ({"collapsed_slice_dims": (-1,)}, None, TypeError, r"collapsed_slice_dims .* in \[0, 3\)"),
    ({"operand_batching_dims": (0,)}, None, TypeError, "sizes .* they must be equal"),
    ({"operand_batching_dims": (1,), "start_indices_batching_dims": (0,)}, None, TypeError,
     "collapsed_slice_dims .* and operand_batching_dims .* no axis in common"),
    ({"operand_batching_dims": (0,), "start_indices_batching_dims": (2,)}, None, TypeError,
     r"batching dims of the indices \(2,\) must be in \[0, 2\)"),
    ({"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}, None, TypeError,
     r"\(0,\) have sizes \(3,\), those of the indices \(0,\) have sizes \(2,\)"),
    ({"offset_dims": (2,), "operand_batching_dims": (0,), "start_indices_batching_dims": (1,)},
     (2, 1, 5), TypeError, "must be 1, or 0, along the operand_batching_dims"),
    ({}, (3, 1), TypeError, "slice_sizes .* one size per axis of the operand"),
    ({}, (4, 1, 5), TypeError, "slice_sizes .* must be in the range from 0 to the sizes"),
    ({}, (3, 2, 5), TypeError, "must be 1 along the collapsed_slice_dims"),
])
def test_wrong_dimension_numbers(change, sizes, error, text):
    with pytest.raises(error, match=text):
        lax.gather(X, INDICES, Dims(**GOOD | change), sizes or (3, 1, 5))


def test_wrong_indices():
    with pytest.raises(ValueError, match="start_indices must have an integer dtype, not float32"):
        lax.gather(X, np.zeros((2, 3, 1), np.float32), Dims(**GOOD), (3, 1, 5))
    with pytest.raises(TypeError, match=r"got a scalar. Give a single index the shape \(1,\)"):
        lax.gather(X, np.int32(0), Dims(**GOOD), (3, 1, 5))


def test_lists_in_dimension_numbers_are_named():
    with pytest.raises(TypeError, match=r"'dimension_numbers' .* is not hashable"):
        lax.gather(X, INDICES, Dims([2, 3], [1], [1]), (3, 1, 5))
