"""The script that `examination` runs in a process of its own: it tries imports and functions.

It needs the standard library alone. It writes a line of JSON before and after each stage, so that
whoever reads them knows what ended this process, or hangs.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import warnings
from typing import Any

__all__ = ["main"]


def main(path: list[str], stages: list[str], tolerated: list[str]) -> None:
    """Runs the stages until one fails.

    Args:
      path: becomes `sys.path`.
      stages: a module (`numpy`), which is imported; or one of its functions
        (`mjaxlib_shim.facts:gates`), which is called.
      tolerated: stages that may fail.
    """
    sys.path[:] = path
    # Others may print, too.
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for stage in stages:
        print(json.dumps({"begins": stage}), file=ours, flush=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            outcome = _outcome(stage)
        outcome["warnings"] = [
            str(w.message) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))
        ]
        print(json.dumps({"stage": stage, **outcome}, default=str), file=ours, flush=True)
        if "error" in outcome and stage not in tolerated:
            break
    ours.close()
    os._exit(0)  # what fails at exit is not the question


def _outcome(stage: str) -> dict[str, Any]:
    module, _, function = stage.partition(":")
    try:
        found = importlib.import_module(module)
        facts = getattr(found, function)() if function else {
            "version": getattr(found, "__version__", None),
            "file": getattr(found, "__file__", None),
        }
    except BaseException as error:
        return {"error": type(error).__name__, "message": str(error),
                "module": error.name if isinstance(error, ModuleNotFoundError) else None}
    return {"facts": facts}


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
