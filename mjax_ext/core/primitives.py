"""Every primitive of mjax, under JAX's name if JAX has it.

A test compares the list with the registry of primitives.
"""

from mjax._checkify.check import check_p
from mjax._engine.base.faces import face
from mjax._engine.control.branches.cond import cond_p, platform_index_p
from mjax._engine.control.callback_primitives import (
    debug_callback_p,
    io_callback_p,
    pure_callback_p,
)
from mjax._engine.control.calls.call_primitive import call_p
from mjax._engine.control.calls.closed_call import closed_call_p
from mjax._engine.control.calls.composite import composite_p
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.control.custom.custom_jvp import custom_jvp_call_p
from mjax._engine.control.custom.custom_lin import custom_lin_p
from mjax._engine.control.custom.custom_linear_solve import linear_solve_p
from mjax._engine.control.custom.custom_vjp import custom_vjp_call_p
from mjax._engine.control.custom.custom_vmap import custom_vmap_call_p
from mjax._engine.control.custom.linear_call import linear_call_p
from mjax._engine.control.foreign_calls import ffi_call_p
from mjax._engine.control.inspection import inspect_sharding_p
from mjax._engine.control.loops.scan import scan_p
from mjax._engine.control.loops.while_loop import while_p
from mjax._engine.control.reduce import reduce_p, reduce_window_p, select_and_scatter_p
from mjax._engine.control.references.primitives import (
    addupdate_p,
    free_ref_p,
    freeze_p,
    get_p,
    new_ref_p,
    swap_p,
)
from mjax._engine.control.remat.remat import remat_p
from mjax._engine.control.remat.remat_opt import remat_opt_p
from mjax._engine.linalg.cholesky import cholesky_p, cholesky_update_p
from mjax._engine.linalg.eig import eig_p
from mjax._engine.linalg.eigh import eigh_p
from mjax._engine.linalg.lapack import lapack_p, xla_kernel_p
from mjax._engine.linalg.lu import lu_p, lu_pivots_to_permutation_p
from mjax._engine.linalg.qr import qr_p
from mjax._engine.linalg.reflectors import (
    geqp3_p,
    geqrf_p,
    householder_product_p,
    ormqr_p,
)
from mjax._engine.linalg.schur import (
    hessenberg_p,
    schur_p,
    tridiagonal_p,
)
from mjax._engine.linalg.svd import svd_p
from mjax._engine.linalg.symmetric_product import symmetric_product_p
from mjax._engine.linalg.triangular import triangular_solve_p
from mjax._engine.linalg.tridiagonal_solve import tridiagonal_solve_p
from mjax._engine.primitives.annotating import xla_metadata_value_p
from mjax._engine.primitives.approximate import approx_top_k_p
from mjax._engine.primitives.arithmetic import (
    abs_p,
    add_p,
    and_p,
    cbrt_p,
    ceil_p,
    clz_p,
    complex_p,
    conj_p,
    div_p,
    eq_p,
    eq_to_p,
    exp2_p,
    exp_p,
    expm1_p,
    floor_p,
    ge_p,
    gt_p,
    imag_p,
    integer_pow_p,
    is_finite_p,
    le_p,
    le_to_p,
    log1p_p,
    log_p,
    logistic_p,
    lt_p,
    lt_to_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    neg_p,
    nextafter_p,
    not_p,
    or_p,
    population_count_p,
    pow_p,
    real_p,
    rem_p,
    round_p,
    rsqrt_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    sign_p,
    sqrt_p,
    square_p,
    sub_p,
    xor_p,
)
from mjax._engine.primitives.barrier import optimization_barrier_p
from mjax._engine.primitives.clamp import clamp_p
from mjax._engine.primitives.convert import (
    bitcast_convert_type_p,
    convert_element_type_p,
    reduce_precision_p,
)
from mjax._engine.primitives.convolution import conv_general_dilated_p
from mjax._engine.primitives.counter_generators import philox2x32_p, philox4x32_p, threefry4x32_p
from mjax._engine.primitives.cumulative import (
    cumlogsumexp_p,
    cummax_p,
    cummin_p,
    cumprod_p,
    cumsum_p,
    cumulative_loop_p,
    linear_recurrence_p,
)
from mjax._engine.primitives.dot import dot_general_p
from mjax._engine.primitives.dynamic_slicing import dynamic_slice_p, dynamic_update_slice_p
from mjax._engine.primitives.fft import fft_p
from mjax._engine.primitives.gather import gather_p
from mjax._engine.primitives.iota import iota_p
from mjax._engine.primitives.joining import (
    concatenate_p,
    split_p,
    stack_p,
    tile_p,
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
from mjax._engine.primitives.lifting import stage_p
from mjax._engine.primitives.mulhi import mulhi_p
from mjax._engine.primitives.names import name_p
from mjax._engine.primitives.ragged import ragged_dot_general_p
from mjax._engine.primitives.reductions import (
    argmax_p,
    argmin_p,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_xor_p,
)
from mjax._engine.primitives.rev import rev_p
from mjax._engine.primitives.rng import rng_bit_generator_p, rng_uniform_p
from mjax._engine.primitives.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from mjax._engine.primitives.scatter_apply import scatter_apply_p
from mjax._engine.primitives.select import select_n_p
from mjax._engine.primitives.sequencing import after_all_p, create_token_p, dce_sink_p
from mjax._engine.primitives.shapes import (
    broadcast_in_dim_p,
    copy_p,
    reduce_sum_p,
    reshape_p,
    squeeze_p,
    transpose_p,
)
from mjax._engine.primitives.slicing import pad_p, slice_p
from mjax._engine.primitives.sort import sort_p, top_k_p
from mjax._engine.primitives.special import (
    bessel_i0e_p,
    bessel_i1e_p,
    digamma_p,
    erf_inv_p,
    erf_p,
    erfc_p,
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    lgamma_p,
    polygamma_p,
    random_gamma_grad_p,
    regularized_incomplete_beta_p,
    zeta_p,
)
from mjax._engine.primitives.tangents import add_any_p as add_jaxvals_p
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.primitives.threefry import iota_2x32_shape_p, threefry2x32_p
from mjax._engine.primitives.trigonometric import (
    acos_p,
    acosh_p,
    asin_p,
    asinh_p,
    atan2_p,
    atan_p,
    atanh_p,
    cos_p,
    cosh_p,
    sin_p,
    sinh_p,
    tan_p,
    tanh_p,
)
from mjax._engine.primitives.windows import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from mjax._engine.runtime.arrays.constraints import sharding_constraint_p
from mjax._engine.runtime.arrays.device_put import device_put_p
from mjax._engine.runtime.arrays.layout_constraints import layout_constraint_p
from mjax._engine.spmd.custom_partitioning import custom_partitioning_p
from mjax._engine.spmd.exchanges import all_to_all_p, pbroadcast_p, ppermute_p
from mjax._engine.spmd.gathers import (
    all_gather_invariant_p,
    all_gather_p,
    pscatter_p,
    reduce_scatter_p,
)
from mjax._engine.spmd.ragged import ragged_all_to_all_p
from mjax._engine.spmd.reductions import (
    axis_index_p,
    pmax_invariant_p,
    pmax_p,
    pmin_invariant_p,
    pmin_p,
    psum_invariant_p,
    psum_p,
)
from mjax._engine.spmd.shard_map_rules import shard_map_p  # with its rules
from mjax._engine.tracing.user_types import pack_p, unpack_p
from mjax._engine.tracing.variance import pvary_p
from mjax._export.calling import call_exported_p
from mjax._hijax.applications import call_hi_primitive_p
from mjax._hijax.applications import linearized_p as call_hi_primitive_linearized_p
from mjax._numpy.random.gamma import random_gamma_p
from mjax_ext.core._examples import declare

__all__ = [
    "abs_p", "acos_p", "acosh_p", "add_jaxvals_p", "add_p", "addupdate_p", "after_all_p",
    "all_gather_invariant_p", "all_gather_p", "all_to_all_p", "and_p", "approx_top_k_p",
    "argmax_p", "argmin_p", "asin_p", "asinh_p", "atan2_p", "atan_p", "atanh_p", "axis_index_p",
    "bessel_i0e_p", "bessel_i1e_p", "bitcast_convert_type_p", "broadcast_in_dim_p",
    "call_exported_p", "call_hi_primitive_linearized_p", "call_hi_primitive_p", "call_p",
    "cbrt_p", "ceil_p", "check_p", "cholesky_p", "cholesky_update_p", "clamp_p",
    "closed_call_p", "clz_p", "complex_p", "composite_p", "concatenate_p", "cond_p", "conj_p",
    "conv_general_dilated_p", "convert_element_type_p", "copy_p", "cos_p", "cosh_p",
    "create_token_p", "cumlogsumexp_p", "cummax_p", "cummin_p", "cumprod_p", "cumsum_p",
    "cumulative_loop_p", "custom_jvp_call_p", "custom_lin_p", "custom_partitioning_p",
    "custom_vjp_call_p", "custom_vmap_call_p", "dce_sink_p", "debug_callback_p", "device_put_p",
    "digamma_p", "div_p", "dot_general_p", "dynamic_slice_p", "dynamic_update_slice_p", "eig_p",
    "eigh_p", "eq_p", "eq_to_p", "erf_inv_p", "erf_p", "erfc_p", "exp2_p", "exp_p", "expm1_p",
    "ffi_call_p", "fft_p", "floor_p", "free_ref_p", "freeze_p", "gather_p", "ge_p", "geqp3_p",
    "geqrf_p", "get_p", "gt_p", "hessenberg_p", "householder_product_p", "igamma_grad_a_p",
    "igamma_p", "igammac_p", "imag_p", "inspect_sharding_p", "integer_pow_p", "io_callback_p",
    "iota_2x32_shape_p", "iota_p", "is_finite_p", "jit_p", "lapack_p", "layout_constraint_p",
    "le_p", "le_to_p", "lgamma_p", "linear_call_p", "linear_recurrence_p", "linear_solve_p",
    "log1p_p", "log_p", "logistic_p", "lt_p", "lt_to_p", "lu_p", "lu_pivots_to_permutation_p",
    "max_p", "min_p", "mul_p", "mulhi_p", "name_p", "ne_p", "neg_p", "new_ref_p", "nextafter_p",
    "not_p", "optimization_barrier_p", "or_p", "ormqr_p", "pack_p", "pad_p", "pbroadcast_p",
    "philox2x32_p", "philox4x32_p", "platform_index_p", "pmax_invariant_p", "pmax_p",
    "pmin_invariant_p", "pmin_p", "polygamma_p", "population_count_p", "pow_p", "ppermute_p",
    "pscatter_p", "psum_invariant_p", "psum_p", "pure_callback_p", "pvary_p", "qr_p",
    "ragged_all_to_all_p", "ragged_dot_general_p", "random_bits_p", "random_clone_p",
    "random_fold_in_p", "random_gamma_grad_p", "random_gamma_p", "random_seed_p",
    "random_split_p", "random_unwrap_p", "random_wrap_p", "real_p", "reduce_and_p",
    "reduce_max_p", "reduce_min_p", "reduce_or_p", "reduce_p", "reduce_precision_p",
    "reduce_prod_p", "reduce_scatter_p", "reduce_sum_p", "reduce_window_max_p",
    "reduce_window_min_p", "reduce_window_p", "reduce_window_sum_p", "reduce_xor_p",
    "regularized_incomplete_beta_p", "rem_p", "remat_opt_p", "remat_p", "reshape_p", "rev_p",
    "rng_bit_generator_p", "rng_uniform_p", "round_p", "rsqrt_p", "scan_p", "scatter_add_p",
    "scatter_apply_p", "scatter_max_p", "scatter_min_p", "scatter_mul_p", "scatter_p",
    "scatter_sub_p", "schur_p", "select_and_gather_add_p", "select_and_scatter_add_p",
    "select_and_scatter_p", "select_n_p", "shard_map_p", "sharding_constraint_p",
    "shift_left_p", "shift_right_arithmetic_p", "shift_right_logical_p", "sign_p", "sin_p",
    "sinh_p", "slice_p", "sort_p", "split_p", "sqrt_p", "square_p", "squeeze_p", "stack_p",
    "stage_p", "stop_gradient_p", "sub_p", "svd_p", "swap_p", "symmetric_product_p", "tan_p",
    "tanh_p", "threefry2x32_p", "threefry4x32_p", "tile_p", "top_k_p", "transpose_p",
    "triangular_solve_p", "tridiagonal_p", "tridiagonal_solve_p", "unpack_p", "unstack_p",
    "while_p", "xla_kernel_p", "xla_metadata_value_p", "xor_p", "zeta_p",
]

declare(globals()[name] for name in __all__)
face("mjax_ext.core.primitives")
