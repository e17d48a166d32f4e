"""Gates, and ways to probe the installed library."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from .native import extension_version, nb_signatures

__all__ = ["Gate", "file_mentions", "jaxlib_file", "keyword"]


class Gate(NamedTuple):
    """One place where two jaxlib releases differ.

    `probe()` returns True where the library has the new form; it loads nothing heavy.

    Args:
      name: its name.
      changed: what differs.
      since_extension_version: the number of the first release that has the new form.
      since_release: that release.
      why: why it matters.
      probe: the function that looks.

    Example:
      >>> import mjaxlib_shim
      >>> sum(gate.open for gate in mjaxlib_shim.GATES) == len(mjaxlib_shim.open_gates())
      True
    """

    name: str
    changed: str
    since_extension_version: int
    since_release: str
    why: str
    probe: Callable[[], bool]

    @property
    def open(self) -> bool:
        """Whether the running jaxlib has the new form."""
        return self.open_on(extension_version)

    def open_on(self, version: int) -> bool:
        """Whether a jaxlib with this extension version has the new form."""
        return version >= self.since_extension_version


def jaxlib_file(*path: str) -> bool:
    """Whether the installed jaxlib has a module of this path; imports nothing.

    Args:
      path: the parts of the module's path below jaxlib.

    Returns:
      A bool.

    Raises:
      ValueError: `path` is empty.
      OSError: jaxlib does not have the folder of the module.
      TypeError: a part of the folder's path is not a string.

    Example:
      >>> from mjaxlib_shim import gate
      >>> gate.jaxlib_file("mlir", "ir"), gate.jaxlib_file("mlir", "no_such_module")
      (True, False)
    """
    import jaxlib

    *folders, name = path
    folder = os.path.join(jaxlib.__path__[0], *folders)
    return any(entry.split(".")[0] == name for entry in os.listdir(folder))


def keyword(function: object, name: str) -> bool:
    """Whether a function of jaxlib takes an argument of this name.

    Args:
      function: the function.
      name: the name of the argument.

    Returns:
      A bool.

    Raises:
      TypeError: `function` is not callable.
      ValueError: Python does not know its signature, which holds for some builtins.

    Example:
      >>> from mjaxlib_shim import gate
      >>> gate.keyword(lambda x: x, "x"), gate.keyword(lambda x: x, "y")
      (True, False)
    """
    signatures = nb_signatures(function)
    if not signatures:
        import inspect

        return name in inspect.signature(function).parameters  # type: ignore[arg-type]
    return any(f"{name}:" in text for text in signatures)


def file_mentions(pattern: str, *path: str) -> bool:
    """Whether a line of a Python file of jaxlib has this pattern (its import may be heavy).

    Args:
      pattern: a regular expression.
      path: the parts of the file's path below jaxlib.

    Returns:
      A bool.

    Raises:
      OSError: jaxlib does not have this file.
      UnicodeDecodeError: the file is not text in UTF-8.
      re.error: `pattern` is not a regular expression.
      TypeError: `pattern` or a part of `path` is not a string.

    Example:
      >>> from mjaxlib_shim import gate
      >>> gate.file_mentions("__version__", "version.py")
      True
    """
    import jaxlib

    with open(os.path.join(jaxlib.__path__[0], *path), encoding="utf-8") as file:
        return re.search(pattern, file.read()) is not None
