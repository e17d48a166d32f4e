"""Programs that call Python run in the background; only the clock shows it."""

from __future__ import annotations

import contextvars
import copy
import io
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.effects.background import in_background
from mjax._engine.runtime.effects.pending import PendingArray
from mjax._engine.runtime.effects.tokens import local
from mjax.experimental import io_callback
from mjaxlib_shim import guards


@pytest.fixture(autouse=True)
def clean():
    mjax.effects_barrier()
    yield
    mjax.effects_barrier()


class Gate:
    """A callback that waits until it is let go."""

    def __init__(self):
        self.open = threading.Event()
        self.entered = threading.Event()
        self.seen = []

    def __call__(self, x):
        self.entered.set()
        assert self.open.wait(30)
        self.seen.append(int(np.sum(x)))

    def same(self, x):
        self(x)
        return np.asarray(x)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.open.set()


def held(gate, value=None):
    """An array whose program waits at the gate."""
    f = mjax.jit(lambda x: mjax.pure_callback(gate.same, mjax.ShapeDtypeStruct(x.shape, x.dtype),
                                              x) + 1)
    out = f(np.arange(3.0, dtype=np.float32) if value is None else value)
    assert type(out) is PendingArray
    return out


EXPECTED = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize("make", [
    lambda slow: lambda x: (mjax.debug.callback(slow, x), x + 1)[1],
    lambda slow: lambda x: (mjax.debug.callback(slow, x, ordered=True), x + 1)[1],
    lambda slow: lambda x: io_callback(slow, mjax.ShapeDtypeStruct((), np.float32), x) + 1,
    lambda slow: lambda x: mjax.pure_callback(slow, mjax.ShapeDtypeStruct((), np.float32), x) + 1,
    lambda slow: lambda x: lax.fori_loop(0, 2, lambda i, x: mjax.pure_callback(
        slow, mjax.ShapeDtypeStruct((), np.float32), x), x) + 1,
], ids=["debug", "ordered", "io", "pure", "loop"])
def test_a_slow_callback_does_not_block_dispatch(make):
    times = {}

    def slow(x):
        time.sleep(0.4)
        times["called"] = time.perf_counter()
        return x

    f, unrelated = mjax.jit(make(slow)), mjax.jit(lambda x: x * 2)
    f(np.float32(0)), unrelated(np.float32(0))  # compiled
    mjax.effects_barrier()
    mjax.block_until_ready(f(np.float32(0)))
    start = time.perf_counter()
    out = f(np.float32(1))
    other = unrelated(np.float32(21)).block_until_ready()
    dispatched = time.perf_counter()
    assert float(other) == 42
    mjax.effects_barrier()
    done = time.perf_counter()
    assert float(out) == 2
    assert dispatched < times["called"] <= done and done - start >= 0.4


def test_pending_arrays_become_arrays(gate):
    out = held(gate)
    assert isinstance(out, mjax.Array) and not out.is_ready() and not out.is_deleted()
    assert out.shape == (3,) and out.dtype == np.float32 and str(out.aval) == "float32[3]"
    assert len(out.devices()) == 1
    gate.open.set()
    np.testing.assert_array_equal(out, EXPECTED)
    assert type(out) is Array and out.is_ready()


USES = {
    "operator": lambda x: x + x,
    "function": jnp.sum,
    "two": lambda x: jnp.where(x > 1, x, 0),
    "index": lambda x: x[1],
    "slice": lambda x: x[1:],
    "update": lambda x: x.at[0].set(5),
    "method": lambda x: x.astype(np.int32),
    "jit": mjax.jit(lambda x: x * 2),
    "jit of several": mjax.jit(lambda x, y, z: x * y + z).__call__,
    "closed over": lambda x: mjax.jit(lambda y: x * y)(2.0),
    "lower": lambda x: mjax.jit(lambda x: x * 2).lower(x).compile()(x),
    "grad": mjax.grad(lambda x: jnp.sum(x ** 2)),
    "vmap": mjax.vmap(lambda x: x * 2),
    "scan": lambda x: lax.scan(lambda c, x: (c + x, c), jnp.float32(0), x),
    "numpy": np.asarray,
    "ufunc": np.sin,
    "dlpack": np.from_dlpack,
    "buffer": lambda x: np.asarray(memoryview(np.asarray(x))),
    "copy": copy.deepcopy,
    "jnp.array": jnp.array,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "repr": repr,
    "iterate": list,
    "tolist": lambda x: x.tolist(),
    "device_get": mjax.device_get,
    "device_put": lambda x: mjax.device_put(x, mjax.devices()[0]),
    "tree": lambda x: mjax.block_until_ready({"a": [x]})["a"][0],
    "stack": lambda x: jnp.stack([x, x]),
    "tree_map": lambda x: mjax.tree.map(lambda leaf: leaf * 2, [x, (x, 1)]),
    "another callback": mjax.jit(lambda x: mjax.pure_callback(lambda v: v, x, x)),
    "pointer": lambda x: x.unsafe_buffer_pointer() != 0,
}


