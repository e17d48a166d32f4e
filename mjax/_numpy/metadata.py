"""The inspection functions of the Python array API standard for `mjax.numpy`."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.runtime.arrays.devices import devices

#: The version of the standard that `mjax.numpy` follows.
__array_api_version__ = "2024.12"

_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
          "real floating": "f", "complex floating": "c", "numeric": "iufc"}
_NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float32", "float64", "complex64", "complex128")


class ArrayNamespaceInfo:
    """The inspection object of `mjax.numpy`.

    Source: the Python array API standard, 2024.12, "Inspection".
    """

    def capabilities(self) -> dict[str, Any]:
        """The optional features of the standard, and whether they exist.

        Data-dependent shapes are False: they do not exist inside of transformations.
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None: arrays are not committed to a device by default."""
        return

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The default dtypes of functions, by kind.

        Args:
          device: ignored: all devices have the same.
        """
        integer = dtypes.dtype_of_python(int)
        return {"real floating": dtypes.dtype_of_python(float),
                "complex floating": dtypes.dtype_of_python(complex),
                "integral": integer, "indexing": integer}

    @boundary
    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
               ) -> dict[str, Any]:
        """The dtypes of the standard, by name; those of 64 bits with x64 on.

        Args:
          device: has no effect: all devices have the same.
          kind: which: `"bool"`, `"signed integer"`, `"unsigned integer"`, `"integral"`, `"real
            floating"`, `"complex floating"`, `"numeric"`, or a tuple of these; by default all.

        Raises:
          KeyError: an unknown kind.
        """
        asked = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (
            kind,)
        for k in asked:
            if k not in _KINDS:
                msg = f"dtypes: kind must be one of {', '.join(map(repr, _KINDS))}; got {k!r}."
                raise KeyError(msg)
        known = [dtypes.as_dtype(name) for name in _NAMES]
        wanted = "".join(_KINDS[k] for k in asked)
        return {str(d.name): d for d in known
                if dtypes.kind(d) in wanted and dtypes.canonicalize(d) == d}

    def devices(self) -> list[Any]:
        """None, which is the default, and all devices."""
        return [None, *devices()]


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """An object whose methods tell dtypes, devices and capabilities of `mjax.numpy`.

    Source: the Python array API standard, 2024.12, "Inspection".

    Example:
      >>> jnp.__array_namespace_info__().dtypes(kind="complex floating")
      {'complex64': dtype('complex64')}
    """
    return ArrayNamespaceInfo()


__all__ = ["ArrayNamespaceInfo", "__array_api_version__", "__array_namespace_info__"]
