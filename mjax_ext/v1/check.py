"""Generation v1 (candidate) of `mjax_ext.check`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.check import Finding, Report, WrongRulesError, check_primitive

__all__ = [
    "check_primitive", "Finding", "Report", "WrongRulesError",
]

namespace("mjax_ext.v1.check")
