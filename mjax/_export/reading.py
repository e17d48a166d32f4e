"""From the bytes of an artifact, mjax's or JAX's, to an `Exported`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.effects import Effect
from mjax._engine.ir.mesh import AbstractMesh, PartitionSpec
from mjax._engine.ir.types import ShapedArray
from mjax._engine.primitives.keys import KeyType
from mjax._engine.primitives.rng import rbg_prng, unsafe_rbg_prng
from mjax._engine.primitives.threefry import threefry_prng
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._export.checks import DisabledSafetyCheck
from mjax._export.exported import (
    Exported,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from mjax._export.flatbuffer import MalformedError, read
from mjax._export.schema import DTYPES, EFFECTS, GENERATORS, SCHEMA
from mjax._export.symbolic import SymbolicScope, parse_dimension
from mjax._export.trees import read_tree
from mjax._export.writing import CHECKSUM, FORMAT_VERSION, MARK, checksum

_GENERATORS = sorted((threefry_prng, rbg_prng, unsafe_rbg_prng),
                     key=lambda impl: GENERATORS.index(impl.name))


@boundary
def deserialize(blob: bytes | bytearray) -> Exported:
    """The `Exported` that `Exported.serialize` wrote, of this mjax, an older one, or JAX.

    Only call artifacts from trusted sources: a program may call any function of jaxlib.

    Args:
      blob: the bytes.

    Returns:
      An `Exported`.

    Raises:
      TypeError: these are not bytes.
      ValueError: they are not an artifact, or it is damaged; its format or calling convention is
        not supported; or the structure of arguments has nodes of a type that is not registered
        for serialization.
      NotImplementedError: the program has effects that are unknown here.

    Example:
      >>> artifact = mjax.export.export(mjax.jit(jnp.cos))(0.0).serialize()
      >>> mjax.export.deserialize(artifact).call(0.0)
      Array(1., dtype=float32)
    """
    if not isinstance(blob, (bytes, bytearray, memoryview)):
        msg = f"deserialize takes bytes, not {type(blob).__name__}."
        raise TypeError(msg)
    data = bytearray(blob)
    source = _checked(data)
    try:
        return _exported(read(SCHEMA, "Exported", bytes(data)), source)
    except MalformedError as error:
        msg = f"these {len(data)} bytes are not an artifact, or damaged ({source}): {error}."
        raise ValueError(msg) from None


def _checked(data: bytearray) -> str:
    """The origin of an artifact, after its checksum was verified."""
    marks = data[4:8] == MARK, data[-4:] == MARK and len(data) > CHECKSUM.stop
    if not any(marks):
        return "without the header of mjax"
    version = struct.unpack_from("<H", data.ljust(10, b"\0"), 8)[0]
    if all(marks) and checksum(data) == data[CHECKSUM]:
        if version <= FORMAT_VERSION:
            return f"format {version} of mjax"
    elif not marks[0] or version <= FORMAT_VERSION:
        msg = (f"the artifact, of format {version} of mjax, is damaged: its checksum does not fit "
               f"its {len(data)} bytes. Copy it again from its source.")
        raise ValueError(msg)
    msg = (f"the artifact is of format {version} of mjax, or damaged; this mjax reads formats up "
           f"to {FORMAT_VERSION}. Update mjax.")
    raise ValueError(msg)


def _exported(table: dict[str, Any], source: str) -> Exported:
    convention, name = table["convention"], table["name"] or ""
    if not (minimum_supported_calling_convention_version <= convention
            <= maximum_supported_calling_convention_version):
        msg = (f"the artifact ({source}) is of calling convention {convention}; this mjax knows "
               f"{minimum_supported_calling_convention_version} to "
               f"{maximum_supported_calling_convention_version}. Update mjax, or write the "
               "artifact again.")
        raise ValueError(msg)
    scope = SymbolicScope()  # artifacts do not hold constraints; the program checks them itself
    ins, outs = (_avals(table, side, scope) for side in ("in", "out"))
    in_shardings, out_shardings = (
        _shardings(table, side, len(avals)) for side, avals in (("in", ins), ("out", outs)))
    try:
        in_tree, out_tree = read_tree(table["in_tree"], ins), read_tree(table["out_tree"], outs)
    except ValueError as error:
        msg = f"{name}, an artifact ({source}): {error}"
        raise ValueError(msg) from error
    kept = tuple(table["kept"])
    if list(kept) != sorted({*kept}) or any(i >= len(ins) for i in kept):
        msg = f"the arguments {kept} that the program takes are not among {len(ins)}"
        raise MalformedError(msg)
    vjp = table["vjp"]
    return Exported(
        fun_name=name, in_tree=in_tree, in_avals=ins, out_tree=out_tree, out_avals=outs,
        _has_named_shardings=True, _in_named_shardings=in_shardings,
        _out_named_shardings=out_shardings, in_shardings_hlo=(None,) * len(ins),
        out_shardings_hlo=(None,) * len(outs),
        nr_devices=table["devices"] or table["devices_short"],
        platforms=tuple(table["platforms"]),
        ordered_effects=tuple(map(_effect, table["ordered_effects"])),
        unordered_effects=tuple(map(_effect, table["unordered_effects"])),
        disabled_safety_checks=tuple(map(_check, table["disabled_checks"])),
        mlir_module_serialized=table["module"] or b"", calling_convention_version=convention,
        module_kept_var_idx=kept, uses_global_constants=bool(table["uses_global_constants"]),
        _get_vjp=None if vjp is None else lambda _: _exported(vjp, source))


def _pick(values: Sequence[Any], index: int, what: str) -> Any:
    if not 0 <= index < len(values):
        msg = f"there is no {what} {index}, only {len(values)}"
        raise MalformedError(msg)
    return values[index]


def _avals(table: dict[str, Any], side: str, scope: SymbolicScope) -> tuple[ShapedArray, ...]:
    numbers = table[f"{side}_aval_numbers"]
    found = [_pick(table["avals"], i, "type") for i in numbers] or table[f"{side}_avals"]
    return tuple(_aval(aval, scope) for aval in found)


def _aval(table: dict[str, Any], scope: SymbolicScope) -> ShapedArray:
    number = table["dtype"]
    dtype = (_pick(DTYPES, number, "dtype") if number < len(DTYPES) else
             KeyType(_pick(_GENERATORS, number - len(DTYPES), "generator")))
    try:
        shape = tuple(int(size) if size.isdecimal() else parse_dimension(size, scope)
                      for size in table["shape"])
    except ValueError as error:
        raise MalformedError(str(error)) from None
    return ShapedArray(shape, dtype)


def _shardings(table: dict[str, Any], side: str, count: int
               ) -> tuple[NamedSharding | None, ...]:
    known = [_sharding(s, table["meshes"]) for s in table["shardings"]]
    found = [_pick([None, *known], i, "sharding") for i in table[f"{side}_sharding_numbers"]]
    if not found:
        for sharding in table[f"{side}_shardings"]:
            if sharding["hlo"] and sharding["named"] is None:
                msg = ("the artifact says by HloShardings how values are cut, as JAX wrote before "
                       "January 2026: write it again with a later JAX.")
                raise NotImplementedError(msg)
            found.append(sharding["named"] and _sharding(sharding["named"], table["meshes"]))
    if len(found) != count:
        msg = f"there are {len(found)} shardings for {count} values"
        raise MalformedError(msg)
    return tuple(found)


def _sharding(table: dict[str, Any], meshes: Sequence[Any]) -> NamedSharding:
    mesh = _pick(meshes, table["mesh_index"], "mesh") if meshes else table["mesh"]
    if mesh is None or table["spec"] is None:
        msg = "a sharding does not have a mesh or a spec"
        raise MalformedError(msg)
    # Explicit axes of JAX have the same effect on the program.
    mesh = AbstractMesh(tuple(mesh["sizes"]), tuple(mesh["names"]))
    parts = [tuple(axes["names"]) or None for axes in table["spec"]["partitions"]]
    return NamedSharding(mesh, PartitionSpec(*parts))


def _effect(table: dict[str, Any]) -> Effect:
    for effect, name in EFFECTS.items():
        if name == table["type_name"]:
            return effect
    classes = [Effect]
    for cls in classes:
        if str(cls) == table["type_name"]:
            return cls()
        classes += cls.__subclasses__()
    msg = (f"the program has the effect {table['type_name']}, which is not known here: import the "
           "module that defines it.")
    raise NotImplementedError(msg)


def _check(table: dict[str, Any]) -> DisabledSafetyCheck:
    if table["kind"] == 1 and table["target"] is not None:
        return DisabledSafetyCheck.custom_call(table["target"])
    if table["kind"] != 0:
        msg = f"the disabled check {table['kind']} is unknown"
        raise MalformedError(msg)
    return DisabledSafetyCheck.platform()
