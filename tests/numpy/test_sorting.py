"""Sorting, searching, sets, counting: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import Call, assert_same, call, check, check_derivative, leaves, table

rng = np.random.default_rng(0)
F = np.array([3, np.nan, 1, -0.0, 0, 2, 1, np.inf], np.float32)
M = rng.integers(0, 5, (3, 4)).astype(np.int32)
X = rng.normal(size=(3, 4)).astype(np.float32)
C = np.array([1j, 1, -1j, 1 + 1j, 0], np.complex64)
U = np.array([3, 1, 2, 1], np.uint8)
B = np.array([True, False, True])
EVERY = [F, M, X, C, U, B, np.array([-(2**31), 5, 5], np.int32), np.zeros(0, np.float32)]
LINE = np.array([1, 2, 2, 3], np.int32)
NANS = np.array([1, 2, np.nan, np.nan], np.float32)


def descending(a: Any, axis: int = -1, descending: bool = True) -> Any:
    return np.flip(np.sort(a, axis), axis)


SORTING = [
    *[call("sort", a, axis) for a in EVERY for axis in (-1, 0, None)],
    *[call("argsort", a, axis, reference=lambda a, axis: np.argsort(a, axis, kind="stable"))
      for a in EVERY for axis in (-1, 0, None)],
    *[call("sort", a, descending=True, reference=descending) for a in (F, M, U, B)],
    call("argsort", M, descending=True,
         reference=lambda a, descending: np.argsort(-a, -1, kind="stable")),
    call("argsort", X, dtype=np.int8, reference=lambda a, dtype: np.argsort(a).astype(dtype)),
    call("lexsort", (M[0], M[1])), call("lexsort", M), call("lexsort", [M, M % 2], axis=0),
    call("lexsort", (F, F)), call("sort_complex", M), call("sort_complex", C),
]
SEARCHING = [
    *[call("searchsorted", a, v, side, method=m, reference=lambda a, v, side, method:
           np.searchsorted(a, v, side)) for m in ("scan", "sort", "compare_all", "scan_unrolled")
      for side in ("left", "right") for a, v in (
          (LINE, np.array([[0, 2, 5], [1, 3, 4]], np.int32)),
          (NANS, np.array([np.nan, 3, 0], np.float32)),
          (np.sort(C), np.array([1 + 0.5j, 1, 3], np.complex64)),
          (np.arange(17, dtype=np.float32), np.array([-1, 0, 0.5, 8, 16, 17], np.float32)),
          (np.zeros(0, np.float32), np.ones(2, np.float32)))],
    call("searchsorted", LINE, 2.5), call("searchsorted", LINE, 2, "right"),
    call("searchsorted", U, np.arange(4), sorter=np.argsort(U)),
    *[call("digitize", np.array([0.5, 1, 2.5], np.float32), np.array(b, np.float32), right)
      for b in ([0, 1, 2], [2, 1, 0], [1], [1, 1, 1], []) for right in (False, True)],
]
SETS = [
    *[call("unique", a, return_index=True, return_inverse=True, return_counts=True, static=True)
      for a in EVERY],
    *[call("unique", M % 2, axis=axis, return_index=True, return_inverse=True,
           return_counts=True, static=True) for axis in (0, 1, -1)],
    call("unique", np.arange(12).reshape(2, 3, 2) % 4, axis=0, static=True),
    call("unique", F, equal_nan=False, static=True),
    *[call("isin", a, t, invert=i, method=m, reference=lambda a, t, invert, method:
           np.isin(a, t, invert=invert)) for m in ("auto", "sort", "compare_all", "binary_search")
      for a, t, i in ((M, np.array([1, 2]), False), (M, np.array([1, 2]), True), (F, F, False),
                      (M, np.zeros(0, np.int32), False), (X, np.arange(50), False))],
    *[call(f, a, b, static=True) for f in ("union1d", "setdiff1d", "setxor1d", "intersect1d")
      for a, b in ((M, U.astype(np.int32)), (U, np.array([9, 9], np.uint8)), (X, X[0]),
                   (M, np.zeros(0, np.int32)))],
    *[call(f"unique_{part}", a, static=True) for part in ("all", "counts", "inverse")
      for a in (F, M, U, B, F[:0])],
    *[call("unique_values", a, static=True, reference=np.unique) for a in (M, U, B, F[:0])],
    call("setdiff1d", U, U[:1], assume_unique=True, static=True),
    call("intersect1d", M, np.array([4, 0, 0, 9], np.int32), return_indices=True, static=True),
]
COUNTING = [
    call("bincount", M[0], static=True), call("bincount", M[0], X[0], static=True),
    call("bincount", M[0], minlength=9, static=True), call("bincount", B, static=True),
    call("bincount", np.zeros(0, np.int32), static=True),
    call("bincount", M[0], length=3, reference=lambda x, length: np.bincount(x)[:length]),
    *[call("histogram_bin_edges", X, b) for b in (1, 4, np.array([-1, 0, 2], np.float32))],
    call("histogram_bin_edges", np.ones(3, np.float32), 2),
    *[call("histogram", X, reference=lambda a, **kw: [
        h.astype(np.float32) for h in np.histogram(a, **kw)], **kw) for kw in (
        {}, {"bins": 3}, {"bins": np.array([-1, 0, 2], np.float32)}, {"bins": 3, "density": True},
        {"bins": 4, "range": (-1, 1)}, {"bins": 2, "weights": np.abs(X)},
        {"bins": 2, "range": (5, 9)})],
    *[call("histogram2d", X[0], X[1], reference=lambda x, y, **kw: [
        np.histogram2d(x, y, **kw)[0].astype(np.float32 if "density" in kw else np.int32),
        *[e.astype(np.float32) for e in np.histogram2d(x, y, **kw)[1:]]], **kw) for kw in (
        {}, {"bins": 2}, {"bins": [2, 3]}, {"bins": np.array([-1, 0, 1], np.float32)},
        {"bins": 2, "range": [[-1, 1], None]}, {"bins": 3, "density": True})],
    call("histogramdd", X, (2, 1, 2, 3), reference=lambda x, b: [
        np.histogramdd(x, b)[0].astype(np.int32), [
            e.astype(np.float32) for e in np.histogramdd(x, b)[1]]]),
]
ROWS = [*SORTING, *SEARCHING, *SETS, *COUNTING]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@table([call("sort", X, axis, descending=d) for axis in (-1, 0, None) for d in (False, True)])
def test_derivative(row: Call) -> None:
    check_derivative(row)


@pytest.mark.parametrize("kth", [0, 2, -1])
@pytest.mark.parametrize("axis", [0, -1])
def test_partition(kth: int, axis: int) -> None:
    out = np.moveaxis(np.asarray(jnp.partition(X, kth, axis)), axis, -1)
    places = np.asarray(jnp.argpartition(X, kth, axis))
    np.testing.assert_array_equal(np.sort(out), np.sort(np.moveaxis(X, axis, -1)))
    assert (out[..., :kth] <= out[..., kth, None]).all()
    assert (out[..., kth:] >= out[..., kth, None]).all()
    np.testing.assert_array_equal(np.take_along_axis(X, places, axis),
                                  np.asarray(jnp.partition(X, kth, axis)))


def filled(values: Any, size: int, fill: Any) -> Any:
    """Cut off or filled up to a size."""
    values = np.asarray(values)[:size]
    return np.concatenate([values, np.full(size - len(values), fill, values.dtype)])


def test_nans_of_one_array_are_one_element() -> None:
    """So are complex numbers with a NaN in any part. NaNs of two arrays differ in setxor1d."""
    nan, with_nan = np.nan, complex(1, np.nan)
    for a, b in ([[nan, 1, nan, 0], [1, 2]], [[nan, 1, nan], [nan, 2, nan]], [[], [nan, nan]],
                 [[2, with_nan, 1, complex(nan, 1)], [1]], [[with_nan, 2, nan], [3, nan]]):
        x, y = np.array(a, np.complex64), np.array(b, np.complex64)
        if not any(type(n) is complex for n in a):
            x, y = x.real, y.real
        for name in ("setxor1d", "union1d", "setdiff1d"):
            got, want = getattr(jnp, name)(x, y), getattr(np, name)(x, y)
            np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
            np.testing.assert_array_equal(got[~np.isnan(want)], want[~np.isnan(want)])


@pytest.mark.parametrize("size", [3, *[pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 7)]])
def test_sizes(size: int) -> None:
    """With a size all work under jit; they are what they are without, cut off or filled up."""
    a, b = np.array([3, 1, 1, 2, 3], np.int32), np.array([5, 3, 3, 4], np.int32)
    values, index, inverse, counts = np.unique(a, True, True, True)
    for f in (jnp.unique, mjax.jit(jnp.unique, static_argnums=(1, 2, 3), static_argnames="size")):
        outs = f(a, True, True, True, size=size)
        assert_same(outs, [filled(values, size, 1), filled(index, size, 1).astype(np.int32),
                           inverse.astype(np.int32), filled(counts, size, 0).astype(np.int32)], 0)
    for name, fill in (("union1d", 1), ("setdiff1d", 0), ("setxor1d", 1), ("intersect1d", 3)):
        ours, expected = getattr(jnp, name), getattr(np, name)(a, b)
        for f in (ours, mjax.jit(ours, static_argnames="size")):
            assert_same([f(a, b, size=size)], [filled(expected, size, fill)], 0)
            assert_same([f(a, b, size=size, fill_value=9)], [filled(expected, size, 9)], 0)
    outs = jnp.intersect1d(a, b, return_indices=True, size=size)
    for out, e, fill in zip(outs, np.intersect1d(a, b, return_indices=True), (3, 5, 4),
                            strict=True):
        np.testing.assert_array_equal(np.asarray(out), filled(e, size, fill))


def test_unique_of_rows_with_a_size() -> None:
    x = np.array([[1, 2], [1, 2], [0, 3]], np.int32)
    out = mjax.jit(lambda x: jnp.unique(x, axis=0, size=4, fill_value=9))(x)
    assert out.tolist() == [[0, 3], [1, 2], [9, 9], [9, 9]]


def test_named_results() -> None:
    for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
        ours, theirs = getattr(jnp, name)(M), getattr(np, name)(M)
        assert type(ours).__name__.lstrip("_") in ("ArrayImpl", "Array", type(theirs).__name__)
        for a, e in zip(leaves(ours), leaves(theirs), strict=True):
            np.testing.assert_array_equal(np.asarray(a), e)
        assert getattr(ours, "_fields", None) == getattr(theirs, "_fields", None)


def test_vmap() -> None:
    for f in (jnp.sort, jnp.argsort, lambda x: jnp.searchsorted(jnp.sort(x), x),
              lambda x: jnp.unique(x, size=5), lambda x: jnp.histogram(x, 3)[0],
              lambda x: jnp.isin(x, x[:2])):
        np.testing.assert_array_equal(np.asarray(mjax.vmap(f)(M)),
                                      np.stack([np.asarray(f(m)) for m in M]))


def test_x64() -> None:
    with mjax.enable_x64():
        assert jnp.argsort(X).dtype == jnp.unique(M, return_inverse=True)[1].dtype == np.int64
        assert jnp.searchsorted(LINE, 2).dtype == np.int32


CONCRETE = mjax.errors.ConcretizationTypeError
ERRORS = [
    (TypeError, "'kind' is not supported", lambda: jnp.sort(F, kind="quicksort")),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.sort(X, 2)),
    (ValueError, "axis -1 is out of bounds", lambda: jnp.sort(3)),
    (TypeError, "they have no order", lambda: jnp.sort(mjax.random.split(mjax.random.key(0)))),
    (TypeError, "keys with len > 0", lambda: jnp.lexsort([])),
    (ValueError, "same shape, got (4,), (8,)", lambda: jnp.lexsort([M[0], F])),
    (ValueError, "axis 9 is out of bounds", lambda: jnp.partition(X, 9)),
    (ValueError, "1-dimensional, got shape (3, 4)", lambda: jnp.searchsorted(M, 1)),
    (ValueError, "side must be one of left, right, got 'x'",
     lambda: jnp.searchsorted(LINE, 1, "x")),
    (ValueError, "method must be one of", lambda: jnp.searchsorted(LINE, 1, method="x")),
    (ValueError, "bins must be a 1-dimensional array", lambda: jnp.digitize(F, M)),
    (CONCRETE, "Give the argument `size`", lambda: mjax.jit(jnp.unique)(M)),
    (CONCRETE, "Give the argument `size`", lambda: mjax.jit(jnp.intersect1d)(M, M)),
    (ValueError, "give a fill_value", lambda: jnp.unique(np.zeros(0), size=2)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.unique(M, axis=2)),
    (ValueError, "isin: method must be", lambda: jnp.isin(M, M, method="x")),
    (TypeError, "x must have an integer type", lambda: jnp.bincount(F)),
    (ValueError, "only 1-dimensional", lambda: jnp.bincount(M)),
    (ValueError, "shape of the weights, (3,)", lambda: jnp.bincount(M[0], np.ones(3))),
    (CONCRETE, "argument `length`", lambda: mjax.jit(jnp.bincount)(M[0])),
    (ValueError, "same shape as a", lambda: jnp.histogram(X, weights=np.ones(3))),
    (NotImplementedError, "strategy 'auto'", lambda: jnp.histogram(X, "auto")),
    (ValueError, "one size", lambda: jnp.histogram2d(X[0], F)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
