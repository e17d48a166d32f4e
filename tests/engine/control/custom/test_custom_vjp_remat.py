"""custom_vjp: optimize_remat."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from tests.engine.control.custom_programs import X, product, same
from tests.engine.reading import names


def expensive():
    f = mjax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (jnp.sin(x) * 1, jnp.exp(x)), lambda e, ct: (e * ct,), optimize_remat=True)
    return f


def test_remat_evaluates_the_function_where_it_keeps_no_residuals():
    f = expensive()
    for g in (f, mjax.jit(f), lambda x: mjax.vmap(f)(x * np.ones(3))[0]):
        remat = mjax.checkpoint(lambda x, g=g: g(jnp.cos(x)))
        jaxpr = mjax.make_jaxpr(mjax.grad(remat))(1.0)
        first, again = [e.params["jaxpr"] for e in jaxpr.eqns if e.primitive.name == "remat2"][:2]
        assert "exp" not in names(first) and "custom_vjp_call" in names(first)
        assert "exp" in names(again) and "remat_opt" in names(again)
        expected = -np.exp(np.cos(1)) * np.sin(1)
        np.testing.assert_allclose(mjax.grad(remat)(1.0), expected, 1e-5)
        np.testing.assert_allclose(mjax.jit(mjax.grad(remat))(1.0), expected, 1e-5)
    assert names(mjax.make_jaxpr(f)(1.0)) == ["custom_vjp_call", "sin"]
    np.testing.assert_allclose(mjax.grad(f)(1.0), np.e, 1e-6)


def test_the_forward_pass_with_fallback_under_transformations():
    f = expensive()
    assert mjax.make_jaxpr(mjax.grad(f))(1.0).eqns[0].primitive.name == "remat_opt"
    np.testing.assert_allclose(mjax.jit(mjax.grad(f))(1.0), np.e, 1e-6)
    np.testing.assert_allclose(mjax.jit(mjax.grad(mjax.grad(f)))(1.0), np.e, 1e-6)
    _, tangent = mjax.jvp(mjax.jit(mjax.grad(f)), (1.0,), (2.0,))
    np.testing.assert_allclose(tangent, 2 * np.e, 1e-6)
    np.testing.assert_allclose(mjax.vmap(mjax.jit(mjax.grad(f)))(X), np.exp(X), 1e-5)
    jaxpr = mjax.make_jaxpr(mjax.grad(f))(1.0)
    for args in ((1.0,), (mjax.device_put(1.0),)):
        np.testing.assert_allclose(eval_jaxpr(jaxpr, jaxpr.consts, *args)[0], np.e, 1e-6)
    nothing, used = dce_jaxpr(jaxpr, [False])
    assert not nothing.eqns and used == [False]


def test_a_fallback_that_closes_over_traced_values():
    def g(w, x):
        f = mjax.custom_vjp(lambda x: jnp.sin(x) * w)
        f.defvjp(lambda x: (jnp.sin(x) * w, (w, x)), lambda r, ct: (r[0] * 5 * ct,),
                 optimize_remat=True)
        return mjax.grad(mjax.checkpoint(lambda x: f(jnp.cos(x))))(x)

    expected = -10 * np.sin(X)
    for around in (same, mjax.jit):
        np.testing.assert_allclose(around(g)(2.0, X[0]), expected[0], 1e-5)
        np.testing.assert_allclose(mjax.vmap(around(g), (None, 0))(2.0, X), expected, 1e-5)
        found = around(mjax.vmap(g, (0, None)))(X, 1.0)
        np.testing.assert_allclose(found, -5 * X * np.sin(1), 1e-5)


def test_symbolic_zeros_and_optimize_remat_do_not_go_together():
    f = mjax.custom_vjp(product)
    with pytest.raises(NotImplementedError, match="optimize_remat does not go together with"):
        f.defvjp(product, product, symbolic_zeros=True, optimize_remat=True)
