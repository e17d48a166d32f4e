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

    Raises:
      RuntimeError: the real jax is loaded already, or the alias is there with another version.

    Example:
      >>> import subprocess, sys
      >>> hook = "from mjax.alias.pytest import pytest_addoption; pytest_addoption(None); "
      >>> command = [sys.executable, "-c", hook + "import jax; print(jax.__version__)"]
      >>> subprocess.run(command, capture_output=True, text=True).stdout
      '0.10.2\\n'
    """
    install()


face("mjax.alias.pytest")
