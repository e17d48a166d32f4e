"""What the processes of one program tell each other through their devices."""

from mjax._engine.runtime.multihost import (
    assert_equal,
    broadcast_one_to_all,
    process_allgather,
    sync_global_devices,
)

__all__ = ["assert_equal", "broadcast_one_to_all", "process_allgather", "sync_global_devices"]
