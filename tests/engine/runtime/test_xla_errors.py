"""What callbacks raise: it reaches the caller as it was raised, and what comes after runs."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.runtime import xla_errors
from mjax.experimental import io_callback

N = mjax.ShapeDtypeStruct((), "int32")


class Refusal(Exception):
    """An exception of the user's own, with more than a text."""

    def __init__(self, value):
        super().__init__("no")
        self.value = value


def refuse(x):
    raise Refusal(int(x))


def busy(x):
    """Enough for XLA to run the program in a thread of its own, where it does so."""
    return jnp.ones((60, 60)) @ jnp.ones((60, 60)) * x


@pytest.fixture(autouse=True)
def clean():
    mjax.effects_barrier()
    yield
    mjax.effects_barrier()


def raised(f, *args):
    """The exception of a computation, at the call or where its result or effects are awaited."""
    with pytest.raises(Exception) as found:
        mjax.block_until_ready(f(*args))
        mjax.effects_barrier()
    return found.value


CALLS = {
    "pure": lambda x: mjax.pure_callback(refuse, N, x) + 1,
    "io": lambda x: io_callback(refuse, N, x) + 1,
    "ordered io": lambda x: io_callback(refuse, N, x, ordered=True) + 1,
    "debug": lambda x: (mjax.debug.callback(refuse, x), x + 1)[1],
    "ordered debug": lambda x: (mjax.debug.callback(refuse, x, ordered=True), x + 1)[1],
    "scan": lambda x: lax.scan(lambda c, _: (io_callback(refuse, N, c, ordered=True), None), x,
                               None, 3)[0],
    "while": lambda x: lax.while_loop(lambda c: io_callback(refuse, N, c, ordered=True) > 0,
                                      lambda c: c, x),
    "cond": lambda x: lax.cond(x > 0, lambda x: io_callback(refuse, N, x), lambda x: x, x),
    "busy": lambda x: (io_callback(refuse, N, x, ordered=True), busy(x)),
    "busy debug": lambda x: (mjax.debug.callback(refuse, x), busy(x)),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_exception_itself_arrives_with_its_traceback(call):
    f = mjax.jit(CALLS[call])
    for _ in range(2):
        error = raised(f, 5)
        assert type(error) is Refusal and error.value == 5 and error.__context__ is None
        frames = traceback.extract_tb(error.__traceback__)
        assert (frames[-1].filename, frames[-1].name) == (__file__, "refuse")
    assert mjax.jit(lambda x: x + 1)(1) == 2
    mjax.effects_barrier()  # it was told once


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, StopIteration, MemoryError])
def test_exceptions_of_any_kind(kind):
    def fail(x):
        raise kind("reason")

    f = mjax.jit(lambda x: io_callback(fail, N, x))
    with pytest.raises(kind, match="reason"):
        mjax.block_until_ready(f(1))
        mjax.effects_barrier()


def test_an_exception_that_nobody_waits_for_is_raised_by_the_barrier_once():
    f = mjax.jit(lambda x: (mjax.debug.callback(refuse, x), busy(x))[1])
    try:
        f(3)
    except Refusal:  # programs with callbacks may run in the calling thread
        mjax.effects_barrier()
    else:
        with pytest.raises(Refusal):
            mjax.effects_barrier()
    mjax.effects_barrier()


def test_what_comes_before_a_failure_happened_and_nothing_after_it():
    seen = []

    def note(x):
        seen.append(int(x))
        if x == 4:
            raise Refusal(4)

    @mjax.jit
    def f(n):
        io_callback(note, None, n, ordered=True)
        lax.scan(lambda c, i: (io_callback(note, None, i, ordered=True), (c, None))[1], 0,
                 jnp.arange(1, 8))
        io_callback(note, None, n + 9, ordered=True)
        return busy(n)

    assert type(raised(f, 0)) is Refusal
    assert seen == [0, 1, 2, 3, 4]


def test_after_a_failure_ordered_effects_go_on():
    seen = []
    note = lambda x: seen.append(int(x))
    good = mjax.jit(lambda x: (io_callback(note, None, x, ordered=True), busy(x))[1])
    bad = mjax.jit(lambda x: (io_callback(refuse, None, x, ordered=True), busy(x))[1])
    for i in range(5):
        good(i)
        assert raised(bad, i).value == i
    good(5)
    mjax.effects_barrier()
    assert seen == [0, 1, 2, 3, 4, 5]


