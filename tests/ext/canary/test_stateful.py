"""A library that sets and takes the current trace: parameters, variables, lists of operations."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax_ext import core
from tests.ext.canary import stateful
from tests.ext.canary.stateful import StaleTraceError, Variable, hoisted, parameter

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)
W = np.array([[2.0, 0.0], [1.0, 1.0]], np.float32)


def layer(x):
    w = parameter("w", lambda: jnp.asarray(W))
    norm = hoisted("norm", lambda: jnp.sqrt(jnp.sum(w * w)))
    return w @ x / norm


def test_init_and_apply():
    net = stateful.transform(layer)
    params = net.init(X[0])
    np.testing.assert_array_equal(params["w"], W)
    np.testing.assert_allclose(net.apply(params, X[0]), W @ X[0] / np.sqrt(6), rtol=1e-6)
    with pytest.raises(KeyError, match="w"):
        net.apply({}, X[0])


def test_parameters_are_made_on_devices_within_traces():
    made = []

    def init(x):
        params = stateful.transform(lambda x: mjax.vmap(layer)(x)).init(x)
        made.append(params["w"])
        return x

    mjax.jit(init)(X)
    assert not isinstance(made[0], core.Tracer)
    np.testing.assert_array_equal(made[0], W)


def test_a_hoisted_value_is_computed_once_outside_of_the_maps():
    net = stateful.transform(lambda x: mjax.vmap(layer)(x) + hoisted("norm", None))
    params, expected = {"w": W}, X @ W.T / np.sqrt(6) + np.sqrt(6)
    np.testing.assert_allclose(net.apply(params, X), expected, rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(net.apply)(params, X), expected, rtol=1e-6)
    names = [eqn.primitive.name for eqn in mjax.make_jaxpr(net.apply)(params, X).eqns]
    assert names.count("sqrt") == 1
    # It is differentiated like everything else.
    grad = mjax.grad(lambda p: jnp.sum(net.apply(p, X)))(params)["w"]
    loss = lambda w: np.sum(X.astype(np.float64) @ w.T / np.sqrt(np.sum(w * w))
                            + np.sqrt(np.sum(w * w)))
    step = 1e-4
    for i in np.ndindex(2, 2):
        d = np.zeros((2, 2))
        d[i] = step
        np.testing.assert_allclose(grad[i], (loss(W + d) - loss(W - d)) / (2 * step), rtol=1e-3)


def test_variables_belong_to_the_trace_that_made_them():
    outer = Variable(jnp.ones(2))
    outer.set(jnp.zeros(2))

    def step(x):
        own = Variable(x)
        own.set(x + 1)
        outer.set(own.value)

    for call in (lambda: mjax.jit(step)(1.0), lambda: mjax.grad(step)(1.0),
                 lambda: mjax.vmap(step)(np.ones(3, np.float32))):
        with pytest.raises(StaleTraceError, match=r"float32\[2\] is set in another"):
            call()
    np.testing.assert_array_equal(outer.value, [0, 0])


@mjax.custom_jvp
def softened(x):
    return jnp.sin(x) + x


softened.defjvp(lambda p, t: (softened(*p), t[0]))


def test_operations_by_scopes():
    def f(x):
        y = stateful.scope("inner", lambda x: jnp.cos(x) * x)(x)
        return softened(y)

    assert stateful.operations(f)(1.0) == [("inner", ["cos", "mul"]), "sin", "add"]
    found = []
    mjax.jit(lambda x: found.extend(stateful.operations(mjax.grad(f))(x)) or x)(1.0)
    assert "cos" in str(found)
    (call, *_) = mjax.make_jaxpr(f)(1.0).eqns
    assert call.primitive is stateful.scope_p and call.params["name"] == "inner"
    np.testing.assert_allclose(mjax.grad(f)(1.0), np.cos(1.0) - np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(1.0), np.cos(1.0) - np.sin(1.0), rtol=1e-6)
    np.testing.assert_allclose(f(1.0), np.sin(np.cos(1.0)) + np.cos(1.0), rtol=1e-6)
