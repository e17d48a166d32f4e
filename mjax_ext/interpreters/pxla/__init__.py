"""Programs over several devices: what is left of JAX's module of this name.

Meshes and shardings are in `mjax.sharding`; compiled programs in `mjax.stages`.

- `thread_resources`: its `env.physical_mesh` is the mesh in force in this thread, an empty one if
  none is.
- `global_result_handlers[type(aval)](aval, sharding, committed)` is a function that makes a value
  of that type of the arrays that are its parts on each device. The mapping is read-only: types of
  one's own say of which arrays their values are made (`core.AbstractValue.physical`).
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
from mjax_ext.interpreters.pxla._results import (
    ResultsHandler,
    global_aval_to_result_handler,
    global_avals_to_results_handler,
    global_result_handlers,
)

__all__ = [
    "ArrayMapping", "Index", "MeshAxisName", "ResourceEnv", "ResultsHandler",
    "are_hlo_shardings_equal", "array_mapping_to_axis_resources", "create_compile_options",
    "global_aval_to_result_handler", "global_avals_to_results_handler", "global_result_handlers",
    "is_hlo_sharding_replicated", "op_sharding_to_indices", "thread_resources",
]


def __dir__() -> list[str]:
    return sorted(__all__)
