"""The order of effects, over computations, threads and devices, and that none is lost."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import defaultdict

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.runtime.effects import tokens
from mjax.experimental import io_callback
from tests.engine.recorder import Recorder


@pytest.fixture
def log():
    return Recorder()


@pytest.fixture(autouse=True)
def clean():
    """No test sees what another left."""
    mjax.effects_barrier()
    yield
    mjax.effects_barrier()


def run(code, *args, devices=1, **kwargs):
    """Runs code in a process of its own."""
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    process = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code), *args],
        capture_output=True, text=True, env=environment, timeout=300, check=False, **kwargs)
    return process


PRELUDE = """
    import os, sys, threading, time
    import numpy as np
    import mjax, mjax.numpy as jnp
    from mjax import lax
    from mjax.experimental import io_callback
"""

# ---- order -----------------------------------------------------------------------------


def through_everything(log, n):
    """A thousand prints with n = 100, and what the program says of their order."""

    @mjax.jit
    def nested(x):
        log(x)
        return x + 1

    @mjax.jit
    def program(x):
        log(x)
        x = nested(nested(x + 1))

        def step(x, add):
            log(x + add)
            return nested(x), x

        x, xs = lax.scan(step, x, jnp.zeros(2 * n, "int32"))

        def goes_on(carry):
            i, x = carry
            log(x)
            return i < n

        def body(carry):
            i, x = carry
            log(x + 1)
            return i + 1, lax.cond(i % 2 == 0, nested, lambda x: (log(x), log(-x), x + 2)[2], x)

        _, x = lax.while_loop(goes_on, body, (0, x))
        log(xs[-1])
        return lax.fori_loop(0, 2 * n, lambda i, x: nested(x), x)

    return program


@pytest.mark.slow
def test_a_thousand_ordered_effects_through_all_control_flow(log):
    program = through_everything(log.ordered, 100)
    got = int(program(5))
    seen = log.taken()
    with mjax.disable_jit():
        expected = int(program(jnp.int32(5)))
    assert len(seen) > 950 and seen == log.taken() and got == expected


@pytest.mark.slow
def test_unordered_effects_in_between_change_nothing(log):
    others = Recorder()

    def both(x):
        others.unordered(x)
        log.ordered(x)
        others.unordered(-x)

    program = through_everything(both, 20)
    program(5)
    seen, unordered = log.taken(), others.taken()
    with mjax.disable_jit():
        program(jnp.int32(5))
    assert seen == log.taken() and sorted(unordered) == sorted(others.taken())


def test_printing_and_ordered_callbacks_tell_one_story(capsys):
    def say(x):
        print("callback", x)

    @mjax.jit
    def f(x):
        mjax.debug.print("print {}", x, ordered=True)
        io_callback(say, None, x + 1, ordered=True)
        mjax.debug.callback(say, x + 2, ordered=True)
        mjax.debug.print("print {}", x + 3, ordered=True)

    for i in range(20):
        f(10 * i)
        mjax.debug.print("eager {}", 10 * i + 4, ordered=True)
    mjax.effects_barrier()
    kinds = ["print", "callback", "callback", "print", "eager"]
    assert capsys.readouterr().out.splitlines() == [
        f"{kind} {10 * i + k}" for i in range(20) for k, kind in enumerate(kinds)]


def test_order_over_computations_of_any_kind(log):
    """Compiled, evaluated one by one, ahead of time, with and without other work."""
    f = mjax.jit(log.ordered)
    work = mjax.jit(lambda x: (log.ordered(x), jnp.sin(jnp.ones((300, 300)) * x) @ jnp.ones(300)))
    ahead = mjax.jit(log.ordered).lower(1).compile()
    calls = [f, work, ahead, log.ordered, lambda x: lax.cond(True, log.ordered, log.ordered, x)]
    for i in range(250):
        calls[i % 5](jnp.int32(i))
    assert log.taken() == list(range(250))


def test_every_thread_has_an_order_of_its_own():
    n, each = 8, 200
    seen = defaultdict(list)

    def note(thread, i):
        seen[int(thread)].append(int(i))

    @mjax.jit
    def f(thread, i):
        io_callback(note, None, thread, i, ordered=True)
        lax.scan(lambda c, k: (io_callback(note, None, thread, i + k, ordered=True), (c, None))[1],
                 0, jnp.arange(1, 3))

    def work(thread):
        for i in range(each):
            f(thread, 3 * i)
        mjax.effects_barrier()

    threads = [threading.Thread(target=work, args=(t,)) for t in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert seen == {t: list(range(3 * each)) for t in range(n)}


DEVICES = """
    seen, count = [], int(sys.argv[1])
    devices = mjax.devices()
    assert len(devices) == count

    @mjax.jit
    def f(x):
        io_callback(lambda i: seen.append(int(i)), None, x[0], ordered=True)
        y = jnp.ones((40, 40)) @ x[1:41].astype("float32")
        io_callback(lambda i: seen.append(int(i)), None, x[0] + 1, ordered=True)
        return y

    xs = [mjax.device_put(np.full(50, 2 * i, "int32"), devices[i % count]) for i in range(500)]
    outs = [f(x) for x in xs]
    assert [o.device for o in outs[:count]] == devices
    mjax.effects_barrier()
    assert seen == list(range(1000)), seen[:50]
    placed = [mjax.jit(lambda x: io_callback(lambda i: seen.append(int(i)), None, x, ordered=True),
                       device=d) for d in devices]
    for i in range(1000, 1100):
        placed[i % count](i)
    mjax.effects_barrier()
    assert seen == list(range(1100)), seen[-100:]
