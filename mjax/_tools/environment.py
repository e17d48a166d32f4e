"""Facts about the machine for bug reports."""

from __future__ import annotations

import os
import platform
import sys

import numpy as np

from mjax._engine.base.folding import boundary
from mjax._engine.base.version import __version__
from mjax._engine.runtime.arrays.devices import (
    device_count,
    devices,
    local_device_count,
    process_count,
)
from mjax._tools.variables import shown
from mjaxlib_shim.versions import check

_PREFIXES = ("MJAX_", "JAX_", "XLA_")


@boundary
def print_environment_info(return_string: bool = False) -> str | None:
    """Prints versions, devices, the platform and variables of the environment, for bug reports.

    The variables are those whose names begin with MJAX_, JAX_ or XLA_. Values whose names suggest a
    secret (a key, token or password) are hidden.

    `python -m mjax` prints more, and what is wrong.

    Args:
      return_string: whether to return the text, and not print it.

    Returns:
      None, or the text with `return_string`.

    Raises:
      RuntimeError: a platform that the flags name is not available.

    Example:
      >>> mjax.print_environment_info(return_string=True).split(":")[0]
      'mjax'
    """
    lines = [
        f"mjax:   {__version__}", f"jaxlib: {check()}", f"numpy:  {np.__version__}",
        f"python: {sys.version.replace(chr(10), ' ')}",
        f"device info: {devices()[0].device_kind}-{device_count()}, {local_device_count()} local "
        "devices",
        f"process_count: {process_count()}", f"platform: {platform.uname()}",
        *(f"{name}={shown(name, value)}" for name, value in sorted(os.environ.items())
          if name.startswith(_PREFIXES)),
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None
