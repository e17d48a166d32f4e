"""Where a generation has what jax's extension modules have: one table, for `audit` and `migrate`.

A module of jax has homes: modules of the generation, or of `mjax`, whose names begin so. A name's
home is the first of them that exports it, as the manifest and the faces of `mjax` say.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from mjax._engine.base.pages import page
from mjax_ext._audit.surface import Surface

_PACKAGE = Path(__file__).parents[2] / "mjax"
_CORE = ("core", "core.primitives", "util", "api_util", "mjax.errors", "mjax")
_STATE = ("state.discharge", "core", "core.primitives", "mjax.ref", "mjax")
_INTERPRETERS = {
    name: (f"interpreters.{name}", "core", "core.primitives", "mjax.custom_derivatives")
    for name in ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")}
_LAX = ("core.primitives", "mjax.lax", "mjax.lax.linalg")

#: Module of jax -> its homes. Submodules of a module of `jax._src` share its homes.
HOMES: dict[str, tuple[str, ...]] = {
    **{f"jax.interpreters.{name}": homes for name, homes in _INTERPRETERS.items()},
    **{f"jax._src.interpreters.{name}": homes for name, homes in _INTERPRETERS.items()},
    **{f"jax.extend.{name}": (name,) for name in (
        "backend", "core.primitives", "ifrt_programs", "linear_util", "random", "sharding",
        "source_info_util")},
    **{f"jax._src.{name}": (name,) for name in ("linear_util", "source_info_util",
                                                "traceback_util")},
    **{f"jax._src.{name}": (f"mjax.{name}",) for name in (
        "custom_batching", "distributed", "dtypes", "errors", "flatten_util", "monitoring",
        "random", "stages", "tree_util", "typing")},
    "jax.core": _CORE, "jax.extend.core": _CORE, "jax._src.core": _CORE,
    "jax.extend": ("", "interpreters"), "jax.interpreters": ("interpreters",),
    "jax.extend.lowering": ("lowering", "interpreters.mlir"),
    "jax.extend.mlir": ("interpreters.mlir",),
    "jax.extend.mlir.dialects": ("interpreters.mlir",),
    "jax.extend.mlir.dialects.stablehlo": ("interpreters.mlir.hlo",),
    **{f"jax.extend.mlir.dialects.{name}": (f"interpreters.mlir.{name}",)
       for name in ("chlo", "func", "sdy")},
    **{f"jax.extend.mlir.{name}": (f"interpreters.mlir.{name}",)
       for name in ("ir", "passmanager")},
    "jax._src.lib.mlir": ("interpreters.mlir",),
    "jax._src.lib.mlir.dialects": ("interpreters.mlir",), "jax.extend.xla": ("interpreters.xla",),
    "jax.ffi": ("ffi",), "jax.extend.ffi": ("ffi",), "jax._src.ffi": ("ffi",),
    "jax.linear_util": ("linear_util",),
    "jax.util": ("util",), "jax._src.util": ("util",),
    "jax.api_util": ("api_util",), "jax._src.api_util": ("api_util",),
    "jax.lib.xla_bridge": ("backend",), "jax._src.xla_bridge": ("backend", "mjax"),
    "jax.experimental.custom_partitioning": ("mjax.experimental.custom_partitioning",),
    "jax._src.custom_partitioning": ("mjax.experimental.custom_partitioning",),
    "jax.experimental.shard_map": ("mjax", "mjax.sharding"), "jax._src.shard_map": ("mjax",),
    "jax._src.abstract_arrays": ("core",),
    "jax._src.ad_checkpoint": ("core.primitives", "mjax.ad_checkpoint", "mjax"),
    "jax._src.ad_util": ("interpreters.ad", "core.primitives"),
    "jax._src.api": ("mjax",), "jax._src.config": ("mjax",),
    "jax._src.array": ("mjax",), "jax._src.basearray": ("mjax",),
    "jax._src.checkify": ("mjax.experimental.checkify",),
    "jax._src.custom_derivatives": ("mjax.custom_derivatives", "core.primitives", "mjax"),
    "jax._src.debugging": ("mjax.debug", "core.primitives"),
    "jax._src.dispatch": ("interpreters.xla", "core.primitives", "mjax"),
    "jax._src.effects": ("core", "interpreters.mlir"), "jax._src.export._export": ("mjax.export",),
    "jax._src.lax": _LAX, "jax._src.layout": ("mjax.experimental.layout",),
    "jax._src.mesh": ("mjax.sharding", "interpreters.pxla"),
    "jax._src.mesh_utils": ("mjax.experimental.mesh_utils",),
    "jax._src.named_sharding": ("mjax.sharding",), "jax._src.partition_spec": ("mjax.sharding",),
    "jax._src.op_shardings": ("interpreters.pxla", "sharding"),
    "jax._src.pjit": ("core.primitives", "api_util", "mjax", "mjax.experimental.pjit"),
    "jax._src.prng": ("random", "core.primitives", "mjax.random"),
    "jax._src.public_test_util": ("mjax.test_util",),
    "jax._src.sharding": ("mjax.sharding",),
    "jax._src.sharding_impls": ("mjax.sharding", "sharding", "interpreters.mlir", "mjax"),
    "jax._src.state": _STATE,
}
#: Names that are called otherwise, or are elsewhere than the homes of their modules say.
RENAMED = {
    "jax.core.JaxprDebugInfo": "core.DebugInfo",
    "jax.extend.core.primitives.pjit_p": "core.primitives.jit_p",
    "jax.extend.core.primitives.custom_vjp_call_jaxpr_p": "core.primitives.custom_vjp_call_p",
    "jax.interpreters.ad.backward_pass_internal": "interpreters.ad.backward_pass",
    "jax.interpreters.batching.Array": "mjax.Array",
    "jax.interpreters.batching.Zero": "interpreters.ad.Zero",
    "jax.interpreters.batching.Zeros": "interpreters.ad.Zero",
    "jax.interpreters.mlir.Mesh": "mjax.sharding.Mesh",
    "jax.interpreters.partial_eval.config": "mjax.config",
    "jax.interpreters.pxla.are_op_shardings_equal": "interpreters.pxla.are_hlo_shardings_equal",
    "jax.interpreters.pxla.is_op_sharding_replicated":
        "interpreters.pxla.is_hlo_sharding_replicated",
    **{f"jax.lib.{module}.{old}": new for module in ("xla_client", "xla_extension")
       for old, new in (("Device", "mjax.Device"), ("OpSharding", "sharding.OpSharding"),
                        ("XlaRuntimeError", "mjax.errors.JaxRuntimeError"))},
    "jax.lib.xla_client.HloSharding": "sharding.HloSharding",
    "jax.lib.xla_bridge.default_backend": "mjax.default_backend",
    "jax._src.ad_util.add_any_p": "interpreters.ad.add_jaxvals_p",
    "jax._src.typing.Array": "mjax.Array",
    "jax._src.pjit.pjit_p": "core.primitives.jit_p",
    "jax._src.core.nonempty_axis_env": "core.nonempty_axis_env_DO_NOT_USE",
    "jax._src.core.unsafe_am_i_under_a_jit": "core.unsafe_am_i_under_a_jit_DO_NOT_USE",
    "jax._src.core.unsafe_am_i_under_a_vmap": "core.unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "jax._src.core.unsafe_get_axis_names": "core.unsafe_get_axis_names_DO_NOT_USE",
}


def home(module: str, name: str, surface: Surface, generation: str | None) -> str:
    """The dotted path of a name of jax in a generation (None: in the head), or in `mjax`; empty if
    there is none.
    """
    path = f"{module}.{name}"
    candidates = ([RENAMED[path]] if path in RENAMED else
                  [_join(each, name) for each in _homes(module)])
    for candidate in candidates:
        package = candidate.split(".", 1)[0]
        if package == "mjax":
            if name_of(candidate) in exports_of_face(candidate.rpartition(".")[0]):
                return candidate
        elif (row := surface.row(generation, candidate)) and (
                row.name == candidate or row.kind == "module"):  # which has names of jaxlib
            return _below(generation, candidate)
    return ""


def module_home(module: str, generation: str) -> str:
    """The module of a generation, or of `mjax`, that has most of a module of jax."""
    first = next(_homes(module), None)
    if first is None:
        return ""
    return first if first.startswith("mjax") else _below(generation, first)


def why_absent(module: str, name: str) -> str:
    """The reason for which mjax does not have a name of jax; empty if there is none."""
    return _reasons().get((name_of(module), name), "")


@functools.cache
def _reasons() -> dict[tuple[str, str], str]:
    """(Last part of the module, name) -> reason: the last table of docs/extension_names.md."""
    found, module = {}, ""
    text = Path(page("extension_names.md")).read_text(encoding="utf-8")
    rows = text.partition("## Names without a counterpart")[2].splitlines()
    for line in (row for row in rows if row.startswith("| `")):
        names, reason = line.strip("| ").rsplit(" | ", 1)
        for path in re.findall(r"`([^`]+)`", names):
            module = name_of(path.rpartition(".")[0]) or module
            found[module, name_of(path)] = reason.replace("`", "")
    return found


def name_of(path: str) -> str:
    """The last part of a dotted path."""
    return path.rpartition(".")[2]


def _join(module: str, name: str) -> str:
    return f"{module}.{name}".strip(".")


def _below(generation: str | None, path: str) -> str:
    return _join(f"mjax_ext.{generation}" if generation else "mjax_ext", path)


def _homes(module: str) -> Iterator[str]:
    while module not in HOMES and module.startswith("jax._src.") and module.count(".") > 2:
        module = module.rpartition(".")[0]
    yield from HOMES.get(module, ())


@functools.cache
def exports_of_face(module: str) -> frozenset[str]:
    """`__all__` of a public module of `mjax`, read from its source."""
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not file.exists():
        return frozenset()
    lists = {node.targets[0].id: node.value for node in ast.parse(file.read_bytes()).body
             if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
    return frozenset(_texts("__all__", lists))


def _texts(name: str, lists: dict[str, ast.expr]) -> Iterator[str]:
    """The texts of a list that may hold others by `*`; of dicts the keys."""
    value = lists.get(name)
    for part in getattr(value, "keys", getattr(value, "elts", ())):
        if isinstance(part, ast.Constant):
            yield str(part.value)
        elif isinstance(part, ast.Starred) and isinstance(part.value, ast.Name):
            yield from _texts(part.value.id, lists)
