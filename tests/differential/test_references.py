"""References beside JAX: random programs that read, write and add in nested control flow."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from tests.engine.control.reference_programs import Program, outcome


@pytest.mark.parametrize("seed, depth, most", [
    *((seed, 3, 1) for seed in range(60)),
    *(pytest.param(seed, 3, 3, marks=pytest.mark.slow) for seed in range(60, 100))])
def test_random_programs(seed, depth, most):
    """JAX does not have reverse mode of all control flow here."""
    program = Program(seed, depth, most)
    with mjax.enable_x64(True), jax.enable_x64(True):
        found = outcome(mjax, program, not program.loops_open)
        wanted = outcome(jax, program, False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9)
