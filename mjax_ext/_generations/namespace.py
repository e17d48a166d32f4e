"""Modules of a generation at run time: a name comes through the chain when it is first used."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from mjax_ext._manifest import MODULES, PACKAGES


def namespace(module: str) -> None:
    """Gives a module of a generation its `__getattr__` and `__dir__`.

    Args:
      module: its name, such as `mjax_ext.v1.core`. Its `__all__` lists its names.
    """
    names = vars(sys.modules[module])
    _, generation, *path = module.split(".")
    prefix = "".join(f"{part}." for part in path)

    def load(name: str) -> Any:
        if name.startswith("__"):  # asked for by Python
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name not in names["__all__"]:
            text = _chain().why_absent(module, name)
            raise AttributeError(text, name=name, obj=sys.modules[module])
        if prefix + name in MODULES or prefix + name in PACKAGES:
            return importlib.import_module(f"{module}.{name}")
        return names.setdefault(name, _chain().CHAIN.get(generation, prefix + name))

    names.update(__getattr__=load, __dir__=lambda: sorted(names["__all__"]))


def _chain() -> ModuleType:
    """The chain, which loads with the first name."""
    return importlib.import_module("mjax_ext._generations.chain")
