"""Rarely used functions of `mjax.numpy`, loaded together on the first use of any of them.

Aliases mark re-exports for type checkers; `mjax.numpy.__all__` lists the names.
"""
# ruff: noqa: I001  (one statement for each module)

from mjax._numpy.calculus import (
    diff as diff,
    ediff1d as ediff1d,
    gradient as gradient,
    interp as interp,
    polyval as polyval,
    trapezoid as trapezoid,
)
from mjax._numpy.convolving import (
    convolve as convolve,
    correlate as correlate,
)
from mjax._numpy.divisors import (
    gcd as gcd,
    lcm as lcm,
)
from mjax._numpy.dlpack import (
    from_dlpack as from_dlpack,
)
from mjax._numpy.fitting import (
    polyfit as polyfit,
    roots as roots,
)
from mjax._numpy.histograms import (
    bincount as bincount,
    histogram as histogram,
    histogram2d as histogram2d,
    histogram_bin_edges as histogram_bin_edges,
    histogramdd as histogramdd,
)
from mjax._numpy.index_tricks import (
    c_ as c_,
    index_exp as index_exp,
    ix_ as ix_,
    mask_indices as mask_indices,
    mgrid as mgrid,
    ogrid as ogrid,
    r_ as r_,
    ravel_multi_index as ravel_multi_index,
    s_ as s_,
    unravel_index as unravel_index,
)
from mjax._numpy.nanfunctions import (
    nanargmax as nanargmax,
    nanargmin as nanargmin,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    nanmax as nanmax,
    nanmean as nanmean,
    nanmin as nanmin,
    nanprod as nanprod,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
)
from mjax._numpy.padding import (
    pad as pad,
)
from mjax._numpy.polynomials import (
    poly as poly,
    polyadd as polyadd,
    polyder as polyder,
    polydiv as polydiv,
    polyint as polyint,
    polymul as polymul,
    polysub as polysub,
    vander as vander,
)
from mjax._numpy.quantiles import (
    median as median,
    nanmedian as nanmedian,
    nanpercentile as nanpercentile,
    nanquantile as nanquantile,
    percentile as percentile,
    quantile as quantile,
)
from mjax._numpy.sets import (
    intersect1d as intersect1d,
    isin as isin,
    setdiff1d as setdiff1d,
    setxor1d as setxor1d,
    union1d as union1d,
    unique as unique,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
)
from mjax._numpy.vectorizing import (
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    vectorize as vectorize,
)
from mjax._numpy.windows import (
    bartlett as bartlett,
    blackman as blackman,
    hamming as hamming,
    hanning as hanning,
    i0 as i0,
    kaiser as kaiser,
)
