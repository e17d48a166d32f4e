"""Several processes that run one program: connecting, communicating, ending together.

jaxlib's service, run by process 0, holds a key-value store; clients of all processes connect to
it. The CPU client that is made afterwards has the devices of all processes, and collectives by
gloo. `watch` makes sure that processes do not wait for one that is gone.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mjax._engine.base.folding import boundary
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.source import warn
from mjax._engine.runtime.arrays import devices
from mjax._engine.runtime.dispatch import collective_throttle
from mjax._engine.runtime.effects.tokens import effects_barrier
from mjax._engine.runtime.processes import clusters
from mjax._engine.runtime.processes.watch import Watch
from mjaxlib_shim import distributed as shim
from mjaxlib_shim.relay import Relay, split_address

#: Keys that users see lie below this one.
_USER = "user/"
_NO_TIMEOUT = 7 * 24 * 3600.0


class _Session(NamedTuple):
    """The objects that `initialize` makes and `shutdown` releases."""

    layout: clusters.Layout
    service: Any
    client: Any
    relay: Relay | None
    watch: Watch
    shutdown_timeout: float
    barriers: defaultdict[str, Iterator[int]]


_session: _Session | None = None


@boundary
def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Connects this process with the others of a distributed computation.

    Call it first in every process: before anything that uses devices, but after
    `config.num_cpu_devices` is set. Afterwards `mjax.devices()` are those of all processes,
    `mjax.local_devices()` those of this one, and every process runs the same program. Returns when
    all processes have connected.

    Missing arguments come from the environment variables `MJAX_COORDINATOR_ADDRESS`,
    `MJAX_NUM_PROCESSES` and `MJAX_PROCESS_ID` (or `JAX_...`), then from those of the launcher:
    Open MPI ("ompi"), MPICH, Intel MPI and others with PMI ("pmi"), Slurm ("slurm"), Kubernetes
    ("k8s"). The first one found is used. Open MPI 5 and PMI give the coordinator's address only if
    all processes are on one machine; "mpi4py", if you name it, asks MPI for it in any case.

    A process that dies, hangs or cannot be reached is detected within `heartbeat_timeout_seconds`.
    Calls of the others that wait for it raise `mjax.errors.ProcessLostError`, which names it. A
    process that ends with an exception is detected at once. If a call waits in C++ and cannot
    raise, its process ends with that error's text.

    Args:
      coordinator_address: "host:port" of process 0, as the others reach it. The port must be free
        there.
      num_processes: the number of processes.
      process_id: the number of this one, from 0 on.
      local_device_ids: which accelerators of the machine this process uses; CPU devices are not
        affected. `MJAX_LOCAL_DEVICE_IDS` (or `JAX_...`) sets it too.
      cluster_detection_method: the launcher to try, by the names above; "deactivate": none.
      initialization_timeout: seconds to wait for the other processes.
      heartbeat_timeout_seconds: seconds after which a silent process is missing.
      shutdown_timeout_seconds: seconds that `shutdown` waits for the others.
      coordinator_bind_address: "host:port" that process 0 listens on; default: the port of
        `coordinator_address`, on all interfaces; if its host is a loopback address (127.0.0.1,
        localhost, ::1), only on that. `MJAX_COORDINATOR_BIND_ADDRESS` (or `JAX_...`) sets it too.
        The service does not have authentication: everybody who reaches the port can read and
        write the data that the processes share.
      slice_index: the former name of `partition_index`, which JAX deprecates.
      partition_index: the group of machines with this process's accelerators. It has no effect on
        CPU devices, as in JAX.

    Raises:
      RuntimeError: called twice, or after devices were used; not all processes came in time.
      ValueError: something is missing or out of range.
      TypeError: a number is not an integer.

    Example:
      >>> mjax.distributed.initialize("10.0.0.1:1234", 2, 0)        # doctest: +SKIP
      >>> mjax.device_count(), mjax.local_device_count()            # doctest: +SKIP
      (4, 2)
    """
    global _session
    _check_first()
    layout = _complete(clusters.Layout(coordinator_address, num_processes, process_id),
                       cluster_detection_method)
    visible = _local_devices(local_device_ids)
    _check_partition(slice_index, partition_index)
    assert layout.coordinator_address and layout.num_processes  # _complete
    listen_on = coordinator_bind_address or _variable("COORDINATOR_BIND_ADDRESS") or (
        _listening(layout.coordinator_address))
    split_address(listen_on)
    service = None
    if layout.process_id == 0:
        service = _start_service(listen_on, layout.num_processes)
    _session = _connect(layout, service, initialization_timeout, heartbeat_timeout_seconds,
                        shutdown_timeout_seconds)
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["ROCR_VISIBLE_DEVICES"] = visible
    _join(_session)


