"""`inspect_sharding`: passes the sharding of a value in a program to a function.

XLA chooses shardings when it compiles the program, so the function is called then, and not when
the program runs. Param `callback` is a function of the sharding and of the value's shape;
`_tools.visualize` makes it from the user's function, and defines the impl.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.control.callback_primitives import debug_effect
from mjax._engine.tracing.primitive import EnginePrimitive

# Caches of types would keep the user's functions alive.
inspect_sharding_p = EnginePrimitive("inspect_sharding", params={
    "callback": Callable[..., Any]}, multiple_results=True, types_cacheable=False)


@inspect_sharding_p.def_effectful_abstract_eval
def _type(aval: Any, *, callback: Callable[..., Any]) -> Any:
    return [], frozenset({debug_effect})


@inspect_sharding_p.def_lowering
def _lower(ctx: Any, value: Any, *, callback: Callable[..., Any]) -> list[Any]:
    ctx.module_context.inspect(value, ctx.avals_in[0], callback)
    return []


@inspect_sharding_p.def_jvp
def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Inspects the primals."""
    return inspect_sharding_p.bind(*primals, **params), []


@inspect_sharding_p.def_batch
def _batch(args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    """Inspects the whole batch: its elements are not values of their own."""
    return inspect_sharding_p.bind(*args, **params), []
