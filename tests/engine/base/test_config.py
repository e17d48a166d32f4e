"""Flags: names, values, environment variables, context managers, threads, cache keys."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base import config as module
from mjax._engine.base.config import config, override
from mjax._engine.base.thread import thread
from mjax._engine.ir.annotations import Annotations
from mjax._engine.ir.mesh import AbstractMesh
from mjax._flags.table import OPTIONS, SETTINGS

#: Those of mjax; test_flags_page has the others of JAX.
FLAGS = [flag for flag in (*SETTINGS, *OPTIONS) if flag.foreign is None]


def python(code, **environment):
    """The output of a fresh interpreter, without the flags of this one."""
    names = {prefix + f.name.upper() for f in FLAGS for prefix in ("MJAX_", "JAX_")}
    env = {k: v for k, v in os.environ.items() if k not in names} | environment
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["enable_x64", "jax_enable_x64", "mjax_enable_x64"])
def test_names_are_accepted_bare_and_with_a_prefix(name):
    assert config.read(name) is False
    with override(**{name: True}):
        assert config.enable_x64 and config.jax_enable_x64 and config.read("mjax_enable_x64")
    assert not config.enable_x64


@pytest.mark.parametrize("use", [
    lambda: config.read("enable_x65"), lambda: config.update("enable_x65", True),
    lambda: config.enable_x65, lambda: setattr(config, "enable_x65", 1),
    lambda: override(enable_x65=True).__enter__(),
])
def test_misspelled_flags_are_refused_with_the_right_spelling(use):
    with pytest.raises(AttributeError,
                       match=r"no flag named .enable_x65.\. Did you mean 'enable_x64'\?"):
        use()


def test_unknown_flags_are_refused_with_the_list():
    with pytest.raises(AttributeError, match=r"no flag named .qqq.*enable_x64, explain") as caught:
        config.update("qqq", True)
    assert "mesh_for_all" not in str(caught.value)
    assert {entry.path.name for entry in caught.traceback} == {"test_config.py"}


@pytest.mark.parametrize(("name", "value", "accepted"), [
    ("enable_x64", "yes", "True or False"), ("enable_x64", 2, "True or False"),
    ("enable_x64", None, "True or False"), ("numpy_rank_promotion", "maybe", "'raise'"),
    ("numpy_dtype_promotion", True, "'strict'"), ("default_matmul_precision", "best", "'highest'"),
])
def test_values_that_a_flag_does_not_take(name, value, accepted):
    before = config.values
    with pytest.raises(ValueError, match=f"{name}.*{accepted}"):
        config.update(name, value)
    with pytest.raises(ValueError, match=name), override(**{name: value}):
        pass
    assert config.values == before


def test_numbers_are_accepted_for_booleans():
    with override(enable_x64=1):
        assert config.enable_x64 is True


@pytest.mark.parametrize("value", ["foo", None, 3])
def test_generators_of_keys_that_are_none(value):
    with pytest.raises(ValueError, match="must be one of 'philox2x32', 'philox4x32'"):
        config.update("jax_default_prng_impl", value)
    assert config.default_prng_impl == "threefry2x32"


def test_built_in_generators_of_keys_are_known_before_they_load():
    code = """
import mjax
try:
    mjax.config.update('jax_default_prng_impl', 'foo')
except ValueError as error:
    print(error)
