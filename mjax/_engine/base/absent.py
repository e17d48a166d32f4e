"""Names of JAX that mjax does not have, and what to use in their place.

The table is `absent.ini`, beside this file. It is read when a missing name is looked up.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping

#: The release whose names these are.
JAX = "0.10.2"
_Table = dict[str, dict[str, str]]


@functools.cache
def tables() -> Mapping[str, _Table]:
    """Kind of section -> module -> name -> text."""
    # Imported here: otherwise every import of mjax would pay for it.
    reader = importlib.import_module("configparser").ConfigParser(
        delimiters="=", interpolation=None)
    reader.optionxform = str
    with open(os.path.splitext(__file__)[0] + ".ini", encoding="utf-8") as file:
        reader.read_file(file)
    found: dict[str, _Table] = {"absent": {}, "former": {}, "elsewhere": {}}
    for section in reader.sections():
        kind, public = section.split()
        for names, text in reader[section].items():
            for path in names.split():
                module, _, name = f"{public}.{path}".rpartition(".")
                found[kind].setdefault(module, {})[name] = text.replace("{name}", name)
    return found


def why_absent(module: str, name: str) -> str:
    """The message for a name that a public module does not have.

    Example:
      >>> why_absent("mjax.numpy", "trapz").partition(": ")[2]
      'JAX removed jax.numpy.trapz before 0.10.2. Use mjax.numpy.trapezoid.'
    """
    said = f"module {module!r} has no attribute {name!r}"
    theirs = f"{module[1:]}.{name}"
    texts = {kind: table.get(module, {}).get(name) for kind, table in tables().items()}
    if texts["absent"]:
        return f"{said}. jax {JAX} has {theirs}. {texts['absent']}"
    if texts["former"]:
        return f"{said}: JAX removed {theirs} before {JAX}. Use {texts['former']}."
    neither = f"{said}. jax {JAX} does not have {theirs} either."
    return f"{neither} Use {texts['elsewhere']}." if texts["elsewhere"] else neither
