"""A field that a small network describes: where its flow takes some points."""

import numpy as np
import scipy.integrate

import mjax
import mjax.numpy as jnp
from mjax.experimental.ode import odeint


def field(x, t, weights):
    (w, b), (v, c) = weights
    return jnp.tanh(x @ w + b * t) @ v + c


@mjax.jit
def program(weights, points, targets):
    flow = mjax.vmap(lambda x: odeint(field, x, jnp.array([0.0, 1.0]), weights, rtol=1e-9,
                                      atol=1e-9)[-1])
    return jnp.mean((flow(points) - targets) ** 2)


def arguments(rng):
    weights = [(rng.normal(size=(2, 3)), rng.normal(size=3)), (rng.normal(size=(3, 2)) / 2,
                                                               rng.normal(size=2))]
    return weights, rng.normal(size=(2, 2)), rng.normal(size=(2, 2))


def expected(weights, points, targets):
    (w, b), (v, c) = weights
    ends = [scipy.integrate.solve_ivp(
        lambda t, x: np.tanh(x @ w + b * t) @ v + c, (0, 1), x, "DOP853", rtol=1e-11,
        atol=1e-12).y[:, -1] for x in points]
    return np.mean((np.array(ends) - targets) ** 2)
