"""Functions of `mjax.numpy` that few programs use: they load together, with the first of them."""

from mjax._numpy.calculus import (
    diff,
    ediff1d,
    gradient,
    interp,
    polyval,
    trapezoid,
)
from mjax._numpy.convolving import convolve, correlate
from mjax._numpy.divisors import gcd, lcm
from mjax._numpy.exchange import from_dlpack
from mjax._numpy.fitting import polyfit, roots
from mjax._numpy.histograms import (
    bincount,
    histogram,
    histogram2d,
    histogram_bin_edges,
    histogramdd,
)
from mjax._numpy.index_tricks import (
    c_,
    index_exp,
    ix_,
    mask_indices,
    mgrid,
    ogrid,
    r_,
    ravel_multi_index,
    s_,
    unravel_index,
)
from mjax._numpy.nanfunctions import (
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
)
from mjax._numpy.padding import (
    pad,
)
from mjax._numpy.polynomials import (
    poly,
    polyadd,
    polyder,
    polydiv,
    polyint,
    polymul,
    polysub,
    vander,
)
from mjax._numpy.quantiles import (
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from mjax._numpy.sets import (
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from mjax._numpy.vectorizing import apply_along_axis, apply_over_axes, vectorize
from mjax._numpy.windows import bartlett, blackman, hamming, hanning, kaiser

__all__ = [
    "apply_along_axis", "apply_over_axes", "bartlett", "bincount", "blackman", "c_", "convolve",
    "correlate", "diff", "ediff1d", "from_dlpack", "gcd", "gradient", "hamming", "hanning",
    "histogram", "histogram2d", "histogram_bin_edges", "histogramdd", "index_exp", "interp",
    "intersect1d", "isin", "ix_", "kaiser", "lcm", "mask_indices", "median", "mgrid", "nanargmax",
    "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin",
    "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar", "ogrid", "pad",
    "percentile", "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul",
    "polysub", "polyval", "quantile", "r_", "ravel_multi_index", "roots", "s_", "setdiff1d",
    "setxor1d", "trapezoid", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unravel_index", "vander", "vectorize",
]
