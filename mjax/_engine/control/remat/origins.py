"""The origins of values saved for a derivative, and the log of the values that remat saves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from mjax._engine.ir.source import summarize
from mjax._engine.primitives.convert import reduce_precision_p
from mjax._engine.primitives.names import name_p

logger = logging.getLogger("mjax")


class Origin(Record):
    """The origin of a value; sorts in the order of its program."""

    place: tuple[int, ...]
    text: str


def log_saved(known: Jaxpr, sources: Sequence[int]) -> None:
    """Logs the values that a rematerialized function saves: as a warning if
    `log_checkpoint_residuals` is on.

    Args:
      known: the program that computes them.
      sources: the places of the saved values among its inputs and results.
    """
    level = logging.WARNING if thread.options.log_checkpoint_residuals else logging.DEBUG
    if not logger.isEnabledFor(level):
        return
    n = len(known.invars)
    inputs = [f"  {known.invars[s].aval.str_short()}" for s in sources if s < n]
    made = [known.outvars[s - n] for s in sources if s >= n]
    found = sorted([(origin_of(known, v), v.aval) for v in made], key=lambda pair: pair[0].place)
    parts = []
    if inputs:
        parts.append("\n".join(["inputs with shapes:", *inputs]))
    if found:
        parts.append("\n".join(["these intermediates:", *[
            f"  {aval.str_short()} {origin.text}" for origin, aval in found]]))
    logger.log(level, "remat-decorated function saving %s",
               "\nand saving ".join(parts) or "nothing")


def origin_of(jaxpr: Jaxpr, atom: Any) -> Origin:
    """The origin of a result of a program that is not nested."""
    place, found = _find(jaxpr, atom)
    if isinstance(found, JaxprEqn):
        return Origin((3, *place), f"{_maker(found)} from {summarize(found.source)}")
    if type(found) is Literal:
        return Origin((0,), "from a literal")
    if found in jaxpr.invars:
        i = jaxpr.invars.index(found)
        return Origin((2, i), f"from the argument {jaxpr.debug_info.arg_name(i)}")
    return Origin((1, *place), "from a constant")


def _find(jaxpr: Jaxpr, atom: Any) -> tuple[Sequence[int], Any]:
    """The equation that makes a value, also inside of `remat2`, and its place; or the input,
    constant or literal that it is."""
    for i, eqn in enumerate(jaxpr.eqns):
        if atom in eqn.outvars:
            if eqn.primitive is reduce_precision_p:
                return _find(jaxpr, eqn.invars[0])
            if eqn.primitive.name != "remat2":
                return (i,), eqn
            inner = eqn.params["jaxpr"]
            place, found = _find(inner, inner.outvars[eqn.outvars.index(atom)])
            if found in inner.invars:
                return _find(jaxpr, eqn.invars[inner.invars.index(found)])
            return (i, *place), found
    return (), atom


def _maker(eqn: JaxprEqn) -> str:
    if eqn.primitive is name_p:
        return f"named {eqn.params['name']!r}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function {eqn.params['name']!r}"
    return f"output of {eqn.primitive.name}"
