"""The warning about programs that close over many bytes of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, jaxprs_in_params
from mjax._engine.ir.source import user_frames, warn
from mjax._engine.ir.types import typeof

#: The number of constants shown, largest first.
_SHOWN = 5


def warn_of_size(constants: Sequence[Any], jaxpr: Jaxpr, name: str) -> None:
    """Warns if constants are larger than the flag `captured_constants_warn_bytes` says.

    Args:
      constants: the arrays that the program closes over.
      jaxpr: the program; searched for their uses if there is a warning.
      name: the name of the program.
    """
    limit = thread.options.captured_constants_warn_bytes
    if limit == -1:
        return
    sizes = [int(getattr(c, "nbytes", 0)) for c in constants]
    if sum(sizes) < limit:
        return
    text = (f"{name} closes over {sum(sizes):,} bytes of arrays in {len(constants)} constants. "
            "Give them as arguments, or set the flag captured_constants_warn_bytes to -1.")
    frames = thread.options.captured_constants_report_frames
    if not frames:
        warn(f"{text} The flag captured_constants_report_frames=-1 shows where they are used.")
        return
    largest = sorted(zip(sizes, constants, strict=True), key=lambda pair: -pair[0])[:_SHOWN]
    lines = [text]
    for size, constant in largest:
        lines.append(f"  {typeof(constant)}, {size:,} bytes, used at:")
        for eqn in _users(jaxpr, constant):
            shown = user_frames(eqn.source)
            lines += [f"    {eqn.primitive.name}: {frame.file}:{frame.line} ({frame.function})"
                      for frame in (shown if frames < 0 else shown[:frames])]
    warn("\n".join(lines))


def _users(jaxpr: Jaxpr, constant: Any) -> Iterator[JaxprEqn]:
    """The equations that read a constant, those of inner programs included."""
    variables = [var for var, value in zip(jaxpr.constvars, jaxpr.consts, strict=True)
                 if value is constant]
    for eqn in jaxpr.eqns:
        if any(atom is var for atom in eqn.invars for var in variables):
            yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from _users(inner, constant)
