"""Helpers that the distributions share: arguments, descriptions, a logarithm of tails."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from mjax._engine.primitives import arithmetic as lax
from mjax._scipy.special.arguments import where


def described(name: str, formula: str, outside: str = "", **parameters: str) -> dict[str, str]:
    """Fragments of the docstrings of a distribution; see `documented`.

    Args:
      name: its name in `scipy.stats`.
      formula: its density or probabilities, with y for `(x - loc) / scale`.
      outside: what is said besides about results.
      parameters: the descriptions of the arguments.
    """
    gives = ("Returns:\n  An array of the shape that the arguments broadcast to, of their common "
             "dtype if that\n  is inexact, else of the default float.")
    if outside:
        gives += "\n" + textwrap.fill(outside, 88, initial_indent="  ", subsequent_indent="  ")
    return {**parameters, "gives": (
        f"{gives}\n\nRaises:\n  TypeError: an argument is not an array or scalar, or the shapes do "
        f"not broadcast.\n\nSource: `scipy.stats.{name}`, {formula}.")}


def log_one_minus_exp(y: Any) -> Any:
    """`log(1 - exp(-y))` for `y >= 0`, with all digits at either end.

    Source: Maechler 2012, "Accurately computing log(1 - exp(-|a|))".
    """
    large = y > math.log(2)
    # Harmless numbers where the other one is used: derivatives come back through both.
    near, far = where(large, 1, y), where(large, y, 1)
    # A difference, since the negative of 0 may be -0, where the slope has the wrong sign.
    return where(large, lax.log1p(-lax.exp(-far)), lax.log(0 - lax.expm1(-near)))
