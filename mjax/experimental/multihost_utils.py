"""Exchange of values between the processes of one program, through their devices."""

from mjax._engine.base.faces import face
from mjax._engine.runtime.processes.multihost import (
    assert_equal,
    broadcast_one_to_all,
    global_array_to_host_local_array,
    host_local_array_to_global_array,
    process_allgather,
    sync_global_devices,
)

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
    "host_local_array_to_global_array", "process_allgather", "sync_global_devices",
]

face("mjax.experimental.multihost_utils")
