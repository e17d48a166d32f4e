"""mjax.scipy.linalg: against SciPy, by residuals, and derivatives by finite differences."""

from __future__ import annotations

import re
import traceback
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl

import mjax
import mjax.numpy as jnp
from mjax._engine.base.folding import is_engine_file
from mjax.scipy import linalg
from tests.engine.linalg.draws import positive, square
from tests.engine.primitives.harness import check_derivatives

rng = np.random.default_rng(0)
F, C = np.dtype("f4"), np.dtype("c8")
DTYPES = [F, C]
#: Complex matrices in the sweep alone.
SWEPT = [F, pytest.param(C, marks=pytest.mark.slow)]
#: Stacks of matrices, and a right-hand side for each.
A = {d: square(rng, (2, 4, 4), d) for d in DTYPES}
P = {d: positive(rng, (2, 4, 4), d) for d in DTYPES}
B = {d: square(rng, (4, 4), d)[:, :3] for d in DTYPES}
T = 2e-4


def close(actual: Any, expected: Any, tolerance: float = T) -> None:
    """The same shape, and values within a tolerance of the largest."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=1) or 1
    np.testing.assert_allclose(actual / scale, expected / scale, atol=tolerance, rtol=0)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def each(f: Any, *stacks: Any) -> Any:
    """SciPy's function of each matrix."""
    return np.array([f(*m) for m in zip(*stacks, strict=True)])


# ---- factorizations, systems -----------------------------------------------------------


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_factors(dtype: Any) -> None:
    a, p = A[dtype], P[dtype]
    for lower in (False, True):
        triangle = np.tril(p) if lower else np.triu(p)
        close(linalg.cholesky(triangle, lower=lower), each(lambda x, lo=lower: sl.cholesky(x, lo),
                                                           p))
    factor, lower = linalg.cho_factor(p[0], True)
    assert lower is True
    close(factor, sl.cholesky(p[0], True))
    assert np.isnan(np.asarray(linalg.cholesky(-p))).any()
    for x in (a, a[:, :3], a[..., :3]):
        permutation, low, up = linalg.lu(x)
        assert permutation.dtype == F
        close(permutation @ low @ up, x)
        close(linalg.lu(x, permute_l=True)[0] @ up, x)
        close(up, each(lambda m: sl.lu(m)[2], x))
    factors, pivots = linalg.lu_factor(a[0])
    expected = sl.lu_factor(a[0])
    close(factors, expected[0])
    np.testing.assert_array_equal(pivots, expected[1])


@pytest.mark.parametrize("shape", [(4, 3), *[
    pytest.param(shape, marks=pytest.mark.slow) for shape in ((4, 4), (3, 4))]], ids=str)
@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_qr(dtype: Any, shape: tuple[int, int]) -> None:
    x = A[dtype][0, :shape[0], :shape[1]]
    for mode in ("full", "economic", "r"):
        for pivoting in (False, True):
            ours = linalg.qr(x, mode=mode, pivoting=pivoting)
            theirs = sl.qr(x, mode=mode, pivoting=pivoting)
            assert len(ours) == len(theirs)
            for one, other in zip(ours, theirs, strict=True):
                close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["left", "right"])
