"""Calls that JAX accepts at the edges: empty arrays, large integers, objects like sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np
import pytest

import mjax
from tests.differential.compare import assert_equal_results

_A = np.arange(12, dtype=np.float32).reshape(3, 4)
_V = np.arange(3, dtype=np.float32)
_TOP = 2**32 - 1
_FLOAT0 = np.zeros(3, jax.dtypes.float0)


class _Sizes:
    """A sequence by its methods alone."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> int:
        return (2, 6)[i]


class _Iterable:
    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        return iter((2, 6))


class _Wrapped:
    def __init__(self, value: Any):
        self.value = value

    def __jax_array__(self) -> Any:
        return self.value


class _Named(NamedTuple):
    value: int

    def __rmul__(self, other: Any) -> str:  # type: ignore[override]
        return "its own product"


def _strict(m: Any, f: Any) -> Any:
    with m.numpy_dtype_promotion("strict"):
        return f()


def _explicit_ranks(m: Any, f: Any) -> Any:
    with m.numpy_rank_promotion("raise"):
        return f()


def _totals(m: Any, x: Any) -> Any:
    return m.vmap(lambda _: m.lax.psum(x, "i"), axis_name="i", out_axes=None)(_V)


def _counted(m: Any, length: Any) -> Any:
    return m.lax.scan(lambda c, _: (c + 1, c), 0, None, length=length)


