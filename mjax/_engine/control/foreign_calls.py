"""Calls of foreign functions: `ffi_call_p`, and lowering rules of primitives that call one.

XLA looks the target up when it compiles, in a table of its own. So a program can be staged,
printed and exported where the function does not exist.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mjax._engine.base.errors import (
    LazyNoDerivativeError,
    LazyNotImplementedError,
    LazyTypeError,
    LazyValueError,
)
from mjax._engine.base.folding import boundary
from mjax._engine.base.util import check_order
from mjax._engine.control.opaque_calls import ONE_BY_ONE, emit_once, one_by_one, with_batch
from mjax._engine.ir.effects import Effect, EffectPolicy, no_effects
from mjax._engine.ir.schema import Pairs
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.source import here
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import AbstractValue, physical_aval, typeof
from mjax._engine.primitives.custom_call_ir import custom_call, ir_attribute
from mjax._engine.primitives.emit import shape_ir
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.variance import typed_axes
from mjax._engine.transforms.batching import AxisData, batched_type
from mjaxlib_shim.custom_calls import lacks_tokens, prepare_target

#: The order of an array's axes in memory: minor to major, as XLA has it.
Order = tuple[int, ...]
#: The first `api_version` of targets that take attributes.
TYPED = 4


class FfiEffect(Effect):
    """The side effects of a foreign function, in no order."""

    policy = EffectPolicy(remat=False)


ffi_effect = FfiEffect()

# ---- lowering --------------------------------------------------------------------------


@boundary
def build_ffi_lowering_function(
        call_target_name: str, *, operand_layouts: Sequence[Any] | None = None,
        result_layouts: Sequence[Any] | None = None,
        backend_config: Mapping[str, Any] | str | None = None,
        skip_ffi_layout_processing: bool = False, **lowering_args: Any) -> Callable[..., Any]:
    """A function that emits a call of a foreign function, for use in a lowering rule.

    Types and shapes are those of the primitive's operands and results. Layouts are row-major
    unless given.

    Args:
      call_target_name: the name under which the function was registered.
      operand_layouts: for each operand its axes in the order minor to major (the last axis of
        row-major arrays comes first), a `Layout`, or None: row-major.
      result_layouts: the same of the results.
      backend_config: attributes of every call, as MLIR attributes by name. A string for
        functions of older conventions.
      skip_ffi_layout_processing: whether both layouts are left out: XLA chooses.
      lowering_args: further arguments of `mjax_ext.interpreters.mlir.custom_call`, such as
        `has_side_effect`, `operand_output_aliases`, `api_version` (default: 4).

    Returns:
      A function `(ctx, *operands, **params)` of the arguments of a lowering rule. It returns the
      operation; the params become attributes.

    Raises:
      ValueError: when it is called: the convention does not have attributes, a layout has tiles or
        does not name each axis once, or there are not as many layouts as operands or results.

    Example:
      >>> from mjax_ext.core import Primitive, ShapedArray
      >>> from mjax_ext.interpreters import mlir
      >>> potrf_p = Primitive("potrf", multiple_results=True)
      >>> _ = potrf_p.def_abstract_eval(lambda x: [x, ShapedArray((), np.int32)])
      >>> call = mjax.ffi.build_ffi_lowering_function("lapack_spotrf_ffi")
      >>> _ = mlir.register_lowering(
      ...     potrf_p, lambda ctx, x: call(ctx, x, uplo=np.uint8(ord("U"))).results)
      >>> potrf_p.bind(jnp.array([[4.0, 0.0], [2.0, 2.0]]))[0][1]
      Array([1., 1.], dtype=float32)
    """

    def emit(ctx: Any, *operands: Any, **params: Any) -> Any:
        options = {"api_version": TYPED, **lowering_args}
        options["backend_config"] = _configuration(
            ctx, call_target_name, options["api_version"], backend_config, params)
        options.setdefault("result_types", ctx.out_types)
        if not skip_ffi_layout_processing:
            options["operand_layouts"] = _orders(ctx, "operand", ctx.avals_in, operand_layouts)
            options["result_layouts"] = _orders(ctx, "result", ctx.avals_out, result_layouts)
        if not all(is_constant_shape(_shape(a)) for a in ctx.avals_out):
            options.setdefault("result_shapes", [shape_ir(_shape(a)) for a in ctx.avals_out])
        _refuse_tokens(ctx, call_target_name)
        prepare_target(call_target_name)
        ctx.module_context.note_target(call_target_name, ctx.primitive, ctx.source)
        return custom_call(call_target_name, operands=operands, **options)

    return emit


@boundary
def ffi_lowering(
        call_target_name: str, *, operand_layouts: Sequence[Any] | None = None,
        result_layouts: Sequence[Any] | None = None,
        backend_config: Mapping[str, Any] | str | None = None,
        skip_ffi_layout_processing: bool = False, **lowering_args: Any) -> Callable[..., Any]:
    """A lowering rule that calls a foreign function.

    Args:
      call_target_name: the name under which the function was registered.
      operand_layouts, result_layouts, backend_config, skip_ffi_layout_processing, lowering_args:
        those of `build_ffi_lowering_function`.

    Returns:
      A rule for `mjax_ext.interpreters.mlir.register_lowering`. The primitive's params become
      attributes, as by `mjax_ext.interpreters.mlir.ir_attribute`.

    Raises:
      ValueError: when it is called: the convention does not have attributes, a layout has tiles or
        does not name each axis once, or there are not as many layouts as operands or results.

    Example:
      >>> from mjax_ext.core import Primitive, ShapedArray
      >>> from mjax_ext.interpreters import mlir
      >>> potrf_p = Primitive("potrf", multiple_results=True)
      >>> _ = potrf_p.def_abstract_eval(lambda x, uplo: [x, ShapedArray((), np.int32)])
      >>> _ = mlir.register_lowering(potrf_p, mjax.ffi.ffi_lowering("lapack_spotrf_ffi"))
      >>> matrix = jnp.array([[4.0, 0.0], [2.0, 2.0]])
      >>> potrf_p.bind(matrix, uplo=np.uint8(ord("U")))[0][1]
      Array([1., 1.], dtype=float32)
    """
    emit = build_ffi_lowering_function(
        call_target_name, operand_layouts=operand_layouts, result_layouts=result_layouts,
        backend_config=backend_config, skip_ffi_layout_processing=skip_ffi_layout_processing,
        **lowering_args)
    return lambda ctx, *operands, **params: emit(ctx, *operands, **params).results


def _refuse_tokens(ctx: Any, target: str) -> None:
    """Refuses operands and results that are tokens, on the jaxlibs that crash then."""
    if abstract_token in (*ctx.avals_in, *ctx.avals_out) and (
            needed := lacks_tokens(ctx.module_context.platform)):
        raise LazyNotImplementedError(lambda: (
            f"{ctx.primitive.name}: {target!r} takes or gives a token, which needs {needed}. "
            "Before, give it has_side_effect=True, and order calls by their operands.\n"
            f"{applied_at(ctx.source)}"))


def _configuration(ctx: Any, target: str, api_version: int, given: Any, params: dict[str, Any]
                   ) -> Any:
    """The configuration of a call: attributes, or the text of an older convention."""
    if api_version < TYPED:
        if params:
            raise LazyValueError(lambda: (
                f"{ctx.primitive.name}: {target} is called as of api_version={api_version}, which "
                f"has no attributes, but got {', '.join(params)}. Give it a string: "
                f"legacy_backend_config of ffi_call, or backend_config.\n{applied_at(ctx.source)}"))
        return given
    if not isinstance(given, (Mapping, type(None))):
        raise LazyValueError(lambda: (
            f"{ctx.primitive.name}: {target} is called as of api_version={api_version}, so its "
            f"backend_config is a dict of attributes, not {given!r}.\n{applied_at(ctx.source)}"))
    found = dict(given or {})
    for name, value in params.items():
        try:
            found[name] = ir_attribute(value)
        except (TypeError, ValueError, OverflowError) as error:
            error.add_note(f"It is the attribute {name!r} of {target!r}.\n{applied_at(ctx.source)}")
            raise
    return found


def _shape(aval: Any) -> tuple[Any, ...]:
    """The shape of an operand or result as XLA sees it; that of tokens is ()."""
    return () if aval is abstract_token else physical_aval(aval).shape


def order_of(aval: Any, layout: Any, who: str) -> Order:
    """A layout as XLA has it: minor to major.

    Args:
      aval: the type of the array or token.
      layout: a `Layout`, an order minor to major, or None: row-major.
      who: the operand or result of a call, for messages.

    Raises:
      TypeError: it is not a layout.
      ValueError: it has tiles, or does not name each axis once.
    """
    ndim = len(_shape(aval))
    if layout is None:
        return tuple(range(ndim))[::-1]
    if getattr(layout, "tiling", None) is not None:
        raise LazyValueError(lambda: (
            f"{who}: {layout} has tiles, which foreign functions do not take. Leave tiling out."))
    try:
        order = tuple(map(operator.index, getattr(layout, "major_to_minor", layout)))
    except TypeError:
        raise LazyTypeError(lambda: (
            f"{who}: {layout!r} is not a layout. Give a Layout, the axes of the array, or None: "
            "row-major.")) from None
    check_order(order, ndim, who, layout)
    return order[::-1] if hasattr(layout, "major_to_minor") else order


def one_for_each(who: str, what: str, avals: Sequence[Any], given: Sequence[Any] | None
                 ) -> Sequence[Any]:
    """The layouts of all operands or results; row-major if none are given.

    Args:
      who: the call, for messages.
      what: "operand" or "result".
      avals: their types.
      given: the layouts as the user gave them.

    Raises:
      ValueError: the number of layouts differs.
    """
    if given is None:
        return [None] * len(avals)
    if len(given) != len(avals):
        raise LazyValueError(lambda: (
            f"{who}: there are {len(given)} {what} layouts ({given}) for {len(avals)} {what}s. "
            "Give one for each, or None: row-major."))
    return given


def _orders(ctx: Any, what: str, avals: Sequence[Any], given: Sequence[Any] | None
            ) -> list[Order]:
    name = ctx.primitive.name
    return [order_of(aval, layout, f"{name}: {what} {i}") for i, (aval, layout) in enumerate(
        zip(avals, one_for_each(name, what, avals, given), strict=True))]


# ---- the primitive ---------------------------------------------------------------------

# Its types depend on the mesh axes in scope.
ffi_call_p = EnginePrimitive("ffi_call", params={
    "target_name": str, "result_avals": tuple[AbstractValue, ...], "declared": tuple[Any, ...],
    "has_side_effect": bool, "vmap_method": str | None, "input_layouts": tuple[Order, ...],
    "output_layouts": tuple[Order, ...], "input_output_aliases": Pairs,
    "custom_call_api_version": int, "legacy_backend_config": Any,
    "attributes": tuple[tuple[str, Any], ...]}, multiple_results=True, types_cacheable=False,
    own_varying=True, exact_params=("attributes",))


@ffi_call_p.def_effectful_abstract_eval
def _ffi_call_type(*avals: Any, result_avals: Sequence[Any], declared: Sequence[Any],
                   has_side_effect: bool, **params: Any) -> Any:
    typed = typed_axes()
    # A function of its operands differs where they do; one with side effects may anywhere.
    found = typed if has_side_effect else typed.intersection(
        frozenset().union(*(a.varying for a in avals)))
    return [a.with_varying(found if axes is None else axes & typed)
            for a, axes in zip(result_avals, declared, strict=True)], (
                frozenset({ffi_effect}) if has_side_effect else no_effects)


@ffi_call_p.def_lowering
def _ffi_call_lowering(ctx: Any, *operands: Any, target_name: str, has_side_effect: bool,
                       input_layouts: Sequence[Order], output_layouts: Sequence[Order],
                       input_output_aliases: Sequence[tuple[int, int]],
                       custom_call_api_version: int, legacy_backend_config: str | None,
                       attributes: Sequence[tuple[str, Any]], **params: Any) -> Any:
    rule = ffi_lowering(
        target_name, has_side_effect=has_side_effect, operand_layouts=input_layouts,
        result_layouts=output_layouts, operand_output_aliases=dict(input_output_aliases),
        api_version=custom_call_api_version, backend_config=legacy_backend_config)

    def emit(*values: Any, sharding: Any = None) -> Any:
        return rule(ctx, *values, **dict(attributes))

    # Without side effects, XLA gives whole operands to a call on each device.
    if not has_side_effect or not ctx.module_context.partitioned:
        return emit(*operands)
    if abstract_token in (*ctx.avals_in, *ctx.avals_out) and not ctx.module_context.per_device:
        raise LazyNotImplementedError(lambda: (
            f"ffi_call of {target_name!r}: a call with side effects and tokens cannot be in a "
            "program over several devices. Put it into a shard_map, or leave the tokens out.\n"
            f"{applied_at(ctx.source)}"))
    return emit_once(ctx, operands, ctx.avals_in, ctx.avals_out, True, False, emit)


def _refuse_derivatives(target: str) -> None:
    source = here()
    raise LazyNoDerivativeError(lambda: (
        f"ffi_call of {target!r} cannot be differentiated: mjax does not see into a foreign "
        "function. Give it a derivative by custom_jvp or custom_vjp around it, or keep it from "
        f"being differentiated by lax.stop_gradient of its operands.\n{applied_at(source)}"))


@ffi_call_p.def_jvp
def _ffi_call_jvp(primals: Any, tangents: Any, *, target_name: str, **params: Any) -> Any:
    _refuse_derivatives(target_name)


ffi_call_p.deviates("jvp", "It refuses: a foreign function has the derivative that is given "
                    "around it.")


@ffi_call_p.def_transpose
def _ffi_call_transpose(cts: Any, *args: Any, target_name: str, **params: Any) -> Any:
    _refuse_derivatives(target_name)


# ---- batching --------------------------------------------------------------------------


@ffi_call_p.def_axis_batch
def _ffi_call_batch(axis: AxisData, args: Sequence[Any], dims: Sequence[int | None],
                    **params: Any) -> Any:
    method, result_avals = params["vmap_method"], params["result_avals"]
    if method is None:
        source = here()
        raise LazyNotImplementedError(lambda: (
            f"vmap of ffi_call of {params['target_name']!r}: vmap_method says how it is called for "
            "a batch, and was not given. Pass vmap_method='sequential' (once per element), "
            "'expand_dims' or 'broadcast_all' (once, for arrays with a leading batch axis).\n"
            f"{applied_at(source)}"))
    if method in ONE_BY_ONE:
        return one_by_one(ffi_call_p, axis, args, dims, params, "unrolled" in method)
    aliased = {operand for operand, _ in params["input_output_aliases"]}
    # A result takes over the memory of an operand that has room for the batch.
    given = [a if typeof(a) is abstract_token else
             with_batch(a, d, axis.size, "broadcast_all" if i in aliased else method)
             for i, (a, d) in enumerate(zip(args, dims, strict=True))]
    out_dims = [None if a is abstract_token else 0 for a in result_avals]
    params = {
        **params,
        "result_avals": tuple([batched_type(a, d, axis.size)
                               for a, d in zip(result_avals, out_dims, strict=True)]),
        "input_layouts": tuple([
            order if len(order) == len(_shape(typeof(x))) else _below_batch(order)
            for order, x in zip(params["input_layouts"], given, strict=True)]),
        "output_layouts": tuple([order if d is None else _below_batch(order) for order, d in zip(
            params["output_layouts"], out_dims, strict=True)])}
    return ffi_call_p.bind(*given, **params), out_dims


def _below_batch(order: Order) -> Order:
    """The layout of a batch of arrays, whose first axis varies slowest."""
    return (*(axis + 1 for axis in order), 0)


__all__ = ["FfiEffect", "build_ffi_lowering_function", "ffi_call_p", "ffi_effect", "ffi_lowering",
           "one_for_each", "order_of"]
