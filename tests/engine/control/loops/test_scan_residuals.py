"""Scans in transformed programs: what they keep, what they compute again, their transposes."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.transforms.dce import dce_jaxpr
from tests.engine.control.loop_programs import C, W, X, close, knock, knock_p, scans
from tests.engine.reading import equations, names

# ---- what is kept, and what is computed ------------------------------------------------


def outside(jaxpr):
    """Names of the equations that stand in no scan."""
    found = []
    for eqn in jaxpr.eqns:
        found += outside(eqn.params["jaxpr"]) if eqn.primitive.name == "jit" else [
            eqn.primitive.name]
    return found




def gradient_of(body, argnums=(0, 1, 2)):
    """The jaxpr of the gradient of a scan whose body takes `(w, c, x)`; its two scans."""
    def f(w, c, xs):
        c, ys = lax.scan(lambda c, x: body(w, c, x), c, xs)
        return sum(map(jnp.sum, mjax.tree_util.tree_leaves((c, ys))))

    jaxpr = mjax.make_jaxpr(mjax.grad(f, argnums))(W, C, X)
    return jaxpr, *scans(jaxpr)


def shapes(eqn):
    """Types of what a scan stacks."""
    return [v.aval.shape for v in eqn.outvars[eqn.params["num_carry"]:]]


def test_what_the_consts_determine_is_computed_once():
    def body(w, c, x):
        gate = jnp.sin(jnp.exp(w))
        return jnp.tanh(c * gate + x), jnp.cos(c) * (x * w)

    jaxpr, forward, backward = gradient_of(body)
    assert {"sin", "exp"} <= {*outside(jaxpr)}
    assert "exp" not in names(forward.params["jaxpr"])
    # Besides the ys: 1 - tanh, sin and cos of the carry, x * w, the carry and its next value.
    assert shapes(forward) == [(4, 3)] * (1 + 6)
    # Consts and xs are read again in place, not stacked.
    assert {*jaxpr.invars} & {*backward.invars} == {jaxpr.invars[0], jaxpr.invars[2]}


def test_nothing_is_kept_of_a_linear_body():
    jaxpr, forward, backward = gradient_of(lambda w, c, x: (c * 2 + x, c), (1, 2))
    assert len(shapes(forward)) == 1
    assert backward.params["num_consts"] == 0 and len(backward.invars) == 2


def test_inputs_are_not_copied():
    # c * w + x * x: of the residuals w is a const and x an x; the history of c is stacked once.
    jaxpr, forward, backward = gradient_of(lambda w, c, x: (c * w + x * x, None))
    assert shapes(forward) == [(4, 3)]
    assert jaxpr.invars[0] in backward.invars and jaxpr.invars[2] in backward.invars


@pytest.mark.parametrize("which", ["new", "old"])
def test_a_carry_that_is_a_result_is_stacked_once(which):
    # exp'(c w) is the new carry; the derivative in w needs the old one.
    def body(w, c, x):
        new = jnp.exp(c * w)
        return new, new if which == "new" else c

    _, forward, _ = gradient_of(body, (0, 1))
    assert shapes(forward) == [(4, 3)] * 2


def test_results_are_forwarded():
    def f(c, xs):
        def body(carry, x):
            c, fixed, number = carry
            return (jnp.sin(c), fixed, number), (x["a"], c, x["b"], fixed)

        return lax.scan(body, (c, C, 2), xs)

    xs = {"a": X, "b": jnp.ones((4,))}
    jaxpr = mjax.make_jaxpr(f)(C, xs)
    (eqn,) = scans(jaxpr)
    # The carry that moves; results that are not inputs.
    assert len(eqn.outvars) == 1 + 2 and eqn.params["num_carry"] == 1
    (_, fixed, number), (a, _, b, rows) = f(C, xs)
    assert b is xs["b"] and isinstance(fixed, mjax.Array) and number.weak_type
    np.testing.assert_array_equal(fixed, C)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(a, X)
    assert jaxpr.outvars[3] is jaxpr.invars[1]


@pytest.mark.parametrize("kind", [float, np.float32, jnp.asarray])
def test_carries_that_never_change_are_not_stacked(kind):
    def f(c, xs):
        (c, same), _ = lax.scan(
            lambda s, x: ((jnp.sin(s[0] * s[1]), s[1]), None), (c, kind(2)), xs)
        return jnp.sum(c * same)

    jaxpr = mjax.make_jaxpr(mjax.grad(f))(C, X)
    forward, _ = scans(jaxpr)
    # cos(c * same) alone: same is a const, c is not needed.
    assert shapes(forward) == [(4, 3)]


def test_what_repeats_is_not_stacked_where_a_rule_runs_one_scan_for_both():
    """A user's jvp rule with primals and tangents in one loop: partial evaluation cuts it."""
    power_p = Primitive("loop_power")

    def run(w, c):
        return lax.scan(lambda c, _: (c * jnp.sin(jnp.exp(w)), c), c, None, 4)[0]

    @power_p.def_jvp
    def _jvp(primals, tangents):
        def body(carry, _):
            c, t = carry
            gate = jnp.sin(jnp.exp(primals[0]))
            slope = jnp.cos(jnp.exp(primals[0])) * jnp.exp(primals[0])
            return (c * gate, t * gate + c * slope * tangents[0]), None

        (c, t), _ = lax.scan(body, (primals[1], tangents[1]), None, 4)
        return c, t

    power_p.def_impl(run)
    power_p.def_abstract_eval(lambda w, c: c.strip_weak_type())
    f = lambda w, c: power_p.bind(w, c)
    jaxpr = mjax.make_jaxpr(lambda w, c: mjax.vjp(f, w, c)[1](np.float32(1)))(0.3, 0.7)
    forward, backward = scans(jaxpr)
    assert shapes(forward) == [(4,)]  # the history of c
    assert "exp" in outside(jaxpr) and "exp" not in names(forward.params["jaxpr"])
    slopes = mjax.vjp(f, np.float32(0.3), np.float32(0.7))[1](np.float32(1))
    close(slopes, mjax.grad(run, (0, 1))(0.3, 0.7), 1e-6)
    close(mjax.jvp(f, (0.3, 0.7), (1.0, 2.0)), mjax.jvp(run, (0.3, 0.7), (1.0, 2.0)), 1e-6)


