"""Memories by their purpose: where `device_put` puts arrays, on every platform that has them."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import P
from mjax.memory import Space
from mjax_ext import core

X = np.arange(4.0, dtype=np.float32)
KINDS = {memory.kind for memory in mjax.devices()[0].addressable_memories()}
with_host = pytest.mark.skipif(
    "pinned_host" not in KINDS, reason="this jaxlib's CPU has one memory")


def test_names():
    assert core.MemorySpace is Space and repr(Space.Host) == "MemorySpace.Host"
    assert [s.name for s in Space] == ["Device", "Host", "Any"]


@with_host
def test_there_and_back():
    mesh = mjax.make_mesh((2,), ("i",))
    for x in (mjax.numpy.asarray(X), mjax.device_put(X, mjax.NamedSharding(mesh, P("i")))):
        there = mjax.device_put({"x": x, "y": X}, Space.Host)
        assert there["x"].sharding == x.sharding.with_memory_kind("pinned_host")
        assert there["y"].sharding.memory_kind == "pinned_host" and there["x"].committed
        np.testing.assert_array_equal(there["x"], X)
        back = mjax.device_put(there["x"], Space.Device)
        assert back.sharding == x.sharding
        np.testing.assert_array_equal(back, X)
    trees = mjax.device_put((X, X), (Space.Host, Space.Device))
    assert [y.sharding.memory_kind == "pinned_host" for y in trees] == [True, False]


@with_host
def test_transformations():
    around = lambda x: mjax.device_put(mjax.device_put(x, Space.Host), Space.Device) ** 2
    np.testing.assert_allclose(mjax.grad(lambda x: around(x).sum())(X), 2 * X)
    np.testing.assert_allclose(mjax.vmap(around)(X), X ** 2)
    there = mjax.vmap(lambda x: mjax.device_put(x, Space.Host))(mjax.numpy.asarray(X))
    assert there.sharding.memory_kind == "pinned_host"


def test_in_programs():
    np.testing.assert_allclose(mjax.jit(lambda x: mjax.device_put(x, Space.Device) + 1)(X), X + 1)
    with pytest.raises(ValueError, match="Any does not name one memory"):
        mjax.jit(lambda x: mjax.device_put(x, Space.Any))(X)


@with_host
def test_results_of_programs():
    put = lambda x: (mjax.device_put(x * 2, Space.Host), x + 1)
    for f in (put, lambda x: mjax.jit(put)(x)):  # also in calls
        there, here = mjax.jit(f)(X)
        assert [y.sharding.memory_kind == "pinned_host" for y in (there, here)] == [True, False]
        np.testing.assert_allclose(there, 2 * X)
    inside = mjax.jit(lambda x: mjax.device_put(x, Space.Host) + 1)(X)
    np.testing.assert_allclose(inside, X + 1)
    cut = mjax.device_put(X, mjax.NamedSharding(mjax.make_mesh((2,), ("i",)), P("i")))
    with pytest.raises(ValueError, match="Give a NamedSharding with memory_kind"):
        mjax.jit(put)(cut)
