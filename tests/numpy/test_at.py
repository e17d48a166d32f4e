"""`x.at[index]`: against NumPy's assignment and `ufunc.at`, for the table of expressions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._numpy.indexing import update
from tests.engine.primitives.harness import naming
from tests.marks import some
from tests.numpy.indices import ADVANCED, ALL, SHAPE, S

X = np.random.default_rng(0).integers(1, 9, SHAPE).astype(np.float32)
#: Method -> what NumPy does.
UFUNCS: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "mul": np.multiply,
    "divide": np.divide, "power": np.power, "min": np.minimum, "max": np.maximum}


def values_for(index: Any) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).integers(1, 4, X[index].shape).astype(np.float32)


def assigned(index: Any, values: Any) -> np.ndarray[Any, Any]:
    out = X.copy()
    out[index] = values
    return out


def changed(ufunc: Any, index: Any, values: Any) -> np.ndarray[Any, Any]:
    out = X.copy()
    ufunc.at(out, index, values)
    return out


def repeats(index: Any) -> bool:
    """Whether an index has a place twice."""
    places = np.arange(X.size).reshape(SHAPE)[index]
    return len(np.unique(places)) < places.size


def same(actual: Any, expected: Any) -> None:
    assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-6)


def check_all(f: Callable[..., Any], expected: Callable[..., Any],
              choose: Callable[[Any], bool] = lambda index: True) -> None:
    """`f(x, index, values)` for all expressions as one program, against the same in NumPy."""
    rows = {name: index for name, index in ALL.items() if choose(index)}
    inputs = {name: values_for(index) for name, index in rows.items()}
    outs = mjax.jit(lambda x, inputs: {name: f(x, index, inputs[name])
                                       for name, index in rows.items()})(X, inputs)
    for name, out in outs.items():
        with naming(name):
            same(out, expected(rows[name], inputs[name]))


# ---- the operations ---------------------------------------------------------------------


@pytest.mark.parametrize("index", ALL.values(), ids=ALL)
def test_evaluation(index: Any) -> None:
    x, values = jnp.asarray(X), values_for(index)
    same(x.at[index].add(values), changed(np.add, index, values))
    same(x, X)
    if not repeats(index):
        same(x.at[index].set(jnp.asarray(values)), assigned(index, values))


def test_set() -> None:
    check_all(lambda x, index, v: x.at[index].set(v), assigned, lambda i: not repeats(i))


def test_set_to_a_scalar() -> None:
    check_all(lambda x, index, v: x.at[index].set(7), lambda index, v: assigned(index, 7))


@pytest.mark.parametrize("name", ["add", *[pytest.param(n, marks=pytest.mark.slow)
                                           for n in UFUNCS if n not in ("add", "mul")]])
def test_operations(name: str) -> None:
    check_all(lambda x, index, v: getattr(x.at[index], name)(v),
              lambda index, v: changed(UFUNCS[name], index, v))


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("index", [1, S[1:, ::2], np.array([0, 2, 0])], ids=["1", "s", "array"])
def test_operations_evaluated(name: str, index: Any) -> None:
    out = getattr(jnp.asarray(X).at[index], name)(2)
    same(out, changed(UFUNCS[name], index, 2))


def test_apply() -> None:
    check_all(lambda x, index, v: x.at[index].apply(lax.neg),
              lambda index, v: assigned(index, -X[index]), lambda i: not repeats(i))
    assert jnp.arange(3).at[np.array([1, 1])].apply(lambda v: v + 5).tolist() == [0, 11, 2]
    assert jnp.arange(3).at[-1].apply(jnp.negative).tolist() == [0, 1, -2]


def test_values_broadcast() -> None:
    x = jnp.asarray(X)
    same(x.at[1].set(np.arange(5.0)), assigned(1, np.arange(5)))
    same(x.at[:, [0, 2]].set(np.ones((2, 1))), assigned((slice(None), [0, 2]), 1))
    same(x.at[0, 1:3].set([1, 2, 3, 4, 5]), assigned((0, slice(1, 3)), [1, 2, 3, 4, 5]))


# ---- places outside, promises -----------------------------------------------------------


@pytest.mark.parametrize(("mode", "expected"), [
    (None, [9, 1, 2, 3, 9]), ("drop", [9, 1, 2, 3, 9]), ("fill", [9, 1, 2, 3, 9]),
    ("clip", [9, 1, 2, 3, 9])])
def test_modes(mode: str | None, expected: list[float]) -> None:
    set_ = lambda x, i: x.at[i].set(9, mode=mode)
    x = np.arange(5, dtype=np.float32)
    for places in (np.array([0, -1, 7]), np.array([[0, 7], [-1, -9]])):
        for f in (set_, mjax.jit(set_)):
            same(f(jnp.asarray(x), places), np.array(expected, np.float32))
    for i, clipped in ((7, 4), (-7, 0)):
        kept = np.where(np.arange(5) == clipped, 9, x) if mode == "clip" else x
        same(set_(jnp.asarray(x), i), kept.astype(np.float32))
        same(mjax.jit(set_)(x, i), kept.astype(np.float32))
        same(mjax.jit(lambda x, i=i: set_(x, i))(x), kept.astype(np.float32))


def test_options() -> None:
    x = jnp.arange(5.0)
    assert x.at[-1].set(9, wrap_negative_indices=False).tolist() == x.tolist()
    assert x.at[np.array([1, 3])].add(
        1, indices_are_sorted=True, unique_indices=True).tolist() == [0, 2, 2, 4, 4]
    jaxpr = mjax.make_jaxpr(lambda x, i: x.at[i].add(
        1, indices_are_sorted=True, unique_indices=True, mode="promise_in_bounds"))(
            x, np.array([1, 3]))
    params = jaxpr.eqns[-1].params
    assert params["indices_are_sorted"] and params["unique_indices"]
    assert params["mode"] is lax.GatherScatterMode.PROMISE_IN_BOUNDS


# ---- dtypes -----------------------------------------------------------------------------


@pytest.mark.parametrize(("array", "values"), [
    (np.int32, 1.5), (np.float32, 1j), (np.int8, np.int32(1)), (np.float16, np.float32(1)),
    (np.bool_, 1)])
@pytest.mark.parametrize("method", ["set", "max"])
def test_values_that_do_not_fit_are_converted_with_a_warning(array: Any, values: Any, method: str
                                                             ) -> None:
    x = jnp.zeros(3, array)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        out = getattr(x.at[0], method)(values)
    assert record[0].category is FutureWarning and record[0].filename == __file__
    assert "cannot safely cast value from dtype" in str(record[0].message)
    assert out.dtype == x.dtype
    assert out[0] == np.asarray(np.real(values)).astype(array)


@pytest.mark.parametrize(("array", "values"), [
    (np.float32, 1), (np.float32, np.int32(1)), (np.float32, True), (np.complex64, 1.0),
    (np.int8, 1), (np.int32, np.int8(1)), (np.float16, 1.5)])
def test_values_that_fit(array: Any, values: Any) -> None:
    out = jnp.zeros(3, array).at[0].set(values)
    assert out.dtype == array and out[0] == values


def test_weak_types_stay() -> None:
    weak = jnp.broadcast_to(2.0, (3,))
    assert weak.at[0].set(1.0).weak_type
    assert weak.at[0].set(np.float32(1)).weak_type
    assert not jnp.ones(3).at[0].set(1.0).weak_type


def test_division_of_integers_gives_floats() -> None:
    same(jnp.array([5, 6, 7]).at[1].divide(4), np.array([5, 1.5, 7], np.float32))


def test_keys() -> None:
    keys = mjax.random.split(mjax.random.key(0), 4)
    data = np.asarray(mjax.random.key_data(keys)).copy()
    for index in (1, S[1:3], np.array([0, 3])):
        expected = data.copy()
        expected[index] = data[2]
        out = keys.at[index].set(keys[2])
        np.testing.assert_array_equal(np.asarray(mjax.random.key_data(out)), expected)
    with pytest.raises(TypeError, match=r"int32 cannot go into an array of dtype key<fry>"):
        keys.at[0].set(1)


# ---- derivatives, vmap ------------------------------------------------------------------


@pytest.mark.parametrize("name", some(
    ["set", "subtract", "add", "divide", "multiply", "max", "min"], 2))
@pytest.mark.parametrize("index", [1, S[1, ::-2], S[np.array([2, 0]), :, 1:3],
                                   (np.array([[0], [2]]), np.array([[1, 3]]))],
                         ids=["int", "steps", "array", "arrays"])
def test_derivatives(name: str, index: Any) -> None:
    """Against finite differences, in the array and the values."""
    f = lambda x, v: getattr(x.at[index], name)(v, unique_indices=True)
    with mjax.enable_x64():
        rng = np.random.default_rng(3)
        x, v = rng.normal(size=SHAPE), rng.normal(size=X[index].shape) + 3
        tx, tv, ct = rng.normal(size=SHAPE), rng.normal(size=v.shape), rng.normal(size=SHAPE)

        @mjax.jit
        def both(x: Any, v: Any, tx: Any, tv: Any, ct: Any) -> Any:
            return mjax.jvp(f, (x, v), (tx, tv))[1], mjax.vjp(f, x, v)[1](ct)

        tangent, (cx, cv) = both(x, v, tx, tv, ct)
        step = 1e-6
        expected = (f(jnp.asarray(x + step * tx), v + step * tv)
                    - f(jnp.asarray(x - step * tx), v - step * tv)) / (2 * step)
        np.testing.assert_allclose(np.asarray(tangent), np.asarray(expected), atol=1e-7)
        np.testing.assert_allclose(np.sum(cx * tx) + np.sum(cv * tv), np.sum(ct * tangent))


def test_gradient_with_repeated_places() -> None:
    x, places = jnp.arange(4.0), np.array([1, 1, 3])
    grads = mjax.grad(lambda x, v: (x.at[places].add(v) * jnp.arange(4.0)).sum(), (0, 1))(
        x, jnp.ones(3))
    same(grads[0], np.arange(4, dtype=np.float32))
    same(grads[1], np.array([1, 1, 3], np.float32))
    dx, dv = mjax.grad(lambda x, v: x.at[places].set(v).sum(), (0, 1))(x, jnp.ones(3))
    same(dx, np.array([1, 0, 1, 0], np.float32))
    assert dv[:2].sum() == 1 and dv[2] == 1


@pytest.mark.slow
def test_vmap() -> None:
    both = np.stack([X, 2 * X])
    values = {name: np.stack([values_for(i), values_for(i) + 1]) for name, i in ALL.items()}

    def mapped(both: Any, index: Any, v: Any) -> tuple[Any, Any]:
        return (mjax.vmap(lambda x, v: x.at[index].add(v))(both, v),
                mjax.vmap(lambda v: both[0].at[index].add(v))(v))

    outs = mjax.jit(lambda both, values: {
        name: mapped(both, index, values[name]) for name, index in ALL.items()})(both, values)
    for name, (own, shared) in outs.items():
        with naming(name):
            for i in range(2):
                expected = both[i].copy()
                np.add.at(expected, ALL[name], values[name][i])
                same(own[i], expected)
                same(shared[i], changed(np.add, ALL[name], values[name][i]))


def test_vmap_over_places() -> None:
    x = jnp.asarray(X)
    for places in (np.array([2, 0]), np.array([[0, 1], [-1, 0]])):
        out = mjax.vmap(lambda i: x.at[i, :, 1].add(1.0))(places)
        for i in range(2):
            same(out[i], changed(np.add, (places[i], slice(None), 1), 1))
        out = mjax.vmap(lambda i: x.at[i].set(1.0))(places)
        for i in range(2):
            same(out[i], assigned(places[i], 1))


# ---- programs, texts --------------------------------------------------------------------


def test_one_program_for_all_integers() -> None:
    x = jnp.arange(97.0)
    x.at[0].set(1.0), x.at[0:7].add(2.0)
    before = len(update._write_programs.cache)
    for i in range(1, 90, 9):
        x.at[i].set(float(i)), x.at[-i].set(2.0), x.at[i : i + 7].add(float(i))
    assert len(update._write_programs.cache) == before


def test_static_boxes_are_updated_as_slices() -> None:
    jaxpr = mjax.make_jaxpr(lambda x: x.at[1, 1:3, ::-1].set(0.0))(X)
    assert jaxpr.eqns[-1].primitive.name == "dynamic_update_slice"


@pytest.mark.parametrize(("index", "values", "text"), [
    (S[0:2], np.zeros((3, 4, 5)), "x.at[...].set: values of shape (3, 4, 5) do not broadcast to "
     "(2, 4, 5), the shape of the selection"),
    (1, np.zeros((1, 4, 5)), "values of shape (1, 4, 5) do not broadcast to (4, 5)"),
    ((1, 1, 1, 1), 0, "too many indices"),
])
def test_shape_errors(index: Any, values: Any, text: str) -> None:
    for use in (lambda x: x.at[index].set(values), mjax.jit(lambda x: x.at[index].set(values))):
        with pytest.raises((ValueError, IndexError), match=re.escape(text)):
            use(jnp.asarray(X))


@pytest.mark.parametrize("operation", ["set", "add", "multiply", "divide", "power", "max"])
def test_writing_to_an_axis_of_size_0_changes_nothing(operation: str) -> None:
    places = np.array([0, 1])
    for shape, index in (((0, 3), places), ((2, 0), (0, places)), ((2, 0), (places, places)),
                         ((0, 0), places), ((0, 3), (places, 1))):
        for where in (index, mjax.tree.map(jnp.asarray, index)):
            f = lambda x, w: getattr(x.at[w], operation)(2.0)
            for out in (f(jnp.zeros(shape), where), mjax.jit(f)(jnp.zeros(shape), where)):
                assert out.shape == shape
            assert jnp.zeros(shape).at[where].apply(jnp.cos).shape == shape
    with pytest.raises(IndexError, match="axis 0 has size 0"):
        getattr(jnp.zeros((0, 3)).at[0], operation)(1.0)
    with pytest.raises(ValueError, match=r"values of shape \(3, 3\) do not broadcast to \(2, 3\)"):
        getattr(jnp.zeros((0, 3)).at[places], operation)(jnp.ones((3, 3)))


def test_writing_one_hot_drops_places_outside() -> None:
    x, places = jnp.arange(3.0), jnp.array([1, 7])
    np.testing.assert_array_equal(x.at[places].set(5.0, mode="one_hot"), [0, 5, 2])
    np.testing.assert_array_equal(x.at[places].add(5.0, mode="one_hot"), [0, 6, 2])
    np.testing.assert_array_equal(x.at[places].divide(2.0, mode="one_hot"), [0, 0.5, 2])
    np.testing.assert_array_equal(x.at[1].apply(jnp.negative, mode="one_hot"), [0, -1, 2])


@pytest.mark.parametrize(("dtype", "value", "expected"), [
    ("uint8", 300, 44), ("uint8", -1, 255), ("int32", 2**33 + 1, 1), ("int8", 2.7, 2),
    ("int32", np.float32(-2.5), -2), ("int4", 9, -7)])
def test_fill_values_are_cast_as_numpy_does(dtype: str, value: Any, expected: int) -> None:
    x = jnp.zeros(3, dtype)
    assert x.at[5].get(mode="fill", fill_value=value) == expected
    assert jnp.take(x, 5, mode="fill", fill_value=value) == expected
    with np.errstate(invalid="ignore"):
        nan = np.asarray(np.nan).astype(x.dtype)
    assert x.at[jnp.array([0, 5])].get(mode="fill", fill_value=jnp.nan).tolist() == [0, int(nan)]


def test_other_errors() -> None:
    x = jnp.arange(3.0)
    with pytest.raises(ValueError, match="unknown gather or scatter mode 'bogus'"):
        x.at[0].set(1, mode="bogus")
    with pytest.raises(TypeError, match=r"x\.at\[\.\.\.\]\.set requires ndarray or scalar"):
        x.at[0].set("a")
    with pytest.raises(TypeError, match="does not accept dtype bool"):
        (x > 1).at[0].add(True)
    with pytest.raises(mjax.errors.NonConcreteBooleanIndexError, match=r"jnp\.where"):
        mjax.jit(lambda x, m: x.at[m].set(0))(x, x > 1)


def test_repr() -> None:
    x = jnp.arange(2)
    assert repr(x.at) == f"_IndexUpdateHelper({x!r})"
    assert repr(x.at[0]) == f"_IndexUpdateRef({x!r}, 0)"


def test_empty_selections() -> None:
    for index in (S[2:1], ADVANCED["empty array"], ADVANCED["false mask"]):
        same(jnp.asarray(X).at[index].set(1), X)
        same(jnp.asarray(X).at[index].apply(lax.neg), X)
