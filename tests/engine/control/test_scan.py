"""`lax.scan` under every transformation, and what it keeps, computes and traces.

The programs and their meaning in NumPy are in `loops.py`.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr, stage
from mjax._engine.transforms.dce import dce_jaxpr
from tests.engine.control.loops import (
    ALONG,
    POINT,
    POINTS,
    PYTHON,
    SCANS,
    WHILES,
    close,
    compiled,
    derivatives,
    gradient,
    on,
    python_scan,
)


@pytest.fixture
def x64():
    with mjax.enable_x64(True):
        yield


# ---- values and derivatives ------------------------------------------------------------

PROGRAMS = {**SCANS, **WHILES}
#: All pairs of ways, and for each pair one way as the third.
WORDS = [*itertools.product(ALONG, repeat=2), *(
    (a, b, list(ALONG)[(i + j) % 3]) for i, a in enumerate(ALONG) for j, b in enumerate(ALONG))]


def along(program, word):
    """A program differentiated along `DIRECTION`, by the first way first."""
    f = on(program)
    for way in word:
        f = ALONG[way](f)
    return f


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_slopes(x64, name):
    program = PROGRAMS[name]
    ways = [way for way in ALONG if way != "grad" or name in SCANS]
    value, *slopes = compiled(lambda *x: [on(program)(*x), *(
        along(program, [way])(*x) for way in ways)])(*POINT)
    expected = derivatives(program)
    close(value, expected[0], 1e-12)
    close(slopes, [expected[1]] * len(ways))


@pytest.mark.parametrize("name", ["rnn", "counting", "for_each", "bounded"])
def test_evaluation_without_jit(x64, name):
    program = PROGRAMS[name]
    way = "jvp" if name in WHILES else "grad"
    close(on(program)(*POINT), derivatives(program)[0], 1e-12)
    close(along(program, [way])(*POINT), derivatives(program)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", SCANS)
def test_gradients(x64, name):
    program = SCANS[name]
    f = on(program)
    ways = {
        "grad": mjax.grad(f, (0, 1, 2)), "grad of jit": mjax.grad(mjax.jit(f), (0, 1, 2)),
        "vjp": lambda *x: mjax.vjp(f, *x)[1](np.ones(())),
        "one by one": lambda *x: [mjax.grad(f, i)(*x) for i in range(3)],
        "remat": mjax.grad(mjax.checkpoint(f), (0, 1, 2)),
        "remat of grad": mjax.checkpoint(mjax.grad(f, (0, 1, 2))),
        "jacfwd": mjax.jacfwd(f, (0, 1, 2)),
    }
    for found in compiled(lambda *x: [way(*x) for way in ways.values()])(*POINT):
        close(found, gradient(program), 1e-7)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "word"), [
    pytest.param(name, word, id=f"{name}-{' of '.join(word)}")
    for name in PROGRAMS for word in WORDS if name in SCANS or "grad" not in word])
def test_higher_derivatives(x64, name, word):
    program = PROGRAMS[name]
    expected = derivatives(program)[len(word)]
    close(compiled(along(program, word))(*POINT), expected, 1e-7 * max(1, abs(expected)))


# ---- batches ---------------------------------------------------------------------------

SUBSETS = [axes for axes in itertools.product([None, 0], repeat=3) if any(
    a is not None for a in axes)]


def element(axes, i):
    return [x[i] if a is not None else p for x, p, a in zip(POINTS, POINT, axes, strict=True)]


def batch(axes):
    """Operands with batch axes in other places than the first, where there are any."""
    return [(np.moveaxis(x, 0, -1), -1) if a is not None else (p, None)
            for x, p, a in zip(POINTS, POINT, axes, strict=True)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches(x64, name):
    program = PROGRAMS[name]

    @compiled
    def batched():
        found = []
        for axes in SUBSETS:
            args, dims = zip(*batch(axes), strict=True)
            found.append(mjax.vmap(on(program), dims)(*args))
        return found

    for axes, found in zip(SUBSETS, batched(), strict=True):
        close(found, np.stack([program(PYTHON, *element(axes, i)) for i in range(3)]), 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_batches_and_batches_of_derivatives(x64, name):
    f = on(PROGRAMS[name])
    differentiate = mjax.grad if name in SCANS else mjax.jacfwd
    slopes = differentiate(f, (0, 1, 2))
    one = compiled(slopes)

    def both(dims, *args):
        total = differentiate(lambda *x: jnp.sum(mjax.vmap(f, dims)(*x)), (0, 1, 2))
        return mjax.vmap(slopes, dims)(*args), total(*args)

    for axes in SUBSETS[1::2]:
        args, dims = zip(*batch(axes), strict=True)
        batched, summed = compiled(functools.partial(both, dims))(*args)
        each = [one(*element(axes, i)) for i in range(3)]
        close(batched, [np.stack(rows) for rows in zip(*each, strict=True)])
        close(summed, [np.stack(rows, -1) if a is not None else np.sum(rows, 0)
                       for rows, a in zip(zip(*each, strict=True), axes, strict=True)])


def test_batches_of_batches(x64):
    f = on(SCANS["trees"])
    inner = mjax.vmap(f, (0, None, None))
    found = compiled(mjax.vmap(inner, (None, 0, 0)))(*POINTS)
    expected = [[SCANS["trees"](PYTHON, POINTS[0][j], POINTS[1][i], POINTS[2][i])
                 for j in range(3)] for i in range(3)]
    close(found, expected, 1e-10)


def test_collectives_in_the_body():
    def f(x):
        return lax.scan(lambda c, x: (c + lax.psum(x * c, "rows"), lax.axis_index("rows")), 1.0, x)

    xs = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
    c, index = mjax.vmap(f, axis_name="rows")(xs)
    expected = np.ones(2)
    for x in xs.T:
        expected = expected + np.sum(x * expected)
    close(c, expected, 1e-6)
    np.testing.assert_array_equal(index, [[0, 0, 0], [1, 1, 1]])


# ---- what goes in and out --------------------------------------------------------------


def add_up(c, x):
    return c + x, c * x


XS = np.arange(5, dtype=np.float32)


@pytest.mark.parametrize("unroll", [0, 1, 2, 3, 5, 7, True, False, np.int32(2), np.True_])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolling(reverse, unroll):
    c, ys = lax.scan(add_up, 1.0, XS, reverse=reverse, unroll=unroll)
    expected_c, expected_ys = python_scan(add_up, 1.0, XS, reverse=reverse)
    close((c, ys), (expected_c, expected_ys), 1e-6)
    slope = mjax.grad(lambda x: lax.scan(add_up, 1.0, x, reverse=reverse, unroll=unroll)[1].sum())
    place = range(5) if reverse else range(4, -1, -1)
    # d/dx_k of sum_i x_i (1 + sum of the x before): 1 + sum of all others.
    close(slope(XS), [11.0 - XS[k] for k in sorted(place)], 1e-6)


@pytest.mark.parametrize("unroll", [1, 2, True])
@pytest.mark.parametrize("length", [0, 1, 2])
def test_short_scans(length, unroll):
    c, ys = lax.scan(add_up, np.float32(3), XS[:length], unroll=unroll)
    assert ys.shape == (length,) and ys.dtype == np.float32
    close(c, 3 + XS[:length].sum())
    value, (dc, dx) = mjax.value_and_grad(
        lambda c, x: lax.scan(add_up, c, x, unroll=unroll)[0], (0, 1))(3.0, XS[:length])
    close((value, dc, dx), (c, 1.0, np.ones(length)))
    c, t = mjax.jvp(lambda x: lax.scan(add_up, 3.0, x, unroll=unroll)[1], (XS[:length],),
                    (np.ones(length, np.float32),))
    assert t.shape == (length,)
    many = mjax.vmap(lambda c: lax.scan(add_up, c, XS[:length], unroll=unroll))(XS)
    assert many[0].shape == (5,) and many[1].shape == (5, length)


def test_a_body_that_gives_nothing():
    assert lax.scan(lambda c, _: ((), None), (), None, 3) == ((), None)
    c, ys = lax.scan(lambda c, x: (c, {}), {"a": 1.0}, {"x": XS})
    assert ys == {} and float(c["a"]) == 1
    assert lax.scan(lambda c, _: (c, c), np.zeros(0, np.float32), length=2)[1].shape == (2, 0)


def test_keys_in_all_places():
    keys = mjax.random.split(mjax.random.key(0), 4)

    def body(key, x):
        n, other = x
        key = mjax.random.fold_in(key, n)
        return key, (key, mjax.random.uniform(other), mjax.random.uniform(key))

    for transform in (lambda f: f, mjax.jit):
        key, (made, _, drawn) = transform(lambda k: lax.scan(body, k[0], (np.arange(4), k)))(keys)
        expected, all_keys, draws = keys[0], [], []
        for n in range(4):
            expected, (_, _, draw) = body(expected, (n, keys[n]))
            all_keys.append(mjax.random.key_data(expected))
            draws.append(draw)
        np.testing.assert_array_equal(mjax.random.key_data(key), all_keys[-1])
        np.testing.assert_array_equal(mjax.random.key_data(made), all_keys)
        np.testing.assert_array_equal(drawn, draws)
    many = mjax.vmap(lambda k: lax.scan(body, k, (np.arange(4), keys))[1][2])(keys)
    np.testing.assert_array_equal(many[0], draws)
    slope = mjax.grad(lambda s: lax.scan(
        lambda c, k: (c + s * mjax.random.uniform(k), k), 0.0, keys)[0])(2.0)
    close(slope, sum(float(mjax.random.uniform(k)) for k in keys), 1e-6)
    empty = lax.scan(lambda k, _: (k, k), keys[0], length=0)[1]
    assert empty.shape == (0,) and empty.dtype == keys.dtype


def test_tangents_of_integers_are_float0():
    def f(x, n, mask):
        def body(c, row):
            x, n, mask = row
            return (c[0] + x, c[1] + n), (n * 2, mask)

        return lax.scan(body, (0.0, 0), (x, n, mask))

    args = XS, np.arange(5), XS > 2
    zeros = [np.zeros(5, mjax.dtypes.float0)] * 2
    _, ((dc, di), (dn, dm)) = mjax.jvp(f, args, (XS, *zeros))
    assert float(dc) == 10
    assert di.dtype == dn.dtype == dm.dtype == mjax.dtypes.float0 and dn.shape == (5,)
    _, pull = mjax.vjp(f, *args)
    dx, dn, dm = pull(((np.float32(2), np.zeros((), mjax.dtypes.float0)), (zeros[0], zeros[1])))
    np.testing.assert_array_equal(dx, 2 * np.ones(5))
    assert dn.dtype == dm.dtype == mjax.dtypes.float0
    assert float(mjax.grad(lambda n: f(XS, n, args[2])[0][0], allow_int=True)(
        args[1]).dtype == mjax.dtypes.float0)


@pytest.mark.parametrize(("start", "step", "expected"), [
    (0, lambda c, x: (c + 1, c), ("~int32", "~int32")),
    (0.0, lambda c, x: (c + x, c), ("float32", "~float32")),
    (0, lambda c, x: (c + x, c), ("float32", "float32")),
    (1.5, lambda c, x: (c * 2.0, x), ("~float32", "float32")),
    (True, lambda c, x: (x > 2, c), ("bool", "bool")),
    (np.int8(1), lambda c, x: (c * 2, c), ("int8", "int8")),
    (np.float16(1), lambda c, x: (c * 2, 3), ("float16", "~int32")),
    ((0, 0.0), lambda c, x: ((c[0] + 1, c[0] * x), 1j), ("~int32", "float32", "~complex64")),
])
def test_scalars_and_weak_types(start, step, expected):
    for run in (lax.scan, mjax.jit(lax.scan, static_argnums=0)):
        outs = mjax.tree_util.tree_leaves(run(step, start, XS))
        assert tuple("~" * x.weak_type + str(x.dtype) for x in outs) == expected
    expected = mjax.tree_util.tree_leaves(python_scan(step, start, XS))
    close([np.asarray(out) for out in outs], expected)


def test_closing_over_tracers_of_every_transformation():
    def f(w, v, u):
        @mjax.jit
        def inner(x):
            def body(c, y):
                return lax.sin(c * w) + u, y * v

            return lax.scan(body, x, jnp.stack([x, w]))

        c, t = mjax.jvp(lambda x: inner(x)[0], (w,), (v,))
        return c * t + mjax.vmap(lambda x: inner(x)[1])(jnp.stack([u, v])).sum()

    def expected(w, v, u):
        def chain(x):
            return np.sin((np.sin(x * w) + u) * w) + u

        slope = v * np.cos((np.sin(w * w) + u) * w) * w * np.cos(w * w) * w
        return chain(w) * slope + sum((x + w) * v for x in (u, v))

    point = np.float32([0.3, 0.7, -0.4])
    close(f(*point), expected(*point), 1e-6)
    slopes = mjax.jit(mjax.grad(f, (0, 1, 2)))(*point)
    wide = point.astype(float)
    for i, slope in enumerate(slopes):
        step = np.eye(3)[i] * 1e-6
        close(slope, (expected(*wide + step) - expected(*wide - step)) / 2e-6, 1e-4)


def test_arrays_that_bodies_close_over_stay_constants():
    table = jnp.arange(12.0).reshape(4, 3)
    jaxpr = mjax.make_jaxpr(lambda i: lax.scan(lambda c, i: (c + table[i], None), table[0], i))(
        np.arange(3))
    (eqn,) = scans(jaxpr)
    assert eqn.params["num_consts"] == 0
    assert any(c is table for c in eqn.params["jaxpr"].consts)
    slope = mjax.grad(lambda w: lax.scan(lambda c, x: (c + jnp.sum(table * w * x), None), 0.0,
                                         XS)[0])(np.float32(2))
    close(slope, 66 * 10.0)


# ---- what is kept, and what is computed ------------------------------------------------


def equations(jaxpr):
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)


def scans(jaxpr):
    """The scans of a program that stand in no other scan."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is lax.scan_p:
            found.append(eqn)
        elif eqn.primitive.name == "jit":
            found += scans(eqn.params["jaxpr"])
    return found


