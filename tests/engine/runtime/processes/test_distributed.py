"""The view of one process on `distributed`; tests/distributed has several."""

from __future__ import annotations

import pickle

import pytest

import mjax
from mjax import distributed
from mjax.errors import ProcessLostError
from tests import processes


def test_without_initialization():
    assert not distributed.is_initialized()
    distributed.shutdown()
    for call in (distributed.barrier, lambda: distributed.key_value_set("a", "b"),
                 lambda: distributed.key_value_get("a"), lambda: distributed.key_value_list("a"),
                 lambda: distributed.key_value_delete("a"),
                 lambda: distributed.key_value_get_bytes("a")):
        with pytest.raises(RuntimeError, match=r"call mjax.distributed.initialize\(\) first"):
            call()


def test_too_late():
    mjax.devices()
    with pytest.raises(RuntimeError, match="comes too late: the devices of this process are"):
        distributed.initialize("127.0.0.1:1", 1, 0)


def test_arguments():
    def body(rank, port):
        import socket

        import pytest

        import mjax
        from mjax import distributed

        def refused(kind, text, *args, **options):
            try:
                distributed.initialize(*args, **options)
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)

        refused(ValueError, "coordinator_address is not known. Give it, set MJAX_COORDINATOR_ADD")
        refused(ValueError, "num_processes is not known", "127.0.0.1:1", process_id=0)
        refused(ValueError, "process_id is not known", "127.0.0.1:1", 2)
        refused(ValueError, "'127.0.0.1' is not an address: write host:port", "127.0.0.1", 2, 0)
        refused(ValueError, "process_id must be in range(2), because num_processes=2, got 2",
                "127.0.0.1:1", 2, 2)
        refused(TypeError, "num_processes must be an int, got 2.0", "127.0.0.1:1", 2.0, 1)
        refused(ValueError, "'slurm': its environment", cluster_detection_method="slurm")
        refused(ValueError, "'x' is not an address", "127.0.0.1:1", 1, 0,
                coordinator_bind_address="x")
        refused(TypeError, "partition_index must be an int or None, got 'a' of type str",
                "127.0.0.1:1", 1, 0, partition_index="a")
        with pytest.warns(DeprecationWarning, match="use that instead"):
            refused(ValueError, "'x' is not an address", "127.0.0.1:1", 1, 0, slice_index=1,
                    coordinator_bind_address="x")
        with socket.create_server(("127.0.0.1", 0)) as other:  # it ended the process
            taken = other.getsockname()[1]
            refused(RuntimeError, f"process 0: 127.0.0.1:{taken} cannot be listened on: port "
                    f"{taken} is taken", f"127.0.0.1:{taken}", 1, 0)
        # A process alone is a distributed computation too.
        distributed.initialize(f"127.0.0.1:{port}", 1, 0, partition_index=1)
        refused(RuntimeError, "was called before in this process")
        assert mjax.device_count() == mjax.local_device_count() == 2
        assert mjax.process_count() == 1 and mjax.process_index() == 0
        distributed.barrier()
        distributed.shutdown()
        assert not distributed.is_initialized()
        distributed.shutdown()
        assert float(mjax.numpy.ones(3).sum()) == 3.0
        refused(RuntimeError, "comes too late", f"127.0.0.1:{port}", 1, 0)

    processes.run(body, count=1)


def test_error_keeps_its_facts():
    error = ProcessLostError(lambda: "text", (1, 3))
    assert isinstance(error, RuntimeError) and str(error) == "text"
    again = pickle.loads(pickle.dumps(error))
    assert again.processes == (1, 3) and str(again) == "text"
