"""Python's part of the work over n devices does not grow with n, up to 64 of them.

Calls of functions are counted, those in C included, so that the outcome is the same on any machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNTS = (4, 8, 16, 32, 64)
PROGRAM = """
import json, sys
import numpy as np
import mjax
from mjax import lax
from mjax.sharding import Mesh, NamedSharding, PartitionSpec as P
from tests.engine.reading import calls

X = np.ones((64, 3), np.float32)

def work(n):
    mesh = Mesh(np.array(mjax.devices()[:n]), ("i",))
    put = lambda: mjax.device_put(X, NamedSharding(mesh, P("i")))
    x = put()

    def loss(x):
        return lax.psum(lax.reduce_sum(lax.sin(x), (0, 1)), "i")

    def mapped():
        return mjax.shard_map(loss, mesh=mesh, in_specs=P("i"), out_specs=P())

    add, ready = mjax.jit(lambda x: x + 1), mjax.jit(mapped())
    mjax.block_until_ready([add(x), add(x), ready(x), ready(x)])
    return {"trace": calls(lambda: mjax.make_jaxpr(mjax.grad(mapped()))(X)),
            "lower": calls(lambda: mjax.jit(mjax.grad(mapped())).lower(x)),
            # One of four calls waits for an earlier one.
            "call": calls(lambda: [add(x) for _ in range(4)]),
            "call of shard_map": calls(lambda: ready(x)),
            "put": calls(put)}

work(2)  # what is done once is done
print(json.dumps({n: work(n) for n in map(int, sys.argv[1:])}))
"""


@pytest.fixture(scope="module")
def counts():
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root), "MJAX_ENABLE_CHECKS": "0",
                   "XLA_FLAGS": f"--xla_force_host_platform_device_count={max(COUNTS)}"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *map(str, COUNTS)], env=environment,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", ["trace", "call", "call of shard_map"])
def test_no_call_per_device(counts, name):
    each = [counts[str(n)][name] for n in COUNTS]
    assert max(each) <= min(each) + 5, each


@pytest.mark.parametrize("name", ["lower", "put"])
def test_few_calls_per_device(counts, name):
    """Shards are handled one by one, and modules say in which groups devices talk."""
    each = [counts[str(n)][name] for n in COUNTS]
    per_device = (each[-1] - each[0]) / (COUNTS[-1] - COUNTS[0])
    assert per_device <= 25, each
    for few, many, n in zip(each, each[1:], COUNTS, strict=False):
        assert many - few <= 25 * n, each
