"""A Kalman filter for a moving point that is observed with noise: step by step, and in
parallel along time.

Source: Kalman 1960; Särkkä and García-Fernández 2021, arXiv:1905.13002.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def kalman_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Logarithms of the noises of position, speed and observation; 7 observations times the
    size."""
    return np.array([-1.0, -2.0, -0.5]), np.cumsum(rng.normal(size=7 * size))


def _model(m: Any, noises: Any) -> Any:
    """Transition, its covariance, the variance of an observation of the position, the prior's."""
    np = m.numpy
    a = np.asarray([[1.0, 1.0], [0.0, 1.0]], noises.dtype)
    position, speed, observed = np.exp(noises)
    return a, np.stack([np.stack([position, 0 * speed]), np.stack([0 * position, speed])]), observed


def log_likelihood(m: Any, noises: Any, observations: Any) -> Any:
    """The filter over all observations, by scan."""
    np = m.numpy
    a, q, r = _model(m, noises)

    def step(state: Any, y: Any) -> Any:
        mean, p = a @ state[0], a @ state[1] @ a.T + q
        s = p[0, 0] + r
        gain, surprise = p[:, 0] / s, y - mean[0]
        terms = np.log(2 * np.pi * s) + surprise * surprise / s
        return (mean + gain * surprise, p - np.outer(gain, gain) * s), -terms / 2

    start = np.zeros(2, noises.dtype), np.eye(2, dtype=noises.dtype)
    _, terms = m.lax.scan(step, start, observations)
    return np.sum(terms)


def filtered(m: Any, noises: Any, observations: Any) -> Any:
    """The filtered states, by scan."""
    np = m.numpy
    a, q, r = _model(m, noises)

    def step(state: Any, y: Any) -> Any:
        mean, p = a @ state[0], a @ state[1] @ a.T + q
        s = p[0, 0] + r
        gain = p[:, 0] / s
        mean = mean + gain * (y - mean[0])
        return (mean, p - np.outer(gain, gain) * s), mean

    start = np.zeros(2, noises.dtype), np.eye(2, dtype=noises.dtype)
    return m.lax.scan(step, start, observations)[1]


def _inverse(m: Any, x: Any) -> Any:
    """The inverse of matrices of 2 rows."""
    np = m.numpy
    a, b, c, d = (x[..., i, j] for i in range(2) for j in range(2))
    rows = np.stack([np.stack([d, -b], -1), np.stack([-c, a], -1)], -2)
    return rows / (a * d - b * c)[..., None, None]


def filtered_states(m: Any, noises: Any, observations: Any) -> Any:
    """The filtered states, by associative_scan."""
    np = m.numpy
    a, q, r = _model(m, noises)
    turn = lambda x: np.swapaxes(x, -1, -2)
    times = lambda x, v: (x @ v[..., None])[..., 0]
    one = np.eye(2, dtype=noises.dtype)

    # A step maps a state by f and b with covariance c; eta and j hold the information of y.
    def element(y: Any, p: Any, mean: Any, past: Any) -> Any:
        s = p[0, 0] + r
        gain = p[:, 0] / s
        rest = one - np.outer(gain, one[0])
        row = a[0] * past
        return (past * rest @ a, rest @ mean + gain * y, rest @ p,
                row * y / s, np.outer(row, row) / s)

    first = element(observations[0], a @ a.T + q, 0 * observations[:2], 0.0)
    later = m.vmap(lambda y: element(y, q, np.zeros(2, noises.dtype), 1.0))(observations[1:])
    elements = [np.concatenate([x[None], xs]) for x, xs in zip(first, later, strict=True)]

    def combine(before: Any, after: Any) -> Any:
        f1, b1, c1, eta1, j1 = before
        f2, b2, c2, eta2, j2 = after
        inner = f2 @ _inverse(m, one + c1 @ j2)
        outer = turn(f1) @ _inverse(m, one + j2 @ c1)
        return (inner @ f1, times(inner, b1 + times(c1, eta2)) + b2, inner @ c1 @ turn(f2) + c2,
                times(outer, eta2 - times(j2, b1)) + eta1, outer @ j2 @ f1 + j1)

    return m.lax.associative_scan(combine, tuple(elements))[1]


def filtered_in_parallel(m: Any, noises: Any, observations: Any) -> Any:
    """The mean square of the filtered states, by associative_scan."""
    return m.numpy.mean(filtered_states(m, noises, observations) ** 2)
