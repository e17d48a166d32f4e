"""`jet` against nested jvp."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.experimental.jet import jet, jet_rules

ORDER = 6
A = np.array([[0.3, 0.7], [0.5, 0.2]])


def nested(f, x, series):
    """Derivatives along the curve by one jvp for each order."""
    g = lambda t: f(x + sum(s * t**k / math.factorial(k) for k, s in enumerate(series, 1)))
    found = []
    for _ in series:
        g = lambda t, g=g: mjax.jvp(g, (t,), (jnp.ones_like(t),))[1]
        found.append(g)
    return [h(jnp.asarray(0.0, x.dtype)) for h in found]


def checks(f, x, order=ORDER):
    with mjax.enable_x64(True):
        x = jnp.asarray(x, jnp.float64)
        series = [jnp.asarray(np.cos(np.arange(x.size) + k).reshape(x.shape) * 0.3)
                  for k in range(order)]
        out, found = jet(f, (x,), (series,))
        np.testing.assert_allclose(out, f(x), 1e-12)
        for actual, wanted in zip(found, nested(f, x, series), strict=True):
            np.testing.assert_allclose(actual, wanted, 1e-7, 1e-9)


UNARY = ["exp", "exp2", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
         "asin", "acos", "atan", "asinh", "atanh", "logistic", "sqrt", "rsqrt", "cbrt", "square",
         "erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e", "abs", "neg",
         "sign", "floor", "cumsum", "cumprod", "cummax", "cumlogsumexp"]


@pytest.mark.parametrize("name", UNARY)
def test_functions(name):
    checks(getattr(lax, name), A)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "sqrt", "cosh", "logistic"])
def test_complex_functions(name):
    checks(lambda x: lax.real(getattr(lax, name)(lax.complex(x, 0.3 * x))), A[0], order=4)


@pytest.mark.slow
@pytest.mark.parametrize("f", [
    lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(2)), lambda x: jnp.linalg.solve(x, x[0])])
def test_linear_algebra(f):
    checks(f, A, order=2)


@pytest.mark.parametrize("f", [
    lambda x: x * x[::-1], lambda x: x / x[::-1], lambda x: x @ x.T, lambda x: 2.0 / x,
    lambda x: x**3, lambda x: x**-2, lambda x: x**2.5, lambda x: jnp.max(x, 0),
    jnp.prod,
    lambda x: jnp.sort(x.ravel()), lambda x: x[jnp.array([1, 0])], lambda x: x.at[0].add(x[1]),
    lambda x: jnp.where(x > 0.4, x * x, x), lambda x: lax.clamp(0.25, x, 0.6), lambda x: x % 0.25,
    lambda x: lax.atan2(x, x[::-1]), lambda x: mjax.nn.relu(x) * x,
    lambda x: lax.conv_general_dilated(x[None, None], x[None, None], (1, 1), "SAME"),
    lambda x: mjax.scipy.special.logsumexp(x),
])
def test_programs(f):
    checks(f, A, order=3)


@pytest.mark.parametrize("f", [
    mjax.jit(lambda x: jnp.sin(x) * x), mjax.checkpoint(lambda x: jnp.sin(x) * x),
    lambda x: lax.scan(lambda c, y: (c * jnp.sin(y), c + y), x[0], x)[0],
    lambda x: lax.fori_loop(0, 3, lambda i, c: c * jnp.sin(x), jnp.ones_like(x)),
    lambda x: lax.while_loop(lambda c: c[0, 0] < 2.0, lambda c: c + c * x, x),
    lambda x: lax.cond(x[0, 0] > 0.0, lambda x: jnp.exp(x), lambda x: x, x),
    lambda x: mjax.vmap(lambda row: jnp.tanh(row) * row.sum())(x),
    mjax.grad(lambda x: jnp.sin(x).prod()),
], ids=["jit", "checkpoint", "scan", "fori", "while", "cond", "vmap", "grad"])
def test_control_flow(f):
    checks(f, A, order=2)


def test_the_series_may_be_transformed():
    f = lambda x: jet(jnp.tanh, (x,), ((1.0, 0.0, 0.0),))[1][2]
    expected = mjax.grad(mjax.grad(mjax.grad(jnp.tanh)))
    np.testing.assert_allclose(f(0.3), expected(0.3), 1e-4)
    np.testing.assert_allclose(mjax.vmap(f)(jnp.array([0.1, 0.3]))[1], expected(0.3), 1e-4)
    np.testing.assert_allclose(mjax.grad(f)(0.3), mjax.grad(expected)(0.3), 1e-4)


def test_taylor_coefficients():
    _, series = jet(jnp.exp, (0.0,), ([1.0, 0.0, 0.0],), factorial_scaled=False)
    np.testing.assert_allclose(series, [1.0, 0.5, 1 / 6], 1e-6)


def test_trees_and_constants():
    out, series = jet(lambda x, y: {"a": x * y, "b": y}, (2.0, 3.0), ([1.0, 0.0], [0.0, 0.0]))
    assert float(out["a"]) == 6.0 and [float(t) for t in series["a"]] == [3.0, 0.0]
    out, series = jet(lambda x, n: (x * n, n), (2.0, 3), ([1, 0], [0, np.zeros((), mjax.float0)]))
    assert [float(t) for t in series[0]] == [3.0, 0.0] and [int(t) for t in series[1]] == [0, 0]
    assert jet(jnp.sin, (0.0,), ([],)) == (0.0, [])


def test_results_that_do_not_move():
    """Their derivatives are zeros of the default float dtype; their coefficients, of their own."""
    f = lambda x: (x > 0, jnp.argmax(x), jnp.arange(3), mjax.random.key(0))
    _, derivatives = jet(f, (jnp.ones(2),), ([1.0, 0.0],))
    found = [[(t.shape, t.dtype.name, float(t.sum())) for t in terms] for terms in derivatives]
    assert found == [
        [(shape, "float32", 0.0)] * 2 for shape in ((2,), (), (3,), ())]
    _, series = jet(lambda x: (x > 0, jnp.argmax(x)), (jnp.ones(2),), ([1.0],),
                    factorial_scaled=False)
    assert [t.dtype.name for terms in series for t in terms] == ["bool", "int32"]


def test_terms_are_weakly_typed_as_their_argument_is():
    f = lambda x: (x, jnp.sin(x))
    weak = [t.weak_type for terms in jet(f, (1.0,), ([1.0, 0],))[1] for t in terms]
    strong = [t.weak_type for terms in jet(f, (jnp.float32(1.0),), ([1.0, 0],))[1] for t in terms]
    assert weak == [True] * 4 and strong == [False] * 4
    product = jet(lambda x, y: x * y, (2.0, jnp.bfloat16(3.0)), ([1.0, 0.0], [0.0, 1.0]))[1]
    assert [t.dtype.name for t in product] == ["bfloat16"] * 2


def test_rules_of_users():
    """They are differentiated, as nested jvps do."""

    @mjax.custom_jvp
    def f(x):
        return jnp.sin(x)

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), 2.0 * f(primals[0]) * tangents[0]

    checks(lambda x: f(x) * x, A, order=4)
    checks(lambda x: lax.scan(lambda c, y: (f(c) * y, None), x[0], x)[0], A, order=3)
    free = lambda x: mjax.custom_jvp(lambda y: y)(x)
    with pytest.raises(AttributeError, match="defjvp"):
        jet(free, (1.0,), ([1.0],))
    with pytest.raises(TypeError, match="custom_vjp function"):
        g = mjax.custom_vjp(jnp.sin)
        g.defvjp(lambda x: (x, x), lambda res, ct: (ct,))
        jet(g, (1.0,), ([1.0],))


def test_a_primitive_of_a_user():
    from mjax_ext import core

    p = core.Primitive("cube_of_jet")
    p.def_impl(lambda x: x**3)
    p.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="cube_of_jet"):
        jet(p.bind, (2.0,), ([1.0],))
    jet_rules[p] = lambda primals, terms: (p.bind(*primals), [3 * primals[0]**2 * terms[0][0]])
    assert jet(p.bind, (jnp.float32(2.0),), ([1.0],))[1] == [12.0]


def test_rules_of_users_get_all_terms():
    """As in JAX: lists of zeros, too."""
    from mjax_ext import core

    p = core.Primitive("weighted_of_jet", multiple_results=True)
    p.def_impl(lambda x, w, n: [x * w, n])
    p.def_abstract_eval(lambda x, w, n: [x, n])

    def rule(primals, terms):
        (x, w, n), (xs, ws, ns) = primals, terms
        full = lambda a, b, k: sum(a[i] * b[k - i] for i in range(k + 1))
        return p.bind(x, w, n), [[full([x, *xs], [w, *ws], k) for k in (1, 2)], ns]

    jet_rules[p] = rule
    (y, n), (series, of_n) = jet(
        lambda x: p.bind(x, jnp.float32(2.0), 3), (jnp.float32(3.0),), ([1.0, 5.0],))
    assert (float(y), int(n), [float(t) for t in series]) == (6.0, 3, [2.0, 10.0])
    assert [float(t) for t in of_n] == [0.0, 0.0]


@pytest.mark.parametrize("args, error, words", [
    ((lax.mul, (1.0, 2.0), ([1.0], [1.0, 0.0])), ValueError, "series of lengths 1, 2"),
    ((lax.mul, (1.0, 2.0), ([1.0],)), ValueError, "2 arguments, and series of lengths 1"),
    ((lambda: 1.0, (), ()), ValueError, "series of lengths none"),
    ((lax.sin, (1.0,), (1.0,)), TypeError, "a list of terms for each"),
    ((lax.sin, 1.0, 1.0), TypeError, r"jet\(f, \(x,\), \(\[x1, x2\],\)\)"),
    ((lax.sin, ((1.0, 2.0),), ([1.0],)), ValueError, "position 0 is not an array"),
    ((lax.sin, (1.0,), ([None],)), ValueError, "term 0 for argument 0 is not an array"),
    ((lax.sin, (np.ones(3),), ([np.ones(2)],)), TypeError, r"type float32\[2\], but .*32\[3\]"),
    ((lax.sin, (np.ones(3),), ([np.ones(3, int)],)), TypeError, "int32"),
    ((lax.sin, (1.0,), ([1j],)), TypeError, "complex64"),
    ((lax.neg, (3,), ([1.0],)), TypeError, "convert the argument to a float dtype"),
    ((3, (1.0,), ([1.0],)), TypeError, "jet expects a function"),
    ((lambda x: lax.nextafter(x, 2.0), (1.0,), ([1.0],)), NotImplementedError, "nextafter"),
])
def test_errors(args, error, words):
    with pytest.raises(error, match=words):
        jet(*args)


def test_cost_grows_slowly():
    def network(x):
        for _ in range(10):
            x = jnp.tanh(x * 0.5)
        return x

    def count(order):
        return len(mjax.make_jaxpr(lambda x, s: jet(network, (x,), (s,)))(1.0, [1.0] * order).eqns)

    assert count(16) < 4 * count(8) and count(8) < 2500
