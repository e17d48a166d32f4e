"""Portable artifacts: StableHLO modules as bytes that other releases of jaxlib read."""

from __future__ import annotations

from typing import Any

from . import artifact_gates
from .mlir import bytecode, hlo, ir
from .native import ext
from .versions import SUPPORT

__all__ = ["FORMAT", "deserialize_artifact", "serialize_artifact"]

#: The version of StableHLO that artifacts are written in: that of the window's floor.
FORMAT = SUPPORT[0].stablehlo


def serialize_artifact(module: Any) -> bytes:
    """The bytes of an `ir.Module` with a public function `main`.

    They are in the floor's version of StableHLO, so that each jaxlib of the window reads them. A
    module that uses what is newer is in one that all later releases read.

    Raises:
      ValueError: the module has operations that artifacts cannot hold.
    """
    recent = hlo.get_version_from_compatibility_requirement(
        hlo.StablehloCompatibilityRequirement.WEEK_4
    )
    for target in (FORMAT, recent):
        try:
            return _serialize(module, target)
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            failure = error
    raise ValueError(str(failure)) from failure


def _serialize(module: Any, target: str) -> bytes:
    given = module if artifact_gates.ARTIFACT_MODULE.open else bytecode(module)
    return bytes(ext.mlir.serialize_portable_artifact(given, target))


def deserialize_artifact(artifact: bytes, context: Any) -> Any:
    """The `ir.Module` of an artifact.

    Args:
      artifact: what `serialize_artifact`, or jax, made.
      context: the `ir.Context` that the module is to be in.

    Raises:
      ValueError: it is not an artifact that this jaxlib reads.
    """
    try:
        if artifact_gates.ARTIFACT_CONTEXT.open:
            return ext.mlir.deserialize_portable_artifact(artifact, context)
        return ir.Module.parse(ext.mlir.deserialize_portable_artifact(artifact), context)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        raise ValueError(f"this jaxlib does not read the artifact's module: {error}") from error
