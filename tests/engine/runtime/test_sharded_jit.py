"""Programs over several devices, against the same programs on one."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax._engine.ir.mesh import Mesh
from mjax._engine.ir.mesh import PartitionSpec as P
from mjax._engine.runtime.chosen import GSPMDSharding
from mjax._engine.runtime.shardings import NamedSharding, SingleDeviceSharding
from mjax._engine.runtime.transfer import move, to_array

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh_of(shape, names, devices=None):
    devices = mjax.devices() if devices is None else devices
    return Mesh(np.array(devices[:int(np.prod(shape))]).reshape(shape), names)


@pytest.fixture
def mesh():
    return mesh_of((4, 2), ("x", "y"))


def put(x, mesh, *spec):
    return move(to_array(x), NamedSharding(mesh, P(*spec)), True)


@pytest.mark.parametrize(("f", "expected", "spec"), [
    (lambda x: x + 1, X + 1, P("x", "y")),
    (lambda x: x.sum(0), X.sum(0), P("y")),
    (lambda x: x.T @ x, X.T @ X, None),
    (lambda x: x[:7], X[:7], None),
    (lambda x: x.T, X.T, P("y", "x")),
    (lambda x: (x * 2).sum(), X.sum() * 2, P()),
    (jnp.sin, np.sin(X), P("x", "y")),
], ids=["add", "sum", "dot", "slice", "transpose", "total", "sin"])
@pytest.mark.parametrize("jitted", [True, False])
def test_values_and_shardings_that_xla_chooses(mesh, f, expected, spec, jitted):
    out = (mjax.jit(f) if jitted else f)(put(X, mesh, "x", "y"))
    np.testing.assert_allclose(out, expected, 1e-5)
    assert out.committed and out.devices() == set(mjax.devices())
    if spec is not None:
        assert out.sharding is NamedSharding(mesh, spec)


def test_a_result_is_placed_as_an_argument_of_the_same_sharding(mesh):
    f = mjax.jit(lambda x: x + 1)
    x = put(X, mesh, "x", None)
    for _ in range(3):
        x = f(x)
    assert x.sharding is NamedSharding(mesh, P("x", None)) and f._cache_size() == 1
    np.testing.assert_array_equal(x, X + 3)


def test_uncommitted_arguments_come_along(mesh):
    f = mjax.jit(lambda a, b, c, d: (a + b * c, d))
    out, same = f(put(X, mesh, "x"), X, 2.0, jnp.arange(8))
    np.testing.assert_array_equal(out, X * 3)
    np.testing.assert_array_equal(same, np.arange(8))
    assert out.sharding.spec == P("x") and same.devices() == set(mjax.devices())


def test_arrays_closed_over_come_along(mesh):
    w, b = put(X, mesh, None, "y"), jnp.ones(4)
    out = mjax.jit(lambda x: x + w + b)(X)
    np.testing.assert_array_equal(out, X + X + 1)
    assert out.sharding is NamedSharding(mesh, P(None, "y"))


def test_devices_that_differ(mesh):
    x, y = put(X, mesh, "x"), mjax.device_put(X, mjax.devices()[3])
    with pytest.raises(ValueError, match=r"argument x to cpu:\[0, 1, .*, 7\], argument y to "
                       r"cpu:3. Move an argument with mjax.device_put"):
        mjax.jit(lambda x, y: x + y)(x, y)
    with pytest.raises(ValueError, match="different devices"):
        x + put(X, mesh_of((2,), "x"), "x")


def test_one_array_in_another_order_of_devices(mesh):
    x, y = put(X, mesh, "x"), put(X * 2, mesh_of((8,), "z", mjax.devices()[::-1]), "z")
    f = mjax.jit(lambda x, y: (x + y, y, y * 2))
    total, same, twice = f(x, y)
    np.testing.assert_array_equal(total, X * 3)
    np.testing.assert_array_equal(same, X * 2)
    np.testing.assert_array_equal(twice, X * 4)
    assert total.sharding.flat_devices == mesh.flat_devices
    assert isinstance(twice.sharding, GSPMDSharding)
    np.testing.assert_array_equal(f(twice, x)[0], X * 5)
    shards = {s: X[i] * 4 for s, i in twice.sharding.devices_indices_map(X.shape).items()}
    assert {d: v.tolist() for d, v in shards.items()} == {
        d: [(X[7 - i] * 4).tolist()] for i, d in enumerate(mjax.devices())}


def test_pieces_that_no_axis_names():
    """Six rows on a mesh of one axis of eight: half of it cuts them after a reshape."""
    mesh = mesh_of((8,), "x")
    x = put(np.arange(8.0, dtype=np.float32), mesh, "x")
    out = mjax.jit(lambda x: x.reshape(2, 4))(x)
    np.testing.assert_array_equal(out, np.arange(8).reshape(2, 4))
    np.testing.assert_array_equal(out + 1, np.arange(8).reshape(2, 4) + 1)
    np.testing.assert_array_equal(out.sum(1), [6, 22])


def test_a_mesh_of_one_device():
    mesh = mesh_of((1,), "x")
    out = mjax.jit(lambda x: x + 1)(put(X, mesh, "x"))
    np.testing.assert_array_equal(out, X + 1)
    assert type(out.sharding) is NamedSharding and out.sharding.mesh is mesh
    both = mjax.jit(lambda x, y: x + y)(out, mjax.device_put(X, mjax.devices()[0]))
    np.testing.assert_array_equal(both, X * 2 + 1)


def test_keys(mesh):
    keys = mjax.random.split(mjax.random.key(0), 8)
    out = mjax.jit(mjax.vmap(lambda k: mjax.random.fold_in(k, 1)))(put(keys, mesh, "x"))
    expected = mjax.vmap(lambda k: mjax.random.fold_in(k, 1))(keys)
    np.testing.assert_array_equal(mjax.random.key_data(out), mjax.random.key_data(expected))
    assert out.sharding is NamedSharding(mesh, P("x"))


def test_transformations(mesh):
    def f(x):
        return jnp.sum(jnp.sin(x) * x)

    x = put(X, mesh, "x")
    np.testing.assert_allclose(mjax.grad(f)(x), np.cos(X) * X + np.sin(X), 2e-4, 1e-5)
    g = mjax.jit(mjax.grad(f))(x)
    np.testing.assert_allclose(g, np.cos(X) * X + np.sin(X), 2e-4, 1e-5)
    assert g.sharding is x.sharding
    np.testing.assert_allclose(mjax.vmap(f)(x), (np.sin(X) * X).sum(1), 1e-4)


def test_donation(mesh):
    x, y = put(X, mesh, "x"), jnp.asarray(X)
    f = mjax.jit(lambda x, y: (x + 1, y), donate_argnums=(0, 1), keep_unused=True)
    out, _ = f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    np.testing.assert_array_equal(out, X + 1)
    with pytest.raises(RuntimeError, match="argument x of type f32"):
        f(x, y)


def test_programs_on_one_device_are_what_they_were():
    out = mjax.jit(lambda x: x + 1)(X)
    assert out.sharding is SingleDeviceSharding(mjax.devices()[0]) and not out.committed
    text = mjax.jit(lambda x: x + 1).lower(X).as_text()
    assert "sdy" not in text and "num_partitions" not in text


def test_the_module(mesh):
    text = mjax.jit(lambda x, y: x + y).lower(put(X, mesh, "x", ("y",)), X).as_text()
    assert '%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}' in text
    assert "%arg1: tensor<8x4xf32>)" in text
    assert "mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32" in text
    assert 'sdy.mesh @mesh = <["x"=4, "y"=2]>' in text
