"""Removal of trends from signals."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.matrices import dot
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.core import promote_dtypes_inexact, shape_of
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate
from mjax._numpy.shapes import moveaxis, reshape
from mjax._numpy.statistics import mean


@boundary
def detrend(data: Any, axis: int = -1, type: str = "linear", bp: Any = 0,
            overwrite_data: None = None) -> Any:
    """Removes the trend along an axis: the least-squares line, or the mean.

    Args:
      data: array; integers are converted to floats.
      axis: the axis; with `type="constant"`, None removes the mean of all elements.
      type: `"linear"` or `"constant"`.
      bp: breakpoints, static integers; each part between them has its own line.
      overwrite_data: must be None.

    Returns:
      An array of the shape of `data`.

    Raises:
      ValueError: `type` is unknown, or a breakpoint is outside the axis.
      TypeError: breakpoints are not integers.
      NotImplementedError: `overwrite_data` is given.

    Source: `scipy.signal.detrend`.

    Example:
      >>> bool(jnp.allclose(mjax.scipy.signal.detrend(jnp.arange(4.0)), 0.0, atol=1e-6))
      True
    """
    if overwrite_data is not None:
        msg = "detrend: overwrite_data is not supported: arrays are immutable."
        raise NotImplementedError(msg)
    if type not in ("constant", "linear"):
        msg = f"detrend: type must be 'constant' or 'linear', got {type!r}."
        raise ValueError(msg)
    data = array_of(promote_dtypes_inexact(asarray(data))[0])
    if type == "constant":
        return _without_mean(data, axis=axis)
    axis = canonicalize_axis(axis, typeof(data).ndim)
    n = shape_of(data)[axis]
    points = np.unique(np.concatenate([[0], np.ravel(bp), [n]]))
    if points[0] < 0 or points[-1] > n or points.dtype.kind not in "iu":
        msg = (f"detrend: breakpoints must be integers from 0 to {n}, the size of axis {axis}, got "
               f"{bp}.")
        raise LazyArgumentError(msg)
    return _without_lines(data, axis=axis, points=tuple(points.tolist()))


@fused(static_argnames=("axis",))
def _without_mean(data: Any, axis: int) -> Any:
    return data - mean(data, axis, keepdims=True)


@fused(static_argnames=("axis", "points"))
def _without_lines(data: Any, axis: int, points: tuple[int, ...]) -> Any:
    data = moveaxis(data, axis, 0)
    flat = reshape(data, (shape_of(data)[0], -1 if typeof(data).size else 0))
    parts = []
    for start, stop in itertools.pairwise(points):
        # Subtracts the projection on an orthonormal basis of the lines.
        lines = np.stack([np.ones(stop - start), np.linspace(-1, 1, stop - start)], 1)
        basis = np.linalg.qr(lines)[0].astype(dtypes.real_dtype(typeof(data).dtype)).astype(
            typeof(data).dtype)
        part = flat[start:stop]
        parts.append(part - dot(basis, dot(basis.T.copy(), part)))
    out = concatenate(parts, 0) if parts else flat
    return moveaxis(reshape(out, shape_of(data)), 0, axis)


__all__ = ["detrend"]
