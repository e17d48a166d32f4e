"""Settings and options: an interned record per thread, context managers.

`Settings` hold what may change the outcome of a trace; they are part of every cache key,
by identity. `Options` hold the rest, and the flags of JAX that change nothing here
(`mjax._flags.foreign`). Names are accepted bare and with JAX's prefix
(`enable_x64`, `jax_enable_x64`); the environment variables `MJAX_<NAME>` and `JAX_<NAME>`
give the initial values.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, cast

from mjax._engine.base.folding import boundary
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import NOT_GIVEN, closest
from mjax._flags.table import (
    OF_FUNCTIONS,
    OPTIONS,
    SETTINGS,
    Flag,
    accepted,
    from_environment,
)
from mjaxlib_shim import guards
from mjaxlib_shim.client import set_cpu_asynchronous, set_num_cpu_devices

if TYPE_CHECKING:
    from mjax._engine.base.flag_types import Flags
    from mjax._engine.base.signatures import DisableJit, Setter, Switch


def by_owner(*entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last entry of each owner, in one order; the first part of an entry is its owner."""
    found = {entry[0]: entry for several in entries for entry in several}
    return tuple([found[owner] for owner in sorted(found, key=id)])


def _for_process(effect: Callable[[Any], None]) -> Callable[[Any, bool], None]:
    """An effect of values for the whole process; values for a thread do not have it."""
    return lambda value, everywhere: effect(value) if everywhere else None


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
#: Flag -> what its values do: told each value, and whether it is for the whole process; None: this
#: thread does not have a value of its own any more.
_EFFECTS: dict[str, Callable[[Any, bool], None]] = {
    "num_cpu_devices": _for_process(set_num_cpu_devices),
    "cpu_enable_async_dispatch": _for_process(set_cpu_asynchronous),
    **{f"transfer_guard_{direction}": functools.partial(guards.set_level, direction)
       for direction in guards.DIRECTIONS},
}
#: Flag -> its value where both the process and a thread have one; others: the thread's.
_JOINED: dict[str, Callable[[Any, Any], Any]] = {"user_contexts": by_owner}
_interned: dict[tuple[Any, ...], Values] = {}


class _Defaults:
    """`ThreadState.settings` for dispatch: attributes of classes take ten times as long to read."""

    __slots__ = ("settings",)
    settings: Settings


#: The settings of threads that do not have their own.
defaults = _Defaults()
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
    value = accepted(flag, value)
    if flag.accepts is None and flag.name in checks:
        checks[flag.name](value)
    return value


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
        joined = {name: _JOINED[name](process[name], local[name]) for name in local
                  if name in _JOINED}
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

    def __repr__(self) -> str:
        defaults = {name: flag.default for name, (flag, *_) in _FLAGS.items()}
        changed = [f"{name}={value!r}" for name, value in self.values.items()
                   if name not in OF_FUNCTIONS and value != defaults[name]]
        return f"<mjax.config: {', '.join(changed) or 'the defaults'}>"

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
        defaults.settings = ThreadState.settings
    _refresh(field, kind)


config: Flags = cast("Flags", Config())  # type checkers know the names of flags
ThreadState.settings = _intern(Settings, {f.name: from_environment(f) for f in SETTINGS})
defaults.settings = ThreadState.settings
ThreadState.options = _intern(Options, {f.name: from_environment(f) for f in OPTIONS})


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
    if name in _EFFECTS:
        _EFFECTS[name](value, everywhere)


def flag_manager(name: str, *default: Any, keyword: str = "new_val") -> Any:
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
        f"{flag.doc}\n\n    A context manager that sets the flag in this thread.\n\n    Args:\n"
        f"      {keyword}: the value, as `mjax.config.update` takes it.\n\n    Returns:\n"
        "      A context manager.\n\n"
        "    Raises:\n      ValueError: the flag does not take the value.\n\n    Example:\n"
        f"      >>> with mjax.{name}({shown!r}):\n"
        f"      ...   print(mjax.config.jax_{name})\n      {shown}\n")
    return manager


enable_x64: Switch = flag_manager("enable_x64", True)
disable_jit: DisableJit = flag_manager("disable_jit", True, keyword="disable")
numpy_dtype_promotion: Setter = flag_manager("numpy_dtype_promotion")
numpy_rank_promotion: Setter = flag_manager("numpy_rank_promotion")
default_matmul_precision: Setter = flag_manager("default_matmul_precision")
default_device: Setter = flag_manager("default_device")
default_prng_impl: Setter = flag_manager("default_prng_impl")
threefry_partitionable: Switch = flag_manager("threefry_partitionable", True)
enable_checks: Switch = flag_manager("enable_checks", True)
checking_leaks: Switch = flag_manager("check_tracer_leaks", True)
log_compiles: Switch = flag_manager("log_compiles", True)
explain_cache_misses: Switch = flag_manager("explain_cache_misses", True)
debug_nans: Switch = flag_manager("debug_nans", True)
debug_infs: Switch = flag_manager("debug_infs", True)
transfer_guard: Setter = flag_manager("transfer_guard")
transfer_guard_host_to_device: Setter = flag_manager("transfer_guard_host_to_device")
transfer_guard_device_to_device: Setter = flag_manager("transfer_guard_device_to_device")
transfer_guard_device_to_host: Setter = flag_manager("transfer_guard_device_to_host")
traceback_filtering: Setter = flag_manager("traceback_filtering")
check_tracer_leaks: Switch = flag_manager("check_tracer_leaks", True)
legacy_prng_key: Setter = flag_manager("legacy_prng_key")
allow_f16_reductions: Switch = flag_manager("allow_f16_reductions", True)
no_tracing: Switch = flag_manager("no_tracing", True)
no_execution: Switch = flag_manager("no_execution", True)

# Flags of the environment that act on more than a value.
for _flag in OPTIONS:
    if (_flag.sets or _flag.name in _EFFECTS) and config.values[_flag.name] is not None:
        set_global(_flag.name, config.values[_flag.name])
