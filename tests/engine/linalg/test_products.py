"""symmetric_product and qdwh."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.linalg

import mjax
from mjax._engine.linalg.qdwh import qdwh
from mjax._engine.linalg.symmetric_product import symmetric_product
from tests.engine.linalg.draws import ALL, square
from tests.engine.primitives.harness import Case, table


def product(a, c):
    return 2 * a @ np.swapaxes(a, -1, -2) - 0.5 * c


CASES = [Case("symmetric_product", lambda a, c: symmetric_product(a, c, alpha=2, beta=-0.5),
              product, "T[2,3] T[2,2]; T[2,3,1] T[2,3,3]; T[2,0] T[2,2]", ALL)]


@table(CASES)
def test_symmetric_product(check, sample):
    check(sample)


def test_symmetrized_products():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    c = np.array([[1, 9], [2, 3]], np.float32)
    out = symmetric_product(a, c, beta=1.0, symmetrize_output=True)
    np.testing.assert_array_equal(out, a @ a.T + [[1, 2], [2, 3]])


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (1, 1)])
def test_polar_decomposition(shape, dtype):
    x = square(np.random.default_rng(0), shape, np.dtype(dtype))
    u, h, count, converged = mjax.jit(qdwh)(x)
    expected = scipy.linalg.polar(x)
    np.testing.assert_allclose(u, expected[0], atol=2e-6)
    np.testing.assert_allclose(h, expected[1], atol=1e-5)
    assert converged and 0 < count <= 10


def test_polar_decomposition_of_a_padded_matrix():
    x = square(np.random.default_rng(0), (5, 3), np.dtype("f4"))
    padded = np.full((7, 4), 99, np.float32)
    padded[:5, :3] = x
    u, h, _, _ = mjax.jit(lambda x, m, n: qdwh(x, dynamic_shape=(m, n)))(padded, 5, 3)
    expected = np.zeros((7, 4))
    expected[:5, :3] = scipy.linalg.polar(x)[0]
    np.testing.assert_allclose(u, expected, atol=2e-6)
    np.testing.assert_allclose(h[:3, :3], scipy.linalg.polar(x)[1], atol=1e-5)


def test_iterations_are_limited():
    x = np.diag([1.0, 1e-6]).astype(np.float32)
    u, _, count, _ = qdwh(x, max_iterations=1)
    assert int(count) == 1
    assert float(np.abs(np.asarray(u) - np.eye(2)).max()) > 0.1


@pytest.mark.parametrize(("call", "text"), [
    (lambda: symmetric_product(np.ones((2, 3)), np.ones((3, 3))), "must be square with 2 rows"),
    (lambda: symmetric_product(np.ones((2, 3)), np.ones((2, 3))), "must be square"),
    (lambda: qdwh(np.ones((2, 3))), "at least as many rows as columns")])
def test_refusals(call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call()