def names(jaxpr):
    return [eqn.primitive.name for eqn in equations(jaxpr)]


def outside(jaxpr):
    """Names of the equations that stand in no scan."""
    found = []
    for eqn in jaxpr.eqns:
        found += outside(eqn.params["jaxpr"]) if eqn.primitive.name == "jit" else [
            eqn.primitive.name]
    return found


W, C = np.ones((2, 3), np.float32)
X = np.ones((4, 3), np.float32)


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
    # What is at hand is read again where it is, not stacked once more.
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
    # The carry that moves; results that are no inputs.
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


class Knock(Effect):
    """Stays where it is, and happens as often as the program says."""


knock = Knock()
knock_p = Primitive("knock")
knocks = []
knock_p.def_impl(lambda x: knocks.append(x) or x)
knock_p.def_effectful_abstract_eval(lambda x: (x, {knock}))
knock_p.def_jvp(lambda primals, tangents: (knock_p.bind(*primals), tangents[0]))
knock_p.def_batch(lambda args, dims: (knock_p.bind(*args), *dims))


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


# ---- tracing ---------------------------------------------------------------------------


def counted(times):
    """A body that notes when it is called."""
    def body(c, x):
        times.append(1)
        return jnp.sin(c) * x, c

    return body


def test_bodies_are_traced_once_per_type():
    times = []
    body = counted(times)
    run = lambda c, xs: lax.scan(body, c, xs)[0].sum()
    for _ in range(3):
        run(C, X)
        mjax.jit(run)(C, X)
        mjax.grad(run)(C, X)
        mjax.vmap(mjax.grad(run), (None, 0))(C, np.stack([X, X]))
        mjax.jit(lambda c: mjax.jvp(run, (c, X), (c, X)))(C)
        lax.scan(body, C, X, reverse=True, unroll=2)
        mjax.hessian(run)(C, X)
    assert len(times) == 1
    run(C, X[:2])
    assert len(times) == 1  # the length is no matter of the body
    run(np.float32(1), X[:, 0])
    assert len(times) == 2
    with mjax.enable_x64(True):
        run(C, X)
    assert len(times) == 3
    mjax.clear_caches()
    run(C, X)
    assert len(times) == 4


