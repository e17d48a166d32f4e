"""Pages of the documentation, to which messages point: a wheel brings them along."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
#: In a wheel, and in a checkout.
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parent / "docs")


def page(name: str) -> str:
    """The file of a page, for messages and for those who read its tables.

    Args:
      name: its path below `docs`, such as `"policy.md"`.
    """
    return str(next((file for folder in _FOLDERS if (file := folder / name).exists()),
                    f"docs/{name}"))
