"""Several processes, in real ones: the store, collectives by gloo, the relay."""

from __future__ import annotations

import socket
import threading

import pytest

from mjaxlib_shim.relay import Relay, split_address
from tests import processes


def test_all_reduce_store_and_barrier():
    def body(rank, port):
        import numpy as np

        from mjaxlib_shim import arrays, executables, mlir, shardings
        from mjaxlib_shim import client as clients
        from mjaxlib_shim import distributed as dist

        service = dist.start_service(f"127.0.0.1:{port}", 2) if rank == 0 else None
        store, relay = dist.connect(f"127.0.0.1:{port}", rank, timeout=60,
                                    on_service_lost=lambda: None)
        store.key_value_set(f"name/{rank}", f"p{rank}")
        assert store.blocking_key_value_get(f"name/{1 - rank}", 60_000) == f"p{1 - rank}"
        store.wait_at_barrier("all", 60_000)
        assert dict(store.key_value_dir_get("name/")) == {"name/0": "p0", "name/1": "p1"}

        cpu = clients.cpu_client(2, distributed_client=store, node_id=rank, num_nodes=2,
                                 collectives=dist.gloo_collectives(store))
        devices = sorted(cpu.devices(), key=lambda device: device.id)
        local = [device for device in devices if device.process_index == rank]
        assert len(devices) == 4 and local == cpu.local_devices()
        text = '''
        module @all_reduce attributes {mhlo.num_partitions = 4 : i32} {
          sdy.mesh @mesh = <["i"=4]>
          func.func public @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"i"}]>})
              -> (tensor<1xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
            %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"i"}]>]
                out_shardings=[<@mesh, [{}]>] manual_axes={"i"} (%x: tensor<1xf32>) {
              %1 = "stablehlo.all_reduce"(%x) <{
                channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
                replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
              ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                %s = stablehlo.add %p, %q : tensor<f32>
                stablehlo.return %s : tensor<f32>
              }) : (tensor<1xf32>) -> tensor<1xf32>
              sdy.return %1 : tensor<1xf32>
            } : (tensor<4xf32>) -> tensor<1xf32>
            return %0 : tensor<1xf32>
          }
        }'''
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(text)
        program = executables.compile_module(cpu, module, devices, num_partitions=4)
        aval = arrays.PlainAval((1,), np.dtype("float32"))
        cut = shardings.gspmd_sharding(devices, shardings.tiled([4]))
        x = arrays.put_shards([np.array([devices.index(d)], np.float32) for d in local],
                              arrays.PlainAval((4,), np.dtype("float32")), cut, local)
        whole = shardings.gspmd_sharding(devices, shardings.replicated())
        (result,) = program.execute_sharded([x]).consume_with_handlers(
            [arrays.result_handler(aval, whole, True)])
        assert [arrays.to_numpy(shard).item() for shard in arrays.shards(result)] == [6.0, 6.0]

        store.wait_at_barrier("end", 60_000)
        store.shutdown()
        relay.close()
        if service is not None:
            service.shutdown()

    processes.run(body)


def test_a_service_that_dies_ends_nobody():
    """jaxlib would end the process; through the relay it is told, and goes on."""

    def body(rank, port):
        import os
        import signal
        import threading
        import time

        from mjaxlib_shim import distributed as dist

        service = dist.start_service(f"127.0.0.1:{port}", 2) if rank == 0 else None
        assert (service is None) == (rank == 1)
        told = threading.Event()
        store, relay = dist.connect(f"127.0.0.1:{port}", rank, timeout=60,
                                    on_service_lost=told.set)
        store.wait_at_barrier("all", 60_000)
        if rank == 0:
            time.sleep(1)  # until the other process has its answer
            os.kill(os.getpid(), signal.SIGKILL)
        assert told.wait(60)
        try:
            store.blocking_key_value_get("never set", 300)
        except Exception as error:
            assert "DEADLINE_EXCEEDED" in str(error)
        else:
            raise AssertionError
        os._exit(7)

    ended = processes.run(body, check=False)
    assert [each.code for each in ended] == [-9, 7], ended


def test_timeouts_of_connecting_are_exceptions():
    """jaxlib would end the process."""

    def body(rank, port):
        import os

        from mjaxlib_shim import distributed as dist

        service = dist.start_service(f"127.0.0.1:{port}", 3) if rank == 0 else None
        asked = f"127.0.0.1:{port}" if rank < 2 else "127.0.0.1:9"
        try:
            dist.connect(asked, rank, timeout=3, on_service_lost=lambda: None)
        except TimeoutError as error:
            print(error, service is None, flush=True)
        os._exit(0)

    ended = processes.run(body, count=3)
    assert [each.out for each in ended] == [
        "not all processes connected to the coordinator False\n",
        "not all processes connected to the coordinator True\n",
        "the coordinator does not answer True\n"]


