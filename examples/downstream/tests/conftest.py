"""A run that is to test a release of jaxlib refuses to test another one."""

import os

import jaxlib
import pytest


def pytest_sessionstart(session):
    expected = os.environ.get("EXPECTED_JAXLIB", jaxlib.__version__)
    if jaxlib.__version__ != expected:
        pytest.exit(f"jaxlib {jaxlib.__version__} is imported, not {expected}", returncode=3)
