"""The loaded C++ library: two module objects, and its own version counter.

`xc` is `jaxlib.xla_client`, the Python face, where names move least. `ext` is the
C++ extension module below it. Only modules of this package import this one.
"""

from __future__ import annotations

from typing import Any

# First, so that a broken NumPy raises its own error: C++ of older jaxlibs ends the process.
import numpy  # noqa: F401
from jaxlib import cpu_feature_guard

# A readable RuntimeError on a machine without AVX, instead of SIGILL later on.
cpu_feature_guard.check_cpu_features()

from jaxlib import xla_client  # noqa: E402

__all__ = ["ext", "extension_version", "nb_signatures", "xc"]

xc: Any = xla_client

#: `jaxlib._jax` (0.6.1 on) or `jaxlib.xla_extension` (before). xla_client holds it
#: under the same private name in every release, which spares a gate.
ext: Any = xc._xla

#: jaxlib's own counter of API changes; not unique per release, but monotonic.
extension_version: int = xc._version


def nb_signatures(function: Any) -> tuple[str, ...]:
    """The C++ overloads of `function` as text; `()` if it is not a nanobind function.

    Args:
      function: the function.

    Returns:
      A tuple of strings.

    Example:
      >>> from mjaxlib_shim import native
      >>> native.nb_signatures(len)
      ()
    """
    return tuple(overload[0] for overload in getattr(function, "__nb_signature__", ()))
