"""`python -m mjax_ext COMMAND`: tools for authors of primitives."""

from __future__ import annotations

import importlib
import sys

#: Command -> the module whose `main(arguments)` it is.
COMMANDS = {
    "audit": "mjax_ext._audit.command", "check": "mjax_ext.check._command",
    "explain": "mjax_ext._explain", "manifest": "mjax_ext._generations.snapshot",
    "migrate": "mjax_ext._migrate.command"}


def main(arguments: list[str]) -> int:
    """Runs a command; gives its exit status."""
    if not arguments or arguments[0] not in COMMANDS:
        print(f"usage: python -m mjax_ext {{{','.join(COMMANDS)}}} ...", file=sys.stderr)
        return 2
    return int(importlib.import_module(COMMANDS[arguments[0]]).main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
