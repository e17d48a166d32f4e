"""Writes `jax_names.txt`: which names of jax's extension surface which release of jax has.

Run by hand when jax has a new release, over a folder of wheels (`pip download --no-deps jax==X`),
on a Python that parses the newest of them:

    python mjax_ext/_audit/collect.py FOLDER

Modules are parsed and never imported. A name is there if the module binds it at its top level, or
lists it in its table of deprecations with a value. All branches of a condition count, but for
those that only type checkers read.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version

TABLE = Path(__file__).with_name("jax_names.txt")
#: Public modules that are read, with what is below them.
PUBLIC = re.compile(r"jax\.(extend|core|interpreters|ffi|lib|util|api_util|linear_util"
                    r"|experimental\.(attrs|custom_partitioning|hijax|host_callback|shard_map"
                    r"|xla_metadata))(\.|$)")
#: Modules of `jax._src` that libraries use.
PRIVATE = re.compile(r"jax\._src\.(abstract_arrays|ad_checkpoint|ad_util|api|api_util|array"
                     r"|basearray|callback|checkify|compiler|compute_on|config|core"
                     r"|cudnn\.fused_attention_stablehlo|custom_api_util|custom_batching"
                     r"|custom_derivatives|custom_partitioning|debugging|deprecations|dispatch"
                     r"|distributed|dtypes|earray|effects|errors|export\._export|ffi|flatten_util"
                     r"|flattree|hijax|image\.scale|interpreters\..*|layout|lax|lax\..*|lib"
                     r"|linear_util|literals|mesh|mesh_utils|monitoring|named_sharding"
                     r"|nn\.functions|numpy\.(scalar_types|util)|op_shardings|pallas|pallas\.utils"
                     r"|partition_spec|pjit|prng|public_test_util|random|shard_map|sharding"
                     r"|sharding_impls|source_info_util|stages|state\..*|traceback_util|tree_util"
                     r"|typing|util|version|xla_bridge|xla_metadata|xla_metadata_lib)")
_ANNOUNCED = re.compile(r"(?:removed|finalized?) (?:in|after|by) (?:JAX )?v?(\d+\.\d+(?:\.\d+)?)",
                        re.IGNORECASE)

Names = dict[str, str]  # name -> "" or, if it is deprecated, the release of its announced removal


class Module(NamedTuple):
    """The names of a module in one release: "*" is all of a module of jaxlib."""

    names: Names
    deprecated: Names


def main(arguments: list[str]) -> int:
    """Reads the wheels of a folder and writes the table."""
    wheels = {}
    for wheel in Path(arguments[0]).glob("jax-*.whl"):
        wheels[wheel.name.split("-")[1]] = wheel
    releases = sorted(wheels, key=Version)
    found = [read_release(wheels[release]) for release in releases]
    TABLE.write_text("\n".join(_lines(releases, found)) + "\n")
    return 0


# ---- one release -----------------------------------------------------------------------


def read_release(wheel: Path) -> dict[str, Module]:
    """Module -> its names, in the release of a wheel. Modules that are not read have no names."""
    found = {}
    with zipfile.ZipFile(wheel) as archive:
        for path in archive.namelist():
            if not path.startswith("jax/") or not path.endswith(".py"):
                continue
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if PUBLIC.match(name) or PRIVATE.fullmatch(name):
                found[name] = read_module(archive.read(path).decode(), "._src." in name)
            elif name.startswith("jax._src."):
                found[name] = Module({}, {})
    return found


def read_module(source: str, private: bool) -> Module:
    """The names of one module; of private ones those with a leading underscore too."""
    tree = ast.parse(source)
    names = dict.fromkeys(_bound(tree.body), "")
    deprecated = dict(_deprecated(tree, source.splitlines()))
    gone = [name for name, value in deprecated.items() if value is None]
    there = {name: value for name, value in deprecated.items() if value is not None}
    names = {**names, **dict.fromkeys(there, "")}
    for name in [*gone, "annotations"]:
        names.pop(name, None)
    if not private:
        names, there = (
            {name: value for name, value in known.items()
             if not name.startswith("_") or name == "__version__"} for known in (names, there))
    return Module(names, there)


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Names that statements of a module bind, less those that they delete."""
    names: dict[str, None] = {}
    for node in body:
        match node:
            case ast.Delete(targets=targets):
                for target in targets:
                    names.pop(getattr(target, "id", ""), None)
            case ast.If(test=test, body=then, orelse=other):
                typed = "TYPE_CHECKING" in ast.dump(test)
                names.update(dict.fromkeys(_bound(other if typed else [*then, *other])))
            case ast.Try(body=then, handlers=handlers, orelse=other, finalbody=last):
                inner = [*then, *(node for h in handlers for node in h.body), *other, *last]
                names.update(dict.fromkeys(_bound(inner)))
            case ast.With(body=then) | ast.For(body=then):
                names.update(dict.fromkeys(_bound(then)))
            case _:
                names.update(dict.fromkeys(_bound_by(node)))
    yield from names


