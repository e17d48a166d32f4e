"""Programs over several devices that are called without waiting do not wait for each other."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
import mjax
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
for _ in range(1500):  # jaxlib lets 32 be under way: all of its threads may be waiting then
    y = f(x)
assert abs(float(y) - expected) < 1e-3

# Without collectives nobody waits for another, and nothing is paced; mixed with sums too.
step = mjax.jit(lambda x: x * 1.0001)
y, totals = x, []
for i in range(3000):
    y = step(y)
    if i % 10 == 0:
        totals.append(f(y))
assert all(np.isfinite(total) for total in totals)
np.testing.assert_allclose(y, np.asarray(x) * 1.0001 ** 3000, rtol=1e-3)
print("done")
"""


def test_a_thousand_sums_in_a_row():
    environment = {**os.environ, "MJAX_ENABLE_CHECKS": "0",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "done"
