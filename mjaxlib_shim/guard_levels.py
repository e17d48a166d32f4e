"""The names that transfer guards use; `guards` has the guards."""

from __future__ import annotations

__all__ = ["DIRECTIONS", "LEVELS"]

#: The directions of copies that guards watch.
DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")
#: They are jaxlib's names, in small letters.
LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