def test_products_with_reflectors(mode: str) -> None:
    for dtype, conjugate, pivoting in ((F, False, True), (C, True, False), (C, False, True)):
        for x in (A[dtype][0, :, :3], A[dtype][0, :3]):
            k = min(x.shape)
            c = A[dtype][1][:k, :2] if mode == "left" else A[dtype][1][:2, :x.shape[0]]
            for given in (c, c[:, 0] if mode == "left" else c[0]):
                ours = linalg.qr_multiply(x, given, mode, pivoting, conjugate)
                theirs = sl.qr_multiply(x, given, mode, pivoting, conjugate)
                for one, other in zip(ours, theirs, strict=True):
                    close(one, other)


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_systems(dtype: Any) -> None:
    a, p, b = A[dtype], P[dtype], B[dtype]
    turned = {0: lambda x: x, 1: lambda x: np.swapaxes(x, 1, 2), 2: adjoint}
    factors, pivots = linalg.lu_factor(a)
    for trans, op in turned.items():
        close(linalg.lu_solve((factors, pivots), b, trans), np.linalg.solve(op(a), b), 1e-3)
        close(linalg.lu_solve((factors[0], pivots[0]), b[:, 0], trans),
              np.linalg.solve(op(a)[0], b[:, 0]), 1e-3)
        for lower in (False, True):
            triangle = np.tril(a) if lower else np.triu(a)
            close(linalg.solve_triangular(a, b, trans, lower), np.linalg.solve(op(triangle), b),
                  1e-3)
            close(linalg.solve_triangular(a[0], b[:, 0], "NTC"[trans], lower),
                  np.linalg.solve(op(triangle)[0], b[:, 0]), 1e-3)
    unit = np.tril(a, -1) + np.eye(4)
    close(linalg.solve_triangular(a, b, lower=True, unit_diagonal=True), np.linalg.solve(unit, b),
          1e-3)
    for lower in (False, True):
        factor = linalg.cho_factor(p, lower)
        close(linalg.cho_solve(factor, b), np.linalg.solve(p, b), 1e-3)
        close(linalg.cho_solve(factor, b[:, 0]), np.linalg.solve(p, b[:, :1])[..., 0], 1e-3)
        close(linalg.solve(p[0], b, lower=lower, assume_a="pos"), np.linalg.solve(p[0], b), 1e-3)
        close(linalg.solve(p, np.stack([b[:, 0]] * 2), assume_a="pos"),
              np.linalg.solve(p, b[:, :1])[..., 0], 1e-3)
    close(linalg.solve(a[0], b), np.linalg.solve(a[0], b), 1e-3)
    close(linalg.inv(a), np.linalg.inv(a), 1e-3)
    close(linalg.det(a), np.linalg.det(a), 1e-3)


def test_vectors_for_each_matrix_are_deprecated() -> None:
    b = B[F][:, :2].T
    expected = np.linalg.solve(P[F], b[..., None])[..., 0]
    for f, factors in ((linalg.cho_solve, linalg.cho_factor), (linalg.lu_solve, linalg.lu_factor)):
        with pytest.warns(FutureWarning, match="one vector for each"):
            close(f(factors(P[F]), b), expected, 1e-3)
    triangles = np.triu(P[F])
    with pytest.warns(FutureWarning, match="one vector for each"):
        close(linalg.solve_triangular(triangles, triangles[:, :, 1]), [[0, 1, 0, 0]] * 2)


# ---- spectra ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_spectra(dtype: Any) -> None:
    a, p = A[dtype], P[dtype]
    values, vectors = linalg.eigh(p)
    close(values, np.linalg.eigvalsh(p))
    close(p @ vectors, vectors * np.asarray(values)[:, None])
    close(linalg.eigh(p, eigvals_only=True), values)
    u, s, vh = linalg.svd(a[..., :3], full_matrices=False)
    close((u * np.asarray(s)[:, None]) @ vh, a[..., :3])
    close(linalg.svd(a[..., :3], compute_uv=False), np.linalg.svd(a[..., :3], compute_uv=False))
    for output in ("real", "complex"):
        form, z = linalg.schur(a, output)
        close(z @ form @ adjoint(z), a)
        assert form.dtype == (C if output == "complex" else dtype)
        assert not np.tril(form, -1 if form.dtype == C else -2).any()
    form, z = linalg.rsf2csf(*linalg.schur(a))
    assert form.dtype == z.dtype == C and not np.tril(form, -1).any()
    close(z @ form @ adjoint(z), a)
    close(z @ adjoint(z), np.broadcast_to(np.eye(4), (2, 4, 4)))
    h, q = linalg.hessenberg(a, calc_q=True)
    close(q @ h @ adjoint(q), a)
    close(q @ adjoint(q), np.broadcast_to(np.eye(4), (2, 4, 4)))
    close(linalg.hessenberg(a), each(sl.hessenberg, a))


