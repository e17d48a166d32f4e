"""v1: staging, dead code, known and unknown values. Frozen: see `test_frozen.py`."""

from __future__ import annotations

import numpy as np

import mjax
from mjax import lax
from mjax_ext.v1 import core
from mjax_ext.v1 import linear_util as lu
from mjax_ext.v1.interpreters import partial_eval as pe

AVAL = core.ShapedArray((), np.dtype("float32"))


def test_functions_are_staged():
    jaxpr, out_avals, consts = pe.trace_to_jaxpr_dynamic(
        lu.wrap_init(lambda x: [lax.sin(x)]), [AVAL])[:3]
    assert [eqn.primitive for eqn in jaxpr.eqns] == [core.primitives.sin_p]
    assert [*out_avals] == [AVAL] and [*consts] == []


def test_dead_code_is_removed():
    jaxpr = mjax.make_jaxpr(lambda x, y: (lax.sin(x), lax.cos(y)))(1.0, 1.0)
    rest, used = pe.dce_jaxpr(jaxpr, [True, False])
    assert [eqn.primitive for eqn in rest.eqns] == [core.primitives.sin_p]
    assert [*used] == [True, False] and len(rest.outvars) == 1


def test_rules_of_dead_code():
    p, seen = core.Primitive("v1_dce", multiple_results=True), []
    p.def_abstract_eval(lambda x, y: [x, y])

    def rule(used_outputs, eqn):
        seen.append([*used_outputs])
        return [True, True], eqn

    pe.dce_rules[p] = rule
    jaxpr = mjax.make_jaxpr(lambda x, y: p.bind(x, y))(1.0, 2.0)
    rest, used = pe.dce_jaxpr(jaxpr, [False, True])
    assert seen == [[False, True]] and len(rest.eqns) == 1 and [*used] == [True, True]


def test_known_values_are_computed():
    def f(x, y):
        return [lax.sin(x), lax.mul(y, 2.0)]

    jaxpr, out, consts = pe.trace_to_jaxpr_nounits(
        lu.wrap_init(f), [pe.PartialVal.known(0.5), pe.PartialVal.unknown(AVAL)],
        instantiate=False)[:3]
    assert out[0].is_known() and not out[1].is_known()
    np.testing.assert_allclose(out[0].get_known(), np.sin(0.5), rtol=1e-6)
    assert [eqn.primitive for eqn in jaxpr.eqns] == [core.primitives.mul_p]
    assert [*consts] == []


def test_constants_become_inputs():
    c = np.ones(3, np.float32)
    jaxpr = mjax.make_jaxpr(lambda x: x + c)(c)
    closed = pe.convert_constvars_jaxpr(jaxpr)
    assert len(closed.invars) == 2 and not closed.constvars
    out, = core.eval_jaxpr(closed, [], c, c)
    np.testing.assert_array_equal(out, 2 * c)


def test_rules_of_staging():
    p = core.Primitive("v1_staging")
    p.def_abstract_eval(lambda x: x)
    pe.custom_staging_rules[p] = lambda trace, source_info, x: (
        trace.default_process_primitive(core.primitives.neg_p, [x], {}, source_info))
    jaxpr = mjax.make_jaxpr(p.bind)(1.0)
    assert [eqn.primitive for eqn in jaxpr.eqns] == [core.primitives.neg_p]
