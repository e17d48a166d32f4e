"""Compiled programs: what is left of JAX's module of this name, and transformations of HLO.

- `Backend`: the class of jaxlib's clients; `mjax.devices()[0].client` is one.
- `xla_call_p`: the primitive of jitted calls, `core.primitives.jit_p`. Its program is in the param
  `jaxpr`, which was `call_jaxpr`.
- `pytype_aval_mappings[cls] = f`: `f(x)` is the type of a value of a class of one's own.
- `canonicalize_dtype_handlers[cls] = f`: `canonicalize_dtype(x)` of a class of one's own is `f(x)`.

Example:
  >>> from mjax_ext.interpreters import xla
  >>> isinstance(mjax.devices()[0].client, xla.Backend)
  True
"""

from __future__ import annotations

from mjax._engine.control.calls.jit import jit_p as xla_call_p
from mjax._engine.ir.types import typeof_handlers as pytype_aval_mappings
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
    "canonicalize_dtype_handlers", "clear_hlo_module_transformation", "pytype_aval_mappings",
    "register_hlo_module_transformation", "xla_call_p",
]


def __dir__() -> list[str]:
    return sorted(__all__)
