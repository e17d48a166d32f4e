"""`lax.while_loop`: values, batches whose elements end at different times, rules, mistakes.

Its derivatives and batches against NumPy are in `test_scan.py`, with those of scans.
"""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, stage
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.partial_eval import partial_eval_jaxpr
from tests.engine.control.loop_programs import close, knock, knock_p, python_while
from tests.engine.reading import equations, names

C = np.array([0.3, -0.4, 0.9], np.float32)


def collatz(n):
    """Steps until 1."""
    return lax.while_loop(lambda s: s[0] > 1, lambda s: (
        jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1]


def steps(n):
    return python_while(lambda s: s[0] > 1, lambda s: (
        s[0] // 2 if s[0] % 2 == 0 else 3 * s[0] + 1, s[1] + 1), (n, 0))[1]


def whiles(jaxpr):
    return [e for e in equations(jaxpr) if e.primitive is lax.while_p]


# ---- values ----------------------------------------------------------------------------


@pytest.mark.parametrize("transform", [lambda f: f, mjax.jit], ids=["eager", "jit"])
def test_values(transform):
    f = transform(collatz)
    assert [int(f(n)) for n in (1, 2, 7, 27)] == [0, 1, 16, 111]
    assert int(transform(lambda n: lax.while_loop(lambda x: x < n, lambda x: x + x, 1))(100)) == 128
    out = transform(lambda x: lax.while_loop(lambda s: False, lambda s: s, x))({"a": C, "b": 1})
    np.testing.assert_array_equal(out["a"], C)
    assert out["b"].weak_type
    assert lax.while_loop(lambda s: False, lambda s: s, ()) == ()


@pytest.mark.parametrize(("start", "body", "expected"), [
    (1, lambda x: x * 2, "~int32"), (1.0, lambda x: x * 2, "~float32"),
    (1, lambda x: x * 2.0, "float32"), (1.0, lambda x: x * np.float32(2), "float32"),
    (1, lambda x: x * np.int8(2), "int8"), (np.int16(1), lambda x: x * 2, "int16"),
    (np.float16(1), lambda x: x * 2.0, "float16"),
])
def test_weak_types(start, body, expected):
    out = lax.while_loop(lambda x: x < 50, body, start)
    assert "~" * out.weak_type + str(out.dtype) == expected and float(out) == 64


def test_keys():
    def body(s):
        key, total = s
        key, drawn = mjax.random.split(key)
        return key, total + mjax.random.uniform(drawn)

    keys = mjax.random.split(mjax.random.key(1), 3)
    f = lambda key, end: lax.while_loop(lambda s: s[1] < end, body, (key, 0.0))
    expected = [python_while(lambda s, end=end: s[1] < end, body, (k, 0.0))
                for k, end in zip(keys, [1, 2, 3.0])]
    key, total = mjax.vmap(f)(keys, np.float32([1, 2, 3]))
    close(total, [float(t) for _, t in expected], 1e-6)
    np.testing.assert_array_equal(mjax.random.key_data(key),
                                  [mjax.random.key_data(k) for k, _ in expected])
    np.testing.assert_array_equal(
        mjax.random.key_data(f(keys[1], 2.0)[0]), mjax.random.key_data(expected[1][0]))


def test_what_bodies_and_conditions_close_over():
    @mjax.jit
    def f(limit, step, x):
        return lax.while_loop(lambda x: x < limit, lambda x: x + step, x)

    assert float(f(10.0, 3.0, 0.0)) == 12
    out, tangent = mjax.jvp(f, (10.0, 3.0, 0.0), (1.0, 1.0, 1.0))
    assert (float(out), float(tangent)) == (12, 5)
    close(mjax.vmap(f, (0, None, None))(np.float32([1, 5, -1]), 2.0, 0.0), [2, 6, 0])
    close(mjax.vmap(f, (None, 0, 0))(5.0, np.float32([1, 2]), np.float32([0, 1])), [5, 5])


# ---- batches ---------------------------------------------------------------------------


def test_elements_that_end_at_different_times():
    numbers = np.arange(1, 20)
    np.testing.assert_array_equal(mjax.vmap(collatz)(numbers), list(map(steps, numbers)))
    grid = mjax.vmap(mjax.vmap(collatz))(numbers[:18].reshape(3, 6))
    np.testing.assert_array_equal(grid.ravel(), list(map(steps, numbers[:18])))
    assert mjax.vmap(collatz)(numbers[:0]).shape == (0,)


def test_what_ended_is_not_touched():
    # 1 / (3 - i) would be infinite for those that are done, and 0 * inf a NaN.
    def f(n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + 1 / (3.0 - s[0])),
                              (0, 0.0))[1]

    ns = np.array([1, 3, 2])
    expected = [sum(1 / (3 - i) for i in range(n)) for n in ns]
    close(mjax.vmap(f)(ns), expected, 1e-6)
    _, tangents = mjax.jvp(lambda x: mjax.vmap(lambda n: f(n) * x)(ns), (2.0,), (1.0,))
    close(tangents, expected, 1e-6)


def test_a_condition_that_is_the_same_for_all_needs_no_mask():
    f = lambda n, x: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, x))[1]
    jaxpr = mjax.make_jaxpr(mjax.vmap(f, (None, 0)))(3, C)
    (eqn,) = whiles(jaxpr)
    assert "select_n" not in names(jaxpr) and len(eqn.outvars) == 2
    assert [v.aval.shape for v in eqn.outvars] == [(), (3,)]
    close(mjax.vmap(f, (None, 0))(3, C), 8 * C)


