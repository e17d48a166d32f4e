"""The interpreter: a function of leaky sums, run as for a finer grid of time."""

from __future__ import annotations

from mjax_ext.v1 import core

from leaky_sums._primitive import leaky_sum_p


class _Finer(core.Interpreter):
    def __init__(self, times):
        self.times = times

    def apply(self, primitive, values, params):
        if primitive is leaky_sum_p:
            x, decay = values
            return primitive.bind(x, decay ** (1 / self.times), **params)
        if any(True for _ in core.jaxprs_in_params(params)):  # a loop or a branch
            return self.enter(primitive, values, params)
        return primitive.bind(*values, **params)


def at_finer_steps(f, times):
    """A function whose leaky sums lose as much in `times` steps as they lost in one.

    So a model that was fitted to data by the hour runs on data by the minute, with `times=60`. It
    finds the sums in loops, branches and compiled functions, too.

    Args:
      f: a function of pytrees of arrays.
      times: how many steps stand for one.
    """
    return _Finer(times).on_trees(f)
