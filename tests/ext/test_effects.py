"""Effects of users: a class with a policy is all that it takes."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.errors import MissingRuleError
from mjax_ext.core import Effect, EffectPolicy, Primitive
from mjax_ext.interpreters import ad, batching, mlir

X = np.arange(3, dtype="float32")


class Journal(Effect):
    """Entries in order, among themselves."""

    policy = EffectPolicy(ordered=True, token="journal", batchable=False, differentiable=False,
                          remat=False)


journal = Journal()
entries: list[float] = []
write_p = Primitive("write")


@write_p.def_effectful_abstract_eval
def write_type(x):
    return x, {journal}


@write_p.def_impl
def write_impl(x):
    mjax.effects_barrier()
    entries.append(float(x))
    return x


def write_lowering(ctx, x):
    def write(value):
        entries.append(float(value))
        return (value,)

    results, token, _ = mlir.emit_python_callback(
        ctx, write, ctx.tokens_in.get(journal), [x], ctx.avals_in, ctx.avals_out,
        has_side_effect=True)
    ctx.set_tokens_out(mlir.TokenSet({journal: token}))
    return results


mlir.register_lowering(write_p, write_lowering)
ad.primitive_jvps[write_p] = lambda primals, tangents: (write_p.bind(*primals), tangents[0])
batching.primitive_batchers[write_p] = lambda args, dims: (args[0], dims[0])


def written():
    mjax.effects_barrier()
    found = entries[:]
    entries.clear()
    return found


def test_an_effect_with_a_token_of_its_own_keeps_the_order_of_the_program():
    @mjax.jit
    def f(x):
        x = write_p.bind(x) + 1
        x, _ = lax.scan(lambda c, _: (write_p.bind(c) + 1, None), x, None, 3)
        x = lax.while_loop(lambda x: write_p.bind(x) < 7, lambda x: x + 1, x)
        return lax.cond(x > 6, lambda x: write_p.bind(-x), lambda x: x, x)

    for i in range(3):
        assert f(np.float32(1)) == -7
        mjax.debug.print("another story {}", i, ordered=True)
    assert written() == [1, 2, 3, 4, 5, 6, 7, -7] * 3
    assert mjax.make_jaxpr(f)(1.0).effects == {journal}
    write_p.bind(np.float32(2))
    assert written() == [2]


def test_programs_take_its_token_beside_that_of_printing():
    f = mjax.jit(lambda x: mjax.debug.print("{}", write_p.bind(x), ordered=True))
    text = f.lower(1.0).as_text()
    assert text.split("{", 2)[1].count("!stablehlo.token") >= 2


# ---- every field of the policy ---------------------------------------------------------


def effectful(**policy):
    """The identity with an effect of this policy, and without a mistake in its rules."""

    class Own(Effect):
        pass

    Own.policy = EffectPolicy(**policy)
    p = Primitive("p")
    p.def_effectful_abstract_eval(lambda x: (x, {own}))
    own = Own()
    mlir.register_lowering(p, lambda ctx, x: [x])
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), tangents[0])
    batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), dims[0])
    return p


ONE = np.float32(1)


def custom_jvp(p):
    f = mjax.custom_jvp(lambda x: p.bind(x))
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return f


def custom_vjp(p):
    f = mjax.custom_vjp(lambda x: p.bind(x))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return f


#: Field -> transformations that have to ask it: what to call with the primitive.
ASKED = {
    "lowerable": [lambda p: mjax.jit(lambda x: p.bind(x))(ONE),
                  lambda p: mjax.jit(lambda x: p.bind(x)).lower(ONE), lambda p: p.bind(ONE)],
    "control_flow": [
        lambda p: lax.scan(lambda c, _: (p.bind(c), None), ONE, None, 2),
        lambda p: lax.while_loop(lambda x: x < 2, lambda x: p.bind(x) + 1, ONE),
        lambda p: lax.while_loop(lambda x: p.bind(x) < 2, lambda x: x + 1, ONE),
        lambda p: lax.fori_loop(0, 3, lambda i, x: p.bind(x), ONE),
        lambda p: lax.map(lambda x: p.bind(x), X),
        lambda p: lax.cond(True, lambda x: p.bind(x), lambda x: x, ONE),
        lambda p: lax.switch(1, [lambda x: x, lambda x: mjax.jit(p.bind)(x)], ONE)],
    "batchable": [lambda p: mjax.vmap(p.bind)(X), lambda p: mjax.vmap(mjax.jit(p.bind))(X),
                  lambda p: mjax.make_jaxpr(mjax.vmap(lambda x: lax.scan(
                      lambda c, _: (p.bind(c), None), x, None, 2)[0]))(X),
                  lambda p: mjax.vmap(lambda b: lax.cond(
                      b, lambda: p.bind(ONE), lambda: ONE))(X > 1)],
    "masked": [lambda p: mjax.vmap(lambda b: lax.cond(b, lambda: p.bind(ONE), lambda: ONE))(X > 1),
               lambda p: mjax.vmap(lambda n: lax.while_loop(
                   lambda i: i < n, lambda i: p.bind(i) + 1, ONE))(X),
               lambda p: mjax.jit(mjax.vmap(lambda n: lax.while_loop(
                   lambda i: p.bind(i) < n, lambda i: i + 1, ONE)))(X),
               lambda p: mjax.vmap(lambda n: lax.fori_loop(0, n, lambda i, x: lax.cond(
                   i < 1, p.bind, lambda x: x, x), ONE))(X.astype(int))],
    "differentiable": [lambda p: mjax.grad(p.bind)(ONE), lambda p: mjax.jvp(p.bind, (ONE,), (ONE,)),
                       lambda p: mjax.linearize(p.bind, ONE),
                       lambda p: mjax.grad(mjax.jit(p.bind))(ONE),
                       lambda p: mjax.grad(lambda x: lax.scan(
                           lambda c, _: (p.bind(c), None), x, None, 2)[0])(ONE)],
    "custom_derivatives": [
        lambda p: mjax.jit(custom_jvp(p))(ONE), lambda p: mjax.grad(mjax.jit(custom_jvp(p)))(ONE),
        lambda p: mjax.jit(custom_vjp(p))(ONE), lambda p: mjax.grad(mjax.jit(custom_vjp(p)))(ONE)],
    "remat": [lambda p: mjax.grad(mjax.checkpoint(lambda x: jnp.sin(jnp.sin(p.bind(x)))))(ONE)],
}


@pytest.mark.parametrize("field, index", [(f, i) for f in ASKED for i in range(len(ASKED[f]))])
def test_whoever_must_ask_asks(field, index):
    call = ASKED[field][index]
    with pytest.raises((TypeError, ValueError, NotImplementedError)) as error:
        call(effectful(**{field: False}))
    text = str(error.value)
    assert not isinstance(error.value, MissingRuleError)
    assert "Own" in text and f"{field}=False" in text and "test_effects.py" in text
    assert "'p'" in text or "of p," in text or "p has" in text
    # A policy that says yes is not an obstacle.
    call(effectful())


@pytest.mark.parametrize("kept", [True, False])
def test_unused_equations_stay_or_go_as_the_policy_says(kept):
    p = effectful(kept_by_dce=kept)
    mlir.register_lowering(p, lambda ctx, x: [mlir.hlo.cosine(x)])
    unused = lambda x: (p.bind(x), x)[1]
    for f in (unused, mjax.jit(unused),
              lambda x: lax.scan(lambda c, _: (unused(c), None), x, None, 2)[0],
              lambda x: lax.cond(x > 0, unused, lambda x: x, x)):
        assert ("cosine" in mjax.jit(lambda x, f=f: f(x) + 1).lower(ONE).as_text()) == kept


@pytest.mark.parametrize("field, call", [
    ("differentiable", lambda p: mjax.grad(p.bind)(ONE)),
    ("batchable", lambda p: mjax.vmap(p.bind)(X)),
])
def test_a_rule_that_the_policy_makes_needless_is_not_missed(field, call):
    class Own(Effect):
        policy = EffectPolicy(**{field: False})

    own, p = Own(), Primitive("bare")
    p.def_effectful_abstract_eval(lambda x: (x, {own}))
    with pytest.raises(ValueError, match=f"of bare, which has the effects Own(.|\n)*{field}=False"):
        call(p)


@pytest.mark.parametrize("transformed", [
    lambda f: mjax.vmap(f)(np.ones(2, np.float32)),
    lambda f: mjax.jvp(f, (1.0,), (1.0,)),
    lambda f: mjax.linearize(f, 1.0),
    lambda f: mjax.grad(f)(1.0)], ids=["vmap", "jvp", "linearize", "grad"])
def test_an_effect_that_is_refused_does_not_happen(transformed):
    class Bell(Effect):
        policy = EffectPolicy(batchable=False, differentiable=False)

    rings, ring_p = [], Primitive("ring a bell")
    ring_p.def_effectful_abstract_eval(lambda x: (x, {Bell()}))
    ring_p.def_impl(lambda x: rings.append(x) or x)
    batching.defvectorized(ring_p)
    ad.primitive_jvps[ring_p] = lambda primals, tangents: (ring_p.bind(*primals), tangents[0])
    with pytest.raises(ValueError, match="Bell"):
        transformed(ring_p.bind)
    assert not rings
