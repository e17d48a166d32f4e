"""Dispatch on objects in the place of arrays: low-rank matrices, and numbers with an error."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax, tree_util
from mjax_ext import core
from mjax_ext import linear_util as lu
from mjax_ext.core import primitives
from tests.ext.canary.arraylike import Value, dispatching, register


class LowRank(Value):
    """A matrix `w + a @ b`, of which products are cheap."""

    def __init__(self, w, a, b):
        self.w, self.a, self.b = w, a, b

    def aval(self):
        return mjax.typeof(self.w)

    def array(self):
        return self.w + self.a @ self.b


class Both(Value):
    """A number known twice, as a lower and an upper value: every operation is done to both."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def aval(self):
        return mjax.typeof(self.low)

    def array(self):
        raise AssertionError("no operation on both falls back to arrays")


tree_util.register_pytree_node(
    LowRank, lambda v: ((v.w, v.a, v.b), None), lambda _, xs: LowRank(*xs))
tree_util.register_pytree_node(
    Both, lambda v: ((v.low, v.high), None), lambda _, xs: Both(*xs))
PRODUCTS = []


@register(primitives.dot_general_p, LowRank, object)
def _product(m, x, **params):
    PRODUCTS.append(m)
    dot = lambda y, z: primitives.dot_general_p.bind(y, z, **params)
    return dot(m.w, x) + dot(m.a, dot(m.b, x))


def _both(primitive):
    @register(primitive, Both)
    def unary(x, **params):
        return Both(primitive.bind(x.low, **params), primitive.bind(x.high, **params))

    @register(primitive, Both, object)
    def left(x, y, **params):
        low, high = (y.low, y.high) if isinstance(y, Both) else (y, y)
        return Both(primitive.bind(x.low, low, **params), primitive.bind(x.high, high, **params))

    @register(primitive, object, Both)
    def right(x, y, **params):
        return Both(primitive.bind(x, y.low, **params), primitive.bind(x, y.high, **params))


for name in ("sin", "cos", "mul", "add", "add_jaxvals", "reduce_sum", "broadcast_in_dim", "neg",
             "convert_element_type", "sub", "copy", "stop_gradient", "transpose"):
    _both(getattr(primitives, f"{name}_p"))


RNG = np.random.default_rng(0)
W, A, B, V = (RNG.standard_normal(shape).astype(np.float32)
              for shape in ((4, 3), (4, 1), (1, 3), (3,)))
X = np.array([0.3, -0.7, 1.1], np.float32)
PAIR = Both(X, X + 1)


