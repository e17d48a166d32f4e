"""Programs with branches, of a predicate and two arrays, and what they mean in Python."""

from __future__ import annotations

import numpy as np

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.ir.pytree import tree_leaves

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3)).astype("float32")
XS, YS = RNG.normal(size=(2, 4, 3)).astype("float32")
PREDICATES = np.array([True, False, False, True])


def by_if(pred, true_fun, false_fun, *operands):
    """`cond` by Python's `if`: the oracle, which needs to know the predicate."""
    return true_fun(*operands) if pred else false_fun(*operands)


def by_list(index, branches, *operands):
    """`switch` by a Python list."""
    return branches[min(max(int(index), 0), len(branches) - 1)](*operands)


class Python:
    """The functions under test, in Python."""

    cond = staticmethod(by_if)
    switch = staticmethod(by_list)


# ---- programs, of a predicate and two arrays -------------------------------------------


def plain(m, p, x, y):
    return m.cond(p, lambda x, y: jnp.sin(x) * y, lambda x, y: jnp.exp(y) * y + x, x, y)


def handing_on(m, p, x, y):
    """Results that are operands, literals, duplicates, closed-over; not all read."""
    a, (b, c), d, e = m.cond(
        p, lambda x, _: (x, (y, 2.0), jnp.sin(x) * x, x), lambda x, u: (u, (y, 3.0), u, x), x, y)
    return a * d + b * c + e * 0.5


def one_sided(m, p, x, y):
    """A branch without a derivative."""
    return m.cond(p, lambda x: jnp.ones(3), lambda x: jnp.tanh(x * y), x) * y


def with_integers(m, p, x, y):
    n, b, z = m.cond(p, lambda n, x: (n * 2, n > 3, x * n), lambda n, x: (n, n < 3, jnp.cos(x)),
                     jnp.arange(3), x)
    return jnp.where(b, z * n, y)


def nested(m, p, x, y):
    def outer(x):
        scale = jnp.exp(x)
        inner = m.cond(p, lambda u: u * scale, lambda u: jnp.sin(u) * y, x * y)
        return m.cond(jnp.sum(scale) > 0, lambda: inner * scale, lambda: inner)

    return m.cond(p, outer, lambda x: m.cond(p, lambda: x, lambda: outer(x) * y), x)


def jitted(m, p, x, y):
    f = mjax.jit(lambda u, v: (jnp.sin(u) * v, v)) if m is lax else lambda u, v: (
        jnp.sin(u) * v, v)
    a, b = m.cond(p, lambda x: f(x, y), lambda x: f(y * 2, x), x)
    return a * b


def switching(m, p, x, y):
    """Indices below, in and above the range, of several widths."""
    i = jnp.where(p, 1, 7) if not isinstance(p, (bool, np.bool_)) else (1 if p else 7)
    a = m.switch(i, [lambda x: x, lambda x: x * y, jnp.sin], x)
    b = m.switch(i - 5, [jnp.cos, lambda x: x * x, lambda x: x / 2], a)
    return a + b


PROGRAMS = [plain, handing_on, one_sided, with_integers, nested, jitted, switching]


def close(actual, expected, tolerance=2e-4):
    actual, expected = tree_leaves(actual), tree_leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert np.shape(a) == np.shape(e)
        np.testing.assert_allclose(a, e, tolerance, tolerance)


def total(f):
    """A scalar function of a function of a predicate and two arrays."""
    return lambda p, x, y: jnp.sum(jnp.sin(f(p, x, y)))
