"""Programs over several devices that are called without waiting do not wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

START = """
import threading
import numpy as np
import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(mjax.devices()), ("i",))
x = mjax.device_put(np.arange(64, dtype=np.float32), NamedSharding(mesh, P("i")))

@mjax.jit
@mjax.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P())
def f(x):
    for _ in range(5):
        x = lax.sin(x) * x
    return lax.psum(lax.reduce_sum(x, (0,)), "i")

expected = float(f(x))
step = mjax.jit(lambda x: x * 1.0001)
"""

SUMS = """
for _ in range(1500):  # jaxlib lets 32 be under way: all of its threads may be waiting then
    y = f(x)
assert abs(float(y) - expected) < 1e-3
"""

# What has no collectives waits for nobody, but takes threads of the same pool.
MIXED = """
y, totals = x, []
for i in range(6000):
    y = step(y)
    if i % 10 == 0:
        totals.append(f(y))
assert all(np.isfinite(total) for total in totals)
np.testing.assert_allclose(y, np.asarray(x) * 1.0001 ** 6000, rtol=5e-3)
"""

THREADS = """
alone = mjax.jit(lambda a: jnp.tanh(a @ a) * 0.1)
results = {}

def work(k):
    a = [mjax.device_put(np.eye(150, dtype=np.float32), d) for d in mjax.devices()]
    y, totals = x, []
    for i in range(300):
        d = i * k % 8
        for _ in range(3):
            a[d] = alone(a[d])
        y = step(y)
        if i % 3 == k % 3:
            totals.append(f(x))
    mjax.block_until_ready(a)
    results[k] = y, [float(total) for total in totals]

threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(results) == 8
for y, totals in results.values():
    np.testing.assert_allclose(y, np.asarray(x) * 1.0001 ** 300, rtol=1e-3)
    np.testing.assert_allclose(totals, expected, rtol=1e-4)
"""

# The callback launches while its own program, and as many as may be, are under way.
CALLBACKS = """
def ask(x):
    return np.asarray(step(mjax.device_put(x, NamedSharding(mesh, P("i")))))

@mjax.jit
def asking(x):
    return mjax.pure_callback(ask, mjax.ShapeDtypeStruct((64,), np.float32), x) + 1

for _ in range(20):
    totals = [f(x) for _ in range(6)]
    y = asking(mjax.device_put(np.ones(64, np.float32), mjax.devices()[0]))
    totals.append(f(mjax.device_put(y, x.sharding)))
    np.testing.assert_allclose(y, 2.0001, rtol=1e-5)
"""

# A handler that saves a checkpoint, say, while its own thread waits for a turn.
SIGNALS = """
import signal
handled = []

def handle(*_):
    handled.append(float(f(x)))

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(1500):
    y = f(x)
float(y)
signal.setitimer(signal.ITIMER_REAL, 0)
assert handled and max(abs(value - expected) for value in handled) < 1e-3
"""


@pytest.mark.parametrize("program", [SUMS, MIXED, THREADS, CALLBACKS, SIGNALS],
                         ids=["sums", "mixed", "threads", "callbacks", "signals"])
def test_programs_do_not_wait_for_each_other_for_ever(program):
    environment = {**os.environ, "MJAX_ENABLE_CHECKS": "0",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    program = START + program + 'print("done")'
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "done"
