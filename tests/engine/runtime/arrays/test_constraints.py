"""Sharding constraints: in programs, under transformations, on arrays."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax.sharding import (
    AbstractMesh,
    Mesh,
    NamedSharding,
    SingleDeviceSharding,
    get_abstract_mesh,
    use_abstract_mesh,
)
from mjax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)
constraint = lax.with_sharding_constraint


@pytest.fixture
def mesh():
    return Mesh(np.array(mjax.devices()).reshape(4, 2), ("x", "y"))


def specs_of(f, *args):
    return [e.params["sharding"].spec for e in mjax.make_jaxpr(f)(*args).eqns
            if e.primitive is lax.sharding_constraint_p]


def test_in_programs(mesh):
    cut = NamedSharding(mesh, P("x", "y"))

    @mjax.jit
    def f(x):
        return x @ constraint(x.T, cut), constraint({"a": x, "b": x + 1}, {"a": cut, "b": None})

    dot, rest = f(X[:4])
    np.testing.assert_allclose(dot, X[:4] @ X[:4].T)
    assert rest["a"].sharding is cut
    np.testing.assert_array_equal(rest["b"], X[:4] + 1)
    assert "sdy.sharding_constraint" in f.lower(X[:4]).as_text()


def test_on_arrays(mesh):
    cut = NamedSharding(mesh, P("x"))
    for x in (X, jnp.asarray(X), mjax.device_put(X, NamedSharding(mesh, P(None, "y")))):
        out = constraint(x, cut)
        assert out.sharding is cut
        np.testing.assert_array_equal(out, X)
    left = constraint(mjax.device_put(X, cut), NamedSharding(mesh, P(P.UNCONSTRAINED, "y")))
    assert left.sharding is NamedSharding(mesh, P("x", "y"))
    with mjax.set_mesh(mesh):
        assert constraint(X, P("y")).sharding is NamedSharding(mesh, P("y"))


def test_derivatives_are_cut_alike(mesh):
    cut = NamedSharding(mesh, P("x"))
    f = mjax.jit(mjax.grad(lambda x: (jnp.sin(constraint(x, cut)) ** 2).sum()))
    g = f(X)
    np.testing.assert_allclose(g, np.sin(2 * X), 1e-3, 1e-4)
    assert g.sharding is cut
    assert specs_of(lambda x, t: mjax.jvp(lambda x: constraint(x, cut), (x,), (t,)), X, X) == [
        P("x")] * 2
    assert specs_of(lambda ct: mjax.linear_transpose(lambda x: constraint(x, cut), X)(ct), X) == [
        P("x")]
    _, tangent = mjax.jvp(lambda x: constraint(x, cut), (X,), (X * 2,))
    np.testing.assert_array_equal(tangent, X * 2)


def test_batches(mesh):
    def f(x):
        return constraint(x, NamedSharding(mesh, P("y")))

    assert specs_of(mjax.vmap(f), X) == [P(P.UNCONSTRAINED, "y")]
    assert specs_of(mjax.vmap(f, 1, 1), X) == [P("y", P.UNCONSTRAINED)]
    assert specs_of(mjax.vmap(f, spmd_axis_name="x"), X) == [P("x", "y")]
    g = mjax.jit(mjax.vmap(f, spmd_axis_name="x"))
    assert g(X).sharding is NamedSharding(mesh, P("x", "y"))
    twice = mjax.vmap(mjax.vmap(lambda x: constraint(x, NamedSharding(mesh, P())),
                                spmd_axis_name="x"), spmd_axis_name="y")
    np.testing.assert_array_equal(twice(X.reshape(2, 4, 4)), X.reshape(2, 4, 4))
    assert specs_of(twice, X.reshape(2, 4, 4)) == [P("y", "x", None)]
    with pytest.raises(ValueError, match="names the mesh axis 'y' twice"):
        mjax.vmap(f, spmd_axis_name="y")(X)


def test_device_put_in_a_program(mesh):
    cut = NamedSharding(mesh, P("x"))
    assert mjax.jit(lambda x: mjax.device_put(x, cut) + 1)(X).sharding is cut
    out = mjax.jit(mjax.vmap(lambda x: mjax.device_put(x, NamedSharding(mesh, P("y"))),
                             spmd_axis_name="x"))(X)
    np.testing.assert_array_equal(out, X)
    assert out.sharding is NamedSharding(mesh, P("x", "y"))
    rows = mjax.vmap(lambda x: mjax.device_put(x, NamedSharding(mesh, P("y"))))(X)
    assert rows.sharding is NamedSharding(mesh, P(None, "y"))


def test_keys(mesh):
    keys = mjax.random.split(mjax.random.key(0), 8)
    out = mjax.jit(lambda k: constraint(k, NamedSharding(mesh, P("x"))))(keys)
    assert out.sharding is NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(mjax.random.key_data(out), mjax.random.key_data(keys))


def test_on_a_mesh_of_one_device():
    mesh = Mesh(np.array(mjax.devices()[5:6]), ("x",))
    out = mjax.jit(lambda x: constraint(x, NamedSharding(mesh, P("x"))) * 2)(X)
    np.testing.assert_array_equal(out, X * 2)
    assert out.devices() == {mjax.devices()[5]}


def test_one_device():
    there = SingleDeviceSharding(mjax.devices()[2])
    assert mjax.jit(lambda x: constraint(x, there) + 1)(X).devices() == {mjax.devices()[2]}


# ---- over abstract meshes ------------------------------------------------------------------


def test_the_devices_are_those_of_the_program(mesh):
    x, cut = mjax.device_put(X, NamedSharding(mesh, P("x"))), NamedSharding(mesh, P("y"))
    there = NamedSharding(mesh.abstract_mesh, P("y"))
    for f in (mjax.jit(lambda x: constraint(x, there) + 1), lambda x: constraint(x, there) + 1,
              mjax.jit(lambda x: mjax.device_put(x, there) + 1)):
        out = f(x)
        np.testing.assert_array_equal(out, X + 1)
        assert out.sharding is cut
    g = mjax.jit(mjax.grad(lambda x: (constraint(x, there) ** 2).sum()))(x)
    np.testing.assert_array_equal(g, 2 * X)
    assert g.sharding is cut
    rows = mjax.jit(mjax.vmap(lambda x: constraint(x, there), spmd_axis_name="x"))(x)
    assert rows.sharding is NamedSharding(mesh, P("x", "y"))
    with mjax.set_mesh(mesh):
        assert mjax.jit(lambda x: constraint(x, there))(X).sharding is cut
    # On one device there is nothing to cut.
    assert mjax.jit(lambda x: constraint(x, there))(X).devices() == {mjax.devices()[0]}


def test_one_program_for_any_devices(mesh):
    there = NamedSharding(AbstractMesh((2,), ("i",)), P("i"))
    f = mjax.jit(lambda x: constraint(x * 2, there))
    for devices in (mjax.devices()[:2], mjax.devices()[5:7]):
        line = Mesh(devices, "i")
        x = mjax.device_put(X, NamedSharding(line, P()))
        assert f(x).sharding is NamedSharding(line, P("i"))
    turned = Mesh(mjax.devices()[:2], "j")
    assert f(mjax.device_put(X, NamedSharding(turned, P()))).sharding.spec == P("j")


def test_axes_that_only_the_abstract_mesh_names(mesh):
    line = Mesh(mjax.devices(), "i")
    there = NamedSharding(mesh.abstract_mesh, P("y"))
    out = mjax.jit(lambda x: constraint(x, there))(mjax.device_put(X, NamedSharding(line, P("i"))))
    assert out.sharding is NamedSharding(mesh, P("y"))


def test_a_spec_alone_refers_to_the_abstract_mesh_in_force(mesh):
    def f(x):
        with use_abstract_mesh(mesh.abstract_mesh):
            return constraint(x, P("y"))

    x = mjax.device_put(X, NamedSharding(mesh, P("x")))
    assert mjax.jit(f)(x).sharding is NamedSharding(mesh, P("y"))


def test_a_spec_alone_refers_to_the_mesh_of_the_shard_map(mesh):
    def f(x):
        seen.append(get_abstract_mesh())
        return constraint(constraint(x, P("y")), NamedSharding(seen[-1], P(None, "y"))) * 2

    seen = []
    mapped = mjax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    np.testing.assert_array_equal(mjax.jit(mapped)(X), X * 2)
    assert seen[-1].manual_axes == ("x",)
    assert [e.params["sharding"].spec for e in mjax.make_jaxpr(mapped)(X).eqns[0].params[
        "jaxpr"].eqns if e.primitive is lax.sharding_constraint_p] == [P("y"), P(None, "y")]


def test_abstract_meshes_of_another_size(mesh):
    there = NamedSharding(AbstractMesh((4,), ("i",)), P("i"))
    with pytest.raises(ValueError, match=r"AbstractMesh\('i': 4\) is of 4 devices, but the program "
                       "runs on 8. Both need the same number"):
        mjax.jit(lambda x: constraint(x, there))(mjax.device_put(X, NamedSharding(mesh, P("x"))))


def test_sizes_that_are_not_divisible(mesh):
    cut = NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(mjax.jit(lambda x: constraint(x, cut) + 1)(X[:7]), X[:7] + 1)
    with pytest.raises(ValueError, match=r"with_sharding_constraint: dimension 0 .* 7 = 1 \* 4"):
        constraint(X[:7], cut)


def test_bad_input(mesh):
    for call in (constraint, mjax.jit(constraint, static_argnums=1)):
        with pytest.raises(ValueError, match="with_sharding_constraint: shardings is None, which"):
            call(X, None)
    with pytest.raises(TypeError, match=r"with_sharding_constraint: expected a .*, got 3 of type"):
        constraint(X, 3)
    with pytest.raises(ValueError, match=r"PartitionSpec\('x', None, None\) has 3 entries"):
        mjax.jit(lambda x: constraint(x, NamedSharding(mesh, P("x", None, None))))(X)
    with pytest.raises(ValueError, match="with_sharding_constraint: PartitionSpec.* alone does"):
        constraint(X, P("x"))
    with pytest.raises(ValueError, match="the tree of shardings is not a tree prefix of the array"):
        constraint((X, X), [NamedSharding(mesh, P("x"))] * 2)
    with pytest.raises(ValueError, match=r"argument 0 to cpu:1, sharding_constraint at .* to cpu"):
        constraint(mjax.device_put(X, mjax.devices()[1]), NamedSharding(mesh, P("x")))
    with pytest.raises(ValueError, match=r"sharding_constraint at .*test_constraints.py"):
        mjax.jit(lambda x: constraint(x, NamedSharding(mesh, P("x"))))(
            mjax.device_put(X, mjax.devices()[1]))
