"""Programs that commands run in this process: scripts and modules, as Python runs them."""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder


def add_program(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a program, and its own."""
    parser.add_argument("-m", dest="module", action="store_true",
                        help="the program is the name of a module, as of `python -m`")
    parser.add_argument("program", help="a script, or with -m a module")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # Python 3.11 would ask for them


def check_program(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends the process with a message if there is no such program."""
    program = options.program
    if options.module and not _runs(program):
        parser.error(f"there is no module {program!r} that can be run; give its name as "
                     "`python -m` takes it")
    if not options.module and not os.path.exists(program):
        parser.error(f"there is no file {program!r}; give the path of a Python program, or -m and "
                     "the name of a module")


def run_program(options: argparse.Namespace) -> None:
    """Runs the program of `python -m COMMAND PROGRAM ...`."""
    sys.argv = [options.program, *options.arguments]
    if options.module:
        runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        return
    if not sys.flags.safe_path:  # in place of the folder from which the command was called
        sys.path[0] = os.path.dirname(os.path.abspath(options.program))
    runpy.run_path(options.program, run_name="__main__")


def _runs(name: str) -> bool:
    """Whether there is such a module; of a package, whether it has a `__main__`."""
    return _found(name, _beside) or _found(name, lambda name, _: importlib.util.find_spec(name))


def _found(name: str, find: Callable[[str, ModuleSpec | None], ModuleSpec | None]) -> bool:
    spec = None
    try:
        for i in range(1, len(parts := name.split(".")) + 1):
            if (spec := find(".".join(parts[:i]), spec)) is None:
                return False
        return spec is not None and (spec.submodule_search_locations is None
                                     or find(f"{name}.__main__", spec) is not None)
    # The package above raises, or a name such as "", or a namespace in one that is not imported.
    except (ImportError, ValueError, KeyError):
        return False


def _beside(name: str, above: ModuleSpec | None) -> ModuleSpec | None:
    """A module of a package that is not imported for it: its program may be what is observed."""
    if above is None:
        return importlib.util.find_spec(name)
    return PathFinder.find_spec(name, above.submodule_search_locations or [])
