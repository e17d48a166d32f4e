"""The lowering pass: one walk over the equations, a function per inner jitted jaxpr.

Closed-over arrays are hoisted: constants of all nested jaxprs, each object once, become leading
arguments of `main`, and arguments of inner functions. Small ones become constants in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from mjax._engine.base.errors import LazyText, LazyTypeError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.dimensions import DimExpr
from mjax._engine.ir.effects import describe, forbidden, token_names
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, subjaxprs
from mjax._engine.ir.references import INSIDE
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.source import SourceInfo
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof
from mjax._engine.lowering.context import (
    Inspected,
    LoweringContext,
    ModuleContext,
    identifier,
    nested_constants,
    no_client,
)
from mjax._engine.lowering.dimensions import emit_symbols, solve
from mjax._engine.lowering.large_constants import warn_of_size
from mjax._engine.lowering.shardings import Partition
from mjax._engine.lowering.tokens import TokenSet, no_tokens
from mjax._engine.primitives.annotating import rule_names_for, write_annotations
from mjax._engine.primitives.emit import (
    constant,
    flat,
    handler_of,
    ir,
    ir_type,
    op,
    refuse_symbols,
    size_ir,
)
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import (
    bad_rule_result,
    carriers,
    describe_value,
    name_rule,
    refuse,
)
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.transforms.batching import AxisData, batch_flat, to_dim
from mjax._engine.transforms.discharge import discharge_jaxpr
from mjaxlib_shim.artifacts import refine_shapes
from mjaxlib_shim.mlir import new_context, takes_literal


class LoweredModule:
    """A StableHLO module, and its arguments besides the inputs.

    Attributes:
      module: the `ir.Module`.
      tokens: names of the leading tokens of `main`, both arguments and results.
      constants: arrays that `main` takes before the inputs.
      host_callbacks: handles of the Python functions that it calls, for `compile_module`.
      platform: the platform it was lowered for.
      inspections: the values whose shardings are inspected: see `ModuleContext.inspect`.
      keepalives: objects that have to live as long as a program compiled from it.
      targets: the foreign functions that it calls: see `ModuleContext.targets`.
    """

    __slots__ = ("constants", "context", "host_callbacks", "inspections", "keepalives", "module",
                 "platform", "targets", "tokens")
    module: Any
    context: Any
    constants: list[Any]
    host_callbacks: list[Any]
    inspections: list[Inspected]
    keepalives: list[Any]
    targets: dict[str, tuple[Any, Any]]
    platform: str
    tokens: tuple[str, ...]

    def __init__(self, module: Any, context: Any, constants: list[Any], mctx: ModuleContext,
                 tokens: tuple[str, ...]):
        self.module = module
        self.context = context
        self.constants = constants
        self.host_callbacks = mctx.host_callbacks.kept
        self.inspections = mctx.inspections
        self.keepalives = mctx.keepalives
        self.targets = mctx.targets
        self.platform = mctx.platform
        self.tokens = tokens

    def text(self, debug_info: bool = False) -> str:
        """The module as text."""
        return str(self.module.operation.get_asm(enable_debug_info=debug_info))


def lower_to_module(jaxpr: Jaxpr, name: str, platform: str,
                    aliases: dict[int, int] | None = None,
                    donated: Sequence[int] = (),
                    client: Callable[[], Any] = no_client,
                    partition: Partition | None = None, whole: bool = False,
                    prepare: Callable[[ModuleContext], None] = lambda mctx: None) -> LoweredModule:
    """Lowers a jaxpr to a module with a public function `main`.

    Args:
      jaxpr: the program.
      name: the module's name.
      platform: the platform to lower for.
      aliases: input index -> index of the result that may take over its buffer.
      donated: indices of inputs whose buffers XLA may reuse otherwise.
      client: gives the client that will compile it; asked only if it has Python callbacks.
      partition: the devices it runs on; None: one.
      whole: whether the module contains all constants, arrays of any size.
      prepare: is given the context before it is used.

    Raises:
      MissingRuleError: a primitive has no lowering for the platform.
      ValueError: the program has an effect whose policy says that it cannot be compiled.
      TypeError: a lowering's results do not have the types of the abstract evaluation.
    """
    unlowerable = forbidden(jaxpr.effects, "lowerable")
    if unlowerable:
        refuse(LazyValueError(lambda: (
            f"cannot compile a program with the effects {describe(unlowerable)}: their policy "
            f"says lowerable=False.\n{carriers(jaxpr, unlowerable)}")))
    try:
        return _lower(jaxpr, name, platform, aliases or {}, donated, client, partition, whole,
                      prepare, checking=False)
    except LazyText:
        raise
    except Exception as error:
        # Some rule emitted invalid operations. Lower again, and compare each rule's results with
        # the declared types, to name the rule.
        try:
            _lower(jaxpr, name, platform, aliases or {}, donated, client, partition, whole,
                   prepare, checking=True)
        except Exception as named:
            raise named from None
        if isinstance(error, ir.MLIRError):
            raise LazyTypeError(str(error)) from error
        raise


def _lower(jaxpr: Jaxpr, name: str, platform: str, aliases: dict[int, int],
           donated: Sequence[int], client: Callable[[], Any], partition: Partition | None,
           whole: bool, prepare: Callable[[ModuleContext], None], checking: bool
           ) -> LoweredModule:
    context = new_context()
    with context, ir.Location.unknown(context):
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("jit_" + identifier(name))
        mctx = ModuleContext(platform, module, lower_jaxpr, checking, client,
                             partition and partition.devices, partition and partition.mesh)
        prepare(mctx)
        captured = nested_constants(jaxpr)
        if captured and not checking:
            warn_of_size(captured, jaxpr, name)
        constants = [c for c in captured if not (whole or _is_written_down(mctx, c))]
        names = mctx.main_token_names(jaxpr)
        avals = [*map(typeof, constants), *jaxpr.in_avals]
        main = mctx.new_function(
            "main", [*mctx.main_token_types(names), *mctx.types_of(avals)],
            [*mctx.main_token_types(names), *mctx.types_of(jaxpr.out_avals)], public=True)
        attributes: list[dict[str, Any]] = [{} for _ in range(len(names) + len(constants))] + [
            _donation(i, aliases, donated, len(names)) for i in range(len(jaxpr.invars))]
        if mctx.partitioned:
            _partition(mctx, main, partition, attributes, constants, jaxpr, len(names))
        main.arg_attrs = ir.ArrayAttr.get(list(map(ir.DictAttr.get, attributes)))
        mctx.scope = (f"jit({name})",)
        symbols = None
        if not all(map(is_constant_shape, _shapes(jaxpr))):
            solution = solve(_shapes(jaxpr))
            mctx.dimensions = tuple(sorted(symbol for symbol, *_ in solution.steps))
            symbols = lambda args: emit_symbols(solution, args, mctx.dimensions)
        outer, thread.dimensions = thread.dimensions, None
        try:
            mctx.fill(main, jaxpr, constants, names, symbols)
        finally:
            thread.dimensions = outer
        try:
            module.operation.verify()
        except Exception:
            if not mctx.dimensions:
                _refuse_symbols_of(jaxpr)
            raise
        if mctx.refined and not mctx.dimensions:
            module = refine_shapes(module, context)
    return LoweredModule(module, context, constants, mctx, names)


def _refuse_symbols_of(jaxpr: Jaxpr) -> None:
    """Refuses a program in which a size is symbolic though no argument has its symbols."""
    for inner in (jaxpr, *subjaxprs(jaxpr)):
        for size in (n for eqn in inner.eqns for v in eqn.outvars
                     for n in getattr(v.aval, "shape", ())):
            if type(size) is DimExpr:
                refuse_symbols(size, ())


def _shapes(jaxpr: Jaxpr) -> list[Any]:
    return [getattr(aval, "shape", ()) for aval in jaxpr.in_avals]


#: The largest constants, in bytes, that the module's text contains.
_SMALL = 1024


def _is_written_down(mctx: ModuleContext, value: Any) -> bool:
    """Whether a constant is in the module's text, rather than an argument.

    XLA folds constants, and a loop need not carry them. On platforms other than CPU, reading the
    value would be a transfer.
    """
    aval = typeof(value)
    if handler_of(value) is not None:
        return True
    return (mctx.platform == "cpu" and not mctx.partitioned and not aval.extended
            and takes_literal(aval.size) and aval.size * aval.dtype.itemsize <= _SMALL)


def _donation(index: int, aliases: dict[int, int], donated: Sequence[int], n_tokens: int
              ) -> dict[str, Any]:
    if index in aliases:
        number = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), n_tokens + aliases[index])
        return {"tf.aliasing_output": number}
    if index in donated:
        return {"jax.buffer_donor": ir.BoolAttr.get(True)}
    return {}


def _partition(mctx: ModuleContext, main: Any, partition: Any, attributes: list[dict[str, Any]],
               constants: Sequence[Any], jaxpr: Jaxpr, n_tokens: int) -> None:
    """Marks a module and the results of `main`, and adds to the attributes of its arguments."""
    number = ir.IntegerType.get_signless(32)
    for name, count in ("partitions", len(partition.devices)), ("replicas", 1):
        mctx.module.operation.attributes[f"mhlo.num_{name}"] = ir.IntegerAttr.get(number, count)
    given = [*map(partition.constant, constants), *partition.inputs]
    avals = [*map(typeof, constants), *jaxpr.in_avals]
    for known, more in zip(attributes[n_tokens:], partition.attributes(mctx, given, avals),
                           strict=True):
        known.update(more)
    main.res_attrs = ir.ArrayAttr.get(list(map(ir.DictAttr.get, [
        *({} for _ in range(n_tokens)),
        *partition.attributes(mctx, partition.outputs, jaxpr.out_avals)])))


def lower_jaxpr(mctx: ModuleContext, jaxpr: Jaxpr, constants: dict[int, Any],
                args: Sequence[Any], tokens: TokenSet = no_tokens
                ) -> tuple[list[Any], TokenSet]:
    """Lowers a jaxpr's equations at the current insertion point.

    Args:
      mctx: the module.
      jaxpr: the program.
      constants: id of a constant -> its value in the current function.
      args: MLIR values of the inputs, as a flat list.
      tokens: the tokens of the jaxpr's ordered effects.

    Returns:
      MLIR values of the results, as a flat list, and the tokens after the last effects.
    """
    if INSIDE in jaxpr.effects:  # the program of a function that a rule traces
        jaxpr = discharge_jaxpr(jaxpr, (), (), last=True).jaxpr
    if mctx.several:
        args = mctx.as_values(jaxpr.in_avals, args)
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    for var, const in zip(jaxpr.constvars, jaxpr.consts, strict=True):
        value = constants.get(id(const))
        env[var] = _written(mctx, const, var.aval) if value is None else value
    literals: dict[Any, Any] = {}

    def read(atom: Any) -> Any:
        if type(atom) is Literal:
            return _literal(mctx, literals, atom)
        return env[atom]

    for eqn in jaxpr.eqns:
        names = token_names(eqn.effects)
        ctx = LoweringContext(mctx, eqn.primitive, [v.aval for v in eqn.invars],
                              [v.aval for v in eqn.outvars], constants, eqn.source,
                              tokens.subset(names) if names else no_tokens)
        operands = [read(v) for v in eqn.invars]
        with mctx.location(_label(eqn), eqn.source):
            results = lower_application(ctx, operands, eqn.params)
            if type(eqn.source) is SourceInfo and eqn.source.annotations is not None:
                write_annotations(flat(results), eqn.source.annotations)
        if mctx.several:
            results = mctx.as_values(ctx.avals_out, flat(results))
        env.update(zip(eqn.outvars, results, strict=True))
        if names:
            if ctx.tokens is ctx.tokens_in:
                _refuse_lost_tokens(ctx)
            tokens = tokens.update_tokens(ctx.tokens)
    outs = [read(v) for v in jaxpr.outvars]
    return flat(outs) if mctx.several else outs, tokens


def _written(mctx: ModuleContext, const: Any, aval: Any) -> Any:
    """A constant in the module's text; a key in its stored form."""
    handler = handler_of(const)
    if handler is not None:
        return handler(const, aval)
    value = _in_numpy(const._stored() if aval.extended else const, physical_aval(aval).dtype)
    mctx.note_nan(value)
    return constant(value)


