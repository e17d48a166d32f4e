"""`closure_convert`: turns closed-over values into arguments, so that custom rules get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import boundary
from mjax._engine.ir.pytree import tree_flatten, tree_structure, treedef_tuple
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.flat import (
    FlatFunction,
    check_arguments,
    check_callable,
    debug_info_of,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.stage import eval_jaxpr, stage
from mjax._engine.transforms.batching import BatchTracer


@boundary
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any],
                                                                       list[Any]]:
    """Turns the differentiable values that a function closes over into arguments.

    Custom rules differentiate in arguments only. A function that takes a function, such as an
    optimizer or an integrator, gets the values inside of it this way.

    Args:
      fun: a function of pytrees of arrays, without side effects.
      example_args: arguments, or `ShapeDtypeStruct`s in their place; only their types are used.

    Returns:
      A function of the arguments and, after them, the closed-over values; and the list of these.
      They are traced values of inexact dtype; all others stay in the closure.

    Raises:
      TypeError: `fun` is not callable; an argument is not an array; when the function is called:
        arguments of another structure than those of the example.

    Example:
      >>> def loss(a):
      ...   f, closed_over = mjax.closure_convert(lambda x: lax.mul(a, x), 1.0)
      ...   return f(3.0, *closed_over)
      >>> mjax.grad(loss)(2.0)
      Array(3., dtype=float32, weak_type=True)

    Source: JAX, `jax.closure_convert`.
    """
    check_callable("closure_convert", fun)
    check_arguments("closure_convert", example_args)
    leaves, in_tree = tree_flatten(example_args)
    flat = FlatFunction(fun, treedef_tuple((in_tree, tree_structure({}))))
    info = debug_info_of("closure_convert", fun, example_args, {})
    jaxpr = stage(flat, list(map(typeof, leaves)), info)
    hoisted = [_may_be_differentiated(c) for c in jaxpr.consts]
    values = [c for c, h in zip(jaxpr.consts, hoisted, strict=True) if h]

    @boundary
    def converted(*args: Any) -> Any:
        n = len(args) - len(values)
        given, tree = tree_flatten(args[:max(n, 0)])
        if n < 0 or tree != in_tree:
            raise LazyTypeError(lambda: (
                f"the function that closure_convert made of {describe_function(fun)} takes "
                f"arguments of the tree structure of the example, {in_tree}, and then the "
                f"{len(values)} values closed over; got {tree_structure(args)}."))
        closed_over = iter(args[n:])
        consts = [next(closed_over) if h else c
                  for c, h in zip(jaxpr.consts, hoisted, strict=True)]
        return flat.out_tree.unflatten(eval_jaxpr(jaxpr, consts, *given))

    converted.__name__ = function_name(fun)
    return converted, values


def _may_be_differentiated(value: Any) -> bool:
    """A value that an interpreter in force may carry a tangent of."""
    while isinstance(value, BatchTracer):
        value = value.value
    return (isinstance(value, Tracer) and value.interp is not evaluation
            and bool(value.aval.inexact))


__all__ = ["closure_convert"]
