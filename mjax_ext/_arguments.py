"""Arguments of commands: the parser, and objects by their names."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any


def parser_of(command: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """The parser of a command.

    Args:
      command: its name.
      description: what it does.
      epilog: its exit status.
    """
    return argparse.ArgumentParser(f"python -m mjax_ext {command}", allow_abbrev=False,
                                   description=description, epilog=epilog)


def named(parser: argparse.ArgumentParser, name: str) -> Any:
    """The object `module:attribute`; modules are found in the current folder, too.

    Args:
      parser: that of the command; it reports what is not there, and ends the command.
      name: the argument.
    """
    module, _, path = name.partition(":")
    if not module or not path or module.startswith("."):
        parser.error(f"{name!r} must have the form module:name.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError) as error:
        parser.error(f"{name} is not there: {type(error).__name__}: {error}")
    return found


def called(parser: argparse.ArgumentParser, name: str) -> Any:
    """The result of the function `module:attribute`."""
    function = named(parser, name)
    if not callable(function):
        parser.error(f"{name} is {function!r}, which is not a function.")
    return function()
