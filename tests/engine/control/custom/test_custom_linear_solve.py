"""custom_linear_solve: derivatives are those of the solution, by NumPy's dense solver and finite
differences."""

from __future__ import annotations

import doctest
import gc
import weakref

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.base.errors import JaxprTypeError
from mjax._engine.control.custom.custom_linear_solve import LinearSolve
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.linearize import linearize_jaxpr

RNG = np.random.default_rng(0)
R = RNG.normal(size=(5, 3, 3))
SPD = R @ R.transpose(0, 2, 1) + 3 * np.eye(3)
GENERAL = R + 4 * np.eye(3)
B = RNG.normal(size=(5, 3))
C = RNG.normal(size=3)


@pytest.fixture(autouse=True)
def _double():
    with mjax.enable_x64(True):
        yield


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(actual, expected, tolerance, tolerance)


# ---- solvers ---------------------------------------------------------------------------


def conjugate_gradients(matvec, b):
    """Hestenes and Stiefel 1952; how often it iterates depends on the values."""
    def body(state):
        x, r, p, rr = state
        ap = matvec(p)
        alpha = rr / jnp.sum(p * ap)
        x, r = x + alpha * p, r - alpha * ap
        new = jnp.sum(r * r)
        return x, r, r + new / rr * p, new

    start = (jnp.zeros_like(b), b, b, jnp.sum(b * b))
    return lax.while_loop(lambda state: state[3] > 1e-24, body, start)[0]


def by_cg(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, conjugate_gradients, symmetric=True)


def richardson(a):
    """A solver for matrices near 4, from the matrix itself."""
    def solve(matvec, b):
        def body(state):
            x, i = state
            return x + (b - matvec(x)) / 5, i + 1

        return lax.while_loop(lambda state: state[1] < 400, body, (b / 5, 0))[0]

    return solve


def by_richardson(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, richardson(a), richardson(a.T))


def gradients(a, b):
    """Of C . x with a x = b."""
    x = np.linalg.solve(a, b)
    gb = np.linalg.solve(a.T, C)
    return -np.outer(gb, x), gb


def loss(solve):
    return lambda a, b: jnp.sum(C * solve(a, b))


SOLVES = {"cg": (by_cg, SPD), "richardson": (by_richardson, GENERAL)}
both = pytest.mark.parametrize(("solve", "many"), SOLVES.values(), ids=list(SOLVES))


# ---- linear solves ---------------------------------------------------------------------


@both
def test_solutions_and_gradients(solve, many):
    a, b = many[0], B[0]
    for transformed in (solve, mjax.jit(solve)):
        close(transformed(a, b), np.linalg.solve(a, b))
    for transformed in (mjax.grad(loss(solve), (0, 1)), mjax.jit(mjax.grad(loss(solve), (0, 1))),
                        mjax.grad(mjax.jit(loss(solve)), (0, 1))):
        for actual, expected in zip(transformed(a, b), gradients(a, b), strict=True):
            close(actual, expected)
    close(mjax.grad(loss(solve), 1)(a, b), gradients(a, b)[1])
    close(mjax.grad(loss(solve))(a, b), gradients(a, b)[0])


@both
def test_forward_mode(solve, many):
    a, b, da, db = many[0], B[0], R[1], B[1]
    x = np.linalg.solve(a, b)
    for f in (solve, mjax.jit(solve)):
        close(mjax.jvp(f, (a, b), (da, db))[1], np.linalg.solve(a, db - da @ x))
        close(mjax.jvp(lambda a, f=f: f(a, b), (a,), (da,))[1], np.linalg.solve(a, -da @ x))
        close(mjax.jvp(lambda b, f=f: f(a, b), (b,), (db,))[1], np.linalg.solve(a, db))
        close(mjax.linearize(f, a, b)[1](da, db), np.linalg.solve(a, db - da @ x))


@pytest.mark.slow
@both
def test_higher_orders(solve, many):
    # Conjugate gradients need a matrix that stays symmetric.
    a, b, da = many[0], B[0], (R[1] + R[1].T) / 10

    def first(s):
        return mjax.grad(loss(solve))(a + s * da, b)

    step = 1e-5
    second = (gradients(a + step * da, b)[0] - gradients(a - step * da, b)[0]) / (2 * step)
    close(mjax.jvp(first, (0.0,), (1.0,))[1], second, 1e-5)
    through = mjax.grad(lambda s: jnp.sum(first(s) * R[2]))
    close(through(0.0), np.sum(second * R[2]), 1e-5)
    close(mjax.jit(through)(0.0), np.sum(second * R[2]), 1e-5)
    third = (mjax.jit(through)(1e-4) - mjax.jit(through)(-1e-4)) / 2e-4
    close(mjax.grad(mjax.jit(through))(0.0), third, 1e-4)


