"""A TCP relay on this machine that stays open when the other end is gone.

jaxlib ends the process at once when its connection to the coordinator breaks. Through a relay it
does not notice that: its calls wait, and the relay notifies its owner.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

__all__ = ["Relay", "split_address"]

_CHUNK = 1 << 16
#: Seconds for one attempt to reach the target; jaxlib tries again.
_CONNECT_TIMEOUT = 10


def split_address(address: str) -> tuple[str, int]:
    """The host and the port of "host:port"; IPv6 hosts are written in brackets.

    Args:
      address: the address.

    Returns:
      The host, and the port as an int.

    Raises:
      ValueError: the port is missing, or not a number.

    Example:
      >>> from mjaxlib_shim.relay import split_address
      >>> split_address("[::1]:8080")
      ('::1', 8080)
    """
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not an address: write host:port, as in 10.0.0.1:1234")
    return host.removeprefix("[").removesuffix("]"), int(port)


class Relay:
    """Passes bytes between connections to `.address`, on this machine, and the target.

    Args:
      target: "host:port".
      on_lost: called once, from a thread, when a connection breaks after `hold()`.

    Example:
      >>> from mjaxlib_shim.relay import Relay
      >>> relay = Relay("127.0.0.1:1234", on_lost=lambda: None)
      >>> relay.address.startswith("127.0.0.1:")
      True
      >>> relay.close()
    """

    def __init__(self, target: str, on_lost: Callable[[], None]):
        self._target = split_address(target)
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._holding = self._closed = False
        #: Whether the far side was ever reached.
        self.connected = False
        self._sockets: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)

    def hold(self) -> None:
        """Keeps the near side open from now on when the far side closes."""
        self._holding = True

    def close(self) -> None:
        """Closes everything, without a notification."""
        with self._lock:
            self._closed = True
            for each in (self._listener, *self._sockets):
                _close(each)

    def _start(self, function: Callable[..., None], *args: socket.socket) -> None:
        threading.Thread(target=function, args=args, name="mjax relay", daemon=True).start()

    def _keep(self, each: socket.socket) -> None:
        with self._lock:
            if self._closed:
                _close(each)
            self._sockets.add(each)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed
                return
            self._keep(near)
            self._start(self._connect, near)

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self._target, timeout=_CONNECT_TIMEOUT)
        except OSError:
            self._far_ended(near)
            return
        self.connected = True
        far.settimeout(None)
        for each in (near, far):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._keep(far)
        self._start(self._from_near, near, far)
        for data in _received(far):
            _send(near, data)
        self._far_ended(near)

    def _from_near(self, near: socket.socket, far: socket.socket) -> None:
        for data in _received(near):
            _send(far, data)
        # jaxlib closed its side: the rest of this connection is irrelevant.
        with self._lock:
            self._sockets.discard(near)
            self._sockets.discard(far)
        _close(near)
        _close(far)

    def _far_ended(self, near: socket.socket) -> None:
        """Called when the far side closed, or could not be reached."""
        with self._lock:
            if self._closed or near not in self._sockets:
                return
            if not self._holding:
                self._sockets.discard(near)
                _close(near)
                return
            lost, self._on_lost = self._on_lost, lambda: None
        lost()


def _received(source: socket.socket) -> Iterator[bytes]:
    try:
        while data := source.recv(_CHUNK):
            yield data
    except OSError:  # closed, or reset by the other side
        pass


def _send(sink: socket.socket, data: bytes) -> None:
    """Sends data; drops it if the side has closed, which is noticed by reading from it."""
    try:
        sink.sendall(data)
    except OSError:
        pass


def _close(each: socket.socket) -> None:
    """Closes a socket and wakes the threads that wait for it; `close` alone would not."""
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:  # not connected any more
        pass
    each.close()
