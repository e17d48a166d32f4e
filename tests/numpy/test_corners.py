"""Values at corners: zeros with signs, infinities, NaN, subnormal numbers, ends of integers."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mjax
import mjax.numpy as jnp

INTS = (np.int8, np.uint16, np.int32)
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32)


def corners_of(dtype: Any) -> np.ndarray:
    """Numbers of a float dtype that functions take wrong."""
    info = ml_dtypes.finfo(dtype)
    numbers = [0.0, 1.0, 1.5, 3.7, 100.0, float(info.max), float(info.smallest_normal),
               float(info.smallest_normal) * 3, float(info.smallest_subnormal),
               float(info.smallest_subnormal) * 3, np.inf]
    return np.array([*numbers, *[-x for x in numbers], np.nan]).astype(dtype)


def same(ours: Any, theirs: Any, rtol: float = 0.0) -> None:
    """Equal numbers, NaN where NaN is, and the same signs of zeros."""
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.dtype.kind in "biu":
        np.testing.assert_array_equal(a, b)
        return
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=0)


def test_remainders_of_integers_by_zero() -> None:
    for dtype in INTS:
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, 1, 7], dtype)
        with np.errstate(divide="ignore"):
            for name in ("fmod", "remainder"):
                same(getattr(jnp, name)(x, dtype(0)), getattr(np, name)(x, dtype(0)))
    same(jnp.fmod(True, False), 0)


def test_ldexp_of_any_exponent() -> None:
    shifts = np.array([0, 1, 40, 127, 277, 1000, 2**31 - 1, -1, -40, -140, -277, -(2**31)])
    shifts = shifts.astype(np.int32)
    for dtype in FLOATS:
        x, n = np.meshgrid(corners_of(dtype), shifts)
        with np.errstate(all="ignore"):
            wanted = np.ldexp(x.astype(np.float64), n).astype(dtype)
        got = np.asarray(jnp.ldexp(x, n))
        # XLA may flush subnormal operands and results.
        least = float(ml_dtypes.finfo(dtype).smallest_normal)
        regular = (np.abs(x) >= least) | (x == 0) | np.isnan(x)
        regular &= (np.abs(wanted) >= least) | (wanted == 0) | np.isnan(x)
        same(got[regular], wanted[regular])
    same(jnp.ldexp(np.uint8(0), np.uint8(255)), 0.0)
    same(jnp.ldexp(1.0, np.uint32(2**32 - 1)), np.inf)


def test_anatomy_of_subnormal_numbers() -> None:
    for dtype in FLOATS:
        x = corners_of(dtype)
        for ours, theirs in zip(jnp.frexp(x), np.frexp(x), strict=True):
            same(ours, theirs)
        fraction, whole = jnp.modf(x)
        with np.errstate(invalid="ignore"):
            wanted = np.modf(x.astype(np.float32))
        regular = np.abs(x.astype(np.float32)) >= ml_dtypes.finfo(dtype).smallest_normal
        same(fraction[regular], wanted[0][regular])
        same(whole[regular], wanted[1][regular])


def test_spacing() -> None:
    for dtype in (np.float16, np.float32):
        x = corners_of(dtype)
        with np.errstate(all="ignore"):
            wanted = np.spacing(x)
        if dtype == np.float32:
            wanted[(x == 0) & np.signbit(x)] *= -1  # NumPy's is positive there, JAX's is not
        np.testing.assert_array_equal(np.asarray(jnp.spacing(x)), wanted)
    x = corners_of(ml_dtypes.bfloat16)[:8]
    same(jnp.spacing(x), np.nextafter(x, x.dtype.type(np.inf)) - x)


def test_hypot_of_subnormal_numbers() -> None:
    tiny = np.array([1e-45, -3e-45, 0.0], np.float32)
    assert not np.isnan(np.asarray(jnp.hypot(tiny[:, None], tiny))).any()


def test_close_integers() -> None:
    for dtype in INTS:
        info = np.iinfo(dtype)
        x = np.array([info.min, info.min + 1, 0, 1, info.max // 2, info.max], dtype)
        same(jnp.isclose(x[:, None], x), np.isclose(x[:, None].astype(float), x))


def test_totals_of_truth_values() -> None:
    rows = np.array([[-1, 0, 1], [0.5, -0.5, 0], [0, 2, 2], [0.0, 0.25, 0]])
    for name in ("sum", "prod", "cumsum", "cumprod", "nansum", "nancumprod"):
        same(getattr(jnp, name)(rows, axis=1, dtype=bool),
             getattr(np, name)(rows, axis=1, dtype=bool))
    same(jnp.add.reduce(rows, axis=1, dtype=bool), np.add.reduce(rows, axis=1, dtype=bool))
    same(jnp.trace(np.diag([1, -1]), dtype=bool), True)


def test_variances_of_complex_dtype() -> None:
    for name in ("var", "std", "nanvar", "nanstd"):
        out = getattr(jnp, name)(np.arange(3.0, dtype=np.float32), dtype=np.complex64)
        assert out.dtype == np.complex64
        same(out, getattr(np, name)(np.arange(3.0)), 1e-6)


def test_gradients_of_nan_variances() -> None:
    """Elements that are NaN get none, and nothing does without degrees of freedom."""
    rows = np.array([[1, np.nan, 4], [np.nan, 2, np.nan], [np.nan] * 3], np.float32)
    for ddof in (0, 1):
        grad = mjax.grad(lambda x, d=ddof: jnp.nansum(jnp.nanvar(x, axis=1, ddof=d)))(rows)
        same(grad, np.array([[-3, 0, 3], [0, 0, 0], [0, 0, 0]]) / (2 - ddof), 1e-6)


def test_complex_sums_in_logs_have_principal_angles() -> None:
    x, y = np.complex64(1 + 9j), np.complex64(0.5 + 8.5j)
    same(jnp.logaddexp(x, y), np.log(np.exp(x) + np.exp(y)), 1e-5)
    log2 = np.log(2)
    same(jnp.logaddexp2(x, y), np.log(np.exp(x * log2) + np.exp(y * log2)) / log2, 1e-5)
    tangent = mjax.jvp(lambda z: jnp.logaddexp(z, y), (x,), (np.complex64(1),))[1]
    same(tangent, np.exp(x) / (np.exp(x) + np.exp(y)), 1e-5)


def test_complex_functions_on_the_axes() -> None:
    parts = [0.0, -0.0, 1.0, -2.5, 1e-30, np.inf, -np.inf]
    z = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {"sin": np.sin(z), "cos": np.cos(z), "log2": np.log(z), "log10": np.log(z)}
    for name, base in (("sin", 1), ("cos", 1), ("log2", np.log(2)), ("log10", np.log(10))):
        ours, theirs = np.asarray(getattr(jnp, name)(z)), wanted[name]
        for a, b in ((ours.real, theirs.real / base), (ours.imag, theirs.imag / base)):
            known = ~np.isnan(b) & (np.isfinite(z.real) | (name[0] == "l"))
            np.testing.assert_allclose(a[known], b[known], rtol=2e-6, err_msg=name)
    same(jnp.square(np.complex64(1e30 + 1e30j)), complex(0, np.inf))
    same(jnp.square(np.complex64(3 - 2j)), 5 - 12j)


def test_division_by_a_polynomial_that_is_zero() -> None:
    with np.errstate(all="ignore"):
        wanted = np.polydiv(np.array([1.0, 2, 3]), np.array([0.0, 0]))
    quotient, rest = jnp.polydiv(np.array([1.0, 2, 3]), np.array([0.0, 0]))
    same(quotient, wanted[0])
    assert np.isnan(np.asarray(rest)).all()
    quotient, rest = jnp.polydiv(np.array([1.0, 2, 4]), np.array([3.0, 1]))
    same(jnp.polyadd(jnp.polymul(quotient, np.array([3.0, 1])), rest), [1, 2, 4], 1e-6)
    assert rest[0] == rest[1] == 0
    assert [x.shape for x in jnp.polydiv(np.zeros(0), np.ones(2))] == [(1,), (0,)]


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_gradients_of_narrow_floats_are_rounded_once(dtype: Any) -> None:
    x = np.array([0, 0.1, 0.25, 0.3, 0.7, 1]).astype(dtype)
    f = np.sin(3 * x.astype(np.float64)).astype(dtype)
    for h in (x, np.asarray(0.3, dtype)):
        exact = np.gradient(f.astype(np.float64), np.asarray(h, np.float64))
        got = np.asarray(jnp.gradient(f, h))
        assert got.dtype == dtype
        same(got, exact, float(ml_dtypes.finfo(dtype).eps) / 2 * 1.01)


def test_quantiles_at_no_number() -> None:
    x = np.array([1.0, 2.0, 4.0], np.float32)
    for name, method in (("quantile", "linear"), ("nanquantile", "higher"),
                         ("percentile", "nearest")):
        out = getattr(jnp, name)(x, np.array([np.nan, np.inf, -np.inf, 0.0]), method=method)
        same(out, [np.nan, np.nan, np.nan, 1.0])


@pytest.mark.parametrize("name", ["transpose", "ravel", "squeeze", "clip", "round", "trunc",
                                  "atleast_1d", "flip", "nan_to_num"])
def test_functions_give_arrays_where_they_change_nothing(name):
    """Under a transformation too, of NumPy arrays that are none of its arguments."""
    kinds = []

    def f(x):
        kinds.append(type(getattr(jnp, name)(np.arange(3))))
        return x

    mjax.jvp(f, (1.0,), (1.0,))
    mjax.vmap(f)(np.ones(2))
    assert all(issubclass(kind, mjax.Array) for kind in kinds)
