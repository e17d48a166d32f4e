"""take, put and their kin; index arrays and grids: against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from tests.numpy.calls import (
    Call,
    assert_same,
    call,
    check,
    check_derivative,
    differentiable,
    leaves,
    table,
)

rng = np.random.default_rng(0)
X = rng.normal(size=(3, 4)).astype(np.float32)
I3 = np.arange(3, dtype=np.int32)
INSIDE = np.array([[1, 0, -1], [2, 2, -3]], np.int32)


def put(a: Any, *args: Any, inplace: bool = False, name: str = "put", **kwargs: Any) -> Any:
    """The argument after NumPy's functions that change it."""
    out = a.copy()
    getattr(np, name)(out, *args, **kwargs)
    return out


def putting(name: str, *args: Any, **kwargs: Any) -> Call:
    return call(name, *args, inplace=False, reference=lambda *a, **kw: put(*a, name=name, **kw),
                **kwargs)


ROWS = [
    *[call("take", X, i, axis) for i in (INSIDE, 1, np.zeros(0, np.int32)) for axis in (
        None, 0, 1, -1)],
    *[call("take", X, np.array([1, 7, -2]), axis, mode=m) for m in ("clip", "wrap")
      for axis in (None, 0, 1)],
    call("take", X, np.array([1, 7, -9]), 1, reference=lambda x, i, axis: np.where(
        [False, True, True], np.nan, x[:, [1, 0, 0]]).astype(np.float32), derivative=False),
    call("take", I3, np.array([7]), fill_value=-1, reference=lambda x, i, fill_value: np.full(
        1, -1, np.int32)),
    *[call("take_along_axis", X, rng.integers(-n, n, s), axis) for n, s, axis in (
        (3, (1, 4), 0), (3, (5, 4), 0), (4, (3, 2), 1), (4, (3, 2), -1), (12, (5,), None))],
    call("take_along_axis", X, np.array([[1, -1]]), 1,
         reference=lambda x, i, axis: x[:, [1, -1]]),
    *[putting("put_along_axis", X, np.array([[1], [-1], [0]]), v, 1) for v in (
        9.0, np.arange(3, dtype=np.float32)[:, None])],
    putting("put_along_axis", X, np.array([[2, 0, -1, 1]]), 9.0, 0),
    putting("put", X, np.array([0, 5, -1]), np.array([9, 8], np.float32)),
    putting("put", X, np.array([[0, 1]]), 7.0), putting("put", X, 3, 7.0),
    *[putting("put", X, np.array([0, 13]), 9.0, mode=m) for m in ("clip", "wrap")],
    call("put", X, np.array([1, 13, -20, -2]), 9.0, inplace=False,
         reference=lambda x, i, v, inplace: put(x, np.array([1, 11, 0, 10]), v)),
    putting("place", X, X > 0, np.array([1, 2], np.float32)),
    *[putting("fill_diagonal", np.zeros(s, np.float32), np.array([7, 8], np.float32), w)
      for s in ((3, 4), (7, 3), (3, 3)) for w in (False, True)],
    putting("fill_diagonal", np.zeros((2, 2, 2), np.float32), 5.0),
    call("choose", np.array([0, 1, 1]), [I3, I3 + 10], static=True),
    *[call("choose", np.array([0, 1, -2, 5]), [np.arange(4), 10], mode=m)
      for m in ("clip", "wrap")],
    call("choose", np.array([[0], [1]]), [X[0], X[1]], mode="clip"),
    call("compress", np.array([True, False, True]), X, 0, static=True),
    call("compress", np.array([1, 0]), X, 1, static=True),
    call("compress", np.array([1, 0, 1, 1, 0]), X, static=True),
    call("extract", X > 0, X, static=True),
    *[call("unravel_index", i, s) for i in (np.array([0, 5, 3]), 4) for s in (
        (2, 3), 6, (1, 2, 3))],
    *[call("ravel_multi_index", (np.array([1, 0]), np.array([2, 1])), (2, 3), order=o,
           static=True) for o in "CF"],
    *[call("ravel_multi_index", (np.array([1, 0]), np.array([3, -1])), (2, 3), mode=m)
      for m in ("clip", "wrap")],
    call("ix_", np.array([1, 2]), np.array([1, 0, 2])),
    call("ix_", np.array([True, False, True]), np.array([1]), static=True),
]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


def test_sizes() -> None:
    mask = np.array([True, False, True])
    for f in (jnp.compress, mjax.jit(jnp.compress, static_argnames=("axis", "size"))):
        out = np.asarray(f(mask, X, axis=0, size=3, fill_value=-2))
        np.testing.assert_array_equal(out, np.concatenate([X[[0, 2]], np.full((1, 4), -2)]))
        assert f(mask, X, axis=0, size=1).shape == (1, 4)
    out = mjax.jit(lambda x: jnp.extract(x > 0, x, size=12))(X)
    np.testing.assert_array_equal(np.asarray(out)[: (X > 0).sum()], X[X > 0])


