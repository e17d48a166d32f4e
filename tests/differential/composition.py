"""Random programs: a seed gives a sequence of operations on earlier values.

jax is asked which operations fit: one that it refuses is dropped from the
program. A list keeps it, since mjax must refuse it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from tests.differential.operations import Operation


def arguments(rng: np.random.Generator, dtype: Any) -> list[Any]:
    """What programs start from: arrays of several dtypes and shapes, and Python scalars."""
    return [
        rng.normal(size=(2, 3)).astype(dtype), rng.normal(size=3).astype(dtype),
        np.asarray(rng.normal(), dtype), rng.integers(-3, 4, (2, 3)).astype(np.int32),
        rng.integers(0, 3, 3).astype(np.int32), rng.integers(0, 2, (2, 3)).astype(bool), 0.5, 2,
        rng.integers(0, 9, 3).astype(np.uint8), rng.normal(size=3) + 1j * rng.normal(size=3)]


class Step(NamedTuple):
    """An operation on values made before; the arguments have the first numbers."""

    operation: Operation
    operands: tuple[int, ...]


class Composition:
    """A random program, its arguments, and the operations that jax refused on the way."""

    def __init__(self, operations: Sequence[Operation], seed: int, length: int = 8,
                 dtype: Any = np.float32):
        rng = np.random.default_rng(seed)
        self.arguments = arguments(rng, dtype)
        self.steps: list[Step] = []
        self.refused: list[Step] = []
        values = list(self.arguments)
        for _ in range(20 * length):
            if len(self.steps) == length:
                break
            operation = operations[rng.integers(len(operations))]
            # Recent values are used more often, so that programs are deep.
            weights = np.linspace(1, 3, len(values)) ** 2
            operands = rng.choice(len(values), operation.arity, p=weights / weights.sum())
            step = Step(operation, tuple(map(int, operands)))
            try:
                values.append(operation.apply(jax, *[values[i] for i in step.operands]))
            except Exception:
                self.refused.append(step)
            else:
                self.steps.append(step)

    def __call__(self, m: Any, *args: Any) -> list[Any]:
        """Runs the program in a library; gives the values that no later step uses."""
        values = list(args)
        for operation, operands in self.steps:
            values.append(operation.apply(m, *[values[i] for i in operands]))
        used = {i for step in self.steps for i in step.operands}
        return [v for i, v in enumerate(values) if i >= len(args) and i not in used]

    def __str__(self) -> str:
        lines = [f"v{i + len(self.arguments)} = {op.name}({', '.join(f'v{j}' for j in operands)})"
                 for i, (op, operands) in enumerate(self.steps)]
        return "\n".join(lines)
