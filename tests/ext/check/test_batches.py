"""The ways in which the checker batches operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mjax_ext import core
from mjax_ext.check._application import Application
from mjax_ext.check._batches import _MOST, _ways


def ways(shapes):
    application = Application(core.Primitive("of operands"), list(map(np.zeros, shapes)), {})
    return [*itertools.islice(_ways(application, np.random.default_rng(0)), 1000)]


def test_all_ways_are_tried_if_they_are_few():
    found = ways([(2,), (), (3,)])
    assert sorted(found, key=str) == sorted([way for way in itertools.product(
        (None, 0, 1), (None, 0), (None, 0, 1)) if any(d is not None for d in way)], key=str)


@pytest.mark.parametrize("count", [20, 64])
def test_many_operands_are_batched_in_some_ways(count):
    found = ways([()] * count)
    assert len(found) == len(set(found)) == max(count, _MOST)
    for k in range(count):
        assert tuple(0 if j == k else None for j in range(count)) in found
    assert all(len(way) == count and any(d is not None for d in way) for way in found)
