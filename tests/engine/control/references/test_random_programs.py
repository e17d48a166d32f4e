"""Random programs with references against NumPy's arrays in Python's loops."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mjax
from tests.engine.control.reference_programs import Program, expected, outcome
from tests.engine.primitives.harness import UNOPTIMIZED

compiled = functools.partial(mjax.jit, compiler_options=UNOPTIMIZED)


@pytest.mark.parametrize("seed, depth, most", [
    *((seed, 3, 1) for seed in range(60)),
    *(pytest.param(seed, 3, 3, marks=pytest.mark.slow) for seed in range(60, 80))])
def test_random_programs(seed, depth, most):
    """Values, derivatives, and the final contents of references that are passed in."""
    program = Program(seed, depth, most)
    with mjax.enable_x64(True):
        found = outcome(mjax, program, not program.loops_open, compiled)
    for i, (a, b) in enumerate(zip(found, expected(program), strict=True)):
        tolerance = 2e-4 if i == 1 else 1e-9
        np.testing.assert_allclose(a, b, tolerance, tolerance)
