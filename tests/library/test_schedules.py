"""Schedules of step sizes, against formulas in Python."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.example_libraries import optimizers

SCHEDULES = {
    "constant": (optimizers.constant(0.3), lambda i: 0.3),
    "exponential_decay": (optimizers.exponential_decay(2.0, 4, 0.5), lambda i: 2 * 0.5 ** (i / 4)),
    "inverse_time_decay": (optimizers.inverse_time_decay(2.0, 4, 3.0),
                           lambda i: 2 / (1 + 3 * i / 4)),
    "staircase": (optimizers.inverse_time_decay(2.0, 4, 3.0, staircase=True),
                  lambda i: 2 / (1 + 3 * (i // 4))),
    "polynomial_decay": (optimizers.polynomial_decay(2.0, 6, 0.5, 2.0),
                         lambda i: 0.5 + 1.5 * (1 - min(i, 6) / 6) ** 2),
    "piecewise_constant": (optimizers.piecewise_constant([2, 5], [1.0, 0.5, 0.1]),
                           lambda i: 1.0 if i <= 2 else 0.5 if i <= 5 else 0.1),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    schedule, reference = SCHEDULES[name]
    assert optimizers.make_schedule(schedule) is schedule
    expected = [reference(i) for i in range(9)]
    np.testing.assert_allclose([schedule(i) for i in range(9)], expected, 1e-6)
    np.testing.assert_allclose(mjax.lax.map(lambda i: schedule(i) + 0 * i, jnp.arange(9.0)),
                               expected, 1e-6)


def test_piecewise_constant_refuses_values_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"got shapes \(1,\) and \(1,\)"):
        optimizers.piecewise_constant([1], [1.0])
