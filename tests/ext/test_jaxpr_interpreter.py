"""Interpreters in initial style: a jaxpr is traced, and its equations are walked."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext import core
from mjax_ext.core import primitives

X = np.array([0.5, 1.0, 2.0], np.float32)

INVERSES = {
    primitives.exp_p: lax.log, primitives.log_p: lax.exp, primitives.tanh_p: lax.atanh,
    primitives.neg_p: lax.neg, primitives.sinh_p: lax.asinh,
}


def inverse(fun):
    """The inverse of a function of one array, as the tutorial on custom interpreters has it."""

    def inverted(y):
        jaxpr = mjax.make_jaxpr(fun)(y)
        env = {jaxpr.outvars[0]: y}
        walk(jaxpr, env)
        return env[jaxpr.invars[0]]

    return inverted


def walk(jaxpr, env):
    for eqn in reversed(jaxpr.eqns):
        (out,), (operand,) = eqn.outvars, [v for v in eqn.invars
                                           if not isinstance(v, core.Literal)]
        if eqn.primitive is primitives.jit_p:
            inner = eqn.params["jaxpr"]
            scope = {inner.outvars[0]: env[out]}
            walk(inner, scope)
            env[operand] = scope[inner.invars[0]]
        elif eqn.primitive is primitives.mul_p:
            (factor,) = [v.val for v in eqn.invars if isinstance(v, core.Literal)]
            env[operand] = lax.div(env[out], factor)
        elif eqn.primitive in INVERSES:
            env[operand] = INVERSES[eqn.primitive](env[out])
        else:
            raise MissingRuleError(f"no inverse of {eqn.primitive}")


def g(x):
    return lax.exp(lax.mul(mjax.jit(lax.tanh)(x), 2.0))


def test_inverse_interpreter():
    y = g(X)
    np.testing.assert_allclose(inverse(g)(y), X, rtol=1e-4)
    np.testing.assert_allclose(mjax.jit(inverse(g))(y), X, rtol=1e-4)
    np.testing.assert_allclose(mjax.vmap(inverse(g))(y), X, rtol=1e-4)
    for x in X:
        slope = lax.mul(mjax.grad(inverse(g))(g(x)), mjax.grad(g)(x))
        np.testing.assert_allclose(slope, 1, rtol=1e-3)
    with pytest.raises(MissingRuleError, match="no inverse of cos"):
        inverse(lax.cos)(y)


def test_eval_jaxpr_is_transformable():
    jaxpr = mjax.make_jaxpr(g)(X)
    run = core.jaxpr_as_fun(jaxpr)
    np.testing.assert_allclose(mjax.jvp(run, (X,), (X,))[1][0], mjax.jvp(g, (X,), (X,))[1])
    names = [eqn.primitive.name for eqn in mjax.make_jaxpr(run)(X).eqns]
    assert names == list(map(operator.attrgetter("primitive.name"), jaxpr.eqns))


def test_jaxprs_take_as_many_values_as_they_have_inputs():
    jaxpr = mjax.make_jaxpr(lambda x, y: x + y)(X, 1.0)
    for call in (lambda: core.eval_jaxpr(jaxpr, [], X), lambda: core.jaxpr_as_fun(jaxpr)(X)):
        with pytest.raises(TypeError,
                           match=r"2 inputs, of types float32\[.*, ~float32\[\], .*1 argument"):
            call()
    with pytest.raises(ValueError, match="called with 1 constant and 2 arguments"):
        core.eval_jaxpr(jaxpr, [3.0], X, X)
