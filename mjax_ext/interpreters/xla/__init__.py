"""Compiled programs: what is left of JAX's module of this name, and transformations of HLO.

- `Backend`: the class of jaxlib's clients; `mjax.devices()[0].client` is one.
- `canonicalize_dtype_handlers[cls] = f`: `canonicalize_dtype(x)` of a class of one's own is `f(x)`.

Example:
  >>> from mjax_ext.interpreters import xla
  >>> isinstance(mjax.devices()[0].client, xla.Backend)
  True
"""

from __future__ import annotations

from mjax_ext.interpreters.xla._transformations import (
    PipelineStage,
    clear_hlo_module_transformation,
    register_hlo_module_transformation,
)
from mjax_ext.interpreters.xla._values import (
    abstractify,
    apply_primitive,
    canonicalize_dtype,
    canonicalize_dtype_handlers,
)
from mjaxlib_shim.client import Client as Backend

__all__ = [
    "Backend", "PipelineStage", "abstractify", "apply_primitive", "canonicalize_dtype",
    "canonicalize_dtype_handlers", "clear_hlo_module_transformation",
    "register_hlo_module_transformation",
]


def __dir__() -> list[str]:
    return sorted(__all__)
