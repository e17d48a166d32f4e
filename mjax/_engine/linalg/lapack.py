"""LAPACK's kernels, which jaxlib ships for CPU, as functions of stacks of matrices.

`lapack_p` calls one of them. Only lowering rules make it, so it has no rules of its own but its
type and its lowering. Matrices go in and out in the column-major layout of LAPACK; XLA inserts the
transpositions, or none where it can choose the layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.linalg.matrices import INT32, nan_unless
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.emit import array_attr, hlo, ir, op
from mjax._engine.tracing.primitive import Primitive
from mjaxlib_shim.custom_calls import cuts_stacks, lapack_kernel, register_lapack

#: Dtypes that LAPACK computes in.
DTYPES = frozenset(map(np.dtype, ("f4", "f8", "c8", "c16")))

#: The result that says whether a kernel succeeded.
INFO: tuple[tuple[int, ...], Any] = ((), INT32)

Result = tuple[tuple[int, ...], Any]

lapack_p = Primitive("lapack", multiple_results=True)


@lapack_p.def_abstract_eval
def _lapack_type(*operands: Any, target: str, stack: int, results: tuple[Result, ...],
                 attributes: Any, aliases: Any) -> list[ShapedArray]:
    shape = operands[0].shape[:stack]
    return [ShapedArray((*shape, *own), dtype) for own, dtype in results]


@lapack_p.def_lowering
def _lapack_lowering(ctx: Any, *operands: Any, target: str, stack: int, results: Any,
                     attributes: Any, aliases: Any) -> Any:
    register_lapack()
    cut = _cut_stacks(ctx, stack) if ctx.module_context.cut_by_xla and cuts_stacks() else {}
    return op("stablehlo.custom_call", ctx.out_types, operands, {
        "call_target_name": ir.StringAttr.get(target),
        "api_version": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        "backend_config": ir.DictAttr.get({name: _attribute(v) for name, v in attributes}),
        "operand_layouts": array_attr([_layout(a, stack) for a in ctx.avals_in]),
        "result_layouts": array_attr([_layout(a, stack) for a in ctx.avals_out]),
        "output_operand_aliases": array_attr([
            hlo.OutputOperandAlias.get([result] if len(results) > 1 else [], operand, [])
            for operand, result in aliases]),
        **cut,
    })


def _cut_stacks(ctx: Any, stack: int) -> dict[str, Any]:
    """Tells XLA that devices may compute matrices of a stack each, and no parts of a matrix."""
    sizes = list(ctx.avals_in[0].shape[:stack])
    shared = range(stack)

    def dimensions(aval: ShapedArray) -> str:
        own = range(len(sizes), len(sizes) + aval.ndim - stack)
        sizes.extend(aval.shape[stack:])
        return f"[{', '.join(map(_factor, (*shared, *own)))}]"

    given, made = (", ".join(map(dimensions, avals)) for avals in (ctx.avals_in, ctx.avals_out))
    named = ", ".join(f"{_factor(i)}={size}" for i, size in enumerate(sizes))
    return {
        "mhlo.frontend_attributes": ir.DictAttr.get(
            {"num_batch_dims": ir.StringAttr.get(str(stack))}),
        "sdy.sharding_rule": ir.Attribute.parse(
            f"#sdy.op_sharding_rule<({given})->({made}) {{{named}}}>"),
    }


def _factor(index: int) -> str:
    """The name of a factor in the text of a sharding rule: i, j, ..., z, z_1, z_2, ..."""
    return "ijklmnopqrstuvwxyz"[index] if index < 18 else f"z_{index - 17}"


def _attribute(value: Any) -> Any:
    """Letters are bytes, numbers 32 bits wide, as the kernels declare them."""
    if isinstance(value, str):
        return ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), ord(value))
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)


def _layout(aval: ShapedArray, stack: int) -> Any:
    """Minor to major; matrices, which have two axes after those of the stack, by columns."""
    order = list(range(aval.ndim))[::-1]
    if aval.ndim == stack + 2:
        order[:2] = order[1], order[0]
    return ir.DenseIntElementsAttr.get(np.asarray(order, np.int64), type=ir.IndexType.get())


def has_kernel(name: str, dtype: Any) -> bool:
    """Whether this jaxlib has a kernel for a dtype."""
    return np.dtype(dtype) in DTYPES and lapack_kernel(name, np.dtype(dtype).char) is not None


def call(name: str, operands: Sequence[Any], results: Sequence[Result], stack: int,
         aliases: Sequence[tuple[int, int]] = (), **attributes: Any) -> list[Any]:
    """Calls a kernel.

    Args:
      name: the kernel without the letter of the dtype, as `"potrf"`.
      operands: arrays of one dtype; the first decides the kernel.
      results: shape without the leading axes, and dtype, of each result.
      stack: how many leading axes there are.
      aliases: pairs of an operand and the result that may take its memory.
      attributes: letters, booleans and 32-bit numbers.

    Raises:
      NotImplementedError: the dtype is narrower than 32 bits.
    """
    dtype = np.dtype(typeof(operands[0]).dtype)
    if dtype not in DTYPES:
        msg = f"LAPACK does not compute in {dtype}; convert the matrix to float32 first."
        raise NotImplementedError(msg)
    target = lapack_kernel(name, dtype.char)
    return lapack_p.bind(
        *operands, target=target, stack=stack, results=tuple(results),
        attributes=tuple(sorted(attributes.items())), aliases=tuple(aliases))


def call_or_nan(name: str, operands: Sequence[Any], results: Sequence[Result], stack: int,
                aliases: Sequence[tuple[int, int]] = (), **attributes: Any) -> list[Any]:
    """`call` for kernels that say whether they succeeded: NaN for matrices where they did not."""
    *outs, info = call(name, operands, [*results, INFO], stack, aliases, **attributes)
    ok = lax.eq(info, constant_like(info, 0))
    return [nan_unless(ok, x) if dtypes.is_inexact(typeof(x).dtype) else x for x in outs]


def unitary(name: str, dtype: Any) -> str:
    """The kernel of unitary matrices: `or...` for real numbers, `un...` for complex ones."""
    return ("un" if dtypes.is_complex(dtype) else "or") + name


def hermitian(name: str, dtype: Any) -> str:
    """The kernel of symmetric matrices: `sy...` for real numbers, `he...` for complex ones."""
    return ("he" if dtypes.is_complex(dtype) else "sy") + name
