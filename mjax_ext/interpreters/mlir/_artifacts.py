"""Modules in other forms: text, bytecode, portable artifacts, HLO, merged, of static sizes."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.util import unused_name
from mjax._export.merging import merge
from mjaxlib_shim import artifacts
from mjaxlib_shim.mlir import bytecode, full_context, ir


def module_to_string(module: Any, enable_debug_info: bool = False) -> str:
    """The text of an `ir.Module`.

    Args:
      module: the module.
      enable_debug_info: whether the text has the places that operations come from.

    Returns:
      A string.

    Raises:
      AttributeError: it is not an `ir.Module`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> "stablehlo.sine" in mlir.module_to_string(module)
      True
    """
    return str(module.operation.get_asm(enable_debug_info=enable_debug_info))


def module_to_bytecode(module: Any) -> bytes:
    """The MLIR bytecode of an `ir.Module`.

    Args:
      module: the module.

    Returns:
      Bytes.

    Raises:
      AttributeError: it is not an `ir.Module`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.module_to_bytecode(mjax.jit(lax.sin).lower(1.0).compiler_ir())[:4]
      b'ML\\xefR'
    """
    return bytecode(module)


def merge_mlir_modules(dst_module: Any, sym_name: str, src_module: Any, dst_symtab: Any = None
                       ) -> str:
    """Moves the functions of a module into another one, where they are private.

    Args:
      dst_module: the module that gets them. Its names stay.
      sym_name: the name of the other module's `main` there, if it is free.
      src_module: a module of the same context; it is empty afterwards.
      dst_symtab: not read: the names are those in the module.

    Returns:
      The name of its `main`.

    Raises:
      ValueError: the contexts differ, or it does not have a function `main`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   one, two = [mlir.ir.Module.parse("func.func @main() { return }") for _ in range(2)]
      ...   mlir.merge_mlir_modules(one, "main", two)
      'main_1'
    """
    if dst_module.context != src_module.context:
        msg = ("merge_mlir_modules: the modules are of two contexts; parse the second one in that "
               "of the first (ir.Module.parse(module_to_bytecode(m), context)).")
        raise ValueError(msg)
    taken = {str(ir.StringAttr(op.operation.attributes["sym_name"]).value)
             for op in dst_module.body}
    with dst_module.context, ir.Location.unknown(dst_module.context):
        return merge(dst_module, src_module, sym_name, lambda name: unused_name(name, taken))


def serialize_portable_artifact(mlir_module: Any, target: str | None = None,
                                use_mixed_serialization: bool = False) -> bytes:
    """The bytes of a module that other releases of jaxlib read.

    Args:
      mlir_module: an `ir.Module`, its bytecode or its text, of StableHLO operations.
      target: the version of StableHLO, such as "1.8.5". By default it is the oldest that mjax's
        window of jaxlib releases reads, or that of a newer operation.
      use_mixed_serialization: whether the module is for several devices, with Shardy's operations.

    Returns:
      Bytes.

    Raises:
      ValueError: the module has operations that artifacts, or that version, cannot hold.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> module = mjax.jit(lax.sin).lower(1.0).compiler_ir()
      >>> artifact = mlir.serialize_portable_artifact(module)
      >>> "stablehlo.sine" in str(mlir.deserialize_portable_artifact(artifact))
      True
    """
    return artifacts.serialize_artifact(_module(mlir_module), use_mixed_serialization, target)


def deserialize_portable_artifact(mlir_module: bytes, context: Any = None) -> Any:
    """The `ir.Module` of a portable artifact.

    Args:
      mlir_module: the bytes.
      context: its `ir.Context`; by default a new one.

    Returns:
      An `ir.Module`.

    Raises:
      ValueError: it is not an artifact that this jaxlib reads.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.deserialize_portable_artifact(b"?")  # doctest: +ELLIPSIS
      Traceback (most recent call last):
      ValueError: this jaxlib does not read the artifact's module: ...
    """
    return artifacts.deserialize_artifact(
        mlir_module, full_context() if context is None else context)


def refine_polymorphic_shapes(mlir_module: Any, enable_shape_assertions: bool = True,
                              validate_static_shapes: bool = True, enable_shardy: bool = False
                              ) -> bytes:
    """The bytecode of a module with static shapes, as far as they follow from `main`'s inputs.

    Args:
      mlir_module: an `ir.Module`, its bytecode or its text.
      enable_shape_assertions: not read: the module's assertions of shapes are tested.
      validate_static_shapes: not read: all shapes must follow.
      enable_shardy: not read: Shardy's operations stay where this jaxlib allows it.

    Returns:
      Bytes.

    Raises:
      ValueError: an assertion does not hold, or a shape does not follow.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> refined = mlir.refine_polymorphic_shapes('''
      ...   func.func @main(%x: tensor<3xf32>) -> tensor<?xf32> {
      ...     %y = stablehlo.abs %x : (tensor<3xf32>) -> tensor<?xf32>
      ...     return %y : tensor<?xf32>
      ...   }''')
      >>> with mlir.make_ir_context():
      ...   "?" in str(mlir.ir.Module.parse(refined))
      False
    """
    module = _module(mlir_module)
    return bytecode(artifacts.refine_shapes(module, module.context))


def hlo_to_stablehlo(computation: bytes) -> bytes:
    """The StableHLO module of a serialized `HloModuleProto`, as text.

    Args:
      computation: the bytes.

    Returns:
      The text, as bytes.

    Raises:
      ValueError: this jaxlib does not read it.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> hlo = mjax.jit(lax.sin).lower(1.0).compiler_ir("hlo").as_serialized_hlo_module_proto()
      >>> b"stablehlo.sine" in mlir.hlo_to_stablehlo(hlo)
      True
    """
    return artifacts.hlo_to_stablehlo(computation)


def xla_computation_to_mlir_module(xla_computation: Any) -> Any:
    """The `ir.Module` of an `XlaComputation` of jaxlib (jax to 0.4.36).

    Args:
      xla_computation: the computation.

    Returns:
      An `ir.Module`.

    Raises:
      TypeError: it is not an `XlaComputation`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> computation = mjax.jit(lax.sin).lower(1.0).compiler_ir("hlo")
      >>> "stablehlo.sine" in str(mlir.xla_computation_to_mlir_module(computation))
      True
    """
    return ir.Module.parse(artifacts.stablehlo_of(xla_computation), full_context())


def _module(module: Any) -> Any:
    return (ir.Module.parse(module, full_context()) if isinstance(module, (bytes, str))
            else module)
