"""Every function that takes a dtype takes every spelling that JAX's takes, and reads the same."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

import mjax

#: Library -> what is given as a dtype.
SPELLINGS: list[Callable[[Any], Any]] = [
    lambda m: "float32", lambda m: np.float32, lambda m: np.dtype("float32"),
    lambda m: m.numpy.float32, lambda m: "f4", lambda m: float, lambda m: int, lambda m: bool,
    lambda m: complex, lambda m: np.int8, lambda m: "i1", lambda m: m.numpy.int8,
    lambda m: "uint32", lambda m: np.uint32, lambda m: m.numpy.bfloat16, lambda m: "bfloat16",
    lambda m: ml_dtypes.bfloat16, lambda m: np.complex64, lambda m: np.float64,
    lambda m: np.bool_, lambda m: None, lambda m: np.floating, lambda m: "nothing"]

X = np.array([1.0, 2.0], np.float32)
SQUARE = np.eye(2, dtype=np.float32)

#: Of (library, dtype): traced.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    **{f"jnp.{n}": lambda m, d, n=n: getattr(m.numpy, n)((2,), d) for n in ("zeros", "empty")},
    **{f"jnp.{n}": lambda m, d, n=n: getattr(m.numpy, n)(X, d) for n in
       ("zeros_like", "ones_like", "empty_like", "array", "asarray")},
    **{f"jnp.{n}": lambda m, d, n=n: getattr(m.numpy, n)(X, dtype=d) for n in
       ("sum", "prod", "nansum", "nanprod", "cumsum", "cumprod", "nancumsum", "cumulative_prod")},
    **{f"jnp.{n}": lambda m, d, n=n: getattr(m.numpy, n)([X, X], dtype=d) for n in
       ("concatenate", "stack", "hstack", "vstack")},
    **{f"jnp.{n}": lambda m, d, n=n: getattr(m.numpy, n)(X, X, preferred_element_type=d)
       for n in ("dot", "matmul", "vdot", "inner")},
    "jnp.full": lambda m, d: m.numpy.full((2,), 1, d),
    "jnp.full_like": lambda m, d: m.numpy.full_like(X, 1, d),
    "jnp.arange": lambda m, d: m.numpy.arange(3, dtype=d),
    "jnp.linspace": lambda m, d: m.numpy.linspace(0, 1, 3, dtype=d),
    "jnp.eye": lambda m, d: m.numpy.eye(2, dtype=d),
    "jnp.tri": lambda m, d: m.numpy.tri(2, dtype=d),
    "jnp.indices": lambda m, d: m.numpy.indices((2,), dtype=d),
    "jnp.trace": lambda m, d: m.numpy.trace(SQUARE, dtype=d),
    "jnp.einsum": lambda m, d: m.numpy.einsum("i,i", X, X, preferred_element_type=d),
    "Array.astype": lambda m, d: m.numpy.asarray(X).astype(d),
    "Array.sum": lambda m, d: m.numpy.asarray(X).sum(dtype=d),
    "ufunc.reduce": lambda m, d: m.numpy.add.reduce(X, dtype=d),
    "ufunc.accumulate": lambda m, d: m.numpy.add.accumulate(X, dtype=d),
    "lax.convert_element_type": lambda m, d: m.lax.convert_element_type(X, d),
    "lax.full": lambda m, d: m.lax.full((2,), 1, d),
    "lax.full_like": lambda m, d: m.lax.full_like(X, 1, d),
    "lax.iota": lambda m, d: m.lax.iota(d, 3),
    "lax.argmax": lambda m, d: m.lax.argmax(X, 0, d),
    "lax.dot": lambda m, d: m.lax.dot(X, X, preferred_element_type=d),
    **{f"random.{n}": lambda m, d, n=n: getattr(m.random, n)(m.random.key(0), (2,), d)
       for n in ("uniform", "normal", "gumbel", "laplace", "bits", "rademacher")},
    "random.randint": lambda m, d: m.random.randint(m.random.key(0), (2,), 0, 5, d),
}

#: Of (library, dtype): questions about the dtype.
QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "finfo": lambda m, d: (lambda f: (float(f.eps), f.bits))(m.numpy.finfo(d)),
    "iinfo": lambda m, d: (lambda f: (int(f.max), f.bits))(m.numpy.iinfo(d)),
    "isdtype": lambda m, d: m.numpy.isdtype(d, ("real floating", "bool")),
    "issubdtype": lambda m, d: m.numpy.issubdtype(np.float32, d),
    "result_type": lambda m, d: m.numpy.result_type(d, np.int8),
    "promote_types": lambda m, d: m.numpy.promote_types(d, np.int16),
    "can_cast from": lambda m, d: m.numpy.can_cast(d, np.float64),
    "can_cast to": lambda m, d: m.numpy.can_cast(np.int8, d),
    "dtypes.canonicalize_dtype": lambda m, d: m.dtypes.canonicalize_dtype(d),
    "dtypes.result_type": lambda m, d: m.dtypes.result_type(d, 1.5),
    "lax.dtype": lambda m, d: m.lax.dtype(d),
    "ShapeDtypeStruct": lambda m, d: m.ShapeDtypeStruct((2,), d).dtype,
    "scalar type ==": lambda m, d: bool(m.numpy.float32 == d),
}


def traced(m: Any, f: Callable[[Any, Any], Any], spelling: Callable[[Any], Any]) -> Any:
    return m.eval_shape(lambda: f(m, spelling(m)))


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            out = f(*args)
        except (TypeError, ValueError):
            return "refused"
    return (out.shape, str(out.dtype), out.weak_type) if hasattr(out, "weak_type") else str(out)


@pytest.mark.parametrize("name", CALLS)
def test_functions_that_take_a_dtype(name: str) -> None:
    for spelling in SPELLINGS:
        ours, theirs = [outcome(traced, m, CALLS[name], spelling) for m in (mjax, jax)]
        assert ours == theirs, f"dtype {spelling(jax)!r}"


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("x64", [False, True])
def test_questions_about_dtypes(name: str, x64: bool) -> None:
    with mjax.enable_x64(x64), jax.enable_x64(x64):
        for spelling in SPELLINGS:
            ours, theirs = [outcome(lambda m, f, d: f(m, d(m)), m, QUESTIONS[name], spelling)
                            for m in (mjax, jax)]
            assert ours == theirs, f"dtype {spelling(jax)!r}"


def _weak(m: Any, value: Any, *shape: int) -> Any:
    return m.numpy.broadcast_to(m.numpy.asarray(value), shape)


#: Results whose dtype or weak type depends on weakly typed operands.
WEAK = {
    "approx_max_k": lambda m, x: m.lax.approx_max_k(x, 1),
    "argpartition": lambda m, x: m.numpy.argpartition(x, 1),
    "associative_scan": lambda m, x: m.lax.associative_scan(m.numpy.add, x),
    "concatenate": lambda m, x: m.numpy.concatenate([m.numpy.less(x, 2), m.numpy.less(x, 2)]),
    "convolve": lambda m, x: m.numpy.convolve(x, x),
    "cross": lambda m, x: m.numpy.cross(x, x),
    "diag": lambda m, x: [m.numpy.diag(x), m.numpy.diag(_weak(m, 1.5, 3, 3)),
                          m.numpy.diag(_weak(m, 1.5, 2, 3))],
    "dot": lambda m, x: [m.lax.dot(x, x), m.lax.dot(x, 2 * m.numpy.ones(3))],
    "full_like": lambda m, x: m.lax.full_like(x, m.numpy.float32(2)),
    "gcd": lambda m, x: [m.numpy.gcd(_weak(m, 4, 2), 2), m.numpy.lcm(4, 2)],
    "hypot": lambda m, x: [
        getattr(m.numpy, name)(a, b) for name in ("hypot", "heaviside", "logaddexp", "logaddexp2")
        for a, b in itertools.product((True, 1, np.int32(1), 1.5, x, x[0], np.ones(3, bool)),
                                      repeat=2)],
    "insert": lambda m, x: m.numpy.insert(x, 1, 2),
    "interp": lambda m, x: [m.numpy.interp(x, x, x), m.numpy.interp(1.5, m.numpy.ones(2), x[:2])],
    "sets": lambda m, x: [
        m.numpy.intersect1d(np.arange(2) > 0, np.arange(2) > 0, size=3, fill_value=np.int32(2)),
        m.numpy.setxor1d(np.arange(3), np.arange(2), size=3, fill_value=np.float32(1.5))],
    "isreal": lambda m, x: [f(v) for f in (m.numpy.isreal, m.numpy.iscomplex)
                            for v in (True, 1, 1.0, 1j, x, x[0])],
    "mul": lambda m, x: m.lax.mul(2, 3, out_dtype=np.float32),
    "norm": lambda m, x: [m.numpy.linalg.norm(x), m.numpy.linalg.norm(x, ord=3)],
    "pad": lambda m, x: [m.numpy.pad(x, 1, mode=mode) for mode in (
        "constant", "edge", "linear_ramp", "maximum", "mean", "median", "reflect", "wrap")],
    "polymul": lambda m, x: m.numpy.polymul(x, x),
    "polydiv": lambda m, x: [m.numpy.polydiv(x, x), m.numpy.polydiv(x[:1], x)],
    "power": lambda m, x: [m.numpy.power(1, _weak(m, 1, 3)), _weak(m, 1, 3) ** 2, 2 ** x],
    "reduce": lambda m, x: [m.lax.reduce(x, v, f, (0,)) for v in (0.0, np.float32(0))
                            for f in (m.lax.add, lambda a, b: a * b + a)],
    "reduce_or": lambda m, x: m.lax.reduce_or(_weak(m, 1, 3), (0,)),
    **{name: lambda m, x, name=name: [
        getattr(m.numpy, name)(a, b, size=2, fill_value=fill) for a, b, fill in itertools.product(
            (x, np.ones(3, np.int32)), (x, _weak(m, 2, 3)), (None, 2, 1.5, np.int8(1)))]
       for name in ("setdiff1d", "setxor1d", "union1d", "intersect1d")},
    "sections": lambda m, x: [m.numpy.array_split(x, 2.0), m.numpy.bartlett(3.5),
                              m.numpy.kaiser(3.0, 1.0)],
    "top_k": lambda m, x: m.lax.top_k(x, 1),
    "variance": lambda m, x: m.numpy.cov(np.zeros((0, 3), np.complex64)),
}


@pytest.mark.parametrize("name", WEAK)
def test_weak_types(name: str) -> None:
    found = []
    for m in (mjax, jax):
        results = m.eval_shape(lambda m=m: WEAK[name](m, _weak(m, 1.5, 3)))
        found.append([(t.shape, str(t.dtype), t.weak_type)
                      for t in m.tree_util.tree_leaves(results)])
    assert found[0] == found[1]
