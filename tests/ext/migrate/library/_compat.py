"""Names that moved between releases of jax."""

import jax

try:
    from jax.extend.core import DropVar
except ImportError:
    from jax.core import DropVar

if jax.__version_info__ >= (0, 10, 0):
    from jax.extend.core import jaxprs_in_params
else:
    from jax.core import jaxprs_in_params

try:
    from jax.interpreters.batching import not_mapped  # None in jax from 0.8 on
except ImportError:
    not_mapped = None
