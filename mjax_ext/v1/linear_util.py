"""Generation v1 (candidate) of `mjax_ext.linear_util`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.linear_util import (
        StoreException,
        WrappedFun,
        annotate,
        cache,
        merge_linear_aux,
        transformation,
        transformation2,
        transformation_with_aux,
        transformation_with_aux2,
        wrap_init,
    )

__all__ = [
    "annotate", "cache", "merge_linear_aux", "StoreException", "transformation", "transformation2",
    "transformation_with_aux", "transformation_with_aux2", "wrap_init", "WrappedFun",
]

namespace("mjax_ext.v1.linear_util")
