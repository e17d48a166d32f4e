"""Gradients of each example, clipped, as private training takes them."""

import numpy as np

import mjax
import mjax.numpy as jnp


def loss(w, x, y):
    return jnp.logaddexp(0.0, -y * jnp.dot(w, x))


def clipped(w, x, y, most):
    g = mjax.grad(loss)(w, x, y)
    return g * jnp.minimum(1.0, most / jnp.linalg.norm(g))


@mjax.jit
def program(w, x, y):
    mean = jnp.mean(mjax.vmap(clipped, in_axes=(None, 0, 0, None))(w, x, y, 0.5), axis=0)
    return jnp.sum(mean ** 2)


def arguments(rng):
    return rng.normal(size=4), rng.normal(size=(8, 4)), rng.choice([-1.0, 1.0], 8)


def expected(w, x, y):
    grads = -(y / (1 + np.exp(y * (x @ w))))[:, None] * x
    sizes = np.linalg.norm(grads, axis=1, keepdims=True)
    return np.sum(np.mean(grads * np.minimum(1, 0.5 / sizes), 0) ** 2)
