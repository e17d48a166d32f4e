"""`ndimage`: against SciPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.ndimage

import mjax
import mjax.numpy as jnp
from mjax.scipy.ndimage import map_coordinates
from mjax.test_util import check_grads

rng = np.random.default_rng(0)
X = rng.normal(size=(4, 3)).astype("f")
#: Inside, between, at the edges, far beyond.
PLACES = np.array([[0.0, 1.3, 2.9, 3.0, -0.6, 3.7, 9.2, -7.1], [2.0, 0.4, -0.3, 1.5, 2.2, 0.0, 5.3,
                                                               -4.8]], "f")
MODES = {"constant": "grid-constant", "nearest": "nearest", "wrap": "grid-wrap",
         "mirror": "mirror", "reflect": "reflect"}


@pytest.mark.parametrize("mode", MODES)
def test_against_scipy(mode: str) -> None:
    for order, x in ((0, X), (1, X), (1, (10 * X).astype("i"))):
        expected = scipy.ndimage.map_coordinates(
            x.astype("d"), PLACES.astype("d"), order=order, mode=MODES[mode], cval=2.0)
        found = map_coordinates(x, list(PLACES), order, mode, 2.0)
        assert found.dtype == x.dtype
        if x.dtype.kind == "i":  # half way up is away from zero
            expected = np.trunc(expected + np.copysign(0.5, expected))
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)


def test_other_types_and_transformations() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.complex64, bool, np.uint8):
        x = np.abs(3 * X).astype(dtype)
        found = map_coordinates(x, PLACES[:, :2], 0)
        assert found.dtype == dtype
        np.testing.assert_array_equal(np.asarray(found), [x[0, 2], x[1, 0]])
    f = lambda x, p: map_coordinates(x, p, order=1, mode="reflect")
    stack = np.stack([X, 2 * X])
    np.testing.assert_allclose(mjax.jit(mjax.vmap(f, (0, None)))(stack, PLACES),
                               [f(s, PLACES) for s in stack], 1e-5, 1e-6)
    assert f(X, np.zeros((2, 0, 5), "f")).shape == (0, 5)
    assert f(X, [np.ones((2, 1)), np.ones((2, 1))]).shape == (2, 1)
    assert map_coordinates(np.float32(3), [], 1) == 3
    np.testing.assert_allclose(map_coordinates(X.tolist(), [[1.0], [2]], 1), X[1:2, 2])


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_derivatives(mode: str) -> None:
    inner = PLACES[:, 1:].astype("d") + 0.05
    with mjax.enable_x64(True):
        check_grads(lambda x, p, c: map_coordinates(x, p, 1, mode, c),
                    (X.astype("d"), inner, 0.3), 2)


ERRORS = [
    (ValueError, "takes coordinates for each of its 2 axes, got 3", lambda: map_coordinates(
        X, [PLACES[0]] * 3, 1)),
    (NotImplementedError, "mode must be one of constant, .*'grid-wrap'", lambda: map_coordinates(
        X, PLACES, 1, "grid-wrap")),
    (NotImplementedError, "order must be 0 .* or 1", lambda: map_coordinates(X, PLACES, 3)),
    (TypeError, "of type str cannot become", lambda: map_coordinates("x", PLACES, 1)),
    (TypeError, "cval cannot be complex", lambda: map_coordinates(X, PLACES, 1, cval=1j)),
    (TypeError, "incompatible shapes", lambda: map_coordinates(X, [np.ones(2), np.ones(3)], 1)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:20] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=text):
        use()


def test_one_element_axes() -> None:
    for mode in ("constant", "wrap", "reflect"):
        expected = scipy.ndimage.map_coordinates(X[:1], PLACES, order=1, mode=MODES[mode])
        np.testing.assert_allclose(map_coordinates(X[:1], jnp.asarray(PLACES), 1, mode), expected,
                                   1e-4, 1e-5)
