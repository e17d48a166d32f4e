"""Custom calls: registering targets, and jaxlib's own LAPACK kernels."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from . import lapack_gates
from .native import ext, xc

__all__ = [
    "custom_call_targets",
    "cuts_stacks",
    "lapack_kernel",
    "register_custom_call_target",
    "register_lapack",
]

_lock = threading.Lock()
_lapack_ready = False


def register_custom_call_target(
    name: str, capsule: Any, *, platform: str = "cpu", api_version: int = 1
) -> None:
    """Makes a C function callable as `stablehlo.custom_call @name`.

    `api_version` 1 is XLA's typed FFI, 0 the old untyped calling convention.
    """
    xc.register_custom_call_target(name, capsule, platform=platform, api_version=api_version)


def custom_call_targets(platform: str = "cpu") -> frozenset[str]:
    """The names registered for a platform (after its first client was made)."""
    return frozenset(ext.custom_call_targets(xc.xla_platform_names.get(platform, platform)))


#: Whether jaxlib has the kernels that some releases of the window lack.
_NEWER = {
    "geqp3": lapack_gates.LAPACK_PIVOTED.open,
    "gesvd": lapack_gates.LAPACK_GESVD.open,
    "gtsv": lapack_gates.LAPACK_PIVOTED.open,
    "ormqr": lapack_gates.LAPACK_ORMQR.open,
    "tridiagonal_solve_perturbed": lapack_gates.LAPACK_ORMQR.open,
    "trsm": lapack_gates.LAPACK_TRSM.open,
    "unmqr": lapack_gates.LAPACK_ORMQR.open,
}
#: Character of a NumPy dtype -> letter in the names of LAPACK's routines.
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


def lapack_kernel(name: str, dtype: str) -> str | None:
    """The target of a LAPACK kernel, or None if this jaxlib does not have it.

    `name` is without the letter of the dtype, such as `"potrf"`; `dtype` is NumPy's character.
    """
    if not _NEWER.get(name, True):
        return None
    if name == "tridiagonal_solve_perturbed":
        return f"{name}_ffi"
    return f"lapack_{_LETTERS[dtype]}{name}_ffi"


def cuts_stacks() -> bool:
    """Whether XLA can let each device compute its own matrices of a stack."""
    return lapack_gates.LAPACK_STACKS.open


def register_lapack() -> None:
    """Registers and initializes the `lapack_*_ffi` kernels; idempotent.

    Call it when a program that uses one is lowered, not before: it imports scipy, whose
    LAPACK jaxlib calls (0.3 to 0.7 s).
    """
    global _lapack_ready
    with _lock:
        if _lapack_ready:
            return
        lapack: Any = importlib.import_module("jaxlib.lapack")
        if lapack_gates.LAPACK_REGISTRATIONS.open:
            for platform, targets in lapack.registrations().items():
                for name, capsule, version in targets:
                    register_custom_call_target(
                        name, capsule, platform=platform, api_version=version
                    )
        lapack._lapack.initialize()
        if cuts_stacks():
            for name in custom_call_targets():
                if name.startswith(("lapack_", "tridiagonal_")):
                    ext.register_custom_call_as_batch_partitionable(name)
        _lapack_ready = True
