"""`mjax_ext.state`: what it makes of programs with references."""

from __future__ import annotations

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax_ext import core
from mjax_ext.state.discharge import discharge_state


def mutate(x, first, y, second):
    first[0] = x
    second[...] += first[1] * y
    return x + y


def test_references_become_inputs_and_last_results():
    ref = mjax.new_ref(jnp.arange(2.0))
    jaxpr = mjax.make_jaxpr(mutate)(5.0, ref, 3.0, mjax.new_ref(1.0))
    pure, consts = discharge_state(jaxpr, jaxpr.consts)
    core.check_jaxpr(pure)
    assert not pure.effects and [a.shape for a in pure.in_avals] == [(), (2,), (), ()]
    out, first, second = core.eval_jaxpr(pure, consts, 5.0, jnp.arange(2.0), 3.0, jnp.float32(1))
    assert (float(out), float(second)) == (8, 4)
    np.testing.assert_array_equal(first, [5, 1])
    assert ref[...].tolist() == [0, 1]


def test_only_those_that_are_asked_for():
    jaxpr = mjax.make_jaxpr(mutate)(5.0, mjax.new_ref(jnp.zeros(2)), 3.0, mjax.new_ref(1.0))
    part, _ = discharge_state(jaxpr, jaxpr.consts, should_discharge=[True, True, True, False])
    assert [str(a) for a in part.in_avals][1:] == ["float32[2]", "~float32[]", "Ref{float32[]}"]
    assert len(part.outvars) == 2 and part.effects