@pytest.mark.parametrize("name", USES)
def test_pending_arrays_are_arrays(name, gate):
    use = USES[name]
    args = 3 if name == "jit of several" else 1
    out = held(gate)
    threading.Timer(0.01, gate.open.set).start()
    found = use(*[out] * args)
    expected = use(*[jnp.asarray(EXPECTED)] * args)
    leaves, tree = mjax.tree.flatten(found)
    wanted, wanted_tree = mjax.tree.flatten(expected)
    assert tree == wanted_tree
    for leaf, want in zip(leaves, wanted, strict=True):
        assert type(leaf) is type(want) or isinstance(leaf, Array)
        np.testing.assert_array_equal(leaf, want)


def test_programs_of_a_thread_run_in_their_order():
    seen = []
    f = mjax.jit(lambda x: mjax.debug.callback(lambda v: seen.append(int(v)), x))
    g = mjax.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x, ordered=True))
    for i in range(0, 300, 3):
        f(i)
        g(i + 1)
        # Immediate effects come after earlier ordered ones.
        io_callback(lambda v: seen.append(int(v)), None, i + 2, ordered=True)
    mjax.effects_barrier()
    assert seen == list(range(300))


def fail(x):
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("ordered", [False, True])
def test_failures_are_raised_where_results_are_read(ordered):
    f = mjax.jit(lambda x: io_callback(fail, mjax.ShapeDtypeStruct((), np.int32), x,
                                       ordered=ordered) + 1)
    for _ in range(2):
        out = f(1)
        for read in (np.asarray, mjax.block_until_ready, lambda x: x + 1, lambda x: f(x), repr,
                     mjax.jit(lambda x: x * 2)):
            with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
                read(out)
            assert "in fail" in "".join(traceback.format_exception(caught.value))
        mjax.effects_barrier()  # told already


def test_failures_that_nobody_reads_are_raised_by_the_barrier():
    seen = []
    f = mjax.jit(lambda x: mjax.debug.callback(fail, x))
    g = mjax.jit(lambda x: mjax.debug.callback(lambda v: seen.append(int(v)), x))
    f(1)
    g(2)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        mjax.effects_barrier()
    assert seen == [2]
    mjax.effects_barrier()


def test_arguments_are_read_before_they_are_deleted(gate):
    x = jnp.arange(3.0)
    out = held(gate, x)
    threading.Timer(0.05, gate.open.set).start()
    y = mjax.jit(lambda x: x * 2, donate_argnums=0)(x)
    np.testing.assert_array_equal(out, EXPECTED)
    np.testing.assert_array_equal(y, [0, 2, 4])
    assert x.is_deleted()

    gate.open.clear()
    x = jnp.arange(3.0)
    out = held(gate, x)
    threading.Timer(0.05, gate.open.set).start()
    x.delete()
    np.testing.assert_array_equal(out, EXPECTED)


def test_numpy_arguments_may_change_after_the_call(gate):
    x = np.arange(3.0, dtype=np.float32)
    out = held(gate, x)
    x[:] = 7
    gate.open.set()
    np.testing.assert_array_equal(out, EXPECTED)


def test_deleting_a_pending_array(gate):
    out = held(gate)
    threading.Timer(0.01, gate.open.set).start()
    out.delete()
    assert out.is_deleted()
    with pytest.raises(RuntimeError, match="has been deleted"):
        np.asarray(out)


def test_a_callback_that_reads_its_own_result_is_told():
    known = []

    def reads(x):
        assert ready.wait(30)
        np.asarray(known[0])

    ready = threading.Event()
    f = mjax.jit(lambda x: (mjax.debug.callback(reads, x), x + 1)[1])
    known.append(f(1))
    ready.set()
    with pytest.raises(RuntimeError, match="would wait forever"):
        mjax.effects_barrier()


def test_programs_that_callbacks_call():
    double = mjax.jit(lambda x: mjax.pure_callback(lambda v: v * 2, x, x))

    def call(x):
        return np.asarray(double(x))

    f = mjax.jit(lambda x: mjax.pure_callback(call, x, x) + 1)
    assert [float(f(np.float32(i))) for i in range(5)] == [1, 3, 5, 7, 9]


def test_programs_that_callbacks_call_may_donate():
    double = mjax.jit(lambda x: x * 2, donate_argnums=0)
    f = mjax.jit(lambda x: mjax.pure_callback(lambda v: np.asarray(double(jnp.array(v))), x, x))
    outs = [f(np.float32(i)) for i in range(5)]
    assert [float(out) for out in outs] == [0, 2, 4, 6, 8]


