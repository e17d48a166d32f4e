"""Algorithms for the incomplete gamma and beta functions, as formulas.

They are accurate to a few units in the last place for parameters of any size, if results do not
underflow. The gamma functions take about a hundred steps at most: Temme's uniform expansion
replaces methods that are slow or lose digits.

Tables were computed with 60 digits from the definitions given beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mjax._engine.primitives.formula import Number, Truth, loop, significant

# ---- parts -----------------------------------------------------------------------------

#: B_2k / (2k (2k - 1)).
_STIRLING = (0.08333333333333333, -0.002777777777777778, 0.0007936507936507937,
             -0.0005952380952380953, 0.0008417508417508417, -0.0019175269175269176,
             0.00641025641025641, -0.029550653594771242)


def _stirling_error(a: Number) -> Number:
    """`lgamma(a + 1) - log(sqrt(2 pi a) (a / e)**a)` for a > 0.

    From n on it is a series; below, the series at a + n plus a correction.
    """
    n = 10 if a.eps < 1e-10 else 3
    few = a < n
    ratio = 1.0 / few.where(a + n, a)
    product = 1.0 - ratio
    for k in range(2, n):
        product = product * (1.0 - k * ratio)
    # The factor keeps a / (a + n) from being subnormal.
    growth = math.log(2 * n) - (a * (ratio * (2.0 * n))).log()
    between = (a + 0.5) * growth - product.log() - n
    return (ratio * ratio).polynomial(_STIRLING, n ** -2) * ratio + few.where(between, 0.0)


def _log1p_curvature(u: Number) -> Number:
    """`2 (u - log1p(u)) / u**2` for |u| <= 0.35, without cancellation.

    With v = u / (2 + u), log1p(u) = 2 artanh(v); the first term is taken out.
    """
    w = 1.0 / (u + 2.0)
    v = u * w
    tail = (v * v).polynomial([1 / (2 * j + 3) for j in range(11)], 0.045)
    return 2.0 * w * (1.0 - 2.0 * u * w * w * tail)


def _log1p_rest(u: Number, ratio: Number) -> Number:
    """`u - log(ratio)`, where `ratio` is 1 + u, computed accurately far from 1."""
    return (abs(u) <= 0.3).where(u * u * 0.5 * _log1p_curvature(u), u - ratio.log())


#: (-1)**k (zeta(k) - 1) / k for k = 2, 3, ...
_LGAMMA1P = (
    0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425,
    -0.00022315475845357939, 9.945751278180853e-05, -4.492623673813314e-05,
    2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06,
    -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554665e-07, -1.0043224823968099e-07, 4.7698101693639804e-08,
    -2.2711094608943164e-08, 1.0838659214896955e-08, -5.183475041970047e-09)


def _lgamma1p(a: Number) -> Number:
    """`lgamma(1 + a)` for 0 <= a <= 1.5, with all digits near 0: a series around 2."""
    low = a <= 0.5
    z = low.where(a, a - 1.0)
    at_two_plus_z = z * (1 - 0.5772156649015329) + z * z * z.polynomial(_LGAMMA1P, 0.5)
    return low.where(at_two_plus_z - a.log1p(), at_two_plus_z)


# ---- incomplete gamma ------------------------------------------------------------------

#: `_TEMME[k][n]` is the coefficient of eta**n in c_k, where c_0 = 1/mu - 1/eta,
#: c_k = c_(k-1)' / eta + g_k / mu, and g_k are the coefficients of 1/Gamma*(a).
_TEMME = (
    (-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
     0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
     -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07,
     -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
     -4.382036018453353e-09, 9.14769958223679e-10),
    (-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454,
     -0.0009902263374485596, 0.00020576131687242798, -4.018775720164609e-07,
     -1.8098550334489977e-05, 7.64916091608111e-06, -1.6120900894563446e-06,
     4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
     1.1951628599778148e-08),
    (0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049,
     2.0093878600823047e-06, -0.0001073665322636516, 5.2923448829120125e-05,
     -1.2760635188618728e-05, 3.423578734096138e-08, 1.3721957309062934e-06,
     -6.298992138380055e-07, 1.4280614206064242e-07),
    (0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
     0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
     1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06),
    (-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
     -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
     1.1375726970678419e-05),
    (-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
     -0.00019932570516188847, 6.797780477937208e-05),
    (0.0005313079364639922, -0.0005921664373536939),
)
#: The expansion is exact to 64 bits for a >= 200 and |x - a| <= 0.3 a.
_TEMME_FROM, _TEMME_WIDTH = 200.0, 0.3
#: A bound of |eta| in that region.
_ETA = 0.34


def _temme(eps: float) -> list[Sequence[float]]:
    """The rows of the table that contribute at this precision."""
    rows: list[Sequence[float]] = []
    tolerance = eps / 8 * abs(_TEMME[0][0])
    for row in _TEMME:
        rows.append(row[:max(3, len(significant(row, _ETA, tolerance)))])
        tolerance *= _TEMME_FROM
        if tolerance > abs(row[0]):
            break
    return rows


#: A hard limit of the steps of a series or fraction; about 200 occur.
_STEPS = 2000


class IncompleteGamma:
    """P(a, x), Q(a, x) = 1 - P(a, x) and the derivative in a, for a > 0 and x > 0.

    Three methods cover the quadrant: the power series of P, the continued fraction of Q, and
    Temme's expansion around x = a for large a.

    Source: DLMF 8.7.1, 8.9.2, 8.12; Gil, Segura, Temme 2012, "Efficient and accurate
    algorithms for the computation and inversion of the incomplete gamma function ratios".
    """

    def __init__(self, a: Number, x: Number):
        mu = (x - a) / a
        self.uniform: Truth = (a >= _TEMME_FROM) & (abs(mu) <= _TEMME_WIDTH)
        self.by_fraction: Truth = (x > 1.0) & (x > a) & ~self.uniform
        self.by_series: Truth = ~(self.by_fraction | self.uniform) & (x > 0.0)
        self.a, self.x = a, x
        # Outside of their domains the methods get harmless operands.
        self.mu = self.uniform.where(mu, 0.0)
        self.large_a = self.uniform.where(a, _TEMME_FROM)

    def density(self) -> Number:
        """`x**a exp(-x) / Gamma(a + 1)`, the factor that all methods share."""
        a, x = self.a, self.x
        small = (a * x.log() - x - _lgamma1p(a)).exp()
        spread = a * _log1p_rest((x - a) / a, x / a) + _stirling_error(a)
        large = (spread * -1.0).exp() / (a * (2 * math.pi)).sqrt()
        return (a <= 1.5).where(small, large)

    # -- series: P = density * (1 + x/(a+1) + x**2/((a+1)(a+2)) + ...)

    def series(self) -> Number:
        """P / density."""
        def step(n: Number, state: list[Number], fixed: list[Number]
                 ) -> tuple[Truth, list[Number]]:
            term, total = state
            a, x = fixed
            term = term * x / (a + n)
            total = total + term
            return term > total * (total.eps / 4), [term, total]

        return loop(step, self.by_series, [1.0, 1.0], [self.a, self.x], _STEPS)[1]

    def series_slope(self) -> Number:
        """(dP/da) / density, from the series."""
        def step(n: Number, state: list[Number], fixed: list[Number]
                 ) -> tuple[Truth, list[Number]]:
            term, harmonic, total, slope = state
            a, x = fixed
            step_ = 1.0 / (a + n)
            term, harmonic = term * x * step_, harmonic + step_
            total, change = total + term, term * harmonic
            return change > slope * (total.eps / 4), [term, harmonic, total, slope + change]

        total, slope = loop(step, self.by_series, [1.0, 0.0, 1.0, 0.0], [self.a, self.x],
                            _STEPS)[2:]
        return total * (self.x.log() - (self.a + 1.0).digamma()) - slope

    # -- fraction: Q = a * density / (x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...)))

    def fraction(self) -> Number:
        """Q / density, by the modified Lentz method."""
        def step(n: Number, state: list[Number], fixed: list[Number]
                 ) -> tuple[Truth, list[Number]]:
            c, d, f = state
            a, x = fixed
            numerator, b = n * (a - n), x + 1.0 - a + n * 2.0
            c, d = b + numerator / c, 1.0 / (b + numerator * d)
            return abs(c * d - 1.0) > f.eps, [c, d, f * c * d]

        inverse = 1.0 / (self.x + 1.0 - self.a)
        f = loop(step, self.by_fraction, [1e30, inverse, inverse], [self.a, self.x], _STEPS)[2]
        return f * self.a

    def fraction_slope(self) -> Number:
        """(dP/da) / density, from the fraction; dc and dd are derivatives of c and d in a."""
        def step(n: Number, state: list[Number], fixed: list[Number]
                 ) -> tuple[Truth, list[Number]]:
            c, d, f, dc, dd, slope = state
            a, x = fixed
            numerator, b = n * (a - n), x + 1.0 - a + n * 2.0
            dc = (n - numerator * dc / c) / c - 1.0
            c = b + numerator / c
            denominator = b + numerator * d
            dd = (1.0 - n * d - numerator * dd) / (denominator * denominator)
            d = 1.0 / denominator
            change = dc / c + dd / d
            go_on = (abs(c * d - 1.0) > f.eps) | (abs(change) > abs(slope) * f.eps)
            return go_on, [c, d, f * c * d, dc, dd, slope + change]

        inverse = 1.0 / (self.x + 1.0 - self.a)
        f, _, _, slope = loop(
            step, self.by_fraction, [1e30, inverse, inverse, 0.0, inverse * inverse, inverse],
            [self.a, self.x], _STEPS)[2:]
        a = self.a
        return (f * (a * (self.x.log() - (a + 1.0).digamma()) + 1.0) + a * f * slope) * -1.0

    # -- Temme: Q = erfc(eta sqrt(a/2))/2 + exp(-a eta**2/2)/sqrt(2 pi a) sum(c_k(eta) a**-k)

    def _eta(self) -> tuple[Number, Number]:
        """eta with eta**2 / 2 = mu - log(1 + mu), and eta / mu."""
        ratio = _log1p_curvature(self.mu).sqrt()
        return self.mu * ratio, ratio

    def expansion(self, sign: float) -> Number:
        """Q for sign 1, P for sign -1."""
        eta, _ = self._eta()
        a = self.large_a
        total = (1.0 / a).polynomial_of([eta.polynomial(row, _ETA) for row in _temme(a.eps)])
        rest = (a * eta * eta * -0.5).exp() / (a * (2 * math.pi)).sqrt() * total
        return (eta * (a * 0.5).sqrt() * sign).erfc() * 0.5 + rest * sign

    def expansion_slope(self) -> Number:
        """(dP/da) / density, from the expansion, differentiated term by term."""
        eta, ratio = self._eta()
        a, inverse = self.large_a, 1.0 / self.large_a
        table = _temme(a.eps)
        rows = [eta.polynomial(row, _ETA) for row in table]
        in_eta = inverse.polynomial_of([
            eta.polynomial([n * c for n, c in enumerate(row)][1:], _ETA) for row in table[:-1]])
        in_inverse = inverse.polynomial_of([row * float(k) for k, row in enumerate(rows)][1:])
        total = inverse.polynomial_of(rows)
        # a d(eta)/da is -mu / eta.
        slope = (eta * 0.5 - total * (self.mu.log1p() - inverse * 0.5)
                 + inverse / ratio * in_eta + inverse * inverse * in_inverse - 1.0 / ratio)
        return slope * _stirling_error(a).exp()

    # -- combination

    def lower(self) -> Number:
        """P."""
        density = self.density()
        p = self.by_fraction.where(1.0 - density * self.fraction(), density * self.series())
        return _at_most_one(self.uniform.where(self.expansion(-1.0), p))

    def upper(self) -> Number:
        """Q."""
        density = self.density()
        p = density * self.series()
        near_one = (p > 0.5) & (self.x <= 1.0)
        q = near_one.where(self._upper_of_small(near_one), 1.0 - p)
        q = self.by_fraction.where(density * self.fraction(), q)
        return _at_most_one(self.uniform.where(self.expansion(1.0), q))

    def _upper_of_small(self, here: Truth) -> Number:
        """Q for x <= 1 where it is below 1/2, so that 1 - P would cancel."""
        def step(n: Number, state: list[Number], fixed: list[Number]
                 ) -> tuple[Truth, list[Number]]:
            power, total = state
            a, x = fixed
            power = power * x / n * -1.0
            term = power / (a + n)
            return abs(term) > abs(total) * total.eps, [power, total + term]

        a, x = self.a, self.x
        total = loop(step, here, [1.0, 0.0], [a, x], 100)[1]
        exponent = a * x.log() - _lgamma1p(a)
        return exponent.expm1() * -1.0 - exponent.exp() * a * total

    def slope(self) -> Number:
        """(dP/da) / density."""
        return self.uniform.where(self.expansion_slope(), self.by_fraction.where(
            self.fraction_slope(), self.series_slope()))


def _at_most_one(p: Number) -> Number:
    """Clips a probability that exceeds 1 by rounding errors."""
    return (p > 1.0).where(1.0, p)


def _special_gamma(a: Number, x: Number, out: Number, at_zero: float, at_infinity: float
                   ) -> Number:
    """The result on the edges and outside of the quadrant, where the methods do not apply."""
    out = ((a.is_(0.0) & (x > 0.0)) | x.is_(math.inf)).where(at_infinity, out)
    out = (((x.is_(0.0)) & (a > 0.0)) | (a.is_(math.inf) & (x < math.inf))).where(at_zero, out)
    bad = (a < 0.0) | (x < 0.0) | (a.is_(0.0) & x.is_(0.0)) | a.is_nan() | x.is_nan()
    return bad.where(math.nan, out)


def igamma(a: Number, x: Number) -> Number:
    """P(a, x), the regularized lower incomplete gamma function."""
    return _special_gamma(a, x, IncompleteGamma(a, x).lower(), 0.0, 1.0)


def igammac(a: Number, x: Number) -> Number:
    """Q(a, x), the regularized upper incomplete gamma function."""
    return _special_gamma(a, x, IncompleteGamma(a, x).upper(), 1.0, 0.0)


def igamma_grad_a(a: Number, x: Number) -> Number:
    """The derivative of P(a, x) in a."""
    gamma = IncompleteGamma(a, x)
    out = _special_gamma(a, x, gamma.density() * gamma.slope(), 0.0, 0.0)
    return (a <= 0.0).where(math.nan, out)


def random_gamma_grad(a: Number, x: Number) -> Number:
    """dx/da for fixed P(a, x): the derivative of a gamma sample x in its shape parameter a.

    The density cancels; it may be too small to be represented.
    """
    out = IncompleteGamma(a, x).slope() * x / a * -1.0
    return (a <= 0.0).where(math.nan, _special_gamma(a, x, out, 0.0, math.nan))


# ---- incomplete beta -------------------------------------------------------------------

#: The fraction takes a few times sqrt(max(a, b)) steps.
_BETA_STEPS = 10_000


def _deviance(a: Number, excess: Number, ratio: Number) -> Number:
    """`a (u - log(1 + u))`, where u is excess / a, and `ratio` is 1 + u."""
    u, log = excess / a, ratio.log()
    # a is negligible where the ratio overflows.
    far = excess - a * log.is_(math.inf).where(0.0, log)
    return (abs(u) <= 0.3).where(excess * u * 0.5 * _log1p_curvature(u), far)


def beta_density(a: Number, b: Number, x: Number) -> Number:
    """`x**a (1 - x)**b / B(a, b)` for 0 < x < 1.

    Powers and factorials are never formed. The result depends on the distance of x from the mode
    a / (a + b) and on the errors of Stirling's formula.

    Source: Loader 2000, "Fast and accurate computation of binomial probabilities", extended
    to all positive parameters.
    """
    y, total = 1.0 - x, a + b
    excess = x * b - y * a
    lacking = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    distance = (_deviance(a, excess, x * (total / a))
                + _deviance(b, -excess, y * (total / b)))
    # A product of a and b may be too small to be represented.
    return (lacking - distance).exp() * (a.sqrt() * (b / (total * (2 * math.pi))).sqrt())


def betainc(a: Number, b: Number, x: Number) -> Number:
    """I_x(a, b), the regularized incomplete beta function.

    Source: DiDonato, Morris 1992, "Algorithm 708", the continued fraction (9); evaluated by
    the modified Lentz method.
    """
    inside = (a > 0.0) & (b > 0.0) & (x > 0.0) & (x < 1.0)
    # The fraction converges below the mean; above it, the other tail is computed.
    y = 1.0 - x
    swap = a * y < b * x
    p, q = swap.where(b, a), swap.where(a, b)
    z, w = swap.where(y, x), swap.where(x, y)
    below = p * w - q * z

    def step(n: Number, state: list[Number], fixed: list[Number]) -> tuple[Truth, list[Number]]:
        c, d, f = state
        p, q, z, w, below = fixed
        twice = p + n * 2.0
        scaled = n * (q - n) * z / (twice - 1.0)
        numerator = scaled * z * (p + n - 1.0) * (p + q + n - 1.0) / (twice - 1.0)
        part = n + scaled + (p + n) / (twice + 1.0) * (below + 1.0 + n * (w + 1.0))
        c, d = part + numerator / c, 1.0 / (part + numerator * d)
        return abs(c * d - 1.0) > f.eps, [c, d, f * c * d]

    first = (p + 1.0) / (p * (below + 1.0))
    f = loop(step, inside, [1e30, first, first], [p, q, z, w, below], _BETA_STEPS)[2]
    tail = _at_most_one(beta_density(a, b, x) * f)
    out = swap.where(1.0 - tail, tail)
    # A zero parameter puts all mass on its own side, an infinite one on the other side.
    right = b.is_(0.0) | a.is_(math.inf)
    left = a.is_(0.0) | b.is_(math.inf)
    out = (x.is_(0.0) | right).where(0.0, out)
    out = (x.is_(1.0) | (left & (x > 0.0))).where(1.0, out)
    valid = (a >= 0.0) & (b >= 0.0) & (x >= 0.0) & (x <= 1.0) & ~(left & right)
    return valid.where(out, math.nan)