@boundary
def shutdown() -> None:
    """Waits until all processes call it, then undoes `initialize`.

    It is called at exit, too. It does nothing if `initialize` was not called.

    Raises:
      ProcessLostError: a process is gone.
      TimeoutError: not all processes called it within `shutdown_timeout_seconds`.

    Example:
      >>> mjax.distributed.shutdown()
    """
    global _session
    if _session is None:
        return
    session = _session
    collective_throttle.settle()
    effects_barrier()
    try:
        _barrier(session, "mjax/shutdown", session.shutdown_timeout)
    except Exception:
        _abandon(session)
        _session = None
        raise
    session.watch.stop(session.shutdown_timeout)  # the store answers until this process leaves
    _session = None
    sockets.watch = None
    session.client.shutdown()
    if session.relay is not None:
        session.relay.close()
    if session.service is not None:
        session.service.shutdown()


def is_initialized() -> bool:
    """Whether `initialize` was called, but not `shutdown`.

    Example:
      >>> mjax.distributed.is_initialized()
      False
    """
    return _session is not None


def session() -> _Session | None:
    """What `initialize` made, until `shutdown`."""
    return _session


@boundary
def barrier(name: str = "barrier", timeout: float | None = None) -> None:
    """Waits until all processes reach this call.

    Args:
      name: the same in all processes; it may be used again.
      timeout: seconds; default: as long as all processes live.

    Raises:
      ProcessLostError: a process is gone.
      TimeoutError: not all processes reached it in time.
      RuntimeError: `initialize` was not called.

    Example:
      >>> mjax.distributed.barrier("loaded", timeout=60)                # doctest: +SKIP
    """
    _barrier(_current(), f"{_USER}{name}", timeout)


@boundary
def key_value_set(key: str, value: str | bytes, *, overwrite: bool = False) -> None:
    """Writes to the store that all processes share.

    For addresses, names, small states: everything goes through process 0.

    Args:
      key: like a path; `key_value_list` lists the keys below one.
      value: text or bytes.
      overwrite: whether the key may have a value.

    Raises:
      ValueError: the key has a value.
      ProcessLostError: a process is gone.
      RuntimeError: `initialize` was not called.

    Example:
      >>> mjax.distributed.key_value_set("config/seed", "7")           # doctest: +SKIP
      >>> mjax.distributed.key_value_get("config/seed", timeout=10)    # doctest: +SKIP
      '7'
    """
    session = _current()
    write = session.client.key_value_set_bytes if isinstance(value, bytes) else (
        session.client.key_value_set)
    what = f"key_value_set({key!r})"
    _call(session, lambda: write(_USER + key, value, overwrite), what, "ALREADY_EXISTS",
          lambda _: ValueError(f"{what}: the key has a value; say overwrite=True to replace it."))


@boundary
def key_value_get(key: str, timeout: float | None = None) -> str:
    """The text that a process writes, or has written, for a key; waits for it.

    Args:
      key: the key, as given to `key_value_set`.
      timeout: seconds; default: as long as all processes live.

    Returns:
      The text.

    Raises:
      TimeoutError: it was not set in time.
      ProcessLostError: a process is gone.
      RuntimeError: `initialize` was not called.

    Example:
      >>> mjax.distributed.key_value_set("losses/0", "0.5")             # doctest: +SKIP
      >>> mjax.distributed.key_value_get("losses/0", timeout=10)        # doctest: +SKIP
      '0.5'
    """
    return str(_get(key, timeout, "blocking_key_value_get"))


@boundary
def key_value_get_bytes(key: str, timeout: float | None = None) -> bytes:
    r"""`key_value_get` for bytes.

    Args:
      key: the key, as given to `key_value_set_bytes`.
      timeout: seconds; default: as long as all processes live.

    Returns:
      The bytes.

    Raises:
      TimeoutError: it was not set in time.
      ProcessLostError: a process is gone.
      RuntimeError: `initialize` was not called.
      TypeError: the key is not a string.

    Example:
      >>> mjax.distributed.key_value_set("state", bytes([1, 2]))        # doctest: +SKIP
      >>> mjax.distributed.key_value_get_bytes("state", timeout=10)     # doctest: +SKIP
      b'\x01\x02'
    """
    return bytes(_get(key, timeout, "blocking_key_value_get_bytes"))


