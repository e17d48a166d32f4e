"""Generation v1 (candidate) of `mjax_ext.traceback_util`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.traceback_util import (
        api_boundary,
        filter_traceback,
        include_frame,
        register_exclusion,
    )

__all__ = [
    "api_boundary", "filter_traceback", "include_frame", "register_exclusion",
]

namespace("mjax_ext.v1.traceback_util")
