"""Each name of JAX's modules for authors, and each that libraries use, is here or has a reason."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Module of JAX, or area of names -> the modules that have its names here.
HOMES = {
    **{f"jax.interpreters.{name}": [f"mjax_ext.interpreters.{name}"]
       for name in ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")},
    **{name: [f"mjax_ext.interpreters.{name}"]
       for name in ("ad", "batching", "mlir", "partial_eval", "pxla", "xla")},
    **{f"{prefix}.{name}": [f"mjax_ext.{name}"] for prefix in ("jax.extend", "extend") for name in (
        "backend", "core", "core.primitives", "ifrt_programs", "linear_util", "lowering", "random",
        "sharding", "source_info_util")},
    **{f"{prefix}.{name}": [f"mjax_ext.interpreters.{name}"] for prefix in ("jax.extend", "extend")
       for name in ("mlir", "xla")},
    **{name: [name.replace("jax", "mjax", 1)] for name in (
        "jax", "jax.custom_batching", "jax.dtypes", "jax.errors", "jax.experimental",
        "jax.experimental.custom_partitioning", "jax.experimental.hijax",
        "jax.experimental.jax2tf", "jax.experimental.shard_map", "jax.experimental.xla_metadata",
        "jax.export", "jax.ffi")},
    "core": ["mjax_ext.core"], "jax.core": ["mjax_ext.core"], "prim": ["mjax_ext.core.primitives"],
    "lu": ["mjax_ext.linear_util"], "jax.extend": ["mjax_ext", "mjax_ext.interpreters"],
    "api_util": ["mjax.api_util", "mjax_ext.api_util"],
    "jax.api_util": ["mjax.api_util", "mjax_ext.api_util"],
    "ffi": ["mjax.ffi"], "custom_derivatives": ["mjax.custom_derivatives"],
    "jax.util": ["mjax_ext.util"],
}
#: Areas of JAX's private modules, and of another package.
PRIVATE = re.compile(r"_src\.|jax\._src$|jax\.lib|jax\.experimental\.hijax\.")


def groups(name):
    """Title -> names of a list in `tests/data`."""
    found, title = {}, None
    for line in (ROOT / "tests" / "data" / name).read_text().splitlines():
        if line.startswith("["):
            title = line.strip("[]")
        elif line and not line.startswith("#"):
            found.setdefault(title, []).extend(line.split())
    return found


def reasons():
    """(last part of the module, name) of the page's table of names without a counterpart."""
    page = (ROOT / "docs" / "extension_names.md").read_text()
    found, module = {}, ""
    for line in page.partition("## Names without a counterpart")[2].splitlines():
        if line.startswith("| `"):
            names, reason = line.strip("| ").rsplit(" | ", 1)
            for dotted in re.findall(r"`([^`]+)`", names):
                before, _, name = dotted.rpartition(".")
                module = before.rpartition(".")[2] or module
                found[module, name] = reason
    return found


REASONS = reasons()
ASKED = {
    **{title.split()[0]: [] for title in groups("jax_extension_names.txt")},
    **{title: [] for title in groups("downstream_names.txt") if not PRIVATE.match(title)}}
for _title, _names in groups("jax_extension_names.txt").items():
    ASKED[_title.split()[0]] += _names
for _title, _names in groups("downstream_names.txt").items():
    if _title in ASKED:
        ASKED[_title] += [name.partition(":")[0] for name in _names]


def modules(title):
    found = []
    for name in HOMES[title]:
        try:
            found.append(importlib.import_module(name))
        except ImportError:
            continue
    return found


def is_here(title, name):
    """Whether an area's home has a name, or the name is an area that has a home."""
    whole = f"{title}.{name}"
    return any(hasattr(module, name) for module in modules(title)) or (
        whole in HOMES and bool(modules(whole)))


def last_part(title):
    return {"lu": "linear_util", "prim": "primitives"}.get(title, title).rpartition(".")[2]


@pytest.mark.parametrize("title", ASKED)
def test_each_name_is_here_or_has_a_reason(title):
    lacking = [name for name in ASKED[title]
               if not is_here(title, name) and (last_part(title), name) not in REASONS]
    assert not lacking


def test_names_without_a_counterpart_are_not_here():
    for (part, name), reason in REASONS.items():
        titles = [title for title in ASKED if last_part(title) == part]
        assert reason and not any(is_here(title, name) for title in titles), (part, name)