AXES = [(0, 0), (0, None), (None, 0)]


@both
@pytest.mark.parametrize("axes", AXES, ids=str)
def test_batches(solve, many, axes):
    args = [x if axis == 0 else x[0] for x, axis in zip((many, B), axes, strict=True)]
    rows = [[x if axis is None else x[i] for x, axis in zip(args, axes, strict=True)]
            for i in range(5)]
    close(mjax.jit(mjax.vmap(solve, axes))(*args), [np.linalg.solve(*row) for row in rows])
    expected = [np.stack(g) for g in zip(*[gradients(*row) for row in rows], strict=True)]
    for actual, e in zip(mjax.jit(mjax.vmap(mjax.grad(loss(solve), (0, 1)), axes))(*args),
                         expected, strict=True):
        close(actual, e)
    of_sum = mjax.jit(mjax.grad(lambda a, b: jnp.sum(mjax.vmap(loss(solve), axes)(a, b)), (0, 1)))
    for actual, e, axis in zip(of_sum(*args), expected, axes, strict=True):
        close(actual, e if axis == 0 else e.sum(0))


def test_what_is_not_batched_stays_as_it_is():
    """Of two equations in one, one is mapped over."""
    def f(a, b):
        return lax.custom_linear_solve(lambda x: (a * x[0], 2.0 * x[1]), b,
                                       lambda _, b: (b[0] / a, b[1] / 2.0), symmetric=True)

    one, two = mjax.vmap(f, (None, (0, None)), (0, None))(4.0, (np.arange(3.0), np.float64(3)))
    close(one, np.arange(3.0) / 4)
    close(two, 1.5)


def test_transposes():
    a = GENERAL[0]
    f = lambda b: by_richardson(a, b)
    transpose = mjax.linear_transpose(f, B[0])
    close(transpose(B[1])[0], np.linalg.solve(a.T, B[1]))
    close(mjax.linear_transpose(lambda c: transpose(c)[0], B[1])(B[2])[0],
          np.linalg.solve(a, B[2]))


def test_trees_and_auxiliary_results():
    def solve(matvec, b):
        return {"u": b["u"] / 2.0, "v": [b["v"][0] / 4.0]}, ("steps", jnp.array(3), b["u"])

    def f(scale, b):
        x, (_, steps, _) = lax.custom_linear_solve(
            lambda x: {"u": 2.0 * x["u"], "v": [4.0 * x["v"][0] * scale]}, b,
            lambda m, b: (solve(m, b)[0], solve(m, b)[1][1:] and (0, *solve(m, b)[1][1:])),
            symmetric=True, has_aux=True)
        return jnp.sum(x["u"]) + jnp.sum(x["v"][0] ** 2), steps

    b = {"u": B[0], "v": [B[1]]}
    (value, steps), (gs, gb) = mjax.value_and_grad(f, (0, 1), has_aux=True)(1.0, b)
    assert int(steps) == 3
    close(value, B[0].sum() / 2 + (B[1] ** 2).sum() / 16)
    close(gb["u"], np.full(3, 0.5))
    close(gb["v"][0], B[1] / 8)
    close(gs, -2 * (B[1] ** 2).sum() / 16)
    out, steps = mjax.vmap(f, (0, None), (0, None))(np.ones(2), b)
    close(out, [value, value])


def test_what_only_the_solver_uses_has_no_derivative():
    def f(guess, b):
        return jnp.sum(lax.custom_linear_solve(lambda x: 2.0 * x, b, lambda _, b: b / 2.0
                                               + 0.0 * guess, symmetric=True))

    gradient = mjax.grad(f, (0, 1))(B[1], B[0])
    close(gradient[0], np.zeros(3))
    close(gradient[1], np.full(3, 0.5))
    tangent = mjax.make_jaxpr(lambda g, b: mjax.jvp(lambda g: f(g, b), (g,), (g,)))(B[1], B[0])
    assert [e.primitive.name for e in tangent.eqns].count("custom_linear_solve") == 1


