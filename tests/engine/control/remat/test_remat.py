"""checkpoint: the values and derivatives of the function, from little that is kept."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import weakref

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from mjax._engine.transforms.recomputation import recompute_jaxpr
from mjax.ad_checkpoint import checkpoint_name, saved_residuals
from mjax.tree_util import tree_leaves, tree_map
from tests.engine.transforms.programs import PROGRAMS, close, evaluate, split, subsets

policies = mjax.checkpoint_policies


def sines(primitive, *avals, **params):
    return primitive is lax.sin_p


POLICIES = {
    "nothing": None,
    "everything": policies.everything_saveable,
    "sines": sines,
    "names": policies.save_only_these_names("keep"),
    "not names": policies.save_anything_except_these_names("keep"),
}


# ---- values and derivatives ------------------------------------------------------------


def chain(x, y):
    for _ in range(3):
        x = lax.mul(lax.sin(lax.mul(x, y)), lax.exp(x))
    return x


def keeps(x, y):
    """Results that are inputs, constants, duplicates; values with names."""
    z = checkpoint_name(lax.tanh(lax.sin(lax.mul(x, y))), "keep")
    u = checkpoint_name(lax.exp(lax.sin(z)), "drop")
    return u, z, y, lax.mul(x, 2.0), x, 1.0, z


inner = mjax.jit(lambda x, y: (lax.sin(lax.mul(x, y)), x, lax.cos(x)))


def calls(x, y):
    a, x, b = inner(x, lax.sin(y))
    c, _, _ = inner(a, b)
    return lax.mul(lax.mul(c, b), checkpoint_name(lax.exp(x), "keep"))


def nested(x, y):
    """checkpoint in jit in checkpoint, the innermost with a policy of its own."""
    z = mjax.checkpoint(lambda z: lax.mul(lax.sin(lax.exp(lax.sin(z))), y), policy=sines)
    return mjax.jit(mjax.checkpoint(lambda x: lax.mul(lax.sin(z(lax.tanh(x))), x)))(x)


def looping(x, y):
    layer = mjax.checkpoint(lambda c, s: lax.sin(lax.mul(lax.mul(c, y), s)), prevent_cse=False)
    scales = np.linspace(0.5, 1.5, 3, dtype="float32")
    return lax.scan(lambda c, s: (layer(c, s), lax.exp(c)), x, scales)


def choosing(x, y):
    layer = mjax.checkpoint(lambda x: lax.sin(lax.exp(lax.mul(x, y))))
    return lax.cond(lax.gt(lax.reduce_sum(x, (0,)), 100.0), layer, lambda x: lax.cos(layer(x)), x)


def total(out):
    return functools.reduce(lax.add, [lax.reduce_sum(lax.mul(o, o), tuple(range(np.ndim(o))))
                                      for o in tree_leaves(out)])


X, Y = np.random.default_rng(1).normal(size=(2, 3)).astype("float32") / 2
XS = np.random.default_rng(2).normal(size=(4, 3)).astype("float32") / 2

TRANSFORMED = {
    "value": lambda f: f(X, Y),
    "jit": lambda f: mjax.jit(f)(X, Y),
    "grad": lambda f: mjax.grad(lambda x, y: total(f(x, y)), (0, 1))(X, Y),
    "grad of one": lambda f: mjax.grad(lambda y: total(f(X, y)))(Y),
    "jit grad": lambda f: mjax.jit(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)))(X, Y),
    "grad jit": lambda f: mjax.grad(mjax.jit(lambda x, y: total(f(x, y))), (0, 1))(X, Y),
    "jvp": lambda f: mjax.jvp(f, (X, Y), (Y, X)),
    "jvp of one": lambda f: mjax.jvp(lambda x: f(x, Y), (X,), (Y,)),
    "linearize": lambda f: mjax.linearize(f, X, Y)[1](Y, X),
    "vjp": lambda f: mjax.vjp(f, X, Y)[1](tree_map(lax.cos, f(X, Y))),
    "remat of grad": lambda f: mjax.grad(lambda x: total(mjax.checkpoint(mjax.grad(
        lambda x: total(f(x, Y))))(x)))(X),
    "hessian": lambda f: mjax.hessian(lambda x, y: total(f(x, y)), (0, 1))(X, Y),
    "reverse over reverse": lambda f: mjax.jacrev(mjax.grad(lambda x: total(f(x, Y))))(X),
    "reverse over forward": lambda f: mjax.jacrev(mjax.jacfwd(lambda x: total(f(x, Y))))(X),
    "grad of jvp": lambda f: mjax.grad(
        lambda x: total(mjax.jvp(f, (x, Y), (Y, x))[1]))(X),
    "third order": lambda f: mjax.jit(mjax.grad(lambda x: total(mjax.grad(lambda x: total(
        mjax.grad(lambda x: total(f(x, Y)))(x)))(x))))(X),
    "vmap of the first": lambda f: mjax.vmap(f, (0, None))(XS, Y),
    "vmap of the second": lambda f: mjax.vmap(f, (None, 0))(X, XS),
    "vmap of both": lambda f: mjax.vmap(f, (0, 0))(XS, XS + 1),
    "vmap grad": lambda f: mjax.vmap(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)), (0, None))(
        XS, Y),
    "grad vmap": lambda f: mjax.grad(lambda y: total(mjax.vmap(f, (0, None))(XS, y)))(Y),
    "vmap hessian": lambda f: mjax.vmap(mjax.hessian(lambda x: total(f(x, Y))))(XS),
}
PAIRS = {chain: ["nothing", "sines"], keeps: ["names", "not names"], calls: ["nothing", "sines"],
         nested: ["nothing", "everything"], looping: ["nothing", "sines"],
         choosing: ["nothing", "everything"]}


@functools.cache
def expected(f, name):
    return tree_leaves(TRANSFORMED[name](f))


def agrees(f, policy, name):
    actual = tree_leaves(TRANSFORMED[name](mjax.checkpoint(f, policy=policy)))
    close(actual, expected(f, name), 5e-4)


@pytest.mark.parametrize("name", ["value", "grad", "jit grad", "jvp", "vmap grad", "third order"])
def test_names_under_transformations(name):
    agrees(keeps, POLICIES["names"], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize(("f", "policy"), [(f, p) for f in PAIRS for p in PAIRS[f]])
def test_against_no_checkpoint(f, policy, name):
    agrees(f, POLICIES[policy], name)


#: Each program under each policy; fast: those without branches, under one of them.
WHOLES = [pytest.param(name, policy, marks=[pytest.mark.slow] if (i + j) % len(POLICIES)
                       or name.startswith(("choosing", "random branches")) else [])
          for i, name in enumerate(PROGRAMS) for j, policy in enumerate(POLICIES)]


@pytest.mark.parametrize(("name", "policy"), WHOLES)
def test_parts_make_the_whole(name, policy):
    """The rules for every subset of inputs, on programs that hold what goes wrong."""
    f, inputs = PROGRAMS[name]
    avals = [typeof(x) for x in inputs]
    plain = stage(f, avals)
    jaxpr = stage(mjax.checkpoint(f, policy=POLICIES[policy]), avals)
    outs = evaluate(plain, *inputs)
    n = len(outs)
    rng = np.random.default_rng(0)
    for chosen in subsets(len(inputs)):
        parts = partial_eval_jaxpr(jaxpr, chosen)
        known_ins, unknown_ins = split(chosen, inputs)
        known = evaluate(parts.known, *known_ins)
        rest = iter(evaluate(parts.unknown, *parts.residuals(known_ins, known), *unknown_ins))
        given = iter(known)
        close([next(rest) if u else next(given) for u in parts.unknown_outs], outs)

        nonzeros = [c and x.dtype.kind == "f" for c, x in zip(chosen, inputs, strict=True)]
        ts = [rng.normal(size=x.shape).astype("float32")
              for x, nz in zip(inputs, nonzeros, strict=True) if nz]
        derived, nonzero_outs = jvp_jaxpr(plain, nonzeros, False)
        linear = linearize_jaxpr(jaxpr, nonzeros)
        results = evaluate(linear.known, *inputs)
        assert linear.unknown_outs == nonzero_outs
        close([*results[:n], *evaluate(linear.unknown, *linear.residuals(inputs, results), *ts)],
              evaluate(derived, *inputs, *ts))
        assert len(set(linear.residual_forwarding)) == len(linear.residual_forwarding)
    for wanted in subsets(n)[:: 1 if n < 4 else 2**n // 8 - 1]:
        smaller, used = dce_jaxpr(jaxpr, wanted)
        close(evaluate(smaller, *split(used, inputs)[1]), split(wanted, outs)[1])
        again = recompute_jaxpr(jaxpr, [True] * n, wanted, sines)
        first = evaluate(again.known, *inputs)
        close(first[:n], outs)
        close(evaluate(again.unknown, *again.residuals(inputs, first)), split(wanted, outs)[1])


def test_of_trees_with_keywords():
    @mjax.checkpoint
    def f(p, *rest, scale=1.0, **named):
        return {"a": lax.mul(lax.sin(p["w"]), scale), "b": [rest[0], named["n"]], "c": None}

    def loss(p, scale):
        out = f(p, 2.0, 3, scale=scale, n=4.0)
        assert sorted(out) == ["a", "b", "c"] and out["c"] is None
        return total([out["a"], out["b"][0]])

    grads = mjax.grad(loss, (0, 1))({"w": X}, 3.0)
    close([grads[0]["w"], grads[1]], [18 * np.sin(X) * np.cos(X), 6 * np.sum(np.sin(X) ** 2)])


def test_integers_keys_and_functions_without_arguments():
    key = mjax.random.key(0)
    f = mjax.checkpoint(lambda x, n, key: (lax.mul(lax.sin(x), lax.convert_element_type(
        n, np.float32)), lax.add(n, n), mjax.random.uniform(key, x.shape)))
    (y, m, u), pull = mjax.jit(lambda x: mjax.vjp(f, x, np.int32(3), key))(X)
    close([y, m, u], [3 * np.sin(X), 6, mjax.random.uniform(key, X.shape)])
    ct = mjax.jit(lambda pull: pull((X, np.zeros((), [("float0", np.void, 0)]), X))[0])(pull)
    close([ct], [3 * X * np.cos(X)])
    assert mjax.checkpoint(lambda: 3.0)() == 3.0
    assert mjax.checkpoint(lambda x: None)(X) is None
    assert mjax.checkpoint(lambda x: x)(1.5) == 1.5


# ---- the primitive ---------------------------------------------------------------------


def remats(jaxpr):
    return [e for e in jaxpr.eqns if e.primitive.name == "remat2"]


def test_it_is_an_equation_with_jaxs_params():
    (eqn,) = mjax.make_jaxpr(mjax.checkpoint(chain, policy=sines))(X, Y).eqns
    assert eqn.primitive.name == "remat2"
    assert sorted(eqn.params) == ["differentiated", "jaxpr", "policy", "prevent_cse"]
    assert eqn.params["prevent_cse"] is True and eqn.params["policy"] is sines
    assert eqn.params["differentiated"] is False


def test_what_a_function_closes_over_becomes_an_operand():
    def f(x, y):
        return total(mjax.checkpoint(lambda x: lax.mul(lax.sin(x), lax.exp(y)))(x))

    def walk(jaxpr):
        assert not any(isinstance(c, Tracer) for c in jaxpr.consts)
        for eqn in jaxpr.eqns:
            for inner in jaxprs_in_params(eqn.params):
                walk(inner)

    jaxpr = mjax.make_jaxpr(f)(X, Y)
    walk(jaxpr)
    assert len(remats(jaxpr)[0].invars) == 2
    walk(mjax.make_jaxpr(mjax.grad(f, (0, 1)))(X, Y))
    close(mjax.grad(f, (0, 1))(X, Y), mjax.grad(
        lambda x, y: total(lax.mul(lax.sin(x), lax.exp(y))), (0, 1))(X, Y))


def gradient_total(f):
    return lambda x: total(mjax.grad(f)(x))


def test_derivatives_are_checkpoints_with_the_same_policy():
    f = lambda x: total(mjax.checkpoint(chain, policy=sines)(x, Y))
    for _ in range(3):
        f = gradient_total(f)
        found = remats(mjax.make_jaxpr(f)(X))
        # All but the function itself compute something again.
        again = [e.params["differentiated"] for e in found]
        assert again[:1] == [False] and again[1:] and all(again[1:])
        assert all(e.params["policy"] is sines for e in found)


def test_check_jaxpr_compares_operands():
    jaxpr = mjax.make_jaxpr(mjax.checkpoint(chain, prevent_cse=(True, False)))(X, Y)
    (eqn,) = jaxpr.eqns
    check_jaxpr(jaxpr)
    for wrong, text in [
            (eqn.replace(invars=eqn.invars[:1]),
             r"remat2 of a program that takes float32\[3\], float32\[3\] applied to float32\[3\]"),
            (eqn.replace(params={**eqn.params, "prevent_cse": (True,)}),
             "remat2 of 2 operands has prevent_cse=\\(True,\\)")]:
        with pytest.raises(mjax.errors.JaxprTypeError, match=text):
            check_jaxpr(jaxpr.replace(eqns=[wrong]))


def test_dead_results_and_operands_are_dropped():
    f = mjax.checkpoint(lambda x, y: (lax.sin(x), lax.exp(y)), prevent_cse=(True, False))
    jaxpr = mjax.make_jaxpr(f)(X, Y)
    smaller, used = dce_jaxpr(jaxpr, [False, True])
    (eqn,) = smaller.eqns
    assert used == [False, True] and eqn.params["prevent_cse"] == (False,)
    assert [e.primitive.name for e in eqn.params["jaxpr"].eqns] == ["exp"]
    assert not dce_jaxpr(jaxpr, [False, False])[0].eqns


def test_a_linear_function_is_transposed():
    f = mjax.checkpoint(lambda x: lax.mul(lax.neg(x), Y))
    close(mjax.linear_transpose(f, X)(X), [-X * Y])


def test_what_cannot_be_done_ahead_is_one_equation():
    jaxpr = mjax.make_jaxpr(mjax.checkpoint(lambda x, y: lax.mul(lax.sin(x), y)))(X, Y)
    parts = partial_eval_jaxpr(jaxpr, [False, True])
    assert not parts.known.eqns
    (eqn,) = parts.unknown.eqns
    assert eqn.params == jaxpr.eqns[0].params
    # With a policy there is something to save.
    jaxpr = mjax.make_jaxpr(mjax.checkpoint(lambda x, y: lax.mul(lax.sin(x), y), policy=sines))(
        X, Y)
    parts = partial_eval_jaxpr(jaxpr, [False, True])
    assert counts(parts.known)["sin"] == 1 and counts(parts.unknown)["sin"] == 0


# ---- what is computed again ------------------------------------------------------------


def counts(jaxpr):
    """How often each primitive stands in a program."""
    found = collections.Counter()
    for eqn in jaxpr.eqns:
        inner = list(jaxprs_in_params(eqn.params))
        found[eqn.primitive.name] += not inner
        for jaxpr in inner:
            found += counts(jaxpr)
    return found


def again(f, policy=None):
    """The primitives in the backward pass."""
    f = mjax.checkpoint(f, policy=policy)
    jaxpr = mjax.make_jaxpr(mjax.grad(lambda x, y: total(f(x, y)), (0, 1)))(X, Y)
    assert counts(jaxpr)["sin"]
    return counts(remats(jaxpr)[-1].params["jaxpr"])


def saved(f, policy=None):
    """How many values are kept."""
    return len(saved_residuals(mjax.checkpoint(f, policy=policy), X, Y))


def test_nothing_is_kept_but_the_arguments():
    assert saved(chain) == 2 and again(chain)["sin"] == 3
    # The last product is not a residual; the two before it are.
    assert saved(lambda x, y: lax.mul(lax.exp(x), 3.0)) == 1


def test_what_the_policy_saves_is_not_computed_again():
    assert saved(chain, sines) == 2 + 3
    assert again(chain, sines)["sin"] == 0 and again(chain, sines)["exp"] == 3
    everything = again(chain, policies.everything_saveable)
    assert everything["sin"] == everything["exp"] == everything["cos"] == 0


def test_what_is_not_needed_is_neither_saved_nor_repeated():
    def f(x, y):
        lax.sin(lax.exp(x))
        return lax.mul(lax.sin(lax.sin(y)), 2.0)  # of the outer sine the cosine is needed

    assert saved(f) == 1 and again(f)["sin"] == 1 and again(f)["exp"] == 0
    assert saved(f, sines) == 2 and again(f, sines)["sin"] == 0
    # Linear functions need nothing.
    assert saved(lambda x, y: lax.mul(lax.add(x, y), 2.0)) == 0


def test_names_inside_of_jit():
    @mjax.jit
    def f(x, y):
        z = checkpoint_name(lax.sin(lax.exp(lax.mul(x, y))), "keep")
        return lax.mul(lax.sin(z), x)

    # The derivatives of the inner sin and exp need exp; sin(z) and cos(z) only what was saved.
    kept = again(f, POLICIES["names"])
    assert kept["exp"] == 1 and kept["sin"] == 1
    nothing = again(f)
    assert nothing["exp"] == 1 and nothing["sin"] == 2


def test_policies_are_asked_about_what_is_in_calls():
    asked = set()

    def policy(primitive, *avals, **params):
        asked.add(primitive.name)
        return False

    again(calls, policy), again(looping, policy), again(nested, policy)
    assert {"sin", "cos", "exp", "mul"} <= asked
    assert not asked & {"jit", "scan", "remat2", "cond"}


def test_checkpoint_in_checkpoint_keeps_the_arguments_of_the_outer():
    """Each level repeats what is in front of the next one, as often as levels are around it."""
    f = chain
    for _ in range(3):
        f = mjax.checkpoint(lambda x, y, f=f: f(lax.sin(x), y))
    kept = saved_residuals(f, X, Y)
    assert [text for _, text in kept] == ["from the argument x", "from the argument y"]


def test_nesting_costs_no_more_than_its_repetitions():
    def depth(n):
        f = lax.sin
        for _ in range(n):
            f = mjax.checkpoint(lambda x, f=f: lax.sin(f(x)))
        return sum(counts(mjax.make_jaxpr(mjax.grad(f))(1.0)).values())

    sizes = [depth(n) for n in (5, 10, 20)]
    # A level of n repeats the n - 1 inside of it: a quadratic number of equations.
    assert sizes[1] < 4 * sizes[0] and sizes[2] < 4 * sizes[1]


# ---- tracing ---------------------------------------------------------------------------


def counting(f):
    calls = []

    @functools.wraps(f)
    def counted(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return counted, calls


def test_a_function_is_traced_once_per_types():
    f, traces = counting(chain)
    g = mjax.checkpoint(f)
    loss = lambda x, y: total(g(x, y))
    for _ in range(2):
        g(X, Y)
        mjax.grad(loss)(X, Y)
        mjax.hessian(loss)(X, Y)
        mjax.jit(mjax.grad(loss))(X, Y)
        mjax.jvp(g, (X, Y), (X, Y))
        mjax.checkpoint(f, policy=sines)(X, Y)
    assert len(traces) == 1
    mjax.vmap(g)(XS, XS)  # one element has the types of X
    assert len(traces) == 1
    g(1.0, 2.0)
    g(x=3.0, y=3.0)
    assert len(traces) == 3


def test_programs_are_cut_once():
    g = mjax.checkpoint(chain, policy=policies.save_only_these_names("keep"))
    h = mjax.checkpoint(chain, policy=policies.save_only_these_names("keep"))
    jaxprs = [remats(mjax.make_jaxpr(mjax.grad(lambda x, f=f: total(f(x, Y))))(X))[-1].params[
        "jaxpr"] for f in (g, g, h)]
    assert jaxprs[0] is jaxprs[1] is jaxprs[2]


def test_functions_are_held_weakly():
    def f(x):
        return lax.sin(lax.sin(x))

    g = mjax.checkpoint(f, policy=sines)
    mjax.grad(g)(1.0), mjax.jit(mjax.grad(g))(1.0)
    gone = weakref.ref(f)
    del f, g
    gc.collect()
    assert gone() is None


def test_static_arguments():
    f, traces = counting(lambda x, flag, y=2.0, *, mode="a": lax.mul(
        lax.sin(x) if flag else lax.cos(x), y if mode == "a" else 0.0))
    g = mjax.checkpoint(f, static_argnums=(1,), static_argnames="mode")
    for _ in range(2):
        close([g(1.0, True), g(1.0, False), g(1.0, flag=True, y=3.0), g(1.0, True, mode="b"),
               mjax.grad(g)(1.0, False)],
              [2 * np.sin(1), 2 * np.cos(1), 3 * np.sin(1), 0, -2 * np.sin(1)])
    assert len(traces) == 4  # True; False; by keyword; mode b
    assert float(mjax.jit(lambda x: g(x, True))(1.0)) == pytest.approx(2 * np.sin(1))


@pytest.mark.parametrize("how", [lambda f: f, mjax.jit, mjax.checkpoint], ids=[
    "itself", "jit", "checkpoint"])
def test_static_arguments_need_not_be_hashable(how):
    config = {"scale": 2.0}
    f = mjax.checkpoint(lambda x, config, *, by: lax.sin(x) * config["scale"] * by[0],
                        static_argnums=1, static_argnames="by")
    for scale in (2.0, 3.0, 2.0):
        config["scale"] = scale  # the same dict
        g = lambda x: f(x, config, by=[5.0])
        np.testing.assert_allclose(mjax.grad(how(g))(0.5), np.cos(0.5) * scale * 5, 1e-6)


def test_names_of_arguments_in_errors_skip_static_ones():
    f = mjax.checkpoint(lambda n, x: lax.sin(x) if x > n else x, static_argnums=0)
    with pytest.raises(mjax.errors.TracerBoolConversionError, match="its argument x\\."):
        f(3, 1.0)


# ---- effects ---------------------------------------------------------------------------


def effectful(**policy):
    effect = type("Once", (Effect,), {"policy": EffectPolicy(**policy)})()
    p = Primitive("once")
    p.def_effectful_abstract_eval(lambda x: (x, {effect}))
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), tangents[0]))
    return p, effect


def test_an_effect_that_must_not_be_repeated():
    p, effect = effectful(remat=False)
    for bind in (p.bind, mjax.jit(p.bind)):
        f = lambda x, bind=bind: lax.sin(bind(x))
        with pytest.raises(Exception, match="once has the effects Once, whose policy says "
                                            "remat=False: it cannot run a second time. Move it "
                                            "out of .*\nIt was applied at\n.*test_remat.py"):
            mjax.make_jaxpr(mjax.grad(mjax.checkpoint(f)))(1.0)
        saving = mjax.checkpoint(f, policy=lambda q, *_, **__: q is p)
        jaxpr = mjax.make_jaxpr(mjax.grad(saving))(1.0)
        assert jaxpr.effects == {effect} and counts(jaxpr)["once"] == 1
    # Nobody needs its result a second time.
    jaxpr = mjax.make_jaxpr(mjax.grad(mjax.checkpoint(lambda x: p.bind(lax.sin(x)))))(1.0)
    assert counts(jaxpr)["once"] == 1


def test_other_effects():
    p, effect = effectful(control_flow=False)
    jaxpr = mjax.make_jaxpr(mjax.grad(mjax.checkpoint(lambda x: lax.sin(p.bind(x)))))(1.0)
    assert counts(jaxpr)["once"] == 2
    # Dead, but for its effect.
    jaxpr = mjax.make_jaxpr(mjax.checkpoint(lambda x: (p.bind(x), x)[1]))(1.0)
    assert counts(dce_jaxpr(jaxpr, [False])[0])["once"] == 1


# ---- bad input -------------------------------------------------------------------------


def both(x, y):
    return lax.mul(x, y)


class Unhashable:
    __hash__ = None
    __name__ = "Mine"

    def __call__(self, *_, **__):
        return True


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: mjax.checkpoint(3), TypeError, "checkpoint expects a function, got 3 of type int"),
    (lambda: mjax.checkpoint(both, policy="dots"), TypeError,
     "checkpoint: a policy must be callable, as those of mjax.checkpoint_policies are; got 'dots' "
     "of type str"),
    (lambda: mjax.checkpoint(both, policy=Unhashable()), TypeError,
     "checkpoint: the policy Mine is not hashable"),
    (lambda: mjax.grad(mjax.checkpoint(lax.sin, policy=lambda *_, **__: None))(1.0), TypeError,
     "a checkpoint policy must return a bool, or Saveable, .*; <lambda> returned None of type "
     "NoneType for "),
    (lambda: mjax.checkpoint(both, static_argnums=2), ValueError,
     "checkpoint: static_argnums has 2, but both takes 2 positional arguments"),
    (lambda: mjax.checkpoint(both, static_argnums="a"), TypeError,
     "checkpoint: static_argnums must be an integer or a tuple of these, got 'a'"),
    (lambda: mjax.checkpoint(both, static_argnums=(0.5,)), TypeError, "got \\(0.5,\\)"),
    (lambda: mjax.checkpoint(both, static_argnames="z"), ValueError,
     "checkpoint: static_argnames has 'z', which is not an argument of both"),
    (lambda: mjax.checkpoint(both, static_argnames=(1,)), TypeError,
     "checkpoint: static_argnames must be a string or a sequence of these, got \\(1,\\)"),
    (lambda: mjax.jit(mjax.checkpoint(both, static_argnums=1))(1.0, 2.0), ValueError,
     "checkpoint: static argument 1 of both is a traced value of type ~float32\\[\\]"),
    (lambda: mjax.checkpoint(both, concrete=True), NotImplementedError,
     "checkpoint: concrete is no longer an option. .* static_argnums"),
    (lambda: mjax.checkpoint(both, prevent_cse=1), TypeError,
     "checkpoint: prevent_cse must be a bool, or a tuple of bools"),
    (lambda: mjax.checkpoint(both, prevent_cse=(True, 1)), TypeError, "prevent_cse must be a bool"),
    (lambda: mjax.checkpoint(both, prevent_cse=(True,))(1.0, 2.0), ValueError,
     "checkpoint: prevent_cse=\\(True,\\) does not fit the arguments"),
    (lambda: mjax.checkpoint(both)({"a": [1.0, "b"]}, 1.0), TypeError,
     "checkpoint of both: argument\\[0\\]\\['a'\\]\\[1\\] is not a valid array: 'b'"),
    (lambda: mjax.checkpoint(both)(1.0, y="b"), TypeError,
     "checkpoint of both: keyword argument \\['y'\\] is not a valid array"),
])
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_the_two_names():
    assert (mjax.remat.__name__, mjax.checkpoint.__name__) == ("remat", "checkpoint")
    assert inspect.unwrap(mjax.remat) is inspect.unwrap(mjax.checkpoint)
