"""Generation v1 (candidate) of `mjax_ext.source_info_util`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.source_info_util import (
        NameStack,
        SourceInfo,
        current,
        current_name_stack,
        extend_name_stack,
        new_name_stack,
        new_source_info,
        register_exclusion,
        reset_name_stack,
        set_name_stack,
        summarize,
        transform_name_stack,
        user_context,
    )

__all__ = [
    "current", "current_name_stack", "extend_name_stack", "NameStack", "new_name_stack",
    "new_source_info", "register_exclusion", "reset_name_stack", "set_name_stack", "SourceInfo",
    "summarize", "transform_name_stack", "user_context",
]

namespace("mjax_ext.v1.source_info_util")
