"""Rematerialization: `checkpoint`, its policies, names for values, saved residuals."""

from mjax._engine.base.faces import face
from mjax._engine.control.remat.policies import (
    Offloadable,
    Recompute,
    Saveable,
    checkpoint_policies,
)
from mjax._engine.control.remat.remat import checkpoint
from mjax._engine.control.remat.residuals import print_saved_residuals, saved_residuals
from mjax._engine.primitives.names import checkpoint_name

__all__ = [
    "Offloadable", "Recompute", "Saveable", "checkpoint", "checkpoint_name",
    "checkpoint_policies", "print_saved_residuals", "saved_residuals",
]

face("mjax.ad_checkpoint")
