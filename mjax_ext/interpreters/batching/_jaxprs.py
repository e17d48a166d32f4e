"""Programs for one element, as programs for a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import canonicalize_axis, check_count
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.tracing.rule_errors import as_jaxpr
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.transforms import batching as engine
from mjax._engine.transforms.batching import AxisData, batched_type
from mjax_ext._checked import flags_for
from mjax_ext.interpreters.batching._elements import matchaxis


class ZeroIfMapped:
    """The class of `zero_if_mapped`.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.zero_if_mapped
      zero_if_mapped
    """

    def __repr__(self) -> str:
        return "zero_if_mapped"


zero_if_mapped: ZeroIfMapped = ZeroIfMapped()


def batch_jaxpr(closed_jaxpr: Jaxpr, axis_data: AxisData, in_batched: Sequence[bool],
                instantiate: bool | Sequence[bool]) -> tuple[Jaxpr, list[bool]]:
    """The program for a batch whose axis comes first, cached on the program for one element.

    Args:
      closed_jaxpr: the program for one element.
      axis_data: the axis.
      in_batched: which inputs have the axis.
      instantiate: which results have it in any case; they are repeated if need be.

    Returns:
      The program for the batch, and which results have the axis.

    Raises:
      ValueError: there are more or fewer flags than inputs, or than results.
      TypeError: they are not bools.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: (lax.sin(x), y))(1.0, 1.0)
      >>> batched, out_batched = batching.batch_jaxpr(
      ...     jaxpr, batching.AxisData(None, 3), [True, False], False)
      >>> batched.in_avals[0].shape, out_batched
      ((3,), [True, False])
    """
    jaxpr = as_jaxpr("batch_jaxpr", closed_jaxpr)
    flags = flags_for("batch_jaxpr", "in_batched", in_batched, jaxpr.invars, "input")
    wanted = flags_for("batch_jaxpr", "instantiate", instantiate, jaxpr.outvars, "result")
    batched, dims = engine.batch_jaxpr(jaxpr, axis_data, [0 if f else None for f in flags], wanted)
    return batched, [d is not None for d in dims]


def batch_jaxpr_axes(closed_jaxpr: Jaxpr, axis_data: AxisData, in_axes: Sequence[int | None],
                     out_axes_dest: Sequence[Any]) -> tuple[Jaxpr, list[bool]]:
    """The program for a batch, cached on the program for one element.

    Args:
      closed_jaxpr: the program for one element.
      axis_data: the axis.
      in_axes: the batch axis of each input, or None.
      out_axes_dest: for each result its batch axis, None, or `zero_if_mapped`: 0 if it depends on
        mapped inputs, otherwise None.

    Returns:
      The program for the batch, and which results have the axis.

    Raises:
      ValueError: there are more or fewer axes than inputs, or than results; an axis is out of
        range; or a result depends on mapped inputs, and its axis is None.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: (lax.sin(x), y))(jnp.ones(2), 1.0)
      >>> batched, out_batched = batching.batch_jaxpr_axes(
      ...     jaxpr, batching.AxisData(None, 3), [0, None], [1, batching.zero_if_mapped])
      >>> batched.out_avals[0].shape, out_batched
      ((2, 3), [True, False])
    """
    jaxpr = as_jaxpr("batch_jaxpr_axes", closed_jaxpr)
    dests = tuple(out_axes_dest)
    check_count("batch_jaxpr_axes", "out_axes_dest", dests, jaxpr.outvars, "result")

    def place(value: Any, dim: int | None, i: int) -> tuple[Any, int | None]:
        dest = dests[i]
        if isinstance(dest, ZeroIfMapped):
            dest = None if dim is None else 0
        return matchaxis(axis_data, dim, dest, value), dest

    batched, dims = _batched("batch_jaxpr_axes", jaxpr, axis_data, in_axes, dests, place)
    return batched, [d is not None for d in dims]


def batch_jaxpr2(closed_jaxpr: Jaxpr, axis_data: AxisData, in_axes: Sequence[int | None]
                 ) -> tuple[Jaxpr, tuple[int | None, ...]]:
    """The program for a batch, whose results have their axes where they arise.

    Args:
      closed_jaxpr: the program for one element.
      axis_data: the axis.
      in_axes: the batch axis of each input, or None.

    Returns:
      The program for the batch, cached on that for one element, and the batch axis of each result,
      or None.

    Raises:
      ValueError: there are more or fewer axes than inputs, or one is out of range.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> jaxpr = mjax.make_jaxpr(lambda x, y: (lax.sin(x), y))(jnp.ones(2), 1.0)
      >>> batching.batch_jaxpr2(jaxpr, batching.AxisData(None, 3), [1, None])[1]
      (1, None)
    """
    jaxpr = as_jaxpr("batch_jaxpr2", closed_jaxpr)
    batched, dims = _batched("batch_jaxpr2", jaxpr, axis_data, in_axes, None,
                             lambda value, dim, i: (value, dim))
    return batched, tuple(dims)


def _batched(who: str, jaxpr: Jaxpr, axis: AxisData, in_axes: Sequence[int | None], dests: Any,
             place: Callable[[Any, Any, int], tuple[Any, int | None]]
             ) -> tuple[Jaxpr, list[int | None]]:
    check_count(who, "in_axes", in_axes, jaxpr.invars, "input")
    # Axes may count from the end, of the batch.
    axes = tuple([None if d is None else canonicalize_axis(d, v.aval.ndim + 1)
                  for d, v in zip(in_axes, jaxpr.invars, strict=True)])

    def make() -> tuple[Jaxpr, list[int | None]]:
        out_dims: list[int | None] = []

        def f(*args: Any) -> list[Any]:
            outs, dims = engine.batch_flat(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a), axis,
                                           args, axes)
            placed = [place(o, d, i) for i, (o, d) in enumerate(zip(outs, dims, strict=True))]
            out_dims.extend(d for _, d in placed)
            return [o for o, _ in placed]

        avals = [batched_type(a, d, axis.size) for a, d in zip(jaxpr.in_avals, axes, strict=True)]
        return trace_to_jaxpr(f, avals, jaxpr.debug_info), out_dims

    made: tuple[Jaxpr, list[int | None]] = jaxpr.cached(
        (who, axis, axes, dests, thread.settings), make)
    return made
