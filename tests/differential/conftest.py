"""Both libraries in one process: jax is imported first, with MJAX_FIRST=1 mjax."""

from __future__ import annotations

import importlib
import os

for _name in ["mjax", "jax"] if os.environ.get("MJAX_FIRST") else ["jax", "mjax"]:
    importlib.import_module(_name)
    importlib.import_module(f"{_name}.numpy")
