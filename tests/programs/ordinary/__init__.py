"""Ordinary programs, as users of JAX write them, with `mjax` where they import `jax`.

A program is a file: `program` gives a number, `arguments(rng)` its arguments, and `expected` the
same number by NumPy and SciPy alone.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import numpy as np

NAMES = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem != "__init__")


def loaded(name: str, library: str) -> Any:
    """The module of a program, with its imports changed to those of a library."""
    path = Path(__file__).parent / f"{name}.py"
    module = types.ModuleType(f"{library}_{name}")
    exec(compile(path.read_text().replace("mjax", library), str(path), "exec"), vars(module))
    return module


def differentiated(args: Any) -> tuple[int, ...]:
    """The arguments that hold only floats."""
    from mjax.tree_util import tree_leaves

    return tuple(i for i, arg in enumerate(args)
                 if all(np.asarray(x).dtype.kind == "f" for x in tree_leaves(arg)))
