"""`x[index]`: against NumPy, in every context, for a table of expressions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._numpy.indexing import read
from mjax.errors import NonConcreteBooleanIndexError
from tests.engine.primitives.harness import naming
from tests.numpy.indices import ADVANCED, ALL, BASIC, SHAPE, S, random_index

X = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def same(actual: Any, expected: Any) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(np.asarray(actual), expected)


def with_tracers(index: Any) -> tuple[list[Any], Any]:
    """The integers and integer arrays of an index, and a function that puts others in place."""
    items = index if isinstance(index, tuple) else (index,)
    moved = [i for i, x in enumerate(items) if not isinstance(x, (bool, list)) and isinstance(
        x, (int, np.integer, np.ndarray)) and np.asarray(x).dtype != bool]

    def rebuild(values: Any) -> tuple[Any, ...]:
        given = dict(zip(moved, values, strict=True))
        return tuple(given.get(i, x) for i, x in enumerate(items))

    return [items[i] for i in moved], rebuild


def check_all(f: Any, inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    """`f(index, *inputs)` for all expressions as one program, which compiles faster than many."""
    outs = mjax.jit(lambda inputs: {name: f(index, *inputs[name])
                                    for name, index in ALL.items()})(inputs)
    for name, out in outs.items():
        with naming(name):
            same(out, expected[name])


@pytest.mark.parametrize("index", ALL.values(), ids=ALL)
def test_evaluation(index: Any) -> None:
    same(jnp.asarray(X)[index], X[index])


def test_jit() -> None:
    check_all(lambda index, x: x[index], dict.fromkeys(ALL, (X,)),
              {name: X[index] for name, index in ALL.items()})


def test_traced_numbers() -> None:
    check_all(lambda index, x, v: x[with_tracers(index)[1](v)],
              {name: (X, with_tracers(index)[0]) for name, index in ALL.items()},
              {name: X[index] for name, index in ALL.items()})


@pytest.mark.slow
@pytest.mark.parametrize("index", ALL.values(), ids=ALL)
def test_numbers_on_the_device(index: Any) -> None:
    values, rebuild = with_tracers(index)
    same(jnp.asarray(X)[rebuild([jnp.asarray(v) for v in values])], X[index])


# ---- derivatives ------------------------------------------------------------------------


def test_jvp_reads_the_tangent() -> None:
    tangent = np.cos(X)
    check_all(lambda index, x, t: mjax.jvp(lambda x: x[index], (x,), (t,))[1],
              dict.fromkeys(ALL, (X, tangent)),
              {name: tangent[index] for name, index in ALL.items()})


def test_vjp_adds_where_it_read() -> None:
    inputs, expected = {}, {}
    for name, index in ALL.items():
        w = np.random.default_rng(1).integers(-9, 9, X[index].shape).astype(np.float32)
        inputs[name], expected[name] = (X, w), np.zeros_like(X)
        np.add.at(expected[name], index, w)
    check_all(lambda index, x, w: mjax.vjp(lambda x: x[index], x)[1](w)[0], inputs, expected)


@pytest.mark.parametrize("index", [1, S[1:, 2], S[::-2], ADVANCED["broadcast"]])
def test_evaluated_derivatives(index: Any) -> None:
    """Outside of jit integers are operands here too."""
    x, expected = jnp.asarray(X), np.zeros_like(X)
    same(mjax.jvp(lambda x: x[index], (x,), (jnp.cos(x),))[1], np.asarray(jnp.cos(x))[index])
    np.add.at(expected, index, 1)
    same(mjax.grad(lambda x: x[index].sum())(x), expected)


@pytest.mark.parametrize("index", [S[1, ::2], S[ADVANCED["array"], :, 1:3], S[::-1, None, 2]])
def test_gradient_against_finite_differences(index: Any) -> None:
    f = lambda x: jnp.sum(jnp.sin(x[index]) ** 2)
    with mjax.enable_x64():
        x = jnp.asarray(X.astype(np.float64))
        t = np.cos(X.astype(np.float64))
        step = 1e-6
        expected = (f(x + step * t) - f(x - step * t)) / (2 * step)
        np.testing.assert_allclose(np.sum(np.asarray(mjax.grad(f)(x)) * t), expected, rtol=1e-6)


# ---- vmap -------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [
    0, pytest.param(1, marks=pytest.mark.slow), pytest.param(-1, marks=pytest.mark.slow)])
def test_vmap_over_the_array(axis: int) -> None:
    stack = np.stack([X, 2 * X, -X])
    moved = np.moveaxis(stack, 0, axis)
    check_all(lambda index, x: mjax.vmap(lambda x: x[index], in_axes=axis)(x),
              dict.fromkeys(ALL, (moved,)),
              {name: np.stack([x[index] for x in stack]) for name, index in ALL.items()})


def _batches(index: Any) -> list[Any]:
    """Two of each of the numbers of an index."""
    values, _ = with_tracers(index)
    return [np.stack([v, np.asarray(v) - np.asarray(v, int) // 2]) for v in values]


def _element(index: Any, i: int) -> Any:
    values, rebuild = with_tracers(index)
    return rebuild([b[i] for b in _batches(index)] if values else [])


def test_vmap_over_the_numbers() -> None:
    check_all(lambda index, x, v: mjax.vmap(lambda v: x[with_tracers(index)[1](v)],
                                            axis_size=2)(v),
              {name: (X, _batches(index)) for name, index in ALL.items()},
              {name: np.stack([X[_element(index, i)] for i in range(2)])
               for name, index in ALL.items()})


@pytest.mark.slow
def test_vmap_over_both() -> None:
    both = np.stack([X, 2 * X])
    check_all(lambda index, x, v: mjax.vmap(lambda x, v: x[with_tracers(index)[1](v)])(x, v),
              {name: (both, _batches(index)) for name, index in ALL.items()},
              {name: np.stack([both[i][_element(index, i)] for i in range(2)])
               for name, index in ALL.items()})


def test_evaluated_vmap() -> None:
    x, places = jnp.asarray(X), np.array([2, -1])
    same(mjax.vmap(lambda x: x[1, ::-1])(X), X[:, 1, ::-1])
    same(mjax.vmap(lambda i: x[i, :, 0])(places), X[places, :, 0])
    same(mjax.vmap(lambda x, i: x[i])(X[:2], places), X[[0, 1], places])


# ---- random expressions, special arrays -------------------------------------------------


@pytest.mark.slow
def test_random_expressions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        shape = tuple(rng.integers(1, 6, rng.integers(1, 5)))
        x = rng.integers(0, 100, shape, np.int32)
        index = random_index(rng, shape)
        try:
            expected = x[index]
        except IndexError:
            continue
        same(jnp.asarray(x)[index], expected)
        values, rebuild = with_tracers(index)
        same(mjax.jit(lambda x, v, rebuild=rebuild: x[rebuild(v)])(x, values), expected)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1, 1), (3, 0, 2)])
def test_small_and_empty_arrays(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.int32)
    for index in [(), ..., None, S[..., None], S[None, ...], True]:
        same(jnp.asarray(x)[index], x[index])
    if shape:
        for index in [S[:], S[::-1], S[1:], np.zeros((0,), int), np.zeros(shape, bool)]:
            same(jnp.asarray(x)[index], x[index])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes(dtype: str) -> None:
    x = jnp.asarray(X).astype(dtype)
    for index in [1, S[1:, ::-2], ADVANCED["array"], S[ADVANCED["array"], 1]]:
        same(x[index], np.asarray(x)[index])


def test_weak_types_stay() -> None:
    x = jnp.broadcast_to(2.0, (3,))
    assert all(x[index].weak_type for index in [0, S[1:], S[None], np.array([0])])


def test_keys() -> None:
    keys = mjax.random.split(mjax.random.key(0), 6)
    data = np.asarray(mjax.random.key_data(keys))
    for index in [1, S[1:3], S[::-2], np.array([4, 0]), np.arange(6) > 3, None]:
        np.testing.assert_array_equal(np.asarray(mjax.random.key_data(keys[index])), data[index])


# ---- places outside ---------------------------------------------------------------------


def test_places_outside_stand_for_the_nearest_inside() -> None:
    x = jnp.arange(5.0)
    for i, expected in [(7, 4), (-7, 0), (5, 4), (-6, 0)]:
        assert x[i] == expected
        assert mjax.jit(lambda x, i=i: x[i])(x) == expected
        assert mjax.jit(lambda x, i: x[i])(x, i) == expected
        assert x[np.array([i])][0] == expected
        assert x[jnp.array([i])][0] == expected
    assert x[jnp.uint32(2**32 - 1)] == 4
    assert x[jnp.array([2**32 - 1], jnp.uint32)][0] == 4
    assert jnp.arange(150)[jnp.array([-1], jnp.int8)][0] == 149


@pytest.mark.parametrize(("mode", "expected"), [
    (None, [4, 4, 0, 4]), ("clip", [4, 4, 0, 4]), ("fill", [-1, 4, -1, -1]),
    ("drop", [-1, 4, -1, -1])])
def test_get_modes(mode: str | None, expected: list[float]) -> None:
    x, places = jnp.arange(5.0), np.array([7, -1, -7, 5])
    get = lambda x, i: x.at[i].get(mode=mode, fill_value=-1)
    same(get(x, places), np.array(expected, np.float32))
    same(mjax.jit(get)(x, places), np.array(expected, np.float32))
    for i, value in zip(places.tolist(), expected, strict=True):
        assert get(x, i) == value
        assert mjax.jit(lambda x, i=i: get(x, i))(x) == value
        assert mjax.jit(get)(x, i) == value


def test_get_options() -> None:
    x = jnp.arange(5.0)
    assert np.isnan(x.at[9].get(mode="fill"))
    assert jnp.arange(3).at[9].get(mode="fill") == np.iinfo(np.int32).min
    assert np.isnan(x.at[-1].get(mode="fill", wrap_negative_indices=False))
    assert x.at[-1].get(mode="clip", wrap_negative_indices=False) == 0
    y = jnp.asarray(X).at[:, jnp.array([[3, 0], [9, 1]])].get(mode="one_hot")
    expected = X[:, [[3, 0], [0, 1]]]
    expected[:, 1, 0] = 0
    np.testing.assert_allclose(np.asarray(y), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="unknown gather or scatter mode 'wrap'"):
        x.at[0].get(mode="wrap")
    with pytest.raises(NotImplementedError, match="one axis"):
        jnp.asarray(X).at[1:, jnp.array([0])].get(mode="one_hot")


# ---- programs ---------------------------------------------------------------------------


def test_one_program_for_all_integers_and_for_all_slices_of_a_size() -> None:
    x = jnp.arange(97.0)
    for use in (lambda i: x[i], lambda i: x[i : i + 7], lambda i: x[i, None],
                lambda i: x[i : i + 8 : 3], lambda i: x[i + 5 : i : -1]):
        use(0)
        before = len(read._read_programs.cache)
        for i in range(1, 80, 9):
            use(i)
        assert len(read._read_programs.cache) == before


def test_jaxprs_of_static_indices_are_slices() -> None:
    names = lambda index: [e.primitive.name for e in mjax.make_jaxpr(lambda x: x[index])(X).eqns]
    assert names(1) == ["slice", "squeeze"]
    assert names(S[1:]) == ["slice"]
    assert names(S[::-1]) == ["rev"]
    assert names(S[:, None]) == ["broadcast_in_dim"]
    assert names(...) == names(S[:]) == []


def test_dynamic_integers_are_dynamic_slices() -> None:
    jaxpr = mjax.make_jaxpr(lambda x, i: x[i, 1:3, None])(X, 1)
    names = [e.primitive.name for e in jaxpr.eqns]
    assert "gather" not in names and names.count("dynamic_slice") == 1


# ---- bad indices ------------------------------------------------------------------------


@pytest.mark.parametrize(("index", "error", "text"), [
    ((1, 1, 1, 1), IndexError, "too many indices: an array of shape (3, 4, 5) has 3 axes, but 4"),
    ((..., 1, ...), IndexError, "only one ellipsis"),
    ([0, 1], TypeError, "using a list as an index is ambiguous"),
    ([], TypeError, "x[jnp.array(index)]"),
    (range(2), TypeError, "using a range"),
    (1.0, TypeError, "an index must be an integer"),
    (1j, TypeError, "an index must be an integer"),
    ("a", TypeError, "strings are not indices; got 'a'"),
    (np.array([1.0]), TypeError, "Convert it with .astype(int)"),
    (jnp.array(1.0), TypeError, "Convert it with .astype(int)"),
    (np.array(["a"]), TypeError, "an index must be an integer"),
    (object(), TypeError, "an index must be an integer"),
    ({}, IndexError, "an index must be an integer"),
    (([0, "a"],), TypeError, "an index must be an integer"),
    (S[1.0:], TypeError, "slice indices must be integers"),
    (S[::0], ValueError, "slice step cannot be zero"),
    (np.array([True, False]), IndexError, "the mask of shape (2,) covers axes 0 to 0"),
    ((np.array([0, 1]), np.array([0, 1, 2])), ValueError, "(2,), (3,)"),
])
def test_errors(index: Any, error: type[Exception], text: str) -> None:
    for use in (lambda: jnp.asarray(X)[index], lambda: mjax.jit(lambda x: x[index])(X)):
        with pytest.raises(error, match=re.escape(text)):
            use()


def test_axis_of_size_0() -> None:
    x = jnp.zeros((0, 3))
    for index in [0, jnp.array(0), np.array([0])]:
        with pytest.raises(IndexError, match="axis 0 has size 0"):
            x[index]
    with pytest.raises(IndexError, match="axis 0 has size 0"):
        jnp.zeros((0, 0))[jnp.array([0])]
    for y in (x, jnp.zeros((3, 0))):
        with pytest.raises(ValueError, match=r"must broadcast together.* \(2,\), \(3,\)"):
            y[jnp.array([0, 1]), jnp.array([0, 1, 2])]


def test_traced_masks_and_slices() -> None:
    with pytest.raises(NonConcreteBooleanIndexError, match=r"bool\[3\].*jnp\.where") as error:
        mjax.jit(lambda x, m: x[m])(X, np.array([True, False, True]))
    assert isinstance(error.value, IndexError)
    with pytest.raises(IndexError, match=r"static bounds.*dynamic_slice_in_dim"):
        mjax.jit(lambda x, i: x[i:])(X, 1)
    mask = jnp.asarray(X)[:, 0, 0] < 9
    assert mjax.jit(lambda x: x[mask])(X).shape == SHAPE


def test_assignment() -> None:
    with pytest.raises(TypeError, match=r"x\.at\[i\]\.set"):
        jnp.arange(3)[0] = 1


def test_basic_table_is_basic() -> None:
    """A reminder for whoever adds rows: the first table is what makes boxes."""
    for index in BASIC.values():
        names = [e.primitive.name for e in mjax.make_jaxpr(lambda x, i=index: x[i])(X).eqns]
        assert "gather" not in names


@pytest.mark.parametrize(("index", "remedy"), [
    (1.0, r"Write 1 in its place"), (1.5, r"Convert it with int\("),
    (float("nan"), r"Convert it with int\("), (np.ones(1, np.float32), r"\.astype\(int\)"),
])
def test_indices_that_are_floats_are_refused_with_a_remedy(index, remedy):
    with pytest.raises(TypeError, match=remedy):
        jnp.arange(3)[index]
