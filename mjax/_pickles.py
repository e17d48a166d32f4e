"""The functions that pickles name. They stay here; a changed form gets the next version."""

from __future__ import annotations

import mjax.random  # noqa: F401  # generators of keys are found by their names
from mjax._engine.ir.pytree import _tree_structure as tree_structure_v1
from mjax._engine.primitives.keys import _key_type as key_type_v1
from mjax._engine.runtime.array import _array as array_v1

__all__ = ["array_v1", "key_type_v1", "tree_structure_v1"]
