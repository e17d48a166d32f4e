"""Python callbacks and ordered effects of programs over several devices: each happens once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.experimental import io_callback
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P
from mjaxlib_shim import gates

X = np.arange(32, dtype=np.float32).reshape(8, 4)
LIKE = mjax.ShapeDtypeStruct(X.shape, X.dtype)
#: Before, a side effect has no device that it happens on.
needs_ffi = pytest.mark.skipif(not gates.FFI_CALLBACKS.open,
                               reason="side effects over several devices need jaxlib 0.6.0")


@pytest.fixture
def x():
    return mjax.device_put(X, NamedSharding(mjax.make_mesh((4, 2), ("x", "y")), P("x", "y")))


def test_pure(x):
    f = mjax.jit(lambda x: mjax.pure_callback(lambda v: np.asarray(v) * 2, LIKE, x) + 1)
    np.testing.assert_array_equal(f(x), X * 2 + 1)
    out = mjax.pure_callback(lambda v: np.asarray(v) * 2, LIKE, x)
    np.testing.assert_array_equal(out, X * 2)

    def two(v):
        return np.asarray(v).sum(), np.asarray(v).T

    like = mjax.ShapeDtypeStruct((), "float32"), mjax.ShapeDtypeStruct((4, 8), "float32")
    total, rows = mjax.jit(lambda x: mjax.pure_callback(two, like, x))(x)
    assert total == X.sum()
    np.testing.assert_array_equal(rows, X.T)


@needs_ffi
@pytest.mark.parametrize("ordered", [False, True])
def test_side_effects_happen_once_with_whole_arrays(x, ordered):
    seen = []

    def double(v):
        seen.append(np.asarray(v))
        return np.asarray(v) * 2

    f = mjax.jit(lambda x: io_callback(double, LIKE, x, ordered=ordered) + 1)
    np.testing.assert_array_equal(f(x), X * 2 + 1)
    mjax.effects_barrier()
    (value,) = seen
    np.testing.assert_array_equal(value, X)


@needs_ffi
@pytest.mark.parametrize("ordered", [False, True])
def test_debug_callbacks(x, ordered, capfd):
    def f(x):
        mjax.debug.print("the sum is {}", x.sum(), ordered=ordered)
        return x + 1

    out = mjax.jit(f)(x)
    mjax.effects_barrier()
    assert capfd.readouterr().out == f"the sum is {X.sum()}\n"
    assert out.sharding is x.sharding


@needs_ffi
def test_order_holds_over_programs_on_different_devices(x):
    seen = []
    there = mjax.device_put(0, mjax.devices()[3])

    @mjax.jit
    def f(x, i):
        io_callback(lambda i: seen.append(int(i)), None, i, ordered=True)
        return x

    for i in range(24):
        f((x, 0, there)[i % 3], i)
    mjax.effects_barrier()
    assert seen == list(range(24))


@pytest.mark.skipif(gates.FFI_CALLBACKS.open, reason="says what jaxlibs before 0.6.0 do")
def test_side_effects_before_there_was_a_way(x):
    with pytest.raises(NotImplementedError, match=r"side effects .* need jaxlib 0.6.0"):
        mjax.jit(lambda x: mjax.debug.callback(print, jnp.sum(x)))(x)


# ---- failures --------------------------------------------------------------------------


@needs_ffi
def test_what_a_callback_raises_on_every_device_is_raised_and_logged(caplog):
    def fail(v):
        raise ValueError("no such value")

    like = mjax.ShapeDtypeStruct((1,), "float32")
    f = mjax.jit(mjax.shard_map(
        lambda x: mjax.lax.psum(mjax.pure_callback(fail, like, x), "x"),
        mesh=mjax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P(), check_vma=False))
    with pytest.raises(ValueError, match="no such value") as caught:
        f(X[:, 0]).block_until_ready()
    assert caught.traceback[-1].name == "fail"
    record = caplog.records[0]
    assert (record.name, record.levelname) == ("mjax", "ERROR")
    assert "failed in a program over several devices" in record.getMessage()
    assert type(record.exc_info[1]) is ValueError
    assert mjax.jit(lambda x: x + 1)(1) == 2


@pytest.mark.skipif(gates.FFI_CALLBACKS.open, reason="says what jaxlibs before 0.6.0 do")
def test_what_a_callback_raises_on_every_device_of_older_jaxlibs():
    """In a process of its own: programs over several devices fail from then on."""
    code = """
        import mjax, mjax.numpy as jnp
        from mjax import lax
        from mjax.sharding import PartitionSpec as P

        def fail(v):
            raise ValueError("no such value")
        like = mjax.ShapeDtypeStruct((1,), "float32")
        f = mjax.jit(mjax.shard_map(
            lambda x: lax.psum(mjax.pure_callback(fail, like, x), "x"),
            mesh=mjax.make_mesh((8,), ("x",)), in_specs=P("x"), out_specs=P(), check_vma=False))
        try:
            f(jnp.arange(8.0)).block_until_ready()
        except ValueError as error:
            print(error, mjax.jit(lambda x: x + 1)(1))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], text=True, timeout=60,
                          capture_output=True)
    assert done.stdout.startswith("no such value") and done.stdout.strip().endswith("2")
    assert "failed in a program over several devices" in done.stderr


def test_what_is_raised_while_others_wait_is_told_before_xla_ends_the_process():
    """XLA does so after 40 seconds; the test does after the log."""
    code = """
        import mjax, mjax.numpy as jnp
        from mjax import lax
        from mjax.sharding import PartitionSpec as P

        like = mjax.ShapeDtypeStruct((1,), "float32")
        def fail(v):
            raise ValueError("no such value")
        def body(x):
            y = lax.cond(lax.axis_index("x") == 3, lambda x: mjax.pure_callback(fail, like, x),
                         lambda x: x, x)
            return lax.psum(y, "x")
        mesh = mjax.make_mesh((8,), ("x",))
        mjax.jit(mjax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P(),
                                check_vma=False))(jnp.arange(8.0)).block_until_ready()
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], text=True,
                               stderr=subprocess.PIPE)
    timer = threading.Timer(60, process.kill)
    timer.start()
    try:
        told = []
        for line in process.stderr:
            told.append(line)
            if line.startswith("ValueError: no such value"):
                break
        else:
            pytest.fail("".join(told))
        assert any("line 8, in fail" in line for line in told), told
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
