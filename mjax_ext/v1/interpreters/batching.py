"""Generation v1 (candidate) of `mjax_ext.interpreters.batching`.

Written by `python -m mjax_ext manifest --write`: names and their tiers are in the manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mjax_ext._generations.namespace import namespace

if TYPE_CHECKING:
    from mjax_ext.interpreters.batching import (
        AxisData,
        BatchingRule,
        BatchTrace,
        BatchTracer,
        NotMapped,
        axis_primitive_batchers,
        batch_subtrace,
        bdim_at_front,
        broadcast,
        defbroadcasting,
        defreducer,
        defvectorized,
        fancy_primitive_batchers,
        is_vmappable,
        make_iota,
        matchaxis,
        moveaxis,
        not_mapped,
        primitive_batchers,
        register_vmappable,
        to_elt,
        unregister_vmappable,
        zero_if_mapped,
    )

__all__ = [
    "axis_primitive_batchers", "AxisData", "batch_subtrace", "BatchingRule", "BatchTrace",
    "BatchTracer", "bdim_at_front", "broadcast", "defbroadcasting", "defreducer", "defvectorized",
    "fancy_primitive_batchers", "is_vmappable", "make_iota", "matchaxis", "moveaxis", "not_mapped",
    "NotMapped", "primitive_batchers", "register_vmappable", "to_elt", "unregister_vmappable",
    "zero_if_mapped",
]

namespace("mjax_ext.v1.interpreters.batching")