def test_computations_that_depend_on_one_that_failed_say_why():
    f = mjax.jit(lambda x: (io_callback(refuse, N, x), busy(x).sum()))
    g = mjax.jit(lambda x, y: x + jnp.sin(y))
    with pytest.raises(Refusal):
        mjax.block_until_ready(g(*f(3)))
    with pytest.raises(Refusal):
        np.asarray(f(3)[0])
    with pytest.raises(Refusal):
        float(f(3)[1])
    with pytest.raises(Refusal):
        f(3)[0].block_until_ready()
    mjax.effects_barrier()


def test_failures_in_several_threads_reach_their_own():
    found = {}

    def work(i):
        f = mjax.jit(lambda x: (io_callback(refuse, N, x, ordered=True), busy(x))[0])
        for k in range(20):
            error = raised(f, 100 * i + k)
            found[i, k] = error.value

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {(i, k): 100 * i + k for i in range(4) for k in range(20)}


def test_failures_inside_of_failures():
    def outer(x):
        try:
            mjax.block_until_ready(mjax.jit(lambda x: io_callback(refuse, N, x))(x))
        except Refusal as error:
            raise ValueError("outer") from error

    error = raised(mjax.jit(lambda x: io_callback(outer, N, x)), 2)
    assert type(error) is ValueError and error.__cause__.value == 2


def test_evaluated_callbacks_raise_as_any_function():
    with pytest.raises(Refusal):
        CALLS["io"](np.int32(1))
    with pytest.raises(Refusal):
        mjax.debug.callback(refuse, 1, ordered=True)
    mjax.effects_barrier()


def test_a_failure_whose_number_is_forgotten_is_still_an_error(monkeypatch):
    monkeypatch.setattr(xla_errors, "_KEPT", 0)
    error = raised(mjax.jit(lambda x: io_callback(refuse, N, x, ordered=True)), 1)
    assert "Refusal: no" in str(error)
    mjax.effects_barrier()


def test_failures_are_not_kept_for_ever():
    f = mjax.jit(lambda x: io_callback(refuse, N, x))
    for i in range(30):
        raised(f, i)
    assert len(xla_errors._failures) <= xla_errors._KEPT


def test_a_process_that_fails_late_says_so():
    code = """
        import mjax, mjax.numpy as jnp, threading
        def refuse(x):
            raise KeyError("late")
        f = mjax.jit(lambda x: (mjax.debug.callback(refuse, x), jnp.ones((99, 99)) @ jnp.ones(99)))
        try:
            f(1)
        except KeyError:
            import traceback
            traceback.print_exc()
    """
    process = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True,
                             text=True, timeout=100, check=False, env=os.environ)
    assert process.returncode == 0 and process.stderr.count("KeyError: 'late'") == 1
    assert "in refuse" in process.stderr


def test_the_users_objects_are_not_pinned_by_compiled_programs():
    class Holder:
        def __call__(self, x):
            return None

    holder = Holder()
    f = mjax.jit(lambda x, holder=holder: io_callback(holder, None, x))
    f(1)
    mjax.effects_barrier()
    reference = weakref.ref(holder)
    del f, holder
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("jitted", [False, True])
def test_what_xla_raises_has_a_name(jitted):
    def f():
        return jnp.zeros(1 << 58, "uint8")  # no address space is as large

    with pytest.raises(mjax.errors.JaxRuntimeError, match="RESOURCE_EXHAUSTED: Out of memory"):
        (mjax.jit(f) if jitted else f)().block_until_ready()


def out_of_memory():
    """The result of a program that fails before it is awaited."""
    slow = mjax.jit(lambda s: lax.fori_loop(0, 20, lambda i, a: a @ a * 0.001,
                                            jnp.full((300, 300), s))[0, 0])
    return mjax.jit(lambda s: s + jnp.zeros(2**42))(slow(1.0))


READS = {
    "asarray": np.asarray, "repr": repr, "device_get": mjax.device_get,
    "numpy_from_dlpack": np.from_dlpack, "from_dlpack": jnp.from_dlpack, "pickle": pickle.dumps,
    "pointer": lambda x: x.unsafe_buffer_pointer(),
    "converted": lambda x: np.asarray(x.astype("bfloat16")),
    "computed": lambda x: np.asarray(x + 1),
}


@pytest.mark.parametrize("read", READS)
def test_what_ran_out_of_memory_is_refused_where_it_is_read(read):
    # The view of memory that was never allocated aborted the process.
    with pytest.raises(xla_errors.JaxRuntimeError, match="Out of memory"):
        READS[read](out_of_memory())
