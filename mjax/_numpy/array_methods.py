"""Methods of arrays and tracers that are not functions of the NumPy layer by themselves."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import itemsize_bits
from mjax._engine.primitives.arithmetic import complex as lax_complex
from mjax._engine.primitives.convert import bitcast_convert_type
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_in_dim
from mjax._engine.primitives.joining import unstack
from mjax._engine.primitives.shapes import reshape as lax_reshape
from mjax._engine.primitives.slicing import slice_in_dim
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.runtime.arrays.device_put import device_put
from mjax._engine.runtime.arrays.out_sharding import laid_out
from mjax._numpy import comparison, creation, reductions, rounding, selecting, shapes, taking
from mjax._numpy.core import dtype_argument, refuse_out
from mjax._numpy.metadata import __array_api_version__

# ---- special methods --------------------------------------------------------------------

@boundary
def round_to(self: Any, ndigits: int | None = None) -> Any:
    """Rounds like Python's numbers: without `ndigits` to integers."""
    rounded = rounding.round(self, ndigits or 0)
    return rounded.astype(int) if ndigits is None and rounded.dtype.kind in "fV" else rounded


@boundary
def refuse_assignment(self: Any, index: Any, value: Any) -> None:
    msg = ("arrays are immutable and do not support item assignment. Instead of x[i] = y, use "
           "x = x.at[i].set(y), or another .at method.")
    raise TypeError(msg)


#: The number of parts that one program reads from an array.
_AT_ONCE = 100


@boundary
def iterate(self: Any) -> Iterator[Any]:
    if not self.shape:
        msg = "iteration over a 0-d array"
        raise TypeError(msg)
    if is_array(self) and len(self.devices()) > 1:
        return (self[i] for i in range(self.shape[0]))
    if is_array(self) and self.shape[0] > _AT_ONCE:
        return _in_chunks(self)
    return iter(unstack(self, axis=0))


def _in_chunks(x: Any) -> Iterator[Any]:
    """The parts of an array along its first axis, computed only as far as needed."""
    whole = len(x) - len(x) % _AT_ONCE
    for start in range(0, whole, _AT_ONCE):
        yield from unstack(dynamic_slice_in_dim(x, start, _AT_ONCE), axis=0)
    if whole < len(x):
        yield from unstack(slice_in_dim(x, whole, None), axis=0)


@boundary
def contains(self: Any, value: Any) -> bool:
    return bool(reductions.any(comparison.equal(self, value)))


@boundary
def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
    """The module of functions for these arrays, for the Python array API.

    Args:
      self: array.
      api_version: the version of the standard that the caller wants; by default any.

    Raises:
      ValueError: it is not the version that `mjax.numpy` follows.
    """
    if api_version not in (None, __array_api_version__):
        msg = (f"__array_namespace__: mjax.numpy follows version {__array_api_version__} of the "
               f"array API standard, not {api_version!r}.")
        raise ValueError(msg)
    return importlib.import_module("mjax.numpy")


# ---- methods whose signatures differ from their functions' -----------------------------


def _arguments(args: tuple[Any, ...]) -> Any:
    """`x.reshape(2, 3)` is `x.reshape((2, 3))`."""
    return args[0] if len(args) == 1 else args


@boundary
def reshape(self: Any, *args: Any, order: str = "C", copy: bool | None = None,
            out_sharding: Any = None) -> Any:
    """The array with another shape; see `mjax.numpy.reshape`."""
    out = shapes.reshape(self, _arguments(args), order, copy=copy)
    return out if out_sharding is None else laid_out(out, out_sharding, "reshape")


@boundary
def transpose(self: Any, *args: Any) -> Any:
    """The array with its axes permuted; see `mjax.numpy.transpose`."""
    if not args:
        return shapes.transpose(self)
    axes = _arguments(args)
    return shapes.transpose(self, axes if axes is None or isinstance(axes, (tuple, list))
                            else (axes,))


