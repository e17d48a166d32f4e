"""Rotations in three dimensions as unit quaternions (x, y, z, w).

Functions take stacks of quaternions, vectors or matrices, with the components on the last axes.
Angles are in radians, or in degrees if a flag says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.ir.types import typeof
from mjax._engine.primitives.select import select_n
from mjax._engine.primitives.shapes import array_of
from mjax._numpy.arithmetic import abs as absolute
from mjax._numpy.arithmetic import sqrt
from mjax._numpy.core import broadcast_to, promote_dtypes_inexact, shape_of
from mjax._numpy.elementary import arctan2, cos, deg2rad, hypot, rad2deg, sin
from mjax._numpy.fused import fused
from mjax._numpy.joining import concatenate, stack
from mjax._numpy.reductions import argmax
from mjax._numpy.reductions import sum as total
from mjax._numpy.selecting import where

#: Up to this angle, series replace quotients.
_SMALL = 1e-3


def _flagged(flag: Any, convert: Callable[[Any], Any], x: Any) -> Any:
    """The converted value if the flag, which may be traced, is set."""
    if isinstance(flag, (bool, np.bool_)):
        return convert(x) if flag else x
    return where(flag, convert(x), x)


def _inexact(*args: Any) -> list[Any]:
    return list(map(array_of, promote_dtypes_inexact(*args)))


def _components(x: Any) -> list[Any]:
    """The components along the last axis."""
    return [x[..., i] for i in range(shape_of(x)[-1])]


def _length(x: Any) -> Any:
    """Euclidean lengths along the last axis, which is kept with size 1."""
    (x,) = _inexact(x)
    return sqrt(total(x * x, axis=-1, keepdims=True))


# ---- quaternions -----------------------------------------------------------------------


@fused
def normalized(quat: Any) -> Any:
    """The quaternions scaled to length 1."""
    return quat / _length(quat)


@fused
def conjugated(quat: Any) -> Any:
    """The inverse rotations."""
    return quat * np.array([-1, -1, -1, 1], typeof(quat).dtype)


def _product(p: Any, q: Any) -> Any:
    (a, b, c, d), (x, y, z, w) = _components(p), _components(q)
    return stack([
        d * x + w * a + (b * z - c * y), d * y + w * b + (c * x - a * z),
        d * z + w * c + (a * y - b * x), d * w - a * x - b * y - c * z], axis=-1)


@fused
def composed(p: Any, q: Any) -> Any:
    """The rotation `q` followed by `p`, scaled to length 1."""
    return normalized(_product(*_inexact(p, q)))


@fused
def canonical(quat: Any) -> Any:
    """The one of a rotation's two quaternions whose first nonzero component is positive.

    The order of the components is w, x, y, z.
    """
    x, y, z, w = _components(quat)
    negative = z < 0
    for part in (y, x, w):
        negative = (part < 0) | ((part == 0) & negative)
    return where(negative[..., None], -quat, quat)


@fused
def magnitude(quat: Any) -> Any:
    """The angles of the rotations, from 0 to π."""
    return 2.0 * arctan2(_length(quat[..., :3])[..., 0], absolute(quat[..., 3]))


# ---- other forms -----------------------------------------------------------------------


@fused
def to_matrix(quat: Any) -> Any:
    """To matrices of shape `(..., 3, 3)`."""
    x, y, z, w = _components(quat)
    xx, yy, zz, ww = x * x, y * y, z * z, w * w
    rows = [[xx - yy - zz + ww, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), yy - xx - zz + ww, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), zz - xx - yy + ww]]
    return stack([stack(row, axis=-1) for row in rows], axis=-2)


@fused
def from_matrix(matrix: Any) -> Any:
    """From rotation matrices. The largest component is found first and divides the others.

    Source: S. Shepperd, "Quaternion from rotation matrix", 1978.
    """
    (m,) = _inexact(matrix)
    trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
    choice = argmax(stack([m[..., 0, 0], m[..., 1, 1], m[..., 2, 2], trace], axis=-1), axis=-1)
    candidates = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        parts = {i: 1 - trace + 2 * m[..., i, i], j: m[..., j, i] + m[..., i, j],
                 k: m[..., k, i] + m[..., i, k], 3: m[..., k, j] - m[..., j, k]}
        candidates.append(stack([parts[n] for n in range(4)], axis=-1))
    candidates.append(stack([
        m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1],
        1 + trace], axis=-1))
    which = broadcast_to(choice[..., None], shape_of(candidates[0]))
    return normalized(select_n(which, *candidates))


@fused
def to_mrp(quat: Any) -> Any:
    """To modified Rodrigues parameters, of rotations by at most π."""
    w = quat[..., 3:]
    sign = where(w < 0, -1.0, 1.0)
    return sign * quat[..., :3] / (1.0 + sign * w)


@fused
def from_mrp(mrp: Any) -> Any:
    """From modified Rodrigues parameters.

    Source: F. Landis Markley and J. Crassidis, "Fundamentals of spacecraft attitude determination
    and control", 2014, 2.9.5.
    """
    (mrp,) = _inexact(mrp)
    square = total(mrp * mrp, axis=-1, keepdims=True) + 1
    return concatenate([2 * mrp, 2 - square], axis=-1) / square


@fused(static_argnames=("degrees",))
def to_rotvec(quat: Any, degrees: Any) -> Any:
    """To rotation vectors: axes scaled by angles from 0 to π."""
    quat = where(quat[..., 3:] < 0, -quat, quat)
    vector, w = quat[..., :3], quat[..., 3:]
    small, square, length = _split(vector)
    ratio = square / where(small, w * w, 1)
    scale = where(small, (2 - 2 * ratio / 3 + 2 * ratio * ratio / 5) / where(small, w, 1),
                  2.0 * arctan2(length, w) / length)
    return _flagged(degrees, rad2deg, scale) * vector


@fused(static_argnames=("degrees",))
def from_rotvec(rotvec: Any, degrees: Any) -> Any:
    """From rotation vectors: axes scaled by the angles."""
    (rotvec,) = _inexact(rotvec)
    rotvec = _flagged(degrees, deg2rad, rotvec)
    small, square, angle = _split(rotvec)
    scale = where(small, 0.5 - square / 48 + square * square / 3840, sin(angle / 2) / angle)
    w = where(small, 1 - square / 8 + square * square / 384, cos(angle / 2))
    return concatenate([scale * rotvec, w], axis=-1)


def _split(vector: Any) -> tuple[Any, Any, Any]:
    """Whether vectors are short, the squares of their lengths, and the lengths.

    The squares of long vectors are 0 and the lengths of short ones 1, so both branches of a
    selection have finite derivatives.
    """
    square = total(vector * vector, axis=-1, keepdims=True)
    small = square <= _SMALL**2
    return small, where(small, square, 0), sqrt(where(small, 1, square))


# ---- Euler angles ----------------------------------------------------------------------


@fused(static_argnames=("axes", "intrinsic", "degrees"))
def from_euler(angles: Any, axes: tuple[int, ...], intrinsic: bool, degrees: Any) -> Any:
    """From successive angles about the given axes; see `Rotation.from_euler`."""
    (angles,) = _inexact(angles)
    halves = _flagged(degrees, deg2rad, angles) / 2.0
    turns = []
    for axis, half in zip(axes, _components(halves), strict=True):
        parts = [np.zeros((), typeof(half).dtype)] * 3
        parts[axis] = sin(half)
        turns.append(stack([*[broadcast_to(p, shape_of(half)) for p in parts], cos(half)],
                           axis=-1))
    # For intrinsic rotations, the first one is the outermost.
    return functools.reduce(_product if intrinsic else lambda p, q: _product(q, p), turns)


@fused(static_argnames=("axes", "intrinsic", "degrees"))
def to_euler(quat: Any, axes: tuple[int, ...], intrinsic: bool, degrees: Any) -> Any:
    """To angles about three axes; see `Rotation.as_euler`.

    Source: E. Bernardes and S. Viollet, "Quaternion to Euler angles conversion: a direct, general
    and computationally efficient method", 2022.
    """
    i, j, k = axes[::-1] if intrinsic else axes
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    parts = _components(quat)
    a, b, c, d = parts[3], parts[i], parts[j], parts[k] * sign
    if not symmetric:
        a, b, c, d = a - c, b + d, c + a, d - b
    second = 2 * arctan2(hypot(c, d), hypot(a, b))
    both, difference = arctan2(b, a), arctan2(d, c)
    # The third angle is 0 where the first and the third axis coincide.
    straight = absolute(second) <= 1e-7
    turned = absolute(second - np.pi) <= 1e-7
    alone = where(straight, 2 * both, 2 * difference * (1 if intrinsic else -1))
    outer, inner = (both + difference, both - difference)[::1 if intrinsic else -1]
    first = where(straight | turned, alone, outer)
    third = where(straight | turned, 0.0, inner)
    if not symmetric:
        second = second - np.pi / 2
        first, third = (first * sign, third) if intrinsic else (first, third * sign)
    angles = (stack([first, second, third], axis=-1) + np.pi) % (2 * np.pi) - np.pi
    return _flagged(degrees, rad2deg, angles)
