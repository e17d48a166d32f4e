"""Names of platforms. A GPU goes by two: rules and branches may be for its vendor's, or for all."""

from __future__ import annotations

#: Those that XLA knows.
PLATFORMS = ("cpu", "cuda", "gpu", "METAL", "oneapi", "rocm", "tpu")
_GPUS = ("cuda", "rocm")


def names_of(platform: str) -> tuple[str, ...]:
    """The names under which something for a platform is found, the closest first.

    Example:
      >>> names_of("cuda"), names_of("gpu"), names_of("cpu")
      (('cuda', 'gpu'), ('gpu', 'cuda', 'rocm'), ('cpu',))
    """
    if platform == "gpu":
        return (platform, *_GPUS)
    return (platform, "gpu") if platform in _GPUS else (platform,)
