"""equinox: networks, state, filtered transformations, checked errors, a differentiated loop."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


class Block(eqx.Module):
    """A layer, a normalization and a static choice."""

    linear: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    scale: jax.Array
    act: str = eqx.field(static=True)

    def __init__(self, size, key):
        self.linear = eqx.nn.Linear(size, size, key=key, dtype=jnp.float64)
        self.norm = eqx.nn.LayerNorm(size, dtype=jnp.float64)
        self.scale = jnp.asarray(0.5)
        self.act = "tanh"

    def __call__(self, x):
        return x + self.scale * getattr(jnp, self.act)(self.linear(self.norm(x)))


def main():
    keys = jax.random.split(jax.random.key(0), 4)
    model = [Block(3, key) for key in keys[:2]]
    xs = jax.random.normal(keys[2], (5, 3))
    ys = jax.random.normal(keys[3], (5, 3))

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model, x, y):
        for block in model:
            x = jax.vmap(block)(x)
        return jnp.mean((x - y) ** 2)

    losses = []
    for _ in range(3):
        value, grads = loss(model, xs, ys)
        model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))
        losses.append(float(value))

    stacked = eqx.filter_vmap(lambda key: eqx.nn.MLP(3, 2, 4, 2, key=key, dtype=jnp.float64))(keys)
    mapped = eqx.filter_vmap(lambda net, x: net(x), in_axes=(eqx.if_array(0), None))(
        stacked, xs[0])

    norm, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(
        3, "batch", dtype=jnp.float64, mode="ema")
    normed, state = jax.vmap(
        norm, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(xs, state)

    @jax.grad
    def unrolled(x):
        return eqx.internal.while_loop(
            lambda v: v[0] < 7, lambda v: (v[0] + 1, jnp.sin(v[1]) + 1.1 * v[1]), (0, x),
            max_steps=16, kind="checkpointed")[1]

    @eqx.filter_jit
    def checked(x):
        return eqx.error_if(x, x < 0, "negative") ** 0.5

    try:
        failed = repr(checked(jnp.asarray(-1.0)))
    except RuntimeError as e:
        failed = "negative" in str(e)
    print(json.dumps({
        "losses": losses, "mapped": mapped.tolist(), "normed": normed.tolist(),
        "slope of a loop": float(unrolled(0.3)), "checked": float(checked(jnp.asarray(2.0))),
        "failed": failed, "arrays": len(jax.tree.leaves(eqx.filter(model, eqx.is_array))),
    }))


if __name__ == "__main__":
    main()
