"""Settings and options: a table, an interned record per thread, context managers.

`Settings` hold what may change the outcome of a trace; they are part of every cache key,
by identity. `Options` hold the rest, and the flags of JAX that change nothing here
(`foreign_flags`). Names are accepted bare and with JAX's prefix
(`enable_x64`, `jax_enable_x64`); the environment variables `MJAX_<NAME>` and `JAX_<NAME>`
give the initial values.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.foreign_flags import FOREIGN, Foreign
from mjax._engine.base.records import Record
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import NOT_GIVEN, closest
from mjaxlib_shim import guards
from mjaxlib_shim.client import set_cpu_asynchronous, set_num_cpu_devices


class Flag(Record):
    """One row of the table.

    Attributes:
      name: its name.
      default: its initial value.
      accepts: the values it takes; a type; None: any that its row in `checks` does not refuse.
      doc: what it does.
      sets: flags that get each of its values too.
      joined: chooses between the values of the process and of a thread the one in force there;
        None: the thread's.
      foreign: for a flag of JAX that changes nothing here, its row in the table of these.
      effect: told each value, and whether it is for the whole process; None: this thread has no
        value of its own any more.
    """

    name: str
    default: Any
    accepts: tuple[Any, ...] | type | None
    doc: str
    sets: tuple[str, ...] = ()
    effect: Callable[[Any, bool], None] | None = None
    joined: Callable[[Any, Any], Any] | None = None
    foreign: Foreign | None = None


_ALGORITHMS = ("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY",
               "ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16",
               "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9",
               "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64")
_PRECISIONS = (None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
               "fastest", "bfloat16_3x", *_ALGORITHMS)
_LEVELS = (None, *guards.LEVELS)


def by_owner(*entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last entry of each owner, in one order; the first part of an entry is its owner."""
    found = {entry[0]: entry for several in entries for entry in several}
    return tuple([found[owner] for owner in sorted(found, key=id)])


def _for_process(effect: Callable[[Any], None]) -> Callable[[Any, bool], None]:
    """An effect of values for the whole process; values for a thread do not have it."""
    return lambda value, everywhere: effect(value) if everywhere else None


def _guard(direction: str, which: str) -> Flag:
    return Flag(f"transfer_guard_{direction}", None, _LEVELS,
                f"Whether {which} are allowed, logged or refused; requests to device_put and "
                "device_get only by the levels with \"explicit\" in their name.", (),
                functools.partial(guards.set_level, direction))


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
    Flag("user_contexts", (), None, "The values of the contexts of `make_user_context`.",
         joined=by_owner),
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
    Flag("transfer_guard", None, _LEVELS, "The level of the three guards below.",
         tuple(f"transfer_guard_{direction}" for direction in guards.DIRECTIONS)),
    _guard("host_to_device", "copies of NumPy arrays and Python numbers to devices"),
    _guard("device_to_device", "copies between devices"),
    Flag("num_cpu_devices", -1, int,
         "The number of devices of the CPU; set it before the first use. -1: one, or the number "
         "in XLA_FLAGS.", (), _for_process(set_num_cpu_devices)),
    Flag("cpu_enable_async_dispatch", True, bool,
         "Whether computations on the CPU continue after their call has returned. For programs "
         "that call Python it applies to each call; for others set it before the first use.",
         (), _for_process(set_cpu_asynchronous)),
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


class Values:
    """An immutable set of flag values; equal sets are one object, so identity is equality."""

    __slots__ = ("__dict__", "values")
    values: dict[str, Any]

    def __init__(self, values: dict[str, Any]):
        self.values = values
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.values.items())})"


class Settings(Values):
    """Flags that are part of every cache key."""

    __slots__ = ()


class Options(Values):
    """Flags that change no trace."""

    __slots__ = ()


_FLAGS: dict[str, tuple[Flag, type[Values], str]] = {
    **{f.name: (f, Settings, "settings") for f in SETTINGS},
    **{f.name: (f, Options, "options") for f in OPTIONS},
}
#: Settings that are not flags of JAX; functions such as `set_mesh` set them.
OF_FUNCTIONS = frozenset({"mesh", "mesh_for_all", "user_contexts"})
_interned: dict[tuple[Any, ...], Values] = {}
_lock = threading.Lock()


def _intern(kind: type[Values], values: dict[str, Any]) -> Any:
    key = (kind, *values.values())
    return _interned.get(key) or _interned.setdefault(key, kind(dict(values)))


#: Flag -> a function that refuses values with a ValueError; from the files that know them.
checks: dict[str, Callable[[Any], None]] = {}


def _bare(name: str) -> str:
    return name.removeprefix("mjax_").removeprefix("jax_")


def _lookup_public(name: str) -> tuple[Flag, type[Values], str]:
    """`_lookup` of a name that the user gave."""
    if _bare(name) in OF_FUNCTIONS:
        msg = (f"config has no flag named {name!r}: it is set by a function of its own, such as "
               "mjax.set_mesh and mjax.make_user_context.")
        raise AttributeError(msg)
    return _lookup(name)