@pytest.mark.parametrize("side", ["left", pytest.param("right", marks=pytest.mark.slow)])
def test_polar(side: str) -> None:
    for x in (A[F], A[C][..., :3], A[F][:, :3]) if side == "right" else (A[F],):
        for method in ("qdwh", "svd"):
            for one, other in zip(linalg.polar(x, side, method=method), zip(*[
                    sl.polar(m, side) for m in x], strict=True), strict=True):
                close(one, np.array(other), 1e-3)


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_tridiagonal(dtype: Any) -> None:
    d, e = rng.normal(size=8).astype(dtype), square(rng, (8, 8), dtype)[0, :7]
    dense = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    expected = np.linalg.eigvalsh(dense)
    values, vectors = linalg.eigh_tridiagonal(d, e)
    close(values, expected)
    close(dense @ vectors, vectors * np.asarray(values))
    close(adjoint(vectors) @ vectors, np.eye(8))
    close(linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(2, 4)),
          expected[2:5])
    assert linalg.eigh_tridiagonal(d[:1], e[:0])[1].shape == (1, 1)


@pytest.mark.slow
def test_tridiagonal_with_close_eigenvalues() -> None:
    d, e = np.abs(np.arange(-10, 11)).astype(F), np.ones(20, F)  # Wilkinson's
    values, vectors = linalg.eigh_tridiagonal(d, e)
    close(values, sl.eigh_tridiagonal(d, e)[0])
    close(adjoint(vectors) @ vectors, np.eye(21))
    _, vectors = linalg.eigh_tridiagonal(np.ones(5, F), np.zeros(4, F),
                                         key=mjax.random.key(3))
    close(adjoint(vectors) @ vectors, np.eye(5))


# ---- functions of matrices -------------------------------------------------------------


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_exponentials(dtype: Any) -> None:
    skew = A[dtype] - adjoint(A[dtype])
    for scale in (0.01, 10):
        close(linalg.expm(scale * skew), sl.expm(scale * skew.astype(np.result_type(dtype, "f8"))),
              1e-3)
    close(linalg.expm(np.triu(A[dtype]), upper_triangular=True), sl.expm(np.triu(A[dtype])), 1e-3)
    out, derivative = linalg.expm_frechet(A[dtype][0], A[dtype][1])
    expected = sl.expm_frechet(A[dtype][0], A[dtype][1])
    close(out, expected[0], 1e-3)
    close(derivative, expected[1], 1e-3)
    close(linalg.expm_frechet(A[dtype], A[dtype], compute_expm=False)[1],
          sl.expm_frechet(A[dtype][1], A[dtype][1], compute_expm=False), 1e-3)
    assert np.isnan(np.asarray(linalg.expm(1e9 * skew))).all()
    assert np.isnan(np.asarray(linalg.expm(50 * skew, max_squarings=2))).all()


@pytest.mark.slow
def test_approximants_of_every_degree() -> None:
    skew = A[C][0] - adjoint(A[C][0])
    for dtype, scales in (("f8", (0.01, 0.1, 0.3, 0.7, 2, 30)), ("f4", (0.1, 0.5, 1, 3))):
        with mjax.enable_x64():
            for scale in scales:
                x = scale * skew.astype("c16")
                given = x.astype(np.result_type(dtype, np.complex64))
                close(linalg.expm(given), sl.expm(x), 1e-12 if dtype == "f8" else 1e-5)


