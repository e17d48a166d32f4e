"""Emits comparisons and extrema of numbers, complex numbers and values stored as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import hlo, ir_type, op, reduce_ir

_bool = np.dtype(bool)


def compare_stored_ir(ctx: Any, x: Any, y: Any, direction: str, dtype: Any) -> Any:
    """Emits the comparison of values stored as arrays: equal if all their numbers are equal."""
    equal = direction == "EQ"
    each = compare_ir(x, y, direction, dtype.element_dtype)
    rank = ctx.avals_out[0].ndim
    return [reduce_ir(ctx.out_types[0], each, _bool, range(rank, rank + len(dtype.element_shape)),
                      equal, hlo.and_ if equal else hlo.or_)]


def compare_ir(x: Any, y: Any, direction: str, dtype: Any, floats: str = "FLOAT") -> Any:
    """Emits a comparison of two values of one type; `floats` is StableHLO's `compare_type`."""
    kind = {"i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}.get(dtypes.kind(dtype), floats)
    return hlo.compare(x, y, hlo.ComparisonDirectionAttr.get(direction),
                       compare_type=hlo.ComparisonTypeAttr.get(kind))


def parts_ir(x: Any, aval: ShapedArray) -> tuple[list[Any], ShapedArray]:
    """Emits the real and the imaginary part of a complex value; their type."""
    part = aval.update(dtype=dtypes.real_dtype(aval.dtype))
    return [op(f"stablehlo.{p}", [ir_type(part)], [x])[0] for p in ("real", "imag")], part


def extremum_ir(name: str, x: Any, y: Any, aval: ShapedArray) -> Any:
    """Emits the `maximum` or `minimum` of two values of one type.

    Complex numbers are compared by their real parts, then by their imaginary parts.
    """
    if aval.dtype.kind != "c":
        return op(f"stablehlo.{name}", [x.type], [x, y])[0]
    direction = "GT" if name == "maximum" else "LT"
    ((rx, ix), part), ((ry, iy), _) = parts_ir(x, aval), parts_ir(y, aval)
    wins = hlo.select(compare_ir(rx, ry, "EQ", part.dtype),
                      compare_ir(ix, iy, direction, part.dtype),
                      compare_ir(rx, ry, direction, part.dtype))
    return hlo.select(wins, x, y)
