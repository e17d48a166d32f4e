"""Costs of whole programs by phase: tracing, lowering, compiling, running, and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

import mjax
from benchmarks.programs import PROGRAMS, Program
from benchmarks.timing import interleaved

#: Highest ratio of mjax's cost over jax's. Lowering includes tracing.
GOALS = {"trace": 0.3, "lower": 0.6, "compile": 1.05, "run": 1.05, "memory": 1.05}


class Phase(NamedTuple):
    """The cost of a phase: seconds, or bytes of temporary memory."""

    program: str
    phase: str
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """The ratio of mjax's cost and jax's."""
        return self.ours / self.theirs if self.theirs else 1.0


def calls(m: Any, program: Program, args: Any, stock: int) -> dict[str, Callable[[], Any]]:
    """The value and gradient, to be timed. Each call traces or compiles a new function."""
    def fresh() -> Any:
        return m.value_and_grad(lambda *args: program.run(m, *args), program.differentiated)

    lowered = [m.jit(fresh()).lower(*args) for _ in range(stock)]
    ready = m.jit(fresh())
    on_device = m.device_put(args)
    return {"trace": lambda: m.make_jaxpr(fresh())(*args),
            "lower": lambda: m.jit(fresh()).lower(*args),
            "compile": lambda: lowered.pop().compile(),
            "run": lambda: m.block_until_ready(ready(*on_device))}


def memory(m: Any, program: Program, args: Any) -> int:
    """Bytes of temporary memory of the compiled program."""
    f = m.value_and_grad(lambda *args: program.run(m, *args), program.differentiated)
    return int(m.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes)


def measure(program: Program, quick: bool) -> Iterator[Phase]:
    """The phases of one program on both sides."""
    args = jax.tree_util.tree_map(np.float32, program.args(
        np.random.default_rng(0), 1 if quick else program.large))
    turns = 2 if quick else 5
    # A timed call runs a few times more than its turns.
    both = [calls(m, program, args, turns + 8) for m in (mjax, jax)]
    for phase in both[0]:
        seconds = 0.03 if phase == "run" else 0.0
        yield Phase(program.name, phase, *interleaved([c[phase] for c in both], turns, seconds))
    yield Phase(program.name, "memory", *(memory(m, program, args) for m in (mjax, jax)))


def table(quick: bool) -> list[dict[str, Any]]:
    """Measures and prints all programs."""
    print(f"\n{'mjax over jax':28}" + "".join(f"{phase:>10}" for phase in GOALS))
    print(f"{'goal':28}" + "".join(f"{goal:10.2f}" for goal in GOALS.values()))
    found = []
    for program in PROGRAMS:
        phases = list(measure(program, quick))
        print(f"{program.name:28}" + "".join(f"{p.ratio:10.2f}" for p in phases), flush=True)
        found += [{**p._asdict(), "ratio": p.ratio, "goal": GOALS[p.phase],
                   "reached": p.ratio <= GOALS[p.phase]} for p in phases]
    return found
