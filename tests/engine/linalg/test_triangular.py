"""Systems with triangular matrices: triangular_solve."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import mjax
from mjax._engine.linalg.triangular import triangular_solve
from tests.engine.linalg.draws import ALL, square
from tests.engine.primitives.harness import Case, normal, table


def solved(left_side=False, lower=False, transpose_a=False, conjugate_a=False,
           unit_diagonal=False):
    """NumPy's solution."""

    def solve(a, b):
        a = np.tril(a) if lower else np.triu(a)
        if unit_diagonal:
            n = a.shape[-1]
            a = a * (1 - np.eye(n)) + np.eye(n)
        a = np.swapaxes(a, -1, -2) if transpose_a else a
        a = np.conj(a) if conjugate_a else a
        if left_side:
            return np.linalg.solve(a, b)
        return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)

    return solve


def row(types, T, **how):
    return Case("triangular_solve", lambda a, b: triangular_solve(a, b, **how), solved(**how),
                types, T, [square, normal], linear=[(1,)], tolerance=40,
                label=", ".join(f"{k}={v}" for k, v in how.items()))


FLAGS = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
CASES = [
    row("T[3,3] T[3,2]; T[2,2,2] T[2,2,3]; T[1,1] T[1,1]; T[0,2,2] T[0,2,1]; T[2,2] T[2,0]", ALL,
        left_side=True, lower=True),
    row("T[3,3] T[2,3]; T[2,2] T[3,2]", ALL),
    *[row(f"T[3,3] {'T[3,2]' if flags[0] else 'T[2,3]'}", "c64", **dict(
        zip(FLAGS, flags, strict=True))) for flags in itertools.product((True, False), repeat=5)],
]


@table(CASES)
def test_triangular_solve(check, sample):
    check(sample)


def test_vectors():
    a, b = np.triu(square(np.random.default_rng(0), (2, 3, 3), np.dtype("f4"))), np.ones(
        (2, 3), np.float32)
    for left in (True, False):
        out = triangular_solve(a, b, left_side=left)
        equation = "kij,kj->ki" if left else "kji,kj->ki"
        np.testing.assert_allclose(np.einsum(equation, a, out), b, rtol=1e-5)


def test_half_floats():
    out = mjax.jit(lambda a, b: triangular_solve(a, b, left_side=True))(
        np.eye(2, dtype=np.float16) * 2, np.ones((2, 1), np.float16))
    assert out.dtype == np.float16
    np.testing.assert_array_equal(out, [[0.5], [0.5]])


def test_an_unmapped_matrix_is_not_copied():
    text = str(mjax.make_jaxpr(mjax.vmap(
        lambda b: triangular_solve(np.eye(3, dtype=np.float32), b, left_side=True)))(
            np.ones((5, 3, 2), np.float32)))
    assert "[3,10]" in text and "[5,3,3]" not in text


@pytest.mark.parametrize(("a", "b", "error", "text"), [
    ((2, 3), (3, 3), ValueError, "triangular_solve: the matrix must be square"),
    ((2, 2), (3, 3), ValueError, "with left_side=False these must have 2 columns"),
    ((3, 2, 2), (4, 2, 2), TypeError, "stacked alike"), ((2,), (2,), TypeError, "at least 2 axes")])
def test_refusals(a, b, error, text):
    with pytest.raises(error, match=re.escape(text)):
        triangular_solve(np.ones(a, np.float32), np.ones(b, np.float32))


def test_dtypes_must_agree():
    with pytest.raises(TypeError, match="operands of one dtype"):
        triangular_solve(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.complex64))