def test_addresses_that_cannot_be_listened_on_are_refused():
    """With most of them jaxlib would end the process; it would share a coordinator's port."""

    def body(rank, port):
        import errno
        import socket

        from mjaxlib_shim import distributed as dist

        def refused(kind, text, address, count=1):
            try:
                dist.start_service(address, count)
            except kind as error:
                assert text in str(error), error
                return error
            raise AssertionError(address)

        other = socket.create_server(("127.0.0.1", 0))
        taken = other.getsockname()[1]
        for host in ("127.0.0.1", "localhost", "[::]"):
            error = refused(OSError, f"{host}:{taken} cannot be listened on: port {taken} is taken",
                            f"{host}:{taken}")
            assert error.errno == errno.EADDRINUSE and "another port" in str(error)
        other.close()
        refused(OSError, "[::]:1234 is every interface", "192.0.2.1:1234")
        refused(OSError, "'no.such.invalid' is unknown", "no.such.invalid:1234")
        for address in ("127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", ""):
            refused(ValueError, "write host:port", address)
        refused(ValueError, "num_processes must be at least 1, not 0", f"127.0.0.1:{port}", 0)
        refused(TypeError, "must be a string 'host:port', not 1234", 1234)
        address = f"127.0.0.1:{port}"
        service = dist.start_service(address, 1)
        refused(OSError, f"port {port} is taken", address)
        for again in range(2):  # a port can be used again at once, by clients that leave at once
            client, _ = dist.connect(address, 0, timeout=60)
            client.shutdown()
            service.shutdown()
            service = None if again else dist.start_service(address, 1)

    processes.run(body, count=1)


def test_shutdown_right_after_connecting():
    """On 0.4.36 every other client waited for half a week."""

    def body(rank, port):
        from mjaxlib_shim import distributed as dist

        for _ in range(4):
            service = dist.start_service(f"127.0.0.1:{port}", 1)
            client, _ = dist.connect(f"127.0.0.1:{port}", 0, timeout=60)
            client.shutdown()
            service.shutdown()

    processes.run(body, count=1)


@pytest.fixture
def far_end():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


def relay_to(server, on_lost):
    relay = Relay(f"127.0.0.1:{server.getsockname()[1]}", on_lost)
    near = socket.create_connection(split_address(relay.address), timeout=60)
    far, _ = server.accept()
    far.settimeout(60)
    return relay, near, far


def test_relay_passes_bytes_both_ways(far_end):
    relay, near, far = relay_to(far_end, lambda: None)
    data = bytes(range(256)) * 4096
    threading.Thread(target=near.sendall, args=[data]).start()
    got = b""
    while len(got) < len(data):
        got += far.recv(1 << 20)
    assert got == data
    far.sendall(b"answer")
    assert near.recv(100) == b"answer"
    for each in (near, far):
        each.close()
    relay.close()


def test_relay_before_and_after_hold(far_end):
    told = threading.Event()
    relay, near, far = relay_to(far_end, told.set)
    far.close()
    assert near.recv(1) == b"" and not told.is_set()
    near.close()

    relay.hold()
    near = socket.create_connection(split_address(relay.address), timeout=60)
    far, _ = far_end.accept()
    far.close()
    assert told.wait(60)
    near.settimeout(0.1)
    for _ in range(5):  # data without a receiver is dropped
        near.sendall(b"anybody?")
        with pytest.raises(TimeoutError):
            near.recv(1)
    relay.close()
    near.settimeout(60)
    assert near.recv(1) == b""
    near.close()


def test_relay_near_end_that_hangs_up_is_no_loss(far_end):
    told = threading.Event()
    relay, near, far = relay_to(far_end, told.set)
    relay.hold()
    near.close()
    assert far.recv(1) == b""
    far.close()
    assert not told.wait(0.1)
    relay.close()


def test_addresses():
    assert split_address("10.0.0.1:80") == ("10.0.0.1", 80)
    assert split_address("[::1]:1234") == ("::1", 1234)
    for wrong in ("10.0.0.1", ":80", "host:", "host:0", "host:65536", "host:port"):
        with pytest.raises(ValueError, match="is not an address: write host:port"):
            split_address(wrong)
