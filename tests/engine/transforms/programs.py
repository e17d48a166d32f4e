"""Programs on which transformations of jaxprs are checked, for every subset of their inputs.

They hold what goes wrong: results that are inputs, literals or duplicates, inputs that nothing
reads, unused equations, constants, integers, jits in jits, values used many times.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.stage import eval_jaxpr, stage

X, Y, Z = np.random.default_rng(3).normal(size=(3, 2)).astype("float32")
N = np.array([2, 3], "int32")
CONST = np.array([0.5, -1.5], "float32")


def straight(x, y, z):
    a = lax.mul(lax.sin(x), y)
    b = lax.exp(lax.add(a, z))
    lax.cos(b)  # nobody needs it
    return [lax.mul(b, a), lax.neg(a)]


def passing(x, y, z):
    """Results that are inputs, literals, duplicates; z is not read."""
    a = lax.mul(x, y)
    return [x, a, 2.0, a, y, x, lax.sin(a)]


def constants(x, y):
    shared = lax.mul(CONST, 3.0)
    return [lax.mul(lax.add(x, CONST), shared), lax.add(y, CONST), CONST]


def integers(x, n, y):
    """Values that have no tangent, used by ones that have."""
    m = lax.add(n, lax.mul(n, n))
    f = lax.convert_element_type(m, np.float32)
    big = lax.gt(x, y)
    return [lax.mul(x, f), m, lax.select(big, x, lax.sin(y)), big,
            lax.convert_element_type(lax.floor(x), np.int32)]


inner = mjax.jit(lambda x, y: (lax.mul(lax.sin(x), y), x, lax.cos(y), 1.0))
unread = mjax.jit(lambda x, y, z: lax.mul(y, y))
same = mjax.jit(lambda x: (x, x))


def calls(x, y, z):
    a, b, c, one = inner(x, lax.exp(y))
    d, e = same(a)
    f, _, g, _ = inner(c, z)
    return [lax.mul(d, b), lax.add(e, unread(c, f, g)), lax.add(g, one), z]


@mjax.jit
def nest(x, y):
    scale = lax.mul(y, 2.0)

    @mjax.jit
    def within(a):
        return lax.mul(lax.sin(a), scale), lax.mul(CONST, lax.tanh(y)), lax.cos(a)

    p, q, _ = within(lax.mul(x, scale))
    return within(p)[0], q, scale


def nested(x, y):
    a, b, c = nest(x, y)
    return [lax.mul(a, x), b, nest(c, a)[1]]


def linear_in_part(x, y, z):
    """Linear in x and in z each, not in y."""
    w = lax.exp(y)
    a = lax.mul(x, w)
    b, c = mjax.jit(lambda a, w: (lax.mul(lax.sin(w), a), lax.neg(w)))(a, w)
    return [lax.add(a, b), lax.mul(c, z), lax.convert_element_type(z, np.float32)]


def choosing(taken):
    """Branches that keep unlike things for their derivatives, and pass things on."""

    def program(x, n, y):
        at = lax.select(lax.gt(lax.reduce_sum(x, (0,)), 100.0), lax.reduce_max(n, (0,)), taken)
        big = lax.exp(lax.mul(x, 0.1))

        def zeroth(x, y):
            a = lax.sin(lax.mul(x, y))
            return a, y, n, lax.mul(a, big), 1.0

        def first(x, y):
            return lax.mul(y, 2.0), y, lax.neg(n), x, lax.reduce_sum(lax.mul(CONST, y), (0,))

        a, b, m, c, d = lax.switch(at, [zeroth, first], x, y)
        e = lax.cond(lax.gt(d, 2.0), lambda: lax.tanh(c), lambda: lax.mul(a, lax.cos(c)))
        return [e, b, m, lax.mul(d, 2.0)]

    return program


PROGRAMS = {
    "straight": (straight, [X, Y, Z]),
    "passing": (passing, [X, Y, Z]),
    "constants": (constants, [X, Y]),
    "integers": (integers, [X, N, Y]),
    "calls": (calls, [X, Y, Z]),
    "nested": (nested, [X, Y]),
    "linear in part": (linear_in_part, [X, Y, Z]),
    "choosing 0": (choosing(0), [X, N, Y]),
    "choosing 1": (choosing(1), [X, N, Y]),
}


def random_program(seed: int, branching: bool = False):
    """Twelve equations over what is there so far, some of them jitted, or in branches."""
    draw = np.random.default_rng(seed)
    inputs = [draw.normal(size=2).astype("float32") for _ in range(draw.integers(1, 4))]

    def program(*args):
        rng = np.random.default_rng(seed)

        def pick(values):
            return values[rng.integers(len(values))]

        def grow(values, steps, depth):
            values = list(values)
            for _ in range(steps):
                kind = rng.integers(8)
                if kind < 3:
                    values.append(pick([lax.sin, lax.tanh, lax.neg])(pick(values)))
                elif kind < 6:
                    values.append(pick([lax.mul, lax.add, lax.sub])(pick(values), pick(values)))
                elif kind == 6:
                    values.append(lax.mul(pick(values), 0.5))
                elif depth:
                    chosen = [pick(values) for _ in range(rng.integers(1, 4))]
                    free = pick(values)
                    if branching:
                        values += branch(chosen, free, depth)
                        continue
                    values += mjax.jit(lambda *a, d=depth, f=free: results(
                        grow([*a, f], 4, d - 1)))(*chosen)
            return values

        def results(values):
            return [pick(values) for _ in range(rng.integers(1, 4))]

        def branch(chosen, free, depth):
            """Branches that give as many results each, of what they are given or close over."""
            count, which = rng.integers(1, 4), pick([0, 1, 2, None])
            if which is None:
                which = lax.convert_element_type(lax.mul(lax.reduce_sum(free, (0,)), 4.0), np.int32)

            def one(own, *args):
                # Without jit only one of them runs: what follows must not depend on which.
                nonlocal rng
                outer, rng = rng, np.random.default_rng(own)
                values = grow([*args, free], 3, depth - 1)
                outs = [pick(values) for _ in range(count)]
                rng = outer
                return outs

            return lax.switch(which, [functools.partial(one, own) for own in rng.integers(
                1000, size=3)], *chosen)

        return results(grow(args, 12, 2))

    return program, inputs


PROGRAMS |= {f"random {seed}": random_program(seed) for seed in range(12)}
PROGRAMS |= {f"random branches {seed}": random_program(seed, True) for seed in (0, 1, 4, 5)}
#: The names, for tests that go through many subsets of arguments: of four it takes seconds.
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in (
    "choosing 0", "choosing 1", "random branches 1", "random branches 4", "random branches 5")
    else name for name in PROGRAMS]


def staged(name: str) -> tuple[Jaxpr, list]:
    """The jaxpr of a program, and inputs for it."""
    f, inputs = PROGRAMS[name]
    return stage(f, [typeof(x) for x in inputs]), inputs


def evaluate(jaxpr: Jaxpr, *args):
    """Equation by equation, without compiling."""
    with mjax.disable_jit():
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)


def subsets(n: int):
    """All tuples of n booleans."""
    return list(itertools.product([False, True], repeat=n))


def close(actual, expected, tolerance=1e-4):
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, e, tolerance, tolerance)


def split(flags, values):
    """Those whose flag is false, and those whose flag is true."""
    return ([v for f, v in zip(flags, values, strict=True) if not f],
            [v for f, v in zip(flags, values, strict=True) if f])
