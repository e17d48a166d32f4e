"""Ufunc objects: reduce, accumulate, at, outer, reduceat against NumPy's; frompyfunc."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4)).astype(np.float32)
N = rng.integers(-4, 5, (3, 4)).astype(np.int32)
B = rng.integers(0, 2, (3, 4)).astype(bool)
C = (X + 1j * X[::-1]).astype(np.complex64)
MASK = np.array([[True, False, True, True], [False] * 4, [True] * 4])
NUMBERS = {"add": (X, N, B, C), "multiply": (X, N, B, C),
           "subtract": (X, N, C), "maximum": (X, N, B), "minimum": (X, N, B), "logaddexp": (X,),
           "logaddexp2": (X, X * 100)}
BITS = {"bitwise_and": (N, B, N.astype(np.uint8)), "bitwise_or": (N, B), "bitwise_xor": (N, B)}
TRUTH = {"logical_and": (X, N, B), "logical_or": (X, N, B), "logical_xor": (X, N, B)}
BINARY = NUMBERS | BITS | TRUTH
PIECES = [np.array(p) for p in ([0], [0, 2], [0, 1, 2, 3], [3, 0, 2], [2, 2, 1], [1, 3, 0, 3])]


def narrow(method: str) -> Any:
    """NumPy's method in the dtype of the array: jax does not widen there."""
    name, method = method.split(".")
    return lambda a, *args, **kwargs: getattr(getattr(np, name), method)(
        a, *args, **kwargs).astype(bool if name in TRUTH else a.dtype)


def summed(name: str) -> Any:
    """NumPy's running sum, in the dtype of the array but for booleans."""
    method = getattr(np, name).accumulate
    return lambda a, **kwargs: method(a, **kwargs).astype(
        a.dtype if a.dtype != bool or name not in ("add", "multiply") else np.int32) if (
            name not in TRUTH) else method(a, **kwargs)


