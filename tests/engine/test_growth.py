"""Cost grows with the program, not faster: calls of functions, and frames on Python's stack.

Calls are counted, not timed, so that the outcome is the same on any machine; `python -m benchmarks`
measures times up to 100,000 equations.
"""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import mjax
from mjax import lax
from tests.engine.reading import calls

X = np.linspace(0.1, 0.9, 3, dtype=np.float32)


def chain(n):
    def f(x):
        y = x
        for _ in range(n // 2):
            y = lax.mul(lax.sin(y), x)
        return y

    return f


def total(n):
    return lambda x: lax.reduce_sum(chain(n)(x), (0,))


WORK = {
    "trace": lambda n: mjax.make_jaxpr(chain(n))(X),
    "jvp": lambda n: mjax.make_jaxpr(lambda x: mjax.jvp(chain(n), (x,), (x,)))(X),
    "grad": lambda n: mjax.make_jaxpr(mjax.grad(total(n)))(X),
    "grad of grad": lambda n: mjax.make_jaxpr(mjax.grad(
        lambda x: lax.reduce_sum(mjax.grad(total(n))(x), (0,))))(X),
    "grad of jit": lambda n: mjax.make_jaxpr(mjax.grad(mjax.jit(total(n))))(X),
    "vmap": lambda n: mjax.make_jaxpr(mjax.vmap(chain(n)))(np.stack([X, X])),
    "grad of cond": lambda n: mjax.make_jaxpr(mjax.grad(
        lambda x: lax.cond(True, total(n), total(n), x)))(X),
    "vmap of cond": lambda n: mjax.make_jaxpr(mjax.vmap(
        lambda p, x: lax.cond(p, chain(n), chain(n), x)))(np.ones(2, bool), np.stack([X, X])),
    "grad of checkpoint": lambda n: mjax.make_jaxpr(mjax.grad(mjax.checkpoint(total(n))))(X),
    "grad of grad of checkpoint": lambda n: mjax.make_jaxpr(mjax.grad(
        lambda x: lax.reduce_sum(mjax.grad(mjax.checkpoint(total(n)))(x), (0,))))(X),
    "eager grad": lambda n: mjax.grad(total(n))(X),
    "lower": lambda n: mjax.jit(chain(n)).lower(X),
    "print": lambda n: str(mjax.make_jaxpr(chain(n))(X)),
}


@pytest.mark.parametrize("name", WORK)
def test_twice_the_equations_cost_twice_the_calls(name):
    work = WORK[name]
    work(10)  # compiles and caches what later calls share
    once, twice = calls(lambda: work(200)), calls(lambda: work(400))
    assert twice < 2.1 * once


NESTED = {
    "jit": lambda f: mjax.jit(lambda x: f(x)),
    "grad": lambda f: mjax.grad(lambda x: f(x)),
    "jvp": lambda f: lambda x: mjax.jvp(lambda y: f(y), (x,), (x,))[1],
    "vmap": lambda f: lambda x: lax.index_in_dim(
        mjax.vmap(lambda y: f(y))(lax.broadcast(x, (2,))), 0, keepdims=False),
    "cond": lambda f: lambda x: lax.cond(True, lambda x: f(x), lambda x: x, x),
    "checkpoint": lambda f: mjax.checkpoint(lambda x: f(x)),
}


def frames(nest, levels):
    """The depth of the stack in a function under nested transformations."""
    depths = []

    def f(x):
        depths.append(len(inspect.stack(0)))
        return lax.sin(x)

    for _ in range(levels):
        f = nest(f)
    f(1.0)
    return max(depths)


@pytest.mark.parametrize("name", NESTED)
def test_frames_per_nested_transformation(name):
    nest = NESTED[name]
    assert frames(nest, 5) - frames(nest, 4) == frames(nest, 4) - frames(nest, 3) <= 12


def deepest(f):
    """How many frames a call stacks up."""
    depth = most = 0

    def profile(frame, event, arg):
        nonlocal depth, most
        depth += {"call": 1, "return": -1}.get(event, 0)
        most = max(most, depth)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        f()
    finally:
        sys.setprofile(before)
    return most


def test_frames_per_nested_checkpoint_in_a_derivative():
    def frames(levels):
        f = lax.sin
        for _ in range(levels):
            f = mjax.checkpoint(lambda x, f=f: lax.sin(f(x)))
        return deepest(lambda: mjax.make_jaxpr(mjax.grad(f))(1.0))

    assert frames(8) - frames(7) == frames(7) - frames(6) <= 20


def test_long_programs_need_no_deep_stack():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(300)
    try:
        assert mjax.grad(total(2000))(X).shape == (3,)
        mjax.jit(mjax.grad(total(2000))).lower(X)
    finally:
        sys.setrecursionlimit(limit)
