"""Spike: remat with a policy. What it taught is in docs/design/0001-spikes.md; its code has
become mjax/_engine/control/remat/remat.py, and these are its assertions, on that.
"""

from __future__ import annotations

import collections

import numpy as np

import mjax
from mjax import lax
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax.ad_checkpoint import checkpoint_name, saved_residuals

X, Y = np.random.default_rng(1).normal(size=(2, 3)).astype("float32") / 2


def chain(x, y):
    for _ in range(3):
        x = lax.mul(lax.sin(lax.mul(x, y)), lax.exp(x))
    return x


@mjax.jit
def named(x, y):
    z = checkpoint_name(lax.sin(lax.exp(lax.mul(x, y))), "keep")
    return lax.mul(lax.sin(z), x)


def sines(primitive, *avals, **params):
    return primitive is lax.sin_p


def count(jaxpr, inside=False):
    """How often each primitive stands in the program, and in what computes again."""
    counts = collections.Counter()
    for eqn in jaxpr.eqns:
        within = inside or eqn.params.get("differentiated", False)
        counts[eqn.primitive.name, within] += 1
        for jaxpr in jaxprs_in_params(eqn.params):
            counts += count(jaxpr, within)
    return counts


def of_gradient(f, policy):
    f = mjax.checkpoint(f, policy=policy)
    return count(mjax.make_jaxpr(mjax.grad(
        lambda x, y: lax.reduce_sum(f(x, y), (0,)), (0, 1)))(X, Y))


def saved(f, policy):
    return len(saved_residuals(mjax.checkpoint(f, policy=policy), X, Y))


def test_nothing_is_saved_but_the_inputs():
    counts = of_gradient(chain, None)
    assert counts["sin", False] == 3 and counts["sin", True] == 3
    assert saved(chain, None) == 2


def test_what_the_policy_saves_is_not_computed_again():
    counts = of_gradient(chain, sines)
    assert counts["sin", True] == 0 and counts["exp", True] == 3
    assert saved(chain, sines) == 2 + 3


def test_names_inside_of_jit():
    # The derivatives of the inner sin and exp need exp; sin(z) and cos(z) only what was saved.
    counts = of_gradient(named, mjax.checkpoint_policies.save_only_these_names("keep"))
    assert counts["exp", True] == 1 and counts["sin", True] == 1
    counts = of_gradient(named, None)
    assert counts["exp", True] == 1 and counts["sin", True] == 2