def _lookup(name: str) -> tuple[Flag, type[Values], str]:
    try:
        return _FLAGS[_bare(name)]
    except KeyError:
        known = sorted(n for n, (flag, *_) in _FLAGS.items()
                       if flag.foreign is None and n not in OF_FUNCTIONS)
        close = closest(_bare(name), known)
        msg = f"config has no flag named {name!r}." + (
            f" Did you mean {close!r}?" if close else f" Flags: {', '.join(known)}.")
        raise AttributeError(msg) from None


def _validated(flag: Flag, value: Any) -> Any:
    if flag.foreign is not None and flag.foreign.refused and value != flag.default:
        msg = (f"config flag {flag.name!r} can only be {flag.default!r} in mjax, got {value!r}: "
               f"{flag.doc}.")
        raise ValueError(msg)
    if flag.accepts is None:
        if flag.name in checks:
            checks[flag.name](value)
        return value
    if isinstance(flag.accepts, tuple):
        accepted = f"one of {flag.accepts}"
        if value in flag.accepts:
            return value
    else:
        accepted, kinds = _ACCEPTED[flag.accepts]
        if isinstance(value, kinds) and (
                value in (0, 1) if flag.accepts is bool else not isinstance(value, bool)):
            return flag.accepts(value)
    msg = f"config flag {flag.name!r} takes {accepted}; got {value!r}."
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


def _from_environment(flag: Flag) -> Any:
    for prefix in ("MJAX_", "JAX_"):
        variable = prefix + flag.name.upper()
        text = os.environ.get(variable)
        if text:
            value: Any = text
            if flag.accepts is bool:
                value = _BOOLEANS.get(text.lower(), text)
            elif flag.accepts in (int, float) or (
                    flag.foreign and isinstance(flag.default, (int, float))):
                value = _number(text)
            try:
                return _validated(flag, value)
            except ValueError as error:
                msg = f"environment variable {variable}: {error}"
                raise ValueError(msg) from None
    return flag.default


class _Overrides(threading.local):
    """The values that context managers of this thread have set, by record field."""

    def __init__(self) -> None:
        self.settings_overrides: dict[str, Any] = {}
        self.options_overrides: dict[str, Any] = {}


_overrides = _Overrides()


def _refresh(field: str, kind: type[Values]) -> None:
    """Sets this thread's record to the process-wide one, overridden by its context managers."""
    local = getattr(_overrides, field + "_overrides")
    if local:
        process = getattr(ThreadState, field).values
        joined = {name: flag.joined(process[name], local[name]) for name in local
                  if (flag := _FLAGS[name][0]).joined is not None}
        setattr(thread, field, _intern(kind, {**process, **local, **joined}))
    else:
        thread.__dict__.pop(field, None)


class _AllValues(dict[str, Any]):
    """The values of flags by their bare names; names with a prefix are found too."""

    def __missing__(self, name: str) -> Any:
        bare = _bare(name)
        if bare == name:
            raise KeyError(name)
        return self[bare]


class Config:
    """The object behind `mjax.config`.

    Reading `config.enable_x64` gives the value in force in this thread;
    `config.update("enable_x64", True)` sets it for the process.
    """

    @boundary
    def update(self, name: str, value: Any) -> None:
        """Sets a flag process-wide.

        Args:
          name: a flag's name, bare or with JAX's prefix (`"jax_enable_x64"`).
          value: the new value.

        Raises:
          AttributeError: the flag does not exist.
          ValueError: the flag does not take this value.
        """
        _set(*_lookup_public(name), value)

    @boundary
    def read(self, name: str) -> Any:
        """The value of a flag in this thread."""
        flag, _, field = _lookup(name)
        return getattr(thread, field).values[flag.name]

    @boundary
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.read(name)

    @boundary
    def __setattr__(self, name: str, value: Any) -> None:
        self.update(name, value)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_FLAGS]

    @property
    def values(self) -> dict[str, Any]:
        """All flags in force in this thread."""
        return _AllValues({**thread.settings.values, **thread.options.values})


def set_global(name: str, value: Any) -> None:
    """Sets a flag process-wide; also settings that are not flags of JAX."""
    _set(*_lookup(name), value)


def _set(flag: Flag, kind: type[Values], field: str, value: Any) -> None:
    value = _validated(flag, value)
    new = dict.fromkeys((flag.name, *flag.sets), value)
    for changed in new:  # which may refuse the value
        _take_effect(changed, value, True)
    with _lock:  # otherwise a thread that sets another flag at once could undo this
        setattr(ThreadState, field, _intern(kind, {**getattr(ThreadState, field).values, **new}))
    _refresh(field, kind)


config = Config()
ThreadState.settings = _intern(Settings, {f.name: _from_environment(f) for f in SETTINGS})
ThreadState.options = _intern(Options, {f.name: _from_environment(f) for f in OPTIONS})


