"""Making meshes, and setting the one in force."""

import copy
import gc
import math
from typing import NamedTuple

import numpy as np
import pytest

import mjax
import mjax.numpy as jnp
from mjax import P, lax
from mjax._engine.spmd.axes import in_manual
from mjax.experimental import mesh_utils
from mjax.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
    use_mesh,
)

DEVICES = mjax.devices()


@pytest.fixture(autouse=True)
def _no_mesh_is_left():
    yield
    mjax.set_mesh(None)


def test_make_mesh_takes_the_first_devices():
    assert mjax.make_mesh((2, 4), ("x", "y")).device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert mjax.make_mesh((2,), ("x",)).device_ids.tolist() == [0, 1]
    assert mjax.make_mesh((), ()).size == 1
    turned = mjax.make_mesh((2,), ("x",), devices=[DEVICES[5], DEVICES[3], DEVICES[1]])
    assert turned.device_ids.tolist() == [5, 3]
    auto = (AxisType.Auto,)
    assert mjax.make_mesh((2,), ("x",), axis_types=auto) is mjax.make_mesh((2,), ("x",), auto)


def test_make_mesh_refuses():
    for shape in ((4, 0), (4, -1)):
        with pytest.raises(ValueError, match=r"make_mesh: .* sizes of 1 or more, got \(4, "):
            mjax.make_mesh(shape, ("x", "y"))
    with pytest.raises(ValueError, match=r"shape \(4, 4\) takes 16 devices, but there are 8. .*"
                                         "MJAX_NUM_CPU_DEVICES=16"):
        mjax.make_mesh((4, 4), ("x", "y"))
    with pytest.raises(ValueError, match="a mesh with 1 axes needs as many names"):
        mjax.make_mesh((2,), ("x", "y"))
    with pytest.raises(NotImplementedError, match="no Explicit mesh axes"):
        mjax.make_mesh((2,), ("x",), axis_types=AxisType.Explicit)


def test_create_device_mesh():
    grid = mesh_utils.create_device_mesh((4, 2), allow_split_physical_axes=True)
    assert grid.tolist() == np.array(DEVICES).reshape(4, 2).tolist()
    assert mesh_utils.create_device_mesh((2,), DEVICES[1::-1]).tolist() == DEVICES[1::-1]
    with pytest.raises(ValueError, match=r"shape \(3,\) has 3 places, but there are 8 devices"):
        mesh_utils.create_device_mesh((3,))


class Remote(NamedTuple):
    """A device of some process, in some slice."""

    id: int
    process_index: int
    slice_index: int


