"""LU factors: lu, lu_pivots_to_permutation, and what they solve."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg

from mjax._engine.linalg import lu as module
from mjax._engine.linalg.lu import lu, lu_pivots_to_permutation
from tests.engine.linalg.draws import ALL, adjoint, square
from tests.engine.primitives.harness import Case, table


def factors(x):
    """SciPy's."""
    out, pivots = scipy.linalg.lu_factor(x)
    return out, pivots.astype(np.int32), exchanged(pivots, x.shape[-2]).astype(np.int32)


def exchanged(pivots, n):
    """A loop of exchanges."""
    out = np.broadcast_to(np.arange(n, dtype=pivots.dtype), (*pivots.shape[:-1], n)).copy()
    for index in np.ndindex(*pivots.shape[:-1]):
        for i, j in enumerate(pivots[index]):
            out[index][[i, j]] = out[index][[j, i]]
    return out


def pivots(rng, shape, dtype):
    n = shape[-1]
    out = [rng.integers(i, n + 1, shape[:-1]) for i in range(n)]
    return np.stack(out, -1).astype(dtype) if out else np.zeros(shape, dtype)


CASES = [
    Case("lu", lu, factors, "T[3,3]; T[2,4]; T[4,2]; T[2,3,3]", ALL, square, result="T i32 i32"),
    Case("lu_pivots_to_permutation", lambda p: lu_pivots_to_permutation(p, 4),
         lambda p: exchanged(p, 4), "T[3]; T[2,3]; T[0]; T[0,3]", "i32 i64 u8", pivots),
]


@table(CASES)
def test_lu(check, sample):
    check(sample)


def test_singular_and_empty_matrices():
    out, places, order = lu(np.zeros((2, 2), np.float32))
    assert not np.asarray(out).any()
    np.testing.assert_array_equal((places, order), [[0, 1], [0, 1]])
    assert [x.shape for x in lu(np.zeros((2, 0, 3), np.float32))] == [(2, 0, 3), (2, 0), (2, 0)]
    assert [x.tolist() for x in lu(np.zeros((3, 0), np.float32))] == [[[]] * 3, [], [0, 1, 2]]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_solutions(dtype):
    rng = np.random.default_rng(0)
    a, b = [square(rng, shape, np.dtype(dtype)) for shape in ((2, 4, 4), (2, 4, 3))]
    out, _, order = lu(a)
    for trans, matrix in enumerate((a, np.swapaxes(a, 1, 2), adjoint(a))):
        np.testing.assert_allclose(matrix @ module.lu_solve(out, order, b, trans), b, atol=1e-5)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: lu(np.ones(3)), TypeError, "lu: operand 0 must have at least 2 axes"),
    (lambda: lu(np.ones((2, 2), int)), TypeError, "lu does not accept dtype int32"),
    (lambda: lu_pivots_to_permutation(np.ones(3), 3), TypeError, "must be integers"),
    (lambda: lu_pivots_to_permutation(np.ones(3, int), 2), ValueError, "permutation_size=2")])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
