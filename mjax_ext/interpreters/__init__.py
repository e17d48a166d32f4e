"""Rules and transformations, by transformation: `ad`, `batching`, `mlir`, `partial_eval`, `pxla`,
`xla`.

`docs/extension_names.md` lists the names of JAX's modules, with their homes and meanings here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face

if TYPE_CHECKING:
    from mjax_ext.interpreters import ad, batching, mlir, partial_eval, pxla, xla

__all__ = ["ad", "batching", "mlir", "partial_eval", "pxla", "xla"]

face("mjax_ext.interpreters")
