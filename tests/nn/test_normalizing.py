"""Softmax and its relatives, standardize and one_hot: against SciPy and NumPy."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import special

import mjax
import mjax.numpy as jnp
from mjax import nn

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4))
MASK = np.array([[True, False, True, True], [True] * 4, [False] * 4])


@pytest.mark.parametrize("axis", [-1, 0, None, (0, 1)])
def test_softmax(axis):
    for shift in (0, 1e6):
        x = X + shift
        with mjax.enable_x64():
            np.testing.assert_allclose(nn.softmax(x, axis), special.softmax(x, axis), 1e-9)
            np.testing.assert_allclose(nn.log_softmax(x, axis), special.log_softmax(x, axis), 1e-9)
            np.testing.assert_allclose(nn.logsumexp(x, axis), special.logsumexp(x, axis), 1e-12)
            np.testing.assert_allclose(nn.logmeanexp(X, axis), np.log(np.mean(np.exp(X), axis)),
                                       1e-12)


def test_masks():
    kept = np.where(MASK, X, -np.inf)[:2]
    with mjax.enable_x64():
        np.testing.assert_allclose(nn.softmax(X, where=MASK)[:2], special.softmax(kept, 1), 1e-12)
        np.testing.assert_allclose(nn.log_softmax(X, where=MASK)[:2], special.log_softmax(kept, 1),
                                   1e-12)
        np.testing.assert_allclose(
            nn.logmeanexp(X, 1, where=MASK, keepdims=True)[:2, 0],
            [np.log(np.mean(np.exp(row[m]))) for row, m in zip(X[:2], MASK[:2])], 1e-12)
        mean, variance = X[0, MASK[0]].mean(), X[0, MASK[0]].var()
        np.testing.assert_allclose(nn.standardize(X, where=MASK)[0],
                                   (X[0] - mean) / np.sqrt(variance + 1e-5), 1e-12)
    assert not np.asarray(nn.softmax(X, where=MASK))[2].any()
    assert (np.asarray(nn.log_softmax(X, where=MASK))[2] == -np.inf).all()


def test_derivative_of_softmax():
    """A masked row gives 0, not NaN."""
    with mjax.enable_x64():
        y = special.softmax(X[0])
        np.testing.assert_allclose(mjax.jacobian(nn.softmax)(X[0]), np.diag(y) - np.outer(y, y),
                                   1e-9)
        np.testing.assert_allclose(mjax.jacobian(nn.log_softmax)(X[0]), np.eye(4) - y, 1e-9, 1e-12)
        slope = mjax.grad(lambda x: nn.softmax(x, where=MASK)[:, 0].sum())(X)
        assert not np.asarray(slope)[2].any()
        assert np.asarray(slope)[0, 1] == 0


def test_standardize():
    x = 3 * X.astype(np.float32) + 5
    for algorithm in ("fast", "stable"):
        out = np.asarray(nn.standardize(x, 0, epsilon=0.0, algorithm=algorithm))
        np.testing.assert_allclose(out.mean(0), 0, atol=1e-5)
        np.testing.assert_allclose(out.var(0), 1, rtol=1e-4)
    out = nn.standardize(x, mean=1.0, variance=3.0, epsilon=1.0)
    np.testing.assert_allclose(out, (x - 1) / 2, 1e-6)
    # In one pass the variance would be all rounding.
    far = np.float32([1e4, 1e4 + 1])
    np.testing.assert_allclose(nn.standardize(far, epsilon=0.0, algorithm="stable"), [-1, 1])
    assert np.isfinite(nn.standardize(far)).all()


@pytest.mark.parametrize(("dtype", "scale", "shift"), [(np.float16, 300, 0), (jnp.bfloat16, 1, 20)])
def test_standardize_computes_variances_of_16_bit_floats_in_32_bits(dtype, scale, shift):
    a = jnp.asarray(np.float32(scale * X + shift), dtype)
    x = np.asarray(a, np.float64)
    wanted = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    for algorithm in ("fast", "stable"):
        out = nn.standardize(a, algorithm=algorithm)
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out, np.float64), wanted, 1e-2, 1e-3)


# ---- one_hot ---------------------------------------------------------------------------


def test_one_hot():
    x = np.array([[0, 2, -1], [1, 3, 0]])
    expected = (x[..., None] == np.arange(3)).astype(np.float32)
    np.testing.assert_array_equal(nn.one_hot(x, 3), expected)
    np.testing.assert_array_equal(nn.one_hot(x, 3, axis=0), np.moveaxis(expected, -1, 0))
    np.testing.assert_array_equal(mjax.jit(lambda x: nn.one_hot(x, 3, dtype=int))(x), expected)
    assert nn.one_hot([1, 2], 3, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    assert nn.one_hot(np.uint8(1), 3).tolist() == [0, 1, 0]


def test_one_hot_along_a_named_axis():
    rows = mjax.vmap(lambda _: nn.one_hot(jnp.array([2, 0]), 3, axis="classes"),
                     axis_name="classes")(jnp.arange(3))
    assert rows.tolist() == [[0, 1], [0, 0], [1, 0]]
    with pytest.raises(ValueError, match="num_classes is 2, but the size of the axis 'classes'"):
        mjax.vmap(lambda x: nn.one_hot(x, 2, axis="classes"), axis_name="classes")(jnp.arange(3))


def test_one_hot_of_floats_is_deprecated():
    with pytest.warns(DeprecationWarning, match=r"convert it with astype\(int\)"):
        assert nn.one_hot(1.0, 2).tolist() == [0, 1]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: nn.softmax([1.0]), TypeError, "softmax requires ndarray"),
    (lambda: nn.softmax(1.0), ValueError, "axis -1 is out of bounds"),
    (lambda: nn.log_softmax(X, where=np.ones((3, 4))), ValueError, "where must be None or a"),
    (lambda: nn.standardize(X, algorithm="slow"), ValueError, "unknown algorithm 'slow'"),
    (lambda: nn.standardize(X, mean=[1.0]), TypeError, "at argument 'mean'"),
    (lambda: nn.one_hot(1, 2.5), TypeError, "num_classes"),
    (lambda: nn.one_hot(1, -1), TypeError, "num_classes=-1"),
    (lambda: nn.one_hot(True, 2), TypeError, "convert booleans with astype(int)"),
    (lambda: nn.one_hot(1, 2, axis=3), ValueError, "axis 3 is out of bounds"),
    (lambda: nn.one_hot(1, 2, axis="i"), NameError, "i"),
    (lambda: mjax.jit(lambda n: nn.one_hot(1, n))(2), TypeError, "static"),
])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_logsumexp_of_nothing():
    assert float(nn.logsumexp(jnp.zeros(0))) == -math.inf
