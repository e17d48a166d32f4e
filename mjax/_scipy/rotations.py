"""Rotations in three dimensions: `Rotation` and `Slerp`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyNoArrayError, LazyValueError
from mjax._engine.base.faces import rehome
from mjax._engine.base.folding import boundary
from mjax._engine.ir.types import typeof
from mjax._numpy.calculus import diff
from mjax._numpy.core import broadcast_shapes, check_array, incompatible_shapes, shape_of
from mjax._numpy.creation import asarray, ones, zeros
from mjax._numpy.decompositions import eigh
from mjax._numpy.joining import concatenate
from mjax._numpy.products import dot, matvec
from mjax._numpy.random.normal import normal
from mjax._numpy.reordering import roll
from mjax._numpy.searching import searchsorted
from mjax._numpy.selecting import where
from mjax._numpy.shapes import atleast_1d, matrix_transpose
from mjax._numpy.ufuncs import maximum
from mjax._scipy import quaternions

_FRAGMENTS = {
    "seq": '''\
seq: the axes, as "zyx": small letters for extrinsic rotations, about fixed axes; capitals for
        intrinsic ones, about the rotating axes. Neighbours differ.''',
    "degrees": "degrees: whether angles are in degrees, not radians.",
}


class Rotation(NamedTuple):
    """Rotations in three dimensions: one, or a stack of them.

    It is a pytree of the quaternions, and its methods work under all transformations. `p * q` is
    the rotation `q` followed by `p`, `r[i]` a part of a stack, and `len(r)` its length.

    Attributes:
      quat: the quaternions (x, y, z, w), of shape `(4,)` or `(..., 4)`.

    Source: `scipy.spatial.transform.Rotation`.

    Example:
      >>> from mjax.scipy.spatial.transform import Rotation
      >>> r = Rotation.from_euler("z", 90, degrees=True)
      >>> np.allclose(r.apply(jnp.array([2.0, 0.0, 1.0])), [0, 2, 1], atol=1e-6)
      True
      >>> (r * r).magnitude()
      Array(3.1415927, dtype=float32)
    """

    quat: Any

    # ---- constructors ------------------------------------------------------------------

    @classmethod
    @boundary
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Concatenates rotations into one stack."""
        return cls(concatenate([r.quat for r in rotations]))

    @classmethod
    @boundary
    @documented(**_FRAGMENTS)
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Successive rotations about one to three axes.

        Args:
          [seq]
          angles: an array of shape `(..., len(seq))`, or a number for one axis.
          [degrees]

        Raises:
          ValueError: an axis is unknown or repeated, or the number of angles differs.
        """
        axes, intrinsic = _axes("from_euler", seq)
        angles = atleast_1d(check_array("Rotation.from_euler", angles, "angles"))
        _check_last("from_euler", "angles", angles, len(axes))
        return cls(quaternions.from_euler(angles, axes, intrinsic, degrees))

    @classmethod
    @boundary
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Rotations from orthogonal matrices of determinant 1, of shape `(..., 3, 3)`."""
        matrix = asarray(matrix)
        if shape_of(matrix)[-2:] != (3, 3):
            raise LazyValueError(lambda: (
                f"Rotation.from_matrix: matrix must have shape (..., 3, 3), got "
                f"{shape_of(matrix)}."))
        return cls(quaternions.from_matrix(matrix))

    @classmethod
    @boundary
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Rotations from modified Rodrigues parameters of shape `(..., 3)`: axes scaled by the
        tangent of a quarter of the angle."""
        mrp = asarray(mrp)
        _check_last("from_mrp", "mrp", mrp, 3)
        return cls(quaternions.from_mrp(mrp))

    @classmethod
    @boundary
    def from_quat(cls, quat: Any) -> Rotation:
        """Rotations from nonzero quaternions (x, y, z, w) of shape `(..., 4)`."""
        quat = asarray(quat)
        _check_last("from_quat", "quat", quat, 4)
        return cls(quaternions.normalized(quat))

    @classmethod
    @boundary
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Rotations from rotation vectors, axes scaled by the angles, of shape `(..., 3)`."""
        rotvec = asarray(rotvec)
        _check_last("from_rotvec", "rotvec", rotvec, 3)
        return cls(quaternions.from_rotvec(rotvec, degrees))

    @classmethod
    @boundary
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The identity, or a stack of `num` identities."""
        shape = () if num is None else (num,)
        return cls(zeros((*shape, 4), dtype).at[..., 3].set(1))

    @classmethod
    @boundary
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A uniformly distributed rotation, or a stack of `num`."""
        shape = () if num is None else (num,)
        return cls(quaternions.normalized(normal(random_key, (*shape, 4))))

    # ---- operations --------------------------------------------------------------------

    @boundary
    def __getitem__(self, indexer: Any) -> Rotation:
        if self.single:
            msg = "a single Rotation is not a stack: it cannot be indexed."
            raise TypeError(msg)
        return Rotation(self.quat[indexer])

    @boundary
    def __len__(self) -> int:
        if self.single:
            msg = "a single Rotation is not a stack: it has no len()."
            raise TypeError(msg)
        length: int = shape_of(self.quat)[0]
        return length

    @boundary
    def __mul__(self, other: Any) -> Rotation:
        if not isinstance(other, Rotation):
            msg = (f"a Rotation is multiplied by a Rotation, got {type(other).__name__}. "
                   "Rotation.apply rotates vectors.")
            raise LazyNoArrayError(msg)
        _check_stacks("__mul__", self.quat, other.quat)
        return Rotation(quaternions.composed(self.quat, other.quat))

    @boundary
    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """Rotates vectors.

        Args:
          vectors: array of shape `(..., 3)`; leading axes broadcast with those of the stack.
          inverse: whether to apply the inverse rotation.
        """
        matrix, vectors = self.as_matrix(), asarray(vectors)
        _check_last("apply", "vectors", vectors, 3)
        _check_stacks("apply", self.quat, vectors)
        if isinstance(inverse, bool):
            matrix = matrix_transpose(matrix) if inverse else matrix
        else:
            matrix = where(asarray(inverse)[..., None, None], matrix_transpose(matrix), matrix)
        return matvec(matrix, vectors)

    @boundary
    def inv(self) -> Rotation:
        """The inverse rotations."""
        return Rotation(quaternions.conjugated(self.quat))

    @boundary
    def magnitude(self) -> Any:
        """The angles of the rotations, from 0 to π."""
        return quaternions.magnitude(self.quat)

    @boundary
    def mean(self, weights: Any = None) -> Rotation:
        """The rotation with the least sum of squared distances from those in the stack.

        Args:
          weights: the weights of the rotations, of shape `(len(self),)`.

        Raises:
          ValueError: `weights` has another shape.

        Source: F. Landis Markley and others, "Averaging quaternions", 2007.
        """
        n, dtype = len(self), typeof(self.quat).dtype
        weights = ones(n, dtype) if weights is None else asarray(weights, dtype)
        if shape_of(weights) != (n,):
            raise LazyValueError(lambda: (
                f"Rotation.mean: weights of {n} rotations must have shape ({n},), got "
                f"{shape_of(weights)}."))
        _, vectors = eigh(dot(weights * self.quat.T, self.quat))
        return Rotation(vectors[:, -1])

    @property
    def single(self) -> bool:
        """Whether this is a single rotation, not a stack."""
        return len(shape_of(self.quat)) == 1

    # ---- conversions -------------------------------------------------------------------

    @boundary
    @documented(**_FRAGMENTS)
    def as_euler(self, seq: str, degrees: bool = False) -> Any:
        """Angles about three axes, of shape `(..., 3)`.

        The first and third angle are from -π to π. The second is from 0 to π, or from -π/2 to π/2
        if all axes differ. In gimbal lock the third angle is 0.

        Args:
          [seq]
          [degrees]

        Raises:
          ValueError: there are not three axes, or an axis is unknown or repeated.
        """
        axes, intrinsic = _axes("as_euler", seq)
        if len(axes) != 3:
            msg = f"Rotation.as_euler: seq must have three axes, got {seq!r}."
            raise ValueError(msg)
        return quaternions.to_euler(self.quat, axes, intrinsic, degrees)

    @boundary
    def as_matrix(self) -> Any:
        """Matrices, of shape `(..., 3, 3)`."""
        return quaternions.to_matrix(self.quat)

    @boundary
    def as_mrp(self) -> Any:
        """Modified Rodrigues parameters, of shape `(..., 3)`."""
        return quaternions.to_mrp(self.quat)

    @boundary
    def as_rotvec(self, degrees: bool = False) -> Any:
        """Rotation vectors, axes scaled by the angles, of shape `(..., 3)`."""
        return quaternions.to_rotvec(self.quat, degrees)

    @boundary
    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Any:
        """Quaternions, of shape `(..., 4)`.

        Args:
          canonical: whether to choose the quaternion with w > 0 of each rotation's two.
          scalar_first: whether the order is (w, x, y, z).
        """
        quat = quaternions.canonical(self.quat) if canonical else self.quat
        return roll(quat, 1, -1) if scalar_first else quat


