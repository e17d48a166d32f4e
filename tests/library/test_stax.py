"""Small neural networks: shapes that `init_fun` tells, and values by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.example_libraries import optimizers, stax

rng = np.random.default_rng(0)
X = rng.normal(size=(2, 6, 5, 3)).astype("f")
KEY = mjax.random.key(0)


def applied(layer: Any, x: Any = X, **kwargs: Any) -> tuple[np.ndarray, Any]:
    """The output, whose shape is that which was told, and the parameters."""
    shape, params = layer[0](KEY, x.shape)
    out = layer[1](params, x, **kwargs)
    assert tuple(shape) == out.shape
    return np.asarray(out), params


def windows(x: np.ndarray, size: Any, strides: Any) -> np.ndarray:
    """Windows over axes 1 and 2, as the last two axes."""
    view = np.lib.stride_tricks.sliding_window_view(x, size, (1, 2))
    return view[:, ::strides[0], ::strides[1]]


def test_dense_layers() -> None:
    out, (W, b) = applied(stax.Dense(4), X[..., 0])
    np.testing.assert_allclose(out, X[..., 0] @ W + b, 1e-4, 1e-5)
    out, _ = applied(stax.Dense(2, W_init=stax.ones, b_init=stax.zeros), X[0, 0])
    np.testing.assert_allclose(out, np.repeat(X[0, 0].sum(-1, keepdims=True), 2, 1), 1e-5)


def test_convolutions() -> None:
    out, (W, b) = applied(stax.Conv(4, (2, 3), (2, 1), "VALID"))
    expected = np.einsum("nhwcij,ijco->nhwo", windows(X, (2, 3), (2, 1)), np.asarray(W)) + b
    np.testing.assert_allclose(out, expected, 1e-4, 1e-4)
    out, (W, b) = applied(stax.GeneralConv(("NCHW", "OIHW", "NCHW"), 4, (2, 3)),
                          X.transpose(0, 3, 1, 2))
    assert W.shape == (4, 3, 2, 3) and b.shape == (1, 4, 1, 1) and out.shape == (2, 4, 5, 3)
    assert applied(stax.ConvTranspose(4, (3, 3), (2, 2), "SAME"))[0].shape == (2, 12, 10, 4)
    assert applied(stax.Conv1DTranspose(4, (3,), (2,)), X[..., 0])[0].shape[-1] == 4


def test_the_batch_may_be_unknown() -> None:
    layers = stax.serial(
        stax.Conv(4, (3, 3)), stax.BatchNorm(), stax.MaxPool((2, 2), (2, 2)), stax.Relu,
        stax.ConvTranspose(2, (3, 3), (2, 2), "SAME"), stax.AvgPool((2, 2)), stax.Flatten,
        stax.Dense(3))
    shape, params = layers[0](KEY, (-1, 8, 9, 3))
    known, of_known = layers[0](KEY, (5, 8, 9, 3))
    assert tuple(shape) == (-1, 3) and tuple(known) == (5, 3)
    mjax.tree.map(np.testing.assert_array_equal, params, of_known)
    assert layers[1](params, jnp.ones((2, 8, 9, 3))).shape == (2, 3)
    assert stax.MaxPool((2, 2), spec="NCHW")[0](KEY, (-1, 3, 4, 4))[0] == (-1, 3, 3, 3)


@pytest.mark.parametrize("layer", [stax.Conv(2, (3, 3)), stax.ConvTranspose(2, (3, 3)),
                                   stax.MaxPool((2, 2))])
def test_an_input_shape_of_another_rank_is_refused(layer: Any) -> None:
    with pytest.raises(ValueError, match=r"must have 4 sizes, .* got \(3, 4\)"):
        layer[0](KEY, (3, 4))


def test_pooling() -> None:
    for layer, reduce in ((stax.MaxPool, np.max), (stax.SumPool, np.sum), (stax.AvgPool, np.mean)):
        out, _ = applied(layer((2, 3), (2, 1)))
        np.testing.assert_allclose(out, reduce(windows(X, (2, 3), (2, 1)), (-2, -1)), 1e-4, 1e-5)
    ones, _ = applied(stax.AvgPool((3, 3), padding="SAME"), np.ones_like(X))
    np.testing.assert_allclose(ones, 1, 1e-6)
    out, _ = applied(stax.MaxPool((2, 2), spec="NCHW"))
    np.testing.assert_array_equal(out, np.lib.stride_tricks.sliding_window_view(
        X, (2, 2), (2, 3)).max((-2, -1)))


@pytest.mark.parametrize("options", [{}, {"center": False}, {"scale": False}, {"axis": 0},
                                     {"center": False, "scale": False}], ids=str)
def test_batch_norm(options: Any) -> None:
    out, (beta, gamma) = applied(stax.BatchNorm(
        beta_init=stax.normal(1.0), gamma_init=stax.normal(1.0), **options))
    axes = (0,) if "axis" in options else (0, 1, 2)
    expected = (X - X.mean(axes, keepdims=True)) / np.sqrt(X.var(axes, keepdims=True) + 1e-5)
    expected = expected * (1 if isinstance(gamma, tuple) else np.asarray(gamma)) + (
        0 if isinstance(beta, tuple) else np.asarray(beta))
    np.testing.assert_allclose(out, expected, 1e-3, 1e-4)


ELEMENTWISE = {
    "Tanh": np.tanh, "Exp": np.exp, "Relu": lambda x: np.maximum(x, 0),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)), "Softplus": lambda x: np.log1p(np.exp(x)),
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.01 * x),
    "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "Selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "Gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))),
    "Softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "LogSoftmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "Identity": lambda x: x, "Flatten": lambda x: x.reshape(2, -1),
}


def test_layers_without_parameters() -> None:
    for name, reference in ELEMENTWISE.items():
        out, params = applied(getattr(stax, name))
        assert params == ()
        np.testing.assert_allclose(out, reference(X), 1e-4, 1e-5, err_msg=name)
    out, _ = applied(stax.elementwise(jnp.clip, max=0.5))
    np.testing.assert_array_equal(out, np.minimum(X, np.float32(0.5)))


@pytest.mark.parametrize(("error", "text", "use"), [
    (TypeError, "stax.serial: a layer must be a pair .*, got Dense. A function that makes layers "
     "must be called", lambda: stax.serial(stax.Dense, stax.Relu)),
    (ValueError, "stax.parallel: a layer must be a pair", lambda: stax.parallel((1, 2, 3))),
    (ValueError, "stax.serial: give at least one layer", stax.serial),
    (ValueError, "the parameters must have an item for each of the 2 layers, got 1",
     lambda: stax.serial(stax.Relu, stax.Exp)[1]([()], X)),
    (ValueError, "the inputs must have an item for each of the 2 layers, got 3",
     lambda: stax.parallel(stax.Relu, stax.Exp)[1]([(), ()], [X] * 3)),
    (ValueError, "the shapes of the inputs must have an item for each of the 2 layers, got 1",
     lambda: stax.parallel(stax.Relu, stax.Exp)[0](KEY, [(1, 2)])),
])
def test_layers_and_their_items_must_match(error: Any, text: str, use: Any) -> None:
    with pytest.raises(error, match=text):
        use()


def test_dropout() -> None:
    layer = stax.Dropout(0.7)
    out, _ = applied(layer, np.ones((50, 40), "f"), rng=KEY)
    kept = out != 0
    np.testing.assert_allclose(out[kept], 1 / 0.7, 1e-6)
    assert abs(kept.mean() - 0.7) < 0.05
    np.testing.assert_array_equal(applied(stax.Dropout(0.7, "test"), rng=KEY)[0], X)
    with pytest.raises(ValueError, match="a Dropout layer needs a key"):
        applied(layer)


def test_networks() -> None:
    x = X[0, 0]
    branches = stax.serial(stax.FanOut(3), stax.parallel(
        stax.Identity, stax.Dense(3), stax.serial(stax.Dropout(0.5), stax.Tanh)), stax.FanInSum)
    out, params = applied(branches, x, rng=KEY)
    W, b = params[1][1]
    assert out.shape == x.shape and W.shape == (3, 3)
    quiet = stax.serial(stax.FanOut(2), stax.parallel(stax.Identity, stax.Dense(4)),
                        stax.FanInConcat())
    out, params = applied(quiet, x)
    W, b = params[1][1]
    np.testing.assert_allclose(out, np.concatenate([x, x @ W + b], -1), 1e-4, 1e-5)
    same = stax.shape_dependent(lambda shape: stax.Dense(shape[-1]))
    assert applied(same, x)[0].shape == x.shape


@pytest.mark.slow
def test_training() -> None:
    init, predict = stax.serial(stax.Dense(16), stax.Relu, stax.Dense(2), stax.LogSoftmax)
    x = rng.normal(size=(64, 2)).astype("f")
    labels = (x[:, 0] * x[:, 1] > 0).astype(int)
    opt = optimizers.adam(0.02)

    def loss(params: Any) -> Any:
        return -jnp.mean(predict(params, x)[jnp.arange(64), labels])

    @mjax.jit
    def step(i: Any, state: Any) -> Any:
        return opt.update_fn(i, mjax.grad(loss)(opt.params_fn(state)), state)

    state = opt.init_fn(init(KEY, (-1, 2))[1])
    before = loss(opt.params_fn(state))
    for i in range(150):
        state = step(i, state)
    assert loss(opt.params_fn(state)) < before / 2
