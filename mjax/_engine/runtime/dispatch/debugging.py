"""`debug_nans` and `debug_infs`: results of programs are looked at, and a program that gave an
invalid one is run again operation by operation, to find out which made it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr, no_debug_info
from mjax._engine.ir.source import here, summarize
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.transfer import arrived
from mjax._engine.tracing.stage import eval_jaxpr

logger = logging.getLogger("mjax")


def debugging() -> bool:
    """Whether results are looked at."""
    return bool(thread.settings.debug_nans or thread.settings.debug_infs)


def checked(run: Callable[..., Any], jaxpr: Jaxpr, name: str) -> Callable[..., Any]:
    """A runner that raises on NaNs or infinities among what it computes.

    Args:
      run: the runner; gives one array or a list.
      jaxpr: what it runs.
      name: its name.
    """

    def run_checked(*args: Any) -> Any:
        outs = run(*args)
        refuse_invalid(outs, jaxpr, name, list(map(arrived, args)))
        return outs

    return run_checked


def refuse_invalid(outs: Sequence[Any], jaxpr: Jaxpr, name: str, args: Sequence[Any]) -> None:
    """Looks for what the settings forbid among the results of a program.

    Raises:
      FloatingPointError: names the operation that made it, and the user's line.
    """
    for index, out in enumerate(outs):
        kind = invalid(out)
        if kind is not None:
            _diagnose(kind, index, jaxpr, name, args)


def invalid(value: Any) -> str | None:
    """What is forbidden and occurs in an array: "nan", "inf" or None."""
    if not is_array(value) or not dtypes.is_inexact(value.dtype):
        return None
    numbers = np.asarray(value)
    if thread.settings.debug_nans and np.isnan(numbers).any():
        return "nan"
    if thread.settings.debug_infs and np.isinf(numbers).any():
        return "inf"
    return None


def _diagnose(kind: str, index: int, jaxpr: Jaxpr, name: str, args: Sequence[Any]) -> NoReturn:
    source = here()
    only = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
    # An operation without an impl is run as the program that is being diagnosed.
    if only is None or only.primitive.impl is not None:
        logger.warning("Invalid value (%s) in result %d of %s: running it operation by operation.",
                       kind, index, name)
        if jaxpr.debug_info is no_debug_info:
            # No function of the user's: its lines are those of the first call.
            jaxpr = jaxpr.replace(eqns=[eqn._replace(source=source) for eqn in jaxpr.eqns])
        eval_jaxpr(jaxpr, jaxpr.consts, *args)
    if only is None:
        msg = (f"invalid value ({kind}) in result {index} of {name}. Run operation by operation, "
               "none of its operations gives one: XLA's optimizations do, or its arguments have "
               "it.")
    else:
        given = [str(i) for i, arg in enumerate(args) if invalid(arg)]
        msg = (f"invalid value ({kind}) encountered in {only.primitive.name} at {summarize(source)}"
               + (f"; its operand {' and '.join(given)} has it already." if given else "."))
    raise FloatingPointError(msg)