CALLS = {
    "full uint32": lambda m: m.numpy.full((2,), _TOP, m.numpy.uint32),
    "full_like": lambda m: m.numpy.full_like(m.numpy.ones(2, m.numpy.uint32), _TOP),
    "lax.full": lambda m: m.lax.full((2,), _TOP, m.numpy.uint32),
    "full in jit": lambda m: m.jit(lambda: m.numpy.full((2,), _TOP, m.numpy.uint32))(),
    "at.set": lambda m: m.numpy.zeros(1, m.numpy.uint32).at[0].set(_TOP),
    "at.add in jit": lambda m: m.jit(lambda x: x.at[0].add(_TOP))(m.numpy.zeros(1, m.numpy.uint32)),
    "roll": lambda m: m.numpy.roll(_V, 2**40),
    "empty mask": lambda m: m.numpy.arange(3)[m.numpy.zeros((0,), bool)],
    "empty mask of rows": lambda m: m.numpy.ones((3, 4))[m.numpy.zeros((0, 4), bool)],
    "tri, traced k": lambda m: m.jit(lambda k: m.numpy.tri(3, 4, k))(1),
    "eye, traced k": lambda m: m.jit(lambda k: m.numpy.eye(3, 4, k))(-1),
    "eye, far diagonal": lambda m: m.numpy.eye(3, 4, k=2**40),
    "setdiff1d": lambda m: m.numpy.setdiff1d(m.numpy.zeros(0), _V, size=1),
    "trim_zeros of a scalar": lambda m: m.numpy.trim_zeros(m.numpy.float32(3)),
    "vander": lambda m: _strict(m, lambda: m.numpy.vander(m.numpy.arange(3.0))),
    "logspace": lambda m: _strict(m, lambda: m.numpy.logspace(np.int32(0), np.int32(2), 3)),
    "where": lambda m: _explicit_ranks(m, lambda: m.numpy.where(_A > 1, _A, _A[0])),
    "outer": lambda m: _explicit_ranks(m, lambda: m.numpy.minimum.outer(_V, _A)),
    "is_tree_node": lambda m: m.tree_util.is_tree_node(m.numpy.ones(2)),
    "nothing set": lambda m: m.numpy.zeros(3).at[3:].set(m.numpy.ones(7)),
    "nothing set in rows": lambda m: m.numpy.zeros((3, 4)).at[3:].add(m.numpy.ones((2, 2, 5))),
    "digitize": lambda m: m.jit(m.numpy.digitize)(np.zeros(0, np.complex64), _V.astype("c8")),
    "cumlogsumexp": lambda m: m.jit(m.lax.cumlogsumexp)(np.zeros((0, 3), np.int32)),
    "broadcast_to_rank": lambda m: m.lax.broadcast_to_rank(_A, 1),
    "one_hot": lambda m: m.numpy.take_along_axis(
        m.numpy.asarray(_A), np.array([[0, 5], [-1, 2], [-4, -5]]), 1, mode="one_hot"),
    "one_hot, axis 0": lambda m: m.numpy.take_along_axis(
        m.numpy.asarray(_A), np.array([[0, 1, 2, 0]]), 0, mode="one_hot"),
    "r_['r']": lambda m: m.numpy.r_["r", 1:3, [3]],
    "r_['c']": lambda m: m.numpy.r_["c", 1:3, [3]],
    "mul": lambda m: m.lax.mul(_V, m.numpy.asarray(_V, m.numpy.bfloat16), out_dtype=np.float32),
    "grad of mul": lambda m: m.grad(lambda x, y: m.lax.mul(x, y, out_dtype=np.float32).sum(), (
        0, 1))(m.numpy.asarray(_V), m.numpy.asarray(_V, m.numpy.bfloat16)),
    "lists of tracers": lambda m: m.jit(lambda x, i: x[i])(_A, ([0, 1], [1, 2])),
    "lists of tracers, set": lambda m: m.jit(lambda x, i: x.at[i].set(9))(_A, ([0, 1], [1, 2])),
    "insert": lambda m: m.numpy.insert(*[_Wrapped(m.numpy.arange(3))] * 3),
    "isscalar": lambda m: m.numpy.isscalar(_Wrapped(m.numpy.float32(2))),
    "isscalar, vector": lambda m: m.numpy.isscalar(_Wrapped(m.numpy.arange(3))),
    "operator of a named tuple": lambda m: m.numpy.ones(4) * _Named(1),
    "reshape": lambda m: m.numpy.arange(12).reshape(_Sizes()),
    "reshape, iterable": lambda m: m.numpy.reshape(m.numpy.arange(12), _Iterable()),
    "lax.reshape, iterable": lambda m: m.lax.reshape(m.numpy.arange(12), _Iterable()),
    "tile": lambda m: m.numpy.tile(1, _Sizes()),
    "axes": lambda m: m.numpy.sum(m.numpy.ones((1, 1, 3, 1, 1, 1, 2)), _Sizes()),
    "issubdtype(None)": lambda m: m.numpy.issubdtype(None, m.numpy.floating),
    "issubdtype(object)": lambda m: m.numpy.issubdtype(object, m.numpy.floating),
    "issubdtype(.., None)": lambda m: m.numpy.issubdtype(m.numpy.float32, None),
    "text": lambda m: m.numpy.float32("1.5"),
    "text, traced": lambda m: m.jit(lambda: m.numpy.complex64("1+2j"))(),
    "texts": lambda m: m.numpy.array(["1", "2"], dtype="int32"),
    "texts and numbers": lambda m: m.numpy.array(["1", 2], dtype="float16"),
    "NumPy texts": lambda m: m.numpy.asarray(np.array([["1"], ["0"]]), dtype=bool),
    "bytes": lambda m: m.numpy.array(b"2", dtype="int32"),
    "psum of True": lambda m: _totals(m, True),
    "psum of flags": lambda m: _totals(m, [np.bool_(True), 2]),
    "pmean of True": lambda m: m.vmap(
        lambda x: m.lax.pmean(True, "i"), axis_name="i", out_axes=None)(_V),
    "scan, a float as length": lambda m: _counted(m, 2.0),
    "array of two kinds of 16 bits": lambda m: m.numpy.array(
        [_V.astype("float16"), _V.astype(ml_dtypes.bfloat16)]),
    "array of none of them": lambda m: m.numpy.array(
        [_V[:0].astype("float16"), _V[:0].astype(ml_dtypes.bfloat16)], dtype="int8"),
    "scan, NumPy float as length": lambda m: _counted(m, np.float32(2)),
    "scan, array as length": lambda m: _counted(m, m.numpy.asarray(2.0)),
    "float0 along": lambda m: m.vmap(lambda x: x)(_FLOAT0),
    "issubdtype(longdouble)": lambda m: m.numpy.issubdtype(np.longdouble, m.numpy.floating),
}


