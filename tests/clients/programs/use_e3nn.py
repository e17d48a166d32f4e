"""e3nn-jax: representations of rotations, spherical harmonics and tensor products."""

import json

import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def main():
    keys = jax.random.split(jax.random.key(6), 4)
    x = e3nn.normal("2x0e + 1o + 2e", keys[0], (3,), dtype=jnp.float64)
    y = e3nn.spherical_harmonics("0e + 1o + 2e", jax.random.normal(keys[1], (3, 3)), True)
    product = e3nn.tensor_product(x, y, filter_ir_out=("0e", "1o"))
    turn = e3nn.rand_matrix(keys[2], (), dtype=jnp.float64)
    turned = e3nn.tensor_product(
        x.transform_by_matrix(turn), y.transform_by_matrix(turn), filter_ir_out=("0e", "1o"))
    error = jnp.abs(turned.array - product.transform_by_matrix(turn).array).max()
    linear = e3nn.FunctionalLinear(x.irreps, e3nn.Irreps("0e + 1o"))
    weights = [jax.random.normal(keys[3], w.path_shape, jnp.float64) for w in linear.instructions]
    summed = e3nn.scatter_sum(product, dst=jnp.array([0, 1, 0]), output_size=2)

    def energy(r):
        return e3nn.norm(e3nn.spherical_harmonics("2e", r, False)).array.sum()

    point = e3nn.IrrepsArray("1o", jnp.array([0.3, -0.2, 0.9]))
    gated = e3nn.gate(e3nn.IrrepsArray("2x0e + 1o", jnp.arange(5.0)))
    grad = e3nn.grad(lambda r: e3nn.norm(r))
    print(json.dumps({
        "harmonics": y.array.tolist(), "product": product.array.tolist(),
        "irreps": str(product.irreps), "equivariant": bool(error < 1e-9),
        "linear": linear(weights, x[0]).array.tolist(), "summed": summed.array.tolist(),
        "energy": jax.jit(energy)(point).tolist(), "slope": jax.grad(energy)(point).array.tolist(),
        "gated": gated.array.tolist(), "gradient": grad(point).array.tolist(),
        "Clebsch-Gordan": float(jnp.abs(e3nn.clebsch_gordan(1, 2, 3)).sum()),
        "batch": e3nn.utils.vmap(lambda a: e3nn.norm(a))(x).array.tolist(),
    }))


if __name__ == "__main__":
    main()
