"""Derivatives by differences, at 64 bits where the primitive takes them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mjax
from mjax._engine.base.records import Record
from mjax._engine.ir import dtypes
from mjax_ext.check._application import Application, Arrays
from mjax_ext.check._compare import difference, precision, tolerance, wide
from mjax_ext.check._operands import alike, magnitudes

_WIDEST = {"f": np.dtype("float64"), "c": np.dtype("complex128")}


class Digits(Record):
    """The precision with which derivatives are checked.

    Attributes:
      wide: whether values have 64 bits.
    """

    wide: bool

    def on(self) -> Any:
        """Switches 64-bit types on where they are needed."""
        return mjax.enable_x64(True) if self.wide else contextlib.nullcontext()

    def of(self, values: Sequence[Any]) -> Arrays:
        """Values in this precision."""
        return [x.astype(_WIDEST.get(dtypes.kind(x.dtype), x.dtype)) if self.wide else x
                for x in values]


def digits_of(application: Application) -> Digits:
    """64 bits, if the primitive takes them and gives the same values; else those it has."""
    # Bodies have types of their own, and backward passes those of their results.
    if not application.inexact or application.programs or application.given.forward is not None:
        return Digits(False)
    found, native = Digits(True), application.evaluate(*application.values)
    try:
        with found.on():
            outs = application.evaluate(*found.of(application.values))
    except Exception:
        return Digits(False)
    widened = all(out.dtype in _WIDEST.values() for out in outs if dtypes.is_inexact(out.dtype))
    rounded = [out.astype(x.dtype) for out, x in zip(outs, native, strict=True)]
    return Digits(widened and difference(rounded, native, 10 * tolerance(native)) is None)


class Slope(Record):
    """The derivative of a result along a direction.

    Attributes:
      value: the derivative.
      rest: the absolute error that is put down to rounding and to the step.
      valid: where it is known: the function is finite and smooth there.
      allowed: the relative error that is put down to rounding.
    """

    value: Any
    rest: Any
    valid: Any
    allowed: float


def direction(random: np.random.Generator, x: Any) -> Any:
    """A direction about as long as the array."""
    size = magnitudes(random, x)
    if dtypes.is_complex(x.dtype):
        turned = size * np.exp(1j * random.uniform(-np.pi, np.pi, x.shape))
        return alike(x, np.asarray(turned, x.dtype))
    return alike(x, np.asarray(size * random.choice([-1, 1], x.shape), x.dtype))


def slopes(f: Callable[..., Arrays], values: Arrays, along: dict[int, Any]) -> list[Slope | None]:
    """The derivatives of the inexact results of a function; None for the other results.

    Two central differences, of a step and of half of it, are extrapolated (Richardson). They also
    say whether the function is smooth: at a kink differences to both sides do not approach each
    other, and at a jump they grow.

    Args:
      f: the function.
      values: the point.
      along: number of a value -> its direction; the others do not move.
    """
    eps = precision(values)
    step = eps ** 0.2

    def at(times: float) -> Arrays:
        moved = [x if k not in along else np.asarray(wide(x) + times * step * wide(along[k]),
                                                     x.dtype) for k, x in enumerate(values)]
        return f(*moved)

    ends = [at(times) for times in (1, -1, 0.5, -0.5, 0)]
    return [_slope(list(map(wide, column)), step, max(eps, precision(column)))
            if dtypes.is_inexact(column[0].dtype) else None
            for column in zip(*ends, strict=True)]


def _slope(ends: Arrays, step: float, eps: float) -> Slope:
    above, below, near_above, near_below, middle = ends
    with np.errstate(all="ignore"):
        whole, half = (above - below) / (2 * step), (near_above - near_below) / step
        value = (4 * half - whole) / 3
        bend = np.abs(above - 2 * middle + below) / step
        half_bend = np.abs(near_above - 2 * middle + near_below) / (step / 2)
        finite = np.logical_and.reduce([np.isfinite(end) for end in ends])
        scale = np.max(np.abs(value), where=finite, initial=0.0)
        allowed = eps ** 0.33
        noise = 30 * eps * np.max(np.abs(middle), where=finite, initial=0.0) / step
        unsure = np.abs(whole - half)
        kink = (half_bend > 0.75 * bend) & (half_bend > allowed * scale + noise)
        valid = finite & ~kink & (unsure <= 0.05 * (np.abs(value) + 0.1 * scale) + noise)
    return Slope(value, np.where(valid, 0.1 * unsure + noise, 0), valid, allowed)
