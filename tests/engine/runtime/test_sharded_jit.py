"""Programs over several devices, against the same programs on one."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import lax
from mjax._engine.runtime.arrays.gspmd_sharding import GSPMDSharding
from mjax.experimental.pjit import pjit
from mjax.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from mjax.sharding import PartitionSpec as P

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh_of(shape, names, devices=None):
    devices = mjax.devices() if devices is None else devices
    return Mesh(np.array(devices[:int(np.prod(shape))]).reshape(shape), names)


@pytest.fixture
def mesh():
    return mesh_of((4, 2), ("x", "y"))


def put(x, mesh, *spec):
    return mjax.device_put(x, NamedSharding(mesh, P(*spec)))


def plus(x):
    return x + 1


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


def test_results_that_are_asked_for_in_another_order_of_devices(mesh):
    turned = NamedSharding(mesh_of((8,), "z", mjax.devices()[::-1]), P("z"))
    f = mjax.jit(lambda x, key: (x * 2, x, key), out_shardings=turned)
    key = mjax.device_put(mjax.random.split(mjax.random.key(0), 8), NamedSharding(mesh, P("x")))
    for _ in range(2):
        twice, same, keys = f(put(X, mesh, "x"), key)
        for out, expected in ((twice, X * 2), (same, X), (mjax.random.key_data(keys),
                                                         mjax.random.key_data(key))):
            np.testing.assert_array_equal(out, expected)
        for out in (twice, same, keys):
            assert out.sharding is turned
    for shard in twice.addressable_shards:
        np.testing.assert_array_equal(shard.data, 2 * X[shard.index])


def test_pieces_that_no_axis_names():
    """Six rows on a mesh of one axis of eight: half of it cuts them after a reshape."""
    mesh = mesh_of((8,), "x")
    x = put(np.arange(8.0, dtype=np.float32), mesh, "x")
    out = mjax.jit(lambda x: x.reshape(2, 4))(x)
    np.testing.assert_array_equal(out, np.arange(8).reshape(2, 4))
    np.testing.assert_array_equal(out + 1, np.arange(8).reshape(2, 4) + 1)
    np.testing.assert_array_equal(out.sum(1), [6, 22])


@pytest.mark.slow
def test_concatenations_along_what_is_cut(mesh):
    """Whatever else is not cut: XLA before jaxlib 0.5 added up the copies."""
    for spec in (("x",), ("y",), (None, "y"), ("y", "x"), (("x", "y"),)):
        x = put(X, mesh, *spec)
        for axis in (0, 1):
            for f in (lambda m, x, axis=axis: m.concatenate([x, x + 1, x * 2], axis),
                      lambda m, x, axis=axis: m.roll(x, 1, axis),
                      lambda m, x, axis=axis: m.stack([x, x + 1], axis)):
                np.testing.assert_array_equal(mjax.jit(lambda x, f=f: f(jnp, x))(x), f(np, X))
                np.testing.assert_array_equal(f(jnp, x), f(np, X))
    stacked = mjax.jit(lambda x: jnp.stack([x] * 4), out_shardings=NamedSharding(mesh, P("x")))
    np.testing.assert_array_equal(stacked(X), np.stack([X] * 4))
    inside = mjax.shard_map(lambda x: jnp.concatenate([x, x + 1]), mesh=mesh, in_specs=P(None, "y"),
                            out_specs=P(None, "y"), axis_names={"y"})
    np.testing.assert_array_equal(mjax.jit(inside)(put(X, mesh, "x")), np.concatenate([X, X + 1]))


@pytest.mark.parametrize(("config", "rows"), [
    ((1, -1, 2), 6), *[pytest.param(config, rows, marks=pytest.mark.slow)
                       for config in ((0, 0, 1), (1, -1, 2), (-1, 2, 1)) for rows in (3, 6, 9)
                       if (config, rows) != ((1, -1, 2), 6)]], ids=str)
def test_interior_padding_of_what_is_cut(mesh, rows, config):
    """XLA, 0.12 included, pads wrongly where the result is cut and the operand is not."""
    x = np.arange(1, rows * 4 + 1, dtype=np.float32).reshape(rows, 4)
    pad = lambda x: lax.pad(x, 0.0, (config, (0, 0, 1)))
    expected = pad(jnp.asarray(x))
    for spec in (P("x"), P("y"), P(("x", "y")), P("y", "x")):
        cut = NamedSharding(mesh, spec)
        out = mjax.jit(lambda x, cut=cut: lax.with_sharding_constraint(pad(x), cut) * 1)(
            put(x, mesh))
        np.testing.assert_array_equal(out, expected)
        out = mjax.jit(lambda x, cut=cut: pad(lax.with_sharding_constraint(x * 1, cut)))(
            put(x, mesh))
        np.testing.assert_array_equal(out, expected)
    assert "interior = [2, 1]" not in mjax.jit(pad).lower(put(x, mesh)).as_text()
    assert pad(put(x[:0], mesh)).shape == pad(jnp.asarray(x[:0])).shape


def test_top_k(mesh):
    x = np.array([[3, 1, 3, np.nan], [2, 2, 2, 2], [0, -1, 5, 5], [1, 4, 2, 4]], np.float32)
    for spec in ((), ("x",), ("y",), (None, "y"), ("x", "y")):
        for axis in (0, 1):
            f = mjax.jit(lambda x, axis=axis: lax.top_k(x, 3, axis=axis))
            for one, other in zip(f(put(x, mesh, *spec)), f(jnp.asarray(x)), strict=True):
                np.testing.assert_array_equal(one, other)
    rows = mjax.shard_map(lambda x: lax.top_k(x, 2), mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    np.testing.assert_array_equal(rows(x)[1], lax.top_k(jnp.asarray(x), 2)[1])


@pytest.mark.slow
def test_running_totals_along_what_is_cut(mesh):
    x = np.arange(48, dtype=np.float32).reshape(12, 4)
    for spec in ("x", "y"):
        for f in (lambda x: lax.associative_scan(jnp.add, x), lambda x: jnp.cumsum(x, 0)):
            np.testing.assert_array_equal(mjax.jit(f)(put(x, mesh, spec)), np.cumsum(x, 0))


@pytest.mark.slow
def test_random_bits_are_those_of_one_device(mesh):
    key, cut = mjax.random.key(3), NamedSharding(mesh, P("y"))
    for f in (lambda k: mjax.random.bits(k, (8, 3)), lambda k: mjax.random.normal(k, (8,)),
              lambda k: mjax.random.key_data(mjax.random.split(k, 6)),
              lambda k: mjax.random.permutation(k, 12)):
        np.testing.assert_array_equal(mjax.jit(f, out_shardings=cut)(key), mjax.jit(f)(key))
    keys = put(mjax.random.split(key, 8), mesh, "x")
    np.testing.assert_array_equal(mjax.vmap(mjax.random.bits)(keys), mjax.vmap(mjax.random.bits)(
        mjax.random.split(key, 8)))


def test_empty_arrays(mesh):
    x, cut = put(X[:0], mesh, "x", "y"), NamedSharding(mesh, P("x"))
    assert (x + 1).shape == mjax.jit(lambda x: x + 1, out_shardings=cut)(x).shape == (0, 4)
    assert mjax.jit(lambda x: mjax.lax.with_sharding_constraint(x[:0], cut))(X).shape == (0, 4)
    mapped = mjax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("x", "y"), out_specs=P("x", "y"))
    assert mapped(x).shape == mjax.grad(lambda x: (mapped(x) ** 2).sum())(x).shape == (0, 4)


def test_a_mesh_of_one_device():
    mesh = mesh_of((1,), "x")
    out = mjax.jit(lambda x: x + 1)(put(X, mesh, "x"))
    np.testing.assert_array_equal(out, X + 1)
    assert type(out.sharding) is NamedSharding and out.sharding.mesh is mesh
    # All shardings of it say the same; a result is called as an argument of its rank is.
    x = put(X, mesh, "x")
    turned, total = mjax.jit(lambda x: (x.T, x.sum()))(x)
    assert turned.sharding is (x + 1).sharding is x.sharding and total.sharding.spec == P()
    assert x.device == out.device == mjax.devices()[0]
    np.testing.assert_array_equal(np.from_dlpack(x), X)
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
    with pytest.raises(RuntimeError, match="argument x of type float32"):
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


# ---- in_shardings and out_shardings --------------------------------------------------------


@pytest.mark.parametrize("kind", ["numpy", "uncommitted", "committed"])
def test_in_shardings_move_what_is_uncommitted(mesh, kind):
    sharding = NamedSharding(mesh, P("y", "x"))
    given = {"numpy": X, "uncommitted": jnp.asarray(X), "committed": put(X, mesh, "y", "x")}[kind]
    f = mjax.jit(plus, in_shardings=sharding)
    for _ in range(3):
        out = f(given)
        np.testing.assert_array_equal(out, X + 1)
        assert out.sharding is sharding


def test_out_shardings(mesh):
    other = mesh_of((2, 4), ("a", "b"))
    shardings = {"a": NamedSharding(mesh, P("y")), "b": None, "c": NamedSharding(other, P("b"))}
    f = mjax.jit(lambda x: {"a": x, "b": (x + 1, x), "c": [x[:4], x.T]}, out_shardings=shardings)
    x = put(X, mesh, "x")
    out = f(x)
    assert out["a"].sharding is shardings["a"]
    assert out["b"][1].sharding is x.sharding  # handed on; of the other XLA decides
    assert out["c"][0].sharding is out["c"][1].sharding is shardings["c"]
    for value, expected in zip(mjax.tree.leaves(out), (X, X + 1, X, X[:4], X.T), strict=True):
        np.testing.assert_array_equal(value, expected)


def test_specs_refer_to_the_mesh_that_is_set(mesh):
    f = mjax.jit(plus, in_shardings=P("x"), out_shardings=P("y"))
    with mjax.set_mesh(mesh):
        assert f(X).sharding is NamedSharding(mesh, P("y"))
    other = mesh_of((4,), ("y",))
    with mjax.set_mesh(other), pytest.raises(ValueError, match="names the mesh axis 'x', but the"):
        f(X)
    for kind in (ValueError, RuntimeError):  # the second is JAX's
        with pytest.raises(kind, match=r"jit of plus: in_shardings: PartitionSpec\('x',\) alone "
                           "does not name devices"):
            f(X)


def test_what_is_uncommitted_runs_on_the_mesh_that_is_set(mesh):
    with mjax.set_mesh(mesh):
        out = mjax.jit(plus)(X)
        assert out.sharding is NamedSharding(mesh, P()) and out.committed
        assert (jnp.arange(3) + 1).sharding is NamedSharding(mesh, P())
    with mesh:
        one = mjax.device_put(X, mjax.devices()[2])
        assert mjax.jit(plus)(one).sharding is one.sharding
    assert mjax.jit(plus)(X).devices() == {mjax.devices()[0]}


def test_one_device_by_shardings():
    there = SingleDeviceSharding(mjax.devices()[3])
    for f in (mjax.jit(plus, in_shardings=there), mjax.jit(plus, out_shardings=there)):
        out = f(X)
        assert out.sharding is there and out.committed
        np.testing.assert_array_equal(out, X + 1)


def test_static_and_donated_arguments(mesh):
    cut = NamedSharding(mesh, P("x"))
    f = mjax.jit(lambda n, x, y: (x + n, y), static_argnums=0, donate_argnums=1,
                 in_shardings=(cut, None), out_shardings=(cut, NamedSharding(mesh, P())))
    x = put(X, mesh, "x")
    out, y = f(2, x, X)
    assert x.is_deleted() and out.sharding is cut and y.sharding.is_fully_replicated
    np.testing.assert_array_equal(out, X + 2)


def test_memory_is_taken_over_only_by_a_result_that_is_cut_alike(mesh):
    x = put(X, mesh, "x")
    same = mjax.jit(plus, donate_argnums=0, out_shardings=x.sharding)
    assert "tf.aliasing_output = 0" in same.lower(x).as_text()
    for other in (None, NamedSharding(mesh, P("y"))):
        f = mjax.jit(plus, donate_argnums=0, out_shardings=other)
        text = f.lower(x).as_text()
        assert "jax.buffer_donor" in text and "tf.aliasing_output" not in text
        given = put(X, mesh, "x")
        np.testing.assert_array_equal(f(given), X + 1)


def test_shardings_inside_of_another_program_are_constraints(mesh):
    inner = mjax.jit(plus, in_shardings=NamedSharding(mesh, P("x")),
                     out_shardings=NamedSharding(mesh, P(None, "y")))
    eqns = mjax.make_jaxpr(inner)(X).eqns[0].params["jaxpr"].eqns
    assert [e.primitive.name for e in eqns] == ["sharding_constraint", "add", "sharding_constraint"]
    assert eqns[2].params["sharding"] is NamedSharding(mesh, P(None, "y"))
    out = mjax.jit(lambda x: inner(x) * 2)(X)
    np.testing.assert_array_equal(out, (X + 1) * 2)
    assert out.sharding is NamedSharding(mesh, P(None, "y"))
    g = mjax.grad(lambda x: (inner(x) ** 2).sum())(jnp.asarray(X))
    np.testing.assert_array_equal(g, 2 * (X + 1))
    assert g.sharding is NamedSharding(mesh, P("x"))
    rows = mjax.vmap(mjax.jit(plus, in_shardings=NamedSharding(mesh, P("x"))),
                     spmd_axis_name="y")(np.stack([X, X * 2]))
    np.testing.assert_array_equal(rows, np.stack([X, X * 2]) + 1)


def test_a_jit_with_shardings_is_traced_once_per_types(mesh):
    traced = []

    def f(x):
        traced.append(x)
        return x + 1

    g = mjax.jit(f, in_shardings=NamedSharding(mesh, P("x")))
    g(X), g(X + 1), g(put(X, mesh, "x"))
    mjax.jit(lambda x: g(g(x)))(X)
    assert len(traced) == 1 and g._cache_size() == 2


def test_shardings_over_an_abstract_mesh(mesh):
    cut, x = NamedSharding(mesh.abstract_mesh, P("y")), put(X, mesh, "x")
    assert mjax.jit(plus, out_shardings=cut)(x).sharding is NamedSharding(mesh, P("y"))
    assert mjax.jit(lambda x: x, out_shardings=cut)(x).sharding is NamedSharding(mesh, P("y"))
    both = mjax.jit(lambda x, y: (x + y, y), in_shardings=(None, cut))
    assert both(x, X)[1].sharding is NamedSharding(mesh, P("y"))
    with pytest.raises(ValueError,
                       match=r"argument x of type float32\[8,4\] is committed to .* but"):
        mjax.jit(plus, in_shardings=cut)(x)
    with pytest.raises(ValueError, match="plus: in_shardings of argument x: AbstractMesh.* is of 8 "
                       "devices, but the program runs on 1"):
        mjax.jit(plus, in_shardings=cut)(X)
    with pytest.raises(ValueError, match="<lambda>: out_shardings of result 0: AbstractMesh"):
        mjax.jit(lambda x: x * 2, out_shardings=cut)(X)


def test_shardings_that_say_the_same_are_compiled_for_once(mesh, caplog):
    f = mjax.jit(lambda x: x * 3)
    g = mjax.jit(lambda x: x * 3, donate_argnums=0)
    with mjax.log_compiles(True):
        for specs in ((), ("x",), ("x", None), ((), "y"), (None, "y"), (None,)):
            x = put(X, mesh, *specs)
            out = f(x)
            assert out.sharding is x.sharding
            np.testing.assert_array_equal(out, X * 3)
        compiled = [r for r in caplog.records if r.getMessage().startswith("Compiling")]
        assert len(compiled) == 3 and f._cache_size() == 5
        assert f.lower(put(X, mesh, "x", None)).compile()(put(X, mesh, "x")).sharding.spec == P(
            "x", None)
        for specs in (("x",), ("x", None)):
            x = put(X, mesh, *specs)
            assert g(x).sharding is x.sharding or x.is_deleted()
    assert len([r for r in caplog.records if r.getMessage().startswith("Compiling")]) == 4


@pytest.mark.parametrize(("error", "text", "options", "args"), [
    (ValueError, r"f: in_shardings of argument x: dimension 0 of an array of shape \(7, 4\) has 7 "
     r"elements, .* 7 = 1 \* 4 \+ 3. Pad it by 1", {"in_shardings": P("x")}, [X[:7]]),
    (ValueError, r"f: out_shardings of result 0: dimension 0 .* has 7 elements",
     {"out_shardings": P("x")}, [X[:7]]),
    (ValueError, r"f: in_shardings of argument x: PartitionSpec\('x', None, None\) has 3 entries",
     {"in_shardings": P("x", None, None)}, [X]),
    (ValueError, "in_shardings is not a tree prefix of the tuple of the 2 arguments that are not",
     {"in_shardings": (P("x"),)}, [X, X]),
    (ValueError, r"jit of f: out_shardings is not a tree prefix of what it returns.* \['b'\] were",
     {"out_shardings": (P("x"), {"b": P()})}, [X]),
    (TypeError, "in_shardings must be a tree of NamedShardings, .* got 'x' of type str",
     {"in_shardings": "x"}, [X]),
    (TypeError, "out_shardings must be a tree of .* got 3 of type int", {"out_shardings": 3}, [X]),
    (ValueError, "in_shardings has .*UNCONSTRAINED.* in lax.with_sharding_constraint only",
     {"in_shardings": P(P.UNCONSTRAINED)}, [X]),
    (ValueError, "names the mesh axis 'z', but the mesh has", {"in_shardings": P("z")}, [X]),
], ids=["in uneven", "out uneven", "rank", "in tree", "out tree", "in type", "out type",
        "unconstrained", "axis"])
def test_bad_shardings(mesh, error, text, options, args):
    def f(x, y=None):
        return x, {"a": x + 1}

    with mjax.set_mesh(mesh), pytest.raises(error, match=text):
        mjax.jit(f, **options)(*args)


def test_bad_arguments_for_shardings(mesh):
    f = mjax.jit(plus, in_shardings=NamedSharding(mesh, P("x")))
    with pytest.raises(ValueError, match=r"plus: argument x of type float32\[8,4\] is committed to "
                       r".*spec=PartitionSpec\('y',\)\), but in_shardings asks for .*'x'"):
        f(put(X, mesh, "y"))
    with pytest.raises(ValueError, match=r"committed to SingleDevice.*, but in_shardings asks"):
        f(mjax.device_put(X, mjax.devices()[3]))
    with pytest.raises(ValueError, match="in_shardings are of arguments given by position"):
        f(x=X)
    with pytest.raises(ValueError, match=r"out_shardings of result 0 to cpu:\[0, 1\]"):
        mjax.jit(plus, out_shardings=NamedSharding(mesh_of((2,), "x"), P("x")))(put(X, mesh, "x"))
    with pytest.raises(ValueError, match="give a device .* or shardings, not both"):
        mjax.jit(plus, in_shardings=NamedSharding(mesh, P("x")), device=mjax.devices()[0])


# ---- ahead of time ---------------------------------------------------------------------------


def test_ahead_of_time(mesh):
    cut, other = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("y"))
    struct = mjax.ShapeDtypeStruct(X.shape, X.dtype)
    compiled = mjax.jit(lambda x, y: (x + 1, y), in_shardings=(cut, None)).lower(
        struct, struct).compile()
    assert compiled.input_shardings == ((cut, NamedSharding(mesh, P())), {})
    assert compiled.output_shardings == (cut, NamedSharding(mesh, P()))
    assert compiled.out_info[0].sharding is cut
    for x in (X, jnp.asarray(X), put(X, mesh, "x"), put(X, mesh, "x", None)):
        for _ in range(2):
            out = compiled(x, X)[0]
            np.testing.assert_array_equal(out, X + 1)
            assert out.sharding is cut
    with pytest.raises(ValueError, match=r"(?s)arguments are on other devices, or cut otherwise.*"
                       r"argument x: compiled for .*'x',\).*, committed to .*'y',"):
        compiled(put(X, mesh, "y"), X)
    with pytest.raises(ValueError, match="argument x: compiled for .*, committed to Single"):
        compiled(mjax.device_put(X, mjax.devices()[0]), X)
    compiled = mjax.jit(plus).lower(struct.update(sharding=other)).compile()
    assert compiled.input_shardings == ((other,), {}) and compiled.output_shardings is other


def test_ahead_of_time_for_an_abstract_mesh(mesh):
    struct = mjax.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(
        mesh.abstract_mesh, P("x")))
    compiled = mjax.jit(plus).lower(struct).compile()
    assert compiled.input_shardings == ((NamedSharding(mesh, P("x")),), {})
    turned = Mesh(mesh.devices[::-1], ("x", "y"))
    with mjax.set_mesh(turned):
        assert mjax.jit(plus).lower(struct).compile().output_shardings.mesh is turned
    with pytest.raises(ValueError, match=r"AbstractMesh\('x': 16\) is of 16 devices, but the "
                       "program runs on 8"):
        mjax.jit(plus).lower(struct.update(shape=(16,), sharding=NamedSharding(
            AbstractMesh((16,), ("x",)), P("x"))))


def test_ahead_of_time_in_another_order_of_devices(mesh):
    x, y = put(X, mesh, "x"), put(X, mesh_of((8,), "z", mjax.devices()[::-1]), "z")
    compiled = mjax.jit(lambda x, y: x + y).lower(x, y).compile()
    np.testing.assert_array_equal(compiled(x, y), X * 2)


# ---- what a call costs -----------------------------------------------------------------------


def test_a_python_number_goes_to_the_devices_once(mesh):
    f = mjax.jit(lambda x, s: x * s)
    x = put(X, mesh, "x")
    f(x, 2.5)
    with mjax.transfer_guard("disallow"):
        out = f(x, 2.5)
    np.testing.assert_array_equal(out, X * 2.5)
    same = mjax.jit(lambda x, s: (x * s, s))(x, 2.5)[1]
    same.delete()  # whoever gets it may
    np.testing.assert_array_equal(f(x, 2.5), X * 2.5)
    np.testing.assert_array_equal(f(x, 3.0), X * 3)


@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x")])
def test_numpy_arguments_go_to_all_devices_at_once(mesh, spec):
    sharding = NamedSharding(mesh, spec)
    f = mjax.jit(lambda x, y, n: (x + y * n, y, x), in_shardings=(None, sharding, None))
    g = mjax.jit(lambda x, y, n: x + y * n, in_shardings=(None, sharding, None))
    x = put(X, mesh, "x")
    for n in range(1, 4):
        y = np.asfortranarray(X.astype(np.float64) * n)
        out, again = f(x, y, n), g(x, y, n)
        expected = X + X * n * n
        y[:] = 0  # the caller may change it
        np.testing.assert_array_equal(out[0], expected)
        np.testing.assert_array_equal(out[1], X * n)
        np.testing.assert_array_equal(again, expected)
        assert out[1].sharding is sharding
    with (mjax.transfer_guard_host_to_device("disallow"),
          pytest.raises(Exception, match="host-to-device")):
        g(x, X, 2)
    donating = mjax.jit(lambda x, y: x + y, in_shardings=sharding, donate_argnums=0)
    np.testing.assert_array_equal(donating(X, X), 2 * X)
    keys = mjax.jit(lambda k, x: mjax.random.uniform(k) + x, in_shardings=(None, sharding))
    np.testing.assert_allclose(keys(mjax.random.key(0), X), X + mjax.random.uniform(
        mjax.random.key(0)), 1e-6)


def test_pjit_is_jit_with_arguments_by_place():
    sharding = mjax.NamedSharding(mjax.make_mesh((2,), ("i",)), mjax.P("i"))
    f = pjit(lambda x, n: x * n, (sharding,), sharding, (1,))
    out = f(np.arange(4.0, dtype=np.float32), 3)
    assert out.sharding == sharding
    np.testing.assert_array_equal(out, [0, 3, 6, 9])
