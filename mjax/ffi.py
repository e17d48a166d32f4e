"""Foreign functions: kernels in C++ and other languages, called from compiled programs.

A function is compiled against the headers in `include_dir()`, registered by `register_ffi_target`,
and called by `ffi_call`. A primitive of one's own calls it by `ffi_lowering`.
"""

from mjax._engine.base.faces import face
from mjax._engine.control.foreign_calls import build_ffi_lowering_function, ffi_lowering
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.runtime.foreign.ffi_call import ffi_call
from mjax._engine.runtime.foreign.registering import (
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)

__all__ = [
    # calls
    "abstract_token", "build_ffi_lowering_function", "ffi_call", "ffi_lowering",
    # registration
    "include_dir", "pycapsule", "register_ffi_target",
    "register_ffi_target_as_batch_partitionable", "register_ffi_type", "register_ffi_type_id",
]

face("mjax.ffi")
