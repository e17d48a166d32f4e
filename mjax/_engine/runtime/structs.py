"""`ShapeDtypeStruct`: the type of an array, where an array is not needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.ir import dtypes
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.runtime.constraints import check_rank, resolved


class ShapeDtypeStruct:
    """The type of an array, where an array is not needed: for `eval_shape`, `make_jaxpr`, and
    the `trace`, `lower` and `eval_shape` of jitted functions.

    Args:
      shape: its shape.
      dtype: its dtype; 64-bit ones count as 32-bit ones where they are used without `enable_x64`.
      sharding: where it is: a sharding, or a `PartitionSpec` for the mesh that is set
        (`set_mesh`); None: on the default device.
      weak_type: whether promotion may pick the other operand's dtype.

    Raises:
      TypeError: `sharding` is none.
      ValueError: there is no dtype; a spec is longer than the shape, or no mesh is set that it
        could refer to.
    """

    __slots__ = ("dtype", "shape", "sharding", "weak_type")
    shape: tuple[int, ...]
    dtype: Any
    sharding: Any
    weak_type: bool

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None,
                 weak_type: bool = False):
        if dtype is None:
            msg = "ShapeDtypeStruct: the dtype must be given."
            raise ValueError(msg)
        aval = ShapedArray(tuple(shape), dtypes.dtype_behind(dtype), weak_type)
        if sharding is not None:
            sharding = resolved(sharding, "ShapeDtypeStruct")
            check_rank(sharding, aval, "ShapeDtypeStruct")
        for name, value in (("shape", aval.shape), ("dtype", aval.dtype),
                            ("sharding", sharding), ("weak_type", aval.weak_type)):
            object.__setattr__(self, name, value)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array, its sharding included if the user chose it."""
        aval = typeof(x)
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type,
                   sharding=x.sharding if getattr(x, "committed", False) else None)

    @property
    def aval(self) -> ShapedArray:
        """The type as the engine knows it, under the settings in force."""
        return ShapedArray(self.shape, dtypes.canonical_dtype(self.dtype), self.weak_type)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    def update(self, **fields: Any) -> ShapeDtypeStruct:
        """A copy with some of `shape, dtype, sharding, weak_type` replaced.

        Raises:
          TypeError: there is no such field.
        """
        values = {name: getattr(self, name) for name in self.__slots__} | fields
        return ShapeDtypeStruct(values.pop("shape"), values.pop("dtype"), **values)

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"a ShapeDtypeStruct is immutable; .update({name}=...) gives a changed copy."
        raise AttributeError(msg)

    def __len__(self) -> int:
        return self.aval.length()

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return _rebuild, self._key()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        where = f", sharding={self.sharding}" if self.sharding is not None else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{weak}{where})"


def _rebuild(shape: Any, dtype: Any, sharding: Any, weak_type: bool) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(shape, dtype, sharding=sharding, weak_type=weak_type)


def aval_of(value: Any) -> Any:
    """The type of an argument that only its type is needed of: of an array or scalar, a
    `ShapeDtypeStruct`, or any other object with `shape` and `dtype`.

    Raises:
      TypeError: it is none of these.
    """
    try:
        return typeof(value)
    except TypeError:
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            raise
    return ShapedArray(tuple(value.shape), dtypes.canonical_dtype(value.dtype),
                       bool(getattr(value, "weak_type", False)))
