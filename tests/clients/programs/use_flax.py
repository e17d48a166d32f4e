"""flax: networks of linen with state, scans and remat, and their serialization."""

import json

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax import serialization, struct, traverse_util
from flax.training import train_state

jax.config.update("jax_enable_x64", True)


class Network(nn.Module):
    """Convolution, normalization with running means, dropout and a scanned cell."""

    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(4, (3, 3), param_dtype=jnp.float64)(x)
        x = nn.BatchNorm(use_running_average=not train, param_dtype=jnp.float64)(x)
        x = nn.max_pool(nn.gelu(x), (2, 2), strides=(2, 2)).reshape(x.shape[0], 3, -1)
        cell = nn.LSTMCell(5, param_dtype=jnp.float64)
        x = nn.RNN(cell)(x)
        x = nn.remat(nn.MultiHeadDotProductAttention)(
            2, qkv_features=4, param_dtype=jnp.float64)(x)
        x = nn.Dropout(0.25, deterministic=not train)(x)
        return nn.Dense(2, param_dtype=jnp.float64)(x[:, -1])


class Layers(nn.Module):
    """One layer with parameters of its own for each of three steps."""

    @nn.compact
    def __call__(self, x):
        class Body(nn.Module):
            @nn.compact
            def __call__(self, carry, _):
                return nn.tanh(nn.Dense(3, param_dtype=jnp.float64)(carry)), None

        scanned = nn.scan(Body, variable_axes={"params": 0}, split_rngs={"params": True}, length=3)
        return scanned()(x, None)[0]


@struct.dataclass
class Pair:
    """A container of flax."""

    left: jax.Array
    name: str = struct.field(pytree_node=False)


class State(train_state.TrainState):
    """Parameters, optimizer and running means."""

    batch_stats: dict


def main():
    keys = jax.random.split(jax.random.key(3), 4)
    xs, ys = jax.random.normal(keys[0], (4, 6, 6, 1)), jax.random.normal(keys[1], (4, 2))
    network = Network()
    variables = network.init({"params": keys[2], "dropout": keys[3]}, xs, True)
    state = State.create(apply_fn=network.apply, params=variables["params"],
                         tx=optax.adam(1e-2), batch_stats=variables["batch_stats"])

    @jax.jit
    def step(state, key):
        def loss(params):
            out, updates = state.apply_fn(
                {"params": params, "batch_stats": state.batch_stats}, xs, True,
                rngs={"dropout": key}, mutable=["batch_stats"])
            return jnp.mean((out - ys) ** 2), updates

        (value, updates), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        return state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"]), value

    losses = []
    for key in jax.random.split(keys[3], 3):
        state, value = step(state, key)
        losses.append(float(value))
    layers = Layers()
    params = layers.init(keys[0], ys[:, :1] * jnp.ones(3))
    written = serialization.to_bytes(state.params)
    again = serialization.from_bytes(variables["params"], written)
    pair = jax.tree.map(lambda x: x + 1, Pair(jnp.arange(2.0), "pair"))
    flat = traverse_util.flatten_dict(params["params"], sep="/")
    print(json.dumps({
        "losses": losses,
        "means": jax.tree.leaves(state.batch_stats)[0].tolist(),
        "prediction": network.apply(
            {"params": state.params, "batch_stats": state.batch_stats}, xs, False).tolist(),
        "layers": layers.apply(params, ys[:, :1] * jnp.ones(3)).tolist(),
        "shapes": {name: list(x.shape) for name, x in sorted(flat.items())},
        "read again": all(jax.tree.leaves(jax.tree.map(
            lambda x, y: bool((x == y).all()), again, state.params))),
        "pair": pair.left.tolist(), "name": pair.name,
        "table": "Dense" in network.tabulate(
            {"params": keys[2], "dropout": keys[3]}, xs, True, console_kwargs={"width": 120}),
    }))


if __name__ == "__main__":
    main()
