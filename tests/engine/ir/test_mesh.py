"""Meshes and partition specs: facts, equality, what they refuse, and the mesh in force."""

import copy
import math
import pickle
import threading

import numpy as np
import pytest

import mjax
from mjax import P
from mjax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

DEVICES = mjax.devices()


def mesh(*shape, names="xyz"):
    count = math.prod(shape)
    return Mesh(np.array(DEVICES[:count]).reshape(shape), tuple(names[:len(shape)]))


# ---- specs -----------------------------------------------------------------------------


def test_specs_have_one_spelling():
    assert P("x", None) == PartitionSpec("x", None) != P("x")
    assert P(("x",), ()) == P("x", None) and P(["x", "y"]) == P(("x", "y"))
    assert repr(P("x", None, ("y", "z"))) == "PartitionSpec('x', None, ('y', 'z'))"
    assert repr(P("x")) == "PartitionSpec('x',)" and repr(P()) == "PartitionSpec()"
    assert P("x") + P(None, "y") == P("x", None, "y") and isinstance(P("x") + ("y",), P)
    assert {P("x", "y"): 1}[P("x", "y")] == 1


@pytest.mark.parametrize("spec", [P(), P("x", None), P(("x", "y"), P.UNCONSTRAINED)], ids=str)
def test_specs_are_copied_and_pickled(spec):
    for same in (pickle.loads(pickle.dumps(spec)), copy.copy(spec), copy.deepcopy(spec)):
        assert same == spec and type(same) is PartitionSpec
        assert [p is P.UNCONSTRAINED for p in same] == [p is P.UNCONSTRAINED for p in spec]


def test_entries_of_specs():
    spec = P("x", ("y",), None, None)
    assert spec.partitions == ("x", "y", None, None) and type(spec.partitions) is tuple
    assert spec.index(("y",)) == 1 and spec.index(None, 3) == 3 and spec.count(()) == 2
    assert spec.update(partitions=["z"]) == P("z") and spec.update() is spec
    both = ("y",) + P("x")
    assert both == P("y", "x") and type(both) is PartitionSpec
    assert spec.unreduced == spec.reduced == frozenset() and P("x", unreduced=set()) == P("x")
    with pytest.raises(NotImplementedError, match="mjax has no unreduced and reduced axes"):
        P("x", reduced={"y"})
    with pytest.raises(TypeError, match="unhashable"):
        P({"x": 1})


def test_a_spec_is_a_leaf_of_trees():
    assert mjax.tree.leaves({"a": P("x"), "b": P()}) == [P("x"), P()]


def test_dims_of_a_spec():
    assert P("x", None, ("y", "z")).dims(4) == (("x",), (), ("y", "z"), ())
    assert P("x", P.UNCONSTRAINED).dims(2) == (("x",), ())
    assert P("x", None, ("y", "z")).axes == ("x", "y", "z")
    with pytest.raises(ValueError, match=r"\('x', 'y'\) has 2 entries, one per dimension, but "
                                         r"the array has 1 dimensions. Leave out"):
        P("x", "y").dims(1)


# ---- meshes ----------------------------------------------------------------------------


def test_facts_of_meshes():
    m = mesh(2, 4)
    assert m.axis_names == ("x", "y") and m.axis_sizes == (2, 4) and m.size == 8
    assert dict(m.shape) == {"x": 2, "y": 4} and m.shape_tuple == (("x", 2), ("y", 4))
    assert m.axis_types == (AxisType.Auto,) * 2 and not m.empty and not m.is_multi_process
    assert m.device_ids.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert m.local_devices == list(m.flat_devices) == DEVICES
    assert repr(m) == "Mesh('x': 2, 'y': 4)"
    assert repr(m.abstract_mesh) == "AbstractMesh('x': 2, 'y': 4)"
    assert Mesh(DEVICES[:3], "x").axis_names == ("x",)
    with pytest.raises(ValueError, match="read-only"):
        m.devices[0, 0] = None


def test_equal_meshes_are_one_object():
    assert mesh(2, 4) is mesh(2, 4) is not mesh(4, 2)
    assert mesh(2, 4) is not mesh(2, 4, names="ab")
    assert Mesh(DEVICES[:2], "x") is not Mesh(DEVICES[1::-1], "x")
    assert mesh(2, 4).abstract_mesh is AbstractMesh((2, 4), ("x", "y"))
    assert AbstractMesh((("x", 2), ("y", 4))) is AbstractMesh((2, 4), ("x", "y"))
    manual = AbstractMesh((2,), ("x",), (AxisType.Manual,))
    assert manual is not AbstractMesh((2,), ("x",)) and manual.axis_types == (AxisType.Manual,)


def test_updates_of_meshes():
    m = mesh(2, 4)
    assert m.update() is m and m.update(axis_names=("a", "b")) is mesh(2, 4, names="ab")
    assert m.update(devices=m.devices[:1]) is Mesh(m.devices[:1], ("x", "y"))
    half = m.abstract_mesh.update(axis_types=(AxisType.Manual, AxisType.Auto))
    assert half.manual_axes == ("x",) and half.auto_axes == ("y",) and half.shape == m.shape
    assert m.auto_axes == ("x", "y") and m.manual_axes == ()
    assert m.abstract_mesh.update((4, 2)) is AbstractMesh((4, 2), ("x", "y"))