def test_an_interrupted_barrier_can_be_called_again(gate):
    class Interrupted(Exception):
        pass

    def interrupt(*_):
        raise Interrupted

    out = held(gate)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            mjax.effects_barrier()
    finally:
        signal.signal(signal.SIGALRM, before)
    threading.Timer(0.05, gate.open.set).start()
    mjax.effects_barrier()
    assert out.is_ready()


def test_more_than_may_wait(gate):
    f = mjax.jit(lambda x: (mjax.debug.callback(gate, x), x + 1)[1])
    threading.Timer(0.05, gate.open.set).start()
    outs = [f(i) for i in range(200)]
    assert [int(out) for out in outs] == list(range(1, 201))
    mjax.effects_barrier()
    assert gate.seen == list(range(200)) and not local.tokens.jobs


def test_results_that_nobody_keeps_are_freed(gate):
    f = mjax.jit(lambda x: (mjax.pure_callback(gate.same, x, x), x * 2))
    kept, dropped = f(jnp.arange(3.0))
    assert type(dropped) is PendingArray
    gone = weakref.ref(dropped)
    del dropped
    assert gone() is None
    gate.open.set()
    np.testing.assert_array_equal(kept, [0, 1, 2])


def test_results_that_are_arguments_have_memory_of_their_own(gate):
    f = mjax.jit(lambda x, y: (mjax.debug.callback(gate, x), y, x + 1)[1:])
    x, y = jnp.arange(3.0), jnp.ones(3)
    outs = f(x, y)
    assert [type(out) for out in outs] == [PendingArray] * 2
    gate.open.set()
    y.delete()
    np.testing.assert_array_equal(outs[0], np.ones(3))
    np.testing.assert_array_equal(outs[1], EXPECTED)


def test_without_asynchronous_dispatch_effects_happen_in_the_call():
    seen = []
    f = mjax.jit(lambda x: (mjax.debug.callback(lambda v: seen.append(int(v)), x), x + 1)[1])
    was = mjax.config.cpu_enable_async_dispatch
    mjax.config.update("cpu_enable_async_dispatch", False)
    try:
        for i in range(20):
            assert type(f(i)) is Array and seen[-1] == i
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            mjax.jit(lambda x: mjax.debug.callback(fail, x))(1)
    finally:
        mjax.config.update("cpu_enable_async_dispatch", was)


def test_a_breakpoint_stops_its_caller(capsys):
    @mjax.jit
    def f(x):
        mjax.debug.breakpoint(stdin=io.StringIO("p x\nc\n"))
        return x + 1

    assert type(f(3)) is Array
    assert "Array(3" in capsys.readouterr().out


def test_the_worker_ends_with_its_thread():
    def work():
        f = mjax.jit(lambda x: mjax.pure_callback(lambda v: v + 1, x, x))
        results.append(int(f(1)))
        workers.extend(local.worker._threads)

    results, workers = [], []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert results == [2] and len(workers) == 1
    workers[0].join(10)
    assert not workers[0].is_alive()


