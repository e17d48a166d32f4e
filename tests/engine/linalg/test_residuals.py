"""Factorizations of hard matrices, by their residuals: as small as LAPACK promises.

A computed factorization is the exact one of a matrix near by: a relative distance of a small
multiple of n times the unit roundoff (Anderson et al., LAPACK Users' Guide, chapter 4). All
matrices of a dtype are one stack, so that each function is compiled once per dtype.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import mjax
import mjax.numpy as mnp
from mjax.lax import linalg

N = 6
#: The residuals that are allowed, in units of n times the roundoff.
BOUND = 10
DTYPES = [np.dtype(name) for name in ("f4", "f8", "c8", "c16")]


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def hard(dtype):
    """Matrices that are ill conditioned, graded, singular, defective, zero, huge and tiny."""
    rng = np.random.default_rng(1)
    draw = rng.standard_normal((N, N)) + (1j * rng.standard_normal((N, N)) if dtype.kind == "c"
                                          else 0)
    jordan = np.eye(N) * 2 + np.eye(N, k=1)
    graded = draw * 10.0 ** -np.arange(N)
    low_rank = draw[:, :2] @ draw[:2]
    far = 1e25 if dtype.itemsize // (1 + (dtype.kind == "c")) == 4 else 1e200
    return np.stack([draw, scipy.linalg.hilbert(N), graded, low_rank, jordan, np.zeros((N, N)),
                     np.eye(N), draw * far, draw / far]).astype(dtype)


def definite(dtype):
    """Positive definite matrices, of conditions up to the inverse of the roundoff's root."""
    worst = np.sqrt(np.finfo(dtype).eps)
    q = np.linalg.qr(hard(np.dtype("c16" if dtype.kind == "c" else "f8"))[:1])[0]
    values = np.stack([np.ones(N), np.geomspace(1, 1e-2, N), np.geomspace(1, worst, N)])
    return ((q * values[:, None]) @ adjoint(q)).astype(dtype)


def size(x):
    """The largest norm of columns, for stacks; in float64, where squares of `x` may overflow."""
    x = np.asarray(x, np.complex128)
    scale = np.abs(x).max(axis=(-2, -1), keepdims=True)
    return np.linalg.norm(x / np.where(scale, scale, 1), axis=(-2, -1)) * scale[..., 0, 0]


def check(difference, norm, dtype, bound=BOUND):
    allowed = bound * N * np.finfo(dtype).eps * norm
    assert (size(difference) <= allowed).all(), (size(difference), allowed)


def check_unitary(q, dtype):
    check(adjoint(wide(q)) @ wide(q) - np.eye(q.shape[-1]), 1.0, dtype)


def wide(x):
    return np.asarray(x, np.complex128)


def each(f):
    """The function compiled for each dtype, with 64 bits on, and its results as NumPy arrays."""
    with mjax.enable_x64(True):
        for dtype in DTYPES:
            yield dtype, lambda *xs: mjax.tree.map(np.asarray, mjax.jit(f)(*xs))


def test_lu():
    for dtype, lu in each(linalg.lu):
        a = hard(dtype)
        packed, _, order = map(np.asarray, lu(a))
        lower, upper = np.tril(wide(packed), -1) + np.eye(N), np.triu(wide(packed))
        permuted = np.take_along_axis(wide(a), order[..., None], axis=-2)
        check(lower @ upper - permuted, size(np.abs(lower) @ np.abs(upper)), dtype)


@pytest.mark.parametrize("pivoting", [False, True])
def test_qr(pivoting):
    for dtype, qr in each(lambda x: linalg.qr(x, pivoting=pivoting)):
        a = hard(dtype)
        q, r, *order = qr(a)
        wanted = np.take_along_axis(wide(a), order[0][..., None, :], -1) if pivoting else wide(a)
        check(wide(q) @ wide(r) - wanted, size(a), dtype)
        check_unitary(q, dtype)
        if pivoting:
            steps = np.abs(np.diagonal(wide(r), axis1=-2, axis2=-1))
            assert (steps[..., 1:] <= steps[..., :-1] * (1 + 1e-3)).all()


def test_cholesky():
    for dtype, cholesky in each(linalg.cholesky):
        a = definite(dtype)
        lower = cholesky(a)
        check(wide(lower) @ adjoint(wide(lower)) - wide(a), size(a), dtype)


def test_eigh():
    for dtype, eigh in each(linalg.eigh):
        a = hard(dtype)
        a = a + adjoint(a)
        v, w = eigh(a)
        check(wide(a) @ wide(v) - wide(v) * w[..., None, :], size(a), dtype)
        check_unitary(v, dtype)
        assert (np.diff(w) >= 0).all()


@pytest.mark.parametrize("algorithm", list(linalg.SvdAlgorithm)[:2])
def test_svd(algorithm):
    for dtype, svd in each(lambda x: linalg.svd(x, algorithm=algorithm)):
        a = hard(dtype)
        u, s, vh = svd(a)
        check((wide(u) * s[..., None, :]) @ wide(vh) - wide(a), size(a), dtype)
        check_unitary(u, dtype)
        check_unitary(adjoint(vh), dtype)
        assert (np.diff(s) <= 0).all() and (s >= 0).all()


def test_eig():
    for dtype, eig in each(linalg.eig):
        # Not the huge matrix and the tiny one: SciPy's build of geev, which jaxlib calls, scales
        # them and does not scale the eigenvalues back. scipy.linalg.eig and JAX are as wrong.
        a = hard(dtype)[:-2]
        w, left, right = map(wide, eig(a))
        check(wide(a) @ right - right * w[..., None, :], size(a), dtype)
        check(adjoint(left) @ wide(a) - w[..., :, None] * adjoint(left), size(a), dtype)


def test_schur():
    for dtype, schur in each(linalg.schur):
        a = hard(dtype)
        t, q = schur(a)
        check(wide(q) @ wide(t) @ adjoint(wide(q)) - wide(a), size(a), dtype)
        check_unitary(q, dtype)
        assert not np.tril(t, -2 if dtype.kind == "f" else -1).any()


def test_solve():
    """The error of a solution lies in the matrix: the residual is small beside `|a| |x|`."""
    for dtype, solve in each(mnp.linalg.solve):
        a = hard(dtype)[[0, 1, 2, 4, 6]]
        b = a @ np.ones((N, 1), dtype)
        x = wide(solve(a, b))
        check(wide(a) @ x - wide(b), size(a) * size(x), dtype)


def test_tridiagonal_solve():
    for dtype, solve in each(linalg.tridiagonal_solve):
        rng = np.random.default_rng(2)
        lower, upper, b = rng.standard_normal((3, 3, N)).astype(dtype)
        # Diagonals of zeros: what is not pivoted divides by them.
        main = np.stack([np.full(N, 4.0), np.zeros(N), np.geomspace(1, 1e-4, N)]).astype(dtype)
        x = wide(solve(lower, main, upper, b[..., None]))
        a = np.stack([np.diag(m) + np.diag(u[:-1], 1) + np.diag(d[1:], -1)
                      for d, m, u in zip(lower, main, upper, strict=True)])
        check(wide(a) @ x - wide(b)[..., None], size(a) * size(x), dtype)


def test_definite_matrices_that_are_not_are_told():
    """A matrix that is not positive definite gives NaN, alone in its stack."""
    for dtype, cholesky in each(linalg.cholesky):
        a = np.stack([np.eye(N), -np.eye(N), np.eye(N)]).astype(dtype)
        found = np.isnan(cholesky(a)).any(axis=(-2, -1))
        assert found.tolist() == [False, True, False]
