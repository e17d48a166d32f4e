"""Eigenvalues of square matrices: eig."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

import mjax
from mjax._engine.linalg.eig import EigImplementation, eig
from mjax._engine.primitives import arithmetic as lax
from tests.engine.linalg.draws import ALL, adjoint
from tests.engine.primitives.harness import Case, kind, normal, table

values_of = functools.partial(eig, compute_left_eigenvectors=False,
                              compute_right_eigenvectors=False)


def spread(rng, shape, dtype):
    """Eigenvalues near 0, 2, 4, ..., all real for real matrices."""
    x = 0.3 * normal(rng, shape, np.dtype("c16" if kind(dtype) == "c" else "f8"))
    return (x + np.diag(2 * np.arange(shape[-1]))).astype(dtype)


def powers(x):
    """Symmetric functions of the eigenvalues: their order does not matter."""
    (w,) = values_of(x)
    return w.sum(-1), lax.mul(w, w).sum(-1)


def traces(x):
    return np.trace(x, axis1=-2, axis2=-1) + 0j, np.trace(x @ x, axis1=-2, axis2=-1) + 0j


CASES = [Case("eig", powers, traces, "T[3,3]; T[2,2,2]; T[1,1]", ALL, spread, tolerance=60)]


@table(CASES)
def test_eig(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_eigenvectors(dtype):
    x = normal(np.random.default_rng(0), (2, 4, 4), np.dtype(dtype))
    w, left, right = map(np.asarray, eig(x))
    np.testing.assert_allclose(x @ right, right * w[:, None], atol=2e-5)
    np.testing.assert_allclose(adjoint(left) @ x, w[..., None] * adjoint(left), atol=2e-5)
    assert w.dtype == left.dtype == right.dtype == np.complex64


@pytest.mark.parametrize("dtype", ["f8", "c16"])
def test_derivatives_of_eigenvectors(dtype):
    x, t = [f(np.random.default_rng(i), (3, 3), np.dtype(dtype))
            for i, f in enumerate((spread, normal))]
    f = functools.partial(eig, enable_eigvec_derivs=True)
    with mjax.enable_x64(True):
        _, tangents = mjax.jvp(f, (x,), (t,))
        above, below = f(x + 1e-6 * t), f(x - 1e-6 * t)
    for tangent, a, b in zip(tangents, map(np.asarray, above), map(np.asarray, below),
                             strict=True):
        np.testing.assert_allclose(tangent, (a - b) / 2e-6, atol=1e-7)


def test_derivatives_of_eigenvectors_are_asked_for():
    with pytest.raises(NotImplementedError, match="enable_eigvec_derivs=True"):
        mjax.jvp(eig, (np.eye(2, dtype=np.float32),), (np.ones((2, 2), np.float32),))


def test_empty_and_defective_matrices():
    assert [x.shape for x in eig(np.zeros((2, 0, 0), np.float32))] == [
        (2, 0), (2, 0, 0), (2, 0, 0)]
    w, _, right = eig(np.array([[1.0, 1.0], [0.0, 1.0]], np.float32))
    np.testing.assert_allclose(w, [1, 1], atol=1e-6)
    np.testing.assert_allclose(np.abs(right[0]), [1, 1], atol=1e-6)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: eig(np.ones((2, 3))), ValueError, "eig: the matrix must be square"),
    (lambda: eig(np.ones((2, 2)), implementation=EigImplementation.MAGMA), ValueError,
     "does not exist on CPU")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
