"""Integer division in StableHLO without divisions by zero at compile time.

Compiled by XLA, `x / 0` is -1, and the remainder is `x`. But XLA folds divisions of constants, and
with some releases of jaxlib a folded division by zero ends the process. So a divisor
that may be zero is replaced by 1 first, unless an operand is known at run time only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.emit import full, ir, ir_type, op

#: Operations whose results hold elements of their operand.
_SAME_ELEMENTS = frozenset({"stablehlo.broadcast_in_dim", "stablehlo.reshape"})


def division(name: str, of_zero: Callable[[ShapedArray, Any], Any]) -> Callable[..., Any]:
    """The lowering of a division of operands of one shape.

    Args:
      name: the operation's name.
      of_zero: `(type, dividend) -> the result for a zero divisor`.
    """
    def lowering(ctx: Any, x: Any, y: Any) -> Any:
        aval, types = ctx.avals_out[0], ctx.out_types
        if not dtypes.is_integer(aval.dtype) or _at_run_time(x) or _at_run_time(y) or (
                _is_never_zero(y)):
            return op(name, types, [x, y])
        flags = [ir_type(aval.update(dtype=np.dtype(bool)))]
        equal = {"comparison_direction": ir.Attribute.parse("#stablehlo<comparison_direction EQ>")}
        zero = op("stablehlo.compare", flags, [y, full(0, aval)], equal)[0]
        safe = op("stablehlo.select", types, [zero, full(1, aval), y])[0]
        found = op(name, types, [x, safe])[0]
        return op("stablehlo.select", types, [zero, of_zero(aval, x), found])

    return lowering


quotient = division("stablehlo.divide", lambda aval, x: full(
    -1 if dtypes.kind(aval.dtype) == "i" else dtypes.from_int(-1, aval.dtype), aval))
remainder = division("stablehlo.remainder", lambda aval, x: x)


def _at_run_time(value: Any) -> bool:
    """Whether a value is known at run time only: it is an argument of the program."""
    block = value.owner
    if not isinstance(block, ir.Block):
        return False
    function = block.owner
    return function.name == "func.func" and (
        ir.StringAttr(function.attributes["sym_name"]).value == "main")


def _is_never_zero(value: Any) -> bool:
    """Whether a value is a constant without zeros."""
    made = value.owner
    while not isinstance(made, ir.Block) and made.name in _SAME_ELEMENTS:
        made = made.operands[0].owner
    if isinstance(made, ir.Block) or made.name != "stablehlo.constant":
        return False
    elements = ir.DenseIntElementsAttr(made.attributes["value"])
    if elements.is_splat:
        return bool(ir.IntegerAttr(elements.get_splat_value()).value)
    try:
        return bool(np.all(np.asarray(elements)))
    except TypeError:  # less than 8 bits
        return False
