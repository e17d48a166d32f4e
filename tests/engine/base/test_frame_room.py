import resource
import threading
import traceback

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.base.frame_room import with_room
from mjax._engine.base.thread import thread


def page_faults(call, depth, repeats=5):
    """The least page faults of a call from a deeper frame."""
    if depth:
        return page_faults(call, depth - 1, repeats)
    found = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        call()
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(found)


def deep(x):
    for _ in range(100):
        x = lax.mul(lax.sin(x), x)
    return lax.reduce_sum(x, (0,))


def trace(x):
    mjax.make_jaxpr(mjax.grad(lambda x: deep(x)))(x)


@pytest.mark.parametrize("step", ["trace", "lower"])
def test_page_faults_do_not_depend_on_the_depth_of_the_caller(step):
    x = np.ones(3, np.float32)
    if step == "trace":
        call = lambda: trace(x)
    else:
        call = mjax.jit(mjax.grad(lambda x: deep(x))).trace(x).lower
    found = [page_faults(call, depth) for depth in range(0, 64, 4)]
    assert max(found) < 60, found


def test_the_thread_says_whether_it_has_room():
    seen = []
    note = lambda: seen.append(thread.has_room)
    with_room(lambda: (note(), with_room(note), note()))
    note()
    other = threading.Thread(target=lambda: with_room(note))
    with_room(lambda: (other.start(), other.join()))
    assert seen == [True, True, True, False, True]


def test_errors_leave_no_room_behind():
    def fail():
        raise KeyError(thread.has_room)

    with pytest.raises(KeyError, match="True") as raised:
        with_room(fail)
    assert not thread.has_room
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "fail"


def test_calls_deeper_than_the_room():
    def descend(n):
        return descend(n - 1) + 1 if n else 0

    assert with_room(descend, 900) == 900
