"""Special functions, as `scipy.special` has them."""

from mjax._engine.base.faces import face
from mjax._scipy.special.bessel import bessel_jn, i0, i0e, i1, i1e
from mjax._scipy.special.beta import beta, betainc, betaln, gammainc, gammaincc
from mjax._scipy.special.entropy import (
    boxcox,
    boxcox1p,
    entr,
    expit,
    kl_div,
    logit,
    rel_entr,
    xlog1py,
    xlogy,
)
from mjax._scipy.special.errors import dawsn, erf, erfc, erfcx, erfinv, fresnel, wofz
from mjax._scipy.special.gamma import (
    comb,
    digamma,
    factorial,
    gamma,
    gammaln,
    gammasgn,
    loggamma,
    multigammaln,
    poch,
    polygamma,
)
from mjax._scipy.special.harmonics import sph_harm_y
from mjax._scipy.special.hypergeometric import hyp1f1, hyp2f1
from mjax._scipy.special.integrals import exp1, expi, expn, sici, spence
from mjax._scipy.special.legendre import lpmn, lpmn_values
from mjax._scipy.special.normal import log_ndtr, ndtr, ndtri, owens_t
from mjax._scipy.special.sums import log_softmax, logsumexp, softmax
from mjax._scipy.special.zeta import bernoulli, zeta

__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb", "dawsn",
    "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit", "expn",
    "factorial", "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn", "hyp1f1",
    "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax", "loggamma", "logit",
    "logsumexp", "lpmn", "lpmn_values", "multigammaln", "ndtr", "ndtri", "owens_t", "poch",
    "polygamma", "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py", "xlogy",
    "zeta",
]

face("mjax.scipy.special")
