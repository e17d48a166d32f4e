"""Arrays with another order of elements in memory than row-major.

Such an array holds a row-major array of its axes in the requested order. Its `buffer` is a
row-major copy, made once. So programs, transfers and donation need not handle orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mjax._engine.base.config import override
from mjax._engine.base.folding import boundary
from mjax._engine.base.sockets import sockets
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.ir.types import typeof_handlers
from mjax._engine.primitives.shapes import transpose_p
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.donation import ArgumentNames
from mjax._engine.runtime.arrays.layouts import Format, Layout
from mjax._engine.runtime.arrays.placement import placement_of
from mjax._engine.runtime.arrays.shardings import NamedSharding
from mjax._engine.runtime.arrays.transfer import move
from mjaxlib_shim import guards

_slot: Any = Array.__dict__["_buffer"]


class OrderedArray(Array):
    """An array in an order of its axes that is not row-major.

    Args:
      stored: the row-major array of its axes in that order.
      order: the axis of this array for each axis of `stored`.
      sharding: the sharding of this array.
    """

    __slots__ = ("_order", "_ordered")

    def __init__(self, stored: Array, order: tuple[int, ...], sharding: Any):
        self._ordered = stored
        self._order = order
        shape = tuple(stored.shape[i] for i in self._inverse)
        _slot.__set__(self, None)
        self._placement = placement_of(stored.aval.update(shape=shape), sharding, stored.committed)

    @property
    def _inverse(self) -> tuple[int, ...]:
        return tuple(map(int, np.argsort(self._order)))

    @property
    def _buffer(self) -> Any:
        """The buffer of the row-major copy; a deleted one if the array was deleted."""
        buffer = _slot.__get__(self)
        if buffer is None:
            if self._ordered.is_deleted():
                return self._ordered._buffer
            buffer = _transposed(self._ordered, self._inverse, self.sharding)._buffer
            _slot.__set__(self, buffer)
        return buffer

    def settled(self) -> Array:
        """The array: it does not wait for a program."""
        return self

    @property
    def format(self) -> Format:
        """The sharding, and the layout in memory."""
        return Format(Layout(self._order, (), 0), self.sharding)

    def block_until_ready(self) -> Array:
        """Waits until the value is computed; raises an error of its computation."""
        self._ordered.block_until_ready()
        return self

    def is_ready(self) -> bool:
        """Whether the value is computed."""
        return self._ordered.is_ready()

    @boundary
    def delete(self) -> None:
        """Frees the memory now; the array cannot be used any more."""
        if _slot.__get__(self) is not None:
            super().delete()
        self._ordered.delete()

    def is_deleted(self) -> bool:
        """Whether the array was deleted, or its row-major copy donated."""
        copy = _slot.__get__(self)
        return self._ordered.is_deleted() or (copy is not None and bool(copy.is_deleted()))

    def copy_to_host_async(self) -> None:
        """Starts copying to the host, so that reading the value later does not wait."""
        self._ordered.copy_to_host_async()

    @boundary
    def unsafe_buffer_pointer(self) -> int:
        """The address of the memory; valid while the array lives.

        Raises:
          ValueError: the array is on several devices.
        """
        return self._ordered.unsafe_buffer_pointer()

    def _stored(self) -> np.ndarray[Any, Any]:
        if self.is_deleted():
            self._existing()
        stored = self._ordered._stored()
        return stored.transpose(*self._inverse, *range(self.ndim, stored.ndim))


#: Messages call it an Array: users need not know the difference.
OrderedArray.__name__ = OrderedArray.__qualname__ = Array.__name__
typeof_handlers[OrderedArray] = typeof_handlers[Array]


def order_of(array: Array) -> tuple[int, ...]:
    """The axes of an array, slowest varying first."""
    return array._order if type(array) is OrderedArray else tuple(range(array.ndim))


def ordered(array: Array, layout: Layout) -> Array:
    """An array with its elements in the order of a layout; itself if they are already."""
    order = layout.major_to_minor
    if order == order_of(array):
        return array
    sharding = array.sharding
    if order == tuple(range(array.ndim)):
        return Array(array._buffer, array._placement)
    there = sharding
    if type(sharding) is NamedSharding:
        spec = (*sharding.spec, *[None] * array.ndim)
        there = NamedSharding(sharding.mesh, PartitionSpec(*[spec[i] for i in order]),
                              memory_kind=sharding.memory_kind)
    return OrderedArray(_transposed(array, order, there), order, sharding)


def _transposed(array: Array, permutation: tuple[int, ...], sharding: Any) -> Array:
    """A row-major array of the same axes in another order, in a sharding."""
    with override(mesh_for_all=False), guards.unguarded():
        source = Array(array._buffer, array._placement)
        out: Array = sockets.execute(transpose_p, (source,), {"permutation": permutation})
        return move(out, sharding, array.committed)


def in_orders(run: Callable[..., list[Any]], names: ArgumentNames, ins: dict[int, Layout],
              outs: dict[int, Layout]) -> Callable[..., list[Any]]:
    """A runner of a program with requested layouts.

    Args:
      run: from arrays to arrays of any order.
      names: the names of the program and its arguments.
      ins, outs: the layouts of arguments and of results, by number.

    Returns:
      A runner that refuses committed arguments in another order, and returns results in theirs.
    """

    def run_in_orders(*args: Any) -> list[Any]:
        for i, layout in ins.items():
            arg = args[i]
            if is_array(arg) and arg.committed and order_of(arg) != layout.major_to_minor:
                msg = (f"{names.program}: {names(i)} is committed, and lies in memory with its "
                       f"axes in the order {order_of(arg)}, but in_shardings asks for {layout}. "
                       "Move it with mjax.device_put(x, format), or leave the layout out.")
                raise ValueError(msg)
        results = run(*args)
        for n, layout in outs.items():
            results[n] = ordered(results[n], layout)
        return results

    return run_in_orders
