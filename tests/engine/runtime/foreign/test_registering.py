"""Registering foreign functions and their types."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest

import mjax
from mjax import ShapeDtypeStruct, ffi
from mjax.experimental.layout import Layout
from mjax_ext.core import Primitive
from mjaxlib_shim import foreign_gates
from mjaxlib_shim.custom_calls import cuts_stacks

CAPSULE = ffi.pycapsule(ctypes.CDLL(None).abs)


def test_the_headers_are_there():
    assert os.path.isfile(os.path.join(ffi.include_dir(), "xla", "ffi", "api", "c_api.h"))


def test_capsules():
    before = ctypes.pythonapi.PyCapsule_New.restype  # others may have set it
    assert type(CAPSULE).__name__ == type(ffi.pycapsule(1)).__name__ == "PyCapsule"
    with pytest.raises(ValueError, match="null pointer"):
        ffi.pycapsule(None)
    for wrong in "abs", b"abs", [1]:
        with pytest.raises(TypeError, match="function or pointer of ctypes, or an address, got"):
            ffi.pycapsule(wrong)
    assert ctypes.pythonapi.PyCapsule_New.restype is before


def test_a_target_by_stages(kernels):
    ffi.register_ffi_target("mjax_test_by_stages", {"execute": ffi.pycapsule(kernels.affine)})
    call = ffi.ffi_call("mjax_test_by_stages", ShapeDtypeStruct((2,), "float32"))
    np.testing.assert_array_equal(
        call(np.ones(2, "f4"), scale=np.float32(2), shift=np.float32(3)), [5, 5])
    ffi.register_ffi_target("mjax_test_affine", ffi.pycapsule(kernels.affine))  # the same again
    with pytest.raises(mjax.errors.JaxRuntimeError, match="mjax_test_affine"):
        ffi.register_ffi_target("mjax_test_affine", ffi.pycapsule(kernels.fail))


def test_targets_that_are_refused():
    with pytest.raises(TypeError, match=r"the function 'f' must be a PyCapsule, .*ffi.pycapsule"):
        ffi.register_ffi_target("f", ctypes.CDLL(None).abs)
    with pytest.raises(ValueError, match="'f' has no stage 'run'. Stages: instantiate, prepare"):
        ffi.register_ffi_target("f", {"run": CAPSULE})
    with pytest.raises(TypeError, match="the stage 'execute' of 'f' must be a PyCapsule, got 3"):
        ffi.register_ffi_target("f", {"execute": 3})
    with pytest.raises(TypeError, match="the name must be a string that is not empty, got None"):
        ffi.register_ffi_target(None, CAPSULE)


def test_a_state_of_a_type(kernels):
    if not foreign_gates.FFI_TYPE_IDS.open:
        for register in ffi.register_ffi_type_id, lambda *a: ffi.register_ffi_type(
                a[0], {"type_id": a[1]}):
            with pytest.raises(NotImplementedError, match=r"need jaxlib 0\.4\.38 or newer"):
                register("counter", CAPSULE)
        return
    pointers = {"type_id": kernels.counter_id}
    if foreign_gates.FFI_TYPES.open:
        with pytest.raises(ValueError, match=r"from jaxlib 0\.8\.1 on.* with its type_info"):
            ffi.register_ffi_type_id("counter", CAPSULE)
        pointers["type_info"] = kernels.counter_info
    for function in pointers.values():
        function.restype = ctypes.c_void_p
    ffi.register_ffi_type("mjax_test_counter", {
        name: ffi.pycapsule(function()) for name, function in pointers.items()})
    ffi.register_ffi_target("mjax_test_next", {
        "instantiate": ffi.pycapsule(kernels.new_counter), "execute": ffi.pycapsule(kernels.next)})
    call = mjax.jit(ffi.ffi_call("mjax_test_next", ShapeDtypeStruct((), "int32"),
                                 has_side_effect=True))
    assert [int(call()) for _ in range(3)] == [40, 41, 42]


def test_types_that_are_refused():
    with pytest.raises(ValueError, match="has the names 'id'; it takes 'type_id' and 'type_info'"):
        ffi.register_ffi_type("t", {"id": CAPSULE})
    with pytest.raises(TypeError, match="the type_id of 't' must be a PyCapsule, got 3"):
        ffi.register_ffi_type("t", {"type_id": 3})


def test_batches_over_devices(kernels):
    """A target that XLA may cut along a batch is called on each device, for its elements."""
    name = "mjax_test_batches"
    ffi.register_ffi_target(name, ffi.pycapsule(kernels.sizes))
    if not cuts_stacks():
        with pytest.raises(NotImplementedError, match=r"need jaxlib 0\.5\.1 or newer"):
            ffi.register_ffi_target_as_batch_partitionable(name)
        return
    from mjax_ext.core import Primitive, ShapedArray
    from mjax_ext.interpreters import mlir

    ffi.register_ffi_target_as_batch_partitionable(name)
    sizes_p = Primitive("sizes")
    sizes_p.def_abstract_eval(lambda x, y: ShapedArray((8,), np.int64))

    @lambda rule: mlir.register_lowering(sizes_p, rule)
    def lowering(ctx, x, y):
        rule = "#sdy.op_sharding_rule<([i, j], [i, k])->([i]) {i=8, j=2, k=3}>"
        return ffi.ffi_lowering(name, extra_attributes={
            "mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": "1"}),
            "sdy.sharding_rule": mlir.ir.Attribute.parse(rule)})(ctx, x, y)

    mesh = mjax.make_mesh((4,), ("i",))
    over = mjax.NamedSharding(mesh, mjax.P("i"))
    x, y = (mjax.device_put(np.ones((8, n), np.float32), over) for n in (2, 3))
    out = mjax.jit(lambda x, y: sizes_p.bind(x, y))(x, y)
    np.testing.assert_array_equal(out, [1000 * 2 * 2 + 2 * 3] * 8)  # 2 of 8 elements per device
    assert out.sharding.is_equivalent_to(over, 1)


@pytest.mark.parametrize("what", ["operand", "result"])
def test_lowering_rules_take_a_layout_for_each_operand_and_result(what):
    p = Primitive("called")
    p.def_abstract_eval(lambda x: x)
    for count in (0, 2):
        p.def_lowering(ffi.ffi_lowering("called", **{f"{what}_layouts": [None] * count}))
        with pytest.raises(ValueError, match=f"{count} {what} layouts .* for 1 {what}s"):
            mjax.jit(p.bind).lower(np.ones(2))
    for layout in ((), (0, 0), (1,), Layout((0, 1))):
        p.def_lowering(ffi.ffi_lowering("called", **{f"{what}_layouts": [layout]}))
        with pytest.raises(ValueError, match=f"called: {what} 0: .* each of the 1 axes of the arr"):
            mjax.jit(p.bind).lower(np.ones(2))
