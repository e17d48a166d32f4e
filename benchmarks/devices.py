"""Rows over eight simulated devices: `python -m benchmarks --devices`, in a process of its own.

The number of devices is set before the first client, so these rows run in another process than
those of one device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rows import Row, Timed, chain

COUNT = 8
FLAG = f"--xla_force_host_platform_device_count={COUNT}"
X = np.linspace(0.1, 0.9, 64, dtype=np.float32)


def cut(m: Any, *spec: Any) -> Any:
    """A sharding over all devices in one row."""
    mesh = m.sharding.Mesh(np.array(m.devices()[:COUNT]), ("i",))
    return m.sharding.NamedSharding(mesh, m.sharding.PartitionSpec(*spec))


def mapped(m: Any, f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of shards, their results added up over the devices."""
    P = m.sharding.PartitionSpec
    return m.shard_map(lambda x: m.lax.psum(f(x), "i"), mesh=cut(m).mesh, in_specs=P("i"),
                       out_specs=P())


def loss(m: Any, n: int) -> Callable[[Any], Any]:
    """A sum over devices of n equations."""
    body = chain(m, n)
    return mapped(m, lambda x: m.lax.reduce_sum(body(x), (0,)))


def called(function: Callable[[Any], Callable[..., Any]], count: int = 1
           ) -> Callable[[Any], Timed]:
    """Times a jitted function of sharded arrays."""

    def make(m: Any) -> Timed:
        args = [m.device_put(X + k, cut(m, "i")) for k in range(count)]
        f = m.jit(function(m))
        run = lambda: f(*args)
        return Timed(run, run)

    return make


def hosted(m: Any) -> Timed:
    """Times a jitted function of a NumPy array that is sharded over the devices."""
    f, x = m.jit(lambda x: x + 1, in_shardings=cut(m, "i")), np.tile(X[:, None], 64)
    run = lambda: f(x).block_until_ready()
    return Timed(run, run)


def awaited(m: Any) -> Timed:
    """Times a call and waits for its result.

    Otherwise jax's sums over devices deadlock once 32 are in flight.
    """
    timed = called(lambda m: loss(m, 10))(m)
    return timed._replace(call=lambda: timed.call().block_until_ready())


def eager_map(m: Any) -> Timed:
    """Times an eager call of a `shard_map` and waits for its result."""
    f, x = loss(m, 10), m.device_put(X, cut(m, "i"))
    run = lambda: f(x).block_until_ready()
    return Timed(run, run)


def traced(n: int, transform: Callable[[Any, Any], Any]) -> Callable[[Any], Timed]:
    """Times make_jaxpr of a transformed shard_map of n equations."""

    def make(m: Any) -> Timed:
        return Timed(lambda: m.make_jaxpr(transform(m, loss(m, n)))(X),
                     lambda: m.jit(transform(m, loss(m, 30)))(X))

    return make


def lowered(m: Any) -> Timed:
    return Timed(lambda: m.jit(m.grad(loss(m, 100))).lower(X),
                 lambda: m.jit(m.grad(loss(m, 30)))(X))


def put(m: Any) -> Timed:
    sharding = cut(m, "i")
    run = lambda: m.device_put(X, sharding)
    return Timed(run, run)


ROWS = [
    Row("8 devices: jit call, one array", 1.1, called(lambda m: lambda x: x + 1)),
    Row("8 devices: jit call, ten arrays", 1.1, called(
        lambda m: lambda *xs: [x + 1 for x in xs], 10)),
    Row("8 devices: jit call, a NumPy array", 1.1, hosted),
    Row("8 devices: jit of shard_map, awaited", 1.1, awaited),
    Row("8 devices: eager shard_map, awaited", 1.1, eager_map),
    Row("8 devices: device_put", 1.1, put),
    Row("8 devices: trace shard_map, per eqn", 0.6, traced(100, lambda m, f: f), 100),
    Row("8 devices: trace its grad, per eqn", 0.6, traced(100, lambda m, f: m.grad(f)), 100),
    Row("8 devices: lower its grad, per eqn", 0.6, lowered, 100),
]
