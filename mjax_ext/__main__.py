"""`python -m mjax_ext COMMAND`: tools for authors of primitives."""

from __future__ import annotations

import importlib
import sys

#: Command -> the module whose `main(arguments)` it is, and its line of the help.
COMMANDS = {
    "audit": ("mjax_ext._audit.command", "lists uses of the extension surface in a library"),
    "check": ("mjax_ext.check._command", "checks the rules of a primitive"),
    "explain": ("mjax_ext._explain", "lists missing rules and refused effects of a function"),
    "manifest": ("mjax_ext._generations.snapshot", "compares the manifest with the code"),
    "migrate": ("mjax_ext._migrate.command", "rewrites a library for a generation")}


def main(arguments: list[str]) -> int:
    """Runs a command; gives its exit status."""
    if arguments and arguments[0] in COMMANDS:
        module, _ = COMMANDS[arguments[0]]
        return int(importlib.import_module(module).main(arguments[1:]))
    asked = arguments[:1] in (["-h"], ["--help"])
    print("\n".join([
        f"usage: python -m mjax_ext {{{','.join(COMMANDS)}}} ...", "",
        *(f"  {command:<9} {line}" for command, (_, line) in COMMANDS.items()), "",
        "python -m mjax_ext COMMAND --help tells the arguments of one."]),
        file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
