"""`set_xla_metadata`, and the metadata in force, for those who make equations."""

from __future__ import annotations

from typing import Any

from mjax._engine.ir.jaxpr import JaxprEqnContext
from mjax.experimental.xla_metadata import set_xla_metadata

__all__ = ["current_xla_metadata", "set_xla_metadata"]


def current_xla_metadata() -> dict[str, Any] | None:
    """The metadata of equations that are staged now, by name; None: there is none.

    Example:
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> with pe.xla_metadata_lib.set_xla_metadata(level=1):
      ...   print(pe.xla_metadata_lib.current_xla_metadata())
      {'level': 1}

    Source: JAX, `jax._src.xla_metadata_lib.current_xla_metadata`.
    """
    return JaxprEqnContext().xla_metadata


def __dir__() -> list[str]:
    return sorted(__all__)
