"""The version of mjax."""

#: The version of mjax.
__version__ = "0.1.0"
#: The version as numbers: major, minor, patch.
__version_info__: tuple[int, int, int] = (0, 1, 0)
