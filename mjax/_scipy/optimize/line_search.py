"""Line search for a step that satisfies the strong Wolfe conditions.

Source: J. Nocedal and S. Wright, "Numerical optimization", 1999, algorithms 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes

from mjax._engine.control.loops.looping import while_loop
from mjax._engine.ir import dtypes
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import real
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.arithmetic import maximum, minimum, sign, sqrt
from mjax._numpy.core import cast
from mjax._numpy.products import dot
from mjax._numpy.selecting import where

#: Constants of the sufficient decrease and the curvature condition.
_FALL, _FLATTER = 1e-4, 0.9
#: Least distances of a cubic and a quadratic minimum from the interval's ends, relative to it.
_CUBIC_MARGIN, _QUADRATIC_MARGIN = 0.2, 0.1
_MOST_ZOOMS = 30


class Point(NamedTuple):
    """The end of a step.

    Attributes:
      step: its length.
      value: the function at this end.
      slope: its derivative along the direction.
      gradient: its gradient.
    """

    step: Any
    value: Any
    slope: Any
    gradient: Any


class Found(NamedTuple):
    """The result of a search.

    Attributes:
      failed: whether the search did not find a step.
      count: the number of function evaluations.
      step, value, gradient: the step, and the value and gradient at its end.
      status: 0 for success, 1 if the zoom found no step, 3 if the limit of lengths was reached.
    """

    failed: Any
    count: Any
    step: Any
    value: Any
    gradient: Any
    status: Any


def inner(a: Any, b: Any) -> Any:
    """The real part of the product of two vectors, at full precision."""
    product = dot(a, b, precision="highest")
    return real(product) if dtypes.is_complex(typeof(product).dtype) else product


def _chosen(condition: Any, a: Any, b: Any) -> Any:
    """Selects one of two trees; the result has the types of the second."""
    return tree_map(lambda x, y: where(condition, cast(x, typeof(y).dtype), y), a, b)


def _cubic_minimum(a: Any, fa: Any, slope: Any, b: Any, fb: Any, c: Any, fc: Any) -> Any:
    """The minimum of the cubic through three points with a slope at the first; NaN if none."""
    u, v = b - a, c - a
    scale = (u * v) ** 2 * (u - v)
    du, dv = fb - fa - slope * u, fc - fa - slope * v
    third = (v ** 2 * du - u ** 2 * dv) / scale
    second = (u ** 3 * dv - v ** 3 * du) / scale
    return a + (sqrt(second * second - 3.0 * third * slope) - second) / (3.0 * third)


def _quadratic_minimum(a: Any, fa: Any, slope: Any, b: Any, fb: Any) -> Any:
    """The minimum of the parabola through two points with a slope at the first one."""
    u = b - a
    return a - slope / (2.0 * ((fb - fa - slope * u) / u ** 2))


class _Interval(NamedTuple):
    """An interval with a good step; `low` is the best point so far, `other` the one before."""

    low: Point
    high: Point
    other: tuple[Any, Any]
    best: Point
    done: Any
    failed: Any
    count: Any


def _within(at: Callable[[Any], Point], start: Point, low: Point, high: Point, skip: Any
            ) -> _Interval:
    """Narrows an interval until a point in it satisfies the conditions."""
    least = 1e-5 if ml_dtypes.finfo(typeof(low.value).dtype).bits < 64 else 1e-10

    def narrowed(z: _Interval) -> _Interval:
        signed = z.high.step - z.low.step  # the better end may satisfy them already
        width = absolute(signed)
        left, right = minimum(z.low.step, z.high.step), maximum(z.low.step, z.high.step)
        cubic = _cubic_minimum(*z.low[:3], *z.high[:2], *z.other)
        is_cubic = ((z.count > 0) & (cubic > left + _CUBIC_MARGIN * width)
                    & (cubic < right - _CUBIC_MARGIN * width))
        parabolic = _quadratic_minimum(*z.low[:3], *z.high[:2])
        is_parabolic = ((parabolic > left + _QUADRATIC_MARGIN * width)
                        & (parabolic < right - _QUADRATIC_MARGIN * width))
        middle = (z.low.step + z.high.step) / 2.0
        new = at(where(is_cubic, cubic, where(is_parabolic, parabolic, middle)))
        to_high = _too_high(start, new) | (new.value >= z.low.value)
        to_best = _flat_enough(start, new) & ~to_high
        to_low = ~to_high & ~to_best
        turns = to_low & (new.slope * signed >= 0)
        other = _chosen(to_high | turns, z.high[:2], _chosen(to_low, z.low[:2], z.other))
        return _Interval(
            _chosen(to_low, new, z.low), _chosen(to_high, new, _chosen(turns, z.low, z.high)),
            other, _chosen(to_best, new, z.best), z.done | to_best,
            z.failed | (width <= least) | (z.count + 1 >= _MOST_ZOOMS), z.count + 1)

    other = ((low.step + high.step) / 2.0, (low.value + high.value) / 2.0)
    best = low._replace(step=low.step * 0 + 1, gradient=start.gradient)
    state = _Interval(low, high, other, best, skip & False, skip & False, 0)
    return while_loop(lambda z: ~z.done & ~z.failed & ~skip, narrowed, state)


def _too_high(start: Point, new: Point) -> Any:
    return new.value > start.value + _FALL * new.step * start.slope


def _flat_enough(start: Point, new: Point) -> Any:
    return absolute(new.slope) <= -_FLATTER * start.slope


class _Search(NamedTuple):
    last: Point
    best: Point
    number: Any
    done: Any
    failed: Any
    count: Any


def line_search(value_and_grad: Callable[[Any], tuple[Any, Any]], x: Any, direction: Any,
                value: Any, gradient: Any, before: Any, most: Any) -> Found:
    """Finds a step along a descent direction.

    Args:
      value_and_grad: returns the function's value and gradient.
      x: the starting point.
      direction: the descent direction.
      value, gradient: of the function at `x`.
      before: the value before the last step, from which the first length is guessed; None: 1.
      most: the number of lengths to try, each twice the last one.
    """
    slope = inner(gradient, direction)
    zero = slope * 0
    start = Point(zero, value, slope, gradient)

    def at(step: Any) -> Point:
        there, g = value_and_grad(x + cast(step, typeof(direction).dtype) * direction)
        return tree_map(lambda new, old: cast(new, typeof(old).dtype),
                        Point(step, there, inner(g, direction), g), start)

    first = zero + 1
    if before is not None:
        guess = 1.01 * 2 * (value - before) / slope
        first = cast(where(guess > 1, 1.0, guess), typeof(slope).dtype)

    def longer(s: _Search) -> _Search:
        new = at(where(s.number == 1, first, 2.0 * s.last.step))
        over = _too_high(start, new) | ((new.value >= s.last.value) & (s.number > 1))
        taken = _flat_enough(start, new) & ~over
        past = (new.slope >= 0) & ~over & ~taken
        inside = _within(at, start, _chosen(over, s.last, new), _chosen(over, new, s.last),
                         ~(over | past))
        best = _chosen(over | past, inside.best, _chosen(taken, new, s.best))
        return _Search(new, best, s.number + 1, s.done | over | taken | past,
                       s.failed | ((over | past) & inside.failed), s.count + 1 + inside.count)

    no = slope != slope
    state = _Search(start, start, 1, no & False, no & False, 0)
    end = while_loop(lambda s: ~s.done & (s.number <= most) & ~s.failed, longer, state)
    step = end.best.step
    if ml_dtypes.finfo(typeof(step).dtype).bits < 64:
        # Shorter steps change nothing.
        step = where(absolute(step) < 1e-8, sign(step) * 1e-8, step)
    status = where(end.failed, 1, where(end.number > most, 3, 0))
    return Found(end.failed | ~end.done, end.count, step, end.best.value, end.best.gradient,
                 status)


__all__ = ["Found", "Point", "inner", "line_search"]
