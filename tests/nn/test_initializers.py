"""Initializers: variances, shapes, orthogonality, numbers as jax gives them, what they refuse."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import random
from mjax.nn import initializers
from mjax.sharding import NamedSharding, PartitionSpec

KEY, SHAPE = random.key(7), (60, 80)

#: Name -> arguments and the expected standard deviation for SHAPE.
DEVIATIONS = {
    "uniform": ((3.0,), 3 / 12**0.5),
    "normal": ((3.0,), 3),
    "truncated_normal": ((3.0,), 3 * 0.8796256610342398),
    "glorot_uniform": ((), (1 / 70) ** 0.5),
    "glorot_normal": ((), (1 / 70) ** 0.5),
    "lecun_uniform": ((), (1 / 60) ** 0.5),
    "lecun_normal": ((), (1 / 60) ** 0.5),
    "he_uniform": ((), (2 / 60) ** 0.5),
    "he_normal": ((-1, -2), (2 / 80) ** 0.5),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviations(name):
    args, deviation = DEVIATIONS[name]
    init = getattr(initializers, name)(*args)
    assert isinstance(init, initializers.Initializer)
    out = np.asarray(init(KEY, SHAPE))
    assert (out.shape, out.dtype) == (SHAPE, np.float32)
    assert abs(out.std() / deviation - 1) < 0.05
    assert abs(out.mean() - 1.5 * (name == "uniform")) < 0.1 * deviation
    assert init(KEY, (2, 3), jnp.bfloat16).dtype == jnp.bfloat16


@pytest.mark.parametrize(("mode", "n"), [("fan_in", 12), ("fan_out", 24), ("fan_avg", 18),
                                         ("fan_geo_avg", 288**0.5)])
def test_modes(mode, n):
    """A window of 3, 4 inputs, 8 outputs; a batch of 500 that does not count."""
    init = initializers.variance_scaling(2.0, mode, "normal", batch_axis=0)
    out = np.asarray(init(KEY, (500, 3, 4, 8)))
    assert abs(out.var() * n / 2 - 1) < 0.05


@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_complex_numbers(distribution):
    init = initializers.variance_scaling(60.0, "fan_in", distribution, dtype=complex)
    out = np.asarray(init(KEY, SHAPE))
    assert out.dtype == np.complex64
    assert abs((abs(out) ** 2).mean() - 1) < 0.05
    assert abs(out.mean()) < 0.05
    largest = {"normal": np.inf, "truncated_normal": 2 / 0.953, "uniform": 2**0.5}[distribution]
    assert abs(out).max() < 1.001 * largest


def test_constants():
    assert initializers.zeros(None, (2,), int).tolist() == [0, 0]
    assert initializers.ones(None, 2).tolist() == [1, 1]
    assert initializers.constant(np.array([1, 2]))(None, (3, 2), int).tolist() == [[1, 2]] * 3


def test_orthogonal():
    for shape in ((4, 3), (3, 4), (2, 2, 3)):
        q = np.asarray(initializers.orthogonal(2.0)(KEY, shape)).reshape(-1, shape[-1])
        small = q @ q.T if q.shape[0] < q.shape[1] else q.T @ q
        np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)
    q = np.asarray(initializers.orthogonal(column_axis=0)(KEY, (2, 3, 5))).reshape(2, 15)
    np.testing.assert_allclose(q @ q.T, np.eye(2), atol=1e-5)
    assert initializers.orthogonal()(KEY, (0, 3)).shape == (0, 3)


def test_delta_orthogonal():
    """A convolution with it keeps lengths."""
    kernel = initializers.delta_orthogonal()(KEY, (3, 5, 4, 4))
    np.testing.assert_allclose(kernel[1, 2] @ kernel[1, 2].T, np.eye(4), atol=1e-5)
    assert int(jnp.count_nonzero(kernel)) == 16
    for window in ((3,), (1, 2, 3)):
        assert int(jnp.count_nonzero(initializers.delta_orthogonal()(KEY, (*window, 2, 2)))) == 4


def test_known_numbers():
    """As jax 0.10.2 gives them."""
    for init, expected in (
            (initializers.glorot_uniform(), [0.42643145, 1.1625693, -0.48293266, -0.13727303]),
            (initializers.he_normal(), [0.48811486, 1.9040892, -0.55786735, -0.1528921]),
            (initializers.orthogonal(), [0.65811265, 0.7529195, -0.7529195, 0.65811265])):
        out = np.asarray(mjax.jit(lambda k, init=init: init(k, (2, 2)))(KEY)).ravel()
        np.testing.assert_array_max_ulp(out, np.float32(expected), 4)


def test_aliases():
    assert initializers.xavier_uniform is initializers.glorot_uniform
    assert initializers.xavier_normal is initializers.glorot_normal
    assert initializers.kaiming_uniform is initializers.he_uniform
    assert initializers.kaiming_normal is initializers.he_normal


@pytest.mark.parametrize(("call", "text"), [
    (lambda: initializers.he_normal()(KEY, (3,)), "weights of shape (3,) do not have an axis -2"),
    (lambda: initializers.variance_scaling(1.0, "fan", "normal")(KEY, (2, 3)), "mode 'fan'"),
    (lambda: initializers.variance_scaling(1.0, "fan_in", "x")(KEY, (2, 3)), "distribution 'x'"),
    (lambda: initializers.uniform()(KEY, (2,), int), "must be a float dtype"),
    (lambda: initializers.orthogonal()(KEY, (3,)), "two axes at least, got (3,)"),
    (lambda: initializers.delta_orthogonal()(KEY, (3, 3)), "window of 1 to 3 axes"),
    (lambda: initializers.delta_orthogonal()(KEY, (3, 3, 2)), "not fewer than the inputs"),
])
def test_refusals(call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_sharding_of_the_numbers(distribution, dtype):
    mesh = mjax.make_mesh((8,), ("i",))
    place = NamedSharding(mesh, PartitionSpec("i"))
    init = initializers.variance_scaling(1.0, "fan_in", distribution)
    out = init(KEY, (8, 3), dtype, out_sharding=place)
    assert out.sharding.is_equivalent_to(place, 2)
    np.testing.assert_allclose(out, init(KEY, (8, 3), dtype), rtol=1e-6)
