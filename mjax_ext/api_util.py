"""`mjax.api_util` under the name of the extension surface, and names of functions and arguments."""

from mjax._engine.base.faces import face
from mjax._tools.api_util import (
    argnums_partial,
    debug_info,
    donation_vector,
    flatten_axes,
    flatten_fun,
    flatten_fun_nokwargs,
    fun_sourceinfo,
    infer_argnums_and_argnames,
    rebase_donate_argnums,
    safe_map,
    shaped_abstractify,
)

__all__ = [
    "argnums_partial", "debug_info", "donation_vector", "flatten_axes", "flatten_fun",
    "flatten_fun_nokwargs", "fun_sourceinfo", "infer_argnums_and_argnames",
    "rebase_donate_argnums", "safe_map", "shaped_abstractify",
]

face("mjax_ext.api_util")
