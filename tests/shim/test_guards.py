"""Transfer guards."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mjaxlib_shim import arrays, guards


@pytest.fixture
def transfer(put):
    return lambda: put(np.ones(3, np.float32))


@pytest.fixture(autouse=True)
def levels():
    yield
    for everywhere in (True, False):
        for direction in guards.DIRECTIONS:
            guards.set_level(direction, None, everywhere)


def refused(transfer):
    try:
        transfer()
    except arrays.XlaRuntimeError as error:
        assert "Disallowed host-to-device transfer" in str(error)
        return True
    return False


def test_levels(transfer):
    for level, implicit, explicit in [("allow", False, False), ("disallow", True, False),
                                      ("disallow_explicit", True, True), (None, False, False)]:
        guards.set_level("host_to_device", level, False)
        assert refused(transfer) == implicit == guards.is_guarded("host_to_device")
        with guards.explicit():
            assert refused(transfer) == explicit
        with guards.unguarded():
            assert not refused(transfer)
        assert refused(transfer) == implicit


def test_the_levels_of_a_thread_go_before_those_of_the_process(transfer):
    guards.set_level("host_to_device", "disallow", True)
    guards.set_level("host_to_device", "allow", False)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(refused(transfer)))
    thread.start()
    thread.join()
    assert seen == [True] and not refused(transfer) and not guards.is_guarded("host_to_device")
    guards.set_level("host_to_device", None, False)
    assert refused(transfer) and guards.is_guarded("host_to_device")


def test_errors_leave_things_as_they_were(transfer):
    guards.set_level("host_to_device", "disallow", False)
    for manager in (guards.explicit, guards.unguarded):
        with pytest.raises(KeyError), manager():
            raise KeyError
    assert refused(transfer)


def test_unknown_levels():
    with pytest.raises(KeyError):
        guards.set_level("host_to_device", "perhaps", False)
