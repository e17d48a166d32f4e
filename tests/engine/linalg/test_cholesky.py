"""Cholesky factors: cholesky, cholesky_update."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
from mjax._engine.linalg.cholesky import cholesky, cholesky_update
from tests.engine.linalg.draws import ALL, REAL, adjoint, positive, upper
from tests.engine.primitives.harness import Case, normal, table


def updated(r, w):
    return adjoint(np.linalg.cholesky(adjoint(r) @ r + np.multiply.outer(w, w)))


CASES = [
    Case("cholesky", cholesky, np.linalg.cholesky, "T[3,3]; T[2,2,2]; T[1,1]; T[0,2,2]; T[0,0]",
         ALL, positive),
    Case("cholesky", lambda x: cholesky(x, symmetrize_input=False), np.linalg.cholesky, "T[3,3]",
         "f32 c64", positive, order=0, label="one triangle"),
    Case("cholesky_update", cholesky_update, updated, "T[3,3] T[3]; T[1,1] T[1]", REAL,
         [upper, normal]),
]


@table(CASES)
def test_cholesky(check, sample):
    check(sample)


def test_only_the_lower_triangle_counts_if_not_symmetrized():
    x = np.array([[4.0, 99.0], [2.0, 2.0]], np.float32)
    np.testing.assert_allclose(cholesky(x, symmetrize_input=False), [[2, 0], [1, 1]])
    np.testing.assert_allclose(cholesky(np.tril(x) + np.tril(x, -1).T), [[2, 0], [1, 1]])


def test_indefinite_matrices_of_a_stack_are_nan():
    x = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)]).astype(np.float32)
    out = np.asarray(cholesky(x))
    np.testing.assert_array_equal(out[1], [[np.nan, 0], [np.nan, np.nan]])
    np.testing.assert_array_equal(out[::2], [np.eye(2), 2 * np.eye(2)])


def test_integers_are_symmetrized_as_floats():
    x = np.array([[4, 1], [3, 2]], np.int32)
    np.testing.assert_allclose(cholesky(x), [[2, 0], [1, 1]])
    with pytest.raises(TypeError, match="does not accept dtype int32"):
        cholesky(x, symmetrize_input=False)


def test_half_floats():
    x = np.array([[4.0, 2.0], [2.0, 2.0]], np.float16)
    out = mjax.jit(cholesky)(x)
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, [[2, 0], [1, 1]])


def test_updates_of_zeros_and_of_large_numbers():
    r = np.diag([3.0, 0.0, 1.0]).astype(np.float32)
    np.testing.assert_allclose(cholesky_update(r, np.zeros(3, np.float32)), r)
    big = np.array([4e30, 0, 0], np.float32)
    np.testing.assert_allclose(cholesky_update(np.diag([3e30, 1, 1]).astype(np.float32), big),
                               np.diag([5e30, 1, 1]), rtol=1e-6)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda: cholesky(np.ones((2, 3))), ValueError, "cholesky: the matrix must be square, got sh"),
    (lambda: cholesky(np.ones(3)), TypeError, "cholesky: operand 0 must have at least 2 axes"),
    (lambda: cholesky(np.ones((2, 2), int), symmetrize_input=False), TypeError,
     "does not accept dtype int32"),
    (lambda: cholesky_update(np.ones((2, 2)), np.ones(3)), ValueError, "a vector of 2 elements"),
    (lambda: cholesky_update(np.ones((2, 2)), np.ones(2, complex)), TypeError, "complex64"),
    (lambda: cholesky_update(np.ones((3, 2, 2)), np.ones((4, 2))), TypeError, "stacked alike"),
])
def test_refusals(call, error, text):
    with pytest.raises(error, match=re.escape(text)):
        call()
