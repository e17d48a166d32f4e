"""Random numbers from explicit keys.

A key is a value: the same key gives the same numbers, so each is used once. `split` makes
new keys of one, `fold_in` makes one of a key and a number.

    key = random.key(0)
    key, subkey = random.split(key)
    x = random.normal(subkey, (3,))

All values are those that JAX gives for the same keys: bits and integers exactly, floats up to
rounding.
"""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._numpy.random.continuous import (
    cauchy,
    exponential,
    gumbel,
    laplace,
    logistic,
    pareto,
    triangular,
    weibull_min,
)
from mjax._numpy.random.counts import binomial, multinomial, poisson
from mjax._numpy.random.discrete import categorical, choice, geometric, permutation
from mjax._numpy.random.gamma import gamma, loggamma, random_gamma_p
from mjax._numpy.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from mjax._numpy.random.normal import (
    double_sided_maxwell,
    lognormal,
    maxwell,
    normal,
    rayleigh,
    truncated_normal,
    wald,
)
from mjax._numpy.random.of_gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    generalized_normal,
    t,
)
from mjax._numpy.random.uniform import bernoulli, bits, rademacher, randint, uniform

if TYPE_CHECKING:
    from mjax._numpy.random.vectors import multivariate_normal, orthogonal

__all__ = [
    # keys
    "PRNGKey", "clone", "fold_in", "key", "key_data", "key_dtype", "key_impl", "split",
    "wrap_key_data",
    # bits, floats, integers
    "bernoulli", "bits", "rademacher", "randint", "uniform",
    # continuous distributions
    "ball", "beta", "cauchy", "chisquare", "dirichlet", "double_sided_maxwell", "exponential", "f",
    "gamma", "generalized_normal", "gumbel", "laplace", "loggamma", "logistic", "lognormal",
    "maxwell", "normal", "pareto", "random_gamma_p",
    "rayleigh", "t", "triangular", "truncated_normal", "wald", "weibull_min",
    # discrete distributions
    "binomial", "categorical", "choice", "geometric", "multinomial", "permutation", "poisson",
    # distributions that are made with linear algebra, which takes long to load
    "multivariate_normal", "orthogonal",
]

face("mjax.random", later=dict.fromkeys(
    ("multivariate_normal", "orthogonal"), "mjax._numpy.random.vectors"))
