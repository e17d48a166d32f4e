"""Counts what the checks that are always on cost where programs are traced, in bytecodes.

    python -m benchmarks.checks

Each program is traced as it is, and with the checks taken out. The numbers of bytecodes that ran do
not depend on the machine or its load. The checks are those of params against schemas, of rules as
they are registered, and of the form of what rules return; notes on errors cost nothing until a rule
raises. The third column is their part; the goal is 3 percent of each trace. A primitive is defined
once, so that the last line, which compares its rules with each other, has no goal.

The last column adds the comparison of the types of results with the abstract evaluation, in code
that also casts them and makes tracers.
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
from benchmarks.rows import chain, scalar
from mjax import lax
from mjax._engine.tracing import primitive
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms import batching as batching_transform
from mjax._engine.transforms import jvp as jvp_transform
from mjax._engine.transforms import linearize, transpose
from mjax_ext.interpreters import ad, batching, mlir

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


def _types(p: Any, result: Any, operands: int) -> Any:
    return (result[0] if p.multiple_results else [result[0]]), result[1]


CHECKS = [
    Check(Primitive, "check_params", lambda self, params: None),
    Check(primitive, "check_rule", lambda *args: None),
    Check(primitive, "refuse_derived", lambda *args: None),
    Check(primitive, "note_birth", lambda p: None),
    Check(primitive, "types_of_result", _types),
    *(Check(module, "as_pair", lambda p, rule, result, *more: result)
      for module in (jvp_transform, batching_transform)),
    *(Check(module, "check_lists", lambda *args: None)
      for module in (jvp_transform, batching_transform, linearize)),
]



def _jvp_result(self: Any, p: Any, primal: Any, tangent: Any, declared: Any) -> Any:
    return primal if type(tangent) is Zero else jvp_transform.JVPTracer(self, primal, tangent)


def _batched(self: Any, p: Any, value: Any, dim: Any, declared: Any) -> Any:
    return value if dim is None else batching_transform.BatchTracer(self, value, dim)


TYPES_OF_RESULTS = [
    Check(jvp_transform.JVPInterpreter, "result", _jvp_result),
    Check(batching_transform.BatchInterpreter, "result", _batched),
    Check(transpose, "_checked", lambda p, var, ct: ct),
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


def scaling(name: str) -> Primitive:
    """A user's primitive with a schema and all rules."""
    p = Primitive(name, params={"by": float})
    p.def_abstract_eval(lambda x, *, by: x)
    mlir.register_lowering(p, mlir.lower_fun(lambda x, *, by: lax.mul(x, by), False))
    ad.deflinear(p, lambda ct, *, by: [p.bind(ct, by=by)])
    batching.defvectorized(p)
    return p


def applied(p: Primitive, count: int = EQUATIONS) -> Callable[[Any], Any]:
    """A function of that many applications."""

    def f(x: Any) -> Any:
        for _ in range(count):
            x = p.bind(x, by=2.0)
        return x

    return f


def fresh() -> np.ndarray[Any, Any]:
    """An array of a type that was not seen before."""
    return np.ones(next(_shapes), np.float32)


def programs() -> dict[str, Callable[[], Any]]:
    """The traced programs, by name; the first call warms caches."""
    x, xs = np.ones(3, np.float32), np.ones((2, 3), np.float32)
    p = scaling("scaling")
    trace = lambda f, *args: mjax.make_jaxpr(f)(*args)
    return {
        "engine's primitives": lambda: trace(chain(mjax, EQUATIONS), x),
        "engine's, of a new type": lambda: trace(chain(mjax, EQUATIONS), fresh()),
        "grad of engine's": lambda: trace(mjax.grad(scalar(mjax, EQUATIONS)), x),
        "vmap of engine's": lambda: trace(mjax.vmap(chain(mjax, EQUATIONS)), xs),
        "user's primitive": lambda: trace(applied(p), x),
        "user's, of a new type": lambda: trace(applied(p), fresh()),
        "jvp of user's": lambda: trace(lambda v: mjax.jvp(applied(p), (v,), (v,)), x),
        "vmap of user's": lambda: trace(mjax.vmap(applied(p)), xs),
        DEFINITION: lambda: scaling("scaling"),
    }


def shares() -> Iterator[tuple[str, int, int, int]]:
    """Name of a program, bytecodes with the checks, without, and without those of types, too."""
    least = lambda call: min(bytecodes(call) for _ in range(3))  # caches grow now and then
    for name, call in programs().items():
        call()
        found = [least(call)]
        for checks in CHECKS, CHECKS + TYPES_OF_RESULTS:
            with without(checks):
                call()
                found.append(least(call))
        yield name, *found


def main() -> None:
    """Prints the table."""
    print(f"{'':28}{'checked':>10}{'without':>10}{'checks':>9}{'and types':>11}")
    for name, checked, bare, untyped in shares():
        share, more = 1 - bare / checked, 1 - untyped / checked
        missed = "  missed" if name != DEFINITION and share > GOAL else ""
        print(f"{name:28}{checked:10}{bare:10}{share:9.2%}{more:11.2%}{missed}")


if __name__ == "__main__":
    main()