# ---- derivatives -----------------------------------------------------------------------


def test_carries_without_tangents_get_none():
    jaxpr = mjax.make_jaxpr(lambda x: mjax.jvp(lambda x: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, jnp.sin(s[2])), (0, x, C)),
        (x,), (x,)))(C)
    (eqn,) = whiles(jaxpr)
    assert len(eqn.outvars) == 4 and "cos" not in names(jaxpr)


def test_tangents_of_what_only_the_condition_reads_are_not_operands():
    def f(x, limit):
        return lax.while_loop(lambda s: s < limit, lambda s: s * x, x)

    x, limit = jnp.float32(1.5), jnp.float32(4.0)
    (loop,) = whiles(mjax.make_jaxpr(lambda *a: mjax.jvp(f, a, a))(x, limit))
    assert (loop.params["cond_nconsts"], loop.params["body_nconsts"]) == (1, 2)
    _, tangent = mjax.jvp(f, (x, limit), (jnp.float32(1.0), jnp.float32(1.0)))
    np.testing.assert_allclose(tangent, 4 * 1.5 ** 3, rtol=1e-6)


def test_reverse_mode_of_what_the_body_hands_on():
    def f(x, n):
        step = lambda c: (c[0] + 1, c[1], c[2] * 0.5)
        _, same, less = lax.while_loop(lambda c: c[0] < n, step, (0, x * x, 8.0))
        return same * less

    for how in (lambda f: f, mjax.jit):
        g = how(mjax.grad(lambda x: f(x, 3)))
        assert g(3.0) == 6 and how(mjax.vmap(g))(np.float32([1, 2])).tolist() == [2, 4]
    assert mjax.jit(mjax.hessian(f))(3.0, 1) == 8
    assert mjax.grad(lambda x: lax.while_loop(lambda c: c < 0, lambda c: c, x))(1.0) == 1
    assert mjax.grad(lambda x: lax.fori_loop(0, mjax.jit(lambda: 3)(), lambda i, c: c, x))(1.0) == 1
    # A tangent that others are made of.
    total = lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (
        c[0] + 1, c[1], c[2] + c[1]), (0, x, 0.0))[2]
    assert mjax.jvp(total, (2.0,), (1.0,)) == (6, 3)
    assert mjax.jacfwd(total)(2.0) == 3
    with pytest.raises(ValueError, match="Reverse-mode"):
        mjax.grad(total)(2.0)


