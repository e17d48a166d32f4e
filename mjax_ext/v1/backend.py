"""Generation v1 (candidate) of `mjax_ext.backend`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.backend import (
        backend_xla_version,
        backends,
        clear_backends,
        clear_in_memory_compilation_cache,
        get_backend,
        get_compile_options,
        get_default_device,
        is_known_platform,
        register_backend_cache,
        register_backend_factory,
    )

__all__ = [
    "backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache",
    "get_backend", "get_compile_options", "get_default_device", "is_known_platform",
    "register_backend_cache", "register_backend_factory",
]

namespace("mjax_ext.v1.backend")
