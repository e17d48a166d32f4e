"""The functions that pickles name. They stay here; a changed form gets the next version."""

from __future__ import annotations

import mjax.random  # noqa: F401  # generators of keys are found by their names
from mjax._engine.ir.mesh import _abstract_mesh as abstract_mesh_v1
from mjax._engine.ir.mesh import _partition_spec as partition_spec_v1
from mjax._engine.ir.mesh import _unconstrained as unconstrained_v1
from mjax._engine.ir.pytree import _partial as partial_v1
from mjax._engine.ir.pytree import _tree_structure as tree_structure_v1
from mjax._engine.primitives.keys import _key_type as key_type_v1
from mjax._engine.runtime.array import _array as array_v1
from mjax._engine.runtime.structs import _rebuild as shape_dtype_struct_v1

__all__ = [
    "abstract_mesh_v1", "array_v1", "key_type_v1", "partial_v1", "partition_spec_v1",
    "shape_dtype_struct_v1", "tree_structure_v1", "unconstrained_v1"]
