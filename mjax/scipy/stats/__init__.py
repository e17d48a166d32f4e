"""Probability distributions and statistics; distributions load when they are first used."""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax._scipy.stats.kde import gaussian_kde
from mjax._scipy.stats.ranking import mode, rankdata, sem

if TYPE_CHECKING:
    from mjax.scipy.stats import (
        bernoulli,
        beta,
        betabinom,
        binom,
        cauchy,
        chi2,
        dirichlet,
        expon,
        gamma,
        gennorm,
        geom,
        gumbel_l,
        gumbel_r,
        laplace,
        logistic,
        multinomial,
        multivariate_normal,
        nbinom,
        norm,
        pareto,
        poisson,
        t,
        truncnorm,
        uniform,
        vonmises,
        wrapcauchy,
    )

__all__ = [
    "gaussian_kde", "mode", "rankdata", "sem", "bernoulli", "beta", "betabinom", "binom", "cauchy",
    "chi2", "dirichlet", "expon", "gamma", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace",
    "logistic", "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t",
    "truncnorm", "uniform", "vonmises", "wrapcauchy",
]

face("mjax.scipy.stats")
