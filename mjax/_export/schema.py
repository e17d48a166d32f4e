"""The tables of artifacts: JAX's, by number and kind.

Source: the artifacts of jax 0.10.2. Later releases add fields with new numbers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mjax._engine.ir.dtypes import float0
from mjax._engine.ir.effects import Effect
from mjax._engine.primitives.sequencing import no_dce_effect

SCHEMA: dict[str, dict[str, tuple[int, Any]]] = {
    "PyTreeDef": {
        "kind": (0, "i8"), "children": (1, ["PyTreeDef"]), "names": (2, ["string"]),
        "custom_name": (3, "string"), "custom_data": (4, "bytes")},
    "AbstractMesh": {
        "sizes": (0, ["u32"]), "names": (1, ["string"]), "types": (2, ["i8"])},
    "Axes": {"names": (0, ["string"])},
    "PartitionSpec": {
        "partitions": (0, ["Axes"]), "reduced": (1, ["string"]), "unreduced": (2, ["string"])},
    "NamedSharding": {
        "mesh": (0, "AbstractMesh"), "spec": (1, "PartitionSpec"), "memory_kind": (2, "string"),
        "mesh_index": (3, "u32")},
    "Aval": {
        "kind": (0, "i8"), "shape": (1, ["string"]), "dtype": (2, "i8"), "memory": (3, "i8")},
    "Sharding": {
        "kind": (0, "i8"), "hlo": (1, "bytes"), "named": (2, "NamedSharding")},
    "Effect": {"type_name": (0, "string")},
    "Check": {"kind": (0, "i8"), "target": (1, "string")},
    "Exported": {
        "version": (0, "u16"), "name": (1, "string"), "in_tree": (2, "PyTreeDef"),
        "in_avals": (3, ["Aval"]), "out_tree": (4, "PyTreeDef"), "out_avals": (5, ["Aval"]),
        "devices_short": (6, "i16"), "in_shardings": (7, ["Sharding"]),
        "out_shardings": (8, ["Sharding"]), "platforms": (9, ["string"]),
        "ordered_effects": (10, ["Effect"]), "unordered_effects": (11, ["Effect"]),
        "disabled_checks": (12, ["Check"]), "module": (13, "bytes"), "convention": (14, "u16"),
        "kept": (15, ["u16"]), "uses_global_constants": (16, "bool"), "vjp": (17, "Exported"),
        "devices": (18, "u32"), "avals": (19, ["Aval"]), "meshes": (20, ["AbstractMesh"]),
        "shardings": (21, ["NamedSharding"]), "in_aval_numbers": (22, ["u32"]),
        "out_aval_numbers": (23, ["u32"]), "in_sharding_numbers": (24, ["u32"]),
        "out_sharding_numbers": (25, ["u32"])},
}

#: The kinds of nodes of pytrees, by number.
NODES = ("leaf", "none", "tuple", "list", "dict", "custom")
#: The types of mesh axes, by number from 1 on.
AXIS_TYPES = ("Auto", "Explicit", "Manual")
#: Memory kinds of arrays, by number from 1 on.
DEVICE_MEMORY = 1

_DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "complex64", "complex128", "bfloat16", "int4", "uint4",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float0", "float8_e4m3", "float8_e3m4", "float8_e8m0fnu", "float4_e2m1fn")
#: Number -> dtype, except for keys.
DTYPES = [float0 if name == "float0" else np.dtype(getattr(ml_dtypes, name, None) or name)
          for name in _DTYPES]
#: The generators of keys, whose dtypes have the next numbers.
GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")
#: Effects of the engine, and what they are called in JAX. Those of users go by their own names.
EFFECTS: dict[Effect, str] = {no_dce_effect: "<class 'jax._src.lax.lax.NoDCEEffect'>"}
