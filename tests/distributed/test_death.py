"""A process dies: the others are told which, in time, wherever they wait."""

from __future__ import annotations

import signal

import pytest

from tests import processes

HEARTBEAT = 4


def waiting(rank, port, victim, how, where):
    """The victim ends `how` it is told; the other one waits `where` it is told."""
    import atexit
    import os
    import signal
    import time

    from mjax import distributed as dist

    dist.initialize(f"127.0.0.1:{port}", 2, rank, heartbeat_timeout_seconds=4)
    if rank == victim:
        dist.key_value_get("the other is about to wait")
        time.sleep(1)  # its call that says so has to end as well
        print(time.time(), flush=True)
        if how == "raise":
            raise ZeroDivisionError("the reason")
        os.kill(os.getpid(), getattr(signal, how))
    atexit.register(lambda: print(time.time(), flush=True))
    dist.key_value_set("the other is about to wait", "yes")
    if where == "exit":
        raise SystemExit
    {"barrier": dist.barrier, "get": lambda: dist.key_value_get("never set")}[where]()


def both(victim, how, where):
    """Runs `waiting`; the survivor's end, and the seconds it took after the victim's."""
    port = processes.free_port()
    started = [processes.start(waiting, rank, port, arguments=(victim, how, where))
               for rank in range(2)]
    try:
        (survivor,) = processes.finish([started[1 - victim]])
    finally:
        if how == "SIGSTOP":
            started[victim].kill()
        (dead,) = processes.finish([started[victim]])
    return survivor, dead, float(survivor.out) - float(dead.out)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("how, where", [
    ("SIGKILL", "barrier"), ("SIGKILL", "get"), ("SIGKILL", "exit"), ("SIGSTOP", "barrier"),
    ("SIGSTOP", "get"), ("raise", "get"), ("raise", "barrier"),
])
def test_survivor_is_told(victim, how, where):
    survivor, dead, seconds = both(victim, how, where)
    assert seconds < HEARTBEAT + 3, seconds  # busy machines take their time
    what = {"get": "key_value_get('never set')", "barrier": "The barrier 'barrier'",
            "exit": "The barrier 'mjax/shutdown'"}[where]
    assert f"mjax.errors.ProcessLostError: {what} cannot go on" in survivor.err, survivor
    assert f"\n  process {victim}" in survivor.err
    assert f"This is process {1 - victim}." in survivor.err
    assert survivor.code == (0 if where == "exit" else 1), survivor
    if how == "raise":
        assert f"process {victim}: it ended with ZeroDivisionError: the reason" in survivor.err
        assert dead.code == 1, dead
    else:  # it died before its first beat was due, and is known all the same
        assert f"\n  process {victim} (pid " in survivor.err, survivor
    if how == "SIGKILL":
        assert dead.code == -signal.SIGKILL


@pytest.mark.slow
def test_an_error_that_is_caught():
    """The survivor goes on alone, and decides about its exit status."""

    def body(rank, port):
        import os
        import signal

        import mjax.numpy as jnp
        from mjax import distributed as dist
        from mjax.errors import ProcessLostError

        dist.initialize(f"127.0.0.1:{port}", 2, rank, heartbeat_timeout_seconds=2)
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.barrier()
        except ProcessLostError as error:
            assert error.processes == (1,)
        assert float(jnp.ones(3).sum()) == 3.0
        raise SystemExit(5)

    survivor, _ = processes.run(body, check=False)
    assert survivor.code == 5, survivor
