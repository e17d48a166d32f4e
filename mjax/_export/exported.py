"""`Exported`: a program that can be serialized, called and differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.control.custom.custom_vjp import custom_vjp
from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.effects import Effect
from mjax._engine.ir.mesh import AbstractMesh, Mesh
from mjax._engine.ir.pytree import keystr, tree_flatten, tree_flatten_with_path
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._export.calling import call_exported_p
from mjax._export.checks import DisabledSafetyCheck
from mjax._export.writing import serialize
from mjaxlib_shim.artifacts import deserialize_artifact
from mjaxlib_shim.mlir import new_context

#: Versions of the calling convention: the arguments and results of a module's `main`.
minimum_supported_calling_convention_version = 9
maximum_supported_calling_convention_version = 10


@dataclass(frozen=True)
class Exported:
    """A function as a portable program; `export` and `deserialize` return one.

    Attributes:
      fun_name: the function's name.
      in_tree: structure of `(args, kwargs)`.
      in_avals: types of the arguments, in a row.
      out_tree: structure of the results.
      out_avals: types of the results, in a row.
      in_shardings_hlo, out_shardings_hlo: None for each; older artifacts of JAX have them.
      nr_devices: the number of devices that it runs on.
      platforms: the platforms that it was lowered for. If there are several, the first argument
        of `main` is the platform's number.
      ordered_effects, unordered_effects: its effects. `main` takes and returns a token for each
        ordered one.
      disabled_safety_checks: the disabled checks.
      mlir_module_serialized: the module, as a portable artifact of StableHLO.
      calling_convention_version: the version of the arguments and results of `main`.
      module_kept_var_idx: numbers of the arguments that `main` takes, in order.
      uses_global_constants: whether the module depends on sizes of the arguments, or on the
        platform that it is called on.

    Example:
      >>> exported = mjax.export.export(mjax.jit(jnp.sin))(jnp.ones(2))
      >>> exported.in_avals, exported.platforms
      ((ShapedArray(float32[2]),), ('cpu',))
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    _has_named_shardings: bool
    _in_named_shardings: tuple[NamedSharding | None, ...]
    _out_named_shardings: tuple[NamedSharding | None, ...]
    in_shardings_hlo: tuple[Any, ...]
    out_shardings_hlo: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    ordered_effects: tuple[Effect, ...]
    unordered_effects: tuple[Effect, ...]
    disabled_safety_checks: Sequence[DisabledSafetyCheck]
    mlir_module_serialized: bytes
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    uses_global_constants: bool
    _get_vjp: Callable[[Exported], Exported] | None

    @boundary
    def mlir_module(self, serialized: bool = True) -> Any:
        """The module as text, or with `serialized=False` as an `ir.Module`.

        Example:
          >>> "stablehlo.sine" in mjax.export.export(mjax.jit(jnp.sin))(1.0).mlir_module()
          True
        """
        module = deserialize_artifact(self.mlir_module_serialized, new_context())
        return str(module) if serialized else module

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, avals)) for avals in (self.in_avals, self.out_avals))
        return (f"<Exported {self.fun_name}: ({ins}) -> ({outs}), for {', '.join(self.platforms)}, "
                f"{len(self.mlir_module_serialized):,} bytes>")

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    @boundary
    def in_shardings_jax(self, mesh: Mesh | AbstractMesh) -> Sequence[NamedSharding | None]:
        """The shardings of the arguments, over a mesh like that of the export; None: unspecified.

        Raises:
          ValueError: the mesh has other axes.
        """
        return tuple(_over(s, mesh) for s in self._in_named_shardings)

    @boundary
    def out_shardings_jax(self, mesh: Mesh | AbstractMesh) -> Sequence[NamedSharding | None]:
        """The shardings of the results; see `in_shardings_jax`."""
        return tuple(_over(s, mesh) for s in self._out_named_shardings)

    def has_vjp(self) -> bool:
        """Whether the derivative is available."""
        return self._get_vjp is not None

    @boundary
    def vjp(self) -> Exported:
        """The derivative: from flat arguments and cotangents of results to those of arguments.

        Raises:
          ValueError: it was not serialized.

        Example:
          >>> exported = mjax.export.export(mjax.jit(jnp.sin))(0.0)
          >>> exported.vjp().call(0.0, 2.0)
          (Array(2., dtype=float32, weak_type=True),)
        """
        if self._get_vjp is None:
            msg = (f"{self.fun_name} was read without its derivative: write it with "
                   "exported.serialize(vjp_order=1), or a higher order for derivatives of that.")
            raise ValueError(msg)
        return self._get_vjp(self)

    @boundary
    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The bytes that `deserialize` reads, in this release, a later one, or JAX.

        Args:
          vjp_order: the number of derivatives that are included.

        Raises:
          ValueError: a derivative is missing, or the structure of arguments or results has nodes
            of a type that is not registered for serialization.

        Example:
          >>> artifact = mjax.export.export(mjax.jit(jnp.sin))(0.0).serialize(vjp_order=1)
          >>> mjax.grad(mjax.export.deserialize(artifact).call)(0.0)
          Array(1., dtype=float32, weak_type=True)
        """
        return serialize(self, vjp_order)

    @boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it, in any program; the call can be jitted and differentiated in reverse mode.

        Args:
          args, kwargs: arguments of the structure and types of the export.

        Raises:
          ValueError: they are not; or it was exported for another platform, or for another number
            of devices.

        Example:
          >>> exported = mjax.export.export(mjax.jit(lambda x: x + 1))(jnp.float32(0))
          >>> exported.call(jnp.float32(2))
          Array(3., dtype=float32)
        """
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            _refuse_structure(self, (args, kwargs), tree)
        return self.out_tree.unflatten(_flat(self)(*leaves))


def _flat(exported: Exported) -> Callable[..., Any]:
    def call(*leaves: Any) -> Any:
        return call_exported_p.bind(*leaves, exported=exported)

    call.__name__ = call.__qualname__ = f"exported_{exported.fun_name}"
    f = custom_vjp(call)

    def backward(leaves: Any, cts: Any) -> Any:
        derivative = exported.vjp()
        wanted = derivative.in_avals[len(leaves):]
        given = [np.zeros(ct.shape, float0) if aval.dtype == float0 else ct
                 for ct, aval in zip(cts, wanted, strict=True)]
        return tuple(derivative.call(*leaves, *given))

    f.defvjp(lambda *leaves: (f(*leaves), leaves), backward)
    return f


def _refuse_structure(exported: Exported, given: Any, tree: Any) -> None:
    expected = exported.in_tree.unflatten([0] * exported.in_tree.num_leaves)
    left, right = ({("args", "kwargs")[path[0].idx] + keystr(path[1:])
                    for path, _ in tree_flatten_with_path(one)[0]} for one in (expected, given))
    lines = [*(f"  {path} is missing" for path in sorted(left - right)),
             *(f"  {path} is not expected" for path in sorted(right - left))]
    raise LazyValueError(lambda: "\n".join([
        f"{exported.fun_name}: the pytree structure of the arguments differs from the one it was "
        "exported for:", *(lines or [f"  {tree} in place of {exported.in_tree}"])]))


def _over(sharding: NamedSharding | None, mesh: Mesh | AbstractMesh) -> NamedSharding | None:
    if sharding is None:
        return None
    if mesh.shape_tuple != sharding.mesh.shape_tuple:
        raise LazyValueError(lambda: (
            f"the mesh {mesh} differs from the one of the export, {sharding.mesh}: the axes and "
            "their sizes must be the same."))
    return NamedSharding(mesh, sharding.spec)
