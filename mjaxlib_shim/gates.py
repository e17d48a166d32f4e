"""Every branch on jaxlib, in one table.

A gate has a name, a declared opening (the extension version of the first release
that has the new form) and a probe that inspects the real library. Modules branch on `GATE.open`,
which follows the declaration; tests compare both on every jaxlib of the matrix. A gate that is
open on the whole window is dead: a test fails until its old branch is deleted.
"""

from __future__ import annotations

import importlib

from . import artifact_gates, foreign_gates, lapack_gates, xla_gates
from .gate import Gate, file_mentions, jaxlib_file, keyword
from .native import ext, nb_signatures, xc

__all__ = ["GATES", "Gate", "open_gates"]


NUM_DEVICES = Gate(
    "num_devices",
    "make_cpu_client(num_devices=N)",
    303, "0.5.0",
    "before, only XLA_FLAGS=--xla_force_host_platform_device_count=N decides",
    lambda: keyword(xc.make_cpu_client, "num_devices"),
)  # fmt: skip
MEMORIES_STATE = Gate(
    "memories_state",
    "JitState without enable_memories",
    303, "0.5.0",
    "before, it must be set, or the first transfer aborts the process",
    lambda: not hasattr(getattr(ext.jax_jit, "JitState", None), "enable_memories"),
)  # fmt: skip
ENABLE_X64 = Gate(
    "enable_x64",
    "batched_device_put(..., enable_x64=True)",
    373, "0.7.2",
    "before, a process-wide state must be registered, or the process aborts, and the "
    "thread's flag decides whether 64-bit values silently become 32-bit ones",
    lambda: keyword(xc.batched_device_put, "enable_x64"),
)  # fmt: skip
HANDLER_UNCHECKED = Gate(
    "handler_unchecked",
    "array_result_handler(aval, sharding, committed) without _skip_checks",
    495, "0.11.2",
    "before, without _skip_checks=True C++ calls a method that only jax defines",
    lambda: not keyword(ext.array_result_handler, "_skip_checks"),
)  # fmt: skip
TO_NUMPY_COPY_FLAG = Gate(
    "to_numpy_copy_flag",
    "_single_device_array_to_np_array_did_copy",
    317, "0.5.1",
    "before, _single_device_array_to_np_array, which returns the array alone",
    lambda: not hasattr(ext.ArrayImpl, "_single_device_array_to_np_array"),
)  # fmt: skip
TO_NUMPY_WHOLE = Gate(
    "to_numpy_whole",
    "ArrayImpl._to_np_array_did_copy",
    495, "0.11.2",
    "one call for any dtype and any sharding; before, one call per shard, which from "
    "0.10.0 on tries to import jax",
    lambda: hasattr(ext.ArrayImpl, "_to_np_array_did_copy"),
)  # fmt: skip
COMPILE_AND_LOAD = Gate(
    "compile_and_load",
    "Client.compile_and_load(code, DeviceList, options); deserialize_executable too",
    342, "0.6.1",
    "before, Client.compile(code, options) loads, and deserializing takes no devices",
    lambda: hasattr(ext.Client, "compile_and_load"),
)  # fmt: skip
COMPILE_MODULE = Gate(
    "compile_module",
    "compile_and_load(ir.Module, ...)",
    380, "0.8.0",
    "before, bytecode; from there on bytecode is refused together with host_callbacks",
    lambda: any(
        "computation: object" in text
        for text in nb_signatures(getattr(ext.Client, "compile_and_load", None))
    ),
)  # fmt: skip
MLIR_EXT = Gate(
    "mlir_ext",
    "jaxlib.mlir._mlir_libs._jax_mlir_ext",
    364, "0.7.0",
    "before, jaxlib.mlir._mlir_libs.register_jax_dialects has register_dialects",
    lambda: jaxlib_file("mlir", "_mlir_libs", "_jax_mlir_ext"),
)  # fmt: skip
TRACEBACK_SWITCH = Gate(
    "traceback_switch",
    "set_tracebacks_enabled(True)",
    355, "0.6.2",
    "before, Traceback.enabled = True",
    lambda: hasattr(ext, "set_tracebacks_enabled"),
)  # fmt: skip
TREEDEF_TUPLE = Gate(
    "treedef_tuple",
    "pytree.treedef_tuple",
    380, "0.8.0",
    "before, pytree.tuple",
    lambda: hasattr(ext.pytree, "treedef_tuple"),
)  # fmt: skip
TREEDEF_FROM_CHILDREN = Gate(
    "treedef_from_children",
    "PyTreeDef.from_node_data_and_children",
    380, "0.8.0",
    "before, under another name up to 0.6.1 and nowhere from 0.6.2 to 0.7.2",
    lambda: hasattr(ext.pytree.PyTreeDef, "from_node_data_and_children"),
)  # fmt: skip
PROFILER_MODULE = Gate(
    "profiler_module",
    "jaxlib._profiler",
    342, "0.6.1",
    "before, a submodule of the extension module",
    lambda: not hasattr(ext, "profiler") and jaxlib_file("_profiler"),
)  # fmt: skip
PROFILE_DATA = Gate(
    "profile_data",
    "jaxlib._profile_data",
    368, "0.7.1",
    "before, nothing reads the profiles that jaxlib writes",
    lambda: jaxlib_file("_profile_data"),
)  # fmt: skip
PROFILED_SUBPROCESSES = Gate(
    "profiled_subprocesses",
    "_profiler.register_subprocess",
    452, "0.10.1",
    "before, a profile is of one process",
    lambda: jaxlib_file("_profiler")
    and hasattr(importlib.import_module("jaxlib._profiler"), "register_subprocess"),
)  # fmt: skip
PARTIAL_CONCATENATE = Gate(
    "partial_concatenate",
    "XLA partitions stablehlo.concatenate right",
    303, "0.5.0",
    "before, along a dimension that is cut over some axes of a mesh it adds up the copies along "
    "the others, in silence; before the gate opens, that dimension is kept whole (the probe looks "
    "for another change of that release)",
    lambda: keyword(xc.make_cpu_client, "num_devices"),
)  # fmt: skip
LITERAL_LAYOUTS = Gate(
    "literal_layouts",
    "XLA computes right with transposed literals",
    387, "0.8.1",
    "from 0.5.3 to 0.8.0, its constant folding on CPU mixes up the layouts of what a loop "
    "computes of a transposed literal, in silence; before the gate opens, constants of more "
    "than one element are arguments (the probe looks for another change of that release)",
    lambda: jaxlib_file("mlir", "extras", "types"),
)  # fmt: skip
BUSY_EXIT = Gate(
    "busy_exit",
    "a process may end while its CPU computes",
    391, "0.8.2",
    "before, C++ frees the code that its threads run, and some processes crash; so computations "
    "are awaited at exit (the probe looks for another change of that release)",
    lambda: hasattr(ext.LoadedExecutable, "serialize"),
)  # fmt: skip
HEARTBEAT_TIMEOUT = Gate(
    "heartbeat_timeout",
    "get_distributed_runtime_client(heartbeat_timeout=S), and of the service",
    364, "0.7.0",
    "before, heartbeat_interval=S and max_missing_heartbeats=N",
    lambda: keyword(ext.get_distributed_runtime_client, "heartbeat_timeout"),
)  # fmt: skip
RESULT_ACCURACY = Gate(
    "result_accuracy",
    "result_accuracy=#stablehlo.result_accuracy<...> of elementwise operations",
    320, "0.5.3",
    "before, on no operation, or on exponential alone, and compilers know no tolerance",
    lambda: file_mentions(
        r"def tanh\(.*result_accuracy", "mlir", "dialects", "_stablehlo_ops_gen.py"
    ),
)  # fmt: skip
SPARE_THREADS = Gate(
    "spare_threads",
    "Python callbacks may compute on as few threads as a CPU client has devices",
    317, "0.5.1",
    "before, a callback and what it waits for need a thread each, and hang where programs with "
    "collectives have the others; before the gate opens, clients get more threads (the probe "
    "looks for another change of that release)",
    lambda: not hasattr(ext.ArrayImpl, "_single_device_array_to_np_array"),
)  # fmt: skip
FFI_CALLBACKS = Gate(
    "ffi_callbacks",
    "stablehlo.custom_call @xla_ffi_[partitioned_]python_cpu_callback",
    330, "0.6.0",
    "callbacks by position among the executable's; before, of whole operands alone, by the address "
    "of a descriptor that the client makes, with packed results",
    lambda: not hasattr(ext.Client, "get_emit_python_callback_descriptor"),
)  # fmt: skip
REGION_TOKENS = Gate(
    "region_tokens",
    "sdy.manual_computation of tokens",
    342, "0.6.1",
    "before, it takes and gives tensors alone (the probe looks for another change of that "
    "revision of Shardy)",
    lambda: file_mentions("Sdy_AllToAllParamList", "mlir", "dialects", "_sdy_ops_gen.py"),
)  # fmt: skip