class Slerp(NamedTuple):
    """Spherical linear interpolation of rotations; call it with times.

    Create one with `Slerp.init`.

    Attributes:
      times: the increasing times of the given rotations.
      timedelta: the differences of successive times.
      rotations: the given rotations except the last.
      rotvecs: the rotation vectors from each rotation to the next.

    Source: `scipy.spatial.transform.Slerp`; K. Shoemake, "Animating rotation with quaternion
    curves", 1985.

    Example:
      >>> from mjax.scipy.spatial.transform import Rotation, Slerp
      >>> r = Rotation.from_euler("x", jnp.array([[0.0], [90.0]]), degrees=True)
      >>> between = Slerp.init(jnp.array([0.0, 2.0]), r)(0.5)
      >>> np.allclose(between.as_rotvec(degrees=True), [22.5, 0, 0])
      True
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    @boundary
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Creates the interpolation of a stack of rotations.

        Args:
          times: the times of the rotations, strictly increasing.
          rotations: a stack of at least two rotations.

        Raises:
          TypeError: `rotations` is not a `Rotation`.
          ValueError: there are fewer than two rotations, or the number of times differs.
        """
        if not isinstance(rotations, Rotation):
            msg = f"Slerp.init: rotations must be a Rotation, got {type(rotations).__name__}."
            raise TypeError(msg)
        if rotations.single or len(rotations) == 1:
            msg = "Slerp.init: rotations must be a stack of at least two rotations."
            raise ValueError(msg)
        times = asarray(times, typeof(rotations.quat).dtype)
        if shape_of(times) != (len(rotations),):
            raise LazyValueError(lambda: (
                f"Slerp.init: the times of {len(rotations)} rotations must have shape "
                f"({len(rotations)},), got {shape_of(times)}."))
        starts, ends = Rotation(rotations.quat[:-1]), Rotation(rotations.quat[1:])
        return cls(times, diff(times), starts, (starts.inv() * ends).as_rotvec())

    @boundary
    def __call__(self, times: Any) -> Rotation:
        """The rotations at the given times, a number or a vector.

        Raises:
          ValueError: `times` has more than one axis.
        """
        wanted = asarray(times, typeof(self.times).dtype)
        if len(shape_of(wanted)) > 1:
            raise LazyValueError(lambda: (
                f"Slerp: times must be a number or a vector, got shape {shape_of(wanted)}."))
        i = maximum(searchsorted(self.times, wanted) - 1, 0)
        part = (wanted - self.times[i]) / self.timedelta[i]
        return self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * part[..., None])


