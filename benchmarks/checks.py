"""Counts what the checks that are always on cost where programs are traced, in bytecodes.

    python -m benchmarks.checks

Each program is traced as it is, and by an engine without any check (`benchmarks.unchecked`). The
numbers of bytecodes that ran do not depend on the machine or its load. The checks are those of
params against schemas, of operands and results against abstract evaluations, of rules as they are
registered, of the form of what rules return, of effects, and of tracers of ended traces; notes on
errors cost nothing until a rule raises. The last column is their part; the goal is 3 percent of
each trace.

A primitive is defined once, so that the last line, which compares its rules with each other, has no
goal.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

import mjax
from benchmarks import unchecked
from benchmarks.authored import (
    applied,
    boxed,
    linear,
    product,
    rotation,
    scaling,
    squaring,
    unrolled,
)
from benchmarks.rows import chain
from mjax._engine.tracing import primitive
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.transforms import dce, transpose
from mjax._engine.transforms.batching import BatchInterpreter
from mjax._engine.transforms.jvp import JVPInterpreter
from mjax._engine.transforms.linearize import LinearizeInterpreter
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter
from mjax_ext.core import Trace

GOAL = 0.03
EQUATIONS = 100
#: The one line that is not a trace.
DEFINITION = "definition of a primitive"
_shapes = itertools.count(1000)


class Check(NamedTuple):
    """A function that only checks, and what is left of it without the check."""

    owner: Any
    name: str
    without: Callable[..., Any]


CHECKS = [
    Check(Primitive, "check_params", lambda self, params: None),
    Check(primitive, "check_rule", lambda *args: None),
    Check(primitive, "refuse_derived", lambda *args: None),
    Check(primitive, "note_birth", lambda p: None),
    Check(primitive, "types_of_result", unchecked.types_of_result),
    Check(JVPInterpreter, "process", unchecked.jvp_process),
    Check(LinearizeInterpreter, "differentiate", unchecked.linearized),
    Check(PartialEvalInterpreter, "process", unchecked.partial_eval_process),
    Check(BatchInterpreter, "process", unchecked.batch_process),
    Check(transpose, "_transpose_equation", unchecked.transpose_equation),
    Check(Trace, "process", unchecked.trace_process),
    Check(dce, "pruned", unchecked.pruned),
]


@contextmanager
def without(checks: Sequence[Check]) -> Iterator[None]:
    """Takes checks out in the body of a `with`."""
    patches = [mock.patch.object(*check) for check in checks]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def bytecodes(call: Callable[[], Any]) -> int:
    """The number of bytecodes that a call runs."""
    count = 0

    def follow(frame: Any, event: str, arg: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return follow

    before = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


# ---- programs --------------------------------------------------------------------------


def fresh() -> np.ndarray[Any, Any]:
    """An array of a type that was not seen before."""
    return np.ones(next(_shapes), np.float32)


TRANSFORMS = {
    "jvp": lambda f: lambda *xs: mjax.jvp(f, xs, xs),
    "grad": lambda f: mjax.grad(lambda *xs: f(*xs).sum()),
    "vmap": lambda f: lambda *xs: mjax.vmap(f)(*(x[None] for x in xs)),
    "vmap of grad": lambda f: lambda *xs: mjax.vmap(
        mjax.grad(lambda *xs: f(*xs).sum()))(*(x[None] for x in xs)),
    "own trace": boxed,
}


def programs(count: int = EQUATIONS) -> dict[str, Callable[[], Any]]:
    """The traced programs of so many equations, by name; the first call warms caches."""
    x = np.ones(3, np.float32)
    trace = lambda f, *args: mjax.make_jaxpr(f)(*args)
    plain = scaling("scaling")
    functions: dict[str, tuple[Any, int, Sequence[str]]] = {
        "engine's primitives": (chain(mjax, count), 1, list(TRANSFORMS)),
        "helpers' rules": (applied(plain, count, by=2.0), 1, list(TRANSFORMS)),
        "own rules, one operand": (
            applied(linear("linear"), count, by=2.0), 1, list(TRANSFORMS)),
        "own rules, two operands": (
            applied(product("product"), count), 2, list(TRANSFORMS)),
        "own rules, two results": (
            applied(rotation("rotation"), count, angle=0.5), 2, list(TRANSFORMS)),
        "own rules, a number": (
            lambda x: applied(number, count)(x, 2.0), 1, list(TRANSFORMS)),
        "own linearize and dce": (applied(squaring("squaring"), count), 1, ["grad"]),
        "own partial_eval": (applied(unrolled("unrolled"), count, by=2.0), 1, ["grad"]),
    }
    number = product("product with a number")
    found: dict[str, Callable[[], Any]] = {}
    for name, (f, operands, transforms) in functions.items():
        found[name] = lambda f=f, n=operands: trace(f, *[x] * n)  # type: ignore[misc]
        for transform in transforms:
            g = TRANSFORMS[transform](f)
            found[f"{name}, {transform}"] = (  # type: ignore[misc]
                lambda g=g, n=operands: trace(g, *[x] * n))
    found["engine's, of a new type"] = lambda: trace(chain(mjax, count), fresh())
    found["helpers', of a new type"] = lambda: trace(applied(plain, count, by=2.0), fresh())
    found[DEFINITION] = lambda: scaling("scaling")
    return found


def shares(start: str = "", count: int = EQUATIONS) -> Iterator[tuple[str, int, int]]:
    """Name of a program that starts so, bytecodes with the checks, and without."""
    least = lambda call: min(bytecodes(call) for _ in range(3))  # caches grow now and then
    for name, call in programs(count).items():
        if not name.startswith(start):
            continue
        call()
        checked = least(call)
        with without(CHECKS):
            call()
            yield name, checked, least(call)


def main() -> None:
    """Prints the table."""
    print(f"{'':38}{'checked':>10}{'without':>10}{'checks':>9}")
    for name, checked, bare in shares():
        share = 1 - bare / checked
        missed = "  missed" if name != DEFINITION and share > GOAL else ""
        print(f"{name:38}{checked:10}{bare:10}{share:9.2%}{missed}", flush=True)


if __name__ == "__main__":
    main()
