"""Compiled programs on disk, for other processes: the flag `compilation_cache_dir`.

An entry is a file. Its name contains that of the program, and a digest of everything that affects
compilation: module, options, devices, jaxlib, the machine. It is written under another name and
renamed, so that readers never see a part of it, and begins with a checksum. An entry that cannot be
used is compiled again, with a warning, and replaced.
"""

from __future__ import annotations

import functools
import importlib
import os
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.monitoring import CACHE_HIT, CACHE_MISS, COMPILE, record_event
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import warn
from mjax._engine.lowering.context import identifier
from mjax._engine.lowering.module import LoweredModule
from mjax._engine.runtime.dispatch.explain import log_compile, timed
from mjax._engine.runtime.dispatch.progress import progress
from mjaxlib_shim import executables as shim
from mjaxlib_shim import versions

_MAGIC = b"mjax-cache-1\n"
_SUFFIX = "-cache"


def compiled(lowered: LoweredModule, name: str, devices: Sequence[Any],
             options: Mapping[str, Any]) -> Any:
    """A program compiled for devices and loaded, from the cache if possible.

    Raises:
      XlaRuntimeError: XLA cannot compile it.
      RuntimeError: `raise_persistent_cache_errors` is set, and the cache cannot be used.
    """
    client = devices[0].client

    def compile_now() -> Any:
        with (timed("Finished XLA compilation of %s in %.6f s", name, event=COMPILE),
              progress(f"compiling jit({name})")):
            return shim.compile_module(client, lowered.module, devices, options=options,
                                       num_partitions=len(devices),
                                       host_callbacks=lowered.host_callbacks)

    if not _is_used(lowered, devices):
        return compile_now()
    path = os.path.join(str(thread.options.compilation_cache_dir),
                        f"{identifier(name)[:80]}-{_digest(lowered, devices, options)}{_SUFFIX}")
    loaded = _tried("read", path, lambda: _load(path, client, devices, options))
    if loaded is not None:
        record_event(CACHE_HIT)
        log_compile("Loaded jit(%s) from the compilation cache: %s", name, path)
        return loaded
    record_event(CACHE_MISS)
    start = time.perf_counter()
    loaded = compile_now()
    if time.perf_counter() - start >= thread.options.persistent_cache_min_compile_time_secs:
        _tried("written", path, lambda: _write(path, shim.serialize(client, loaded)))
    return loaded


def _is_used(lowered: LoweredModule, devices: Sequence[Any]) -> bool:
    """Whether the flags ask for the cache, and the program is valid in other processes."""
    options, client = thread.options, devices[0].client
    return bool(options.compilation_cache_dir and options.enable_compilation_cache
                and options.compilation_cache_max_size != 0
                and not lowered.host_callbacks and not lowered.inspections
                and not lowered.keepalives
                and all(d.process_index == client.process_index() for d in client.devices()))


def _tried(done: str, path: str, action: Callable[[], Any]) -> Any:
    """The result of an action on the cache; None, with a warning, if it fails."""
    try:
        return action()
    except Exception as error:
        text = (f"the compilation cache's entry {path} cannot be {done}: "
                f"{type(error).__name__}: {error}")
        if thread.options.raise_persistent_cache_errors:
            raise RuntimeError(text) from error
        warn(text)
        return None


# -- the key --


def sha256(content: bytes = b"") -> Any:
    """hashlib's digest; it loads with its first use, and OpenSSL with it."""
    return importlib.import_module("hashlib").sha256(content)


def _digest(lowered: LoweredModule, devices: Sequence[Any], options: Mapping[str, Any]) -> str:
    parts = [lowered.text(thread.options.compilation_cache_include_metadata_in_key),
             repr(sorted(options.items())), repr([(d.id, d.device_kind) for d in devices]),
             *_machine(), *_flags(), devices[0].client.platform,
             devices[0].client.platform_version]
    digest = sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()


@functools.cache
def _machine() -> tuple[str, ...]:
    """jaxlib's version, and the features of the processor: programs use its instructions."""
    abilities = ""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            abilities = next((line for line in file if line.startswith(("flags", "Features"))), "")
    system = os.uname().machine if hasattr(os, "uname") else os.name
    return versions.check(), system, abilities


def _flags() -> list[str]:
    """The settings in XLA_FLAGS, except for dumps and the number of CPU devices."""
    return sorted(flag for flag in os.environ.get("XLA_FLAGS", "").split()
                  if not flag.startswith(("--xla_dump", "--xla_force_host_platform_device_count")))


# -- entries --


def _load(path: str, client: Any, devices: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """The program of an entry; None if there is none. Another process may have removed it."""
    try:
        data = _read(path)
        if thread.options.compilation_cache_max_size != -1:
            os.utime(path)  # it was used now
    except FileNotFoundError:
        return None
    return shim.deserialize(client, data, devices, num_partitions=len(devices), options=options)


def _read(path: str) -> bytes:
    """The program in an entry.

    Raises:
      FileNotFoundError: the entry does not exist.
      ValueError: it is damaged.
    """
    with open(path, "rb") as file:
        content = file.read()
    start = len(_MAGIC) + 32
    if content[:len(_MAGIC)] != _MAGIC or sha256(content[start:]).digest() != (
            content[len(_MAGIC):start]):
        msg = "it is damaged; the program is compiled again"
        raise ValueError(msg)
    return zlib.decompress(content[start:])


def _write(path: str, program: bytes) -> None:
    packed = zlib.compress(program, 1)
    content = _MAGIC + sha256(packed).digest() + packed
    limit = thread.options.compilation_cache_max_size
    if len(content) < thread.options.persistent_cache_min_entry_size_bytes:
        return
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    if limit != -1:
        if len(content) > limit:
            msg = f"it has {len(content)} bytes, and compilation_cache_max_size is {limit}"
            raise ValueError(msg)
        _make_room(folder, limit - len(content))
    partial = f"{path}.{os.urandom(8).hex()}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(content)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def _make_room(folder: str, limit: int) -> None:
    """Removes the least recently used entries until the rest fits into the limit in bytes."""
    entries = []
    for entry in os.scandir(folder):
        if entry.name.endswith(_SUFFIX):
            try:
                found = entry.stat()
            except FileNotFoundError:  # another process removed it
                continue
            entries.append((found.st_mtime_ns, entry.path, found.st_size))
    total = sum(size for *_, size in entries)
    for _, path, size in sorted(entries):
        if total <= limit:
            return
        try:
            os.remove(path)
        except FileNotFoundError:
            pass
        total -= size
