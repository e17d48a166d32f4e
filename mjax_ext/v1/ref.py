"""Generation v1 (candidate) of `mjax.ref`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax.ref import (
        AbstractRef,
        Ref,
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
    "AbstractRef", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "Ref", "set",
    "swap",
]

namespace("mjax_ext.v1.ref")
