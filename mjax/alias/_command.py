"""The command line: a program under the alias."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from mjax._tools.programs import add_program, check_program, run_program
from mjax.alias._install import JAX, install


def main(arguments: Sequence[str]) -> int:
    """Installs the alias and runs a script or a module as Python does; gives the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m mjax.alias",
        usage="%(prog)s [--jax-version N.N.N] (script.py | -m module) ...",
        description="Runs a program that imports jax on mjax.")
    parser.add_argument("--jax-version", default=JAX, help=f"jax.__version__ (default: {JAX})")
    add_program(parser)
    given = parser.parse_args(arguments)
    try:
        install(given.jax_version)
    except ValueError as e:
        parser.error(str(e))
    check_program(parser, given)
    run_program(given)
    return 0
