"""What differentiating a function keeps: `saved_residuals`, `print_saved_residuals`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.control.remat import remat_p
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.ir.source import summarize
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.convert import reduce_precision_p
from mjax._engine.primitives.names import name_p
from mjax._engine.tracing.flat import check_arguments, check_callable, debug_info_of
from mjax._engine.tracing.stage import stage
from mjax._engine.transforms.reverse import vjp


class _Origin(Record):
    """Where a value comes from; sorted as its program is read."""

    place: tuple[int, ...]
    text: str


@boundary
def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """The values that reverse-mode differentiation of a function keeps.

    Args:
      f: a function of pytrees of arrays.
      args, kwargs: its arguments, or `ShapeDtypeStruct`s in their place.

    Returns:
      For each value its type and where it comes from.

    Raises:
      TypeError: `f` is not callable; an argument is no array.

    Example:
      >>> from mjax.ad_checkpoint import saved_residuals
      >>> [str(aval) for aval, _ in saved_residuals(lambda x: lax.sin(lax.sin(x)), 1.0)]
      ['~f32[]', '~f32[]']

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
    found = [(_origin(jaxpr, atom), atom.aval) for atom in jaxpr.outvars]
    return [(aval, origin.text) for origin, aval in sorted(found, key=lambda pair: pair[0].place)]


@boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints the values that reverse-mode differentiation of a function keeps.

    Args:
      f: a function of pytrees of arrays.
      args, kwargs: its arguments, or `ShapeDtypeStruct`s in their place.

    Raises:
      TypeError: `f` is not callable; an argument is no array.

    Example:
      >>> from mjax.ad_checkpoint import print_saved_residuals
      >>> print_saved_residuals(mjax.checkpoint(lambda x: lax.sin(lax.sin(x))), 1.0)
      f32[] from the argument x
    """
    for aval, origin in saved_residuals(f, *args, **kwargs):
        print(f"{aval.update(weak_type=False)} {origin}")


def _origin(jaxpr: Jaxpr, atom: Any) -> _Origin:
    """Where a result of a program that is not nested comes from."""
    place, found = _find(jaxpr, atom)
    if isinstance(found, JaxprEqn):
        return _Origin((3, *place), f"{_maker(found)} from {summarize(found.source)}")
    if type(found) is Literal:
        return _Origin((0,), "from a literal")
    if found in jaxpr.invars:
        i = jaxpr.invars.index(found)
        return _Origin((2, i), f"from the argument {jaxpr.debug_info.arg_name(i)}")
    return _Origin((1, *place), "from a constant")


def _find(jaxpr: Jaxpr, atom: Any) -> tuple[Sequence[int], Any]:
    """The equation that makes a value and its place, those inside of `remat2` too; or the
    input, constant or literal that it is."""
    for i, eqn in enumerate(jaxpr.eqns):
        if atom in eqn.outvars:
            if eqn.primitive is reduce_precision_p:
                return _find(jaxpr, eqn.invars[0])
            if eqn.primitive is not remat_p:
                return (i,), eqn
            inner = eqn.params["jaxpr"]
            place, found = _find(inner, inner.outvars[eqn.outvars.index(atom)])
            if found in inner.invars:
                return _find(jaxpr, eqn.invars[inner.invars.index(found)])
            return (i, *place), found
    return (), atom


def _maker(eqn: JaxprEqn) -> str:
    if eqn.primitive is name_p:
        return f"named {eqn.params['name']!r}"
    if eqn.primitive.name == "jit":
        return f"output of jitted function {eqn.params['name']!r}"
    return f"output of {eqn.primitive.name}"
