"""The command line: a program under the alias."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence

from mjax.alias._install import JAX, install


def main(arguments: Sequence[str]) -> int:
    """Installs the alias and runs a script or a module as Python does; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mjax.alias",
        usage="%(prog)s [--jax-version N.N.N] (script.py | -m module) ...",
        description="Runs a program that imports jax on mjax.")
    parser.add_argument("--jax-version", default=JAX, help=f"jax.__version__ (default: {JAX})")
    parser.add_argument("-m", dest="is_module", action="store_true", help="run a module")
    parser.add_argument("program")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(arguments)
    try:
        install(given.jax_version)
    except ValueError as e:
        parser.error(str(e))
    sys.argv = [given.program, *given.rest]
    if given.is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(given.program, run_name="__main__", alter_sys=True)
    elif os.path.exists(given.program):
        sys.path.insert(0, os.path.dirname(os.path.abspath(given.program)))
        runpy.run_path(given.program, run_name="__main__")
    else:
        parser.error(f"there is no file {given.program!r}")
    return 0
