"""Several processes that run one program on the devices of all of them."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.processes.distributed import (
    barrier,
    initialize,
    is_initialized,
    key_value_delete,
    key_value_get,
    key_value_get_bytes,
    key_value_list,
    key_value_set,
    shutdown,
)

__all__ = [
    "barrier", "initialize", "is_initialized", "key_value_delete", "key_value_get",
    "key_value_get_bytes", "key_value_list", "key_value_set", "shutdown",
]

face("mjax.distributed")