def _in_numpy(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The value of a constant, in NumPy."""
    found = np.asarray(value)
    if found.dtype.hasobject:
        msg = (f"{value!r} has the type of an array and no value, but a program that is compiled "
               "uses it as a value. Hand it in as an argument, or make an array of the type.")
        raise TypeError(msg)
    return found.astype(dtype, copy=False)


def _refuse_lost_tokens(ctx: LoweringContext) -> NoReturn:
    names = ", ".join(ctx.tokens_in.names)
    bad_rule_result(ctx.primitive, "lowering", lambda: (
        f"does not set the tokens after its ordered effects ({names}), so later effects would not "
        "come after them. Emit the effect with ctx.tokens_in.get(effect) as an operand, and pass "
        "the new token to ctx.set_tokens_out(TokenSet({effect: token}))."),
        ctx.source)


def _label(eqn: JaxprEqn) -> str:
    """The name of an equation in locations."""
    if eqn.primitive is jit_p:
        return f"jit({eqn.params['name']})"
    return str(eqn.primitive.name)


def _literal(mctx: ModuleContext, known: dict[Any, Any], atom: Literal) -> Any:
    # One constant operation per block and value; -0.0 == 0.0, hence the bytes.
    if type(atom.val) is DimExpr:
        return op("stablehlo.convert", [ir_type(atom.aval)], [size_ir(atom.val)])[0]
    value = _in_numpy(atom.val, atom.aval.dtype)
    key = (atom.aval.dtype, value.tobytes())
    if key not in known:
        known[key] = constant(value)
        mctx.note_nan(value)
    return known[key]


def lower_application(ctx: LoweringContext, operands: Sequence[Any], params: dict[str, Any]
                      ) -> Sequence[Any]:
    """Applies a primitive's lowering rule."""
    primitive = ctx.primitive
    if primitive.structural and any(a.extended for a in (*ctx.avals_in, *ctx.avals_out)):
        return _call_traced(ctx, operands, ("physical", primitive), params,
                            lambda: _on_physical(primitive, ctx.avals_in, params))
    lowerings = primitive.lowerings
    rule_names = ctx.module_context.rule_names
    if type(ctx.source) is SourceInfo and ctx.source.annotations is not None:
        rule_names = rule_names_for(ctx.source.annotations, rule_names)
    for name in rule_names:
        rule = lowerings.get(name)
        if rule is not None:
            break
    if rule is None:
        others = ", ".join(sorted(filter(None, lowerings)))
        rule = primitive.missing(
            "lowering", detail=ctx.platform + (f" (only for {others})" if others else ""),
            operands=len(operands), params=params, source=ctx.source)
    results = (_call_traced(ctx, operands, (rule,), params, lambda: ctx.stage_traced(rule, params))
               if type(rule) is traced else _apply(rule, ctx, operands, params))
    # Rules of the engine are tested, and checked only if a module does not verify. Users' rules
    # are checked here, which costs half a microsecond.
    ours = ("lowering", name) not in primitive.foreign
    if ours and type(rule) is traced and len(ctx.tokens_in):
        # A loop of no iterations has the effects of its body only by type.
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(ctx.tokens))
    if ours and not ctx.module_context.checking:
        return results
    return checked_results(ctx, rule, results)


