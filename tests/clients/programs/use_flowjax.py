"""flowjax: normalizing flows, their densities and a fit."""

import json

import equinox as eqx
import flowjax.bijections as bij
import jax
import jax.numpy as jnp
from flowjax.distributions import Normal, StandardNormal, Transformed
from flowjax.flows import coupling_flow, masked_autoregressive_flow
from flowjax.train import fit_to_data
from paramax import non_trainable, unwrap

jax.config.update("jax_enable_x64", True)


def main():
    keys = jax.random.split(jax.random.key(8), 4)
    points = jax.random.normal(keys[0], (16, 2)) * jnp.array([1.0, 0.5]) + 0.3
    found = {}
    base = StandardNormal((2,))
    for name, flow in (
            ("autoregressive", masked_autoregressive_flow(
                keys[1], base_dist=base, flow_layers=2, nn_width=6)),
            ("coupling", coupling_flow(
                keys[2], base_dist=base, flow_layers=2, nn_width=6,
                transformer=bij.RationalQuadraticSpline(knots=4, interval=3)))):
        found[f"{name} density"] = eqx.filter_jit(lambda f, x: f.log_prob(x))(
            flow, points).tolist()
        found[f"{name} samples"] = flow.sample(keys[3], (3,)).tolist()
    chain = Transformed(Normal(jnp.zeros(2)), bij.Chain(
        [bij.Affine(jnp.ones(2), jnp.array([2.0, 3.0])), bij.Tanh((2,))]))
    found["chain"] = chain.log_prob(points / 9).tolist()
    fixed = eqx.tree_at(lambda d: d.base_dist, chain, replace_fn=non_trainable)
    found["slope"] = [g.tolist() for g in jax.tree.leaves(eqx.filter_grad(
        lambda d: unwrap(d).log_prob(points / 9).sum())(fixed))]
    flow = masked_autoregressive_flow(keys[1], base_dist=base, flow_layers=1, nn_width=4)
    _, losses = fit_to_data(keys[2], flow, points, max_epochs=2, batch_size=8,
                            show_progress=False)
    found["losses"] = [float(x) for x in losses["train"]]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
