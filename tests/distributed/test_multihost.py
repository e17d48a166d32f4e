"""Values that processes exchange through their devices."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P
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
    with mjax.set_mesh(mjax.make_mesh((2,), ("x",))):  # of some of the devices
        np.testing.assert_array_equal(multihost_utils.broadcast_one_to_all(tree)["a"], tree["a"])
        multihost_utils.sync_global_devices("there")
    mesh = mjax.make_mesh((4, 2), ("x", "y"))
    x = multihost_utils.host_local_array_to_global_array(np.arange(8), mesh, P("x"))
    assert x.sharding is mjax.NamedSharding(mesh, P("x"))
    assert multihost_utils.global_array_to_host_local_array(x, mesh, P()) is x
    with pytest.raises(ValueError, match="host_local_array_to_global_array: pspecs is not a tree"):
        multihost_utils.host_local_array_to_global_array([np.arange(8)], mesh, (P(), P()))
    with pytest.raises(ValueError, match="has no axis along which"):
        multihost_utils.process_allgather(1.0, tiled=True)
    with pytest.raises(ValueError, match="exactly one process has to say is_source=True"):
        multihost_utils.broadcast_one_to_all(1.0, is_source=False)


def test_there_and_back():
    def body(rank, port):
        import numpy as np

        import mjax
        from mjax.experimental.multihost_utils import (
            global_array_to_host_local_array,
            host_local_array_to_global_array,
        )
        from mjax.sharding import Mesh, NamedSharding
        from mjax.sharding import PartitionSpec as P

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        mesh = Mesh(np.array(mjax.devices()).reshape(2, 2), ("host", "local"))
        mine = np.arange(8.0, dtype=np.float32).reshape(4, 2) + 10 * rank
        here = [np.arange(8.0).reshape(4, 2) + 10 * r for r in range(2)]
        for spec, whole in ((P("host"), np.concatenate(here)),
                            (P("host", "local"), np.concatenate(here)),
                            (P(("host", "local")), np.concatenate(here)),
                            (P(None, "host"), np.concatenate(here, 1))):
            x = host_local_array_to_global_array({"x": mine}, mesh, spec)["x"]
            assert x.shape == whole.shape and x.sharding is NamedSharding(mesh, spec)
            for shard in x.addressable_shards:
                np.testing.assert_array_equal(shard.data, whole[shard.index])
            assert host_local_array_to_global_array(x, mesh, P()) is x
            back = global_array_to_host_local_array([x], mesh, [spec])[0]
            np.testing.assert_array_equal(back, mine)
            assert back.sharding is NamedSharding(mesh.local_mesh, spec)
            assert mesh.local_mesh.device_ids.tolist() == mesh.device_ids[rank:rank + 1].tolist()
        # Cut otherwise first; what all have is the same everywhere.
        x = host_local_array_to_global_array(mine, mesh, P("host"))
        rows = global_array_to_host_local_array(x, mesh, P(None, "host"))
        np.testing.assert_array_equal(rows, np.concatenate(here)[:, rank:rank + 1])
        np.testing.assert_array_equal(
            global_array_to_host_local_array(x, mesh, P()), np.concatenate(here))
        assert global_array_to_host_local_array(rows, mesh, P()) is rows
        mjax.distributed.barrier()

    processes.run(body)


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


def test_pmap_goes_over_the_devices_of_all_processes():
    """Each gives slices for its own, and gets theirs of the results."""
    def body(rank, port):
        import numpy as np

        import mjax
        import mjax.numpy as jnp
        from mjax import lax

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
        mine, w = x[2 * rank:2 * rank + 2], np.ones(3, np.float32)

        def step(w, x, n):
            grads = mjax.grad(lambda w: jnp.sin(w * x).sum())(w)
            return w - 0.1 * lax.pmean(grads, "i") * n, lax.axis_index("i")

        f = mjax.pmap(step, "i", in_axes=(None, 0, None), out_axes=(None, 0),
                      static_broadcasted_argnums=2)
        for _ in range(2):
            new, index = f(w, mine, 1)
            np.testing.assert_allclose(new, w - 0.1 * np.mean(np.cos(w * x) * x, 0), 1e-5)
            np.testing.assert_array_equal(index, [2 * rank, 2 * rank + 1])
            w = new
            assert w.is_fully_addressable
        g = mjax.pmap(lambda x: lax.psum(x, "i"), "i", in_axes=1, out_axes=1)
        np.testing.assert_allclose(g(mine.T), np.broadcast_to(x.sum(0)[:, None], (3, 2)), 1e-5)
        h = mjax.pmap(lambda: lax.axis_index("i"), "i", axis_size=4)
        np.testing.assert_array_equal(h(), [2 * rank, 2 * rank + 1])
        keys = mjax.random.split(mjax.random.key(rank), 2)
        bits = mjax.pmap(lambda key: mjax.random.bits(key, (2,)))(keys)
        np.testing.assert_array_equal(bits, mjax.vmap(lambda k: mjax.random.bits(k, (2,)))(keys))
        lowered = g.lower(mine.T)
        assert lowered.in_avals[0][0].shape == (3, 4) and "all_reduce" in lowered.as_text()
        # Inside of another program there are the devices of this process.
        np.testing.assert_allclose(mjax.jit(mjax.pmap(lambda x: lax.psum(x, "i"), "i"))(mine)[0],
                                   mine.sum(0), 1e-5)

    processes.run(body)