def _apply(rule: Callable[..., Any], ctx: LoweringContext, operands: Sequence[Any],
           params: dict[str, Any]) -> Any:
    try:
        return rule(ctx, *operands, **params)
    except Exception as error:
        name_rule(error, ctx.primitive, "lowering", params, ctx.source, rule)
        raise


def checked_results(ctx: LoweringContext, rule: Any, results: Any) -> list[Any]:
    """The results of a lowering rule, compared with the declared types."""
    try:
        values = [results] if isinstance(results, ir.Value) else flat(results)
        actual = [value.type for value in values]
    except (TypeError, AttributeError):
        bad_rule_result(ctx.primitive, "lowering", lambda: (
            f"returned {describe_value(results)}; it must return a list of ir.Values (such as the "
            ".results of an operation)."), ctx.source, rule)
    if actual != ctx.out_types:
        bad_rule_result(ctx.primitive, "lowering", lambda: (
            f"returned {', '.join(map(str, actual)) or 'no values'}, but the abstract evaluation "
            f"says {', '.join(map(str, ctx.avals_out))}, that is "
            f"{', '.join(map(str, ctx.out_types))}."), ctx.source, rule)
    return values


def _call_traced(ctx: LoweringContext, operands: Sequence[Any], tag: Any, params: dict[str, Any],
                 make: Callable[[], Jaxpr]) -> list[Any]:
    """Lowers to a call of the function that `make` stages, one per types and params."""
    primitive: Primitive = ctx.primitive
    key = (*tag, thread.settings, tuple(ctx.avals_in), *primitive.params_key(params))
    known = primitive.programs_of(params)
    jaxpr = known.get(key)
    if jaxpr is None:
        jaxpr = known.put(key, make())
    return ctx.call(jaxpr, primitive.name, *operands)


