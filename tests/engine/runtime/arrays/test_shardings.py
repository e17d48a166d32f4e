"""Shardings: facts, equality, the parts of arrays, memories, and what they refuse."""

import copy
import pickle

import numpy as np
import pytest

import mjax
from mjax import P
from mjax.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

DEVICES = mjax.devices()
MESH = Mesh(np.array(DEVICES).reshape(4, 2), ("x", "y"))
KINDS = sorted(m.kind for m in DEVICES[0].addressable_memories())
DEFAULT = DEVICES[0].default_memory().kind


def test_facts_of_a_sharding_over_several_devices():
    s = NamedSharding(MESH, P("x", None))
    assert isinstance(s, Sharding) and s.mesh is MESH and s.spec == P("x", None)
    assert s.device_set == s.addressable_devices == set(DEVICES) and s.num_devices == 8
    assert s.is_fully_addressable and s.has_addressable_devices and not s.is_fully_replicated
    assert s.memory_kind == DEFAULT and s.shard_shape((8, 3)) == (2, 3)
    assert repr(s) == "NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=PartitionSpec('x', None))"


def test_facts_of_a_sharding_on_one_device():
    s = SingleDeviceSharding(DEVICES[2])
    assert isinstance(s, Sharding) and s.device is DEVICES[2] and s.device_set == {DEVICES[2]}
    assert s.is_fully_addressable and s.is_fully_replicated and s.num_devices == 1
    assert s.memory_kind == DEFAULT and s.shard_shape((8, 3)) == (8, 3)
    assert s.devices_indices_map((8, 3)) == {DEVICES[2]: (slice(None), slice(None))}


def test_equal_shardings_are_one_object():
    s = NamedSharding(MESH, P("x"))
    assert NamedSharding(MESH, P("x")) is s and NamedSharding(MESH, P(("x",))) is s
    assert NamedSharding(MESH, P("x", None)) is not s
    assert NamedSharding(MESH, P("x"), memory_kind=DEFAULT) is s
    assert SingleDeviceSharding(DEVICES[0]) is SingleDeviceSharding(DEVICES[0])
    assert SingleDeviceSharding(DEVICES[0], memory_kind=DEFAULT) is SingleDeviceSharding(DEVICES[0])


def test_updates():
    s = NamedSharding(MESH, P("x"))
    assert s.update(spec=P("y")) is NamedSharding(MESH, P("y")) and s.update() is s
    half = Mesh(MESH.devices[:2], ("x", "y"))
    assert s.update(mesh=half, memory_kind=DEFAULT) is NamedSharding(half, P("x"))
    with pytest.raises(TypeError, match="colour"):
        s.update(colour="red")


def test_shardings_that_say_the_same_are_equivalent():
    s = NamedSharding(MESH, P("x"))
    assert s.is_equivalent_to(NamedSharding(MESH, P("x", None)), 2)
    renamed = Mesh(MESH.devices, ("a", "b"))
    assert s.is_equivalent_to(NamedSharding(renamed, P("a")), 1)
    assert NamedSharding(MESH, P()).is_equivalent_to(NamedSharding(renamed, P(None)), 1)
    assert not s.is_equivalent_to(NamedSharding(MESH, P("y")), 1)
    assert not s.is_equivalent_to(NamedSharding(MESH, P(None, "x")), 2)
    assert not s.is_equivalent_to(SingleDeviceSharding(DEVICES[0]), 1)
    turned = Mesh(MESH.devices[::-1], ("x", "y"))
    assert not s.is_equivalent_to(NamedSharding(turned, P("x")), 1)


@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x"), P(("y", "x")), P(None, ("x", "y"))],
                         ids=str)
def test_the_parts_of_an_array(spec):
    s, shape = NamedSharding(MESH, spec), (8, 16)
    parts = s.devices_indices_map(shape)
    assert list(parts) == DEVICES and s.addressable_devices_indices_map(shape) == parts
    counts = np.zeros(shape, int)
    for index in parts.values():
        assert counts[index].shape == s.shard_shape(shape)
        counts[index] += 1
    copies = 8 * np.prod(s.shard_shape(shape)) // np.prod(shape)
    assert (counts == copies).all()


@pytest.mark.parametrize("ask", [
    lambda s, shape: s.shard_shape(shape), lambda s, shape: s.devices_indices_map(shape),
    lambda s, shape: mjax.device_put(np.zeros(shape), s),
    lambda s, shape: mjax.device_put(mjax.device_put(np.zeros(shape)), s)])
