"""Products of numbers that share scales: against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import nn

rng = np.random.default_rng(0)
A, B = rng.normal(size=(2, 3, 8)), rng.normal(size=(2, 5, 8))
SA, SB = 2.0 ** rng.integers(-3, 3, (2, 3, 2)), 2.0 ** rng.integers(-3, 3, (2, 5, 2))


def test_scaled_matmul():
    for dtype in (np.float32, jnp.bfloat16, jnp.float8_e4m3fn):
        a, b = [jnp.asarray(x, np.float32).astype(dtype) for x in (A, B)]
        wide = [np.asarray(x.astype(np.float32)) for x in (a, b)]
        expected = np.einsum("bmk,bnk->bmn", wide[0] * SA.repeat(4, -1), wide[1] * SB.repeat(4, -1))
        for f in (nn.scaled_matmul, mjax.jit(nn.scaled_matmul)):
            np.testing.assert_allclose(f(a, b, SA, SB), expected, 1e-4, 1e-4)
    assert nn.scaled_matmul(A, B, SA, SB, jnp.bfloat16).dtype == jnp.bfloat16
    slope = mjax.grad(lambda a: nn.scaled_matmul(a, B, SA, SB).sum())(A.astype(np.float32))
    rows = (B * SB.repeat(4, -1)).sum(1, keepdims=True)
    np.testing.assert_allclose(slope, SA.repeat(4, -1) * rows, 1e-4, 1e-4)


@pytest.mark.parametrize("args", [(A[0], B, SA, SB), (A, B[:, :, :4], SA, SB),
                                  (A, B, SA[:, :2], SB), (A, B, SA[:, :, :1].repeat(3, -1), SB)])
def test_refusals(args):
    with pytest.raises(ValueError, match=re.escape("scaled_matmul takes shapes (batch, m, k)")):
        nn.scaled_matmul(*args)
