"""The gates of portable artifacts."""

from __future__ import annotations

from .gate import Gate, keyword
from .native import ext, nb_signatures

__all__ = ["ARTIFACT_CONTEXT", "ARTIFACT_MODULE", "ARTIFACT_SHARDY", "REFINE_SHARDY"]


ARTIFACT_CONTEXT = Gate(
    "artifact_context",
    "deserialize_portable_artifact(bytes, context) gives an ir.Module",
    439, "0.10.0",
    "before, it gives bytecode",
    lambda: keyword(ext.mlir.deserialize_portable_artifact, "context"),
)  # fmt: skip
ARTIFACT_MODULE = Gate(
    "artifact_module",
    "serialize_portable_artifact(ir.Module, ...)",
    452, "0.10.1",
    "before, bytecode",
    lambda: not any(
        "mlir_module: bytes" in text for text in nb_signatures(ext.mlir.serialize_portable_artifact)
    ),
)  # fmt: skip
ARTIFACT_SHARDY = Gate(
    "artifact_shardy",
    "serialize_portable_artifact(..., use_mixed_serialization=)",
    364, "0.7.0",
    "before, artifacts hold Shardy's attributes as texts",
    lambda: keyword(ext.mlir.serialize_portable_artifact, "use_mixed_serialization"),
)  # fmt: skip
REFINE_SHARDY = Gate(
    "refine_shardy",
    "refine_polymorphic_shapes(..., enable_shardy=)",
    320, "0.5.3",
    "before, it has no such argument",
    lambda: keyword(ext.mlir.refine_polymorphic_shapes, "enable_shardy"),
)  # fmt: skip
