"""Both libraries in one process: jax is imported first, with MJAX_FIRST=1 mjax."""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

for _name in ["mjax", "jax"] if os.environ.get("MJAX_FIRST") else ["jax", "mjax"]:
    importlib.import_module(_name)
    importlib.import_module(f"{_name}.numpy")

#: Programs on CPU map memory, of which Linux gives a process 65,530 pieces. XLA crashes beyond.
_MOST_MAPS = 25_000


@pytest.fixture(autouse=True, scope="module")
def _few_programs() -> Iterator[None]:
    """Forgets what both libraries have compiled where that becomes too much for one process."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        for name in ("jax", "mjax"):
            importlib.import_module(name).clear_caches()
        gc.collect()
