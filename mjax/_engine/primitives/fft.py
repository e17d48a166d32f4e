"""Discrete Fourier transforms over the last axes: fft_p.

The transform of complex numbers is a symmetric matrix, so it is its own transpose. Transforms
from and to real numbers keep half of the last axis; the other half is its conjugate.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import inexact_dtype
from mjax._engine.ir.schema import Ints
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import check_kinds, constant_like
from mjax._engine.primitives.emit import dense_i64, full, hlo, ir_type, op
from mjax._engine.primitives.linear import define_linear
from mjax._engine.primitives.shapes import array_of, broadcast_in_dim_p, moveaxis
from mjax._engine.primitives.slicing import pad
from mjax._engine.tracing.primitive import EnginePrimitive


@pickled_by("fft_type_v1")
class FftType(enum.IntEnum):
    """Kinds of transforms: complex to complex both ways, or with real numbers on one side.

    Example:
      >>> mjax.lax.fft(jnp.ones(4), mjax.lax.FftType.RFFT, [4])
      Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex64)
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


#: The greatest number of axes that XLA transforms at once.
MOST_AXES = 3

fft_p = EnginePrimitive("fft", params={"fft_type": FftType, "fft_lengths": Ints})


def _expected(fft_type: FftType, lengths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The last axes of operand and result."""
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    return {FftType.RFFT: (lengths, half), FftType.IRFFT: (half, lengths)}.get(
        fft_type, (lengths, lengths))


@fft_p.def_abstract_eval
def _fft_type(x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> ShapedArray:
    name, rank = f"fft ({fft_type.name})", len(fft_lengths)
    if not 1 <= rank <= MOST_AXES or min(fft_lengths) < 0:
        raise LazyValueError(lambda: (
            f"{name}: fft_lengths {fft_lengths} must be 1 to {MOST_AXES} sizes; transform more "
            "axes one after the other, as mjax.numpy.fft.fftn does."))
    if rank > x.ndim:
        raise LazyValueError(lambda: (
            f"{name}: fft_lengths {fft_lengths} name more axes than the operand {x} has."))
    wanted, given = _expected(fft_type, fft_lengths)
    if x.shape[-rank:] != wanted:
        raise LazyValueError(lambda: (
            f"{name}: the last axes of the operand {x} must have sizes {wanted} for fft_lengths "
            f"{fft_lengths}; pad or slice it first."))
    check_kinds(name, x, "f" if fft_type is FftType.RFFT else "c")
    if x.dtype.itemsize < 4:
        raise LazyValueError(lambda: (
            f"{name}: the operand must be float32 or float64, got {x.dtype}; convert it first."))
    dtype = {FftType.RFFT: dtypes.complex_dtype, FftType.IRFFT: dtypes.real_dtype}.get(
        fft_type, lambda dtype: dtype)(x.dtype)
    return ShapedArray((*x.shape[:-rank], *given), dtype)


@fft_p.def_lowering
def _fft_lowering(ctx: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    aval_out, = ctx.avals_out
    if not ctx.avals_in[0].size or not aval_out.size:
        return [full(0, aval_out)]  # empty sums, which XLA refuses
    return op("stablehlo.fft", [ir_type(aval_out)], [x],
              {"fft_type": hlo.FftTypeAttr.get(fft_type.name),
               "fft_length": dense_i64(fft_lengths)})


def _fft_transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    if fft_type is FftType.RFFT:
        # The forward transform drops half of the last axis: pad with zeros, take the real part.
        missing = fft_lengths[-1] - typeof(ct).shape[-1]
        config = [(0, 0, 0)] * (typeof(ct).ndim - 1) + [(0, missing, 0)]
        whole = pad(ct, constant_like(ct, 0), config)
        return lax.real(fft_p.bind(whole, fft_type=FftType.FFT, fft_lengths=fft_lengths))
    if fft_type is FftType.IRFFT:
        # Each kept number stands for itself and its conjugate, except the first one of the last
        # axis and, if the length is even, its last one.
        n = fft_lengths[-1]
        out = lax.conj(fft_p.bind(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths))
        weights = np.full(n // 2 + 1, 2 / max(math.prod(fft_lengths), 1), typeof(out).dtype)
        weights[[0, -1] if n % 2 == 0 else [0]] /= 2
        shape = typeof(out).shape
        return lax.mul(out, broadcast_in_dim_p.bind(
            weights, shape=shape, broadcast_dimensions=(len(shape) - 1,)))
    return fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)


define_linear(fft_p, _fft_transpose)


@fft_p.def_batch
def _fft_batch(args: Any, dims: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> Any:
    (x,), (dim,) = args, dims
    if dim >= typeof(x).ndim - len(fft_lengths):
        x, dim = moveaxis(x, dim, 0), 0
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=fft_lengths), dim


def _kind(fft_type: Any) -> FftType:
    if isinstance(fft_type, FftType):
        return fft_type
    names = ", ".join(kind.name for kind in FftType)
    if isinstance(fft_type, str):
        if fft_type.upper() in FftType.__members__:
            return FftType[fft_type.upper()]
        msg = f"fft: unknown fft_type {fft_type!r}; it is one of {names}."
        raise ValueError(msg)
    msg = f"fft: fft_type must be an FftType or one of the names {names}, got {fft_type!r}."
    raise TypeError(msg)


@boundary
def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[int]) -> Any:
    """Discrete Fourier transform over the last one to three axes.

    Args:
      x: array. Its last axes have the sizes `fft_lengths`; for IRFFT the last of them has size
        `fft_lengths[-1] // 2 + 1`.
      fft_type: `"FFT"`, `"IFFT"`, `"RFFT"` or `"IRFFT"`, or an `FftType`. Inverse transforms
        are divided by the number of elements.
      fft_lengths: sizes of the transformed axes on the side where all numbers are kept; without
        any, the operand is not transformed.

    Returns:
      A complex array of the shape of `x`. For RFFT its last axis has size
      `fft_lengths[-1] // 2 + 1`; for IRFFT it is real, and its last axes have sizes
      `fft_lengths`. Integers are converted to floats.

    Raises:
      ValueError: an unknown type, sizes that do not fit, more than three axes, complex
        operands or floats of 16 bits for RFFT.
      TypeError: `fft_type` is neither an `FftType` nor a string, or the operand is not numeric.

    Source: J. W. Cooley and J. W. Tukey, "An algorithm for the machine calculation of complex
    Fourier series", 1965; the StableHLO specification, `fft`.

    Example:
      >>> mjax.lax.fft(jnp.array([1.0, 0.0, 0.0, 0.0]), "RFFT", (4,))
      Array([1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    kind = _kind(fft_type)
    lengths = tuple(map(operator.index, fft_lengths))
    dtype = typeof(x).dtype
    if dtypes.is_extended(dtype):
        check_kinds("fft", typeof(x), "fc")
    dtype = inexact_dtype(dtype)
    if kind is not FftType.RFFT:
        dtype = dtypes.complex_dtype(dtype)
    elif dtypes.is_complex(dtype):
        msg = (f"fft (RFFT): the operand must be real, got {typeof(x)}; take its real part, or the "
               "transform FFT.")
        raise ValueError(msg)
    x = convert(x, dtype)
    return fft_p.bind(x, fft_type=kind, fft_lengths=lengths) if lengths else array_of(x)
