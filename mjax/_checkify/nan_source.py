"""`nan_source`: the equation that produces the first NaN of a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._checkify.checkifying import checkify
from mjax._checkify.errors import BatchedError, CheckError, NaNMadeError
from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.source import summarize
from mjax._engine.tracing.flat import check_callable


@pickled_by("nan_source_v1")
class NaNSource(Record):
    """An equation that produces a NaN from numbers; `nan_source` finds it.

    Attributes:
      primitive: the name of its primitive.
      operands: the types of its operands, as text.
      line: the user's line: `file:line (function)`.

    Example:
      >>> mjax.debug.nan_source(lax.log, -1.0).primitive
      'log'
    """

    primitive: str
    operands: tuple[str, ...]
    line: str


@boundary
def nan_source(f: Callable[..., Any], *args: Any, **kwargs: Any) -> NaNSource | None:
    """Runs a function and finds the first equation that produces a NaN.

    It looks into each program that the function runs: jitted functions, iterations of loops, the
    branches that are taken (all of them in a batch whose elements take different ones), rules of
    `custom_jvp` and `custom_vjp`, linear solvers, derivatives, batches. An equation produces a NaN
    if its results hold one and its operands do not. So NaNs in arguments or constants of the
    program are not found.

    Args:
      f: a function of pytrees, which is traced.
      args: its arguments.
      kwargs: its keyword arguments.

    Returns:
      The primitive, the types of its operands and the line; None if no equation produces a NaN.

    Raises:
      TypeError: `f` is not callable.
      ValueError: `f` applies `vmap` to a loop whose elements end at different times.

    Example:
      >>> def f(xs):
      ...   return lax.scan(lambda total, x: (total + lax.log(x), None), 0.0, xs)[0]
      >>> mjax.debug.nan_source(f, jnp.array([1.0, 2.0]))
      >>> found = mjax.debug.nan_source(f, jnp.array([1.0, -2.0]))
      >>> found.primitive, found.operands
      ('log', ('float32[]',))
    """
    check_callable("nan_source", f)
    error = checkify(f, errors=frozenset({NaNMadeError}))(*args, **kwargs)[0].get_exception()
    return None if error is None else _source_of(error)


def _source_of(error: CheckError) -> NaNSource:
    while isinstance(error, BatchedError):  # one per device
        error = next(iter(error.error_mapping.values()))
    name, operands = error.details
    return NaNSource(name, operands, summarize(error.source))


__all__ = ["NaNSource", "nan_source"]
