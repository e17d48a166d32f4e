"""Generators that keep their state: `experimental.random`; `tests/differential` has the values."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from mjax.experimental.random import StatefulPRNG, stateful_rng


def test_draws_are_those_of_the_keys_that_the_count_makes():
    rng, key = stateful_rng(5), random.key(5)
    assert float(rng.uniform()) == float(random.uniform(random.fold_in(key, 0)))
    jitted = mjax.jit(lambda rng: rng.normal(size=3))
    for n in (1, 2):
        np.testing.assert_array_equal(jitted(rng), random.normal(random.fold_in(key, n), (3,)))
    assert int(rng._counter[...]) == 3


def test_loops_and_batches_draw_anew():
    rng = stateful_rng(5)
    _, drawn = lax.scan(lambda c, _: (c, rng.random()), None, length=8)
    assert len(set(np.asarray(drawn).tolist())) == 8
    each = mjax.vmap(lambda rng: jnp.stack([rng.random(), rng.random()]))(rng.split(4))
    assert len(set(np.asarray(each).ravel().tolist())) == 8
    assert len({float(child.random()) for child in rng.spawn(4)}) == 4


@pytest.mark.parametrize("f, error, match", [
    (lambda: stateful_rng(0).split(2).random(), ValueError, "split.*map a function"),
    (lambda: StatefulPRNG(np.zeros(2, "uint32"), mjax.new_ref(0)), ValueError, "typed one"),
    (lambda: StatefulPRNG(random.key(0), 0), ValueError, "counter must be a reference"),
    (lambda: StatefulPRNG(random.key(0), mjax.new_ref(0.5)), ValueError, "reference to integers"),
    (lambda: mjax.jit(lambda: stateful_rng(0))(), ValueError, "returns a reference"),
    (lambda: mjax.vmap(lambda x: stateful_rng().random())(np.ones(2)), TypeError, "needs a seed"),
])
def test_refusals(f, error, match):
    with pytest.raises(error, match=match):
        f()
