"""Loops on both libraries: values, derivatives, batches, types of results, programs, mistakes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_agree
from tests.engine.control.loop_programs import DIRECTION, POINT, POINTS, SCANS, WHILES

PROGRAMS = {**SCANS, **WHILES}
HERE, THERE, MANY = ([np.float32(x) for x in point] for point in (POINT, DIRECTION, POINTS))


# ---- values ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    f = PROGRAMS[name]

    def run(m, x, v, xs):
        on = lambda *x: f(m, *x)
        found = [on(*x), m.jvp(on, tuple(x), tuple(v)), m.vmap(on, (None, 0, 0))(x[0], *xs[1:])]
        if name in SCANS:
            found += [m.grad(on, (0, 1, 2))(*x), m.vmap(m.grad(on), (0, None, None))(
                xs[0], *x[1:])]
        return found

    assert_agree(lambda m, *args: m.jit(lambda *args: run(m, *args))(*args), HERE, THERE, MANY,
                 tolerance=2e-4)


@pytest.mark.parametrize("name", ["rnn", "trees", "nested", "for_each"])
def test_second_derivatives(name):
    f = SCANS[name]
    assert_agree(lambda m, *x: m.jit(m.hessian(lambda *x: f(m, *x), (0, 1)))(*x), *HERE,
                 tolerance=5e-4)


XS = np.arange(5, dtype=np.float32)

#: Functions of the library alone.
CALLS = {
    "reverse": lambda m: m.lax.scan(lambda c, x: (c + x, c), 0.0, XS, reverse=True),
    "unroll": lambda m: m.lax.scan(lambda c, x: (c + x, c), 0.0, XS, unroll=3),
    "length": lambda m: m.lax.scan(lambda c, _: (c * 2, c), 1, None, 4),
    "length 0": lambda m: m.lax.scan(lambda c, x: (c + x, c), 0.0, XS[:0]),
    "length 1": lambda m: m.lax.scan(lambda c, x: (c + x, c), 0.0, XS[:1], unroll=True),
    "nothing": lambda m: m.lax.scan(lambda c, x: (c, None), (), XS),
    "no carry": lambda m: m.lax.scan(lambda c, x: (None, {"x": x * 2}), None, XS)[1],
    "trees": lambda m: m.lax.scan(lambda c, x: ({"a": c["a"] + x[0]}, [x[1], c]), {"a": 1.5},
                                  (XS, [XS > 2])),
    "keys": lambda m: m.random.key_data(m.lax.scan(
        lambda k, n: (m.random.fold_in(k, n), m.random.split(k)), m.random.key(0),
        np.arange(3))[1]),
    "raw keys": lambda m: m.lax.scan(lambda k, n: (m.random.fold_in(k, n), k),
                                     m.random.PRNGKey(0), np.arange(3)),
    "map": lambda m: m.lax.map(lambda x: {"y": m.numpy.sin(x), "n": 2}, XS),
    "map in batches": lambda m: m.lax.map(lambda x: (x, x > 1), XS, batch_size=2),
    "map in one batch": lambda m: m.lax.map(m.numpy.sum, XS.reshape(5, 1), batch_size=9),
    "fori": lambda m: m.lax.fori_loop(0, 5, lambda i, x: x + i, 0),
    "fori of floats": lambda m: m.lax.fori_loop(0, 5, lambda i, x: x + i, 0.5),
    "fori of int8": lambda m: m.lax.fori_loop(0, 5, lambda i, x: x + i, np.int8(1)),
    "fori, typed bounds": lambda m: m.lax.fori_loop(
        np.int16(0), np.int16(5), lambda i, x: x + i, 0),
    "fori, weak and typed": lambda m: m.lax.fori_loop(0, np.int8(5), lambda i, x: (i, 2 * x[1]),
                                                      (0, 1.0)),
    "fori backwards": lambda m: m.lax.fori_loop(3, 0, lambda i, x: x + i, 7),
    "fori, unrolled": lambda m: m.lax.fori_loop(0, 5, lambda i, x: x * i, 1.0, unroll=2),
    "fori, traced": lambda m: m.jit(lambda n: m.lax.fori_loop(0, n, lambda i, x: x + i, 0))(4),
    "fori, both traced": lambda m: m.jit(lambda a, b: m.lax.fori_loop(
        a, b, lambda i, x: (i, x[1] * 2), (0, 1.0)))(1, np.int16(4)),
    "fori, batched": lambda m: m.vmap(lambda n: m.lax.fori_loop(0, n, lambda i, x: x + i, 0))(
        np.arange(4)),
    "while": lambda m: m.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3),
    "while of floats": lambda m: m.lax.while_loop(lambda x: x < 9.0, lambda x: x * 2, 1.0),
    "while, promoted": lambda m: m.lax.while_loop(lambda x: x < 9, lambda x: x * 2.0, 1),
    "while, trees": lambda m: m.lax.while_loop(
        lambda s: s["n"] < 3, lambda s: {"n": s["n"] + 1, "x": (s["x"][0] * 2,)},
        {"n": 0, "x": (XS,)}),
    "while, never": lambda m: m.lax.while_loop(lambda x: False, lambda x: x + 1, 1.5),
    "while, batched": lambda m: m.vmap(lambda x: m.lax.while_loop(
        lambda x: x < 9, lambda x: x * 2, x + 1))(XS),
    "while, batched limit": lambda m: m.vmap(lambda n: m.lax.while_loop(
        lambda x: x < n, lambda x: x * 2 + n, 1.0))(XS),
    "associative": lambda m: m.lax.associative_scan(m.numpy.multiply, XS + 1),
    "associative, reverse": lambda m: m.lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (XS, XS + 1), reverse=True),
    "associative, axis": lambda m: m.lax.associative_scan(
        m.numpy.maximum, np.arange(12).reshape(3, 4) % 5, axis=-1),
    "associative, booleans": lambda m: m.lax.associative_scan(m.numpy.logical_xor, XS > 2),
    "running totals": lambda m: [getattr(m.lax, name)(XS.reshape(5, 1) + 1, 0, reverse)
                                 for name in ("cumsum", "cumprod", "cummax", "cummin",
                                              "cumlogsumexp") for reverse in (False, True)],
}


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_and_their_types(name, x64):
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        assert_agree(CALLS[name])
        if "traced" not in name:
            assert_agree(lambda m: m.jit(lambda: CALLS[name](m))())


STARTS = [0, 1.5, True, np.int8(1), np.float16(1), np.float32(2), np.float64(3)]
STEPS = {
    "same": lambda c, x: (c, c), "plus 1": lambda c, x: (c + 1, c),
    "plus 1.5": lambda c, x: (c + 1.5, c), "plus x": lambda c, x: (c + x, c),
    "x": lambda c, x: (x, c), "1": lambda c, x: (1, c), "1.5": lambda c, x: (1.5, c),
    "half": lambda c, x: (c * np.float16(2), c), "plus 1j": lambda c, x: (c + 1j, c),
    "compared": lambda c, x: (c > 0, c), "int8": lambda c, x: (x.astype("int8"), c),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("start", STARTS, ids=repr)
def test_weak_types_of_carries(start, step):
    """If jax refuses a carry, mjax does; otherwise it gives the carry the same type."""
    def outcome(m):
        try:
            # Under jit: eagerly jax hands Python's numbers through as they are.
            outs = m.jit(lambda: m.lax.scan(STEPS[step], start, XS))()
        except TypeError:
            return "refused"
        # Booleans do not have a weak kind.
        return [(str(x.dtype), x.weak_type and x.dtype != bool) for x in outs]

    assert outcome(mjax) == outcome(jax)

    def after_while(m):
        try:
            out = m.jit(lambda: m.lax.while_loop(
                lambda s: s[1] < 3, lambda s: (STEPS[step](s[0], s[1])[0], s[1] + 1),
                (start, np.float32(0))))()[0]
        except TypeError:
            return "refused"
        return str(out.dtype), out.weak_type and out.dtype != bool

    assert after_while(mjax) == after_while(jax)


# ---- programs --------------------------------------------------------------------------


def structure(jaxpr):
    """Primitives of a program in order, with what scans say of themselves, and their bodies."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        name, params = eqn.primitive.name, eqn.params
        if name in ("jit", "pjit"):
            found += structure(params["jaxpr"])
        elif name == "scan":
            facts = [params[k] for k in ("length", "reverse", "unroll", "num_carry")]
            found.append((name, *facts, structure(params["jaxpr"])))
        elif name == "while":
            found.append((name, structure(params["cond_jaxpr"]), structure(params["body_jaxpr"])))
        elif name == "cond":
            found.append((name, *map(structure, params["branches"])))
        else:
            found.append(name)
    return found


