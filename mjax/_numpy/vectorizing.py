"""Functions of single elements or vectors applied to whole arrays, through `vmap`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.util import canonicalize_axis
from mjax._engine.ir.pytree import tree_map
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of, copy_p, squeeze
from mjax._engine.runtime.arrays.array import is_array
from mjax._engine.transforms.vmap import vmap
from mjax._numpy.core import broadcast_shapes, check_array, check_ranks, shape_of
from mjax._numpy.shapes import expand_dims, moveaxis

#: Names of the core axes of each argument or result.
Dims = list[tuple[str, ...]]

_AXES = r"\(\s*(?:\w+(?:\s*,\s*\w+)*)?\s*\)"
_SIDE = rf"\s*{_AXES}(?:\s*,\s*{_AXES})*\s*"


def _parse(signature: str) -> tuple[Dims, Dims]:
    """The core axes of arguments and results.

    Raises:
      ValueError: it is not a signature.
    """
    if not re.fullmatch(rf"{_SIDE}->{_SIDE}", signature):
        msg = (f"vectorize: not a valid gufunc signature: {signature!r}; it must be like "
               "'(m,n),(n)->(m)'.")
        raise ValueError(msg)
    left, right = ([tuple(re.findall(r"\w+", axes)) for axes in re.findall(_AXES, side)]
                   for side in signature.split("->"))
    return left, right


def _core_sizes(shapes: Sequence[tuple[int, ...]], dims: Dims, sizes: dict[str, int], where: str
                ) -> None:
    """Records the sizes of the core axes of arrays.

    Raises:
      ValueError: a name has two sizes, or an array has too few axes.
    """
    for shape, names in zip(shapes, dims, strict=True):
        if len(shape) < len(names):
            msg = (f"{where}: input with shape {shape} does not have enough dimensions for all "
                   f"core dimensions {names}.")
            raise ValueError(msg)
        for name, n in zip(names, shape[len(shape) - len(names) :], strict=True):
            if sizes.setdefault(name, n) != n:
                msg = (f"{where}: inconsistent size for core dimension {name!r}: {n} vs "
                       f"{sizes[name]}.")
                raise ValueError(msg)


def _checked(f: Callable[..., Any], out_dims: Dims, sizes: dict[str, int], where: str
             ) -> Callable[..., Any]:
    """A function of core arrays whose results are checked against the signature."""

    def checked(*args: Any) -> Any:
        out = f(*args)
        outs = out if isinstance(out, (tuple, list)) else [out]
        if isinstance(out, (tuple, list)) != (len(out_dims) > 1) or len(outs) != len(out_dims):
            msg = (f"{where}: the function must return {len(out_dims)} results, as its signature "
                   f"says; it returned {type(out).__name__}"
                   + (f" of length {len(outs)}." if outs is out else "."))
            raise TypeError(msg)
        known = dict(sizes)
        for shape, names in zip(map(shape_of, outs), out_dims, strict=True):
            if len(shape) != len(names):
                msg = f"{where}: output shape {shape} does not match core dimensions {names}."
                raise ValueError(msg)
            _core_sizes([shape], [names], known, where)
        return out

    return checked


def _mapped(f: Callable[..., Any], args: Sequence[Any], ranks: Sequence[int], where: str) -> Any:
    """Applies a function of core arrays to arrays with leading axes, which broadcast."""
    leads = [shape_of(x)[: typeof(x).ndim - r] for x, r in zip(args, ranks, strict=True)]
    try:
        lead = broadcast_shapes(*leads)
    except ValueError:
        msg = f"{where}: the leading axes {', '.join(map(str, leads))} do not broadcast."
        raise ValueError(msg) from None
    check_ranks(where, [lead for lead, x in zip(leads, args, strict=True) if typeof(x).ndim])
    has = [[i >= len(lead) - len(s) and s[i - len(lead)] == n for i, n in enumerate(lead)]
           for s in leads]
    values = [squeeze(array_of(x), [i - len(lead) + len(s) for i in range(len(lead))
                                    if i >= len(lead) - len(s) and not h[i]])
              for x, s, h in zip(args, leads, has, strict=True)]
    for i in reversed(range(len(lead))):
        f = vmap(f, in_axes=tuple(0 if h[i] else None for h in has))
    given = {*map(id, args)}
    return tree_map(lambda x: copy_p.bind(x) if id(x) in given and is_array(x) else array_of(x),
                    f(*values))


def _check_excluded(excluded: Collection[int | str]) -> None:
    if any(not isinstance(e, (int, str)) for e in excluded):
        msg = f"vectorize: excluded must hold integers and strings, got {excluded!r}."
        raise TypeError(msg)
    if any(isinstance(e, int) and e < 0 for e in excluded):
        msg = (f"vectorize: excluded must hold positions counted from the first argument, got "
               f"{excluded!r}.")
        raise ValueError(msg)


def _dims_of_arrays(args: Sequence[Any], excluded: Collection[int | str], in_dims: Dims, where: str
                    ) -> list[Any]:
    """The core dimensions of the arguments that are neither excluded nor None."""
    positions = [i for i in range(len(args)) if i not in excluded]
    if len(in_dims) != len(positions):
        msg = (f"{where}: wrong number of positional arguments: expected {len(in_dims)}, got "
               f"{len(positions)}.")
        raise TypeError(msg)
    for i, d in zip(positions, in_dims, strict=True):
        if args[i] is None and d:
            msg = (f"{where}: argument {i} is None, and has the core dimensions {d}; give an "
                   "array, or write () for it.")
            raise ValueError(msg)
    return [d for i, d in zip(positions, in_dims, strict=True) if args[i] is not None]


@boundary
def vectorize(pyfunc: Callable[..., Any], *, excluded: Collection[int | str] = frozenset(),
              signature: str | None = None) -> Callable[..., Any]:
    """A function that applies `pyfunc` along the leading axes of its arguments, broadcast.

    Args:
      pyfunc: a function of arrays.
      excluded: positions and names of arguments that are passed unchanged.
      signature: the core axes of arguments and results, as `"(m,n),(n)->(m)"`; without it
        `pyfunc` gets scalars. Further axes in front are mapped over with `vmap`.

    Returns:
      A function of arrays. Arguments that are None are passed unchanged.

    Raises:
      ValueError: the signature is malformed; at calls: arrays do not fit it.
      TypeError: at calls: the number of arguments or results is wrong.

    Source: `numpy.vectorize`.

    Example:
      >>> f = jnp.vectorize(lambda m, v: m @ v, signature="(m,n),(n)->(m)")
      >>> f(jnp.ones((5, 2, 3)), jnp.ones(3)).shape
      (5, 2)
    """
    _check_excluded(excluded)
    given = None if signature is None else _parse(signature)
    name = getattr(pyfunc, "__name__", type(pyfunc).__name__)
    where = f"vectorize of {name}" + (f" with signature {signature!r}" if signature else "")

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        unknown = [k for k in kwargs if k not in excluded]
        if unknown:
            msg = (f"{where}: the keyword argument {unknown[0]!r} is not excluded; give it by "
                   "position, or name it in `excluded`.")
            raise TypeError(msg)
        mapped = [i for i, x in enumerate(args) if i not in excluded and x is not None]
        values = [check_array(name, args[i], i) for i in mapped]

        def core(*elements: Any) -> Any:
            whole = list(args)
            for i, x in zip(mapped, elements, strict=True):
                whole[i] = x
            return pyfunc(*whole, **kwargs)

        if given is None:
            return _mapped(core, values, [0] * len(values), where)
        in_dims, out_dims = given
        dims = _dims_of_arrays(args, excluded, in_dims, where)
        sizes: dict[str, int] = {}
        _core_sizes([shape_of(x) for x in values], dims, sizes, where)
        return _mapped(_checked(core, out_dims, sizes, where), values, [len(d) for d in dims],
                       where)

    return boundary(vectorized)


@boundary
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
                     ) -> Any:
    """Applies a function to the vectors along an axis.

    Args:
      func1d: a function of a vector, `args` and `kwargs` that returns an array.
      axis: the axis.
      arr: array.
      args, kwargs: further arguments of `func1d`.

    Returns:
      An array with the axes of the results instead of the axis.

    Raises:
      ValueError: the axis is out of range.

    Source: `numpy.apply_along_axis`.

    Example:
      >>> jnp.apply_along_axis(jnp.cumsum, 1, jnp.array([[1, 2], [3, 4]]))
      Array([[1, 3],
             [3, 7]], dtype=int32)
    """
    arr = array_of(check_array("apply_along_axis", arr, 2))
    ndim = typeof(arr).ndim
    axis = canonicalize_axis(axis, ndim)
    f = lambda x: func1d(x, *args, **kwargs)
    for _ in range(ndim - 1):
        f = vmap(f)
    out = f(moveaxis(arr, axis, -1))

    def in_place(x: Any) -> Any:
        """Moves the last axes, those of a result, to the position of the axis."""
        new = range(ndim - 1, typeof(x).ndim)
        return moveaxis(x, list(new), list(range(axis, axis + len(new))))

    return tree_map(in_place, out)


@boundary
def apply_over_axes(func: Callable[[Any, int], Any], a: Any, axes: int | Sequence[int]) -> Any:
    """Applies a function along several axes, one after the other.

    Args:
      func: takes an array and an axis; returns an array with or without that axis.
      a: array.
      axes: axes.

    Returns:
      An array of as many axes as `a`.

    Raises:
      ValueError: a result has another number of axes.

    Source: `numpy.apply_over_axes`.

    Example:
      >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3)), [0, 1])
      Array([[6.]], dtype=float32)
    """
    a = array_of(check_array("apply_over_axes", a, 1))
    ndim = typeof(a).ndim
    for axis in axes if isinstance(axes, Sequence) else (axes,):
        place = canonicalize_axis(axis, ndim)
        out = func(a, place)
        if typeof(out).ndim == ndim - 1:
            out = expand_dims(out, place)
        if typeof(out).ndim != ndim:
            msg = (f"apply_over_axes: func must return an array of {ndim} or {ndim - 1} axes, but "
                   f"returned shape {shape_of(out)}.")
            raise ValueError(msg)
        a = out
    return a


__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]
