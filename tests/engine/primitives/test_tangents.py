"""Makers of derivative rules."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax._engine.primitives.tangents import ZERO, define_jvp, define_jvp_from_result
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.symbolic import Zero
from mjax_ext.core.primitives import add_p, complex_p, floor_p, gt_p, imag_p, neg_p, real_p, sub_p
from mjax_ext.interpreters import ad


def product(name, define, *rules):
    p = Primitive(name)
    p.def_impl(lambda x, y: x * y)
    p.def_abstract_eval(lambda x, y: x)
    p.def_batch(lambda args, dims: (p.bind(*args), dims[0]))
    define(p, *rules)
    return p


@pytest.mark.parametrize("zero", [ZERO, None])
@pytest.mark.parametrize("define", [define_jvp, define_jvp_from_result, ad.defjvp, ad.defjvp2])
def test_a_zero_derivative_by_one_operand(define, zero):
    by_right = ((lambda t, x, y: x * t) if define in (define_jvp, ad.defjvp)
                else (lambda t, out, x, y: x * t))
    p = product("p", define, zero, by_right)
    x, y = np.float32(3.0), np.float32(5.0)
    out, tangent = mjax.jvp(p.bind, (x, y), (np.float32(1.0), np.float32(2.0)))
    assert (out, tangent) == (15.0, 6.0)
    _, tangent = mjax.jvp(lambda x: p.bind(x, y), (x,), (np.float32(1.0),))
    assert tangent == 0.0


@pytest.mark.parametrize("define", [define_jvp, define_jvp_from_result])
def test_a_zero_derivative_by_all_operands(define):
    p = product("p", define, ZERO, ZERO)
    x = np.float32(3.0)
    out, tangent = p.jvp((x, x), (x, x))
    assert out == 9.0
    assert type(tangent) is Zero
    assert tangent.aval.shape == ()


def test_rows_of_tables_say_which_derivatives_are_zero():
    """Those that say None have a rule of their own."""
    for p in (floor_p, gt_p):
        assert "tangents.py" in p.rules()["jvp"]
    for p in (add_p, complex_p, imag_p, neg_p, real_p, sub_p):
        assert "tangents.py" not in p.rules()["jvp"]
