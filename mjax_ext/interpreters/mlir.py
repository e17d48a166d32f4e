"""Lowering to StableHLO: rules, and helpers to write them.

`register_lowering(p, rule, platform=None)`: `rule(ctx, *operands, **params)` gives the list of
the results' `ir.Value`s; `op.results` is one. `ctx` is a `LoweringRuleContext`. `hlo`, `chlo` and
`ir` are jaxlib's MLIR modules (StableHLO, CHLO, the core), loaded on first use; a release of jaxlib
may change them. The oldest spelling works on the whole window of releases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.platforms import PLATFORMS
from mjax._engine.control.callback_primitives import emit_python_callback
from mjax._engine.ir.dtypes import as_dtype
from mjax._engine.ir.types import typeof
from mjax._engine.lowering.context import LoweringContext as LoweringRuleContext
from mjax._engine.lowering.context import ModuleContext
from mjax._engine.lowering.tokens import TokenSet
from mjax._engine.primitives.emit import (
    array_attr,
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
    "aval_to_ir_type", "aval_to_ir_types", "dtype_to_ir_type", "ir_constant",
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


def custom_call(call_target_name: str, *, result_types: Sequence[Any], operands: Sequence[Any],
                backend_config: str | bytes | dict[str, Any] = "", has_side_effect: bool = False,
                called_computations: Sequence[str] = (), api_version: int = 2,
                operand_output_aliases: dict[int, int] | None = None,
                operand_layouts: Sequence[Sequence[int]] | None = None,
                result_layouts: Sequence[Sequence[int]] | None = None,
                extra_attributes: dict[str, Any] | None = None) -> Any:
    """A `stablehlo.custom_call`.

    Args:
      call_target_name: the name under which the function was registered.
      result_types: MLIR types of the results (`ctx.out_types`).
      operands: their `ir.Value`s.
      backend_config: a string, or a dict of attributes (`api_version=4`, XLA's typed FFI).
      has_side_effect: whether the call stays even if its results are unused.
      called_computations: names of functions of the module that it calls.
      api_version: the calling convention.
      operand_output_aliases: index of an operand -> index of the result that takes its memory.
      operand_layouts: for each operand its axes, minor to major.
      result_layouts: the same of the results.
      extra_attributes: further attributes of the operation.

    Returns:
      The operation; a rule returns its `.results`.
    """
    config = (ir.DictAttr.get(backend_config) if isinstance(backend_config, dict)
              else ir.StringAttr.get(backend_config))
    attributes = {
        "call_target_name": ir.StringAttr.get(call_target_name),
        "has_side_effect": ir.BoolAttr.get(has_side_effect),
        "backend_config": config,
        "api_version": i32_attr(api_version),
        "called_computations": array_attr([ir.FlatSymbolRefAttr.get(name)
                                           for name in called_computations]),
    }
    if operand_output_aliases:
        attributes["output_operand_aliases"] = array_attr([
            hlo.OutputOperandAlias.get(
                # A single result is not a tuple, so it need not be unpacked.
                output_tuple_indices=[out] if len(result_types) > 1 else [], operand_index=index,
                operand_tuple_indices=[])
            for index, out in operand_output_aliases.items()])
    for key, layouts in (("operand_layouts", operand_layouts), ("result_layouts", result_layouts)):
        if layouts is not None:
            attributes[key] = array_attr([ir.DenseIntElementsAttr.get(
                np.asarray(axes, np.int64).reshape(-1), type=ir.IndexType.get())
                for axes in layouts])
    return hlo.CustomCallOp.build_generic(
        results=list(result_types), operands=list(operands),
        attributes=attributes | (extra_attributes or {}))


def __dir__() -> list[str]:
    return sorted(__all__)
