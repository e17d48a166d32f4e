"""Programs over several devices: what is left of JAX's module of this name.

Meshes and shardings are in `mjax.sharding`; compiled programs in `mjax.stages`.

- `thread_resources`: its `env.physical_mesh` is the mesh in force in this thread, an empty one if
  none is.
- `Index`, `MeshAxisName`, `ArrayMapping`: types of arguments.

Example:
  >>> from mjax_ext.interpreters import pxla
  >>> with mjax.set_mesh(mjax.make_mesh((1,), ("x",))):
  ...   print(pxla.thread_resources.env.physical_mesh.axis_names)
  ('x',)
"""

from __future__ import annotations

from mjax_ext.interpreters.pxla._devices import (
    ArrayMapping,
    Index,
    MeshAxisName,
    ResourceEnv,
    are_hlo_shardings_equal,
    array_mapping_to_axis_resources,
    create_compile_options,
    is_hlo_sharding_replicated,
    op_sharding_to_indices,
    thread_resources,
)

__all__ = [
    "ArrayMapping", "Index", "MeshAxisName", "ResourceEnv", "are_hlo_shardings_equal",
    "array_mapping_to_axis_resources", "create_compile_options", "is_hlo_sharding_replicated",
    "op_sharding_to_indices", "thread_resources",
]


def __dir__() -> list[str]:
    return sorted(__all__)