def test_bodies_that_close_over_tracers_are_traced_once_per_trace():
    times = []

    @mjax.jit
    def f(w, c, xs):
        def body(c, x):
            times.append(1)
            return c * w + x, c

        return lax.scan(body, c, xs)[0].sum()

    for _ in range(2):
        f(W, C, X)
        mjax.grad(f)(W, C, X)
        mjax.vmap(f, (0, None, None))(np.stack([W, W]), C, X)
    assert len(times) == 1
    # Weak types that give way cost a second look.
    lax.scan(lambda c, x: (times.append(1) or c + x, None), 0, X[:, 0])
    assert len(times) == 3


# ---- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.scan(lambda c, x: (c, None), {"w": 0, "n": [1, 1.5]}, X, 3), ValueError,
     ["scan", "length is 3", "xs has 4"]),
    (lambda: lax.scan(add_up, 0.0, {"a": X, "b": X[:2]}), ValueError,
     ["xs['a'] has 4", "xs['b'] has 2"]),
    (lambda: lax.scan(add_up, 0.0, (X, 3.0)), ValueError, ["xs[1] is a scalar", "leading axis"]),
    (lambda: lax.scan(add_up, 0.0), ValueError, ["no leaves", "length"]),
    (lambda: lax.scan(add_up, 0.0, None, -1), ValueError, ["length", "negative", "-1"]),
    (lambda: lax.scan(add_up, 0.0, None, 2.5), TypeError, ["length must be a Python int", "2.5"]),
    (lambda: mjax.jit(lambda n: lax.scan(add_up, 0.0, None, n))(3), TypeError,
     ["length must be a Python int", "static", "while_loop"]),
    (lambda: lax.scan(add_up, 0.0, XS, unroll=1.5), ValueError, ["unroll", "1.5"]),
    (lambda: lax.scan(add_up, 0.0, XS, unroll=-2), ValueError, ["unroll", "-2"]),
    (lambda: lax.scan(3, 0.0, XS), TypeError, ["scan expects a function", "3"]),
    (lambda: lax.scan(add_up, "a", XS), TypeError, ["init", "'a'"]),
    (lambda: lax.scan(add_up, {"c": 0.0, "d": [None, object()]}, XS), TypeError,
     ["init['d'][1]", "object"]),
    (lambda: lax.scan(add_up, 0.0, [XS, "text"]), TypeError, ["xs[1]", "text"]),
    (lambda: lax.scan(lambda c, x: c + x, 0.0, XS), TypeError,
     ["must return a pair (carry, y)", "<lambda> at", "test_scan.py"]),
    (lambda: lax.scan(lambda c, x: (c, x, c), 0.0, XS), TypeError, ["pair"]),
    (lambda: lax.scan(lambda c, x: {"c": c, "y": x}, 0.0, XS), TypeError, ["pair"]),
    (lambda: lax.scan(lambda c, x: (c, "y"), 0.0, XS), TypeError, ["'y'"]),
])
def test_mistakes(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(("body", "init", "parts"), [
    # A dtype: which leaf, both types, and what to write.
    (lambda c, x: ({"w": [c["w"][0], c["w"][1] * 1.5]}, x), {"w": [0.0, np.arange(2)]},
     ["carry['w'][1]: i32[2] in the initial carry, ~f32[2] in what the body returns",
      "cast with .astype('int32')"]),
    (lambda c, x: ((c[0] > 0, c[1]), x), (np.float32(1), 2),
     ["carry[0]: f32[] in", "bool[] in", ".astype('float32')"]),
    # A shape.
    (lambda c, x: (c * X, x), C, ["carry: f32[3] in", "f32[4,3] in"]),
    # A structure.
    (lambda c, x: ([c[0]], x), [0.0, 1], ["carry[1]: ~i32[] in the initial carry, missing in"]),
    (lambda c, x: ((c, c), x), 0.0, ["carry[0]: missing in the initial carry"]),
    (lambda c, x: ((c[0],), x), [0.0], ["is nested as", "(*,)", "[*]"]),
    (lambda c, x: (None, x), 0.0, ["carry: ~f32[] in the initial carry, missing in"]),
])
def test_carries_that_change(body, init, parts):
    with pytest.raises(TypeError) as caught:
        lax.scan(body, init, XS)
    text = str(caught.value)
    assert "scan: the carry must keep its structure and types" in text
    assert "<lambda> at" in text and "test_scan.py" in text
    for part in parts:
        assert part in text


def test_effects_that_must_not_stand_in_loops():
    class Private(Effect):
        policy = EffectPolicy(control_flow=False)

    private_p = Primitive("private")
    private_p.def_effectful_abstract_eval(lambda x: (x, {Private()}))
    with pytest.raises(TypeError, match=r"scan: <lambda> at .*test_scan.py.* has the effects "
                                        r"Private, whose policy says control_flow=False"):
        mjax.jit(lambda x: lax.scan(lambda c, _: (private_p.bind(c), None), x, None, 2))(1.0)


def test_ill_typed_bodies_are_refused():
    body = stage(lambda c, x: [lax.add(c, x), x], [typeof(C), typeof(C)])
    for operands, wrong in (((C, C), "applied to"), ((C, X, X), "applied to"),
                            ((C[:2], X), "applied to")):
        with pytest.raises(mjax.errors.JaxprTypeError, match=f"scan of a body.* {wrong}"):
            stage(lambda *x: lax.scan_p.bind(
                *x, jaxpr=body, num_consts=0, num_carry=1, length=4, reverse=False, unroll=1),
                [typeof(x) for x in operands])
    changing = stage(lambda c: [lax.gt(c, c)], [typeof(C)])
    with pytest.raises(mjax.errors.JaxprTypeError, match="the carry .* becomes"):
        stage(lambda x: lax.scan_p.bind(
            x, jaxpr=changing, num_consts=0, num_carry=1, length=4, reverse=False, unroll=1),
            [typeof(C)])


def test_errors_of_bodies_are_the_users_own():
    def body(c, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        lax.scan(body, 0.0, XS)
    with pytest.raises(mjax.errors.TracerBoolConversionError, match="x"):
        lax.scan(lambda c, x: (c if x > 0 else -c, x), 0.0, XS)


def test_without_jit_the_body_is_called_for_each_slice():
    seen = []

    def body(c, x):
        seen.append(float(x["x"]))
        return c + x["x"], (x["x"] * 2, None)

    with mjax.disable_jit():
        c, (ys, nothing) = lax.scan(body, 0.0, {"x": XS})
        back, _ = lax.scan(body, 0.0, {"x": XS}, reverse=True)
        c0, ys0 = lax.scan(add_up, 1.0, XS[:0])
    assert seen == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0] and nothing is None
    close((c, ys, back, c0), (10, 2 * XS, 10, 1))
    assert ys0.shape == (0,)