def test_threads_have_workers_of_their_own(gate):
    out = held(gate)
    found = []

    def work():
        f = mjax.jit(lambda x: mjax.pure_callback(lambda v: v + 1, x, x))
        found.append(int(f(1)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert found == [2] and not out.is_ready()
    gate.open.set()
    np.testing.assert_array_equal(out, EXPECTED)


def test_transformations_of_programs_with_callbacks():
    f = mjax.jit(lambda x: (mjax.debug.callback(lambda v: None, x), jnp.sum(x ** 2))[1])
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(mjax.grad(f)(x), 2 * np.arange(3.0))
    value, pullback = mjax.vjp(f, x)
    np.testing.assert_array_equal(pullback(value)[0], 10 * np.arange(3.0))
    np.testing.assert_array_equal(mjax.vmap(f)(jnp.ones((2, 3))), [3, 3])
    _, tangent = mjax.jvp(f, (x,), (x,))
    np.testing.assert_array_equal(tangent, 10)


def test_donation_waits_for_readers_alone():
    """A callback may wait for a thread that donates something else."""
    given = queue.Queue()
    f = mjax.jit(lambda x: io_callback(lambda v: np.float32(given.get(timeout=30)), x, x))
    out = f(np.float32(1))
    step = mjax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.arange(3.0)
    y = step(x)
    jnp.ones(2).delete()
    given.put(42)
    assert float(out) == 42
    np.testing.assert_array_equal(y, [1, 2, 3])


def test_what_another_callback_deletes_is_read_before(gate):
    x = jnp.arange(3.0)
    out = held(gate, x)
    threading.Timer(0.05, gate.open.set).start()

    def work():
        f = mjax.jit(lambda v: (mjax.debug.callback(lambda v: x.delete(), v), v + 1)[1])
        found.append(float(f(1.0)))

    found = []
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert found == [2]
    np.testing.assert_array_equal(out, EXPECTED)


def test_deleted_arguments_are_told_at_the_call():
    f = mjax.jit(lambda x: (mjax.debug.callback(lambda v: None, x), x + 1)[1])
    x = jnp.arange(3.0)
    x.delete()
    with pytest.raises(RuntimeError, match="has been deleted"):
        f(x)


def test_further_failures_are_logged(caplog):
    def bad(x):
        raise ValueError(f"bad {int(x)}")

    f = mjax.jit(lambda x: mjax.debug.callback(bad, x))
    for i in range(3):
        f(i)
    with pytest.raises(ValueError, match="bad 0"):
        mjax.effects_barrier()
    assert [str(record.exc_info[1]) for record in caplog.records] == ["bad 1", "bad 2"]
    mjax.effects_barrier()


def test_what_ends_the_process_leaves_other_failures():
    f = mjax.jit(lambda x: mjax.debug.callback(lambda v: sys.exit(3), x))
    g = mjax.jit(lambda x: mjax.debug.callback(fail, x))
    f(1)
    g(1)
    with pytest.raises(SystemExit):
        mjax.effects_barrier()
    with pytest.raises(ZeroDivisionError):
        mjax.effects_barrier()
    mjax.effects_barrier()


def test_failures_that_were_told_are_forgotten():
    f = mjax.jit(lambda x: mjax.pure_callback(fail, x, x))
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            f(jnp.arange(3.0)).block_until_ready()
    assert not local.tokens.failed


def test_a_barrier_in_a_callback_tells_nothing_of_others():
    seen = []

    def inside(x):
        mjax.effects_barrier()
        seen.append(int(x))

    mjax.jit(lambda x: mjax.debug.callback(fail, x))(1)
    mjax.jit(lambda x: mjax.debug.callback(inside, x))(2)
    with pytest.raises(ZeroDivisionError):
        mjax.effects_barrier()
    assert seen == [2]


def test_the_worker_has_what_its_thread_has():
    """jaxlib may call Python from threads of its own, so the worker itself is asked."""
    variable = contextvars.ContextVar("variable", default="unset")

    def look():
        found.append((threading.current_thread() is main, variable.get(), thread.settings,
                      thread.options, guards.levels()))
        return []

    found, main = [], threading.current_thread()
    start = in_background(look, [], [])
    start()
    variable.set("mine")
    with mjax.transfer_guard("log"), mjax.enable_x64(True):
        start()
        expected = (False, "mine", thread.settings, thread.options, guards.levels())
    start()
    mjax.effects_barrier()
    assert found[1] == expected and found[0][1] == "unset"
    assert found[2][2] is thread.settings is not expected[2]
    assert found[2][4] == guards.levels() != expected[4]


def test_guards_that_a_thread_lifted_are_lifted_for_its_callbacks():
    f = mjax.jit(lambda x: (mjax.debug.callback(lambda v: None, x, ordered=True), x + 1)[1])
    x = jnp.ones(3)
    mjax.config.update("transfer_guard", "disallow")
    try:
        with mjax.transfer_guard("allow"):
            f(x).block_until_ready()
            mjax.effects_barrier()
    finally:
        mjax.config.update("transfer_guard", None)


def test_a_worker_that_cannot_be_started(monkeypatch):
    seen = []
    f = mjax.jit(lambda x: mjax.debug.callback(lambda v: seen.append(int(v)), x))

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    def work():
        with monkeypatch.context() as patch:
            patch.setattr(ThreadPoolExecutor, "_adjust_thread_count", refuse)
            f(1)
        f(2)
        mjax.effects_barrier()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert seen == [1, 2]


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def test_at_exit_callbacks_may_still_use_executors():
    assert python("""
import time
from concurrent.futures import ThreadPoolExecutor
import mjax
pool = ThreadPoolExecutor(1)
pool.submit(int)  # from 3.12 on Python starts no new threads at its end
def save(x):
    time.sleep(0.1)
    pool.submit(print, int(x), flush=True).result()
f = mjax.jit(lambda x: mjax.debug.callback(save, x, ordered=True))
for i in range(3):
    f(i)
""") == ["0", "1", "2"]


def test_a_forked_process_gets_a_worker_of_its_own():
    assert python("""
import os, warnings
import mjax, numpy as np
warnings.simplefilter("ignore")
f = mjax.jit(lambda x: mjax.pure_callback(lambda v: v + 1, x, x))
f(np.float32(1)).block_until_ready()
child = os.fork()
if child == 0:
    print(float(f(np.float32(2))), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
""") == ["3.0", "0"]