ROWS = [
    *[call(f"{name}.reduce", a, axis=axis) for name, arrays in BINARY.items() for a in arrays
      for axis in (0, 1, None) if name != "subtract" or axis is not None],
    *[call(f"{name}.reduce", a, axis=1, keepdims=True, initial=a.dtype.type(2))
      for name, arrays in BINARY.items() for a in arrays],
    *[call(f"{name}.reduce", arrays[0], axis=1, where=MASK, initial=arrays[0].dtype.type(1))
      for name, arrays in BINARY.items()],
    *[call(f"{name}.reduce", BINARY[name][0], axis=0, where=MASK)
      for name in BINARY if getattr(np, name).identity is not None],
    *[call(f"{name}.reduce", BINARY[name][0][:0]) for name in BINARY
      if getattr(np, name).identity is not None],
    *[call(f"{name}.reduce", BINARY[name][0], axis=(0, 1)) for name in BINARY
      if name != "subtract"],
    call("add.reduce", N, dtype=np.float32), call("maximum.reduce", N, dtype=np.float32),
    call("subtract.reduce", N, dtype=np.float32), call("subtract.reduce", X[:0], initial=2.0),
    call("bitwise_or.reduce", N, axis=1, keepdims=True),
    call("logaddexp.reduce", X * np.inf, derivative=False),
    call("subtract.reduce", X[None], axis=1, where=MASK[:, :1], initial=0.5),
    *[call(f"{name}.accumulate", a, axis=axis, reference=summed(name))
      for name, arrays in BINARY.items() for a in arrays for axis in (0, 1)],
    *[call(f"{name}.accumulate", BINARY[name][0][:n], axis=0) for name in BINARY for n in (0, 1)],
    call("subtract.accumulate", N, dtype=np.float32), call("maximum.accumulate", N, 1, np.float32),
    *[call(f"{name}.outer", a, a[0]) for name, arrays in BINARY.items() for a in arrays],
    call("add.outer", 2.0, X), call("add.outer", X[0], np.float32(3)), call("add.outer", X, X[:0]),
    *[call(f"{name}.reduceat", BINARY[name][0], p, axis=1, reference=narrow(f"{name}.reduceat"))
      for name in ("add", "subtract", "maximum", "logical_xor", "logaddexp") for p in PIECES],
    *[call(f"{name}.reduceat", BINARY[name][0], PIECES[1], reference=narrow(f"{name}.reduceat"))
      for name in BINARY],
    call("add.reduceat", N, PIECES[3], 1, np.float32), call("add.reduceat", X, np.zeros(0, int)),
    call("subtract.reduceat", X, np.zeros(0, int), 1),
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table([r for r in differentiable(ROWS) if "logical" not in r.name])
def test_derivative(row: Call) -> None:
    check_derivative(row)


INDICES = [0, -1, np.array([0, 0, 2]), (np.array([2, 2, 0, 2]), np.array([1, 1, 3, 1])),
           (slice(None), np.array([0, 0])), slice(1, None), np.array([True, False, True]), ()]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("index", [
    pytest.param(index, id=str(index), marks=[] if i == 3 else [pytest.mark.slow])
    for i, index in enumerate(INDICES)])
def test_at(name: str, index: Any) -> None:
    for a in BINARY[name][:2]:
        b = rng.permutation(a[index].ravel()).reshape(a[index].shape)
        for operand in (b, b.ravel()[0]) if isinstance(index, int) else (b,):
            expected = a.astype(bool) if name in TRUTH else a.copy()
            getattr(np, name).at(expected, index, operand)
            apply = lambda x, y, name=name: getattr(jnp, name).at(x, index, y, inplace=False)
            for f in (apply, mjax.jit(apply)):
                out = f(a, operand)
                assert out.dtype == expected.dtype
                np.testing.assert_allclose(np.asarray(out), expected, rtol=1e-5, atol=1e-6)


def test_at_of_unary_functions() -> None:
    for index in INDICES:
        expected = X.copy()
        np.negative.at(expected, index)
        out = jnp.negative.at(X, index, inplace=False)
        np.testing.assert_array_equal(np.asarray(out), expected)


def test_updates_out_of_range_are_dropped() -> None:
    at = np.array([1, 7, -9])
    for f in (jnp.add, jnp.bitwise_xor, jnp.logical_xor):
        out = np.asarray(f.at(N, at, np.int32(1), inplace=False))
        np.testing.assert_array_equal(out, np.asarray(f.at(N, at[:1], np.int32(1), inplace=False)))


def test_pieces_out_of_range_are_moved_inside() -> None:
    out = jnp.add.reduceat(np.arange(5), np.array([-2, 9, -9]))
    np.testing.assert_array_equal(np.asarray(out), [3, 4, 10])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31])
def test_pieces_of_any_length(size: int) -> None:
    x, at = rng.normal(size=size).astype(np.float32), rng.integers(0, size, 20)
    for name in ("add", "subtract", "maximum"):
        np.testing.assert_allclose(np.asarray(getattr(jnp, name).reduceat(x, at)),
                                   getattr(np, name).reduceat(x, at), rtol=1e-4, atol=1e-5)


def test_a_large_element_does_not_blur_other_pieces() -> None:
    out = jnp.add.reduceat(np.array([1e8, 1, 1, 1], np.float32), np.array([0, 1]))
    np.testing.assert_array_equal(np.asarray(out), [1e8, 3])


# ---- functions of one's own -------------------------------------------------------------

MIX = jnp.frompyfunc(lambda x, y: 2 * x + y, 2, 1)
NUMPY_MIX = np.frompyfunc(lambda x, y: 2 * x + y, 2, 1)


