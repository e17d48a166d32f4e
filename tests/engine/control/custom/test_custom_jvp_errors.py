"""custom_jvp: mistakes of its users, and other places where it is called."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.thread import thread
from mjax._engine.ir.source import user_frames
from mjax._engine.tracing.interpreter import Interpreter, call_with, running
from tests.engine.control.custom_programs import X, product, same, with_rule

# ---- bad input -------------------------------------------------------------------------

ZERO = np.float32(0)


@pytest.mark.parametrize("around", [same, mjax.jit, lambda f: mjax.vmap(mjax.jit(f))])
@pytest.mark.parametrize(("rule", "text"), [
    (lambda p, t: p[0], r"must return a pair \(primal output, tangent output\), but returned"),
    (lambda p, t: (p[0],) * 3, r"must return a pair \(.*\), but returned a tuple of 3"),
    (lambda p, t: (p[0], (t[0], t[0])),
     r"output: .*float32\[.*\] in the tangents of its outputs, missing in the tangents returned\n"
     r"  output\[0\]: missing in"),
    (lambda p, t: (p[0], jnp.ones((7, 7))),
     r"output: float32\[.*\] in .*, float32\[7,7\] in the tangents"),
    (lambda p, t: (p[0], t[0].astype("float16")),
     r"float32\[.*\] in the tangents of its outputs, float16\[.*\] in the tangents returned; "
     r"cast with .astype\('float32'\)"),
    (lambda p, t: (p[0], None), "output: float32.* in the tangents of its outputs, missing"),
    (lambda p, t: (p[0], "text"), "tangent output is not a valid array: 'text'"),
    (lambda p, t: ("text", t[0]), "primal output is not a valid array: 'text'"),
    (lambda p, t: ((p[0], 1), (t[0], 1)), r"output\[1\]: float0\[\] in .*, ~int32\[\] in the"),
])
def test_rules_that_give_something_else(rule, text, around):
    f = with_rule(rule, lambda x: (x, 1) if "float0" in text else x)
    with pytest.raises(TypeError, match="the jvp rule <lambda> at .*py:.* of custom_jvp function "
                       f"<lambda> at .*(?s:.)*{text}"):
        mjax.jvp(around(f), (X,), (X,))


@pytest.mark.parametrize(("rule", "text"), [
    (lambda p, t: ((p[0],), (t[0],)),
     r"output: float32\[3\] in the function's output, missing in the first result of the jvp rule"),
    (lambda p, t: (p[0][:2], t[0][:2]),
     r"output: float32\[3\] in .*, float32\[2\] in the first result"),
    (lambda p, t: (p[0].astype("float16"), t[0].astype("float16")),
     r"float32\[3\] in .*, float16\[3\]"),
])
def test_rules_with_another_output_than_the_function(rule, text):
    f = with_rule(rule)
    with pytest.raises(TypeError, match=f"the jvp rule of custom_jvp function <lambda> at .* must "
                       f"return the function's output as its first result(?s:.)*{text}"):
        mjax.jvp(mjax.jit(f), (X,), (X,))


def test_there_is_no_rule():
    @mjax.custom_jvp
    def f(x):
        return x

    for g in (f, mjax.jit(f), mjax.grad(f)):
        with pytest.raises(AttributeError, match="custom_jvp function f at .* has no rule yet: "
                           "give it one with f.defjvp"):
            g(1.0)


def test_definitions_that_are_refused():
    with pytest.raises(TypeError, match="custom_jvp expects a function, got 3 of type int"):
        mjax.custom_jvp(3)
    f = mjax.custom_jvp(product)
    with pytest.raises(TypeError, match="defjvp expects a function, got 3"):
        f.defjvp(3)
    with pytest.raises(TypeError, match="defjvps expects a function, got 3"):
        f.defjvps(None, 3)
    with pytest.raises(TypeError, match="defjvps cannot be used with nondiff_argnums"):
        mjax.custom_jvp(product, nondiff_argnums=0).defjvps(None)
    f.defjvps(lambda dx, out, x, y: dx)
    with pytest.raises(TypeError, match="defjvps of custom_jvp function product at .* was given 1 "
                       "function for 2 arguments"):
        mjax.grad(f)(1.0, 2.0)
    f.defjvps(None, None)
    assert mjax.grad(f)(1.0, 2.0) == 0
    with pytest.raises(AttributeError, match="has no attribute 'defvjp'"):
        f.defvjp(None, None)
    with pytest.raises(AttributeError, match="'custom_jvp' object has no attribute 'rule'"):
        f.rule()
    g = with_rule(lambda p, t: ("text", t[0]), lambda x: "text")
    with pytest.raises(TypeError, match="custom_jvp function <lambda> at .*: output is not a"):
        g(1.0)


@pytest.mark.parametrize("how", [
    mjax.grad, lambda f: mjax.jit(mjax.grad(f)), lambda f: mjax.grad(mjax.jit(f)),
    lambda f: mjax.grad(lambda x: mjax.vmap(f)(x * np.ones(2, "f4")).sum()),
    lambda f: mjax.grad(lambda x: lax.fori_loop(0, 2, lambda i, v: f(v), x))])
def test_a_rule_that_swaps_its_results_is_named(how):
    @mjax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def swapped(primals, tangents):
        return primals[0] * tangents[0], tangents[0]

    with pytest.raises(TypeError, match=r"^the jvp rule swapped at .*_errors.py:\d+ of "
                       r"custom_jvp function f at .*_errors.py:\d+ returned a result"):
        how(f)(np.float32(1))


def test_it_looks_like_the_function():
    def f(x, *, y=1):
        """Doc."""

    g = mjax.custom_jvp(f)
    assert g.__name__ == "f" and g.__doc__ == "Doc." and g.__wrapped__ is f and g.fun is f
    assert partial(mjax.custom_jvp, nondiff_argnums=(0,))(f).nondiff_argnums == (0,)


# ---- elsewhere -------------------------------------------------------------------------


def test_equations_of_rules_are_traced_back_to_the_rule():
    @mjax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), lax.exp(tangents[0])

    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(lambda x: lax.cond(x > 0, f, f, x), (x,), (x,)))(1.0)
    cond, = [e for e in jaxpr.eqns if e.primitive.name == "cond"]
    exp, = [e for e in cond.params["branches"][0].eqns if e.primitive.name == "exp"]
    assert user_frames(exp.source)[0].function.endswith("f_jvp")


def test_keys():
    f = mjax.custom_vjp(lambda key, x: x * mjax.random.normal(key, x.shape))
    f.defvjp(lambda key, x: (f(key, x), key), lambda key, ct: (
        None, 2 * ct * mjax.random.normal(key, ct.shape)))
    g = mjax.custom_jvp(lambda key, x: x * mjax.random.normal(key, x.shape))
    g.defjvp(lambda p, t: (g(*p), 2 * g(p[0], t[1])))
    keys = mjax.random.split(mjax.random.key(0), 4)
    noise = np.stack([mjax.random.normal(k, (3,)) for k in keys])
    for h in (f, g):
        for around in (same, mjax.jit):
            found = around(mjax.grad(lambda x, h=h: h(keys[0], x).sum()))(X)
            np.testing.assert_allclose(found, 2 * noise[0], 1e-6)
            loss = around(lambda x, h=h: mjax.vmap(h, (0, None))(keys, x).sum())
            np.testing.assert_allclose(mjax.grad(loss)(X), 2 * noise.sum(0), 1e-5)


def test_interpreters_of_users_see_an_equation():
    class Names(Interpreter):
        def __init__(self, parent):
            super().__init__(parent)
            self.seen = []

        def process(self, primitive, args, params):
            self.seen.append(primitive.name)
            return call_with(self.parent, self.parent.process, primitive, args, params)

    names = Names(thread.interpreter)
    f = with_rule(lambda p, t: (f(*p), 5 * t[0]), lambda x: jnp.sin(x))
    with running(names):
        value, tangent = mjax.jvp(f, (1.0,), (2.0,))
        assert f(1.0) == value and tangent == 10
        f(1.0)
    assert names.seen.count("custom_jvp_call") == 3
