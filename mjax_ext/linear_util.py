"""Functions of flat values with transformations around them: JAX's `linear_util`.

`wrap_init` wraps a function. `transformation2` and `transformation_with_aux2` make functions that
put a transformation around it; `transformation` and `transformation_with_aux` do so for generators.
`CallPrimitive`s and the primitives of functions with rules take wrapped functions as `subfuns`.
"""

from mjax._engine.base.faces import face
from mjax._engine.control.calls.wrapped import (
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
    "StoreException", "WrappedFun", "annotate", "cache", "merge_linear_aux", "transformation",
    "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]

face("mjax_ext.linear_util")
