"""Random programs in shard_map, against the same programs on all devices' values at once.

The oracle knows no devices: a value is an array with one axis per mesh axis in front, of size
1 where all devices have the same, and a collective is an operation on these axes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import Mesh
from mjax.sharding import PartitionSpec as P

AXES = {"i": 2, "j": 4}
MESH = Mesh(np.array(mjax.devices()[:8]).reshape(2, 4), tuple(AXES))
N = 4  # elements of a shard


def front(axis):
    """The oracle's axis of a mesh axis."""
    return list(AXES).index(axis)


def spread(x, axis):
    """With an element per device along a mesh axis."""
    shape = list(x.shape)
    shape[front(axis)] = AXES[axis]
    return jnp.broadcast_to(x, shape)


def total(x):
    """The sum of the elements of a shard, kept as an axis of size 1."""
    return jnp.sum(x, axis=-1, keepdims=True)


def gathered(x, axis):
    """Shards of a mesh axis weighted by their place and added: what is made of an all_gather."""
    weights = jnp.arange(1.0, AXES[axis] + 1)
    return jnp.tensordot(weights, x, 1)


def whole_gather(x, axis):
    """The oracle's `gathered`."""
    x = spread(x, axis)
    shape = [1] * x.ndim
    shape[front(axis)] = AXES[axis]
    return jnp.sum(x * jnp.arange(1.0, AXES[axis] + 1).reshape(shape), front(axis), keepdims=True)


def scattered(x, y, axis):
    """A psum cut up and put together again."""
    part = lax.psum_scatter(jnp.tile(x, AXES[axis]), axis, tiled=True)
    return jnp.sin(part)


def whole_scatter(x, y, axis):
    return jnp.sin(spread(jnp.sum(spread(x, axis), front(axis), keepdims=True), axis))


def looped(collect):
    """A scan whose carry comes to vary as the other operand does, with a sum over devices."""

    def f(x, y, axis):
        def step(c, k):
            return jnp.tanh(c * k + y + 0.1 * collect(c, axis)), total(c)

        c, ys = lax.scan(step, x, jnp.array([0.5, -1.0, 2.0]))
        return c + jnp.sum(ys, 0)

    return f


def whole_loop(x, y, axis):
    def size_of(c):
        return AXES[axis] * c if c.shape[front(axis)] == 1 else jnp.sum(c, front(axis),
                                                                        keepdims=True)

    ys = 0.0
    for k in (0.5, -1.0, 2.0):
        x, ys = jnp.tanh(x * k + y + 0.1 * size_of(x)), ys + total(x)
    return x + ys


def branched(x, y, axis):
    return lax.cond(jnp.sum(x) > 0, lambda a: jnp.sin(a) * y, lambda a: a - 1.0, x)


def whole_branch(x, y, axis):
    return jnp.where(total(x) > 0, jnp.sin(x) * y, x - 1.0)


