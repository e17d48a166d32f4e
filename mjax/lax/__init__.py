"""The primitives' functions, under JAX's names: no promotion, no implicit broadcasting.

`linalg` loads when it is first used.
"""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._engine.control.branches.branching import (
    cond,
    platform_dependent,
    switch,
)
from mjax._engine.control.branches.cond import cond_p, platform_index_p
from mjax._engine.control.calls.composite import composite
from mjax._engine.control.custom.custom_linear_solve import custom_linear_solve, linear_solve_p
from mjax._engine.control.custom.custom_root import custom_root
from mjax._engine.control.loops.looping import fori_loop, map, scan, while_loop
from mjax._engine.control.loops.scan import scan_p
from mjax._engine.control.loops.while_loop import while_p
from mjax._engine.control.reduce import (
    reduce_p,
    reduce_window,
    reduce_window_p,
    select_and_scatter_p,
)
from mjax._engine.primitives.accuracy import AccuracyMode, Tolerance
from mjax._engine.primitives.approximate import (
    approx_max_k,
    approx_min_k,
    approx_top_k_p,
)
from mjax._engine.primitives.arithmetic import (
    RoundingMethod,
    abs,
    abs_p,
    add,
    add_p,
    and_p,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    cbrt,
    cbrt_p,
    ceil,
    ceil_p,
    clz,
    clz_p,
    complex,
    complex_p,
    conj,
    conj_p,
    div,
    div_p,
    eq,
    eq_p,
    eq_to_p,
    exp,
    exp2,
    exp2_p,
    exp_p,
    expm1,
    expm1_p,
    floor,
    floor_p,
    ge,
    ge_p,
    gt,
    gt_p,
    imag,
    imag_p,
    integer_pow,
    integer_pow_p,
    is_finite,
    is_finite_p,
    le,
    le_p,
    le_to_p,
    log,
    log1p,
    log1p_p,
    log_p,
    logistic,
    logistic_p,
    lt,
    lt_p,
    lt_to_p,
    max,
    max_p,
    min,
    min_p,
    mul,
    mul_p,
    ne,
    ne_p,
    neg,
    neg_p,
    nextafter,
    nextafter_p,
    not_p,
    or_p,
    population_count,
    population_count_p,
    pow,
    pow_p,
    real,
    real_p,
    rem,
    rem_p,
    round,
    round_p,
    rsqrt,
    rsqrt_p,
    shift_left,
    shift_left_p,
    shift_right_arithmetic,
    shift_right_arithmetic_p,
    shift_right_logical,
    shift_right_logical_p,
    sign,
    sign_p,
    sqrt,
    sqrt_p,
    square,
    square_p,
    sub,
    sub_p,
    xor_p,
)
from mjax._engine.primitives.associative import associative_scan
from mjax._engine.primitives.barrier import (
    optimization_barrier,
    optimization_barrier_p,
)
from mjax._engine.primitives.clamp import clamp, clamp_p
from mjax._engine.primitives.composed import (
    broadcast_like,
    broadcast_shapes,
    broadcast_to_rank,
    collapse,
    dtype,
    reciprocal,
    shape_as_value,
)
from mjax._engine.primitives.conv_variants import (
    conv,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose,
    conv_transpose_shape_tuple,
    conv_with_general_padding,
)
from mjax._engine.primitives.convert import (
    bitcast_convert_type,
    bitcast_convert_type_p,
    convert_element_type,
    convert_element_type_p,
    reduce_precision,
    reduce_precision_p,
)
from mjax._engine.primitives.convolution import (
    ConvDimensionNumbers,
    ConvGeneralDilatedDimensionNumbers,
    conv_dimension_numbers,
    conv_general_dilated_p,
    conv_general_permutations,
)
from mjax._engine.primitives.cumulative import (
    cumlogsumexp,
    cumlogsumexp_p,
    cummax,
    cummax_p,
    cummin,
    cummin_p,
    cumprod,
    cumprod_p,
    cumsum,
    cumsum_p,
    cumulative_loop_p,
    linear_recurrence_p,
)
from mjax._engine.primitives.dot import (
    DotDimensionNumbers,
    batch_matmul,
    dot_general_p,
)
from mjax._engine.primitives.dynamic_slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
    index_take,
)
from mjax._engine.primitives.fft import FftType, fft, fft_p
from mjax._engine.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    gather,
    gather_p,
)
from mjax._engine.primitives.iota import iota, iota_p
from mjax._engine.primitives.joining import (
    concatenate,
    concatenate_p,
    split,
    split_p,
    stack,
    stack_p,
    tile,
    tile_p,
    unstack,
    unstack_p,
)
from mjax._engine.primitives.keys import (
    random_bits_p,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
    random_wrap_p,
)
from mjax._engine.primitives.lifting import stage, stage_p
from mjax._engine.primitives.mulhi import mulhi, mulhi_p
from mjax._engine.primitives.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
    PrecisionLike,
)
from mjax._engine.primitives.ragged import (
    RaggedDotDimensionNumbers,
    ragged_dot_general_p,
)
from mjax._engine.primitives.reductions import (
    argmax,
    argmax_p,
    argmin,
    argmin_p,
    reduce_and,
    reduce_and_p,
    reduce_max,
    reduce_max_p,
    reduce_min,
    reduce_min_p,
    reduce_or,
    reduce_or_p,
    reduce_prod,
    reduce_prod_p,
    reduce_xor,
    reduce_xor_p,
)
from mjax._engine.primitives.rev import (
    rev,
    rev_p,
)
from mjax._engine.primitives.rng import (
    RandomAlgorithm,
    rng_bit_generator_p,
    rng_uniform,
    rng_uniform_p,
)
from mjax._engine.primitives.scaled import scaled_dot
from mjax._engine.primitives.scatter import (
    ScatterDimensionNumbers,
    scatter,
    scatter_add,
    scatter_add_p,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_mul,
    scatter_mul_p,
    scatter_p,
    scatter_sub,
    scatter_sub_p,
)
from mjax._engine.primitives.scatter_apply import scatter_apply, scatter_apply_p
from mjax._engine.primitives.select import (
    select,
    select_n,
    select_n_p,
)
from mjax._engine.primitives.sequencing import (
    after_all,
    after_all_p,
    create_token,
    create_token_p,
    dce_sink,
    dce_sink_p,
)
from mjax._engine.primitives.shapes import (
    broadcast_in_dim_p,
    copy_p,
    expand_dims,
    reduce_sum_p,
    reshape_p,
    squeeze,
    squeeze_p,
    transpose,
    transpose_p,
)
from mjax._engine.primitives.slicing import index_in_dim, pad, pad_p, slice, slice_in_dim, slice_p
from mjax._engine.primitives.sliding import padtype_to_pads
from mjax._engine.primitives.sort import (
    sort,
    sort_key_val,
    sort_p,
    top_k,
    top_k_p,
)
from mjax._engine.primitives.special import (
    bessel_i0e,
    bessel_i0e_p,
    bessel_i1e,
    bessel_i1e_p,
    betainc,
    digamma,
    digamma_p,
    erf,
    erf_inv,
    erf_inv_p,
    erf_p,
    erfc,
    erfc_p,
    igamma,
    igamma_grad_a,
    igamma_grad_a_p,
    igamma_p,
    igammac,
    igammac_p,
    lgamma,
    lgamma_p,
    polygamma,
    polygamma_p,
    random_gamma_grad,
    random_gamma_grad_p,
    regularized_incomplete_beta_p,
    zeta,
    zeta_p,
)
from mjax._engine.primitives.tangents import (
    add_any_p,
    stop_gradient,
    stop_gradient_p,
)
from mjax._engine.primitives.threefry import (
    iota_2x32_shape_p,
    threefry2x32_p,
)
from mjax._engine.primitives.trigonometric import (
    acos,
    acos_p,
    acosh,
    acosh_p,
    asin,
    asin_p,
    asinh,
    asinh_p,
    atan,
    atan2,
    atan2_p,
    atan_p,
    atanh,
    atanh_p,
    cos,
    cos_p,
    cosh,
    cosh_p,
    sin,
    sin_p,
    sinh,
    sinh_p,
    tan,
    tan_p,
    tanh,
    tanh_p,
)
from mjax._engine.primitives.windows import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_shape_tuple,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from mjax._engine.runtime.arrays.constraints import sharding_constraint_p, with_sharding_constraint
from mjax._engine.runtime.arrays.device_put import device_put_p
from mjax._engine.runtime.arrays.full import full, full_like
from mjax._engine.runtime.arrays.out_sharding_lax import (
    broadcast,
    broadcast_in_dim,
    broadcasted_iota,
    conv_general_dilated,
    dot,
    dot_general,
    empty,
    ragged_dot,
    ragged_dot_general,
    reduce,
    reduce_sum,
    reshape,
    rng_bit_generator,
)
from mjax._engine.spmd.axes import axis_size
from mjax._engine.spmd.exchanges import (
    all_to_all,
    all_to_all_p,
    pbroadcast,
    ppermute,
    ppermute_p,
    pshuffle,
    pswapaxes,
)
from mjax._engine.spmd.gathers import (
    all_gather,
    all_gather_invariant,
    all_gather_p,
    pscatter,
    psum_scatter,
)
from mjax._engine.spmd.ragged import ragged_all_to_all, ragged_all_to_all_p
from mjax._engine.spmd.reductions import (
    axis_index,
    axis_index_p,
    pcast,
    pmax,
    pmax_p,
    pmean,
    pmin,
    pmin_p,
    psum,
    psum_p,
    pvary,
)

