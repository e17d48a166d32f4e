"""Schedules: functions from the index of an update to the step size of an optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._numpy.arithmetic import minimum
from mjax._numpy.core import shape_of
from mjax._numpy.creation import asarray
from mjax._numpy.rounding import floor

#: The index of an update, from 0.
Step = int
#: The step size of each step.
Schedule = Callable[[Step], float]


def constant(step_size: Any) -> Schedule:
    """The constant schedule.

    Args:
      step_size: a number.

    Returns:
      A schedule: a function from the index of the update to a step size.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.constant(0.5)(100)
      0.5
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A schedule that decays exponentially: `step_size * decay_rate ** (i / decay_steps)`.

    Args:
      step_size: the first step size.
      decay_steps: the number of updates after which the step size has decayed by `decay_rate`.
      decay_rate: the factor.

    Returns:
      A schedule: a function from the index of the update to a step size.

    Raises:
      TypeError: the schedule is called, and an argument is not a number or an array.
      ZeroDivisionError: the schedule divides a Python number by a `decay_steps` of 0.
      OverflowError: a step size exceeds the range of Python's floats.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.exponential_decay(1.0, decay_steps=10, decay_rate=0.5)(20)
      0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
                       ) -> Schedule:
    """A schedule with inverse time decay: `step_size / (1 + decay_rate * i / decay_steps)`.

    Args:
      step_size: the first step size.
      decay_steps: the number of updates that counts as one step of decay.
      decay_rate: the rate of decay in each such step.
      staircase: whether to round `i / decay_steps` down.

    Returns:
      A schedule: a function from the index of the update to a step size.

    Raises:
      TypeError: the schedule is called, and an argument is not a number or an array.
      ZeroDivisionError: the schedule divides a Python number by 0.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.inverse_time_decay(1.0, decay_steps=10, decay_rate=0.5)(20)
      0.5
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
                     ) -> Schedule:
    """A schedule that decays polynomially from one step size to another.

    Args:
      step_size: the first step size.
      decay_steps: the number of updates until the final step size.
      final_step_size: the final step size.
      power: the degree of the polynomial; 1 for a straight line.

    Returns:
      A schedule: a function from the index of the update to a step size.

    Raises:
      TypeError: the schedule is called, and an argument is not a number or an array.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.polynomial_decay(1.0, decay_steps=10, final_step_size=0.5)(5)
      Array(0.75, dtype=float32, weak_type=True)
    """

    def schedule(i: Step) -> Any:
        left = (1 - minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """A piecewise constant schedule; each piece includes the boundary at its end.

    Args:
      boundaries: indices of updates in ascending order, an array of shape (n,).
      values: the step sizes between them, an array of shape (n + 1,).

    Returns:
      A schedule: a function from the index of the update to a step size.

    Raises:
      ValueError: an argument is not a vector, or there is not one more value than boundaries.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> schedule = optimizers.piecewise_constant([10], [1.0, 0.5])
      >>> schedule(10), schedule(11)
      (Array(1., dtype=float32), Array(0.5, dtype=float32))
    """
    boundaries, values = asarray(boundaries), asarray(values)
    shapes = shape_of(boundaries), shape_of(values)
    if [len(s) for s in shapes] != [1, 1] or shapes[0][0] != shapes[1][0] - 1:
        msg = ("piecewise_constant: boundaries and values must be vectors, with one value more "
               f"than boundaries; got shapes {shapes[0]} and {shapes[1]}.")
        raise ValueError(msg)
    return lambda i: values[(i > boundaries).sum()]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """Turns a step size into a schedule; returns schedules unchanged.

    Args:
      scalar_or_schedule: a number, or a function from the index of the update to a number.

    Returns:
      A schedule: a function from the index of the update to a step size.

    Raises:
      TypeError: the argument is a list, tuple, dict or string, or an array that is not a scalar.

    Example:
      >>> from mjax.example_libraries import optimizers
      >>> optimizers.make_schedule(0.5)(3)
      0.5
    """
    if callable(scalar_or_schedule):
        schedule: Schedule = scalar_or_schedule
        return schedule
    if getattr(scalar_or_schedule, "shape", ()) == () and not isinstance(
            scalar_or_schedule, (list, tuple, dict, str)):
        return constant(scalar_or_schedule)
    msg = (f"a step size must be a number or a function of the index of the update, got "
           f"{scalar_or_schedule!r}.")
    raise TypeError(msg)
