"""The remains of JAX's module of this name: `apply_primitive`."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.sockets import sockets
from mjax._engine.tracing.primitive import Primitive

__all__ = ["apply_primitive"]


def apply_primitive(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Applies a primitive by its lowering, compiled once per types and params.

    A primitive without an implementation is evaluated in this way.
    `p.def_impl(functools.partial(xla.apply_primitive, p))` does the same.

    Example:
      >>> from mjax_ext.interpreters import xla
      >>> float(xla.apply_primitive(lax.neg_p, 1.0))
      -1.0
    """
    return sockets.execute(primitive, args, params)


def __dir__() -> list[str]:
    return sorted(__all__)
