"""Layouts and formats: arrays are row-major; programs may ask for other orders."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax.experimental.layout import Format, Layout, with_layout_constraint
from mjax.sharding import SingleDeviceSharding

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
    assert mjax.ShapeDtypeStruct((2, 3), "float32", sharding=given).sharding == given.sharding


@pytest.mark.parametrize("call", [
    lambda f: mjax.jit(lambda x: x, in_shardings=f), lambda f: mjax.device_put(X, f),
    lambda f: mjax.jit(lambda x: x, out_shardings=f),
    lambda f: mjax.ShapeDtypeStruct((2, 3), "float32", sharding=f)])
def test_other_orders_of_arrays_are_refused(call):
    with pytest.raises(NotImplementedError, match="not row-major"):
        call(Format(COLUMNS, HERE))


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
