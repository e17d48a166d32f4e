"""The modules under the name `jax`: where each one has its names from."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType
from typing import Any

import mjaxlib_shim
from mjax._engine.base.absent import why_absent
from mjax._engine.base.pages import page
from mjax.alias._table import CLOSED, LIVE, OPEN, SEARCHED

#: The name that this package has below `mjax`, and that jax does not have.
_ITSELF = "jax.alias"


class AliasModule(ModuleType):
    """A module of `jax`: it looks names up in mjax when they are first used, and keeps them."""

    def __init__(self, name: str, version: str):
        super().__init__(name, f"`{name}` of mjax.alias: mjax under the name of jax.")
        self.__path__: list[str] = []
        if name in ("jax", "jax.version"):
            self.__version__ = version
            self.__version_info__ = tuple(map(int, version.split(".")))
        elif name == "jax.lib":
            self.__version__ = mjaxlib_shim.jaxlib_version
        if name != "jax.version" and not name.startswith("jax._src"):
            self.__all__ = _public_names(name)

    def __getattr__(self, name: str) -> Any:
        found = _look_up(self.__name__, name)
        if f"{self.__name__}.{name}" not in LIVE:
            self.__dict__[name] = found
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        path = f"{self.__name__}.{name}"
        if path in LIVE:
            home, _, there = _source(path).partition(":")
            setattr(importlib.import_module(home), there or name, value)
        else:
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *_public_names(self.__name__)})


def _look_up(module: str, name: str) -> Any:
    path = f"{module}.{name}"
    if name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if source := _source(path):
        home, _, there = source.partition(":")
        return getattr(importlib.import_module(home), there or name)
    if is_provided(path):
        return importlib.import_module(path)
    if (public := _open_home(module)) and not name.startswith("_") and path != _ITSELF:
        try:
            return getattr(importlib.import_module(public), name)
        except AttributeError:
            pass
    raise AttributeError(why_missing(module, name), name=name)


def _source(path: str) -> str:
    """Where a name of the table is from: `module` or `module:name`."""
    module, _, name = path.rpartition(".")
    return CLOSED.get(module, {}).get(name, "")


@functools.cache
def _open_home(module: str) -> str | None:
    """The public module of mjax that has all names of a module of jax."""
    if module in CLOSED and module not in OPEN:
        return None
    home = OPEN.get(module, f"m{module}")
    if any(part.startswith("_") for part in home.split(".")) or module == _ITSELF:
        return None
    try:
        return home if importlib.util.find_spec(home) else None
    except ModuleNotFoundError:  # its parent is not there
        return None


def is_provided(module: str) -> bool:
    """Whether the alias has a module."""
    if module in CLOSED or _open_home(module) is not None:
        return True
    return any(other.startswith(f"{module}.") for other in (*CLOSED, *OPEN))


def _public_names(module: str) -> list[str]:
    home = _open_home(module)
    names = set(importlib.import_module(home).__all__) if home else set()
    inside = {other.removeprefix(f"{module}.").partition(".")[0]
              for other in (*CLOSED, *OPEN) if other.startswith(f"{module}.")}
    names |= {*CLOSED.get(module, ()), *inside}
    return sorted(name for name in names
                  if not name.startswith("_") and f"{module}.{name}" != _ITSELF)


def why_no_module(parent: str, name: str) -> str:
    """The message for a module that the alias does not have; it may be the name of an object."""
    try:
        _look_up(parent, name)
    except AttributeError as error:
        return str(error)
    return f"{parent}.{name} is not a module: write `from {parent} import {name}`"


def why_missing(module: str, name: str) -> str:
    """The message for a name that the alias does not have, with the alternative."""
    private = any(part.startswith("_") for part in f"{module}.{name}".split("."))
    if not private and module not in CLOSED and not module.startswith(("jax.extend", "jax.lib")):
        return why_absent(f"m{module}", name)
    kind = "is private to jax and" if private else "is not part of jax 0.10.2, or"
    said = f"mjax.alias does not provide {module}.{name}, which {kind} has no counterpart there."
    for home in SEARCHED:
        if hasattr(importlib.import_module(home), name):
            return f"{said} Use {home}.{name}."
    return f"{said} {page('alias.md')} lists the names that it provides."
