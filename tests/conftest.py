"""What holds for every test: each jaxpr that is built is type-checked, and there are 8 devices.

The switches are environment variables, so that subprocesses have them too and the tests of the
shim need no mjax.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from typing import Any

import pytest

os.environ.setdefault("MJAX_ENABLE_CHECKS", "1")
# Read by XLA at the first client; on every jaxlib of the window.
_FLAG = "--xla_force_host_platform_device_count"
if _FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}=8".strip()


@pytest.fixture
def small_heap() -> None:
    """The collector sees what the test makes alone: to look for leaks takes long in a full heap."""
    _freeze()


def pytest_collection_finish() -> None:
    """The collector passes over the tests, of which there are thousands, and their modules."""
    _freeze()


def _freeze() -> None:
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The 20 slowest files of a long run."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, "duration"):
                seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > 20:
        terminalreporter.section(f"20 slowest files of {sum(seconds.values()):.0f} s")
        for path, spent in seconds.most_common(20):
            terminalreporter.line(f"{spent:7.1f} s  {path}")
