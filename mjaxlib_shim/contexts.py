"""Contexts without dialects, and the registry of dialects; importing this loads MLIR."""

from __future__ import annotations

from typing import Any

from .mlir import context_class, dialect_registry

__all__ = ["JaxIrContext", "upstream_dialects"]

JaxIrContext: Any = context_class()
upstream_dialects: Any = dialect_registry()
