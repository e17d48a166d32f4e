"""scaled_dot against NumPy: blocks along contracted axes, derivatives, batches, refusals."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax

RNG = np.random.default_rng(0)


def small(*shape):
    """Numbers whose products bfloat16 holds."""
    return RNG.integers(-3, 4, shape).astype("float32")


def powers(*shape):
    return 2.0 ** RNG.integers(-1, 2, shape).astype("float32")


A, B, SA, SB = small(2, 3, 8), small(2, 8, 4), powers(2, 3, 2), powers(2, 4, 4)
EXPECTED = (A * np.repeat(SA, 4, -1)) @ (B * np.repeat(SB, 2, -2))


def product(a, b, sa, sb, **options):
    return lax.scaled_dot(a, b, lhs_scale=sa, rhs_scale=sb,
                          **{"preferred_element_type": np.float32, **options})


def test_values():
    for f in (product, mjax.jit(product), mjax.vmap(product)):
        np.testing.assert_array_equal(f(A, B, SA, SB), EXPECTED)
    np.testing.assert_array_equal(product(A[0], B[0], SA[0], None),
                                  (A[0] * np.repeat(SA[0], 4, -1)) @ B[0])
    narrow = product(jnp.asarray(A, jnp.float8_e4m3fn), jnp.asarray(B, jnp.float8_e4m3fn), SA, SB)
    np.testing.assert_array_equal(narrow, EXPECTED)
    assert product(A, B, SA, SB, preferred_element_type=None).dtype == jnp.bfloat16


def test_dimension_numbers():
    out = product(A, B.swapaxes(1, 2), SA, SB.swapaxes(1, 2),
                  dimension_numbers=(((2,), (2,)), ((0,), (0,))))
    np.testing.assert_array_equal(out, EXPECTED)


def test_derivatives():
    of_a, of_scale = mjax.grad(lambda a, s: product(a, B, s, SB).sum(), (0, 1))(A, SA)
    right = (B * np.repeat(SB, 2, -2)).sum(-1)[:, None]
    np.testing.assert_array_equal(of_a, right * np.repeat(SA, 4, -1))
    np.testing.assert_allclose(
        of_scale, (A * right).reshape(2, 3, 2, 4).sum(-1), 2e-2, 0.5)


@pytest.mark.parametrize(("args", "text"), [
    ((A[0, 0], B[0, :, 0], None, None), "multiplies matrices and stacks of them"),
    ((A[0], B, None, None), "must have equal ranks"),
    ((A, B, A, None), "lhs_scale of shape (2, 3, 8) must have the axes of lhs"),
    ((A, B, None, SB[:, :3]), "rhs_scale of shape (2, 3, 4) must have the axes of rhs"),
    ((A, B, SA[0], None), "lhs_scale of shape (3, 2) must have the axes of lhs"),
    ((A, B[:, :4], None, None), "size"),
], ids=["vectors", "ranks", "single", "remainder", "rank of a scale", "sizes"])
def test_refusals(args, text):
    with pytest.raises(TypeError, match=re.escape(text)):
        product(*args)