#: name -> (on a device, on all of them at once); functions of two values and an axis.
OPS = {
    "sin": (lambda x, y, a: jnp.sin(x),) * 2,
    "mul": (lambda x, y, a: x * y,) * 2,
    "sub": (lambda x, y, a: 0.5 * x - y,) * 2,
    "dot": (lambda x, y, a: jnp.tanh(total(x * y)) + x,) * 2,
    "remat": (mjax.checkpoint(lambda x, y, a: jnp.sin(x) * jnp.cos(y), static_argnums=(2,)),
              lambda x, y, a: jnp.sin(x) * jnp.cos(y)),
    "jit": (mjax.jit(lambda x, y, a: jnp.tanh(x) + y * y, static_argnums=2),
            lambda x, y, a: jnp.tanh(x) + y * y),
    "index": (lambda x, y, a: x * (1.0 + lax.axis_index(a)),
              lambda x, y, a: x * (1.0 + jnp.arange(AXES[a]).reshape(
                  [-1 if k == front(a) else 1 for k in range(3)]))),
    "psum": (lambda x, y, a: 0.3 * lax.psum(x, a),
             lambda x, y, a: 0.3 * jnp.sum(spread(x, a), front(a), keepdims=True)),
    "pmean": (lambda x, y, a: lax.pmean(x, tuple(AXES)),
              lambda x, y, a: jnp.mean(spread(spread(x, "i"), "j"), (0, 1), keepdims=True)),
    "ppermute": (lambda x, y, a: lax.ppermute(x, a, [(k, (k + 1) % AXES[a])
                                                     for k in range(AXES[a])]),
                 lambda x, y, a: jnp.roll(spread(x, a), 1, front(a))),
    "all_gather": (lambda x, y, a: 0.2 * gathered(lax.all_gather(x, a), a),
                   lambda x, y, a: 0.2 * spread(whole_gather(x, a), a)),
    "scatter": (scattered, whole_scatter),
    "scan": (looped(lambda c, a: lax.psum(c, a)), whole_loop),
    "cond": (branched, whole_branch),
}
STEPS = st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 5), st.integers(0, 5),
                           st.sampled_from(sorted(AXES))), min_size=2, max_size=8)


def run(steps, values, which):
    """The values of a program: each step appends one."""
    values = list(values)
    for name, i, j, axis in steps:
        values.append(OPS[name][which](values[-1 - i % len(values)], values[-1 - j % len(values)],
                                       axis))
    return values[-3:]


def on_devices(steps, w, x, y):
    """`w` has copies everywhere, `x` is cut along i, `y` along both axes."""
    kinds = []

    def body(*shards):
        outs = [out + jnp.zeros(N) for out in run(steps, shards, 0)]
        return [jnp.expand_dims(out, (0, 1)) for out in outs]

    def note(*shards):
        outs = body(*shards)
        kinds.extend(mjax.typeof(out).varying for out in outs)
        return [lax.pcast(out, tuple(sorted(set(AXES) - mjax.typeof(out).varying)), to="varying")
                for out in outs]

    specs = P(), P("i"), P(("i", "j"))
    mjax.eval_shape(mjax.shard_map(note, mesh=MESH, in_specs=specs, out_specs=P("i", "j")), w, x, y)
    # Results stay as invariant as they are: then their cotangents have to find all devices.
    out_specs = [P(*[a if a in kind else None for a in AXES]) for kind in kinds]
    return mjax.shard_map(body, mesh=MESH, in_specs=specs, out_specs=out_specs)(w, x, y)


def at_once(steps, w, x, y):
    return run(steps, (w.reshape(1, 1, N), x.reshape(2, 1, N), y.reshape(2, 4, N)), 1)


def check_program(steps, seed):
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=n * N).astype("float32") for n in (1, 2, 8)]
    outs, pull_back = mjax.vjp(mjax.jit(lambda *a: on_devices(steps, *a)), *args)
    expected, expected_pull_back = mjax.vjp(lambda *a: at_once(steps, *a), *args)
    cts = []
    for out, whole in zip(outs, expected, strict=True):
        # Values that vary by their type may be equal everywhere nevertheless.
        np.testing.assert_allclose(out, np.broadcast_to(whole, out.shape), rtol=2e-4, atol=2e-4)
        cts.append(rng.normal(size=out.shape).astype("float32"))
    sums = [jnp.sum(ct, [d for d in range(3) if w.shape[d] == 1 < ct.shape[d]], keepdims=True)
            for ct, w in zip(cts, expected, strict=True)]
    for actual, exact in zip(pull_back(cts), expected_pull_back(sums), strict=True):
        scale = 1 + float(np.abs(exact).max())
        np.testing.assert_allclose(actual / scale, exact / scale, rtol=1e-3, atol=1e-4)


@settings(max_examples=5, deadline=None, derandomize=True, database=None)
@given(STEPS, st.integers(0, 99))
def test_some(steps, seed):
    check_program(steps, seed)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(STEPS, st.integers(100, 999))
def test_many(steps, seed):
    check_program(steps, seed)
