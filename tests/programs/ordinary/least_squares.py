"""A curve through points, three ways: orthogonal factors, normal equations, singular values."""

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax.scipy.linalg import cho_factor, cho_solve, solve_triangular


@mjax.jit
def program(x, y, ridge):
    a = jnp.vander(x, 4)
    q, r = jnp.linalg.qr(a)
    by_factors = solve_triangular(r, q.T @ y)
    penalized = cho_solve(cho_factor(a.T @ a + ridge * jnp.eye(4)), a.T @ y)
    by_values, _, rank, _ = jnp.linalg.lstsq(a, y)
    return jnp.sum(jnp.sin(by_factors) + jnp.cos(penalized) + by_values ** 2) + rank


def arguments(rng):
    return np.linspace(-1, 1, 9) + 0.01 * rng.normal(size=9), rng.normal(size=9), np.array(0.3)


def expected(x, y, ridge):
    a = np.vander(x, 4)
    best = np.linalg.lstsq(a, y, rcond=None)[0]
    penalized = np.linalg.solve(a.T @ a + ridge * np.eye(4), a.T @ y)
    return np.sum(np.sin(best) + np.cos(penalized) + best ** 2) + 4
