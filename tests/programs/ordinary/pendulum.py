"""A pendulum with friction: how far it is from where it was seen, by the adjoint equation."""

import numpy as np
import scipy.integrate

import mjax.numpy as jnp
from mjax.experimental.ode import odeint


def swing(state, t, params):
    angle, speed = state
    return speed, -params["gravity"] * jnp.sin(angle) - params["friction"] * speed


def program(start, params, times, seen):
    angles, _ = odeint(swing, (start[0], start[1]), times, params, rtol=1e-9, atol=1e-9)
    return jnp.mean((angles - seen) ** 2)


def arguments(rng):
    times = np.array([0.0, 0.4, 1.0])
    params = {"gravity": np.array(3.0), "friction": np.array(0.3)}
    return np.array([1.0, -0.5]), params, times, rng.normal(size=3)


def expected(start, params, times, seen):
    found = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -params["gravity"] * np.sin(y[0]) - params["friction"] * y[1]],
        (times[0], times[-1]), start, "DOP853", times, rtol=1e-11, atol=1e-12)
    return np.mean((found.y[0] - seen) ** 2)
