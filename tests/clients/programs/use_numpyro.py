"""numpyro: log densities, a model with plates, HMC, variational inference, a sparse matrix."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import scipy.sparse
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density

jax.config.update("jax_enable_x64", True)
X = np.linspace(-1, 1, 8)
Y = 1.5 * X + np.array([0.1, -0.2, 0.05, 0.0, 0.2, -0.1, 0.1, -0.05])


def model(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0.0, 2.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        numpyro.sample("y", dist.Normal(slope * x, noise), obs=y)


def main():
    key = jax.random.key(3)
    found = {"log densities": [float(jnp.sum(d.log_prob(jnp.asarray(v)))) for d, v in (
        (dist.Gamma(2.0, 3.0), 0.7), (dist.Beta(2.0, 3.0), 0.4), (dist.StudentT(4.0), 1.3),
        (dist.Poisson(3.0), 2), (dist.Dirichlet(jnp.ones(3)), [0.2, 0.3, 0.5]),
        (dist.MultivariateNormal(jnp.zeros(2), 2 * jnp.eye(2)), [0.1, 0.2]),
        (dist.LKJCholesky(2, 1.5), [[1.0, 0.0], [0.6, 0.8]]),
        (dist.TransformedDistribution(dist.Normal(0, 1), dist.transforms.ExpTransform()), 0.9))]}
    values = {"slope": 1.2, "noise": 0.3}
    found["joint"] = float(log_density(model, (X, Y), {}, values)[0])
    sites = trace(seed(substitute(model, {"noise": 0.3}), key)).get_trace(X)
    found["draws"] = [float(sites["slope"]["value"]), sites["y"]["value"].tolist()]
    adjacency = scipy.sparse.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], float))
    car = dist.CAR(0.0, 0.5, 1.2, adjacency, is_sparse=True)
    found["sparse"] = float(car.log_prob(jnp.asarray([0.1, -0.4, 0.2])))
    kernel = NUTS(model, max_tree_depth=3)
    mcmc = MCMC(kernel, num_warmup=20, num_samples=5, progress_bar=False)
    mcmc.run(key, X, Y)
    found["first draw"] = float(mcmc.get_samples()["slope"].shape[0])
    mean = np.mean(mcmc.get_samples()["slope"])
    found["near"] = bool(abs(mean - 1.5) < 0.5)
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
    state = svi.init(key, X, Y)
    losses = []
    for _ in range(3):
        state, loss = jax.jit(svi.update)(state, X, Y)
        losses.append(float(loss))
    found["losses"] = losses
    print(json.dumps(found))


if __name__ == "__main__":
    main()
