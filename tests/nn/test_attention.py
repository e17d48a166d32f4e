"""Attention, against a loop over sequences and heads in NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special

import mjax
import mjax.numpy as jnp
from mjax import nn

rng = np.random.default_rng(0)
Q = rng.normal(size=(2, 5, 4, 3)).astype(np.float32)
K, V = rng.normal(size=(2, 2, 6, 2, 3)).astype(np.float32)
BIAS = rng.normal(size=(2, 4, 5, 6)).astype(np.float32)
MASK = rng.uniform(size=(2, 4, 5, 6)) < 0.7
MASK[..., 0] = True
LENGTHS = np.int32([3, 5]), np.int32([6, 2])


def expected(allowed, bias=0.0, scale=3 ** -0.5):
    """Outputs, and logarithms of sums; `allowed`: (sequence, head, query, key) -> whether."""
    bias, out, sums = np.broadcast_to(bias, BIAS.shape), np.zeros(Q.shape), np.zeros(Q.shape[:3])
    for b, t, h in np.ndindex(Q.shape[:3]):
        logits = np.array([scale * Q[b, t, h] @ K[b, s, h // 2] + bias[b, h, t, s]
                           if allowed(b, h, t, s) else -np.inf for s in range(6)])
        if (logits == -np.inf).all():
            logits[:] = 0
        out[b, t, h] = special.softmax(logits) @ V[b, :, h // 2]
        sums[b, t, h] = special.logsumexp(logits)
    return out, sums


ROWS = {
    "plain": ({}, lambda *_: True),
    "causal": ({"is_causal": True}, lambda b, h, t, s: s <= t),
    "mask": ({"mask": MASK}, lambda b, h, t, s: MASK[b, h, t, s]),
    "mask alike": ({"mask": MASK[:1, :1, :, :]}, lambda b, h, t, s: MASK[0, 0, t, s]),
    "window": ({"local_window_size": 1}, lambda b, h, t, s: abs(s - t) <= 1),
    "windows": ({"local_window_size": (2, 0)}, lambda b, h, t, s: t - 2 <= s <= t),
    "key lengths": ({"key_value_seq_lengths": LENGTHS[1]}, lambda b, h, t, s: s < LENGTHS[1][b]),
}


@pytest.mark.parametrize("name", ROWS)
def test_masks(name):
    kwargs, allowed = ROWS[name]
    out, sums = nn.dot_product_attention(Q, K, V, return_residual=True, **kwargs)
    for ours, theirs in zip((out, sums), expected(allowed)):
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5)


def test_bias_and_scale():
    for bias in (BIAS, BIAS[:, :1], BIAS[0, 0]):
        out = nn.dot_product_attention(Q, K, V, bias, scale=0.3)
        np.testing.assert_allclose(out, expected(lambda *_: True, bias, 0.3)[0], 1e-4, 1e-5)


def test_lengths_of_queries():
    out = np.asarray(nn.dot_product_attention(Q, K, V, query_seq_lengths=LENGTHS[0]))
    wanted = expected(lambda *_: True)[0]
    wanted[0, 3:] = 0
    np.testing.assert_allclose(out, wanted, 1e-4, 1e-5)


def test_a_query_without_keys_gets_a_mean():
    out = nn.dot_product_attention(Q, K, V, mask=np.zeros((1, 1, 1, 1), bool))
    mean = V.mean(1, keepdims=True).repeat(2, axis=2)
    np.testing.assert_allclose(out, np.broadcast_to(mean, out.shape), 1e-5, 1e-6)


def test_without_a_batch():
    out, sums = nn.dot_product_attention(Q[0], K[0], V[0], return_residual=True)
    assert (out.shape, sums.shape) == (Q.shape[1:], Q.shape[1:3])
    np.testing.assert_allclose(out, expected(lambda *_: True)[0][0], 1e-4, 1e-5)


def test_a_single_number():
    out, sums = nn.dot_product_attention(1.5, 2.0, np.float32(4), return_residual=True)
    assert (out.shape, sums.shape) == ((), ())
    assert (float(out), float(sums)) == (4.0, 3.0)


def test_narrow_dtypes():
    for dtype in (jnp.float16, jnp.bfloat16):
        q, k, v = [jnp.asarray(x, dtype) for x in (Q, K, V)]
        out = nn.dot_product_attention(q, k, v)
        assert out.dtype == dtype
        np.testing.assert_allclose(np.float32(out), expected(lambda *_: True)[0], atol=3e-2)
        slope = mjax.grad(lambda *qkv: nn.dot_product_attention(*qkv).astype(float).sum())(q, k, v)
        assert slope.dtype == dtype


def test_transformations():
    f = lambda q: nn.dot_product_attention(q, K, V, is_causal=True, scale=2.0)
    np.testing.assert_allclose(mjax.jit(f)(Q), f(Q), 1e-5, 1e-6)
    np.testing.assert_allclose(mjax.vmap(f)(Q[None])[0], f(Q), 1e-5, 1e-6)
    slope = mjax.jit(mjax.grad(lambda q: jnp.sum(f(q) * Q)))(Q)
    direction = rng.normal(size=Q.shape).astype(np.float32)
    ends = [float(jnp.sum(f(Q + h * direction) * Q)) for h in (-1e-2, 1e-2)]
    change = np.sum(np.asarray(slope) * direction)
    np.testing.assert_allclose(change, (ends[1] - ends[0]) / 2e-2, 1e-2)


@pytest.mark.parametrize(("kwargs", "error", "text"), [
    ({"key": K[..., :2]}, ValueError, "value must have shape (2, 6, 2, 2), got (2, 6, 2, 3)"),
    ({"query": Q[:1]}, ValueError, "query must have shape (2, any, any, 3), got (1, 5, 4, 3)"),
    ({"query": Q[:, :, :3]}, ValueError, "must be a multiple of that of the key, got 3 and 2"),
    ({"query": Q.astype(np.float16)}, ValueError, "query must have dtype float32, got float16"),
    ({"query": Q[None]}, ValueError, "query has at most 4 axes"),
    ({"mask": BIAS}, ValueError, "mask must have dtype bool"),
    ({"bias": BIAS[:, :3]}, ValueError, "bias must have 1 head or 4"),
    ({"bias": BIAS[..., :2]}, TypeError, "bias of shape (2, 4, 5, 2) must broadcast"),
    ({"mask": np.ones((7, 1, 1, 1), bool)}, TypeError, "mask of shape (7, 1, 1, 1) must"),
    ({"query_seq_lengths": LENGTHS[0][:1]}, ValueError, "query_seq_lengths must have shape (2)"),
    ({"local_window_size": 2.5}, TypeError, "local_window_size must be an integer or a pair"),
    ({"implementation": "cudnn"}, RuntimeError, "needs a GPU"),
    ({"implementation": "fast"}, ValueError, "unknown implementation 'fast'"),
])
def test_refusals(kwargs, error, text):
    with pytest.raises(error, match=re.escape(text)):
        nn.dot_product_attention(**{"query": Q, "key": K, "value": V, **kwargs})
