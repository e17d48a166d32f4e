"""The evidence of a Gaussian process, and its best scales."""

import numpy as np
import scipy.stats

import mjax
import mjax.numpy as jnp
from mjax.scipy.linalg import cho_solve


def covariance(scales, x):
    distances = (x[:, None] - x[None, :]) ** 2
    return scales[0] * jnp.exp(-distances / (2 * scales[1])) + scales[2] * jnp.eye(len(x))


@mjax.jit
def program(logs, x, y):
    factor = jnp.linalg.cholesky(covariance(jnp.exp(logs), x))
    fit = y @ cho_solve((factor, True), y)
    return -(fit / 2 + jnp.sum(jnp.log(jnp.diag(factor))) + len(x) / 2 * jnp.log(2 * jnp.pi))


def arguments(rng):
    return rng.normal(size=3) / 2, rng.normal(size=7), rng.normal(size=7)


def expected(logs, x, y):
    a, b, c = np.exp(logs)
    matrix = a * np.exp(-(x[:, None] - x) ** 2 / (2 * b)) + c * np.eye(7)
    return scipy.stats.multivariate_normal.logpdf(y, np.zeros(7), matrix)