def test_reverse_mode_where_no_derivative_goes_through_the_loop():
    def f(x):
        n = lax.while_loop(lambda n: n * n < lax.stop_gradient(x), lambda n: n + 1.0, 0.0)
        return x * n

    assert float(mjax.grad(f)(7.5)) == 3
    assert float(mjax.grad(lambda x: x * collatz(lax.floor(x).astype(int)))(7.5)) == 16
    close(mjax.vmap(mjax.grad(f))(np.float32([3.5, 7.5])), [2, 3])


@pytest.mark.parametrize("call", [
    lambda: mjax.grad(lambda x: lax.while_loop(lambda y: y < 9, lambda y: y * 2, x))(1.0),
    lambda: mjax.jit(mjax.grad(lambda x: lax.while_loop(lambda y: y < 9, lambda y: y * 2, x)))(1.0),
    lambda: mjax.vmap(mjax.grad(lambda x: lax.while_loop(
        lambda y: y < 9, lambda y: y * 2, x)))(C * C),
    lambda: mjax.jacrev(mjax.jit(lambda x: lax.while_loop(
        lambda s: s[0] < 9, lambda s: (s[0] + 1, s[1] * x), (0, x))[1]))(1.0),
    lambda: mjax.jit(lambda n: mjax.grad(lambda x: lax.fori_loop(
        0, n, lambda i, x: x * 2, x))(1.0))(3),
    lambda: mjax.grad(mjax.checkpoint(lambda x: lax.while_loop(
        lambda y: y < 9, lambda y: y * 2, x)))(1.0),
    lambda: mjax.grad(lambda x: lax.scan(lambda c, _: (lax.while_loop(
        lambda y: y < 9, lambda y: y * 2, c), None), x, None, 2)[0])(1.0),
])
def test_reverse_mode_is_refused(call):
    with pytest.raises(ValueError) as caught:
        call()
    for part in ("Reverse-mode differentiation of while_loop", "fori_loop with bounds that are "
                 "not known", "Use scan", "static bounds", "custom_vjp", "custom_root", "jvp"):
        assert part in str(caught.value)


def test_linearized_loops_run_again():
    f = lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1]) * x),
                                 (0, x))[1]
    out, f_jvp = mjax.linearize(f, C)
    close(out, f(C), 1e-6)
    for v in (C, np.ones(3, np.float32)):
        close(f_jvp(v), mjax.jvp(f, (C,), (v,))[1], 1e-6)
    close(mjax.jacfwd(mjax.jacfwd(f))(C)[0, 0, 0],
          (mjax.jvp(f, (C + 1e-2,), (np.eye(3, dtype=np.float32)[0],))[1][0]
           - mjax.jvp(f, (C - 1e-2,), (np.eye(3, dtype=np.float32)[0],))[1][0]) / 2e-2, 1e-2)


def test_a_rule_that_runs_one_loop_for_primals_and_tangents():
    """Partial evaluation: the primal part of the loop is known."""
    def rule(decides, carry_tangent):
        p = Primitive("loop_rule")

        @p.def_jvp
        def _jvp(primals, tangents):
            def body(s):
                n, x, t = s
                return n + 1, jnp.sin(x), t * jnp.cos(x) + (tangents[0] * 0)

            n, x, t = lax.while_loop(lambda s: (s[0] < 3) & (decides(s)), body,
                                     (0, primals[0], tangents[0]))
            return x, t

        p.def_impl(lambda x: jnp.sin(jnp.sin(jnp.sin(x))))
        p.def_abstract_eval(lambda x: x)
        return lambda x: p.bind(x)

    f = rule(lambda s: s[1] < 5, True)
    out, f_jvp = mjax.linearize(f, np.float32(0.5))
    close(out, np.sin(np.sin(np.sin(0.5))), 1e-6)
    slope = np.cos(0.5) * np.cos(np.sin(0.5)) * np.cos(np.sin(np.sin(0.5)))
    close(f_jvp(np.float32(2)), 2 * slope, 1e-6)
    jaxpr = mjax.make_jaxpr(lambda x: mjax.linearize(f, x)[1](x))(np.float32(0.5))
    known, both = whiles(jaxpr)
    assert len(known.outvars) == 2 and len(both.outvars) == 3


