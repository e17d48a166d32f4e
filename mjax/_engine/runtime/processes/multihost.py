"""Exchange of values between the processes of one program, through their devices."""

from __future__ import annotations

import zlib
from typing import Any, cast

import numpy as np

from mjax._engine.base.config import override
from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.mesh import Mesh, PartitionSpec
from mjax._engine.ir.mesh_specs import cuts
from mjax._engine.ir.pytree import (
    keystr,
    prefix_leaves,
    tree_flatten,
    tree_leaves_with_path,
    tree_map,
)
from mjax._engine.ir.types import typeof
from mjax._engine.runtime.arrays.array import Array
from mjax._engine.runtime.arrays.assembling import (
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from mjax._engine.runtime.arrays.device_put import device_put
from mjax._engine.runtime.arrays.devices import devices, process_index
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._engine.runtime.dispatch.jit import jit


def _mesh() -> Mesh:
    """A row of devices per process."""
    rows: dict[int, list[Any]] = {}
    for device in devices():
        rows.setdefault(device.process_index, []).append(device)
    return Mesh(np.array([rows[process] for process in sorted(rows)]), ("processes", "local"))


def _everywhere(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, PartitionSpec())


def _stacked(value: Any, mesh: Mesh) -> Array:
    """The values of all processes along a new first axis, each on the devices of its process."""
    value = np.asarray(value)
    value = value.astype(dtypes.canonical_dtype(value.dtype), copy=False)
    return make_array_from_process_local_data(
        NamedSharding(mesh, PartitionSpec("processes")), value[None],
        (mesh.shape_tuple[0][1], *value.shape))


@boundary
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The values of all processes, in each of them, as NumPy arrays.

    Args:
      in_tree: a tree of the same structure, types and shapes in all processes. Arrays over several
        processes come back whole.
      tiled: whether values are concatenated along their first axis, instead of stacked along a new
        one.

    Returns:
      A tree of NumPy arrays.

    Raises:
      ValueError: `tiled` and a value without axes.

    Example:
      >>> process_allgather({'loss': 0.5})
      {'loss': array([0.5], dtype=float32)}
    """
    mesh = _mesh()

    def gathered(value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, Array) and not value.is_fully_addressable:
            sharding = cast(NamedSharding, value.sharding)
            return np.asarray(device_put(value, _everywhere(cast(Mesh, sharding.mesh))))
        if tiled and np.ndim(value) == 0:
            raise LazyValueError(lambda: (
                f"process_allgather(tiled=True): a value of type {typeof(value)} has no axis along "
                "which those of several processes could be put."))
        stacked = np.asarray(device_put(_stacked(value, mesh), _everywhere(mesh)))
        return stacked.reshape(-1, *stacked.shape[2:]) if tiled else stacked

    return tree_map(gathered, in_tree)


@boundary
def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The values of one process, in all of them, as NumPy arrays.

    Args:
      in_tree: a tree of the same structure, types and shapes in all processes.
      is_source: whether this process is the source; default: process 0 is.

    Returns:
      A tree of NumPy arrays.

    Raises:
      ValueError: not exactly one process is the source.

    Example:
      >>> broadcast_one_to_all(3.0)
      array(3., dtype=float32)
    """
    chosen = np.flatnonzero(process_allgather(process_index() == 0 if is_source is None
                                              else bool(is_source)))
    if len(chosen) != 1:
        raise LazyValueError(lambda: (
            "broadcast_one_to_all: exactly one process has to say is_source=True; "
            f"{chosen.tolist()} did."))
    mesh = _mesh()
    pick = jit(lambda x, source: x[source], out_shardings=_everywhere(mesh))
    with override(mesh_for_all=False):  # all processes take part, whatever mesh is set here
        return tree_map(lambda value: np.asarray(pick(_stacked(value, mesh), chosen[0])), in_tree)


@boundary
def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Checks that all processes have the same values.

    Args:
      in_tree: a tree of the same structure, types and shapes in all processes.
      fail_message: the beginning of the error's text.

    Raises:
      AssertionError: a value differs from that of process 0; in the processes where it does.

    Example:
      >>> from mjax.experimental import multihost_utils
      >>> multihost_utils.assert_equal({"step": 3})
    """
    expected = broadcast_one_to_all(in_tree)
    for (path, mine), (_, theirs) in zip(tree_leaves_with_path(in_tree),
                                         tree_leaves_with_path(expected), strict=True):
        mine = np.asarray(mine).astype(theirs.dtype)
        if not np.array_equal(mine, theirs, equal_nan=theirs.dtype.kind in "fc"):
            msg = (f"{fail_message or 'assert_equal'}: process {process_index()} has {mine} at "
                   f"{keystr(path) or 'the value'}, process 0 has {theirs}.")
            raise AssertionError(msg)


@boundary
def sync_global_devices(name: str) -> None:
    """Waits until the devices of all processes reach this call.

    Args:
      name: names the place in the program; the same in all processes.

    Raises:
      AssertionError: processes are at different places.

    Example:
      >>> from mjax.experimental import multihost_utils
      >>> multihost_utils.sync_global_devices("written")
    """
    assert_equal(np.uint32(zlib.crc32(name.encode())),
                 f"sync_global_devices({name!r}): processes are at different places")


@boundary
def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Arrays over all processes, made of the data of each process for its own devices.

    Args:
      local_inputs: a tree of arrays. Along dimensions that a spec cuts over processes they have the
        pieces of this process's devices, in order; other dimensions are whole.
      global_mesh: a mesh of the devices of all processes.
      pspecs: their specs along it: a tree prefix of `local_inputs`.

    Returns:
      The tree of arrays. Arrays over several processes are returned as they are.

    Raises:
      ValueError: sizes do not divide; `pspecs` is not a tree prefix.

    Example:
      >>> mesh = mjax.make_mesh((1,), ('x',))
      >>> host_local_array_to_global_array(np.arange(4), mesh, mjax.P('x')).shape
      (4,)
    """

    def spread(value: Any, spec: PartitionSpec) -> Array:
        if isinstance(value, Array) and not value.is_fully_addressable:
            return value
        return make_array_from_process_local_data(NamedSharding(global_mesh, spec), value)

    return _per_leaf("host_local_array_to_global_array", spread, local_inputs, pspecs)


@boundary
def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """The parts of arrays over all processes on this process's devices, as arrays of their own.

    Args:
      global_inputs: a tree of arrays.
      global_mesh: a mesh of the devices of all processes. Those of this process form a box in it.
      pspecs: their specs along it: a tree prefix of `global_inputs`.

    Returns:
      The tree of arrays over `global_mesh.local_mesh`, which share the memory of the shards. Arrays
      of this process alone are returned as they are.

    Raises:
      ValueError: sizes do not divide; `pspecs` is not a tree prefix.

    Example:
      >>> mesh = mjax.make_mesh((1,), ('x',))
      >>> global_array_to_host_local_array(jnp.arange(4), mesh, mjax.P('x')).shape
      (4,)
    """

    def local(value: Any, spec: PartitionSpec) -> Any:
        if not isinstance(value, Array) or value.is_fully_addressable:
            return value
        here = NamedSharding(global_mesh.local_mesh, spec)
        value = device_put(value, NamedSharding(global_mesh, spec))
        part = value.sharding.shard_shape(value.shape)
        shape = [size * pieces for size, pieces in zip(
            part, cuts(spec, here.mesh, len(part)), strict=True)]
        return make_array_from_single_device_arrays(
            shape, here, [shard.data for shard in value.addressable_shards])

    return _per_leaf("global_array_to_host_local_array", local, global_inputs, pspecs)


def _per_leaf(who: str, function: Any, tree: Any, pspecs: Any) -> Any:
    leaves, structure = tree_flatten(tree)
    specs = prefix_leaves(f"{who}: pspecs", pspecs, tree, "the arrays", lambda s: s is None)
    return structure.unflatten([function(leaf, PartitionSpec() if spec is None else spec)
                                for leaf, spec in zip(leaves, specs, strict=True)])
