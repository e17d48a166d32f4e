"""A network of two layers, three steps of descent."""

import numpy as np
from scipy.special import logsumexp

import mjax
import mjax.numpy as jnp


def predict(params, x):
    for w, b in params[:-1]:
        x = mjax.nn.relu(x @ w + b)
    w, b = params[-1]
    return mjax.nn.log_softmax(x @ w + b)


def cross_entropy(params, x, labels):
    targets = mjax.nn.one_hot(labels, 3, dtype=x.dtype)
    return -jnp.mean(jnp.sum(targets * predict(params, x), axis=1))


@mjax.jit
def program(params, x, labels):
    for _ in range(3):
        grads = mjax.grad(cross_entropy)(params, x, labels)
        params = mjax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return cross_entropy(params, x, labels)


def arguments(rng):
    sizes = [(4, 5), (5, 3)]
    return [(rng.normal(size=s), rng.normal(size=s[1])) for s in sizes], rng.normal(
        size=(6, 4)), rng.integers(0, 3, 6)


def expected(params, x, labels):
    (w, b), (v, c) = params
    for step in range(4):
        h = x @ w + b
        a = np.maximum(h, 0)
        z = a @ v + c
        z = z - logsumexp(z, axis=1, keepdims=True)
        if step == 3:
            return -np.mean(z[np.arange(6), labels])
        dz = (np.exp(z) - np.eye(3)[labels]) / 6
        dh = (dz @ v.T) * (h > 0)
        v, c = v - 0.1 * a.T @ dz, c - 0.1 * dz.sum(0)
        w, b = w - 0.1 * x.T @ dh, b - 0.1 * dh.sum(0)
