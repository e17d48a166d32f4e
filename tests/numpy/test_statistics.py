"""Reductions, statistics, quantiles, with and without NaN: over dtypes, shapes and axes."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mjax.numpy as jnp
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
SHAPES = ((), (1,), (5,), (3, 4), (2, 3, 2))
EMPTY = ((0,), (2, 0), (0, 3))
DTYPES = ("float32", "int32", "uint8", "bool", "complex64")


def numbers(shape: tuple[int, ...], dtype: str, nan: bool = False) -> np.ndarray:
    """Numbers of a dtype, some of them NaN where that is asked for and there is one."""
    x = np.asarray(rng.normal(size=shape) * 3)
    if dtype == "complex64":
        x = x + 1j * rng.normal(size=shape)
    x = np.asarray(x > 0 if dtype == "bool" else np.abs(x) if dtype[0] == "u" else x).astype(dtype)
    if nan and x.dtype.kind in "fc":
        x = np.where(rng.random(shape) < 0.3, np.nan, x).astype(dtype)
    return x


def reference(name: str, own: str | None = None) -> Callable[..., Any]:
    """NumPy's function, in 64 bits and without warnings, as what it gives here.

    Args:
      name: the function.
      own: "dtype": results have the dtype of the elements; "float": that, or float32.
    """

    def compute(a: Any, *args: Any, **kwargs: Any) -> Any:
        wide = a.astype(np.result_type(a, np.float64)) if a.dtype.kind in "fc" else a
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            out = np.asarray(getattr(np, name)(wide, *args, **kwargs))
        dtype = a.dtype if own == "dtype" or a.dtype.kind in "fc" else out.dtype
        if own == "float":
            dtype = a.dtype if a.dtype.kind in "fc" else np.dtype(np.float32)
        if a.dtype.kind == "c" and out.dtype.kind == "f":
            dtype = np.dtype(np.float32)
        if out.dtype.kind in "biu" and own is None:
            dtype = out.dtype
        return out.astype(dtype)

    return compute


def rows(name: str, dtypes: Any, shapes: Any, axes: Any = (None, 0, -1), own: str | None = None,
         nan: bool = False, **kwargs: Any) -> list[Call]:
    """A row for each shape and axis that the shape has, in floats; fewer in other dtypes."""
    return [call(name, numbers(shape, dtype, nan), axis=axis, reference=reference(name, own),
                 tolerance=1e-4, derivative=not nan and bool(np.prod(shape)), **kwargs)
            for dtype in dtypes for shape in shapes for axis in axes
            if dtype == "float32" or shape in ((), (3, 4), (2, 0))
            if axis is None or (shape and (not isinstance(axis, tuple) or len(shape) > 1))]


REAL = ("float32", "int32", "uint8", "bool")
SUMS = [
    *[r for name in ("sum", "prod", "mean", "all", "any") for r in rows(
        name, DTYPES, (*SHAPES, *EMPTY), (None, 0, (0, 1)))],
    *[r for name in ("max", "min", "median", "ptp") for r in rows(
        name, REAL[: 3 if name == "ptp" else 4], SHAPES,
        own="float" if name == "median" else "dtype")],
    *[r for name in ("max", "min") for r in rows(name, REAL, ((0, 3),), (1,), own="dtype",
                                                 initial=1)],
    *[r for name in ("var", "std") for r in rows(name, DTYPES, SHAPES, (None, -1), own="float")],
    *[r for name in ("var", "std") for r in rows(name, ("float32", "int32"), ((3, 4), (1,)), (0,),
                                                 own="float", ddof=1)],
    *[r for name in ("argmax", "argmin") for r in rows(name, REAL, SHAPES)],
    *[r for name in ("cumsum", "cumprod") for r in rows(
        name, ("float32", "int32", "complex64"), (*SHAPES, *EMPTY), own="dtype")],
    *[r for name in ("amax", "amin") for r in rows(name, ("float32",), ((3, 4),))],
    *[r for r in rows("count_nonzero", DTYPES, (*SHAPES, *EMPTY))],
]
NANS = [
    *[r for name in ("nansum", "nanprod") for r in rows(
        name, DTYPES, (*SHAPES, *EMPTY), (None, 0, (0, 1)), nan=True)],
    *[r for name in ("nanmean", "nanvar", "nanstd") for r in rows(
        name, ("float32", "int32", "complex64"), SHAPES, own="float", nan=True)],
    *[r for name in ("nanmax", "nanmin") for r in rows(name, REAL, SHAPES, own="dtype", nan=True)],
    *[r for name in ("nanmedian",) for r in rows(name, REAL, SHAPES, own="float", nan=True)],
    *[r for name in ("nancumsum", "nancumprod") for r in rows(
        name, ("float32", "int32"), (*SHAPES, *EMPTY), own="dtype", nan=True)],
    *[call(name, x, axis=1) for name in ("nanargmax", "nanargmin")
      for x in (np.array([[1, np.nan, 3], [np.nan, 0, -1]], np.float32),
                np.array([[1, 5], [7, 2]]))],
    *[r for name in ("nanvar", "nanstd") for r in rows(
        name, ("float32",), ((3, 4),), (0,), own="float", nan=True, ddof=1, keepdims=True)],
    *[call(name, np.float32([1, np.nan, 3]), where=np.array([True, True, False]), initial=2.0)
      for name in ("nansum", "nanprod", "nanmax", "nanmin")],
    call("nanmean", np.float32([1, np.nan, 3]), where=np.array([True, True, False])),
]
Q = np.array([0.25, 0.45, 0.9], np.float32)
QUANTILES = [
    *[r for q in (0.3, 0.0, 1.0) for r in rows("quantile", REAL[:3], SHAPES, own="float", q=q)],
    *[r for r in rows("nanquantile", REAL[:2], SHAPES, own="float", nan=True, q=0.4)],
    *[r for r in rows("percentile", REAL[:2], SHAPES, own="float", q=30)],
    *[r for r in rows("nanpercentile", REAL[:2], SHAPES, own="float", nan=True, q=60)],
    *[call("quantile", numbers((3, 4), "float32"), Q, axis=axis, method=method, keepdims=True,
           reference=reference("quantile"), tolerance=1e-4, derivative=False)
      for axis in (None, 0, (0, 1)) for method in (
          "linear", "lower", "higher", "midpoint", "nearest")],
]
COVARIANCES = [
    *[call(name, numbers((3, 5), dtype), reference=reference(name, "float"), tolerance=1e-4, **kw)
      for name in ("cov", "corrcoef") for dtype in ("float32", "int32", "complex64")
      for kw in ({}, {"rowvar": False})],
    *[call("cov", numbers((2, 5), "float32"), **kw) for kw in (
        {"bias": True}, {"ddof": 0}, {"fweights": np.array([1, 2, 0, 1, 3])},
        {"aweights": np.float32([1, 2, 0.5, 1, 3])}, {"y": numbers((5,), "float32")})],
    *[call("average", numbers((3, 4), dtype), axis=axis, reference=reference("average", "float"))
      for dtype in ("float32", "int32", "complex64") for axis in (None, 0, (0, 1))],
    call("average", numbers((3, 4), "float32"), 1, np.float32([1, 2, 0, 5]), returned=True),
]
ROWS = [*SUMS, *NANS, *QUANTILES, *COVARIANCES]


@pytest.mark.slow
@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


#: At corners of functions one number decides, and finite differences are wrong. So they are for the
#: variance of one number, which is NaN or 0 whatever it is.
CORNERS = ("max", "min", "amax", "amin", "ptp", "median", "quantile", "percentile", "corrcoef")


@pytest.mark.slow
@table([r for r in differentiable(ROWS) if r.name not in CORNERS
        and not (r.name in ("std", "var") and r.arrays()[0].size == 1)])
def test_derivative(row: Call) -> None:
    check_derivative(row)


@pytest.mark.parametrize("name", ["mean", "var", "std", "nanmean", "nanvar", "nanstd"])
def test_statistics_of_nothing_are_nan(name: str) -> None:
    for axis, shape in ((None, ()), (0, (3,))):
        out = getattr(jnp, name)(jnp.zeros((0, 3)), axis=axis)
        assert out.shape == shape and np.isnan(np.asarray(out)).all()
    assert getattr(jnp, name)(jnp.zeros((0, 3)), axis=1).shape == (0,)


def test_covariance_of_too_few_is_nan() -> None:
    for x in (np.zeros((2, 0), np.float32), np.float32([[1], [2]])):
        assert np.isnan(np.asarray(jnp.cov(x))).all()
        assert np.isnan(np.asarray(jnp.cov(x, aweights=np.ones(x.shape[1])))).all()
    assert np.isnan(jnp.cov(np.zeros(0, np.float32)))
    assert np.isinf(np.asarray(jnp.cov(np.float32([[1, 2], [2, 1]]), ddof=3))).all()


@pytest.mark.parametrize("name", ["cov", "corrcoef"])
def test_covariances_of_no_variables_beside_others(name: str) -> None:
    assert getattr(jnp, name)(jnp.zeros((0, 2)), jnp.ones((3, 2))).shape == np.cov(
        np.zeros((0, 2)), np.ones((3, 2))).shape == (0, 0)


def test_totals_of_nothing() -> None:
    for name, identity in (("sum", 0), ("prod", 1), ("all", True), ("any", False),
                           ("nansum", 0), ("nanprod", 1)):
        assert getattr(jnp, name)(jnp.zeros((2, 0))) == identity
    assert jnp.cumsum(jnp.zeros((2, 0)), axis=1).shape == (2, 0)
    assert jnp.median(jnp.zeros((0, 3)), axis=1).shape == (0,)


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanmedian", "nanmean", "nanquantile"])
def test_rows_of_nan_alone(name: str) -> None:
    x = np.float32([[np.nan, np.nan], [1, np.nan]])
    out = np.asarray(getattr(jnp, name)(x, *((0.5,) if "quantile" in name else ()), axis=1))
    np.testing.assert_array_equal(out, [np.nan, 1])


X = numbers((3, 4), "float32")
ERRORS = [
    (ValueError, "axis 2 is out of bounds", lambda name: getattr(jnp, name)(X, axis=2)),
    (TypeError, "requires ndarray or scalar arguments, got <class 'list'>",
     lambda name: getattr(jnp, name)([1.0, 2.0])),
]
NAMES = ("sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "cumsum", "ptp",
         "median", "count_nonzero", "nansum", "nanmax", "nanmean", "nanstd", "nanargmin",
         "nancumsum", "nanmedian", "average")


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=["axis", "list"])
@pytest.mark.parametrize("name", NAMES)
def test_what_all_refuse(name: str, error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use(name)


@pytest.mark.parametrize(("error", "text", "use"), [
    (ValueError, "zero-size array", lambda: jnp.nanmax(jnp.zeros(0))),
    (ValueError, "empty", lambda: jnp.nanargmax(jnp.zeros(0))),
    (ValueError, "no elements", lambda: jnp.nanmedian(jnp.zeros(0))),
    (ValueError, "no elements", lambda: jnp.percentile(jnp.zeros(0), 3)),
    (NotImplementedError, "'out' is not supported", lambda: jnp.nansum(X, out=X)),
    (NotImplementedError, "'out' is not supported", lambda: jnp.nanmean(X, out=X)),
    (ValueError, "'best'", lambda: jnp.percentile(X, 3, method="best")),
    (ValueError, "two axes", lambda: jnp.corrcoef(X[None])),
    (ValueError, "weights of shape (3,)", lambda: jnp.average(X, weights=np.ones(3))),
    (TypeError, "quantile requires ndarray", lambda: jnp.quantile(X, [0.1])),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


def test_deviations_are_no_ints() -> None:
    for f in (jnp.std, jnp.nanstd):
        with pytest.raises(ValueError, match="dtype must be a float or complex one, got int32"):
            f(jnp.arange(3), dtype=int)
        assert f(jnp.arange(3), dtype=complex) == np.float32(np.sqrt(2 / 3))


def test_weights_of_observations() -> None:
    x = np.float32([[0, 1, 4], [9, 16, 25]])
    np.testing.assert_allclose(np.asarray(jnp.cov(x, aweights=np.float32([-1, 2, -0.5]))),
                               np.cov(x, aweights=[1, 2, 0.5]), rtol=1e-5)
    assert jnp.cov(x.astype(jnp.bfloat16), aweights=x[0]).dtype == np.float32
    assert jnp.cov(x.astype(jnp.bfloat16), fweights=np.array([1, 2, 3])).dtype == jnp.bfloat16
    for error, text, weights in (
            (RuntimeError, r"fweights of shape \(2,\)", {"fweights": np.array([1, 2])}),
            (RuntimeError, r"aweights of shape \(1, 3\)", {"aweights": np.ones((1, 3))}),
            (TypeError, "fweights must be integers", {"fweights": x[0]})):
        with pytest.raises(error, match=text):
            jnp.cov(x, **weights)


def test_sums_of_16_bit_floats_keep_their_digits() -> None:
    """A sum in bfloat16 ends at 256, since 256 + 1 is 256."""
    x = np.random.default_rng(0).uniform(0.5, 1.5, (60, 90))
    a = jnp.asarray(x, jnp.bfloat16)
    x = np.asarray(a, np.float64)
    for out, wanted in (
            (jnp.linalg.norm(a), np.linalg.norm(x)),
            (jnp.linalg.vector_norm(a, ord=1), x.sum()), (jnp.linalg.vector_norm(a, ord=0), x.size),
            (jnp.linalg.vector_norm(a, ord=3), (x**3).sum() ** (1 / 3)),
            (jnp.linalg.norm(a, 1), np.linalg.norm(x, 1)),
            (jnp.einsum("ij->", a), x.sum()),
            (jnp.trapezoid(a, axis=0), (x[1:] + x[:-1]).sum(0) / 2),
            (jnp.bincount(jnp.zeros(5400, int), a.ravel()), x.sum()),
            (jnp.cov(a.ravel()), np.cov(x.ravel())),
            (jnp.histogram(a, 1)[0], x.size), (jnp.histogram(a, 1, density=True)[0], 1)):
        assert out.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.asarray(out, np.float64), wanted, 8e-3)
    assert jnp.linalg.norm(jnp.full(4, 300, jnp.float16)) == 600


def test_products_of_float16_do_not_overflow() -> None:
    x = np.float16([300, -200, 100, 0])
    wide = x.astype(np.float64)
    for out, wanted in (
            (jnp.average(x, weights=abs(x)), np.average(wide, weights=abs(wide))),
            (jnp.cov(x), np.cov(wide)),
            (jnp.corrcoef(x, x[::-1])[0, 1], np.corrcoef(wide, wide[::-1])[0, 1]),
            (jnp.median(200 * x[[0, 0]]), 60000), (jnp.nanmedian(200 * x[[0, 0]]), 60000)):
        assert out.dtype == np.float16
        np.testing.assert_allclose(float(out), wanted, 1e-3)
    # The mean of 10 and 10.0625 is not a bfloat16.
    assert jnp.cov(jnp.array([10, 10.0625], jnp.bfloat16), bias=True) == 2.0**-10
