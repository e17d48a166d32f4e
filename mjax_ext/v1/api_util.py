"""Generation v1 (candidate) of `mjax_ext.api_util`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.api_util import (
        argnums_partial,
        debug_info,
        donation_vector,
        flatten_axes,
        flatten_fun,
        flatten_fun_nokwargs,
        infer_argnums_and_argnames,
        rebase_donate_argnums,
        safe_map,
        shaped_abstractify,
    )

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "infer_argnums_and_argnames", "rebase_donate_argnums", "safe_map",
    "shaped_abstractify",
]

namespace("mjax_ext.v1.api_util")
