"""Lowering to StableHLO: rules, and helpers to write them.

`register_lowering(p, rule, platform=None)`: `rule(ctx, *operands, **params)` gives the list of
the results' `ir.Value`s; `op.results` is one. `ctx` is a `LoweringRuleContext`. `hlo`, `chlo` and
`ir` are jaxlib's MLIR modules (StableHLO, CHLO, the core), loaded on first use; a release of jaxlib
may change them. The oldest spelling works on the whole window of releases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.platforms import PLATFORMS
from mjax._engine.control.callback_primitives import emit_python_callback
from mjax._engine.ir.dtypes import as_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.lowering.context import LoweringContext as LoweringRuleContext
from mjax._engine.lowering.context import ModuleContext
from mjax._engine.lowering.tokens import TokenSet
from mjax._engine.primitives.custom_call_ir import custom_call, ir_attribute
from mjax._engine.primitives.emit import (
    constant,
    element_type,
    ir_types,
    reducer_region,
)
from mjax._engine.primitives.emit import dense_bool as dense_bool_array
from mjax._engine.primitives.emit import dense_i64 as dense_int_array
from mjax._engine.tracing.primitive import Primitive, traced
from mjaxlib_shim.mlir import chlo, hlo, ir

__all__ = [
    # registration
    "LoweringRuleContext", "ModuleContext", "TokenSet", "lower_fun", "register_lowering",
    # jaxlib's modules
    "chlo", "hlo", "ir",
    # types, constants, attributes
    "aval_to_ir_type", "aval_to_ir_types", "dtype_to_ir_type", "ir_attribute", "ir_constant",
    "dense_bool_array", "dense_int_array", "dense_int_elements", "i32_attr", "i64_attr",
    # operations
    "custom_call", "emit_python_callback", "reducer_region",
]


def register_lowering(prim: Primitive, rule: Any, platform: str | None = None) -> Any:
    """Sets how a primitive becomes StableHLO.

    Args:
      prim: the primitive.
      rule: `(ctx, *operands, **params) -> list of ir.Value` (a single one need not be in a list),
        or the result of `lower_fun`.
      platform: the one platform it is for; "gpu": CUDA and ROCm, where these have no rule of their
        own; None: all that have none.

    Returns:
      The rule.

    Raises:
      TypeError: the rule is not a function.
      NotImplementedError: the platform is unknown.
    """
    if not callable(rule):
        msg = f"the lowering of primitive {prim.name!r} must be a function, not {rule!r}."
        raise TypeError(msg)
    if platform is not None and platform not in PLATFORMS:
        msg = (f"the lowering of primitive {prim.name!r} is for platform {platform!r}, which is "
               f"unknown. Platforms: {', '.join(PLATFORMS)}; None: all.")
        raise NotImplementedError(msg)
    return prim.def_lowering(rule, platform)


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> traced:
    """A lowering rule from a function of arrays, in terms of other primitives.

    Args:
      fun: takes the operands and the primitive's params.
      multiple_results: whether it gives a list, rather than one array.

    Returns:
      A rule for `register_lowering`. Another rule may also call it, as `rule(ctx, *operands)`, for
      operands of the types `ctx.avals_in` (`ctx.replace(avals_in=...)` sets those).
    """
    return traced(fun, multiple_results)


def dtype_to_ir_type(dtype: Any) -> Any:
    """The MLIR type of elements of a dtype."""
    return element_type(as_dtype(dtype))


def aval_to_ir_type(ctx_or_aval: Any, aval: Any = None) -> Any:
    """The MLIR type of values of a type: `aval_to_ir_type(aval)`, or `(module_context, aval)`."""
    (found,) = aval_to_ir_types(ctx_or_aval, aval)
    return found


def aval_to_ir_types(ctx_or_aval: Any, aval: Any = None) -> tuple[Any, ...]:
    """The MLIR types of the IR values that represent a value of a type; mostly it is one."""
    return tuple(ir_types(ctx_or_aval if aval is None else aval))


def ir_constant(val: Any, *, aval: Any = None) -> Any:
    """A constant of a NumPy array or Python scalar, of its canonical dtype or of `aval`'s."""
    aval = typeof(val) if aval is None else aval
    return constant(np.asarray(val, aval.dtype))


def i32_attr(i: int) -> Any:
    """An attribute of one 32-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), i)


def i64_attr(i: int) -> Any:
    """An attribute of one 64-bit integer."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), i)


def dense_int_elements(xs: Any) -> Any:
    """An attribute that is a tensor of 64-bit integers."""
    return ir.DenseIntElementsAttr.get(np.asarray(xs, np.int64))


def __dir__() -> list[str]:
    return sorted(__all__)
