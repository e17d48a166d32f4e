"""Recurrent networks by scan.

Source: Elman 1990; Hochreiter and Schmidhuber 1997.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def rnn_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Parameters, inputs and targets, over 6 steps times the size."""
    inputs, hidden, batch = 3, 4 * size, 2 * size
    draw = lambda *shape: rng.normal(size=shape) / np.sqrt(shape[0])
    params = {"h": draw(hidden, hidden), "x": draw(inputs, hidden), "b": 0.1 * draw(hidden),
              "y": draw(hidden, inputs)}
    return params, draw(6 * size, batch, inputs), draw(6 * size, batch, inputs)


def rnn(m: Any, params: Any, xs: Any, targets: Any) -> Any:
    """The squared error of an Elman network's predictions."""
    np = m.numpy

    def step(h: Any, x: Any) -> Any:
        h = np.tanh(h @ params["h"] + x @ params["x"] + params["b"])
        return h, h @ params["y"]

    start = np.zeros((xs.shape[1], params["b"].shape[0]), xs.dtype)
    _, outs = m.lax.scan(step, start, xs)
    return np.mean((outs - targets) ** 2)


def lstm_args(rng: np.random.Generator, size: int) -> tuple[Any, ...]:
    """Parameters, inputs and targets, over 5 steps times the size."""
    inputs, hidden, batch = 3, 4 * size, 2 * size
    draw = lambda *shape: rng.normal(size=shape) / np.sqrt(shape[0])
    params = {"w": draw(inputs + hidden, 4 * hidden), "b": 0.1 * draw(4 * hidden)}
    return params, draw(5 * size, batch, inputs), draw(batch, hidden)


def lstm(m: Any, params: Any, xs: Any, target: Any) -> Any:
    """The squared error of an LSTM's last output."""
    np = m.numpy
    sigmoid = lambda x: 1 / (1 + np.exp(-x))

    def step(state: Any, x: Any) -> Any:
        h, c = state
        gates = np.concatenate([x, h], -1) @ params["w"] + params["b"]
        i, f, o, g = np.split(gates, 4, -1)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        return (sigmoid(o) * np.tanh(c), c), None

    zeros = np.zeros(target.shape, xs.dtype)
    (h, _), _ = m.lax.scan(step, (zeros, zeros), xs)
    return np.mean((h - target) ** 2)
