"""Generation v1 (candidate) of `mjax_ext.interpreters`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.v1.interpreters import ad, batching, mlir, partial_eval, pxla, xla

__all__ = [
    "ad", "batching", "mlir", "partial_eval", "pxla", "xla",
]

namespace("mjax_ext.v1.interpreters")
