"""Primitives that call Python functions: `pure_callback`, `io_callback`, `debug_callback`.

Their param `callback` is a function of NumPy arrays that returns a tuple of them, with the types
`result_avals`. `runtime.effects.callbacks` wraps users' functions this way, and defines the impls.
Calls are merged, dropped or repeated as their effects allow; a pure one does not have any.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from mjax._engine.base.errors import (
    LazyNoDerivativeError,
    LazyNotImplementedError,
    LazyValueError,
)
from mjax._engine.base.platforms import names_of
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, counted
from mjax._engine.control.opaque_calls import ONE_BY_ONE, emit_once, one_by_one, with_batch
from mjax._engine.ir.effects import Effect, EffectPolicy, no_effects
from mjax._engine.ir.source import here
from mjax._engine.ir.token_types import AbstractToken
from mjax._engine.ir.types import AbstractValue, physical_aval
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import applied_at, describe_value, refuse_effects
from mjax._engine.tracing.variance import typed_axes
from mjax._engine.transforms.batching import AxisData, batched_type
from mjaxlib_shim.host_callbacks import lacks_pieces, one_device_calls

logger = logging.getLogger("mjax")
#: Ordered prints and ordered input and output share a token, so that they have one common order.
_STORY = "story"
#: Platforms whose programs can call Python functions.
_CALLING = ("cpu", "gpu")


class IOEffect(Effect):
    """Unordered input and output."""

    policy: ClassVar[EffectPolicy] = EffectPolicy(masked=False, differentiable=False, remat=False)


class OrderedIOEffect(Effect):
    """Input and output in the order of the program."""

    policy: ClassVar[EffectPolicy] = EffectPolicy(
        ordered=True, token=_STORY, batchable=False, masked=False, differentiable=False,
        remat=False)


class DebugEffect(Effect):
    """Inspecting values; allowed everywhere.

    Example:
      >>> jaxpr = mjax.make_jaxpr(lambda x: mjax.debug.print("{}", x))(1.0)
      >>> [isinstance(effect, mjax.debug.DebugEffect) for effect in jaxpr.effects]
      [True]
    """

    policy: ClassVar[EffectPolicy] = EffectPolicy()


class OrderedDebugEffect(Effect):
    """Inspecting values in the order of the program.

    Example:
      >>> jaxpr = mjax.make_jaxpr(lambda x: mjax.debug.print("{}", x, ordered=True))(1.0)
      >>> [isinstance(effect, mjax.debug.OrderedDebugEffect) for effect in jaxpr.effects]
      [True]
    """

    policy: ClassVar[EffectPolicy] = EffectPolicy(ordered=True, token=_STORY)


io_effect, ordered_io_effect = IOEffect(), OrderedIOEffect()
debug_effect, ordered_debug_effect = DebugEffect(), OrderedDebugEffect()

# Caches of types would keep the user's functions alive. Each device calls them.
pure_callback_p = EnginePrimitive("pure_callback", params={
    "callback": Callable[..., Any], "result_avals": tuple[AbstractValue, ...],
    "vmap_method": str | None}, multiple_results=True, types_cacheable=False, own_varying=True)
io_callback_p = EnginePrimitive("io_callback", params={
    "callback": Callable[..., Any], "result_avals": tuple[AbstractValue, ...], "ordered": bool},
    multiple_results=True, types_cacheable=False, own_varying=True)
debug_callback_p = EnginePrimitive("debug_callback", params={
    "callback": Callable[..., Any], "effect": Effect, "partitioned": bool},
    multiple_results=True, types_cacheable=False, own_varying=True)


def _per_device(avals: Sequence[Any], callback: Any) -> list[Any]:
    """Types of a Python function's results. They may differ on each device, unless the author
    declares otherwise."""
    typed = typed_axes()
    if not typed:
        return list(avals)
    declared = getattr(callback, "declared", ()) or (None,) * len(avals)
    return [a.update(varying=typed if d is None else d & typed)
            for a, d in zip(avals, declared, strict=True)]


@pure_callback_p.def_effectful_abstract_eval
def _pure_type(*avals: Any, callback: Any, result_avals: Sequence[Any], **params: Any) -> Any:
    return _per_device(result_avals, callback), no_effects


@io_callback_p.def_effectful_abstract_eval
def _io_type(*avals: Any, callback: Any, result_avals: Sequence[Any], ordered: bool,
             **params: Any) -> Any:
    effect = ordered_io_effect if ordered else io_effect
    return _per_device(result_avals, callback), frozenset({effect})


@debug_callback_p.def_effectful_abstract_eval
def _debug_type(*avals: Any, effect: Effect, **params: Any) -> Any:
    return [], frozenset({effect})


# ---- lowering --------------------------------------------------------------------------


def emit_python_callback(ctx: Any, callback: Callable[..., Any], token: Any,
                         operands: Sequence[Any], operand_avals: Sequence[Any],
                         result_avals: Sequence[Any], *, has_side_effect: bool,
                         returns_token: bool = True, partitioned: bool = False,
                         sharding: Any = None) -> tuple[list[Any], Any, None]:
    """Emits a call of a Python function, on CPU or GPU.

    Args:
      ctx: the context of the lowering rule.
      callback: gets a NumPy array per operand and returns a tuple of arrays of exactly the
        types `result_avals`.
      token: a token that it comes after, such as `ctx.tokens_in.get(effect)`; or None.
      operands: `ir.Value`s.
      operand_avals: their types.
      result_avals: the types of the results.
      has_side_effect: whether it is called even if its results are unused.
      returns_token: not needed: a call with a token gives one, a call without one does not. JAX
        asks on TPU.
      partitioned: whether each device of a program calls it, with its own pieces of the operands.
        Such a callback has no results and no token.
      sharding: not needed: JAX is told where the call runs. mjax knows: on the first device, or on
        each one in a shard_map.

    Returns:
      The results' `ir.Value`s, the token that comes after it (None without one), and None. JAX
      returns an object to keep in the third place; mjax keeps it itself.

    Raises:
      ValueError: `partitioned` with results, or with a token in a program over several devices;
        there are more or fewer types than operands.
      TypeError: an operand does not have its type, or the callback is not a function.
      NotImplementedError: `partitioned` in such a program, before jaxlib 0.6.0; or the module is
        for another platform.
      XlaRuntimeError: when the program runs: the callback fails, or returns something else.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> def rule(ctx, x):
      ...   results, *_ = mlir.emit_python_callback(
      ...       ctx, lambda v: (np.cos(v),), None, [x], ctx.avals_in, ctx.avals_out,
      ...       has_side_effect=False)
      ...   return results
      >>> p = core.Primitive("cosine_in_python")
      >>> _ = p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(p, rule)
      >>> float(mjax.jit(p.bind)(np.float32(0)))
      1.0

    Source: the public interface of `jax.interpreters.mlir.emit_python_callback`.
    """
    check_count("emit_python_callback", "operand_avals", operand_avals, operands, "operand")
    if not callable(callback):
        msg = f"emit_python_callback: callback must be a function, got {describe_value(callback)}."
        raise TypeError(msg)
    for i, (value, aval) in enumerate(zip(operands, operand_avals, strict=True)):
        if getattr(value, "type", None) != ctx.module_context.type_of(aval):
            msg = (f"emit_python_callback: operand {i} has the type "
                   f"{getattr(value, 'type', type(value).__name__)}, not that of {aval}.")
            raise TypeError(msg)
    return _emit(ctx, _checked(ctx.primitive, callback, result_avals), token, operands,
                 operand_avals, result_avals, has_side_effect, partitioned)


def _emit(ctx: Any, callback: Callable[..., Any], token: Any, operands: Sequence[Any],
          operand_avals: Sequence[Any], result_avals: Sequence[Any], has_side_effect: bool,
          partitioned: bool) -> tuple[list[Any], Any, None]:
    """`emit_python_callback` of a callback that surely gives arrays of the declared types."""
    mctx = ctx.module_context
    platform = next((name for name in names_of(mctx.platform) if name in _CALLING), None)
    if platform is None:
        raise LazyNotImplementedError(lambda: (
            f"{ctx.primitive.name}: programs call Python functions on {' and '.join(_CALLING)}, "
            f"not on {mctx.platform}.\n{applied_at(ctx.source)}"))
    order = [] if token is None else [mctx.token_aval]
    n, in_avals, out_avals = len(order), [*order, *operand_avals], [*order, *result_avals]
    devices = 1 if mctx.devices is None else len(mctx.devices)
    on_pieces = partitioned and mctx.cut_by_xla and not mctx.per_device
    if partitioned:
        _refuse_partitioned(ctx, on_pieces, bool(n), bool(result_avals))
    place = _place(ctx, getattr(callback, "device", None))
    callback = _marked(_told(callback) if mctx.partitioned else callback, devices)
    after = None if mctx.opaque_tokens else np.zeros((), np.bool_)

    def with_token(_: Any, *args: Any) -> tuple[Any, ...]:
        return (after, *callback(*args))

    def emit(*values: Any, sharding: Any = None) -> list[Any]:
        return mctx.host_callbacks.emit(
            with_token if n else callback, values, list(map(_shape, in_avals)),
            list(map(_shape, out_avals)), list(map(mctx.type_of, out_avals)),
            has_side_effect=has_side_effect, client=mctx.client, platform=platform,
            sharding=sharding, partitioned=on_pieces)

    if on_pieces:
        return emit(*operands), None, None
    emitted = list(emit_once(ctx, [*([] if token is None else [token]), *operands], operand_avals,
                             out_avals, has_side_effect, one_device_calls(
                                 has_side_effect, 1 if n else len(result_avals)), emit, n, place))
    return emitted[n:], emitted[0] if n else None, None


def _place(ctx: Any, device: Any) -> int:
    """The number of the device that calls a function, among those of the program."""
    if device is None:
        return 0
    mctx = ctx.module_context
    if mctx.per_device:
        raise LazyNotImplementedError(lambda: (
            f"{ctx.primitive.name}: in the body of a shard_map each device calls the function. "
            f"Leave out sharding.\n{applied_at(ctx.source)}"))
    if mctx.runs_on is None:
        return 0
    if device not in mctx.runs_on:
        refuse_device(ctx.primitive.name, device, mctx.runs_on, ctx.source)
    return list(mctx.runs_on).index(device)


def refuse_device(who: str, device: Any, devices: Sequence[Any], source: Any = None) -> None:
    """Refuses a device for a callback that is none of the program's.

    Raises:
      ValueError: always.
    """
    raise LazyValueError(lambda: (
        f"{who}: sharding names the device {device}, but the program runs on "
        f"{', '.join(map(str, devices))}. Name one of these, or leave out sharding."
        f"{'' if source is None else chr(10) + applied_at(source)}"))


def _checked(primitive: Any, callback: Callable[..., Any], avals: Sequence[Any]
             ) -> Callable[..., Any]:
    """A callback whose results are compared with their types: XLA would copy as many bytes as it
    needs, from whatever memory there is."""
    expected = list(map(_shape, avals))

    def call(*args: Any) -> Any:
        results = callback(*args)
        if not isinstance(results, (tuple, list)) or len(results) != len(expected):
            msg = (f"{primitive}: the Python callback must return a tuple of "
                   f"{counted(len(expected), 'array')}, but returned {describe_value(results)}.")
            raise TypeError(msg)
        for i, (result, kind) in enumerate(zip(results, expected, strict=True)):
            found = np.shape(result), getattr(result, "dtype", type(result).__name__)
            if kind is not None and found != kind:
                msg = (f"{primitive}: the Python callback returned {found[1]}{list(found[0])} as "
                       f"result {i}, which must have type {kind[1]}{list(kind[0])}.")
                raise TypeError(msg)
        return tuple(map(np.asarray, results))

    return call


def _refuse_partitioned(ctx: Any, on_pieces: bool, ordered: bool, results: bool) -> None:
    """Refuses options that are impossible if each device calls a function with its own pieces."""
    if results:
        raise LazyValueError(lambda: (
            f"{ctx.primitive.name}: a partitioned callback gives no results, as each device would "
            f"give others. Leave out partitioned=True.\n{applied_at(ctx.source)}"))
    if on_pieces and ordered:
        raise LazyValueError(lambda: (
            f"{ctx.primitive.name}: with partitioned=True each device calls the function by "
            f"itself, in no order. Leave out ordered=True.\n{applied_at(ctx.source)}"))
    if on_pieces and (lacking := lacks_pieces()):
        raise LazyNotImplementedError(lambda: (
            f"{ctx.primitive.name}: partitioned=True in a program over several devices needs "
            f"{lacking}. Leave it out, or map the function with shard_map, where each device sees "
            f"its own piece.\n{applied_at(ctx.source)}"))


def _marked(callback: Callable[..., Any], devices: int) -> Callable[..., Any]:
    """A callback that records, during the call, the number of devices of its program."""

    def call(*args: Any) -> Any:
        outer, thread.in_callback = thread.in_callback, max(devices, thread.in_callback)
        try:
            return callback(*args)
        finally:
            thread.in_callback = outer

    return call


def _told(callback: Callable[..., Any]) -> Callable[..., Any]:
    """A callback of a program over several devices: its exceptions are logged at once.

    If other devices wait for this one in a collective, the error is not raised. XLA lets them
    wait, and finally aborts the process.
    """

    def call(*args: Any) -> Any:
        try:
            return callback(*args)
        except BaseException as error:
            logger.error(
                "A Python callback failed in a program over several devices. If others wait for "
                "its device in a collective, they wait in vain until XLA ends the process.",
                exc_info=getattr(error, "original", error))  # of a CallbackFailure
            raise

    return call


def _lower(ctx: Any, operands: Sequence[Any], callback: Callable[..., Any],
           has_side_effect: bool, partitioned: bool = False) -> list[Any]:
    (token,) = ctx.tokens_in.values() or (None,)
    results, token, _ = _emit(ctx, callback, token, operands, ctx.avals_in, ctx.avals_out,
                              has_side_effect, partitioned)
    if token is not None:
        ctx.set_tokens_out(ctx.tokens_in.replaced([token]))
    return results


def _shape(aval: Any) -> Any:
    """Shape and dtype of an array; None for a token."""
    if isinstance(aval, AbstractToken):
        return None
    physical = physical_aval(aval)
    return physical.shape, physical.dtype


for _platform in _CALLING:
    pure_callback_p.def_lowering(
        lambda ctx, *operands, callback, **params: _lower(ctx, operands, callback, False),
        _platform)
    io_callback_p.def_lowering(
        lambda ctx, *operands, callback, **params: _lower(ctx, operands, callback, True),
        _platform)
    debug_callback_p.def_lowering(
        lambda ctx, *operands, callback, partitioned=False, **params: _lower(
            ctx, operands, callback, True, partitioned), _platform)

# ---- derivatives -----------------------------------------------------------------------


@pure_callback_p.def_jvp
def _pure_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    source = here()
    raise LazyNoDerivativeError(lambda: (
        f"pure_callback of {params['callback']} has no derivative: mjax does not see into a "
        "Python function. Give one by custom_jvp or custom_vjp around it, or keep it from being "
        f"differentiated by lax.stop_gradient of its operands.\n{applied_at(source)}"))


pure_callback_p.deviates("jvp", "It refuses: a Python function has the derivative that is given "
                         "around it.")


@io_callback_p.def_jvp
def _io_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    refuse_effects(io_callback_p, _io_type(**params)[1], "differentiable")


def _refuse_transposed(name: str) -> None:
    source = here()
    raise LazyNoDerivativeError(lambda: (
        f"{name} of a Python function has no transpose: mjax does not see whether it is linear. "
        f"Give it one by lax.linear_call or custom_vjp.\n{applied_at(source)}"))


@pure_callback_p.def_transpose
def _pure_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    _refuse_transposed("pure_callback")


@io_callback_p.def_transpose
def _io_transpose(cts: Any, *args: Any, **params: Any) -> Any:
    _refuse_transposed("io_callback")


@debug_callback_p.def_jvp
def _debug_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    """Inspects the primals."""
    return debug_callback_p.bind(*primals, **params), []


# ---- batching --------------------------------------------------------------------------


@pure_callback_p.def_axis_batch
def _pure_batch(axis: AxisData, args: Any, dims: Any, *, vmap_method: str | None,
                result_avals: Sequence[Any], **params: Any) -> Any:
    if vmap_method is None:
        source = here()
        raise LazyValueError(lambda: (
            f"vmap of pure_callback of {params['callback']}: vmap_method says how the function "
            "is called for a batch, and was not given. Pass vmap_method='sequential' (once per "
            "element), 'expand_dims' or 'broadcast_all' (once, for arrays with a leading batch "
            f"axis).\n{applied_at(source)}"))
    params["vmap_method"] = vmap_method
    if vmap_method in ONE_BY_ONE:
        return one_by_one(pure_callback_p, axis, args, dims,
                           {**params, "result_avals": result_avals}, "unrolled" in vmap_method)
    args = [with_batch(a, d, axis.size, vmap_method) for a, d in zip(args, dims, strict=True)]
    batched = tuple(batched_type(a, 0, axis.size) for a in result_avals)
    callback = params.pop("callback").for_results(batched)
    return pure_callback_p.bind(*args, callback=callback, result_avals=batched, **params), [
        0] * len(batched)


@io_callback_p.def_axis_batch
def _io_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
    refuse_effects(io_callback_p, _io_type(**params)[1], "batchable")
    return one_by_one(io_callback_p, axis, args, dims, params)


@debug_callback_p.def_axis_batch
def _debug_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
    return one_by_one(debug_callback_p, axis, args, dims, params)


__all__ = [
    "DebugEffect", "IOEffect", "OrderedDebugEffect", "OrderedIOEffect", "debug_callback_p",
    "debug_effect", "emit_python_callback", "io_callback_p", "io_effect", "ordered_debug_effect",
    "ordered_io_effect", "pure_callback_p", "refuse_device",
]