def test_a_rule_whose_known_results_come_from_consts_alone():
    scale_p = Primitive("loop_scale", multiple_results=True)

    @scale_p.def_jvp
    def _jvp(primals, tangents):
        (x,), (t,) = primals, tangents
        _, (rows, slopes) = lax.scan(lambda _, t: ((), (jnp.sin(x), t * jnp.cos(x))), (),
                                     jnp.stack([t, 2 * t]))
        return [rows], [slopes]

    scale_p.def_impl(lambda x: [jnp.stack([jnp.sin(x)] * 2)])
    out, pull = mjax.vjp(lambda x: scale_p.bind(x)[0], np.float32(0.5))
    close(out, [np.sin(0.5)] * 2, 1e-6)
    close(pull(np.float32([1, 1])), [3 * np.cos(0.5)], 1e-6)


def test_effects_are_not_hoisted():
    def run(w, c, xs):
        c, _ = lax.scan(lambda c, x: (c * (knock_p.bind(w) * x), c), c, xs)
        return jnp.sum(c)

    jaxpr = mjax.make_jaxpr(mjax.grad(run, 1))(W, C, X)
    assert jaxpr.effects == {knock}
    assert [names(e.params["jaxpr"]).count("knock") for e in scans(jaxpr)] == [1, 0]
    assert "knock" not in outside(jaxpr)
    for transformed in (mjax.vmap(run), lambda *x: mjax.jvp(run, x, x)):
        many = mjax.make_jaxpr(transformed)(*[np.stack([x, x]) for x in (W, C, X)]
                                            if transformed.__name__ == "run" else (W, C, X))
        assert many.effects == {knock} and names(scans(many)[0].params["jaxpr"]).count("knock") == 1


def test_effects_stay_though_no_result_is_used():
    jaxpr = mjax.make_jaxpr(lambda xs: lax.scan(
        lambda c, x: (c + 1, knock_p.bind(x) * 2), 0, xs))(X)
    smaller, used = dce_jaxpr(jaxpr, [False, False])
    (eqn,) = scans(smaller)
    assert used == [True] and eqn.outvars == [] and names(eqn.params["jaxpr"]) == ["knock"]


