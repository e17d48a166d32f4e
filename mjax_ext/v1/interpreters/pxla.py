"""Generation v1 (candidate) of `mjax_ext.interpreters.pxla`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.interpreters.pxla import (
        ArrayMapping,
        Index,
        MeshAxisName,
        ResourceEnv,
        are_hlo_shardings_equal,
        array_mapping_to_axis_resources,
        create_compile_options,
        global_aval_to_result_handler,
        global_avals_to_results_handler,
        global_result_handlers,
        is_hlo_sharding_replicated,
        op_sharding_to_indices,
        thread_resources,
    )

__all__ = [
    "are_hlo_shardings_equal", "array_mapping_to_axis_resources", "ArrayMapping",
    "create_compile_options", "global_aval_to_result_handler", "global_avals_to_results_handler",
    "global_result_handlers", "Index", "is_hlo_sharding_replicated", "MeshAxisName",
    "op_sharding_to_indices", "ResourceEnv", "thread_resources",
]

namespace("mjax_ext.v1.interpreters.pxla")
