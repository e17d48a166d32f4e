"""scipy.linalg, scipy.fft and scipy.signal on both libraries: values, types, derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from tests.differential.compare import assert_agree
from tests.engine.linalg.draws import positive, square

rng = np.random.default_rng(0)
F, C = np.dtype("f4"), np.dtype("c8")
V, W = rng.normal(size=(2, 6)).astype(F), rng.normal(size=(2, 4)).astype(F)
X, Y = rng.normal(size=(2, 2, 32)).astype(F)
#: Name -> the program of a stack of matrices, and the kind of these.
LINALG = {
    "cholesky": (lambda s, x: s.cholesky(x, lower=True), positive),
    "cho_solve": (lambda s, x: s.cho_solve(s.cho_factor(x), x), positive),
    "lu": (lambda s, x: s.lu(x[0]), square),
    "lu_solve": (lambda s, x: s.lu_solve(s.lu_factor(x), x[0, :, :3], 1), square),
    "qr": (lambda s, x: s.qr(x, mode="economic"), square),
    "solve": (lambda s, x: s.solve(x[0], x[1, :, :3], assume_a="pos"), positive),
    "solve_triangular": (lambda s, x: s.solve_triangular(x, x[0, :, :3], "C"), square),
    "inv": (lambda s, x: s.inv(x), square),
    "det": (lambda s, x: s.det(x), square),
    "svd": (lambda s, x: s.svd(x, compute_uv=False), square),
    "eigh": (lambda s, x: s.eigh(x, eigvals_only=True), positive),
    "expm": (lambda s, x: s.expm(x / 4), square),
    "expm_frechet": (lambda s, x: s.expm_frechet(x[0] / 4, x[1] / 4), square),
    "polar": (lambda s, x: s.polar(x, method="svd"), square),
    "toeplitz": (lambda s, x: s.toeplitz(x[0], x[1]), square),
    "hankel": (lambda s, x: s.hankel(x[0], x[1]), square),
    "block_diag": (lambda s, x: s.block_diag(x[0], x[1, 0], 3.0), square),
    "leslie": (lambda s, x: s.leslie(x[0], x[1, :, 1:]), square),
    "companion": (lambda s, x: s.companion(x), square),
    "fiedler_companion": (lambda s, x: s.fiedler_companion(x), square),
    "convolution_matrix": (lambda s, x: s.convolution_matrix(x, 3, "same"), square),
}
#: jax has no derivatives of these.
VALUES = {
    "hessenberg": lambda s, x: s.hessenberg(x, calc_q=True),
    "schur": lambda s, x: tuple(s.schur(x, "complex")),
    "sqrtm": lambda s, x: s.sqrtm(x[0]),
    "funm": lambda s, x: s.funm(x[0] / 4, lambda v: v * v),
    "solve_sylvester": lambda s, x: s.solve_sylvester(x, x, x),
    "polar by qdwh": lambda s, x: s.polar(x),
    "qr_multiply": lambda s, x: s.qr_multiply(x[0], x[1], conjugate=True),
    "pivots": lambda s, x: s.qr(x, pivoting=True),
}


def _sum(m, out):
    return sum((abs(x) ** 2).sum() for x in m.tree_util.tree_leaves(out) if x.dtype.kind in "fc")


@pytest.mark.parametrize("dtype", [F, pytest.param(C, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", LINALG)
def test_linear_algebra(name, dtype):
    program, draw = LINALG[name]
    x = draw(rng, (2, 4, 4), dtype)
    assert_agree(lambda m, x: program(m.scipy.linalg, x), x, tolerance=2e-4)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [F, C], ids=str)
@pytest.mark.parametrize("name", LINALG)
def test_gradients_of_linear_algebra(name, dtype):
    program, draw = LINALG[name]
    x = draw(rng, (2, 4, 4), dtype)
    assert_agree(lambda m, x: m.grad(lambda x: _sum(m, program(m.scipy.linalg, x)))(x), x,
                 tolerance=5e-3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [F, C], ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_linear_algebra_without_derivatives(name, dtype):
    x = square(rng, (2, 4, 4), dtype)
    assert_agree(lambda m, x: VALUES[name](m.scipy.linalg, x), x, tolerance=5e-4)


def test_tridiagonal():
    d, e = V[0], W[0, :3]
    e = np.concatenate([e, e[:2]])
    for kwargs in ({}, {"eigvals_only": True, "select": "i", "select_range": (1, 3)}):
        assert_agree(lambda m, d, e, kw=kwargs: m.scipy.linalg.eigh_tridiagonal(d, e, **kw), d, e,
                     tolerance=2e-4)


@pytest.mark.parametrize("x64", [False, True])
def test_special_matrices(x64):
    def program(m):
        with m.enable_x64(x64):
            s = m.scipy.linalg
            return [s.hilbert(4), s.invhilbert(4), s.pascal(4), s.invpascal(4, "lower"),
                    s.helmert(4), s.hadamard(4), s.dft(4, "n"), s.block_diag()]
    assert_agree(program, tolerance=1e-5)


#: Programs of signals, with their gradients.
SIGNALS = {
    "dct": lambda s, x, y: s.fft.dct(x, norm="ortho"),
    "idct": lambda s, x, y: s.fft.idct(x, n=20),
    "dctn": lambda s, x, y: s.fft.dctn(x),
    "idctn": lambda s, x, y: s.fft.idctn(x, axes=(0, 1), norm="ortho"),
    "convolve": lambda s, x, y: s.signal.convolve(x, y[:, :5], "same"),
    "fftconvolve": lambda s, x, y: s.signal.fftconvolve(x, y, "full", axes=1),
    "correlate": lambda s, x, y: s.signal.correlate(x, y[:1, :5], "valid"),
    "correlate2d": lambda s, x, y: s.signal.correlate2d(x, y[:, :4], "same"),
    "convolve2d": lambda s, x, y: s.signal.convolve2d(x, y),
    "detrend": lambda s, x, y: s.signal.detrend(x, bp=[7]),
    "welch": lambda s, x, y: s.signal.welch(x, nperseg=8),
    "csd": lambda s, x, y: s.signal.csd(x, y, fs=2.0, nperseg=8, average="median"),
    "stft": lambda s, x, y: s.signal.stft(x, nperseg=8, boundary="even"),
    "istft": lambda s, x, y: s.signal.istft(s.signal.stft(x, nperseg=8)[2])[1],
}


@pytest.mark.parametrize("name", SIGNALS)
def test_signals(name):
    assert_agree(lambda m, x, y: SIGNALS[name](m.scipy, x, y), X, Y, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", SIGNALS)
def test_gradients_of_signals(name):
    f = lambda m, x, y: SIGNALS[name](m.scipy, x, y)
    assert_agree(lambda m, x, y: m.grad(lambda x: _sum(m, f(m, x, y)))(x), X, Y, tolerance=1e-3)
