"""Classes of jaxlib's MLIR; importing this module loads it."""

from __future__ import annotations

from typing import Any

from mjaxlib_shim.mlir import dialect_registry, ir

#: The class of IR values.
Value: Any = ir.Value
#: The class of tokens, which are IR values.
Token: Any = ir.Value
#: The `ir.DialectRegistry` of the dialects that jaxlib has besides those of XLA.
upstream_dialects: Any = dialect_registry()