def test_types_of_axes():
    m, none = mesh(2, 4), AbstractMesh((), ())
    for each in (m, m.abstract_mesh):
        assert each.are_all_axes_auto and each.explicit_axes == ()
        assert not (each.are_all_axes_manual or each.are_all_axes_explicit)
    assert not (none.are_all_axes_auto or none.are_all_axes_manual)
    inside = m.abstract_mesh.update_axis_types({"y": AxisType.Manual})
    assert inside.manual_axes == ("y",) and not inside.are_all_axes_auto
    assert repr(inside) == "AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Manual))"
    of_devices = m.update(axis_types=(AxisType.Auto, AxisType.Manual))
    assert repr(of_devices) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Manual))"
    assert repr(mjax.NamedSharding(of_devices, PartitionSpec("x"))) == (
        f"NamedSharding(mesh={of_devices!r}, spec=PartitionSpec('x',))")


def test_meshes_without_axes():
    nothing, one = Mesh(np.empty((), object), ()), Mesh(np.array(DEVICES[3]), ())
    assert nothing.empty and nothing.size == 0 and not nothing.is_scalar
    assert one.is_scalar and one.size == 1 and not one.empty
    none = AbstractMesh((), ())
    assert none.empty and none.size == 0
    assert nothing.local_mesh is nothing and one.local_mesh is one


def test_the_part_of_a_mesh_in_this_process(monkeypatch):
    m = mesh(2, 4)
    assert m.local_mesh is m
    monkeypatch.setattr(Mesh, "local_devices", [DEVICES[i] for i in (1, 2, 5, 6)])
    assert m.local_mesh is Mesh(m.devices[:, 1:3], ("x", "y"))
    monkeypatch.setattr(Mesh, "local_devices", [DEVICES[i] for i in (1, 2, 5)])
    with pytest.raises(ValueError, match="the devices of this process do not form a box of it"):
        _ = m.local_mesh


def test_meshes_never_change():
    m = mesh(2, 4)
    assert copy.copy(m) is copy.deepcopy(m) is m and copy.copy(m.abstract_mesh) is m.abstract_mesh
    for each in (m, m.abstract_mesh):
        with pytest.raises(AttributeError, match=r"Mesh is immutable; .update\(axis_names=...\)"):
            each.axis_names = ("a", "b")
    with pytest.raises(AttributeError, match="immutable"):
        m.devices = m.devices[:1]


@pytest.mark.parametrize("name", ["devices", "device_ids", "local_devices", "local_mesh",
                                  "is_multi_process"])
def test_what_only_meshes_of_devices_have(name):
    with pytest.raises(ValueError, match=f"has no {name}: an AbstractMesh has no devices"):
        getattr(mesh(2).abstract_mesh, name)
    assert not hasattr(mesh(2).abstract_mesh, "colour")


def test_abstract_meshes_are_pickled_and_others_are_not():
    m = mesh(2, 4)
    assert pickle.loads(pickle.dumps(m.abstract_mesh)) is m.abstract_mesh
    assert copy.deepcopy(m.abstract_mesh) is m.abstract_mesh
    with pytest.raises(TypeError, match="cannot be pickled; its abstract_mesh, and Partition"):
        pickle.dumps(m)


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: Mesh(DEVICES[:2], ("x", "y")), ValueError, "a mesh with 1 axes needs as many names"),
    (lambda: mesh(2, 2, names="xx"), ValueError, "need names that differ"),
    (lambda: Mesh(DEVICES[:2], (None,)), ValueError, "need names that differ and are not None"),
    (lambda: Mesh(DEVICES[:1] * 2, "x"), ValueError, "a device is given twice"),
    (lambda: Mesh(DEVICES[:2], "x", ("auto",)), TypeError, "axis_types must be AxisTypes"),
    (lambda: AbstractMesh((2,), ("x",), (AxisType.Auto,) * 2), ValueError, "as many axis_types"),
    (lambda: AbstractMesh((2,), ("x",), AxisType.Explicit), NotImplementedError,
     "mjax has no Explicit mesh axes .*leave axis_types out"),
])
def test_what_is_no_mesh(make, error, text):
    with pytest.raises(error, match=text):
        make()


# ---- the mesh in force -----------------------------------------------------------------


def test_a_mesh_is_a_context_manager():
    one, other = mesh(2), mesh(4)
    with one as entered:
        assert entered is one and mjax.config.mesh is one
        with other, one, one:
            assert mjax.config.mesh is one
        assert mjax.config.mesh is one
    assert mjax.config.mesh is None


def test_threads_enter_meshes_of_their_own():
    m, seen = mesh(2), []
    ready, leave = threading.Event(), threading.Event()

    def work():
        with m:
            ready.set()
            leave.wait(10)
            seen.append(mjax.config.mesh)
        seen.append(mjax.config.mesh)

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    assert mjax.config.mesh is None
    with m:
        leave.set()
        thread.join()
        assert mjax.config.mesh is m
    assert seen == [m, None]


def test_an_error_leaves_a_mesh():
    with pytest.raises(KeyError), mesh(2):
        raise KeyError
    assert mjax.config.mesh is None
