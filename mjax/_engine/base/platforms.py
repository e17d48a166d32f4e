"""Names of platforms. A GPU has two: rules and branches may be for its vendor, or for all GPUs."""

from __future__ import annotations

#: Those that XLA knows.
PLATFORMS = ("cpu", "cuda", "gpu", "METAL", "oneapi", "rocm", "tpu")
_GPUS = ("cuda", "rocm")


def names_of(platform: str) -> tuple[str, ...]:
    """The names under which rules and branches for a platform are found, the closest first.

    Example:
      >>> names_of("cuda"), names_of("gpu"), names_of("cpu")
      (('cuda', 'gpu'), ('gpu', 'cuda', 'rocm'), ('cpu',))
    """
    if platform == "gpu":
        return (platform, *_GPUS)
    return (platform, "gpu") if platform in _GPUS else (platform,)
