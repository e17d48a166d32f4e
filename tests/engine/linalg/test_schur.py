"""Unitary similarity: schur, hessenberg, tridiagonal."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg

from mjax._engine.linalg.reflectors import householder_product
from mjax._engine.linalg.schur import hessenberg, schur, tridiagonal
from tests.engine.linalg.draws import ALL, adjoint, square
from tests.engine.primitives.harness import Case, normal, table


def symmetric(rng, shape, dtype):
    x = normal(rng, shape, dtype)
    return ((x + adjoint(x)) / 2).astype(dtype)


def reduced(x):
    out, taus, _ = scipy.linalg.lapack.get_lapack_funcs(("gehrd",), (x,))[0](x)
    return out, taus


def reduced_symmetric(x):
    name = "hetrd" if x.dtype.kind == "c" else "sytrd"
    out, d, e, taus, _ = scipy.linalg.lapack.get_lapack_funcs((name,), (x,))[0](x, lower=1)
    return out, d, e, taus


CASES = [
    Case("schur", schur, lambda x: scipy.linalg.schur(x), "T[3,3]; T[1,1]", ALL, square, order=0,
         native=True, tolerance=60),
    Case("hessenberg", hessenberg, reduced, "T[4,4]; T[2,2]; T[1,1]", ALL, square, order=0),
    Case("tridiagonal", tridiagonal, reduced_symmetric, "T[4,4]; T[2,2]; T[1,1]", ALL, symmetric,
         order=0),
]


@table(CASES)
def test_similarity(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_stacks(dtype):
    x = normal(np.random.default_rng(0), (2, 4, 4), np.dtype(dtype))
    t, z = map(np.asarray, schur(x))
    np.testing.assert_allclose(z @ t @ adjoint(z), x, atol=1e-5)
    np.testing.assert_array_equal(schur(x, compute_schur_vectors=False)[0].shape, x.shape)
    out, taus = hessenberg(x)
    h = np.triu(out, -1)
    q = np.zeros_like(h)
    q[:, 0, 0] = 1
    q[:, 1:, 1:] = householder_product(out[:, 1:, :-1], taus)
    np.testing.assert_allclose(q @ h @ adjoint(q), x, atol=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_both_triangles(lower):
    x = symmetric(np.random.default_rng(0), (3, 4, 4), np.dtype("c8"))
    _, d, e, _ = map(np.asarray, tridiagonal(np.tril(x) if lower else np.triu(x), lower=lower))
    assert d.dtype == e.dtype == np.float32
    for a, middle, beside in zip(x, d, e, strict=True):
        form = np.diag(middle) + np.diag(beside, 1) + np.diag(beside, -1)
        np.testing.assert_allclose(np.linalg.eigvalsh(form), np.linalg.eigvalsh(a), atol=1e-5)


def test_empty_matrices():
    empty = np.zeros((2, 0, 0), np.float32)
    assert [x.shape for x in schur(empty)] == [(2, 0, 0)] * 2
    assert [x.shape for x in hessenberg(empty)] == [(2, 0, 0), (2, 0)]


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: schur(np.ones((2, 3))), ValueError, "schur: the matrix must be square"),
    (lambda: schur(np.eye(2), sort_eig_vals=True), NotImplementedError, "leave sort_eig_vals out"),
    (lambda: hessenberg(np.ones((2, 3))), ValueError, "hessenberg: the matrix must be square"),
    (lambda: tridiagonal(np.ones((0, 0))), ValueError, "tridiagonal: the matrix is empty"),
    (lambda: tridiagonal(np.ones((2, 3))), ValueError, "tridiagonal: the matrix must be square")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
