"""Kepler's equation by Newton's method, differentiated by the implicit function theorem.

Source: Kepler 1609, E - e sin E = M.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def kepler_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Mean anomalies and eccentricities of 5 orbits times the size."""
    return rng.uniform(0.2, 6, 5 * size), rng.uniform(0, 0.8, 5 * size)


def kepler(m: Any, mean: Any, eccentricity: Any) -> Any:
    """The sum of the distances from the focus, cos E - e."""
    np = m.numpy

    def newton(f: Any, x: Any) -> Any:
        def step(state: Any) -> Any:
            x, _, n = state
            value, slope = m.jvp(f, (x,), (np.ones_like(x),))
            return x - value / slope, np.max(np.abs(value)), n + 1

        small = 1e-12 if x.dtype == "float64" else 1e-6
        start = x, np.max(np.abs(f(x))), np.zeros((), np.int32)
        return m.lax.while_loop(lambda s: (s[1] > small) & (s[2] < 50), step, start)[0]

    def anomaly(mean: Any, eccentricity: Any) -> Any:
        return m.lax.custom_root(
            lambda x: x - eccentricity * np.sin(x) - mean, mean, newton,
            lambda g, y: y / g(np.ones_like(y)))

    return np.sum(np.cos(anomaly(mean, eccentricity)) - eccentricity)
