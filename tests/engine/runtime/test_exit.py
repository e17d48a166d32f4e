"""A process may end while its computations are under way."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

PROGRAM = """
import numpy as np
import mjax
from mjax.sharding import NamedSharding, PartitionSpec as P

x = np.eye(400, dtype=np.float32)
if {devices} > 1:
    x = mjax.device_put(x, NamedSharding(mjax.make_mesh(({devices},), ("i",)), P("i")))
f = mjax.jit(lambda x: mjax.numpy.linalg.norm(mjax.lax.fori_loop(0, 20, lambda i, y: y @ x, x)))
f(x).block_until_ready()
results = [f(x) for _ in range(5)]
if {dropped}:
    del results
"""


@pytest.mark.parametrize(("devices", "dropped"), [
    (4, False), *[pytest.param(*case, marks=pytest.mark.slow)
                  for case in ((1, False), (1, True), (4, True))]])
def test_a_process_ends_while_it_computes(devices, dropped):
    environment = {**os.environ,
                   "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    for _ in range(2):  # before jaxlib 0.8.2 two of five crashed
        done = subprocess.run([sys.executable, "-c", PROGRAM.format(devices=devices,
                                                                    dropped=dropped)],
                              env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr


DAEMON = """
import threading, time
import numpy as np
import mjax

f, started = mjax.jit(lambda x: x @ x * 0.001), threading.Event()
last = mjax.ShapeDtypeStruct((), np.float32)

def work():
    x = mjax.device_put(np.ones((200, 200), np.float32))
    while True:
        x = f(x)
        {step}
        started.set()

threading.Thread(target=work, daemon=True).start()
started.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", [
    "", "x.block_until_ready()", "float((x + 1)[0, 0])",
    "float(mjax.pure_callback(lambda v: v + 1, last, x[0, 0]))"])
def test_a_process_ends_while_a_daemon_thread_computes(step):
    done = subprocess.run([sys.executable, "-c", DAEMON.format(step=step)],
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


STORM = """
import threading, time
import numpy as np
import mjax

f, x = mjax.jit(lambda x, y: x * y), np.ones(3, np.float32)

def work():
    while True:
        {step}

for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["mjax.device_put(x)", "f(x, 2.0)", "f(mjax.device_put(x), x)"])
def test_a_process_ends_while_daemon_threads_make_and_free_arrays(step):
    """They are in C++ below a line of the user while an array is freed."""
    for _ in range(4):
        done = subprocess.run([sys.executable, "-c", STORM.format(step=step)],
                              capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_a_process_ends_while_a_daemon_thread_is_idle():
    program = STORM.format(step="time.sleep(60)").replace("def work():", "def work():\n    f(x, x)")
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=50)
    assert (done.returncode, done.stderr) == (0, "") and time.monotonic() - start < 50
