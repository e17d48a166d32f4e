"""mjaxlib_shim: the only door from mjax to jaxlib.

Importing the package checks the installed jaxlib against the support window
(`versions.py`) before any of its C++ is loaded. Then it loads `jaxlib.xla_client`
and nothing else: MLIR, scipy and LAPACK are loaded on first use.
`jax` itself is never imported.

Engine code imports the seam it needs (`client`, `arrays`, `executables`, `guards`, `mlir`,
`trees`, `tracebacks`, `shardings`, `profiler`, `custom_calls`) and never
checks a jaxlib version: every difference between releases is a named `Gate`.
"""

from __future__ import annotations

import os as _os

from .starting import reporting
from .versions import (
    FLOOR,
    NEWEST,
    SUPPORT,
    JaxlibMissingError,
    JaxlibVersionError,
    Release,
    UntestedJaxlibWarning,
    check,
)

# The reports load jaxlib in a process of its own, which may die of it.
if not reporting("mjax", "mjaxlib_shim"):
    # Read once by jaxlib's logging when its first .so is loaded; unset, jaxlib 0.10+
    # prints an INFO line per device to stderr.
    _os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

    #: The version of the jaxlib that is loaded.
    jaxlib_version: str = check()

    from .gates import GATES, Gate, open_gates  # need a checked jaxlib
    from .native import extension_version

__all__ = [
    "FLOOR",
    "GATES",
    "NEWEST",
    "SUPPORT",
    "Gate",
    "JaxlibMissingError",
    "JaxlibVersionError",
    "Release",
    "UntestedJaxlibWarning",
    "check",
    "extension_version",
    "jaxlib_version",
    "open_gates",
]
