"""The facts about a running mjax that `python -m mjax` shows."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mjax._engine.base.config import checks, config, override
from mjax._engine.primitives.arithmetic import add
from mjax._engine.runtime.arrays.devices import default_backend
from mjax._engine.runtime.arrays.devices import devices as all_devices
from mjax._engine.runtime.dispatch.jit import jit


def refused_settings() -> dict[str, str]:
    """Flag -> message, for values that only the engine can check."""
    refused = {}
    for name, check in checks.items():
        try:
            check(config.values[name])
        except (TypeError, ValueError) as error:
            refused[name] = str(error)
    return refused


def devices() -> dict[str, Any]:
    """The default platform and its devices; whether something imported jax meanwhile."""
    return {
        "backend": default_backend(),
        "devices": [{"id": d.id, "platform": d.platform, "kind": d.device_kind,
                     "process": d.process_index} for d in all_devices()],
        "jax_loaded": "jax" in sys.modules,
    }


def computes() -> bool:
    """Whether one program compiles and runs, whatever may be moved; nothing is kept on disk.

    Raises:
      RuntimeError: it does, with a wrong result.
    """
    with override(enable_compilation_cache=False, transfer_guard="allow"):
        found = jit(lambda x: add(x, x))(np.arange(3, dtype=np.float32))
    if not np.array_equal(found, [0, 2, 4]):
        msg = f"[0, 1, 2] + [0, 1, 2] is {np.asarray(found)} on {found.device}."
        raise RuntimeError(msg)
    return True
