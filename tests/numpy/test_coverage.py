"""Every public function of mjax.numpy is called by some test beside its documentation's example."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import mjax.numpy as jnp

HERE = Path(__file__).parent
TEXT = "\n".join(path.read_text() for path in sorted(HERE.glob("test_*.py"))
                 if path.name not in ("test_coverage.py", "test_docstrings.py"))
#: Function -> its tests, where these are in another folder.
ELSEWHERE = {"from_dlpack": "engine/runtime/arrays/test_dlpack.py"}
#: Names that a test makes of parts.
PARTS = {f"atleast_{n}d": "atleast_{n}d" for n in (1, 2, 3)} | {
    f"unique_{part}": "unique_{part}" for part in ("all", "counts", "inverse")}
FUNCTIONS = [n for n in jnp.__all__ if callable(getattr(jnp, n))
             and not inspect.isclass(getattr(jnp, n))
             and getattr(jnp, n) is not getattr(np, n, None)]
NESTED = [f"{module}.{n}" for module in ("fft", "linalg") for n in getattr(jnp, module).__all__]


def is_called(name: str) -> bool:
    """Whether the tests have the name as that of a function, or of a row of a table."""
    return bool(re.search(
        rf"""jnp\.{re.escape(name)}\b|["'\s]{re.escape(name)}["'\s\[(.]""", TEXT))


@pytest.mark.parametrize("name", [*FUNCTIONS, *NESTED])
def test_function_is_tested(name: str) -> None:
    if name in ELSEWHERE:
        assert name in (HERE.parent / ELSEWHERE[name]).read_text()
        return
    function = inspect.unwrap(getattr(jnp, name, None))
    same = [n for n in FUNCTIONS if inspect.unwrap(getattr(jnp, n)) is function]  # aliases
    names = [name, name.partition(".")[2] or name, *same]
    assert any(map(is_called, names)) or PARTS.get(name, name) in TEXT, f"no test calls jnp.{name}"
