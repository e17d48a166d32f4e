"""Layouts: the order in which the elements of arrays lie in memory.

Arrays are row-major, unless `device_put` or `jit` was asked for another order (see
`memory_order`). Inside of a program XLA chooses, unless `with_layout_constraint` asks for an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mjax._engine.base.errors import LazyNotImplementedError, LazyTypeError, LazyValueError
from mjax._engine.base.util import Keyed, pickled_by
from mjax._engine.runtime.arrays.shardings import Sharding


class AutoLayout:
    """Leaves the order to the compiler; see `Layout.AUTO`."""

    def __repr__(self) -> str:
        return "AUTO"


@pickled_by("layout_v1", "major_to_minor", "tiling", "sub_byte_element_size_in_bits")
class Layout(Keyed):
    """The order of an array's axes in memory.

    Args:
      major_to_minor: the axes, slowest varying first.
      tiling: sizes of tiles, outermost first; None: not specified.
      sub_byte_element_size_in_bits: the size of elements that share bytes; 0: none do.

    Attributes:
      AUTO: a layout that the compiler chooses.

    Example:
      >>> Layout((1, 0))
      Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("major_to_minor", "sub_byte_element_size_in_bits", "tiling")
    AUTO: Final = AutoLayout()
    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None
    sub_byte_element_size_in_bits: int

    def __init__(self, major_to_minor: Sequence[int],
                 tiling: Sequence[Sequence[int]] | None = None,
                 sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _key(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __repr__(self) -> str:
        return (f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
                f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})")


class Format(Keyed):
    """The sharding of an array, and its layout in memory.

    Args:
      layout: a `Layout`, `Layout.AUTO`, or None: not specified.
      sharding: a sharding, or None: not specified.

    Raises:
      TypeError: an argument is none of these.
      ValueError: there is a layout without a sharding.

    Example:
      >>> Format(Layout((1, 0)), jnp.ones(1).sharding).layout.major_to_minor
      (1, 0)
    """

    __slots__ = ("layout", "sharding")
    layout: Layout | AutoLayout | None
    sharding: Sharding | None

    def __init__(self, layout: Layout | AutoLayout | None = None,
                 sharding: Sharding | None = None):
        if not (layout is None or isinstance(layout, (Layout, AutoLayout))):
            raise LazyTypeError(lambda: (
                f"Format: layout must be a Layout, Layout.AUTO or None, got {layout!r} of type "
                f"{type(layout).__name__}."))
        if not (sharding is None or isinstance(sharding, Sharding)):
            raise LazyTypeError(lambda: (
                f"Format: sharding must be a sharding or None, got {sharding!r} of type "
                f"{type(sharding).__name__}."))
        if sharding is None and isinstance(layout, Layout):
            raise LazyValueError(lambda: (
                f"Format: {layout} needs a sharding beside it: a layout is that of one place."))
        self.layout = layout
        self.sharding = sharding

    def _key(self) -> tuple[Any, ...]:
        return self.layout, self.sharding

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def format_of(ndim: int, sharding: Any) -> Format:
    """The format of row-major arrays."""
    return Format(Layout(range(ndim), (), 0), sharding)


def sharding_behind(given: Any) -> Any:
    """The sharding of a format, or None; anything else as it is."""
    return given.sharding if type(given) is Format else given


def layout_behind(given: Any, who: str) -> Layout | None:
    """The layout that a format asks for; None if it does not, or the compiler chooses.

    Raises:
      NotImplementedError: the layout has tiles.
    """
    layout = given.layout if type(given) is Format else None
    if not isinstance(layout, Layout):
        return None
    if layout.tiling:
        raise LazyNotImplementedError(lambda: (
            f"{who}: {layout} has tiles, which arrays of mjax do not have. Leave tiling out."))
    return layout
