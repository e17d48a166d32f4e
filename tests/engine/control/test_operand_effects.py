"""Effects on operands keep naming the right one, whatever is done to the programs around them."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.control.calls.closed_call import closed_call_p
from mjax._engine.control.calls.inline import inline_calls
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.effects import EffectPolicy, OperandEffect, renumbered
from mjax._engine.ir.jaxpr import Jaxpr, Literal, effects_of, jaxprs_in_params
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax.sharding import Mesh, PartitionSpec
from mjax_ext.core import JaxprBuilder, Primitive, ShapedArray


class Write(OperandEffect):
    """An effect on an operand."""


class Once(OperandEffect):
    """An effect on an operand; loops refuse it."""

    policy = EffectPolicy(control_flow=False, remat=False, batchable=False, differentiable=False)


def writing(name, effect):
    """`(x, target) -> x`, with an effect on the target."""
    p = Primitive(name)
    p.def_impl(lambda x, target: jnp.asarray(x))
    p.def_effectful_abstract_eval(lambda x, target: (x, {effect(1)}))
    p.def_lowering(lambda ctx, x, target: [x])
    p.def_jvp(lambda primals, tangents: (
        p.bind(*primals), p.bind(instantiate(tangents[0]), primals[1])))
    p.def_transpose(lambda ct, x, target: [p.bind(ct, target), None])
    p.def_batch(lambda args, dims: (p.bind(args[0], args[1]), dims[0]))
    return p


write_p, once_p = writing("write", Write), writing("once", Once)
write = write_p.bind
F = ShapedArray((), np.float32)


def checked(jaxpr: Jaxpr) -> Jaxpr:
    """A well-typed program each equation of which says exactly what effects it has."""
    check_jaxpr(jaxpr)
    places = jaxpr.places()
    assert jaxpr.effects == frozenset().union(*(effects_of(eqn, places) for eqn in jaxpr.eqns))
    for eqn in jaxpr.eqns:
        assert eqn.effects == eqn.primitive.infer([v.aval for v in eqn.invars], eqn.params)[1]
        for inner in jaxprs_in_params(eqn.params):
            checked(inner)
    return jaxpr


def written(f, *args):
    """The numbers of the inputs that a function has effects on."""
    jaxpr = checked(mjax.make_jaxpr(f)(*args))
    return {e.index for e in jaxpr.effects if isinstance(e, Write)}


# ---- what they are ---------------------------------------------------------------------


def test_they_are_values():
    assert Write(1) == Write(1) != Write(2) and Write(1) != Once(1)
    assert len({Write(1), Write(1), Write(None)}) == 2
    assert Write(1).at(3) == Write(3) and repr(Write(3)) == "Write(3)"
    assert renumbered(frozenset({Write(1), Write(None)}), [5, 7]) == {Write(7), Write(None)}


def test_their_policy_has_no_order():
    with pytest.raises(TypeError, match="Logged: the policy of an OperandEffect cannot be ordered"):
        type("Logged", (OperandEffect,), {"policy": EffectPolicy(ordered=True)})


def test_a_rule_names_an_operand_there_is():
    p = Primitive("beyond")
    p.def_effectful_abstract_eval(lambda x: (x, {Write(1)}))
    with pytest.raises(TypeError, match=r"beyond.*returned the effect Write\(1\) for 1 operands"):
        mjax.make_jaxpr(p.bind)(1.0)


def test_equations_name_operands_and_programs_inputs():
    jaxpr = checked(mjax.make_jaxpr(lambda a, b, x: write(x, b))(1.0, 2.0, 3.0))
    assert jaxpr.effects == {Write(1)} and jaxpr.eqns[0].effects == {Write(1)}
    jaxpr = checked(mjax.make_jaxpr(lambda x, a: write(x, a) + write(a, x))(1.0, 2.0))
    assert jaxpr.effects == {Write(0), Write(1)}


def test_values_that_a_program_makes_are_its_own():
    assert written(lambda x: write(x, jnp.sin(x)), 1.0) == set()
    assert written(lambda x: write(x, 2.0), 1.0) == {None}
    assert written(lambda x: write(x, jnp.arange(3.0)), 1.0) == set()
    assert written(lambda x: write(x, np.arange(3.0)), 1.0) == {None}


def test_printing_names_the_input():
    assert str(mjax.make_jaxpr(lambda a, b: write(a, b))(1.0, 2.0)).endswith(
        "in (c,) : {Write(b)} }")


def test_inputs_in_another_order_need_nothing():
    jaxpr = mjax.make_jaxpr(lambda a, b, x: write(x, b))(1.0, 2.0, 3.0)
    moved = checked(jaxpr.replace(invars=jaxpr.invars[::-1]))
    assert moved.effects == {Write(1)}
    a, b, x = jaxpr.invars
    assert checked(jaxpr.replace(invars=[b, x])).effects == {Write(0)}
    assert checked(jaxpr.replace(invars=[x], constvars=[b], consts=[np.float32(0)])
                   .replace(effects=jaxpr.effects)).effects == {Write(None)}


def test_the_checker_finds_effects_that_are_not_declared():
    jaxpr = mjax.make_jaxpr(write)(1.0, 2.0)
    undeclared = Jaxpr([], jaxpr.invars, jaxpr.outvars, jaxpr.eqns)
    with pytest.raises(mjax.errors.JaxprTypeError, match=r"effects \{Write\(1\)\} are not all"):
        check_jaxpr(undeclared)


def test_programs_built_by_hand():
    builder = JaxprBuilder()
    x, target = builder.input(F), builder.input(F)
    assert checked(builder.build(builder.apply(write_p, x, target))).effects == {Write(1)}


# ---- through each transformation and holder --------------------------------------------


@mjax.custom_jvp
def by_jvp(x, t):
    return write(x, t)


by_jvp.defjvp(lambda primals, tangents: (by_jvp(*primals), tangents[0]))


@mjax.custom_vjp
def by_vjp(x, t):
    return write(x, t)


by_vjp.defvjp(lambda x, t: (by_vjp(x, t), t), lambda t, ct: (write(ct, t), None))


@mjax.custom_batching.custom_vmap
def by_vmap(x, t):
    return write(x, t)


by_vmap.def_vmap(lambda size, batched, x, t: (write(x, t), batched[0]))


def by_scan(x, t):
    """The target is a const, behind one that is closed over and in front of a carry and an x."""
    return lax.scan(lambda c, row: (write(c * x, t) + row, row), x, jnp.ones(3))[0]


def by_carry(x, t):
    return lax.scan(lambda c, _: ((write(c[0], c[1]), c[1]), None), (x, t), None, length=2)[0][0]


def by_row(x, t):
    return lax.scan(lambda c, row: (write(c, row), None), x, jnp.stack([t, t]))[0]


def by_while(x, t):
    return lax.while_loop(lambda c: write(c, t) < 3.0, lambda c: c + 1.0 + 0.0 * x, x)


def by_while_body(x, t):
    return lax.while_loop(lambda c: c < 3.0 + x, lambda c: write(c, t) + 1.0, x)


def by_cond(x, t):
    return lax.cond(x > 0, lambda y, u: y, lambda y, u: write(y, u), x, t)


def by_remat_opt(x, t):
    f = mjax.custom_vjp(lambda x, t: write(x, t), )
    f.defvjp(lambda x, t: (write(x, t), t), lambda t, ct: (ct, None), optimize_remat=True)
    return f(x, t)


def by_solve(x, t):
    return lax.custom_linear_solve(
        lambda y: y * x, x, lambda matvec, b: write(b, t) / x, symmetric=True)


WRITE = mjax.make_jaxpr(write)(1.0, 2.0)
HOLDERS = {
    "jit": mjax.jit(lambda x, t: write(x, t)), "remat": mjax.checkpoint(lambda x, t: write(x, t)),
    "closed_call": lambda x, t: closed_call_p.bind(x, t, call_jaxpr=WRITE)[0],
    "nested": mjax.jit(lambda x, t: mjax.checkpoint(mjax.jit(lambda t, x: write(x, t)))(t, x)),
    "custom_jvp": by_jvp, "custom_vjp": by_vjp, "custom_vmap": by_vmap, "scan": by_scan,
    "carry": by_carry, "while": by_while, "while_body": by_while_body, "cond": by_cond,
    "remat_opt": by_remat_opt, "solve": by_solve}
#: They cannot be differentiated backwards.
FORWARD = {"while", "while_body"}


@pytest.mark.parametrize("name", HOLDERS)
def test_holders_name_their_operand(name):
    f = HOLDERS[name]
    assert written(f, 1.0, 2.0) == {1}
    assert written(lambda t, x: f(x, t), 1.0, 2.0) == {0}
    assert written(lambda x: f(x, 2.0), 1.0) == {None}
    assert written(lambda x: f(x, jnp.sin(x)), 1.0) == set()
    assert written(lambda a, b, t, x: mjax.jit(lambda x: f(x, t))(x), 1., 2., 3., 4.) == {2}


def test_rows_are_values_of_the_loops_own():
    """An effect of a body on a slice of an x is one on that operand."""
    jaxpr = checked(mjax.make_jaxpr(lambda xs, x: lax.scan(
        lambda c, row: (write(c, row), None), x, xs)[0])(jnp.ones(3), 1.0))
    assert jaxpr.effects == {Write(0)}
    assert written(by_row, 1.0, 2.0) == set()


@pytest.mark.parametrize("name", HOLDERS)
def test_holders_under_forward_mode(name):
    f = HOLDERS[name]
    if name == "custom_vjp" or name == "remat_opt":
        return  # forward mode is refused, or the target is differentiated in
    assert written(lambda x, dx, t: mjax.jvp(lambda x: f(x, t), (x,), (dx,)), 1., 1., 2.) == {2}


@pytest.mark.parametrize("name", [n for n in HOLDERS if n not in FORWARD])
def test_holders_under_reverse_mode(name):
    f = HOLDERS[name]
    assert written(lambda t, x: mjax.grad(f)(x, t), 1.0, 2.0) == {0}
    assert written(lambda t, x: mjax.linearize(lambda x: f(x, t), x)[1](1.0), 1.0, 2.0) <= {0}
    assert written(lambda t, x: mjax.vjp(lambda x: f(x, t), x)[1](1.0), 1.0, 2.0) <= {0}
    assert written(lambda t, x: mjax.grad(mjax.jit(mjax.checkpoint(f)))(x, t), 1.0, 2.0) == {0}


@pytest.mark.parametrize("name", HOLDERS)
def test_holders_under_vmap(name):
    f = HOLDERS[name]
    batch = jnp.ones(3)
    if name in ("while", "carry", "cond"):
        return  # a batched predicate makes other values of what it decides on; so is a carry
    found = written(lambda t, x: mjax.vmap(f, (0, None))(x, t), 1.0, batch)
    assert found == {0}


@pytest.mark.parametrize("name", HOLDERS)
def test_holders_run(name):
    f = HOLDERS[name]
    expected = f(2.0, 4.0)
    np.testing.assert_allclose(mjax.jit(f)(2.0, 4.0), expected)
    np.testing.assert_allclose(mjax.jit(lambda t, x: f(x, t))(4.0, 2.0), expected)


@pytest.mark.parametrize("name", HOLDERS)
def test_dead_code_elimination_of_holders(name):
    jaxpr = mjax.make_jaxpr(lambda a, t, x: (a, HOLDERS[name](x, t)))(1.0, 2.0, 3.0)
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    assert used == [False, True, True] and checked(smaller).effects == {Write(0)}


@pytest.mark.parametrize("name", HOLDERS)
def test_partial_evaluation_of_holders(name):
    jaxpr = mjax.make_jaxpr(lambda a, t, x: HOLDERS[name](x, t) + a)(1.0, 2.0, 3.0)
    parts = partial_eval_jaxpr(jaxpr, [False, True, False], effects_known=False)
    assert not checked(parts.known).effects
    (effect,) = checked(parts.unknown).effects
    target = parts.unknown.invars[effect.index]
    assert target is parts.unknown.invars[-1]
    parts = partial_eval_jaxpr(jaxpr, [True, False, False])
    assert checked(parts.known).effects == {Write(0)} and not checked(parts.unknown).effects


@pytest.mark.parametrize("name", HOLDERS)
def test_recomputation_of_holders(name):
    jaxpr = mjax.make_jaxpr(lambda a, t, x: lax.sin(HOLDERS[name](x, t)) + a)(1.0, 2.0, 3.0)
    parts = recompute_jaxpr(jaxpr, [True], [True], lambda *_, **__: False)
    assert checked(parts.known).effects == {Write(1)}
    (effect,) = checked(parts.unknown).effects
    assert parts.residual_forwarding[effect.index] == 1


def test_constants_that_become_inputs():
    """A value that a body closes over becomes an operand in front of the others."""
    def f(t, a, x):
        return lax.scan(lambda c, _: (write(c * a, t), None), x, None, length=2)[0]

    jaxpr = checked(mjax.make_jaxpr(f)(1.0, 2.0, 3.0))
    (eqn,) = [e for e in jaxpr.eqns if e.effects]
    (effect,) = eqn.effects
    assert eqn.invars[effect.index] is jaxpr.invars[0] and jaxpr.effects == {Write(0)}


def test_inlined_calls():
    jaxpr = mjax.make_jaxpr(lambda t, x: mjax.jit(lambda x, t: write(x, t))(x, t))(1.0, 2.0)
    inlined = checked(inline_calls(jaxpr))
    assert [e.primitive for e in inlined.eqns] == [write_p] and inlined.effects == {Write(0)}


def test_several_targets_of_one_loop():
    def f(s, t, x):
        return lax.fori_loop(0, 3, lambda i, c: write(write(c, s), t), x)

    assert written(f, 1.0, 2.0, 3.0) == {0, 1}
    assert written(lambda t, x: f(t, t, x), 1.0, 2.0) == {0}
    assert written(lambda t, x: f(t, jnp.sin(x), x), 1.0, 2.0) == {0}


def test_branches_join_theirs():
    def f(x, s, t):
        return lax.switch(jnp.int32(x), [lambda: x, lambda: write(x, s), lambda: write(x, t)])

    assert written(f, 1.0, 2.0, 3.0) == {1, 2}


def test_shard_map_names_its_operand():
    mesh = Mesh(np.array(mjax.devices()[:1]), ("i",))
    f = mjax.shard_map(lambda x, t: write(x, t), mesh=mesh,
                       in_specs=PartitionSpec("i"), out_specs=PartitionSpec("i"))
    x = jnp.ones(2)
    assert written(lambda t, a, x: f(x, t), x, 2.0, x) == {0}
    assert written(lambda t, x: mjax.grad(lambda x: f(x, t).sum())(x), x, x) == {0}
    np.testing.assert_array_equal(f(2 * x, x), 2 * x)


# ---- policies --------------------------------------------------------------------------


@pytest.mark.parametrize(("f", "match"), [
    (lambda x, t: lax.scan(lambda c, _: (once_p.bind(c, t), None), x, None, length=2)[0],
     r"has the effects Once\(0\).*control_flow=False"),
    (lambda x, t: mjax.vmap(lambda x: once_p.bind(x, t))(jnp.ones(2)),
     r"has the effects Once\(1\).*batchable=False"),
    (lambda x, t: mjax.grad(lambda x: once_p.bind(x, t))(x),
     r"has the effects Once\(1\).*differentiable=False")])
def test_policies_hold(f, match):
    with pytest.raises((TypeError, ValueError), match=f"(?s){match}"):
        mjax.make_jaxpr(f)(1.0, 2.0)


def test_messages_show_who_has_the_effect():
    """However often the operand is renumbered between there and the refusal."""
    inner = mjax.jit(lambda x, a, t: once_p.bind(x, t))
    with pytest.raises(TypeError, match=r"(?s)Primitive 'once' has Once\(0\)"):
        mjax.make_jaxpr(lambda x, t: lax.fori_loop(
            0, 2, lambda i, c: inner(c, 1.0, t), x))(1.0, 2.0)


def test_a_program_without_uses_is_dropped_if_the_effect_is_its_own():
    jaxpr = mjax.make_jaxpr(lambda x: (mjax.jit(lambda y: write(y, jnp.sin(y)))(x), x)[1])(1.0)
    assert dce_jaxpr(jaxpr, [True])[0].eqns == []
    jaxpr = mjax.make_jaxpr(lambda x: (mjax.jit(lambda y: write(y, y))(x), x)[1])(1.0)
    assert len(dce_jaxpr(jaxpr, [True])[0].eqns) == 1


def test_literals_are_not_inputs():
    jaxpr = mjax.make_jaxpr(lambda x: write(x, 2.0))(1.0)
    assert type(jaxpr.eqns[0].invars[1]) is Literal and jaxpr.effects == {Write(None)}