def test_frompyfunc() -> None:
    np.testing.assert_array_equal(np.asarray(MIX(N, N[0])), 2 * N + N[0])
    for axis in (0, 1):
        for method in ("reduce", "accumulate"):
            expected = getattr(NUMPY_MIX, method)(N.astype(object), axis=axis).astype(np.int32)
            apply = lambda x, method=method, axis=axis: getattr(MIX, method)(x, axis=axis)
            for f in (apply, mjax.jit(apply)):
                np.testing.assert_array_equal(np.asarray(f(N)), expected)
        for p in PIECES:
            p = p[p < N.shape[axis]]
            expected = NUMPY_MIX.reduceat(N.astype(object), p, axis=axis).astype(np.int32)
            np.testing.assert_array_equal(np.asarray(MIX.reduceat(N, p, axis=axis)), expected)
    expected = N.astype(object)
    NUMPY_MIX.at(expected, np.array([0, 0, 1]), 3)
    np.testing.assert_array_equal(np.asarray(MIX.at(N, np.array([0, 0, 1]), 3, inplace=False)),
                                  expected.astype(np.int32))
    np.testing.assert_array_equal(np.asarray(MIX.outer(N[0], N[1])),
                                  2 * N[0][:, None] + N[1])


def test_results_have_the_dtype_of_the_function() -> None:
    ratio = jnp.frompyfunc(lambda x, y: x / y, 2, 1)
    assert ratio.reduce(N).dtype == ratio.accumulate(N).dtype == np.float32
    greater = jnp.frompyfunc(lambda x, y: x > y, 2, 1)
    assert greater.reduce(N).dtype == bool


def test_all_elements_from_the_first_to_the_last() -> None:
    """NumPy refuses it; JAX does so."""
    out = jnp.subtract.reduce(N, axis=None)
    assert int(out) == int(N.flat[0]) - int(N.ravel()[1:].sum())


def test_identity_of_ones_own() -> None:
    total = jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)
    np.testing.assert_array_equal(np.asarray(total.reduce(N, where=MASK)), N.sum(0, where=MASK))
    np.testing.assert_array_equal(np.asarray(total.reduce(N[:0])), np.zeros(4))


def test_several_results() -> None:
    both = jnp.frompyfunc(lambda x, y: (x + y, x - y), 2, 2)
    plus, minus = both(N, 1)
    np.testing.assert_array_equal(np.asarray(plus), N + 1)
    np.testing.assert_array_equal(np.asarray(minus), N - 1)
    assert (both.nin, both.nout, both.nargs) == (2, 2, 4)


# ---- as objects -------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BINARY, "negative"])
def test_facts(name: str) -> None:
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert isinstance(ours, jnp.ufunc)
    assert (ours.nin, ours.nout, ours.nargs, ours.__name__) == (
        theirs.nin, theirs.nout, theirs.nargs, name)
    assert ours.identity == theirs.identity
    assert repr(ours) == f"<jnp.ufunc {name!r}>"
    assert pickle.loads(pickle.dumps(ours)) is copy.deepcopy(ours) is ours
    assert ours == ours and hash(ours) == hash(ours) and ours != jnp.sin
    assert f"numpy.{name}" in ours.__doc__


def test_ufuncs_are_functions_to_transformations() -> None:
    np.testing.assert_allclose(np.asarray(mjax.jit(jnp.multiply)(X, X)), X * X)
    np.testing.assert_allclose(np.asarray(mjax.vmap(jnp.add, (0, None))(X, X[0])), X + X[0])
    assert mjax.grad(jnp.multiply)(2.0, 3.0) == 3.0
    np.testing.assert_allclose(np.asarray(jnp.vectorize(jnp.add)(X, 1.0)), X + 1)
    np.testing.assert_allclose(np.asarray(mjax.vmap(jnp.subtract.reduce)(X)),
                               np.subtract.reduce(X, axis=1), rtol=1e-5)


def _of_ones_own(x: Any, y: Any) -> Any:
    return x + y


def test_ufuncs_of_ones_own_are_compared_and_pickled() -> None:
    f = jnp.frompyfunc(_of_ones_own, 2, 1, identity=0)
    again = pickle.loads(pickle.dumps(f))
    assert again(1, 2) == 3 and again.identity == 0
    assert f == jnp.frompyfunc(_of_ones_own, 2, 1, identity=0)
    assert hash(f) == hash(again)
    assert f != jnp.frompyfunc(_of_ones_own, 2, 1)


