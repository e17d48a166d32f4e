"""Generation v1 (candidate) of `mjax_ext.interpreters.xla`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.interpreters.xla import (
        Backend,
        PipelineStage,
        apply_primitive,
        canonicalize_dtype_handlers,
        clear_hlo_module_transformation,
        pytype_aval_mappings,
        register_hlo_module_transformation,
        xla_call_p,
    )

__all__ = [
    "apply_primitive", "Backend", "canonicalize_dtype_handlers", "clear_hlo_module_transformation",
    "PipelineStage", "pytype_aval_mappings", "register_hlo_module_transformation", "xla_call_p",
]

namespace("mjax_ext.v1.interpreters.xla")
