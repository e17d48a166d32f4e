"""Counts the rules that are written by hand for primitives that hold programs.

    python -m benchmarks.rules

Rules that every primitive needs are not counted (impl, abstract_eval, lowering, typecheck, pretty).
Declarations of frames are not, either: how operands enter a program, and how results leave it.
Overridden methods of the kit are counted, and functions that are passed to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mjax_ext.core.primitives as engine
from mjax._engine.control.frame import Frame

FIELDS = ("jvp", "linearize", "partial_eval", "transpose", "batch", "axis_batch", "dce",
          "recompute", "cast_varying")
#: Methods of frames that declare and do not transform.
DECLARATIONS = {"open", "close", "body", "again", "derivative", "scope", "entered", "outer",
                "carries", "batch_dim", "abstract_eval", "typecheck"}


def holding() -> list[Any]:
    """The engine's primitives that hold programs."""
    found = {p.name: p for name, p in vars(engine).items() if name.endswith("_p")}
    names = ("jit", "closed_call", "remat2", "remat_opt", "scan", "while", "cond", "shard_map",
             "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_lin",
             "linear_call", "custom_linear_solve", "composite", "reduce", "reduce_window")
    return [found[name] for name in names]


def written(primitive: Any) -> Iterator[str]:
    """The rules of a primitive that are written by hand."""
    frames = set()
    for field in FIELDS:
        rule = getattr(primitive, field)
        if rule is None or field in primitive.derived:
            continue
        owner = getattr(rule, "__self__", None)
        if isinstance(owner, Frame):
            frames.add(owner)
        else:
            yield field
    for frame in frames:
        if type(frame) is not Frame:  # what it inherits is the kit
            yield from (f"frame.{name}" for name, value in vars(type(frame)).items()
                        if callable(value) and name not in DECLARATIONS)
        if frame.transforms is not Frame.transforms:
            yield from (f"transforms.{name}" for name in frame.transforms._fields)


def main() -> None:
    """Prints the rules of each primitive and their number."""
    total = 0
    for primitive in holding():
        rules = sorted(written(primitive))
        total += len(rules)
        print(f"{primitive.name:22}{len(rules):3}  {' '.join(rules)}")
    print(f"{'all':22}{total:3}")


if __name__ == "__main__":
    main()
