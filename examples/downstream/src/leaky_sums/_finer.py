"""The interpreter: a function of leaky sums, run as for a finer grid of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from mjax_ext.v1 import core

from leaky_sums._primitive import leaky_sum_p


P = ParamSpec("P")
R = TypeVar("R")


class _Finer(core.Interpreter):
    def __init__(self, times: float):
        self.times = times

    def apply(self, primitive: core.Primitive, carried: Sequence[Any], params: dict[str, Any]
              ) -> Any:
        if primitive is leaky_sum_p:
            x, decay = carried
            return primitive.bind(x, decay ** (1 / self.times), **params)
        if any(True for _ in core.jaxprs_in_params(params)):  # a loop or a branch
            return self.enter(primitive, carried, params)
        return primitive.bind(*carried, **params)


def at_finer_steps(f: Callable[P, R], times: float) -> Callable[P, R]:
    """A function whose leaky sums lose as much in `times` steps as they lost in one.

    So a model that was fitted to data by the hour runs on data by the minute, with `times=60`. It
    finds the sums in loops, branches and compiled functions, too.

    Args:
      f: a function of pytrees of arrays.
      times: how many steps stand for one.
    """
    return _Finer(times).on_trees(f)