def test_places_outside() -> None:
    assert np.isnan(np.asarray(jnp.take_along_axis(X, np.array([[9]]), 1))).all()
    clipped = jnp.take_along_axis(X, np.array([[9]]), 1, mode="clip")
    np.testing.assert_array_equal(np.asarray(clipped), X[:, 3:])
    out = jnp.take_along_axis(X, np.array([[-1]]), 1, wrap_negative_indices=False, fill_value=5)
    assert (np.asarray(out) == 5).all()
    indices = jnp.unravel_index(np.array([-1, 7, -9]), (2, 3))
    assert [i.tolist() for i in indices] == [[1, 1, 0], [2, 2, 0]]


EXPRESSIONS = [
    "r_[1:4, 0, np.array([5, 6])]", "r_[-1:1:6j, [0] * 3]", "r_['0,2', [1, 2], [3, 4]]",
    "r_['1', np.ones((2, 2)), np.zeros((2, 1))]", "r_['0,2,0', [1, 2, 3], [4, 5, 6]]",
    "r_['1,2,0', [1, 2, 3], [4, 5, 6]]", "r_[3]", "r_[0:1:.25]", "r_['0,3', 1, 2]",
    "c_[np.array([1, 2]), np.array([3, 4])]", "c_[np.array([[1, 2]]), 0, np.array([[3]])]",
    "c_[0:3, 1:4]", "mgrid[0:3, 0:2]", "mgrid[-1:1:5j]", "mgrid[0:2, 0:1:3j]", "mgrid[:3]",
    "mgrid[0:2, 1:3, 2:4]", "ogrid[0:3, 0:2]", "ogrid[0:3]", "ogrid[0:2, 0:1:3j]",
    "s_[1:3, ...]", "index_exp[1]", "mask_indices(3, triu, 1)",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_index_tricks(expression: str) -> None:
    ours, theirs = [eval(expression, {"np": np}, vars(m)) for m in (jnp, np)]
    if expression.startswith(("s_", "index_exp")):
        assert ours == theirs
        return
    expected = [np.asarray(x) for x in leaves(theirs)]
    narrow = {"int64": "int32", "float64": "float32"}
    assert_same(leaves(ours), [x.astype(narrow[str(x.dtype)]) for x in expected], 1e-6)


CONCRETE = mjax.errors.ConcretizationTypeError
ERRORS = [
    (TypeError, "indices must be of integer type, got float32", lambda: jnp.take(X, 1.5)),
    (NotImplementedError, "'raise' mode is not supported", lambda: jnp.take(X, 1, mode="raise")),
    (ValueError, "invalid mode 'bogus'", lambda: jnp.take(X, 1, mode="bogus")),
    (NotImplementedError, "immutable", lambda: jnp.take(X, 1, out=X)),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.take(X, 1, axis=2)),
    (IndexError, "axis 0 of size 0", lambda: jnp.take(np.zeros((0, 2)), I3, axis=0)),
    (TypeError, "position 1", lambda: jnp.take(X, [1, 2])),
    (ValueError, "1 vs. 2", lambda: jnp.take_along_axis(X, I3, 0)),
    (ValueError, "incompatible shapes", lambda: jnp.take_along_axis(X, np.zeros((2, 1), int), 1)),
    (IndexError, "take_along_axis: cannot take from axis 0 of size 0, of shape (0, 4)",
     lambda: jnp.take_along_axis(X[:0], INSIDE[:1], 0)),
    (ValueError, "indices must have one axis", lambda: jnp.take_along_axis(X, INSIDE, None)),
    (ValueError, "Pass inplace=False", lambda: jnp.put(X, 1, 2)),
    (ValueError, "Pass inplace=False", lambda: jnp.put_along_axis(X, INSIDE, 2, 1)),
    (ValueError, "same size, got 12 and 3", lambda: jnp.place(X, I3, 1, inplace=False)),
    (ValueError, "at least 2-d", lambda: jnp.fill_diagonal(I3, 1, inplace=False)),
    (ValueError, "invalid entry in choice array", lambda: jnp.choose(I3, [1, 2])),
    (CONCRETE, "mode='clip' or mode='wrap'", lambda: mjax.jit(jnp.choose)(I3, [1, 2])),
    (ValueError, "must be a 1D array", lambda: jnp.compress(X > 0, X)),
    (ValueError, "entries that are out of bounds",
     lambda: jnp.compress(np.array([1, 0, 1, 1]), X, 0)),
    (ValueError, "size must not be negative, got -1", lambda: jnp.extract(X > 0, X, size=-1)),
    (CONCRETE, "size", lambda: mjax.jit(lambda x: jnp.extract(x > 0, x))(X)),
    (ValueError, "must be 1-dimensional", lambda: jnp.ix_(X)),
    (ValueError, "axis 1 has size 3", lambda: jnp.ravel_multi_index((1, 3), (2, 3))),
    (ValueError, "one for each axis", lambda: jnp.ravel_multi_index((1, 2, 3), (2, 3))),
    (CONCRETE, "mode='clip'", lambda: mjax.jit(lambda i: jnp.ravel_multi_index((i,), (2,)))(1)),
    (TypeError, "indices must be integers", lambda: jnp.unravel_index(1.5, (2, 3))),
    (ValueError, "unknown special directive 'x'", lambda: jnp.r_["x", 1]),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
