"""optimization_barrier: the compiler does not move or fuse operations across it."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir.pytree import tree_flatten
from mjax._engine.primitives.emit import hlo
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.symbolic import Zero

optimization_barrier_p = EnginePrimitive("optimization_barrier", params={}, multiple_results=True)
optimization_barrier_p.def_abstract_eval(lambda *operands: list(operands))
# Keys pass as the arrays they are stored in.
optimization_barrier_p.def_lowering(
    lambda ctx, *operands: hlo.OptimizationBarrierOp(list(operands)).results)
optimization_barrier_p.def_batch(
    lambda args, dims: (optimization_barrier_p.bind(*args), list(dims)))


def _barrier_of_nonzeros(values: Any) -> list[Any]:
    passed = iter(optimization_barrier_p.bind(*[v for v in values if type(v) is not Zero]))
    return [v if type(v) is Zero else next(passed) for v in values]


@optimization_barrier_p.def_jvp
def _optimization_barrier_jvp(primals: Any, tangents: Any) -> Any:
    return optimization_barrier_p.bind(*primals), _barrier_of_nonzeros(tangents)


@optimization_barrier_p.def_transpose
def _optimization_barrier_transpose(cts: Any, *operands: Any) -> Any:
    return _barrier_of_nonzeros(cts)


@boundary
def optimization_barrier(operand: Any, /) -> Any:
    """Returns a tree of arrays unchanged, after all of them have been computed.

    The compiler neither moves operations across it nor merges those before with those
    after it.

    Args:
      operand: pytree of arrays.

    Returns:
      The same tree of the same values.

    Raises:
      TypeError: an argument is not an array or scalar.

    Example:
      >>> lax.optimization_barrier({"x": jnp.ones(2)})
      {'x': Array([1., 1.], dtype=float32)}

    Source: StableHLO `optimization_barrier`.
    """
    leaves, tree = tree_flatten(operand)
    return tree.unflatten(optimization_barrier_p.bind(*leaves)) if leaves else operand


def barrier(x: Any) -> Any:
    """One array behind a barrier."""
    return optimization_barrier_p.bind(x)[0]
