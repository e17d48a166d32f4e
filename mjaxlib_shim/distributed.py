"""Several processes: the coordinator, its clients, and collectives between CPUs by gloo.

One process runs the *service*; every process, that one included, connects a *client* to it. The
client is a key-value store with barriers, through which jaxlib's CPU clients find each other.

When a process is missing, jaxlib itself ends all others from a C++ thread, with a text that callers
do not see. Its callback for that case cannot be written in Python: in every release of the window
its argument cannot be converted, and the process aborts. So this module avoids that case:
heartbeats and timeouts are practically off. Clients reach the service through a `relay`, which
stays open when the service is gone. mjax watches the processes by keys of the store.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from . import gates
from .native import ext
from .relay import Relay, split_address

__all__ = ["Client", "Service", "check_free", "connect", "gloo_collectives", "start_service"]

Client: Any = ext.DistributedRuntimeClient
Service: Any = ext.DistributedRuntimeService

#: Seconds without a heartbeat after which jaxlib ends all processes: a week.
_NEVER = 7 * 24 * 3600
#: Seconds within which a coordinator answers the first heartbeat.
_FIRST_HEARTBEAT = 0.05


def _heartbeats() -> dict[str, int]:
    if gates.HEARTBEAT_TIMEOUT.open:
        return {"heartbeat_timeout": _NEVER}
    return {"heartbeat_interval": _NEVER // 2, "max_missing_heartbeats": 2}


def start_service(address: str, num_processes: int) -> Any:
    """Starts the coordinator; `service.shutdown()` ends it, after all clients.

    Args:
      address: "host:port" to listen on; host `[::]` is every interface.
      num_processes: the number of clients that will connect.

    Returns:
      The service.

    Raises:
      TypeError: `address` is not a string, or `num_processes` is not an int.
      ValueError: `address` is not "host:port", or `num_processes` is below 1.
      OSError: the address cannot be listened on; says why.

    Example:
      >>> import socket
      >>> from mjaxlib_shim import distributed
      >>> with socket.create_server(("127.0.0.1", 0)) as free:
      ...   address = f"127.0.0.1:{free.getsockname()[1]}"
      >>> service = distributed.start_service(address, 1)
      >>> store, _ = distributed.connect(address, 0, timeout=60)
      >>> store.shutdown()
      >>> service.shutdown()
    """
    if not isinstance(address, str):
        raise TypeError(f"start_service: address must be a string 'host:port', not {address!r}")
    check_free(address)
    if num_processes < 1:
        raise ValueError(f"start_service: num_processes must be at least 1, not {num_processes}")
    return ext.get_distributed_runtime_service(
        address,
        num_processes,
        cluster_register_timeout=_NEVER,
        **_heartbeats(),
    )


def check_free(address: str) -> None:
    """Refuses an address on which jaxlib cannot listen. There, a coordinator mostly ends the
    process or shares the port with another one of the same user, and a profiler stays silent.

    Args:
      address: "host:port".

    Raises:
      ValueError: `address` is not "host:port".
      OSError: the address cannot be listened on; says why.

    Example:
      >>> import socket
      >>> from mjaxlib_shim import distributed
      >>> with socket.socket() as other:
      ...     other.bind(("127.0.0.1", 0))
      ...     distributed.check_free(f"127.0.0.1:{other.getsockname()[1]}")
      Traceback (most recent call last):
      OSError: [Errno 98] 127.0.0.1:... cannot be listened on: port ... is taken, ...
    """
    host, port = split_address(address)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(
            error.errno, f"{address} cannot be listened on: the host {host!r} is unknown"
        ) from None
    failures = [each for place in found if (each := _failure(place[0], place[4]))]
    if errno.EADDRINUSE in [each.errno for each in failures]:
        raise OSError(
            errno.EADDRINUSE,
            f"{address} cannot be listened on: port {port} is taken, by another program or an "
            "earlier server of this one. End that one, or choose another port",
        )
    if failures and len(failures) == len(found):
        remedy = (
            f"[::]:{port} is every interface of this machine"
            if failures[0].errno == errno.EADDRNOTAVAIL
            else "give all processes another address"
        )
        raise OSError(
            failures[0].errno, f"{address} cannot be listened on: {failures[0].strerror}; {remedy}"
        )


def _failure(family: int, place: Any) -> OSError | None:
    """The error of binding a socket in the way of jaxlib; it is closed again."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and place[0] == "::":
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            probe.bind(place)
    except OSError as error:
        # jaxlib listens on IPv4 alone where every interface is asked for and IPv6 is absent.
        if place[0] == "::" and error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
            return _failure(socket.AF_INET, ("0.0.0.0", place[1]))
        return error
    return None


