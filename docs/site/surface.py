"""Every public name, at its one home, with the module of the engine that it comes from."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from mjax._engine.tracing.primitive import Primitive

#: Modules whose names are at home there, before all others of their package.
FIRST = (
    "mjax", "mjax.numpy", "mjax.lax", "mjax.random", "mjax.tree", "mjax.sharding", "mjax.debug",
    "mjax_ext", "mjax_ext.core", "mjax_ext.core.primitives", "mjaxlib_shim",
)
_SHARED = (int, float, str, bytes, type(None))
PACKAGES = ("mjax", "mjax_ext", "mjaxlib_shim")


@dataclass
class Name:
    """A public name.

    Attributes:
      module: the public module where it is at home.
      name: the name there.
      value: the object.
      source: the module that the public one imports it from.
      source_name: its name there.
      others: other public names of the object, in full.
    """

    module: str
    name: str
    value: Any
    source: str
    source_name: str
    others: list[str] = field(default_factory=list)

    @property
    def full(self) -> str:
        """The name with its module."""
        return f"{self.module}.{self.name}"

    @property
    def kind(self) -> str:
        """One of function, class, exception, primitive, constant."""
        return _kind(self.value)


def _kind(value: Any) -> str:
    if isinstance(value, Primitive):
        return "primitive"
    if isinstance(value, type):
        # A scalar type is a dtype; called, it makes an array.
        if type(value).__name__ == "ScalarMeta":
            return "constant"
        return "exception" if issubclass(value, BaseException) else "class"
    if inspect.isroutine(value) or (callable(value) and not hasattr(value, "__origin__")
                                    and value.__doc__ and not hasattr(value, "_fields")
                                    and type(value).__doc__ is not value.__doc__):
        return "function"
    return "constant"


def modules(package: str) -> list[str]:
    """The public modules of a package, those of `FIRST` at the front."""
    root = importlib.import_module(package)
    found = [package, *(module.name for module in pkgutil.walk_packages(
        root.__path__, f"{package}.") if "._" not in module.name and "__" not in module.name)]
    return sorted(found, key=lambda name: (
        ".v1" in name, ".experimental" in name,
        FIRST.index(name) if name in FIRST else len(FIRST), name))


@cache
def origins(module: str) -> dict[str, tuple[str, str]]:
    """Name -> the module that a public module imports it from, and its name there."""
    file = importlib.import_module(module).__file__
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(Path(file).read_text())) if file else ():
        if isinstance(node, ast.ImportFrom):
            package = module.rsplit(".", node.level - ("__init__" in str(file)))[0]
            source = ".".join(filter(None, (node.level and package, node.module)))
            for alias in node.names:
                found |= (origins(source) if alias.name == "*"
                          else {alias.asname or alias.name: (source, alias.name)})
    return found


def _exported(module: str) -> Iterator[tuple[str, Any]]:
    face = importlib.import_module(module)
    for name in getattr(face, "__all__", ()):
        value = getattr(face, name)
        if not isinstance(value, ModuleType):
            yield name, value


@cache
def surface() -> dict[str, list[Name]]:
    """Public module -> the names that are at home there, in the order of `__all__`."""
    homes: dict[Any, Name] = {}
    found: dict[str, list[Name]] = {}
    for module in (name for package in PACKAGES for name in modules(package)):
        own = found[module] = []
        exported = list(_exported(module))
        # If one object has two names in a module, its own `__name__` comes first.
        exported.sort(key=lambda pair: getattr(pair[1], "__name__", pair[0]) != pair[0])
        for name, value in exported:
            source, own_name = origins(module).get(name, (module, name))
            # Python shares equal numbers and texts: those are the same if they come from one line.
            same = isinstance(value, _SHARED) or value in ((), {})
            key = (source, own_name) if same else id(value)
            one = homes.get(key)
            if one is not None:
                one.others.append(f"{module}.{name}")
                continue
            entry = homes[key] = Name(module, name, value, source, own_name)
            own.append(entry)
        order = list(importlib.import_module(module).__dict__.get("__all__", ()))
        own.sort(key=lambda entry: order.index(entry.name))
    return found


def methods(value: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that a class of ours defines, with docstrings of their own."""
    seen = set()
    for base in value.__mro__:
        if not base.__module__.startswith(PACKAGES):
            continue
        for name, attribute in vars(base).items():
            function = getattr(attribute, "__func__", attribute)
            if name.startswith("_") or getattr(value, name, None) is None:
                continue
            if name in seen or not inspect.getdoc(attribute):
                continue
            if inspect.isfunction(function) or isinstance(
                    attribute, property) or hasattr(attribute, "func"):
                seen.add(name)
                yield name, attribute
