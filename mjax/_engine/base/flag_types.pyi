"""The flags of `mjax.config`, for type checkers; `python -m docs.flags` writes this file."""

import os
from typing import Any, Literal, TypeAlias

FlagName: TypeAlias = Literal[
    "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast", "backend_target",
    "bcoo_cusparse_lowering", "captured_constants_report_frames", "captured_constants_warn_bytes",
    "check_proxy_envs", "check_static_indices", "check_tracer_leaks", "check_vma",
    "compilation_cache_check_contents", "compilation_cache_dir", "compilation_cache_expect_pgle",
    "compilation_cache_include_metadata_in_key", "compilation_cache_max_size",
    "compiler_detailed_logging_min_ops", "compiler_enable_remat_pass",
    "cpu_collectives_implementation", "cpu_enable_async_dispatch",
    "cpu_get_global_topology_timeout_minutes", "cpu_get_local_topology_timeout_minutes",
    "cross_host_transfer_socket_address", "cross_host_transfer_timeout_seconds",
    "cross_host_transfer_transfer_size", "cross_host_transport_addresses", "cuda_visible_devices",
    "custom_vjp3", "debug_infs", "debug_key_reuse", "debug_leaked_clients_on_clear_backends",
    "debug_log_modules", "debug_nans", "default_device", "default_matmul_precision",
    "default_prng_impl", "disable_bwd_checks", "disable_jit", "disable_most_optimizations",
    "disable_vmap_shmap_error", "disallow_mesh_context_manager", "distributed_debug",
    "dump_ir_modes", "dump_ir_to", "eager_constant_folding", "embedded_constants_max_bytes",
    "enable_checks", "enable_compilation_cache", "enable_custom_prng", "enable_pgle",
    "enable_preemption_service", "enable_recoverability", "enable_x64",
    "error_checking_behavior_divide", "error_checking_behavior_nan", "error_checking_behavior_oob",
    "exec_time_optimization_effort", "experimental_unsafe_xla_runtime_errors",
    "explain_cache_misses", "explicit_x64_dtypes", "export_calling_convention_version",
    "export_ignore_forward_compatibility", "force_dcn_cross_host_transfers",
    "high_dynamic_range_gumbel", "hlo_source_file_canonicalization_regex",
    "include_debug_info_in_dumps", "include_full_tracebacks_in_locations",
    "jax2tf_associative_scan_reductions", "jax2tf_default_native_serialization", "legacy_prng_key",
    "log_checkpoint_residuals", "log_compiles", "logging_level", "memory_fitting_effort",
    "memory_fitting_level", "mock_gpu_topology", "mock_num_gpu_processes", "mosaic_allow_hlo",
    "mutable_array_checks", "no_execution", "no_tracing", "num_cpu_devices",
    "numpy_dtype_promotion", "numpy_rank_promotion", "oneapi_visible_devices",
    "optimization_level", "pallas_enable_debug_checks", "pallas_poison_buffers",
    "pallas_use_mosaic_gpu", "pallas_verbose_errors", "persistent_cache_enable_xla_caches",
    "persistent_cache_min_compile_time_secs", "persistent_cache_min_entry_size_bytes",
    "pgle_aggregation_percentile", "pgle_profiling_runs", "pjrt_client_create_options",
    "platform_name", "platforms", "pprint_use_color", "ragged_dot_use_gpu_pallas_triton_lowering",
    "ragged_dot_use_ragged_dot_instruction", "raise_persistent_cache_errors", "random_seed_offset",
    "refs_to_pins", "remat3", "remove_custom_partitioning_ptr_from_cache_key",
    "remove_size_one_mesh_axis_from_type", "rocm_visible_devices", "scan3",
    "send_traceback_to_runtime", "serialization_version", "share_binary_between_hosts",
    "share_binary_between_hosts_timeout_ms", "softmax_custom_jvp", "sort_devices_by_process_index",
    "source_url_schema", "thread_guard", "threefry_gpu_kernel_lowering", "threefry_partitionable",
    "traceback_filtering", "traceback_in_locations_limit", "tracer_error_num_traceback_frames",
    "transfer_guard", "transfer_guard_device_to_device", "transfer_guard_device_to_host",
    "transfer_guard_host_to_device", "use_direct_linearize", "use_emit_pipeline_primitive",
    "use_magma", "use_shardy_partitioner", "use_simplified_jaxpr_constants", "xla_backend",
    "xla_profile_version", "jax_allow_f16_reductions", "jax_array_garbage_collection_guard",
    "jax_auto_pcast", "jax_backend_target", "jax_bcoo_cusparse_lowering",
    "jax_captured_constants_report_frames", "jax_captured_constants_warn_bytes",
    "jax_check_proxy_envs", "jax_check_static_indices", "jax_check_tracer_leaks", "jax_check_vma",
    "jax_compilation_cache_check_contents", "jax_compilation_cache_dir",
    "jax_compilation_cache_expect_pgle", "jax_compilation_cache_include_metadata_in_key",
    "jax_compilation_cache_max_size", "jax_compiler_detailed_logging_min_ops",
    "jax_compiler_enable_remat_pass", "jax_cpu_collectives_implementation",
    "jax_cpu_enable_async_dispatch", "jax_cpu_get_global_topology_timeout_minutes",
    "jax_cpu_get_local_topology_timeout_minutes", "jax_cross_host_transfer_socket_address",
    "jax_cross_host_transfer_timeout_seconds", "jax_cross_host_transfer_transfer_size",
    "jax_cross_host_transport_addresses", "jax_cuda_visible_devices", "jax_custom_vjp3",
    "jax_debug_infs", "jax_debug_key_reuse", "jax_debug_leaked_clients_on_clear_backends",
    "jax_debug_log_modules", "jax_debug_nans", "jax_default_device",
    "jax_default_matmul_precision", "jax_default_prng_impl", "jax_disable_bwd_checks",
    "jax_disable_jit", "jax_disable_most_optimizations", "jax_disable_vmap_shmap_error",
    "jax_disallow_mesh_context_manager", "jax_distributed_debug", "jax_dump_ir_modes",
    "jax_dump_ir_to", "jax_eager_constant_folding", "jax_embedded_constants_max_bytes",
    "jax_enable_checks", "jax_enable_compilation_cache", "jax_enable_custom_prng",
    "jax_enable_pgle", "jax_enable_preemption_service", "jax_enable_recoverability",
    "jax_enable_x64", "jax_error_checking_behavior_divide", "jax_error_checking_behavior_nan",
    "jax_error_checking_behavior_oob", "jax_exec_time_optimization_effort",
    "jax_experimental_unsafe_xla_runtime_errors", "jax_explain_cache_misses",
    "jax_explicit_x64_dtypes", "jax_export_calling_convention_version",
    "jax_export_ignore_forward_compatibility", "jax_force_dcn_cross_host_transfers",
    "jax_high_dynamic_range_gumbel", "jax_hlo_source_file_canonicalization_regex",
    "jax_include_debug_info_in_dumps", "jax_include_full_tracebacks_in_locations",
    "jax_jax2tf_associative_scan_reductions", "jax_jax2tf_default_native_serialization",
    "jax_legacy_prng_key", "jax_log_checkpoint_residuals", "jax_log_compiles", "jax_logging_level",
    "jax_memory_fitting_effort", "jax_memory_fitting_level", "jax_mock_gpu_topology",
    "jax_mock_num_gpu_processes", "jax_mosaic_allow_hlo", "jax_mutable_array_checks",
    "jax_no_execution", "jax_no_tracing", "jax_num_cpu_devices", "jax_numpy_dtype_promotion",
    "jax_numpy_rank_promotion", "jax_oneapi_visible_devices", "jax_optimization_level",
    "jax_pallas_enable_debug_checks", "jax_pallas_poison_buffers", "jax_pallas_use_mosaic_gpu",
    "jax_pallas_verbose_errors", "jax_persistent_cache_enable_xla_caches",
    "jax_persistent_cache_min_compile_time_secs", "jax_persistent_cache_min_entry_size_bytes",
    "jax_pgle_aggregation_percentile", "jax_pgle_profiling_runs", "jax_pjrt_client_create_options",
    "jax_platform_name", "jax_platforms", "jax_pprint_use_color",
    "jax_ragged_dot_use_gpu_pallas_triton_lowering", "jax_ragged_dot_use_ragged_dot_instruction",
    "jax_raise_persistent_cache_errors", "jax_random_seed_offset", "jax_refs_to_pins",
    "jax_remat3", "jax_remove_custom_partitioning_ptr_from_cache_key",
    "jax_remove_size_one_mesh_axis_from_type", "jax_rocm_visible_devices", "jax_scan3",
    "jax_send_traceback_to_runtime", "jax_serialization_version", "jax_share_binary_between_hosts",
    "jax_share_binary_between_hosts_timeout_ms", "jax_softmax_custom_jvp",
    "jax_sort_devices_by_process_index", "jax_source_url_schema", "jax_thread_guard",
    "jax_threefry_gpu_kernel_lowering", "jax_threefry_partitionable", "jax_traceback_filtering",
    "jax_traceback_in_locations_limit", "jax_tracer_error_num_traceback_frames",
    "jax_transfer_guard", "jax_transfer_guard_device_to_device",
    "jax_transfer_guard_device_to_host", "jax_transfer_guard_host_to_device",
    "jax_use_direct_linearize", "jax_use_emit_pipeline_primitive", "jax_use_magma",
    "jax_use_shardy_partitioner", "jax_use_simplified_jaxpr_constants", "jax_xla_backend",
    "jax_xla_profile_version"
]

