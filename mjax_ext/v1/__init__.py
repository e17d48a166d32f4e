"""Generation v1 (candidate) of `mjax_ext`.

`mjax_ext.require("v1")` gives it, or says what it needs; `docs/policy.md` tells what it
promises. `program` gives a program of `mjax` as this generation writes it; `jaxlibs`
are the releases that its tests run on.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext import explain
    from mjax_ext.v1 import (
        api_util,
        backend,
        check,
        core,
        ffi,
        ifrt_programs,
        interpreters,
        linear_util,
        lowering,
        random,
        ref,
        sharding,
        source_info_util,
        state,
        traceback_util,
        util,
    )

    jaxlibs: Any  #: The releases of jaxlib on which the tests of this generation run.
    program: Any

__all__ = [
    "explain", "jaxlibs", "program",
    "api_util", "backend", "check", "core", "ffi", "ifrt_programs", "interpreters", "linear_util",
    "lowering", "random", "ref", "sharding", "source_info_util", "state", "traceback_util", "util",
]

namespace("mjax_ext.v1")
