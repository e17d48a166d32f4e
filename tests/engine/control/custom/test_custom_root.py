"""custom_root: derivatives are those of the root, as known and by finite differences."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

RNG = np.random.default_rng(0)
R = RNG.normal(size=(3, 3))
SPD = R @ R.T + 3 * np.eye(3)
B = RNG.normal(size=3)


@pytest.fixture(autouse=True)
def _double():
    with mjax.enable_x64(True):
        yield


def close(actual, expected, tolerance=1e-6):
    np.testing.assert_allclose(actual, expected, tolerance, tolerance)


def descent(matvec, b):
    """Gradient descent for symmetric equations."""
    return lax.fori_loop(0, 300, lambda _, x: x + (b - matvec(x)) / 15, b)


def newton(f, x):
    """Newton's method for scalars, until it stands still."""
    def body(state):
        x, _ = state
        value, slope = mjax.jvp(f, (x,), (jnp.ones_like(x),))
        step = value / slope
        return x - step, jnp.abs(step)

    return lax.while_loop(lambda state: state[1] > 1e-13, body, (x, jnp.full_like(x, jnp.inf)))[0]


def scalar(g, y):
    return y / g(jnp.ones_like(y))


def cube_root(a):
    return lax.custom_root(lambda x: x**3 - a, 1.0, newton, scalar)


def test_newtons_method():
    for f in (cube_root, mjax.jit(cube_root)):
        close(f(8.0), 2.0, 1e-12)
        close(mjax.grad(f)(8.0), 1 / 12, 1e-12)
        close(mjax.jvp(f, (8.0,), (3.0,))[1], 3 / 12, 1e-12)
        close(mjax.grad(mjax.grad(f))(8.0), -1 / 144, 1e-12)
        close(mjax.jit(mjax.grad(mjax.grad(mjax.grad(f))))(8.0), 10 / 27 * 8 ** (-8 / 3), 1e-12)
    many = np.array([1.0, 8.0, 27.0])
    close(mjax.vmap(cube_root)(many), [1, 2, 3], 1e-12)
    close(mjax.vmap(mjax.grad(cube_root))(many), 1 / (3 * many ** (2 / 3)), 1e-12)
    close(mjax.jit(mjax.grad(lambda a: jnp.sum(mjax.vmap(cube_root)(a))))(many),
          1 / (3 * many ** (2 / 3)), 1e-12)


def test_systems_and_trees():
    """The intersection of a circle and a line, by Newton in two dimensions; its derivatives are
    linear solves."""
    def f(radius, slope):
        def residual(p):
            return {"x": p["x"] ** 2 + p["y"] ** 2 - radius**2, "y": p["y"] - slope * p["x"]}

        def direct(g, y):
            """Two equations by Cramer's rule."""
            one, zero = jnp.ones_like(y["x"]), jnp.zeros_like(y["x"])
            u, v = g({"x": one, "y": zero}), g({"x": zero, "y": one})
            det = u["x"] * v["y"] - u["y"] * v["x"]
            return {"x": (y["x"] * v["y"] - y["y"] * v["x"]) / det,
                    "y": (u["x"] * y["y"] - u["y"] * y["x"]) / det}

        def solve(residual, p):
            def body(_, p):
                value, pushforward = mjax.linearize(residual, p)
                step = direct(pushforward, value)
                return {k: p[k] - step[k] for k in p}

            return lax.fori_loop(0, 12, body, p)

        return lax.custom_root(residual, {"x": 1.0, "y": 0.5}, solve, direct)

    def exact(radius, slope):
        x = radius / np.sqrt(1 + slope**2)
        return {"x": x, "y": slope * x}

    found = mjax.jit(f)(2.0, 0.75)
    close([found["x"], found["y"]], [1.6, 1.2], 1e-12)
    jacobian = mjax.jit(mjax.jacrev(f, (0, 1)))(2.0, 0.75)
    forward = mjax.jacfwd(f, (0, 1))(2.0, 0.75)
    step = 1e-6
    for i, (da, db) in enumerate([(step, 0), (0, step)]):
        above, below = exact(2 + da, 0.75 + db), exact(2 - da, 0.75 - db)
        for k in ("x", "y"):
            difference = (above[k] - below[k]) / (2 * step)
            close(jacobian[k][i], difference)
            close(forward[k][i], difference)


def test_tangents_by_an_iterative_solver():
    """tangent_solve may use custom_linear_solve, which can be transposed."""
    def f(b):
        return lax.custom_root(
            lambda x: SPD @ x + x**3 - b, jnp.zeros(3),
            lambda f, x: lax.fori_loop(0, 100, lambda _, x: x - 0.05 * f(x), x),
            lambda g, y: lax.custom_linear_solve(g, y, descent, symmetric=True))

    b = B
    x = np.asarray(mjax.jit(f)(b))
    close(SPD @ x + x**3, b, 1e-3)
    jacobian = np.linalg.inv(SPD + np.diag(3 * x**2))
    close(mjax.jit(mjax.jacrev(f))(b), jacobian)
    close(mjax.jit(mjax.jacfwd(f))(b), jacobian)


