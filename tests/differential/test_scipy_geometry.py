"""`scipy.cluster`, `integrate`, `interpolate`, `ndimage` and `spatial`, on both libraries."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree, assert_equal_results

rng = np.random.default_rng(0)
X, PLACES = rng.normal(size=(4, 3)).astype("f"), rng.uniform(-2, 6, size=(2, 7)).astype("f")
QUATS, ANGLES = rng.normal(size=(4, 4)).astype("f"), rng.normal(size=(4, 3)).astype("f")


def module(m: Any, name: str) -> Any:
    return importlib.import_module(f"{m.__name__}.scipy.{name}")


def with_gradients(f: Any, *args: Any, tolerance: float = 5e-5, finite: bool = False) -> None:
    """Values, and gradients in the floats.

    Args:
      f: takes a library and these arguments.
      args: the arguments.
      tolerance: relative and absolute.
      finite: whether mjax has all derivatives, though some are NaN in jax.
    """
    assert_agree(f, *args, tolerance=tolerance)
    places = tuple(i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f")

    def gradients(m: Any) -> Any:
        return m.grad(lambda *args: m.numpy.sum(m.numpy.sin(f(m, *args))), places)(*args)

    ours, theirs = gradients(mjax), gradients(jax)
    if finite:
        assert np.all([np.isfinite(x).all() for x in ours])
        theirs = [np.where(np.isnan(b), a, b) for a, b in zip(ours, theirs, strict=True)]
    assert_equal_results(list(ours), list(theirs), tolerance)


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
def test_map_coordinates(mode: str) -> None:
    for order in (0, 1):
        with_gradients(lambda m, x, p, order=order: module(m, "ndimage").map_coordinates(
            x, p, order, mode, 0.5), X, PLACES)
    # At corners of the interpolant, and integers.
    with_gradients(lambda m, x, p: module(m, "ndimage").map_coordinates(x, p, 1, mode), X,
                   np.round(PLACES))
    for dtype in ("i", "float16", "bool", "complex64"):
        assert_agree(lambda m, x, p: module(m, "ndimage").map_coordinates(x, p, 1, mode),
                     (4 * X).astype(dtype), PLACES)


def test_integrals_and_codes() -> None:
    with_gradients(lambda m, y, x: module(m, "integrate").trapezoid(y, x, axis=0), X, X[:, :1])
    with_gradients(lambda m, a, b: module(m, "cluster.vq").vq(a, b)[1], X, X[::-1] + 1)
    for args in ((X, X[1:]), (X[:, 0], X[:, 1]), (X.astype("i"), X), (X.astype("float16"), X)):
        assert_agree(lambda m, a, b: module(m, "cluster.vq").vq(a, b), *args)


@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_interpolation(method: str) -> None:
    grid = np.array([0, 1, 3, 4], "f"), np.array([-1, 0.5, 2], "f")

    def f(m: Any, values: Any, x: Any, *grid: Any, fill: Any = np.nan) -> Any:
        return module(m, "interpolate").RegularGridInterpolator(
            grid, values, method, fill_value=fill)(x)

    inside = np.clip(PLACES.T, 0.1, 1.9)
    with_gradients(f, X, inside, *grid)
    with_gradients(lambda m, *args: f(m, *args, fill=None), X, PLACES.T, *grid)
    assert_agree(lambda m, *args: f(m, *args, fill=2), X.astype("i"), PLACES.T, *grid)
    assert_agree(lambda m, *args: f(m, *args, fill=2), X, (PLACES[0], PLACES[1]), *grid)
    assert_agree(lambda m, v: m.tree_util.tree_leaves(module(
        m, "interpolate").RegularGridInterpolator(grid, v)), X)


ROTATIONS = {
    "from_quat": lambda R, q, a: R.from_quat(q).quat,
    "from_euler": lambda R, q, a: R.from_euler("zyx", a).quat,
    "from_euler turning": lambda R, q, a: R.from_euler("ZXZ", a, degrees=True).quat,
    "from_matrix": lambda R, q, a: R.from_matrix(R.from_quat(q).as_matrix()).quat,
    "from_mrp": lambda R, q, a: R.from_mrp(a).quat,
    "from_rotvec": lambda R, q, a: R.from_rotvec(a, degrees=True).quat,
    "as_euler": lambda R, q, a: R.from_quat(q).as_euler("xzy", degrees=True),
    "as_euler turning": lambda R, q, a: R.from_quat(q).as_euler("YXY"),
    "as_matrix": lambda R, q, a: R.from_quat(q).as_matrix(),
    "as_mrp": lambda R, q, a: R.from_quat(q).as_mrp(),
    "as_rotvec": lambda R, q, a: R.from_quat(q).as_rotvec(),
    "as_quat": lambda R, q, a: R.from_quat(q).as_quat(canonical=True, scalar_first=True),
    "apply": lambda R, q, a: R.from_quat(q).apply(a),
    "apply inverse": lambda R, q, a: R.from_quat(q[0]).apply(a, inverse=True),
    "mul": lambda R, q, a: (R.from_quat(q) * R.from_rotvec(a)).quat,
    "inv": lambda R, q, a: R.from_quat(q).inv().magnitude(),
    "mean": lambda R, q, a: R.from_quat(q).mean(np.arange(4)).as_matrix(),
    "concatenate": lambda R, q, a: R.concatenate([R.from_quat(q)[1:], R.from_rotvec(a)]).quat,
}


@pytest.mark.parametrize("name", ROTATIONS)
def test_rotations(name: str) -> None:
    with_gradients(lambda m, q, a: ROTATIONS[name](module(m, "spatial.transform").Rotation, q, a),
                   QUATS, ANGLES, tolerance=2e-4)


def test_corners_of_rotations() -> None:
    """At no rotation and at half a turn; where axes coincide."""
    special = np.array([[0, 0, 0, 1], [1, 0, 0, 0], [0, 0.6, 0.8, 0], [0, 0.7, 0, 0.7],
                        [1e-5, 0, 0, 1]], "f")
    for name, row in itertools.product(("as_euler", "as_mrp", "as_rotvec", "as_quat", "inv"),
                                       special):
        with_gradients(lambda m, q, name=name: ROTATIONS[name](
            module(m, "spatial.transform").Rotation, q, None), row, tolerance=2e-4,
                       finite=name == "as_rotvec")
    for vector in (np.zeros(3, "f"), np.array([1e-4, 0, 0], "f")):
        with_gradients(lambda m, a: ROTATIONS["from_rotvec"](
            module(m, "spatial.transform").Rotation, None, a), vector, finite=True)


def test_dtypes_of_rotations() -> None:
    for x64, dtype in itertools.product((False, True), ("i", "float16", "d")):
        def run(m: Any, q: Any, a: Any, x64: bool = x64) -> Any:
            R = module(m, "spatial.transform").Rotation
            with m.enable_x64(x64):
                return [R.from_quat(q).quat, R.from_euler("xyz", a).quat,
                        R.from_rotvec(a).as_rotvec(), R.identity().quat,
                        R.from_euler("z", 90, degrees=True).quat, R.from_euler("x", 0.5).quat]

        assert_agree(run, QUATS.astype(dtype) + np.ones(4, dtype), ANGLES.astype(dtype),
                     tolerance=1e-4)


def test_slerp() -> None:
    def run(m: Any, q: Any, t: Any) -> Any:
        transform = module(m, "spatial.transform")
        slerp = transform.Slerp.init(np.arange(4), transform.Rotation.from_quat(q))
        return slerp(t).quat

    with_gradients(run, QUATS, np.array([0.0, 0.3, 1.0, 2.9, 3.0], "f"), tolerance=2e-4,
                   finite=True)
    assert_agree(run, QUATS, np.float32(-0.5), tolerance=2e-4)
    assert_agree(run, QUATS, np.float32(4.5), tolerance=2e-4)
