"""v1: types of references. Frozen: `tests/generations/test_frozen.py` refuses edits."""

from __future__ import annotations

import numpy as np

import mjax
from mjax_ext.v1 import core
from mjax_ext.v1.core import primitives as prims
from mjax_ext.v1.ref import AbstractRef, Ref, freeze, new_ref


def test_references_have_a_type_of_their_own():
    def f(x):
        ref = new_ref(x)
        ref[...] += 1.0
        return freeze(ref)

    assert mjax.jit(f)(1.0) == 2.0
    eqns = mjax.make_jaxpr(f)(np.float32(1)).eqns
    made = next(eqn for eqn in eqns if eqn.primitive is prims.new_ref_p)
    aval = made.outvars[0].aval
    assert type(aval) is AbstractRef and aval.inner_aval == core.get_aval(np.float32(1))
    assert (aval.shape, aval.dtype) == ((), np.float32)
    assert eqns[-1].primitive is prims.freeze_p and eqns[-1].invars == made.outvars


def test_references_outside_of_programs():
    ref = new_ref(np.zeros(2, np.float32))
    assert isinstance(ref, Ref) and ref.shape == (2,) and type(ref.aval) is AbstractRef
    ref[0] = 3.0
    np.testing.assert_array_equal(ref[...], [3, 0])
    np.testing.assert_array_equal(freeze(ref), [3, 0])


def test_effects_tell_the_operand():
    jaxpr = mjax.make_jaxpr(lambda ref: ref.set(2.0))(new_ref(np.float32(1)))
    assert jaxpr.effects and all(isinstance(e, core.Effect) for e in jaxpr.effects)