#: Two slices of two processes of four devices, the later slice first.
REMOTE = [Remote(i, i // 4, 1 - i // 8) for i in range(16)]


@pytest.mark.parametrize(("inner", "outer", "options"), [
    ((2, 2), (2, 2), {"process_is_granule": True}),
    ((4, 1), (1, 4), {"process_is_granule": True}),
    ((2, 1, 2), (1, 4, 1), {"process_is_granule": True}),
    ((2, 4), (2, 1), {}),
    ((8,), (2,), {"should_sort_granules_by_key": False}),
])
def test_create_hybrid_device_mesh(inner, outer, options):
    grid = mesh_utils.create_hybrid_device_mesh(inner, outer, REMOTE, **options)
    assert grid.shape == tuple(np.multiply(inner, outer))
    size = 16 // math.prod(outer)
    groups = [REMOTE[i:i + size] for i in range(0, 16, size)]
    if not options:
        groups = groups[::-1]
    for place in np.ndindex(grid.shape):
        group = groups[np.ravel_multi_index(np.floor_divide(place, inner), outer)]
        assert grid[place] == group[np.ravel_multi_index(np.mod(place, inner), inner)]


@pytest.mark.parametrize(("inner", "outer", "devices", "text"), [
    ((8,), (2, 1), REMOTE, r"\(8,\) and dcn_mesh_shape \(2, 1\) must have the same length"),
    ((8,), (3,), REMOTE, r"\(3,\) has 3 places, but there are 2 groups .* same slice_index"),
    ((4,), (2,), REMOTE, r"\(4,\) has 4 places, but 8 devices have the slice_index 0"),
    ((8,), (1,), [object()], r"object .* does not have slice_index.*process_is_granule=True"),
])
def test_create_hybrid_device_mesh_refuses(inner, outer, devices, text):
    with pytest.raises(ValueError, match=text):
        mesh_utils.create_hybrid_device_mesh(inner, outer, devices)


def test_no_mesh_is_an_empty_one():
    assert get_mesh().empty and get_abstract_mesh().empty
    assert get_mesh() is get_mesh() and get_abstract_mesh() is AbstractMesh((), ())


def test_set_mesh_as_a_function_lasts():
    m = mjax.make_mesh((2,), ("x",))
    with mjax.enable_x64(True):
        mjax.set_mesh(m)
        gc.collect()
        assert get_mesh() is m and get_abstract_mesh() is m.abstract_mesh
    assert get_mesh() is m and not mjax.config.enable_x64
    mjax.set_mesh(None)
    assert get_mesh().empty


def test_set_mesh_as_a_context_manager():
    m, other = mjax.make_mesh((2,), ("x",)), mjax.make_mesh((4,), ("x",))
    with mjax.set_mesh(m):
        with mjax.sharding.set_mesh(other):
            assert get_mesh() is other
        with use_mesh(other), use_mesh(None):
            assert get_mesh().empty
        assert get_mesh() is m
        with use_abstract_mesh(other.abstract_mesh):
            assert get_abstract_mesh() is other.abstract_mesh and get_mesh().empty
    assert get_mesh().empty


@pytest.mark.parametrize("setter", [mjax.set_mesh, use_mesh])
def test_what_cannot_be_set(setter):
    text = r"needs a Mesh, or None, got AbstractMesh\('x': 2\)"
    with pytest.raises(TypeError, match=text), setter(AbstractMesh((2,), ("x",))):
        pass
    text = "needs an AbstractMesh, or None, got Mesh"
    with pytest.raises(TypeError, match=text), use_abstract_mesh(mjax.make_mesh((2,), ("x",))):
        pass


def test_specs_alone_refer_to_the_mesh_in_force():
    m = mjax.make_mesh((2,), ("x",))
    with m:
        x = mjax.device_put(np.arange(4), P("x"))
    assert x.sharding is mjax.NamedSharding(m, P("x"))
    with pytest.raises(ValueError, match=r"PartitionSpec\('x',\) alone does not name devices: "
                                         r"give a NamedSharding\(mesh, spec\), or set the mesh"):
        mjax.device_put(np.arange(4), P("x"))
    text = "names the mesh axis 'y', but the mesh has the axes 'x'"
    with mjax.set_mesh(m), pytest.raises(ValueError, match=text):
        mjax.device_put(np.arange(4), P("y"))


def test_the_mesh_of_traces_inside_of_its_body():
    m, seen = mjax.make_mesh((2,), ("x",)), []
    mjax.jit(lambda x: seen.append(get_mesh()) or x)(1.0)
    with m:
        mjax.jit(lambda x: seen.append(get_mesh()) or x)(1.0)
    assert seen[0].empty and seen[1] is m and isinstance(seen[1], Mesh)


def test_the_mesh_of_a_shard_map():
    m = mjax.make_mesh((2, 4), ("x", "y"))
    with in_manual(m, ("y",), "checked"):
        inside = get_abstract_mesh()
        with in_manual(m, ("x",), "checked"):
            assert get_abstract_mesh().axis_types == (AxisType.Manual,) * 2
    assert inside.shape == m.shape and inside.axis_types == (AxisType.Auto, AxisType.Manual)


# ---- what runs under set_mesh ------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda x: x * 2, jnp.sin, mjax.jit(lambda x: x + 1), mjax.grad(lambda x: (x * x).sum())],
    ids=["operator", "function", "jit", "grad"])
def test_programs_elsewhere_are_refused(call):
    m = mjax.make_mesh((4, 2), ("x", "y"))
    pair = mjax.NamedSharding(mjax.make_mesh((2,), ("x",)), P("x"))
    x = np.arange(8, dtype=np.float32)
    for where, listed in ((DEVICES[3], "cpu:3"), (pair, r"cpu:\[0, 1\]")):
        there = mjax.device_put(x, where)
        expected = np.asarray(call(there))
        text = rf"argument .* is on {listed}, but set_mesh has set the mesh Mesh\('x': 4, 'y': 2\)"
        for setter in (mjax.set_mesh, use_mesh):
            with setter(m), pytest.raises(ValueError, match=text):
                call(there)
        with mjax.set_mesh(m):
            moved = call(mjax.device_put(there, P()))
            assert set(moved.devices()) == set(DEVICES)
            np.testing.assert_array_equal(moved, expected)
        with m:
            assert (there + 1).devices() == there.devices()
    same = mjax.device_put(x, mjax.NamedSharding(mjax.make_mesh((8,), ("z",)), P("z")))
    with mjax.set_mesh(m):
        np.testing.assert_array_equal(call(same), call(x))


def test_arrays_may_be_put_elsewhere_and_read():
    here = mjax.device_put(np.arange(8.0), mjax.NamedSharding(mjax.make_mesh((2,), ("x",)), P("x")))
    with mjax.set_mesh(mjax.make_mesh((4, 2), ("x", "y"))):
        for where in (DEVICES[5], mjax.NamedSharding(mjax.make_mesh((2,), ("x",)), P())):
            there = mjax.device_put(here, where)
            copied = mjax.device_put(there, where, may_alias=False)
            assert there.sharding == copied.sharding == mjax.device_put(there, where).sharding
            np.testing.assert_array_equal(copied, np.arange(8))
            assert repr(there) == repr(here) and copy.deepcopy(there).devices() == there.devices()
        assert jnp.ones(3, device=DEVICES[1]).devices() == {DEVICES[1]}
        assert jnp.zeros_like(here).sharding == here.sharding
        assert mjax.jit(lambda x: x + 1, device=DEVICES[1])(1.0).devices() == {DEVICES[1]}


def test_new_arrays_are_on_the_mesh():
    m, row = mjax.make_mesh((4, 2), ("x", "y")), np.arange(8)
    whole = mjax.NamedSharding(m, P())
    makers = [lambda: jnp.ones(8), lambda: jnp.asarray(row), lambda: jnp.array([1, 2]),
              lambda: jnp.array(3.0), lambda: jnp.float32(3), lambda: jnp.full((2, 2), 7),
              lambda: jnp.arange(8), lambda: jnp.linspace(0, 1, 5), lambda: jnp.eye(3),
              lambda: jnp.ones_like(row), lambda: jnp.asarray(row, "int8"), lambda: jnp.empty(()),
              lambda: mjax.lax.full((2,), 1.0), lambda: jnp.zeros(1 << 17)]
    outside = jnp.arange(3)
    for make in makers:
        plain = make()
        with mjax.set_mesh(m):
            out = make()
        assert out.sharding == whole and out.committed
        assert not plain.committed and out.dtype == plain.dtype and out.weak_type == plain.weak_type
        np.testing.assert_array_equal(out, plain)
    with mjax.set_mesh(m):
        assert jnp.asarray(outside) is outside
        assert "shard" not in str(mjax.make_jaxpr(lambda: jnp.ones(3) + jnp.asarray(row)[:3])())
    with m:
        assert not jnp.ones(8).committed


@pytest.mark.parametrize("setter", [mjax.set_mesh, use_mesh])
@pytest.mark.parametrize("transform", [mjax.jit, mjax.make_jaxpr, mjax.vmap, mjax.grad],
                         ids=["jit", "make_jaxpr", "vmap", "grad"])
def test_meshes_are_set_outside_of_programs(setter, transform):
    m = mjax.make_mesh((2,), ("x",))

    def f(x):
        with setter(m):
            return x.sum()

    with pytest.raises(ValueError, match=r"set_mesh|use_mesh is called inside of a function that"):
        transform(f)(np.ones((2, 2), np.float32) if transform is mjax.vmap else np.float32(1))
    assert get_mesh().empty
    seen = []
    with use_abstract_mesh(m.abstract_mesh):
        mjax.jit(lambda x: seen.append(get_abstract_mesh()) or x)(1.0)
    assert seen == [m.abstract_mesh]


def test_entering_a_mesh_moves_nothing():
    with Mesh(np.array(mjax.devices()[:2]), ("x",)) as mesh:
        for y in (jnp.zeros(3) + 1, mjax.jit(jnp.sin)(np.ones(3, "f4")), jnp.sum(np.ones(3)),
                  mjax.grad(lambda x: x * x)(3.0), mjax.vmap(jnp.cos)(np.ones(2))):
            assert (y.committed, y.devices()) == (False, {mjax.devices()[0]})
        cut = mjax.jit(lambda a: lax.with_sharding_constraint(a + 1, P("x")))(jnp.zeros(4))
        assert cut.sharding.mesh == mesh and cut.committed


@pytest.mark.parametrize("enter", [mjax.set_mesh, lambda m: mjax.sharding.use_mesh(m).__enter__()])
def test_manual_axes_are_not_set(enter):
    mesh = Mesh(np.array(mjax.devices()[:2]), ("x",), axis_types=(AxisType.Manual,))
    with pytest.raises(ValueError, match="Manual"):
        enter(mesh)
    assert mjax.sharding.get_mesh().empty
