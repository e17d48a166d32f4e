"""The fixture library, imported from a folder, and its own tests."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from pathlib import Path

LIBRARY = Path(__file__).parent / "library"


def copied(folder):
    """A copy of the library in a folder."""
    target = folder / "halves"
    shutil.copytree(LIBRARY, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def run_its_tests(folder, on):
    """Runs the tests of the library that lies in a folder; gives their names."""
    before = os.environ.get("HALVES_ON")
    os.environ["HALVES_ON"] = on
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        checks = vars(importlib.import_module("halves.checks"))
        names = [name for name in checks if name.startswith("test_")]
        for name in names:
            checks[name]()
        return names
    finally:
        sys.path.remove(str(folder))
        for name in [*sys.modules]:
            if name == "halves" or name.startswith("halves."):
                del sys.modules[name]
        if before is None:
            del os.environ["HALVES_ON"]
        else:
            os.environ["HALVES_ON"] = before
