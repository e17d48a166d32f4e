"""Singular value decompositions: svd."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
from mjax._engine.linalg.matrices import adjoint, dot
from mjax._engine.linalg.svd import SvdAlgorithm, _by_polar, svd
from tests.engine.linalg import draws
from tests.engine.linalg.draws import ALL, tall
from tests.engine.primitives.harness import Case, table


def values(x):
    return svd(x, compute_uv=False)


def polar(x):
    """Singular values, and the unitary factor of the polar decomposition."""
    u, s, vh = svd(x, full_matrices=False)
    return s, dot(u, vh)


def expected(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return s, u @ vh


def first(x):
    """The projections to the spaces of the first singular vectors."""
    u, _, vh = svd(x, full_matrices=False)
    u, v = u[..., :1], adjoint(vh)[..., :1]
    return dot(u, adjoint(u)), dot(v, adjoint(v))


def first_of(x):
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    u, v = u[..., :1], draws.adjoint(vh)[..., :1]
    return u @ draws.adjoint(u), v @ draws.adjoint(v)


CASES = [
    Case("svd", polar, expected, "T[3,3]; T[4,2]; T[2,3]; T[2,3,2]", ALL, tall, tolerance=40),
    Case("svd", values, lambda x: np.linalg.svd(x, compute_uv=False), "T[4,2]; T[2,3]",
         "f32 c64", tall, label="values"),
    Case("svd", first, first_of, "T[4,2]; T[2,3]", "f32 c64", tall, tolerance=60, label="vectors"),
]


@table(CASES)
def test_svd(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 3), (3, 0), (2, 0, 0)])
def test_factors(shape, dtype):
    x = draws.square(np.random.default_rng(0), shape, np.dtype(dtype))
    for algorithm in (None, SvdAlgorithm.QR, SvdAlgorithm.DIVIDE_AND_CONQUER):
        for full in (True, False):
            u, s, vh = map(np.asarray, svd(x, full_matrices=full, algorithm=algorithm))
            k = s.shape[-1]
            np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x,
                                       atol=1e-5)
            for q in (u, draws.adjoint(vh)):
                square = draws.adjoint(q) @ q
                np.testing.assert_allclose(square, np.broadcast_to(
                    np.eye(q.shape[-1]), square.shape), atol=1e-6)
            assert [a.shape for a in np.linalg.svd(x, full)] == [u.shape, s.shape, vh.shape]


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(2, 4, 3), (2, 4)])
def test_by_polar_decompositions(shape, full):
    """The program of TPUs, here with the kernels of the CPU."""
    decompose = mjax.jit(lambda x: _by_polar(
        x, full_matrices=full, compute_uv=True, subset_by_index=None, algorithm=None))
    x = draws.square(np.random.default_rng(0), shape, np.dtype("c8"))
    singular = np.concatenate([x[..., 1:, :], x[..., 1:2, :]], -2)
    for given in (x, singular, np.zeros_like(x)):
        s, u, vh = map(np.asarray, decompose(given))
        assert [a.shape for a in np.linalg.svd(given, full)] == [u.shape, s.shape, vh.shape]
        k = s.shape[-1]
        np.testing.assert_allclose(s, np.linalg.svd(given, compute_uv=False), atol=1e-5)
        np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], given,
                                   atol=1e-5)
        for q in (u, draws.adjoint(vh)):
            square = draws.adjoint(q) @ q
            np.testing.assert_allclose(square, np.broadcast_to(
                np.eye(q.shape[-1]), square.shape), atol=1e-5)


def test_subsets():
    x = tall(np.random.default_rng(0), (2, 4, 3), np.dtype("f4"))
    u, s, vh = svd(x, full_matrices=False, subset_by_index=(0, 2))
    assert (u.shape, s.shape, vh.shape) == ((2, 4, 2), (2, 2), (2, 2, 3))
    np.testing.assert_allclose(s, [[3, 2]] * 2, atol=1e-5)
    np.testing.assert_array_equal(svd(x, compute_uv=False, subset_by_index=(1, 3)),
                                  svd(x, compute_uv=False)[:, 1:])
    gradient = mjax.grad(lambda x: svd(x, compute_uv=False, subset_by_index=(0, 1)).sum())(x)
    np.testing.assert_allclose(gradient, u[..., :1] @ vh[..., :1, :], atol=1e-5)


def test_zero_singular_values_have_derivatives():
    x = np.diag([2.0, 1.0, 0.0]).astype(np.float32)
    gradient = mjax.grad(lambda x: svd(x, compute_uv=False)[0])(x)
    np.testing.assert_allclose(gradient, np.diag([1.0, 0, 0]), atol=1e-6)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: svd(np.ones(3)), TypeError, "svd: operand 0 must have at least 2 axes"),
    (lambda: svd(np.ones((2, 2)), subset_by_index=(0, 3)), ValueError, "within the 2 singular"),
    *[(lambda subset=subset: svd(np.ones((2, 2)), full_matrices=False, subset_by_index=subset),
       TypeError, "svd: subset_by_index must be a pair of integers")
      for subset in (2.5, "ab", (1,), (0, 1.5))],
    (lambda: svd(np.ones((3, 2)), subset_by_index=(0, 1)), ValueError, "needs full_matrices=False"),
    (lambda: svd(np.ones((2, 2)), algorithm=SvdAlgorithm.JACOBI), NotImplementedError, "on CPU"),
    (lambda: mjax.jvp(svd, (np.ones((3, 2)),), (np.ones((3, 2)),)), NotImplementedError,
     "Use full_matrices=False")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
