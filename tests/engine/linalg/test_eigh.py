"""Eigenvalues of Hermitian matrices: eigh."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
from mjax._engine.linalg.eigh import EighImplementation, eigh
from mjax._engine.linalg.matrices import adjoint, dot
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.convert import convert
from tests.engine.linalg import draws
from tests.engine.linalg.draws import ALL, hermitian
from tests.engine.primitives.harness import Case, table


def projection(x):
    """Eigenvalues, and the projection to the space of the first eigenvector."""
    v, w = eigh(x)
    first = v[..., :1]
    return w, dot(first, adjoint(first))


def expected(x):
    w, v = np.linalg.eigh(x)
    return w, v[..., :1] @ draws.adjoint(v[..., :1])


def exponential(x):
    v, w = eigh(x)
    return dot(lax.mul(v, convert(lax.exp(w[..., None, :]), v.dtype)), adjoint(v))


def exponential_of(x):
    w, v = np.linalg.eigh(x)
    return (v * np.exp(w)[..., None, :]) @ draws.adjoint(v)


CASES = [
    Case("eigh", projection, expected, "T[3,3]; T[2,2,2]; T[1,1]", ALL, hermitian, tolerance=40),
    Case("eigh", exponential, exponential_of, "T[3,3]", "f32 c64", hermitian, tolerance=100,
         label="exponential"),
]


@table(CASES)
def test_eigh(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_eigenvectors(dtype):
    x = hermitian(np.random.default_rng(0), (2, 4, 4), np.dtype(dtype))
    for lower in (True, False):
        triangle = np.tril(x) if lower else np.triu(x)
        v, w = eigh(triangle, lower=lower, symmetrize_input=False)
        np.testing.assert_allclose(x @ v, v * np.asarray(w)[:, None], atol=1e-5)
        np.testing.assert_allclose(w, [[1, 2, 3, 4]] * 2, atol=1e-5)


def test_subsets():
    x = hermitian(np.random.default_rng(0), (2, 4, 4), np.dtype("f4"))
    v, w = eigh(x, subset_by_index=(1, 3))
    assert (v.shape, w.shape) == ((2, 4, 2), (2, 2))
    np.testing.assert_allclose(x @ v, v * np.asarray(w)[:, None], atol=1e-5)
    value = lambda x: eigh(x, subset_by_index=(1, 2))[1].sum()
    gradient = mjax.grad(value)(x)
    np.testing.assert_allclose(gradient, v[..., :1] @ draws.adjoint(v[..., :1]), atol=1e-5)
    assert eigh(x, subset_by_index=(2, 2))[1].shape == (2, 0)


@pytest.mark.parametrize("lower", [True, False])
def test_derivatives_read_the_same_triangle(lower):
    x = hermitian(np.random.default_rng(0), (3, 3), np.dtype("f4"))
    half = np.tril(x) if lower else np.triu(x)
    f = lambda x: eigh(x, lower=lower, symmetrize_input=False)[1]
    out, tangent = mjax.jvp(f, (half,), (x,))
    np.testing.assert_allclose(out, np.linalg.eigvalsh(x), atol=1e-5)
    np.testing.assert_allclose(tangent, out, atol=1e-5)  # in the direction of the matrix itself


def test_degenerate_and_empty_matrices():
    v, w = eigh(np.eye(3, dtype=np.float32))
    np.testing.assert_array_equal(w, [1, 1, 1])
    assert [x.shape for x in eigh(np.zeros((2, 0, 0), np.float32))] == [(2, 0, 0), (2, 0)]
    gradient = mjax.grad(lambda x: eigh(x)[1].sum())(np.diag([1.0, 1.0, 2.0]).astype(np.float32))
    np.testing.assert_allclose(gradient, np.eye(3), atol=1e-6)


def test_nan_in_nan_out():
    x = np.stack([np.eye(2), np.full((2, 2), np.nan)]).astype(np.float32)
    v, w = eigh(x)
    assert np.isnan(w[1]).all() and np.isfinite(w[0]).all()


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: eigh(np.ones((2, 3))), ValueError, "eigh: the matrix must be square"),
    (lambda: eigh(np.ones((2, 2)), subset_by_index=2.5), TypeError,
     "eigh: subset_by_index must be a pair of integers"),
    (lambda: eigh(np.ones((2, 2)), subset_by_index=(1, 3)), ValueError, "within the 2 eigenvalues"),
    (lambda: eigh(np.ones((2, 2)), implementation=EighImplementation.QDWH), NotImplementedError,
     "does not exist on CPU"),
    (lambda: eigh(np.ones(2)), TypeError, "at least 2 axes")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
