"""Compiled programs on disk: a second process compiles nothing, damage is repaired."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import monitoring
from mjax._engine.base.config import override
from mjax._engine.runtime.dispatch import disk_cache

HIT, MISS = "/jax/compilation_cache/cache_hits", "/jax/compilation_cache/cache_misses"
COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def events():
    seen = []
    hear, time_of = (lambda event, **_: seen.append(event)), (lambda event, *_, **__:
                                                             seen.append(event))
    monitoring.register_event_listener(hear)
    monitoring.register_event_duration_secs_listener(time_of)
    yield seen
    monitoring.unregister_event_listener(hear)
    monitoring.unregister_event_duration_listener(time_of)


@pytest.fixture
def folder(tmp_path):
    with override(compilation_cache_dir=str(tmp_path / "cache"),
                  persistent_cache_min_compile_time_secs=0):
        yield tmp_path / "cache"


def run(x=None, k=3.0):
    """Compiles a program of its own, in a function that was never traced."""
    return mjax.jit(lambda x: jnp.sin(x) * k)(np.ones(3, np.float32) if x is None else x)


def count(events):
    found = tuple(events.count(name) for name in (HIT, MISS, COMPILED))
    events.clear()
    return found


TWO_RUNS = """
import numpy as np, mjax, mjax.numpy as jnp
from mjax import lax, monitoring, random
from mjax.sharding import NamedSharding, PartitionSpec as P
seen = []
monitoring.register_event_duration_secs_listener(lambda event, *_, **__: seen.append(event))
x = jnp.arange(6.0).reshape(2, 3)
print(mjax.jit(mjax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2)))(x), x @ x.T)
print(random.normal(random.key(0), (3,)), lax.fori_loop(0, 3, lambda i, c: c * 2.0, x))
mesh = mjax.make_mesh((2,), ("i",))
y = mjax.device_put(np.arange(4, dtype=np.float32), NamedSharding(mesh, P("i")))
print(mjax.jit(lambda y: (y * 2, y.sum()))(y))
z = jnp.ones(3)
print(mjax.jit(lambda z: z + 1, donate_argnums=0)(z), z.is_deleted())
print(seen.count("/jax/core/compile/backend_compile_duration"))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing(tmp_path):
    environment = os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS":
        "0", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    outputs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", TWO_RUNS], env=environment, text=True,
                              capture_output=True)
        assert done.returncode == 0, done.stderr
        *values, compiled = done.stdout.strip().split("\n")
        outputs.append((values, int(compiled)))
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][1] > 5 and outputs[1][1] == 0, outputs


def test_hits_and_misses(folder, events):
    for _ in range(2):
        np.testing.assert_allclose(run(), 3 * np.sin(np.ones(3)), rtol=1e-6)
    assert count(events) == (1, 1, 1)
    run(k=4.0)
    assert count(events) == (0, 1, 1)  # another program
    mjax.jit(lambda x: jnp.sin(x) * 3.0, compiler_options={"xla_cpu_enable_fast_math": True})(
        np.ones(3, np.float32))
    assert count(events) == (0, 1, 1)  # another option
    with override(enable_compilation_cache=False):
        run()
    assert count(events) == (0, 0, 1)
    with override(compilation_cache_include_metadata_in_key=True):
        run()
    assert count(events) == (0, 1, 1)


def test_what_is_not_kept(folder, events):
    with override(persistent_cache_min_compile_time_secs=1000):
        run(k=1.5)
    with override(persistent_cache_min_entry_size_bytes=10**9):
        run(k=1.5)
    with override(compilation_cache_max_size=0):
        run(k=1.5)
    mjax.jit(lambda x: mjax.pure_callback(np.sin, x, x))(np.ones(3, np.float32))  # calls Python
    assert count(events)[0] == 0 and not folder.exists()


@pytest.mark.parametrize("damage", [
    lambda data: data[:-1], lambda data: b"", lambda data: data[:100] + b"?" + data[101:],
    lambda data: b"another format" + data])
def test_damaged_entries_are_compiled_again(folder, events, damage):
    run(k=2.5)
    (entry,) = folder.iterdir()
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    with pytest.warns(UserWarning, match="cannot be read: ValueError: it is damaged"):
        np.testing.assert_allclose(run(k=2.5), 2.5 * np.sin(np.ones(3)), rtol=1e-6)
    assert count(events) == (0, 2, 2)
    run(k=2.5)
    assert count(events) == (1, 0, 0)
    entry.write_bytes(damage(good))
    with override(raise_persistent_cache_errors=True), pytest.raises(RuntimeError, match="damaged"):
        run(k=2.5)


def test_entries_that_jaxlib_cannot_load(folder, events):
    run(k=3.5)
    (entry,) = folder.iterdir()
    disk_cache._write(str(entry), b"no program")
    with pytest.warns(UserWarning, match="cannot be read"):
        run(k=3.5)
    assert count(events) == (0, 2, 2)


def test_a_folder_that_cannot_be_written(tmp_path, events):
    (tmp_path / "file").write_text("")
    with override(compilation_cache_dir=str(tmp_path / "file"),
                  persistent_cache_min_compile_time_secs=0), pytest.warns(
                      UserWarning, match="cannot be"):
        run(k=5.5)
    assert count(events) == (0, 1, 1)


def test_a_folder_that_disappears(folder, events, monkeypatch):
    monkeypatch.setattr(disk_cache.os, "makedirs", lambda *_, **__: None)
    with pytest.warns(UserWarning, match="cannot be written: FileNotFoundError"):
        run(k=6.5)
    with override(raise_persistent_cache_errors=True), pytest.raises(
            RuntimeError, match="cannot be written: FileNotFoundError"):
        run(k=6.5)


def test_an_entry_that_disappears(folder, events, monkeypatch):
    def gone(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(disk_cache.os, "utime", gone)
    with override(compilation_cache_max_size=10**9):
        run(k=7.5)
        run(k=7.5)
    assert count(events) == (0, 2, 2)


def test_the_largest_size(folder, events):
    run(k=0.25)
    (first,) = folder.iterdir()
    size = first.stat().st_size
    with override(compilation_cache_max_size=2 * size + 100):
        time.sleep(0.01)
        run(k=0.5)
        time.sleep(0.01)
        run(k=0.25)  # is used: the other one is older now
        time.sleep(0.01)
        run(k=0.75)
        assert len(list(folder.iterdir())) == 2 and first.exists()
    with override(compilation_cache_max_size=10), pytest.warns(
            UserWarning, match="compilation_cache_max_size is 10"):
        run(k=0.125)
