"""Functions for authors of transformations: of pytrees as functions of leaves, names of arguments.

Their `WrappedFun`s are those of `mjax_ext.linear_util`.
"""

from mjax._engine.base.faces import face
from mjax._tools.api_util import (
    argnums_partial,
    debug_info,
    donation_vector,
    flatten_axes,
    flatten_fun,
    flatten_fun_nokwargs,
    rebase_donate_argnums,
    safe_map,
    shaped_abstractify,
)

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "rebase_donate_argnums", "safe_map", "shaped_abstractify",
]

face("mjax.api_util")
