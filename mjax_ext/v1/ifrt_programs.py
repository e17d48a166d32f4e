"""Generation v1 (candidate) of `mjax_ext.ifrt_programs`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.ifrt_programs import (
        ifrt_programs,
        make_plugin_compile_options,
        make_plugin_program,
    )

__all__ = [
    "ifrt_programs", "make_plugin_compile_options", "make_plugin_program",
]

namespace("mjax_ext.v1.ifrt_programs")
