"""distrax: distributions, bijectors and the transformed, with derivatives and batches."""

import json

import distrax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def main():
    key, x = jax.random.key(4), jnp.asarray([0.2, 0.5, 0.3])
    found = {}
    for name, d, value in (
            ("Normal", distrax.Normal(0.5, 2.0), x),
            ("Gumbel", distrax.Gumbel(0.5, 2.0), x),
            ("Laplace", distrax.Laplace(0.5, 2.0), x),
            ("Beta", distrax.Beta(2.0, 3.0), x),
            ("Categorical", distrax.Categorical(logits=x), 1),
            ("Bernoulli", distrax.Bernoulli(probs=x), 1),
            ("Dirichlet", distrax.Dirichlet(x + 1), x),
            ("Diagonal", distrax.MultivariateNormalDiag(x, x + 1), x + 0.1),
            ("Mixture", distrax.MixtureSameFamily(
                distrax.Categorical(logits=x), distrax.Normal(x, x + 1)), 0.4)):
        draws, logs = d.sample_and_log_prob(seed=key, sample_shape=3)
        found[name] = [d.log_prob(value).tolist(), draws.tolist(), logs.tolist()]
    chain = distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.1, 0.7)])
    y, logdet = chain.forward_and_log_det(x)
    found["chain"] = [y.tolist(), logdet.tolist(), chain.inverse(y).tolist()]
    spline = distrax.RationalQuadraticSpline(
        jnp.linspace(-1, 1, 13), range_min=0.0, range_max=1.0)
    found["spline"] = [v.tolist() for v in spline.forward_and_log_det(x)]
    flow = distrax.Transformed(distrax.MultivariateNormalDiag(jnp.zeros(3)),
                               distrax.Block(distrax.Sigmoid(), 1))
    found["flow"] = float(flow.log_prob(x))
    found["slope"] = jax.jit(jax.grad(lambda m: distrax.Normal(m, 1.0).log_prob(x).sum()))(
        0.3).tolist()
    found["divergence"] = float(distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(0.5, 2.0)))
    found["batch"] = jax.vmap(lambda m: distrax.Normal(m, 1.0).entropy())(x).tolist()
    hmm = distrax.HMM(distrax.Categorical(probs=jnp.asarray([0.4, 0.6])),
                      distrax.Categorical(probs=jnp.asarray([[0.8, 0.2], [0.3, 0.7]])),
                      distrax.Normal(jnp.asarray([0.0, 1.0]), 1.0))
    alphas, betas, gammas, log_prob = hmm.forward_backward(x)
    found["hmm"] = [alphas.tolist(), gammas.tolist(), float(log_prob)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
