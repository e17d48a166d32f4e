"""Kernels of linear algebra, as functions of stacks of matrices.

CPUs have LAPACK's, which jaxlib ships; GPUs cuSOLVER's and hipSOLVER's; TPUs those of XLA itself.
`lapack_p` calls one of the first kinds, `xla_kernel_p` one of the last. Only lowering rules bind
them, so their types and lowerings are their only rules. Matrices are passed to `lapack_p` in
LAPACK's column-major layout; XLA inserts transpositions unless it can choose the layout.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType, Ints
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.linalg.matrices import INT32, nan_unless
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.custom_call_ir import custom_call, ir_attribute
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.emit import ir, shape_ir
from mjax._engine.tracing.primitive import EnginePrimitive
from mjaxlib_shim.custom_calls import cuts_stacks, lapack_kernel, register_lapack
from mjaxlib_shim.partitioners import sharding_rule

#: Dtypes that LAPACK computes in.
DTYPES = frozenset(map(np.dtype, ("f4", "f8", "c8", "c16")))

#: The status that a kernel returns: 0 for success.
INFO: tuple[tuple[int, ...], Any] = ((), INT32)

Result = tuple[tuple[int, ...], Any]

#: The platforms of GPUs, and their libraries of kernels.
GPUS = {"cuda": "cusolver", "rocm": "hipsolver"}

lapack_p = EnginePrimitive("lapack", params={
    "target": str, "stack": int, "results": tuple[tuple[Ints, AnyDType], ...],
    "attributes": tuple[tuple[str, Any], ...], "aliases": tuple[Any, ...]}, multiple_results=True)


@lapack_p.def_abstract_eval
def _lapack_type(*operands: Any, target: str, stack: int, results: tuple[Result, ...],
                 attributes: Any, aliases: Any) -> list[ShapedArray]:
    shape = operands[0].shape[:stack]
    return [ShapedArray((*shape, *own), dtype) for own, dtype in results]


@lapack_p.def_lowering
def _lapack_lowering(ctx: Any, *operands: Any, target: str, stack: int, results: Any,
                     attributes: Any, aliases: Any) -> Any:
    if target.startswith("lapack_"):
        register_lapack()
    cut = _cut_stacks(ctx, stack) if ctx.module_context.cut_by_xla and cuts_stacks() else {}
    return custom_call(
        target, result_types=ctx.out_types, operands=operands,
        backend_config={name: _attribute(v) for name, v in attributes},
        result_shapes=_shapes(ctx),
        operand_layouts=[_layout(a, stack) for a in ctx.avals_in],
        result_layouts=[_layout(a, stack) for a in ctx.avals_out],
        operand_output_aliases=dict(aliases), extra_attributes=cut).results


def _shapes(ctx: Any) -> list[Any] | None:
    """The shapes of results, which are operands if they are symbolic."""
    symbolic = not all(is_constant_shape(a.shape) for a in ctx.avals_out)
    return [shape_ir(a.shape) for a in ctx.avals_out] if symbolic else None


def _cut_stacks(ctx: Any, stack: int) -> dict[str, Any]:
    """Tells XLA that stacks may be sharded over devices, but not matrices."""
    sizes = list(ctx.avals_in[0].shape[:stack])

    def factors(aval: ShapedArray) -> list[list[int]]:
        own = range(len(sizes), len(sizes) + aval.ndim - stack)
        sizes.extend(aval.shape[stack:])
        return [[i] for i in (*range(stack), *own)]

    given, made = (list(map(factors, avals)) for avals in (ctx.avals_in, ctx.avals_out))
    return {
        "mhlo.frontend_attributes": ir.DictAttr.get(
            {"num_batch_dims": ir.StringAttr.get(str(stack))}),
        "sdy.sharding_rule": sharding_rule(sizes, given, made),
    }


def _attribute(value: Any) -> Any:
    """The attributes in the kernels' types: letters as bytes, numbers with 32 bits."""
    if isinstance(value, str):
        return ir.IntegerAttr.get(ir.IntegerType.get_unsigned(8), ord(value))
    return ir_attribute(value if isinstance(value, bool) else np.int32(value))