def test_a_rule_with_effects_in_its_loop():
    loud_p = Primitive("loud")

    @loud_p.def_jvp
    def _jvp(primals, tangents):
        def body(carry, _):
            c, t = carry
            return (knock_p.bind(c) * 2, t * 2), None

        return lax.scan(body, (primals[0], tangents[0]), None, 3)[0]

    loud_p.def_impl(lambda x: x * 8)
    loud_p.def_abstract_eval(lambda x: x)
    jaxpr = mjax.make_jaxpr(mjax.grad(lambda x: loud_p.bind(x)))(np.float32(1))
    assert [names(e.params["jaxpr"]).count("knock") for e in scans(jaxpr)] == [1, 0]


def test_unused_carries_and_results_are_dropped():
    def run(w, c, xs):
        def body(carry, x):
            a, b, count = carry
            return (jnp.sin(a), b * x, count + 1), (jnp.cos(a), b)

        return lax.scan(body, (w, c, np.int32(0)), xs)[1][1]

    jaxpr = mjax.make_jaxpr(run)(W, C, X)
    smaller, used = dce_jaxpr(jaxpr, [True])
    assert used == [False, True, True]
    (eqn,) = scans(smaller)
    assert eqn.params["num_carry"] == 1 and len(eqn.outvars) == 2
    close(eval_jaxpr(smaller, smaller.consts, C, X)[0], run(W, C, X))
    # Carries that read each other stay together, though one result is enough.
    chained = mjax.make_jaxpr(lambda xs: lax.scan(
        lambda s, x: ((s[1], s[2], s[0] * x, s[3] + 1), None), (C, C, C, C), xs)[0][0])(X)
    (eqn,) = scans(dce_jaxpr(chained, [True])[0])
    assert eqn.params["num_carry"] == 3
    nothing, used = dce_jaxpr(jaxpr, [False])
    assert nothing.eqns == [] and used == [False] * 3


# ---- recomputation ---------------------------------------------------------------------


def heavy(w, c, xs):
    def body(c, x):
        gate = lax.dot(c, w)
        return jnp.sin(gate) + x, jnp.exp(gate * x)

    c, ys = lax.scan(body, c, xs)
    return jnp.sum(c * c) + jnp.sum(ys * ys)


SQUARE = np.random.default_rng(1).normal(size=(3, 3)).astype(np.float32)
POLICIES = mjax.checkpoint_policies


@pytest.mark.parametrize(("policy", "dots_again", "stacked_rows"), [
    (None, 1, 0), (POLICIES.nothing_saveable, 1, 0), (POLICIES.dots_saveable, 0, 1),
    (POLICIES.everything_saveable, 0, None)])
def test_policies_look_into_the_body(policy, dots_again, stacked_rows):
    f = mjax.checkpoint(heavy, policy=policy)
    args = SQUARE, C, X
    close(mjax.grad(f, (0, 1, 2))(*args), mjax.grad(heavy, (0, 1, 2))(*args), 1e-5)
    jaxpr = mjax.make_jaxpr(mjax.grad(f, (0, 1, 2)))(*args)
    all_scans = [e for e in equations(jaxpr) if e.primitive is lax.scan_p]
    first, *later = all_scans
    # Two more dots belong to the transpose: one for c, one for w.
    assert sum(names(e.params["jaxpr"]).count("dot_general") for e in later) == 2 + dots_again
    if stacked_rows is not None:
        assert len(shapes(first)) == 1 + stacked_rows


def test_remat_of_the_body():
    def f(checkpoint):
        def run(w, c, xs):
            @checkpoint
            def body(c, x):
                return jnp.sin(jnp.exp(lax.dot(c, w)) * x), None

            return jnp.sum(lax.scan(body, c, xs)[0])

        return mjax.grad(run, (0, 1, 2))

    args = SQUARE, C, X
    close(f(mjax.checkpoint)(*args), f(lambda f: f)(*args), 1e-5)
    plain, again = (scans(mjax.make_jaxpr(f(c))(*args))[0] for c in (lambda f: f, mjax.checkpoint))
    # Without: exp of the dot, its product with the cosine..., with: the carry alone.
    assert len(shapes(plain)) > 2 and shapes(again) == [(4, 3)]


