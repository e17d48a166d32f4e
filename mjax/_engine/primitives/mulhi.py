"""The upper half of products of integers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.comparing import compare_ir
from mjax._engine.primitives.emit import full as full_ir
from mjax._engine.primitives.emit import hlo, ir_type, op
from mjax._engine.primitives.rows import binary
from mjax._engine.primitives.tangents import ZERO


def _mulhi_lowering(ctx: Any, x: Any, y: Any) -> Any:
    aval = ctx.avals_out[0]
    bits, signed = ml_dtypes.iinfo(aval.dtype).bits, dtypes.kind(aval.dtype) == "i"
    if bits == 64:
        return [_mulhi_64_ir(x, y, aval, signed)]
    wide = aval.update(dtype=np.dtype(np.int64 if signed else np.uint64))
    x, y = [op("stablehlo.convert", [ir_type(wide)], [v])[0] for v in (x, y)]
    shift = "arithmetic" if signed else "logical"
    high = op(f"stablehlo.shift_right_{shift}", [ir_type(wide)],
              [hlo.multiply(x, y), full_ir(bits, wide)])
    return op("stablehlo.convert", ctx.out_types, high)


def _mulhi_64_ir(x: Any, y: Any, aval: ShapedArray, signed: bool) -> Any:
    """Four products of halves; signed numbers are multiplied as unsigned, then corrected."""
    half, mask = full_ir(32, aval), full_ir(2**32 - 1, aval)

    def high(v: Any) -> Any:
        return hlo.shift_right_logical(v, half)

    def low(v: Any) -> Any:
        return hlo.and_(v, mask)

    across = [hlo.multiply(high(x), low(y)), hlo.multiply(low(x), high(y))]
    middle = high(hlo.multiply(low(x), low(y)))
    total = hlo.multiply(high(x), high(y))
    for product in across:
        middle, total = hlo.add(middle, low(product)), hlo.add(total, high(product))
    total = hlo.add(total, high(middle))
    if signed:
        zero = full_ir(0, aval)
        for a, b in ((x, y), (y, x)):
            negative = compare_ir(a, zero, "LT", aval.dtype)
            total = hlo.subtract(total, hlo.select(negative, b, zero))
    return total


mulhi_p, mulhi = binary("mulhi", "iu", _mulhi_lowering, ZERO, ZERO,
                        "Elementwise upper half of the product of integers, of twice their bits.",
                        args="x, y, /", example="2**30, 8 -> 2")