def test_shapes_that_do_not_fit(ask):
    with pytest.raises(ValueError, match=r"dimension 0 of an array of shape \(10,\) has 10 "
                       r"elements, which .* cuts into 4 pieces, .* 10 = 2 \* 4 \+ 2. Pad it by 2"):
        ask(NamedSharding(MESH, P("x")), (10,))
    with pytest.raises(ValueError, match=r"PartitionSpec\('x', 'y'\) has 2 entries, one per "
                                         "dimension, but the array has 1 dimensions"):
        ask(NamedSharding(MESH, P("x", "y")), (8,))


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: NamedSharding(MESH, P("z")), ValueError,
     "NamedSharding: .*names the mesh axis 'z', but the mesh has the axes 'x', 'y'"),
    (lambda: NamedSharding(MESH, P("x", "x")), ValueError, "names the mesh axis 'x' twice"),
    (lambda: NamedSharding(MESH, ("x",)), TypeError,
     r"needs a PartitionSpec, got \('x',\) of type tuple: write PartitionSpec"),
    (lambda: NamedSharding(MESH, (["x"],)), TypeError, "needs a PartitionSpec, got"),
    (lambda: NamedSharding(MESH.devices, P("x")), TypeError, "needs a Mesh, got array"),
    (lambda: NamedSharding(MESH.abstract_mesh, P("z")), ValueError, "names the mesh axis 'z'"),
])
def test_what_is_no_sharding(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("s", [NamedSharding(MESH, P("x")), SingleDeviceSharding(DEVICES[0])],
                         ids=str)
def test_shardings_are_not_pickled(s):
    assert copy.copy(s) is copy.deepcopy([s])[0] is s
    with pytest.raises(TypeError, match="refer to this process's devices and cannot be pickled"):
        pickle.dumps(s)


# ---- over abstract meshes --------------------------------------------------------------


def test_a_sharding_over_an_abstract_mesh():
    mesh = MESH.abstract_mesh
    s = NamedSharding(mesh, P("x"))
    assert s is NamedSharding(mesh, P("x")) is not NamedSharding(MESH, P("x"))
    assert s.is_abstract and s.num_devices == 8 and s.shard_shape((8, 3)) == (2, 3)
    assert s.memory_kind is None and not s.is_fully_replicated
    assert NamedSharding(mesh, P()).is_fully_replicated
    assert s.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
    assert not s.is_equivalent_to(NamedSharding(mesh, P("y")), 2)
    assert not s.is_equivalent_to(NamedSharding(MESH, P("x")), 2)
    assert not NamedSharding(MESH, P("x")).is_equivalent_to(s, 2)
    assert repr(s) == "NamedSharding(mesh=AbstractMesh('x': 4, 'y': 2), spec=PartitionSpec('x',))"
    there = s.with_memory_kind("somewhere")
    for each in (s, there):
        assert pickle.loads(pickle.dumps(each)) is copy.deepcopy(each) is each
    assert there.memory_kind == "somewhere" and s.update(spec=("y",)).spec == P("y")
    assert s.over(DEVICES, "who") is NamedSharding(MESH, P("x"))
    with pytest.raises(ValueError, match=r"who: AbstractMesh\('x': 4, 'y': 2\) is of 8 devices, "
                       "but the program runs on 2"):
        s.over(DEVICES[:2], "who")
    with pytest.raises(AttributeError, match="'NamedSharding' object has no attribute 'colour'"):
        _ = s.colour


@pytest.mark.parametrize("ask", [
    lambda s: s.device_set, lambda s: s.addressable_devices, lambda s: s.is_fully_addressable,
    lambda s: s.devices_indices_map((8,)),
    lambda s: mjax.make_array_from_callback((8,), s, lambda i: np.zeros(2))])
def test_what_needs_devices(ask):
    with pytest.raises(ValueError, match="has no devices: its mesh is an AbstractMesh, .* give a"):
        ask(NamedSharding(MESH.abstract_mesh, P("x")))


# ---- memories --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [NamedSharding(MESH, P("y", "x")),
                                   SingleDeviceSharding(DEVICES[1])], ids=str)
def test_memories(kind, where):
    value = np.arange(32, dtype=np.float32).reshape(4, 8)
    s = where.with_memory_kind(kind)
    assert s.memory_kind == kind and (s is where) == (kind == DEFAULT)
    assert ("memory_kind" in repr(s)) == (kind != DEFAULT)
    x = mjax.device_put(value, s)
    assert x.sharding is s and x.addressable_data(0).sharding.memory_kind == kind
    np.testing.assert_array_equal(x, value)
    for other in KINDS:
        y = mjax.device_put(x, where.with_memory_kind(other))
        assert y.sharding.memory_kind == other
        np.testing.assert_array_equal(y, value)
        assert y.sharding is where.with_memory_kind(other)
    np.testing.assert_array_equal(mjax.device_put(x, DEVICES[5]), value)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [NamedSharding(MESH, P("y", "x")),
                                   SingleDeviceSharding(DEVICES[1])], ids=str)
def test_programs_compute_in_the_default_memory(kind, where):
    value = np.arange(32, dtype=np.float32).reshape(4, 8)
    s = where.with_memory_kind(kind)
    x, here = mjax.device_put(value, s), mjax.device_put(value, where)
    pairs = [
        (mjax.jit(lambda x: x * 2)(x), where), (x * 2, where),
        (mjax.jit(lambda x, y: x + y)(x, here), where),
        (mjax.jit(lambda x: [x, x * 2])(x)[1], where),
        (mjax.jit(lambda x: x * 2, out_shardings=s)(here), s),
        (mjax.jit(lambda x: mjax.device_put(x * 2, s))(here), s),
        (mjax.jit(lambda x: (1, mjax.device_put(x * 2, s)))(x)[1], s),
        (mjax.jit(lambda x: mjax.device_put(x, s) * 2)(here), where),
        (mjax.jit(lambda x: x * 2, out_shardings=s).lower(x).compile()(x), s),
    ]
    for out, sharding in pairs:
        np.testing.assert_array_equal(out, 2 * value)
        assert out.sharding.is_equivalent_to(sharding, 2)
        for shard in out.addressable_shards:
            np.testing.assert_array_equal(shard.data, 2 * value[shard.index])
    np.testing.assert_array_equal(mjax.jit(lambda x: x)(x), value)
    np.testing.assert_array_equal(x[1], value[1])


@pytest.mark.parametrize("make", [
    lambda kind: NamedSharding(MESH, P("x"), memory_kind=kind),
    lambda kind: NamedSharding(MESH, P("x")).with_memory_kind(kind),
    lambda kind: SingleDeviceSharding(DEVICES[0], memory_kind=kind)])
def test_memories_that_there_are_not(make):
    with pytest.raises(ValueError, match=(
            f"Sharding: .*0 has no memory of the kind 'hbm'; it has {', '.join(map(repr, KINDS))}, "
            f"of which {DEFAULT!r} is the default")):
        make("hbm")