if TYPE_CHECKING:
    from mjax.lax import linalg

__all__ = [
    "AccuracyMode", "ConvDimensionNumbers", "ConvGeneralDilatedDimensionNumbers", "DotAlgorithm",
    "DotAlgorithmPreset", "DotDimensionNumbers", "FftType", "GatherDimensionNumbers",
    "GatherScatterMode", "Precision", "PrecisionLike", "RaggedDotDimensionNumbers",
    "RandomAlgorithm", "RoundingMethod", "ScatterDimensionNumbers", "Tolerance", "abs", "abs_p",
    "acos", "acos_p", "acosh", "acosh_p", "add", "add_any_p", "add_p", "after_all", "after_all_p",
    "all_gather", "all_gather_invariant", "all_gather_p", "all_to_all", "all_to_all_p", "and_p",
    "approx_max_k", "approx_min_k", "approx_top_k_p", "argmax", "argmax_p", "argmin", "argmin_p",
    "asin", "asin_p", "asinh", "asinh_p", "associative_scan", "atan", "atan2", "atan2_p", "atan_p",
    "atanh", "atanh_p", "axis_index", "axis_index_p", "axis_size", "batch_matmul", "bessel_i0e",
    "bessel_i0e_p", "bessel_i1e", "bessel_i1e_p", "betainc", "bitcast_convert_type",
    "bitcast_convert_type_p", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast", "broadcast_in_dim", "broadcast_in_dim_p", "broadcast_like", "broadcast_shapes",
    "broadcast_to_rank", "broadcasted_iota", "cbrt", "cbrt_p", "ceil", "ceil_p", "clamp", "clamp_p",
    "clz", "clz_p", "collapse", "complex", "complex_p", "composite", "concatenate", "concatenate_p",
    "cond", "cond_p", "conj", "conj_p", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_local", "conv_general_dilated_p", "conv_general_dilated_patches",
    "conv_general_permutations", "conv_general_shape_tuple", "conv_shape_tuple", "conv_transpose",
    "conv_transpose_shape_tuple", "conv_with_general_padding", "convert_element_type",
    "convert_element_type_p", "copy_p", "cos", "cos_p", "cosh", "cosh_p", "create_token",
    "create_token_p", "cumlogsumexp", "cumlogsumexp_p", "cummax", "cummax_p", "cummin", "cummin_p",
    "cumprod", "cumprod_p", "cumsum", "cumsum_p", "cumulative_loop_p", "custom_linear_solve",
    "custom_root", "dce_sink", "dce_sink_p", "device_put_p", "digamma", "digamma_p", "div", "div_p",
    "dot", "dot_general", "dot_general_p", "dtype", "dynamic_index_in_dim", "dynamic_slice",
    "dynamic_slice_in_dim", "dynamic_slice_p", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "dynamic_update_slice_p", "empty", "eq",
    "eq_p", "eq_to_p", "erf", "erf_inv", "erf_inv_p", "erf_p", "erfc", "erfc_p", "exp", "exp2",
    "exp2_p", "exp_p", "expand_dims", "expm1", "expm1_p", "fft", "fft_p", "floor", "floor_p",
    "fori_loop", "full", "full_like", "gather", "gather_p", "ge", "ge_p", "gt", "gt_p", "igamma",
    "igamma_grad_a", "igamma_grad_a_p", "igamma_p", "igammac", "igammac_p", "imag", "imag_p",
    "index_in_dim", "index_take", "integer_pow", "integer_pow_p", "iota", "iota_2x32_shape_p",
    "iota_p", "is_finite", "is_finite_p", "le", "le_p", "le_to_p", "lgamma", "lgamma_p", "linalg",
    "linear_recurrence_p", "linear_solve_p", "log", "log1p", "log1p_p", "log_p", "logistic",
    "logistic_p", "lt", "lt_p", "lt_to_p", "map", "max", "max_p", "min", "min_p", "mul", "mul_p",
    "mulhi", "mulhi_p", "ne", "ne_p", "neg", "neg_p", "nextafter", "nextafter_p", "not_p",
    "optimization_barrier", "optimization_barrier_p", "or_p", "pad", "pad_p", "padtype_to_pads",
    "pbroadcast", "pcast", "platform_dependent", "platform_index_p", "pmax", "pmax_p", "pmean",
    "pmin", "pmin_p", "polygamma", "polygamma_p", "population_count", "population_count_p", "pow",
    "pow_p", "ppermute", "ppermute_p", "pscatter", "pshuffle", "psum", "psum_p", "psum_scatter",
    "pswapaxes", "pvary", "ragged_all_to_all", "ragged_all_to_all_p", "ragged_dot",
    "ragged_dot_general", "ragged_dot_general_p", "random_bits_p", "random_clone_p",
    "random_fold_in_p", "random_gamma_grad", "random_gamma_grad_p", "random_seed_p",
    "random_split_p", "random_unwrap_p", "random_wrap_p", "real", "real_p", "reciprocal", "reduce",
    "reduce_and", "reduce_and_p", "reduce_max", "reduce_max_p", "reduce_min", "reduce_min_p",
    "reduce_or", "reduce_or_p", "reduce_p", "reduce_precision", "reduce_precision_p", "reduce_prod",
    "reduce_prod_p", "reduce_sum", "reduce_sum_p", "reduce_window", "reduce_window_max_p",
    "reduce_window_min_p", "reduce_window_p", "reduce_window_shape_tuple", "reduce_window_sum_p",
    "reduce_xor", "reduce_xor_p", "regularized_incomplete_beta_p", "rem", "rem_p", "reshape",
    "reshape_p", "rev", "rev_p", "rng_bit_generator", "rng_bit_generator_p", "rng_uniform",
    "rng_uniform_p", "round", "round_p", "rsqrt", "rsqrt_p", "scaled_dot", "scan", "scan_p",
    "scatter", "scatter_add", "scatter_add_p", "scatter_apply", "scatter_apply_p", "scatter_max",
    "scatter_max_p", "scatter_min", "scatter_min_p", "scatter_mul", "scatter_mul_p", "scatter_p",
    "scatter_sub", "scatter_sub_p", "select", "select_and_gather_add_p", "select_and_scatter_add_p",
    "select_and_scatter_p", "select_n", "select_n_p", "shape_as_value", "sharding_constraint_p",
    "shift_left", "shift_left_p", "shift_right_arithmetic", "shift_right_arithmetic_p",
    "shift_right_logical", "shift_right_logical_p", "sign", "sign_p", "sin", "sin_p", "sinh",
    "sinh_p", "slice", "slice_in_dim", "slice_p", "sort", "sort_key_val", "sort_p", "split",
    "split_p", "sqrt", "sqrt_p", "square", "square_p", "squeeze", "squeeze_p", "stack", "stack_p",
    "stage", "stage_p", "stop_gradient", "stop_gradient_p", "sub", "sub_p", "switch", "tan",
    "tan_p", "tanh", "tanh_p", "threefry2x32_p", "tile", "tile_p", "top_k", "top_k_p", "transpose",
    "transpose_p", "unstack", "unstack_p", "while_loop", "while_p", "with_sharding_constraint",
    "xor_p", "zeta", "zeta_p",
]

face("mjax.lax")