def test_partial_evaluation():
    def f(n, x, y):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2, s[2] + s[1]),
                              (0, x, y))

    jaxpr = mjax.make_jaxpr(f)(3, C, C)
    cases = {
        (False, False, True): [False, False, True],   # y is reached by no other
        (False, True, False): [False, True, True],    # x reaches y
        (True, False, False): [True, True, True],     # when it ends is unknown
    }
    for unknown, expected in cases.items():
        parts = partial_eval_jaxpr(jaxpr, unknown)
        assert parts.unknown_outs == expected
        args = [3, C, C]
        known_ins = [a for a, u in zip(args, unknown) if not u]
        known = eval_jaxpr(parts.known, parts.known.consts, *known_ins)
        rest = eval_jaxpr(parts.unknown, parts.unknown.consts, *parts.residuals(known_ins, known),
                          *[a for a, u in zip(args, unknown) if u])
        outs, wanted = [iter(known), iter(rest)], f(*args)
        close([next(outs[u]) for u in expected], wanted)


# ---- dead code, effects ----------------------------------------------------------------


def test_what_nobody_reads_is_dropped():
    def f(n, x, y):
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2, s[2] + s[1], s[3] * y), (0, x, y, y))

    jaxpr = mjax.make_jaxpr(f)(3, C, C)
    for used, carries, operands in (
            ([True, False, False, False], 1, [True, False, False]),
            ([False, True, False, False], 2, [True, True, False]),
            ([False, False, True, False], 3, [True, True, True]),
            ([False, False, False, True], 2, [True, False, True])):
        smaller, used_ins = dce_jaxpr(jaxpr, used)
        (eqn,) = whiles(smaller)
        assert len(eqn.outvars) == carries and used_ins == operands
        ins = [a for a, u in zip([3, C, C], used_ins) if u]
        wanted = [o for o, u in zip(f(3, C, C), used) if u]
        close(eval_jaxpr(smaller, smaller.consts, *ins), wanted)
    assert dce_jaxpr(jaxpr, [False] * 4)[0].eqns == []


def test_effects_stay():
    f = lambda x: lax.while_loop(lambda s: knock_p.bind(s) < 3.0, lambda s: knock_p.bind(s) + 1, x)
    jaxpr = mjax.make_jaxpr(f)(0.0)
    assert jaxpr.effects == {knock}
    assert names(dce_jaxpr(jaxpr, [False])[0]).count("knock") == 2
    assert mjax.make_jaxpr(lambda x: mjax.jvp(f, (x,), (x,)))(0.0).effects == {knock}
    assert mjax.make_jaxpr(mjax.vmap(f))(C).effects == {knock}
    unknown = partial_eval_jaxpr(mjax.make_jaxpr(lambda x, y: lax.while_loop(
        lambda s: s[0] < 3.0, lambda s: (knock_p.bind(s[0]) + 1, s[1]), (x, y)))(0.0, C),
        [False, True])
    assert names(unknown.known).count("knock") + names(unknown.unknown).count("knock") == 1


# ---- tracing ---------------------------------------------------------------------------


def test_bodies_and_conditions_are_traced_once_per_type():
    times = {"cond": 0, "body": 0}

    def cond(x):
        times["cond"] += 1
        return jnp.sum(x) < 9.0

    def body(x):
        times["body"] += 1
        return x * 2 + 1

    run = lambda x: lax.while_loop(cond, body, x)
    for _ in range(3):
        run(C)
        mjax.jit(run)(C)
        mjax.vmap(run)(np.stack([C, C]))
        mjax.jvp(run, (C,), (C,))
        mjax.jit(mjax.vmap(lambda x: mjax.jvp(run, (x,), (x,))))(np.stack([C, C]))
    assert times == {"cond": 1, "body": 1}
    run(C[:2])
    assert times == {"cond": 2, "body": 2}


def test_plans_of_other_conditions_are_forgotten():
    # A body of a module's with a condition made anew each time.
    body = lambda x: x * 2
    run = lambda n: mjax.jvp(lambda x: lax.while_loop(lambda y: y < n, body, x), (1.0,), (1.0,))
    for n in range(100):
        run(n)
    jaxpr = mjax.make_jaxpr(lambda x: lax.while_loop(lambda y: y < 3, body, x))(1.0)
    (eqn,) = whiles(jaxpr)
    assert len(eqn.params["body_jaxpr"]._cache) < 20


