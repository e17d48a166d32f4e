"""A decoder block: attention with a causal mask, norms, a network of two layers, and the loss."""

import numpy as np
from scipy.special import erf, log_softmax, softmax

import mjax
import mjax.numpy as jnp

HEADS, SIZE = 2, 4


def norm(x, scale):
    return mjax.nn.standardize(x, axis=-1, epsilon=1e-6) * scale


@mjax.jit
def program(params, tokens):
    x = params["embed"][tokens]
    time = x.shape[0]
    h = norm(x, params["scale"])
    q, k, v = jnp.split(h @ params["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(time, HEADS, SIZE) for a in (q, k, v))
    mixed = mjax.nn.dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.reshape(time, -1) @ params["out"]
    inner = norm(x, params["scale"]) @ params["up"]
    x = x + mjax.nn.gelu(inner, approximate=False) @ params["down"]
    scores = mjax.nn.log_softmax(x @ params["embed"].T)
    return -jnp.mean(jnp.take_along_axis(scores[:-1], tokens[1:, None], axis=1))


def arguments(rng):
    d = HEADS * SIZE
    shapes = {"embed": (7, d), "scale": (d,), "qkv": (d, 3 * d), "out": (d, d), "up": (d, 10),
              "down": (10, d)}
    return {n: rng.normal(size=s) / 2 for n, s in shapes.items()}, rng.integers(0, 7, 6)


def expected(params, tokens):
    x = params["embed"][tokens]
    standard = lambda x: params["scale"] * (x - x.mean(-1, keepdims=True)) / np.sqrt(
        x.var(-1, keepdims=True) + 1e-6)
    q, k, v = [a.reshape(6, HEADS, SIZE) for a in np.split(standard(x) @ params["qkv"], 3, -1)]
    scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(SIZE)
    scores = np.where(np.tril(np.ones((6, 6), bool)), scores, -np.inf)
    x = x + np.einsum("hts,shd->thd", softmax(scores, -1), v).reshape(6, -1) @ params["out"]
    h = standard(x) @ params["up"]
    x = x + (h * (1 + erf(h / np.sqrt(2))) / 2) @ params["down"]
    return -np.mean(log_softmax(x @ params["embed"].T, -1)[np.arange(5), tokens[1:]])
