"""Convolution: conv_general_dilated.

A convolution here does not mirror its kernel: element y of the result is the sum over k of
`lhs[y * stride + k * rhs_dilation] * rhs[k]`, along each spatial axis. The lhs is dilated
(`lhs_dilation`) and padded before. The sum also runs over input features.

Functions built on it are in `conv_variants`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Union

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.ir import dtypes
from mjax._engine.ir.schema import AnyDType, Ints, Pairs
from mjax._engine.ir.sizes import integers_of_shape, is_constant_shape
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.emit import (
    dense_bool,
    dense_i64,
    full,
    hlo,
    i64_attr,
    ir_type,
    op,
    padded_ir,
    reshape_ir,
)
from mjax._engine.primitives.precision import canonical_precision, precision_attr
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import (
    batch_size,
    moveaxis,
    reshape,
    zeros_of,
)
from mjax._engine.primitives.sliding import (
    Padding,
    Sizes,
    check_positive,
    dilated,
    dilated_shape,
    index_tuple,
    pads_of,
    pairs_attr,
    slid_shape,
    transposed_padding,
)
from mjax._engine.primitives.tangents import define_bilinear
from mjax._engine.tracing.primitive import EnginePrimitive

# ---- dimension numbers -----------------------------------------------------------------


@pickled_by("conv_dimension_numbers_v1")
class ConvDimensionNumbers(Record):
    """The roles of the axes of the operands and the result of a convolution.

    Attributes:
      lhs_spec: the axes of the lhs that are (batch, feature, spatial ...).
      rhs_spec: the axes of the rhs that are (output feature, input feature, spatial ...).
      out_spec: the axes of the result that are (batch, feature, spatial ...).

    Example:
      >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC")).lhs_spec
      (0, 3, 1, 2)
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


#: The values that `dimension_numbers` arguments take.
ConvGeneralDilatedDimensionNumbers = Union[  # noqa: UP007 (an object of JAX's kind)
    tuple[str, str, str], ConvDimensionNumbers, None]

_ROLES = (("lhs", "NC"), ("rhs", "OI"), ("out", "NC"))


