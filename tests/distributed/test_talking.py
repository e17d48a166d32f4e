"""Two processes find each other, talk, and end."""

from __future__ import annotations

import pytest

from tests import processes


def test_devices_store_and_barriers():
    def body(rank, port):
        from pathlib import Path

        import mjax
        import mjax.numpy as jnp
        from mjax import distributed as dist

        dist.initialize(f"127.0.0.1:{port}", 2, rank)
        assert dist.is_initialized()
        if rank == 0:  # the coordinator is this machine: others cannot reach the service
            lines = [line.split() for table in Path("/proc/net").glob("tcp*")
                     for line in table.read_text().splitlines()]
            hosts = {place.split(":")[0] for _, place, _, state, *_ in lines
                     if state == "0A" and place.endswith(f":{int(port):04X}")}
            assert hosts and hosts <= {"0100007F", "0000000000000000FFFF00000100007F"}, hosts
        assert (mjax.device_count(), mjax.local_device_count()) == (4, 2)
        assert (mjax.process_count(), mjax.process_index()) == (2, rank)
        assert mjax.process_indices() == [0, 1]
        assert [d.process_index for d in mjax.devices()] == [0, 0, 1, 1]
        assert len({d.id for d in mjax.devices()}) == 4
        assert mjax.local_devices() == mjax.devices()[2 * rank:2 * rank + 2]
        assert mjax.local_devices(1 - rank) == mjax.devices()[2 - 2 * rank:4 - 2 * rank]
        # Values without a placement stay in the process.
        assert jnp.arange(4).devices() == {mjax.local_devices()[0]}

        dist.key_value_set(f"a/{rank}", f"text {rank}")
        dist.key_value_set(f"b/{rank}", bytes([0, 255, rank]))
        assert dist.key_value_get(f"a/{1 - rank}", 60) == f"text {1 - rank}"
        assert dist.key_value_get_bytes(f"b/{1 - rank}") == bytes([0, 255, 1 - rank])
        dist.barrier()
        assert dist.key_value_list("a") == {"a/0": "text 0", "a/1": "text 1"}
        assert dist.key_value_list("c") == {}
        dist.barrier()  # the same name again is another barrier
        dist.key_value_set(f"a/{rank}", "new", overwrite=True)
        assert dist.key_value_get(f"a/{rank}") == "new"
        dist.key_value_delete(f"a/{rank}")
        dist.barrier("deleted")
        assert dist.key_value_list("a") == {}

    processes.run(body)  # both shut down at their end


def test_timeouts_and_keys_that_are_taken():
    def body(rank, port):
        from mjax import distributed as dist

        def refused(kind, text, f):
            try:
                f()
            except kind as error:
                assert text in str(error), error
            else:
                raise AssertionError(text)

        dist.initialize(f"127.0.0.1:{port}", 2, rank)
        if rank == 0:
            dist.key_value_set("taken", "1")
            refused(ValueError, "key_value_set('taken'): the key has a value; say overwrite=True",
                    lambda: dist.key_value_set("taken", "2"))
            refused(TimeoutError, "key_value_get('none'): no process has set the key within 0.2 s",
                    lambda: dist.key_value_get("none", 0.2))
            refused(TimeoutError, "the barrier 'lonely' was not reached by all processes in 0.2 s",
                    lambda: dist.barrier("lonely", 0.2))
        dist.shutdown()

    processes.run(body)


@pytest.mark.slow
def test_initialization_that_times_out():
    def body(rank, port):
        from mjax import distributed as dist

        try:
            dist.initialize(f"127.0.0.1:{port}", 3, rank, initialization_timeout=2)
        except RuntimeError as error:
            print(error)
        raise SystemExit(5)

    for each, rank in zip(processes.run(body, check=False), range(2)):
        assert each.code == 5, each
        assert (f"process {rank} of 3 did not find the others at 127.0.0.1:" in each.out
                and "within 2 s: not all processes connected" in each.out), each