def lax_rnn(lax, w, c, xs):
    def body(c, x):
        new = lax.tanh(lax.add(lax.mul(c, lax.sin(w)), x))
        return new, lax.mul(lax.cos(c), x)

    return lax.scan(body, c, xs)


def lax_counter(lax, w, c, xs):
    def body(carry, x):
        c, i, same = carry
        return (lax.mul(c, x), lax.add(i, np.int32(1)), same), (same, x, i)

    return lax.scan(body, (c, np.int32(0), w), xs, reverse=True, unroll=2)


def lax_nested(lax, w, c, xs):
    def outer(c, x):
        return lax.scan(lambda d, y: (lax.sin(lax.mul(d, y)), lax.mul(d, x)), c, xs)

    return lax.scan(outer, c, xs)


def lax_loop(lax, w, c, xs):
    return lax.fori_loop(np.int32(0), np.int32(3), lambda i, c: lax.mul(c, w), c)


def lax_while(lax, w, c, xs):
    def inner(s):
        return lax.while_loop(lambda t: lax.lt(t[0], s[0]), lambda t: (
            lax.add(t[0], np.int32(1)), lax.mul(t[1], w)), (np.int32(0), s[1]))

    return lax.while_loop(lambda s: lax.lt(s[0], np.int32(3)), lambda s: (
        lax.add(s[0], np.int32(1)), inner(s)[1]), (np.int32(0), c))


