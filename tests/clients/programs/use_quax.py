"""quax: arrays that stand for others, through rules of primitives."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import quax
import quax.examples.lora as lora
import quax.examples.unitful as unitful

jax.config.update("jax_enable_x64", True)


class Scaled(quax.ArrayValue):
    """An array times a number that is kept apart."""

    array: jax.Array
    scale: jax.Array

    def aval(self):
        return jax.core.ShapedArray(self.array.shape, self.array.dtype)

    def materialise(self):
        return self.array * self.scale


@quax.register(jax.lax.mul_p)
def _(x: Scaled, y: Scaled, **params):
    return Scaled(x.array * y.array, x.scale * y.scale)


@quax.register(jax.lax.neg_p)
def _(x: Scaled, **params):
    return Scaled(x.array, -x.scale)


def main():
    x = Scaled(jnp.arange(3.0), jnp.asarray(2.0))
    squared = quax.quaxify(lambda a: -(a * a))(x)
    inside = quax.quaxify(jax.jit(lambda a: (a * a) + 1.0))(x)
    keys = jax.random.split(jax.random.key(9), 2)
    linear = eqx.nn.Linear(4, 4, key=keys[0], dtype=jnp.float64)
    small = lora.loraify(linear, rank=2, key=keys[1])
    run = eqx.filter_jit(quax.quaxify(lambda f, v: f(v)))
    slope = eqx.filter_grad(lambda f: jnp.sum(run(f, jnp.ones(4)) ** 2))(small)
    length = unitful.Unitful(jnp.asarray(3.0), {unitful.meters: 1})
    area = quax.quaxify(lambda a, b: a * b)(length, length)
    try:
        refused = repr(quax.quaxify(lambda a, b: a + b)(area, length))
    except Exception as e:
        refused = type(e).__name__
    print(json.dumps({
        "squared": [squared.array.tolist(), float(squared.scale)],
        "inside": inside.tolist(), "lora": run(small, jnp.ones(4)).tolist(),
        "slope": [g.tolist() for g in jax.tree.leaves(slope)],
        "area": [float(area.array), sorted(area.units.values())], "refused": refused,
        "mapped": quax.quaxify(jax.vmap(lambda a: a + 2.0))(x).tolist(),
    }))


if __name__ == "__main__":
    main()
