"""Whether this process writes a report (`python -m mjax`), which has to end well where imports
do not; and how reports are printed."""

from __future__ import annotations

import os
import sys

__all__ = ["reporting", "show"]


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


def show(text: str) -> None:
    """Prints a report, wherever its output goes.

    Characters that the encoding of the output lacks are escaped. It is not an error if the reader
    of a pipe has gone, as in `python -m mjax | head -1`.

    Args:
      text: the report.

    Raises:
      AttributeError: it is not a string.

    Example:
      >>> from mjaxlib_shim.starting import show
      >>> show("mjax can run here.")
      mjax can run here.
    """
    if sys.stdout is None:  # closed by `>&-`
        return
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except BrokenPipeError:  # Python writes the rest at its exit, which would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
