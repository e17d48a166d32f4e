"""Hamiltonian Monte Carlo: batched chains, each a loop with a branch.

Source: Duane et al. 1987; Neal 2011, arXiv:1206.1901.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def hmc_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Step size and curvature, start points of 2 chains times the size, and random numbers."""
    chains, samples = 2 * size, 5 * size
    return (np.array([0.3, 0.5]), rng.normal(size=(chains, 2)),
            rng.normal(size=(chains, samples, 2)), rng.uniform(size=(chains, samples)))


def sample_mean(m: Any, shape: Any, starts: Any, momenta: Any, uniforms: Any) -> Any:
    """The mean over chains of their end points, for a curved normal distribution."""
    np = m.numpy
    step_size, bend = shape

    def energy(q: Any) -> Any:
        return q[0] * q[0] / 2 + (q[1] - bend * q[0] * q[0]) ** 2

    force = m.grad(energy)

    def leapfrog(i: Any, state: Any) -> Any:
        q, p = state
        p = p - step_size / 2 * force(q)
        q = q + step_size * p
        return q, p - step_size / 2 * force(q)

    def chain(q: Any, momenta: Any, uniforms: Any) -> Any:
        def sample(i: Any, state: Any) -> Any:
            q, accepted = state
            p = momenta[i]
            new, new_p = m.lax.fori_loop(0, 4, leapfrog, (q, p))
            total = energy(new) + np.sum(new_p * new_p) / 2 - energy(q) - np.sum(p * p) / 2
            return m.lax.cond(np.log(uniforms[i]) < -total, lambda: (new, accepted + 1),
                              lambda: (q, accepted))

        return m.lax.fori_loop(0, uniforms.shape[0], sample, (q, np.zeros((), np.int32)))

    ends, accepted = m.vmap(chain)(starts, momenta, uniforms)
    return np.mean(ends) + 0.01 * np.mean(accepted)
