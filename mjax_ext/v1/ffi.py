"""Generation v1 (candidate) of `mjax_ext.ffi`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.ffi import (
        abstract_token,
        build_ffi_lowering_function,
        ffi_call,
        ffi_lowering,
        include_dir,
        pycapsule,
        register_ffi_target,
        register_ffi_target_as_batch_partitionable,
        register_ffi_type,
    )

__all__ = [
    "abstract_token", "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir",
    "pycapsule", "register_ffi_target", "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
]

namespace("mjax_ext.v1.ffi")
