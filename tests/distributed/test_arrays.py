"""Arrays and programs over two processes of two devices each."""

from __future__ import annotations

import pytest

from tests import processes


def test_arrays_and_programs():
    def body(rank, port):
        import numpy as np

        import mjax
        import mjax.numpy as jnp
        from mjax.sharding import Mesh, NamedSharding
        from mjax.sharding import PartitionSpec as P

        mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
        mesh = Mesh(np.array(mjax.devices()), ("i",))
        cut, whole = NamedSharding(mesh, P("i")), NamedSharding(mesh, P())
        value = np.arange(16.0, dtype=np.float32).reshape(8, 2)
        mine = value[4 * rank:4 * rank + 4]

        asked = []
        x = mjax.make_array_from_callback(
            value.shape, cut, lambda index: asked.append(index) or value[index])
        assert len(asked) == 2  # each process makes its own parts
        assert not x.is_fully_addressable and not x.is_fully_replicated
        np.testing.assert_array_equal(np.concatenate([s.data for s in x.addressable_shards]), mine)
        assert [s.device for s in x.addressable_shards] == mjax.local_devices()
        for same in (mjax.make_array_from_process_local_data(cut, mine),
                     mjax.device_put(value, cut),
                     mjax.make_array_from_single_device_arrays(
                         value.shape, cut, [s.data for s in x.addressable_shards])):
            assert same.sharding == cut
            np.testing.assert_array_equal(same.addressable_data(1), mine[2:])
        try:
            np.asarray(x)
        except RuntimeError as error:
            assert "has parts in other processes" in str(error)
        else:
            raise AssertionError

        assert float(mjax.jit(jnp.sum)(x)) == 120.0
        np.testing.assert_array_equal(
            mjax.jit(lambda x: x, out_shardings=whole)(x), value)
        # device_put exchanges what a process does not have.
        square = NamedSharding(Mesh(mesh.devices.reshape(2, 2), ("a", "b")), P("b", "a"))
        np.testing.assert_array_equal(mjax.device_put(x, whole), value)
        squared = mjax.device_put(x, square)
        assert squared.sharding is square
        for shard in squared.addressable_shards:
            np.testing.assert_array_equal(shard.data, value[shard.index])
        back = mjax.device_put(mjax.device_put(squared, whole), cut)
        np.testing.assert_array_equal(back.addressable_data(1), mine[2:])
        try:
            mjax.device_put(x, mjax.local_devices()[0])
        except RuntimeError as error:
            assert "has parts in other processes" in str(error)
        else:
            raise AssertionError
        doubled = x * 2  # eagerly
        assert doubled.sharding.is_equivalent_to(cut, 2)
        assert float(doubled.sum()) == 240.0
        gradient = mjax.grad(lambda w: jnp.sum((x @ w) ** 2))(jnp.ones(2))
        np.testing.assert_allclose(gradient, 2 * value.T @ (value @ np.ones(2)), rtol=1e-6)
        # Per device: a sum over both processes, its transpose without one.
        mapped = mjax.shard_map(lambda x, w: mjax.lax.psum(jnp.sum(x @ w), "i"), mesh=mesh,
                                in_specs=(P("i"), P()), out_specs=P())
        out, gradient = mjax.jit(mjax.value_and_grad(mapped, argnums=1))(x, jnp.ones(2))
        assert float(out) == 120.0
        np.testing.assert_allclose(gradient, value.sum(0))

        # Programs that do not wait for each other, which jaxlib's collectives mix up.
        total, most = mjax.jit(jnp.sum)(x), mjax.jit(jnp.max)(x)
        assert (float(most), float(total)) == (15.0, 120.0)
        # More calls than jaxlib lets wait at a time; donated results among them.
        step = mjax.jit(lambda x: x + jnp.mean(x) * 0, donate_argnums=0)
        for _ in range(100):
            doubled = step(doubled)
        np.testing.assert_array_equal(doubled.addressable_data(0), 2 * mine[:2])

    processes.run(body)


def computing(rank, port, victim, how, read):
    """Sums over both processes, until the victim ends."""
    import os
    import signal
    import time

    import numpy as np

    import mjax
    from mjax.sharding import Mesh, NamedSharding
    from mjax.sharding import PartitionSpec as P

    mjax.distributed.initialize(f"127.0.0.1:{port}", 2, rank, heartbeat_timeout_seconds=4)
    mesh = Mesh(np.array(mjax.devices()), ("i",))
    x = mjax.device_put(np.ones((4, 3), np.float32), NamedSharding(mesh, P("i")))
    total = mjax.jit(lambda x: x.sum())
    assert float(total(x)) == 12.0
    mjax.distributed.barrier()
    for count in range(1_000_000):
        if rank == victim and count == 100:
            print(time.time(), flush=True)
            os.kill(os.getpid(), getattr(signal, how))
        result = total(x)
        if read:
            float(result)


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("how, read", [
    ("SIGKILL", True),
    pytest.param("SIGKILL", False, marks=pytest.mark.slow),
    pytest.param("SIGSTOP", True, marks=pytest.mark.slow),
    pytest.param("SIGSTOP", False, marks=pytest.mark.slow),
])
def test_death_during_collectives(victim, how, read):
    import time

    port = processes.free_port()
    started = [processes.start(computing, rank, port, arguments=(victim, how, read))
               for rank in range(2)]
    try:
        (survivor,) = processes.finish([started[1 - victim]])
        ended = time.time()
    finally:
        started[victim].kill()
        (dead,) = processes.finish([started[victim]])
    lines = [line for line in dead.out.splitlines() if "Gloo" not in line]
    assert ended - float(lines[-1]) < 4 + 3, ended - float(lines[-1])
    assert survivor.code == 1, survivor
    assert "mjax.errors.ProcessLostError: " in survivor.err, survivor
    assert f"\n  process {victim} (pid {started[victim].pid} on " in survivor.err, survivor
