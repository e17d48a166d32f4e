"""The facts about the running jaxlib that reports show."""

from __future__ import annotations

from typing import Any

from . import GATES, SUPPORT, extension_version, jaxlib_version

__all__ = ["gates"]


def gates() -> dict[str, Any]:
    """The version, and each gate, declared and probed, as JSON-able data.

    Example:
      >>> from mjaxlib_shim import facts
      >>> sorted(facts.gates())[0]
      'extension_version'
    """
    return {
        "jaxlib": jaxlib_version,
        "extension_version": extension_version,
        "releases_with_this_extension_version": [
            r.version for r in SUPPORT if r.extension_version == extension_version
        ],
        "gates": [
            {
                "name": gate.name,
                "since_release": gate.since_release,
                "since_extension_version": gate.since_extension_version,
                "declared": gate.open,
                "probed": gate.probe(),
                "changed": gate.changed,
                "why": gate.why,
            }
            for gate in GATES
        ],
    }
