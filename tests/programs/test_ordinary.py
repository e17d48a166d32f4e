"""Ordinary programs: values are those of NumPy and SciPy, gradients those of their differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mjax
from mjax.tree_util import tree_leaves, tree_map
from tests.programs.ordinary import NAMES, differentiated, loaded

SLOW = ("neural_ode", "pendulum", "augmentation", "hmc", "kalman", "transformer", "mlp",
        "least_squares", "fft_convolution")


@pytest.fixture(autouse=True)
def x64() -> Iterator[None]:
    with mjax.enable_x64(True):
        yield


def test_there_are_eleven() -> None:
    assert len(NAMES) == 11


@pytest.mark.parametrize("name", [pytest.param(
    n, marks=[pytest.mark.slow] if n in SLOW else []) for n in NAMES])
def test_values_and_gradients(name: str) -> None:
    module = loaded(name, "mjax")
    args = module.arguments(np.random.default_rng(0))
    places = differentiated(args)
    value, slopes = mjax.value_and_grad(module.program, places)(*args)
    np.testing.assert_allclose(value, module.expected(*args), 1e-6, 1e-7)
    rng = np.random.default_rng(1)
    for _ in range(3):
        direction = [tree_map(lambda x: rng.normal(size=np.shape(x)), args[i]) for i in places]

        def along(t: float, direction: Any = direction) -> Any:
            moved = list(args)
            for i, d in zip(places, direction, strict=True):
                moved[i] = tree_map(lambda x, d: x + t * d, args[i], d)
            return module.expected(*moved)

        step = 1e-5
        numeric = (8 * (along(step) - along(-step)) - along(2 * step) + along(-2 * step)) / (
            12 * step)
        found = sum(np.sum(s * d) for s, d in zip(
            tree_leaves(slopes), tree_leaves(direction), strict=True))
        np.testing.assert_allclose(found, numeric, 2e-5, 2e-5)
