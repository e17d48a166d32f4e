"""`mjax.ffi` under the name of the extension surface: `jax.extend.ffi` before release 0.7.

`abstract_token` is the type of tokens, in the place of a result's.
"""

from mjax._engine.base.faces import face
from mjax.ffi import (
    abstract_token,
    build_ffi_lowering_function,
    ffi_call,
    ffi_lowering,
    include_dir,
    pycapsule,
    register_ffi_target,
    register_ffi_target_as_batch_partitionable,
    register_ffi_type,
    register_ffi_type_id,
)

__all__ = [
    "abstract_token", "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir",
    "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable",
    "register_ffi_type", "register_ffi_type_id",
]

face("mjax_ext.ffi")
