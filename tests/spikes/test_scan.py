"""Spike: the gradient of a scan, on the engine's contracts for jaxprs.

The primitive that the spike made is gone, since `lax.scan` is there; what was asked of it is asked
of that. What it taught is in docs/design/0001-spikes.md.
"""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.slicing import index_in_dim


def looped(f, init, xs):
    """`scan` by a Python loop."""
    carry, ys = init, []
    for i in range(xs.shape[0]):
        carry, y = f(carry, index_in_dim(xs, i, keepdims=False))
        ys.append(lax.expand_dims(y, (0,)))
    return carry, concatenate(ys, 0)


def rnn(scan):
    """A recurrence with a const, loop-invariant work, and a result besides the carry."""

    def run(w, c, xs):
        def body(c, x):
            gate = lax.sin(lax.exp(w))  # the same in each iteration
            new = lax.tanh(lax.add(lax.mul(c, gate), x))
            return new, lax.mul(lax.cos(c), lax.mul(x, w))

        c, ys = scan(body, c, xs)
        return lax.add(lax.reduce_sum(lax.mul(c, c), (0,)), lax.reduce_sum(ys, (0, 1)))

    return run


def counting(scan):
    """One of two carries is an integer; results that are inputs, literals, duplicates."""

    def run(w, c, xs):
        def body(carry, x):
            c, i = carry
            at = lax.convert_element_type(i, np.float32)
            new = lax.mul(lax.sin(c), lax.mul(w, lax.add(at, 1.0)))
            return (new, lax.add(i, 1)), new

        (c, _), ys = scan(body, (c, np.int32(0)), xs)
        return lax.add(lax.reduce_sum(c, (0,)), lax.reduce_sum(lax.mul(ys, ys), (0, 1)))

    return run


def swapping(scan):
    """Carries that become each other: the fixpoint takes more than one step."""

    def run(w, c, xs):
        def body(carry, x):
            a, b, d = carry
            return (b, d, lax.mul(lax.sin(a), x)), jitted(a, w)

        (a, b, d), ys = scan(body, (lax.mul(c, 2.0), w, C), xs)
        return lax.add(lax.reduce_sum(lax.mul(a, lax.mul(b, d)), (0,)),
                       lax.reduce_sum(ys, (0, 1)))

    jitted = mjax.jit(lambda a, w: lax.mul(lax.sin(a), lax.exp(w)))
    return run


def nested(scan):
    """A scan in the body of a scan, over what is the same for each step of the outer one."""

    def run(w, c, xs):
        def outer(c, x):
            def inner(d, y):
                return lax.sin(lax.mul(d, lax.mul(w, x))), lax.mul(lax.exp(y), lax.exp(w))

            d, ys = scan(inner, c, xs)
            return d, lax.reduce_sum(lax.mul(ys, x_of(x, ys)), (0,))

        def x_of(x, ys):
            return lax.broadcast_in_dim(x, ys.shape, (1,))

        c, ys = scan(outer, c, xs)
        return lax.add(lax.reduce_sum(c, (0,)), lax.reduce_sum(ys, (0, 1)))

    return run


RNG = np.random.default_rng(0)
W, C = RNG.normal(size=(2, 3)).astype("float32")
X = RNG.normal(size=(4, 3)).astype("float32")
WS, CS = RNG.normal(size=(2, 4, 3)).astype("float32")
XS = RNG.normal(size=(4, 4, 3)).astype("float32")

TRANSFORMED = {
    "value": lambda f: f(W, C, X),
    "jit": lambda f: mjax.jit(f)(W, C, X),
    "grad": lambda f: mjax.grad(f, (0, 1, 2))(W, C, X),
    "grad of one": lambda f: mjax.grad(f)(W, C, X),
    "jit grad": lambda f: mjax.jit(mjax.grad(f, (0, 1, 2)))(W, C, X),
    "grad jit": lambda f: mjax.grad(mjax.jit(f), (0, 1, 2))(W, C, X),
    "jvp": lambda f: mjax.jvp(f, (W, C, X), (C, W, X)),
    "jvp of one": lambda f: mjax.jvp(lambda c: f(W, c, X), (C,), (W,)),
    "linearize": lambda f: mjax.linearize(f, W, C, X)[1](C, W, X),
    "hessian": lambda f: mjax.hessian(f, (0, 1))(W, C, X),
    "reverse over reverse": lambda f: mjax.jacrev(mjax.grad(mjax.jit(f)), (0, 2))(W, C, X),
    "vmap": lambda f: mjax.vmap(f, (0, None, None))(WS, C, X),
    "vmap xs": lambda f: mjax.vmap(f, (None, 0, 1))(W, CS, XS),
    "vmap grad": lambda f: mjax.vmap(mjax.grad(f, (0, 1)), (None, 0, None))(W, CS, X),
    "grad vmap": lambda f: mjax.grad(lambda w: lax.reduce_sum(
        mjax.vmap(f, (None, None, 1))(w, C, XS), (0,)))(W),
}


SLOW = ("hessian", "reverse over reverse", "vmap grad", "grad vmap", "grad jit", "jvp of one")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in TRANSFORMED])
@pytest.mark.parametrize("case", [rnn, *[
    pytest.param(case, marks=pytest.mark.slow) for case in (counting, swapping, nested)]])
def test_against_a_loop(case, name):
    actual, expected = (TRANSFORMED[name](case(how)) for how in (lax.scan, looped))
    for a, e in zip(tree_flatten(actual)[0], tree_flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a, e, 2e-4, 2e-4)


def test_transpose_of_a_scan_with_a_counter():
    def linear(x, c):
        def body(carry, x):
            i, c = carry
            at = lax.convert_element_type(i, np.float32)
            return (lax.add(i, 1), lax.add(lax.mul(c, at), x)), lax.mul(x, lax.sin(at))

        (_, c), ys = lax.scan(body, (np.int32(1), c), x)
        return c, ys

    cts = (C, X)
    actual = mjax.linear_transpose(linear, X, C)(cts)
    _, pull = mjax.vjp(linear, X, C)
    i = np.arange(1, 5, dtype="float32")
    after = np.array([np.prod(i[n + 1:]) for n in range(4)], "float32")
    expected = (after[:, None] * C + np.sin(i)[:, None] * X, np.prod(i) * C)
    for found in (actual, pull(cts)):
        for a, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, e, 1e-5, 1e-5)
