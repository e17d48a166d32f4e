"""QR decompositions: qr."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg

import mjax
from mjax._engine.linalg.qr import qr
from tests.engine.linalg.draws import ALL, adjoint, square
from tests.engine.primitives.harness import Case, table


def reference(x, full):
    return tuple(np.linalg.qr(x, "complete" if full else "reduced"))


def pivoted(x, full):
    q, r, order = scipy.linalg.qr(x, mode="full" if full else "economic", pivoting=True)
    return q, r, order.astype(np.int32)


CASES = [
    Case("qr", lambda x: qr(x, full_matrices=False), lambda x: reference(x, False),
         "T[3,3]; T[4,2]; T[2,4]; T[2,3,2]", ALL, square, tolerance=40),
    Case("qr", qr, lambda x: reference(x, True), "T[4,2]; T[2,3]", ALL, square, tolerance=40,
         label="full"),
    Case("qr", lambda x: qr(x, pivoting=True, full_matrices=False), lambda x: pivoted(x, False),
         "T[3,3]; T[4,2]; T[2,4]", ALL, square, result="T T i32", tolerance=40, label="pivoting"),
]


@table(CASES)
def test_qr(check, sample):
    check(sample)


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 0), (0, 2, 2)])
def test_empty_matrices(shape, full):
    x = np.ones(shape, np.float32)
    q, r = qr(x, full_matrices=full)
    expected = np.linalg.qr(x, "complete" if full else "reduced")
    assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
    np.testing.assert_array_equal(q, expected[0])
    _, _, order = qr(x, pivoting=True)
    np.testing.assert_array_equal(order, np.broadcast_to(np.arange(shape[-1]), order.shape))


@pytest.mark.parametrize("dtype", ["f4", "c8"])
def test_pivots_of_a_stack(dtype):
    x = square(np.random.default_rng(0), (3, 4, 4), np.dtype(dtype))
    q, r, order = map(np.asarray, qr(x, pivoting=True))
    np.testing.assert_allclose(q @ r, np.take_along_axis(x, order[:, None], 2), atol=1e-5)
    np.testing.assert_allclose(adjoint(q) @ q, np.broadcast_to(np.eye(4), q.shape), atol=1e-6)


def test_derivative_keeps_the_factors_unitary_and_triangular():
    x, t = [square(np.random.default_rng(i), (4, 3), np.dtype("c16")) for i in range(2)]
    with mjax.enable_x64(True):
        (q, r), (q_dot, r_dot) = mjax.jvp(qr, (x,), (t,))
    np.testing.assert_allclose(q_dot @ r + q @ r_dot, t, atol=1e-12)
    skew = adjoint(q) @ np.asarray(q_dot)
    np.testing.assert_allclose(skew, -adjoint(skew), atol=1e-12)
    np.testing.assert_allclose(np.tril(r_dot, -1), 0, atol=1e-12)


@pytest.mark.parametrize(("x", "text"), [
    (np.ones(3), "qr: operand 0 must have at least 2 axes"),
    (np.ones((2, 2), int), "qr does not accept dtype int32")])
def test_refusals(x, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        qr(x)
