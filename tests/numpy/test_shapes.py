"""Shapes, joining, splitting, repeating, padding: against NumPy, and their derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from tests.numpy.calls import Call, call, check, check_derivative, differentiable, table

rng = np.random.default_rng(0)
V = rng.normal(size=5).astype(np.float32)
X = rng.normal(size=(3, 4)).astype(np.float32)
Y = rng.normal(size=(2, 3, 4)).astype(np.float32)
I3 = np.arange(3, dtype=np.int32)
C = (V[:3] + 1j * V[2:]).astype(np.complex64)
EMPTY = np.zeros((0, 3), np.float32)

SHAPES = [
    *[call("reshape", X, s, order=o) for s in ((4, 3), 12, -1, (2, -1), (2, 2, 3)) for o in "CF"],
    call("reshape", EMPTY, (3, -1)), call("reshape", np.float32(2) * np.ones(()), (1, 1)),
    *[call(f, a) for f in ("ravel", "transpose", "squeeze") for a in (X, Y, EMPTY)],
    call("ravel", Y, order="F"), call("transpose", Y, (2, 0, 1)), call("transpose", Y, (-1, 0, 1)),
    call("permute_dims", Y, (2, 0, 1)), call("matrix_transpose", Y), call("swapaxes", Y, 0, -1),
    call("moveaxis", Y, 0, -1), call("moveaxis", Y, (0, 1), (-1, 0)),
    *[call("rollaxis", Y, a, s) for a in (0, 1, 2) for s in (0, 1, 2, 3, -1)],
    call("squeeze", Y[:1, :, :1]), call("squeeze", Y[:1, :, :1], 0),
    call("squeeze", Y[:1, :, :1], (0, -1)), call("expand_dims", X, 0),
    call("expand_dims", X, (0, -1)), call("expand_dims", X, [1, 3]),
    *[call(f"atleast_{n}d", a) for n in (1, 2, 3) for a in (np.ones(()), V, X, Y)],
    call("atleast_2d", V, X), call("broadcast_to", V, (2, 5)),
    call("broadcast_to", Y[:, :1, :1], (2, 3, 4)), call("broadcast_arrays", V, Y[:, :1, :1]),
]
ORDER = [
    *[call("flip", Y, a) for a in (None, 0, (0, 2), -1)], call("flipud", X), call("fliplr", X),
    *[call("rot90", Y, k, a) for k in (-1, 0, 1, 2, 3) for a in ((0, 1), (2, 0))],
    *[call("roll", X, s, a) for s in (0, 2, -3, 11) for a in (None, 0, 1)],
    call("roll", X, (1, 2), (0, 1)), call("roll", X, 1, (0, 1)), call("roll", X, (1, 2), 0),
    call("roll", X, np.array([1, 2]), (0, 1)), call("roll", X, np.array(2), 1),
    call("roll", X, np.array(True), 1), call("roll", EMPTY, 1),
    call("resize", X, (2, 3)), call("resize", X, (5, 5)),
    call("resize", X, 7), call("resize", EMPTY, (2,), derivative=False),
    call("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), static=True),
    call("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), "f", static=True),
    call("trim_zeros", np.array([0, 0, 1, 0, 2, 0]), "b", static=True),
    call("unstack", Y, axis=1, reference=lambda x, axis: list(np.moveaxis(x, axis, 0))),
]
JOINING = [
    *[call("concatenate", [X, 2 * X], a) for a in (0, 1, -1, None)], call("concatenate", [I3, V]),
    call("concatenate", [I3, C]), call("concatenate", [I3, I3], dtype=np.float32),
    call("concatenate", Y), call("concatenate", [np.array([True]), I3]),
    call("concat", (X, X), axis=1, reference=lambda x, axis: np.concatenate(x, axis)),
    *[call("stack", [X, -X], a) for a in (0, 1, -1)], call("stack", [I3, V[:3]]),
    call("stack", Y, 1),
    *[call(f, a) for f in ("vstack", "hstack", "dstack") for a in ([V, V], [X, X], [Y, Y])],
    call("column_stack", [I3, X]), call("column_stack", [I3, I3]),
    call("block", [[X, 2 * X], [np.ones((1, 8), np.float32)]]), call("block", [V, V]),
    call("append", I3, X), call("append", X, X, axis=1),
    call("insert", I3, 1, 9), call("insert", I3, -1, 9), call("insert", X, 1, 9.0, axis=1),
    call("insert", X, [0, 2], V[:2], axis=1), call("insert", V, slice(0, 2), 9.0),
    call("insert", I3, 1, np.array([7, 8, 9])), call("insert", X, 1, V[:3], axis=1),
    call("insert", X, [1, 2], V[:3, None], axis=1), call("insert", V, [4, 0, 4], V[:3]),
    call("insert", Y, 1, np.ones((3, 4), np.float32), axis=0),
    call("delete", V, 1), call("delete", V, [0, -1, 0]), call("delete", X, slice(0, None, 2), 1),
    call("delete", V, np.array([True, False, True, False, False]), static=True),
    call("delete", X, 1), call("delete", X, 2, axis=0),
]
SPLITTING = [
    *[call(f, X, w, a) for f in ("split", "array_split") for w in (2, [1, 3], [1, 9], [-1])
      for a in (1,)],
    call("split", Y, 3, axis=1), call("array_split", V, 3), call("array_split", V, 7),
    call("hsplit", X, 2), call("hsplit", V, [2]), call("vsplit", X, 3), call("dsplit", Y, [1, 3]),
]
REPEATING = [
    *[call("tile", a, r) for a in (V, X) for r in (2, (2, 3), (2, 1, 3), 0)],
    call("repeat", V, 2), call("repeat", X, 3, axis=1), call("repeat", X, 0, axis=-1),
    call("repeat", X, np.array([1, 0, 2]), axis=0, static=True),
    call("repeat", V, np.array([2]), static=True), call("repeat", X, 2),
    *[call("repeat", X, np.array(r), axis=0, total_repeat_length=n,
           reference=lambda x, r, axis, total_repeat_length: np.take(
               x, np.append(np.repeat(np.arange(3), r), [2] * 9)[:total_repeat_length], 0))
      for r in ([1, 0, 2], [3, 0, 0], [0, 0, 4]) for n in (2, 3, 6)],
]
PADDING = [
    *[call("pad", a, w, m) for m in (
        "constant", "edge", "linear_ramp", "maximum", "mean", "minimum", "reflect",
        "symmetric", "wrap") for a, w in ((V, (2, 3)), (X, ((1, 0), (5, 9))), (I3, 4))],
    call("pad", V, 2, "median"), call("pad", np.ones(1, np.float32), 3, "reflect"),
    *[call("pad", a, w, m, reflect_type="odd") for m in ("reflect", "symmetric")
      for a, w in ((V, (2, 3)), (X, ((1, 0), (5, 9))), (V, (30, 1)))],
    call("pad", X, 1, constant_values=((1, 2), (3, 4))), call("pad", X, 1, constant_values=7),
    call("pad", X, ((0, 1), (2, 0)), constant_values=(1, 2)),
    call("pad", X, 2, "linear_ramp", end_values=((5, 9), (1, 2))),
    call("pad", V, 2, "maximum", stat_length=2), call("pad", I3, 2, "mean", stat_length=(2, 3)),
    call("pad", EMPTY, ((1, 0), (0, 0))),
]
ROWS = [*SHAPES, *ORDER, *JOINING, *SPLITTING, *REPEATING, *PADDING]


@table(ROWS)
def test_against_numpy(row: Call) -> None:
    check(row)


@pytest.mark.slow
@table(differentiable(ROWS))
def test_derivative(row: Call) -> None:
    check_derivative(row)


def test_vmap() -> None:
    """A few that do more than one primitive; the primitives have tests of their own."""
    for f in (lambda x: jnp.roll(x, 2, axis=1), lambda x: jnp.rot90(x),
              lambda x: jnp.pad(x, ((1, 2), (0, 1)), "reflect"),
              lambda x: jnp.concatenate([x, x[:, :1]], axis=1), lambda x: jnp.repeat(x, 2, axis=0),
              lambda x: jnp.insert(x, 1, 9, axis=1), lambda x: jnp.tile(x, (2, 1))):
        np.testing.assert_array_equal(np.asarray(mjax.vmap(f)(Y)),
                                      np.stack([np.asarray(f(y)) for y in Y]))


def test_traced_shifts_counts_and_places() -> None:
    np.testing.assert_array_equal(np.asarray(mjax.jit(jnp.roll)(X, -3)), np.roll(X, -3))
    out = mjax.jit(lambda x, i: jnp.insert(x, i, 9.0))(V, np.array([4, 0]))
    np.testing.assert_array_equal(np.asarray(out), np.insert(V, [4, 0], 9))
    out = mjax.jit(lambda x, i: jnp.delete(x, i, assume_unique_indices=True))(V, np.array([-1, 1]))
    np.testing.assert_array_equal(np.asarray(out), np.delete(V, [-1, 1]))
    np.testing.assert_array_equal(np.asarray(mjax.jit(jnp.delete)(V, 2)), np.delete(V, 2))


def test_padding_by_a_function() -> None:
    def corners(vector: Any, width: Any, axis: int, kwargs: Any) -> Any:
        return vector.at[: width[0]].set(kwargs["value"])

    out = np.asarray(jnp.pad(X, 1, corners, value=9.0))
    assert (out[0] == 9).all() and (out[:, 0] == 9).all()
    np.testing.assert_array_equal(out[1:-1, 1:-1], X)


def test_results_are_arrays_even_where_nothing_is_done() -> None:
    for out in (jnp.reshape(X, (3, 4)), jnp.ravel(V), jnp.squeeze(X), jnp.transpose(V),
                jnp.concatenate([V]), jnp.broadcast_to(X, (3, 4)), jnp.atleast_1d(V),
                jnp.roll(V, 0), jnp.rot90(X, 0), *jnp.broadcast_arrays(V), jnp.block(V)):
        assert isinstance(out, mjax.Array)


def test_shapes_and_numbers_of_repetitions_in_arrays() -> None:
    x, sizes = jnp.arange(6), jnp.array([3, -1])
    assert jnp.reshape(x, sizes).shape == x.reshape(sizes).shape == (3, 2)
    np.testing.assert_array_equal(jnp.tile(x, jnp.array([2, 3])), np.tile(np.arange(6), (2, 3)))
    np.testing.assert_array_equal(jnp.tile(x, jnp.array(2)), np.tile(np.arange(6), 2))
    assert jnp.unravel_index(5, jnp.array([2, 3])) == (1, 2)
    with pytest.raises(TypeError, match="each size must be an integer"):
        jnp.unravel_index(5, jnp.array([[2, 3]]))


def test_weak_types() -> None:
    assert jnp.atleast_1d(2).weak_type and jnp.stack([1, 2.0]).weak_type
    assert not jnp.concatenate([jnp.atleast_1d(2.0), jnp.ones(1)]).weak_type


@pytest.mark.parametrize("use", [
    lambda: jnp.flip(X, (0, 0)), lambda: jnp.transpose(X, (0, -2)), lambda: jnp.transpose(X, (0,)),
    lambda: jnp.diagonal(X, 0, 1, -1), lambda: jnp.moveaxis(X, (0, 0), (0, 1)),
    lambda: lax.rev(X, (0, 0)), lambda: lax.rev(X, (0, 9))])
def test_axes_that_are_no_axes_or_named_twice(use: Any) -> None:
    """NumPy raises ValueError, JAX TypeError: code written for either catches it."""
    for error in (ValueError, TypeError):
        with pytest.raises(error, match=r"duplicate|each of the 2|different|must be distinct"):
            use()


def test_sizes_of_broadcast_are_integers() -> None:
    assert lax.broadcast(V, []).shape == (5,) and lax.broadcast(V, (2, 1)).shape == (2, 1, 5)
    for sizes in (None, 2, (1.5,), np.ones((2, 2), int)):
        with pytest.raises(TypeError):
            lax.broadcast(V, sizes)  # type: ignore[arg-type]


def test_norms_of_weak_values_are_strong() -> None:
    norms = [jnp.linalg.norm(2.5), jnp.linalg.norm(2), jnp.linalg.norm(jnp.full((2, 2), 1.0), 1),
             jnp.linalg.vector_norm(jnp.full(2, 1.0), ord=3),
             jnp.linalg.matrix_norm(jnp.full((2, 2), 1.0))]
    assert [(n.dtype, n.weak_type) for n in norms] == [(np.float32, False)] * 5
    empty = lax.empty((2,), None)
    assert empty.dtype == np.float32 and not empty.weak_type


@pytest.mark.parametrize("n", [1, 2, 3])
def test_lists_are_no_arrays_of_a_least_rank(n: int) -> None:
    f = getattr(jnp, f"atleast_{n}d")
    for wrong in ([1, 2], (1, 2), []):
        with pytest.raises(TypeError, match="requires ndarray or scalar .* position 0"):
            f(wrong)
    with pytest.raises(TypeError, match="position 1"):
        f(1, [2])
    assert f() == []


ERRORS = [
    (TypeError, "cannot reshape array of shape (3, 4) (size 12) into shape (5,) (size 5)",
     lambda: jnp.reshape(X, (5,))),
    (TypeError, "one size may be -1", lambda: jnp.reshape(X, (-1, -1))),
    (TypeError, "into shape (5, -1)", lambda: jnp.reshape(X, (5, -1))),
    (ValueError, "order must be 'C' or 'F', got 'Z'", lambda: jnp.reshape(X, 12, "Z")),
    (ValueError, "must name each of the 2 axes", lambda: jnp.transpose(X, (0,))),
    (ValueError, "axis 2 is out of bounds", lambda: jnp.swapaxes(X, 0, 2)),
    (ValueError, "at least two axes, got shape (5,)", lambda: jnp.matrix_transpose(V)),
    (ValueError, "as many axes as each other", lambda: jnp.moveaxis(Y, (0, 1), 0)),
    (ValueError, "size not equal to one, got shape (3, 4) and axis 0", lambda: jnp.squeeze(X, 0)),
    (ValueError, "duplicate value in axis", lambda: jnp.expand_dims(X, (0, 0))),
    (ValueError, "shape (5,) cannot be broadcast to shape (4,)", lambda: jnp.broadcast_to(V, 4)),
    (ValueError, "incompatible shapes", lambda: jnp.broadcast_arrays(V, I3)),
    (ValueError, "axes of the rotation must differ", lambda: jnp.rot90(X, 1, (0, 0))),
    (ValueError, "3 shifts do not fit 2 axes", lambda: jnp.roll(X, (1, 2, 3), (0, 1))),
    (TypeError, "shift must be an integer", lambda: jnp.roll(X, 1.5)),
    (ValueError, "at least one array", lambda: jnp.concatenate([])),
    (ValueError, "zero-dimensional", lambda: jnp.concatenate([1, 2])),
    (TypeError, "pass a list of them", lambda: jnp.concatenate(jnp.ones(3), jnp.ones(3))),
    (TypeError, "pass a list of them", lambda: jnp.concatenate(jnp.ones((2, 3)), np.ones(3))),
    (TypeError, "pass a list of them", lambda: jnp.stack(jnp.ones(3), jnp.ones(3))),
    (TypeError, "(3, 4), (5,): they have different numbers of axes",
     lambda: jnp.concatenate([X, V])),
    (TypeError, "axes other than axis 0", lambda: jnp.concatenate([X, X.T])),
    (TypeError, "takes a sequence of arrays", lambda: jnp.concatenate(3)),
    (TypeError, "position 0", lambda: jnp.concatenate([[1, 2], V])),
    (ValueError, "all arrays must have one shape, got (3, 4), (5,)", lambda: jnp.stack([X, V])),
    (NotImplementedError, "arrays are immutable", lambda: jnp.stack([X], out=X)),
    (ValueError, "does not allow tuples", lambda: jnp.block((1, 2))),
    (ValueError, "mismatched list depths", lambda: jnp.block([[1], 2])),
    (ValueError, "does not allow empty lists", lambda: jnp.block([[]])),
    (ValueError, "axis 1 of size 4 cannot be cut into 3 equal parts",
     lambda: jnp.split(X, 3, axis=1)),
    (ValueError, "sections must be positive", lambda: jnp.array_split(X, 0)),
    (ValueError, "reps must not be negative", lambda: jnp.tile(X, -1)),
    (ValueError, "repeats of shape (2,)", lambda: jnp.repeat(X, np.array([1, 2]), axis=0)),
    (ValueError, "repeats must not be negative", lambda: jnp.repeat(X, -1)),
    (TypeError, "repeats must be integers", lambda: jnp.repeat(X, 1.5)),
    (mjax.errors.ConcretizationTypeError, "total_repeat_length",
     lambda: mjax.jit(jnp.repeat)(V, np.arange(5))),
    (IndexError, "index 7 is out of bounds for axis 0 with size 5", lambda: jnp.delete(V, 7)),
    (ValueError, "the mask of shape (2,)", lambda: jnp.delete(V, np.array([True, False]))),
    (TypeError, "obj must hold integers", lambda: jnp.insert(V, 1.5, 0)),
    (ValueError, "must not be negative", lambda: jnp.pad(V, -1)),
    (TypeError, "each of pad_width must be an integer", lambda: jnp.pad(V, 1.5)),
    (ValueError, "pad_width of shape (1, 3)", lambda: jnp.pad(X, ((1, 2, 3),))),
    (NotImplementedError, "unknown mode 'bogus'", lambda: jnp.pad(V, 1, "bogus")),
    (ValueError, "unsupported keyword arguments for mode 'edge'",
     lambda: jnp.pad(V, 1, "edge", constant_values=1)),
    (ValueError, "mode 'edge' to axis 0 of size 0",
     lambda: jnp.pad(EMPTY, ((1, 0), (0, 0)), "edge")),
    (ValueError, "stat_length must be positive", lambda: jnp.pad(V, 1, "mean", stat_length=0)),
    (mjax.errors.ConcretizationTypeError, "concrete value", lambda: mjax.jit(jnp.trim_zeros)(V)),
    (TypeError, "reshape requires ndarray or scalar arguments", lambda: jnp.reshape([1, 2], 2)),
]


@pytest.mark.parametrize(("error", "text", "use"), ERRORS, ids=[t[:30] for _, t, _ in ERRORS])
def test_errors(error: type[Exception], text: str, use: Any) -> None:
    with pytest.raises(error, match=re.escape(text)):
        use()
