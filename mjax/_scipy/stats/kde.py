"""Kernel density estimates."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.errors import LazyNoArrayError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.tree_registration import register_pytree_node_class
from mjax._engine.ir.types import typeof
from mjax._engine.linalg.cholesky import cholesky
from mjax._engine.linalg.triangular import triangular_solve
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.shapes import array_of, expand_dims, moveaxis, reshape
from mjax._numpy.core import cast, check_array, promote_dtypes_inexact
from mjax._numpy.creation import asarray, full
from mjax._numpy.fused import fused
from mjax._numpy.indexing.read import getitem
from mjax._numpy.matrices import diagonal
from mjax._numpy.products import matmul
from mjax._numpy.random.discrete import choice
from mjax._numpy.random.keys import split
from mjax._numpy.random.normal import normal
from mjax._numpy.reductions import sum
from mjax._numpy.statistics import cov
from mjax._numpy.systems import inv
from mjax._scipy.special.normal import distribution
from mjax._scipy.special.sums import logsumexp


def _rows(name: str, x: Any) -> Any:
    """The points as the columns of a matrix."""
    x = array_of(check_array(name, x))
    shape = typeof(x).shape
    return x if len(shape) >= 2 else reshape(x, (1, math.prod(shape)))


def _weights(weights: Any, n: int) -> Any:
    weights = array_of(weights)
    shape = typeof(weights).shape or (1,)
    if len(shape) != 1 or shape[0] != n:
        msg = (f"gaussian_kde: weights must be of shape ({n},), one for each point of the dataset, "
               f"got {shape}.")
        raise ValueError(msg)
    weights = reshape(weights, shape)
    return weights / sum(weights)


@register_pytree_node_class
class gaussian_kde:
    """A kernel density estimate: the mean of normal densities centered at the data points.

    Args:
      dataset: array of points, of shape `(d, n)`, or `(n,)` in one dimension.
      bw_method: the bandwidth, which multiplies the standard deviation of the data: "scott" (the
        default), "silverman", a number, or a function from this object to a number.
      weights: array of shape `(n,)`, the weights of the points; normalized to sum 1.

    Attributes:
      dataset, weights: the arguments, in an inexact dtype.
      d, n: the number of dimensions and of points.
      neff: the effective number of points, `1 / sum(weights**2)`.
      covariance, inv_cov: the covariance matrix of the kernels and its inverse.

    Raises:
      NotImplementedError: the dataset is complex.
      ValueError: the dataset has fewer than two points, `weights` has another shape, or
        `bw_method` is unknown.

    Estimates are immutable pytrees. `set_bandwidth` and `integrate_box` are not supported;
    `integrate_box_1d` integrates in one dimension.

    Source: `scipy.stats.gaussian_kde`; Scott 1992, "Multivariate density estimation".

    Example:
      >>> kde = mjax.scipy.stats.gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
      >>> print(f"{kde(0.0)[0]:.4f}")
      0.3182
    """

    __slots__ = ("covariance", "dataset", "inv_cov", "neff", "weights")

    covariance: Any
    dataset: Any
    inv_cov: Any
    neff: Any
    weights: Any

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None):
        data = _rows("gaussian_kde", dataset)
        if dtypes.is_complex(typeof(data).dtype):
            msg = "gaussian_kde does not support complex data: give their parts as two rows."
            raise NotImplementedError(msg)
        if math.prod(typeof(data).shape) <= 1:
            msg = (f"gaussian_kde: the dataset should have multiple elements, got shape "
                   f"{typeof(data).shape}.")
            raise ValueError(msg)
        if weights is None:
            data, = promote_dtypes_inexact(data)
            n = typeof(data).shape[1]
            weights = full(n, 1.0 / n, dtype=typeof(data).dtype)
        else:
            data, weights = promote_dtypes_inexact(data, check_array("gaussian_kde", weights, 2))
            weights = _weights(weights, typeof(data).shape[1])
        self._set(dataset=data, weights=weights, neff=1 / sum(lax.square(weights)))
        factor = self._factor("scott" if bw_method is None else bw_method)
        spread = asarray(cov(data, rowvar=True, bias=False, aweights=weights))
        spread = reshape(spread, (self.d, self.d))
        self._set(covariance=spread * factor**2, inv_cov=inv(spread) / factor**2)

    def _factor(self, method: Any) -> Any:
        if isinstance(method, str) and method in ("scott", "silverman"):
            count = self.neff * ((self.d + 2) / 4 if method == "silverman" else 1)
            return lax.exp(lax.log(count) * (-1 / (self.d + 4)))
        if callable(method):
            return method(self)
        if isinstance(method, (bool, int, float)) or getattr(method, "shape", None) == ():
            return method
        msg = ('gaussian_kde: bw_method should be "scott", "silverman", a scalar, or a callable, '
               f"got {method!r}.")
        raise ValueError(msg)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"gaussian_kde cannot be changed: make another one with the new {name}."
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        msg = f"gaussian_kde cannot be changed: {name} stays."
        raise AttributeError(msg)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, without auxiliary data."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate with these arrays."""
        out = cls.__new__(cls)
        out._set(**dict(zip(("neff", "dataset", "weights", "covariance", "inv_cov"), children,
                            strict=True)))
        return out

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """The number of points."""
        return int(self.dataset.shape[1])

    @boundary
    def evaluate(self, points: Any) -> Any:
        """The density at the points.

        Args:
          points: array of shape `(d, m)`; in one dimension `(m,)`, and for one point `(d,)`.

        Returns:
          An array of shape `(m,)`.

        Raises:
          ValueError: the points and the dataset differ in dimension.
          NotImplementedError: the points are complex.
        """
        return _density(self.dataset, self.weights, self._points("evaluate", points), self.inv_cov)

    def __call__(self, points: Any) -> Any:
        """The density at the points; see `evaluate`."""
        return self.evaluate(points)

    def pdf(self, x: Any) -> Any:
        """The density at the points; see `evaluate`."""
        return self.evaluate(x)

    @boundary
    def logpdf(self, x: Any) -> Any:
        """The logarithm of the density at the points; see `evaluate`."""
        return _density(self.dataset, self.weights, self._points("logpdf", x), self.inv_cov,
                        logarithm=True)

    @boundary
    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of this density times a normal density.

        Args:
          mean: the normal density's mean, of shape `(d,)`, or a scalar in one dimension.
          cov: its covariance, of shape `(d, d)`, or a scalar in one dimension.

        Raises:
          ValueError: the shapes do not fit.
        """
        mean, cov = asarray(mean), asarray(cov)
        mean = mean.reshape(tuple([s for s in mean.shape if s != 1]) or (1,))
        cov = cov.reshape((1,) * (2 - cov.ndim) + cov.shape)
        for name, x, shape in (("mean", mean, (self.d,)), ("cov", cov, (self.d, self.d))):
            if x.shape != shape:
                msg = (f"gaussian_kde.integrate_gaussian: {name} must be of shape {shape} for a "
                       f"dataset of dimension {self.d}, got {x.shape}.")
                raise ValueError(msg)
        return _overlap(self.dataset, self.weights, self.covariance + cov,
                        expand_dims(mean, (1,)))[0]

    @boundary
    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of an interval, in one dimension.

        Args:
          low, high: scalars, the ends of the interval.

        Raises:
          ValueError: the density has more dimensions, or a bound is not a scalar.
        """
        if self.d != 1:
            msg = ("gaussian_kde.integrate_box_1d() only handles 1D pdfs, this one has dimension "
                   f"{self.d}.")
            raise ValueError(msg)
        low, high = asarray(low), asarray(high)
        if low.ndim or high.ndim:
            msg = ("gaussian_kde.integrate_box_1d: the bounds must be scalars, got shapes "
                   f"{low.shape} and {high.shape}.")
            raise ValueError(msg)
        return _probability(self.dataset[0], self.weights, self.covariance[0, 0], low, high)

    @boundary
    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of this density times another estimate.

        Raises:
          ValueError: their dimensions differ.
          TypeError: `other` is not an estimate.
        """
        if not isinstance(other, gaussian_kde):
            msg = ("gaussian_kde.integrate_kde: the other estimate must be a gaussian_kde, got "
                   f"{type(other).__name__}.")
            raise LazyNoArrayError(msg)
        if other.d != self.d:
            msg = ("gaussian_kde.integrate_kde: KDEs are not the same dimensionality, got "
                   f"{self.d} and {other.d}.")
            raise ValueError(msg)
        overlaps = _overlap(self.dataset, self.weights, self.covariance + other.covariance,
                            other.dataset)
        return sum(overlaps * other.weights)

    @boundary
    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Draws points from the density.

        Args:
          key: a key of `mjax.random`.
          shape: the shape of the sample.

        Returns:
          An array of shape `(d, *shape)`.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        first, second = split(key)
        index = choice(first, self.n, shape=shape, p=self.weights)
        noise = normal(second, (*shape, self.d), dtype=self.dataset.dtype)
        root = cholesky(cast(self.covariance, self.dataset.dtype))
        return getitem(self.dataset, (slice(None), index)) + moveaxis(
            matmul(noise, root.T), -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Not supported.

        Raises:
          NotImplementedError: always.
        """
        msg = "gaussian_kde.integrate_box: only 1D boxes are supported; use integrate_box_1d."
        raise NotImplementedError(msg)

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not supported.

        Raises:
          NotImplementedError: always.
        """
        msg = ("gaussian_kde.set_bandwidth: an estimate cannot be changed. Make another one with "
               "bw_method.")
        raise NotImplementedError(msg)

    def _points(self, name: str, points: Any) -> Any:
        points = _rows(f"gaussian_kde.{name}", points)
        if dtypes.is_complex(typeof(points).dtype):
            msg = f"gaussian_kde.{name} does not support complex coordinates."
            raise NotImplementedError(msg)
        d, m = typeof(points).shape
        if d == self.d:
            return points
        if d == 1 and m == self.d:
            return reshape(points, (self.d, 1))
        msg = f"gaussian_kde.{name}: points have dimension {d}, dataset has dimension {self.d}."
        raise ValueError(msg)


@fused(static_argnames=("logarithm",))
def _density(data: Any, weights: Any, points: Any, precision: Any, logarithm: bool = False) -> Any:
    data, weights, points, precision = promote_dtypes_inexact(data, weights, points, precision)
    root = cholesky(precision)
    whitened = lambda x: matmul(root.T, x)
    apart = expand_dims(whitened(points), (2,)) - expand_dims(whitened(data), (1,))
    constant = sum(lax.log(diagonal(root))) - 0.5 * typeof(data).shape[0] * math.log(2 * math.pi)
    exponent = constant - 0.5 * sum(lax.square(apart), 0)
    if logarithm:
        return logsumexp(lax.log(weights) + exponent, axis=1)
    return sum(weights * lax.exp(exponent), 1)


@fused
def _overlap(data: Any, weights: Any, covariance: Any, means: Any) -> Any:
    """The integrals of the density times normal densities; their means are columns."""
    data, weights, covariance, means = promote_dtypes_inexact(data, weights, covariance, means)
    d, n = typeof(data).shape
    m = typeof(means).shape[1]
    root = cholesky(covariance)
    apart = reshape(expand_dims(data, (1,)) - expand_dims(means, (2,)), (d, m * n))
    white = triangular_solve(root, apart, left_side=True, lower=True)
    exponent = reshape(-0.5 * sum(lax.square(white), 0), (m, n))
    constant = sum(lax.log(diagonal(root))) + 0.5 * d * math.log(2 * math.pi)
    return lax.exp(-constant) * sum(lax.exp(exponent) * weights, 1)


@fused
def _probability(data: Any, weights: Any, variance: Any, low: Any, high: Any) -> Any:
    data, weights, variance, low, high = promote_dtypes_inexact(data, weights, variance, low, high)
    deviation = lax.sqrt(variance)
    below = [distribution((bound - data) / deviation) for bound in (low, high)]
    return sum(weights * (below[1] - below[0]))