#: All gates, ordered by the release that opens them.
GATES: tuple[Gate, ...] = (
    lapack_gates.LAPACK_TRSM,
    foreign_gates.FFI_TYPE_IDS,
    MEMORIES_STATE,
    NUM_DEVICES,
    foreign_gates.FFI_TOKENS,
    foreign_gates.RULE_REDUCTIONS,
    xla_gates.PARTITIONED_TOP_K,
    lapack_gates.LAPACK_PIVOTED,
    PARTIAL_CONCATENATE,
    TO_NUMPY_COPY_FLAG,
    SPARE_THREADS,
    lapack_gates.LAPACK_STACKS,
    foreign_gates.RULE_PERMUTATIONS,
    lapack_gates.LAPACK_REGISTRATIONS,
    lapack_gates.LAPACK_GESVD,
    RESULT_ACCURACY,
    artifact_gates.REFINE_SHARDY,
    FFI_CALLBACKS,
    COMPILE_AND_LOAD,
    foreign_gates.FFI_TARGETS_CHECKED,
    REGION_TOKENS,
    PROFILER_MODULE,
    TRACEBACK_SWITCH,
    MLIR_EXT,
    artifact_gates.ARTIFACT_SHARDY,
    HEARTBEAT_TIMEOUT,
    PROFILE_DATA,
    ENABLE_X64,
    COMPILE_MODULE,
    TREEDEF_TUPLE,
    TREEDEF_FROM_CHILDREN,
    LITERAL_LAYOUTS,
    foreign_gates.FFI_TYPES,
    BUSY_EXIT,
    foreign_gates.UNREAD_USES,
    artifact_gates.ARTIFACT_CONTEXT,
    lapack_gates.LAPACK_ORMQR,
    artifact_gates.ARTIFACT_MODULE,
    PROFILED_SUBPROCESSES,
    foreign_gates.HLO_TRANSFORMATIONS,
    xla_gates.FUSED_SUMS,
    xla_gates.RIGHT_FUSED_SUMS,
    HANDLER_UNCHECKED,
    TO_NUMPY_WHOLE,
    foreign_gates.NO_DEVICE_OF_SEVERAL,
)


def open_gates() -> tuple[str, ...]:
    """Names of the gates that are open on the running jaxlib.

    Example:
      >>> import mjaxlib_shim
      >>> set(mjaxlib_shim.open_gates()) <= {gate.name for gate in mjaxlib_shim.GATES}
      True
    """
    return tuple(gate.name for gate in GATES if gate.open)
