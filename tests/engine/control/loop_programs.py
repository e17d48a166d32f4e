"""Programs with loops, and what they mean: the same programs on NumPy, with Python's loops.

A program takes the library (`mjax`, `PYTHON` here, `jax` in tests/differential) and three arrays,
and gives a scalar: `program(m, w, c, xs)`. Its derivatives are those of a polynomial through
NumPy's values near the point, so that nothing that is tested stands on both sides.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np

import mjax
from mjax._engine.ir.effects import Effect
from mjax._engine.tracing.primitive import Primitive
from mjax.tree_util import tree_map
from tests.engine.primitives.harness import UNOPTIMIZED


def close(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """Equal numbers, up to a tolerance, in sequences and dicts nested alike."""
    if isinstance(actual, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), [expected[key] for key in actual]
    if isinstance(actual, (list, tuple)):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            close(a, e, tolerance)
    else:
        assert np.shape(actual) == np.shape(expected)
        np.testing.assert_allclose(actual, expected, tolerance, tolerance)


def compiled(f: Any) -> Any:
    """`jit` for what is run once."""
    return mjax.jit(f, compiler_options=UNOPTIMIZED)


# ---- Python's loops --------------------------------------------------------------------


def python_scan(f: Any, init: Any, xs: Any = None, length: int | None = None,
                reverse: bool = False, unroll: int | bool = 1) -> Any:
    """The meaning of `scan`."""
    if length is None:
        length = len(mjax.tree_util.tree_leaves(xs)[0])
    carry, ys = init, []
    for i in reversed(range(length)) if reverse else range(length):
        carry, y = f(carry, tree_map(lambda x, i=i: x[i], xs))
        ys.append(y)
    if not ys:
        return carry, ()
    return carry, tree_map(lambda *rows: np.stack(rows), *(ys[::-1] if reverse else ys))


def python_while(condition: Any, body: Any, value: Any) -> Any:
    """The meaning of `while_loop`."""
    while condition(value):
        value = body(value)
    return value


def python_fori(lower: int, upper: int, body: Any, value: Any, *, unroll: Any = None) -> Any:
    """The meaning of `fori_loop`."""
    for i in range(lower, upper):
        value = body(np.int32(i), value)
    return value


def python_cond(which: Any, yes: Any, no: Any, *operands: Any) -> Any:
    """The meaning of `cond`."""
    return yes(*operands) if which else no(*operands)


#: Stands for `mjax`.
PYTHON = SimpleNamespace(
    numpy=np, jit=lambda f: f, checkpoint=lambda f, **options: f,
    lax=SimpleNamespace(scan=python_scan, while_loop=python_while, fori_loop=python_fori,
                        cond=python_cond, stop_gradient=lambda x: x,
                        map=lambda f, xs, **_: python_scan(lambda _, x: ((), f(x)), (), xs)[1]))

# ---- programs with scans ---------------------------------------------------------------


def rnn(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A const, loop-invariant work, and a result besides the carry."""
    np = m.numpy

    def body(c: Any, x: Any) -> Any:
        gate = np.sin(np.exp(w))  # the same in each iteration
        return np.tanh(c * gate + x), np.cos(c) * x * w

    c, ys = m.lax.scan(body, c, xs)
    return np.sum(c * c) + np.sum(ys)


