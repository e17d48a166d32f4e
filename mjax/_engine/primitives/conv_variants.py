"""Variants of conv_general_dilated: transposes, patches, unshared kernels, shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.sizes import integers_of_shape
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.convolution import (
    ConvDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated,
)
from mjax._engine.primitives.dot import dot_general
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.joining import stack_p
from mjax._engine.primitives.precision import canonical_precision
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import canonical_shape, reshape, transpose
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.primitives.sliding import (
    Padding,
    Sizes,
    dilated,
    dilated_shape,
    explicit_padding,
    index_tuple,
    pads_of,
    positive_tuple,
    slid_shape,
)

# ---- fewer arguments -------------------------------------------------------------------


@boundary
def conv(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, precision: Any = None,
         preferred_element_type: Any = None) -> Any:
    """`conv_general_dilated` without dilation and groups, with the default order of axes.

    Args:
      lhs: array with axes (batch, feature, spatial ...).
      rhs: kernel with axes (output feature, input feature, spatial ...).
      window_strides: for each spatial axis the step of the kernel.
      padding: `"SAME"`, `"SAME_LOWER"`, `"VALID"` or `(low, high)` pairs.
      precision: as in `conv_general_dilated`.
      preferred_element_type: as in `conv_general_dilated`.

    Returns:
      An array with axes (batch, feature, spatial ...).

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.conv(jnp.ones((1, 1, 4)), jnp.ones((1, 1, 2)), (1,), "SAME")
      Array([[[2., 2., 2., 1.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, precision=precision,
                                preferred_element_type=preferred_element_type)


@boundary
def conv_with_general_padding(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any,
                              lhs_dilation: Sequence[int] | None,
                              rhs_dilation: Sequence[int] | None, precision: Any = None,
                              preferred_element_type: Any = None) -> Any:
    """`conv_general_dilated` without groups, with the default order of axes.

    Args:
      lhs: array with axes (batch, feature, spatial ...).
      rhs: kernel with axes (output feature, input feature, spatial ...).
      window_strides: for each spatial axis the step of the kernel.
      padding: `"SAME"`, `"SAME_LOWER"`, `"VALID"` or `(low, high)` pairs.
      lhs_dilation: as in `conv_general_dilated`.
      rhs_dilation: as in `conv_general_dilated`.
      precision: as in `conv_general_dilated`.
      preferred_element_type: as in `conv_general_dilated`.

    Returns:
      An array with axes (batch, feature, spatial ...).

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> x, kernel = jnp.array([[[1.0, 2.0, 3.0]]]), jnp.array([[[1.0, 10.0]]])
      >>> lax.conv_with_general_padding(x, kernel, (1,), [(0, 0)], None, (2,))
      Array([[[31.]]], dtype=float32)
    """
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation,
                                precision=precision,
                                preferred_element_type=preferred_element_type)


# ---- conv_transpose --------------------------------------------------------------------

_TRANSPOSE = "conv_transpose"


def _transpose_pads(padding: Any, window: Sizes, strides: Sizes, consistent: bool) -> Padding:
    """The padding of the dilated lhs, for dilated windows."""
    if not isinstance(padding, str):
        pairs = explicit_padding(_TRANSPOSE, padding, len(window))
        if not consistent:
            return pairs
        return tuple((k - 1 - low, k - 1 - high)
                     for k, (low, high) in zip(window, pairs, strict=True))
    mode = padding.upper()
    if mode not in ("SAME", "VALID"):
        msg = (f"{_TRANSPOSE}: padding must be 'SAME', 'VALID' or a sequence of (low, high) pairs, "
               f"got {padding!r}.")
        raise ValueError(msg)
    found = []
    for k, s in zip(window, strides, strict=True):
        if mode == "SAME":
            total = k + s - 2
            before = k - 1 if s > k - 1 else -(-total // 2)
        else:
            total, before = k + s - 2 + max(k - s, 0), k - 1
        found.append((before, total - before))
    return tuple(found)


def _channels_last(ndim: int) -> tuple[tuple[int, ...], ...]:
    """(batch, spatial ..., feature) and (spatial ..., input, output feature)."""
    array = (0, ndim - 1, *range(1, ndim - 1))
    return array, (ndim - 1, ndim - 2, *range(ndim - 2)), array


@boundary
def conv_transpose(lhs: Any, rhs: Any, strides: Sequence[int], padding: Any,
                   rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
                   transpose_kernel: bool = False, precision: Any = None,
                   preferred_element_type: Any = None, use_consistent_padding: bool = False
                   ) -> Any:
    """A fractionally strided convolution: the result is `strides` times as large.

    Args:
      lhs: array with an axis for the batch, one for features and `n` spatial ones.
      rhs: the kernel, with axes for output features, input features and `n` spatial ones.
      strides: for each spatial axis the factor, the reciprocal of the kernel's step.
      padding: `"SAME"` or `"VALID"`, as padding of the convolution whose transpose this is;
        or `(low, high)` pairs for the dilated lhs.
      rhs_dilation: for each spatial axis the distance to which elements of the kernel are
        pulled apart.
      dimension_numbers: which axis is which, as in `conv_general_dilated`; by default features
        come last, `("NHWC", "HWIO", "NHWC")`.
      transpose_kernel: whether the kernel is mirrored and its features are exchanged. If so,
        this is the gradient of a convolution with the same kernel, as in Keras'
        `Conv2DTranspose`.
      precision: as in `conv_general_dilated`.
      preferred_element_type: as in `conv_general_dilated`.
      use_consistent_padding: whether pairs, too, are padding of the convolution whose transpose
        this is.

    Returns:
      An array with axes for batch, features and spatial places.

    Raises:
      TypeError: ranks, dtypes or dimension numbers do not fit.
      ValueError: padding or features do not fit.

    Source: Dumoulin and Visin 2016, "A guide to convolution arithmetic for deep learning".

    Example:
      >>> x, kernel = jnp.array([[[1.0], [2.0]]]), jnp.array([[[1.0]], [[10.0]]])
      >>> lax.conv_transpose(x, kernel, (2,), "VALID")[0, :, 0]
      Array([10.,  1., 20.,  2.], dtype=float32)
    """
    shapes = typeof(lhs).shape, typeof(rhs).shape
    if dimension_numbers is None:
        dimension_numbers = _channels_last(len(shapes[0]))
    numbers = conv_dimension_numbers(*shapes, dimension_numbers)
    spatial = numbers.rhs_spec[2:]
    count = len(spatial)
    factors = positive_tuple(_TRANSPOSE, "strides", strides, count, "spatial axes")
    step = index_tuple(_TRANSPOSE, "rhs_dilation", rhs_dilation, count, "spatial axes")
    window = tuple(dilated(shapes[1][i], d) for i, d in zip(spatial, step, strict=True))
    if transpose_kernel:
        outs, ins = numbers.rhs_spec[:2]
        order = list(range(len(shapes[1])))
        order[outs], order[ins] = ins, outs
        rhs = transpose(rev(rhs, spatial), order)
    return conv_general_dilated(
        lhs, rhs, (1,) * count, _transpose_pads(padding, window, factors, use_consistent_padding),
        factors, step, numbers, precision=precision,
        preferred_element_type=preferred_element_type)


# ---- patches ---------------------------------------------------------------------------


@boundary
def conv_general_dilated_patches(lhs: Any, filter_shape: Sequence[int],
                                 window_strides: Sequence[int], padding: Any,
                                 lhs_dilation: Sequence[int] | None = None,
                                 rhs_dilation: Sequence[int] | None = None,
                                 dimension_numbers: Any = None, precision: Any = None,
                                 preferred_element_type: Any = None) -> Any:
    """The kernel's window at each of its positions, as features.

    Args:
      lhs: array with an axis for the batch, one for features and `n` spatial ones.
      filter_shape: for each spatial axis the size of the kernel.
      window_strides: as in `conv_general_dilated`.
      padding: as in `conv_general_dilated`.
      lhs_dilation: as in `conv_general_dilated`.
      rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers: as in `conv_general_dilated`; the second string says in which order
        spatial axes are named in the other arguments.
      precision: as in `conv_general_dilated`. It has no effect: elements are copied, not
        multiplied.
      preferred_element_type: dtype of the result.

    Returns:
      An array with axes for batch, features and spatial places. Its features are those of the
      lhs and, for each, the elements of the kernel's window in row-major order.

    Raises:
      TypeError: arguments do not fit the rank of the lhs.
      ValueError: the padding does not fit, or `precision` is unknown.

    Example:
      >>> x = jnp.array([[[1.0, 2.0, 3.0, 4.0]]])
      >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")
      Array([[[1., 2., 3.],
              [2., 3., 4.]]], dtype=float32)
    """
    name, aval = "conv_general_dilated_patches", typeof(lhs)
    canonical_precision(precision)
    count = len(canonical_shape(filter_shape))
    if count + 2 != aval.ndim:
        msg = (f"{name}: filter_shape {tuple(filter_shape)} must hold one size for each spatial "
               f"axis of the lhs, of shape {aval.shape}; of its {aval.ndim} axes two are for batch "
               "and features.")
        raise TypeError(msg)
    window, strides, base, step = [
        positive_tuple(name, argument, given, count, "spatial axes") for argument, given in (
            ("filter_shape", filter_shape), ("window_strides", window_strides),
            ("lhs_dilation", lhs_dilation), ("rhs_dilation", rhs_dilation))]
    numbers = conv_dimension_numbers(aval.shape, (1, 1, *window), _kernel_order(
        dimension_numbers))
    sizes = [aval.shape[i] for i in numbers.lhs_spec[2:]]
    if isinstance(padding, str) and any(d != 1 for d in base):
        msg = (f"{name}: padding {padding!r} is not defined for a dilated lhs (lhs_dilation "
               f"{base}); give (low, high) pairs.")
        raise ValueError(msg)
    pairs = pads_of(name, padding, sizes, dilated_shape(window, step), strides)
    places = slid_shape(name, sizes, window, strides, pairs, base, step)
    out = _patches(transpose(lhs, numbers.lhs_spec), window, strides, pairs, base, step, places)
    out = convert(out, aval.dtype if preferred_element_type is None
                  else dtypes.asked_dtype(preferred_element_type, name))
    order = sorted(range(aval.ndim), key=numbers.out_spec.__getitem__)
    return transpose(out, order)


def _kernel_order(dimension_numbers: Any) -> Any:
    """Dimension numbers for a kernel whose spatial axes come last, in the given order."""
    if dimension_numbers is None or len(dimension_numbers) != 3:
        return dimension_numbers
    lhs, rhs, out = dimension_numbers
    if isinstance(rhs, str):
        return lhs, "OI" + "".join(c for c in rhs if c not in "OI"), out
    return ConvDimensionNumbers(lhs, tuple(range(len(rhs))), out)


def _patches(x: Any, window: Sizes, strides: Sizes, padding: Padding, base: Sizes, step: Sizes,
             places: Sizes) -> Any:
    """Patches for axes (batch, feature, spatial ...), extracted axis by axis.

    Copying keeps infinities and NaN in place; products with zeros would spread them.
    """
    config = [(0, 0, 0)] * 2 + [(*pair, d - 1) for pair, d in zip(padding, base, strict=True)]
    if any(c != (0, 0, 0) for c in config):
        x = pad(x, constant_like(x, 0), config)
    count = len(window)
    for i in range(count):
        # Axes: batch, feature, elements along axes 0 to i - 1, places along those, the rest.
        axis = 2 + 2 * i
        span = dilated(places[i], strides[i])
        starts = [k * step[i] if span else 0 for k in range(window[i])]
        x = stack_p.bind(*[slice_in_dim(x, start, start + span, strides[i], axis)
                           for start in starts], axis=2 + i)
    batch, features = typeof(x).shape[:2]
    return reshape(x, (batch, features * math.prod(window), *places))


# ---- unshared kernels ------------------------------------------------------------------


@boundary
def conv_general_dilated_local(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any,
                               filter_shape: Sequence[int],
                               lhs_dilation: Sequence[int] | None = None,
                               rhs_dilation: Sequence[int] | None = None,
                               dimension_numbers: Any = None, precision: Any = None) -> Any:
    """A convolution with a separate kernel at each position: a locally connected layer.

    Args:
      lhs: array with an axis for the batch, one for features and `n` spatial ones.
      rhs: the kernels: its spatial axes are the positions of the result; its input features are
        those of the lhs and, for each, the elements of a window in row-major order.
      window_strides: as in `conv_general_dilated`.
      padding: as in `conv_general_dilated`.
      filter_shape: for each spatial axis the size of a window.
      lhs_dilation: as in `conv_general_dilated`.
      rhs_dilation: as in `conv_general_dilated`.
      dimension_numbers: as in `conv_general_dilated`.
      precision: as in `dot_general`.

    Returns:
      An array with axes for batch, features and spatial places.

    Raises:
      TypeError: ranks, dimension numbers or the places do not fit.
      ValueError: the padding does not fit.

    Example:
      >>> x, kernels = jnp.array([[[1.0, 2.0, 3.0]]]), jnp.array([[[1.0, 2.0], [10.0, 20.0]]])
      >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))
      Array([[[21., 64.]]], dtype=float32)
    """
    name = "conv_general_dilated_local"
    numbers = conv_dimension_numbers(typeof(lhs).shape, typeof(rhs).shape, dimension_numbers)
    lhs_spec, rhs_spec, out_spec = numbers
    if isinstance(dimension_numbers, (tuple, list)) and isinstance(dimension_numbers[1], str):
        patches_numbers = dimension_numbers
    else:
        patches_numbers = numbers
    patches = conv_general_dilated_patches(
        lhs, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, patches_numbers)
    places = [tuple(typeof(x).shape[i] for i in spec[1:])
              for x, spec in ((patches, out_spec), (rhs, rhs_spec))]
    if places[0] != places[1]:
        msg = (f"{name}: the rhs, of shape {typeof(rhs).shape}, must have {places[0][0]} input "
               f"features, one for each element of a window in each feature of the lhs, and "
               f"spatial sizes {places[0][1:]}, one kernel for each place; it has {places[1][0]} "
               f"and {places[1][1:]}.")
        raise TypeError(msg)
    out = dot_general(patches, rhs, (((out_spec[1],), (rhs_spec[1],)),
                                     (out_spec[2:], rhs_spec[2:])), precision)
    # Its axes: spatial ones, batch, feature.
    count = len(lhs_spec) - 2
    source = dict(zip(out_spec, (count, count + 1, *range(count)), strict=True))
    return transpose(out, [source[i] for i in range(count + 2)])


# ---- shapes ----------------------------------------------------------------------------


@boundary
def conv_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int], strides: Sequence[int],
                     pads: Any, batch_group_count: int = 1) -> tuple[int, ...]:
    """The shape of a convolution of arrays whose axes are in the default order.

    Args:
      lhs_shape: (batch, feature, spatial ...); the batch may be -1 for an unknown size.
      rhs_shape: (output feature, input feature, spatial ...).
      strides: for each spatial axis the step of the kernel.
      pads: as `padding` in `conv_general_dilated`.
      batch_group_count: as in `conv_general_dilated`.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: a shape is not a sequence of integers.

    Example:
      >>> lax.conv_shape_tuple((1, 2, 5, 6), (4, 2, 3, 2), (2, 1), "SAME")
      (1, 4, 3, 6)
    """
    name = "conv_shape_tuple"
    batch, *rest = integers_of_shape(lhs_shape)
    (_, *sizes), (outs, _, *window) = canonical_shape(rest), canonical_shape(rhs_shape)
    steps = positive_tuple(name, "strides", strides, len(sizes), "spatial axes")
    if batch % batch_group_count:
        msg = (f"{name}: the batch size, {batch}, must be a multiple of batch_group_count, "
               f"{batch_group_count}.")
        raise ValueError(msg)
    ones = (1,) * len(sizes)
    places = slid_shape(name, sizes, window, steps, pads_of(name, pads, sizes, window, steps),
                        ones, ones)
    return (batch // batch_group_count, outs, *places)


@boundary
def conv_general_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int],
                             window_strides: Sequence[int], padding: Any, dimension_numbers: Any
                             ) -> tuple[int, ...]:
    """The shape of a convolution of arrays whose axes are in any order.

    Args:
      lhs_shape: shape of the lhs; the size of the batch may be -1 for an unknown size.
      rhs_shape: shape of the kernel.
      window_strides: for each spatial axis the step of the kernel.
      padding: as in `conv_general_dilated`.
      dimension_numbers: which axis is which, as in `conv_general_dilated`.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: a shape is not a sequence of integers.

    Example:
      >>> lax.conv_general_shape_tuple((1, 5, 6, 2), (3, 2, 2, 4), (2, 1), "SAME",
      ...                              ("NHWC", "HWIO", "NHWC"))
      (1, 3, 6, 4)
    """
    lhs, rhs, out = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    shape = conv_shape_tuple([lhs_shape[i] for i in lhs], [rhs_shape[i] for i in rhs],
                             window_strides, padding)
    return _in_order(shape, out)