I2 = np.array([0, 1])
ERRORS = [
    (NotImplementedError, "out argument of <jnp.ufunc 'add'>", lambda: jnp.add(1, 2, out=X)),
    (NotImplementedError, "where argument of <jnp.ufunc 'add'>", lambda: jnp.add(1, 2, where=B)),
    (NotImplementedError, "out argument of add.reduce()", lambda: jnp.add.reduce(X, out=X)),
    (NotImplementedError, "out argument of add.accumulate()",
     lambda: jnp.add.accumulate(X, out=X)),
    (NotImplementedError, "out argument of add.reduceat()",
     lambda: jnp.add.reduceat(X, I2, out=X)),
    (NotImplementedError, "x = jnp.add.at(x, indices, b, inplace=False)",
     lambda: jnp.add.at(X, 0, 1)),
    (NotImplementedError, "reduce over several axes, (0, 1)",
     lambda: jnp.subtract.reduce(X[None], axis=(0, 1))),
    (TypeError, "add(): missing a required", lambda: jnp.add(1)),
    (TypeError, "add(): too many positional arguments", lambda: jnp.add(1, 2, 3)),
    (TypeError, "exp(): ", lambda: jnp.exp(x=1.0)),
    (TypeError, "add requires ndarray or scalar arguments", lambda: jnp.add([1], 2)),
    (TypeError, "add.reduce requires ndarray or scalar", lambda: jnp.add.reduce([1])),
    (TypeError, "0 operands were given", lambda: jnp.add.at(X, 0, inplace=False)),
    (TypeError, "1 operands were given", lambda: jnp.negative.at(X, 0, 1, inplace=False)),
    (ValueError, "does not have an identity, so to use a where mask one has to specify 'initial'",
     lambda: jnp.maximum.reduce(X, where=MASK)),
    (ValueError, "zero-size array to reduction operation maximum which has no identity",
     lambda: jnp.maximum.reduce(X[:0])),
    (ValueError, "zero-size array to reduction operation subtract",
     lambda: jnp.subtract.reduce(X[:, :0], axis=1)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.add.reduce(X, axis=2)),
    (ValueError, "axis 0 is out of bounds", lambda: jnp.add.reduce(3)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.add.accumulate(X, axis=2)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.add.reduceat(X, I2, axis=2)),
    (ValueError, "indices must be a vector of integers, got float32[2]",
     lambda: jnp.add.reduceat(X, np.zeros(2))),
    (ValueError, "indices must be a vector", lambda: jnp.add.reduceat(X, np.zeros((2, 2), int))),
    (ValueError, "requires a single integer axis", lambda: jnp.add.reduceat(X, I2, axis=None)),
    (IndexError, "axis 0 of shape (0, 4): it is empty", lambda: jnp.add.reduceat(X[:0], I2)),
    *[(ValueError, f"{method} only supported for binary ufuncs", lambda method=method, args=args:
       getattr(jnp.negative, method)(X, *args)) for method, args in (
            ("reduce", ()), ("accumulate", ()), ("outer", (X,)), ("reduceat", (I2,)))],
    (ValueError, "only supported for functions returning a single value",
     lambda: jnp.frompyfunc(lambda x, y: (x, y), 2, 2).reduce(X)),
    (TypeError, "func must be a function, got 3", lambda: jnp.frompyfunc(3, 1, 1)),
    (TypeError, "reduce_or does not accept dtype float32", lambda: jnp.bitwise_or.reduce(X)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()


@pytest.mark.parametrize("name", ["add", "logaddexp", "subtract"])
def test_masks_are_boolean_and_initial_values_scalars(name: str) -> None:
    f = getattr(jnp, name)
    with pytest.raises(ValueError, match="where must be .* boolean"):
        f.reduce(X, where=np.ones(X.shape, int), initial=0.0)
    with pytest.raises(ValueError, match="initial must be a scalar"):
        f.reduce(X, initial=np.ones(1))
