"""Contexts of MLIR, for those who lower programs by themselves; MLIR loads with the first use.

`JaxIrContext()` is an `ir.Context` without dialects, `upstream_dialects` the registry of those that
jaxlib has. `mjax_ext.interpreters.mlir` has contexts that are complete, and `LoweringRuleContext`,
which rules get.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjaxlib_shim.contexts import JaxIrContext, upstream_dialects

__all__ = ["JaxIrContext", "upstream_dialects"]

_LATER = dict.fromkeys(("JaxIrContext", "upstream_dialects"), "mjaxlib_shim.contexts")

face("mjax_ext.lowering", later=_LATER)
