"""Image resizing: separable resampling by products with weight matrices."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis, pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.precision import Precision
from mjax._engine.primitives.shapes import array_of, canonical_shape
from mjax._numpy.arithmetic import maximum, minimum
from mjax._numpy.core import cast, check_array, promote_dtypes_inexact
from mjax._numpy.creation import zeros
from mjax._numpy.einsum import einsum
from mjax._numpy.elementary import sin
from mjax._numpy.fused import fused
from mjax._numpy.ranges import arange
from mjax._numpy.reductions import sum
from mjax._numpy.selecting import clip, where
from mjax._numpy.taking import take

# ---- methods ---------------------------------------------------------------------------


@pickled_by("resize_method_v1")
class ResizeMethod(enum.Enum):
    """The interpolation methods.

    Attributes:
      NEAREST: the nearest pixel.
      LINEAR: linear interpolation.
      LANCZOS3: a windowed sinc over 3 pixels on each side.
      LANCZOS5: the same over 5 pixels.
      CUBIC: cubic convolution with the parameter -1/2.
      CUBIC_PYTORCH: the same with -3/4 and repeated edges, without antialiasing.
      AREA: the mean over the area of the pixel.

    Example:
      >>> from mjax.image import ResizeMethod, resize
      >>> ResizeMethod.from_string("bilinear")
      <ResizeMethod.LINEAR: 1>
      >>> resize(jnp.array([0.0, 4.0]), (4,), ResizeMethod.NEAREST)
      Array([0., 0., 4., 4.], dtype=float32)
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method with this name.

        Args:
          s: `"nearest"`, `"linear"`, `"bilinear"`, `"trilinear"`, `"triangle"`, `"lanczos3"`,
            `"lanczos5"`, `"cubic"`, `"bicubic"`, `"tricubic"`, `"cubic-pytorch"`,
            `"bicubic-pytorch"` or `"area"`.

        Raises:
          ValueError: the name is unknown.
        """
        if s in _NAMES:
            return _NAMES[s]
        msg = f"unknown resize method {s!r}; it is one of {', '.join(map(repr, _NAMES))}."
        raise ValueError(msg)


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _method(name: str, method: Any) -> ResizeMethod:
    if isinstance(method, str):
        return ResizeMethod.from_string(method)
    if isinstance(method, ResizeMethod):
        return method
    msg = (f"{name}: method must be a ResizeMethod or the name of one, got a "
           f"{type(method).__name__}.")
    raise LazyArgumentError(msg)


# ---- kernels: the weight of a pixel by its distance ------------------------------------


def _triangle(x: Any) -> Any:
    return maximum(0, 1 - x)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        waves = radius * sin(math.pi * x) * sin(math.pi * x / radius)
        near = x <= 1e-3
        out = where(near, 1, waves / where(near, 1, math.pi ** 2 * x ** 2))
        return where(x > radius, 0.0, out)

    return kernel


def _cubic(a: float) -> Callable[[Any], Any]:
    """Keys' cubic convolution kernel with parameter `a`.

    Source: Keys 1981, "Cubic convolution interpolation for digital image processing".
    """
    def kernel(x: Any) -> Any:
        inner = ((a + 2) * x - (a + 3)) * x * x + 1
        outer = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return where(x >= 2, 0.0, where(x >= 1, outer, inner))

    return kernel


#: Number of pixels by which repeated edges must extend, and the kernel.
_PADDED = 2
_KERNELS = {
    ResizeMethod.LINEAR: _triangle, ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0), ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}

# ---- weights ---------------------------------------------------------------------------


def _overlaps(size: int, lefts: Any, width: Any, dtype: Any) -> Any:
    """The overlap of each input pixel with each output pixel."""
    pixels = arange(size, dtype=dtype)[:, None]
    return maximum(0.0, minimum(lefts + width, pixels + 1) - maximum(lefts, pixels))


def _normalized(weights: Any) -> Any:
    total = sum(weights, axis=0, keepdims=True)
    enough = abs(total) > 1000 * float(np.finfo(np.float32).eps)
    return where(enough, weights / where(total != 0, total, 1), 0)


def _weights(size: int, new_size: int, scale: Any, translation: Any, dtype: Any,
             method: ResizeMethod, antialias: bool) -> Any:
    """The weight of each input pixel (row) in each output pixel (column)."""
    inverse = 1.0 / scale
    shift = translation * inverse
    # Centers of the output pixels, in input pixels.
    centers = (arange(new_size, dtype=dtype) + 0.5) * inverse - shift - 0.5
    if method is ResizeMethod.AREA:
        lefts = arange(new_size, dtype=dtype) * inverse - shift
        weights = _normalized(_overlaps(size, lefts, inverse, dtype))
    else:
        padded = _PADDED if method is ResizeMethod.CUBIC_PYTORCH else 0
        pixels = arange(-padded, size + padded, dtype=dtype)
        distances = abs(centers[None, :] - pixels[:, None])
        if antialias:
            distances = distances / maximum(inverse, 1.0)
        weights = _KERNELS[method](distances)
        if padded:
            edges = clip(arange(-padded, size + padded), 0, size - 1)
            return _normalized(zeros((size, new_size), dtype).at[edges].add(weights))
        weights = _normalized(weights)
    inside = (centers >= -0.5) & (centers <= size - 0.5)
    return where(inside[None, :], weights, 0)


def _resampled(x: Any, shape: Sequence[int], axes: Sequence[int], scales: Any, translations: Any,
               dtype: Any, method: ResizeMethod, antialias: bool, precision: Any) -> Any:
    if not axes:
        return array_of(x)
    own = typeof(x).shape
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    out, operands = list(range(len(own))), list[Any]()
    for i, axis in enumerate(axes):
        axis = canonicalize_axis(axis, len(own))
        weights = _weights(own[axis], shape[axis], scales[i], translations[i], dtype, method,
                           antialias)
        out[axis] = len(own) + i
        operands += [cast(weights, typeof(x).dtype), [axis, len(own) + i]]
    return einsum(x, list(range(len(own))), *operands, out, precision=precision)


# ---- public functions ------------------------------------------------------------------

_shared = documented(
    method=('method: a `ResizeMethod` or the name of one: `"linear"`, `"cubic"`, `"lanczos3"`,\n'
            '  `"lanczos5"`, `"cubic-pytorch"`, `"area"`; `resize` also takes `"nearest"`.'),
    antialias="antialias: whether to widen the kernel when shrinking the image.",
    precision="precision: the precision of the products with the weights; see `lax.Precision`.",
)


def _check_shape(name: str, shape: Any, image: Any) -> tuple[int, ...]:
    shape = canonical_shape(shape)
    own = typeof(image).shape
    if len(shape) != len(own):
        msg = (f"{name}: the shape must have a size per axis of the image, batch and channels "
               f"included; got {shape} for an image of shape {own}.")
        raise ValueError(msg)
    return shape


@fused(static_argnames=("shape", "method", "antialias", "precision"))
def _resize(image: Any, shape: tuple[int, ...], method: str | ResizeMethod, antialias: bool,
            precision: Any) -> Any:
    # Checked here, not by the caller: this function runs once per type.
    image = array_of(check_array("resize", image))
    shape, method = _check_shape("resize", shape, image), _method("resize", method)
    own = typeof(image).shape
    axes = [i for i, (n, m) in enumerate(zip(own, shape, strict=True)) if n != m]
    if method is ResizeMethod.NEAREST:
        for i in axes:
            known = is_constant_shape((own[i], shape[i]))
            pixels = (np.arange if known else arange)(shape[i], dtype=np.float32)
            centers = (pixels + 0.5) * own[i] / shape[i]
            image = take(image, centers.astype(np.int32), i)
        return array_of(image)
    image, = promote_dtypes_inexact(image)
    scales = [shape[i] / own[i] if shape[i] else 1.0 for i in axes]
    return _resampled(image, shape, axes, scales, [0.0] * len(axes),
                      dtypes.dtype_of_python(float), method, antialias, precision)


@boundary
@_shared
def resize(image: Any, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: Any = Precision.HIGHEST) -> Any:
    """Resizes an image.

    Args:
      image: array of any number of axes.
      shape: shape of the result; axes of unchanged size, such as batch, are not resampled.
      [method]
      [antialias]
      [precision]

    Returns:
      An array of that shape; of the dtype of `image` for `"nearest"`, else of floats.

    Raises:
      TypeError: `method` is neither a method nor a name, or `shape` is not a shape.
      ValueError: the shape does not have a size per axis, or the method is unknown.

    Source: Heckbert 1989, "Fundamentals of texture mapping and image warping", for the filters.

    Example:
      >>> mjax.image.resize(jnp.array([[1.0, 3.0]]), (1, 4), "linear")
      Array([[1. , 1.5, 2.5, 3. ]], dtype=float32)
    """
    return _resize(image, shape if type(shape) is tuple else canonical_shape(shape), method,
                   bool(antialias), precision)


@fused(static_argnames=("shape", "axes", "method", "antialias", "precision"))
def _scale_and_translate(image: Any, scale: Any, translation: Any, shape: tuple[int, ...],
                         axes: tuple[int, ...], method: ResizeMethod, antialias: bool,
                         precision: Any) -> Any:
    image, = promote_dtypes_inexact(image)
    scale, translation = map(array_of, promote_dtypes_inexact(scale, translation))
    return _resampled(image, shape, axes, scale, translation, typeof(scale).dtype, method,
                      antialias, precision)


@boundary
@_shared
def scale_and_translate(image: Any, shape: Sequence[int], spatial_dims: Sequence[int], scale: Any,
                        translation: Any, method: str | ResizeMethod, antialias: bool = True,
                        precision: Any = Precision.HIGHEST) -> Any:
    """Scales and translates an image: a pixel at x moves to `x * scale + translation`.

    Args:
      image: array of any number of axes.
      shape: shape of the result.
      spatial_dims: the axes to scale.
      scale: array with a factor for each of these axes.
      translation: array with a distance for each of these axes, in output pixels. Pixel centers
        lie at half-integers.
      [method]
      [antialias]
      [precision]

    Returns:
      A float array of that shape, 0 outside the image.

    Raises:
      TypeError: `method` is neither a method nor a name, or `shape` is not a shape.
      ValueError: shapes or numbers of axes do not match, or the method is unknown or `"nearest"`.

    Example:
      >>> x = jnp.array([1.0, 2.0, 3.0])
      >>> mjax.image.scale_and_translate(x, (3,), (0,), jnp.ones(1), jnp.array([1.0]), "linear")
      Array([0., 1., 2.], dtype=float32)
    """
    image = array_of(check_array("scale_and_translate", image))
    shape = _check_shape("scale_and_translate", shape, image)
    kind = _method("scale_and_translate", method)
    if kind is ResizeMethod.NEAREST:
        msg = ('scale_and_translate: the method "nearest" is not supported; take "linear", or '
               "index the image.")
        raise ValueError(msg)
    scale = array_of(check_array("scale_and_translate", scale, "scale"))
    translation = array_of(check_array("scale_and_translate", translation, "translation"))
    axes = tuple(spatial_dims)
    for name, x in (("scale", scale), ("translation", translation)):
        if typeof(x).shape[:1] != (len(axes),):
            msg = (f"scale_and_translate: {name} must have a number for each of the {len(axes)} "
                   f"axes of spatial_dims, got shape {typeof(x).shape}.")
            raise LazyArgumentError(msg)
    return _scale_and_translate(image, scale, translation, shape=shape, axes=axes, method=kind,
                                antialias=bool(antialias), precision=precision)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
