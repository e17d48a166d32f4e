"""Helpers shared by the distributions: arguments, docstring fragments, tail logarithms."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.primitives import arithmetic as lax
from mjax._scipy.special.arguments import where


def described(name: str, formula: str, outside: str = "", **parameters: str) -> dict[str, str]:
    """Docstring fragments of a distribution; see `documented`.

    Args:
      name: the distribution's name in `scipy.stats`.
      formula: the density or the probabilities, with y for `(x - loc) / scale`.
      outside: further sentences about the results, as values outside the support.
      parameters: descriptions of the arguments, by name.
    """
    gives = ("Returns:\n  An array of the broadcast shape of the arguments. Its dtype is their "
             "common dtype if\n  inexact, else the default float.")
    if outside:
        gives += "\n" + textwrap.fill(outside, 88, initial_indent="  ", subsequent_indent="  ")
    return {**parameters, "gives": (
        f"{gives}\n\nRaises:\n  TypeError: an argument is not an array or scalar, or the shapes do "
        f"not broadcast.\n\nSource: `scipy.stats.{name}`, {formula}.")}


@custom_jvp
def one_minus_exp(y: Any) -> Any:
    """`1 - exp(-y)`, whose slope keeps its digits for large `y`."""
    return -lax.expm1(-y)


@one_minus_exp.defjvp
def _one_minus_exp_jvp(primals: Any, tangents: Any) -> Any:
    (y,), (t,) = primals, tangents
    return one_minus_exp(y), t * lax.exp(-y)


def log_one_minus_exp(y: Any) -> Any:
    """`log(1 - exp(-y))` for `y >= 0`, accurate for small and for large `y`.

    Source: Maechler 2012, "Accurately computing log(1 - exp(-|a|))".
    """
    large = y > math.log(2)
    # Safe inputs for the branch not taken: derivatives flow through both.
    near, far = where(large, 1, y), where(large, y, 1)
    # Not negated: -0 would give the slope the wrong sign.
    return where(large, lax.log1p(-lax.exp(-far)), lax.log(0 - lax.expm1(-near)))
