"""A transformer with stacked layers, run by scan; blocks are rematerialized.

So only the input of each layer is saved.

Source: Vaswani et al. 2017, with normalization before each part (Xiong et al. 2020).
"""

from __future__ import annotations

from typing import Any

import numpy as np


def transformer_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Stacked parameters of 3 layers times the size, embedded tokens, targets."""
    layers, heads, width, tokens = 3 * size, 2, 4 * size, 5 * size
    draw = lambda *shape: rng.normal(size=(layers, *shape)) / np.sqrt(shape[0])
    params = {"qkv": draw(width, 3, heads, width), "out": draw(heads, width, width),
              "up": draw(width, 4 * width), "down": draw(4 * width, width),
              "scale": 1 + 0.1 * rng.normal(size=(layers, 2, width))}
    return params, rng.normal(size=(tokens, width)), rng.normal(size=(tokens, width))


def transformer(m: Any, params: Any, x: Any, targets: Any) -> Any:
    """The squared error of the last layer's output."""
    np = m.numpy
    hidden = np.triu(np.ones((x.shape[0], x.shape[0]), bool), 1)

    def normalized(x: Any, scale: Any) -> Any:
        x = x - np.mean(x, -1, keepdims=True)
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def attention(x: Any, p: Any) -> Any:
        q, k, v = np.moveaxis(np.einsum("td,dche->cthe", x, p["qkv"]), 0, 0)
        scores = np.einsum("the,she->hts", q, k) / p["qkv"].shape[-1] ** 0.5
        scores = np.where(hidden, -1e9, scores)
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        weights = weights / np.sum(weights, -1, keepdims=True)
        return np.einsum("hts,she,hed->td", weights, v, p["out"])

    @m.checkpoint
    def block(x: Any, p: Any) -> Any:
        x = x + attention(normalized(x, p["scale"][0]), p)
        up = normalized(x, p["scale"][1]) @ p["up"]
        return x + (up * np.tanh(np.logaddexp(up, 0.0))) @ p["down"]

    x, _ = m.lax.scan(lambda x, p: (block(x, p), None), x, params)
    return np.mean((x - targets) ** 2)
