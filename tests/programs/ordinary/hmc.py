"""Hamiltonian Monte Carlo: a chain that is differentiated in the parameters of its target."""

import functools

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax, random


def potential(scale, x):
    return jnp.sum((x / scale) ** 2) / 2 + jnp.sum(jnp.log1p(x ** 2))


@functools.partial(mjax.jit, static_argnames=("steps",))
def chain(scale, start, keys, steps=5):
    force = mjax.grad(potential, argnums=1)

    def leapfrog(i, state):
        x, p = state
        p = p - 0.05 * force(scale, x)
        x = x + 0.1 * p
        return x, p - 0.05 * force(scale, x)

    def move(x, key):
        momentum, accept = random.split(key)
        p = random.normal(momentum, x.shape, x.dtype)
        new, q = lax.fori_loop(0, steps, leapfrog, (x, p))
        energy = potential(scale, x) + p @ p / 2 - potential(scale, new) - q @ q / 2
        x = lax.select(jnp.log(random.uniform(accept, (), x.dtype)) < energy, new, x)
        return x, x

    return lax.scan(move, start, keys)[1]


def program(scale, start):
    return jnp.sum(jnp.sin(chain(scale, start, random.split(random.key(3), 4))))


def arguments(rng):
    return np.exp(rng.normal(size=3)), rng.normal(size=3)


def expected(scale, x):
    total = 0.0
    energy = lambda x, p: np.sum((x / scale) ** 2) / 2 + np.sum(np.log1p(x ** 2)) + p @ p / 2
    force = lambda x: x / scale ** 2 + 2 * x / (1 + x ** 2)
    for key in random.split(random.key(3), 4):
        momentum, accept = random.split(key)
        p = np.asarray(random.normal(momentum, (3,), float))
        new, q = x, p
        for _ in range(5):
            q = q - 0.05 * force(new)
            new = new + 0.1 * q
            q = q - 0.05 * force(new)
        if np.log(random.uniform(accept, (), float)) < energy(x, p) - energy(new, q):
            x = new
        total += np.sum(np.sin(x))
    return total
