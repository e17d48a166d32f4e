"""Functions of whole arrays give the values of JAX's, for every kind of dtype and short arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_equal_results

DTYPES = ("bool", "uint8", "int32", "bfloat16", "float32", "complex64", "int64", "complex128",
          "float64")
VECTORS = ((0,), (1,), (5,))


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.integers(-8, 9, shape) / 4 + 0.125
    if dtype.startswith("complex"):
        return (values + 1j * rng.integers(-8, 9, shape) / 4).astype(dtype)
    if dtype in ("bool", "uint8", "int32", "int64"):
        return rng.integers(0, 5, shape).astype(dtype)
    return values.astype(getattr(ml_dtypes, dtype, dtype))


def ordered(x: Any) -> Any:
    return np.sort(np.real(x))


#: Of (numpy, an array) and of (numpy, two arrays).
ONE: dict[str, Callable[[Any, Any], Any]] = {
    "corrcoef": lambda j, a: j.corrcoef(a),
    "cov": lambda j, a: j.cov(a, bias=True),
    "gradient": lambda j, a: j.gradient(j.concatenate([a, a, a]), 0.5),
    "histogram": lambda j, a: j.histogram(a, 3, range=(-1, 2)),
    "histogram bins": lambda j, a: j.histogram(a, np.array([-1.0, 0, 2], np.float32)),
    "norm": lambda j, a: j.linalg.norm(a, ord=3),
    "polyder": lambda j, a: j.polyder(a),
    "polyint": lambda j, a: j.polyint(a, 2),
    "quantile": lambda j, a: j.quantile(a, np.array([0, 0.3, 1], np.float32)),
    "quantile of weights": lambda j, a: j.quantile(
        a, 0.3, weights=np.arange(a.size), method="inverted_cdf"),
    "trapezoid": lambda j, a: j.trapezoid(a, dx=0.5),
    "unique": lambda j, a: j.unique(a, return_index=True, return_inverse=True,
                                    return_counts=True),
    "vander": lambda j, a: j.vander(a, 3),
}
TWO: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cross": lambda j, a, b: j.cross(a[:3], j.concatenate([b, b, b])[:3]),
    "cross of the plane": lambda j, a, b: j.cross(a[:2], j.concatenate([b, b])[:2]),
    "convolve": lambda j, a, b: j.convolve(a, b, "same"),
    "correlate": lambda j, a, b: j.correlate(a, b, "full"),
    "dot": lambda j, a, b: j.dot(a, b),
    "dot of a matrix": lambda j, a, b: j.dot(j.stack([a, a]), b),
    "digitize": lambda j, a, b: j.digitize(a, ordered(b)[::-1]),
    "einsum": lambda j, a, b: j.einsum("i,j->ji", a, b),
    "histogram2d": lambda j, a, b: j.histogram2d(a, b, [2, 3]),
    "histogramdd": lambda j, a, b: j.histogramdd(j.stack([a, b], 1), 2),
    "histogramdd of weights": lambda j, a, b: j.histogramdd(
        j.stack([a, b], 1), [2, 3], range=((-1, 2), (0, 3)), weights=a),
    "inner": lambda j, a, b: j.inner(a, b),
    "interp": lambda j, a, b: j.interp(a, ordered(b), b, right=9),
    "isin": lambda j, a, b: j.isin(a, b),
    "kron": lambda j, a, b: j.kron(a, b),
    "matmul": lambda j, a, b: j.matmul(a, b),
    "outer": lambda j, a, b: j.outer(a, b),
    "polyadd": lambda j, a, b: j.polyadd(a, b),
    "polydiv": lambda j, a, b: j.polydiv(a, b),
    "polysub": lambda j, a, b: j.polysub(a, b),
    "polymul": lambda j, a, b: j.polymul(a, b),
    "polyval": lambda j, a, b: j.polyval(a, b),
    "searchsorted": lambda j, a, b: j.searchsorted(ordered(a), b, side="right"),
    "tensordot": lambda j, a, b: j.tensordot(a, b, 0),
    "union1d": lambda j, a, b: j.union1d(a, b),
    "vdot": lambda j, a, b: j.vdot(a, b),
    "vecdot": lambda j, a, b: j.vecdot(a, b),
}


def compare(f: Callable[..., Any], *args: Any) -> None:
    """The same values where jax gives some."""
    try:
        expected = f(jax.numpy, *args)
    except Exception:
        return
    assert_equal_results(f(mjax.numpy, *args), expected)


def dtypes_of(x64: bool) -> tuple[str, ...]:
    return DTYPES[4:] if x64 else DTYPES[:6]


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", ONE)
def test_functions_of_an_array(name: str, x64: bool) -> None:
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        for dtype, shape in itertools.product(dtypes_of(x64), VECTORS):
            compare(ONE[name], numbers(shape, dtype, 1))


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arrays(name: str, x64: bool) -> None:
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        for dtype, shapes in itertools.product(
                dtypes_of(x64), (((5,), (5,)), ((5,), (1,)), ((0,), (5,)))):
            compare(TWO[name], *[numbers(s, dtype, i) for i, s in enumerate(shapes)])
