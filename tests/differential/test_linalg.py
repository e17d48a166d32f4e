"""Linear algebra, on both libraries: values, types, derivatives, exceptions."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree
from tests.engine.linalg.draws import hermitian, positive, square, tall

rng = np.random.default_rng(0)
F, C = np.dtype("f4"), np.dtype("c8")
VECTOR, RIGHT = [rng.normal(size=s).astype(F) for s in ((4,), (2, 4, 3))]
#: Name -> the program, and the kind of its operands.
PROGRAMS = {
    "cholesky": (lambda m, x: m.numpy.linalg.cholesky(x), positive),
    "det": (lambda m, x: m.numpy.linalg.det(x), square),
    "slogdet": (lambda m, x: tuple(m.numpy.linalg.slogdet(x)), square),
    "inv": (lambda m, x: m.numpy.linalg.inv(x), square),
    "solve": (lambda m, x: m.numpy.linalg.solve(x, VECTOR), square),
    "eigh": (lambda m, x: m.numpy.linalg.eigh(x).eigenvalues, hermitian),
    "eigenvectors": (lambda m, x: m.numpy.linalg.eigh(x).eigenvectors, hermitian),
    "svd": (lambda m, x: tuple(m.numpy.linalg.svd(x, full_matrices=False)), tall),
    "svdvals": (lambda m, x: m.numpy.linalg.svdvals(x), tall),
    "qr": (lambda m, x: tuple(m.numpy.linalg.qr(x)), square),
    "full qr": (lambda m, x: m.lax.linalg.qr(x[..., :2]), square),
    # jax 0.10.2 differentiates it for a single matrix only.
    "pivoted qr": (lambda m, x: m.lax.linalg.qr(x[0], pivoting=True), square),
    "wide qr": (lambda m, x: m.lax.linalg.qr(x[..., :3, :]), square),
    "lu": (lambda m, x: m.lax.linalg.lu(x), square),
    "pinv": (lambda m, x: m.numpy.linalg.pinv(x[..., :3]), square),
    "nuclear norm": (lambda m, x: m.numpy.linalg.norm(x, "nuc", (-2, -1)), tall),
    "power": (lambda m, x: m.numpy.linalg.matrix_power(x, -2), square),
    "least squares": (lambda m, x: m.numpy.linalg.lstsq(x[0, :, :2], VECTOR), square),
    "triangular_solve": (lambda m, x: m.lax.linalg.triangular_solve(
        x, x, left_side=True, transpose_a=True, conjugate_a=True), square),
}


@pytest.mark.parametrize("dtype", [F, C], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name, dtype):
    program, draw = PROGRAMS[name]
    x, t = draw(rng, (2, 4, 4), dtype), square(rng, (2, 4, 4), dtype)
    t = t + np.conj(np.swapaxes(t, 1, 2)) if draw in (positive, hermitian) else t
    assert_agree(program, x, tolerance=2e-4)
    assert_agree(lambda m, x, t: m.jvp(lambda x: program(m, x), (x,), (t,))[1], x, t,
                 tolerance=2e-3)

    def pullback(m, x):
        out, vjp = m.vjp(lambda x: program(m, x), x)
        return vjp(m.tree_util.tree_map(
            lambda o: m.numpy.ones_like(o) if o.dtype != "int32" else np.zeros(
                o.shape, m.dtypes.float0), out))

    assert_agree(pullback, x, tolerance=2e-3)
    if name != "least squares":
        assert_agree(lambda m, x: m.vmap(lambda x: program(m, x), 1)(x), np.stack([x, x], 1),
                     tolerance=2e-4)


@pytest.mark.parametrize("x64", [False, True])
def test_types(x64):
    def under(m, f, x):
        with m.enable_x64(x64):
            return m.eval_shape(lambda x: f(m, x), x)

    for (program, _), dtype in itertools.product(
            PROGRAMS.values(), ("bool", "int8", "int64", "float16", "float32", "float64",
                                "complex64", "complex128")):
        x = np.zeros((2, 4, 4), dtype)
        ours, theirs = [_types(under, m, program, x) for m in (mjax, jax)]
        assert ours == theirs, (program, dtype)


def _types(under, m, f, x):
    try:
        return [(s.shape, str(s.dtype)) for s in m.tree_util.tree_leaves(under(m, f, x))]
    except Exception as error:
        return "refused", isinstance(error, TypeError), isinstance(error, NotImplementedError)


def test_eigenvalues_and_what_has_no_order():
    x = square(rng, (4, 4), F)
    assert_agree(lambda m, x: m.numpy.sort(m.numpy.linalg.eigvals(x)), x, tolerance=1e-4)
    assert_agree(lambda m, x: m.grad(lambda x: (m.numpy.linalg.eigvals(x) ** 2).sum().real)(x), x,
                 tolerance=1e-3)
    assert_agree(lambda m, x: m.lax.linalg.schur(x), x, tolerance=1e-4)
    assert_agree(lambda m, x: m.lax.linalg.hessenberg(x), x, tolerance=1e-4)
    assert_agree(lambda m, x: m.lax.linalg.tridiagonal(x + x.T), x, tolerance=1e-4)
    assert_agree(lambda m, x: m.lax.linalg.qdwh(x), x, tolerance=1e-4)


def test_tridiagonal_systems():
    d = rng.normal(size=(3, 2, 4)).astype(F)
    for perturb in (False, True):
        assert_agree(lambda m, *x, p=perturb: m.lax.linalg.tridiagonal_solve(
            *x, perturb_singular=p), d[0], d[1] + 4, d[2], RIGHT)
        assert_agree(lambda m, d, p=perturb: m.grad(lambda d: m.lax.linalg.tridiagonal_solve(
            d[0], d[1] + 4, d[2], RIGHT, perturb_singular=p).sum())(d), d, tolerance=1e-4)


def test_programs_of_one_system_factor_once():
    text = str(mjax.make_jaxpr(mjax.vmap(lambda b: mjax.numpy.linalg.solve(
        np.eye(4, dtype=F), b)))(np.ones((5, 4), F)))
    assert "[5,4,4]" not in text
