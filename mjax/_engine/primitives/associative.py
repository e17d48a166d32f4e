"""Scans under an associative operation, in a program of logarithmic depth.

Source: Blelloch 1990, "Prefix sums and their applications".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.pytree import keystr, tree_flatten, tree_flatten_with_path
from mjax._engine.ir.types import same_array_type, typeof
from mjax._engine.primitives.arithmetic import add, bitwise_or
from mjax._engine.primitives.convert import convert
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.joining import concatenate
from mjax._engine.primitives.rev import rev
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.slicing import pad, slice_in_dim
from mjax._engine.tracing.flat import check_arguments, check_callable, describe_function

#: Totals of a range and of the next one -> totals of both; one array per total.
Combine = Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]


def scan_in_tree(combine: Combine, arrays: Sequence[Any], axis: int) -> list[Any]:
    """Inclusive scan under an associative operation, with about 2 log2(n) combinations.

    Args:
      combine: elementwise along the axis; takes two lists of arrays, gives one.
      arrays: of equal size along the axis.
      axis: not negative.
    """
    n = typeof(arrays[0]).shape[axis]
    if n < 2:
        return list(arrays)

    def cut(xs: Sequence[Any], start: int, limit: int, stride: int = 1) -> list[Any]:
        return [slice_in_dim(x, start, limit, stride, axis) for x in xs]

    pairs = combine(cut(arrays, 0, n - 1, 2), cut(arrays, 1, n, 2))
    odd = scan_in_tree(combine, pairs, axis)
    even = cut(arrays, 0, 1)
    if n > 2:
        later = combine(cut(odd, 0, (n - 1) // 2), cut(arrays, 2, n, 2))
        even = [concatenate([a, b], axis) for a, b in zip(even, later, strict=True)]
    return [_interleave(a, b, axis) for a, b in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """The elements of two arrays in turn; the first may have one more."""
    more = typeof(even).shape[axis] - typeof(odd).shape[axis]

    def spread(x: Any, low: int, high: int) -> Any:
        config = [(0, 0, 0)] * typeof(x).ndim
        config[axis] = (low, high, 1)
        return pad(x, constant_like(x, 0), config)

    join = bitwise_or if typeof(even).dtype == np.dtype(bool) else add
    return join(spread(even, 0, 1 - more), spread(odd, 1, more))


@boundary
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False,
                     axis: int = 0) -> Any:
    """Inclusive scan (prefix sum) under an associative operation.

    The result is `ys[i] = fn(ys[i-1], xs[i])`, but elements are combined in parallel, in a
    program of logarithmic depth. Use `scan` for operations that are not associative.

    Args:
      fn: combines two pytrees like `elems` into one. It receives several elements at once, and
        combines those of equal position along the axis: `fn(fn(a, b), c) = fn(a, fn(b, c))`.
      elems: a pytree of arrays of one size along the axis.
      reverse: whether totals run from the end to the start. `fn` then gets the later elements
        as its first argument.
      axis: the axis; negative ones count from the last.

    Returns:
      A pytree like `elems`.

    Raises:
      TypeError: `fn` is not callable, or changes structures, shapes or dtypes; leaves that are
        not arrays.
      ValueError: the trees have no leaves; sizes along the axis differ; the axis is out of range.

    Example:
      >>> lax.associative_scan(lax.add, jnp.arange(5))
      Array([ 0,  1,  3,  6, 10], dtype=int32)

    Source: the public interface of `jax.lax.associative_scan`.
    """
    check_callable("associative_scan", fn)
    check_arguments("associative_scan", elems, "elems")
    leaves, tree = tree_flatten(elems)
    place = _common_axis(elems, axis)
    arrays = list(map(array_of, leaves))
    if typeof(arrays[0]).shape[place] > 1:
        arrays = [convert(x, typeof(x).dtype) for x in arrays]
    if reverse:
        arrays = [rev(x, (place,)) for x in arrays]

    def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
        found, found_tree = tree_flatten(fn(tree.unflatten(a), tree.unflatten(b)))
        wanted = list(map(typeof, a))
        if found_tree != tree or not all(map(same_array_type, map(typeof, found), wanted)):
            _refuse(fn, tree.unflatten(wanted), found_tree.unflatten(list(map(typeof, found))))
        return found

    out = scan_in_tree(combine, arrays, place)
    return tree.unflatten([rev(x, (place,)) for x in out] if reverse else out)


def _common_axis(elems: Any, axis: int) -> int:
    """The axis, normalized, along which all elements must have one size."""
    paths = tree_flatten_with_path(elems)[0]
    if not paths:
        msg = "associative_scan: elems has no leaves."
        raise ValueError(msg)
    for path, leaf in paths:
        if not typeof(leaf).shape:
            msg = f"associative_scan: elems{keystr(path)} is a scalar, which has no axis."
            raise ValueError(msg)
    place = canonicalize_axis(axis, typeof(paths[0][1]).ndim)
    sizes = {keystr(path): typeof(leaf).shape[place:place + 1] for path, leaf in paths}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"elems{path} has {size[0] if size else 'no such axis'}"
                          for path, size in sizes.items())
        msg = f"associative_scan: elems must have one size along axis {place}: {shown}."
        raise ValueError(msg)
    return place


def _refuse(fn: Any, wanted: Any, found: Any) -> NoReturn:
    raise LazyTypeError(lambda: (
        f"associative_scan: {describe_function(fn)} must return the type of its arguments, "
        f"{wanted!r}, but returned {found!r}."))
