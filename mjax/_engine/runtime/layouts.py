"""Layouts: the order in which the elements of arrays lie in memory.

The arrays of mjax are row-major, on every device it runs on. Inside of a program XLA chooses,
unless `with_layout_constraint` asks for an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyNotImplementedError, LazyTypeError, LazyValueError
from mjax._engine.base.util import pickled_by
from mjax._engine.runtime.shardings import Sharding


class AutoLayout:
    """Leaves the order to the compiler; see `Layout.AUTO`."""

    def __repr__(self) -> str:
        return "AUTO"


@pickled_by("layout_v1", "major_to_minor", "tiling", "sub_byte_element_size_in_bits")
class Layout:
    """The order of an array's axes in memory.

    Args:
      major_to_minor: the axes, the one whose elements lie furthest apart first.
      tiling: sizes of tiles, outermost first; None: not said.
      sub_byte_element_size_in_bits: of elements that share bytes; 0: none do.

    Attributes:
      AUTO: stands for a layout that the compiler chooses.

    Example:
      >>> Layout((1, 0))
      Layout(major_to_minor=(1, 0), tiling=None, sub_byte_element_size_in_bits=0)
    """

    __slots__ = ("major_to_minor", "sub_byte_element_size_in_bits", "tiling")
    AUTO = AutoLayout()

    def __init__(self, major_to_minor: Sequence[int],
                 tiling: Sequence[Sequence[int]] | None = None,
                 sub_byte_element_size_in_bits: int = 0):
        self.major_to_minor = tuple(major_to_minor)
        self.tiling = None if tiling is None else tuple(map(tuple, tiling))
        self.sub_byte_element_size_in_bits = sub_byte_element_size_in_bits

    def _key(self) -> tuple[Any, ...]:
        return self.major_to_minor, self.tiling, self.sub_byte_element_size_in_bits

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return (f"Layout(major_to_minor={self.major_to_minor}, tiling={self.tiling}, "
                f"sub_byte_element_size_in_bits={self.sub_byte_element_size_in_bits})")


class Format:
    """Where an array is, and how it lies in memory there.

    Args:
      layout: a `Layout`, `Layout.AUTO`, or None: not said.
      sharding: a sharding, or None: not said.

    Raises:
      TypeError: one is none of these.
      ValueError: there is a layout, and no sharding.
    """

    __slots__ = ("layout", "sharding")

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Format) and (self.layout, self.sharding) == (
            other.layout, other.sharding)

    def __hash__(self) -> int:
        return hash((self.layout, self.sharding))

    def __repr__(self) -> str:
        return f"Format(layout={self.layout}, sharding={self.sharding})"


def format_of(ndim: int, sharding: Any) -> Format:
    """The format of the arrays there are: row-major."""
    return Format(Layout(range(ndim), (), 0), sharding)


def unformatted(given: Any, who: str) -> Any:
    """The sharding of a format, or None; anything else as it is.

    Raises:
      NotImplementedError: the format is not row-major.
    """
    if type(given) is not Format:
        return given
    layout = given.layout
    if isinstance(layout, Layout) and (
            layout.tiling or layout.major_to_minor != tuple(range(len(layout.major_to_minor)))):
        raise LazyNotImplementedError(lambda: (
            f"{who}: {layout} is not row-major, as all arrays of mjax are. Inside of a program ask "
            "for it by with_layout_constraint; for an array, transpose it."))
    return given.sharding
