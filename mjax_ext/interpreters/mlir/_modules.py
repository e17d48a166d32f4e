"""Programs to modules and functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import check_count, counted
from mjax._engine.ir.effects import token_names
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.lowering import context as engine
from mjax._engine.lowering.facts import (
    NO_OPTIONS,
    ONE_DEVICE,
    LoweringParameters,
    ShapePolyLoweringState,
)
from mjax._engine.lowering.module import lower_to_module
from mjax._engine.lowering.shardings import Partition
from mjax._engine.lowering.tokens import TokenSet, no_tokens
from mjax._engine.primitives.emit import flat
from mjax._engine.runtime.arrays.donation import settle
from mjax._engine.tracing.rule_errors import as_jaxpr, describe_value
from mjax_ext._checked import flags_for
from mjax_ext.interpreters.mlir._contexts import client_for, devices_of, one_platform, prepare
from mjax_ext.interpreters.partial_eval import convert_constvars_jaxpr
from mjaxlib_shim.mlir import ir


class LoweringResult(Record):
    """The result of `lower_jaxpr_to_module`.

    Attributes:
      module: the `ir.Module`.
      keepalive: an object that has to live as long as the program.
      host_callbacks: the handles of the Python callbacks, for the compiler.
      shape_poly_state: the symbols of the module's sizes.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> result = mlir.lower_jaxpr_to_module("f", mjax.make_jaxpr(lax.sin)(1.0), platforms=["cpu"])
      >>> result.host_callbacks
      []
    """

    module: Any
    keepalive: Any
    host_callbacks: list[Any]
    shape_poly_state: ShapePolyLoweringState


@boundary
def lower_jaxpr_to_module(
        module_name: str, jaxpr: Jaxpr, *, platforms: Sequence[str], num_const_args: int = 0,
        in_avals: Sequence[Any] | None = None, ordered_effects: Sequence[Any] = (),
        backend: Any = None, axis_context: Any = ONE_DEVICE,
        donated_args: Sequence[bool] = (), replicated_args: Sequence[bool] | None = None,
        arg_shardings: Sequence[Any] | None = None, result_shardings: Sequence[Any] | None = None,
        in_layouts: Sequence[Any] | None = None, out_layouts: Sequence[Any] | None = None,
        arg_names: Sequence[str] | None = None, result_names: Sequence[str] | None = None,
        num_replicas: int = 1, num_partitions: int | None = None,
        all_default_mem_kind: bool = True,
        input_output_aliases: Sequence[int | None] | None = None,
        propagated_out_mem_kinds: Any = None,
        lowering_parameters: LoweringParameters = NO_OPTIONS) -> LoweringResult:
    """Lowers a jaxpr to a module with a public function `main`.

    `main` takes a token for each name of ordered effects, then the inputs, and gives likewise. Its
    constants are in the module.

    Args:
      module_name: the module's name.
      jaxpr: the program.
      platforms: the platform it is for, alone.
      num_const_args: how many inputs are constants of the caller; not read.
      in_avals: the types of the inputs; those of the jaxpr are used.
      ordered_effects: the effects whose order is kept; those of the jaxpr are used.
      backend: the client that will compile it; by default that of the platform. It is asked for
        only if the program has Python callbacks.
      axis_context: its devices: `SPMDAxisContext` or `ShardingContext`; by default one.
      donated_args: which inputs' memory results may take over.
      arg_shardings, result_shardings: a `NamedSharding`, or None, per input and per result, in a
        program over several devices.
      arg_names: names of the inputs in messages.
      result_names: names of the results, which become attributes of the module.
      num_partitions: the number of its devices; that of `axis_context` is used.
      input_output_aliases: per input the result that takes over its memory, or None.
      lowering_parameters: options.
      num_replicas, replicated_args, in_layouts, out_layouts, all_default_mem_kind: the defaults.
      propagated_out_mem_kinds: None.

    Returns:
      A `LoweringResult`, with the module.

    Raises:
      NotImplementedError: there are several platforms, replicas, `replicated_args`, layouts, or
        memories other than the default ones.
      TypeError: a sharding is of another class.
      ValueError: there are more or fewer flags, names, shardings or aliases than inputs or results.
      MissingRuleError: a primitive does not have a lowering for the platform.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> result = mlir.lower_jaxpr_to_module(
      ...     "example", mjax.make_jaxpr(lax.sin)(1.0), platforms=["cpu"])
      >>> print(result.module)  # doctest: +ELLIPSIS
      module @jit_example {
        func.func public @main(%arg0: tensor<f32>) -> tensor<f32> {
          %0 = stablehlo.sine %arg0 : tensor<f32>
          return %0 : tensor<f32>
        }
      }
      <BLANKLINE>
    """
    who = "lower_jaxpr_to_module"
    as_jaxpr(who, jaxpr)
    _refuse(who, replicated_args=any(replicated_args or ()), num_replicas=num_replicas != 1,
            in_layouts=_given(in_layouts), out_layouts=_given(out_layouts),
            all_default_mem_kind=not all_default_mem_kind,
            propagated_out_mem_kinds=_given(propagated_out_mem_kinds))
    platform = one_platform(who, platforms)
    for name, given, items, what in (
            ("arg_shardings", arg_shardings, jaxpr.invars, "input"),
            ("arg_names", arg_names, jaxpr.invars, "input"),
            ("input_output_aliases", input_output_aliases, jaxpr.invars, "input"),
            ("result_shardings", result_shardings, jaxpr.outvars, "result"),
            ("result_names", result_names, jaxpr.outvars, "result")):
        if given is not None:
            check_count(who, name, given, items, what)
    donated = flags_for(who, "donated_args", donated_args or False, jaxpr.invars, "input")
    donation = settle([i for i, d in enumerate(donated) if d], jaxpr.in_avals, jaxpr.out_avals,
                      lambda i: f"argument {i}", lambda i, out: True, lambda i, out: False)
    aliases = donation.aliases | {
        i: out for i, out in enumerate(input_output_aliases or ()) if out is not None}
    if arg_names is not None:
        jaxpr = jaxpr.replace(debug_info=jaxpr.debug_info._replace(arg_names=tuple(arg_names)))
    lowered = lower_to_module(
        jaxpr, module_name, platform, aliases, donation.donors, client_for(platform, backend),
        _partition(who, axis_context, jaxpr, arg_shardings, result_shardings),
        whole=not lowering_parameters.hoist_constants_as_args,
        prepare=lambda mctx: prepare(mctx, lowering_parameters))
    if result_names is not None:
        _name_results(lowered.module, len(lowered.tokens), result_names)
    symbols = sorted({str(n) for a in jaxpr.in_avals for n in getattr(a, "shape", ())
                      if not is_constant_shape((n,))})
    return LoweringResult(lowered.module, lowered, lowered.host_callbacks,
                          ShapePolyLoweringState(tuple(symbols), (platform,)))


def _given(values: Any) -> bool:
    return any(value is not None for value in values or ())


def _refuse(who: str, **given: bool) -> None:
    for name, asked in given.items():
        if asked:
            msg = (f"{who}: {name} is not supported: mjax's modules are for partitions, not "
                   "replicas, and their arguments and results are in the default memory and order. "
                   "mjax.jit takes layouts and memories, as shardings.")
            raise NotImplementedError(msg)


def _partition(who: str, context: Any, jaxpr: Jaxpr, ins: Any, outs: Any) -> Partition | None:
    devices, mesh = devices_of(who, context)
    given = [*(ins or [None] * len(jaxpr.invars)), *(outs or [None] * len(jaxpr.outvars))]
    if devices is None:
        return None
    for sharding in given:
        if sharding is not None and not (hasattr(sharding, "mesh") and hasattr(sharding, "spec")):
            msg = (f"{who} takes a NamedSharding or None per input and per result, got "
                   f"{describe_value(sharding)}.")
            raise TypeError(msg)
        mesh = mesh if sharding is None or mesh is not None else sharding.mesh
    n = len(jaxpr.invars)
    return Partition(devices, mesh, given[:n], given[n:], lambda constant: None)


def _name_results(module: Any, n_tokens: int, names: Sequence[str]) -> None:
    (main,) = [op for op in module.body if getattr(op, "name", None) is not None
               and op.operation.name == "func.func" and op.name.value == "main"]
    with module.context:
        texts = [None] * n_tokens + list(names)
        count = len(main.type.results)
        known = (list(main.res_attrs) if "res_attrs" in main.attributes
                 else [ir.DictAttr.get({})] * count)
        main.res_attrs = ir.ArrayAttr.get([
            attributes if text is None else ir.DictAttr.get({
                **{entry.name: entry.attr for entry in ir.DictAttr(attributes)},
                "jax.result_info": ir.StringAttr.get(text)})
            for attributes, text in zip(known, texts, strict=True)])


@boundary
def lower_jaxpr_to_fun(ctx: engine.ModuleContext, name: str, jaxpr: Jaxpr,
                       effects: Sequence[Any] = (), *, num_const_args: int = 0,
                       main_function: bool = False, in_avals: Sequence[Any] | None = None,
                       **ignored: Any) -> Any:
    """Lowers a jaxpr to a function of a module under construction.

    It runs inside of the module's context and a location (`with ctx.context, ir.Location...`).

    Args:
      ctx: the module.
      name: the function's name, if it is free; see the result's `.name`.
      jaxpr: the program. Its constants are in the function.
      effects: the ordered effects whose tokens the function takes and gives; by default the
        jaxpr's.
      num_const_args: not read.
      main_function: whether it is the module's public `main`.
      in_avals: not read; the types are the jaxpr's.
      ignored: names, layouts and shardings, which functions other than those of
        `lower_jaxpr_to_module` do not have.

    Returns:
      The function's operation.

    Raises:
      NotImplementedError: a `main` of symbolic sizes: `lower_jaxpr_to_module` makes it.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> ctx = mlir.ModuleContext(platforms=["cpu"])
      >>> with ctx.context, mlir.ir.Location.unknown():
      ...   mlir.lower_jaxpr_to_fun(ctx, "f", mjax.make_jaxpr(lax.sin)(1.0)).name.value
      'f'
    """
    as_jaxpr("lower_jaxpr_to_fun", jaxpr)
    if main_function and not all(is_constant_shape(getattr(a, "shape", ()))
                                 for a in jaxpr.in_avals):
        msg = ("lower_jaxpr_to_fun: the main function of symbolic sizes reads them from its "
               "arguments: lower_jaxpr_to_module makes it.")
        raise NotImplementedError(msg)
    names = token_names(frozenset(effects) | jaxpr.effects)
    symbols = [] if main_function else [engine._size] * len(ctx.dimensions)
    ins, outs = ctx.types_of([*symbols, *jaxpr.in_avals]), ctx.types_of(jaxpr.out_avals)
    tokens = ctx.main_token_types(names) if main_function else ctx.token_types(names)
    function = ctx.new_function("main" if main_function else ctx.fresh_name(name),
                                [*tokens, *ins], [*tokens, *outs], public=main_function)
    scope, ctx.scope = ctx.scope, (name,) if main_function else ()
    try:
        ctx.fill(function, jaxpr, (), names, (lambda args: {}) if main_function else None)
    finally:
        ctx.scope = scope
    return function


@boundary
def jaxpr_subcomp(ctx: engine.ModuleContext, jaxpr: Jaxpr, name_stack: Sequence[str] = (),
                  tokens: TokenSet = no_tokens, consts_for_constvars: Sequence[Any] = (),
                  *args: Any, dim_var_values: Sequence[Any] = (), const_lowering: Any = None,
                  outer_traceback: Any = None) -> tuple[list[Any], TokenSet]:
    """Lowers the equations of a jaxpr at the insertion point.

    Args:
      ctx: the module, `ctx.module_context` in a rule.
      jaxpr: the program.
      name_stack: names of the scopes around it.
      tokens: the tokens of its ordered effects.
      consts_for_constvars: for each constant its `ir.Value`, or a tuple.
      args: for each input its `ir.Value`, or a tuple.
      dim_var_values: values of the symbols of sizes, in the order of
        `ctx.shape_poly_state.dim_vars`; by default those of the function.
      const_lowering: values that the function has already, `ctx.const_lowering` in a rule.
      outer_traceback: not read.

    Returns:
      For each result its `ir.Value`, or a tuple, and the tokens after the last effects.

    Raises:
      TypeError: there are more or fewer values than constants or inputs.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> region_p = core.Primitive("region", multiple_results=True)
      >>> frame = core.Frame(region_p)
      >>> def rule(ctx, *args, jaxpr):
      ...   outs, _ = mlir.jaxpr_subcomp(ctx.module_context, jaxpr, ctx.name_stack,
      ...                                ctx.tokens_in, [], *args)
      ...   return outs
      >>> _ = mlir.register_lowering(region_p, rule)
      >>> body = mjax.make_jaxpr(lambda x: lax.add(x, 1.0))(1.0)
      >>> mjax.jit(lambda x: region_p.bind(x, jaxpr=body))(2.0)
      [Array(3., dtype=float32, weak_type=True)]
    """
    as_jaxpr("jaxpr_subcomp", jaxpr)
    given = [*consts_for_constvars, *args]
    lifted = convert_constvars_jaxpr(jaxpr) if len(consts_for_constvars) else jaxpr
    if len(given) != len(lifted.invars):
        msg = (f"jaxpr_subcomp: a jaxpr of {counted(len(jaxpr.constvars), 'constant')} and "
               f"{counted(len(jaxpr.invars), 'input')} was given "
               f"{counted(len(consts_for_constvars), 'constant')} and "
               f"{counted(len(args), 'argument')}.")
        raise TypeError(msg)
    scope, ctx.scope = ctx.scope, tuple(name_stack) or ctx.scope
    outer = thread.dimensions
    if dim_var_values:
        thread.dimensions = dict(zip(ctx.dimensions, dim_var_values, strict=True))
    try:
        outs, after = ctx.walk(ctx, lifted, const_lowering or {}, flat(map(_as_tuple, given)),
                               tokens.subset(token_names(jaxpr.effects)))
    finally:
        ctx.scope, thread.dimensions = scope, outer
    return (ctx.as_values(jaxpr.out_avals, outs) if ctx.several else list(outs),
            tokens.update_tokens(after))


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
