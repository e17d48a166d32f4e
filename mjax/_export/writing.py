"""From an `Exported` to the bytes of an artifact.

An artifact is a flatbuffer with JAX's tables, which JAX can read. After the first four bytes it has
a header, which JAX skips, and at the end the mark once more:

    "MJAX"   the mark                      u16  version of the format   u16  zero
    32 bytes: SHA-256 of all bytes of the artifact, with zeros in this place

The version changes with each change that older releases of mjax cannot read.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from mjax._engine.ir.dtypes import is_extended
from mjax._engine.ir.effects import Effect
from mjax._export.checks import DisabledSafetyCheck
from mjax._export.flatbuffer import write
from mjax._export.schema import AXIS_TYPES, DEVICE_MEMORY, DTYPES, EFFECTS, GENERATORS, SCHEMA
from mjax._export.trees import write_tree

FORMAT_VERSION = 1
MARK = b"MJAX"
#: The place of the checksum.
CHECKSUM = slice(12, 44)
#: The number by which all of JAX's readers recognize the tables.
_SCHEMA_VERSION = 3


def serialize(exported: Any, vjp_order: int) -> bytearray:
    """The artifact of an `Exported`, with this number of derivatives."""
    data = write(SCHEMA, "Exported", _exported(exported, vjp_order), room=CHECKSUM.stop - 4)
    data[4:12] = MARK + struct.pack("<HH", FORMAT_VERSION, 0)
    data += MARK
    data[CHECKSUM] = checksum(data)
    return data


def checksum(data: bytearray) -> bytes:
    """The checksum of an artifact."""
    return hashlib.sha256(data[:CHECKSUM.start] + bytes(32) + data[CHECKSUM.stop:]).digest()


def _exported(exported: Any, vjp_order: int) -> dict[str, Any]:
    avals = [*exported.in_avals, *exported.out_avals]
    ins, outs = exported._in_named_shardings, exported._out_named_shardings
    shardings = list(dict.fromkeys(s for s in (*ins, *outs) if s is not None))
    meshes = list(dict.fromkeys(s.mesh for s in shardings))
    named = {s: _sharding(s, meshes.index(s.mesh)) for s in shardings}
    numbers = {s: i for i, s in enumerate(shardings, 1)} | {None: 0}
    table = {
        "version": _SCHEMA_VERSION, "name": exported.fun_name,
        "in_tree": write_tree(exported.in_tree), "out_tree": write_tree(exported.out_tree),
        "avals": list(map(_aval, avals)), "meshes": list(map(_mesh, meshes)),
        "shardings": list(named.values()), "devices": exported.nr_devices,
        "in_aval_numbers": range(len(ins)), "out_aval_numbers": range(len(ins), len(avals)),
        "in_sharding_numbers": [numbers[s] for s in ins],
        "out_sharding_numbers": [numbers[s] for s in outs],
        # JAX before April 2026 reads it here.
        "in_avals": list(map(_aval, exported.in_avals)),
        "out_avals": list(map(_aval, exported.out_avals)),
        "in_shardings": [_optional(named, s) for s in ins],
        "out_shardings": [_optional(named, s) for s in outs],
        "devices_short": exported.nr_devices if exported.nr_devices < 1 << 15 else 0,
        "platforms": list(exported.platforms),
        "ordered_effects": list(map(_effect, exported.ordered_effects)),
        "unordered_effects": list(map(_effect, exported.unordered_effects)),
        "disabled_checks": list(map(_check, exported.disabled_safety_checks)),
        "module": exported.mlir_module_serialized,
        "convention": exported.calling_convention_version,
        "kept": list(exported.module_kept_var_idx),
        "uses_global_constants": exported.uses_global_constants}
    if vjp_order > 0:
        table["vjp"] = _exported(exported.vjp(), vjp_order - 1)
    return table


def _aval(aval: Any) -> dict[str, Any]:
    return {"shape": list(map(str, aval.shape)), "dtype": _dtype(aval.dtype),
            "memory": DEVICE_MEMORY}


def _dtype(dtype: Any) -> int:
    if not is_extended(dtype):
        if dtype not in DTYPES:
            msg = (f"artifacts do not know the dtype {dtype}: export a function of another dtype, "
                   "as int8, that converts its arguments and results.")
            raise NotImplementedError(msg)
        return DTYPES.index(dtype)
    name = dtype._impl.name
    if name not in GENERATORS:
        msg = (f"artifacts support keys of {', '.join(GENERATORS)}, not of {name!r}: export a "
               "function of random.key_data(keys).")
        raise NotImplementedError(msg)
    return len(DTYPES) + GENERATORS.index(name)


def _mesh(mesh: Any) -> dict[str, Any]:
    return {"sizes": [size for _, size in mesh.shape_tuple],
            "names": [str(name) for name, _ in mesh.shape_tuple],
            "types": [1 + AXIS_TYPES.index(t.name) for t in mesh.axis_types]}


def _sharding(sharding: Any, mesh: int) -> dict[str, Any]:
    axes = [{"names": list(map(str, dim))} for dim in sharding.spec.dims(len(sharding.spec))]
    return {"mesh": _mesh(sharding.mesh), "mesh_index": mesh, "spec": {"partitions": axes}}


def _optional(named: dict[Any, Any], sharding: Any) -> dict[str, Any]:
    return {} if sharding is None else {"named": named[sharding]}


def _effect(effect: Effect) -> dict[str, Any]:
    if effect in EFFECTS:
        return {"type_name": EFFECTS[effect]}
    try:
        known = type(effect)() == effect
    except TypeError:
        known = False
    if not known:
        msg = (f"the effect {effect!r} cannot be serialized: {type(effect).__name__}() must return "
               "an equal one.")
        raise NotImplementedError(msg)
    return {"type_name": str(type(effect))}


def _check(check: DisabledSafetyCheck) -> dict[str, Any]:
    target = check.is_custom_call()
    return {} if target is None else {"kind": 1, "target": target}
