"""Counts the rules that are written by hand for primitives that hold programs.

    python -m benchmarks.rules

Rules that every primitive needs are not counted (impl, abstract_eval, lowering, typecheck, pretty).
Neither are declarations of frames: how operands enter a program and how results leave it.
Overridden methods of the kit are counted, and so are functions passed to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import mjax_ext.core.primitives as engine
from mjax._engine.control.frame import Frame

FIELDS = ("jvp", "linearize", "partial_eval", "transpose", "batch", "axis_batch", "dce",
          "recompute", "cast_varying")
#: Methods of frames that declare or observe but do not transform, and rules that every primitive
#: needs.
DECLARATIONS = {"open", "close", "body", "again", "derivative", "scope", "entered", "outer",
                "carries", "batch_dim", "abstract_eval", "typecheck", "lowering", "pretty",
                "params", "effects", "times", "alike", "mutable", "pieces", "apart", "handed_on",
                "runs_on", "along"}


def holding() -> list[Any]:
    """The engine's primitives that hold programs."""
    found = {p.name: p for name, p in vars(engine).items() if name.endswith("_p")}
    names = ("jit", "closed_call", "remat2", "remat_opt", "scan", "while", "cond", "shard_map",
             "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "custom_lin",
             "linear_call", "custom_linear_solve", "composite", "reduce", "reduce_window")
    return [found[name] for name in names]


def written(primitive: Any) -> dict[str, Any]:
    """The functions that are written by hand for the rules of a primitive, by name."""
    found, frames = {}, set()
    for field in FIELDS:
        rule = getattr(primitive, field)
        owner = getattr(rule, "__self__", None)
        if isinstance(owner, Frame):
            frames.add(owner)
        elif rule is not None and field not in primitive.derived:
            found[field] = rule
    for frame in frames:
        for cls in type(frame).__mro__[:type(frame).__mro__.index(Frame)]:  # Frame is the kit
            found.update({f"{cls.__name__}.{name}": value for name, value in vars(cls).items()
                          if inspect.isfunction(value) and name not in DECLARATIONS
                          and not name.startswith("__")})
        found.update({f"transforms.{name}": own for name, own, kits in zip(
            frame.transforms._fields, frame.transforms, Frame.transforms, strict=True)
            if own is not kits and name not in DECLARATIONS})
    return found


def count() -> Iterator[tuple[str, list[str]]]:
    """The names of the rules of each primitive; shared rules belong to the first one."""
    known: set[Any] = set()
    for primitive in holding():
        new = {inspect.unwrap(rule).__code__: name for name, rule in written(primitive).items()}
        yield primitive.name, sorted(name for code, name in new.items() if code not in known)
        known.update(new)


def main() -> None:
    """Prints the rules of each primitive and their number."""
    rows = list(count())
    for name, rules in rows:
        print(f"{name:22}{len(rules):3}  {' '.join(rules)}")
    print(f"{'all':22}{sum(len(rules) for _, rules in rows):3}")


if __name__ == "__main__":
    main()
