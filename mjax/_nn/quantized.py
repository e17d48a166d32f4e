"""Products of arrays quantized to narrow floats with block-wise scales."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_vjp import custom_vjp
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.arithmetic import RoundingMethod, div
from mjax._engine.primitives.arithmetic import round as round_
from mjax._engine.primitives.convert import bitcast_convert_type
from mjax._engine.primitives.dot import (
    canonical_numbers,
    dot_general,
    free_axes,
    product_shape,
)
from mjax._engine.primitives.scaled import scaled_dot
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.arithmetic import absolute
from mjax._numpy.core import cast, check_array, dtype_argument
from mjax._numpy.fused import fused
from mjax._numpy.reductions import max as max_
from mjax._numpy.selecting import clip, where
from mjax._numpy.shapes import matrix_transpose, reshape, transpose

_F32, _U32 = np.dtype(np.float32), np.dtype(np.uint32)
_RESULTS = ("float32", "bfloat16", "float16")
#: Bit masks of a float32: its exponent, and the mantissa below.
_EXPONENT, _MANTISSA = 0x7F800000, 0x007FFFFF
#: Dimension numbers of batched matrix products that contract the last axis of both.
_LAST = (((2,), (2,)), ((0,), (0,)))

# ---- configurations --------------------------------------------------------------------


@dataclasses.dataclass
class BlockScaleConfig:
    """The quantization of an operand; create one with `get_scaled_dot_general_config`.

    Attributes:
      mode: "mxfp8" or "nvfp4".
      block_size: the number of adjacent elements along the contracted axes that share a scale.
      data_type: the narrow dtype of elements.
      scale_type: the narrow dtype of scales.
      global_scale: divides all elements before quantization, or None.
    """

    mode: str
    block_size: int
    data_type: Any
    scale_type: Any
    global_scale: Any = None


@boundary
def get_scaled_dot_general_config(mode: str, global_scale: Any = None) -> BlockScaleConfig:
    """Creates a quantization config for `scaled_dot_general`.

    Args:
      mode: "mxfp8", blocks of 32 elements of float8_e4m3fn whose scales are powers of two; or
        "nvfp4", blocks of 16 elements of float4_e2m1fn whose scales are of float8_e4m3fn.
      global_scale: for "nvfp4", a float32 array of one element, by default 1. It should be close
        to the largest magnitude divided by 2688, the largest number its formats represent.

    Returns:
      A config; `scaled_dot_general` takes three.

    Raises:
      ValueError: `mode` is unknown.

    Source: Open Compute Project 2023, "OCP microscaling formats (MX) specification", version 1.0.

    Example:
      >>> mjax.nn.get_scaled_dot_general_config("mxfp8").block_size
      32
    """
    if mode == "mxfp8":
        return BlockScaleConfig(mode, 32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu)
    if mode == "nvfp4":
        scale = np.ones(1, np.float32) if global_scale is None else global_scale
        return BlockScaleConfig(mode, 16, ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn,
                                array_of(scale))
    msg = f"get_scaled_dot_general_config: mode must be 'mxfp8' or 'nvfp4', got {mode!r}."
    raise ValueError(msg)


class _Format(NamedTuple):
    """The static part of a configuration."""

    mode: str
    block: int
    elements: np.dtype[Any]
    scales: np.dtype[Any]


# ---- rounding --------------------------------------------------------------------------


def _bits(x: Any, plus: int = 0) -> Any:
    """The leading power of two of a float32, or the next one if adding `plus` carries."""
    bits = (bitcast_convert_type(x, _U32) + np.uint32(plus)) & np.uint32(_EXPONENT)
    return bitcast_convert_type(bits, _F32)


def _nearest(x: Any, dtype: np.dtype[Any]) -> Any:
    """Rounds float32 numbers to a narrow dtype, clipped to its range."""
    info = ml_dtypes.finfo(dtype)
    x = clip(x, -float(info.max), float(info.max))
    step = clip(_bits(x), float(info.smallest_normal)) * 2.0 ** -info.nmant
    return round_(div(x, step), RoundingMethod.TO_NEAREST_EVEN) * step


def _quantized(x: Any, form: _Format, global_scale: Any) -> tuple[Any, Any]:
    """Quantized elements and the scales of their blocks along the last axis, in float32."""
    if global_scale is not None:
        x = cast(x, _F32) / global_scale
    elif typeof(x).dtype.itemsize == 1 or not dtypes.is_inexact(typeof(x).dtype):
        x = cast(x, _F32)
    *outer, size = typeof(x).shape
    blocks = reshape(x, (*outer, size // form.block, form.block))
    # As in JAX, the quotient is rounded in the operand's dtype.
    unit = cast(max_(absolute(blocks), -1) / float(ml_dtypes.finfo(form.elements).max), _F32)
    if form.scales == ml_dtypes.float8_e8m0fnu:
        # XLA flushes subnormal numbers to 0.
        scales = clip(_bits(unit, _MANTISSA), float(np.finfo(_F32).smallest_normal))
    else:
        scales = _nearest(unit, form.scales)
    divisors = where(scales == 0, np.float32(1), scales)[..., None]
    elements = _nearest(cast(blocks, _F32) / divisors, form.elements)
    return reshape(elements, (*outer, size)), scales


# ---- products of stacks of matrices ----------------------------------------------------


def _check_blocks(size: int, form: _Format, where_: str) -> None:
    if not size or size % form.block:
        msg = (f"scaled_dot_general: {form.mode} needs blocks of {form.block} along the contracted "
               f"axes{where_}, whose sizes multiply to {size}; pad them with zeros.")
        raise ValueError(msg)


@fused(static_argnames=("forms", "dtype"))
def _rounded_product(lhs: Any, rhs: Any, global_scales: Sequence[Any],
                     forms: tuple[_Format, _Format], dtype: Any) -> Any:
    """The product of `(batch, m, k)` and `(batch, n, k)` after quantizing both."""
    (left, of_left), (right, of_right) = [
        _quantized(x, *rest) for x, *rest in zip((lhs, rhs), forms, global_scales, strict=True)]
    out = scaled_dot(left, right, lhs_scale=of_left, rhs_scale=of_right, dimension_numbers=_LAST,
                     preferred_element_type=_F32)
    for scale in global_scales:
        out = out if scale is None else out * scale
    return cast(out, dtype)


@functools.partial(custom_vjp, nondiff_argnums=(0, 1))
def _product(forms: tuple[_Format, ...], dtype: Any, lhs: Any, rhs: Any,
             global_scales: tuple[Any, ...]) -> Any:
    return _rounded_product(lhs, rhs, list(global_scales[:2]), forms=forms[:2], dtype=dtype)


def _forward(forms: tuple[_Format, ...], dtype: Any, lhs: Any, rhs: Any,
             global_scales: tuple[Any, ...]) -> Any:
    return _product(forms, dtype, lhs, rhs, global_scales), (lhs, rhs, global_scales)


def _slope(x: Any, other: Any, ct: Any, forms: tuple[_Format, _Format, _Format], scales: Any,
           dtype: Any) -> Any:
    """The cotangent of `x`, of shape `(batch, m, k)`; `ct` is `(batch, m, n)`."""
    form, of_other, of_ct = forms
    other = matrix_transpose(other)
    if of_ct.mode == "nvfp4":
        out = dot_general(ct, other, _LAST, preferred_element_type=dtype)
    else:
        for rounded in (of_ct, of_other):
            _check_blocks(typeof(ct).shape[2], rounded, " of a derivative, free ones of operands")
        out = _rounded_product(ct, other, [scales[2], scales[1]], forms=(of_ct, of_other),
                               dtype=dtype)
    if scales[0] is not None:
        # Clipped numbers do not affect the result.
        largest = math.prod(float(ml_dtypes.finfo(d).max) for d in (form.elements, form.scales))
        out = where(absolute(cast(x, _F32)) <= largest * scales[0], out, cast(0, dtype))
    return cast(out, typeof(x).dtype)


def _backward(forms: tuple[_Format, ...], dtype: Any, saved: Any, ct: Any) -> Any:
    if len(forms) < 3:
        msg = ("scaled_dot_general: configs must have a third entry, for the cotangent of the "
               "result, where it is differentiated.")
        raise ValueError(msg)
    lhs, rhs, (of_lhs, of_rhs, of_ct) = saved
    left, right, third = forms
    return (_slope(lhs, rhs, ct, (left, right, third), (of_lhs, of_rhs, of_ct), dtype),
            _slope(rhs, lhs, matrix_transpose(ct), (right, left, third), (of_rhs, of_lhs, of_ct),
                   dtype), None)


_product.defvjp(_forward, _backward)

# ---- the public function ---------------------------------------------------------------


def _as_matrices(x: Any, contracted: Sequence[int], batch: Sequence[int]) -> Any:
    """An operand as `(batch, free, contracted)`."""
    shape = typeof(x).shape
    free = free_axes(len(shape), contracted, batch)
    sizes = [math.prod(shape[i] for i in axes) for axes in (batch, free, contracted)]
    return reshape(transpose(x, (*batch, *free, *contracted)), sizes)


def _formats(configs: Any) -> tuple[tuple[_Format, ...], tuple[Any, ...]]:
    given = list(configs) if isinstance(configs, Sequence) else []
    if len(given) not in (2, 3) or not all(isinstance(c, BlockScaleConfig) for c in given):
        msg = ("scaled_dot_general: configs must be results of get_scaled_dot_general_config for "
               "lhs, for rhs and, where it is differentiated, for the cotangent of the result; got "
               f"{configs!r}.")
        raise TypeError(msg)
    scales = []
    for config in given:
        scale = config.global_scale
        if scale is not None:
            scale = array_of(scale)
            if typeof(scale).size != 1 or typeof(scale).dtype != _F32:
                msg = ("scaled_dot_general: global_scale must be a float32 array of one element, "
                       f"got {typeof(scale)}.")
                raise ValueError(msg)
            scale = reshape(scale, ())
        scales.append(scale)
    return tuple(_Format(c.mode, c.block_size, np.dtype(c.data_type), np.dtype(c.scale_type))
                 for c in given), tuple(scales)


@boundary
def scaled_dot_general(lhs: Any, rhs: Any, dimension_numbers: Any,
                       preferred_element_type: Any = np.float32,
                       configs: Sequence[BlockScaleConfig] | None = None,
                       implementation: Any = None) -> Any:
    """`lax.dot_general` of operands quantized to narrow floats, block by block.

    Each block of adjacent elements along the contracted axes is divided by its own scale, then
    rounded. The products are summed in float32. With "mxfp8", derivatives quantize the cotangent
    and the other operand along the axes that they contract. With "nvfp4", derivatives quantize
    nothing and are 0 where an element was clipped. Devices without such formats compute the same
    results, but no faster than unquantized products.

    Args:
      lhs: array of real numbers.
      rhs: array of real numbers; its contracted and batch axes have the sizes of those of `lhs`.
      dimension_numbers: as in `lax.dot_general`.
      preferred_element_type: dtype of the result: float32, bfloat16 or float16.
      configs: results of `get_scaled_dot_general_config`: for `lhs`, for `rhs`, and for the
        cotangent of the result, which derivatives need. None is `lax.dot_general` itself.
      implementation: ignored, as in JAX.

    Returns:
      An array with the batch axes, then the free axes of `lhs`, then those of `rhs`. A
      `global_scale` counts as a constant.

    Raises:
      TypeError: the axes do not match, an operand is complex, the dtype of the result is not
        supported, or there are not two or three configs.
      ValueError: the contracted axes do not divide into blocks, a `global_scale` is not a single
        float32 number, or the function is differentiated without a third config.

    Source: Open Compute Project 2023, "OCP microscaling formats (MX) specification", version 1.0.
    Rouhani et al. 2023, "Microscaling data formats for deep learning".

    Example:
      >>> x = jnp.arange(64.).reshape(2, 32)
      >>> configs = [mjax.nn.get_scaled_dot_general_config("mxfp8")] * 3
      >>> mjax.nn.scaled_dot_general(x, x, (((1,), (1,)), ((), ())), configs=configs)
      Array([[10440., 26352.],
             [26352., 75072.]], dtype=float32)
    """
    dtype = dtype_argument(preferred_element_type, "scaled_dot_general")
    if configs is None:
        return dot_general(lhs, rhs, dimension_numbers, preferred_element_type=dtype)
    if dtype is None or dtype.name not in _RESULTS:
        msg = ("scaled_dot_general: preferred_element_type must be float32, bfloat16 or float16, "
               f"got {dtype}.")
        raise TypeError(msg)
    lhs, rhs = [array_of(check_array("scaled_dot_general", x, i)) for i, x in enumerate((lhs, rhs))]
    if any(dtypes.is_complex(typeof(x).dtype) for x in (lhs, rhs)):
        msg = ("scaled_dot_general takes real numbers, got "
               f"{typeof(lhs).dtype} and {typeof(rhs).dtype}.")
        raise TypeError(msg)
    forms, scales = _formats(configs)
    numbers = canonical_numbers(dimension_numbers)
    shape = product_shape(typeof(lhs), typeof(rhs), numbers)
    left, right = [_as_matrices(x, contracted, batch) for x, contracted, batch in zip(
        (lhs, rhs), *numbers, strict=True)]
    for form in forms[:2]:
        _check_blocks(typeof(left).shape[2], form, "")
    return reshape(_product(forms, dtype, left, right, scales), shape)


__all__ = ["BlockScaleConfig", "get_scaled_dot_general_config", "scaled_dot_general"]
