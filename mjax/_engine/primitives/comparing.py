"""StableHLO of comparisons: of numbers, of values stored as arrays, and by parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import constant, dense_i64, hlo, ir_type, op, reducer_region

_bool = np.dtype(bool)


def compare_stored_ir(ctx: Any, x: Any, y: Any, direction: str, dtype: Any) -> Any:
    """Emits the comparison of values stored as arrays: equal where all their numbers are."""
    equal = direction == "EQ"
    each = compare_ir(x, y, direction, dtype.element_dtype)
    rank = ctx.avals_out[0].ndim
    axes = dense_i64(range(rank, rank + len(dtype.element_shape)))
    reduce = hlo.ReduceOp(ctx.out_types, [each], [constant(np.asarray(equal))], axes)
    reducer_region(reduce.regions[0], [_bool],
                   lambda a, b: [hlo.and_(a, b) if equal else hlo.or_(a, b)])
    return reduce.results


def compare_ir(x: Any, y: Any, direction: str, dtype: Any) -> Any:
    """Emits a comparison of two values of one type."""
    kind = {"i": "SIGNED", "u": "UNSIGNED", "b": "UNSIGNED"}.get(dtypes.kind(dtype), "FLOAT")
    return hlo.compare(x, y, hlo.ComparisonDirectionAttr.get(direction),
                       compare_type=hlo.ComparisonTypeAttr.get(kind))


def parts_ir(x: Any, aval: ShapedArray) -> tuple[list[Any], ShapedArray]:
    """Emits the real and the imaginary part of a complex value; their type."""
    part = aval.update(dtype=dtypes.real_dtype(aval.dtype))
    return [op(f"stablehlo.{p}", [ir_type(part)], [x])[0] for p in ("real", "imag")], part


def complex_extremum_ir(x: Any, y: Any, aval: ShapedArray, direction: str) -> Any:
    """Emits the greater or smaller of two complex values: real parts first, then imaginary."""
    ((rx, ix), part), ((ry, iy), _) = parts_ir(x, aval), parts_ir(y, aval)
    wins = hlo.select(compare_ir(rx, ry, "EQ", part.dtype),
                      compare_ir(ix, iy, direction, part.dtype),
                      compare_ir(rx, ry, direction, part.dtype))
    return hlo.select(wins, x, y)
