"""Where random programs may differ: operations, by the types of their operands.

Their differences are explained here or in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


class Operand(NamedTuple):
    """What an operation takes: its type, whether it is an argument of the program, and what gives
    its value, or None where transformations make others of it."""

    type: Any
    given: bool
    value: Callable[[], Any]

    @property
    def kind(self) -> str:
        return str(self.type.dtype.kind)

    def may_be(self, number: int) -> bool:
        """Whether an element is this number, as far as is known."""
        return self.may(lambda value: value == number)

    def may(self, be: Callable[[Any], Any]) -> bool:
        """Whether something is true of an element, as far as is known."""
        value = self.value()
        return value is None or bool(np.any(be(value)))


#: `(operands, derivative)`: whether the libraries differ on these operands; `derivative` says
#: whether the program is differentiated.
Judgement = Callable[[Sequence[Operand], bool], bool]


def _least_int8(operands: Sequence[Operand], derivative: bool) -> bool:
    """The loop of jax does not come to an end at -128."""
    return any(o.type.dtype == np.int8 and o.may_be(-128) for o in operands)


def _complex(operands: Sequence[Operand], derivative: bool) -> bool:
    """jax refuses to order complex numbers where it lowers: not in dead code, which values without
    derivatives may be in a derivative."""
    return derivative and operands[0].kind == "c"


def _no_window(operands: Sequence[Operand], derivative: bool) -> bool:
    """Windows of size 0 are likewise refused where they are lowered."""
    return derivative and 0 in operands[1].type.shape


def _selector(operands: Sequence[Operand], derivative: bool) -> bool:
    """No operand has a derivative in jax if the number of the choice is out of range."""
    return derivative and operands[0].kind in "iu" and operands[0].may(
        lambda which: (which != 0) & (which != 1))


def _booleans(operands: Sequence[Operand], derivative: bool) -> bool:
    """The remainder of True by False is NumPy's, and that of integers."""
    return all(o.kind == "b" for o in operands) and (
        operands[0].may_be(True) and operands[1].may_be(False))


def _branch(operands: Sequence[Operand], derivative: bool) -> bool:
    """The derivative of jax takes the other branch of a root of complex numbers."""
    return derivative and operands[0].kind == "c" and operands[0].may(lambda z: np.real(z) < 0)


def _nothing(operands: Sequence[Operand], derivative: bool) -> bool:
    """The tangent of a mean of nothing is NaN, as of `mean` in both."""
    return derivative and operands[0].type.size == 0


def _last_digits(operands: Sequence[Operand], derivative: bool) -> bool:
    """The bits of computed numbers that are near."""
    return operands[0].kind not in "iub" and not operands[0].given


def _exponent(operands: Sequence[Operand], derivative: bool) -> bool:
    """The derivative of `0 ** y` is 0 in mjax, for every `y` that is not negative."""
    return derivative and operands[1].kind not in "iub" and operands[0].may_be(0)


JUDGED: dict[str, Judgement] = {
    **dict.fromkeys(["numpy.gcd", "numpy.lcm"], _least_int8),
    **dict.fromkeys(["argmax", "argmin", "argmax(axis=-1)", "numpy.argmax", "numpy.argmin"],
                    _complex),
    "conv": _no_window,
    **dict.fromkeys(["lax.select", "lax.select_n"], _selector),
    "numpy.fmod": _booleans,
    **dict.fromkeys(["lax.acosh", "numpy.arccosh"], _branch),
    **dict.fromkeys(["bits", "view int"], _last_digits),
    "numpy.nanmean": _nothing,
    **dict.fromkeys(["numpy.power", "x ** y"], _exponent),
}
