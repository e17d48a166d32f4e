"""Functions of lists that authors of interpreters use: JAX's `util`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mjax._engine.base.util import merge_lists, partition_list, split_list
from mjax._engine.tracing import flat
from mjax._tools.api_util import safe_map, safe_zip

__all__ = ["merge_lists", "partition_list", "safe_map", "safe_zip", "split_list", "unzip2",
           "unzip3", "wraps"]


def unzip2(xys: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The first and the second items of pairs.

    Args:
      xys: pairs.

    Returns:
      Two tuples.

    Raises:
      TypeError: the argument, or one of its items, cannot be iterated over.
      ValueError: an item does not hold two values.

    Example:
      >>> from mjax_ext import util
      >>> util.unzip2([(1, "a"), (2, "b")])
      ((1, 2), ('a', 'b'))

    Source: JAX, `jax.util.unzip2`, before release 0.10.
    """
    pairs = list(xys)
    return tuple(x for x, _ in pairs), tuple(y for _, y in pairs)


def unzip3(xyzs: Iterable[tuple[Any, Any, Any]]
           ) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """The first, second and third items of triples.

    Args:
      xyzs: triples.

    Returns:
      Three tuples.

    Raises:
      TypeError: the argument, or one of its items, cannot be iterated over.
      ValueError: an item does not hold three values.

    Example:
      >>> from mjax_ext import util
      >>> util.unzip3([(1, 2, 3), (4, 5, 6)])
      ((1, 4), (2, 5), (3, 6))

    Source: JAX, `jax._src.util.unzip3`.
    """
    triples = list(xyzs)
    return (tuple(x for x, _, _ in triples), tuple(y for _, y, _ in triples),
            tuple(z for _, _, z in triples))


def wraps(wrapped: Callable[..., Any], namestr: str | None = None, docstr: str | None = None,
          **kwargs: Any) -> Callable[[Any], Any]:
    """A decorator for wrappers of a function: `functools.wraps`, with templates.

    Args:
      wrapped: the function; it need not have a name or a docstring.
      namestr: a template of the wrapper's name, in which `{fun}` is the name of `wrapped`.
      docstr: a template of its docstring, in which `{fun}` is the name and `{doc}` the docstring of
        `wrapped`.
      kwargs: further values for `docstr`.

    Returns:
      A decorator, which reads the templates and raises the errors below.

    Raises:
      KeyError: a template has a name that is not given.
      IndexError: a template has a field without a name.
      ValueError: the braces of a template do not match.
      TypeError: `docstr` is given, and `fun` or `doc` is among the further values.
      AttributeError: a template is not a str, or the wrapper does not take a new name.

    Example:
      >>> from mjax_ext import util
      >>> @util.wraps(lax.sin, namestr="timed_{fun}", docstr="{fun}, {how}.", how="with its time")
      ... def timed(x):
      ...   return lax.sin(x)
      >>> timed.__name__, timed.__doc__
      ('timed_sin', 'sin, with its time.')

    Source: JAX, `jax.util.wraps`, before release 0.10.
    """
    name = flat.function_name(wrapped)

    def decorate(wrapper: Any) -> Any:
        flat.wraps(wrapped)(wrapper)
        if namestr is not None:
            wrapper.__name__ = namestr.format(fun=name)
        doc = getattr(wrapped, "__doc__", None) or ""
        wrapper.__doc__ = doc if docstr is None else docstr.format(fun=name, doc=doc, **kwargs)
        return wrapper

    return decorate


def __dir__() -> list[str]:
    return sorted(__all__)
