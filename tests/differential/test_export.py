"""Artifacts go both ways between mjax and jax."""

from __future__ import annotations

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import mjax
import mjax.export
import mjax.numpy as mnp

pytest.importorskip("flatbuffers")

f32 = np.dtype("float32")
X = np.linspace(-1, 1, 12, dtype=f32).reshape(4, 3)
N = np.int32(3)


def program(lib, np_, random):
    def f(x, state):
        w = np_.arange(6, dtype=f32).reshape(3, 2)
        looped = lib.lax.fori_loop(0, 3, lambda i, c: np_.sin(c) + i, x)
        return {"y": np_.tanh(x @ w), "looped": looped}, (state["n"] + 1, None, [x[::2, 1:]])

    return f


def trees(library, e):
    return str(e.in_tree), str(e.out_tree)


@pytest.mark.parametrize("platforms", [None, ("tpu", "cpu")])
def test_jax_reads_ours(platforms):
    ours = mjax.export.export(mjax.jit(program(mjax, mnp, mjax.random)), platforms=platforms)(
        X, {"n": N})
    theirs = jax.export.deserialize(ours.serialize(vjp_order=2))
    wanted = jax.export.export(jax.jit(program(jax, jnp, jax.random)), platforms=platforms)(
        X, {"n": N})
    for field in ("fun_name", "platforms", "nr_devices", "module_kept_var_idx",
                  "calling_convention_version", "ordered_effects", "unordered_effects"):
        assert getattr(theirs, field) == getattr(wanted, field) == getattr(ours, field), field
    assert trees(jax, theirs) == trees(jax, wanted)
    assert list(map(str, theirs.in_avals)) == list(map(str, wanted.in_avals))
    compare(theirs.call(X, {"n": N}), wanted.call(X, {"n": N}))
    loss = lambda e: lambda x: e.call(x, {"n": N})[0]["y"].sum()
    compare(jax.grad(loss(theirs))(X), jax.grad(loss(wanted))(X))
    second = lambda e: jax.grad(lambda x: jax.grad(loss(e))(x)[0].sum())(X)
    compare(second(theirs), second(wanted))


@pytest.mark.parametrize("platforms", [None, ("cuda", "cpu")])
def test_we_read_theirs(platforms):
    theirs = jax.export.export(jax.jit(program(jax, jnp, jax.random)), platforms=platforms)(
        X, {"n": N})
    ours = mjax.export.deserialize(theirs.serialize(vjp_order=1))
    for field in ("fun_name", "platforms", "nr_devices", "module_kept_var_idx",
                  "calling_convention_version"):
        assert getattr(theirs, field) == getattr(ours, field), field
    assert trees(jax, theirs) == trees(mjax, ours)
    compare(ours.call(X, {"n": N}), theirs.call(X, {"n": N}))
    loss = lambda e: lambda x: e.call(x, {"n": N})[0]["y"].sum()
    compare(mjax.grad(loss(ours))(X), jax.grad(loss(theirs))(X))


def test_keys_and_linear_algebra():
    def f(lib, np_):
        return lambda x, k: (np_.linalg.cholesky(x), lib.random.normal(k, (2,)),
                             lib.random.fold_in(k, 2))

    x = np.eye(3, dtype=f32) * 4
    theirs = jax.export.export(jax.jit(f(jax, jnp)))(x, jax.random.key(0))
    ours = mjax.export.deserialize(theirs.serialize())
    *got, key = ours.call(x, mjax.random.key(0))
    *wanted, their_key = theirs.call(x, jax.random.key(0))
    compare(got, wanted)
    compare(mjax.random.key_data(key), jax.random.key_data(their_key))
    back = jax.export.deserialize(
        mjax.export.export(mjax.jit(f(mjax, mnp)))(x, mjax.random.key(0)).serialize())
    compare(back.call(x, jax.random.key(0))[:2], wanted)


