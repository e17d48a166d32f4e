"""`ShapeDtypeStruct`: the type of an array, in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.util import Keyed, check_order, pickled_as
from mjax._engine.ir import dtypes
from mjax._engine.ir.references import AbstractRef, is_reference
from mjax._engine.ir.types import AbstractValue, ManualAxisType, ShapedArray, typeof
from mjax._engine.runtime.arrays.constraints import check_rank, resolved
from mjax._engine.runtime.arrays.layouts import Format, Layout, layout_behind, sharding_behind
from mjax._engine.tracing.variance import typed_axes


class ShapeDtypeStruct(Keyed):
    """The type of an array, in place of one: for `eval_shape`, `make_jaxpr`, and the `trace`,
    `lower` and `eval_shape` of jitted functions.

    Args:
      shape: its shape.
      dtype: its dtype; uses without `enable_x64` take 64-bit dtypes for 32-bit ones.
      sharding: its place: a sharding, a `PartitionSpec` for the mesh that is set (`set_mesh`), or a
        `Format`; None: the default device.
      weak_type: whether promotion may pick the other operand's dtype.
      manual_axis_type: a `ManualAxisType` with the mesh axes along which devices may hold different
        values in the body of a shard_map; None: not specified.
      is_ref: whether it is the type of a mutable reference.
      vma: the same as a set of axes, as JAX had it before 0.10.

    Raises:
      TypeError: `sharding` is of another type, or a format with `Layout.AUTO`; `manual_axis_type`
        is of another type, or given together with `vma`.
      ValueError: the dtype is missing; a spec is longer than the shape, or no mesh is set for it.

    Example:
      >>> mjax.eval_shape(jnp.sin, mjax.ShapeDtypeStruct((2, 3), "float32"))
      ShapeDtypeStruct(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("_layout", "dtype", "is_ref", "manual_axis_type", "shape", "sharding",
                 "weak_type")
    _layout: Layout | None
    shape: tuple[int, ...]
    dtype: Any
    sharding: Any
    weak_type: bool
    manual_axis_type: ManualAxisType | None
    is_ref: bool

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None,
                 weak_type: bool = False, manual_axis_type: ManualAxisType | None = None,
                 is_ref: bool = False, vma: Any = None):
        if dtype is None:
            msg = "ShapeDtypeStruct: the dtype must be given."
            raise ValueError(msg)
        aval = ShapedArray(tuple(shape), dtypes.dtype_behind(dtype), weak_type)
        layout = layout_behind(sharding, "ShapeDtypeStruct")
        if layout is not None:
            check_order(layout.major_to_minor, aval.ndim, "ShapeDtypeStruct", layout)
        elif type(sharding) is Format and sharding.layout is not None:
            msg = "ShapeDtypeStruct: Layout.AUTO leaves the layout open; give one, or None."
            raise TypeError(msg)
        sharding = sharding_behind(sharding)
        if sharding is not None:
            sharding = resolved(sharding, "ShapeDtypeStruct")
            check_rank(sharding, aval, "ShapeDtypeStruct")
        if vma is not None:
            if manual_axis_type is not None:
                msg = ("ShapeDtypeStruct: vma and manual_axis_type say the same: give one of them.")
                raise TypeError(msg)
            manual_axis_type = ManualAxisType(varying=vma)
        if not isinstance(manual_axis_type, (ManualAxisType, type(None))):
            msg = ("ShapeDtypeStruct: manual_axis_type must be a mjax.sharding.ManualAxisType or "
                   f"None, got {manual_axis_type!r} of type {type(manual_axis_type).__name__}.")
            raise TypeError(msg)
        for name, value in (("shape", aval.shape), ("dtype", aval.dtype),
                            ("sharding", sharding), ("weak_type", aval.weak_type),
                            ("manual_axis_type", manual_axis_type), ("is_ref", bool(is_ref)),
                            ("_layout", layout)):
            object.__setattr__(self, name, value)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """The type of an array, its sharding included if the user chose it."""
        sharding = getattr(x, "sharding", None)  # tracers have none, and refuse `committed`
        return cls.of(typeof(x), sharding if sharding and getattr(x, "committed", False) else None)

    @classmethod
    def of(cls, aval: ShapedArray, sharding: Any = None) -> ShapeDtypeStruct:
        """A type of the engine, with a sharding."""
        return cls(aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=sharding,
                   manual_axis_type=aval.manual_axis_type if typed_axes() else None)

    @property
    def aval(self) -> ShapedArray | AbstractRef:
        """The type as the engine knows it, under the settings in force."""
        inner = ShapedArray(self.shape, dtypes.canonical_dtype(self.dtype), self.weak_type,
                            self.vma & typed_axes() if self.vma else frozenset())
        return AbstractRef(inner) if self.is_ref else inner

    @property
    def vma(self) -> frozenset[Any] | None:
        """The mesh axes along which devices may hold different values, if specified."""
        return None if self.manual_axis_type is None else self.manual_axis_type.varying

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def format(self) -> Format:
        """The sharding, and the layout in memory, as far as they are specified."""
        return Format(self._layout, self.sharding)

    def update(self, **kwargs: Any) -> ShapeDtypeStruct:
        """A copy with some of the arguments replaced.

        Raises:
          TypeError: a field does not exist.
        """
        shape, dtype, sharding, weak_type, manual_axis_type, is_ref = self._key()
        values = {"shape": shape, "dtype": dtype, "sharding": sharding, "weak_type": weak_type,
                  "manual_axis_type": manual_axis_type, "is_ref": is_ref} | kwargs
        if kwargs.get("vma") is not None:
            del values["manual_axis_type"]
        return ShapeDtypeStruct(values.pop("shape"), values.pop("dtype"), **values)

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"a ShapeDtypeStruct is immutable; .update({name}=...) gives a changed copy."
        raise AttributeError(msg)

    def __len__(self) -> int:
        return self.aval.length()

    def _key(self) -> tuple[Any, ...]:
        place = self.sharding if self._layout is None else self.format
        return self.shape, self.dtype, place, self.weak_type, self.manual_axis_type, self.is_ref

    def __reduce__(self) -> Any:
        return _rebuild, self._key()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        where = f", sharding={self.sharding}" if self.sharding is not None else ""
        manual = self.manual_axis_type
        varying = f", manual_axis_type={manual}" if manual is not None else ""
        order = f", format={self._layout}" if self._layout is not None else ""
        ref = ", is_ref=True" if self.is_ref else ""
        return (f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{weak}{where}{varying}"
                f"{order}{ref})")


@pickled_as("shape_dtype_struct_v1")
def _rebuild(shape: Any, dtype: Any, sharding: Any, weak_type: bool,
             manual_axis_type: ManualAxisType | None, is_ref: bool = False) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(shape, dtype, sharding=sharding, weak_type=weak_type,
                            manual_axis_type=manual_axis_type, is_ref=is_ref)


def aval_of(value: Any) -> Any:
    """The type of an argument of which only the type matters.

    It is an array or scalar, a `ShapeDtypeStruct`, a type, or any other object with `shape` and
    `dtype`.

    Raises:
      TypeError: it is not one of these.
    """
    if isinstance(value, AbstractValue):
        return value
    try:
        return typeof(value)
    except TypeError:
        if not (hasattr(value, "shape") and hasattr(value, "dtype")):
            raise
    return value if is_reference(value) else ShapedArray(
        tuple(value.shape), dtypes.canonical_dtype(value.dtype),
        bool(getattr(value, "weak_type", False)))
