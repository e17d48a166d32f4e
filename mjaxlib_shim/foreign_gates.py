"""The gates of foreign functions and callbacks, which are part of the table in `gates`."""

from __future__ import annotations

from .gate import Gate, jaxlib_file, keyword
from .native import ext, xc

__all__ = ["FFI_TARGETS_CHECKED", "FFI_TOKENS", "FFI_TYPES", "FFI_TYPE_IDS",
           "HLO_TRANSFORMATIONS", "NO_DEVICE_OF_SEVERAL", "RULE_PERMUTATIONS", "RULE_REDUCTIONS",
           "UNREAD_USES"]


FFI_TYPE_IDS = Gate(
    "ffi_type_ids",
    "register_custom_type_id, or register_custom_type",
    301, "0.4.38",
    "before, foreign functions have no states of types of their own",
    lambda: any(hasattr(xc, name) for name in ("register_custom_type_id", "register_custom_type")),
)  # fmt: skip
FFI_TOKENS = Gate(
    "ffi_tokens",
    "foreign functions take and give tokens on CPU",
    303, "0.5.0",
    "before, XLA ends the process when it compiles such a call (the probe looks for another change "
    "of that release)",
    lambda: keyword(xc.make_cpu_client, "num_devices"),
)  # fmt: skip
RULE_REDUCTIONS = Gate(
    "rule_reductions",
    "#sdy.op_sharding_rule<... reduction={i} need_replication={j}>",
    303, "0.5.0",
    "before, rules do not tell kinds of factors (the probe looks for another change of that "
    "release)",
    lambda: keyword(xc.make_cpu_client, "num_devices"),
)  # fmt: skip
RULE_PERMUTATIONS = Gate(
    "rule_permutations",
    "#sdy.op_sharding_rule<... permutation={i}>",
    317, "0.5.1",
    "before, rules do not tell these factors (the probe looks for another change of that release)",
    lambda: not hasattr(ext.ArrayImpl, "_single_device_array_to_np_array"),
)  # fmt: skip
FFI_TARGETS_CHECKED = Gate(
    "ffi_targets_checked",
    "XLA looks custom-call targets up when it compiles",
    342, "0.6.1",
    "before, when it runs a program; before the gate opens, compiled programs are searched (the "
    "probe looks for another change of that release)",
    lambda: not jaxlib_file("xla_extension"),
)  # fmt: skip
FFI_TYPES = Gate(
    "ffi_types",
    "register_custom_type(name, {type_id: ..., type_info: ...})",
    387, "0.8.1",
    "before, register_custom_type_id(name, type_id), and XLA knows how to delete a state",
    lambda: hasattr(xc, "register_custom_type"),
)  # fmt: skip
HLO_TRANSFORMATIONS = Gate(
    "hlo_transformations",
    "jaxlib._xla: register_xla_transform, clear_xla_transform",
    467, "0.10.2",
    "before, XLA does not let Python change the modules that it compiles",
    lambda: bool(jaxlib_file("_xla")),
)  # fmt: skip
UNREAD_USES = Gate(
    "unread_uses",
    "stablehlo.custom_call @dce_sink",
    439, "0.10.0",
    "before, nothing on CPU stands for a use of a value that no result needs",
    lambda: "dce_sink" in ext.custom_call_targets("Host"),
)  # fmt: skip
NO_DEVICE_OF_SEVERAL = Gate(
    "no_device_of_several",
    "an sdy.sharding of several results that names one device",
    505, "0.12.0",
    "before, the operation runs there; from there on XLA takes it for replicated, and refuses side "
    "effects (the probe looks for another change of that release)",
    lambda: hasattr(ext, "dlpack_version"),
)  # fmt: skip
