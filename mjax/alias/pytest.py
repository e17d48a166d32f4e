"""A pytest plugin: `pytest -p mjax.alias.pytest` runs the tests under the alias.

Options come first, so it installs the alias before plugins of other packages, conftest files and
tests are imported.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.faces import face
from mjax.alias._install import install

__all__ = ["pytest_addoption"]


def pytest_addoption(parser: Any) -> None:
    """Installs the alias: pytest's first hook.

    Args:
      parser: pytest's; it is not used.
    """
    install()


face("mjax.alias.pytest")
