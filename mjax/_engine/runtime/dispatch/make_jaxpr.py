"""The public function for jaxprs: `make_jaxpr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from mjax._engine.base.folding import boundary
from mjax._engine.base.frame_room import with_room
from mjax._engine.control.calls.static_arguments import Parameters, with_static
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct, aval_of
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_arguments,
    check_callable,
    debug_info_of,
    function_name,
    wraps,
)
from mjax._engine.tracing.interpreter import axes_in_scope
from mjax._engine.tracing.reference import refuse_returned
from mjax._engine.tracing.stage import stage


@overload
def make_jaxpr(fun: Callable[..., Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Any, int]] | None = None,
               return_shape: Literal[False] = False) -> Callable[..., Jaxpr]: ...
@overload
def make_jaxpr(fun: Callable[..., Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Any, int]] | None = None, *, return_shape: Literal[True]
               ) -> Callable[..., tuple[Jaxpr, Any]]: ...
@overload
def make_jaxpr(fun: Callable[..., Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Any, int]] | None = None, return_shape: bool = False
               ) -> Callable[..., Any]: ...
@boundary
def make_jaxpr(fun: Callable[..., Any], static_argnums: int | Sequence[int] = (),
               axis_env: Sequence[tuple[Any, int]] | None = None, return_shape: bool = False
               ) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` for its arguments.

    Args:
      fun: a function of pytrees of arrays.
      static_argnums: positions of arguments that are not arrays; negative ones count from the
        last positional argument.
      axis_env: named axes in scope, as `(name, size)` pairs.
      return_shape: whether to give `(jaxpr, tree of ShapeDtypeStructs of the results)`.

    Returns:
      A function of the same arguments, or of their types (`ShapeDtypeStruct`s, or `in_avals` of a
      jaxpr). The jaxpr's `consts` are the values `fun` closed over.

    Raises:
      TypeError: `fun` is not a function, or `static_argnums` are not integers; at calls: an
        argument or a result is not an array, or `axis_env` cannot be iterated over.
      ValueError: `fun` does not have a static argument; at calls: it returns a reference.
      OverflowError: at calls: a Python int that the default integer dtype cannot hold.

    Example:
      >>> print(mjax.make_jaxpr(lambda x: x + 1)(2.0))
      { lambda  ; a:~f32[]. let
          b:~f32[] = add a 1.0:~f32[]
        in (b,) }
    """
    check_callable("make_jaxpr", fun)
    # Signatures take time, and most programs are made once.
    unused = static_argnums is None or (type(static_argnums) is tuple and not static_argnums)
    parameters = None if unused else Parameters.of("make_jaxpr", fun)
    numbers = () if parameters is None else parameters.numbers("static", static_argnums)

    @wraps(fun)
    @boundary
    def make(*args: Any, **kwargs: Any) -> Any:
        static = [] if parameters is None else parameters.places("static", numbers, len(args))
        dynamic = [a for i, a in enumerate(args) if i not in static]
        leaves, in_tree = tree_flatten((tuple(dynamic), kwargs))
        try:
            avals = list(map(aval_of, leaves))
        except (TypeError, OverflowError):
            check_arguments("make_jaxpr", dynamic)
            check_arguments("make_jaxpr", kwargs, "keyword argument ")
            raise
        flat = FlatFunction(with_static(fun, [(i, args[i]) for i in static]), in_tree)
        info = debug_info_of("make_jaxpr", fun, args, kwargs, tuple(static))
        with axes_in_scope(axis_env or ()):
            jaxpr = with_room(stage, flat, avals, info)
        refuse_returned("make_jaxpr", jaxpr)
        if return_shape:
            return jaxpr, flat.out_tree.unflatten(map(ShapeDtypeStruct.of, jaxpr.out_avals))
        return jaxpr

    make.__name__ = make.__qualname__ = f"make_jaxpr({function_name(fun)})"
    return make