def test_shardings():
    their_mesh, our_mesh = jax.make_mesh((1,), ("i",)), mjax.make_mesh((1,), ("i",))
    theirs = jax.export.export(jax.jit(jnp.sin, in_shardings=jax.NamedSharding(
        their_mesh, jax.P("i", None))))(X)
    ours = mjax.export.deserialize(theirs.serialize())
    assert ours.in_shardings_jax(our_mesh)[0].spec == mjax.P("i", None)
    ours = mjax.export.export(mjax.jit(mnp.sin, in_shardings=mjax.NamedSharding(
        our_mesh, mjax.P("i", None))))(X)
    read = jax.export.deserialize(ours.serialize())
    assert read._in_named_shardings[0].spec == jax.P("i", None)
    compare(read.call(X), np.sin(X))


def over_a_mesh(lib):
    mesh = lib.make_mesh((2, 2), ("a", "b"), (lib.sharding.AxisType.Auto,) * 2)
    everywhere = lib.shard_map(
        lambda x: x * lib.lax.psum(x, "b") + lib.lax.axis_index("a"), mesh=mesh,
        in_specs=lib.P("a", "b"), out_specs=lib.P("a", "b"))
    partly = lib.shard_map(lambda x: lib.lax.sin(x) * lib.lax.psum(x, "a"), mesh=mesh,
                           in_specs=lib.P("a"), out_specs=lib.P("a"), axis_names={"a"})

    def f(x):
        x, sums = lib.lax.scan(lambda c, _: (everywhere(c), c.sum()), x, None, length=2)
        rows = lib.lax.with_sharding_constraint(x @ x.T, lib.NamedSharding(mesh, lib.P("b")))
        return partly(rows), sums

    return mesh, f


@pytest.mark.parametrize(("writer", "reader"), [(mjax, jax), (jax, mjax)],
                         ids=["jax reads ours", "we read theirs"])
def test_programs_over_four_devices(writer, reader):
    x = np.linspace(0, 1, 16, dtype=f32).reshape(4, 4)
    mesh, f = over_a_mesh(writer)
    exported = writer.export.export(writer.jit(
        f, in_shardings=writer.NamedSharding(mesh, writer.P("a", "b"))))(x)
    read = reader.export.deserialize(exported.serialize(vjp_order=1))
    mesh, f = over_a_mesh(reader)
    x = reader.device_put(x, read.in_shardings_jax(mesh)[0])
    assert read.nr_devices == 4
    compare(read.call(x), jax.tree.map(np.asarray, reader.jit(f)(x)))
    loss = lambda f: lambda x: f(x)[0].sum()
    compare(reader.grad(loss(read.call))(x), np.asarray(reader.grad(loss(reader.jit(f)))(x)))


def test_symbolic_shapes_both_ways():
    text = "2*rows, max(rows, 3)"
    theirs = jax.export.export(jax.jit(lambda x: jnp.sin(x) + x.shape[0]))(
        jax.ShapeDtypeStruct(jax.export.symbolic_shape(text), f32))
    ours = mjax.export.export(mjax.jit(lambda x: mnp.sin(x) + x.shape[0]))(
        mjax.ShapeDtypeStruct(mjax.export.symbolic_shape(text), f32))
    read, written = mjax.export.deserialize(theirs.serialize()), ours.serialize()
    assert str(read.in_avals[0].shape) == str(theirs.in_avals[0].shape)
    for rows in (2, 5):
        x = np.linspace(0, 1, 2 * rows * max(rows, 3), dtype=f32).reshape(2 * rows, -1)
        compare(read.call(x), np.sin(x) + 2 * rows)
        compare(jax.export.deserialize(written).call(x), np.sin(x) + 2 * rows)
    for exported in (theirs, ours):
        with pytest.raises(ValueError):
            exported.call(np.zeros((5, 3), f32))


def compare(got, wanted):
    got, wanted = mjax.tree.leaves(got), jax.tree.leaves(wanted)
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5, atol=1e-6)
