"""What processes tell each other through their devices."""

from __future__ import annotations

import numpy as np
import pytest

import mjax.numpy as jnp
from mjax.experimental import multihost_utils
from tests import processes


def test_alone():
    tree = {"a": np.arange(3, dtype=np.int32), "b": jnp.float32(2.0)}
    gathered = multihost_utils.process_allgather(tree)
    np.testing.assert_array_equal(gathered["a"], [[0, 1, 2]])
    np.testing.assert_array_equal(gathered["b"], [2.0])
    tiled = multihost_utils.process_allgather(tree["a"], tiled=True)
    np.testing.assert_array_equal(tiled, [0, 1, 2])
    sent = multihost_utils.broadcast_one_to_all(tree)
    np.testing.assert_array_equal(sent["a"], tree["a"])
    multihost_utils.assert_equal(tree)
    multihost_utils.assert_equal(np.nan)
    multihost_utils.sync_global_devices("here")
    with pytest.raises(ValueError, match="has no axis along which"):
        multihost_utils.process_allgather(1.0, tiled=True)
    with pytest.raises(ValueError, match="exactly one process has to say is_source=True"):
        multihost_utils.broadcast_one_to_all(1.0, is_source=False)


def test_two_processes():
    def body(rank, port):
        import numpy as np

        import mjax
        from mjax.experimental.multihost_utils import (
            assert_equal,
            broadcast_one_to_all,
            global_array_to_host_local_array,
            host_local_array_to_global_array,
            process_allgather,
            sync_global_devices,
        )
        from mjax.sharding import Mesh, NamedSharding
        from mjax.sharding import PartitionSpec as P

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        mine = {"a": np.full(3, rank, np.float32), "b": rank, "c": np.array([rank == 1])}
        gathered = process_allgather(mine)
        np.testing.assert_array_equal(gathered["a"], [[0, 0, 0], [1, 1, 1]])
        np.testing.assert_array_equal(gathered["b"], [0, 1])
        np.testing.assert_array_equal(gathered["c"], [[False], [True]])
        np.testing.assert_array_equal(process_allgather(mine["a"], tiled=True), [0, 0, 0, 1, 1, 1])
        mesh = Mesh(np.array(mjax.devices()), ("i",))
        cut = mjax.device_put(np.arange(8), NamedSharding(mesh, P("i")))
        np.testing.assert_array_equal(process_allgather(cut, tiled=True), np.arange(8))
        np.testing.assert_array_equal(broadcast_one_to_all(mine)["a"], [0, 0, 0])
        assert broadcast_one_to_all(mine, is_source=rank == 1)["b"] == 1
        assert_equal({"x": np.arange(3)})
        square = Mesh(np.array(mjax.devices()).reshape(2, 2), ("process", "local"))
        given = {"rows": np.full((2, 4), rank, np.float32), "same": np.arange(3)}
        specs = {"rows": P("process", "local"), "same": None}
        spread = host_local_array_to_global_array(given, square, specs)
        assert spread["rows"].shape == (4, 4) and spread["rows"].sharding.mesh is square
        assert float(spread["rows"].sum()) == 8.0
        back = global_array_to_host_local_array(spread, square, specs)
        assert back["rows"].is_fully_addressable and len(back["rows"].devices()) == 2
        np.testing.assert_array_equal(back["rows"], given["rows"])
        np.testing.assert_array_equal(back["same"], given["same"])
        turned = global_array_to_host_local_array(spread["rows"], square, P("local", "process"))
        np.testing.assert_array_equal(turned, np.repeat([0.0, 0.0, 1.0, 1.0], 2).reshape(4, 2))
        sync_global_devices("all here")

        def refused(call, text):
            try:
                call()
            except AssertionError as error:
                assert rank == 1 and text in str(error), error
            else:
                assert rank == 0

        refused(lambda: assert_equal({"x": rank}), "process 1 has 1 at ['x'], process 0 has 0.")
        refused(lambda: sync_global_devices(f"place {rank}"), "processes are at different places")

    processes.run(body)
