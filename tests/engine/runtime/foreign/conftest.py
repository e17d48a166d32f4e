"""The kernels in C++, registered."""

from __future__ import annotations

import ctypes

import pytest

from tests.kernels.building import built, register, session_folder


@pytest.fixture(scope="session")
def kernels(tmp_path_factory) -> ctypes.CDLL:
    found = built(session_folder(tmp_path_factory))
    register(found)
    return found
