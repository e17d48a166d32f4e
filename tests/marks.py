"""Which cases of a test run always, and which in the sweep alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(values: Iterable[Any], every: int) -> list[Any]:
    """One of so many values for ordinary runs, beginning with the first; the others are slow."""
    return [value if i % every == 0 else pytest.param(value, marks=pytest.mark.slow)
            for i, value in enumerate(values)]
