"""Householder reflectors: geqrf, geqp3, householder_product, ormqr."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import scipy.linalg

import mjax.numpy as jnp
from mjax._engine.linalg import reflectors
from mjax._engine.linalg.reflectors import geqp3, geqrf, householder_product, ormqr
from tests.engine.linalg.draws import ALL, adjoint, square
from tests.engine.primitives.harness import Case, table
from tests.marks import some

SHAPES = "T[3,3]; T[4,2]; T[2,4]; T[2,3,2]"


def raw(x):
    """LAPACK's reflectors, from NumPy."""
    out, taus = np.linalg.qr(x, "raw")
    return np.swapaxes(out, -1, -2), taus


def product(a, taus):
    """The product of reflectors, as matrices."""
    m, n = a.shape[-2:]
    out = np.broadcast_to(np.eye(m, dtype=a.dtype), (*a.shape[:-2], m, m))
    for i in range(taus.shape[-1]):
        v = np.where(np.arange(m) > i, a[..., :, i], np.arange(m) == i)
        h = np.eye(m) - taus[..., i, None, None] * v[..., :, None] * np.conj(v)[..., None, :]
        out = out @ h
    return out[..., :n]


def multiplied(left, transpose):
    def multiply(a, taus, c):
        q = product(np.concatenate([a, np.zeros((*a.shape[:-1], a.shape[-2] - a.shape[-1]))], -1),
                    taus)
        q = adjoint(q) if transpose else q
        return q @ c if left else c @ q

    return multiply


def pivoted(x):
    (out, taus), _, order = scipy.linalg.qr(x, mode="raw", pivoting=True)
    return out, order.astype(np.int32), taus


def factors(rng, shape, dtype):
    """Those that make reflectors unitary do not matter here."""
    return (1 + rng.random(shape)).astype(dtype)


CASES = [
    Case("geqrf", geqrf, raw, SHAPES, ALL, square, order=0),
    Case("geqp3", geqp3, pivoted, "T[3,3]; T[4,2]; T[2,4]", ALL, square, result="T i32 T", order=0),
    Case("householder_product", householder_product, product, "T[4,2] T[2]; T[3,3] T[2]; "
         "T[2,3,2] T[2,1]", ALL, [square, factors], order=0),
    *[Case("ormqr", lambda a, taus, c, left=left, transpose=transpose: ormqr(
        a, taus, c, left=left, transpose=transpose), multiplied(left, transpose),
        "T[3,2] T[2] T[3,3]; T[2,2,1] T[2,1] T[2,2,2]", ALL, [square, factors, square], order=0,
        label=f"{left}, {transpose}") for left, transpose in itertools.product((True, False), (
            False, True)) if left or not transpose],
]


@table(CASES)
def test_reflectors(check, sample):
    check(sample)


@pytest.mark.parametrize("dtype", ["f4", "c8"])
@pytest.mark.parametrize("shape", some([(5, 3), (4, 4), (3, 5), (2, 3, 2), (1, 1)], 3))
def test_what_stands_in_for_kernels(shape, dtype):
    a = jnp.asarray(square(np.random.default_rng(1), shape, np.dtype(dtype)))
    out, order, taus = reflectors._without_kernel(a)
    taken = np.take_along_axis(np.asarray(a), np.asarray(order)[..., None, :], -1)
    again, again_taus = geqrf(taken)
    np.testing.assert_allclose(out, again, atol=2e-5)
    np.testing.assert_allclose(taus, again_taus, atol=2e-5)
    sizes = np.abs(np.asarray(out).diagonal(axis1=-2, axis2=-1))
    assert (np.diff(sizes, axis=-1) < 1e-5).all()


def test_columns_of_zeros_are_not_reflected():
    a = jnp.array([[0.0, 0.0], [0.0, 3.0]])
    out, order, taus = reflectors._without_kernel(a)
    np.testing.assert_array_equal(order, [1, 0])
    np.testing.assert_allclose(np.abs(np.triu(out)), [[3, 0], [0, 0]], atol=1e-7)
    assert np.isfinite(np.asarray(taus)).all()


@pytest.mark.parametrize(("call", "text"), [
    (lambda: householder_product(np.ones((2, 3)), np.ones(2)), "as many rows as columns"),
    (lambda: householder_product(np.ones((3, 2)), np.ones(3)), "3 factors for the 2 columns"),
    (lambda: ormqr(np.ones((3, 2)), np.ones(2), np.ones((2, 3))), "with left=True a matrix c"),
])
def test_refusals(call, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        call()


def test_pivoting_in_empty_stacks():
    """LAPACK's kernel would divide by the size."""
    for shape in ((0, 3, 3), (0, 3), (3, 0), (2, 0, 3)):
        a, pivots, taus = geqp3(np.zeros(shape, "f4"))
        assert a.shape == shape and pivots.shape == (*shape[:-2], shape[-1])
        assert taus.shape == (*shape[:-2], min(shape[-2:]))
