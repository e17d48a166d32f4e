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

# Over groups of devices: of two programs each could have threads for some of its groups alone.
GROUPS = """
grid = Mesh(np.array(mjax.devices()).reshape(4, 2), ("a", "b"))
x = mjax.device_put(np.ones((8, 8), np.float32), NamedSharding(grid, P("a", "b")))

def summed(axis, spec):
    return mjax.jit(mjax.shard_map(lambda x: lax.psum(x, axis), mesh=grid,
                                   in_specs=P("a", "b"), out_specs=spec))

columns, rows = summed("a", P(None, "b")), summed("b", P("a"))
for _ in range(500):
    y, z = columns(x), rows(x)
assert np.all(np.asarray(y) == 4) and np.all(np.asarray(z) == 2)
"""

# The same with callbacks: from jaxlib 0.6 on these are under way when their call has returned.
CALLING = GROUPS + """
def calling(axis, spec):
    def called(x):
        mjax.debug.callback(lambda v: None, x[0, 0])
        return lax.psum(x, axis)
    return mjax.jit(mjax.shard_map(called, mesh=grid, in_specs=P("a", "b"), out_specs=spec))

called_columns, called_rows = calling("a", P(None, "b")), calling("b", P("a"))
for _ in range(500):
    y, z = called_columns(x), called_rows(x)
    columns(x), rows(x)
assert np.all(np.asarray(y) == 4) and np.all(np.asarray(z) == 2)
"""

# The callback, in the background, launches sums without waiting for them.
LAUNCHING = GROUPS + """
kept = []

def launch(v):
    kept.append((columns(x), rows(x)))
    del kept[:-4]
    return np.asarray(v)

asking = mjax.jit(lambda v: mjax.pure_callback(launch, mjax.ShapeDtypeStruct((), np.float32), v))
for i in range(300):
    answer, y, z = asking(float(i)), columns(x), rows(x)
assert float(answer) == 299 and np.all(np.asarray(kept[-1][0]) == 4)
"""

# Programs without collectives do not wait, but take threads of the same pool.
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

# The callback computes in the background, while programs with collectives are launched.
COMPUTING = """
big = jnp.full((300, 300), 0.01)
alone = mjax.jit(lambda a: jnp.tanh(a @ a))

def compute(v):
    b = big
    for _ in range(3):
        b = alone(b)
    return np.asarray(b)[0, 0] + v

@mjax.jit
def asking(v):
    product = (big @ (big @ big)).sum()
    return product + mjax.pure_callback(compute, mjax.ShapeDtypeStruct((), np.float32), v * product)

for i in range(100):
    y = asking(float(i))
    totals = [f(x) for _ in range(5)]
    assert float(y) > 0 and abs(float(totals[-1]) - expected) < 1e-3
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

# All sorts of programs in any order, from 1 and from 4 threads.
RANDOM = """
import random
import time

SECONDS, THREADS = {seconds}, {threads}
devices = mjax.devices()
grid = Mesh(np.array(devices).reshape(4, 2), ("a", "b"))
square = mjax.device_put(np.ones((8, 8), np.float32), NamedSharding(grid, P("a", "b")))
stack = mjax.device_put(np.full((8, 64, 64), 0.01, np.float32), NamedSharding(grid, P(("a", "b"))))
half = mjax.device_put(x, NamedSharding(Mesh(np.array(devices[2:6]), ("h",)), P("h")))
one = mjax.device_put(np.full((100, 100), 0.01, np.float32), devices[0])

def mapped(f, spec, out, mesh=grid):
    return mjax.jit(mjax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=out))

def products(count):
    def multiplied(v):
        for _ in range(count):
            v = jnp.tanh(v @ v)
        return v
    return mapped(multiplied, P(("a", "b")), P(("a", "b")))

alone = mjax.jit(lambda a: jnp.tanh(a @ a))
scalar, like = mjax.ShapeDtypeStruct((), np.float32), mjax.ShapeDtypeStruct((8, 8), np.float32)
compute = lambda v: np.asarray(alone(one))[0, 0] + v
asking = mjax.jit(lambda a: mjax.pure_callback(compute, scalar, (a @ a).sum()))
doubled = mjax.jit(lambda v: mjax.pure_callback(lambda v: 2 * np.asarray(v), like, v) + 1)
turned = [mjax.jit(lambda v: v + 1, out_shardings=NamedSharding(grid, spec))
          for spec in (P(), P("b", "a"), P(None, "a"), P(("a", "b")))]
sums = [mapped(lambda v, axis=axis: lax.psum(v, axis), P("a", "b"), out)
        for axis, out in (("a", P(None, "b")), ("b", P("a")), (("a", "b"), P()))]
moved = mapped(lambda v: lax.ppermute(v, "a", [(i, (i + 1) % 4) for i in range(4)]),
               P("a", "b"), P("a", "b"))
over_half = mapped(lambda v: lax.psum(v, "h"), P("h"), P(), half.sharding.mesh)
heavy = [products(count) for count in (1, 5, 20)]

def work(seed):
    pick, results = random.Random(seed), []
    state = {{"square": square, "stack": stack, "one": one}}

    def any_of(name, start):
        return pick.choice([state[name], start])

    steps = [
        (15, lambda: state.update(stack=pick.choice(heavy)(any_of("stack", stack)))),
        (30, lambda: results.append(pick.choice(sums)(any_of("square", square)))),
        (5, lambda: results.append(over_half(half))),
        (7, lambda: state.update(square=moved(any_of("square", square)))),
        (4, lambda: state.update(square=step(square))),
        (4, lambda: results.append(pick.choice(turned)(any_of("square", square)))),
        (3, lambda: results.extend(square)),
        (12, lambda: state.update(one=alone(state["one"]))),
        (2, lambda: results.append(asking(one))),
        (1, lambda: results.append(doubled(square))),
        (5, lambda: results.append(mjax.device_put(state["square"], pick.choice(devices)))),
        (8, lambda: results.__delitem__(slice(0, pick.randrange(5)))),
        (2, lambda: mjax.block_until_ready(results)),
    ]
    weights, actions = zip(*steps)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        pick.choices(actions, weights)[0]()
    mjax.block_until_ready([results, state])

threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("program", [
    pytest.param(CALLBACKS, id="callbacks"),
    *[pytest.param(program, id=name, marks=pytest.mark.slow) for name, program in {
        "groups": GROUPS, "sums": SUMS, "calling": CALLING, "launching": LAUNCHING, "mixed": MIXED,
        "threads": THREADS, "computing": COMPUTING, "signals": SIGNALS}.items()]])
def test_programs_do_not_wait_for_each_other_for_ever(program):
    run(program)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 4])
def test_programs_in_any_order_do_not_either(threads):
    run(RANDOM.format(seconds=20, threads=threads))


def run(program):
    environment = {**os.environ, "MJAX_ENABLE_CHECKS": "0",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    program = START + program + 'print("done")'
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "done"
