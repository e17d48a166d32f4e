"""Calls that the engine does not see into, of Python and foreign functions: where they run in a
program over several devices, and their batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyNotImplementedError, LazyValueError
from mjax._engine.control.loops.looping import scan
from mjax._engine.primitives.shapes import batch_to_front, expand_dims
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.transforms.batching import AxisData
from mjaxlib_shim.host_callbacks import keeps_results

# ---- devices ---------------------------------------------------------------------------


def emit_once(ctx: Any, operands: Sequence[Any], operand_avals: Sequence[Any],
              out_avals: Sequence[Any], has_side_effect: bool, marked: bool,
              emit: Callable[..., Sequence[Any]], tokens: int = 0, place: int = 0
              ) -> Sequence[Any]:
    """Emits a call that one device of a program does for all, with whole operands; in the body of
    a shard_map each device does.

    Args:
      ctx: the context of the lowering rule.
      operands: `ir.Value`s; the first ones are tokens.
      operand_avals: the types of those behind the tokens.
      out_avals: the types of the results.
      has_side_effect: whether the call happens even if its results are unused.
      marked: whether XLA runs it on the device that a sharding of the operation names.
      emit: `(*operands, sharding=None) -> results`. `sharding` gives that of a number of results,
        or None.
      tokens: the number of tokens, which there are among the results too.
      place: the number of the device.

    Raises:
      ValueError: a token, in a shard_map that leaves mesh axes to XLA.
      NotImplementedError: results there that this jaxlib loses.
    """
    mctx = ctx.module_context
    given = [*operands[:tokens], *mctx.gathered(operands[tokens:], operand_avals)]
    if not mctx.partitioned:
        return emit(*given)
    if mctx.per_device and mctx.cut_by_xla and has_side_effect:
        _refuse_partly_manual(ctx, bool(tokens), len(out_avals) > tokens)
        return mctx.by_one_device(given, out_avals, emit)
    if mctx.per_device or marked:
        outs = emit(*given, sharding=lambda count: mctx.on_one_device(count, place))
        # XLA leaves results of the program on that device alone, unless the others ask for them.
        return [*outs[:tokens], *mctx.gathered(outs[tokens:], out_avals[tokens:])]
    return mctx.by_one_device(given, out_avals, lambda *values: emit(
        *values, sharding=lambda count: None), place)


def _refuse_partly_manual(ctx: Any, ordered: bool, results: bool) -> None:
    """Refuses side effects that the first device alone cannot have along the axes left to XLA."""
    all_axes = "Map over all axes (leave out axis_names)"
    if ordered:
        raise LazyValueError(lambda: (
            f"{ctx.primitive.name}: ordered effects cannot happen in a shard_map that leaves mesh "
            f"axes to XLA. {all_axes}, or do without ordered=True.\n{applied_at(ctx.source)}"))
    if results and not keeps_results():
        raise LazyNotImplementedError(lambda: (
            f"{ctx.primitive.name}: on this jaxlib its results are lost in a shard_map that leaves "
            f"mesh axes to XLA. {all_axes}.\n{applied_at(ctx.source)}"))


# ---- batches ---------------------------------------------------------------------------

#: What `vmap_method` may be; None: vmap is refused.
METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all",
           "legacy_vectorized")
#: Those that call the function for each element.
ONE_BY_ONE = METHODS[:2]


def check_method(who: str, method: str | None) -> None:
    """Refuses other values of `vmap_method`.

    Raises:
      ValueError: it is unknown.
    """
    if method is not None and method not in METHODS:
        msg = f"{who}: vmap_method must be one of {METHODS} or None, got {method!r}."
        raise ValueError(msg)


def one_by_one(primitive: Primitive, axis: AxisData, args: Sequence[Any],
               dims: Sequence[int | None], params: dict[str, Any], unroll: bool = False) -> Any:
    """A call per batch element, in the order of the batch; in a loop unless unrolled."""
    args = [a if d is None else batch_to_front(a, d, axis.size)
            for a, d in zip(args, dims, strict=True)]

    def call(_: Any, rows: Sequence[Any]) -> tuple[Any, list[Any]]:
        given = iter(rows)
        return (), primitive.bind(*[a if d is None else next(given)
                                    for a, d in zip(args, dims, strict=True)], **params)

    _, outs = scan(call, (), [a for a, d in zip(args, dims, strict=True) if d is not None],
                   unroll=unroll)
    return outs, [0] * len(outs)


def with_batch(x: Any, dim: int | None, size: int, method: str) -> Any:
    """An operand of one call for the whole batch, by one of the other methods."""
    if dim is None and method == "expand_dims":
        return expand_dims(x, (0,))
    if dim is None and method == "legacy_vectorized":
        return x
    return batch_to_front(x, dim, size)