@boundary
def conv_dimension_numbers(lhs_shape: Sequence[int], rhs_shape: Sequence[int],
                           dimension_numbers: Any) -> ConvDimensionNumbers:
    """The `ConvDimensionNumbers` of a `dimension_numbers` argument.

    Args:
      lhs_shape: shape of the convolution's lhs.
      rhs_shape: shape of its rhs.
      dimension_numbers: three strings with one character for each axis, such as
        `("NHWC", "HWIO", "NHWC")`; or a `ConvDimensionNumbers`. None means batch, features,
        spatial axes; for the rhs, output features, input features, spatial axes.

    Returns:
      A `ConvDimensionNumbers`.

    Raises:
      TypeError: the ranks differ, or the argument is none of these or does not fit them.

    Example:
      >>> lax.conv_dimension_numbers((1, 5, 5, 2), (3, 3, 2, 4), ("NHWC", "HWIO", "NHWC"))
      ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    lhs_shape, rhs_shape = integers_of_shape(lhs_shape), integers_of_shape(rhs_shape)
    ndim = len(lhs_shape)
    if ndim != len(rhs_shape) or ndim < 2:
        msg = (f"a convolution needs lhs and rhs of equal rank, at least 2: an axis for batch or "
               f"output features, one for input features, and spatial ones. Got lhs of shape "
               f"{lhs_shape} and rhs of shape {rhs_shape}.")
        raise TypeError(msg)
    if dimension_numbers is None:
        axes = tuple(range(ndim))
        return ConvDimensionNumbers(axes, axes, axes)
    if isinstance(dimension_numbers, (tuple, list)) and len(dimension_numbers) == 3:
        if not any(isinstance(spec, str) for spec in dimension_numbers):
            return _checked_numbers(dimension_numbers, ndim)
        for i, spec in enumerate(dimension_numbers):
            if len(spec) != ndim:
                msg = (f"convolution: dimension_numbers[{i}], {spec!r}, must have one character "
                       f"for each of the {ndim} axes of lhs and rhs.")
                raise TypeError(msg)
        return ConvDimensionNumbers(*conv_general_permutations(dimension_numbers))
    msg = ("convolution: dimension_numbers must be None, three strings such as ('NHWC', 'HWIO', "
           f"'NHWC'), or a lax.ConvDimensionNumbers, got {dimension_numbers!r}.")
    raise TypeError(msg)


def _checked_numbers(numbers: Any, ndim: int) -> ConvDimensionNumbers:
    specs = []
    for (name, _), spec in zip(_ROLES, numbers, strict=True):
        axes = tuple(map(operator.index, spec))
        if sorted(axes) != list(range(ndim)):
            msg = (f"convolution: {name}_spec {axes} of the dimension_numbers must name each of "
                   f"the {ndim} axes once.")
            raise TypeError(msg)
        specs.append(axes)
    return ConvDimensionNumbers(*specs)


@boundary
def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Axes in the order (batch, feature, spatial ...), for strings that name them.

    Args:
      dimension_numbers: three strings: of the lhs and of the result, with the characters `N` and
        `C`, and between them of the rhs, with `O` and `I`. All other characters name spatial
        axes, in the order in which the rhs has them.

    Returns:
      `(lhs_spec, rhs_spec, out_spec)`, as in `ConvDimensionNumbers`.

    Raises:
      TypeError: a character is missing or repeated.

    Example:
      >>> lax.conv_general_permutations(("NWHC", "HWIO", "NCHW"))
      ((0, 3, 2, 1), (3, 2, 0, 1), (0, 1, 2, 3))
    """
    for i, ((_, roles), spec) in enumerate(zip(_ROLES, dimension_numbers, strict=True)):
        for role in roles:
            if spec.count(role) != 1:
                msg = (f"convolution: dimension_numbers[{i}], {spec!r}, must contain the "
                       f"characters {roles[0]!r} and {roles[1]!r} exactly once.")
                raise TypeError(msg)
        if len(set(spec)) != len(spec):
            msg = f"convolution: dimension_numbers[{i}], {spec!r}, must not repeat a character."
            raise TypeError(msg)
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]
    if not set(lhs) - {*"NC"} == set(spatial) == set(out) - {*"NC"}:
        msg = (f"convolution: dimension_numbers {tuple(dimension_numbers)} must all name the same "
               "spatial axes.")
        raise TypeError(msg)
    return tuple(tuple(spec.index(c) for c in (*roles, *spatial))
                 for (_, roles), spec in zip(_ROLES, dimension_numbers, strict=True))


# ---- type ------------------------------------------------------------------------------

_NAME = "conv_general_dilated"
conv_general_dilated_p = EnginePrimitive(_NAME, params={
    "window_strides": Ints, "padding": Pairs, "lhs_dilation": Ints, "rhs_dilation": Ints,
    "dimension_numbers": ConvDimensionNumbers, "feature_group_count": int,
    "batch_group_count": int, "precision": Any, "preferred_element_type": AnyDType | None})


def _take(shape: Sequence[int], axes: Sequence[int]) -> Sizes:
    return tuple(shape[i] for i in axes)


