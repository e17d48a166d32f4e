"""Custom calls: registering targets, and jaxlib's own LAPACK kernels."""

from __future__ import annotations

import importlib
import threading
from typing import Any

from . import gates
from .native import ext, xc

__all__ = ["custom_call_targets", "register_custom_call_target", "register_lapack"]

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
        if gates.LAPACK_REGISTRATIONS.open:
            for platform, targets in lapack.registrations().items():
                for name, capsule, version in targets:
                    register_custom_call_target(
                        name, capsule, platform=platform, api_version=version
                    )
        lapack._lapack.initialize()
        _lapack_ready = True