@pytest.mark.parametrize("name", CALLS)
def test_accepted(name: str) -> None:
    ours, theirs = CALLS[name](mjax), CALLS[name](jax)
    if isinstance(theirs, (bool, str)):
        assert ours == theirs
    else:
        assert_equal_results(ours, theirs)


def _weighted(m: Any, name: str, a: Any, weights: Any, **options: Any) -> Any:
    q = np.array([0.0, 0.1, 0.5, 0.9]) * (100 if "percentile" in name else 1)
    return getattr(m.numpy, name)(a, q, weights=weights, method="inverted_cdf", **options)


@pytest.mark.parametrize("name", ["quantile", "percentile", "nanquantile", "nanpercentile"])
def test_weighted_quantiles(name: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 9, (3, 4)).astype(np.float32)
    a[1, 1] = np.nan
    weights = rng.integers(0, 3, (3, 4)).astype(np.float32)
    for options in ({}, {"axis": 1, "keepdims": True}, {"axis": (1, 0)}):
        assert_equal_results(_weighted(mjax, name, a, weights, **options),
                             _weighted(jax, name, a, weights, **options))
    assert_equal_results(_weighted(mjax, name, a, weights[0], axis=1),
                         _weighted(jax, name, a, weights[0], axis=1))
    for m in (mjax, jax):
        with pytest.raises(NotImplementedError, match="inverted_cdf"):
            getattr(m.numpy, name)(a, 0.5, weights=weights)
        with pytest.raises(ValueError, match=r"[Ww]eights"):
            _weighted(m, name, a, weights[:2])
        with pytest.raises(ValueError, match=r"[Ww]eights"):
            _weighted(m, name, a, weights * 1j)


def test_longdouble_is_refused_by_name() -> None:
    x = mjax.numpy.ones(2)
    for value in (np.longdouble(1), np.ones(2, np.longdouble), np.clongdouble(1)):
        for f in (mjax.numpy.asarray, mjax.jit(lambda a: a), mjax.numpy.sin, mjax.device_put,
                  x.__add__, x.at[0].set, mjax.lax.sin, mjax.typeof):
            with pytest.raises(TypeError, match="longdouble"):
                f(value)
    with pytest.raises(TypeError, match="longdouble"):
        mjax.numpy.zeros(2, np.longdouble)


def test_sequences_that_change_are_read_anew() -> None:
    class Sizes:
        def __init__(self) -> None:
            self.sizes = [2, 6]

        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> int:
            return self.sizes[i]

    sizes = Sizes()
    x = mjax.numpy.arange(12)
    assert x.reshape(sizes).shape == (2, 6)
    sizes.sizes = [3, 4]
    assert x.reshape(sizes).shape == (3, 4)


@pytest.mark.parametrize("f", [
    lambda m: m.numpy.size(_A, (0, 0)), lambda m: m.numpy.sum(_A, (0, -2)),
    lambda m: m.numpy.flip(_A, (0, 0)), lambda m: m.numpy.expand_dims(_A, (0, 0)),
    lambda m: m.numpy.squeeze(np.ones((1, 2)), (0, 0)), lambda m: m.numpy.median(_A, (0, 0)),
])
def test_an_axis_is_named_once(f: Any) -> None:
    for m in (mjax, jax):
        with pytest.raises((ValueError, TypeError), match=r"duplicate|repeated|unique"):
            f(m)