# ---- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(("cond", "body", "init", "parts"), [
    (lambda s: s["n"] < 3, lambda s: {"n": s["n"] + 1.5, "x": s["x"]}, {"n": np.int32(0), "x": C},
     ["the carry must keep its structure and types", "carry['n']: int32[] in the initial value, "
      "~float32[] in what the body returns; cast with .astype('int32')"]),
    (lambda s: True, lambda s: (s[0], s[1], 0), (C, 1), ["carry[2]: missing in the initial value"]),
    (lambda s: True, lambda s: [s[0]], (C,), ["tree structure"]),
    (lambda s: True, lambda s: s[:2], C, ["carry: float32[3] in", "float32[2] in"]),
    (lambda s: True, lambda s: None, C, ["carry: float32[3] in the initial value, missing"]),
    (lambda s: s > 0, lambda s: s, C, ["cond_fun must return a boolean scalar", "bool[3]",
                                        ".any() or .all()"]),
    (lambda s: s, lambda s: s, 1, ["boolean scalar", "int32[]", "Compare"]),
    (lambda s: (s > 0, True), lambda s: s, 1.0, ["boolean scalar"]),
    (lambda s: (s > 0,), lambda s: s, 1.0, ["boolean scalar", "(ShapedArray"]),
    (lambda s: None, lambda s: s, 1.0, ["boolean scalar", "None"]),
    (3, lambda s: s, 1.0, ["while_loop expects a function", "3"]),
    (lambda s: True, "body", 1.0, ["while_loop expects a function", "'body'"]),
    (lambda s: True, lambda s: s, {"a": object()}, ["init_val['a']", "object"]),
])
def test_mistakes(cond, body, init, parts):
    with pytest.raises(TypeError) as caught:
        lax.while_loop(cond, body, init)
    for part in parts:
        assert part in str(caught.value)


def test_effects_that_must_not_stand_in_loops():
    class Private(Effect):
        policy = EffectPolicy(control_flow=False)

    private_p = Primitive("private_")
    private_p.def_effectful_abstract_eval(lambda x: (x, {Private()}))
    for cond, body in ((lambda x: private_p.bind(x) < 3, lambda x: x),
                       (lambda x: x < 3, lambda x: private_p.bind(x))):
        with pytest.raises(TypeError, match="while_loop: <lambda> at .* has the effects Private, "
                                            "whose policy says control_flow=False"):
            mjax.jit(lambda x, c=cond, b=body: lax.while_loop(c, b, x))(1.0)


def test_ill_typed_loops_are_refused():
    cond = stage(lambda x: [lax.lt(x, np.float32(3))], [typeof(np.float32(1))])
    body = stage(lambda x: [lax.add(x, x)], [typeof(np.float32(1))])
    wide = stage(lambda x: [lax.broadcast(x, (2,))], [typeof(np.float32(1))])

    def bind(cond, body, *args):
        stage(lambda *x: lax.while_p.bind(*x, cond_jaxpr=cond, cond_nconsts=0, body_jaxpr=body,
                                          body_nconsts=0), list(map(typeof, args)))

    x = np.float32(1)
    bind(cond, body, x)
    for args, what in (((cond, body, C), "condition"), ((cond, body, x, x), "condition"),
                       ((cond, wide, x), "carry after one iteration"),
                       ((body, body, x), "predicate")):
        with pytest.raises(mjax.errors.JaxprTypeError, match=f"while: the {what} has types"):
            bind(*args)


def test_without_jit():
    seen = []

    def body(s):
        seen.append(float(s[0]))
        return s[0] * 2, s[1]

    with mjax.disable_jit():
        x, n = lax.while_loop(lambda s: s[0] < 9, body, (np.float32(1), 3))
    assert seen == [1, 2, 4, 8] and float(x) == 16
    assert isinstance(n, mjax.Array) and n.weak_type
