"""Placements: interned, and forgotten when there are too many."""

import numpy as np

import mjax
from mjax._engine.base.util import BoundedCache
from mjax._engine.runtime.arrays import placement


def test_placements_are_interned_and_forgotten(monkeypatch):
    x = np.zeros(3, np.float32)
    small = BoundedCache(4)
    monkeypatch.setattr(placement, "_placements", small)
    sharding = mjax.device_put(x).sharding
    first = placement.placement_of(mjax.typeof(x), sharding, False)
    assert placement.placement_of(mjax.typeof(x), sharding, False) is first
    for n in range(20):
        placement.placement_of(mjax.typeof(np.zeros(n, np.float32)), sharding, False)
    assert len(small) <= 4