def _layout(aval: ShapedArray, stack: int) -> list[int]:
    """The layout, minor to major: column-major matrices after the axes of the stack."""
    order = list(range(aval.ndim))[::-1]
    if aval.ndim == stack + 2:
        order[:2] = order[1], order[0]
    return order


def has_kernel(name: str, dtype: Any) -> bool:
    """Whether this jaxlib has a kernel for a dtype."""
    return np.dtype(dtype) in DTYPES and lapack_kernel(name, np.dtype(dtype).char) is not None


def call(name: str, operands: Sequence[Any], results: Sequence[Result], stack: int,
         aliases: Sequence[tuple[int, int]] = (), platform: str = "cpu", **attributes: Any
         ) -> list[Any]:
    """Calls a kernel.

    Args:
      name: the kernel's name, on CPU without the letter of the dtype, such as `"potrf"`.
      operands: arrays; the dtype of the first selects the kernel.
      results: shape without the leading axes, and dtype, of each result.
      stack: the number of leading axes.
      aliases: pairs of an operand and the result that may reuse its memory.
      platform: "cpu", or one of `GPUS`.
      attributes: letters, booleans and 32-bit numbers.

    Raises:
      NotImplementedError: the dtype is narrower than 32 bits.
    """
    dtype = np.dtype(typeof(operands[0]).dtype)
    if dtype not in DTYPES:
        msg = f"LAPACK does not compute in {dtype}; convert the matrix to float32 first."
        raise NotImplementedError(msg)
    target = (f"{GPUS[platform]}_{name}_ffi" if platform in GPUS else
              lapack_kernel(name, dtype.char))
    return lapack_p.bind(
        *operands, target=target, stack=stack, results=tuple(results),
        attributes=tuple(sorted(attributes.items())), aliases=tuple(aliases))


def call_or_nan(name: str, operands: Sequence[Any], results: Sequence[Result], stack: int,
                aliases: Sequence[tuple[int, int]] = (), platform: str = "cpu", **attributes: Any
                ) -> list[Any]:
    """`call` for kernels with a status; results of failed matrices are NaN."""
    *outs, info = call(name, operands, [*results, INFO], stack, aliases, platform, **attributes)
    ok = lax.eq(info, constant_like(info, 0))
    return [nan_unless(ok, x) if dtypes.is_inexact(typeof(x).dtype) else x for x in outs]


# ---- XLA's kernels ---------------------------------------------------------------------

xla_kernel_p = EnginePrimitive("xla_kernel", params={
    "target": str, "results": tuple[tuple[Ints, AnyDType], ...], "config": str},
    multiple_results=True)


@xla_kernel_p.def_abstract_eval
def _xla_kernel_type(*operands: Any, results: tuple[Result, ...], **_: Any) -> list[ShapedArray]:
    return [ShapedArray(shape, dtype) for shape, dtype in results]


@functools.partial(xla_kernel_p.def_lowering, platform="tpu")
def _xla_kernel_lowering(ctx: Any, *operands: Any, target: str, config: str, **_: Any) -> Any:
    return custom_call(target, result_types=ctx.out_types, operands=operands,
                       backend_config=config, result_shapes=_shapes(ctx)).results


def xla_kernel(target: str, operands: Sequence[Any], results: Sequence[Result], config: str = ""
               ) -> list[Any]:
    """Calls a kernel that XLA has for TPUs.

    Args:
      target: its name.
      operands: arrays.
      results: shape and dtype of each result.
      config: further arguments, as a text.
    """
    return xla_kernel_p.bind(*operands, target=target, results=tuple(results), config=config)


for _p in lapack_p, xla_kernel_p:
    for _rule in "jvp", "batch":
        _p.without(_rule, "Lowering rules make it of decompositions of stacks of matrices.")


# ---- names -----------------------------------------------------------------------------


def unitary(name: str, dtype: Any) -> str:
    """The kernel of unitary matrices: `or...` for real numbers, `un...` for complex ones."""
    return ("un" if dtypes.is_complex(dtype) else "or") + name


def hermitian(name: str, dtype: Any) -> str:
    """The kernel of symmetric matrices: `sy...` for real numbers, `he...` for complex ones."""
    return ("he" if dtypes.is_complex(dtype) else "sy") + name
