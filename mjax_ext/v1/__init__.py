"""Generation v1 (candidate) of `mjax_ext`.

`mjax_ext.require("v1")` gives it, or says what it needs. What it promises is in
`docs/policy.md`. `program` gives a program of `mjax` as this generation writes it.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext import explain

    program: Any

__all__ = [
    "explain", "program",
]

__getattr__, __dir__ = namespace("mjax_ext.v1", __all__)
