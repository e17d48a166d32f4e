"""mjax: composable transformations of numerical Python functions, on jaxlib alone.

Code written for `jax` runs when its imports are changed. Submodules (`mjax.numpy`,
`mjax.lax`, `mjax.random`, ...) and the functions of `_rare` load when they are first used.
"""
# ruff: noqa: F403, F405  (star import of `_rare`)

from __future__ import annotations

from typing import TYPE_CHECKING

# First: `python -m mjax` reports what stands in the way of the imports below.
from mjax import _command  # noqa: F401
from mjax._engine.base.config import (
    allow_f16_reductions,
    check_tracer_leaks,
    checking_leaks,
    config,
    debug_infs,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_x64,
    explain_cache_misses,
    legacy_prng_key,
    log_compiles,
    no_execution,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from mjax._engine.base.faces import face
from mjax._engine.base.version import __version__, __version_info__
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.mesh import PartitionSpec as P
from mjax._engine.ir.types import typeof

# Checks the flag `default_prng_impl`.
from mjax._engine.primitives import keys as _keys  # noqa: F401
from mjax._engine.runtime.arrays.array import Array, Shard
from mjax._engine.runtime.arrays.device_put import device_put
from mjax._engine.runtime.arrays.devices import (
    Device,
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from mjax._engine.runtime.arrays.meshes import make_mesh, set_mesh
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._engine.runtime.arrays.transfer import (
    block_until_ready,
    copy_to_host_async,
    device_get,
    live_arrays,
)
from mjax._engine.runtime.dispatch.jit import ensure_compile_time_eval, eval_shape, jit
from mjax._engine.runtime.dispatch.jit_cache import clear_caches
from mjax._engine.runtime.dispatch.make_jaxpr import make_jaxpr
from mjax._engine.runtime.effects.tokens import effects_barrier
from mjax._engine.tracing.reference import Ref
from mjax._engine.tracing.scopes import named_call, named_scope
from mjax._engine.transforms.forward import jvp, linearize
from mjax._engine.transforms.reverse import grad, linear_transpose, value_and_grad, vjp
from mjax._engine.transforms.vmap import vmap

# Gives arrays and tracers their operators and methods.
from mjax._numpy import methods as _methods  # noqa: F401

if TYPE_CHECKING:
    from mjax import (
        ad_checkpoint,
        alias,
        api_util,
        custom_batching,
        custom_derivatives,
        debug,
        distributed,
        dlpack,
        dtypes,
        errors,
        example_libraries,
        experimental,
        export,
        ffi,
        flatten_util,
        image,
        lax,
        memory,
        monitoring,
        nn,
        numpy,
        ops,
        profiler,
        random,
        ref,
        scipy,
        sharding,
        stages,
        test_util,
        tree,
        tree_util,
        typing,
        version,
    )
    from mjax._engine.spmd.pmap import pmap
    from mjax._engine.spmd.shard_map import shard_map
    from mjax._engine.spmd.smap import smap
    from mjax._rare import *
    from mjax._tools.environment import print_environment_info

#: Name -> the module that it is loaded from when it is first used.
_LATER = {
    "pmap": "mjax._engine.spmd.pmap", "print_environment_info": "mjax._tools.environment",
    "shard_map": "mjax._engine.spmd.shard_map", "smap": "mjax._engine.spmd.smap",
}

__all__ = [
    "Array", "Device", "NamedSharding", "P", "Ref", "ShapeDtypeStruct", "Shard", "__version__",
    "__version_info__", "allow_f16_reductions", "block_until_ready", "check_tracer_leaks",
    "checking_leaks", "checkpoint", "checkpoint_policies", "clear_caches", "closure_convert",
    "config", "copy_to_host_async", "custom_gradient", "custom_jvp", "custom_vjp", "debug_infs",
    "debug_nans", "default_backend", "default_device", "default_matmul_precision",
    "default_prng_impl", "device_count", "device_get", "device_put", "devices", "disable_jit",
    "effects_barrier", "empty_ref", "enable_checks", "enable_x64", "ensure_compile_time_eval",
    "eval_shape", "explain_cache_misses", "float0", "free_ref", "freeze", "grad", "hessian",
    "jacfwd", "jacobian", "jacrev", "jit", "jvp", "legacy_prng_key", "linear_transpose",
    "linearize", "live_arrays", "local_device_count", "local_devices", "log_compiles",
    "make_array_from_callback", "make_array_from_process_local_data",
    "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh", "make_user_context",
    "named_call", "named_scope", "new_ref", "no_execution", "no_tracing", "numpy_dtype_promotion",
    "numpy_rank_promotion", "process_count", "process_index", "process_indices", "pure_callback",
    "remat", "set_mesh", "threefry_partitionable", "transfer_guard",
    "transfer_guard_device_to_device", "transfer_guard_device_to_host",
    "transfer_guard_host_to_device", "typeof", "value_and_grad", "vjp", "vmap", "pmap",
    "print_environment_info", "shard_map", "smap",
    "ad_checkpoint", "alias", "api_util", "custom_batching", "custom_derivatives", "debug",
    "distributed", "dlpack", "dtypes", "errors", "example_libraries", "experimental", "export",
    "ffi", "flatten_util", "image", "lax", "memory", "monitoring", "nn", "numpy", "ops",
    "profiler", "random", "ref", "scipy", "sharding", "stages", "test_util", "tree", "tree_util",
    "typing", "version",
]


face("mjax", later=_LATER, rest=("mjax._rare",), absent="mjax._engine.base.absent")
