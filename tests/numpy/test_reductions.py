"""Reductions: values against NumPy over axes, masks and dtypes; what is refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.marks import some

X = np.array([[[1.5, -2.0, 0.0], [3.0, 3.0, -1.0]], [[0.5, 2.5, 7.0], [-4.0, 1.0, 2.0]]],
             np.float32)
N = np.where(X > 2, np.nan, X).astype(np.float32)
MASK = X > 0
AXES = [None, 0, -1, (0, 2), (), (2, 1, 0)]


def close(ours: Any, theirs: Any, rtol: float = 2e-5) -> None:
    theirs = np.asarray(theirs)
    assert isinstance(ours, mjax.Array)
    assert ours.shape == theirs.shape
    assert ours.dtype.kind == theirs.dtype.kind
    np.testing.assert_allclose(np.asarray(ours).astype(theirs.dtype), theirs, rtol=rtol, atol=1e-6)


def numpy(name: str, *args: Any, **options: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # mean of empty slice and its like
        return getattr(np, name)(*args, **options)


def compare(name: str, x: np.ndarray, **options: Any) -> None:
    close(getattr(jnp, name)(jnp.array(x), **options), numpy(name, x, **options))


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "mean", "var", "std",
                                  "ptp", "median", "count_nonzero"])
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(name: str, keepdims: bool) -> None:
    for axis in AXES:
        if name in ("median", "count_nonzero") and axis == ():
            continue
        compare(name, X, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", some(["nanmax", "nansum", "nanvar", "nanmin", "nanmedian",
                                       "nanprod", "nanmean", "nanstd"], 2))
def test_axes_without_nan(name: str) -> None:
    for axis in (None, 0, -1, (0, 2)):
        compare(name, N, axis=axis)
        compare(name, N, axis=axis, keepdims=True)
    compare(name, np.array([[np.nan, np.nan], [1.0, np.nan]], np.float32), axis=1)
    compare(name, X.astype(np.int32), axis=1)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any"])
def test_masks(name: str) -> None:
    extra = {"initial": 1.0} if name in ("max", "min") else {}
    for axis in (None, 1, (0, 2)):
        compare(name, X, axis=axis, where=MASK, **extra)
        compare(name, X, axis=axis, where=MASK[0, :1], **extra)
    if name in ("sum", "prod", "max", "min"):
        compare(name, X, axis=1, initial=2.0)
        compare(name, np.zeros((2, 0), np.float32), axis=1, initial=2.0)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "nansum", "nanprod",
                                  "nanmax", "nanmin", "nanmean"])
def test_masks_of_more_axes_stretch_the_array_and_axes_stay_its_own(name: str) -> None:
    f, extra = getattr(jnp, name), {"initial": 1.0} if name.endswith(("max", "min")) else {}
    x, mask = X[0], np.stack([MASK[0], MASK[1], ~MASK[0]])
    whole = np.broadcast_to(x, mask.shape)
    for axis, of_all in ((None, (0, 1)), (-1, 1), (0, 0)):
        for keepdims in (False, True):
            options = {"where": mask, "keepdims": keepdims, **extra}
            close(f(x, axis=axis, **options), numpy(name, whole, axis=of_all, **options))
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        f(x, axis=2, where=mask, **extra)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_masks_of_means_have_the_shape_of_the_array(name: str) -> None:
    for x, mask in ((X[0], MASK), (X[:1], MASK), (X[0, 0, 0], MASK[0])):
        with pytest.raises(ValueError, match=f"{name}: where of shape .* must broadcast to"):
            getattr(jnp, name)(x, where=mask)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "all", "any", "nansum", "count_nonzero"])
def test_no_elements(name: str) -> None:
    compare(name, np.zeros((0, 3), np.float32))
    compare(name, np.zeros((2, 0, 3), np.float32), axis=1)
    compare(name, np.zeros((2, 0, 3), np.float32), axis=0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "float16", "complex64"])
def test_dtypes(dtype: str) -> None:
    x = X.astype(dtype)
    for name in ("sum", "prod", "mean", "max", "min", "var", "all"):
        ours = getattr(jnp, name)(jnp.array(x), axis=1)
        close(ours, numpy(name, x, axis=1), rtol=2e-3 if dtype == "float16" else 2e-5)
    assert jnp.sum(jnp.array(x), dtype="float32").dtype == np.float32


def test_narrow_integers() -> None:
    x = np.array([100, 100], np.int8)
    assert jnp.sum(x) == 200 and jnp.sum(x).dtype == np.int32
    assert jnp.sum(x, promote_integers=False) == -56
    assert jnp.cumsum(x).dtype == np.int8  # as in JAX; NumPy takes the default int
    assert jnp.cumulative_sum(x).dtype == np.int32


def test_sums_of_16_bits_are_computed_in_32() -> None:
    ones = jnp.ones(70_000, jnp.float16)
    assert jnp.isinf(jnp.sum(ones)) and jnp.mean(ones) == 1
    assert jnp.sum(jnp.full(4096, 0.5, jnp.bfloat16)) == 2048
    assert jnp.var(jnp.full(70_000, 3, jnp.float16)) == 0


def test_results_are_strongly_typed() -> None:
    assert not jnp.sum(1.0).weak_type and not jnp.max(2).weak_type and not jnp.mean(3).weak_type
    assert jnp.sum(1.0) == 1.0


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions(name: str) -> None:
    for axis in (None, 0, 1, -1):
        compare(name, X, axis=axis)
        compare(name, X, axis=axis, keepdims=True)
    compare(name, np.array([1.0, np.nan, 3.0, np.nan], np.float32))
    compare(name, np.array([3, 1, 3, 1]))
    compare("nan" + name, np.array([[1.0, np.nan, 3.0], [np.nan, 0.0, -1.0]], np.float32), axis=1)
    assert getattr(jnp, "nan" + name)(np.array([np.nan, np.nan])) == -1
    with pytest.raises(ValueError, match="empty"):
        getattr(jnp, name)(jnp.zeros((2, 0)), axis=1)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_running_totals(name: str) -> None:
    x = N if "nan" in name else X
    for axis in (None, 0, 2, -2):
        compare(name, x, axis=axis)
    close(getattr(jnp, name)(jnp.array([True, True])), np.array([1, 2 if "sum" in name else 1]))


def test_cumulative_with_initial() -> None:
    for name in ("cumulative_sum", "cumulative_prod"):
        close(getattr(jnp, name)(X, axis=1, include_initial=True),
              np.concatenate([np.full((2, 1, 3), float("prod" in name), np.float32),
                              numpy(name.replace("ulative_", ""), X, axis=1)], 1))
        with pytest.raises(ValueError, match="axis must be given"):
            getattr(jnp, name)(X)
        with pytest.raises(ValueError, match="scalar"):
            getattr(jnp, name)(1.0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int4", "bool"])
def test_cumulative_products_stay_in_narrow_dtypes(dtype: str) -> None:
    out = jnp.cumulative_prod(jnp.array([1, 3, 3], dtype))
    assert out.dtype == ("int32" if dtype == "bool" else dtype)
    sums = jnp.cumulative_sum(jnp.array([1, 3, 3], dtype))
    assert sums.dtype == ("uint32" if dtype == "uint8" else "int32")
    if dtype == "uint8":
        np.testing.assert_array_equal(jnp.cumulative_prod(jnp.array([200, 2], dtype)),
                                      np.cumprod(np.array([200, 2]), dtype=dtype))


# ---- statistics ------------------------------------------------------------------------


def test_variance() -> None:
    for options in ({"ddof": 1}, {"axis": 1, "ddof": 1}, {"axis": (0, 1), "ddof": 2}):
        compare("var", X, **options)
        compare("std", X, **options)
    close(jnp.var(X, correction=1), np.var(X, ddof=1))
    close(jnp.var(X, axis=1, mean=np.mean(X, axis=1, keepdims=True)), np.var(X, axis=1))
    compare("var", X + 1j * X[::-1], axis=0)
    assert jnp.isnan(jnp.var(jnp.array([1.0]), ddof=1))
    np.testing.assert_allclose(mjax.jit(lambda d: jnp.var(X, ddof=d))(1), np.var(X, ddof=1),
                               rtol=1e-6)
    with pytest.raises(ValueError, match="either ddof or correction"):
        jnp.var(X, ddof=1, correction=1)
    # Far from zero, differences of squares would lose all digits.
    far = jnp.array([10_000.25, 10_000.75])
    assert jnp.var(far) == 0.0625


def test_average() -> None:
    weights = np.abs(X) + 1
    for axis in (None, 0, (0, 2)):
        for ours, theirs in zip(jnp.average(X, axis, weights, returned=True),
                                np.average(X, axis, weights, returned=True), strict=True):
            close(ours, theirs.astype(np.float32))
    close(jnp.average(X, 1, np.float32([1, 3])), np.average(X, 1, np.float32([1, 3])))
    close(jnp.average(X), np.average(X))
    with pytest.raises(ValueError, match=r"weights of shape \(2,\).*\(2, 2, 3\).*axis"):
        jnp.average(X, weights=np.ones(2))
    with pytest.raises(ValueError, match="sizes of axes"):
        jnp.average(X, axis=2, weights=np.ones(2))


def test_covariance() -> None:
    m = X[0].astype(np.float64)
    counts = np.array([1, 2, 3])
    for options in ({}, {"bias": True}, {"ddof": 0}, {"rowvar": False}, {"fweights": counts},
                    {"aweights": counts * 0.5}, {"fweights": counts, "aweights": counts * 0.5}):
        np.testing.assert_allclose(jnp.cov(m, **options), np.cov(m, **options), rtol=1e-5)
    np.testing.assert_allclose(jnp.cov(m, X[1, 0]), np.cov(m, X[1, 0]), rtol=1e-5)
    np.testing.assert_allclose(jnp.cov(m[0]), np.cov(m[0]), rtol=1e-5)
    np.testing.assert_allclose(jnp.corrcoef(m), np.corrcoef(m), rtol=1e-5)
    z = m + 1j * m[::-1]
    np.testing.assert_allclose(jnp.cov(z), np.cov(z), rtol=1e-5)
    np.testing.assert_allclose(jnp.corrcoef(z), np.corrcoef(z), rtol=1e-5)
    assert jnp.corrcoef(m[0]) == 1
    with pytest.raises(ValueError, match=r"two axes, got shape \(2, 2, 3\)"):
        jnp.cov(X)


@pytest.mark.parametrize("method", ["linear", *[
    pytest.param(method, marks=pytest.mark.slow) for method in ("lower", "higher", "midpoint")]])
def test_quantiles(method: str) -> None:
    for q in (0.3, 0.0, 1.0, np.array([0.2, 0.77])):
        for axis in (None, 1, (0, 2)):
            compare_quantile("quantile", X, q, axis, method)
    compare_quantile("percentile", X, 30, 1, method)
    compare_quantile("nanquantile", N, np.array([0.3, 0.6]), 2, method)
    compare_quantile("nanpercentile", N, 60, None, method)


def compare_quantile(name: str, x: Any, q: Any, axis: Any, method: str) -> None:
    for keepdims in (False, True):
        options = {"axis": axis, "method": method, "keepdims": keepdims}
        close(getattr(jnp, name)(x, q, **options),
              np.float32(numpy(name, x.astype(np.float64), q, **options)), rtol=1e-4)


def test_gradients_of_quantiles_at_ties() -> None:
    """That of a mixture of neighbours, also where they are equal: the mean of both sides'."""
    x = np.float32([0.125, 0.625, 0.125])
    for q, expected in ((0.0, (1, 0, 0)), (0.3, (0.4, 0, 0.6)), (0.7, (0, 0.4, 0.6))):
        close(mjax.grad(jnp.quantile)(x, q), np.float32(expected))
        close(mjax.grad(jnp.nanquantile)(x, q), np.float32(expected))
    infinite = np.float32([np.inf, np.inf, 1])
    close(mjax.grad(jnp.quantile)(infinite, 0.7), np.float32([0.6, 0.4, 0]))
    for number in (0.1, 0.7, 1 / 3):  # no rounding
        assert jnp.quantile(np.full(3, number, np.float32), 0.3) == np.float32(number)


