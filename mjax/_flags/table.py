"""Every flag: its name, its default, the values it takes and what it does.

`mjax._engine.base.config` keeps their values. This module imports the standard library and plain
data only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mjax._flags.foreign import FOREIGN, Foreign
from mjaxlib_shim.guard_levels import DIRECTIONS, LEVELS


class Flag:
    """One row of the table.

    Attributes:
      name: its name.
      default: its initial value.
      accepts: the values it takes; a type; None: any that `config.checks` does not refuse.
      doc: what it does.
      sets: flags that get each of its values too.
      foreign: for a flag of JAX that changes nothing here, its row in the table of these.
    """

    __slots__ = ("accepts", "default", "doc", "foreign", "name", "sets")

    def __init__(self, name: str, default: Any, accepts: tuple[Any, ...] | type | None, doc: str,
                 sets: tuple[str, ...] = (), foreign: Foreign | None = None):
        self.name, self.default, self.accepts, self.doc = name, default, accepts, doc
        self.sets, self.foreign = sets, foreign


_ALGORITHMS = ("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
               "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
               "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
               "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64")
_PRECISIONS = (None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
               "fastest", "bfloat16_3x", *_ALGORITHMS)


def _guard(direction: str, which: str) -> Flag:
    return Flag(f"transfer_guard_{direction}", None, (None, *LEVELS),
                f"Whether {which} are allowed, logged or refused; requests to device_put and "
                "device_get only by the levels with \"explicit\" in their name.")


SETTINGS = (
    Flag("enable_x64", False, bool, "Keep 64-bit types; otherwise they become 32-bit ones."),
    Flag("numpy_dtype_promotion", "standard", ("standard", "strict"),
         "Whether different dtypes are promoted or refused."),
    Flag("numpy_rank_promotion", "allow", ("allow", "warn", "raise"),
         "Whether operands of different rank are broadcast, warned about or refused."),
    Flag("default_matmul_precision", None, _PRECISIONS, "Precision of dot and convolution."),
    Flag("default_device", None, None, "Device for uncommitted values."),
    Flag("mesh", None, None, "Mesh that partition specs without one refer to; see `set_mesh`."),
    Flag("mesh_for_all", False, bool, "Whether all programs have to run on the devices of that "
         "mesh, and new arrays are there: true under `set_mesh`, false in `with mesh:`."),
    Flag("default_prng_impl", "threefry2x32", None, "Key type of `random.key`."),
    Flag("threefry_partitionable", True, bool, "Generate each random bit from its own counter."),
    Flag("disable_jit", False, bool, "Run jitted functions operation by operation."),
    Flag("debug_nans", False, bool, "Raise as soon as an operation gives a NaN."),
    Flag("debug_infs", False, bool, "Raise as soon as an operation gives an infinity."),
    Flag("explicit_x64_dtypes", "warn", ("warn", "error", "allow"),
         "The reaction to a request for a 64-bit dtype while x64 is off: 32 bits and a warning, "
         "an error, or 64 bits."),
    Flag("check_static_indices", False, bool,
         "Refuse known integers in `x[...]` that are out of bounds."),
    Flag("random_seed_offset", 0, int, "A number added to each seed of `random.key`."),
    Flag("legacy_prng_key", "allow", ("allow", "warn", "error"),
         "Whether raw uint32 arrays are accepted as keys, warned about or refused."),
    Flag("allow_f16_reductions", True, bool,
         "Whether sums of float16 and bfloat16 numbers are computed or refused."),
    Flag("no_execution", False, bool, "Refuse to run programs."),
    Flag("user_contexts", (), None, "The values of the contexts of `make_user_context`."),
    Flag("annotations", None, None, "What `compute_on` and `set_xla_metadata` ask of XLA."),
)
OPTIONS = (
    Flag("traceback_filtering", "auto", ("auto", "off", "remove_frames", "tracebackhide",
                                         "quiet_remove_frames"),
         "Whether tracebacks for users omit frames of the engine."),
    Flag("enable_checks", False, bool, "Type-check every jaxpr as it is built."),
    Flag("check_tracer_leaks", False, bool, "Raise as soon as a finished trace leaked a tracer."),
    Flag("log_compiles", False, bool, "Log each trace and compilation with its time."),
    Flag("explain_cache_misses", False, bool, "Log why a function is traced or compiled again."),
    Flag("log_checkpoint_residuals", False, bool,
         "Log the values that a function behind checkpoint saves when it is differentiated."),
    Flag("transfer_guard", None, (None, *LEVELS), "The level of the three guards below.",
         tuple(f"transfer_guard_{direction}" for direction in DIRECTIONS)),
    _guard("host_to_device", "copies of NumPy arrays and Python numbers to devices"),
    _guard("device_to_device", "copies between devices"),
    Flag("num_cpu_devices", -1, int,
         "The number of devices of the CPU; set it before the first use. -1: one, or the number "
         "in XLA_FLAGS."),
    Flag("cpu_enable_async_dispatch", True, bool,
         "Whether computations on the CPU continue after their call has returned. For programs "
         "that call Python it applies to each call; for others set it before the first use."),
    _guard("device_to_host", "copies to the host, from devices whose memory is not the host's,"),
    Flag("no_tracing", False, bool, "Refuse to trace functions for `jit`."),
    Flag("captured_constants_warn_bytes", 2_000_000_000, int,
         "Warn if a program closes over more bytes of arrays; -1: never."),
    Flag("captured_constants_report_frames", 0, int,
         "The number of user frames that this warning shows for each large array; -1: all."),
    Flag("platforms", None, None, "The required platforms, separated by commas; the first is the "
         "default. Set it before the first device is used."),
    Flag("platform_name", "", None, "The default platform if `platforms` is not set."),
    Flag("compilation_cache_dir", None, None, "The folder of compiled programs for other "
         "processes; None: none. Everybody who can write there can run code here."),
    Flag("enable_compilation_cache", True, bool, "Whether this folder is used."),
    Flag("compilation_cache_max_size", -1, int,
         "The size of the folder in bytes: the least recently used programs are removed; -1: "
         "unlimited; 0: programs are not kept."),
    Flag("persistent_cache_min_compile_time_secs", 1.0, float,
         "Programs that compile faster are not kept in the folder."),
    Flag("persistent_cache_min_entry_size_bytes", 0, int,
         "Smaller programs are not kept in the folder; -1: all are kept."),
    Flag("raise_persistent_cache_errors", False, bool,
         "Whether an unusable folder or entry is an error; otherwise it is a warning."),
    Flag("compilation_cache_include_metadata_in_key", False, bool,
         "Whether programs that differ only in file names and lines are different."),
    *(Flag(row.name, row.default, (bool if isinstance(row.default, bool) else None), row.why,
           foreign=row) for row in FOREIGN),
)
#: Settings that are not flags of JAX; functions such as `set_mesh` set them.
OF_FUNCTIONS = frozenset({"annotations", "mesh", "mesh_for_all", "user_contexts"})
#: An environment variable is named by one of these and its flag; the first that is set wins.
PREFIXES = ("MJAX_", "JAX_")


def accepted(flag: Flag, value: Any) -> Any:
    """A value in the form in which a flag keeps it.

    Raises:
      ValueError: the flag does not take it.
    """
    if flag.foreign is not None and flag.foreign.refused and value != flag.default:
        msg = (f"config flag {flag.name!r} can only be {flag.default!r} in mjax, got {value!r}: "
               f"{flag.doc}.")
        raise ValueError(msg)
    if flag.accepts is None:
        return value
    if isinstance(flag.accepts, tuple):
        taken = f"one of {flag.accepts}"
        if value in flag.accepts:
            return value
    else:
        taken, kinds = _ACCEPTED[flag.accepts]
        if isinstance(value, kinds) and (
                value in (0, 1) if flag.accepts is bool else not isinstance(value, bool)):
            return flag.accepts(value)
    msg = f"config flag {flag.name!r} takes {taken}; got {value!r}."
    raise ValueError(msg)


#: Type of a flag -> what messages call its values, and the types that these may have.
_ACCEPTED: dict[type, tuple[str, tuple[type, ...]]] = {
    bool: ("True or False", (int,)),
    int: ("an integer", (int,)),
    float: ("a number", (int, float)),
}
_BOOLEANS = {**dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
             **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False)}


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def from_environment(flag: Flag, environ: Mapping[str, str] = os.environ) -> Any:
    """The initial value of a flag.

    Raises:
      ValueError: the flag does not take the text of its variable.
    """
    for prefix in PREFIXES:
        variable = prefix + flag.name.upper()
        text = environ.get(variable)
        if text:
            value: Any = text
            if flag.accepts is bool:
                value = _BOOLEANS.get(text.lower(), text)
            elif flag.accepts in (int, float) or (
                    flag.foreign and isinstance(flag.default, (int, float))):
                value = _number(text)
            try:
                return accepted(flag, value)
            except ValueError as error:
                msg = f"environment variable {variable}: {error}"
                raise ValueError(msg) from None
    return flag.default
