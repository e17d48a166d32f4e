"""Special functions: error functions, gamma and its relatives, incomplete ones, Bessel."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import mjax
from mjax._engine.primitives import special
from tests.engine.primitives.harness import Case, table

FLOATS = "f32 f64 f16 bf16"
SHAPES = "T[3]; T[]; T[0,2]; T[2,1]"
PAIRS = "T[3] T[]; T[2,1] T[1,3]; T[0] T[]; T[] T[]"
TRIPLES = "T[] T[3] T[]; T[0] T[0] T[0]; T[] T[] T[]"

# ---- operands --------------------------------------------------------------------------


def between(low, high):
    """Uniform in an interval."""
    return lambda rng, shape, dtype: rng.uniform(low, high, shape).astype(dtype)


def whole(low, high):
    """Whole numbers as floats."""
    return lambda rng, shape, dtype: rng.integers(low, high, shape).astype(dtype)


def at(function, *values):
    """The function of its last operand, with these values for the others."""
    return lambda x: function(*[np.asarray(v, x.dtype)[()] for v in values], x)


# ---- tables ----------------------------------------------------------------------------


def random_gamma_grad(a, x):
    """How the quantile of a fixed probability moves, by central differences."""
    h, p = 1e-4 * a, scipy.special.gammainc(a, x)
    above, below = [scipy.special.gammaincinv(b, p) for b in (a + h, a - h)]
    return (above - below) / (2 * h)


def igamma_grad_a(a, x):
    h = 1e-4 * a
    return (scipy.special.gammainc(a + h, x) - scipy.special.gammainc(a - h, x)) / (2 * h)


CHEAP = [
    Case("erf", special.erf, scipy.special.erf, SHAPES, FLOATS, between(-3, 3)),
    Case("erfc", special.erfc, scipy.special.erfc, SHAPES, FLOATS, between(-3, 3)),
    Case("erf_inv", special.erf_inv, scipy.special.erfinv, SHAPES, FLOATS, between(-0.9, 0.9)),
    Case("lgamma", special.lgamma, scipy.special.gammaln, SHAPES, FLOATS, between(-0.9, -0.1)),
    Case("lgamma", special.lgamma, scipy.special.gammaln, "T[4]", FLOATS, between(0.2, 9),
         label="positive"),
    Case("digamma", special.digamma, scipy.special.digamma, SHAPES, FLOATS, between(0.2, 5)),
    Case("polygamma", at(special.polygamma, 2),
         lambda x: scipy.special.polygamma(2, x), SHAPES, FLOATS, between(0.5, 5)),
    Case("polygamma", special.polygamma, lambda m, x: scipy.special.polygamma(m.astype(int), x),
         PAIRS, FLOATS, [whole(0, 4), between(0.5, 5)], order=0, label="orders"),
    Case("zeta", special.zeta, scipy.special.zeta, PAIRS, FLOATS,
         [between(1.5, 5), between(0.5, 5)], order=0),
    Case("zeta", at(special.zeta, 3), lambda q: scipy.special.zeta(3, q),
         SHAPES, "f32 f64", between(0.5, 5), label="in q"),
    Case("bessel_i0e", special.bessel_i0e, scipy.special.i0e, SHAPES, FLOATS, between(0.2, 7)),
    Case("bessel_i0e", special.bessel_i0e, scipy.special.i0e, "T[9]", FLOATS, between(-40, -5),
         label="wide"),
    Case("bessel_i1e", special.bessel_i1e, scipy.special.i1e, SHAPES, FLOATS, between(0.2, 7)),
    Case("bessel_i1e", special.bessel_i1e, scipy.special.i1e, "T[9]", FLOATS, between(-40, -5),
         label="wide"),
]
#: Each of these compiles for half a second.
EXPENSIVE = [
    Case("igamma", special.igamma, scipy.special.gammainc, PAIRS, FLOATS, between(0.2, 6),
         order=1),
    Case("igammac", special.igammac, scipy.special.gammaincc, PAIRS, FLOATS, between(0.2, 6),
         order=1),
    Case("igamma_grad_a", special.igamma_grad_a, igamma_grad_a, PAIRS, "f32", between(0.2, 6),
         order=0),
    Case("igamma_grad_a", at(special.igamma_grad_a, 2), None, SHAPES, "f32",
         between(0.2, 6), label="in x"),
    Case("random_gamma_grad", special.random_gamma_grad, random_gamma_grad, PAIRS, "f32",
         between(0.5, 6), order=0),
    Case("regularized_incomplete_beta", special.betainc, scipy.special.betainc, TRIPLES, FLOATS,
         [between(0.3, 4), between(0.3, 4), between(0.1, 0.9)], order=0, tolerance=60),
    Case("regularized_incomplete_beta", at(special.betainc, 2, 3.5),
         lambda x: scipy.special.betainc(2, 3.5, x), SHAPES, "f32 f64", between(0.1, 0.9),
         label="in x"),
]
CASES = CHEAP + EXPENSIVE


@table(CHEAP)
def test_special(check, sample):
    check(sample)


@pytest.mark.slow
@table(EXPENSIVE)
def test_incomplete(check, sample):
    check(sample)


# ---- accuracy over the whole range of the incomplete functions -------------------------


def assert_accurate(function, reference, operands, dtype, tolerance):
    """Relative errors against double precision where the result is neither tiny nor zero."""
    operands = [x.astype(dtype) for x in operands]
    with mjax.enable_x64(True):
        actual = np.asarray(function(*operands)).astype(np.float64)
    expected = reference(*[x.astype(np.float64) for x in operands])
    kept = expected > np.finfo(np.float32).tiny * 1e8
    assert kept.sum() > 100
    np.testing.assert_allclose(actual[kept], expected[kept], rtol=tolerance)


def log_uniform(rng, low, high, size):
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 2e-12), (np.float32, 1e-4)])
@pytest.mark.parametrize(("low", "high"), [(1e-3, 1), (0.1, 10), (5, 250), (200, 5000)])
def test_incomplete_gamma_functions_keep_their_digits(dtype, tolerance, low, high):
    rng = np.random.default_rng(0)
    a = log_uniform(rng, low, high, 2000)
    far = log_uniform(rng, low, high, 1000)
    near = np.maximum(a[1000:] + 3 * np.sqrt(a[1000:]) * rng.normal(size=1000), a[1000:] / 20)
    operands = [a, np.concatenate([far, near])]
    assert_accurate(special.igamma, scipy.special.gammainc, operands, dtype, tolerance)
    assert_accurate(special.igammac, scipy.special.gammaincc, operands, dtype, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-4)])
@pytest.mark.parametrize(("low", "high"), [(1e-2, 1), (0.1, 10), (0.1, 1e5), (1e3, 1e6)])
def test_incomplete_beta_function_keeps_its_digits(dtype, tolerance, low, high):
    rng = np.random.default_rng(0)
    a, b = log_uniform(rng, low, high, (2, 1000))
    x = np.clip(rng.beta(a, b), 1e-30, 1)
    assert_accurate(special.betainc, scipy.special.betainc, [a, b, x], dtype, tolerance)


# (a, x): P(a, x), Q(a, x), dP/da, dx/da at constant P, by mpmath with 40 digits. The last two
# rows are where SciPy's own functions have no more than six digits.
EXACT = [
    (0.03125, 0.5, 0.9822302405368859, 0.017769759463114113, -0.5771829243447743,
     15.293176683224871),
    (0.5, 0.0078125, 0.09947644966022579, 0.9005235503397742, -0.48663796937901993,
     0.07683672901623946),
    (0.75, 1.5, 0.8524004456352495, 0.14759955436475045, -0.28224836530791836, 1.7154567313929643),
    (2.5, 0.125, 0.0015208185533684398, 0.9984791814466316, -0.004855885686395028,
     0.1655108407643657),
    (7.5, 11.25, 0.9046517655608257, 0.09534823443917433, -0.05878336794161353, 1.2436804375340178),
    (30.25, 19.5, 0.014343732140277005, 0.985656267859723, -0.007142662135507308,
     0.8008448068658616),
    (150.5, 170.25, 0.9419448289921306, 0.058055171007869395, -0.009276499070124155,
     1.064096444266971),
    (195.75, 196.5, 0.5308303735087173, 0.46916962649128274, -0.0284309284784105,
     1.0027667569378855),
    (210.5, 160.25, 8.436093006182336e-05, 0.9999156390699382, -2.4325089583007436e-05,
     0.87050372035383),
    (1500.25, 1480.5, 0.3072924547587418, 0.6927075452412582, -0.00909428265686683,
     0.9934990529668565),
    (1430320.5, 1422547.0, 3.72435099774182e-11, 0.9999999999627565, -2.075381776506744e-13,
     0.9972777819973542),
    (87524390.25, 87480670.25, 1.4772630027658093e-06, 0.9999985227369972, -7.693294581709303e-10,
     0.9997502013548176),
]


@pytest.mark.slow
def test_against_forty_digits():
    a, x, *columns = np.array(EXACT).T
    with mjax.enable_x64(True):
        for function, expected in zip((special.igamma, special.igammac, special.igamma_grad_a,
                                       special.random_gamma_grad), columns, strict=True):
            np.testing.assert_allclose(function(a, x), expected, rtol=5e-14)


# ---- edges -----------------------------------------------------------------------------

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(("a", "x", "p"), [
    (0, 1, 1), (0, 0, NAN), (2, 0, 0), (2, INF, 1), (INF, 3, 0), (0, INF, 1), (-1, 2, NAN),
    (2, -1, NAN), (NAN, 2, NAN), (2, NAN, NAN), (1e-30, 1, 1), (1e30, 1, 0)])
def test_edges_of_the_incomplete_gamma_functions(a, x, p):
    a, x = np.float32(a), np.float32(x)
    np.testing.assert_array_equal(special.igamma(a, x), np.float32(p))
    np.testing.assert_allclose(special.igammac(a, x), np.float32(1 - p), atol=1e-29)


def test_probabilities_do_not_exceed_one():
    a, x = np.random.default_rng(0).uniform(0, 2, (2, 10_000)).astype(np.float32)
    for function in (special.igamma, special.igammac):
        out = np.asarray(function(a, x))
        assert out.min() >= 0
        assert out.max() <= 1


@pytest.mark.parametrize(("a", "b", "x", "expected"), [
    (0, 1, 0, 0), (0, 1, 0.5, 1), (1, 0, 0.5, 0), (1, 0, 1, 1), (INF, 1, 0.5, 0),
    (1, INF, 0.5, 1), (-1, 1, 0.5, NAN), (1, 1, 1, 1), (1, 1, 0, 0), (1, 1, 2, NAN),
    (INF, INF, 0.5, NAN), (0, 0, 0.5, NAN), (2, 2, NAN, NAN)])
def test_edges_of_the_incomplete_beta_function(a, b, x, expected):
    out = special.betainc(*np.array([a, b, x], np.float32))
    np.testing.assert_array_equal(out, np.float32(expected))


def test_bessel_functions_at_zero_and_infinity():
    x = np.array([0, INF, -INF, NAN], np.float32)
    np.testing.assert_allclose(special.bessel_i0e(x), [1, 0, 0, NAN], rtol=1e-6)
    np.testing.assert_array_equal(special.bessel_i1e(x[:3]), [0, 0, 0])
    assert float(mjax.grad(special.bessel_i0e)(np.float32(0))) == 0
    assert float(mjax.grad(special.bessel_i1e)(np.float32(0))) == 0.5


# ---- refusals --------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "argnum", "text"), [
    (special.polygamma, 0, "polygamma has no derivative with respect to its order m"),
    (special.zeta, 0, "zeta has no derivative with respect to its exponent x"),
    (special.igamma_grad_a, 0, "igamma_grad_a has no derivative"),
    (special.random_gamma_grad, 1, "random_gamma_grad has no derivative"),
])
def test_derivatives_that_do_not_exist_are_refused(function, argnum, text):
    with pytest.raises(ValueError, match=text):
        mjax.grad(function, argnums=argnum)(np.float32(2), np.float32(3))


def test_betainc_has_no_derivative_in_its_parameters():
    with pytest.raises(ValueError, match="betainc has no derivative with respect to its param"):
        mjax.grad(special.betainc)(np.float32(2), np.float32(3), np.float32(0.5))


def test_special_functions_take_floats_only():
    with pytest.raises(TypeError, match="erf does not accept dtype int32"):
        special.erf(np.int32(1))
    with pytest.raises(TypeError, match="lgamma does not accept dtype complex64"):
        special.lgamma(np.complex64(1))
