"""Transfer guards as users set them. Copies to the host are none on CPU: memory is shared."""

import threading

import numpy as np
import pytest

import mjax
import mjax.numpy as mnp
from mjax._engine.base.config import override

X = np.arange(3, dtype=np.float32)
f = mjax.jit(lambda x: x * 2.0)
CLOSED_OVER = np.arange(4.0)


def refused(call):
    try:
        call()
    except RuntimeError as error:
        assert "Disallowed host-to-device transfer: aval=ShapedArray(" in str(error), error
        return True
    return False


IMPLICIT = {
    "jit": lambda: f(X), "jit of a tree": lambda: mjax.jit(lambda t: t["a"])({"a": X}),
    "operator": lambda: f(1.0) + X, "function": lambda: mnp.sin(X),
    "asarray": lambda: mnp.asarray(X),
    "grad": lambda: mjax.grad(lambda x: f(x).sum())(X),
}
EXPLICIT = {
    "device_put": lambda: mjax.device_put(X), "tree": lambda: mjax.device_put({"a": X, "b": 1.0}),
    "to a device": lambda: mjax.device_put(X, mjax.devices()[0]),
}
NONE = {
    "arrays": lambda: f(A) + A * f(A), "scalars": lambda: f(np.random.rand()) + 17.25,
    "indices": lambda: A[np.random.randint(2)], "to NumPy": lambda: np.asarray(f(A)),
    "get": lambda: mjax.device_get(A), "constants": lambda: mjax.jit(lambda x: x + CLOSED_OVER)(B),
}
A, B = mjax.device_put(X), mjax.device_put(np.arange(4, dtype=np.float32))


@pytest.mark.parametrize(("level", "implicit", "explicit"), [
    ("allow", False, False), ("disallow", True, False), ("disallow_explicit", True, True)])
def test_levels(level, implicit, explicit):
    for guard in (mjax.transfer_guard, mjax.transfer_guard_host_to_device):
        with guard(level):
            for table, expected in ((IMPLICIT, implicit), (EXPLICIT, explicit), (NONE, False)):
                assert {name for name, call in table.items() if refused(call) != expected} == set()
        assert not refused(IMPLICIT["jit"])


def test_other_directions_are_not_concerned():
    for guard in (mjax.transfer_guard_device_to_device, mjax.transfer_guard_device_to_host):
        with guard("disallow_explicit"):
            assert not refused(IMPLICIT["jit"])


def test_guards_nest_and_come_from_the_config():
    with mjax.transfer_guard("disallow"):
        assert mjax.config.jax_transfer_guard_device_to_host == "disallow"
        with mjax.transfer_guard("allow"):
            f(X)
        with mjax.transfer_guard_host_to_device("allow"):
            f(X)
            assert mjax.config.transfer_guard_device_to_device == "disallow"
        with override(enable_x64=False):
            assert refused(IMPLICIT["jit"])
        assert refused(IMPLICIT["jit"])
    assert mjax.config.transfer_guard is None and not refused(IMPLICIT["jit"])
    mjax.config.update("jax_transfer_guard", "disallow")
    try:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(refused(IMPLICIT["jit"])))
        thread.start()
        thread.join()
        assert seen == [True] and refused(IMPLICIT["jit"])
        with mjax.transfer_guard("allow"):
            f(X)
        assert refused(IMPLICIT["jit"])
    finally:
        mjax.config.update("jax_transfer_guard", None)
    assert not refused(IMPLICIT["jit"])
    with pytest.raises(ValueError, match="takes one of .*disallow_explicit.*got 'perhaps'"):
        mjax.transfer_guard("perhaps").__enter__()


def test_logged_transfers(capfd):
    with mjax.transfer_guard("log"):
        f(A)
        mjax.device_put(X)
        assert "transfer" not in capfd.readouterr().err
        f(X)
        assert "host-to-device transfer" in capfd.readouterr().err
    with mjax.transfer_guard("log_explicit"):
        mjax.device_put(X)
        assert "host-to-device transfer" in capfd.readouterr().err
