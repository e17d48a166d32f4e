"""Builds the kernels of the tests with the system's compiler."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import mjax

SOURCE = Path(__file__).with_name("kernels.cc")
#: Name of a target -> its convention: 1: XLA's typed FFI; 0: the one before.
TARGETS = {"affine": 1, "sum_diff": 1, "sizes": 1, "bump_first": 1, "attributes": 1, "count": 1,
           "ticket": 1, "fail": 1, "doubled": 0}


def compiler() -> str | None:
    """The system's compiler, if it has one."""
    return next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))),
                None)


def session_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a session share."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def built(folder: Path) -> ctypes.CDLL:
    """The library of kernels; the processes of a session share the folder, and build it once.

    Skips the test where there is no compiler.
    """
    found = compiler()
    if found is None:
        pytest.skip("there is no C++ compiler: c++, g++, clang++, or CXX")
    library = folder / "mjax_test_kernels.so"
    with open(folder / "mjax_test_kernels.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _build(found, library)
    return ctypes.CDLL(str(library))


def _build(command: str, library: Path) -> None:
    header = (Path(mjax.ffi.include_dir()) / "xla" / "ffi" / "api" / "ffi.h").read_text()
    defined = [f"-D{name}" for name, needs in (
        ("WITH_TYPES", "XLA_FFI_REGISTER_TYPE"), ("WITH_TYPE_INFO", "MakeTypeInfo"))
        if needs in header]
    subprocess.run([command, "-w", "-std=c++17", "-O0", "-shared", "-fPIC", *defined,
                    f"-I{mjax.ffi.include_dir()}", str(SOURCE), "-o", str(library)], check=True)


def register(kernels: ctypes.CDLL) -> None:
    """Registers all targets, by the prefix `mjax_test_`."""
    for name, version in TARGETS.items():
        mjax.ffi.register_ffi_target(f"mjax_test_{name}", mjax.ffi.pycapsule(
            getattr(kernels, name)), api_version=version)
