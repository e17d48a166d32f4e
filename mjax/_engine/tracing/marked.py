"""The mark of lowerings that are traceable functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class traced:
    """Marks a lowering given as a traceable function; the lowering pass traces it.

    Args:
      function: takes values and the primitive's params, gives values.
      multiple_results: whether it gives a sequence.
    """

    __slots__ = ("function", "multiple_results")
    #: Tells these rules from functions, also to modules below this one.
    traceable = True

    def __init__(self, function: Callable[..., Any], multiple_results: bool = False):
        self.function = function
        self.multiple_results = multiple_results

    def __call__(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """Lowers the function for the types `ctx.avals_in`, from inside of another rule."""
        return ctx.lower_traced(self, operands, params)
