"""`mjax.ref`: mutable references, as in `jax.ref`."""

from mjax._engine.base.faces import face
from mjax._engine.ir.references import AbstractRef
from mjax._engine.tracing.reference import Ref
from mjax._numpy.references import (
    addupdate,
    empty_ref,
    free_ref,
    freeze,
    get,
    new_ref,
    set,
    swap,
)

__all__ = [
    "AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set",
    "swap",
]

face("mjax.ref")
