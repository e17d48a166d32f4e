"""mjax_ext.interpreters.pxla: options, the mesh in force, shardings of HLO."""

from __future__ import annotations

import numpy as np
import pytest

import mjax
from mjax import lax
from mjax.sharding import Mesh, NamedSharding, PartitionSpec
from mjax_ext import core
from mjax_ext.interpreters import pxla

MESH = Mesh(np.array(mjax.devices()[:4]).reshape(2, 2), ("x", "y"))


def test_compile_options():
    devices = np.array(mjax.devices()[:4]).reshape(2, 2)
    options = pxla.create_compile_options(None, True, [True, False], [False], None, devices,
                                          {"xla_cpu_enable_fast_math": True})
    build = options.executable_build_options
    assert options.num_partitions == 4 and options.num_replicas == 1
    assert options.parameter_is_tupled_arguments
    assert list(build.allow_spmd_sharding_propagation_to_output) == [False]
    with pytest.raises(ValueError, match="no_such_option"):
        pxla.create_compile_options(None, False, [], [], None, devices, {"no_such_option": 1})


def test_the_mesh_in_force():
    env = pxla.thread_resources.env
    assert env.physical_mesh.empty and env.resource_axes == set()
    with MESH:
        env = pxla.thread_resources.env
    assert env == pxla.ResourceEnv(MESH) and env.physical_resource_axes == {"x", "y"}
    assert dict(env.shape) == dict(env.local_shape) == {"x": 2, "y": 2}
    with mjax.set_mesh(MESH):
        assert pxla.thread_resources.env.physical_mesh is MESH


@pytest.mark.parametrize("spec", [PartitionSpec("x"), PartitionSpec(None, "y"),
                                  PartitionSpec(("y", "x")), PartitionSpec()])
def test_parts_of_arrays(spec):
    sharding = NamedSharding(MESH, spec)
    hlo = sharding._hlo(2)
    parts = pxla.op_sharding_to_indices(hlo, (8, 4), 4)
    wanted = sharding.devices_indices_map((8, 4))
    x = np.arange(32).reshape(8, 4)
    for part, device in zip(parts, MESH.devices.flat, strict=True):
        np.testing.assert_array_equal(x[part], x[wanted[device]])
    assert pxla.is_hlo_sharding_replicated(hlo) is (spec == PartitionSpec())
    other = NamedSharding(MESH, PartitionSpec("x"))._hlo(2)
    assert pxla.are_hlo_shardings_equal(hlo, other) is (spec == PartitionSpec("x"))
    with pytest.raises(ValueError, match="does not cut an array"):
        pxla.op_sharding_to_indices(other, (8,), 4)


def test_specs_of_mappings():
    assert pxla.array_mapping_to_axis_resources({}) == PartitionSpec()
    assert pxla.array_mapping_to_axis_resources({"x": 0, "y": 0}) == PartitionSpec(("x", "y"))


@pytest.mark.parametrize("committed", [True, False])
def test_values_of_the_arrays_on_each_device(committed):
    x = mjax.device_put(np.arange(8.0, dtype="float32"), NamedSharding(MESH, PartitionSpec("x")))
    parts = [shard.data for shard in x.addressable_shards]
    make = pxla.global_result_handlers[type(x.aval)](x.aval, x.sharding, committed)
    again = make(parts[::-1])
    np.testing.assert_array_equal(again, x)
    assert again.sharding == x.sharding and again.committed is committed
    with pytest.raises(ValueError, match="an array is needed on each of the 4 devices"):
        make(parts[1:])
    with pytest.raises(ValueError, match="array 0 is .*each device's part of float32"):
        pxla.global_aval_to_result_handler(x.aval.update(shape=(16,)), x.sharding, True)(parts)


def test_values_that_are_not_plain_arrays():
    keys = mjax.random.split(mjax.random.key(0), 2)
    token = lax.create_token()
    make = pxla.global_avals_to_results_handler(
        [keys.aval, token.aval], [keys.sharding, keys.sharding], True)
    same, other = make([[mjax.random.key_data(keys)], [mjax.numpy.zeros(0, bool)]])
    assert same.dtype == keys.dtype and bool((same == keys).all())
    assert isinstance(other, core.Token)
    assert make.out_avals[0] is keys.aval and len(make.handlers) == 2
    with pytest.raises(ValueError, match="different lengths"):
        make([[]])
    with pytest.raises(TypeError, match="not made of one array on each device"):
        pxla.global_aval_to_result_handler(core.AbstractValue(), keys.sharding, True)
    with pytest.raises(TypeError):
        pxla.global_result_handlers[core.AbstractValue] = None