def connect(
    address: str,
    process_id: int,
    *,
    timeout: float,
    on_service_lost: Callable[[], None] | None = None,
) -> tuple[Any, Relay | None]:
    """Connects to the coordinator, which may start later; waits for all other processes.

    The client has `key_value_set(key, value, allow_overwrite=False)`,
    `blocking_key_value_get(key, milliseconds)`, both also with `_bytes` at the end,
    `key_value_dir_get(prefix)`, `key_value_delete(key)`, `wait_at_barrier(name, milliseconds,
    process_ids=None)` and `shutdown()`, which waits for all others. The calls that wait do so in
    C++ without the GIL.

    Args:
      address: "host:port" of the coordinator.
      process_id: this process, from 0 on.
      timeout: seconds. After a timeout, the process has to end: connecting cannot be undone.
      on_service_lost: called from a thread when the connection breaks, at once if the
        service's process died. Needed in all processes but the service's own. Waiting calls
        of the client continue to wait.

    Returns:
      the client, and the relay it uses, to be closed after its shutdown; None without
      `on_service_lost`.

    Raises:
      TypeError: `process_id` is not an int.
      ValueError: `on_service_lost` is given, and `address` is not "host:port".
      TimeoutError: not all processes connected in time; says whether the service did.

    Example:
      >>> import socket
      >>> from mjaxlib_shim import distributed
      >>> with socket.create_server(("127.0.0.1", 0)) as free:
      ...   address = f"127.0.0.1:{free.getsockname()[1]}"
      >>> service = distributed.start_service(address, 1)
      >>> store, _ = distributed.connect(address, 0, timeout=60)
      >>> store.key_value_set("name", "a")
      >>> store.blocking_key_value_get("name", 1000)
      'a'
      >>> store.shutdown()
      >>> service.shutdown()
    """
    relay = None if on_service_lost is None else Relay(address, on_service_lost)
    client = ext.get_distributed_runtime_client(
        address if relay is None else relay.address,
        process_id,
        init_timeout=_NEVER,
        shutdown_on_destruction=False,
        use_compression=True,
        **_heartbeats(),
    )
    if not _within(timeout, client.connect):
        if relay is None or relay.connected:
            raise TimeoutError("not all processes connected to the coordinator")
        raise TimeoutError("the coordinator does not answer")
    if not gates.HEARTBEAT_TIMEOUT.open:
        # On 0.4.36, a client that is shut down before its first heartbeat was answered waits for
        # the next one: half a week.
        time.sleep(_FIRST_HEARTBEAT)
    if relay is not None:
        relay.hold()
    return client, relay


def _within(timeout: float, connect: Callable[[], None]) -> bool:
    """Calls `connect`, whose own timeout would end the process; False: it has not returned."""
    outcome: list[Exception | None] = []

    def run() -> None:
        try:
            connect()
            outcome.append(None)
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="mjax connects", daemon=True)
    thread.start()
    thread.join(timeout)
    if outcome and outcome[0] is not None:
        raise outcome[0]
    return bool(outcome)


def gloo_collectives(
    client: Any, hostname: str | None = None, interface: str | None = None
) -> Any:
    """Collectives between CPU clients over TCP: `cpu_client(collectives=...)`.

    Args:
      client: the client from `connect`.
      hostname: of this process, for the others; default: the machine's own name.
      interface: the network interface to listen on, instead of a host name.

    Returns:
      Collectives of jaxlib.

    Raises:
      TypeError: `client` is not such a client, or one of the names is not a string.
      RuntimeError: the machine does not have the interface, or cannot find the host name. Old
        releases of jaxlib end the process if they cannot find the host name.

    Example:
      >>> import socket
      >>> from mjaxlib_shim import distributed
      >>> with socket.create_server(("127.0.0.1", 0)) as free:
      ...   address = f"127.0.0.1:{free.getsockname()[1]}"
      >>> service = distributed.start_service(address, 1)
      >>> store, _ = distributed.connect(address, 0, timeout=60)
      >>> collectives = distributed.gloo_collectives(store, hostname="127.0.0.1")
      >>> store.shutdown()
      >>> service.shutdown()
    """
    return ext.make_gloo_tcp_collectives(
        distributed_client=client, hostname=hostname, interface=interface
    )
