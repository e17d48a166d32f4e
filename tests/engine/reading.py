"""Facts that several files of tests read off programs and runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from mjax._engine.ir.jaxpr import jaxprs_in_params


def equations(jaxpr: Any) -> Iterator[Any]:
    """The equations of a program, those inside of an equation after it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def names(jaxpr: Any) -> list[str]:
    """The primitives of a program, those inside of an equation after it."""
    return [eqn.primitive.name for eqn in equations(jaxpr)]


def calls(f: Callable[[], Any]) -> int:
    """How many functions a call calls, those in C included."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        f()
    finally:
        sys.setprofile(before)
    return count