def test_complex():
    a, b = GENERAL[0] + 1j * R[1], B[0] + 1j * B[1]
    solve = lambda a, b: lax.custom_linear_solve(
        lambda x: a @ x, b, inverse_of(a), inverse_of(a.T))
    x = np.linalg.solve(a, b)
    close(solve(a, b), x)
    _, pull = mjax.vjp(solve, a, b)
    ga, gb = pull(C + 0j)
    expected = np.linalg.solve(a.T, C + 0j)
    close(gb, expected)
    close(ga, -np.outer(expected, x))


def inverse_of(a):
    """A direct solver of three equations, by cofactors."""
    a = lax.stop_gradient(a)

    def solve(_, b):
        rows = [jnp.cross(a[1], a[2]), jnp.cross(a[2], a[0]), jnp.cross(a[0], a[1])]
        return jnp.stack(rows, 1) @ b / jnp.sum(a[0] * rows[0])

    return solve


def test_inside_of_a_loop():
    """Implicit Euler steps: each solves an equation that depends on what is differentiated."""
    def run(solve, k):
        def step(x, _):
            return solve(jnp.eye(3) + k * SPD[0], x), None

        return lax.scan(step, B[0], None, 4)[0]

    def dense(k):
        x = B[0]
        for _ in range(4):
            x = np.linalg.solve(np.eye(3) + k * SPD[0], x)
        return C @ x

    step = 1e-6
    f = mjax.jit(lambda k: jnp.sum(C * run(by_cg, k)))
    close(f(0.1), dense(0.1))
    difference = (dense(0.1 + step) - dense(0.1 - step)) / (2 * step)
    close(mjax.grad(f)(0.1), difference, 1e-5)
    close(mjax.jvp(f, (0.1,), (1.0,))[1], difference, 1e-5)


@both
def test_inside_of_remat_and_branches(solve, many):
    a, b = many[0], B[0]

    def choosing(p, a, b):
        return lax.cond(p, lambda a, b: loss(solve)(a, b), lambda a, b: jnp.sum(a) + jnp.sum(b),
                        a, b)

    for actual, expected in zip(mjax.jit(mjax.grad(mjax.checkpoint(loss(solve)), (0, 1)))(a, b),
                                gradients(a, b), strict=True):
        close(actual, expected)
    found = mjax.jit(mjax.vmap(mjax.grad(choosing, (1, 2)), (0, None, None)))(
        np.array([True, False]), a, b)
    for actual, expected in zip(found, gradients(a, b), strict=True):
        close(actual[0], expected)
        close(actual[1], np.ones_like(expected))


def test_staged():
    def f(a, b):
        return lax.custom_linear_solve(lambda x: a * x, b, lambda _, b: b / a, symmetric=True)

    jaxpr = mjax.make_jaxpr(f)(B[0], B[1])
    (eqn,) = jaxpr.eqns
    assert eqn.primitive is lax.linear_solve_p and set(eqn.params) == {"const_lengths", "jaxprs"}
    assert eqn.params["const_lengths"] == (1, 1, 1, 1)
    jaxprs = eqn.params["jaxprs"]
    assert jaxprs._fields == ("matvec", "vecmat", "solve", "transpose_solve")
    assert jaxprs.vecmat is jaxprs.matvec and jaxprs.solve is not jaxprs.transpose_solve
    assert str(jaxpr).count("lambda") == 5 and "matvec=" in str(jaxpr)
    parts = linearize_jaxpr(jaxpr, [True, True])
    check_jaxpr(parts.known)
    check_jaxpr(parts.unknown)
    one_way = mjax.make_jaxpr(lambda a, b: lax.custom_linear_solve(
        lambda x: a * x, b, lambda _, b: b / a))(B[0], B[1]).eqns[0].params
    assert one_way["const_lengths"] == (1, 0, 1, 0) and one_way["jaxprs"].vecmat is None


