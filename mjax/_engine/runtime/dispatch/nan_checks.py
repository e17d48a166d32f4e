"""`debug_nans` and `debug_infs`: checks of results of programs.

A program with an invalid result runs again operation by operation, to find the operation that
produced it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr, no_debug_info
from mjax._engine.ir.source import (
    DERIVATIVE_OF,
    Scope,
    here,
    plain,
    source_info_of,
    summarize,
)
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.transfer import arrived
from mjax._engine.tracing.stage import eval_jaxpr

logger = logging.getLogger("mjax")


def nan_checks_enabled() -> bool:
    """Whether results are checked."""
    return bool(thread.settings.debug_nans or thread.settings.debug_infs)


def checked(run: Callable[..., Any], jaxpr: Jaxpr, name: str) -> Callable[..., Any]:
    """A runner that raises on NaNs or infinities in its results.

    Args:
      run: the runner; it returns one array or a list.
      jaxpr: its program.
      name: the program's name.
    """

    def run_checked(*args: Any) -> Any:
        outs = run(*args)
        refuse_invalid(outs, jaxpr, name, list(map(arrived, args)))
        return outs

    return run_checked


def refuse_invalid(outs: Sequence[Any], jaxpr: Jaxpr, name: str, args: Sequence[Any]) -> None:
    """Refuses results of a program that the settings forbid.

    Raises:
      FloatingPointError: names the operation that produced it, and the user's line.
    """
    for index, out in enumerate(outs):
        kind = invalid(out)
        if kind is not None:
            _diagnose(kind, index, jaxpr, name, args)


def invalid(value: Any) -> str | None:
    """The forbidden kind of values in an array: "nan", "inf" or None."""
    if not is_array(value) or not dtypes.is_inexact(value.dtype):
        return None
    numbers = np.asarray(value)
    if thread.settings.debug_nans and np.isnan(numbers).any():
        return "nan"
    if thread.settings.debug_infs and np.isinf(numbers).any():
        return "inf"
    return None


def _forward(name: str) -> str:
    """The operation whose derivative is computed now by a primitive of this name, in words."""
    source = thread.source
    if source is None:
        return ""
    names = (plain(source.names_in(thread.interpreter)) if type(source) is Scope
             else source_info_of(source).name_stack)
    found = re.findall(rf"{DERIVATIVE_OF}([^()/]+)", "/".join(names))
    # Going forward, the operation itself is there too, besides what its derivative needs.
    other = found and (found[-1] != name or any(n.startswith("transpose(") for n in names))
    return f", in the derivative of {found[-1]}," if other else ""


def _of_operands(kind: str, args: Sequence[Any]) -> str:
    """The end of a sentence: which operands have a part in the value."""
    given = [str(i) for i, arg in enumerate(args) if invalid(arg)]
    if given:
        return f"; its operand {' and '.join(given)} already holds it."
    infinite = [str(i) for i, arg in enumerate(args)
                if is_array(arg) and dtypes.is_inexact(arg.dtype) and np.isinf(arg).any()]
    if kind == "nan" and infinite:
        return (f"; its operand {' and '.join(infinite)} is infinite, and the flag debug_infs "
                "finds the operation that made it so.")
    return "."


def _diagnose(kind: str, index: int, jaxpr: Jaxpr, name: str, args: Sequence[Any]) -> NoReturn:
    source = here()
    only = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
    # An operation without an impl would run as the program that is being diagnosed.
    if only is None or only.primitive.impl is not None:
        logger.warning("Invalid value (%s) in result %d of %s: running it operation by operation.",
                       kind, index, name)
        if jaxpr.debug_info is no_debug_info:
            # Not a user's function: its lines are those of the first call.
            jaxpr = jaxpr.replace(eqns=[eqn._replace(source=source) for eqn in jaxpr.eqns])
        eval_jaxpr(jaxpr, jaxpr.consts, *args)
    if only is None:
        msg = (f"invalid value ({kind}) in result {index} of {name}. Run operation by operation, "
               "none of its operations produces one: XLA's optimizations do, or the arguments hold "
               "it.")
    else:
        what = only.primitive.name
        msg = (f"invalid value ({kind}) encountered in {what}{_forward(what)} at "
               f"{summarize(source)}{_of_operands(kind, args)}")
    raise FloatingPointError(msg)
