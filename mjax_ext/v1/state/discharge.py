"""Generation v1 (candidate) of `mjax_ext.state.discharge`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.state.discharge import discharge_state

__all__ = [
    "discharge_state",
]

namespace("mjax_ext.v1.state.discharge")
