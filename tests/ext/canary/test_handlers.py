"""Random models under handlers of effects, and as programs: densities in closed form, inference."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import mjax
import mjax.numpy as jnp
from mjax import lax, random
from mjax.flatten_util import ravel_pytree
from mjax_ext import core
from tests.ext.canary import handlers as h
from tests.ext.canary.handlers import Bernoulli, Exponential, HandlerError, Normal
from tests.ext.canary.staged_models import (
    ModelError,
    assess,
    draw,
    draw_p,
    importance,
    simulate,
)

X = np.array([0.0, 1.0, 2.0, 3.0], np.float32)
Y = np.array([0.5, 1.0, 2.5, 2.0], np.float32)


def regression(x, y=None):
    slope = h.sample("slope", Normal(0.0, 2.0))
    bias = h.param("bias", 0.5)
    return h.sample("y", Normal(slope * x + bias, 0.7), obs=y)


def close(actual, expected, rtol=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-5)


def joint(slope, bias=0.5):
    """The log density of `regression`, by SciPy."""
    return st.norm.logpdf(slope, 0, 2) + st.norm.logpdf(Y, slope * X + bias, 0.7).sum()


def slope_of_joint(slope):
    return -slope / 4 + np.sum((Y - slope * X - 0.5) * X) / 0.49


# ---- handlers ----------------------------------------------------------------------------


def test_a_seeded_model_draws_the_same_under_transformations():
    y = h.seed(regression, 0)(X)
    sites = h.trace(h.seed(regression, 0)).get_trace(X)
    close(y, sites["y"].value)
    assert list(sites) == ["slope", "bias", "y"] and not sites["y"].observed
    close(mjax.jit(lambda key: h.seed(regression, key)(X))(random.key(0)), y)
    keys = random.split(random.key(1))
    rows = mjax.vmap(lambda key: h.seed(regression, key)(X))(keys)
    close(rows, np.stack([h.seed(regression, key)(X) for key in keys]))
    assert not np.allclose(rows[0], rows[1])


def test_densities_and_their_derivatives():
    density = lambda slope: h.log_density(regression, {"slope": slope})(X, Y)[0]
    close(density(1.3), joint(1.3))
    close(mjax.jit(mjax.vmap(density))(X), [joint(s) for s in X])
    close(mjax.grad(density)(1.3), slope_of_joint(1.3))
    close(mjax.jit(mjax.vmap(mjax.grad(density)))(X), list(map(slope_of_joint, X)))
    close(h.log_density(regression, {"slope": 1.3, "bias": -1.0})(X, Y)[0], joint(1.3, -1.0))
    jaxpr = mjax.make_jaxpr(mjax.grad(density))(1.3)
    core.check_jaxpr(jaxpr)


def test_handlers_of_values_and_weights():
    given = h.condition(regression, {"slope": 1.0})
    sites = h.trace(h.seed(given, 0)).get_trace(X, Y)
    assert sites["slope"].observed and sites["y"].observed
    hidden = h.trace(h.seed(h.block(regression, ["slope"]), 0))
    with pytest.raises(HandlerError, match="sample 'slope' needs a key"):
        hidden.get_trace(X)
    assert list(h.trace(h.block(h.seed(regression, 0), ["slope"])).get_trace(X)) == ["bias", "y"]

    def halves(x, y):
        with h.scale(factor=0.5), h.scale(factor=0.5):
            h.sample("a", Normal(x, 1.0), obs=y)
        with h.mask(keep=X > 0.5):
            h.sample("b", Normal(x, 1.0), obs=y)

    found, sites = h.log_density(halves, {})(X, Y)
    terms = st.norm.logpdf(Y, X, 1)
    close([sites["a"].log_prob(), sites["b"].log_prob()], [terms.sum() / 4, terms[1:].sum()])
    close(found, terms.sum() / 4 + terms[1:].sum())


def test_errors_of_handlers():
    with pytest.raises(HandlerError, match="sample 'slope' needs a key"):
        regression(X)
    twice = lambda: [h.sample("a", Normal(0.0, 1.0)) for _ in range(2)]
    with pytest.raises(HandlerError, match="two sites have the name 'a'"):
        h.trace(h.seed(twice, 0))()
    for transform in (mjax.jit, lambda f: lambda: mjax.vmap(lambda x: f() + x)(X),
                      lambda f: lambda: mjax.grad(lambda x: f() * x)(1.0)):
        model = transform(lambda: h.sample("a", Normal(0.0, 1.0)))
        with pytest.raises(HandlerError, match=r"'a' is called in a transformation .* seed\."):
            h.trace(h.seed(model, 0))()


# ---- loops -------------------------------------------------------------------------------


def walk(y):
    def step(z, y):
        z = h.sample("z", Normal(z, 0.5))
        h.sample("y", Normal(z, 1.0), obs=y)
        return z, z

    return h.scan(step, 0.0, y)[1]


def test_sites_of_a_scan_are_stacked():
    z = np.array([0.2, 0.1, -0.4, 1.0], np.float32)
    before = np.concatenate([[0], z[:-1]])
    expected = st.norm.logpdf(z, before, 0.5).sum() + st.norm.logpdf(Y, z, 1).sum()
    density = lambda z: h.log_density(walk, {"z": z})(Y)[0]
    close(density(z), expected)
    close(mjax.jit(mjax.grad(density))(z), (before - z) / 0.25 + np.append(
        z[1:] - z[:-1], 0) / 0.25 + Y - z)
    close(h.log_density(h.scale(walk, 2.0), {"z": z})(Y)[0], 2 * expected)
    sites = h.trace(h.seed(walk, 0)).get_trace(Y)
    assert sites["z"].value.shape == (4,) and sites["y"].observed and sites["z"].loops == 1
    close(sites["z"].dist.loc[1:], sites["z"].value[:-1])
    with pytest.raises(HandlerError, match=r"'z', which is in a scan, must have the shape \(4,\)"):
        h.trace(h.seed(h.substitute(walk, {"z": z[:2]}), 0))(Y)


def test_marginal_density_of_a_random_walk():
    # z[t] is the sum of t + 1 steps, and y = z + noise: one normal distribution of all y.
    steps = np.tril(np.ones((4, 4)))
    exact = st.multivariate_normal.logpdf(Y, np.zeros(4), 0.25 * steps @ steps.T + np.eye(4))

    def weight(key):
        sites = h.trace(h.seed(walk, key)).get_trace(Y)
        return sites["y"].log_prob()

    weights = mjax.jit(mjax.vmap(weight))(random.split(random.key(0), 20000))
    estimate = mjax.nn.logsumexp(weights) - np.log(20000)
    np.testing.assert_allclose(estimate, exact, atol=0.03)


# ---- inference ---------------------------------------------------------------------------


def hamiltonian(density, key, start, steps=800, leaps=8, size=0.12):
    """Hamiltonian Monte Carlo of a density of a tree."""
    flat, unravel = ravel_pytree(start)
    value_and_slope = mjax.value_and_grad(lambda q: density(unravel(q)))

    def step(state, key):
        q, value, slope = state
        kick, accept = random.split(key)
        p = random.normal(kick, q.shape)

        def leap(_, state):
            q, p, _, slope = state
            p = p + size / 2 * slope
            q = q + size * p
            value, slope = value_and_slope(q)
            return q, p + size / 2 * slope, value, slope

        new, q_momentum, new_value, new_slope = lax.fori_loop(0, leaps, leap, (q, p, value, slope))
        energy = new_value - value + (p @ p - q_momentum @ q_momentum) / 2
        taken = jnp.log(random.uniform(accept)) < energy
        state = mjax.tree.map(lambda a, b: jnp.where(taken, a, b), (new, new_value, new_slope),
                              (q, value, slope))
        return state, state[0]

    first = (flat, *value_and_slope(flat))
    draws = lax.scan(step, first, random.split(key, steps))[1]
    return mjax.vmap(unravel)(draws)


def test_hamiltonian_monte_carlo_of_a_linear_model():
    def model(x, y):
        slope = h.sample("slope", Normal(0.0, 2.0))
        bias = h.sample("bias", Normal(0.0, 2.0))
        h.sample("y", Normal(slope * x + bias, 0.7), obs=y)

    density = lambda params: h.log_density(model, params)(X, Y)[0]
    start = {"slope": jnp.float32(0), "bias": jnp.float32(0)}
    sampler = mjax.jit(mjax.vmap(lambda key: hamiltonian(density, key, start)))
    chains = sampler(random.split(random.key(0), 4))
    design = np.stack([np.ones(4), X], 1)
    precision = design.T @ design / 0.49 + np.eye(2) / 4
    covariance = np.linalg.inv(precision)
    mean = covariance @ design.T @ Y / 0.49
    draws = np.stack([chains["bias"][:, 100:].ravel(), chains["slope"][:, 100:].ravel()])
    np.testing.assert_allclose(draws.mean(1), mean, atol=0.06)
    np.testing.assert_allclose(np.cov(draws), covariance, atol=0.05)


def test_importance_sampling_of_a_coin_and_a_rate():
    def coin(flips):
        rate = draw("rate", Exponential(2.0))
        return draw("flips", Bernoulli(jnp.exp(-rate) * jnp.ones(flips.shape)))

    # exp(-rate) has the density 2 p on (0, 1): the evidence is 2 B(heads + 2, tails + 1).
    flips = np.array([True, True, False, True, False])
    weigh = lambda key: importance(coin)(key, {"flips": flips}, flips)[1:]
    choices, weights = mjax.jit(mjax.vmap(weigh))(random.split(random.key(0), 20000))
    evidence = np.exp(weights)
    np.testing.assert_allclose(evidence.mean(), 2 * 24 * 2 / 5040, rtol=0.02)
    mean = np.sum(evidence * np.exp(-choices["rate"])) / evidence.sum()
    np.testing.assert_allclose(mean, 5 / 8, atol=0.01)


# ---- models as programs ------------------------------------------------------------------


def staged(x):
    slope = draw("slope", Normal(0.0, 2.0))
    return mjax.jit(lambda slope: draw("y", Normal(slope * x + 0.5, 0.7)))(slope)


def test_densities_of_programs():
    density = lambda slope: assess(staged)({"slope": slope, "y": Y}, X)[1]
    close(density(1.3), joint(1.3))
    close(density(1.3), h.log_density(regression, {"slope": 1.3})(X, Y)[0])
    close(mjax.jit(mjax.vmap(mjax.grad(density)))(X), list(map(slope_of_joint, X)))
    core.check_jaxpr(mjax.make_jaxpr(mjax.grad(density))(1.3))
    y, choices = simulate(staged)(random.key(0), X)
    close(y, choices["y"])
    result, _, weight = importance(staged)(random.key(0), {"slope": 1.0}, X)
    close(weight, st.norm.logpdf(1, 0, 2))
    assert result.shape == (4,)


def test_densities_of_loops_and_branches():
    def model(x):
        def step(z, x):
            z = lax.cond(x > 1, lambda z: draw("z", Normal(z, 1.0)),
                         lambda z: draw("z", Normal(-z, 2.0)), z)
            return z, 2.0 * z

        return lax.scan(step, 1.0, x)[1]

    before = np.concatenate([[1], Y[:-1]])
    expected = st.norm.logpdf(Y, np.where(X > 1, before, -before), np.where(X > 1, 1, 2)).sum()
    (result, density) = mjax.jit(assess(model))({"z": Y}, X)
    close(result, 2 * Y)
    close(density, expected)
    result, choices = simulate(model)(random.key(0), X)
    close(result, 2 * choices["z"])
    core.check_jaxpr(mjax.make_jaxpr(simulate(model))(random.key(0), X))


def test_a_batch_of_draws_has_a_density_of_all():
    rows = np.stack([X, Y])
    model = lambda x: mjax.vmap(lambda x, s: draw("a", Normal(x, s)), (1, None))(x, rows[:, 0] + 1)
    values = np.arange(8, dtype=np.float32).reshape(4, 2)
    close(assess(model)({"a": values}, rows)[1],
          st.norm.logpdf(values, rows.T, rows[:, 0] + 1).sum())
    jaxpr = mjax.make_jaxpr(model)(rows)
    core.check_jaxpr(jaxpr)
    assert jaxpr.eqns[-1].primitive is draw_p


def test_errors_of_programs():
    for run in (staged, mjax.jit(staged), mjax.vmap(staged)):
        with pytest.raises(ValueError, match="Drawing: their policy says lowerable=False"):
            run(np.stack([X, Y]))
    with pytest.raises(ValueError, match="differentiation of draw, .* policy says differentiable"):
        mjax.grad(lambda x: draw("a", Normal(x, 1.0)))(1.0)
    with pytest.raises(ModelError, match="no value is given for 'slope'"):
        assess(staged)({"y": Y}, X)
    with pytest.raises(ModelError, match="does not draw 'other'"):
        importance(staged)(random.key(0), {"other": 1.0}, X)
    endless = lambda x: lax.while_loop(lambda x: x < 1, lambda x: draw("a", Normal(x, 1.0)), x)
    with pytest.raises(ModelError, match=r"while draws \['a'\], in a way that has no density"):
        simulate(endless)(random.key(0), 0.0)
