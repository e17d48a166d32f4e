"""Scaled dot product attention."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.promotion import common_type
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.tangents import stop_gradient
from mjax._numpy.comparison import logical_and
from mjax._numpy.core import cast, check_array
from mjax._numpy.creation import asarray
from mjax._numpy.einsum import einsum
from mjax._numpy.fused import fused
from mjax._numpy.ranges import arange
from mjax._numpy.selecting import where
from mjax._numpy.shapes import reshape, transpose
from mjax._scipy.special.sums import logsumexp, softmax_over

_F32 = np.dtype(np.float32)
#: Replaces masked logits; finite, so that a fully masked row gives a mean, not NaN.
_MASKED = -0.7 * float(np.finfo(np.float32).max)

# ---- masks, which broadcast to the logits: batch, heads, queries, keys -----------------


def _within_window(queries: int, keys: int, window: tuple[int, int]) -> Any:
    """Whether a key is within these distances before and after the query."""
    at, of = arange(queries)[:, None], arange(keys)[None, :]
    return logical_and(at <= of + window[0], at >= of - window[1])


def _within_length(size: int, lengths: Any) -> Any:
    """Whether each position lies within its sequence."""
    return arange(size)[None, :] < lengths[:, None]


def _masks(queries: int, keys: int, causal: bool, window: Any, query_lengths: Any,
           key_lengths: Any) -> list[Any]:
    """The masks of the options of `dot_product_attention`."""
    masks = []
    if causal:
        masks.append(arange(queries)[:, None] >= arange(keys)[None, :])
    if window is not None:
        masks.append(_within_window(queries, keys, window))
    if query_lengths is not None:
        masks.append(_within_length(queries, query_lengths)[:, None, :, None])
    if key_lengths is not None:
        masks.append(_within_length(keys, key_lengths)[:, None, None, :])
    return masks


# ---- the computation -------------------------------------------------------------------


@fused(static_argnames=("causal", "residual"))
def _attention(query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: Any,
               query_lengths: Any, key_lengths: Any, window: Any, causal: bool, residual: bool
               ) -> Any:
    batch, queries, heads, size = typeof(query).shape
    _, keys, shared, _ = typeof(key).shape
    # Query heads that share a key head are adjacent.
    grouped = reshape(query, (batch, queries, shared, heads // shared, size))
    wide, _ = common_type((typeof(query).dtype, False), (_F32, False))
    logits = einsum("btkgh,bskh->bkgts", grouped, key, preferred_element_type=wide)
    logits = reshape(logits, (batch, heads, queries, keys))
    logits = logits * cast(array_of(scale), wide)
    if bias is not None:
        logits = cast(logits + bias, wide)
    masks = [] if mask is None else [mask]
    masks += _masks(queries, keys, causal, window, query_lengths, key_lengths)
    if masks:
        logits = where(functools.reduce(logical_and, masks), logits, cast(_MASKED, wide))
    logits = cast(logits, _F32)
    weights = reshape(cast(softmax_over(logits, -1, None), typeof(key).dtype),
                      (batch, shared, heads // shared, queries, keys))
    out = reshape(einsum("bkgts,bskh->btkgh", weights, value), (batch, queries, heads, size))
    if query_lengths is not None:
        inside = _within_length(queries, query_lengths)[:, :, None, None]
        out = out * cast(inside, typeof(out).dtype)
    if not residual:
        return out
    # Batch, queries, heads.
    sums = transpose(logsumexp(logits, -1), (0, 2, 1))
    return out, stop_gradient(cast(sums, typeof(key).dtype))


# ---- arguments -------------------------------------------------------------------------


def _with_four_axes(name: str, x: Any) -> Any:
    """An argument with leading axes of size 1 added, up to four axes."""
    x = asarray(x)
    rank = typeof(x).ndim
    if rank > 4:
        msg = (f"dot_product_attention: {name} has at most 4 axes, got shape {typeof(x).shape}; "
               "map over the others with mjax.vmap.")
        raise ValueError(msg)
    return reshape(x, (1,) * (4 - rank) + typeof(x).shape) if rank < 4 else x


def _require(name: str, x: Any, shape: tuple[Any, ...], dtype: Any = None) -> None:
    """Raises unless an argument has this dtype and shape, in which None is any size."""
    own, given = typeof(x).shape, typeof(x).dtype
    if len(own) != len(shape) or any(n not in (None, m) for n, m in zip(shape, own)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        msg = f"dot_product_attention: {name} must have shape ({wanted}), got {own}."
        raise ValueError(msg)
    if dtype is not None and given != dtype:
        msg = (f"dot_product_attention: {name} must have dtype {dtype}, got {given}; convert it "
               "with astype.")
        raise ValueError(msg)


def _check(query: Any, key: Any, value: Any, bias: Any, mask: Any, lengths: dict[str, Any]) -> None:
    batch, keys, shared, size = typeof(key).shape
    dtype = typeof(key).dtype
    _require("value", value, (batch, keys, shared, size), dtype)
    _require("query", query, (batch, None, None, size), dtype)
    if mask is not None:
        _require("mask", mask, (None,) * 4, np.dtype(bool))
    for name, given in lengths.items():
        if given is not None:
            _require(name, given, (batch,), np.dtype(np.int32))
    heads = typeof(query).shape[2]
    if heads % shared if shared else heads:
        msg = ("dot_product_attention: the number of heads of the query must be a multiple of that "
               f"of the key, got {heads} and {shared}.")
        raise ValueError(msg)
    for name, given in (("bias", bias), ("mask", mask)):
        if given is not None and typeof(given).shape[1] not in (1, heads):
            msg = (f"dot_product_attention: {name} must have 1 head or {heads}, as the query has, "
                   f"got shape {typeof(given).shape}.")
            raise ValueError(msg)
    logits = batch, heads, typeof(query).shape[1], keys
    for name, given in (("bias", bias), ("mask", mask)):
        if given is not None and any(
                n not in (1, m) for n, m in zip(typeof(given).shape, logits, strict=True)):
            msg = (f"dot_product_attention: {name} of shape {typeof(given).shape} must broadcast "
                   f"to (batch, heads, queries, keys), which is {logits}.")
            raise TypeError(msg)


def _window(size: Any) -> tuple[Any, Any] | None:
    """The numbers of positions before and after its own that a query attends to."""
    if size is None:
        return None
    before, after = size if isinstance(size, (tuple, list)) and len(size) == 2 else (size, size)
    for places in (before, after):
        check_array("dot_product_attention", places, "local_window_size")
        if not dtypes.is_integer(typeof(places).dtype):
            msg = ("dot_product_attention: local_window_size must be an integer or a pair of them, "
                   f"got {size!r}.")
            raise LazyArgumentError(msg)
    return before, after


@boundary
def dot_product_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *,
                          scale: Any = None, is_causal: bool = False,
                          query_seq_lengths: Any = None, key_value_seq_lengths: Any = None,
                          local_window_size: int | tuple[int, int] | None = None,
                          implementation: str | None = None, return_residual: bool = False) -> Any:
    """Scaled dot product attention: `softmax(query @ key.T * scale + bias) @ value`, head by head.

    Args:
      query: array of shape `(batch, queries, heads, size)`, or without a batch.
      key: array of shape `(batch, keys, heads, size)`, of the query's dtype. If it has fewer heads,
        their number must divide the query's; query heads then share key heads.
      value: array of the key's shape and dtype.
      bias: array that is added to the logits; it broadcasts to `(batch, heads, queries, keys)`.
      mask: boolean array, false where a query must not attend to a key; it broadcasts likewise.
      scale: factor of the logits; by default `1 / sqrt(size)`.
      is_causal: whether a query attends only to keys up to its own position.
      query_seq_lengths: int32 array of shape `(batch,)`: the result is 0 beyond these lengths.
      key_value_seq_lengths: int32 array of shape `(batch,)`: keys beyond are masked.
      local_window_size: the numbers of positions before and after its own that a query attends to:
        a pair, or one number for both.
      implementation: None or `"xla"`; `"cudnn"` is for GPUs.
      return_residual: whether to return the logarithms of the sums of exponentials too.

    Returns:
      An array of the query's shape; with `return_residual`, a pair of it and an array of shape
      `(batch, queries, heads)`. The softmax is computed in float32. If all keys are masked, the
      result is the mean of the values.

    Raises:
      ValueError: shapes or dtypes do not match, or `implementation` is unknown.
      TypeError: `bias` or `mask` does not broadcast to the logits.
      RuntimeError: the implementation is `"cudnn"`, which needs a GPU.

    Source: Vaswani and others 2017, "Attention is all you need"; Ainslie and others 2023, "GQA",
    for shared heads; Dao 2023, "FlashAttention-2", section 3.1.1, for the residual.

    Example:
      >>> x = jnp.ones((2, 5, 4, 8))
      >>> mjax.nn.dot_product_attention(x, x, x, is_causal=True).shape
      (2, 5, 4, 8)
    """
    if implementation == "cudnn":
        msg = ('dot_product_attention: the implementation "cudnn" needs a GPU with cuDNN, and mjax '
               'runs on CPU; leave it None, or pass "xla".')
        raise RuntimeError(msg)
    if implementation not in (None, "xla"):
        msg = (f"dot_product_attention: unknown implementation {implementation!r}; give None or "
               '"xla".')
        raise ValueError(msg)
    given = {"query_seq_lengths": query_seq_lengths, "key_value_seq_lengths": key_value_seq_lengths}
    lengths = {name: None if x is None else asarray(x) for name, x in given.items()}
    shape = typeof(asarray(query)).shape
    query, key, value = [_with_four_axes(name, x) for name, x in (
        ("query", query), ("key", key), ("value", value))]
    bias, mask = [None if x is None else _with_four_axes(name, x)
                  for name, x in (("bias", bias), ("mask", mask))]
    _check(query, key, value, bias, mask, lengths)
    if scale is None:
        size = typeof(query).shape[-1]
        scale = 1 / math.sqrt(size) if size else math.inf
    out = _attention(query, key, value, bias, mask, scale, *lengths.values(),
                     _window(local_window_size), causal=bool(is_causal),
                     residual=bool(return_residual))
    if return_residual:
        return reshape(out[0], shape), reshape(out[1], shape[:-1])
    return reshape(out, shape)


__all__ = ["dot_product_attention"]