def test_ill_typed_equations_are_refused():
    matvec = stage(lambda x: [lax.mul(x, 2.0)], [typeof(B[0])])
    wrong = stage(lambda x: [lax.reduce_sum(x, (0,))], [typeof(B[0])])
    for jaxprs, text in [
            ((matvec, None, wrong, None), r"solve gives float64\[3\] where there are float64\[\]"),
            ((wrong, None, matvec, None), "matvec gives"),
            ((matvec, matvec, matvec, wrong), "transpose_solve gives")]:
        with pytest.raises(JaxprTypeError, match=text):
            stage(lambda b, jaxprs=jaxprs: lax.linear_solve_p.bind(
                b, const_lengths=LinearSolve(0, 0, 0, 0), jaxprs=LinearSolve(*jaxprs)),
                [typeof(B[0])])


def test_matvec_is_traced_once_per_call():
    count = []
    a = jnp.asarray(SPD[0])

    def matvec(x):
        count.append(1)
        return a @ x

    f = lambda b: jnp.sum(lax.custom_linear_solve(matvec, b, lambda _, b: b / 2, symmetric=True))
    for transformed in (f, mjax.grad(f), mjax.jit(f), mjax.jit(mjax.grad(f))):
        transformed(B[0])
    assert len(count) == 4


def test_what_changed_since_is_seen():
    w = 2.0
    matvec, inverse = lambda x: x * w, lambda _, b: b / w
    f = lambda b: lax.custom_linear_solve(matvec, b, inverse, symmetric=True)
    for w in (2.0, 4.0, 2.0):
        close([f(1.0), mjax.grad(f)(1.0), mjax.jit(lambda b: f(b))(1.0)], [1 / w] * 3)


def test_nothing_is_compiled_twice(caplog):
    count, a = [], jnp.asarray(GENERAL[0])

    def matvec(x):
        return a @ x

    def solve(f, b):
        count.append("solve")
        return jnp.linalg.norm(f(b)) * b

    def transpose_solve(f, b):
        count.append("transpose_solve")
        return f(b)

    def f(b):
        return lax.custom_linear_solve(matvec, b, solve, transpose_solve)

    expected = np.linalg.norm(GENERAL[0] @ B[0]) * B[0]
    close(f(jnp.asarray(B[0])), expected)
    total = lambda b: f(b).sum()
    mjax.grad(total)(B[0])
    with mjax.log_compiles(), caplog.at_level("WARNING", "mjax"):
        for _ in range(2):
            close(f(jnp.asarray(B[0])), expected)
            mjax.grad(total)(B[0])
    assert sorted(count) == ["solve"] * 6 + ["transpose_solve"] * 6
    assert not caplog.messages
    close(lax.custom_linear_solve(lambda x: 2 * x, B[0], solve), 2 * np.linalg.norm(B[0]) * B[0])
    assert count.count("solve") == 7


def test_what_solvers_were_staged_to_does_not_keep_them_alive():
    def call():
        a = jnp.asarray(SPD[0])
        matvec, solve = (lambda x: a @ x), (lambda f, b: f(b))
        lax.custom_linear_solve(matvec, B[0], solve, symmetric=True)
        return weakref.ref(matvec), weakref.ref(solve), weakref.ref(a)

    references = call()
    gc.collect()
    assert [r() for r in references] == [None] * 3


# ---- bad input -------------------------------------------------------------------------


def halve(matvec, b):
    return b / 2


def twice(x):
    return 2 * x


