"""`compute_on`, and the compute type in force, for those who make equations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mjax._engine.ir.jaxpr import JaxprEqnContext
from mjax.experimental.compute_on import compute_on

__all__ = ["compute_on", "current_compute_type", "extend_compute_type"]


@contextmanager
def extend_compute_type(c_type: str | None) -> Iterator[str | None]:
    """`compute_on` for a type that may be None, which changes nothing.

    Args:
      c_type: the compute type.

    Example:
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> with pe.compute_on.extend_compute_type("device_host"):
      ...   print(pe.compute_on.current_compute_type())
      device_host

    Source: JAX, `jax._src.compute_on.extend_compute_type`.
    """
    if c_type is None:
        yield None
        return
    with compute_on(c_type):
        yield c_type


def current_compute_type() -> str | None:
    """The compute type of equations that are staged now; None: that of the program.

    Example:
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> pe.compute_on.current_compute_type()

    Source: JAX, `jax._src.compute_on.current_compute_type`, before release 0.10.
    """
    return JaxprEqnContext().compute_type


def __dir__() -> list[str]:
    return sorted(__all__)
