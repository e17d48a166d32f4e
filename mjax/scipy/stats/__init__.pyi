"""Types of `mjax.scipy.stats`; a test compares them with the functions."""


from mjax._engine.runtime.arrays.annotations import ArrayLike
from mjax._engine.runtime.arrays.array import Array
from mjax._scipy.stats.kde import gaussian_kde as gaussian_kde
from mjax._scipy.stats.ranking import ModeResult
from mjax.scipy.stats import bernoulli as bernoulli
from mjax.scipy.stats import beta as beta
from mjax.scipy.stats import betabinom as betabinom
from mjax.scipy.stats import binom as binom
from mjax.scipy.stats import cauchy as cauchy
from mjax.scipy.stats import chi2 as chi2
from mjax.scipy.stats import dirichlet as dirichlet
from mjax.scipy.stats import expon as expon
from mjax.scipy.stats import gamma as gamma
from mjax.scipy.stats import gennorm as gennorm
from mjax.scipy.stats import geom as geom
from mjax.scipy.stats import gumbel_l as gumbel_l
from mjax.scipy.stats import gumbel_r as gumbel_r
from mjax.scipy.stats import laplace as laplace
from mjax.scipy.stats import logistic as logistic
from mjax.scipy.stats import multinomial as multinomial
from mjax.scipy.stats import multivariate_normal as multivariate_normal
from mjax.scipy.stats import nbinom as nbinom
from mjax.scipy.stats import norm as norm
from mjax.scipy.stats import pareto as pareto
from mjax.scipy.stats import poisson as poisson
from mjax.scipy.stats import t as t
from mjax.scipy.stats import truncnorm as truncnorm
from mjax.scipy.stats import uniform as uniform
from mjax.scipy.stats import vonmises as vonmises
from mjax.scipy.stats import wrapcauchy as wrapcauchy

__all__: list[str]

def mode(a: ArrayLike, axis: int | None = ..., nan_policy: str = ..., keepdims: bool = ...
         ) -> ModeResult: ...
def rankdata(a: ArrayLike, method: str = ..., *, axis: int | None = ..., nan_policy: str = ...
             ) -> Array: ...
def sem(a: ArrayLike, axis: int | None = ..., ddof: int = ..., nan_policy: str = ..., *,
        keepdims: bool = ...) -> Array: ...
