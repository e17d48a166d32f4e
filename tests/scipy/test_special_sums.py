"""logsumexp and the softmax family: against SciPy, and their derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.special

import mjax
from mjax.scipy import special

rng = np.random.default_rng(0)
A = rng.normal(size=(3, 4)) * 50
A[0, 0], A[1] = -np.inf, -np.inf
B = rng.normal(size=(1, 4))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), ()], ids=str)
def test_logsumexp(axis: Any, keepdims: bool) -> None:
    if axis == ():
        np.testing.assert_allclose(np.asarray(special.logsumexp(A, ())), A, rtol=1e-6)
        return
    with mjax.enable_x64():
        out = special.logsumexp(A, axis=axis, keepdims=keepdims)
        expected = scipy.special.logsumexp(A, axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-13)
        signed = special.logsumexp(A, axis, B, keepdims, True)
        expected = scipy.special.logsumexp(A, axis, B, keepdims, True)
        for a, e in zip(signed, expected, strict=True):
            assert a.shape == np.shape(e)
            np.testing.assert_allclose(np.asarray(a), e, rtol=1e-12)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(np.asarray(special.logsumexp(A, axis, B, keepdims)),
                                       scipy.special.logsumexp(A, axis, B, keepdims), rtol=1e-12)


def test_logsumexp_of_what_a_mask_leaves() -> None:
    where = rng.random(A.shape) < 0.5
    where[2] = False
    with mjax.enable_x64():
        out = special.logsumexp(A, axis=1, where=where)
        expected = scipy.special.logsumexp(np.where(where, A, -np.inf), axis=1)
        np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-13)
        # Elements that do not count have no gradient, whatever they are.
        bad = np.where(where, np.nan_to_num(A), np.nan)
        slope = mjax.grad(lambda a: special.logsumexp(a[0], where=where[0]))(bad)
        assert np.isfinite(np.asarray(slope)).all()


def test_logsumexp_in_corners() -> None:
    inf = np.inf
    for x, expected in (([inf, inf], inf), ([inf, 1], inf), ([-inf, -inf], -inf), ([], -inf),
                        ([np.nan, inf], np.nan), ([1e4, 1e4], 1e4 + np.log(2))):
        np.testing.assert_allclose(special.logsumexp(np.array(x, np.float32)), expected)
    # Factors of 0 hide infinities.
    assert special.logsumexp(np.array([inf, 0.0]), b=np.array([0.0, 1.0])) == 0.0
    assert np.isnan(special.logsumexp(np.array([0.0, 1.0]), b=np.array([1.0, -1.0])))
    assert special.logsumexp(np.array([1, 2])).dtype == np.float32
    z = np.array([1 + 2j, -1j])
    out, sign = special.logsumexp(z, return_sign=True)
    total = np.exp(z).sum()
    np.testing.assert_allclose(out, np.log(abs(total)), rtol=1e-6)
    np.testing.assert_allclose(sign, total / abs(total), rtol=1e-6)
    np.testing.assert_allclose(special.logsumexp(z), np.log(total), rtol=1e-6)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax(name: str) -> None:
    x = rng.normal(size=(2, 3, 4)) * 100
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    for axis in (None, 0, -1, (0, 2)):
        out = mjax.jit(ours, static_argnames="axis")(x.astype(np.float32), axis=axis)
        np.testing.assert_allclose(np.asarray(out), theirs(x, axis=axis), rtol=1e-5, atol=1e-6)
    assert ours(np.array([1, 2, 3])).dtype == np.float32
    assert ours(2.0).shape == ()
    assert ours(np.zeros((0, 2), np.float32), axis=0).shape == (0, 2)


@pytest.mark.slow
def test_derivatives() -> None:
    x = rng.normal(size=5)
    with mjax.enable_x64():
        p = np.asarray(special.softmax(x))
        np.testing.assert_allclose(np.asarray(mjax.jacrev(special.softmax)(x)),
                                   np.diag(p) - np.outer(p, p), atol=1e-15)
        np.testing.assert_allclose(np.asarray(mjax.jacfwd(special.log_softmax)(x)),
                                   np.eye(5) - p, atol=1e-15)
        np.testing.assert_allclose(np.asarray(mjax.grad(special.logsumexp)(x)), p, rtol=1e-14)
        np.testing.assert_allclose(np.asarray(mjax.hessian(special.logsumexp)(x)),
                                   np.diag(p) - np.outer(p, p), atol=1e-15)
        # Great elements share what is certain.
        same = np.array([700.0, 700.0, -np.inf])
        np.testing.assert_allclose(np.asarray(mjax.grad(lambda x: special.softmax(x)[0])(same)),
                                   [0.25, -0.25, 0.0])


@pytest.mark.parametrize(("error", "text", "use"), [
    (ValueError, "logsumexp: where must be None or a boolean array, got dtype int32",
     lambda: special.logsumexp(np.ones(2), where=np.ones(2, np.int32))),
    (ValueError, "axis", lambda: special.logsumexp(np.ones(2), axis=1)),
    (ValueError, "axis", lambda: special.softmax(np.ones(2), axis=-2)),
    (TypeError, "logsumexp requires ndarray or scalar", lambda: special.logsumexp([1.0])),
])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
