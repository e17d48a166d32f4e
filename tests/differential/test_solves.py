"""custom_linear_solve and custom_root on both libraries."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree

RNG = np.random.default_rng(0)
R = RNG.normal(size=(4, 3, 3)).astype(np.float32)
A = (R @ R.transpose(0, 2, 1) + 3 * np.eye(3)).astype(np.float32)
B = RNG.normal(size=(4, 3)).astype(np.float32)


def direct(m, a):
    """A direct solver of three equations, by cofactors."""
    a = m.lax.stop_gradient(a)

    def solve(_, b):
        rows = [m.numpy.cross(a[1], a[2]), m.numpy.cross(a[2], a[0]), m.numpy.cross(a[0], a[1])]
        return m.numpy.stack(rows, 1) @ b / m.numpy.sum(a[0] * rows[0])

    return solve


def symmetric(m, a, b):
    return m.lax.custom_linear_solve(lambda x: a @ x, b, direct(m, a), symmetric=True)


def general(m, a, b):
    a = a + 0.3 * m.numpy.triu(a)
    return m.lax.custom_linear_solve(lambda x: a @ x, b, direct(m, a), direct(m, a.T))


def by_loop(m, a, b):
    def solve(matvec, b):
        return m.lax.fori_loop(0, 60, lambda _, x: x + (b - matvec(x)) / 12, b)

    return m.lax.custom_linear_solve(lambda x: a @ x, b, solve, symmetric=True)


def of_trees(m, a, b):
    x = m.lax.custom_linear_solve(
        lambda x: {"u": 2 * x["u"], "v": (a @ x["v"][0],)}, {"u": b, "v": (2 * b,)},
        lambda _, y: {"u": y["u"] / 2, "v": (direct(m, a)(None, y["v"][0]),)}, symmetric=True)
    return x["u"] * x["v"][0]


def root(m, a, b):
    return m.lax.custom_root(
        lambda x: a @ x + x**3 - b, m.numpy.zeros(3, "float32"),
        lambda f, x: m.lax.fori_loop(0, 80, lambda _, x: x - f(x) / 15, x),
        lambda g, y: m.lax.custom_linear_solve(
            g, y, lambda g, y: m.lax.fori_loop(0, 80, lambda _, x: x + (y - g(x)) / 15, y),
            symmetric=True))


def scalar_root(m, a, b):
    c = m.numpy.abs(b[0])
    return b * m.lax.custom_root(
        lambda x: x**3 - c, 1.0, lambda f, x: c ** (1 / 3), lambda g, y: y / g(1.0))


PROGRAMS = [symmetric, general, by_loop, of_trees, root, scalar_root]


def total(m, f):
    return lambda *args: m.numpy.sum(m.numpy.sin(f(*args)))


TRANSFORMED = {
    "value": lambda m, f: f,
    "jvp": lambda m, f: lambda a, b: m.jvp(f, (a, b), (R[0], B[1])),
    "grad": lambda m, f: m.grad(total(m, f), (0, 1)),
    "jit of grad": lambda m, f: m.jit(m.grad(total(m, f), (0, 1))),
    "hessian": lambda m, f: m.jit(m.hessian(total(m, f), 1)),
}


@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program, name):
    def run(m, a, b):
        return TRANSFORMED[name](m, lambda *args: program(m, *args))(a, b)

    assert_agree(run, A[0], B[0], tolerance=2e-4)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_batch(program, axes):
    args = [x if axis == 0 else x[0] for x, axis in zip((A, B), axes, strict=True)]

    def run(m, a, b):
        f = lambda *args: program(m, *args)
        return m.vmap(f, axes)(a, b), m.jit(m.vmap(m.grad(total(m, f), (0, 1)), axes))(a, b)

    assert_agree(run, *args, tolerance=2e-4)


#: Short programs, for what is accepted and what types come out.
SMALL = {
    "weak": lambda m: m.lax.custom_linear_solve(lambda x: 2 * x, 3.0, lambda _, b: b / 2),
    "strong": lambda m: m.lax.custom_linear_solve(
        lambda x: 2 * x, 3.0, lambda _, b: b / m.numpy.float32(2)),
    "aux": lambda m: m.lax.custom_linear_solve(
        lambda x: 2 * x, B, lambda _, b: (b / 2, {"n": m.numpy.arange(3)}), has_aux=True),
    "grad with aux": lambda m: m.grad(lambda b: m.lax.custom_linear_solve(
        lambda x: 2 * x, b, lambda _, b: (b / 2, m.numpy.arange(3)), symmetric=True,
        has_aux=True)[0].sum())(B),
    "transpose": lambda m: m.linear_transpose(lambda b: general(m, A[0], b), B[0])(B[1]),
    "complex": lambda m: m.vjp(lambda a, b: general(m, a, b), A[0] + 1j * R[0].astype(
        np.complex64), B[0] + 1j * B[1])[1](B[2] + 0j),
    "root with aux": lambda m: m.value_and_grad(lambda a: m.lax.custom_root(
        lambda x: x**2 - a, 1.0, lambda f, x: (m.numpy.sqrt(a), m.numpy.arange(3.0)),
        lambda g, y: y / g(1.0), has_aux=True), has_aux=True)(4.0),
    "third derivative": lambda m: m.grad(m.grad(m.grad(lambda a: m.lax.custom_root(
        lambda x: x**3 - a, 1.0, lambda f, x: m.numpy.cbrt(a), lambda g, y: y / g(1.0)))))(2.0),
}


@pytest.mark.parametrize("name", SMALL)
def test_small(name):
    assert_agree(SMALL[name], tolerance=1e-4)


#: Bad input: what jax refuses, by the class of its error.
REFUSED = {
    "tree of matvec": lambda m: m.lax.custom_linear_solve(
        lambda x: (x, x), B, lambda _, b: b),
    "shape of matvec": lambda m: m.lax.custom_linear_solve(lambda x: x[:2], B, lambda _, b: b),
    "shape of solve": lambda m: m.lax.custom_linear_solve(lambda x: x, B, lambda _, b: b[:2]),
    "shape of transpose_solve": lambda m: m.lax.custom_linear_solve(
        lambda x: x, B, lambda _, b: b, lambda _, b: b[:2]),
    "structure": lambda m: m.lax.custom_linear_solve(lambda x: x, (B,), lambda _, b: [b[0]]),
    "no pair": lambda m: m.lax.custom_linear_solve(lambda x: x, B, lambda _, b: b, has_aux=True),
    "no function": lambda m: m.lax.custom_linear_solve(3, B, lambda _, b: b),
    "no array": lambda m: m.lax.custom_linear_solve(lambda x: x, "b", lambda _, b: b),
    "no transpose_solve": lambda m: m.grad(lambda b: m.lax.custom_linear_solve(
        lambda x: x, b, lambda _, b: b).sum())(B),
    "tree of f": lambda m: m.lax.custom_root(
        lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y),
    "tree of the root": lambda m: m.lax.custom_root(
        lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y),
    "tree of tangent_solve": lambda m: m.lax.custom_root(
        lambda x: x, 1.0, lambda f, x: x, lambda g, y: (y, y)),
    "root without aux": lambda m: m.lax.custom_root(
        lambda x: x, 1.0, lambda f, x: x, lambda g, y: y, has_aux=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises(Exception) as theirs:
        REFUSED[name](jax)
    with pytest.raises(type(theirs.value)):
        REFUSED[name](mjax)


def test_params():
    def params(m, has_transpose):
        jaxpr = m.make_jaxpr(lambda a, b: m.lax.custom_linear_solve(
            lambda x: a * x, b, lambda _, b: b / a,
            (lambda _, b: b / a) if has_transpose else None))(B[0], B[1])
        return jaxpr.eqns[-1].params

    for has_transpose in (True, False):
        ours, theirs = params(mjax, has_transpose), params(jax, has_transpose)
        assert list(ours) == list(theirs)
        assert ours["const_lengths"] == theirs["const_lengths"]
        assert ours["jaxprs"]._fields == theirs["jaxprs"]._fields
        assert [j is None for j in ours["jaxprs"]] == [j is None for j in theirs["jaxprs"]]
