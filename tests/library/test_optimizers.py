"""Small optimizers: against steps by NumPy, and on trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mjax
from mjax.example_libraries import optimizers

TREE = {"w": np.array([[1.0, -2.0, 0.5], [0.1, 0.0, 3.0]], "f"), "b": (np.float32(2.0),)}


def sgd(x: Any, g: Any, s: Any, i: int) -> Any:
    return x - 0.1 * g, s


def momentum(x: Any, g: Any, v: Any, i: int) -> Any:
    v = 0.9 * v + g
    return x - 0.1 * v, v


def nesterov(x: Any, g: Any, v: Any, i: int) -> Any:
    v = 0.9 * v + g
    return x - 0.1 * (0.9 * v + g), v


def adagrad(x: Any, g: Any, s: Any, i: int) -> Any:
    v, m = s if i else (0 * g, 0 * g)
    v = v + g * g
    m = 0.9 * m + 0.1 * np.where(v > 0, g / np.sqrt(np.where(v > 0, v, 1)), 0)
    return x - 0.1 * m, (v, m)


def rmsprop(x: Any, g: Any, v: Any, i: int) -> Any:
    v = 0.9 * v + 0.1 * g * g
    return x - 0.1 * g / np.sqrt(v + 1e-8), v


def rmsprop_momentum(x: Any, g: Any, s: Any, i: int) -> Any:
    v, m = s if i else (0 * g, 0 * g)
    v = 0.9 * v + 0.1 * g * g
    m = 0.9 * m + 0.1 * g / np.sqrt(v + 1e-8)
    return x - m, (v, m)


def adam(x: Any, g: Any, s: Any, i: int) -> Any:
    m, v = s if i else (0 * g, 0 * g)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return x - 0.1 * (m / (1 - 0.9 ** (i + 1))) / (
        np.sqrt(v / (1 - 0.999 ** (i + 1))) + 1e-8), (m, v)


def adamax(x: Any, g: Any, s: Any, i: int) -> Any:
    m, u = s if i else (0 * g, 0 * g)
    m, u = 0.9 * m + 0.1 * g, np.maximum(0.999 * u, np.abs(g))
    return x - 0.1 / (1 - 0.9 ** (i + 1)) * m / (u + 1e-8), (m, u)


def sm3(x: Any, g: Any, s: Any, i: int) -> Any:
    axes = range(np.ndim(x))
    rows, m = s if i else ([np.zeros(n) for n in np.shape(x)] or [0.0], 0 * g)
    v = g * g + (min(rows) if np.ndim(x) == 0 else np.minimum(rows[0][:, None], rows[1]))
    m = 0.9 * m + 0.1 * np.where(v > 0, g / np.sqrt(np.where(v > 0, v, 1)), 0)
    return x - 0.1 * m, ([v.max(tuple(b for b in axes if b != a)) for a in axes] or [v], m)


STEPS = {f.__name__: f for f in (sgd, momentum, nesterov, adagrad, rmsprop, rmsprop_momentum, adam,
                                 adamax, sm3)}


@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    args = (0.1, 0.9) if name in ("momentum", "nesterov") else (0.1,)
    opt = getattr(optimizers, name)(*args)
    state, update = opt.init_fn(TREE), mjax.jit(opt.update_fn)
    leaves = [x.astype("d") for x in mjax.tree_util.tree_leaves(TREE)]
    memory: list[Any] = [0.0] * len(leaves)
    for i in range(4):
        # The gradient of the sum of fourth powers.
        state = update(i, mjax.tree_util.tree_map(lambda x: 4 * x ** 3, opt.params_fn(state)),
                       state)
        for k, x in enumerate(leaves):
            leaves[k], memory[k] = STEPS[name](x, 4 * x ** 3, memory[k], i)
    params = opt.params_fn(state)
    assert mjax.tree_util.tree_structure(params) == mjax.tree_util.tree_structure(TREE)
    for found, expected in zip(mjax.tree_util.tree_leaves(params), leaves, strict=True):
        np.testing.assert_allclose(found, expected, 2e-4, 2e-4)


def test_states_as_trees() -> None:
    opt = optimizers.adam(0.1)
    state = opt.init_fn(TREE)
    tree = optimizers.unpack_optimizer_state(state)
    assert isinstance(tree["b"][0], optimizers.JoinPoint)
    assert [np.shape(x) for x in next(iter(tree["w"]))] == [(2, 3)] * 3
    again = optimizers.pack_optimizer_state(tree)
    assert mjax.tree_util.tree_structure(again) == mjax.tree_util.tree_structure(state)
    with pytest.raises(TypeError, match="must be those of unpack_optimizer_state"):
        optimizers.pack_optimizer_state(TREE)


def test_norms_of_gradients() -> None:
    size = np.sqrt(sum(np.sum(x ** 2) for x in mjax.tree_util.tree_leaves(TREE)))
    np.testing.assert_allclose(optimizers.l2_norm(TREE), size, 1e-6)
    np.testing.assert_allclose(optimizers.l2_norm(optimizers.clip_grads(TREE, 0.5)), 0.5, 1e-6)
    np.testing.assert_array_equal(optimizers.clip_grads(TREE, 1e3)["w"], TREE["w"])


def test_errors() -> None:
    opt = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="the gradients must have the tree structure of"):
        opt.update_fn(0, [1.0], opt.init_fn(TREE))
    changing = optimizers.optimizer(lambda: (lambda x: x, lambda i, g, x: (x, x), lambda x: x))()
    with pytest.raises(TypeError, match="the state after an update must have the tree"):
        changing.update_fn(0, TREE, changing.init_fn(TREE))
    with pytest.raises(TypeError, match="must be a number or a function"):
        optimizers.sgd(np.ones(2))