@contextmanager
def override(**flags: Any) -> Iterator[None]:
    """Sets flags in this thread for the body of a `with` statement."""
    undo = set_here(**flags)
    try:
        yield
    finally:
        undo()


def is_set_here(name: str) -> bool:
    """True if this thread has its own value of a setting."""
    return name in _overrides.settings_overrides


def of_this_thread(name: str, default: Any) -> Any:
    """This thread's own value of a setting."""
    return _overrides.settings_overrides.get(name, default)


UNSET: Any = NOT_GIVEN


def set_here(**flags: Any) -> Callable[[], None]:
    """Sets flags in this thread; returns a function that restores their earlier values.

    The value `UNSET` stands for that of the process.

    Raises:
      AttributeError: a flag does not exist.
      ValueError: a flag does not take its value.
    """
    changes = []
    for name, value in flags.items():
        flag, kind, field = _lookup(name)
        accepted = value if value is UNSET else _validated(flag, value)
        changes.append((field, kind, dict.fromkeys((flag.name, *flag.sets), accepted)))
    undo = []
    for field, kind, new in changes:
        local = getattr(_overrides, field + "_overrides")
        undo.append((field, kind, {name: local.get(name, UNSET) for name in new}))
        _set_here(field, kind, new)

    def restore() -> None:
        for field, kind, before in reversed(undo):
            _set_here(field, kind, before)

    return restore


def _set_here(field: str, kind: type[Values], new: dict[str, Any]) -> None:
    local = getattr(_overrides, field + "_overrides")
    for name, value in new.items():
        if value is UNSET:
            local.pop(name, None)
        else:
            local[name] = value
    _refresh(field, kind)
    for name, value in new.items():
        _take_effect(name, None if value is UNSET else value, False)


def _take_effect(name: str, value: Any, everywhere: bool) -> None:
    effect = _FLAGS[name][0].effect
    if effect is not None:
        effect(value, everywhere)


def flag_manager(name: str, *default: Any, keyword: str = "new_val") -> Callable[..., Any]:
    """The context manager of one flag, as a function of its value (`enable_x64(True)`)."""
    flag = _lookup(name)[0]

    @boundary
    def manager(*value: Any, **named: Any) -> Any:
        if named:
            if value or list(named) != [keyword]:
                msg = (f"{name} takes one value, by its place or as {keyword}=; got {len(value)} "
                       f"by place, and by name {', '.join(named)}.")
                raise TypeError(msg)
            value = (named[keyword],)
        if len(value) > 1 or not (value or default):
            msg = f"{name} takes one value, got {len(value)}."
            raise TypeError(msg)
        _validated(flag, (value or default)[0])
        return override(**{name: (value or default)[0]})

    manager.__name__ = manager.__qualname__ = name
    manager.__signature__ = Signature([Parameter(  # type: ignore[attr-defined]
        keyword, Parameter.POSITIONAL_OR_KEYWORD, default=default[0] if default else UNSET)])
    shown = default[0] if default else flag.default
    manager.__doc__ = (
        f"Context manager: sets `{name}` in this thread. {flag.doc}\n\n    Example:\n"
        f"      >>> with mjax.{name}({shown!r}):\n"
        f"      ...   print(mjax.config.jax_{name})\n      {shown}\n")
    return manager


enable_x64 = flag_manager("enable_x64", True)
disable_jit = flag_manager("disable_jit", True, keyword="disable")
numpy_dtype_promotion = flag_manager("numpy_dtype_promotion")
numpy_rank_promotion = flag_manager("numpy_rank_promotion")
default_matmul_precision = flag_manager("default_matmul_precision")
default_device = flag_manager("default_device")
default_prng_impl = flag_manager("default_prng_impl")
threefry_partitionable = flag_manager("threefry_partitionable", True)
enable_checks = flag_manager("enable_checks", True)
checking_leaks = flag_manager("check_tracer_leaks", True)
log_compiles = flag_manager("log_compiles", True)
explain_cache_misses = flag_manager("explain_cache_misses", True)
debug_nans = flag_manager("debug_nans", True)
debug_infs = flag_manager("debug_infs", True)
transfer_guard = flag_manager("transfer_guard")
transfer_guard_host_to_device = flag_manager("transfer_guard_host_to_device")
transfer_guard_device_to_device = flag_manager("transfer_guard_device_to_device")
transfer_guard_device_to_host = flag_manager("transfer_guard_device_to_host")
traceback_filtering = flag_manager("traceback_filtering")
check_tracer_leaks = flag_manager("check_tracer_leaks", True)
legacy_prng_key = flag_manager("legacy_prng_key")
allow_f16_reductions = flag_manager("allow_f16_reductions", True)
no_tracing = flag_manager("no_tracing", True)
no_execution = flag_manager("no_execution", True)

# Flags of the environment that act on more than a value.
for _flag in OPTIONS:
    if (_flag.sets or _flag.effect) and config.read(_flag.name) is not None:
        config.update(_flag.name, config.read(_flag.name))
