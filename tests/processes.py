"""Running a function in several processes at once, for tests of what they do together."""

from __future__ import annotations

import inspect
import os
import pathlib
import socket
import subprocess
import sys
import textwrap
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]


class Ended(NamedTuple):
    """The output of a process that has ended."""

    code: int
    out: str
    err: str


def free_port():
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_free(port):
    """Whether nobody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def start(body, rank, port, *, devices=2, arguments=(), **environment):
    """Starts `body(rank, port, *arguments)`, by its source, in a process of its own."""
    call = f"{body.__name__}({rank}, {port}, *{tuple(arguments)!r})"
    code = textwrap.dedent(inspect.getsource(body)) + f"\n{call}\n"
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.Popen(
        [sys.executable, "-u", "-W", "error", "-c", code],
        env={**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
             "PYTHONPATH": os.pathsep.join(paths), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(processes, timeout=90):
    """Waits for processes; kills all when one is still there after `timeout` seconds."""
    ended = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for each in processes:
                each.kill()
            out, err = process.communicate()
            err += f"killed after {timeout} s"
        ended.append(Ended(process.returncode, out, err))
    return ended


def run(body, *, count=2, check=True, **options):
    """Runs `body(rank, port)` in `count` processes; all of them succeed, unless not `check`ed."""
    port = free_port()
    ended = finish([start(body, rank, port, **options) for rank in range(count)])
    if check:
        good = all(each.code == 0 and "Exception ignored" not in each.err for each in ended)
        assert good, "\n".join(map(str, ended))
    return ended