X = B[0]


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.custom_linear_solve(3, X, halve), TypeError,
     ["custom_linear_solve expects a function", "3"]),
    (lambda: lax.custom_linear_solve(twice, X, None), TypeError, ["expects a function", "None"]),
    (lambda: lax.custom_linear_solve(twice, X, halve, 3), TypeError, ["expects a function"]),
    (lambda: lax.custom_linear_solve(twice, {"x": "y"}, halve), TypeError, ["b['x']", "'y'"]),
    (lambda: lax.custom_linear_solve(lambda x: x[:2], X, halve), ValueError,
     ["matvec must return a tree like b", "float64[3] in b, float64[2]", "<lambda> at",
      "test_custom_linear_solve.py"]),
    (lambda: lax.custom_linear_solve(twice, X, lambda m, b: (b, b)), ValueError,
     ["solve must return a tree like b", "b[1]: missing in b"]),
    (lambda: lax.custom_linear_solve(lambda x: x, (X,), lambda m, b: [b[0]]), TypeError,
     ["solve must return a tree like b", "tree structure"]),
    (lambda: lax.custom_linear_solve(twice, X, lambda m, b: b.astype("float32")), TypeError,
     ["float32[3] in the result of solve; cast with .astype('float64')"]),
    (lambda: lax.custom_linear_solve(twice, X, halve, lambda m, b: b[:2]), ValueError,
     ["transpose_solve must return a tree like b"]),
    (lambda: lax.custom_linear_solve(lambda x: x / 2, np.arange(3), halve), TypeError,
     ["float64[3] in the result of matvec", "cast b first"]),
    (lambda: lax.custom_linear_solve(twice, X, halve, has_aux=True), ValueError,
     ["has_aux=True solve must return a pair", "halve at"]),
    (lambda: mjax.grad(lambda b: jnp.sum(lax.custom_linear_solve(twice, b, halve)))(X), TypeError,
     ["transpose_solve is required", "symmetric=True"]),
    (lambda: lax.custom_linear_solve(lambda x: x * x, X, halve, halve), TypeError, ["not linear"]),
    (lambda: mjax.linear_transpose(lambda b: lax.custom_linear_solve(
        twice, b, lambda m, b: (b / 2, b * 2), symmetric=True, has_aux=True)[1], X)(X), TypeError,
     ["auxiliary results", "cotangent"]),
    (lambda: mjax.linear_transpose(lambda a: lax.custom_linear_solve(
        lambda x: a * x, X, lambda m, b: b / a, symmetric=True), X)(X), TypeError,
     ["linear in b, not in what matvec and solve close over"]),
])
def test_bad_input(call, error, parts):
    with pytest.raises(error) as info:
        call()
    for part in parts:
        assert part in str(info.value), str(info.value)


def test_examples():
    names = {"mjax": mjax, "lax": lax, "jnp": jnp}
    examples = doctest.DocTestParser().get_doctest(
        lax.custom_linear_solve.__doc__, names, "example", None, None)
    with mjax.enable_x64(False):
        assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)


@pytest.mark.parametrize("through", [lambda f: f, mjax.jit, mjax.checkpoint], ids=[
    "itself", "jit", "checkpoint"])
def test_reverse_mode_goes_through_functions_with_a_backward_pass_alone(through):
    """Of `a / (2 + a**2)`, where the square is a custom_vjp function."""
    g = mjax.custom_vjp(lambda a: a * a)
    g.defvjp(lambda a: (a * a, a), lambda a, ct: (2 * a * ct,))
    f = lambda a: lax.custom_linear_solve(lambda x: x * (2 + g(a)), a,
                                          lambda mv, b: b / mv(1.0), symmetric=True)
    first = lambda a: (2 - a**2) / (2 + a**2) ** 2
    second = lambda a: -2 * a * (6 - a**2) / (2 + a**2) ** 3
    close(mjax.grad(through(f))(1.5), first(1.5))
    close(mjax.vmap(mjax.grad(through(f)))(np.array([1.0, 1.5])), first(np.array([1.0, 1.5])))
    close(mjax.grad(mjax.grad(through(f)))(1.5), second(1.5))
    with pytest.raises(TypeError, match="forward-mode .* reached the custom_vjp function"):
        mjax.jvp(through(f), (1.5,), (1.0,))


def test_params_may_be_plain_tuples():
    """As programs that are read from files have them."""
    a, b = np.array([[2.0, 1.0], [0.5, 3.0]], np.float32), np.array([1.0, -2.0], np.float32)
    jaxpr = mjax.make_jaxpr(lambda a, b: lax.custom_linear_solve(
        lambda x: a @ x, b, lambda f, b: jnp.linalg.solve(a, b),
        lambda f, b: jnp.linalg.solve(a.T, b)))(a, b)
    (eqn,) = [e for e in jaxpr.eqns if e.primitive is lax.linear_solve_p]
    plain = {name: tuple(value) for name, value in eqn.params.items()}
    solve = lambda a, b: lax.linear_solve_p.bind(*[a] * sum(plain["const_lengths"]), b, **plain)[0]
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(solve(a, b), inverse @ b, rtol=1e-5)
    np.testing.assert_allclose(mjax.jacrev(solve, 1)(a, b), inverse, rtol=1e-5)
    batch = np.stack([b, 2 * b])
    np.testing.assert_allclose(mjax.vmap(solve, (None, 0))(a, batch), batch @ inverse.T, rtol=1e-5)
    assert "solve=" in str(mjax.make_jaxpr(solve)(a, b))