def test_quantiles_of_special_values() -> None:
    assert jnp.isnan(jnp.median(N))
    close(jnp.median(jnp.array([np.inf, 1.0, 2.0])), np.float32(2.0))
    close(jnp.quantile(jnp.array([np.inf, np.inf, 1.0]), 0.7), np.float32(np.inf))
    close(jnp.median(jnp.array([3, 1, 2, 4])), np.float32(2.5))
    assert jnp.median(jnp.array([1, 2], jnp.bfloat16)).dtype == jnp.bfloat16
    assert jnp.quantile(jnp.array([0.0, 1.0, 2.0]), 0.25, method="nearest") == 0.0
    np.testing.assert_array_equal(mjax.grad(jnp.median)(jnp.array([3.0, 1, 2, 5])),
                                  [0.5, 0, 0.5, 0])
    for call, text in ((lambda: jnp.median(jnp.zeros(0)), "no elements"),
                       (lambda: jnp.median(jnp.array([1j])), "complex"),
                       (lambda: jnp.quantile(X, 0.5, method="best"), "'best'"),
                       (lambda: jnp.quantile(X, np.ones((2, 2))), r"\(2, 2\)")):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(NotImplementedError, match="weights"):
        jnp.quantile(X, 0.5, weights=X)


# ---- transformations, errors -----------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "max", "mean", "var", "argmax", "cumsum", "median", "all"])
def test_under_jit_and_vmap(name: str) -> None:
    f = getattr(jnp, name)
    close(mjax.jit(f, static_argnames="axis")(X, axis=1), numpy(name, X, axis=1))
    close(mjax.vmap(f)(X), np.stack([numpy(name, x) for x in X]))
    close(mjax.vmap(lambda x: f(x, axis=0), in_axes=2, out_axes=-1)(X),
          np.stack([numpy(name, X[:, :, i], axis=0) for i in range(3)], -1))