@boundary
def key_value_list(prefix: str) -> dict[str, str]:
    """The keys below a path, with their values.

    Args:
      prefix: the path, such as `"losses"` for keys `"losses/0"` and `"losses/1"`.

    Returns:
      Key -> text.

    Raises:
      RuntimeError: `initialize` was not called.

    Example:
      >>> mjax.distributed.key_value_set("losses/0", "0.5")             # doctest: +SKIP
      >>> mjax.distributed.key_value_list("losses")                     # doctest: +SKIP
      {'losses/0': '0.5'}
    """
    session = _current()
    path = f"{_USER}{prefix.rstrip('/')}/"
    found = session.watch.call(lambda: session.client.key_value_dir_get(path),
                               f"key_value_list({prefix!r})")
    return {key.removeprefix(_USER): value for key, value in found}


@boundary
def key_value_delete(key: str) -> None:
    """Removes a key, and all below it.

    Args:
      key: the key, as given to `key_value_set`.

    Raises:
      RuntimeError: `initialize` was not called.

    Example:
      >>> mjax.distributed.key_value_set("losses/0", "0.5")             # doctest: +SKIP
      >>> mjax.distributed.key_value_delete("losses")                   # doctest: +SKIP
      >>> mjax.distributed.key_value_list("losses")                     # doctest: +SKIP
      {}
    """
    session = _current()
    session.watch.call(lambda: session.client.key_value_delete(_USER + key),
                       f"key_value_delete({key!r})")


# -- arguments --


def _variable(name: str) -> str | None:
    return os.environ.get(f"MJAX_{name}") or os.environ.get(f"JAX_{name}")


def _check_first() -> None:
    if _session is not None:
        msg = "mjax.distributed.initialize() was called before in this process."
        raise RuntimeError(msg)
    if devices.made():
        msg = ("mjax.distributed.initialize() comes too late: the devices of this process are "
               "fixed as soon as something uses them. Call it before any computation, "
               "mjax.devices(), device_put and the like.")
        raise RuntimeError(msg)


def _complete(given: clusters.Layout, method: str | None) -> clusters.Layout:
    layout = clusters.detect(given, method, os.environ)
    for name, value in layout._asdict().items():
        if value is None:
            msg = (f"distributed.initialize: {name} is not known. Give it, set "
                   f"MJAX_{name.upper()}, or start the processes with a launcher that sets "
                   f"variables mjax knows ({', '.join(clusters.LAUNCHERS)}). Under mpirun, "
                   "cluster_detection_method='mpi4py' asks MPI, if mpi4py is installed.")
            raise ValueError(msg)
    address, count, number = layout
    assert address is not None and count is not None and number is not None
    for name, value in (("num_processes", count), ("process_id", number)):
        if not isinstance(value, int):
            msg = f"distributed.initialize: {name} must be an int, got {value!r}."
            raise TypeError(msg)
    if not 0 <= number < count:
        msg = (f"distributed.initialize: process_id must be in range({count}), because "
               f"num_processes={count}, got {number}.")
        raise ValueError(msg)
    split_address(address)
    return layout


def _check_partition(slice_index: Any, partition_index: Any) -> None:
    for name, value in (("slice_index", slice_index), ("partition_index", partition_index)):
        if not (value is None or isinstance(value, int)):
            msg = (f"distributed.initialize: {name} must be an int or None, got {value!r} of type "
                   f"{type(value).__name__}.")
            raise TypeError(msg)
    if slice_index is not None and partition_index is None:
        warn("distributed.initialize: slice_index is the former name of partition_index; use that "
             "instead.", DeprecationWarning)


def _local_devices(ids: int | Sequence[int] | None) -> str | None:
    if ids is None:
        return _variable("LOCAL_DEVICE_IDS")
    return ",".join(str(int(i)) for i in ([ids] if isinstance(ids, int) else ids))


# -- making and ending --


def _listening(address: str) -> str:
    """The address on which process 0 listens by default: all interfaces, or only the loopback
    address if that is the coordinator's. The service does not authenticate clients."""
    host, port = split_address(address)
    name = host.strip("[]").lower()
    loopback = name in ("localhost", "::1") or name.startswith("127.")
    return address if loopback else f"[::]:{port}"


