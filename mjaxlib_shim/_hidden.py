"""Keeps C++ from importing jax behind our back.

From jaxlib 0.10.0 on, a few array methods run `import jax._src...` in C++ on every
call. With jax installed, that would load all of jax into a process that never asked
for it. A finder at the head of `sys.meta_path` refuses `jax` while this thread is
inside such a method. The user's own `import jax` works.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

__all__ = ["without_jax"]


class _WithoutJax(threading.local):
    """Re-entrant context manager, per thread."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc_info: object) -> None:
        self.depth -= 1


without_jax = _WithoutJax()


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if without_jax.depth and name.partition(".")[0] == "jax":
            raise ModuleNotFoundError(f"hidden import of {name} from jaxlib refused", name=name)


sys.meta_path.insert(0, _Finder)
