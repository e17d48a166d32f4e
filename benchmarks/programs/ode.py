"""An adaptive integrator in a while loop, whose gradient is another integration, backwards.

Source: Bogacki and Shampine 1989 for the method; Pontryagin et al. 1962 and Chen et al. 2018,
arXiv:1806.07366, for the adjoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def integrate(m: Any, f: Callable[..., Any], y: Any, start: Any, end: Any, params: Any,
              tolerance: float) -> Any:
    """The solution at `end` of y' = f(y, t, params), for a tree y that is a list."""
    np = m.numpy

    def moved(y: Any, *terms: tuple[Any, Any]) -> Any:
        return [leaf + sum(factor * slope[i] for factor, slope in terms)
                for i, leaf in enumerate(y)]

    def step(state: Any) -> Any:
        y, k1, t, h = state
        h = np.where(np.abs(h) > np.abs(end - t), end - t, h)
        k2 = f(moved(y, (h / 2, k1)), t + h / 2, params)
        k3 = f(moved(y, (h * 3 / 4, k2)), t + h * 3 / 4, params)
        new = moved(y, (h * 2 / 9, k1), (h / 3, k2), (h * 4 / 9, k3))
        k4 = f(new, t + h, params)
        errors = moved([0 * leaf for leaf in y], (h * 5 / 72, k1), (-h / 12, k2), (-h / 9, k3),
                       (h / 8, k4))
        scale = [tolerance * (1 + np.maximum(np.abs(a), np.abs(b)))
                 for a, b in zip(y, new, strict=True)]
        error = np.max(np.stack([np.max(np.abs(e) / s)
                                 for e, s in zip(errors, scale, strict=True)]))
        accepted = error <= 1
        keep = lambda a, b: np.where(accepted, a, b)
        factor = np.clip(0.9 * np.maximum(error, 1e-10) ** (-1 / 3), 0.2, 5.0)
        return ([keep(a, b) for a, b in zip(new, y, strict=True)],
                [keep(a, b) for a, b in zip(k4, k1, strict=True)], keep(t + h, t), h * factor)

    state = y, f(y, start, params), start, (end - start) / 10
    return m.lax.while_loop(lambda state: state[2] != end, step, state)[0]


def solver(m: Any, f: Callable[..., Any], tolerance: float) -> Callable[..., Any]:
    """`(y, end, params) -> y(end)` with reverse mode by the adjoint equation."""

    def solve(y: Any, end: Any, params: Any) -> Any:
        return integrate(m, lambda y, t, p: [f(y[0], t, p)], [y], 0 * end, end, params,
                         tolerance)[0]

    def forward(y: Any, end: Any, params: Any) -> Any:
        y = solve(y, end, params)
        return y, (y, end, params)

    def backward(residuals: Any, ct: Any) -> Any:
        y, end, params = residuals

        def adjoint(state: Any, t: Any, params: Any) -> Any:
            y, ct, _ = state
            slope, pull = m.vjp(lambda y, p: f(y, t, p), y, params)
            dy, dp = pull(ct)
            return [slope, -dy, -dp]

        _, dy, dp = integrate(m, adjoint, [y, ct, 0 * params], end, 0 * end, params, tolerance)
        return dy, m.numpy.sum(ct * f(y, end, params)), dp

    solved = m.custom_vjp(solve)
    solved.defvjp(forward, backward)
    return solved


def ode_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Prey and predators, rates, and the end time."""
    populations = np.stack([1 + rng.uniform(size=4 * size), 0.5 + rng.uniform(size=4 * size)])
    return np.array([1.1, 0.4, 0.4, 0.1]), populations, np.array(2.0)


def final_position(m: Any, rates: Any, populations: Any, end: Any) -> Any:
    """Lotka and Volterra's equations: the logarithm of all populations at the end."""
    np = m.numpy

    def slope(y: Any, t: Any, rates: Any) -> Any:
        prey, hunters = y
        return np.stack([rates[0] * prey - rates[1] * prey * hunters,
                         rates[3] * prey * hunters - rates[2] * hunters])

    tolerance = 1e-8 if populations.dtype == "float64" else 1e-5
    return np.sum(np.log(solver(m, slope, tolerance)(populations, end, rates)))
