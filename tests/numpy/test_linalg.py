"""Decompositions, systems of equations and determinants: against NumPy."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.engine.linalg.draws import positive, square, tall
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
F, C = np.dtype("f4"), np.dtype("c8")
S, P, T = [draw(rng, (2, 4, 4), F) for draw in (square, positive, tall)]
SC, PC = [draw(rng, (3, 3), C) for draw in (square, positive)]
R, W = tall(rng, (4, 3), F), tall(rng, (2, 3, 4), C)
B, BV, BC = [rng.normal(size=s).astype(F) for s in ((2, 4, 3), (4,), (3, 2))]
ONE, INTS = square(rng, (1, 1), F), np.array([[2, 1], [1, 3]])


ROWS = [
    *[call(f"linalg.{name}", x) for name in ("det", "slogdet", "inv") for x in (
        S, SC, ONE, S[0, :2, :2], S[0, :3, :3], INTS)],
    *[call("linalg.solve", a, b) for a, b in (
        (S, B), (S[0], BV), (S[0], B), (S, BV), (SC, BC), (S[:1], B), (ONE, ONE))],
    *[call("linalg.cholesky", x, upper=upper) for x in (P, PC) for upper in (False, True)],
    *[call("linalg.eigvalsh", x, tolerance=5e-5) for x in (P, PC)],
    *[call("linalg.svdvals", x, tolerance=5e-5) for x in (T, W, R)],
    *[call("linalg.qr", x, mode) for x in (S, R, W) for mode in ("reduced", "r")],
    *[call("linalg.qr", x, "complete", derivative=False, tolerance=5e-5) for x in (S, R, W)],
    *[call("linalg.qr", x, "raw", derivative=False) for x in (S, R)],
    *[call("linalg.pinv", x, tolerance=1e-4) for x in (R, W, S)],
    *[call("linalg.pinv", x, hermitian=True, derivative=False, tolerance=1e-4) for x in (P, PC)],
    *[call("linalg.matrix_rank", x, derivative=False) for x in (
        S, W, BV, np.zeros((3, 3), F), np.ones((2, 3, 4), F))],
    *[call("linalg.cond", x, p, tolerance=1e-4, derivative=False) for x in (S, SC)
      for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc")],
    *[call("linalg.norm", x, p, axes, keepdims=keep, tolerance=5e-5) for x in (T, W)
      for p, axes, keep in (
        (2, (1, 2), False), (-2, (2, 1), False), ("nuc", (-1, 0), True), ("fro", (0, 1), True))],
    *[call("linalg.matrix_norm", x, ord=p, tolerance=5e-5) for x in (T, W)
      for p in (2, -2, "nuc")],
    *[call("linalg.matrix_power", S, n) for n in (-1, -3, 0, 2)],
    call("linalg.tensorinv", square(rng, (12, 12), F).reshape(4, 3, 2, 6)),
    call("linalg.tensorinv", S[0], 1),
    call("linalg.tensorsolve", square(rng, (6, 6), F).reshape(2, 3, 6), B[0, :2]),
    call("linalg.tensorsolve", square(rng, (6, 6), F).reshape(2, 6, 3), B[0, :2], axes=(1,)),
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


@pytest.mark.parametrize("x", [P, PC], ids=["real", "complex"])
def test_eigenvectors(x: Any) -> None:
    for uplo in ("L", "U", None):
        triangle = np.triu(x) if uplo == "U" else np.tril(x)
        values, vectors = jnp.linalg.eigh(triangle, uplo, symmetrize_input=False)
        np.testing.assert_allclose(x @ vectors, vectors * np.asarray(values)[..., None, :],
                                   atol=2e-4)
    result = jnp.linalg.eig(x)
    values, vectors = map(np.asarray, (result.eigenvalues, result.eigenvectors))
    np.testing.assert_allclose(x @ vectors, vectors * values[..., None, :], atol=2e-4)
    np.testing.assert_allclose(np.sort(jnp.linalg.eigvals(x).real), np.sort(values.real),
                               rtol=1e-4)
    assert jnp.linalg.eigvals(x).dtype == values.dtype == np.complex64


@pytest.mark.parametrize(("x", "hermitian"), [(R, False), (W, False), (P, True), (-PC, True)],
                         ids=["tall", "wide", "real", "complex"])
def test_singular_vectors(x: Any, hermitian: bool) -> None:
    for full in (False,) if hermitian else (False, True):
        out = jnp.linalg.svd(x, full_matrices=full, hermitian=hermitian)
        u, s, vh = map(np.asarray, (out.U, out.S, out.Vh))
        k = s.shape[-1]
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, atol=1e-4)
        np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), rtol=1e-4)
    only = jnp.linalg.svd(x, compute_uv=False, hermitian=hermitian)
    np.testing.assert_allclose(only, s, rtol=1e-5)


def test_least_squares() -> None:
    a, b = R, rng.normal(size=(4, 2)).astype(F)
    for right in (b, b[:, 0]):
        ours, theirs = jnp.linalg.lstsq(a, right), np.linalg.lstsq(a, right)
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    flat = np.ones((4, 3), F)
    x, residuals, rank, _ = jnp.linalg.lstsq(flat, b, numpy_resid=True)
    assert residuals.shape == (0,) and int(rank) == 1
    np.testing.assert_allclose(x, np.linalg.lstsq(flat, b)[0], atol=1e-5)
    for rcond in (0.4, np.float32([0.4]), np.float32([0.4, 0.4, 0.4])):
        np.testing.assert_allclose(jnp.linalg.lstsq(a, b, rcond=rcond)[2], 2)
    np.testing.assert_allclose(jnp.linalg.lstsq(a, b, rcond=np.float32([0, 0, 0.4]))[2], 2)
    assert [v.shape for v in jnp.linalg.lstsq(np.zeros((0, 3), F), np.zeros((0, 2), F))] == [
        (3, 2), (2,), (), (0,)]


@pytest.mark.parametrize("n", range(5))
def test_determinants_of_singular_matrices_have_gradients(n: int) -> None:
    """The gradient is the matrix of cofactors, which exists for every matrix."""
    for rank in range(n):
        a = np.diag(np.arange(n) < rank).astype(F)
        a = (square(rng, (n, n), F) @ a @ square(rng, (n, n), F)).astype(F)
        cofactors = np.array([[(-1) ** (i + j) * np.linalg.det(
            np.delete(np.delete(a.astype("f8"), i, 0), j, 1)) for j in range(n)]
            for i in range(n)])
        np.testing.assert_allclose(mjax.grad(jnp.linalg.det)(a), cofactors, atol=2e-3)


def test_slogdet_by_qr() -> None:
    for x in (S, ONE, -S):
        for one, other in zip(jnp.linalg.slogdet(x, method="qr"), np.linalg.slogdet(x),
                              strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        gradient = mjax.grad(lambda x: jnp.linalg.slogdet(x, method="qr")[1].sum())(x)
        np.testing.assert_allclose(gradient, np.swapaxes(np.linalg.inv(x), -1, -2), atol=1e-5)


def test_empty_matrices() -> None:
    empty = np.zeros((2, 0, 0), F)
    np.testing.assert_array_equal(jnp.linalg.det(empty), [1, 1])
    np.testing.assert_array_equal(jnp.linalg.slogdet(empty), [[1, 1], [0, 0]])
    for name in ("inv", "cholesky", "pinv"):
        assert getattr(jnp.linalg, name)(empty).shape == (2, 0, 0)
    assert jnp.linalg.solve(empty, np.zeros((0, 3), F)).shape == (2, 0, 3)
    assert jnp.linalg.pinv(np.zeros((0, 3), F)).shape == (3, 0)
    assert jnp.linalg.norm(np.zeros((0, 3), F), 2) == 0


def test_singular_matrices() -> None:
    zero = np.zeros((2, 2), F)
    assert not np.isfinite(jnp.linalg.inv(zero)).any()
    np.testing.assert_array_equal(jnp.linalg.slogdet(zero), (0, -np.inf))
    assert jnp.linalg.cond(zero, 1) == np.inf
    np.testing.assert_array_equal(jnp.linalg.pinv(zero), zero)


def test_thresholds_broadcast_with_stacks() -> None:
    x = np.stack([np.diag(d) for d in ((3.0, 2.0, 1.0), (1.0, 0.1, 0.001))]).astype(F)
    rtol = np.array([[0.5], [0.01]], F)
    np.testing.assert_array_equal(jnp.linalg.matrix_rank(x, rtol), [[3, 1], [3, 2]])
    np.testing.assert_array_equal(jnp.linalg.matrix_rank(x[1], rtol), [[1], [2]])
    out = jnp.linalg.pinv(x, rtol)
    assert out.shape == (2, 2, 3, 3)
    for i, j in np.ndindex(2, 2):
        np.testing.assert_allclose(out[i, j], np.linalg.pinv(x[j], rtol[i, 0]), 1e-4, 1e-5)
    with pytest.raises(TypeError, match=r"pinv: rtol of shape \(3,\) must broadcast"):
        jnp.linalg.pinv(x, np.ones(3))


def test_one_factorization_serves_many_right_hand_sides() -> None:
    jaxpr = str(mjax.make_jaxpr(jnp.linalg.solve)(S[0], B))
    assert "lu" in jaxpr and "f32[2,4,4]" not in jaxpr


def test_jit_vmap_and_grad_of_vmap() -> None:
    f = lambda a, b: jnp.linalg.solve(a, b).sum()
    gradients = mjax.jit(mjax.vmap(mjax.grad(f)))(S, B)
    for g, a, b in zip(gradients, S, B, strict=True):
        x = np.linalg.solve(a, b)
        expected = -np.linalg.solve(a.T, np.ones_like(b)) @ x.T
        np.testing.assert_allclose(g, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("x64", [pytest.param(False, marks=pytest.mark.slow), True])
def test_dtypes(x64: bool) -> None:
    with mjax.enable_x64(x64):
        for dtype, name in itertools.product(("i4", "i8", "?", "f4", "f8", "c8", "c16"),
                                             ("inv", "det", "cholesky", "pinv")):
            x = jnp.asarray(np.eye(4).astype(dtype))
            expected = jnp.sin(x).dtype
            assert getattr(jnp.linalg, name)(x).dtype == expected, (dtype, name)


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: jnp.linalg.inv(R), ValueError, "inv: the matrix must be square, got shape (4, 3)"),
    (lambda: jnp.linalg.det(BV), ValueError, "det: a matrix has at least two axes, got shape (4,)"),
    (lambda: jnp.linalg.cholesky([[1.0]]), TypeError, "mjax.numpy.asarray"),
    (lambda: jnp.linalg.solve(S, B[:, :3]), ValueError, "solve: a matrix of shape (2, 4, 4)"),
    (lambda: jnp.linalg.solve(S, np.ones((2, 4), F)), ValueError, "b[..., None]"),
    (lambda: jnp.linalg.solve(S, np.ones((3, 4, 1), F)), ValueError, "(2,), (3,)"),
    (lambda: jnp.linalg.eigh(P, "X"), ValueError, "UPLO must be 'L', 'U' or None, got 'X'"),
    (lambda: jnp.linalg.qr(S, "x"), ValueError, "qr: unknown mode 'x'"),
    (lambda: jnp.linalg.slogdet(S, method="x"), ValueError, "unknown method 'x'"),
    (lambda: jnp.linalg.slogdet(SC, method="qr"), NotImplementedError, 'take "lu"'),
    (lambda: jnp.linalg.pinv(S, 1.0, rcond=1.0), ValueError, "rtol and rcond"),
    (lambda: jnp.linalg.matrix_rank(S, 1.0, tol=1.0), ValueError, "rtol and tol"),
    (lambda: jnp.linalg.matrix_rank(np.ones(3), "text"), TypeError, "at argument 'rtol'"),
    (lambda: jnp.linalg.matrix_rank(S, tol="text"), TypeError, "at argument 'tol'"),
    (lambda: jnp.linalg.matrix_rank(np.zeros((0, 3))), ValueError, "do not have singular values"),
    (lambda: jnp.linalg.cond(R, 1), ValueError, "cond: the matrix must be square"),
    (lambda: jnp.linalg.cond(np.zeros((0, 0))), ValueError, "cond: the matrices are empty"),
    (lambda: jnp.linalg.lstsq(R, BV[:3]), ValueError, "lstsq: a and b must have as many rows"),
    (lambda: jnp.linalg.lstsq(S, S), TypeError, "lstsq: a must be a matrix"),
    (lambda: jnp.linalg.lstsq(R, R[:, 0], rcond=R), TypeError, "lstsq: rcond must be a number"),
    (lambda: jnp.linalg.tensorinv(S, 0), ValueError, "tensorinv: ind must be positive"),
    (lambda: jnp.linalg.tensorinv(S, 1), ValueError, "the numbers must be equal"),
    (lambda: jnp.linalg.tensorsolve(S, BV), ValueError, "tensorsolve: the shape of a"),
    (lambda: mjax.grad(lambda x: jnp.linalg.eig(x)[1].real.sum())(S), NotImplementedError,
     "enable_eigvec_derivs=True"),
])
def test_refusals(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        make()
