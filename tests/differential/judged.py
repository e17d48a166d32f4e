"""Where random programs may differ: operations, by the types of their operands.

What they differ by is explained here or in docs/differences.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: `(types, derivative)`: whether the libraries differ on operands of these types; `derivative`
#: says whether the program is differentiated.
Judgement = Callable[[Sequence[Any], bool], bool]


def _least_int8(types: Sequence[Any], derivative: bool) -> bool:
    """The loop of jax does not come to an end at -128."""
    return any(t.dtype == np.int8 for t in types)


def _complex(types: Sequence[Any], derivative: bool) -> bool:
    """What has no order is refused by jax where it lowers: not in code that is dead."""
    return types[0].dtype.kind == "c"


def _booleans(types: Sequence[Any], derivative: bool) -> bool:
    """NumPy's result, and that of integers."""
    return all(t.dtype == bool for t in types)


def _branch(types: Sequence[Any], derivative: bool) -> bool:
    """The derivative of jax takes the other branch of a root of complex numbers."""
    return derivative and types[0].dtype.kind == "c"


def _nothing(types: Sequence[Any], derivative: bool) -> bool:
    """The tangent of a mean of nothing is NaN, as of `mean` in both."""
    return derivative and types[0].size == 0


def _last_digits(types: Sequence[Any], derivative: bool) -> bool:
    """The bits of numbers that are near."""
    return types[0].dtype.kind not in "iub"


def _exponent(types: Sequence[Any], derivative: bool) -> bool:
    """The derivative of `0 ** y` is 0 in mjax, for every `y` that is not negative."""
    return derivative and types[1].dtype.kind not in "iub"


JUDGED: dict[str, Judgement] = {
    **dict.fromkeys(["numpy.gcd", "numpy.lcm"], _least_int8),
    **dict.fromkeys(["argmax", "argmin", "argmax(axis=-1)"], _complex),
    "numpy.fmod": _booleans,
    **dict.fromkeys(["lax.acosh", "numpy.arccosh"], _branch),
    "bits": _last_digits,
    "numpy.nanmean": _nothing,
    **dict.fromkeys(["numpy.power", "x ** y"], _exponent),
}
