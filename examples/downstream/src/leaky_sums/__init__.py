"""Leaky sums of time series: each step keeps a part of the sum so far, and adds the next value.

`leaky_sum` is a primitive with all of its rules. `at_finer_steps` runs a function of leaky sums as
for a finer grid of time. Both are written for generation v1 of `mjax_ext`.
"""

import mjax_ext

# First of all: a GenerationError says what to install if this mjax or jaxlib does not do.
mjax_ext.require("v1", jaxlib=">=0.4.36")

from leaky_sums._finer import at_finer_steps  # noqa: E402
from leaky_sums._primitive import leaky_sum, leaky_sum_p  # noqa: E402

__all__ = ["at_finer_steps", "leaky_sum", "leaky_sum_p"]
