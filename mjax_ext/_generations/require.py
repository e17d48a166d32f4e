"""`mjax_ext.require`: the generation that a library builds on, or an error that says why not."""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from mjax._engine.base.pages import page
from mjax._engine.base.util import closest
from mjax._engine.base.version import __version__
from mjax_ext._manifest import GENERATIONS, RETIRED
from mjaxlib_shim import jaxlib_version


class GenerationError(ImportError):
    """A library asks for a generation of `mjax_ext`, or for jaxlibs, that are not there.

    Attributes:
      generation: the generation that it asks for.

    Example:
      >>> import mjax_ext
      >>> try:
      ...     mjax_ext.require("v1", jaxlib="<0.1")
      ... except mjax_ext.GenerationError as error:
      ...     print(error.generation)
      v1
    """

    def __init__(self, text: str, generation: Any):
        super().__init__(text, name=f"mjax_ext.{generation}")
        self.generation = generation


class MixedGenerationsWarning(UserWarning):
    """A library uses names of the head, or of two generations, beside the one that it requires.

    Example, for a library that moves step by step:
      >>> import warnings, mjax_ext
      >>> with warnings.catch_warnings():
      ...     warnings.simplefilter("ignore", mjax_ext.MixedGenerationsWarning)
      ...     ext = mjax_ext.require("v1")
    """


def require(generation: str, *, jaxlib: str | None = None) -> ModuleType:
    """The generation that a library builds on; call it at the top of the library.

    The modules of the library that are loaded by then are searched for imports of the head and of
    other generations, with which it would lose what the generation promises.

    Args:
      generation: its name, such as `"v1"`.
      jaxlib: the releases of jaxlib that the library works with, such as `">=0.6"` (PEP 440); None:
        all that mjax works with.

    Returns:
      The module `mjax_ext.v1`, whose submodules are attributes.

    Raises:
      GenerationError: there is no such generation, or another jaxlib is installed.

    Warns:
      MixedGenerationsWarning: a module of the library imports names of the head or of another
        generation.

    Example:
      >>> import mjax_ext
      >>> ext = mjax_ext.require("v1", jaxlib=">=0.4.36")
      >>> ext.core.Primitive("mine")
      mine

    Source: mjax's own; `docs/policy.md` says what a generation promises.
    """
    if not isinstance(generation, str) or generation not in GENERATIONS:
        raise GenerationError(_unknown(generation), generation)
    _check_jaxlib(generation, jaxlib)
    _warn_of_mixtures(generation, sys._getframe(1).f_globals)
    return importlib.import_module(f"mjax_ext.{generation}")


def _unknown(generation: Any) -> str:
    call = f"mjax_ext.require({generation!r})"
    exist = (f"mjax {__version__} has the generations {', '.join(GENERATIONS)}, with jaxlib "
             f"{jaxlib_version}. See {page('policy.md')}.")
    if isinstance(generation, str) and generation in RETIRED:
        return (f"{call}: the generation {generation!r} is retired; {RETIRED[generation]} is the "
                f"last release of mjax that has it: pip install 'mjax=={RETIRED[generation]}'. "
                f"{exist}")
    if generation == "head":
        return (f"{call}: the head is not a generation. Its names may change with every release; "
                f"import them from mjax_ext itself, and pin mjax: pip install "
                f"'mjax=={__version__}'. {exist}")
    meant = closest(generation.lower(), GENERATIONS) if isinstance(generation, str) else None
    return (f"{call}: there is no such generation"
            + (f"; did you mean {meant!r}? " if meant else ". ")
            + f"A later mjax may have it: pip install --upgrade mjax. {exist}")


def _check_jaxlib(generation: str, jaxlib: Any) -> None:
    if jaxlib is None:
        return
    call, installed = f"mjax_ext.require({generation!r}, jaxlib={jaxlib!r})", jaxlib_version
    about = (f"mjax {__version__} has the generations {', '.join(GENERATIONS)}. "
             f"See {page('policy.md')}.")
    try:
        wanted = SpecifierSet(jaxlib)
    except (InvalidSpecifier, TypeError, AttributeError):
        msg = (f"{call}: jaxlib={jaxlib!r} is not a set of releases, such as '>=0.6' or "
               f"'>=0.6,<0.11' (PEP 440). Installed is jaxlib {installed}; to change it: "
               f"pip install 'jaxlib>=0.6'. {about}")
        raise GenerationError(msg, generation) from None
    if not wanted.contains(installed, prereleases=True):
        msg = (f"{call}: jaxlib {installed} is installed, which is not {jaxlib}. "
               f"pip install 'jaxlib{wanted}' fixes it. {about}")
        raise GenerationError(msg, generation)


# ---- mixtures --------------------------------------------------------------------------

#: The folder of mjax_ext, whose examples are not a library.
_OURS = Path(__file__).parents[1]
#: Names of the head that every library may use.
_FOR_ALL = {"require", "GenerationError", "MixedGenerationsWarning"}


def _warn_of_mixtures(generation: str, caller: dict[str, Any]) -> None:
    others = [f"{file}:{line}: {name}" for file in _files(caller)
              for line, name in _foreign(file, generation)]
    if others:
        text = (f"this library requires {generation} of mjax_ext, but also imports\n  "
                + "\n  ".join(others[:10])
                + f"\nThese names are not of {generation}: the promise of a generation is not "
                f"theirs. Import them from mjax_ext.{generation}, or list them for yourself with "
                f"python -m mjax_ext audit. See {page('policy.md')}.")
        warnings.warn(text, MixedGenerationsWarning, stacklevel=3)


def _files(caller: dict[str, Any]) -> Iterator[Path]:
    """The caller's file, then those of its package and below that are loaded by now."""
    package = caller.get("__package__")
    others = [] if not package else [
        vars(module) for name, module in [*sys.modules.items()]
        if f"{name}.".startswith(f"{package}.") and isinstance(module, ModuleType)]
    files = [names.get("__file__") for names in [caller, *others]]
    for file in dict.fromkeys(file for file in files if isinstance(file, str)):
        if file.endswith(".py") and _OURS not in Path(file).parents:
            yield Path(file)


def _foreign(file: Path, generation: str) -> list[tuple[int, str]]:
    """Line and name of each use of `mjax_ext` in a file that is not of the generation."""
    try:
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text) if "mjax_ext" in text else ast.Module([], [])
    except (OSError, SyntaxError, ValueError):
        return []
    nodes = [*ast.walk(tree)]
    uses = [use for node in nodes for use in _imports(node)]
    modules = {bound for _, path, bound in uses if not path and bound}
    uses += [(node.lineno, node.attr, None) for node in nodes if isinstance(node, ast.Attribute)
             and isinstance(node.value, ast.Name) and node.value.id in modules]
    return sorted((line, f"mjax_ext.{path}") for line, path, _ in uses if path
                  and path.partition(".")[0] not in (generation, *_FOR_ALL)
                  and not path.startswith("__"))


def _imports(node: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    """Line, path below `mjax_ext`, and the name to which `mjax_ext` itself is bound if it is."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            top, _, path = alias.name.partition(".")
            if top == "mjax_ext":
                yield node.lineno, path, None
                if not path or alias.asname is None:
                    yield node.lineno, "", alias.asname or top
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
        top, _, path = node.module.partition(".")
        if top == "mjax_ext":
            for name in [path] if path else [alias.name for alias in node.names]:
                yield node.lineno, name, None