def _start_service(listen_on: str, count: int) -> Any:
    try:
        return shim.start_service(listen_on, count)
    except OSError as error:
        msg = f"distributed.initialize: process 0: {error.strerror}."
        raise RuntimeError(msg) from None
    except Exception as error:
        msg = (f"distributed.initialize: process 0 cannot listen on {listen_on}; is the port "
               f"taken? ({error})")
        raise RuntimeError(msg) from None


def _connect(layout: clusters.Layout, service: Any, timeout: int, heartbeat_timeout: float,
             shutdown_timeout: int) -> _Session:
    address, count, number = layout
    assert address is not None and count is not None and number is not None
    watches: list[Watch] = []

    def service_lost() -> None:
        for watch in watches:
            watch.service_lost()

    try:
        client, relay = shim.connect(
            address, number, timeout=timeout,
            on_service_lost=None if service is not None else service_lost)
    except TimeoutError as error:
        _end_at_once(service)
        msg = (f"distributed.initialize: process {number} of {count} did not find the others at "
               f"{address} within {timeout} s: {error}. Are all running, process 0 included, and "
               "do they agree on the address and the number of processes?")
        raise RuntimeError(msg) from None
    watch = Watch(client, number, count, heartbeat_timeout)
    watches.append(watch)
    return _Session(layout, service, client, relay, watch, shutdown_timeout,
                    defaultdict(itertools.count))


def _join(session: _Session) -> None:
    """Starts watching the other processes, and makes the client with the devices of all."""
    devices.add_options(
        "cpu",
        distributed_client=session.client,
        node_id=session.layout.process_id,
        num_nodes=session.layout.num_processes,
        collectives=shim.gloo_collectives(session.client),
    )
    watch = sockets.watch = session.watch
    watch.start()
    atexit.register(_at_exit)
    # Making a client waits for the other processes and holds the GIL: so all do it now.
    watch.introduce(lambda: _barrier(session, "mjax/devices", None))
    devices.client()


def _abandon(session: _Session) -> None:
    """Keeps C++ objects until the process ends: their threads may wait for missing processes."""
    session.watch.stop(session.watch.interval)
    _end_at_once(session.client, session.service, *devices.made())


def _end_at_once(*held: Any) -> None:
    """Ends Python as usual, and then the process, without C++'s clean-up.

    That would wake threads, which would ask for a GIL that is gone, and abort.
    """
    for each in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):  # of glibc: calls this with the exit status
        libc.on_exit(libc._exit, None)


def _at_exit() -> None:
    if _session is None:
        return
    session = _session
    error = None if hasattr(sys, "ps1") else getattr(sys, "last_value", None)
    if session.watch.lost:
        _abandon(session)
    elif error is not None:
        number = session.layout.process_id
        session.watch.leave(f"process {number}: it ended with {type(error).__name__}: {error}")
        _abandon(session)
    else:
        shutdown()


# -- talking --


def _current() -> _Session:
    if _session is None:
        msg = "this needs several processes: call mjax.distributed.initialize() first."
        raise RuntimeError(msg)
    return _session


def _milliseconds(timeout: float | None) -> int:
    return int((_NO_TIMEOUT if timeout is None else timeout) * 1000)


def _call(session: _Session, function: Callable[[], Any], what: str, code: str,
          instead: Callable[[Exception], Exception]) -> Any:
    """`Watch.call` that replaces jaxlib's error of one status code by another error."""
    try:
        return session.watch.call(function, what)
    except Exception as error:
        if code not in str(error):
            raise
        raise instead(error) from None


def _barrier(session: _Session, name: str, timeout: float | None) -> None:
    # jaxlib's barrier does not wait if its name was used before.
    unique = f"{name}#{next(session.barriers[name])}"
    shown = name.removeprefix(_USER)
    _call(session, lambda: session.client.wait_at_barrier(unique, _milliseconds(timeout)),
          f"The barrier {shown!r}", "DEADLINE_EXCEEDED", lambda error: TimeoutError(
              f"the barrier {shown!r} was not reached by all processes in {timeout} s.\n{error}"))


def _get(key: str, timeout: float | None, method: str) -> Any:
    session = _current()
    read = getattr(session.client, method)
    what = f"key_value_get({key!r})"
    return _call(
        session, lambda: read(_USER + key, _milliseconds(timeout)), what, "DEADLINE_EXCEEDED",
        lambda _: TimeoutError(f"{what}: no process has set the key within {timeout} s."))
