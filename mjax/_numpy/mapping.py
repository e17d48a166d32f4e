"""Functions of scalars or small arrays made functions of larger ones."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import expand_dims, squeeze
from mjax._engine.transforms.vectorize import vmap
from mjax._numpy.core import broadcast_shapes, check_array
from mjax._numpy.creation import asarray

_GROUP = r"\([^()]*\)"
_SIGNATURE = re.compile(rf"^(?:{_GROUP}(?:,{_GROUP})*)?->{_GROUP}(?:,{_GROUP})*$")

CoreDims = list[tuple[str, ...]]


def parse_signature(signature: str) -> tuple[CoreDims, CoreDims]:
    """Names of the core axes of arguments and results, from a text as `(n,k),(k)->(n)`.

    Raises:
      ValueError: the text is not of this form.
    """
    text = re.sub(r"\s+", "", signature)
    if not _SIGNATURE.match(text):
        msg = f"vectorize: {signature!r} is no signature; write one as in '(n,k),(k)->(n)'."
        raise ValueError(msg)
    inputs, outputs = (
        [tuple(filter(None, group.strip("()").split(","))) for group in re.findall(_GROUP, side)]
        for side in text.split("->"))
    return inputs, outputs


def _core_sizes(args: Sequence[Any], core: CoreDims) -> tuple[dict[str, int],
                                                               list[tuple[int, ...]]]:
    """Sizes of the named axes, and what each argument has in front of them."""
    sizes: dict[str, int] = {}
    loops = []
    for i, (arg, names) in enumerate(zip(args, core, strict=True)):
        shape = typeof(arg).shape
        if len(shape) < len(names):
            msg = (f"vectorize: argument {i} of shape {shape} must have the {len(names)} core axes "
                   f"({','.join(names)}).")
            raise ValueError(msg)
        first = len(shape) - len(names)
        for name, size in zip(names, shape[first:], strict=True):
            if sizes.setdefault(name, size) != size:
                msg = (f"vectorize: core axis {name!r} has size {size} in argument {i} of shape "
                       f"{shape}, but {sizes[name]} elsewhere.")
                raise ValueError(msg)
        loops.append(shape[:first])
    return sizes, loops


def _check_outputs(f: Callable[..., Any], core: CoreDims, sizes: dict[str, int]
                   ) -> Callable[..., Any]:
    """`f` whose results are compared with the signature."""

    def checked(*args: Any) -> Any:
        out = f(*args)
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) != len(core):
            msg = f"vectorize: the function returned {len(outs)} results, not {len(core)}."
            raise TypeError(msg)
        for i, (value, names) in enumerate(zip(outs, core, strict=True)):
            shape = typeof(value).shape
            if len(shape) != len(names) or any(sizes.setdefault(name, n) != n for name, n in
                                               zip(names, shape, strict=True)):
                expected = tuple(sizes.get(name, name) for name in names)
                msg = (f"vectorize: result {i} has shape {shape}, but its core axes "
                       f"({','.join(names)}) make it {expected}.")
                raise ValueError(msg)
        return out

    return checked


@boundary
def vectorize(pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(),
              signature: str | None = None) -> Callable[..., Any]:
    """Makes a function of scalars, or of arrays of given rank, one that broadcasts.

    Args:
      pyfunc: the function.
      excluded: positions and names of arguments that are passed on as they are.
      signature: which axes belong to `pyfunc`, as in "(n,k),(k)->(n)"; by default none do.

    Returns:
      A function whose arguments' other axes are broadcast and mapped over.

    Raises:
      ValueError: the signature does not fit the arguments or results; at calls.

    Source: `numpy.vectorize`.

    Example:
      >>> dot = jnp.vectorize(lambda a, b: jnp.sum(a * b), signature="(n),(n)->()")
      >>> dot(jnp.ones((2, 3)), jnp.ones(3))
      Array([3., 3.], dtype=float32)
    """
    parsed = None if signature is None else parse_signature(signature)

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        if unknown := [k for k in kwargs if k not in excluded]:
            msg = (f"vectorize: keyword arguments {unknown} must be listed in `excluded`; others "
                   "are passed by position.")
            raise TypeError(msg)
        mapped = [i for i in range(len(args)) if i not in excluded]

        def f(*values: Any) -> Any:
            given = dict(zip(mapped, values, strict=True))
            return pyfunc(*[given.get(i, a) for i, a in enumerate(args)], **kwargs)

        return _apply(f, [check_array("vectorize", asarray(args[i]), i) for i in mapped], parsed)

    return boundary(vectorized)


def _apply(f: Callable[..., Any], args: list[Any], parsed: tuple[CoreDims, CoreDims] | None
           ) -> Any:
    inputs = [()] * len(args) if parsed is None else parsed[0]
    if len(inputs) != len(args):
        msg = f"vectorize: the signature has {len(inputs)} arguments, the call {len(args)}."
        raise TypeError(msg)
    sizes, loops = _core_sizes(args, inputs)
    if parsed is not None:
        f = _check_outputs(f, parsed[1], sizes)
    shape = broadcast_shapes(*loops)
    # Axes of size 1 are not mapped over, so that nothing is repeated.
    for axis in reversed(range(len(shape))):
        in_axes = []
        for loop in loops:
            place = axis - (len(shape) - len(loop))
            in_axes.append(0 if place >= 0 and loop[place] != 1 else None)
        if all(a is None for a in in_axes):
            f = _with_new_axis(f)
        else:
            f = vmap(f, in_axes=tuple(in_axes))
    squeezed = [squeeze(a, [i for i, n in enumerate(loop) if n == 1]) if 1 in loop else a
                for a, loop in zip(args, loops, strict=True)]
    return f(*squeezed)


def _with_new_axis(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` whose results have an axis of size 1 in front."""

    def grown(*args: Any) -> Any:
        out = f(*args)
        if isinstance(out, tuple):
            return tuple(expand_dims(asarray(x), (0,)) for x in out)
        return expand_dims(asarray(out), (0,))

    return grown