def _on_physical(primitive: Primitive, avals_in: Sequence[Any], params: dict[str, Any]) -> Jaxpr:
    """The same move on the arrays behind extended dtypes: mapped over their trailing axes."""
    extended = [a for a in avals_in if a.extended]
    element = extended[0].dtype
    avals = [a.update(dtype=element.element_dtype) if a.extended else a
             for a in avals_in]

    def f(*args: Any) -> list[Any]:
        return _mapped(primitive, params, args,
                       [a.extended for a in avals_in], element.element_shape)

    return trace_to_jaxpr(f, [
        ShapedArray((*a.shape, *element.element_shape), a.dtype)
        if given.extended else a
        for a, given in zip(avals, avals_in, strict=True)])


def _mapped(primitive: Primitive, params: dict[str, Any], args: Sequence[Any],
            mapped: Sequence[bool], sizes: Sequence[int]) -> list[Any]:
    if not sizes:
        out = primitive.bind(*args, **params)
        return out if primitive.multiple_results else [out]
    axis = AxisData(None, sizes[-1])
    outs, dims = batch_flat(
        lambda *inner: _mapped(primitive, params, inner, mapped, sizes[:-1]), axis, args,
        [len(a.shape) - 1 if m else None for a, m in zip(args, mapped, strict=True)])
    return [to_dim(o, d, len(o.shape) - (d is not None), axis.size)
            for o, d in zip(outs, dims, strict=True)]
