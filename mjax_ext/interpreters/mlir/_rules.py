"""Lowering rules: registering, making and calling them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.util import exact
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.lowering.context import LoweringContext
from mjax._engine.lowering.module import checked_results
from mjax._engine.primitives.emit import flat
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import refuse_other
from mjaxlib_shim.mlir import func, ir

#: `(ctx, *operands, **params) -> list of ir.Value`.
LoweringRule = Callable[..., Any]


def register_lowering(prim: Primitive, rule: Any, platform: str | None = None,
                      inline: bool = True, cacheable: bool = True) -> Any:
    """Sets how a primitive becomes StableHLO.

    Args:
      prim: the primitive.
      rule: `(ctx, *operands, **params) -> list of ir.Value` (a single one need not be in a list),
        or the result of `lower_fun`.
      platform: the one platform it is for; "gpu": CUDA and ROCm, where these have no rule of their
        own; None: all that have none.
      inline: whether operations are emitted where the primitive is applied. Otherwise a function
        of the module holds them, one for all applications of equal types and params
        (`cache_lowering`).
      cacheable: not read. Rules with `inline=True` run for each application.

    Returns:
      The rule.

    Raises:
      TypeError: the rule is not a function, or does not take these arguments; or it is given to
        something else than a primitive.
      NotImplementedError: the platform is unknown.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> twice_p = core.Primitive("twice")
      >>> _ = twice_p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(twice_p, lambda ctx, x: [mlir.hlo.add(x, x)])
      >>> twice_p.bind(jnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    refuse_other(prim)
    prim.def_lowering(rule if inline or type(rule) is traced else cache_lowering(rule), platform)
    return rule


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> traced:
    """A lowering rule from a function of arrays, in terms of other primitives.

    Args:
      fun: takes the operands and the primitive's params.
      multiple_results: whether it gives a list, rather than one array.

    Returns:
      A rule for `register_lowering`. Another rule may also call it, as `rule(ctx, *operands)`, for
      operands of the types `ctx.avals_in` (`ctx.replace(avals_in=...)` sets those).

    Raises:
      TypeError: at `register_lowering`: `fun` is not a function; when the rule runs: it does not
        return a list, or returns one although `multiple_results` is False.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> softplus_p = core.Primitive("softplus")
      >>> _ = softplus_p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(softplus_p, mlir.lower_fun(
      ...     lambda x: lax.log1p(lax.exp(x)), multiple_results=False))
      >>> softplus_p.bind(0.0)
      Array(0.6931472, dtype=float32, weak_type=True)
    """
    return traced(fun, multiple_results)


def cache_lowering(rule: LoweringRule) -> LoweringRule:
    """A rule that emits the operations of another one once per module, types and params.

    They are in a function of the module, which the applications call. An application with ordered
    effects, or in a module of symbolic sizes, emits them in place.

    Args:
      rule: the other rule; it is called with operands that are arguments of the function.

    Returns:
      A lowering rule.

    Raises:
      TypeError: at `register_lowering`: `rule` is not a function; when the rule runs: it does not
        give IR values of the types of the results.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> twice_p = core.Primitive("twice")
      >>> _ = twice_p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(twice_p, mlir.cache_lowering(
      ...     lambda ctx, x: [mlir.hlo.add(x, x)]))
      >>> f = mjax.jit(lambda x: twice_p.bind(twice_p.bind(x)))
      >>> f.lower(1.0).as_text().count("stablehlo.add")
      1
    """

    def emit(ctx: LoweringContext, *operands: Any, **params: Any) -> Any:
        mctx = ctx.module_context
        if len(ctx.tokens_in) or mctx.dimensions:
            return rule(ctx, *operands, **params)
        key = ("cache_lowering", rule, tuple(ctx.avals_in), tuple(ctx.avals_out),
               tuple((name, exact(value)) for name, value in params.items()))
        name = mctx.cached_primitive_lowerings.get(key)
        if name is None:
            name = mctx.cached_primitive_lowerings[key] = _new_function(ctx, rule, params)
        call = func.CallOp(list(ctx.out_types), ir.FlatSymbolRefAttr.get(name), flat(operands))
        return mctx.as_values(ctx.avals_out, call.results)

    cached: Any = emit
    cached.__wrapped__ = cached.adapts = rule
    return emit


def _new_function(ctx: LoweringContext, rule: LoweringRule, params: dict[str, Any]) -> str:
    mctx = ctx.module_context
    name: str = mctx.fresh_name(str(ctx.primitive.name))
    function = mctx.new_function(name, mctx.types_of(ctx.avals_in), ctx.out_types)
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        func.ReturnOp(checked_results(ctx, rule, rule(
            ctx.replace(constants={}), *mctx.as_values(ctx.avals_in, block.arguments), **params)))
    return name


def delegate_lowering(ctx: LoweringContext, lowering_fun: LoweringRule, *args: Any,
                      **ctx_override_kwargs: Any) -> Any:
    """Calls a lowering rule from another one; the tokens after it are those of `ctx`.

    Args:
      ctx: the context of the calling rule.
      lowering_fun: the rule, `(ctx, *args) -> results`.
      args: its operands.
      ctx_override_kwargs: fields of the context that differ for it, such as `avals_in`.

    Returns:
      The IR values that the rule gives.

    Raises:
      TypeError: the context does not have a field of this name; or the tokens afterwards are not
        those of the effects of `ctx`.
      Exception: anything that the rule raises.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> fourfold_p = core.Primitive("fourfold")
      >>> _ = fourfold_p.def_abstract_eval(lambda x: x)
      >>> double = mlir.lower_fun(lambda x: lax.add(x, x), multiple_results=False)
      >>> def rule(ctx, x):
      ...   return mlir.delegate_lowering(ctx, double, *mlir.delegate_lowering(ctx, double, x))
      >>> _ = mlir.register_lowering(fourfold_p, rule)
      >>> float(fourfold_p.bind(1.0))
      4.0
    """
    inner = ctx.replace(**ctx_override_kwargs)
    results = lowering_fun(inner, *args)
    if len(ctx.tokens_in):
        ctx.set_tokens_out(inner.tokens)
    return results


def core_call_lowering(ctx: LoweringContext, *args: Any, name: str, backend: Any = None,
                       call_jaxpr: Jaxpr) -> list[Any]:
    """The lowering rule of a primitive that calls a program: one function of the module.

    Args:
      ctx: the context.
      args: the operands.
      name: the name of the function.
      backend: not read.
      call_jaxpr: the program, whose inputs the operands are.

    Returns:
      A list, an IR value or a tuple of them for each result.

    Raises:
      AttributeError: `call_jaxpr` is not a `Jaxpr`.
      MLIRError: when the module is compiled: there are more or fewer operands than inputs.

    Example:
      >>> from functools import partial
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> region_p = core.Primitive("region", multiple_results=True)
      >>> frame = core.Frame(region_p, "call_jaxpr")
      >>> _ = mlir.register_lowering(region_p, partial(mlir.core_call_lowering, name="region"))
      >>> body = mjax.make_jaxpr(lax.sin)(1.0)
      >>> f = mjax.jit(lambda x: region_p.bind(x, call_jaxpr=body)[0])
      >>> "call @region" in f.lower(1.0).as_text()
      True
    """
    return ctx.call(call_jaxpr, name, *args)

