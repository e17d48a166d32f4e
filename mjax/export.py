"""Functions as portable programs, which other processes, machines and releases run."""

from mjax._engine.base.faces import face
from mjax._engine.ir.sizes import is_symbolic_dim
from mjax._export.checks import DisabledSafetyCheck
from mjax._export.exported import (
    Exported,
    maximum_supported_calling_convention_version,
    minimum_supported_calling_convention_version,
)
from mjax._export.exporting import default_export_platform, export
from mjax._export.reading import deserialize
from mjax._export.symbolic import SymbolicScope, symbolic_args_specs, symbolic_shape
from mjax._export.trees import (
    register_namedtuple_serialization,
    register_pytree_node_serialization,
)

__all__ = [
    "DisabledSafetyCheck", "Exported", "SymbolicScope", "default_export_platform", "deserialize",
    "export", "is_symbolic_dim", "maximum_supported_calling_convention_version",
    "minimum_supported_calling_convention_version", "register_namedtuple_serialization",
    "register_pytree_node_serialization", "symbolic_args_specs", "symbolic_shape",
]

face("mjax.export")
