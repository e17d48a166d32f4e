"""Clients of platforms and options for XLA; programs for plugins, contexts of MLIR."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax_ext import backend, ifrt_programs, lowering
from mjaxlib_shim import client as shim


@pytest.fixture
def platforms():
    """Factories that a test registers are gone afterwards."""
    before = dict(shim._FACTORIES)
    yield
    shim._FACTORIES.clear()
    shim._FACTORIES.update(before)


def test_clients_are_found_by_platform():
    client = backend.get_backend()
    assert client is backend.get_backend("cpu") is backend.get_backend(client)
    assert client.devices() == mjax.devices() and backend.backends()["cpu"] is client
    assert backend.get_default_device() == mjax.devices()[0]
    with mjax.default_device(mjax.devices()[-1]):
        assert backend.get_default_device() == mjax.devices()[-1]
    assert backend.backend_xla_version() is None
    with pytest.raises(RuntimeError, match="platform 'abacus' is not available"):
        backend.get_backend("abacus")


def test_platforms_have_names():
    assert backend.platform_aliases == {"cuda": "gpu", "rocm": "gpu"}
    known = [name for name in ("cpu", "gpu", "cuda", "abacus") if backend.is_known_platform(name)]
    assert known == ["cpu", "gpu", "cuda"]


def test_platforms_are_registered(platforms):
    made = []

    def make():
        made.append(shim.cpu_client())
        return made[0]

    backend.register_backend_factory("mine_once", make)
    assert backend.is_known_platform("mine_once") and made == []
    device = mjax.devices("mine_once")[0]
    assert [device] == made[0].devices()[:1] and device != mjax.devices()[0]
    x = mjax.device_put(np.arange(3.0), device)
    assert lax.sin(x).devices() == {device}
    assert mjax.devices()[0].client is backend.get_backend("cpu"), "the default stays"
    with pytest.raises(RuntimeError, match="'mine_once' has a client already"):
        backend.register_backend_factory("mine_once", make)
    with pytest.raises(TypeError, match="must be a function that makes a client, got 3"):
        backend.register_backend_factory("mine_twice", 3)
    with pytest.raises(TypeError, match="the name must be a string, got 3"):
        backend.register_backend_factory(3, make)
    backend.register_backend_factory("mine_number", lambda: 3, priority=-1)
    with pytest.raises(TypeError, match="'mine_number' must return a client of jaxlib, but ret"):
        mjax.devices("mine_number")


def test_a_factory_may_fail(platforms):
    def fail():
        raise RuntimeError("no such hardware")

    backend.register_backend_factory("mine_quiet", fail)
    assert "mine_quiet" not in backend.backends()
    with pytest.raises(RuntimeError, match="no such hardware"):
        mjax.devices("mine_quiet")
    backend.register_backend_factory("mine_loud", fail, fail_quietly=False)
    with pytest.raises(RuntimeError, match="no such hardware"):
        backend.backends()


CLEARED = """
import mjax, numpy as np
from mjax_ext import backend
from mjaxlib_shim.client import cpu_client
f = mjax.jit(lambda x: x * 2.0 + np.arange(3.0))
before = mjax.devices(), f(1.0), backend.get_backend()
made = []
def make():
    made.append(cpu_client())
    return made[-1]
def fail():
    raise RuntimeError("no such hardware")
backend.register_backend_factory("second", make, priority=5)
backend.register_backend_factory("third", fail, priority=9)
assert backend.get_backend() is before[2], "the default is chosen once"
backend.clear_backends()
assert backend.get_backend() is made[0] is not before[2]
assert f(1.0).devices() == {mjax.devices()[0]} == {made[0].devices()[0]}
assert list(backend.backends()) == ["second", "cpu"]
np.testing.assert_array_equal(f(1.0), before[1])
mjax.config.update("jax_num_cpu_devices", -1)
"""


@pytest.mark.slow
def test_clients_are_dropped():
    subprocess.run([sys.executable, "-c", CLEARED], check=True)


def test_caches_of_users_are_cleared():
    calls = []
    cached = functools.cache(lambda x: calls.append(x) or x)
    backend.register_backend_cache(cached, "squares")
    for clear in (mjax.clear_caches, backend.clear_in_memory_compilation_cache):
        cached(1), cached(1)
        clear()
    assert calls == [1, 1]
    with pytest.raises(TypeError, match=r"cache for things does not have a method cache_clear\(\)"):
        backend.register_backend_cache({}, "things")


def test_options_for_xla():
    options = backend.get_compile_options(1, 1, mjax.devices()[:1], {"xla_dump_to": "x"},
                                          b"profile", detailed_logging=False)
    build = options.executable_build_options
    assert (options.num_replicas, options.num_partitions) == (1, 1)
    assert build.use_spmd_partitioning and build.use_shardy_partitioner
    assert build.fdo_profile == b"profile" and not build.debug_options.xla_detailed_logging
    assert options.env_option_overrides == [("xla_dump_to", "x")]
    assert options.device_assignment.replica_count() == 1
    assert backend.get_compile_options(2, 3, [[0, 1, 2], [3, 4, 5]]).num_partitions == 3
    assert backend.get_compile_options(2, 1).device_assignment is None
    for replicas, partitions, assignment in ((2, 1, [[0, 1]]), (1, 2, [0, 1]), (1, 1, [0, 1])):
        with pytest.raises(ValueError, match=f"{replicas} replicas of {partitions} partitions"):
            backend.get_compile_options(replicas, partitions, assignment)
    with pytest.raises(ValueError, match="unknown compile option 'no_such'"):
        backend.get_compile_options(1, 1, env_options_overrides={"no_such": 1})


def test_programs_for_plugins():
    programs = ifrt_programs.ifrt_programs
    assert isinstance(programs.make_plugin_program("text"), programs.Program)
    assert isinstance(programs.make_plugin_program(b"bytes"), programs.Program)
    assert isinstance(programs.make_plugin_compile_options(), programs.CompileOptions)
    text = mjax.jit(lax.sin).lower(1.0).as_text()
    assert isinstance(programs.make_hlo_program(text), programs.Program)


def test_contexts_of_mlir():
    context = lowering.JaxIrContext()
    context.append_dialect_registry(lowering.upstream_dialects)
    context.load_all_available_dialects()
    ir = sys.modules["jaxlib.mlir.ir"]
    assert isinstance(context, ir.Context)
    module = ir.Module.parse("func.func @f(%x: f32) -> f32 { return %x : f32 }", context)
    assert "func.func @f" in str(module)
