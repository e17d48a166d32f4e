"""`lax.associative_scan`; the same in cumulative operations is in `test_cumulative.py`."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax import numpy as jnp
from tests.engine.control.loop_programs import compiled

RNG = np.random.default_rng(0)


def accumulated(f, xs):
    """The meaning, by a loop over the first axis of a list of arrays."""
    out = [[x[0] for x in xs]]
    for i in range(1, len(xs[0])):
        out.append(f(out[-1], [x[i] for x in xs]))
    return [np.stack(rows) for rows in zip(*out, strict=True)]


def compose(before, after):
    """Affine maps, one after the other: neither commutative nor elementwise."""
    (a, b), (c, d) = before, after
    return c @ a, (c @ b[..., None])[..., 0] + d


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 31])
def test_affine_maps(n):
    a = RNG.normal(size=(n, 2, 2)).astype(np.float32)
    b = RNG.normal(size=(n, 2)).astype(np.float32)
    found, back = compiled(lambda x: (lax.associative_scan(compose, x), lax.associative_scan(
        compose, x, reverse=True)))((a, b))
    for f, e in zip(found, accumulated(compose, [a, b]), strict=True):
        np.testing.assert_allclose(f, e, 1e-4, 1e-4)
    for f, e in zip(back, accumulated(compose, [a[::-1], b[::-1]]), strict=True):
        np.testing.assert_allclose(f, e[::-1], 1e-4, 1e-4)
    if n == 5:
        np.testing.assert_allclose(lax.associative_scan(compose, (a, b))[1], found[1], 1e-5, 1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64", "bfloat16", "uint32"])
def test_dtypes_and_axes(dtype):
    x = jnp.asarray(RNG.integers(0, 3, (5, 6))).astype(dtype)
    fn = jnp.logical_or if dtype == "bool" else jnp.maximum if dtype != "complex64" else jnp.add
    reference = {"bool": np.logical_or, "complex64": np.add}.get(dtype, np.maximum)
    axes = 0, 1, -1, -2
    outs = compiled(lambda: [lax.associative_scan(fn, x, axis=axis) for axis in axes])()
    for axis, found in zip(axes, outs, strict=True):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, reference.accumulate(np.asarray(x), axis))


def test_trees_and_what_is_no_array_yet():
    xs = {"a": np.arange(4), "b": (np.linspace(0, 1, 4), None)}
    out = lax.associative_scan(lambda p, q: {"a": p["a"] + q["a"], "b": (p["b"][0] * q["b"][0],
                                                                         None)}, xs)
    np.testing.assert_array_equal(out["a"], [0, 1, 3, 6])
    assert out["b"][1] is None and isinstance(out["a"], mjax.Array)
    one = lax.associative_scan(jnp.add, np.arange(1))
    assert isinstance(one, mjax.Array) and one.shape == (1,)
    assert lax.associative_scan(jnp.add, np.zeros((0, 2))).shape == (0, 2)


def test_derivatives_and_batches():
    xs = RNG.normal(size=(7,)).astype(np.float32)
    f = lambda x: jnp.sum(lax.associative_scan(jnp.multiply, x) * np.arange(1.0, 8.0))
    value = lambda x: np.sum(np.cumprod(x) * np.arange(1.0, 8.0))
    wide = xs.astype(float)
    slopes = [(value(wide + d) - value(wide - d)) / 2e-5 for d in np.eye(7) * 1e-5]
    for way in (mjax.grad, mjax.jacfwd):
        np.testing.assert_allclose(compiled(way(f))(xs), slopes, 1e-4, 1e-4)
    many = RNG.normal(size=(7, 3)).astype(np.float32)
    found = compiled(mjax.vmap(lambda x: lax.associative_scan(jnp.multiply, x), 1, 1))(many)
    np.testing.assert_allclose(found, np.cumprod(many, 0), 1e-5)


def test_calls_grow_with_the_logarithm():
    calls = []
    f = lambda x: lax.associative_scan(lambda a, b: calls.append(a.shape) or a + b, x)
    for n, most in ((2, 1), (16, 7), (1000, 18), (100_000, 33)):
        calls.clear()
        mjax.make_jaxpr(f)(mjax.ShapeDtypeStruct((n,), "int32"))
        assert len(calls) <= most


@pytest.mark.parametrize(("call", "error", "parts"), [
    (lambda: lax.associative_scan(3, np.arange(3)), TypeError, ["expects a function", "3"]),
    (lambda: lax.associative_scan(jnp.add, ()), ValueError, ["no leaves"]),
    (lambda: lax.associative_scan(jnp.add, {"a": 1.0}), ValueError, ["elems['a'] is a scalar"]),
    (lambda: lax.associative_scan(jnp.add, ["text"]), TypeError, ["elems[0]", "text"]),
    (lambda: lax.associative_scan(jnp.add, (np.arange(3), np.ones((2, 3)))), ValueError,
     ["one size along axis 0", "elems[0] has 3", "elems[1] has 2"]),
    (lambda: lax.associative_scan(jnp.add, (np.ones((2, 3)), np.ones(2)), axis=1), ValueError,
     ["axis 1", "elems[0] has 3", "elems[1] has no such axis"]),
    (lambda: lax.associative_scan(jnp.add, np.arange(3), axis=1), ValueError,
     ["axis 1 is out of bounds"]),
    (lambda: lax.associative_scan(lambda a, b: (a, b), np.arange(3)), TypeError,
     ["<lambda> at", "test_associative.py", "must return the type of its arguments", "int32[1]"]),
    (lambda: lax.associative_scan(lambda a, b: a[0], np.arange(3)), TypeError,
     ["int32[1]", "int32[]"]),
    (lambda: lax.associative_scan(lambda a, b: a < b, np.arange(3)), TypeError, ["bool[1]"]),
])
def test_mistakes(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)
