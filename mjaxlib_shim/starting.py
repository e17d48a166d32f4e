"""Whether this process writes a report (`python -m mjax`), which has to end well where imports
do not."""

from __future__ import annotations

import sys

__all__ = ["reporting"]


def reporting(*packages: str) -> bool:
    """Whether this is `python -m PACKAGE`, with options at most, and the package is being imported.

    Args:
      packages: names; one of them has to be that package.

    Returns:
      A bool.

    Example:
      >>> from mjaxlib_shim.starting import reporting
      >>> reporting("mjax")
      False
    """
    arguments = getattr(sys, "argv", [])
    if arguments[:1] != ["-m"] or not all(a.startswith("-") for a in arguments[1:]):
        return False
    # The word before the arguments: `mjax` of `-m mjax`, or `-mmjax`.
    word = sys.orig_argv[-len(arguments)]
    return any(word == p or (word[0] == "-" and word.endswith(f"m{p}")) for p in packages)
