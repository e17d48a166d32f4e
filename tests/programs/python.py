"""NumPy with Python's loops and numerical derivatives, in the place of the library.

Its values are exact to about 1e-9; differences of them give derivatives of whole programs.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from mjax.tree_util import tree_leaves, tree_map
from tests.engine.control.loop_programs import PYTHON as LOOPS


def vmap(f: Any) -> Any:
    """The meaning of `vmap` over the first axes."""
    def mapped(*args: Any) -> Any:
        outs = [f(*(x[i] for x in args)) for i in range(len(args[0]))]
        return tree_map(lambda *rows: np.stack(rows), *outs)

    return mapped


def differences(f: Any, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient of a function of one array, from four values for each element."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        at = lambda k, i=i: f(x + k * step * (np.arange(x.size) == np.ravel_multi_index(
            i, x.shape) if x.shape else 1.0).reshape(x.shape) if x.shape else x + k * step)
        out[i] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
    return out


def slope(f: Any, primals: Any, tangents: Any, step: float = 1e-5) -> Any:
    """The meaning of `jvp` of a function of one array."""
    (x,), (t,) = primals, tangents
    return f(x), (f(x + step * t) - f(x - step * t)) / (2 * step)


class WithoutRule:
    """The meaning of `custom_vjp` in an evaluation."""

    def __init__(self, f: Any):
        self.f = f

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)

    def defvjp(self, forward: Any, backward: Any) -> None:
        """The rule is for who differentiates."""


def accumulated(f: Any, xs: Any) -> Any:
    """The meaning of `associative_scan`."""
    row = lambda i: tree_map(lambda x: x[i:i + 1], xs)
    out = [row(0)]
    for i in range(1, len(tree_leaves(xs)[0])):
        out.append(f(out[-1], row(i)))
    return tree_map(lambda *rows: np.concatenate(rows), *out)


PYTHON = SimpleNamespace(**{
    **vars(LOOPS), "vmap": vmap, "grad": lambda f: lambda x: differences(f, x, 1e-4),
    "jvp": slope, "custom_vjp": WithoutRule,
    "lax": SimpleNamespace(**vars(LOOPS.lax), associative_scan=accumulated,
                           custom_root=lambda f, x, solve, tangent_solve: solve(f, x))})
