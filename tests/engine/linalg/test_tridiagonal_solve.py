"""Systems with tridiagonal matrices: tridiagonal_solve."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.linalg import tridiagonal_solve as module
from mjax._engine.linalg.tridiagonal_solve import tridiagonal_solve
from tests.engine.linalg.draws import ALL
from tests.engine.primitives.harness import Case, normal, table


def matrix(dl, d, du):
    n = d.shape[-1]
    at = np.arange(n)
    a = np.zeros((*d.shape, n), d.dtype)
    a[..., at, at] = d
    a[..., at[1:], at[:-1]] = dl[..., 1:]
    a[..., at[:-1], at[1:]] = du[..., :-1]
    return a


def solved(dl, d, du, b):
    return np.linalg.solve(matrix(dl, d, du), b)


def strong(rng, shape, dtype):
    return (normal(rng, shape, dtype) + 4).astype(dtype)


DRAW = [normal, strong, normal, normal]
CASES = [Case("tridiagonal_solve", tridiagonal_solve, solved,
              "T[4] T[4] T[4] T[4,2]; T[2,3] T[2,3] T[2,3] T[2,3,1]; T[1] T[1] T[1] T[1,1]",
              ALL, DRAW, linear=[(3,)], tolerance=40)]


@table(CASES)
def test_tridiagonal_solve(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("perturb", [True, False])
def test_elimination_exchanges_rows(dtype, perturb):
    rng = np.random.default_rng(0)
    dl, d, du, b = [normal(rng, s, np.dtype(dtype)) for s in (*[(2, 6)] * 3, (2, 6, 3))]
    d[:, 1] = 0
    a = matrix(dl, d, du)
    args = list(map(jnp.asarray, (dl, d, du, b)))
    for out in (tridiagonal_solve(*args, perturb_singular=perturb),
                mjax.jit(lambda *args: module._by_elimination(*args, perturb_singular=perturb))(
                    *args)):
        np.testing.assert_allclose(a @ np.asarray(out), b, atol=2e-4)


def test_singular_systems():
    zero, d, b = np.zeros(4, np.float32), np.array([1, 0, 2, 1], np.float32), np.ones(
        (4, 1), np.float32)
    args = list(map(jnp.asarray, (zero, d, zero, b)))
    for solve in (tridiagonal_solve, module._by_elimination):
        assert np.isnan(solve(*args, perturb_singular=False)).all()
        out = np.asarray(solve(*args, perturb_singular=True))[:, 0]
        np.testing.assert_allclose(out[[0, 2, 3]], [1, 0.5, 1])
        assert 1e6 < out[1] < 1e8


def test_an_unmapped_matrix_is_not_copied():
    d = np.full(3, 4, np.float32)
    text = str(mjax.make_jaxpr(mjax.vmap(lambda b: tridiagonal_solve(d, d, d, b)))(
        np.ones((5, 3, 2), np.float32)))
    assert "[3,10]" in text and "[5,3] " not in text


def test_empty_systems():
    for shape in ((0,), (2, 0), (0, 3)):
        d = np.ones(shape, np.float32)
        assert tridiagonal_solve(d, d, d, d[..., None]).shape == (*shape, 1)


@pytest.mark.parametrize("shapes", [((3,), (2,), (3,), (3, 1)), ((3,), (3,), (3,), (2, 1))])
def test_refusals(shapes):
    with pytest.raises(TypeError, match=re.escape("must have one shape (..., m)")):
        tridiagonal_solve(*[np.ones(s, np.float32) for s in shapes])
