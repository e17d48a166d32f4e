"""`interpolate`: against SciPy."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import mjax
import mjax.numpy as jnp
from mjax.scipy.interpolate import RegularGridInterpolator
from mjax.test_util import check_grads

rng = np.random.default_rng(0)
GRID = (np.array([0.0, 1.0, 1.5, 4.0], "f"), np.array([-1.0, 2.0], "f"), np.array([0, 2, 3]))
VALUES = rng.normal(size=(4, 2, 3, 2)).astype("f")
PLACES = np.concatenate([rng.uniform((0, -1, 0), (4, 2, 3), (5, 3)), [
    [0, -1, 0], [4, 2, 3], [1.5, 0, 2], [0.5, 0.5, 1], [4.1, 0, 0], [0, -1.2, 0]]]).astype("f")


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_against_scipy(method: str) -> None:
    compare(method, 7.5, GRID[:2], VALUES[..., 0], PLACES[:, :2])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, 7.5, None])
def test_forms_against_scipy(method: str, fill: Any) -> None:
    for values, places in itertools.product(
            (VALUES, VALUES[..., 0], (9 * VALUES).astype("i")), (PLACES, PLACES[None, :4])):
        compare(method, fill, GRID, values, places)


def compare(method: str, fill: Any, grid: Any, values: np.ndarray, places: np.ndarray) -> None:
    ours = RegularGridInterpolator(grid, values, method, fill_value=fill)
    theirs = scipy.interpolate.RegularGridInterpolator(
        [g.astype("d") for g in grid], values.astype("d"), method, bounds_error=False,
        fill_value=fill)
    expected = theirs(places.astype("d"))
    for f in (ours, mjax.jit(ours.__call__)):
        found = f(places)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
    np.testing.assert_allclose(ours(places, "nearest"), theirs(places, "nearest"), 1e-6)


def test_forms_of_places() -> None:
    f = RegularGridInterpolator(GRID[:2], VALUES[..., 0], "nearest")
    places = PLACES[:, :2]
    x, y = places.T
    np.testing.assert_array_equal(f((x, y)), f(places))
    assert f((x[:, None], np.float32(1))).shape == (len(x), 1, 3)
    np.testing.assert_array_equal(f(places[0]), f(places[:1]))
    assert f(places[:0]).shape == (0, 3)
    line = RegularGridInterpolator(GRID[:1], VALUES[:, 0, 0, 0])
    np.testing.assert_allclose(line(x[:5]), np.interp(x[:5], GRID[0], VALUES[:, 0, 0, 0]), 1e-5)
    np.testing.assert_array_equal(line((x,)), line(x))


@pytest.mark.slow
def test_it_is_a_pytree() -> None:
    f = RegularGridInterpolator(GRID[:2], VALUES[..., 0, 0], fill_value=None)
    expected = f(PLACES[:, :2])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(f))(PLACES[:, :2]), expected)
    value, slopes = mjax.jit(mjax.value_and_grad(lambda f, x: f(x).sum()))(f, PLACES[:, :2])
    np.testing.assert_allclose(value, expected.sum(), 1e-5)
    np.testing.assert_allclose(slopes.values.sum(), len(PLACES), 1e-5)  # weights sum to 1
    paths = [mjax.tree_util.keystr(p) for p, _ in mjax.tree_util.tree_flatten_with_path(f)[0]]
    assert paths == [".grid[0]", ".grid[1]", ".values"]


@pytest.mark.slow
def test_derivatives() -> None:
    with mjax.enable_x64(True):
        grid = [g.astype("d") for g in GRID]
        check_grads(lambda values, x, *grid: RegularGridInterpolator(grid, values)(x),
                    (VALUES.astype("d"), PLACES[:5].astype("d"), *grid), 2)


def use(points: Any = GRID, values: Any = VALUES, xi: Any = PLACES, **options: Any) -> Any:
    return RegularGridInterpolator(points, values, **options)(xi)


ERRORS = [
    (ValueError, "method must be one of linear, nearest, got 'cubic'", lambda: use(method="cubic")),
    (ValueError, "got 'cubic'", lambda: RegularGridInterpolator(GRID, VALUES)(PLACES, "cubic")),
    (NotImplementedError, "bounds_error must be False", lambda: use(bounds_error=True)),
    (ValueError, "the grid has 3 axes, but values of shape", lambda: use(values=VALUES[0, 0])),
    (ValueError, r"points has .* shape of values must begin with them, got", lambda: use(
        values=VALUES[:-1])),
    (ValueError, "fill_value of dtype complex64 does not fit", lambda: use(fill_value=1j)),
    (ValueError, r"points must have shape \(..., 3\)", lambda: use(xi=PLACES[:, :2])),
    (TypeError, "RegularGridInterpolator requires ndarray", lambda: use(values=[1.0])),
    (TypeError, "RegularGridInterpolator requires ndarray", lambda: use(points=[[0.0, 1.0]])),
]


@pytest.mark.parametrize(("error", "text", "call"), ERRORS, ids=[t[:20] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.slow
def test_vmap_of_grad() -> None:
    f = RegularGridInterpolator(GRID[:2], VALUES[:, :, 0, 0])
    slopes = mjax.vmap(mjax.grad(lambda x: f(x)[0]))(jnp.asarray(PLACES[:5, :2]))
    step = np.float32([1e-2, 0])
    expected = (f(PLACES[:5, :2] + step) - f(PLACES[:5, :2] - step)) / 2e-2
    np.testing.assert_allclose(slopes[:, 0], expected, 1e-2, 1e-2)