def _axes(name: str, seq: str) -> tuple[tuple[int, ...], bool]:
    """The indices of the axes, and whether the rotations are intrinsic."""
    if not re.fullmatch("[xyz]{1,3}|[XYZ]{1,3}", seq):
        msg = (f"Rotation.{name}: seq must be up to three of x, y, z, or of X, Y, Z for "
               f"intrinsic rotations, got {seq!r}.")
        raise ValueError(msg)
    if any(a == b for a, b in itertools.pairwise(seq)):
        msg = f"Rotation.{name}: neighbouring axes must differ, got {seq!r}."
        raise ValueError(msg)
    return tuple(["xyz".index(c) for c in seq.lower()]), seq.isupper()


def _check_last(name: str, argument: str, x: Any, size: int) -> None:
    if shape_of(x)[-1:] != (size,):
        raise LazyValueError(lambda: (
            f"Rotation.{name}: {argument} must have shape (..., {size}), got {shape_of(x)}."))


def _check_stacks(name: str, *arrays: Any) -> None:
    """Checks that the axes before the last broadcast."""
    shapes = [shape_of(x)[:-1] for x in arrays]
    try:
        broadcast_shapes(*shapes)
    except ValueError:
        raise incompatible_shapes(f"Rotation.{name}", shapes) from None


# Pickled under the public module's name.
for _class in (Rotation, Slerp):
    rehome(_class, "mjax.scipy.spatial.transform")

__all__ = ["Rotation", "Slerp"]