def test_auxiliary_results_of_roots():
    def f(a):
        x, steps = lax.custom_root(lambda x: x**2 - a, 1.0, lambda f, x: (
            newton(f, x), {"steps": jnp.array(7), "a": a * 2}), scalar, has_aux=True)
        return x, steps

    (x, aux), dx = mjax.value_and_grad(f, has_aux=True)(4.0)
    close([x, dx], [2.0, 0.25], 1e-12)
    assert int(aux["steps"]) == 7
    close(mjax.grad(lambda a: f(a)[1]["a"])(4.0), 0.0)


def test_the_guess_has_no_derivative():
    f = lambda guess, a: lax.custom_root(lambda x: x**2 - a, guess, newton, scalar)
    assert [float(g) for g in mjax.grad(f, (0, 1))(1.0, 4.0)] == [0.0, 0.25]
    jaxpr = mjax.make_jaxpr(mjax.grad(f))(1.0, 4.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["custom_jvp_call", "broadcast_in_dim"]


def test_f_is_traced_once_per_call():
    count = []

    def residual(x):
        count.append(1)
        return x**2 - 4.0

    f = lambda a: a * lax.custom_root(residual, 1.0, lambda _, x: x + 1, scalar)
    for transformed in (f, mjax.grad(f), mjax.jit(f), mjax.hessian(f)):
        transformed(2.0)
    assert len(count) == 4


def test_what_changed_since_is_seen():
    w = 2.0
    f = lambda x: x * w - 1
    root = lambda guess: lax.custom_root(f, guess, lambda f, x: x - f(x) / mjax.grad(f)(x), scalar)
    for w in (2.0, 4.0, 2.0):
        close(root(0.0), 1 / w)
        close(mjax.jit(lambda guess: root(guess))(0.0), 1 / w)


def test_nothing_is_compiled_twice(caplog):
    count = []

    def residual(x):
        return x**3 - 8.0

    def solve(f, x):
        count.append("solve")
        return newton(f, x)

    def tangent_solve(g, y):
        count.append("tangent_solve")
        return scalar(g, y)

    find = lambda guess: lax.custom_root(residual, guess, solve, tangent_solve)
    close(find(1.0), 2.0)
    with mjax.log_compiles(), caplog.at_level("WARNING", "mjax"):
        for guess in (3.0, 1.5):
            close(find(guess), 2.0)
    assert count == ["solve", "tangent_solve"] * 3
    assert not caplog.messages


# ---- bad input -------------------------------------------------------------------------


def twice(x):
    return 2 * x


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.custom_root(3, 1.0, newton, scalar), TypeError,
     ["custom_root expects a function", "3"]),
    (lambda: lax.custom_root(twice, 1.0, newton, None), TypeError, ["expects a function", "None"]),
    (lambda: lax.custom_root(twice, "x", newton, scalar), TypeError, ["initial_guess", "'x'"]),
    (lambda: lax.custom_root(twice, {"n": 1}, newton, scalar), TypeError,
     ["initial_guess['n'] has dtype int64", "floating or complex"]),
    (lambda: lax.custom_root(lambda x: (x, x), 1.0, newton, scalar), TypeError,
     ["f must return a tree like initial_guess", "missing"]),
    (lambda: lax.custom_root(lambda x: x * B, 1.0, newton, scalar), TypeError,
     ["f must return a tree like initial_guess", "float64[3] in the result of f"]),
    (lambda: lax.custom_root(twice, 1.0, lambda f, x: B, scalar), TypeError,
     ["solve must return a tree like initial_guess", "float64[3]"]),
    (lambda: lax.custom_root(twice, 1.0, newton, lambda g, y: (y, y)), TypeError,
     ["tangent_solve must return a tree like initial_guess"]),
    (lambda: lax.custom_root(twice, 1.0, newton, scalar, has_aux=True), ValueError,
     ["has_aux=True solve must return a pair", "newton at"]),
])
def test_bad_input(call, error, parts):
    with pytest.raises(error) as info:
        call()
    for part in parts:
        assert part in str(info.value), str(info.value)


def test_examples():
    examples = doctest.DocTestParser().get_doctest(
        lax.custom_root.__doc__, {"mjax": mjax, "lax": lax, "jnp": jnp}, "example", None, None)
    with mjax.enable_x64(False):
        assert doctest.DocTestRunner().run(examples).failed == 0 < len(examples.examples)


@pytest.mark.parametrize("through", [lambda f: f, mjax.jit, mjax.checkpoint], ids=[
    "itself", "jit", "checkpoint"])
def test_reverse_mode_goes_through_functions_with_a_backward_pass_alone(through):
    """Of `y**3 == g(a)` where `g` is a custom_vjp function."""
    g = mjax.custom_vjp(lambda a: a * a)
    g.defvjp(lambda a: (a * a, a), lambda a, ct: (2 * a * ct,))
    find = lambda a: lax.custom_root(lambda y: y**3 - g(a), 1.0, lambda f, y: g(a) ** (1 / 3),
                                     scalar)
    first, second = (lambda a: 2 / 3 * a ** (-1 / 3)), (lambda a: -2 / 9 * a ** (-4 / 3))
    close(mjax.grad(through(find))(8.0), first(8.0))
    close(mjax.vmap(mjax.grad(through(find)))(np.array([1.0, 8.0])), first(np.array([1.0, 8.0])))
    close(mjax.grad(mjax.grad(through(find)))(8.0), second(8.0))
    with pytest.raises(TypeError, match="forward-mode .* reached the custom_vjp function"):
        mjax.jvp(through(find), (8.0,), (1.0,))