@boundary
def conv_transpose_shape_tuple(lhs_shape: Sequence[int], rhs_shape: Sequence[int],
                               window_strides: Sequence[int], padding: Any,
                               dimension_numbers: Any) -> tuple[int, ...]:
    """The shape of the result of `conv_transpose`.

    Args:
      lhs_shape: shape of the lhs; the size of the batch may be -1 for an unknown size.
      rhs_shape: shape of the kernel.
      window_strides: as `strides` in `conv_transpose`.
      padding: as in `conv_transpose`.
      dimension_numbers: as in `conv_general_dilated`.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: a shape is not a sequence of integers.

    Example:
      >>> lax.conv_transpose_shape_tuple((1, 5, 6, 2), (3, 2, 2, 4), (2, 1), "SAME",
      ...                                ("NHWC", "HWIO", "NHWC"))
      (1, 10, 6, 4)
    """
    name = "conv_transpose_shape_tuple"
    lhs, rhs, out = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    sizes = canonical_shape([lhs_shape[i] for i in lhs[2:]])
    window = canonical_shape([rhs_shape[i] for i in rhs[2:]])
    factors = positive_tuple(name, "window_strides", window_strides, len(sizes), "spatial axes")
    ones = (1,) * len(sizes)
    places = slid_shape(name, sizes, window, ones, _transpose_pads(padding, window, factors, False),
                        factors, ones)
    return _in_order((lhs_shape[lhs[0]], rhs_shape[rhs[0]], *places), out)


def _in_order(shape: Sequence[int], spec: Sequence[int]) -> tuple[int, ...]:
    """The shape in which the axes `spec` have the given sizes."""
    sizes = dict(zip(spec, shape, strict=True))
    return tuple(sizes[i] for i in range(len(sizes)))