def lax_choice(lax, w, c, xs):
    def body(c, x):
        first = lax.index_in_dim(x, 0, keepdims=False)
        return lax.cond(lax.gt(first, np.float32(0)), lambda c: lax.sin(c), lambda c: c, c), c

    return lax.scan(body, c, xs)


@pytest.mark.parametrize("f", [lax_rnn, lax_counter, lax_nested, lax_loop, lax_while, lax_choice])
def test_programs_have_the_same_equations(f):
    ours, theirs = (structure(m.make_jaxpr(lambda *x, m=m: f(m.lax, *x))(*HERE))
                    for m in (mjax, jax))
    assert ours == theirs
    many = [np.stack([x, x]) for x in HERE]
    ours, theirs = (m.jit(m.vmap(lambda *x, m=m: f(m.lax, *x)))(*many) for m in (mjax, jax))
    for a, b in zip(mjax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs),
                    strict=True):
        np.testing.assert_allclose(a, b, 1e-5, 1e-5)


# ---- mistakes --------------------------------------------------------------------------

MISTAKES = {
    "lengths": lambda m: m.lax.scan(lambda c, x: (c, x), 0, (XS, XS[:2])),
    "length": lambda m: m.lax.scan(lambda c, x: (c, x), 0, XS, 4),
    "no length": lambda m: m.lax.scan(lambda c, x: (c, x), 0, None),
    "scalar": lambda m: m.lax.scan(lambda c, x: (c, x), 0, 3.0),
    "unroll": lambda m: m.lax.scan(lambda c, x: (c, x), 0, XS, unroll=-1),
    "dtype": lambda m: m.lax.scan(lambda c, x: (c > 0, x), np.int32(0), XS),
    "shape": lambda m: m.lax.scan(lambda c, x: (XS, x), 0.0, XS),
    "structure": lambda m: m.lax.scan(lambda c, x: ([c], x), 0.0, XS),
    "no pair": lambda m: m.lax.scan(lambda c, x: c, 0.0, XS),
    "no function": lambda m: m.lax.scan(None, 0.0, XS),
    "while dtype": lambda m: m.lax.while_loop(lambda x: True, lambda x: x > 0, np.int32(0)),
    "while structure": lambda m: m.lax.while_loop(lambda x: True, lambda x: (x, x), 0.0),
    "predicate": lambda m: m.lax.while_loop(lambda x: x > 1, lambda x: x, XS),
    "predicate dtype": lambda m: m.lax.while_loop(lambda x: x, lambda x: x, 1.0),
    "no predicate": lambda m: m.lax.while_loop(lambda x: (), lambda x: x, 1.0),
    "bounds": lambda m: m.lax.fori_loop(0.5, 3, lambda i, x: x, 0),
    "bounds of two dtypes": lambda m: m.lax.fori_loop(
        np.int8(0), np.int32(3), lambda i, x: x, 0),
    "weak and unsigned bounds": lambda m: m.lax.fori_loop(0, np.uint8(3), lambda i, x: x, 0),
    "fori dtype": lambda m: m.lax.fori_loop(0, 3, lambda i, x: x > 0, np.int32(0)),
    "fori unroll": lambda m: m.jit(lambda n: m.lax.fori_loop(
        0, n, lambda i, x: x, 0, unroll=3))(3),
    "reverse mode": lambda m: m.grad(lambda x: m.lax.while_loop(
        lambda y: y < 9, lambda y: y * 2, x))(1.0),
    "reverse mode of fori": lambda m: m.jit(lambda n: m.grad(lambda x: m.lax.fori_loop(
        0, n, lambda i, y: y * 2, x))(1.0))(3),
    "associative sizes": lambda m: m.lax.associative_scan(lambda a, b: a, (XS, XS[:2])),
    "associative function": lambda m: m.lax.associative_scan(1, XS),
    "axis": lambda m: m.lax.associative_scan(m.numpy.add, XS, axis=1),
    "cumulative axis": lambda m: m.lax.cumsum(XS, 1),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_raise_the_same_errors(name):
    errors = []
    for m in (jax, mjax):
        with pytest.raises(Exception) as caught:
            MISTAKES[name](m)
        errors.append(caught.type)
    assert issubclass(errors[1], errors[0]), errors
