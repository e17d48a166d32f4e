"""Copies the pages of the repository, with links and pictures that fit the site."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path

from docs.site import pictures, tables
from docs.site.definitions import ROOT

#: Pages at the root of the repository -> their names on the site.
OUTSIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
           "SECURITY.md": "security.md", "README.md": "index.md"}
#: The text in place of `<!-- site: NAME ARGUMENT -->`.
PARTS = {**tables.PARTS, **pictures.PARTS}

_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")
_PART = re.compile(r"^<!-- site: (\w+)(?: (.*?))? -->$", re.MULTILINE)


def repository() -> str:
    """The address of this release's files in the repository."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return f"{project['urls']['Source']}/blob/v{project['version']}"


def places() -> dict[Path, Path]:
    """Page of the repository -> where it goes, relative to the site's folder."""
    docs, site = ROOT / "docs", ROOT / "docs" / "site"
    found = {ROOT / name: Path(place) for name, place in OUTSIDE.items()}
    for page in docs.rglob("*.md"):
        place = page.relative_to(site if page.is_relative_to(site) else docs)
        found[page] = place.with_name("index.md") if place.name == "README.md" else place
    del found[ROOT / "README.md"]
    return found


def gather(folder: Path) -> None:
    """Copies all pages into a folder that does not exist."""
    shutil.copytree(ROOT / "docs" / "site" / "static", folder / "static")
    where = places()
    for page, place in where.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_converted(page, place, where))
    for name in ("authors", "design"):
        _list(folder / name)
    _check_listed(folder)


def _check_listed(folder: Path) -> None:
    """Each page of `docs/` is in the lists of the start page."""
    listed = set((folder / "index.md").read_text().splitlines())
    if left_out := {page.stem for page in folder.glob("*.md")} - listed - {"index"}:
        raise ValueError(f"docs/site/index.md does not list {', '.join(sorted(left_out))}")


def _list(folder: Path) -> None:
    """Lists the pages of a folder in its index, which is made if there is none."""
    index = folder / "index.md"
    text = index.read_text() if index.exists() else f"# {folder.name.capitalize()} notes\n"
    names = "\n".join(sorted(page.stem for page in folder.glob("*.md") if page != index))
    hidden = ":hidden:\n" if index.exists() else ""
    index.write_text(f"{text}\n```{{toctree}}\n{hidden}:maxdepth: 1\n\n{names}\n```\n")


def _converted(page: Path, place: Path, where: dict[Path, Path]) -> str:
    """The text of a page, as the site shows it."""
    parts = _CODE.split(page.read_text())
    text = "".join(part if i % 2 else _LINK.sub(
        lambda link: f"]({_target(page, place, link[1], where)}{link[2] or ''})", part)
        for i, part in enumerate(parts))
    text = re.sub(r"^<!--- skip.*?-->\n", "", text, flags=re.MULTILINE)
    # Doctest prompts have a lexer of their own, which does not copy them.
    text = re.sub(r"^```python\n(?=>>> )", "```pycon\n", text, flags=re.MULTILINE)
    # Blocks of examples end with an empty line, for doctest.
    text = text.replace("\n\n```\n", "\n```\n")
    return _PART.sub(lambda part: PARTS[part[1]](*(part[2] or "").split()), text)


def _target(page: Path, place: Path, link: str, where: dict[Path, Path]) -> str:
    """The link as it is on the site: to a page there, or to a file of the repository."""
    target = (page.parent / link).resolve()
    if target == ROOT / "README.md":
        target = ROOT / "docs" / "site" / "index.md"
    if target.is_dir() and target / "README.md" in where:
        target /= "README.md"
    if target in where:
        return os.path.relpath(where[target], place.parent)
    if not target.exists():
        raise FileNotFoundError(f"{page.relative_to(ROOT)} links to {link}")
    return f"{repository()}/{target.relative_to(ROOT).as_posix()}"
