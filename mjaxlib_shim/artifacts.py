"""Portable artifacts: StableHLO modules as bytes that other releases of jaxlib read."""

from __future__ import annotations

import math
import re
from typing import Any

from . import artifact_gates
from .mlir import bytecode, hlo, ir, takes_literal
from .native import ext, xc
from .sharding_texts import shardy_from_texts
from .versions import SUPPORT

__all__ = [
    "FORMAT",
    "deserialize_artifact",
    "hlo_to_stablehlo",
    "keep_literals",
    "refine_shapes",
    "serialize_artifact",
    "stablehlo_of",
]

#: The version of StableHLO that artifacts are written in: that of the window's floor.
FORMAT = SUPPORT[0].stablehlo


def serialize_artifact(module: Any, partitioned: bool, target: str | None = None) -> bytes:
    """The bytes of an `ir.Module` with a public function `main`, for one device or, `partitioned`,
    several.

    They are in a version of StableHLO, `target`. By default it is the floor's, so that each jaxlib
    of the window reads them. A module with newer operations is in a newer version then, which all
    later releases read.

    Args:
      module: the module.
      partitioned: whether it is for several devices.
      target: a version of StableHLO, such as `"1.8.5"`.

    Returns:
      Bytes.

    Raises:
      ValueError: the module has operations that artifacts cannot hold.

    Example:
      >>> from mjaxlib_shim import artifacts
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> artifacts.serialize_artifact(module, partitioned=False)[:4]
      b'ML\xefR'
    """
    recent = hlo.get_version_from_compatibility_requirement(
        hlo.StablehloCompatibilityRequirement.WEEK_4
    )
    for version in (FORMAT, recent) if target is None else (target,):
        try:
            return _serialize(module, version, partitioned)
        except (ValueError, RuntimeError, ir.MLIRError) as error:
            failure = error
    raise ValueError(str(failure)) from failure


def _serialize(module: Any, target: str, partitioned: bool) -> bytes:
    given = module if artifact_gates.ARTIFACT_MODULE.open else bytecode(module)
    # Shardy's operations stay what they are; else they would become texts.
    mixed = (True,) if partitioned and artifact_gates.ARTIFACT_SHARDY.open else ()
    return bytes(ext.mlir.serialize_portable_artifact(given, target, *mixed))


def deserialize_artifact(artifact: bytes, context: Any) -> Any:
    """The `ir.Module` of an artifact.

    Args:
      artifact: the bytes from `serialize_artifact`, or from jax.
      context: the `ir.Context` for the module.

    Returns:
      An `ir.Module`.

    Raises:
      ValueError: it is not an artifact that this jaxlib reads.

    Example:
      >>> from mjaxlib_shim import artifacts, mlir
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> data = artifacts.serialize_artifact(module, partitioned=False)
      >>> "stablehlo.sine" in str(artifacts.deserialize_artifact(data, mlir.full_context()))
      True
    """
    if not artifact:  # MLIR would read the empty module
        raise ValueError("the artifact is empty")
    try:
        if artifact_gates.ARTIFACT_CONTEXT.open:
            module = ext.mlir.deserialize_portable_artifact(artifact, context)
        else:
            module = ir.Module.parse(ext.mlir.deserialize_portable_artifact(artifact), context)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        raise ValueError(f"this jaxlib does not read the artifact's module: {error}") from error
    if artifact_gates.ARTIFACT_SHARDY.open:
        with context:
            shardy_from_texts(module)
    return module


def hlo_to_stablehlo(hlo: bytes) -> bytes:
    """The StableHLO module of a serialized `HloModuleProto`, as text.

    Args:
      hlo: the bytes.

    Returns:
      The text, as bytes.

    Raises:
      ValueError: it is not one, or has an operation that StableHLO does not have.

    Example:
      >>> from mjaxlib_shim import artifacts
      >>> hlo = mjax.jit(lax.sin).lower(1.0).compiler_ir("hlo").as_serialized_hlo_module_proto()
      >>> b"sine" in artifacts.hlo_to_stablehlo(hlo)
      True
    """
    try:
        return stablehlo_of(xc.XlaComputation(hlo)).encode()
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"this jaxlib does not read the HLO module: {error}") from error