class Flags:
    """`mjax._engine.base.config.Config`, with each flag under its two names."""

    def update(self, name: FlagName, value: Any) -> None: ...
    def read(self, name: FlagName) -> Any: ...
    @property
    def values(self) -> dict[str, Any]: ...
    allow_f16_reductions: bool
    array_garbage_collection_guard: Any
    auto_pcast: bool
    backend_target: Any
    bcoo_cusparse_lowering: bool
    captured_constants_report_frames: int
    captured_constants_warn_bytes: int
    check_proxy_envs: bool
    check_static_indices: bool
    check_tracer_leaks: bool
    check_vma: bool
    compilation_cache_check_contents: bool
    compilation_cache_dir: str | os.PathLike[str] | None
    compilation_cache_expect_pgle: bool
    compilation_cache_include_metadata_in_key: bool
    compilation_cache_max_size: int
    compiler_detailed_logging_min_ops: Any
    compiler_enable_remat_pass: bool
    cpu_collectives_implementation: Any
    cpu_enable_async_dispatch: bool
    cpu_get_global_topology_timeout_minutes: Any
    cpu_get_local_topology_timeout_minutes: Any
    cross_host_transfer_socket_address: Any
    cross_host_transfer_timeout_seconds: Any
    cross_host_transfer_transfer_size: Any
    cross_host_transport_addresses: Any
    cuda_visible_devices: Any
    custom_vjp3: bool
    debug_infs: bool
    debug_key_reuse: bool
    debug_leaked_clients_on_clear_backends: bool
    debug_log_modules: Any
    debug_nans: bool
    default_device: Any
    default_matmul_precision: str | None
    default_prng_impl: Any
    disable_bwd_checks: bool
    disable_jit: bool
    disable_most_optimizations: bool
    disable_vmap_shmap_error: bool
    disallow_mesh_context_manager: bool
    distributed_debug: bool
    dump_ir_modes: Any
    dump_ir_to: Any
    eager_constant_folding: bool
    embedded_constants_max_bytes: Any
    enable_checks: bool
    enable_compilation_cache: bool
    enable_custom_prng: bool
    enable_pgle: bool
    enable_preemption_service: bool
    enable_recoverability: bool
    enable_x64: bool
    error_checking_behavior_divide: Any
    error_checking_behavior_nan: Any
    error_checking_behavior_oob: Any
    exec_time_optimization_effort: Any
    experimental_unsafe_xla_runtime_errors: bool
    explain_cache_misses: bool
    explicit_x64_dtypes: str
    export_calling_convention_version: Any
    export_ignore_forward_compatibility: bool
    force_dcn_cross_host_transfers: bool
    high_dynamic_range_gumbel: bool
    hlo_source_file_canonicalization_regex: Any
    include_debug_info_in_dumps: bool
    include_full_tracebacks_in_locations: bool
    jax2tf_associative_scan_reductions: bool
    jax2tf_default_native_serialization: bool
    legacy_prng_key: str
    log_checkpoint_residuals: bool
    log_compiles: bool
    logging_level: Any
    memory_fitting_effort: Any
    memory_fitting_level: Any
    mock_gpu_topology: Any
    mock_num_gpu_processes: Any
    mosaic_allow_hlo: bool
    mutable_array_checks: bool
    no_execution: bool
    no_tracing: bool
    num_cpu_devices: int
    numpy_dtype_promotion: str
    numpy_rank_promotion: str
    oneapi_visible_devices: Any
    optimization_level: Any
    pallas_enable_debug_checks: bool
    pallas_poison_buffers: bool
    pallas_use_mosaic_gpu: bool
    pallas_verbose_errors: bool
    persistent_cache_enable_xla_caches: Any
    persistent_cache_min_compile_time_secs: float
    persistent_cache_min_entry_size_bytes: int
    pgle_aggregation_percentile: Any
    pgle_profiling_runs: Any
    pjrt_client_create_options: Any
    platform_name: str | None
    platforms: str | None
    pprint_use_color: bool
    ragged_dot_use_gpu_pallas_triton_lowering: bool
    ragged_dot_use_ragged_dot_instruction: bool
    raise_persistent_cache_errors: bool
    random_seed_offset: int
    refs_to_pins: bool
    remat3: bool
    remove_custom_partitioning_ptr_from_cache_key: bool
    remove_size_one_mesh_axis_from_type: bool
    rocm_visible_devices: Any
    scan3: bool
    send_traceback_to_runtime: Any
    serialization_version: Any
    share_binary_between_hosts: bool
    share_binary_between_hosts_timeout_ms: Any
    softmax_custom_jvp: bool
    sort_devices_by_process_index: bool
    source_url_schema: Any
    thread_guard: bool
    threefry_gpu_kernel_lowering: bool
    threefry_partitionable: bool
    traceback_filtering: str
    traceback_in_locations_limit: Any
    tracer_error_num_traceback_frames: Any
    transfer_guard: str | None
    transfer_guard_device_to_device: str | None
    transfer_guard_device_to_host: str | None
    transfer_guard_host_to_device: str | None
    use_direct_linearize: bool
    use_emit_pipeline_primitive: bool
    use_magma: Any
    use_shardy_partitioner: bool
    use_simplified_jaxpr_constants: bool
    xla_backend: Any
    xla_profile_version: Any
    jax_allow_f16_reductions: bool
    jax_array_garbage_collection_guard: Any
    jax_auto_pcast: bool
    jax_backend_target: Any
    jax_bcoo_cusparse_lowering: bool
    jax_captured_constants_report_frames: int
    jax_captured_constants_warn_bytes: int
    jax_check_proxy_envs: bool
    jax_check_static_indices: bool
    jax_check_tracer_leaks: bool
    jax_check_vma: bool
    jax_compilation_cache_check_contents: bool
    jax_compilation_cache_dir: str | os.PathLike[str] | None
    jax_compilation_cache_expect_pgle: bool
    jax_compilation_cache_include_metadata_in_key: bool
    jax_compilation_cache_max_size: int
    jax_compiler_detailed_logging_min_ops: Any
    jax_compiler_enable_remat_pass: bool
    jax_cpu_collectives_implementation: Any
    jax_cpu_enable_async_dispatch: bool
    jax_cpu_get_global_topology_timeout_minutes: Any
    jax_cpu_get_local_topology_timeout_minutes: Any
    jax_cross_host_transfer_socket_address: Any
    jax_cross_host_transfer_timeout_seconds: Any
    jax_cross_host_transfer_transfer_size: Any
    jax_cross_host_transport_addresses: Any
    jax_cuda_visible_devices: Any
    jax_custom_vjp3: bool
    jax_debug_infs: bool
    jax_debug_key_reuse: bool
    jax_debug_leaked_clients_on_clear_backends: bool
    jax_debug_log_modules: Any
    jax_debug_nans: bool
    jax_default_device: Any
    jax_default_matmul_precision: str | None
    jax_default_prng_impl: Any
    jax_disable_bwd_checks: bool
    jax_disable_jit: bool
    jax_disable_most_optimizations: bool
    jax_disable_vmap_shmap_error: bool
    jax_disallow_mesh_context_manager: bool
    jax_distributed_debug: bool
    jax_dump_ir_modes: Any
    jax_dump_ir_to: Any
    jax_eager_constant_folding: bool
    jax_embedded_constants_max_bytes: Any
    jax_enable_checks: bool
    jax_enable_compilation_cache: bool
    jax_enable_custom_prng: bool
    jax_enable_pgle: bool
    jax_enable_preemption_service: bool
    jax_enable_recoverability: bool
    jax_enable_x64: bool
    jax_error_checking_behavior_divide: Any
    jax_error_checking_behavior_nan: Any
    jax_error_checking_behavior_oob: Any
    jax_exec_time_optimization_effort: Any
    jax_experimental_unsafe_xla_runtime_errors: bool
    jax_explain_cache_misses: bool
    jax_explicit_x64_dtypes: str
    jax_export_calling_convention_version: Any
    jax_export_ignore_forward_compatibility: bool
    jax_force_dcn_cross_host_transfers: bool
    jax_high_dynamic_range_gumbel: bool
    jax_hlo_source_file_canonicalization_regex: Any
    jax_include_debug_info_in_dumps: bool
    jax_include_full_tracebacks_in_locations: bool
    jax_jax2tf_associative_scan_reductions: bool
    jax_jax2tf_default_native_serialization: bool
    jax_legacy_prng_key: str
    jax_log_checkpoint_residuals: bool
    jax_log_compiles: bool
    jax_logging_level: Any
    jax_memory_fitting_effort: Any
    jax_memory_fitting_level: Any
    jax_mock_gpu_topology: Any
    jax_mock_num_gpu_processes: Any
    jax_mosaic_allow_hlo: bool
    jax_mutable_array_checks: bool
    jax_no_execution: bool
    jax_no_tracing: bool
    jax_num_cpu_devices: int
    jax_numpy_dtype_promotion: str
    jax_numpy_rank_promotion: str
    jax_oneapi_visible_devices: Any
    jax_optimization_level: Any
    jax_pallas_enable_debug_checks: bool
    jax_pallas_poison_buffers: bool
    jax_pallas_use_mosaic_gpu: bool
    jax_pallas_verbose_errors: bool
    jax_persistent_cache_enable_xla_caches: Any
    jax_persistent_cache_min_compile_time_secs: float
    jax_persistent_cache_min_entry_size_bytes: int
    jax_pgle_aggregation_percentile: Any
    jax_pgle_profiling_runs: Any
    jax_pjrt_client_create_options: Any
    jax_platform_name: str | None
    jax_platforms: str | None
    jax_pprint_use_color: bool
    jax_ragged_dot_use_gpu_pallas_triton_lowering: bool
    jax_ragged_dot_use_ragged_dot_instruction: bool
    jax_raise_persistent_cache_errors: bool
    jax_random_seed_offset: int
    jax_refs_to_pins: bool
    jax_remat3: bool
    jax_remove_custom_partitioning_ptr_from_cache_key: bool
    jax_remove_size_one_mesh_axis_from_type: bool
    jax_rocm_visible_devices: Any
    jax_scan3: bool
    jax_send_traceback_to_runtime: Any
    jax_serialization_version: Any
    jax_share_binary_between_hosts: bool
    jax_share_binary_between_hosts_timeout_ms: Any
    jax_softmax_custom_jvp: bool
    jax_sort_devices_by_process_index: bool
    jax_source_url_schema: Any
    jax_thread_guard: bool
    jax_threefry_gpu_kernel_lowering: bool
    jax_threefry_partitionable: bool
    jax_traceback_filtering: str
    jax_traceback_in_locations_limit: Any
    jax_tracer_error_num_traceback_frames: Any
    jax_transfer_guard: str | None
    jax_transfer_guard_device_to_device: str | None
    jax_transfer_guard_device_to_host: str | None
    jax_transfer_guard_host_to_device: str | None
    jax_use_direct_linearize: bool
    jax_use_emit_pipeline_primitive: bool
    jax_use_magma: Any
    jax_use_shardy_partitioner: bool
    jax_use_simplified_jaxpr_constants: bool
    jax_xla_backend: Any
    jax_xla_profile_version: Any
