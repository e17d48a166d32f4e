"""Activations: against NumPy in 64 bits, their derivatives at corners, what they refuse."""

from __future__ import annotations

import math
import re

import ml_dtypes
import numpy as np
import pytest
from scipy import special

import mjax
import mjax.numpy as jnp
from mjax import nn

X = np.array([-30, -4, -3, -2, -1, -0.5, -1e-3, 0, 1e-3, 0.5, 1, 2, 3, 5, 6, 7, 30])
sigmoid = special.expit


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


#: Name -> what it is in NumPy, and its derivative at corners: (place, slope).
ACTIVATIONS = {
    "celu": (lambda x: elu(x), [(0, 1)]),
    "elu": (elu, [(0, 1)]),
    "gelu": (lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), [(0, 0.5)]),
    "hard_sigmoid": (lambda x: np.clip(x / 6 + 0.5, 0, 1), [(-3, 0), (3, 0), (0, 1 / 6)]),
    "hard_silu": (lambda x: x * np.clip(x / 6 + 0.5, 0, 1), [(-3, 0), (3, 1), (0, 0.5)]),
    "hard_tanh": (lambda x: np.clip(x, -1, 1), [(-1, 1), (1, 1), (2, 0)]),
    "identity": (lambda x: x, [(0, 1)]),
    "leaky_relu": (lambda x: np.where(x < 0, 0.01 * x, x), [(0, 1)]),
    "log_sigmoid": (lambda x: -np.log1p(np.exp(-x)), [(0, 0.5)]),
    "mish": (lambda x: x * np.tanh(np.log1p(np.exp(x))), [(0, 0.6)]),
    "relu": (lambda x: np.maximum(x, 0), [(0, 0), (1e-30, 1)]),
    "relu6": (lambda x: np.clip(x, 0, 6), [(0, 0), (6, 0), (5, 1)]),
    "selu": (lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772), [(0, 1.7580993408473766)]),
    "sigmoid": (sigmoid, [(0, 0.25)]),
    "silu": (lambda x: x * sigmoid(x), [(0, 0.5)]),
    "soft_sign": (lambda x: x / (1 + abs(x)), [(0, 1)]),
    "softplus": (lambda x: np.log1p(np.exp(x)), [(0, 0.5), (1000, 1), (-1000, 0)]),
    "sparse_plus": (lambda x: np.where(x < 1, np.maximum(x + 1, 0) ** 2 / 4, x), [(-1, 0), (1, 1)]),
    "sparse_sigmoid": (lambda x: np.clip(x / 2 + 0.5, 0, 1), [(0, 0.5), (2, 0)]),
    "squareplus": (lambda x: (x + np.sqrt(x * x + 4)) / 2, [(0, 0.5)]),
    "tanh": (np.tanh, [(0, 1)]),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_slopes(name):
    reference, corners = ACTIVATIONS[name]
    f = getattr(nn, name)
    with mjax.enable_x64():
        for dtype, tolerance in (("float64", 1e-12), ("float32", 1e-5), ("float16", 4e-3),
                                 (ml_dtypes.bfloat16, 3e-2)):
            x = X.astype(dtype)
            out = f(x)
            assert (out.shape, out.dtype) == (x.shape, x.dtype)
            np.testing.assert_allclose(np.float64(out), reference(np.float64(x)), tolerance,
                                       tolerance)
        places, slopes = np.float64(corners).T
        np.testing.assert_allclose(mjax.vmap(mjax.grad(f))(places), slopes, 1e-12)


def test_slopes_against_differences():
    x = X + 0.01  # beside the corners
    h = 1e-6
    with mjax.enable_x64():
        for name in ACTIVATIONS:
            f = mjax.jit(getattr(nn, name))
            expected = (np.asarray(f(x + h)) - np.asarray(f(x - h))) / (2 * h)
            slope = mjax.jvp(f, (x,), (np.ones_like(x),))[1]
            np.testing.assert_allclose(slope, expected, 1e-6, 1e-8)


def test_parameters():
    x = jnp.asarray(X, jnp.float32)
    np.testing.assert_allclose(nn.leaky_relu(x, 0.5), np.where(X < 0, X / 2, X), 1e-6)
    np.testing.assert_allclose(nn.elu(x, x), elu(X, X), 1e-6)
    np.testing.assert_allclose(nn.celu(x, 2.0), np.where(X > 0, X, 2 * np.expm1(X / 2)), 1e-5)
    np.testing.assert_allclose(nn.squareplus(x, 1), (X + np.sqrt(X * X + 1)) / 2, 1e-4, 1e-6)
    np.testing.assert_allclose(nn.gelu(x, False), X * special.ndtr(X), 1e-4, 1e-6)


def test_large_numbers_do_not_spoil_derivatives():
    for name in ACTIVATIONS:
        if name in ("gelu", "mish", "sparse_plus"):
            continue  # powers of 1e30 are infinite
        slopes = mjax.vmap(mjax.grad(getattr(nn, name)))(np.float32([-1e30, 1e30]))
        assert np.isfinite(slopes).all(), name


def test_gelu_of_large_float16():
    numbers = np.float16([-1300, -200, 200, 1300])
    assert nn.gelu(numbers).tolist() == [0, 0, 200, 1300]
    assert mjax.vmap(mjax.grad(nn.gelu))(numbers).tolist() == [0, 0, 1, 1]


def test_integers():
    assert nn.relu(np.int8([-1, 2])).dtype == np.int8
    assert nn.leaky_relu(np.int8([-1, 2])).dtype == np.float32
    assert nn.softplus(2).weak_type
    assert nn.hard_tanh(np.int32([-5, 5])).tolist() == [-1, 1]


def test_aliases():
    assert nn.swish is nn.silu
    assert nn.hard_swish is nn.hard_silu
    assert nn.tanh is jnp.tanh


# ---- log1mexp --------------------------------------------------------------------------


def test_log1mexp():
    x = np.array([1e-300, 1e-10, 0.1, math.log(2), 1, 30, 700])
    with mjax.enable_x64():
        expected = [math.log(-math.expm1(-v)) if v < 0.2 else math.log1p(-math.exp(-v)) for v in x]
        np.testing.assert_allclose(nn.log1mexp(x), expected, 1e-14)
        np.testing.assert_allclose(mjax.vmap(mjax.grad(nn.log1mexp))(x), 1 / np.expm1(x), 1e-14)
    assert float(nn.log1mexp(0.0)) == -math.inf
    assert math.isnan(nn.log1mexp(-1.0))


# ---- glu -------------------------------------------------------------------------------


def test_glu():
    x = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(nn.glu(x, 0), x[:2] * sigmoid(x[2:]), 1e-6)
    np.testing.assert_allclose(mjax.vmap(nn.glu)(x.T), (x[:2] * sigmoid(x[2:])).T, 1e-6)
    assert nn.glu(x[:, :0]).shape == (4, 0)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: nn.relu([1.0]), TypeError, "relu requires ndarray or scalar arguments"),
    (lambda: nn.softplus("a"), TypeError, "softplus requires"),
    (lambda: nn.sigmoid(1), TypeError, "logistic does not accept dtype int32"),
    (lambda: nn.glu(np.ones((2, 3))), ValueError, "axis 1 of shape (2, 3) has an odd size"),
    (lambda: nn.glu(np.ones(4), 1), ValueError, "axis 1 is out of bounds"),
    (lambda: nn.relu(mjax.random.key(0)), TypeError, "key"),
    (lambda: nn.softplus(mjax.random.key(0)), TypeError, "key"),
    (lambda: nn.mish(mjax.random.key(0)), TypeError, "key"),
])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