def _bound_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ImportFrom(module=module, names=aliases, level=level):
            for alias in aliases:
                if level or str(module).startswith(("jax", "jaxlib")):
                    yield alias.asname or alias.name
        case ast.Import(names=aliases):
            yield from (alias.asname for alias in aliases
                        if alias.asname and alias.name.startswith("jax"))
        case ast.Assign(targets=targets):
            for target in targets:
                yield from (n.id for n in ast.walk(target)
                            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.AugAssign(target=ast.Name(id=name)):
            yield name


def _deprecated(tree: ast.Module, lines: list[str]) -> Iterator[tuple[str, str | None]]:
    """Rows of tables of deprecations: the announced release of the removal; None: it has gone."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=table)], value=ast.Dict(keys=keys, values=rows)):
                if not table.endswith("deprecations"):
                    continue
                for key, row in zip(keys, rows, strict=True):
                    match key, row:
                        case ast.Constant(value=str(name)), ast.Tuple(elts=[message, value]):
                            gone = isinstance(value, ast.Constant) and value.value is None
                            said = [*lines[node.lineno - 1:key.lineno], _text(message)]
                            yield name, None if gone else _announced(said)


def _text(message: ast.expr) -> str:
    return " ".join(str(n.value) for n in ast.walk(message) if isinstance(n, ast.Constant))


def _announced(said: list[str]) -> str:
    """The release in which a name will be removed, from the message or the last comment."""
    for line in reversed(said):
        if match := _ANNOUNCED.search(line):
            return match[1]
        if line.strip().startswith("#"):
            break
    return ""


# ---- the table -------------------------------------------------------------------------


def _lines(releases: list[str], found: list[dict[str, Module]]) -> Iterator[str]:
    yield "# Written by mjax_ext/_audit/collect.py from the wheels of jax. A section is a module,"
    yield "# with the releases that have it; a line has the names of some releases. An end is left"
    yield "# open where the newest release has the names. `!` opens those of deprecated names, each"
    yield "# with the release in which jax says it goes. `*`: names of jaxlib, not listed."
    yield f"releases {' '.join(releases)}"
    for module in sorted({module for each in found for module in each}):
        there = [each.get(module) for each in found]
        yield f"[{module}] {_spans(releases, [each is not None for each in there])}"
        known = [each or Module({}, {}) for each in there]
        yield from _group(releases, [each.names for each in known], "")
        yield from _group(releases, [each.deprecated for each in known], "!")


def _group(releases: list[str], known: list[Names], mark: str) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for name in sorted({name for names in known for name in names}):
        span = _spans(releases, [name in names for names in known])
        last = next((names[name] for names in reversed(known) if names.get(name)), "")
        groups.setdefault(span, []).append(f"{name}>{last}" if last else name)
    for span, names in groups.items():
        yield f"{mark}{span} {' '.join(names)}"


def _spans(releases: list[str], there: list[bool]) -> str:
    """Runs of releases: `0.4.36-0.5.3,0.7.0-`."""
    runs, start = [], None
    for index, here in enumerate([*there, False]):
        if here and start is None:
            start = index
        elif not here and start is not None:
            end = "" if index == len(there) else releases[index - 1]
            runs.append(f"{releases[start]}-{end}")
            start = None
    return ",".join(runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
