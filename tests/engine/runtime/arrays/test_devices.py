"""Devices: which there are, the default one, names of platforms."""

import threading

import pytest

import mjax
from mjax import lax
from mjax._engine.runtime.arrays import devices as module
from mjax._engine.runtime.arrays.devices import client, default_device


def test_devices_of_the_default_platform():
    devices = mjax.devices()
    assert devices and all(isinstance(d, mjax.Device) for d in devices)
    assert devices == mjax.devices("cpu") == mjax.devices("CPU") == mjax.local_devices()
    assert mjax.local_devices(0) == devices
    assert {d.platform for d in devices} == {mjax.default_backend()} == {"cpu"}


def test_counts():
    assert mjax.device_count() == mjax.local_device_count() == len(mjax.devices())
    assert mjax.device_count("cpu") == mjax.local_device_count("cpu")
    assert (mjax.process_count(), mjax.process_index(), mjax.process_indices()) == (1, 0, [0])


def test_lists_are_the_callers_own():
    mjax.devices().clear()
    mjax.local_devices().clear()
    assert mjax.devices() and mjax.local_devices()


@pytest.mark.parametrize("f", [mjax.devices, mjax.device_count, mjax.process_index,
                               lambda p: mjax.local_devices(backend=p)])
def test_unknown_platforms(f):
    with pytest.raises(RuntimeError, match=r"platform 'toaster' is not available.*cpu"):
        f("toaster")


def test_backends_are_named():
    for use in (mjax.devices, lambda b: mjax.jit(lambda x: x, backend=b)(1.0)):
        with pytest.raises(TypeError, match="backend must be the name of a platform"):
            use(object())


def test_one_client_for_all_threads():
    found, barrier = [], threading.Barrier(6)

    def work():
        barrier.wait()
        found.append(client("cpu"))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(map(id, found))) == 1 and found[0] is module.client()


def test_default_device():
    first = mjax.devices()[0]
    assert default_device() is first
    for chosen in (first, "cpu"):
        with mjax.default_device(chosen):
            assert default_device() is first
            assert lax.add(1.0, 2.0).device == first


@pytest.mark.parametrize("chosen", [3, object(), ("cpu",), "toaster"])
def test_default_devices_that_are_none(chosen):
    with pytest.raises(ValueError, match=r"default_device must be a device .*\('cpu'\), got"):
        mjax.default_device(chosen).__enter__()
    with pytest.raises(ValueError, match="default_device must be"):
        mjax.config.update("jax_default_device", chosen)
    assert mjax.config.default_device is None


def test_local_devices_of_a_process():
    mine = mjax.local_devices()
    assert mjax.local_devices(host_id=0) == mjax.local_devices(0, "cpu", 0) == mine
    with pytest.raises(ValueError, match="process 7 does not exist"):
        mjax.local_devices(process_index=7)