"""


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_devices_that_take_turns(count):
    process = run(DEVICES, str(count), devices=count)
    assert process.returncode == 0, process.stderr


def test_thousands_of_effects_of_several_threads_are_not_lost():
    seen = []
    f = mjax.jit(lambda x: io_callback(lambda v: seen.append(int(v)), None, x))

    def work(start):
        for i in range(1250):
            f(start + i)
        # No barrier: the thread ends with effects under way.

    threads = [threading.Thread(target=work, args=(1250 * t,)) for t in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    tokens._await_all()
    assert sorted(seen) == list(range(10_000))


# ---- the end of the process ------------------------------------------------------------


def test_a_process_that_ends_after_dispatch_loses_nothing():
    process = run(r"""
        def slow(i):
            time.sleep(0.005)
            os.write(1, f"seen {int(i)}\n".encode())  # lines of threads do not mix

        @mjax.jit
        def f(x, ordered):
            work = jnp.ones((200, 200)) @ jnp.ones((200, 200))
            io_callback(slow, None, x, ordered=True)
            mjax.debug.callback(slow, x + 1)
            return work

        def work(start):
            for i in range(start, start + 20, 2):
                f(i, True)

        thread = threading.Thread(target=work, args=(100,))
        thread.start()
        work(0)
        os.write(1, b"the end\n")
    """)
    assert process.returncode == 0 and not process.stderr, process.stderr
    lines = process.stdout.splitlines()
    numbers = [int(line.split()[1]) for line in lines if line.startswith("seen")]
    assert sorted(numbers) == [*range(20), *range(100, 120)] and "the end" in lines
    # In order are the ordered ones, which have the even numbers.
    for start in (0, 100):
        even = [n for n in numbers if n % 2 == 0 and start <= n < start + 20]
        assert even == sorted(even)


def test_at_the_end_failures_are_told_and_the_rest_is_awaited():
    process = run("""
        def fail(i):
            raise KeyError("nobody waits for me")

        f = mjax.jit(lambda x: io_callback(fail, None, x, ordered=True))
        try:
            f(1)
        except KeyError:
            print("told at the call")
        thread = threading.Thread(target=lambda: mjax.jit(
            lambda x: io_callback(lambda i: (time.sleep(0.1), print("late", i)), None, x))(2))
        thread.start()
        thread.join()
    """)
    assert process.returncode == 0, process.stderr
    assert "late 2" in process.stdout
    # Wherever the callback ran, the failure is told once.
    assert ("told at the call" in process.stdout) != ("nobody waits for me" in process.stderr)


# ---- waiting ---------------------------------------------------------------------------


def test_the_barrier_waits(log):
    def slow(x):
        time.sleep(0.05)
        log(x)

    f = mjax.jit(lambda x: (io_callback(slow, None, x, ordered=True), x + 1)[1])
    g = mjax.jit(lambda x: (mjax.debug.callback(slow, x), x + 1)[1])
    f(1)
    g(2)
    f(3)
    mjax.effects_barrier()
    assert sorted(log.seen) == [1, 2, 3]


def test_a_slow_callback_holds_up_no_other_thread():
    times = {}

    def slow(x):
        times["started"] = time.perf_counter()
        released.wait(60)
        times["ended"] = time.perf_counter()

    released, others = threading.Event(), mjax.jit(lambda x: (jnp.ones((40, 40)) @ x).sum())
    f = mjax.jit(lambda x: (mjax.debug.callback(slow, x), x)[1])
    others(jnp.ones((40, 40)))  # compiled

    def work():
        f(1)
        mjax.effects_barrier()
        times["waited"] = time.perf_counter()

    thread = threading.Thread(target=work)
    thread.start()
    while "started" not in times:
        time.sleep(0.001)
    for _ in range(20):
        assert others(jnp.ones((40, 40))) == 64_000
    mjax.effects_barrier()  # of this thread, which has no effects under way
    times["others"] = time.perf_counter()
    released.set()
    thread.join()
    assert times["started"] < times["others"] < times["ended"] < times["waited"]


def test_an_effect_that_happens_at_once_comes_after_those_before_it(log):
    f = mjax.jit(lambda x: (io_callback(lambda v: (time.sleep(0.05), log(v))[1], None, x,
                                        ordered=True), jnp.ones((30, 30)) @ jnp.ones((30, 30))))
    f(1)
    log.ordered(2)
    mjax.debug.callback(log, 3, ordered=True)
    assert log.seen == [1, 2, 3]


def test_a_barrier_without_effects_is_no_work():
    mjax.effects_barrier()
    mine = tokens.thread_tokens()
    assert mine.ordered == {} and mine.outputs == []


def test_tokens_do_not_pile_up(log):
    f, g = mjax.jit(log.ordered), mjax.jit(log.unordered)
    for i in range(300):
        f(i)
        g(i)
    mine = tokens.thread_tokens()
    assert len(mine.ordered) == 1 and len(mine.outputs) <= tokens._MOST_OUTPUTS
    assert len(log.taken()) == 600 and mine.ordered == {} and mine.outputs == []


class Pending:
    """An output token, as of an execution in another thread."""

    def __init__(self, error=None):
        self.error, self.waits = error, 0

    def block_until_ready(self):
        self.waits += 1
        if self.error:
            raise self.error


def test_executions_under_way_are_bounded_and_their_failures_kept_for_the_barrier():
    mine = tokens.ThreadTokens()
    pending = [Pending(ValueError(i) if i in (3, 5) else None) for i in range(100)]
    for p in pending:
        mine.add_output(p)
    assert [p.waits for p in pending] == [1] * 36 + [0] * 64
    assert mine.failed == [pending[3], pending[5]]
    with pytest.raises(ValueError, match="3"):
        mine.barrier()
    assert all(p.waits for p in pending) and not (mine.failed or mine.outputs)
    mine.barrier()


def test_an_effect_that_happens_at_once_comes_after_one_that_failed():
    class Token:
        _buffer = Pending(ValueError("before"))

    mine = tokens.ThreadTokens()
    mine.ordered["story"] = Token()
    mine.wait_for(["story", "journal"])
    assert mine.failed == [Token._buffer] and mine.ordered == {}
    with pytest.raises(ValueError, match="before"):
        mine.barrier()


@pytest.mark.parametrize("ordered", [False, True])
def test_donated_and_passed_on_arguments_beside_tokens(ordered, log):
    constant = jnp.arange(3.0)

    def f(x, y, unused):
        (log.ordered if ordered else log.unordered)(y)
        return y, x + constant, 1.0

    g = mjax.jit(f, donate_argnums=0)
    x = jnp.ones(3)
    y, total, one = g(x, jnp.int32(7), jnp.zeros(2))
    assert x.is_deleted() and (y, one) == (7, 1) and log.taken() == [7]
    np.testing.assert_array_equal(total, [1, 2, 3])


def test_threads_that_are_gone_are_forgotten_once_their_effects_are_awaited(log):
    def work():
        mjax.jit(log.ordered)(1)

    for _ in range(5):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    tokens._await_all()
    last = threading.Thread(target=work)
    last.start()
    last.join()
    alive = [t for thread, t in tokens._all if thread() is None]
    assert len(alive) <= 1
    tokens._await_all()
    assert log.taken() == [1] * 6


def test_programs_without_ordered_effects_take_no_tokens(log):
    f = mjax.jit(lambda x: (log.unordered(x), x + 1)[1]).lower(1)
    g = mjax.jit(lambda x: x + 1).lower(1)
    assert f.as_text().count("!stablehlo.token") == g.as_text().count("!stablehlo.token") == 0
    assert np.asarray(f.compile()(1)) == 2


@pytest.mark.parametrize("how", ["whole", "pieces", "several"])
def test_programs_over_devices_that_call_python_are_awaited(how):
    """Without the interpreter they abort or hang the process (seen on every jaxlib)."""
    process = run("""
        mesh = mjax.sharding.Mesh(np.array(mjax.devices()), ("i",))
        x = mjax.device_put(np.arange(8.0, dtype="float32"), mjax.NamedSharding(mesh, mjax.P("i")))

        def slow(x):
            time.sleep(0.1)
            return np.asarray(x) * 2

        def called(x):
            return mjax.pure_callback(slow, mjax.ShapeDtypeStruct(x.shape, x.dtype), x)

        how = sys.argv[1]
        f = mjax.jit(called if how != "pieces" else mjax.shard_map(
            lambda x: lax.psum(called(x), "i"), mesh=mesh, in_specs=mjax.P("i"),
            out_specs=mjax.P()))
        for _ in range(3 if how == "several" else 1):
            f(x)
        print("the end")
    """, how, devices=4)
    assert process.returncode == 0 and process.stdout == "the end\n", process.stderr
