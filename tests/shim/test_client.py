"""Clients, devices, and the process-wide states."""

from __future__ import annotations

import gc
import os

import pytest

from mjaxlib_shim import client as clients


def test_cpu_client(client):
    devices = client.local_devices()
    assert isinstance(client, clients.Client)
    assert devices and all(isinstance(device, clients.Device) for device in devices)
    assert devices[0].platform == "cpu" == client.platform
    assert isinstance(clients.device_list(devices), clients.DeviceList)


def test_two_clients_have_different_devices(client):
    other = clients.client_for("cpu")
    assert other.local_devices()[0] is not client.local_devices()[0]


def test_errors():
    with pytest.raises(ValueError, match="num_devices must be at least 1, not 0"):
        clients.cpu_client(0)
    with pytest.raises(ValueError, match="no client for platform 'abacus'; known: cpu"):
        clients.client_for("abacus")


def test_states_are_registered_once(client):
    before = len(gc.callbacks)
    clients.prepare_process()
    clients.cpu_client()
    assert len(gc.callbacks) == before
    assert sum(callback is clients._collect for callback in gc.callbacks) == 1
    gc.collect()


def test_number_of_devices(run_python):
    def body():
        import os

        from mjaxlib_shim import client, gates

        cpu = client.cpu_client(num_devices=3)
        assert cpu.local_device_count() == 3 == len(cpu.local_devices())
        assert "XLA_FLAGS" not in os.environ
        if gates.NUM_DEVICES.open:
            assert client.cpu_client(num_devices=2).local_device_count() == 2
            return
        try:
            client.cpu_client(num_devices=2)
        except RuntimeError as error:
            assert "fixed the number of CPU devices at its first client (3)" in str(error)
        else:
            raise AssertionError

    run_python(body)


def test_number_of_devices_by_flag(run_python):
    def body():
        import os

        from mjaxlib_shim import client

        flags = os.environ["XLA_FLAGS"]
        assert client.cpu_client().local_device_count() == 2
        assert os.environ["XLA_FLAGS"] == flags

    run_python(body, devices=2)


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="Linux counts threads so")
@pytest.mark.parametrize("given", [None, "5"])
def test_threads_for_callbacks(run_python, given):
    def body():
        import os

        from mjaxlib_shim import client, gates

        given, before = os.environ.get("NPROC"), len(os.listdir("/proc/self/task"))
        client.cpu_client()
        made = len(os.listdir("/proc/self/task")) - before
        if not gates.SPARE_THREADS.open:  # one pool for programs, and one for their parts
            assert made >= 40 if given is None else 8 + int(given) <= made < 20, made
        assert os.environ.get("NPROC") == given

    run_python(body, devices=8, **({} if given is None else {"NPROC": given}))


def test_flag_and_argument(run_python):
    def body():
        import os

        from mjaxlib_shim import client

        flags = os.environ["XLA_FLAGS"]
        assert client.cpu_client(num_devices=4).local_device_count() == 4
        assert os.environ["XLA_FLAGS"] == flags

    run_python(body, devices=2)
