"""The flags and environment variables of JAX 0.10.2 that mjax ignores or refuses, with reasons.

Ignored flags accept and return every value. Refused flags accept only their default, which
describes mjax's behaviour; any other value is an error that states the reason. `docs/flags.md` is
made from this table.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Foreign(NamedTuple):
    """One flag of JAX.

    Attributes:
      name: its name, without `jax_`.
      default: its value in JAX.
      why: the reason why it is ignored, or why other values are refused.
      refused: whether they are refused.
    """

    name: str
    default: Any
    why: str
    refused: bool


def _ignored(why: str, **flags: Any) -> list[Foreign]:
    return [Foreign(name, default, why, False) for name, default in flags.items()]


def _refused(why: str, **flags: Any) -> list[Foreign]:
    return [Foreign(name, default, why, True) for name, default in flags.items()]


FOREIGN: tuple[Foreign, ...] = (
    *_ignored("for accelerators; mjax's clients are for CPUs",
              cuda_visible_devices="all", rocm_visible_devices="all",
              oneapi_visible_devices="all", mock_gpu_topology="", mock_num_gpu_processes=0,
              use_magma="auto", ragged_dot_use_gpu_pallas_triton_lowering=False,
              threefry_gpu_kernel_lowering=False, bcoo_cusparse_lowering=False,
              enable_pgle=False, pgle_aggregation_percentile=90, pgle_profiling_runs=3,
              compilation_cache_expect_pgle=False, xla_profile_version=0,
              persistent_cache_enable_xla_caches="xla_gpu_per_fusion_autotune_cache_dir",
              compiler_enable_remat_pass=True),
    *_ignored("for Pallas and Mosaic, which mjax does not have",
              mosaic_allow_hlo=False, pallas_enable_debug_checks=False,
              pallas_poison_buffers=False, pallas_use_mosaic_gpu=True,
              pallas_verbose_errors=False, use_emit_pipeline_primitive=False),
    *_ignored("for jax2tf, which mjax does not have",
              jax2tf_associative_scan_reductions=False,
              jax2tf_default_native_serialization=True),
    *_ignored("aliases of references are always refused", mutable_array_checks=True),
    *_ignored("mjax.export writes one version, which all of its readers support",
              export_calling_convention_version=10,
              export_ignore_forward_compatibility=False, serialization_version=0),
    *_ignored("chooses between JAX's implementations, whose results are the same",
              scan3=False, remat3=False, custom_vjp3=False, use_direct_linearize=True,
              refs_to_pins=False,
              use_simplified_jaxpr_constants=False, embedded_constants_max_bytes=32,
              eager_constant_folding=False, ragged_dot_use_ragged_dot_instruction=True,
              remove_custom_partitioning_ptr_from_cache_key=False,
              compiler_detailed_logging_min_ops=10),
    *_ignored("Shardy is mjax's only partitioner",
              use_shardy_partitioner=True),
    *_ignored("for transfers and topologies of JAX's own clients for several hosts",
              cross_host_transfer_socket_address="", cross_host_transfer_timeout_seconds=None,
              cross_host_transfer_transfer_size=None, cross_host_transport_addresses="",
              force_dcn_cross_host_transfers=False, share_binary_between_hosts=False,
              share_binary_between_hosts_timeout_ms=1200000,
              cpu_get_global_topology_timeout_minutes=5,
              cpu_get_local_topology_timeout_minutes=2, sort_devices_by_process_index=True,
              enable_preemption_service=True, distributed_debug=False),
    *_ignored("mjax's locations and dumps hold only file and line",
              hlo_source_file_canonicalization_regex=None, source_url_schema=None,
              include_full_tracebacks_in_locations=True, traceback_in_locations_limit=100,
              include_debug_info_in_dumps=True, tracer_error_num_traceback_frames=5),
    *_ignored("mjax does not have clear_backends and proxies",
              debug_leaked_clients_on_clear_backends=False, check_proxy_envs=True),
    *_ignored("printed programs do not have colours", pprint_use_color=True),
    *_ignored("the derivative of mjax.nn.softmax is always exact",
              softmax_custom_jvp=False),
    *_refused("key reuse is not checked yet", debug_key_reuse=False),
    *_refused("two compilations of one program differ in XLA's own metadata",
              compilation_cache_check_contents=False),
    *_refused("random.PRNGKey returns raw keys, random.key typed ones",
              enable_custom_prng=False),
    *_refused("random.gumbel has its `mode` argument", high_dynamic_range_gumbel=False),
    *_refused("results of custom_vjp rules are always checked", disable_bwd_checks=False),
    *_refused("vmap of shard_map is always checked", disable_vmap_shmap_error=False),
    *_refused("casts to varying values are always inserted, except in shard_map(check_vma=False)",
              auto_pcast=True),
    *_refused("shard_map has its `check_vma` argument", check_vma=False),
    *_refused("mesh axes of size 1 stay in types", remove_size_one_mesh_axis_from_type=False),
    *_refused("`with mesh:` is allowed", disallow_mesh_context_manager=False),
    *_refused("only debug_nans, debug_infs and callbacks raise errors inside of programs",
              error_checking_behavior_nan="ignore", error_checking_behavior_divide="ignore",
              error_checking_behavior_oob="ignore", experimental_unsafe_xla_runtime_errors=False),
    *_refused("mjax does not have this guard", array_garbage_collection_guard=None,
              thread_guard=False),
    *_refused("tracebacks are not sent to the runtime", send_traceback_to_runtime="off"),
    *_refused("pass compiler options to jit, as compiler_options, or in XLA_FLAGS",
              exec_time_optimization_effort=0.0, memory_fitting_effort=0.0,
              optimization_level="UNKNOWN", memory_fitting_level="O2",
              disable_most_optimizations=False),
    *_refused("collectives between CPU processes use gloo",
              cpu_collectives_implementation="gloo"),
    *_refused("a lost process ends the program; mjax.experimental.checkpoint saves its state",
              enable_recoverability=False),
    *_refused("only the flag `platforms` selects platforms", xla_backend="", backend_target="",
              pjrt_client_create_options=None),
    *_refused("configure Python's logger \"mjax\" instead",
              logging_level="NOTSET", debug_log_modules=""),
    *_refused("jit(f).lower(...).as_text() returns programs", dump_ir_to="",
              dump_ir_modes="stablehlo"),
)

#: Environment variables of JAX without a flag -> their treatment.
VARIABLES: dict[str, str] = {
    "JAX_COORDINATOR_ADDRESS": "honoured by mjax.distributed.initialize",
    "JAX_COORDINATOR_BIND_ADDRESS": "honoured by mjax.distributed.initialize",
    "JAX_LOCAL_DEVICE_IDS": "honoured by mjax.distributed.initialize",
    "JAX_NUM_PROCESSES": "honoured by mjax.distributed.initialize",
    "JAX_PROCESS_ID": "honoured by mjax.distributed.initialize",
    "XLA_FLAGS": "honoured: XLA reads it",
    "TF_CPP_MIN_LOG_LEVEL": "honoured: jaxlib reads it",
    "JAX_COORDINATOR_PORT": "ignored: JAX's name for a port from Kubernetes",
    "JAX_PARTITION_INDEX": "ignored: devices of one process are in one slice",
    "JAX_SLICE_INDEX": "ignored: devices of one process are in one slice",
    "PJRT_NAMES_AND_LIBRARY_PATHS": "ignored: plugins are not loaded",
    "TPU_LIBRARY_PATH": "ignored: for accelerators",
    "LIBTPU_INIT_ARGS": "ignored: for accelerators",
    "CUDA_ROOT": "ignored: for accelerators",
}
