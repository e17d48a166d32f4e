"""Meshes of devices, and how arrays are cut along their axes."""

from mjax._engine.base.faces import face
from mjax._engine.ir.manual_axes import ManualAxisType
from mjax._engine.ir.mesh import AbstractMesh, AxisType, Mesh, PartitionSpec
from mjax._engine.runtime.arrays.meshes import (
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
    use_mesh,
)
from mjax._engine.runtime.arrays.shardings import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    make_single_device_sharding,
)

__all__ = [
    "AbstractMesh", "AxisType", "ManualAxisType", "Mesh", "NamedSharding", "PartitionSpec",
    "Sharding", "SingleDeviceSharding", "get_abstract_mesh", "get_mesh",
    "make_single_device_sharding", "set_mesh", "use_abstract_mesh", "use_mesh",
]

face("mjax.sharding")
