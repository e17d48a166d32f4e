"""Layouts and formats: orders of arrays in memory, and of values in programs."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.experimental.layout import Format, Layout, with_layout_constraint
from mjax.sharding import NamedSharding, SingleDeviceSharding
from mjax.sharding import PartitionSpec as P

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HERE = SingleDeviceSharding(mjax.devices()[0])
ROWS, COLUMNS = Layout((0, 1)), Layout((1, 0))


def test_values():
    assert Layout((0, 1)) == ROWS != COLUMNS and hash(Layout([0, 1])) == hash(ROWS)
    assert (COLUMNS.major_to_minor, COLUMNS.tiling) == ((1, 0), None)
    assert repr(ROWS).startswith("Layout(major_to_minor=(0, 1), ")
    assert Format(ROWS, HERE) == Format(ROWS, HERE) != Format(None, HERE)
    assert (Format().layout, Format(Layout.AUTO).sharding) == (None, None)
    for bad in ((3,), (None, 3)):
        with pytest.raises(TypeError, match="got 3"):
            Format(*bad)
    with pytest.raises(ValueError, match="needs a sharding"):
        Format(ROWS)


def test_formats_of_arrays_and_programs():
    x = jnp.asarray(X)
    assert x.format == Format(Layout((0, 1), ()), HERE)
    f = mjax.jit(lambda x, y: (x @ y["a"]).sum(0)).lower(x, {"a": X.T}).compile()
    (first, second), named = f.input_formats
    assert first == second["a"] == x.format and named == {}
    assert f.output_formats == Format(Layout((0,), ()), HERE)


@pytest.mark.parametrize("given", [Format(ROWS, HERE), Format(Layout.AUTO, HERE),
                                   Format(Layout.AUTO), Format(None, HERE), Format()])
def test_where_shardings_are_taken(given):
    def double(x):
        return 2 * x

    for f in (mjax.jit(double, in_shardings=given), mjax.jit(double, out_shardings=given)):
        np.testing.assert_array_equal(f(X), 2 * X)
    put = mjax.device_put({"a": X}, given)["a"]
    assert put.sharding == HERE and put.committed == (given.sharding is not None)
    if given.layout is not Layout.AUTO:
        assert mjax.ShapeDtypeStruct((2, 3), "float32", sharding=given).sharding == given.sharding


def in_columns():
    x = mjax.device_put(X, Format(COLUMNS, HERE))
    assert x.format == Format(Layout((1, 0), ()), HERE)
    return x


def test_an_array_in_another_order():
    x = in_columns()
    assert (type(x).__name__, x.shape, x.dtype) == ("Array", (2, 3), np.float32)
    assert np.asarray(x).strides == (4, 8)  # the memory is as asked
    np.testing.assert_array_equal(x, X)
    assert repr(x) == repr(jnp.asarray(X)) and x.tolist() == X.tolist()
    assert x.tobytes() == X.tobytes() and x.is_ready() and x.block_until_ready() is x
    memory = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_float * 6).from_address(
        x.unsafe_buffer_pointer()))
    np.testing.assert_array_equal(memory, X.T.ravel())
    np.testing.assert_array_equal(np.from_dlpack(x), X)
    for same in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), jnp.array(x), x + 0):
        np.testing.assert_array_equal(same, X)
        assert same.format.layout.major_to_minor == (0, 1)


def test_axes_in_any_order():
    cube = np.arange(24).reshape(2, 3, 4)
    for order in itertools.permutations(range(3)):
        x = mjax.device_put(cube, Format(Layout(order), HERE))
        np.testing.assert_array_equal(x, cube)
        np.testing.assert_array_equal(x + 1, cube + 1)
        assert x.format.layout.major_to_minor == order
        strides = [np.asarray(x).strides[axis] for axis in order]
        assert strides == sorted(strides, reverse=True)
    again = mjax.device_put(x, Format(Layout((1, 0, 2)), HERE))
    np.testing.assert_array_equal(again, cube)
    assert mjax.device_put(x, HERE).format == x.format
    rows = mjax.device_put(x, Format(Layout((0, 1, 2)), HERE))
    assert rows.format.layout.major_to_minor == (0, 1, 2) and type(rows) is type(jnp.ones(3))
    keys = mjax.random.split(mjax.random.key(0), (2, 3))
    moved = mjax.device_put(keys, Format(COLUMNS, HERE))
    np.testing.assert_array_equal(mjax.random.key_data(moved), mjax.random.key_data(keys))


@pytest.mark.parametrize("f", [
    lambda x: x * 2, mjax.jit(lambda x: x * 2), mjax.vmap(lambda row: row * 2),
    lambda x: mjax.jvp(lambda y: y * 2, (x,), (x,))[1], lambda x: mjax.vjp(lambda y: y * y, x)[1](
        jnp.ones((2, 3)))[0], lambda x: mjax.lax.scan(lambda c, row: (c, row * 2), 0, x)[1],
    lambda x: mjax.jit(lambda: x * 2)(), lambda x: mjax.jit(lambda y: y * 2).lower(x).compile()(x),
    lambda x: mjax.device_put(x, mjax.devices()[1]) * 2,
    lambda x: mjax.jit(lambda y: mjax.device_put(y, Format(COLUMNS, HERE)) * 2)(x)])
def test_orders_do_not_change_values(f):
    for _ in range(2):
        np.testing.assert_array_equal(f(in_columns()), 2 * X)


def test_donation_and_deletion():
    x = in_columns()
    np.testing.assert_array_equal(mjax.jit(lambda x: x * 2, donate_argnums=0)(x), 2 * X)
    assert x.is_deleted()
    y = in_columns()
    y.delete()
    z = in_columns()
    assert (z + 1).shape == (2, 3)  # which makes the copy
    z.delete()
    for deleted in (x, y, z):
        assert deleted.is_deleted()
        assert "deleted" in repr(deleted)
        for use in (np.asarray, lambda a: a + 1, mjax.jit(lambda a: a + 1)):
            with pytest.raises(RuntimeError, match="deleted"):
                use(deleted)


def test_formats_of_arguments_and_results():
    form = Format(COLUMNS, HERE)
    f = mjax.jit(lambda x, y: {"a": x + y, "b": y}, in_shardings=(form, None),
                 out_shardings={"a": form, "b": None})
    for _ in range(2):
        for x in (X, in_columns(), jnp.asarray(X)):
            out = f(x, 1.0)
            np.testing.assert_array_equal(out["a"], X + 1)
            assert out["a"].format == Format(Layout((1, 0), ()), HERE)
            assert out["b"].format.layout.major_to_minor == ()
    compiled = f.lower(X, 1.0).compile()
    (first, _), _ = compiled.input_formats
    assert first == compiled.output_formats["a"] == form
    np.testing.assert_array_equal(compiled(in_columns(), 1.0)["a"], X + 1)
    # In another program they say nothing.
    np.testing.assert_array_equal(mjax.jit(lambda x: f(x, 1.0)["a"])(X), X + 1)
    np.testing.assert_array_equal(mjax.grad(lambda x: f(x, 1.0)["a"].sum())(X), np.ones_like(X))


def test_formats_over_devices():
    mesh = mjax.make_mesh((2, 3), ("a", "b"))
    cut = NamedSharding(mesh, P("a", "b"))
    x = mjax.device_put(X, Format(COLUMNS, cut))
    assert x.sharding == cut and x.format == Format(Layout((1, 0), ()), cut)
    assert [s.data.shape for s in x.addressable_shards] == [(1, 1)] * 6
    for f in (np.asarray, lambda x: x * 1, mjax.jit(lambda x: x * 1)):
        np.testing.assert_array_equal(f(x), X)
    out = mjax.jit(lambda x: x + 1, out_shardings=Format(COLUMNS, cut))(X)
    np.testing.assert_array_equal(out, X + 1)
    assert out.format == x.format


def test_committed_arguments_in_another_order_are_refused():
    f = mjax.jit(lambda x: x * 2, in_shardings=Format(COLUMNS, HERE))
    with pytest.raises(ValueError, match=r"argument x is committed, .* in the order \(0, 1\)"):
        f(mjax.device_put(X, HERE))
    g = mjax.jit(lambda x: x * 2, in_shardings=Format(ROWS, HERE))
    with pytest.raises(ValueError, match=r"in the order \(1, 0\)"):
        g(in_columns())


@pytest.mark.parametrize("call", [
    lambda f: mjax.jit(lambda x: x, in_shardings=f)(X), lambda f: mjax.device_put(X, f),
    lambda f: mjax.jit(lambda x: x, out_shardings=f)(X),
    lambda f: mjax.ShapeDtypeStruct((2, 3), "float32", sharding=f)])
def test_refusals(call):
    for order in ((2, 1, 0), (0,), (0, 0)):
        with pytest.raises(ValueError, match="does not name each of the 2 axes"):
            call(Format(Layout(order), HERE))
    with pytest.raises(NotImplementedError, match="has tiles"):
        call(Format(Layout((1, 0), ((2,),)), HERE))


def test_formats_of_structs():
    struct = mjax.ShapeDtypeStruct((2, 3), "float32", sharding=Format(COLUMNS, HERE))
    assert (struct.format, struct.sharding) == (Format(COLUMNS, HERE), HERE)
    assert struct.update(dtype="int32").format == struct.format
    assert copy.copy(struct) == struct != struct.update(sharding=HERE)
    assert "format=Layout(major_to_minor=(1, 0)" in repr(struct)
    assert mjax.jit(lambda x: x.T).lower(struct).out_info.shape == (3, 2)
    with pytest.raises(TypeError, match="AUTO"):
        mjax.ShapeDtypeStruct((2, 3), "float32", sharding=Format(Layout.AUTO))


def test_constraints():
    def f(x, layout=COLUMNS):
        return with_layout_constraint(x, layout) * 2

    np.testing.assert_array_equal(f(jnp.asarray(X)), 2 * X)
    text = mjax.jit(f).lower(X).as_text()
    assert "LayoutConstraint" in text and "dense<[0, 1]>" in text
    np.testing.assert_array_equal(mjax.jit(f)(X), 2 * X)
    np.testing.assert_array_equal(mjax.grad(lambda x: f(x).sum())(X), np.full_like(X, 2))
    np.testing.assert_array_equal(mjax.jvp(f, (X,), (X,))[1], 2 * X)
    batch = np.stack([X, X + 1])
    for axis in (0, 1, 2):
        moved = np.moveaxis(batch, 0, axis)
        np.testing.assert_array_equal(
            mjax.jit(mjax.vmap(f, in_axes=axis))(moved), 2 * batch)
    with pytest.raises(ValueError, match="does not name each of the 2 axes"):
        f(X, Layout((0,)))
