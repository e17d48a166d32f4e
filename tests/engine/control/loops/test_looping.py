"""`lax.fori_loop` and `lax.map`; how the cost of loops grows with their bodies and nesting."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from tests.engine.control.loop_programs import close
from tests.engine.reading import calls, equations, names

C = np.array([0.3, -0.4, 0.9], np.float32)
X = np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3)


# ---- fori_loop -------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(0, 5), (2, 5), (-3, 2), (3, 3), (5, 2)])
def test_values_of_fori_loop(bounds):
    def body(i, value):
        return {"sum": value["sum"] + i, "x": value["x"] * 0.5 + i}

    init = {"sum": 0, "x": C}
    expected = init
    for i in range(*bounds):
        expected = body(i, expected)
    run = lambda lower, upper: lax.fori_loop(lower, upper, body, init)
    for how in (run, mjax.jit(run, static_argnums=(0, 1)), mjax.jit(run)):
        close(how(*bounds), expected, 1e-6)
    close(mjax.jit(lambda n: run(n, bounds[1]))(bounds[0]), expected, 1e-6)
    close(run(*map(np.int32, bounds)), expected, 1e-6)
    close(run(*map(jnp.int32, bounds)), expected, 1e-6)


@pytest.mark.parametrize(("bounds", "x64", "of_scan", "of_while"), [
    ((0, 3), False, "~int32", "~int32"), ((0, 3), True, "~int64", "~int64"),
    ((np.int32(0), 3), True, "~int64", "int32"), ((0, np.int8(3)), False, "~int32", "int8"),
    ((np.int32(0), np.int32(3)), False, "~int32", "int32"),
    ((0, np.int64(3)), True, "~int64", "~int64"),
    ((np.uint8(0), np.uint8(3)), False, "~int32", "uint8"),
])
def test_the_type_of_the_number(bounds, x64, of_scan, of_while):
    types = []

    def body(i, x):
        types.append("~" * i.weak_type + str(i.dtype))
        return x

    with mjax.enable_x64(x64):
        lax.fori_loop(*bounds, body, 1.0)
        # One that is known is a Python number; others have the type of the bounds.
        mjax.jit(lambda *b: lax.fori_loop(*b, body, 1.0))(*bounds)
    assert types[0] == of_scan and types[-1] == of_while


def test_known_bounds_make_a_scan_and_others_a_while():
    f = lambda n, x: lax.fori_loop(0, n, lambda i, x: x * 2, x)
    assert names(mjax.make_jaxpr(lambda x: f(3, x))(1.0))[0:1] != ["while"]
    assert "scan" in names(mjax.make_jaxpr(lambda x: f(3, x))(1.0))
    assert "while" in names(mjax.make_jaxpr(f)(3, 1.0))
    # Eager derivatives know their bounds.
    assert float(mjax.grad(lambda x, n: f(n, x))(1.0, 3)) == 8
    assert float(mjax.jvp(lambda x, n: f(n, x), (1.0, 3), (1.0, np.zeros((), mjax.dtypes.float0))
                          )[1]) == 8


def test_batched_bounds():
    f = lambda lower, upper: lax.fori_loop(lower, upper, lambda i, x: x + i, 0)
    lower, upper = np.array([0, 2, 5, 3]), np.array([4, 3, 1, 9])
    found = mjax.vmap(f)(lower, upper)
    close(found, [sum(range(a, b)) for a, b in zip(lower, upper)])


@pytest.mark.parametrize("unroll", [1, 2, 4, 9, True, False, None])
def test_unrolled_fori_loops(unroll):
    f = lambda x: lax.fori_loop(0, 5, lambda i, x: jnp.sin(x) * (i + 1), x, unroll=unroll)
    expected = 0.3
    for i in range(5):
        expected = np.sin(expected) * (i + 1)
    close(f(0.3), expected, 1e-5)
    (eqn,) = (e for e in mjax.make_jaxpr(f)(0.3).eqns if e.primitive is lax.scan_p)
    assert eqn.params["unroll"] == (5 if unroll is True else unroll or 1)


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.fori_loop(0.0, 3, lambda i, x: x, 0), TypeError,
     ["fori_loop: lower must be an integer scalar", "float32"]),
    (lambda: lax.fori_loop(0, np.arange(2), lambda i, x: x, 0), TypeError,
     ["upper must be an integer scalar", "[2]"]),
    (lambda: lax.fori_loop(0, True, lambda i, x: x, 0), TypeError, ["upper", "bool"]),
    (lambda: lax.fori_loop(0, None, lambda i, x: x, 0), TypeError, ["None"]),
    (lambda: lax.fori_loop(0, 3, 1, 0), TypeError, ["fori_loop expects a function"]),
    (lambda: lax.fori_loop(0, 3, lambda i, x: x, [object()]), TypeError, ["init_val[0]"]),
    (lambda: lax.fori_loop(0, 3, lambda i, x: (x["a"], x["b"]), {"a": 1.0, "b": C}), TypeError,
     ["fori_loop: the carry must keep", "carry['a']: ~float32[] in", "carry[0]: missing in"]),
    (lambda: lax.fori_loop(0, 3, lambda i, x: x > 0, np.float32(1)), TypeError,
     ["carry: float32[] in the initial carry, bool[] in", ".astype('float32')", "test_looping.py"]),
    (lambda: mjax.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x > 0, np.float32(1)))(3),
     TypeError, ["fori_loop: the carry", "carry: float32[] in the initial value, bool[] in"]),
    (lambda: lax.fori_loop(0, 3, lambda i, x: x, 0, unroll=-1), ValueError,
     ["fori_loop: unroll", "not negative", "-1"]),
    (lambda: lax.fori_loop(np.int8(0), np.int16(3), lambda i, x: x, 0), TypeError,
     ["same dtype", "int8[] and int16[]", ".astype"]),
    (lambda: lax.fori_loop(0, np.uint8(3), lambda i, x: x, 0), TypeError,
     ["same dtype", "~int32[] and uint8[]"]),
    (lambda: mjax.jit(lambda n: lax.fori_loop(0, n, lambda i, x: x, 0, unroll=2))(3), ValueError,
     ["fori_loop: unroll needs bounds that are known"]),
])
def test_mistakes_in_fori_loop(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


# ---- map -------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [None, 0, 1, 2, 3, 7, 9])
def test_map(batch_size):
    f = lambda x: {"sin": jnp.sin(x["a"]) * x["b"], "both": (x["b"], 2)}
    xs = {"a": X, "b": np.arange(7, dtype=np.float32)}
    expected = {"sin": np.sin(X) * xs["b"][:, None], "both": (xs["b"], np.full(7, 2))}
    run = lambda xs: lax.map(f, xs, batch_size=batch_size)
    close(run(xs), expected, 1e-6)
    close(mjax.jit(run)(xs), expected, 1e-6)
    slopes = mjax.grad(lambda a: jnp.sum(run({"a": a, "b": xs["b"]})["sin"]))(X)
    close(slopes, np.cos(X) * xs["b"][:, None], 1e-6)
    many = mjax.vmap(lambda k: lax.map(lambda x: x * k, X, batch_size=batch_size))(C)
    close(many, X * C[:, None, None], 1e-6)


def test_map_over_nothing():
    for batch_size in (None, 3):
        out = lax.map(lambda x: jnp.sum(x), np.zeros((0, 3), np.float32), batch_size=batch_size)
        assert out.shape == (0,) and out.dtype == np.float32


def test_map_calls_its_function_once_and_compiles_no_program_twice(caplog):
    times = []

    def f(x):
        times.append(x.shape)
        return x * 2

    lax.map(f, X)
    with mjax.log_compiles(), caplog.at_level("WARNING", "mjax"):
        lax.map(f, X)
        lax.map(f, np.flip(X))
    assert times == [(3,)] * 3
    assert not caplog.messages
    lax.map(f, X, batch_size=3)
    assert len(times) == 3 + 2  # for the blocks, and for the rest


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"batch_size": 7}], ids=str)
def test_map_sees_what_changed_since(options):
    w = jnp.ones(3)
    f = lambda x: jnp.sum(x * w)
    derivative = mjax.grad(lambda xs: jnp.sum(lax.map(f, xs, **options)))
    for factor in (1, 10, 1):
        w = np.full(3, factor, np.float32)
        close(lax.map(f, X, **options), X.sum(1) * factor, 1e-5)
        close(derivative(X), np.full(X.shape, factor), 1e-5)
        w[:] = 5  # the same array
        close(lax.map(f, X, **options), X.sum(1) * 5, 1e-5)


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.map(lambda x: x, 3.0), ValueError, ["map: xs is a scalar", "leading axis"]),
    (lambda: lax.map(lambda x: x, ()), ValueError, ["map: xs has no leaves to go over."]),
    (lambda: lax.map(lambda x: x, (X, C)), ValueError, ["map: ", "xs[0] has 7", "xs[1] has 3"]),
    (lambda: lax.map(lambda x: x, X, batch_size=-1), TypeError, ["batch_size", "positive", "-1"]),
    (lambda: lax.map(lambda x: x, X, batch_size=2.5), ValueError, ["batch_size", "2.5"]),
    (lambda: lax.map(1, X), TypeError, ["map expects a function"]),
    (lambda: lax.map(lambda x: "a", X), TypeError, ["'a'"]),
])
def test_mistakes_in_map(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


# ---- growth ----------------------------------------------------------------------------


def of_size(n):
    """A scan whose body has n equations."""
    def f(c, xs):
        def body(c, x):
            y = c
            for _ in range(n // 2):
                y = lax.mul(lax.sin(y), x)
            return y, y

        c, ys = lax.scan(body, c, xs)
        return lax.add(lax.reduce_sum(c, (0,)), lax.reduce_sum(ys, (0, 1)))

    return f


def of_depth(n):
    """Scans in scans."""
    def level(k):
        if k == 0:
            return lambda c, x: (lax.mul(lax.sin(c), x), c)
        inner = level(k - 1)

        def body(c, x):
            c, ys = lax.scan(inner, lax.mul(c, x), lax.broadcast(x, (2,)))
            return c, lax.reduce_sum(ys, (0,))

        return body

    return lambda c, x: lax.add(*level(n)(c, x))


WORK = {
    "trace": lambda f, *x: mjax.make_jaxpr(f)(*x),
    "jvp": lambda f, *x: mjax.make_jaxpr(lambda *x: mjax.jvp(f, x, x))(*x),
    "grad": lambda f, *x: mjax.make_jaxpr(mjax.grad(f, (0, 1)))(*x),
    "vmap": lambda f, *x: mjax.make_jaxpr(mjax.vmap(f))(*[np.stack([x, x]) for x in x]),
    "grad of vmap of grad": lambda f, *x: mjax.make_jaxpr(mjax.grad(lambda *x: jnp.sum(
        mjax.vmap(mjax.grad(f))(*x))))(*[np.stack([x, x]) for x in x]),
    "remat": lambda f, *x: mjax.make_jaxpr(mjax.grad(mjax.checkpoint(f)))(*x),
    "lower": lambda f, *x: mjax.jit(mjax.grad(f)).lower(*x),
}


@pytest.mark.parametrize("name", WORK)
def test_twice_the_equations_cost_twice_the_calls(name):
    work = WORK[name]
    work(of_size(10), C, X)  # fills what later calls share
    once, twice, ten = (calls(lambda n=n: work(of_size(n), C, X)) for n in (60, 120, 600))
    assert twice < 2.1 * once and ten < 10.5 * once


def size(program):
    """Of a jaxpr: its equations, operands and results; of what is lowered: its words."""
    if not hasattr(program, "eqns"):
        return len(program.as_text().split())
    return sum(1 + len(e.invars) + len(e.outvars) for e in equations(program))


@pytest.mark.parametrize("name", WORK)
def test_depth_costs_what_is_written_down(name):
    """A residual of the innermost loop is a result of each around it, so programs that are
    linearized grow by more than their depth; the cost is that of writing them down."""
    work, one = WORK[name], np.float32(1)
    work(of_depth(2), one, one)
    depths = [of_depth(n) for n in (4, 8, 12)]
    sizes = np.diff([size(work(f, one, one)) for f in depths])
    mjax.clear_caches()
    costs = np.diff([calls(lambda f=f: work(f, one, one)) for f in depths])
    assert costs[1] / sizes[1] < 1.2 * costs[0] / sizes[0]
    if name in ("trace", "jvp", "vmap"):
        assert costs[1] < 1.1 * costs[0]


@pytest.mark.slow
def test_depth_thirty():
    one = np.float32(0.7)
    f = of_depth(30)
    slopes = mjax.make_jaxpr(mjax.grad(f, (0, 1)))(one, one)
    assert sum(e.primitive is lax.scan_p for e in equations(slopes)) == 2 * 30
    for name, work in WORK.items():
        if name != "lower":
            work(f, one, one)


def frames(transform, depth):
    """The deepest stack while the rule of an operation in nested loops runs."""
    deepest = 0

    def profile(frame, event, arg):
        nonlocal deepest
        if event == "call":
            count, at = 0, frame
            while at is not None:
                count, at = count + 1, at.f_back
            deepest = max(deepest, count)

    f = transform(of_depth(depth))
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        mjax.make_jaxpr(f)(np.float32(1), np.float32(1))
    finally:
        sys.setprofile(before)
    return deepest


@pytest.mark.parametrize(("name", "most"), [("trace", 9), ("jvp", 18), ("grad", 22)])
def test_frames_per_level_of_nesting(name, most):
    transform = {"trace": lambda f: f, "grad": mjax.grad,
                 "jvp": lambda f: lambda *x: mjax.jvp(f, x, x)}[name]
    _, two, four, eight = (frames(transform, n) for n in (2, 2, 4, 8))  # the first one imports
    assert (eight - four) / 4 == (four - two) / 2 <= most


# ---- memory of the process -------------------------------------------------------------


def test_nothing_keeps_functions_and_what_they_close_over_alive():
    class Big:
        def __init__(self):
            self.array = jnp.ones(3)

    alive = []

    def run():
        big = Big()
        alive.append(weakref.ref(big))

        def body(c, x):
            return c * jnp.sum(big.array) + x, c

        lax.scan(body, 0.5, X[:, 0])
        mjax.grad(lambda x: lax.scan(body, x, X[:, 0])[0])(0.5)
        lax.fori_loop(0, 3, lambda i, x: body(x, i)[0], 0.5)
        lax.while_loop(lambda x: x < 10, lambda x: body(x, 1)[0], 0.5)
        lax.map(lambda x: body(x, x), X[:, 0], batch_size=2)

    run()
    gc.collect()
    assert alive[0]() is None


def test_compiled_loops_live_as_long_as_their_bodies():
    arrays = []

    def run():
        table = jnp.arange(5.0)
        arrays.append(weakref.ref(table))
        lax.scan(lambda c, x: (c + jnp.sum(table) * x, c), 0.5, X[:, 0])
        mjax.jit(lambda x: lax.scan(lambda c, x: (c + jnp.sum(table) * x, c), 0.5, x))(X[:, 0])
        lax.while_loop(lambda x: x < jnp.sum(table), lambda x: x + 1, 0.5)

    run()
    gc.collect()
    assert arrays[0]() is None


def test_the_stack_of_a_body_is_the_users():
    """The number of stack frames between a body and the caller is bounded."""
    seen = []
    lax.scan(lambda c, x: (seen.append(len(inspect.stack(0))) or c, x), 0, X)
    assert seen[0] - len(inspect.stack(0)) <= 12
