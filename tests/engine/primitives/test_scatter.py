"""scatter and its variants: values against a loop over windows, every rule, shape checks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.primitives.scatter import scatter_add_p
from tests.engine.primitives import windows
from tests.engine.primitives.harness import Case, kind, normal, table

Dims = lax.ScatterDimensionNumbers
POINTS = Dims((), (0,), (0,))


def within(low, high):
    """Draws indices in [low, high), some of them several times."""
    return lambda rng, shape, dtype: np.asarray(rng.integers(low, high, shape), dtype)


def unique(low, high):
    """Draws indices in [low, high), each once."""
    return lambda rng, shape, dtype: rng.choice(np.arange(low, high), shape, False).astype(dtype)


def lexicographic(better):
    """The extremum of complex numbers by their real parts, then their imaginary ones."""

    def combine(a, b):
        first = better(a.real, b.real) | ((a.real == b.real) & better(a.imag, b.imag))
        return np.where(first, a, b)

    return combine


def extremum(combine, better):
    return lambda a, b: lexicographic(better)(a, b) if kind(a.dtype) == "c" else combine(a, b)


VARIANTS = {"": lambda a, b: b, "_add": np.add, "_sub": np.subtract, "_mul": np.multiply,
            "_min": extremum(np.minimum, np.less), "_max": extremum(np.maximum, np.greater)}


def row(variant, label, dims, operands, mode="drop", indices=None, **fields):
    """A case of a scatter; indices are drawn from both sides of the bounds."""
    promise = indices is not None
    fields.setdefault("linear", {"_add": [(0, 2)], "_sub": [(0, 2)], "_mul": [(0,)],
                                 "": [(0, 2)] if promise else []}.get(variant, []))
    function = getattr(lax, "scatter" + variant)

    def reference(operand, indices, updates):
        return windows.scatter(operand, indices, updates, dims, VARIANTS[variant], mode == "clip")

    def f(operand, indices, updates):
        return function(operand, indices, updates, dims, mode=mode, unique_indices=promise)

    fields.setdefault("order", 1)
    fields.setdefault("draw", [normal, indices or within(-2, 5), normal])
    return Case(("scatter" + variant).replace("_", "-"), f, reference, operands, label=label,
                **fields)


ADDITIVE = [
    ("rows", Dims((1,), (0,), (0,)), "T[3,4] i32[5,1] T[5,4]", "drop"),
    ("rows, clipped", Dims((1,), (0,), (0,)), "T[3,4] i32[5,1] T[5,4]", "clip"),
    ("boxes", Dims((0, 2), (), (1, 0)), "T[3,4] i32[2,2] T[2,2,3]", "drop"),
    ("boxes, clipped", Dims((1, 2), (), (0, 1)), "T[3,4] i32[4,2] T[4,2,3]", "clip"),
    ("points", Dims((), (0, 1), (0, 1)), "T[3,4] i32[2,3,2] T[2,3]", "drop"),
    ("one window", Dims((0,), (1,), (1,)), "T[3,4] i32[1] T[3]", "drop"),
    ("batching", Dims((1,), (1,), (1,), (0,), (1,)), "T[3,4,2] i32[2,3,1] T[2,2,3]", "drop"),
    ("batching, clipped", Dims((), (1,), (1,), (0, 2), (1, 0)), "T[3,4,2] i32[2,3,1] T[2,3]",
     "clip"),
    ("no index", Dims((0, 1), (), ()), "T[3,4] i32[0] T[2,2]", "drop"),
    ("nothing", Dims((1,), (0,), (0,)), "T[3,4] i32[0,1] T[0,4]", "drop"),
    ("windows of size 0", Dims((1,), (0,), (0,)), "T[3,4] i32[2,1] T[2,0]", "drop"),
]
CASES = [
    row("_add", "dtypes", POINTS, "T[3] i32[5,1] T[5]", T="f32 i32 u8 bf16 f16 c64 f64 c128"),
    row("_add", "rows of batches", Dims((), (1,), (1,), (0,), (0,)), "T[2,3] i32[2,1] T[2]"),
    row("_sub", "rows", Dims((1,), (0,), (0,)), "T[3,2] i32[2,1] T[2,2]", T="f32 i32 c64"),
    row("_mul", "repeated", POINTS, "T[3] i32[5,1] T[5]", T="f32 i32 c64 i8", order=0),
    row("_mul", "points", POINTS, "T[6] i32[5,1] T[5]", indices=unique(-2, 8), order=2),
    *(row(variant, "repeated", POINTS, "T[3] i32[7,1] T[7]", T="f32 i32 u16 bool bf16 c64")
      for variant in ("_min", "_max")),
    row("", "points", POINTS, "T[6] i32[5,1] T[5]", T="f32 i32 bool u8 bf16 c64 f64",
        indices=unique(-2, 8)),
    row("", "points, no promise", POINTS, "T[6] i32[5,1] T[5]",
        draw=[normal, unique(-2, 8), normal]),
]
SWEEP = [
    *(row("_add", *case) for case in ADDITIVE),
    *(row("_add", f"indices {dtype}", POINTS, f"T[200] {dtype}[6,1] T[6]", mode)
      for dtype in ("i8", "i16", "i64") for mode in ("drop", "clip")),
    row("_sub", *ADDITIVE[3]),
    row("_mul", "boxes", Dims((1,), (), (0,)), "T[12] i32[2,1] T[2,2]", "clip",
        indices=lambda rng, shape, dtype: 3 * unique(0, 4)(rng, shape, dtype), T="f32 c64",
        order=2),
    *(row(variant, *ADDITIVE[i]) for variant in ("_min", "_max") for i in (2, 3, 6, 7, 8, 9)),
    row("", "rows", Dims((1,), (0,), (0,)), "T[6,4] i32[5,1] T[5,3]", indices=unique(-2, 8)),
    row("", "boxes, no promise", Dims((0, 2), (), (1, 0)), "T[3,8] i32[2,2] T[2,2,2]", "clip",
        draw=[normal, lambda rng, shape, dtype: 2 * unique(0, 4)(rng, shape, dtype), normal]),
    row("", "batching", Dims((1,), (1,), (1,), (0,), (1,)), "T[3,7,2] i32[2,3,1] T[2,2,3]",
        indices=unique(0, 7)),
    row("", "nothing", Dims((1,), (0,), (0,)), "T[3,4] i32[0,1] T[0,4]", indices=unique(0, 3)),
]


@table(CASES)
def test_scatter(check, sample):
    check(sample)


@pytest.mark.slow
@table(SWEEP)
def test_scatter_sweep(check, sample):
    check(sample)


# ---- windows that overlap --------------------------------------------------------------


def overlapping(x, u, mode="drop"):
    return lax.scatter(x, np.array([[0], [2], [0], [0], [9]]), u, POINTS, mode=mode)


def test_derivative_of_scatter_is_that_of_what_stayed():
    x = np.arange(3, dtype=np.float32)
    u = np.array([10, 20, 30, 40, 50], np.float32)
    dx, du = -x - 1, -u
    out, tangent = map(np.asarray, mjax.jvp(overlapping, (x, u), (dx, du)))
    np.testing.assert_array_equal(out[1:], [1, 20])
    np.testing.assert_array_equal(tangent[1:], [-2, -20])
    assert out[0] in (10, 30, 40)
    assert tangent[0] == -out[0]
    x_ct, u_ct = mjax.vjp(overlapping, x, u)[1](np.array([1, 2, 4], np.float32))
    np.testing.assert_array_equal(x_ct, [0, 2, 0])
    np.testing.assert_array_equal(u_ct, np.where(u == out[0], 1, [0, 4, 0, 0, 0]))


def test_what_does_not_stay_may_be_infinite():
    x = np.array([np.inf, 1, np.nan], np.float32)
    u = np.array([np.inf, 2, np.inf, 3, np.nan], np.float32)
    f = lambda x, u: overlapping(x, u)
    _, tangent = mjax.jvp(f, (x, u), (np.ones_like(x), np.ones_like(u)))
    np.testing.assert_array_equal(tangent, [1, 1, 1])


@pytest.mark.parametrize(("function", "out", "x_ct", "u_ct"), [
    (lax.scatter_max, [3, 5, 7], [0, 4 / 2, 8], [1 / 3, 1 / 3, 1 / 3, 4 / 2, 0, 0]),
    (lax.scatter_min, [1, 2, 7], [1, 0, 8], [0, 0, 0, 0, 4, 0])])
def test_extrema_share_their_cotangent(function, out, x_ct, u_ct):
    x = np.array([1, 5, 7], np.float32)
    u = np.array([3, 3, 3, 5, 2, 7], np.float32)
    indices = np.array([[0], [0], [0], [1], [1], [9]])
    f = lambda x, u: function(x, indices, u, POINTS)
    value, pull = mjax.vjp(f, x, u)
    np.testing.assert_array_equal(value, out)
    cts = pull(np.array([1, 4, 8], np.float32))
    np.testing.assert_allclose(cts[0], x_ct, rtol=1e-6)
    np.testing.assert_allclose(cts[1], u_ct, rtol=1e-6)


def test_windows_left_out_give_no_nan_in_the_gradient_of_extrema():
    x, u = np.array([1, np.nan], np.float32), np.array([5, 6], np.float32)
    f = lambda x, u: lax.scatter_max(x, np.array([[0], [9]]), u, POINTS)
    x_ct, u_ct = mjax.vjp(f, x, u)[1](np.ones(2, np.float32))
    np.testing.assert_array_equal(x_ct, [0, 1])
    np.testing.assert_array_equal(u_ct, [1, 0])


def test_scatter_mul_needs_the_promise_for_the_derivative_in_the_updates():
    x, i, u = np.ones(3, np.float32), np.array([[1]]), np.ones(1, np.float32)
    out, _ = mjax.jvp(lambda x: lax.scatter_mul(x, i, u, POINTS), (x,), (x,))
    assert out.shape == (3,)
    with pytest.raises(NotImplementedError, match="promise it by unique_indices=True"):
        mjax.jvp(lambda u: lax.scatter_mul(x, i, u, POINTS), (u,), (u,))
    with pytest.raises(NotImplementedError, match="linear in its operand but not in the updates"):
        mjax.linear_transpose(lambda u: lax.scatter_mul(x, i, u, POINTS), u)(x)
    with pytest.raises(NotImplementedError, match="only if no two windows overlap"):
        mjax.linear_transpose(lambda u: lax.scatter(x, i, u, POINTS), u)(x)


# ---- lowering and batching -------------------------------------------------------------


def test_complex128_is_added_in_two_parts_on_gpus():
    with mjax.enable_x64(True):
        x, i = np.zeros(3, np.complex128), np.zeros((1, 1), np.int32)
        jaxpr = mjax.make_jaxpr(lambda x, u: lax.scatter_add(x, i, u, POINTS))(x, x[:1])
        texts = {p: lower_to_module(jaxpr, "f", p).text() for p in ("cpu", "cuda")}
    assert texts["cpu"].count('"stablehlo.scatter"') == 1
    assert texts["cuda"].count('"stablehlo.scatter"') == 2


def test_vmap_keeps_promises_only_where_they_hold():
    def params(dims, **promises):
        shapes = [(5, 5) if dims[0] is not None else (5,), (5, 2, 1) if dims[1] is not None
                  else (2, 1), (5, 2) if dims[2] is not None else (2,)]
        args = [np.zeros(shape, dtype) for shape, dtype in
                zip(shapes, ("f4", "i4", "f4"), strict=True)]
        f = partial(lax.scatter_add, dimension_numbers=POINTS, **promises)
        jaxpr = mjax.make_jaxpr(mjax.vmap(lambda x, i, u: f(x, i, u), dims))(*args)
        (eqn,) = [e for e in jaxpr.jaxpr.eqns if e.primitive is scatter_add_p]
        return eqn.params["indices_are_sorted"], eqn.params["unique_indices"]

    promises = {"indices_are_sorted": True, "unique_indices": True}
    assert params((0, None, 0), **promises) == (True, True)
    assert params((0, 0, 0), **promises) == (True, True)
    assert params((None, 0, None), **promises) == (True, True)
    assert params((1, 0, 0), **promises) == (False, True)


def test_params():
    jaxpr = mjax.make_jaxpr(lambda x, u: lax.scatter_max(x, np.zeros((1, 1), int), u, POINTS))(
        np.zeros(3), np.zeros(1))
    assert jaxpr.jaxpr.eqns[-1].primitive.name == "scatter-max"
    assert jaxpr.jaxpr.eqns[-1].params == {
        "dimension_numbers": POINTS, "indices_are_sorted": False, "unique_indices": False,
        "mode": lax.GatherScatterMode.FILL_OR_DROP}


# ---- refusals --------------------------------------------------------------------------

X, U = np.zeros((3, 4, 5), "f4"), np.zeros((2, 3, 3, 5), "f4")
INDICES = np.zeros((2, 3, 1), int)
GOOD = {"update_window_dims": (2, 3), "inserted_window_dims": (1,),
        "scatter_dims_to_operand_dims": (1,)}


@pytest.mark.parametrize(("change", "text"), [
    ({"scatter_dims_to_operand_dims": (0, 1)}, "must name one axis of the operand for each"),
    ({"scatter_dims_to_operand_dims": (3,)}, r"scatter_dims_to_operand_dims \(3,\) must be in"),
    ({"update_window_dims": (3, 2)}, r"update_window_dims \(3, 2\) must be sorted"),
    ({"update_window_dims": (2, 4)}, r"update_window_dims \(2, 4\) must be in \[0, 4\)"),
    ({"update_window_dims": (2,)}, "must have 1 window axes and the 2 batch axes"),
    ({"update_window_dims": (0, 3)}, r"windows of sizes \(2, 1, 5\)|batch axes of the updates"),
    ({"inserted_window_dims": (1, 1)}, r"inserted_window_dims \(1, 1\) must not repeat an axis"),
    ({"inserted_window_dims": ()}, "have its place in update_window_dims"),
    ({"inserted_window_dims": (2,)}, r"windows of sizes \(3, 5, 1\) must not exceed"),
    ({"operand_batching_dims": (1,), "scatter_indices_batching_dims": (0,)},
     "inserted_window_dims .* and operand_batching_dims .* no axis in common"),
    ({"operand_batching_dims": (0,), "scatter_indices_batching_dims": (0,)},
     r"\(0,\) have sizes \(3,\), those of the indices \(0,\) have sizes \(2,\)"),
])
def test_wrong_dimension_numbers(change, text):
    with pytest.raises(TypeError, match=text):
        lax.scatter_add(X, INDICES, U, Dims(**GOOD | change))


def test_wrong_operands():
    dims = Dims(**GOOD)
    with pytest.raises(TypeError, match="one dtype, got float32 and int32"):
        lax.scatter(X, INDICES, U.astype(int), dims)
    with pytest.raises(ValueError, match="scatter_indices must have an integer dtype"):
        lax.scatter(X, INDICES.astype(bool), U, dims)
    with pytest.raises(TypeError, match="scatter-add does not accept dtype bool"):
        lax.scatter_add(X.astype(bool), INDICES, U.astype(bool), dims)
    with pytest.raises(ValueError, match="scatter has no mode 'one_hot'"):
        lax.scatter(X, INDICES, U, dims, mode="one_hot")
    with pytest.raises(TypeError, match="batch axes of the updates have sizes"):
        lax.scatter(X, INDICES, np.zeros((3, 2, 3, 5), "f4"), dims)


def test_derivatives_in_empty_operands():
    """Nothing is written to them, so nothing is read for the cotangents."""
    dims = Dims(update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    x, indices, u = np.zeros(0, "f4"), np.zeros((5, 1), int), np.ones(5, "f4")
    for scatter in (lax.scatter, lax.scatter_add, lax.scatter_sub, lax.scatter_min):
        out, back = mjax.vjp(lambda x, u, scatter=scatter: scatter(x, indices, u, dims), x, u)
        assert out.shape == (0,)
        for ct, wanted in zip(back(x), (x, np.zeros(5, "f4")), strict=True):
            np.testing.assert_array_equal(ct, wanted)


def test_no_windows_larger_than_an_empty_operand():
    """The transpose of a gather that reads none."""
    dims = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,),
                                      start_index_map=(0,))
    x = np.zeros((3, 0), "f4")
    f = lambda x: lax.gather(x, np.zeros((0, 1), int), dims, (1, 4))
    out, back = mjax.vjp(f, x)
    assert out.shape == (0, 4) and back(out)[0].shape == (3, 0)
