"""Stacks of matrices that are cut over devices: each device computes its own matrices."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as mnp
from mjax.lax import linalg
from mjax.sharding import NamedSharding
from mjax.sharding import PartitionSpec as P
from mjaxlib_shim.custom_calls import cuts_stacks

MESH = mjax.make_mesh((2, 4), ("i", "j"))
RNG = np.random.default_rng(0)
G = RNG.standard_normal((4, 8, 5, 5)).astype(np.float32) + 3 * np.eye(5, dtype=np.float32)
A = G @ G.swapaxes(-1, -2)
B = RNG.standard_normal((4, 8, 5, 2)).astype(np.float32)
V = B[..., 0]

FAST = {
    "cholesky": (linalg.cholesky, A), "lu": (linalg.lu, G), "solve": (mnp.linalg.solve, G, B),
    "svd": (linalg.svd, G),
}
SLOW = {
    "det": (mnp.linalg.det, G), "eig": (linalg.eig, G), "eigh": (linalg.eigh, A),
    "hessenberg": (linalg.hessenberg, G), "householder": (linalg.householder_product, G, V),
    "inv": (mnp.linalg.inv, G), "pinv": (mnp.linalg.pinv, G), "qr": (linalg.qr, G),
    "ormqr": (linalg.ormqr, G, V, B), "pivoted qr": (lambda x: linalg.qr(x, pivoting=True), G),
    "schur": (linalg.schur, G),
    "triangular_solve": (lambda a, b: linalg.triangular_solve(a, b, left_side=True), A, B),
    "tridiagonal": (linalg.tridiagonal, A),
    "tridiagonal_solve": (linalg.tridiagonal_solve, V, V + 9, V, B),
}
NAMES = [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


def exchanges(compiled):
    return set(re.findall(r"all-gather|all-reduce|all-to-all|collective-permute",
                          compiled.as_text()))


@pytest.mark.parametrize("name", NAMES)
def test_each_device_computes_its_own_matrices(name):
    f, *operands = {**FAST, **SLOW}[name]
    cut = [mjax.device_put(x, NamedSharding(MESH, P("i", "j"))) for x in operands]
    program = mjax.jit(f)
    results = program(*cut)
    for result, whole in zip(mjax.tree.leaves(results), mjax.tree.leaves(program(*operands)),
                             strict=True):
        np.testing.assert_allclose(np.asarray(result), np.asarray(whole), rtol=1e-5, atol=1e-5)
        if cuts_stacks():
            assert result.sharding.spec == P("i", "j")
    if cuts_stacks():
        assert not exchanges(program.lower(*cut).compile())


def test_matrices_that_are_cut_themselves_are_gathered():
    matrices = RNG.standard_normal((3, 8, 8)).astype(np.float32) + 9 * np.eye(8, dtype=np.float32)
    cut = mjax.device_put(matrices, NamedSharding(MESH, P(None, "i", "j")))
    for f in (mnp.linalg.inv, lambda x: linalg.lu(x)[0]):
        np.testing.assert_allclose(mjax.jit(f)(cut), mjax.jit(f)(matrices), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(mjax.jit(mnp.linalg.inv)(cut), np.linalg.inv(matrices), rtol=1e-4,
                               atol=1e-5)


def test_stacks_over_the_free_axis_of_a_shard_map():
    f = mjax.shard_map(linalg.cholesky, mesh=MESH, in_specs=P("i"), out_specs=P("i"),
                       axis_names={"i"})
    cut = mjax.device_put(A, NamedSharding(MESH, P("i", "j")))
    np.testing.assert_allclose(mjax.jit(f)(cut), np.linalg.cholesky(A), rtol=1e-4, atol=1e-4)
    if cuts_stacks():
        assert not exchanges(mjax.jit(f).lower(cut).compile())


def test_more_dimensions_than_letters():
    shape = (1,) * 14 + (2, 3, 3)
    f = mjax.jit(lambda x: linalg.qr(x)[1])
    cut = mjax.device_put(np.ones(shape, np.float32) + np.eye(3, dtype=np.float32),
                          NamedSharding(MESH, P(*[None] * 14, "i")))
    np.testing.assert_allclose(np.abs(f(cut)), np.abs(np.linalg.qr(np.asarray(cut))[1]), rtol=1e-5,
                               atol=1e-5)
