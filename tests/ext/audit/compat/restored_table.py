"""As genjax has it: a table that jax took away is put back for another library."""

import jax
from jax._src import core as _core

if not hasattr(jax.interpreters.xla, "pytype_aval_mappings"):
    jax.interpreters.xla.pytype_aval_mappings = _core.pytype_aval_mappings