mjax.config.update('jax_default_prng_impl', 'rbg')
import mjax.random
from mjax._engine.primitives import keys
print(mjax.random.key(0).dtype, sorted(keys.registry) == sorted(keys.BUILT_IN))
"""
    refused, dtype = python(code).split("\n")
    assert "must be one of 'philox2x32', 'philox4x32', 'rbg'" in refused
    assert dtype == "key<rbg> True"


@pytest.mark.slow
def test_platforms_that_are_not_there():
    for flag in ("platforms", "platform_name"):
        code = "import mjax; print(mjax.default_backend())"
        assert python(code, **{"JAX_" + flag.upper(): "cpu"}) == "cpu"
        with pytest.raises(AssertionError, match=f"platform 'gpu' is not available.*'{flag}'"):
            python(code, **{"JAX_" + flag.upper(): "gpu"})
    with pytest.raises(AssertionError, match="platform 'tpu' is not available"):
        python("import mjax; mjax.config.update('jax_platforms', 'cpu,tpu'); mjax.devices()")
    with pytest.raises(ValueError, match="platforms must be the names of platforms"):
        config.update("jax_platforms", 3)


def test_all_values_are_found_under_both_names():
    assert config.values["jax_enable_x64"] is config.values["enable_x64"] is False
    with pytest.raises(KeyError, match="enable_x65"):
        config.values["jax_enable_x65"]


def test_the_names_of_the_values_that_managers_take():
    with mjax.enable_x64(new_val=True), mjax.disable_jit(disable=True):
        assert config.enable_x64 and config.disable_jit
    with mjax.disable_jit(True), mjax.disable_jit(disable=False):
        assert not config.disable_jit
    with pytest.raises(TypeError, match="as disable="):
        mjax.disable_jit(enable=True)
    with pytest.raises(TypeError, match="as new_val=.*1 by place"):
        mjax.enable_x64(True, new_val=True)


def test_initial_values():
    print_all = ("from mjax._engine.base.config import config\n"
                 "print(sorted(map(str, config.values.items())))")
    assert python(print_all) == str(sorted(str((f.name, f.default)) for f in (*SETTINGS, *OPTIONS)))


@pytest.mark.parametrize(("environment", "expected"), [
    pytest.param({"MJAX_ENABLE_X64": "1"}, {"enable_x64": "True"}, marks=pytest.mark.slow),
    pytest.param({"JAX_ENABLE_X64": "True", "MJAX_TRACEBACK_FILTERING": "off"},
                 {"enable_x64": "True", "traceback_filtering": "off"}, marks=pytest.mark.slow),
    ({"MJAX_ENABLE_X64": "off", "JAX_ENABLE_X64": "on", "JAX_NUMPY_RANK_PROMOTION": "raise",
      "MJAX_DEFAULT_MATMUL_PRECISION": "highest", "JAX_DEFAULT_PRNG_IMPL": "rbg"},
     {"enable_x64": "False", "numpy_rank_promotion": "raise",
      "default_matmul_precision": "highest", "default_prng_impl": "rbg"}),
])
def test_environment_variables(environment, expected):
    code = "from mjax._engine.base.config import config; print("
    read = code + ", ".join(f"config.{name}" for name in expected) + ")"
    assert python(read, **environment) == " ".join(expected.values())


NUMBER = "import mjax; mjax.config.update('jax_num_cpu_devices', 5); "
COUNT = "import mjax; print(len(mjax.devices()), mjax.config.num_cpu_devices)"


@pytest.mark.parametrize(("code", "environment", "expected"), [
    (COUNT, {"JAX_NUM_CPU_DEVICES": "2"}, "2 2"),  # more than what conftest.py asks XLA for
    *[pytest.param(*case, marks=pytest.mark.slow) for case in [
        (NUMBER + "mjax.devices(); " + NUMBER + COUNT, {}, "5 5"),
        (COUNT, {"MJAX_NUM_CPU_DEVICES": "3", "XLA_FLAGS": ""}, "3 3"),
        (COUNT, {"MJAX_NUM_CPU_DEVICES": "-1", "XLA_FLAGS": ""}, "1 -1"),
        (COUNT, {"XLA_FLAGS": "--xla_force_host_platform_device_count=4"}, "4 -1"),
        (NUMBER + COUNT, {"MJAX_NUM_CPU_DEVICES": "3"}, "5 5"),
        ("import mjax; mjax.config.num_cpu_devices = 6; " + COUNT, {"XLA_FLAGS": ""}, "6 6")]],
])
def test_number_of_cpu_devices(code, environment, expected):
    assert python(code, **environment) == expected


@pytest.mark.parametrize(("code", "environment", "error"), [
    ("import mjax; mjax.numpy.ones(2) + 1; " + NUMBER, {},
     "RuntimeError: num_cpu_devices cannot become 5 any more: the CPU's devices are in use. Set it "
     "before the first computation, or set the environment variable MJAX_NUM_CPU_DEVICES=5"),
    *[pytest.param(*case, marks=pytest.mark.slow) for case in [
        ("import mjax; mjax.config.num_cpu_devices = 0", {}, "must be at least 1 (or -1: not set)"),
        ("import mjax; mjax.config.num_cpu_devices = 2.0", {}, "takes an integer; got 2.0"),
        ("import mjax", {"MJAX_NUM_CPU_DEVICES": "many"}, "MJAX_NUM_CPU_DEVICES: config flag")]],
])
def test_numbers_of_cpu_devices_that_cannot_be(code, environment, error):
    caught = f"try:\n {code}\nexcept Exception as e: print(f'{{type(e).__name__}}: {{e}}')"
    assert error in python(caught, **environment)


DISPATCH = """
import mjax, numpy as np
{before}
f = mjax.jit(lambda x: mjax.numpy.linalg.norm(mjax.lax.fori_loop(0, 20, lambda i, y: y @ x, x)))
x = np.eye(400, dtype=np.float32)
f(x).block_until_ready()
print([f(x).is_ready() for _ in range(5)] == [True] * 5)
"""
NOW = "mjax.config.update('jax_cpu_enable_async_dispatch', False)"


@pytest.mark.parametrize(("before", "environment", "expected"), [
    (NOW, {}, "True"),
    *[pytest.param(*case, marks=pytest.mark.slow) for case in [
        ("", {}, "False"), ("", {"JAX_CPU_ENABLE_ASYNC_DISPATCH": "0"}, "True"),
        ("mjax.devices(); " + NOW, {}, "False")]],  # too late
])
def test_computations_on_cpu_are_asynchronous_unless_told(before, environment, expected):
    assert python(DISPATCH.format(before=before), **environment) == expected


def test_a_value_that_is_refused_is_not_set():
    with pytest.raises(RuntimeError, match="any more"):
        mjax.devices() and config.update("num_cpu_devices", 77)
    assert config.num_cpu_devices == -1


def test_environment_variables_with_bad_values_name_themselves():
    code = ("try:\n  import mjax\nexcept ValueError as e: print(e)")
    assert "MJAX_NUMPY_RANK_PROMOTION" in python(code, MJAX_NUMPY_RANK_PROMOTION="never")
    assert "JAX_ENABLE_X64" in python(code, JAX_ENABLE_X64="perhaps")


def test_managers_nest_and_undo_after_errors():
    with mjax.enable_x64(True):
        with mjax.enable_x64(False), mjax.numpy_rank_promotion("raise"):
            assert (config.enable_x64, config.numpy_rank_promotion) == (False, "raise")
        assert (config.enable_x64, config.numpy_rank_promotion) == (True, "allow")
        with pytest.raises(RuntimeError), mjax.enable_x64(False):
            raise RuntimeError
        assert config.enable_x64
        with pytest.raises(ValueError), override(enable_x64=False, numpy_rank_promotion="x"):
            pass
        assert config.enable_x64
    assert not config.enable_x64


def test_managers_without_argument():
    with mjax.enable_x64():
        assert config.enable_x64
    with pytest.raises(TypeError, match="numpy_rank_promotion"):
        mjax.numpy_rank_promotion()
    with pytest.raises(TypeError):
        mjax.enable_x64(True, False)


def test_managers_hold_in_their_thread_only():
    seen = {}

    def work(name):
        seen[name, "before"] = config.enable_x64
        with mjax.enable_x64(True):
            seen[name, "within"] = mjax.typeof(1.0).dtype

    with mjax.enable_x64(True):
        thread = threading.Thread(target=work, args=("a",))
        thread.start()
        thread.join()
        assert config.enable_x64
    assert seen == {("a", "before"): False, ("a", "within"): np.float64}


def test_updates_reach_all_threads_but_no_manager():
    ready, go, seen = threading.Event(), threading.Event(), []

    def plain():
        ready.set()
        go.wait(5)
        seen.append(config.numpy_rank_promotion)
        with mjax.enable_x64(True):
            seen.append(config.numpy_rank_promotion)

    thread = threading.Thread(target=plain)
    thread.start()
    ready.wait(5)
    try:
        config.update("numpy_rank_promotion", "warn")
        go.set()
        thread.join()
        assert seen == ["warn", "warn"]
        with mjax.numpy_rank_promotion("raise"):
            config.update("numpy_rank_promotion", "allow")
            assert config.numpy_rank_promotion == "raise"
        assert config.numpy_rank_promotion == "allow"
    finally:
        config.update("numpy_rank_promotion", "allow")


def test_updates_reach_threads_inside_a_manager_of_another_flag():
    ready, go, seen = threading.Event(), threading.Event(), []

    def within():
        with mjax.enable_x64(True):
            ready.set()
            go.wait(5)
        seen.append(config.numpy_rank_promotion)

    thread = threading.Thread(target=within)
    thread.start()
    ready.wait(5)
    try:
        config.update("numpy_rank_promotion", "warn")
        go.set()
        thread.join()
        assert seen == ["warn"]
    finally:
        config.update("numpy_rank_promotion", "allow")


def test_threads_that_set_two_flags_do_not_undo_each_other(monkeypatch):
    intern, barrier = module._intern, threading.Barrier(2)

    def slowly(kind, values):
        try:
            barrier.wait(0.2)  # both have read the old values, if nothing keeps them apart
        except threading.BrokenBarrierError:
            pass
        return intern(kind, values)

    monkeypatch.setattr(module, "_intern", slowly)
    new = {"numpy_rank_promotion": "warn", "numpy_dtype_promotion": "strict"}
    old = {name: config.read(name) for name in new}
    threads = [threading.Thread(target=config.update, args=item) for item in new.items()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    try:
        assert {name: config.read(name) for name in new} == new
    finally:
        monkeypatch.undo()
        for item in old.items():
            config.update(*item)


def test_the_repr_names_what_differs_from_the_defaults():
    with override(**{flag.name: flag.default for flag in FLAGS if flag.accepts}):
        assert repr(config) == "<mjax.config: the defaults>"
        with mjax.enable_x64(True), mjax.numpy_rank_promotion("warn"):
            assert repr(config) == "<mjax.config: enable_x64=True, numpy_rank_promotion='warn'>"
        with mjax.set_mesh(mjax.make_mesh((1,), ("x",))):
            assert repr(config) == "<mjax.config: the defaults>"


def test_attributes_set_flags():
    try:
        config.numpy_rank_promotion = "warn"
        assert mjax.config.values["numpy_rank_promotion"] == "warn"
    finally:
        config.update("jax_numpy_rank_promotion", "allow")
    assert {f.name for f in FLAGS} <= set(dir(config))


def test_equal_settings_are_one_object():
    plain = thread.settings
    with mjax.enable_x64(True):
        wide = thread.settings
        assert wide is not plain
        with mjax.enable_x64(False):
            assert thread.settings is plain
    with override(enable_x64=True):
        assert thread.settings is wide
    assert thread.settings is plain and "enable_x64=False" in repr(plain)


def test_interning_is_atomic():
    made, barrier = [], threading.Barrier(8)

    def make():
        barrier.wait()
        for n in range(100, 200):
            with override(mesh=n):
                made.append((n, id(thread.settings)))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(made)) == 100


@pytest.mark.parametrize("flag", [f for f in OPTIONS if f in FLAGS], ids=lambda f: f.name)
def test_options_are_in_no_cache_key(flag):
    before = thread.settings
    some = {bool: True, int: 7, float: 7.0, None: "cpu"}
    with override(**{flag.name: some[flag.accepts] if flag.accepts in some else flag.accepts[1]}):
        assert thread.settings is before


def test_each_setting_is_in_the_cache_keys():
    traces = []
    f = mjax.jit(lambda x: (traces.append(1), lax.neg(x))[1])
    x = np.float32(2)
    others = {"enable_x64": True, "numpy_dtype_promotion": "strict",
              "numpy_rank_promotion": "raise", "default_matmul_precision": "highest",
              "default_device": mjax.devices()[0], "mesh": AbstractMesh((2,), ("x",)),
              "mesh_for_all": True, "default_prng_impl": "rbg",
              "threefry_partitionable": False, "disable_jit": True, "debug_nans": True,
              "debug_infs": True, "explicit_x64_dtypes": "allow",
              "check_static_indices": True, "random_seed_offset": 1,
              "legacy_prng_key": "warn", "allow_f16_reductions": False,
              "user_contexts": ((None, int, 3),), "annotations": Annotations("device")}
    assert set(others) == {s.name for s in SETTINGS} - {"no_execution"}  # f would not run
    f(x)
    for n, (name, value) in enumerate(others.items()):
        with override(**{name: value}):
            f(x)
        f(x)
        assert len(traces) == n + 2, name


def test_managers_say_what_they_are():
    for name in ("enable_x64", "disable_jit", "default_device", "log_compiles"):
        manager = getattr(mjax, name)
        assert manager.__name__ == name and name in manager.__doc__
    assert module.config is mjax.config
