"""`lax.scan` under every transformation, and what it traces.

The programs and their meaning in NumPy are in `loop_programs.py`.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from mjax._engine.ir.effects import Effect, EffectPolicy
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import stage
from tests.engine.control.loop_programs import (
    ALONG,
    POINT,
    POINTS,
    PYTHON,
    SCANS,
    WHILES,
    C,
    W,
    X,
    close,
    compiled,
    derivatives,
    gradient,
    on,
    python_scan,
    scans,
)


@pytest.fixture
def x64():
    with mjax.enable_x64(True):
        yield


# ---- values and derivatives ------------------------------------------------------------

PROGRAMS = {**SCANS, **WHILES}
#: Ways to differentiate twice: all pairs.
TWICE = list(itertools.product(ALONG, repeat=2))
#: Ways to differentiate three times: each pair with a third way, each way with all others.
THRICE = [(*pair, third) for pair, third in zip(
    TWICE, ["jvp", "lin", "grad", "lin", "grad", "jvp", "grad", "jvp", "lin"], strict=True)]


def differentiated(program, *ways):
    """A program as a function of arrays, differentiated by one way after the other."""
    f = on(program)
    for way in ways:
        f = ALONG[way](f)
    return f


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_slopes(x64, name):
    program = PROGRAMS[name]
    ways = ALONG if name in SCANS else ["jvp", "lin"]
    functions = [differentiated(program), *[differentiated(program, way) for way in ways]]
    found = compiled(lambda *x: [f(*x) for f in functions])(*POINT)
    value, slope, *_ = derivatives(program)
    close(found[0], value, 1e-12)
    close(found[1:], [slope] * len(ways))


@pytest.mark.parametrize("name", ["rnn", "counting", "for_each", "bounded"])
def test_evaluation_without_jit(x64, name):
    program = PROGRAMS[name]
    way = "jvp" if name in WHILES else "grad"
    close(on(program)(*POINT), derivatives(program)[0], 1e-12)
    close(differentiated(program, way)(*POINT), derivatives(program)[1])


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
@pytest.mark.parametrize(("name", "ways"), [
    pytest.param(name, ways, id=f"{name}-{' of '.join(ways)}")
    for name in PROGRAMS for ways in [*TWICE, *THRICE] if name in SCANS or "grad" not in ways])
def test_higher_derivatives(x64, name, ways):
    program = PROGRAMS[name]
    expected = derivatives(program)[len(ways)]
    close(compiled(differentiated(program, *ways))(*POINT), expected,
          1e-7 * max(1, abs(expected)))


# ---- batches ---------------------------------------------------------------------------

#: Which operands of `(w, c, xs)` are batched: any of them, at least one.
BATCHED = [flags for flags in itertools.product([False, True], repeat=3) if any(flags)]


def batch(flags):
    """The operands of three programs, and their batch dimensions: the last one or None."""
    args = [np.moveaxis(many, 0, -1) if batched else one
            for many, one, batched in zip(POINTS, POINT, flags, strict=True)]
    return args, [-1 if batched else None for batched in flags]


def elements(flags):
    """The operands of each of the three programs of `batch`."""
    return [[many[i] if batched else one
             for many, one, batched in zip(POINTS, POINT, flags, strict=True)] for i in range(3)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches(x64, name):
    program = PROGRAMS[name]

    @compiled
    def batched():
        return [mjax.vmap(on(program), dims)(*args) for args, dims in map(batch, BATCHED)]

    for flags, found in zip(BATCHED, batched(), strict=True):
        close(found, np.stack([program(PYTHON, *args) for args in elements(flags)]), 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_of_batches_and_batches_of_derivatives(x64, name):
    f = on(PROGRAMS[name])
    differentiate = mjax.grad if name in SCANS else mjax.jacfwd
    slopes = compiled(differentiate(f, (0, 1, 2)))
    for flags in BATCHED[1::2]:
        args, dims = batch(flags)
        batched = compiled(mjax.vmap(differentiate(f, (0, 1, 2)), dims))(*args)
        of_sum = compiled(differentiate(
            lambda *x, dims=dims: jnp.sum(mjax.vmap(f, dims)(*x)), (0, 1, 2)))(*args)
        one_by_one = [slopes(*args) for args in elements(flags)]
        for i, is_batched in enumerate(flags):
            expected = np.stack([each[i] for each in one_by_one])
            close(batched[i], expected)
            # The derivative of an operand that all programs share is the sum of theirs.
            close(of_sum[i], np.moveaxis(expected, 0, -1) if is_batched else expected.sum(0))


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
    # d/dx_k of sum_i x_i (1 + sum of the x before): 1 + sum of all others.
    close(slope(XS), 11.0 - XS, 1e-6)


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
    assert len(times) == 1  # the length is not a matter of the body
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
     ["carry['w'][1]: int32[2] in the initial carry, ~float32[2] in what the body returns",
      "cast with .astype('int32')"]),
    (lambda c, x: ((c[0] > 0, c[1]), x), (np.float32(1), 2),
     ["carry[0]: float32[] in", "bool[] in", ".astype('float32')"]),
    # A shape.
    (lambda c, x: (c * X, x), C, ["carry: float32[3] in", "float32[4,3] in"]),
    # A structure.
    (lambda c, x: ([c[0]], x), [0.0, 1], ["carry[1]: ~int32[] in the initial carry, missing in"]),
    (lambda c, x: ((c, c), x), 0.0, ["carry[0]: missing in the initial carry"]),
    (lambda c, x: ((c[0],), x), [0.0], ["tree structure", "(*,)", "[*]"]),
    (lambda c, x: (None, x), 0.0, ["carry: ~float32[] in the initial carry, missing in"]),
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
        with pytest.raises(mjax.errors.JaxprTypeError, match=f"scan of a program.* {wrong}"):
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
