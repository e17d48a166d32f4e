"""Counts what the checks that are always on cost where programs are traced.

    python -m benchmarks.checks

Each program is traced as it is, and by an engine without any check (`benchmarks.unchecked`). The
checks are those of params against schemas, of operands and results against abstract evaluations, of
rules as they are registered, of the form of what rules return, of effects, and of tracers of ended
traces; notes on errors cost nothing until a rule raises. The goal is 3 percent of each trace, in
instructions (`benchmarks.instructions`), which are nearest to time and do not depend on the load of
the machine. Bytecodes do not need Valgrind, but leave out C code. Seconds, of real programs, are
those that the thread computed, in the best turn; they differ by 2 percent from run to run. The
lines after the real programs consist of equations alone, a hundred each.

A primitive is defined once, so that the last line, which compares its rules with each other, has no
goal.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from benchmarks.instructions import count, run_marked
from benchmarks.programs import PROGRAMS
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
#: The argument that asks to run traces between marks.
COUNT = "--count"
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
    sys._getframe().f_trace_opcodes = True  # CPython 3.12 asks once, as tracing is set.
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


def real_programs() -> dict[str, Callable[[], Any]]:
    """The traces of the programs in `benchmarks.programs`: values and gradients, and batches."""
    found: dict[str, Callable[[], Any]] = {}
    for program in PROGRAMS:
        args = program.args(np.random.default_rng(0), 1)
        f = mjax.value_and_grad(lambda *args, run=program.run: run(mjax, *args),
                                program.differentiated)
        batch = mjax.tree.map(lambda x: np.stack([x, x]), args)
        found[f"{program.name}, grad"] = lambda f=f, args=args: (  # type: ignore[misc]
            mjax.make_jaxpr(f)(*args))
        found[f"{program.name}, vmap of grad"] = lambda f=f, args=batch: (  # type: ignore[misc]
            mjax.make_jaxpr(mjax.vmap(f))(*args))
    return found


def all_programs(start: str = "") -> dict[str, Callable[[], Any]]:
    """The traces of real programs and of equations alone whose names start so."""
    return {name: call for name, call in {**real_programs(), **programs()}.items()
            if name.startswith(start)}


def instructions(start: str = "", seeds: Sequence[int] = (0, 1, 2)) -> dict[str, tuple[int, int]]:
    """Instructions of each trace with the checks and without, the least of these seeds of hashes.

    It is empty without Valgrind.
    """
    runs = list(itertools.product(("checked", "without"), seeds))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda run: count(
            ["-m", "benchmarks.checks", COUNT, run[0], start], run[1]), runs))
    if not any(found):
        return {}
    least = [list(map(min, zip(*found[i:i + len(seeds)], strict=True)))
             for i in (0, len(seeds))]
    return dict(zip(all_programs(start), zip(*least, strict=True), strict=True))


def count_all(mode: str, start: str) -> None:
    """Runs traces between marks; for `instructions`."""
    with without(CHECKS if mode == "without" else ()):
        run_marked(all_programs(start).values())


def seconds(name: str, rounds: int = 3) -> tuple[float, float]:
    """The seconds of a trace with the checks and without, each in processes of its own, in turns.

    In one process, taking checks out and back makes CPython specialize functions anew.
    """
    best = [float("inf")] * 2
    for _ in range(rounds):
        for i, mode in enumerate(("checked", "without")):
            out = subprocess.run([sys.executable, "-m", "benchmarks.checks", name, mode],
                                 check=True, capture_output=True, text=True).stdout
            best[i] = min(best[i], float(out))
    return best[0], best[1]


def timed(name: str, mode: str, turns: int = 12) -> float:
    """Computed seconds of a trace, in the best turn."""
    call = all_programs(name)[name]
    with without(CHECKS if mode == "without" else ()):
        for _ in range(5):
            call()
        loops = max(1, round(0.1 / turn(call, 2)))
        return min(turn(call, loops) for _ in range(turns))


def turn(call: Callable[[], Any], loops: int) -> float:
    """Computed seconds per call."""
    start = time.thread_time()
    for _ in range(loops):
        call()
    return (time.thread_time() - start) / loops


def shares(start: str = "", count: int = EQUATIONS) -> Iterator[tuple[str, int, int]]:
    """Name of a program that starts so, bytecodes with the checks, and without."""
    return compared({name: call for name, call in programs(count).items()
                     if name.startswith(start)})


def compared(calls: Mapping[str, Callable[[], Any]]) -> Iterator[tuple[str, int, int]]:
    """Name of each call, bytecodes with the checks, and without."""
    least = lambda call: min(bytecodes(call) for _ in range(3))  # caches grow now and then
    for name, call in calls.items():
        call()
        checked = least(call)
        with without(CHECKS):
            call()
            bare = least(call)
        yield name, checked, bare


def main() -> None:
    """Prints the table."""
    print(f"{'':42}{'instructions':>13}{'without':>10}{'checks':>8}{'bytecodes':>11}{'seconds':>9}")
    total = [0.0, 0.0]
    real, known = real_programs(), instructions()
    for name, checked, bare in compared(all_programs()):
        line, missed = f"{name:42}", ""
        if name in known:
            slow, fast = known[name]
            line += f"{slow:13,}{fast:12,}{1 - fast / slow:8.2%}"
            missed = "  missed" if name != DEFINITION and 1 - fast / slow > GOAL else ""
        line += f"{1 - bare / checked:11.2%}"
        if name in real:
            slow, fast = seconds(name)
            line += f"{1 - fast / slow:9.2%}"
            total = [total[0] + slow, total[1] + fast]
        print(line + missed, flush=True)
    print(f"{'all real programs':73}{1 - total[1] / total[0]:9.2%}")


if __name__ == "__main__":
    if sys.argv[1:2] == [COUNT]:
        count_all(*sys.argv[2:])
    elif len(sys.argv) == 3:
        print(timed(*sys.argv[1:]))
    else:
        main()