@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_functions(dtype: Any) -> None:
    a = A[dtype]
    root = linalg.sqrtm(a)
    close(root @ root, a, 1e-3)
    close(root[0], sl.sqrtm(a[0].astype("c16")), 1e-3)
    close(linalg.sqrtm(np.diag(np.arange(3)).astype(dtype)), np.diag(np.arange(3) ** 0.5))
    assert not np.isfinite(np.asarray(linalg.sqrtm(np.eye(2, k=1).astype(dtype)))).all()
    out, error = linalg.funm(a[0] / 4, jnp.sin, disp=False)
    close(out, sl.funm(a[0] / 4, np.sin), 1e-3)
    assert 0 < error < 1e-3
    close(linalg.funm(2 * np.eye(3, dtype=dtype), jnp.exp), np.exp(2) * np.eye(3))


@pytest.mark.parametrize("method", ["schur", pytest.param("eigen", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", SWEPT, ids=str)
def test_sylvester(dtype: Any, method: str) -> None:
    a = A[dtype]
    x, y, c = a[0], a[1][:3, :3], B[dtype]
    solution = linalg.solve_sylvester(x, y, c, method=method)
    close(x @ solution + solution @ y, c, 1e-3)
    assert solution.dtype == dtype
    assert np.isnan(linalg.solve_sylvester(x, -x, x, method=method, tol=1e-3)).all()
    many = linalg.solve_sylvester(a, y, c)
    close(a @ many + many @ y, np.stack([c, c]), 1e-3)


# ---- special matrices ------------------------------------------------------------------

V, W, K = np.array([1, 4, 2, 7], F), np.array([1, 3, 5], F), np.array([2, 0, 5], np.int32)
MADE = [
    *[(name, (x,)) for name in ("toeplitz", "hankel", "circulant", "fiedler")
      for x in (V, K, V + 1j * V[::-1])],
    *[(name, (x,)) for name in ("companion", "fiedler_companion") for x in (V, W, V[:2])],
    ("toeplitz", (V, W)), ("hankel", (V, W)), ("toeplitz", (K, V)), ("leslie", (V, W)),
    *[("convolution_matrix", (V, n, mode)) for n in (1, 3, 6)
      for mode in ("full", "same", "valid")],
    ("block_diag", (np.ones((2, 1), F), V, np.array(3, F), np.zeros((0, 2), F))),
    *[(name, (n,)) for name in ("hilbert", "invhilbert", "pascal", "invpascal", "dft")
      for n in (1, 2, 5)],
    *[(name, (4, kind)) for name in ("pascal", "invpascal") for kind in ("lower", "upper")],
    *[("dft", (4, scale)) for scale in ("n", "sqrtn")],
    ("helmert", (4,)), ("helmert", (4, True)), ("hadamard", (8,)),
]


@pytest.mark.parametrize(("name", "args"), MADE,
                         ids=[f"{i}-{name}" for i, (name, _) in enumerate(MADE)])
def test_special_matrices(name: str, args: Any) -> None:
    ours, theirs = getattr(linalg, name), getattr(sl, name)
    expected = np.asarray(theirs(*args))
    out = ours(*args)
    assert out.shape == expected.shape
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "args"), MADE,
                         ids=[f"{i}-{name}" for i, (name, _) in enumerate(MADE)])
def test_stacks_of_special_matrices(name: str, args: Any) -> None:
    ours = getattr(linalg, name)
    arrays = [x for x in args if isinstance(x, np.ndarray)]
    rest = args[len(arrays):]
    np.testing.assert_array_equal(mjax.jit(lambda *x: ours(*x, *rest))(*arrays), ours(*args))
    if arrays and name != "block_diag":
        stacks = [np.stack([x, x + 1]) for x in arrays]
        np.testing.assert_allclose(ours(*stacks, *rest),
                                   mjax.vmap(lambda *x: ours(*x, *rest))(*stacks), rtol=1e-6)


def test_sizes_and_dtypes_of_special_matrices() -> None:
    assert linalg.block_diag().shape == (1, 0)
    assert linalg.toeplitz(V[:0], W).shape == (0, 3)
    assert linalg.hankel(V, W[:0]).shape == (4, 0)
    assert linalg.circulant(np.zeros((2, 0), F)).shape == (2, 0, 0)
    assert linalg.toeplitz(K).dtype == linalg.hankel(K).dtype == np.int32
    assert linalg.hilbert(0).shape == (0, 0)
    assert linalg.hadamard(2, "int8").dtype == np.int8
    assert linalg.toeplitz(jnp.ones(2, "bfloat16")).dtype == jnp.bfloat16
    with mjax.enable_x64():
        assert linalg.hilbert(2).dtype == np.float64
        assert linalg.dft(2, dtype="complex64").dtype == np.complex64
        # Exact where float64 holds the integers.
        np.testing.assert_array_equal(linalg.invhilbert(6), sl.invhilbert(6))
    assert np.isfinite(np.asarray(linalg.pascal(12))).all()


# ---- corners ---------------------------------------------------------------------------


def test_empty_matrices() -> None:
    nothing = np.zeros((2, 0, 0), F)
    for name in ("cholesky", "lu_factor", "svd", "eigh", "schur", "hessenberg", "expm", "sqrtm",
                 "polar", "inv"):
        for out in mjax.tree.leaves(getattr(linalg, name)(nothing)):
            assert out.size == 0
    assert linalg.funm(nothing[0], jnp.exp).shape == (0, 0)
    assert linalg.det(nothing).tolist() == [1, 1]
    assert linalg.solve_sylvester(nothing, nothing, nothing).shape == (2, 0, 0)
    assert linalg.solve_triangular(nothing, np.zeros((2, 0, 3), F)).shape == (2, 0, 3)


def test_lists_and_integers() -> None:
    rows = [[4, 2], [2, 2]]
    close(linalg.cholesky(rows, lower=True), np.linalg.cholesky(rows))
    close(linalg.solve_triangular(rows, [2, 2]), [0, 1])
    close(linalg.solve(np.array(rows), np.array([6, 4])), [1, 1])
    close(linalg.expm(np.array([[0, 1], [0, 0]])), [[1, 1], [0, 1]])
    assert linalg.lu(rows)[2].dtype == F


# ---- derivatives -----------------------------------------------------------------------

_D, _DC = [square(rng, (3, 3), np.dtype(d)) / 2 for d in ("f8", "c16")]
_LINE = rng.normal(size=5)
DIFFERENTIABLE = {
    "expm": (linalg.expm, (_D,)),
    "complex expm": (linalg.expm, (_DC,)),
    "expm of a stack": (linalg.expm, (np.stack([_D, 3 * _D]),)),
    "sqrtm": (lambda x: linalg.sqrtm(x @ adjoint_of(x) + jnp.eye(3)).real, (_D,)),
    "complex sqrtm": (lambda x: linalg.sqrtm(x + 2 * jnp.eye(3)), (_DC,)),
    "solve_sylvester": (linalg.solve_sylvester, (_D + np.eye(3), _D[:2, :2] + np.eye(2),
                                                 _D[:, :2])),
    "complex solve_sylvester": (linalg.solve_sylvester, (_DC, _DC.T, _DC)),
    "cho_solve": (lambda x, b: linalg.cho_solve(
        linalg.cho_factor(x @ adjoint_of(x) + jnp.eye(3)), b), (_DC, _DC)),
    "solve": (lambda x, b: linalg.solve(x @ adjoint_of(x) + jnp.eye(3), b, assume_a="pos"),
              (_D, _D[0])),
    "lu_solve": (lambda x, b: linalg.lu_solve(linalg.lu_factor(x), b, 1), (_D, _D[0])),
    "solve_triangular": (lambda x, b: linalg.solve_triangular(x + jnp.eye(3), b, "C"),
                         (_DC, _DC)),
    "eigh_tridiagonal": (lambda d, e: linalg.eigh_tridiagonal(d, e)[0], (3 * _LINE, _LINE[1:])),
    "eigenvalues alone": (lambda d, e: linalg.eigh_tridiagonal(
        d, e, eigvals_only=True, select="i", select_range=(1, 2)), (3 * _LINE, _LINE[1:])),
    "eigenvectors": (lambda d, e: jnp.abs(linalg.eigh_tridiagonal(d, e)[1]),
                     (3 * _LINE, _LINE[1:])),
    "polar": (lambda x: linalg.polar(x + 2 * jnp.eye(3), method="svd"), (_D,)),
    "toeplitz": (linalg.toeplitz, (_LINE, _LINE[1:])),
    "companion": (linalg.companion, (_LINE,)),
}


def adjoint_of(x: Any) -> Any:
    """The conjugate transpose of a tracer."""
    return x.conj().T if x.ndim == 2 else x.conj().mT


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives(name: str) -> None:
    f, args = DIFFERENTIABLE[name]
    with mjax.enable_x64():
        check_derivatives(lambda *x: tuple(mjax.tree.leaves(f(*x))), list(args),
                          np.random.default_rng(0), 2 if "eigenvectors" not in name else 1)


def test_gradients_are_there() -> None:
    loss = mjax.grad(lambda x: jnp.abs(linalg.expm(x)).sum() + jnp.abs(linalg.sqrtm(
        x @ x.T + jnp.eye(4))).sum())
    assert np.isfinite(loss(A[F][0] / 4)).all()
    for f in (linalg.schur, linalg.hessenberg):
        with pytest.raises(NotImplementedError, match=f.__name__):
            mjax.jvp(f, (A[F][0],), (A[F][0],))


# ---- errors ----------------------------------------------------------------------------

ERRORS = [
    *[(ValueError, f"{f.__name__}: the matrix must be square, got shape (2, 3)",
       lambda f=f: f(np.ones((2, 3)))) for f in (
        linalg.cholesky, linalg.eigh, linalg.schur, linalg.hessenberg, linalg.sqrtm, linalg.expm,
        linalg.inv)],
    (ValueError, "cholesky: the matrix must be square", lambda: linalg.cho_factor(np.ones((2, 3)))),
    (ValueError, "c_and_lower must be the pair that cho_factor(a) returns, got 3 values",
     lambda: linalg.cho_solve((P[F][0], True, 1), B[F])),
    (ValueError, "cho_solve: c_and_lower must be the pair that cho_factor(a) returns, got an array "
     "of shape (2, 2)", lambda: linalg.cho_solve(np.eye(2, dtype=F), V[:2])),
    (ValueError, "lu_solve: lu_and_piv must be the pair that lu_factor(a) returns, got an array "
     "of shape (2, 2)", lambda: linalg.lu_solve(np.eye(2, dtype=F), V[:2])),
    (ValueError, "lu_solve: lu_and_piv must be the pair", lambda: linalg.lu_solve(None, V[:2])),
    (ValueError, "cho_solve: matrices of shape (4, 4) take right-hand sides of shape (4,) or "
     "(..., 4, k), got (3,)", lambda: linalg.cho_solve((P[F][0], True), np.ones(3))),
    (ValueError, "solve_triangular: trans must be", lambda: linalg.solve_triangular(
        A[F][0], B[F], "X")),
    (ValueError, "lu_solve: trans must be 0, 1 or 2", lambda: linalg.lu_solve(
        linalg.lu_factor(A[F][0]), B[F], 3)),
    (ValueError, "solve: assume_a must be one of", lambda: linalg.solve(
        A[F][0], B[F], assume_a="odd")),
    (ValueError, "positive definite matrices of shape (4, 4) take", lambda: linalg.solve(
        P[F][0], np.ones(3), assume_a="pos")),
    (ValueError, "schur: output must be", lambda: linalg.schur(A[F][0], "odd")),
    (ValueError, "qr: unknown mode 'raw'", lambda: linalg.qr(A[F][0], mode="raw")),
    (ValueError, "qr_multiply: mode must be", lambda: linalg.qr_multiply(
        A[F][0], B[F], "up")),
    (ValueError, "c must have 4 columns, got shape (4, 3)", lambda: linalg.qr_multiply(
        A[F][0], B[F])),
    (NotImplementedError, "eigh: generalized problems", lambda: linalg.eigh(
        A[F][0], A[F][0])),
    (NotImplementedError, "eigh: eigvals is not supported", lambda: linalg.eigh(
        A[F][0], eigvals=(0, 1))),
    (ValueError, "polar: side must be", lambda: linalg.polar(A[F], "top")),
    (ValueError, "polar: method must be", lambda: linalg.polar(A[F], method="odd")),
    (ValueError, "rsf2csf: T and Z must be matrices of one size", lambda: linalg.rsf2csf(
        np.eye(2), np.eye(3))),
    (TypeError, "expm does not compute in float16", lambda: linalg.expm(np.eye(2, dtype="f2"))),
    (TypeError, "expm requires ndarray", lambda: linalg.expm([[1.0]])),
    (ValueError, "expm_frechet: A and E must have one shape", lambda: linalg.expm_frechet(
        np.eye(2), np.eye(3))),
    (NotImplementedError, "sqrtm: blocks", lambda: linalg.sqrtm(np.eye(2), 2)),
    (ValueError, "A, B and C must have shapes", lambda: linalg.solve_sylvester(
        np.eye(2), np.eye(3), np.eye(2))),
    (ValueError, "solve_sylvester: method", lambda: linalg.solve_sylvester(
        *[np.eye(2)] * 3, method="odd")),
    (ValueError, "funm: A must be a square matrix", lambda: linalg.funm(A[F], jnp.exp)),
    (TypeError, "eigh_tridiagonal: d and e must have one dtype", lambda: linalg.eigh_tridiagonal(
        np.ones(2, F), np.ones(1, C))),
    (ValueError, "must have shapes (n,) and (n - 1,)", lambda: linalg.eigh_tridiagonal(
        np.ones(2, F), np.ones(2, F))),
    (NotImplementedError, "select='v'", lambda: linalg.eigh_tridiagonal(
        np.ones(2, F), np.ones(1, F), select="v")),
    (ValueError, "needs select_range", lambda: linalg.eigh_tridiagonal(
        np.ones(2, F), np.ones(1, F), select="i", select_range=(1, 0))),
    (ValueError, "hankel: c must have at least one axis", lambda: linalg.hankel(1.0)),
    (TypeError, "toeplitz requires ndarray", lambda: linalg.toeplitz([1, 2])),
    (ValueError, "leslie: f and s must have shapes", lambda: linalg.leslie(V, V)),
    (ValueError, "companion: a must have at least 2", lambda: linalg.companion(V[:1])),
    (ValueError, "convolution_matrix: n must be positive", lambda: linalg.convolution_matrix(V, 0)),
    (ValueError, "convolution_matrix: mode", lambda: linalg.convolution_matrix(V, 2, "odd")),
    (ValueError, "at most two axes, got float32[2,4,4] at position 1", lambda: linalg.block_diag(
        V, A[F])),
    (ValueError, "hadamard: n must be a power of 2, got 3", lambda: linalg.hadamard(3)),
    (ValueError, "helmert: n must be at least 1", lambda: linalg.helmert(0)),
    (ValueError, "pascal: kind must be", lambda: linalg.pascal(3, "odd")),
    (ValueError, "dft: dtype must be complex", lambda: linalg.dft(3, dtype="float32")),
    (ValueError, "dft: scale must be", lambda: linalg.dft(3, "odd")),
    (TypeError, "hilbert: n must be an integer", lambda: linalg.hilbert(2.5)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS,
                         ids=[f"{i}-{t[:30]}" for i, (_, t, _) in enumerate(ERRORS)])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)) as caught:
        use()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if is_engine_file(frame.filename)]
