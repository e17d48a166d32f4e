"""Generation v1 (candidate) of `mjax_ext.util`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.util import (
        merge_lists,
        partition_list,
        safe_map,
        safe_zip,
        split_list,
        unzip2,
        unzip3,
        wraps,
    )

__all__ = [
    "merge_lists", "partition_list", "safe_map", "safe_zip", "split_list", "unzip2", "unzip3",
    "wraps",
]

namespace("mjax_ext.v1.util")
