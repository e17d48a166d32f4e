"""Custom calls, through the kernels jaxlib brings."""

from __future__ import annotations

import numpy as np
import pytest

from mjaxlib_shim import custom_calls, executables
from mjaxlib_shim.arrays import PlainAval, to_numpy

CHOLESKY = """
func.func public @main(%a: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>) {
  %0:2 = "stablehlo.custom_call"(%a) {
    call_target_name = "lapack_spotrf_ffi", api_version = 4 : i32,
    backend_config = {uplo = 76 : ui8},
    operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
    result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<> : tensor<0xindex>]
  } : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<i32>
}"""


@pytest.mark.slow
def test_lapack(client, device, parse, put, call):
    custom_calls.register_lapack()
    custom_calls.register_lapack()
    assert "lapack_spotrf_ffi" in custom_calls.custom_call_targets()
    program = executables.compile_module(client, parse(CHOLESKY), [device])
    matrix = np.array([[4, 2, 1], [2, 5, 3], [1, 3, 6]], np.float32)
    avals = [PlainAval((3, 3), matrix.dtype), PlainAval((), np.dtype(np.int32))]
    factor, info = map(to_numpy, call(program, [put(matrix)], avals))
    assert info == 0
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=1e-5)


def test_register(client):
    import ctypes

    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule = new(ctypes.addressof(ctypes.c_int(0)), None, None)
    custom_calls.register_custom_call_target("mjax_shim_test", capsule, api_version=0)
    assert "mjax_shim_test" in custom_calls.custom_call_targets("cpu")


def test_stages_that_xla_does_not_know_are_refused(client):
    """jaxlib passes over them."""
    with pytest.raises(ValueError, match=r"'mjax_stages': \['finish'\] are not stages of a target"):
        custom_calls.register_custom_call_target("mjax_stages", {"finish": None})