def stablehlo_of(computation: Any) -> str:
    """The StableHLO module of an `XlaComputation`, as text.

    Args:
      computation: the computation.

    Returns:
      A string.

    Raises:
      TypeError: `computation` is not an `XlaComputation`.
      XlaRuntimeError: this jaxlib cannot convert one of its operations.

    Example:
      >>> from mjaxlib_shim import artifacts
      >>> computation = mjax.jit(lax.sin).lower(1.0).compiler_ir("hlo")
      >>> "stablehlo.sine" in artifacts.stablehlo_of(computation)
      True
    """
    return str(ext.mlir.xla_computation_to_mlir_module(computation))


def refine_shapes(module: Any, context: Any) -> Any:
    """A module with static shapes, as far as they follow from the shapes of `main`'s inputs.

    Args:
      module: an `ir.Module` with dynamic shapes, and custom calls of `shape_assertion`.
      context: its context.

    Returns:
      An `ir.Module`.

    Raises:
      ValueError: an assertion does not hold, with its text, or a shape does not follow.
      NotImplementedError: the module is for several devices, and this jaxlib does not do that.

    Example:
      >>> from mjaxlib_shim import artifacts, mlir
      >>> context = mlir.full_context()
      >>> module = mlir.ir.Module.parse(
      ...   "func.func @main(%x: tensor<4xf32>) -> tensor<?xf32> {"
      ...   "  %y = stablehlo.sine %x : (tensor<4xf32>) -> tensor<?xf32>"
      ...   "  return %y : tensor<?xf32> }", context)
      >>> "-> tensor<4xf32>" in str(artifacts.refine_shapes(module, context))
      True
    """
    if not artifact_gates.REFINE_SHARDY.open and any(
            op.operation.name.startswith("sdy.") for op in module.body):
        raise NotImplementedError(
            "programs of symbolic shapes run over several devices from jaxlib 0.5.3 on: call this "
            "one on one device, or update jaxlib.")
    # Working out shapes computes ahead too. Vectors of sizes are joined from literals of one
    # element, which stay.
    keep_literals(module)
    shardy = {"enable_shardy": True} if artifact_gates.REFINE_SHARDY.open else {}
    try:
        refined = ext.mlir.refine_polymorphic_shapes(
            bytecode(module), enable_shape_assertions=True, validate_static_shapes=True, **shardy)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        found = re.findall(r"error: (.*)", str(error)) or [str(error)]
        raise ValueError(
            "the sizes of the arguments do not fit a program of symbolic shapes: "
            f"{'; '.join(found)}."
        ) from error
    return ir.Module.parse(refined, context)


def keep_literals(operation: Any) -> None:
    """Keeps XLA from computing ahead with constants, on jaxlibs where it computes wrong.

    Args:
      operation: an `ir.Module`, or an operation in it.

    Raises:
      AttributeError: `operation` is neither a module nor an operation.

    Example:
      >>> from mjaxlib_shim import artifacts
      >>> artifacts.keep_literals(mjax.jit(lax.sin).lower(1.0).compiler_ir())
    """
    for region in operation.operation.regions:
        for block in region:
            operations = list(block)
            for inner, following in zip(operations, [*operations[1:], None], strict=True):
                keep_literals(inner)
                if inner.operation.name != "stablehlo.constant":
                    continue
                value = inner.operation.results[0]
                if takes_literal(math.prod(value.type.shape)):
                    continue
                with ir.InsertionPoint(following), inner.operation.location:
                    kept = ir.Operation.create("stablehlo.optimization_barrier",
                                               results=[value.type], operands=[value])
                value.replace_all_uses_except(kept.result, kept)