def test_derivatives() -> None:
    np.testing.assert_array_equal(mjax.grad(lambda x: jnp.sum(x, where=MASK))(X), MASK)
    np.testing.assert_allclose(mjax.grad(jnp.mean)(X), np.full(X.shape, 1 / 12), rtol=1e-6)
    np.testing.assert_allclose(mjax.grad(jnp.var)(X), 2 * (X - X.mean()) / 12, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(mjax.grad(jnp.max)(jnp.array([1.0, 3.0, 3.0])), [0, 0.5, 0.5])
    np.testing.assert_array_equal(mjax.grad(jnp.nansum)(jnp.array([1.0, np.nan])), [1, 0])


def test_refused() -> None:
    for call, error, text in (
            (lambda: jnp.sum(X, axis=3), ValueError, "axis 3 is out of bounds"),
            *[(lambda f=f: f(X, axis="a"), TypeError, "must be an integer, got 'a' .* collectives")
              for f in (jnp.sum, jnp.all, jnp.mean, jnp.argmax, jnp.cumsum)],
            (lambda: jnp.sum(X, axis=1.5), TypeError, "must be an integer, got 1.5 of type float"),
            (lambda: jnp.sum(X, axis=(0, 0)), ValueError, "duplicate"),
            (lambda: jnp.sum(X, axis=1.0), TypeError, "integer"),
            (lambda: jnp.sum(X, out=X), NotImplementedError, "'out' is not supported"),
            (lambda: jnp.max(jnp.zeros((0,))), ValueError, "no identity"),
            (lambda: jnp.max(X, where=MASK), ValueError, "initial"),
            (lambda: jnp.sum([1, 2]), TypeError, "asarray"),
            (lambda: jnp.ptp(jnp.array([True])), TypeError, "bool"),
            (lambda: mjax.jit(jnp.sum)(X, 1), TypeError, "static")):
        with pytest.raises(error, match=text):
            call()


def test_axes_in_any_form() -> None:
    for axis in ([0, 1], np.int64(1), jnp.array(1)):
        assert jnp.sum(jnp.array(X), axis=axis).shape == np.sum(X, axis=tuple(axis) if isinstance(
            axis, list) else int(axis)).shape


@pytest.mark.parametrize("name", [
    "sum", "prod", "max", "min", "all", "any", "mean", "var", "std", "nansum", "nanprod",
    "nanmax", "nanmin", "nanmean", "nanvar", "nanstd"])
def test_masks_are_boolean(name: str) -> None:
    f = getattr(jnp, name)
    options = {"initial": 1.0} if name.endswith(("max", "min")) else {}
    mask = np.array([1, 0, 1])
    with pytest.raises(ValueError, match=r"where must be .* boolean array, got dtype int"):
        f(jnp.ones(3), where=mask, **options)
    assert f(jnp.ones(3), where=mask == 1, **options) == getattr(np, name)(
        np.ones(3), where=mask == 1, **options)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "nansum", "nanprod", "nanmax",
                                  "nanmin"])
def test_initial_values_are_scalars(name: str) -> None:
    with pytest.raises(ValueError, match=r"initial must be a scalar, got .* shape \(1,\)"):
        getattr(jnp, name)(jnp.ones(3), initial=jnp.ones(1))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_running_totals_of_scalars_are_along_their_one_axis(name: str) -> None:
    f = getattr(jnp, name)
    for axis in (1, -2):
        with pytest.raises(ValueError, match=f"axis {axis} is out of bounds"):
            f(2.0, axis)
    for axis in (None, 0, -1):
        assert f(2.0, axis).shape == (1,)
