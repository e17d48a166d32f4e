"""Runs libraries that import `jax` on mjax, unchanged; only for those that ask for it.

- `install()`: from then on, `import jax` in this process gives mjax under that name.
- `python -m mjax.alias script.py`, `python -m mjax.alias -m module`: a program under the alias.
- `pytest -p mjax.alias.pytest`: tests under the alias.

mjax itself never imports this module. `docs/alias.md` lists what the alias provides.
"""

from typing import TYPE_CHECKING

from mjax._engine.base.faces import face
from mjax.alias._install import install

if TYPE_CHECKING:
    from mjax.alias import pytest

__all__ = ["install", "pytest"]

face("mjax.alias")