@boundary
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
                     ) -> Any:
    """Applies a function to all one-dimensional slices along an axis.

    Args:
      func1d: a function of an array of one axis.
      axis: the axis.
      arr: array.
      args: further arguments for the function.
      kwargs: keyword arguments for the function.

    Returns:
      An array with the axes of the function's result in place of `axis`.

    Source: `numpy.apply_along_axis`.

    Example:
      >>> jnp.apply_along_axis(jnp.sum, 0, jnp.array([[1, 2], [3, 4]]))
      Array([4, 6], dtype=int32)
    """
    arr = check_array("apply_along_axis", arr, 2)
    ndim = typeof(arr).ndim
    axis = canonicalize_axis(axis, ndim)

    def f(row: Any) -> Any:
        return func1d(row, *args, **kwargs)

    # The axes in front of the slice are mapped from outside in, those behind it last.
    for i in range(1, ndim - axis):
        f = vmap(f, in_axes=i, out_axes=-1)
    for _ in range(axis):
        f = vmap(f, in_axes=0, out_axes=0)
    return f(arr)


@boundary
def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: Any) -> Any:
    """Applies a function `func(a, axis)` for several axes, one after the other.

    Args:
      func: its result has as many axes as `a`, or the axis is missing and put back.
      a: array.
      axes: an axis or a sequence of them.

    Source: `numpy.apply_over_axes`.

    Example:
      >>> jnp.apply_over_axes(jnp.sum, jnp.array([[1, 2], [3, 4]]), [0, 1])
      Array([[10]], dtype=int32)
    """
    a = asarray(a)
    for axis in axes if isinstance(axes, (tuple, list)) else (axes,):
        out = func(a, axis)
        place = canonicalize_axis(axis, a.ndim)
        if out.ndim == a.ndim - 1:
            out = expand_dims(out, (place,))
        elif out.ndim != a.ndim:
            msg = f"apply_over_axes: the result has {out.ndim} axes, the array has {a.ndim}."
            raise ValueError(msg)
        a = out
    return a