def counting(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Carries that are integers and booleans; a result that is the new carry."""
    np = m.numpy

    def body(carry: Any, x: Any) -> Any:
        c, i, even = carry
        new = np.sin(c) * (w * (i.astype(c.dtype) + 1)) + np.where(even, x, 0.5 * x)
        return (new, i + 1, ~even), new

    (c, i, _), ys = m.lax.scan(body, (c, np.int32(0), np.array(True)), xs)
    return np.sum(c) * i + np.sum(ys * ys)


def swapping(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Carries that become each other: what is non-zero, batched, unknown grows step by step."""
    np = m.numpy
    inner = m.jit(lambda a, w: np.sin(a) * np.exp(w))

    def body(carry: Any, x: Any) -> Any:
        a, b, d = carry
        return (b, d, np.sin(a) * x), inner(a, w)

    fixed = np.array([0.3, -0.4, 0.9])
    (a, b, d), ys = m.lax.scan(body, (c * 2, fixed, fixed * 2), xs)
    return np.sum(a * b * d) + np.sum(ys)


def nested(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A scan in the body of a scan, over what is the same for each step of the outer one."""
    np = m.numpy

    def outer(c: Any, x: Any) -> Any:
        d, ys = m.lax.scan(lambda d, y: (np.sin(d * (w * x)), np.exp(y) * np.exp(w)), c, xs)
        return d, np.sum(ys * x, 0)

    c, ys = m.lax.scan(outer, c, xs)
    return np.sum(c) + np.sum(ys)


def trees(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Dicts, tuples and None, from the last slice to the first."""
    np = m.numpy

    def body(carry: Any, x: Any) -> Any:
        both, nothing = x
        c = np.cos(carry["c"] * both[0]) + carry["pair"][1]
        return ({"c": c, "pair": (carry["pair"][1] * w, both[1]["y"])},
                {"a": c + both[0], "none": nothing, "b": (carry["pair"][0],)})

    start = {"c": c, "pair": (w, c * w)}
    last, ys = m.lax.scan(body, start, ((xs, {"y": xs * xs}), None), reverse=True)
    return (np.sum(last["c"] * last["pair"][0]) + np.sum(ys["a"] * np.sin(ys["b"][0])))


def forwarding(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Results that are inputs, constants, or given twice; a carry that never changes."""
    np = m.numpy

    def body(carry: Any, x: Any) -> Any:
        c, same = carry
        new = np.sin(c * same) * x
        return (new, same), (x, c, same, new, new, w, 2.0)

    (c, same), (x, before, rows, new, again, ws, two) = m.lax.scan(body, (c, w * 2), xs)
    return (np.sum(c * same) + np.sum(x * before) + np.sum(rows * new * again)
            + np.sum(np.cos(ws) * two[:, None]))


def from_zero(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A carry that starts at a constant: its tangent is zero before the first step."""
    np = m.numpy
    c, ys = m.lax.scan(lambda s, x: (s * w + np.sin(x), s * s), np.zeros(3), xs)
    return np.sum(c) + np.sum(ys)


def without_xs(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Nothing to scan over; two iterations at a time, and one left."""
    np = m.numpy
    c, ys = m.lax.scan(lambda c, _: (np.sin(c) * w + c, np.sum(c * w)), c, None, length=5, unroll=2)
    return np.sum(c * c) + np.sum(ys * ys)


def without_carry(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A loop whose iterations have nothing to do with each other."""
    np = m.numpy
    _, ys = m.lax.scan(lambda _, x: ((), np.sin(x * w) * c), (), xs, unroll=3)
    return np.sum(ys * ys) + np.sum(m.lax.map(lambda x: np.exp(x * c), xs))


def integers(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Integers and booleans to scan over, and as results."""
    np = m.numpy

    def body(c: Any, x: Any) -> Any:
        x, n, mask = x
        c = np.where(mask, c * x + n.astype(x.dtype), np.sin(c * w))
        return c, (n * 2, ~mask, c * n.astype(x.dtype))

    c, (n, mask, ys) = m.lax.scan(
        body, c, (xs, np.arange(4), np.array([True, False, False, True])))
    return np.sum(c) * np.sum(n) + np.sum(np.where(mask[:, None], ys * ys, w))


def unrolled(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """No loop is left."""
    np = m.numpy
    c, ys = m.lax.scan(lambda c, x: (np.sin(c * x) + w, c * w), c, xs, reverse=True, unroll=True)
    return np.sum(c * c * c) + np.sum(ys * xs)


def short(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """One iteration, and none."""
    np = m.numpy
    body = lambda c, x: (np.sin(c * x) * w, np.cos(c) * x)
    c, ys = m.lax.scan(body, c, xs[:1])
    same, _ = m.lax.scan(body, c * w, xs[:0], length=0)
    return np.sum(c * c) + np.sum(ys) + np.sum(same)


def choosing(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A cond in the body, one branch of which has a loop."""
    np = m.numpy

    def turn(c: Any, x: Any) -> Any:
        return m.lax.fori_loop(0, 3, lambda i, c: np.sin(c * x) + w, c)

    def body(c: Any, x: Any) -> Any:
        return m.lax.cond(x[0] > 0, turn, lambda c, x: c * x, c, x), np.exp(c)

    c, ys = m.lax.scan(body, c, xs)
    return np.sum(c * c) + np.sum(ys)


def deciding(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A while in a cond in a scan, that counts: derivatives do not go through it."""
    np = m.numpy

    def count(x: Any) -> Any:
        return m.lax.while_loop(lambda s: s[0] < 3.0, lambda s: (s[0] * 2, s[1] + 1),
                                (np.where(m.lax.stop_gradient(x) > 0, 0.8, 1.6), np.int32(1)))[1]

    def body(c: Any, x: Any) -> Any:
        n = m.lax.cond(x[0] > 0, count, lambda x: np.int32(2), x[1])
        return np.sin(c * n.astype(x.dtype)) * x * 0.3 + w, n

    c, ns = m.lax.scan(body, c, xs)
    return np.sum(c * c) * np.sum(ns)


def repeating(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Bodies that are computed again for the backward pass."""
    np = m.numpy

    @m.checkpoint
    def body(c: Any, x: Any) -> Any:
        gate = np.sin(np.exp(w) * c)
        return np.tanh(gate + x * w), np.cos(gate) * x

    c, ys = m.lax.scan(body, c, xs)
    return np.sum(c * c) + np.sum(ys)


def for_each(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A loop of known length over numbers."""
    np = m.numpy
    xs = np.asarray(xs)

    def body(i: Any, value: Any) -> Any:
        c, total = value
        x = xs[i]
        return np.sin(c * x) + w * i.astype(x.dtype), total + np.sum(c * w)

    c, total = m.lax.fori_loop(0, 4, body, (c, np.zeros(())))
    return np.sum(c * c) + total * total


SCANS = {f.__name__: f for f in (
    rnn, counting, swapping, nested, trees, forwarding, from_zero, without_xs, without_carry,
    integers, unrolled, short, choosing, deciding, repeating, for_each)}

# ---- programs with whiles: forward mode ------------------------------------------------


def doubling(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Ends by a value that has a tangent."""
    np = m.numpy
    c, n = m.lax.while_loop(lambda s: np.sum(s[0] * s[0]) < 50.0,
                            lambda s: (s[0] * 1.5 + np.sin(w), s[1] + 1), (c, np.int32(0)))
    return np.sum(c) * n.astype(c.dtype)


def bounded(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """Ends by what it closes over; carries that become each other."""
    np = m.numpy
    limit = 2 + 3 * np.abs(np.sin(xs[0, 0]))

    def body(s: Any) -> Any:
        i, a, b, d = s
        return i + 1, b, d, np.cos(a) * w + xs[1]

    fixed = np.array([0.3, -0.4, 0.9])
    i, a, b, d = m.lax.while_loop(lambda s: s[0].astype(limit.dtype) < limit, body,
                                  (np.int32(0), c * 1, fixed, fixed * 2))
    return np.sum(a * b * d) + np.sum(a) * i.astype(a.dtype)


def never(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """No iteration at all, for some elements."""
    np = m.numpy
    s, n = m.lax.while_loop(lambda s: s[0] + s[1].astype(w.dtype) < 0,
                            lambda s: (s[0] * w[1], s[1] + 1), (c[0] * w[0], np.int32(-1)))
    return s * s + n.astype(w.dtype) * np.sum(xs)


def nested_whiles(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A while in a while in a scan."""
    np = m.numpy

    def inner(t: Any) -> Any:
        return t[0] * 1.5, np.sin(t[1]) * w + t[0], t[2] + 1

    def outer(s: Any) -> Any:
        a, y, n = s
        _, y, k = m.lax.while_loop(lambda t: (t[0] < 1) & (t[2] < 4), inner, (a, y, np.int32(0)))
        return a * 0.6, y, n + k + 1

    def body(c: Any, x: Any) -> Any:
        # The number of iterations depends on the sign of x, the values on x.
        start = np.where(x[0] > 0, 0.4, 0.7)
        _, y, n = m.lax.while_loop(lambda s: s[2] < 6, outer, (start, c * x, np.int32(0)))
        return np.sin(c) + y, n

    c, ns = m.lax.scan(body, c, xs)
    return np.sum(c * c) * np.sum(ns)


def dynamic_bounds(m: Any, w: Any, c: Any, xs: Any) -> Any:
    """A loop over numbers whose end is computed."""
    np = m.numpy
    n = np.sum(xs[:, 0] > 0).astype(np.int32) + 2
    return np.sum(m.lax.fori_loop(
        np.int32(1), n, lambda i, c: np.sin(c) * w + i.astype(w.dtype), c))


WHILES = {f.__name__: f for f in (doubling, bounded, never, nested_whiles, dynamic_bounds)}

# ---- points, and derivatives there -----------------------------------------------------

_RNG = np.random.default_rng(0)

def _draw(*shape: int) -> np.ndarray:
    """Numbers away from zero, where programs decide."""
    x = _RNG.normal(size=shape)
    return x + np.sign(x) / 4


POINT = _draw(3), _draw(3), _draw(4, 3)
DIRECTION = tuple(_RNG.normal(size=x.shape) for x in POINT)
#: Three points in one, along a leading axis.
POINTS = tuple(np.stack([x, *_draw(2, *x.shape)]) for x in POINT)
#: The interval in which polynomials take the place of programs.
_RADIUS, _DEGREE = 0.02, 12


@functools.cache
def derivatives(program: Any) -> tuple[float, ...]:
    """The value at `POINT` and the first three derivatives along `DIRECTION`, by NumPy."""
    return _taylor(lambda t: program(PYTHON, *[x + t * v for x, v in zip(POINT, DIRECTION)]))


@functools.cache
def gradient(program: Any) -> list[np.ndarray]:
    """The gradient at `POINT`, by NumPy."""
    parts = [np.zeros(x.shape) for x in POINT]
    for k, part in enumerate(parts):
        for i in np.ndindex(part.shape):
            step = [np.zeros(x.shape) for x in POINT]
            step[k][i] = 1
            part[i] = _taylor(lambda t, step=step: program(
                PYTHON, *[x + t * v for x, v in zip(POINT, step)]))[1]
    return parts


def _taylor(f: Any) -> tuple[float, ...]:
    t = np.cos((np.arange(_DEGREE + 1) + 0.5) * np.pi / (_DEGREE + 1))
    values = [float(f(_RADIUS * t)) for t in t]
    series = np.polynomial.chebyshev.Chebyshev(
        np.polynomial.chebyshev.chebfit(t, values, _DEGREE))
    return tuple(float(series.deriv(n)(0)) / _RADIUS**n if n else float(series(0))
                 for n in range(4))


def on(program: Any) -> Any:
    """A program as a function of arrays."""
    return functools.partial(program, mjax)


#: Ways to differentiate along `DIRECTION`, from scalar functions to scalar functions.
ALONG = {
    "jvp": lambda f: lambda *x: mjax.jvp(f, x, DIRECTION)[1],
    "lin": lambda f: lambda *x: mjax.linearize(f, *x)[1](*DIRECTION),
    "grad": lambda f: lambda *x: sum(
        mjax.numpy.sum(g * v) for g, v in zip(mjax.grad(f, (0, 1, 2))(*x), DIRECTION)),
}

#: Operands of short scans: weights, a carry and what is scanned over.
W, C = np.ones((2, 3), np.float32)
X = np.ones((4, 3), np.float32)


def scans(jaxpr: Any) -> list[Any]:
    """The scans of a program that stand in no other scan."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is mjax.lax.scan_p:
            found.append(eqn)
        elif eqn.primitive.name == "jit":
            found += scans(eqn.params["jaxpr"])
    return found


# ---- an effect ------------------------------------------------------------------------


class Knock(Effect):
    """Stays where it is, and happens as often as the program says."""


knock = Knock()
knock_p = Primitive("knock")
knock_p.def_impl(lambda x: x)
knock_p.def_effectful_abstract_eval(lambda x: (x, {knock}))
knock_p.def_jvp(lambda primals, tangents: (knock_p.bind(*primals), tangents[0]))
knock_p.def_batch(lambda args, dims: (knock_p.bind(*args), *dims))