@conv_general_dilated_p.def_abstract_eval
def _conv_type(lhs: Any, rhs: Any, *, window_strides: Sizes, padding: Padding,
               lhs_dilation: Sizes, rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers,
               feature_group_count: int, batch_group_count: int, precision: Any,
               preferred_element_type: Any) -> ShapedArray:
    if lhs.dtype != rhs.dtype:
        msg = (f"{_NAME} requires lhs and rhs of one dtype, got {lhs.dtype} and {rhs.dtype}; "
               "convert one of them.")
        raise TypeError(msg)
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    (batch, features, *sizes), (outs, ins, *window) = (_take(lhs.shape, lhs_spec),
                                                       _take(rhs.shape, rhs_spec))
    _check_groups(batch, features, ins, outs, feature_group_count, batch_group_count)
    for argument, values in (("window_strides", window_strides), ("lhs_dilation", lhs_dilation),
                             ("rhs_dilation", rhs_dilation)):
        check_positive(_NAME, argument, values)
    if 0 in window:
        msg = f"{_NAME}: the spatial sizes of the rhs, {tuple(window)}, must be positive."
        raise ValueError(msg)
    spatial = slid_shape(_NAME, sizes, window, window_strides, padding, lhs_dilation,
                         rhs_dilation)
    shape = dict(zip(out_spec, (batch // batch_group_count, outs, *spatial), strict=True))
    return ShapedArray(tuple(shape[i] for i in range(len(shape))),
                       _result_dtype(lhs.dtype, preferred_element_type),
                       lhs.weak_type and rhs.weak_type)


def _check_groups(batch: int, features: int, ins: int, outs: int, feature_groups: int,
                  batch_groups: int) -> None:
    for name, count in (("feature_group_count", feature_groups),
                        ("batch_group_count", batch_groups)):
        if count < 1:
            msg = f"{_NAME}: {name} must be positive, got {count}."
            raise ValueError(msg)
        if outs % count:
            msg = (f"{_NAME}: the number of output features of the rhs, {outs}, must be a "
                   f"multiple of {name}, {count}.")
            raise ValueError(msg)
    if feature_groups > 1 and batch_groups > 1:
        msg = (f"{_NAME}: only one of feature_group_count, {feature_groups}, and "
               f"batch_group_count, {batch_groups}, may be greater than 1.")
        raise ValueError(msg)
    if ins * feature_groups != features:
        msg = (f"{_NAME}: the lhs has {features} features; in {feature_groups} groups "
               f"(feature_group_count) of the {ins} input features of the rhs there would be "
               f"{ins * feature_groups}.")
        raise ValueError(msg)
    if batch % batch_groups:
        msg = (f"{_NAME}: the batch size of the lhs, {batch}, must be a multiple of "
               f"batch_group_count, {batch_groups}.")
        raise ValueError(msg)


#: Kinds of dtypes -> kinds in which their products may be summed.
_WIDER = {"b": "biuf", "i": "if", "u": "iuf", "f": "f", "c": "c"}


def _result_dtype(dtype: Any, preferred: Any) -> Any:
    kind = dtypes.kind(dtype)
    if kind not in _WIDER:
        msg = f"{_NAME} needs numeric or boolean operands, got {dtype}."
        raise TypeError(msg)
    if preferred is None or preferred == dtype:
        return dtype
    if dtypes.kind(preferred) not in _WIDER[kind] or preferred.itemsize < dtype.itemsize:
        msg = (f"{_NAME}: preferred_element_type {preferred} is not a wider form of {dtype}: it "
               "must be of the same kind (or signed for unsigned, or a float for integers) and not "
               "narrower. Convert the operands or the result instead.")
        raise TypeError(msg)
    return preferred


# ---- lowering --------------------------------------------------------------------------


@conv_general_dilated_p.def_lowering
def _conv_lowering(ctx: Any, lhs: Any, rhs: Any, **params: Any) -> Any:
    out = ctx.avals_out[0]
    if out.ndim == 2:
        return _along_one_axis(ctx, lhs, rhs, **params)
    if not dtypes.is_complex(out.dtype):
        return [_conv_ir(out, lhs, rhs, **params)]
    # XLA does not have a fast complex convolution. Three real ones are enough (Gauss):
    # (a + bi)(c + di) = c(a + b) - b(c + d) + (c(a + b) + a(d - c))i
    part = out.update(dtype=dtypes.real_dtype(out.dtype))
    a, b, c, d = hlo.real(lhs), hlo.imag(lhs), hlo.real(rhs), hlo.imag(rhs)
    common = _conv_ir(part, hlo.add(a, b), c, **params)
    real = hlo.subtract(common, _conv_ir(part, b, hlo.add(c, d), **params))
    imag = hlo.add(common, _conv_ir(part, a, hlo.subtract(d, c), **params))
    return op("stablehlo.complex", ctx.out_types, [real, imag])


def _along_one_axis(ctx: Any, lhs: Any, rhs: Any, *, dimension_numbers: ConvDimensionNumbers,
                    **params: Any) -> Any:
    """A convolution without spatial axes; XLA up to jaxlib 0.6.2 miscomputes those with groups."""

    def stretched(aval: ShapedArray) -> ShapedArray:
        return aval.update(shape=(*aval.shape, 1))

    lhs, rhs = [reshape_ir(ir_type(stretched(a)), stretched(a).shape, x)
                for a, x in zip(ctx.avals_in, (lhs, rhs), strict=True)]
    inner = ctx.replace(avals_in=[stretched(a) for a in ctx.avals_in],
                        avals_out=[stretched(ctx.avals_out[0])])
    axis = {"window_strides": (1,), "padding": ((0, 0),), "lhs_dilation": (1,),
            "rhs_dilation": (1,)}
    numbers = ConvDimensionNumbers(*[(*spec, 2) for spec in dimension_numbers])
    out = _conv_lowering(inner, lhs, rhs, dimension_numbers=numbers, **{**params, **axis})
    return [reshape_ir(ctx.out_types[0], ctx.avals_out[0].shape, *out)]


def _conv_ir(out: ShapedArray, lhs: Any, rhs: Any, *, window_strides: Sizes, padding: Padding,
             lhs_dilation: Sizes, rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers,
             feature_group_count: int, batch_group_count: int, precision: Any,
             preferred_element_type: Any) -> Any:
    (lhs_batch, lhs_feature, *lhs_spatial), (outs, ins, *window), (batch, feature, *spatial) = (
        dimension_numbers)
    if not all(map(is_constant_shape, padding)):
        # The operation does not accept symbolic sizes.
        config: list[Any] = [(0, 0, 0)] * out.ndim
        for axis, (low, high), dilation in zip(lhs_spatial, padding, lhs_dilation, strict=True):
            config[axis] = (low, high, dilation - 1)
        lhs = padded_ir(lhs, full(0, out.update(shape=())), config)
        padding = ((0, 0),) * len(padding)
        lhs_dilation = (1,) * len(padding)
    numbers = hlo.ConvDimensionNumbers.get(
        input_batch_dimension=lhs_batch, input_feature_dimension=lhs_feature,
        input_spatial_dimensions=lhs_spatial, kernel_output_feature_dimension=outs,
        kernel_input_feature_dimension=ins, kernel_spatial_dimensions=window,
        output_batch_dimension=batch, output_feature_dimension=feature,
        output_spatial_dimensions=spatial)
    return hlo.ConvolutionOp(
        ir_type(out), lhs, rhs, dimension_numbers=numbers,
        feature_group_count=i64_attr(feature_group_count),
        batch_group_count=i64_attr(batch_group_count),
        window_strides=dense_i64(window_strides), padding=pairs_attr(padding),
        lhs_dilation=dense_i64(lhs_dilation), rhs_dilation=dense_i64(rhs_dilation),
        window_reversal=dense_bool([False] * len(window_strides)),
        precision_config=precision_attr(precision)).result


# ---- merging and splitting axes --------------------------------------------------------


def _split_axis(x: Any, axis: int, count: int) -> Any:
    """Splits an axis into `count` groups of equal size: a new axis in front of it."""
    shape = typeof(x).shape
    return reshape(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def _merge_axis(x: Any, source: int, target: int) -> Any:
    """Merges an axis into `target`, an axis of the others, as its outer part."""
    x = moveaxis(x, source, target)
    shape = typeof(x).shape
    return reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _merge_below_groups(x: Any, source: int, target: int, groups: int) -> Any:
    """`_merge_axis` within each group of the target's indices."""
    if groups == 1:
        return _merge_axis(x, source, target)
    size = typeof(x).shape[source]
    x = moveaxis(x, source, target)
    x = _split_axis(x, target + 1, groups)
    x = moveaxis(x, target + 1, target)
    shape = typeof(x).shape
    return reshape(x, (*shape[:target], groups * size * shape[target + 2], *shape[target + 3 :]))


def _split_below_groups(x: Any, axis: int, groups: int, count: int) -> Any:
    """Inverse of `_merge_below_groups`, with the new axis in front of `axis`."""
    if groups == 1:
        return _split_axis(x, axis, count)
    x = _split_axis(_split_axis(x, axis, groups), axis + 1, count)
    return _merge_axis(moveaxis(x, axis + 1, axis), axis + 1, axis + 1)


# ---- derivatives -----------------------------------------------------------------------


def _swapped(spec: Sequence[int]) -> tuple[int, ...]:
    first, second, *rest = spec
    return (second, first, *rest)


def _transpose_lhs(ct: Any, lhs: Any, rhs: Any, *, window_strides: Sizes, padding: Padding,
                   lhs_dilation: Sizes, rhs_dilation: Sizes,
                   dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
                   batch_group_count: int, **params: Any) -> Any:
    """Convolves the cotangent, with the forward pass's strides as holes, with the mirrored rhs."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    aval, ct_shape, rhs_shape = lhs.aval, typeof(ct).shape, typeof(rhs).shape
    if 0 in ct_shape:
        return zeros_of(aval.strip_weak_type())
    groups = max(feature_group_count, batch_group_count)
    if groups > 1:
        # Output features of each group come in; input features of all groups go out.
        outs, ins = rhs_spec[:2]
        rhs = moveaxis(_split_axis(rhs, outs, groups), outs, ins)
        rhs = reshape(rhs, tuple(n // groups if i == outs else n * groups if i == ins else n
                                 for i, n in enumerate(rhs_shape)))
    sizes, places, window = (_take(aval.shape, lhs_spec[2:]), _take(ct_shape, out_spec[2:]),
                             _take(rhs_shape, rhs_spec[2:]))
    out = conv_general_dilated_p.bind(
        ct, convert(rev(rhs, rhs_spec[2:]), typeof(ct).dtype), window_strides=lhs_dilation,
        padding=transposed_padding(sizes, places, window, window_strides, padding, lhs_dilation,
                                   rhs_dilation),
        lhs_dilation=window_strides, rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, _swapped(rhs_spec), lhs_spec),
        feature_group_count=groups, batch_group_count=1, **params)
    if batch_group_count > 1:
        batch, feature = lhs_spec[:2]
        out = _split_axis(out, feature, batch_group_count)
        out = _merge_axis(out, feature, batch)
    return convert(out, aval.dtype)


def _transpose_rhs(ct: Any, lhs: Any, rhs: Any, *, window_strides: Sizes, padding: Padding,
                   lhs_dilation: Sizes, rhs_dilation: Sizes,
                   dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
                   batch_group_count: int, **params: Any) -> Any:
    """Convolves the lhs with the cotangent, and sums over the batch."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    aval, ct_shape = rhs.aval, typeof(ct).shape
    if 0 in ct_shape or 0 in aval.shape:
        return zeros_of(aval.strip_weak_type())
    sizes = dilated_shape(_take(typeof(lhs).shape, lhs_spec[2:]), lhs_dilation)
    pairs = tuple(
        # As many positions as the rhs has elements.
        (low, (width - 1) * step + dilated(out, stride) - size - low)
        for size, width, out, stride, step, (low, _) in zip(
            sizes, _take(aval.shape, rhs_spec[2:]), _take(ct_shape, out_spec[2:]),
            window_strides, rhs_dilation, padding, strict=True))
    out = conv_general_dilated_p.bind(
        convert(lhs, typeof(ct).dtype), ct, window_strides=rhs_dilation, padding=pairs,
        lhs_dilation=lhs_dilation, rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(_swapped(lhs_spec), _swapped(out_spec),
                                               _swapped(rhs_spec)),
        feature_group_count=batch_group_count, batch_group_count=feature_group_count, **params)
    return convert(out, aval.dtype)


define_bilinear(conv_general_dilated_p, _transpose_lhs, _transpose_rhs)

# ---- batching --------------------------------------------------------------------------


@conv_general_dilated_p.def_batch
def _conv_batch(args: Any, dims: Any, *, dimension_numbers: ConvDimensionNumbers,
                feature_group_count: int, batch_group_count: int, **params: Any) -> Any:
    """Merges batch axes: lhs's into its batch, rhs's into output features, both's into groups."""
    (lhs, rhs), (left, right) = args, dims
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    size = batch_size(args, dims)
    groups = {"feature_group_count": feature_group_count, "batch_group_count": batch_group_count}

    def conv(lhs: Any, rhs: Any) -> Any:
        return conv_general_dilated_p.bind(lhs, rhs, dimension_numbers=dimension_numbers,
                                           **groups, **params)

    if size == 0:
        return _empty_batch(args, dims, {**params, **groups,
                                         "dimension_numbers": dimension_numbers})
    if right is None:
        out = conv(_merge_below_groups(lhs, left, lhs_spec[0], batch_group_count), rhs)
        return _split_axis(out, out_spec[0], size), out_spec[0]
    if left is None:
        count = max(feature_group_count, batch_group_count)
        out = conv(lhs, _merge_below_groups(rhs, right, rhs_spec[0], count))
        return _split_below_groups(out, out_spec[1], count, size), out_spec[1]
    by_batch = batch_group_count > 1
    groups["batch_group_count" if by_batch else "feature_group_count"] *= size
    lhs = _merge_axis(lhs, left, lhs_spec[0 if by_batch else 1])
    out = conv(lhs, _merge_axis(rhs, right, rhs_spec[0]))
    return _split_axis(out, out_spec[1], size), out_spec[1]


def _empty_batch(args: Any, dims: Any, params: dict[str, Any]) -> Any:
    avals = []
    for x, dim in zip(args, dims, strict=True):
        aval = typeof(x)
        if dim is not None:
            aval = aval.update(shape=(*aval.shape[:dim], *aval.shape[dim + 1 :]))
        avals.append(aval)
    (aval,), _ = conv_general_dilated_p.infer(avals, params)
    return zeros_of(aval.update(shape=(0, *aval.shape))), 0


# ---- printing --------------------------------------------------------------------------

conv_general_dilated_p.def_pretty(lambda params: {k: v for k, v in params.items() if v is not None})

# ---- public functions ------------------------------------------------------------------


@boundary
def conv_general_dilated(lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any,
                         lhs_dilation: Sequence[int] | None = None,
                         rhs_dilation: Sequence[int] | None = None, dimension_numbers: Any = None,
                         feature_group_count: int = 1, batch_group_count: int = 1,
                         precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Slides a kernel over an array with any number of spatial axes; the kernel is not mirrored.

    Args:
      lhs: array with an axis for the batch, one for features and `n` spatial ones.
      rhs: the kernel, of the lhs's dtype, with an axis for output features, one for input
        features and `n` spatial ones.
      window_strides: for each spatial axis the step from one position of the kernel to the next.
      padding: the numbers of zeros before and after each spatial axis: `(low, high)` pairs;
        `"VALID"`: none; `"SAME"` or `"SAME_LOWER"`: as many as give the result the size
        `ceil(size / stride)`, with the greater half of an odd number after or before.
      lhs_dilation: for each spatial axis the distance to which elements of the lhs are pulled
        apart, with zeros in between (a transposed convolution); ones by default.
      rhs_dilation: the same for the kernel (an atrous convolution).
      dimension_numbers: which axis is which; see `conv_dimension_numbers`.
      feature_group_count: the number of groups of equal size of the lhs's features and of the
        output features; each group of the latter depends on one of the former.
      batch_group_count: the same for the batch of the lhs and output features; the result's batch
        is that of one group. Cannot be combined with `feature_group_count`.
      precision: None, a `lax.Precision` or its name, or a pair of those.
      preferred_element_type: dtype of sums and result, not narrower than the operands'.

    Returns:
      An array with axes for batch, features and spatial places, as `dimension_numbers` has them.

    Raises:
      TypeError: ranks, dtypes, dimension numbers or dilations do not fit.
      ValueError: strides, padding or groups do not fit.

    Source: StableHLO `convolution`.

    Example:
      >>> x, kernel = jnp.array([[[1.0, 2.0, 3.0, 4.0]]]), jnp.array([[[1.0, 10.0]]])
      >>> lax.conv_general_dilated(x, kernel, (1,), "VALID")
      Array([[[21., 32., 43.]]], dtype=float32)
    """
    shapes = typeof(lhs).shape, typeof(rhs).shape
    numbers = conv_dimension_numbers(*shapes, dimension_numbers)
    sizes, window = [_take(s, spec[2:]) for s, spec in zip(shapes, numbers, strict=False)]
    strides, base, step = [
        index_tuple(_NAME, argument, given, len(sizes), "spatial axes", error)
        for argument, given, error in (
            ("window_strides", window_strides, ValueError),
            ("lhs_dilation", lhs_dilation, TypeError), ("rhs_dilation", rhs_dilation, TypeError))]
    check_positive(_NAME, "window_strides", strides, ValueError)
    if isinstance(padding, str) and any(d != 1 for d in base):
        msg = (f"{_NAME}: padding {padding!r} is not defined for a dilated lhs (lhs_dilation "
               f"{base}); give (low, high) pairs, or use lax.conv_transpose.")
        raise ValueError(msg)
    pairs = pads_of(_NAME, padding, sizes, dilated_shape(window, step), strides)
    preferred = (None if preferred_element_type is None
                 else dtypes.asked_dtype(preferred_element_type, _NAME))
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=strides, padding=pairs, lhs_dilation=base, rhs_dilation=step,
        dimension_numbers=numbers, feature_group_count=operator.index(feature_group_count),
        batch_group_count=operator.index(batch_group_count),
        precision=canonical_precision(precision), preferred_element_type=preferred)