def close(actual, expected):
    for a, b in zip(tree_util.tree_leaves(actual), tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_rules_take_the_place_of_primitives():
    PRODUCTS.clear()
    layer = lambda params, x: jnp.tanh(params["m"] @ x) + params["bias"]
    params = {"m": LowRank(W, A, B), "bias": 0.5}
    close(dispatching(layer)(params, V), np.tanh((W + A @ B) @ V) + 0.5)
    assert len(PRODUCTS) == 1
    # Without a rule the value becomes an array.
    close(dispatching(lambda m: jnp.sum(m * 2))(LowRank(W, A, B)), 2 * np.sum(W + A @ B))


def test_leaves_that_are_no_arrays_pass():
    f = lambda x, n, *, mode: {mode: x * n, "n": n}
    out = dispatching(f)(PAIR, 2, mode="double")
    close([out["double"].low, out["double"].high], [2 * X, 2 * X + 2])
    assert out["n"] == 2


def f(x):
    return jnp.sum(jnp.sin(x) * x - 2.0 * x)


def terms(x):
    return np.sin(x) * x - 2 * x


def value(x):
    return np.sum(terms(x))


def df(x):
    return np.cos(x) * x + np.sin(x) - 2


def both(g):
    """The results of a function for both values of a pair, by themselves."""
    return Both(g(X), g(X + 1))


#: Transformations inside of the dispatch, and the functions that they equal.
INSIDE = {
    "nothing": (lambda f: f, value),
    "jit": (mjax.jit, value),
    "jit twice": (lambda f: mjax.jit(mjax.jit(f)), value),
    "grad": (mjax.grad, df),
    "jit of grad": (lambda f: mjax.jit(mjax.grad(f)), df),
    "grad of jit": (lambda f: mjax.grad(mjax.jit(f)), df),
    "jvp": (lambda f: lambda x: mjax.jvp(f, (x,), (2 * x,))[1], lambda x: np.sum(2 * x * df(x))),
    "vmap": (lambda f: mjax.vmap(lambda e: f(e[None])), terms),
    "vmap of grad": (lambda f: mjax.vmap(mjax.grad(lambda e: f(e[None]))), df),
    "cond": (lambda f: lambda x: lax.cond(True, f, lambda x: jnp.sum(x), x), value),
}


@pytest.mark.parametrize("name", INSIDE)
def test_transformations_inside_of_the_dispatch(name):
    transform, expected = INSIDE[name]
    close(dispatching(transform(f))(PAIR), both(expected))


#: Transformations around it.
AROUND = {
    "jit": (lambda g: mjax.jit(g)(PAIR), both(value)),
    "grad": (lambda g: mjax.grad(lambda p: sum(tree_util.tree_leaves(g(p))))(PAIR), both(df)),
    "jit of grad": (lambda g: mjax.jit(mjax.grad(
        lambda p: sum(tree_util.tree_leaves(g(p)))))(PAIR), both(df)),
    "vmap": (lambda g: mjax.vmap(g)(Both(X[:, None], X[:, None] + 1)),
             both(terms)),
    "dispatch": (lambda g: dispatching(lambda x: g(x))(PAIR), both(value)),
    "linearize": (lambda g: mjax.linearize(g, PAIR)[1](Both(X, X)),
                  Both(np.sum(df(X) * X), np.sum(df(X + 1) * X))),
    "checkpoint": (lambda g: mjax.grad(lambda p: sum(tree_util.tree_leaves(
        mjax.checkpoint(g)(p))))(PAIR), both(df)),
}


@pytest.mark.parametrize("name", AROUND)
def test_transformations_around_the_dispatch(name):
    run, expected = AROUND[name]
    close(run(dispatching(f)), expected)


# ---- functions with rules, which are kept ------------------------------------------------


@mjax.custom_jvp
def steep(x, y):
    return jnp.sin(x) * y


@steep.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return steep(x, y), 100.0 * jnp.cos(x) * dx * y + jnp.sin(x) * dy


@mjax.custom_vjp
def clipped(x):
    return 2.0 * x


clipped.defvjp(lambda x: (2.0 * x, x), lambda x, ct: (10.0 * ct * x,))

STEEP = (lambda x: jnp.sum(steep(x, 3.0)), lambda x: np.sum(3 * np.sin(x)),
         lambda x: 300 * np.cos(x))
CLIPPED = (lambda x: jnp.sum(clipped(jnp.sin(x))), lambda x: np.sum(2 * np.sin(x)),
           lambda x: 10 * np.sin(x) * np.cos(x))
TOTAL = lambda g: lambda p: sum(tree_util.tree_leaves(g(p)))


@pytest.mark.parametrize("functions", [STEEP, CLIPPED], ids=["custom_jvp", "custom_vjp"])
def test_rules_of_functions_are_kept(functions):
    g, value, slope = functions
    close(dispatching(g)(PAIR), both(value))
    close(mjax.jit(dispatching(mjax.jit(g)))(PAIR), both(value))
    close(dispatching(mjax.grad(g))(PAIR), both(slope))
    close(mjax.grad(TOTAL(dispatching(g)))(PAIR), both(slope))
    close(mjax.jit(mjax.grad(TOTAL(dispatching(g))))(PAIR), both(slope))
    close(mjax.grad(mjax.jit(TOTAL(dispatching(g))))(PAIR), both(slope))
    close(mjax.grad(TOTAL(dispatching(dispatching(g))))(PAIR), both(slope))
    each = lambda x: mjax.vmap(lambda e: g(e[None]))(x)
    close(mjax.grad(lambda p: sum(jnp.sum(y) for y in tree_util.tree_leaves(
        dispatching(each)(p))))(PAIR), both(slope))
    rows = Both(X[:, None], X[:, None] + 1)
    close(mjax.vmap(mjax.grad(TOTAL(dispatching(g))))(rows),
          Both(slope(X)[:, None], slope(X + 1)[:, None]))


# ---- calls of functions ------------------------------------------------------------------


def test_calls_are_kept():
    region_p = core.CallPrimitive("region")

    def g(x):
        fun = lu.wrap_init(lambda x, y: [jnp.sin(x) * y, y])
        return region_p.bind(x, 2.0, subfuns=(fun,), name="region")

    close(dispatching(lambda x: g(x)[0])(PAIR), both(lambda x: 2 * np.sin(x)))
    jaxpr = mjax.make_jaxpr(dispatching(g))(PAIR)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive is region_p and eqn.params["name"] == "region"
    assert len(eqn.invars) == 3  # both values, and the number
    close(mjax.grad(lambda p: sum(jnp.sum(y) for y in tree_util.tree_leaves(
        dispatching(lambda x: g(x)[0])(p))))(PAIR), both(lambda x: 2 * np.cos(x)))
