"""`ManualAxisType`, JAX's record of the axes along which values vary in shard_map."""

from __future__ import annotations

from typing import Any, Final

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.util import pickled_as

_NOTHING: frozenset[Any] = frozenset()


class ManualAxisType:
    """JAX's record of the manual mesh axes along which devices may hold different values.

    Args:
      varying: these axes, a set.
      unreduced, reduced: axes with pending sums. They belong to sharding in types, which mjax
        does not have: the sets must be empty.

    Raises:
      TypeError: `varying` is not a set.
      NotImplementedError: there are unreduced or reduced axes.

    Example:
      >>> mjax.sharding.ManualAxisType(varying={'x'}).varying
      frozenset({'x'})
    """

    __slots__ = ("varying",)
    varying: frozenset[Any]
    unreduced: Final = _NOTHING
    reduced: Final = _NOTHING

    def __init__(self, *, varying: Any = _NOTHING, unreduced: Any = _NOTHING,
                 reduced: Any = _NOTHING):
        if unreduced or reduced:
            msg = ("ManualAxisType: mjax has no unreduced and reduced axes (shardings are not part "
                   "of its types): give varying alone.")
            raise NotImplementedError(msg)
        if not isinstance(varying, (set, frozenset)):
            raise LazyTypeError(lambda: (
                f"ManualAxisType: varying must be a set of mesh axes, got {varying!r} of type "
                f"{type(varying).__name__}: write {{'x'}} for an axis 'x'."))
        object.__setattr__(self, "varying", frozenset(varying))

    def update(self, **kwargs: Any) -> ManualAxisType:
        """One of other axes."""
        return ManualAxisType(**{"varying": self.varying, **kwargs})

    def __setattr__(self, name: str, value: Any) -> None:
        msg = f"a ManualAxisType is immutable; .update({name}=...) gives a changed one."
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ManualAxisType) and self.varying == other.varying

    def __hash__(self) -> int:
        return hash(self.varying)

    def __reduce__(self) -> Any:
        return _manual_axis_type, (self.varying,)

    def __repr__(self) -> str:
        return (f"ManualAxisType(varying={self.varying}, unreduced={self.unreduced}, "
                f"reduced={self.reduced})")


@pickled_as("manual_axis_type_v1")
def _manual_axis_type(varying: frozenset[Any]) -> ManualAxisType:
    return ManualAxisType(varying=varying)
