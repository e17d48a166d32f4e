"""`test_util`, `experimental.ode` and `example_libraries`, on both libraries."""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import jax.experimental.ode
import jax.test_util
import numpy as np
import pytest

import mjax
import mjax.experimental.ode
import mjax.test_util
from tests.differential.compare import assert_agree

T = np.linspace(0, 2, 4).astype(np.float32)
Y = np.array([1.0, -2.0, 0.5], np.float32)


# ---- test_util -------------------------------------------------------------------------


@pytest.mark.parametrize("x", [Y, Y.astype(np.complex64), Y.astype(np.float16), np.array(0.5)],
                         ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("wrong", [0.0, 5e-4, 5e-3, 0.1])
def test_checks_find_the_same(x: Any, wrong: float) -> None:
    """How far a derivative may be off."""
    def found(m: Any, check: str) -> bool:
        f = m.custom_jvp(lambda x: x * x)
        f.defjvps(lambda t, out, x: t * (2 + wrong) * x)
        tests = m.test_util
        try:
            if check == "check_grads":
                tests.check_grads(f, (x,), 1, eps=1e-2)
            else:
                rule = m.jvp if check == "check_jvp" else m.vjp
                getattr(tests, check)(f, partial(rule, f), (x,), eps=1e-2)
        except AssertionError:
            return False
        return True

    for check in ("check_grads", "check_jvp", "check_vjp"):
        assert found(mjax, check) == found(jax, check)


# ---- ode -------------------------------------------------------------------------------


def pushed(m: Any) -> Any:
    return lambda y, t, a: (y[1], -m.numpy.sin(y[0]) * a["a"] + m.numpy.cos(t))


@pytest.mark.parametrize("options", [{}, {"rtol": 1e-3, "atol": 1e-4}, {"mxstep": 2},
                                     {"hmax": 0.1}], ids=str)
def test_solutions(options: Any) -> None:
    assert_agree(lambda m, y, t: m.experimental.ode.odeint(
        pushed(m), (y, y[::-1]), t, {"a": 2.0}, **options), Y, T, tolerance=2e-4)


@pytest.mark.slow
def test_gradients() -> None:
    def loss(m: Any, y: Any, t: Any, a: Any) -> Any:
        return m.numpy.sum(m.numpy.sin(m.experimental.ode.odeint(
            pushed(m), (y, y[::-1]), t, {"a": a})[0]))

    assert_agree(lambda m, *args: m.jit(m.value_and_grad(partial(loss, m), (0, 1, 2)))(*args),
                 Y, T, np.float32(2), tolerance=2e-4)
    assert_agree(lambda m, *args: m.vmap(m.grad(partial(loss, m)), (0, None, None))(*args),
                 np.stack([Y, 2 * Y]), T, np.float32(2), tolerance=2e-4)


# ---- example libraries -----------------------------------------------------------------


LAYERS = {
    "Dense": lambda s: s.Dense(4),
    "Conv": lambda s: s.Conv(4, (3, 2), (2, 1), "SAME"),
    "ConvTranspose": lambda s: s.ConvTranspose(2, (3, 3), (2, 2)),
    "BatchNorm": lambda s: s.BatchNorm(),
    "pools": lambda s: s.serial(s.MaxPool((2, 2)), s.AvgPool((2, 2), padding="SAME"),
                                s.SumPool((2, 1), (2, 1))),
    "network": lambda s: s.serial(
        s.FanOut(3), s.parallel(s.Identity, s.serial(s.Dense(3), s.Gelu), s.Dropout(0.5)),
        s.FanInSum, s.Flatten, s.Dense(2), s.LogSoftmax),
}


@pytest.mark.parametrize("name", LAYERS)
def test_networks(name: str) -> None:
    def run(m: Any, x: Any) -> Any:
        stax = importlib.import_module(f"{m.__name__}.example_libraries.stax")
        init, apply = LAYERS[name](stax)
        shape, params = init(m.random.key(0), x.shape)
        rng = m.random.key(1)
        loss = lambda params: m.numpy.sum(m.numpy.sin(apply(params, x, rng=rng)))
        return tuple(map(int, shape)), params, apply(params, x, rng=rng), m.grad(loss)(params)

    assert_agree(run, np.random.default_rng(0).normal(size=(2, 5, 4, 3)).astype("f"),
                 tolerance=2e-4)


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov", "adagrad", "rmsprop",
                                  "rmsprop_momentum", "adam", "adamax", "sm3"])
def test_optimizers(name: str) -> None:
    def run(m: Any, tree: Any) -> Any:
        optimizers = importlib.import_module(f"{m.__name__}.example_libraries.optimizers")
        size = optimizers.exponential_decay(0.1, 10, 0.9)
        args = (size, 0.8) if name in ("momentum", "nesterov") else (size,)
        opt = getattr(optimizers, name)(*args)
        state = opt.init_fn(m.tree_util.tree_map(m.numpy.asarray, tree))
        for i in range(3):
            grads = m.tree_util.tree_map(lambda x: x ** 3, opt.params_fn(state))
            state = opt.update_fn(i, optimizers.clip_grads(grads, 2.0), state)
        return opt.params_fn(state), [list(x) for x in state.packed_state]

    assert_agree(run, {"a": Y, "b": [np.outer(Y, Y)]}, tolerance=1e-4)
