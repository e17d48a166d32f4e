"""The reference: a page for each public module, written from docstrings and signatures."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from docs.site import docstring
from docs.site.definitions import sentence, source_line
from docs.site.signatures import signature, signatures
from docs.site.surface import PACKAGES, Name, methods, modules, surface

#: Modules with more names are divided into pages, by the module of the engine they come from.
LARGE, GROUP = 110, 6
#: How examples and docstrings abbreviate modules.
SHORT = {"jnp": "mjax.numpy", "lax": "mjax.lax", "random": "mjax.random", "core": "mjax_ext.core",
         "ad": "mjax_ext.interpreters.ad", "mlir": "mjax_ext.interpreters.mlir",
         "batching": "mjax_ext.interpreters.batching"}

Link = Callable[[str], str | None]


@cache
def _homes() -> dict[str, Name]:
    """Every public name in full -> the entry that describes it."""
    found = {}
    for names in surface().values():
        for name in names:
            found.update(dict.fromkeys([name.full, *name.others], name))
    return found


def link(module: str, text: str) -> str | None:
    """The name that a code span means in the docstrings of a module, if it is a public one."""
    text = text.removesuffix("()")
    first, dot, rest = text.partition(".")
    candidates = [text if dot else "", f"{module}.{text}", f"{SHORT.get(first, first)}.{rest}"]
    if not dot:
        candidates.append(f"mjax.{text}")
    entry = next((_homes()[name] for name in candidates if name in _homes()), None)
    # A word such as `x` or `axis` is an argument, not a name.
    return entry.full if entry is not None and (dot or len(text) > 3) else None


def write(folder: Path, source_url: str) -> None:
    """Writes all pages of the reference.

    Args:
      folder: the folder of the pages, which is made.
      source_url: the address of a file of the repository, with its path left out.
    """
    folder.mkdir(parents=True)
    for module, names in surface().items():
        _write_module(folder, module, names, source_url)
    (folder / "index.md").write_text(_index())


def _index() -> str:
    out = ["# Reference", "Every public name, at its one home: what it takes and gives, which "
           "errors it raises, an example, and the source of its definition."]
    for package in PACKAGES:
        rows = "\n".join(f"| [`{name}`]({name}.md) | {_first_sentence(name)} |"
                         for name in modules(package))
        pages = "\n".join(modules(package))
        out += [f"## `{package}`", f"| module | |\n|---|---|\n{rows}",
                f"```{{toctree}}\n:hidden:\n:caption: {package}\n\n{pages}\n```"]
    return "\n\n".join(out) + "\n"


def _first_sentence(module: str) -> str:
    doc = docstring.parse(importlib.import_module(module))
    text = " ".join(doc.summary.split()).split(". ")[0].removesuffix(".")
    return docstring.inline(text, partial(link, module))


def _write_module(folder: Path, module: str, names: list[Name], source_url: str) -> None:
    described = importlib.import_module(module)
    out = [f"# `{module}`", f"```{{py:module}} {module}\n```",
           docstring.markdown(described, partial(link, module))]
    groups = _groups(names) if len(names) > LARGE else {"": names}
    own = groups.pop("", [])
    entry = partial(_entry, source_url=source_url)
    if groups:
        pages = {key: f"{module}-{key}" for key in groups}
        for key, members in groups.items():
            title = _title(members[0].source, key)
            text = [f"# {title}", f"```{{py:currentmodule}} {module}\n```",
                    f"Names of [`{module}`]({module}.md).", *map(entry, members)]
            (folder / f"{pages[key]}.md").write_text("\n\n".join(text) + "\n")
        out.append("\n\n".join(
            f"**[{_title(members[0].source, key)}]({pages[key]}.md)**\n\n{_brief(members)}"
            for key, members in groups.items()))
        listing = "\n".join(pages.values())
        out.append(f"```{{toctree}}\n:hidden:\n\n{listing}\n```")
        if own:
            out += ["## More names", _table(own)]
    elif len(own) > 1:
        out.append(_table(own))
    out += map(entry, own)
    if elsewhere := _elsewhere(module):
        out += ["## Names described elsewhere", elsewhere]
    (folder / f"{module}.md").write_text("\n\n".join(out) + "\n")


def _groups(names: list[Name]) -> dict[str, list[Name]]:
    """Key of a page -> its names; under "" those that have no page of their own."""
    found: dict[str, list[Name]] = {}
    for name in names:
        key = "primitives" if name.kind == "primitive" else name.source.rpartition(".")[2]
        found.setdefault(key, []).append(name)
    small = {key for key, members in found.items() if len(members) < GROUP}
    groups: dict[str, list[Name]] = {"": []}
    for key, members in sorted(found.items()):
        groups.setdefault("" if key in small else key, []).extend(members)
    return groups


def _title(source: str, key: str) -> str:
    if key == "primitives":
        return "Primitives"
    # The purpose of the engine's module, without the list or the means behind it.
    text = re.split(r"[:;.]|, in terms| of `", _summary(importlib.import_module(source)))[0]
    return docstring.inline(text, lambda text: None)


def _summary(value: Any) -> str:
    return " ".join(docstring.parse(value).summary.split())


def _brief(names: list[Name]) -> str:
    return ", ".join(f"{{py:obj}}`{name.name} <{name.full}>`" for name in names)


def _table(names: list[Name]) -> str:
    rows = []
    for name in names:
        text = (sentence(name) if name.kind in ("constant", "primitive")
                else _summary(name.value).split(". ")[0])
        line = docstring.inline(" ".join(text.split()), partial(link, name.module))
        line = re.sub(r"\\?\|", r"\\|", line)  # a bar ends the cell, in code too
        rows.append(f"| {{py:obj}}`{name.name} <{name.full}>` | {line} |")
    return "| name | |\n|---|---|\n" + "\n".join(rows)


def _elsewhere(module: str) -> str:
    """The names that a module exports and another one describes."""
    prefix = f"{module}."
    found = [(other.removeprefix(prefix), name) for name in {
        id(n): n for n in _homes().values()}.values() for other in name.others
        if other.startswith(prefix) and "." not in other.removeprefix(prefix)]
    return ", ".join(f"{{py:obj}}`{own} <{name.full}>`" for own, name in sorted(
        found, key=lambda pair: pair[0].lower()))


# ------------------------------------------------------------------------------------- entries


def _entry(name: Name, source_url: str) -> str:
    body = []
    others = [other for other in name.others if ".v1" not in other]
    if name.kind in ("constant", "primitive"):
        body.append(docstring.inline(sentence(name), partial(link, name.module)))
        head = f"{{py:data}} {name.name}"
    else:
        body.append(docstring.markdown(name.value, partial(link, name.module)))
        directive = {"exception": "exception", "class": "class"}.get(name.kind, "function")
        forms = [] if name.kind == "exception" else signatures(name)
        forms = [_qualified(form, name.module) for form in forms] or [""]
        head = f"{{py:{directive}}} " + "\n".join(f"{name.name}{form}" for form in forms)
        if directive != "function":
            body += [_method(method, value, name) for method, value in methods(name.value)]
    if others:
        body.append("Also " + ", ".join(f"`{other}`" for other in others) + ".")
    if where := source_line(name.value):
        body.append(f"[Read the code]({source_url}/{where})")
    return f":::::{head}\n" + "\n\n".join(body) + "\n:::::"


def _method(method: str, value: Any, owner: Name) -> str:
    if isinstance(value, property) or hasattr(value, "func"):
        head = f"{{py:property}} {method}"
    else:
        kind = {staticmethod: "staticmethod", classmethod: "classmethod"}.get(type(value), "method")
        head = f"{{py:{kind}}} {method}" + _qualified(
            signature(_bound(getattr(value, "__func__", value), kind)), owner.module)
    text = docstring.markdown(value, partial(link, owner.module))
    return f"::::{head}\n{text}\n::::"


def _qualified(text: str, module: str) -> str:
    """A signature with classes named in full; the site shows the last part of a name."""
    def full(match: re.Match[str]) -> str:
        entries = (_homes().get(f"{place}.{match[0]}") for place in (
            module, "mjax", "mjax.typing", "mjax.sharding", "mjax_ext.core"))
        return next((entry.full for entry in entries if entry is not None), match[0])

    return re.sub(r"(?<![\w.'\"])[A-Z]\w{3,}\b(?!=)", full, text)


def _bound(function: Any, kind: str) -> Any:
    """The function as callers see it: without its first argument."""
    if kind == "staticmethod":
        return function
    found = inspect.signature(function)
    stub = lambda *args, **kwargs: None
    stub.__signature__ = found.replace(  # type: ignore[attr-defined]
        parameters=list(found.parameters.values())[1:])
    return stub


@cache
def manifest() -> dict[str, dict[str, Any]]:
    """Name of `mjax_ext` -> its row in the manifest."""
    file = Path(importlib.import_module("mjax_ext").__file__ or "").parent / "manifest.toml"
    return {row["name"]: row for row in tomllib.loads(file.read_text())["name"]}
