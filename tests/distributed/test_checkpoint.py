"""Checkpoints of two processes: each writes its parts, one says that it is complete."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import safetensors.numpy

import mjax
from mjax.experimental.checkpoint import latest_step, restore
from tests import processes

VALUE = np.arange(32.0, dtype=np.float32).reshape(8, 4)


def test_parts_of_two_processes(tmp_path):
    def body(rank, port, directory):
        import numpy as np

        import mjax
        from mjax.experimental.checkpoint import latest_step, restore, save
        from mjax.sharding import Mesh, NamedSharding
        from mjax.sharding import PartitionSpec as P

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        mesh = Mesh(np.array(mjax.devices()).reshape(2, 2), ("i", "j"))
        value = np.arange(32.0, dtype=np.float32).reshape(8, 4)
        tree = {"cut": mjax.device_put(value, NamedSharding(mesh, P("j"))),
                "whole": mjax.device_put(value, NamedSharding(mesh, P())),
                "step": 5}
        save(directory, tree, 5)
        assert latest_step(directory) == 5
        # Onto other shardings; each process reads what it needs.
        other = NamedSharding(mesh, P(("i", "j")))
        like = {"cut": mjax.ShapeDtypeStruct((8, 4), np.float32, sharding=other),
                "whole": tree["cut"], "step": 0}
        again = restore(directory, like)
        assert again["step"] == 5 and again["cut"].sharding == other
        for found in (again["cut"], again["whole"]):
            for shard in found.addressable_shards:
                np.testing.assert_array_equal(shard.data, value[shard.index])

    processes.run(body, arguments=[str(tmp_path)])
    files = [safetensors.numpy.load_file(tmp_path / "step_5" / f"shards-{n}-of-2.safetensors")
             for n in range(2)]
    # The first process writes replicated shards; process 0 writes the number.
    assert [len(names) for names in files] == [4, 0], files
    # One process, other devices.
    again = restore(tmp_path, {"cut": mjax.numpy.asarray(VALUE), "whole": VALUE, "step": 0})
    np.testing.assert_array_equal(again["cut"], VALUE)
    np.testing.assert_array_equal(again["whole"], VALUE)


@pytest.mark.slow
def test_death_between_parts_and_manifest(tmp_path):
    def body(rank, port, directory):
        import os
        import signal

        import numpy as np

        import mjax
        from mjax._tools import checkpoint
        from mjax.experimental.checkpoint import save
        from mjax.sharding import Mesh, NamedSharding
        from mjax.sharding import PartitionSpec as P

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, heartbeat_timeout_seconds=3)
        mesh = Mesh(np.array(mjax.devices()), ("i",))
        x = mjax.device_put(np.ones((4, 2), np.float32), NamedSharding(mesh, P("i")))
        save(directory, [x], 1)
        if rank == 1:
            checkpoint._meet = lambda what: os.kill(os.getpid(), signal.SIGKILL)
        save(directory, [x * 2], 2)

    survivor, _ = processes.run(body, check=False, arguments=[str(tmp_path)])
    assert re.search(r"ProcessLostError: The barrier 'checkpoint step_2 \(\w+\): all parts "
                     "written' cannot go on", survivor.err)
    assert "process 1 (pid" in survivor.err
    assert sorted(os.listdir(tmp_path / "step_2")) == [
        "shards-0-of-2.safetensors", "shards-1-of-2.safetensors"]
    assert latest_step(tmp_path) == 1
    (found,) = restore(tmp_path, [np.zeros((4, 2), np.float32)])
    np.testing.assert_array_equal(found, np.ones((4, 2)))
