"""Images in other sizes: against interpolation by hand."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import image
from mjax.image import ResizeMethod

rng = np.random.default_rng(0)
X = rng.normal(size=(5, 6)).astype(np.float32)
METHODS = [m for m in ResizeMethod if m is not ResizeMethod.NEAREST]


def test_linear():
    out = image.resize(X, (5, 11), "linear")
    places = np.clip((np.arange(11) + 0.5) * 6 / 11 - 0.5, 0, 5)
    np.testing.assert_allclose(out, [np.interp(places, np.arange(6), row) for row in X], 1e-5, 1e-6)


def test_area():
    np.testing.assert_allclose(image.resize(X, (5, 3), "area"), X.reshape(5, 3, 2).mean(-1), 1e-5)
    np.testing.assert_allclose(image.resize(X, (10, 6), "area"), X.repeat(2, axis=0), 1e-6)


def test_nearest():
    np.testing.assert_array_equal(image.resize(X, (10, 3), "nearest"), X.repeat(2, 0)[:, 1::2])
    assert image.resize(np.int8([[1, 2]]), (1, 4), "nearest").tolist() == [[1, 1, 2, 2]]


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_constants_and_identity(method):
    """Weights add up to 1; an image in its own size is itself."""
    for antialias in (True, False):
        out = image.resize(np.full((4, 7), 3, np.uint8), (9, 3), method, antialias=antialias)
        assert out.dtype == np.float32
        np.testing.assert_allclose(out, 3, 1e-5)
        np.testing.assert_array_equal(image.resize(X, X.shape, method, antialias), X)
        if method is not ResizeMethod.CUBIC_PYTORCH or not antialias:
            same = image.scale_and_translate(X, X.shape, (0, 1), jnp.ones(2), jnp.zeros(2), method,
                                             antialias)
            np.testing.assert_allclose(same, X, 1e-4, 1e-5)


@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_straight_lines_stay(method):
    line = np.arange(20, dtype=np.float32)
    out = np.asarray(image.resize(line, (40,), method))
    np.testing.assert_allclose(out[6:-6], ((np.arange(40) + 0.5) / 2 - 0.5)[6:-6], 1e-4, 1e-4)


def test_scale_and_translate():
    out = image.scale_and_translate(X, (5, 6), (1,), np.ones(1), np.array([2.0]), "linear")
    np.testing.assert_allclose(out[:, 2:], X[:, :4], 1e-5)
    assert not np.asarray(out)[:, :2].any()
    move = lambda t: image.scale_and_translate(X, (5, 6), (1,), jnp.ones(1), t, "linear")[2, 3]
    slope = mjax.jit(mjax.grad(move))(jnp.array([0.25], jnp.float32))
    np.testing.assert_allclose(slope, [X[2, 2] - X[2, 3]], 1e-3)


def test_batches():
    out = mjax.vmap(lambda x: image.resize(x, (3, 4), "lanczos3"))(jnp.stack([X, 2 * X]))
    np.testing.assert_allclose(out[1], 2 * image.resize(X, (3, 4), "lanczos3"), 1e-5, 1e-6)
    assert image.resize(X, (0, 3), "linear").shape == (0, 3)
    assert image.resize(X.astype(jnp.bfloat16), (2, 3), "cubic").dtype == jnp.bfloat16


def test_pickle():
    assert pickle.loads(pickle.dumps(ResizeMethod.CUBIC)) is ResizeMethod.CUBIC


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: image.resize(X, (3,), "linear"), ValueError, "a size per axis of the image"),
    (lambda: image.resize(X, (3, 4), "sharp"), ValueError, "unknown resize method 'sharp'"),
    (lambda: image.resize(X, (3, 4), 2), TypeError, "method must be a ResizeMethod"),
    (lambda: image.resize(X, (3, 4.5), "linear"), TypeError, "4.5"),
    (lambda: image.scale_and_translate(X, (3, 4), (0,), np.ones(1), np.ones(1), "nearest"),
     ValueError, 'the method "nearest" is not supported'),
    (lambda: image.scale_and_translate(X, (3, 4), (0, 1), np.ones(1), np.ones(2), "linear"),
     ValueError, "scale must have a number for each of the 2 axes"),
])
def test_errors(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
