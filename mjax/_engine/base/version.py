"""The version of mjax."""

__version__ = "0.1.0"
__version_info__: tuple[int, int, int] = (0, 1, 0)