@boundary
def flatten(self: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements as an array of one axis; see `mjax.numpy.ravel`."""
    return shapes.ravel(self, order, out_sharding=out_sharding)


@boundary
def astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    """The array in another dtype; see `mjax.numpy.astype`."""
    return creation.astype(self, dtype, copy=copy, device=device)


@boundary
def clip(self: Any, min: Any = None, max: Any = None) -> Any:
    """The array clipped to bounds; see `mjax.numpy.clip`."""
    return selecting.clip(self, min, max)


@boundary
def copy(self: Any) -> Any:
    """A new array with the same elements."""
    return creation.array(self, copy=True)


@boundary
def compress(self: Any, condition: Any, axis: int | None = None, *, out: None = None,
             size: int | None = None, fill_value: Any = 0) -> Any:
    """The slices along an axis where a condition holds; see `mjax.numpy.compress`."""
    refuse_out("compress", out)
    return taking.compress(condition, self, axis, size=size, fill_value=fill_value)


def _elements_read_as_one(shape: tuple[int, ...], old: Any, new: Any) -> int:
    """The number of elements of the old dtype per element of the new one; 0 if it is narrower.

    Raises:
      TypeError: a dtype is a key dtype.
      ValueError: the size of the last axis is not a multiple of this number.
    """
    if dtypes.is_extended(old) or dtypes.is_extended(new):
        msg = (f"view: {old} cannot be read as {new}: keys are not numbers. Use random.key_data "
               "and random.wrap_key_data.")
        raise TypeError(msg)
    ratio, rest = divmod(itemsize_bits(new), itemsize_bits(old))
    if rest and not shape:
        msg = f"view: a scalar of dtype {old} cannot be read as the narrower dtype {new}."
        raise ValueError(msg)
    if ratio > 1 and (not shape or shape[-1] % ratio):
        msg = (f"view: the last axis of shape {shape} and dtype {old} cannot be read as "
               f"dtype {new}: its size must be a multiple of {ratio}.")
        raise ValueError(msg)
    return ratio


@boundary
def view(self: Any, dtype: Any = None, type: None = None) -> Any:
    """The same bytes as an array of another dtype.

    Args:
      self: array.
      dtype: dtype of the result; the size of the last axis changes with its size.

    Raises:
      ValueError: the sizes do not fit.
    """
    if type is not None:
        msg = "view: the argument type is not supported: arrays are of one class."
        raise NotImplementedError(msg)
    new: Any = dtype_argument(self.dtype if dtype is None else dtype, "view")
    old = self.dtype
    if new == old:
        return self
    ratio = _elements_read_as_one(self.shape, old, new)
    if old == np.bool_ or new == np.bool_:
        through = np.dtype(np.uint8)
        return view(self.astype(through), new) if old == np.bool_ else view(
            self, through) != np.uint8(0)
    if dtypes.is_complex(old):
        parts = creation.array([self.real, self.imag])
        last = lax_reshape(shapes.moveaxis(parts, 0, -1), (*self.shape[:-1], self.shape[-1] * 2))
        return view(last, new)
    if dtypes.is_complex(new):
        halves = view(self, dtypes.real_dtype(new))
        return lax_complex(halves[..., ::2], halves[..., 1::2])
    if ratio > 1:
        self = lax_reshape(self, (*self.shape[:-1], self.shape[-1] // ratio, ratio))
        return bitcast_convert_type(self, new)
    out = bitcast_convert_type(self, new)
    if out.ndim > self.ndim:
        out = lax_reshape(out, (*out.shape[:-2], math.prod(out.shape[-2:])))
    return out


@boundary
def byteswap(self: Any) -> Any:
    """The array with the bytes of each element in reverse order.

    Raises:
      TypeError: it holds keys.

    Example:
      >>> jnp.arange(3, dtype='int16').byteswap()
      Array([  0, 256, 512], dtype=int16)
    """
    if dtypes.is_extended(self.dtype):
        msg = f"byteswap: {self.dtype} holds keys, whose bytes have no order; use random.key_data."
        raise TypeError(msg)
    if dtypes.is_complex(self.dtype):
        return lax_complex(byteswap(self.real), byteswap(self.imag))
    if self.dtype.itemsize == 1:
        return self
    return bitcast_convert_type(
        bitcast_convert_type(self, np.dtype(np.uint8))[..., ::-1], self.dtype)


@boundary
def to_device(self: Any, device: Any, *, stream: Any = None) -> Any:
    """The array on another device; see `mjax.device_put`."""
    if stream is not None:
        msg = "to_device: streams are not supported."
        raise NotImplementedError(msg)
    return device_put(self, device)
