"""The values that differentiation keeps: `saved_residuals`, `print_saved_residuals`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.control.remat.origins import origin_of
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.flat import check_arguments, check_callable, debug_info_of
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.reverse import vjp


@boundary
def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The values that reverse-mode differentiation of a function keeps.

    Args:
      f: a function of pytrees of arrays.
      args, kwargs: its arguments, or `ShapeDtypeStruct`s in their place.

    Returns:
      The type and the origin of each value.

    Raises:
      TypeError: `f` is not callable; an argument is not an array.

    Example:
      >>> from mjax.ad_checkpoint import saved_residuals
      >>> [str(aval) for aval, _ in saved_residuals(lambda x: lax.sin(lax.sin(x)), 1.0)]
      ['~float32[]', '~float32[]']

    Source: JAX, `jax.ad_checkpoint.print_saved_residuals`.
    """
    check_callable("saved_residuals", f)
    check_arguments("saved_residuals", args)
    check_arguments("saved_residuals", kwargs, "keyword argument ")
    leaves, tree = tree_flatten((args, kwargs))

    def flat(*values: Any) -> Any:
        args, kwargs = tree.unflatten(values)
        return f(*args, **kwargs)

    info = debug_info_of("saved_residuals", f, args, kwargs)
    jaxpr = stage(lambda *values: tree_flatten(vjp(flat, *values)[1])[0],
                  list(map(typeof, leaves)), info)
    found = [(origin_of(jaxpr, atom), atom.aval) for atom in jaxpr.outvars]
    return [(aval, origin.text) for origin, aval in sorted(found, key=lambda pair: pair[0].place)]


@boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints the values that reverse-mode differentiation of a function keeps.

    Args:
      f: a function of pytrees of arrays.
      args, kwargs: its arguments, or `ShapeDtypeStruct`s in their place.

    Raises:
      TypeError: `f` is not callable; an argument is not an array.

    Example:
      >>> from mjax.ad_checkpoint import print_saved_residuals
      >>> print_saved_residuals(mjax.checkpoint(lambda x: lax.sin(lax.sin(x))), 1.0)
      f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(f"{aval.str_short(short_dtypes=True)} {origin}")
