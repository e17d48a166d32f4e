"""The likelihood of observations of a moving point, by a Kalman filter."""

import numpy as np
import scipy.stats

import mjax.numpy as jnp
from mjax import lax
from mjax.scipy import stats

MOVE = np.array([[1.0, 0.1], [0.0, 1.0]])
SEEN = np.array([[1.0, 0.0]])


def program(noises, observations):
    q, r = jnp.exp(noises)
    process, measured = q * jnp.eye(2), r * jnp.eye(1)

    def step(carry, y):
        mean, cov = carry
        mean, cov = MOVE @ mean, MOVE @ cov @ MOVE.T + process
        innovation = SEEN @ cov @ SEEN.T + measured
        likelihood = stats.multivariate_normal.logpdf(y, SEEN @ mean, innovation)
        gain = jnp.linalg.solve(innovation, SEEN @ cov).T
        return (mean + gain @ (y - SEEN @ mean), cov - gain @ SEEN @ cov), likelihood

    _, likelihoods = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), observations)
    return jnp.sum(likelihoods)


def arguments(rng):
    return rng.normal(size=2), rng.normal(size=(9, 1))


def expected(noises, observations):
    # All observations at once: they are jointly normal.
    q, r = np.exp(noises)
    n = len(observations)
    covs = np.zeros((n, n))
    state, powers = np.eye(2), [np.linalg.matrix_power(MOVE, k) for k in range(n)]
    for i in range(n):
        state = MOVE @ state @ MOVE.T + q * np.eye(2)
        for j in range(i, n):
            covs[i, j] = covs[j, i] = (SEEN @ powers[j - i] @ state @ SEEN.T)[0, 0]
    return scipy.stats.multivariate_normal.logpdf(
        observations[:, 0], np.zeros(n), covs + r * np.eye(n))
