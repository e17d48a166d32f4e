"""The files of a library: those of a path, or of an installed distribution."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

_PYTHON = (".py", ".pyi")
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def files(name: str) -> list[Path]:
    """The Python files of a file, a folder or an installed distribution, in their order.

    Raises:
      FileNotFoundError: there is no such path and no such distribution, or it is a notebook.
    """
    if not name:
        raise FileNotFoundError("the path is empty")
    path = Path(name)
    if path.suffix == ".ipynb":
        raise FileNotFoundError(f"{name} is a notebook, and Python files are read. Make one of it: "
                                f"jupyter nbconvert --to script {name}")
    if path.is_file():
        return [path]
    if path.is_dir():
        return list(_below(path))
    try:
        found = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        msg = f"{name} is not a path, and no distribution of that name is installed"
        raise FileNotFoundError(msg) from None
    listed = sorted(Path(str(found.locate_file(file))) for file in found.files or ()
                    if file.suffix in _PYTHON)
    return [*listed, *_edited(found)]


def _below(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith("."))
        yield from (Path(here, name) for name in sorted(names) if name.endswith(_PYTHON))


def _edited(found: importlib.metadata.Distribution) -> Iterator[Path]:
    """The files of a distribution that is installed as editable: those of its folder."""
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    if origin.get("dir_info", {}).get("editable"):
        yield from _below(Path(unquote(urlparse(origin["url"]).path)))