def test_carries_that_a_policy_saves():
    """What is saved may be a carry: its history becomes an x of the second loop."""
    def f(c, xs):
        def body(c, x):
            new = mjax.ad_checkpoint.checkpoint_name(jnp.sin(c), "new")
            return new, jnp.exp(new * x)

        c, ys = lax.scan(body, c, xs)
        return jnp.sum(jnp.exp(ys)) + jnp.sum(c)

    policy = POLICIES.save_only_these_names("new")
    saved = mjax.checkpoint(f, policy=policy)
    close(mjax.grad(saved, (0, 1))(C, X), mjax.grad(f, (0, 1))(C, X), 1e-5)
    jaxpr = mjax.make_jaxpr(mjax.grad(saved))(C, X)
    sines = [names(e.params["jaxpr"]).count("sin") for e in equations(jaxpr)
             if e.primitive is lax.scan_p]
    assert sines[0] == 1 and sum(sines[1:]) == 0


# ---- transposition ---------------------------------------------------------------------


def with_counter(xs, c):
    """Linear, though it counts."""
    def body(carry, x):
        i, c = carry
        at = i.astype(np.float32)
        return (i + 1, c * at + x), x * jnp.sin(at)

    (_, c), ys = lax.scan(body, (np.int32(1), c), xs)
    return c, ys


def test_transposes_of_scans_with_counters():
    rng = np.random.default_rng(0)
    x, c, cts = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), 3, (4, 3)))
    actual = mjax.linear_transpose(with_counter, x, c)((c, cts))
    pulled = mjax.vjp(with_counter, x, c)[1]((c, cts))
    i = np.arange(1, 5, dtype=np.float32)
    after = np.array([np.prod(i[n + 1:]) for n in range(4)], np.float32)
    expected = (after[:, None] * c + np.sin(i)[:, None] * cts, np.prod(i) * c)
    for found in (actual, pulled):
        close(found, expected, 1e-5)


def test_transposing_twice():
    rng = np.random.default_rng(0)
    x, c = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), 3))
    transposed = mjax.linear_transpose(with_counter, x, c)
    out = with_counter(x, c)
    back = mjax.linear_transpose(lambda ct: transposed(ct), out)
    close(back((x, c)), (out,), 1e-5)


def test_transposes_in_some_operands():
    def f(w, xs):
        return lax.scan(lambda c, x: (c * 2 + x * w, x * w), np.zeros(3, np.float32), xs)

    out = f(W * 3, X)
    (dx,) = mjax.linear_transpose(lambda xs: f(W * 3, xs), X)(out)
    (dw,) = mjax.linear_transpose(lambda w: f(w, X), W)(out)
    weights = np.array([8, 4, 2, 1], np.float32)[:, None]
    close(dx, 3 * (weights * out[0] + out[1]), 1e-6)
    close(dw, (weights * out[0] + out[1]).sum(0), 1e-6)


def test_carries_that_start_at_zero_are_linear_all_the_same():
    # The tangent of the second carry is zero before the first step.
    def f(x):
        (a, b), ys = lax.scan(lambda s, _: ((s[0] * 2, s[1] + s[0]), s[1]), (x, np.float32(0)),
                              None, 3)
        return b, ys

    (b, ys), pull = mjax.vjp(f, np.float32(1))
    close((b, ys), (7, [0, 1, 3]))
    close(pull((np.float32(1), np.float32([1, 10, 100]))), (7 + 10 + 300,))
    close(mjax.linear_transpose(f, np.float32(1))((np.float32(1), np.float32([1, 10, 100]))),
          (317,))


def test_results_nobody_differentiates_cost_nothing():
    def f(c, xs):
        c, ys = lax.scan(lambda c, x: (jnp.sin(c) * x, jnp.exp(c)), c, xs)
        return jnp.sum(c), ys

    jaxpr = mjax.make_jaxpr(mjax.grad(lambda c, xs: f(c, xs)[0]))(C, X)
    _, backward = scans(jaxpr)
    # The cotangents of the ys are zero: no operand, and nothing of exp.
    assert len(backward.params["jaxpr"].eqns) == 2


def test_symbolic_zeros_stay_zeros():
    # The derivative in c does not reach the second carry, nor its result.
    jaxpr = mjax.make_jaxpr(lambda c, xs: mjax.jvp(lambda c: lax.scan(
        lambda s, x: ((s[0] * x, jnp.sin(s[1])), s[1]), (c, C), xs), (c,), (c,)))(C, X)
    (eqn,) = scans(jaxpr)
    assert eqn.params["num_carry"] == 3 and "cos" not in names(jaxpr)
