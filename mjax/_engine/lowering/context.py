"""The context of lowering rules, and the state of a module under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.folding import is_engine_file
from mjax._engine.base.platforms import names_of
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import counted, split_list, unused_name
from mjax._engine.ir.effects import token_names
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import UNCONSTRAINED, PartitionSpec
from mjax._engine.ir.source import NameStack, SourceInfo, annotations_of, source_info_of
from mjax._engine.ir.token_types import abstract_token
from mjax._engine.ir.types import ShapedArray, physical_aval, typeof
from mjax._engine.lowering.facts import ModuleFacts, RuleFacts, ShardingContext, SPMDAxisContext
from mjax._engine.lowering.regions import by_one_device
from mjax._engine.lowering.shardings import on_device, tensor_sharding
from mjax._engine.lowering.tokens import TokenSet, no_tokens
from mjax._engine.primitives.emit import constant, flat, full, grouped, ir, ir_types
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.rule_errors import (
    applied_at,
    bad_rule_result,
    describe_value,
    name_rule,
)
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjaxlib_shim import tracebacks
from mjaxlib_shim.host_callbacks import HostCallbacks, Inspection
from mjaxlib_shim.mlir import func, joins_whole, sdy, takes_tokens


def no_client() -> Any:
    """The client of modules that are not compiled here: an error."""
    msg = "this module is lowered without a client, and cannot have Python callbacks."
    raise RuntimeError(msg)


class ModuleContext(ModuleFacts):
    """One module under construction.

    Attributes:
      platform: the platform it is lowered for.
      module: the `ir.Module`.
      checking: whether each rule's results are compared with the declared types. Only after a
        module failed to verify, to find the rule at fault.
      devices: the devices of the program's partitions, in order; None: it runs on one device.
      runs_on: the devices that it will be compiled for; None: unknown.
      mesh: a mesh of these devices.
      meshes: shape and order of the devices of a mesh -> its name in the module.
    """

    def __init__(self, platform: str, module: Any, walk: Callable[..., Any],
                 checking: bool = False, client: Callable[[], Any] = no_client,
                 devices: tuple[Any, ...] | None = None, mesh: Any = None):
        super().__init__()
        self.platform = platform
        #: Names under which lowering rules for it are registered, the closest first.
        self.rule_names: tuple[str | None, ...] = (*names_of(platform), None)
        self.module = module
        self.checking = checking
        self.devices = self.runs_on = devices
        self.mesh = mesh
        self.meshes: dict[Any, str] = {}
        self.functions: dict[Any, Any] = {}
        self.host_callbacks: HostCallbacks = HostCallbacks()
        #: Values whose shardings are inspected.
        self.inspections: list[Inspected] = []
        #: Target of foreign functions -> a primitive that calls it, and where it was applied.
        self.targets: dict[str, tuple[Any, Any]] = {}
        #: Gives the client that will compile the module, for callbacks.
        self.client = client
        #: The walk, which is in `module`: `(mctx, jaxpr, constants, args, tokens) -> values,
        #: tokens`.
        self.walk = walk
        #: Objects whose ids are keys in `functions`.
        self.kept: list[Any] = []
        #: Names around those of the equations being lowered.
        self.scope: tuple[str, ...] = ()
        #: Symbols of sizes, in order. Functions take their values.
        self.dimensions: tuple[str, ...] = ()
        #: Whether shapes have to be refined before it is compiled.
        self.refined = False
        #: Whether there is a literal NaN so far; see `elementwise.keeping_nan`.
        self.has_nan: bool = False
        self._names: set[str] = {"main"}
        self._channels = 0
        self._types: dict[Any, list[Any]] = {}
        #: Whether some values are represented by none or several IR values.
        self.several: bool = False
        self._literals: dict[Any, Any] = {}
        self._places: dict[Any, Any] = {}
        self._locations: dict[Any, Any] = {}

    def note_nan(self, value: Any) -> None:
        """Takes note of a literal, which may be or contain NaN."""
        if value.dtype.kind in "fcV" and (value != value).any():
            self.has_nan = True

    def note_devices(self, devices: Sequence[Any]) -> None:
        """Takes note of the devices that the module will be compiled for."""
        self.runs_on = tuple(devices)

    @property
    def partitioned(self) -> bool:
        """Whether XLA partitions the program. On one device, or a mesh of one, it does not, and
        the module must not contain operations of the Shardy dialect."""
        return self.devices is not None and len(self.devices) > 1

    @property
    def cut_by_xla(self) -> bool:
        """Whether XLA cuts values here, not a shard_map over all axes of the mesh."""
        return self.partitioned and not _all_manual()

    @property
    def per_device(self) -> bool:
        """Whether each device runs its own operations: inside the body of a shard_map."""
        return _manual()

    def on_one_device(self, count: int, place: int = 0) -> Any:
        """The attribute of an operation that only one device runs, with whole operands: that with
        the number `place`.

        None in the body of a shard_map, where each device runs its own operation.
        """
        return None if _manual() else on_device(max(1, count), place)  # one also without results

    def by_one_device(self, values: Sequence[Any], out_avals: Sequence[Any],
                      body: Callable[..., Sequence[Any]], place: int = 0) -> list[Any]:
        """The same for several operations at once, and in the body of a shard_map that leaves axes
        to XLA: see `regions`."""
        mesh, known = _manual_mesh() or (self.mesh, frozenset[Any]())
        axes = [name for name in mesh.axis_names if name not in known]
        return by_one_device(self, mesh, axes, values, out_avals, body, place)

    def gathered(self, values: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
        """Copies of values on all devices, as operands or results of an operation on one device.
        XLA gathers them well this way, and warns otherwise."""
        if not self.partitioned or _manual():
            return list(values)
        return [sdy.ShardingConstraintOp(v, tensor_sharding(
            self, self.mesh, PartitionSpec(), physical_aval(a).ndim)).result
            for v, a in zip(values, avals, strict=True)]

    def whole_along(self, dimension: int, values: Sequence[Any]) -> list[Any]:
        """Values before or after a concatenation, not cut along its dimension where XLA would
        partition that wrongly."""
        if not joins_whole(self.cut_by_xla):
            return list(values)
        return [sdy.ShardingConstraintOp(v, tensor_sharding(
            self, self.mesh, PartitionSpec(*[
                None if i == dimension else UNCONSTRAINED for i in range(v.type.rank)]),
            v.type.rank)).result for v in values]

    @property
    def axis_context(self) -> SPMDAxisContext | ShardingContext:
        """The devices, as a mesh inside of a shard_map."""
        manual = _manual_mesh()
        if manual is not None:
            return SPMDAxisContext(*manual)
        return ShardingContext(len(self.devices or "1"), self.devices)

    def symbol_values(self) -> list[Any]:
        """The values of the symbols of sizes in the function being built."""
        return [thread.dimensions[symbol] for symbol in self.dimensions]

    def inspect(self, value: Any, aval: Any, callback: Callable[..., None]) -> None:
        """Registers a function that gets the sharding of a value once the module is compiled.

        Args:
          value: the `ir.Value`.
          aval: its type.
          callback: called with a sharding and the value's shape.
        """
        asked = Inspected(callback, aval, Inspection(), _manual_mesh())
        self.inspections.append(asked)
        if self.partitioned:
            asked.inspection.emit(value)

    def note_target(self, name: str, primitive: Any, source: Any) -> None:
        """Records a foreign function that the program calls, for the error if it is unknown."""
        self.targets.setdefault(name, (primitive, source))

    @property
    def opaque_tokens(self) -> bool:
        """Whether tokens are MLIR's, not booleans. On older jaxlibs, regions of partitioned
        programs take only arrays."""
        return takes_tokens(self.partitioned)

    @property
    def token_aval(self) -> Any:
        """The type of tokens."""
        return _token if self.opaque_tokens else _boolean

    def token_types(self, names: Sequence[str]) -> list[Any]:
        """The MLIR types of a number of tokens."""
        return [self.type_of(self.token_aval)] * len(names)

    def types_of(self, avals: Sequence[Any]) -> list[Any]:
        """The MLIR types of values of these types, as a flat list."""
        if len(avals) == 1:
            known = self._types.get(avals[0])
            return list(self._new_types(avals[0]) if known is None else known)
        types = self._types
        return [t for aval in avals for t in types.get(aval) or self._new_types(aval)]

    def _new_types(self, aval: Any) -> list[Any]:
        known = self._types[aval] = ir_types(aval)
        self.several = self.several or len(known) != 1
        return known

    def type_of(self, aval: Any) -> Any:
        """The MLIR type of values of a type that one IR value represents."""
        (found,) = self.types_of((aval,))
        return found

    def as_values(self, avals: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        """Groups a flat list of IR values for rules: one, or a tuple, per value."""
        return grouped(values, [len(self.types_of((aval,))) for aval in avals])

    def fresh_name(self, name: str) -> str:
        """A function name not used in this module yet."""
        return unused_name(identifier(name), self._names)

    def new_channel(self) -> int:
        """The channel number of a collective operation, unique in the module."""
        self._channels += 1
        return self._channels

    def new_function(self, name: str, in_types: Iterable[Any], out_types: Iterable[Any],
                     public: bool = False) -> Any:
        """An empty function at module level."""
        with ir.InsertionPoint(self.module.body):
            function = func.FuncOp(name, ir.FunctionType.get(list(in_types), list(out_types)))
        function.attributes["sym_visibility"] = ir.StringAttr.get(
            "public" if public else "private")
        return function

    def new_private(self, jaxpr: Jaxpr, name: str, constants: Sequence[Any]) -> str:
        """Makes the function of a jaxpr; its tokens, the values of symbols and constants are
        leading arguments."""
        scope, self.scope = self.scope, ()  # the names of the call are prepended to them
        name = self.fresh_name(name)
        avals = [*[_size] * len(self.dimensions), *map(typeof, constants), *jaxpr.in_avals]
        tokens = self.token_types(token_names(jaxpr.effects))
        self.fill(self.new_function(name, [*tokens, *self.types_of(avals)],
                                    [*tokens, *self.types_of(jaxpr.out_avals)]),
                  jaxpr, constants)
        self.scope = scope
        return name

    def fill(self, function: Any, jaxpr: Jaxpr, constants: Sequence[Any],
             names: Sequence[str] | None = None, symbols: Callable[..., Any] | None = None) -> None:
        """Lowers a jaxpr into an empty function.

        Its leading arguments are tokens (of the effects, or those named), values of symbols unless
        `symbols` computes them from the inputs, and constants. Its leading results are tokens.
        """
        block = function.add_entry_block()
        names = token_names(jaxpr.effects) if names is None else names
        with ir.InsertionPoint(block):
            tokens, sizes, values, args = split_list(block.arguments, [
                len(names), 0 if symbols else len(self.dimensions), len(constants)])
            given = [t.type for t in tokens]
            outer = thread.dimensions
            if self.dimensions:
                thread.dimensions = symbols(args) if symbols else dict(
                    zip(self.dimensions, sizes, strict=True))
            results, out_tokens = self.walk(
                self, jaxpr, {id(c): v for c, v in zip(constants, values, strict=True)}, args,
                TokenSet(zip(names, self._as_tokens(tokens), strict=True)) if names else no_tokens)
            func.ReturnOp([*self._as_given(out_tokens.values(), given), *results]
                          if names else results)
            thread.dimensions = outer

    # Programs take and return arrays without elements as tokens. If tokens are booleans, a call
    # returns after the program has finished, so the order is kept across calls.

    def main_token_names(self, jaxpr: Jaxpr) -> tuple[str, ...]:
        """The names of the tokens that `main` takes and returns.

        They belong to its effects. One more is added where XLA refuses a program over several
        devices without results.
        """
        names = token_names(jaxpr.effects)
        return names or (() if self.opaque_tokens or jaxpr.outvars else ("nothing",))

    def main_token_types(self, names: Sequence[str]) -> list[Any]:
        """The MLIR types of a number of tokens as arguments and results of `main`."""
        if self.opaque_tokens:
            return self.token_types(names)
        return [self.type_of(_boolean.update(shape=(0,)))] * len(names)

    def _as_tokens(self, values: Sequence[Any]) -> Sequence[Any]:
        inside = self.type_of(self.token_aval)
        return [v if v.type == inside else constant(np.False_) for v in values]

    def _as_given(self, tokens: Sequence[Any], types: Sequence[Any]) -> list[Any]:
        return [t if t.type == wanted else full(False, _boolean.update(shape=(0,)))
                for t, wanted in zip(tokens, types, strict=True)]

    def location(self, name: str, source: Any) -> Any:
        """The MLIR location of an equation: its primitive at the user's line.

        Two caches: code position to file location, and that with a name to the result.
        """
        info = source_info_of(source)
        key = _user_position(info.traceback)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = (
                ir.Location.unknown() if key is None else
                ir.Location.file(key[0].co_filename, _line(key), 0))
        names = (*self.scope, *info.name_stack)
        known = self._locations.get((names, name, key))
        if known is None:
            # The name of a transformed call shows the transformations: `jvp(jit(f))`.
            own = () if info.name_stack and name in info.name_stack[-1] else (name,)
            known = self._locations[names, name, key] = ir.Location.name(
                "/".join((*names, *own)), childLoc=place)
        return known


#: The type of tokens.
_token, _boolean = abstract_token, ShapedArray((), np.dtype(bool))
_size = ShapedArray((), np.dtype(np.int32))


class Inspected(Record):
    """A value whose sharding is inspected.

    Attributes:
      callback: called with a sharding and the value's shape, when the module has been compiled.
      aval: the value's type.
      inspection: XLA's handle of it; it has to live as long as the module.
      manual: the mesh of the shard_map around it, and the mesh axes that the body knows; None
        outside of shard_map.
    """

    callback: Callable[..., None]
    aval: Any
    inspection: Inspection
    manual: tuple[Any, frozenset[Any]] | None


def _manual() -> bool:
    """Whether this is the body of a shard_map."""
    return any(axis.manual is not None for axis in thread.axis_env)


def _manual_mesh() -> tuple[Any, frozenset[Any]] | None:
    """The mesh of the innermost shard_map, and those of its axes that the body knows."""
    manual = _manual_axes()
    return (list(manual.values())[-1], frozenset(manual)) if manual else None


def _all_manual() -> bool:
    """Whether this is a shard_map over all axes of the mesh, where XLA cuts nothing."""
    manual = _manual_axes()
    return any(manual.keys() >= set(mesh.axis_names) for mesh in manual.values())


def _manual_axes() -> dict[Any, Any]:
    """The axes that the bodies of shard_maps know here, with their meshes."""
    return {axis.name: axis.manual.mesh for axis in thread.axis_env if axis.manual is not None}


def identifier(name: str) -> str:
    """A name as MLIR prints it without quotes."""
    return "".join(c if (c.isascii() and c.isalnum()) or c in "_." else "_" for c in name) or "fn"


def _user_position(traceback: Any) -> Any:
    """The innermost (code, instruction) of the user's own files."""
    if traceback is None:
        return None
    codes, instructions = tracebacks.raw_frames(traceback)
    for code, instruction in zip(codes, instructions, strict=True):
        if not is_engine_file(code.co_filename):
            return code, instruction
    return None


def _line(position: tuple[Any, int]) -> int:
    code, instruction = position
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line or code.co_firstlineno
    return int(code.co_firstlineno)


class LoweringContext(RuleFacts):
    """The first argument of a lowering rule.

    Attributes:
      module_context: the module under construction.
      primitive: the primitive to lower.
      avals_in: types of the operands.
      avals_out: types of the results.
      source: where the primitive was applied, in the form of `ir.source`.
      tokens_in: the tokens of the primitive's ordered effects. Its rule gives the new ones to
        `set_tokens_out`; `inline` and `call` do so for the tokens of a jaxpr.
      tokens: the tokens after everything lowered so far.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import mlir
      >>> p = core.Primitive("same")
      >>> _ = p.def_abstract_eval(lambda x: x)
      >>> _ = mlir.register_lowering(p, lambda ctx, x: print(ctx.platform, *ctx.avals_in) or [x])
      >>> _ = mjax.jit(p.bind).lower(jnp.ones(2))
      cpu float32[2]
    """

    __slots__ = ("avals_in", "avals_out", "constants", "module_context", "out_types", "platform",
                 "primitive", "source", "tokens", "tokens_in")

    def __init__(self, module_context: ModuleContext, primitive: Any, avals_in: Sequence[Any],
                 avals_out: Sequence[Any], constants: dict[int, Any], source: Any = None,
                 tokens: TokenSet = no_tokens):
        self.module_context = module_context
        self.platform = module_context.platform
        self.primitive = primitive
        self.avals_in = avals_in
        self.avals_out = avals_out
        self.out_types = module_context.types_of(avals_out)
        #: id of a constant -> its value in the function being built.
        self.constants = constants
        self.source = source
        self.tokens = self.tokens_in = tokens

    def replace(self, **fields: Any) -> LoweringContext:
        """A copy with some fields replaced.

        Args:
          fields: `module_context`, `primitive` (None: the same), `avals_in`, `avals_out`,
            `constants`, `source`, `tokens` (also called `tokens_in`) or `name_stack`.

        Raises:
          TypeError: there is no such field.
        """
        tokens = fields.pop("tokens_in", fields.pop("tokens", self.tokens))
        fields.pop("tokens_out", None)  # None in JAX, to be set
        if fields.get("primitive", self.primitive) is None:
            del fields["primitive"]  # JAX's idiom for code that is not a primitive's
        if "name_stack" in fields:
            names = fields.pop("name_stack")[len(self.module_context.scope):]
            fields["source"] = SourceInfo(self.traceback, NameStack(names),
                                          annotations_of(self.source))
        known = {name: fields.pop(name, getattr(self, name)) for name in (
            "module_context", "primitive", "avals_in", "avals_out", "constants", "source")}
        if fields:
            msg = (f"LoweringRuleContext.replace: it does not replace {', '.join(fields)}, but "
                   f"{', '.join(known)}, tokens and name_stack.")
            raise TypeError(msg)
        return LoweringContext(**known, tokens=tokens)

    def set_tokens_out(self, tokens: TokenSet) -> None:
        """Sets the tokens after the primitive, one for each that it was given.

        Raises:
          TypeError: the tokens belong to other effects.
        """
        if tokens.names != self.tokens_in.names:
            raise LazyTypeError(lambda: (
                f"the lowering of {self.primitive.name} sets the tokens "
                f"{', '.join(tokens.names) or 'of nothing'}, but its effects have the tokens "
                f"{', '.join(self.tokens_in.names) or 'of nothing'}.\n{applied_at(self.source)}"))
        self.tokens = tokens

    def inline(self, jaxpr: Jaxpr, *operands: Any) -> list[Any]:
        """Lowers a jaxpr at the insertion point; its ordered effects come after `tokens`.

        To lower into a region that is entered with other tokens, use a copy:
        `inner = ctx.replace(tokens=...); inner.inline(...); inner.tokens`.
        """
        mctx, values = self.module_context, flat(operands)
        # Types of users' have any number of IR values.
        if len(values) != len(jaxpr.invars) and (
                len(values) != len(mctx.types_of(jaxpr.in_avals))):
            raise LazyTypeError(lambda: (
                f"inline: a jaxpr of {counted(len(jaxpr.invars), 'input')}, of types "
                f"{', '.join(map(str, jaxpr.in_avals))}, was given "
                f"{counted(len(operands), 'operand')}."))
        names = token_names(jaxpr.effects)
        results, tokens = mctx.walk(mctx, jaxpr, self.constants, values,
                                    self.tokens.subset(names) if names else no_tokens)
        if names:
            self.tokens = self.tokens.update_tokens(tokens)
        return results

    def private(self, jaxpr: Jaxpr, name: str) -> tuple[str, list[Any]]:
        """The private function of a jaxpr, made once per module, and the values of symbols and
        constants, which are its arguments between the tokens and the inputs."""
        mctx = self.module_context
        constants = [c for c in nested_constants(jaxpr) if id(c) in self.constants]
        key = (id(jaxpr), mctx.has_nan)
        function = mctx.functions.get(key)
        if function is None:
            mctx.kept.append(jaxpr)
            function = mctx.functions[key] = mctx.new_private(jaxpr, name, constants)
        return function, [*mctx.symbol_values(), *(self.constants[id(c)] for c in constants)]

    def call(self, jaxpr: Jaxpr, name: str, *operands: Any) -> list[Any]:
        """Lowers to a call of a private function, made once per jaxpr and module."""
        mctx = self.module_context
        names = token_names(jaxpr.effects)
        function, constants = self.private(jaxpr, name)
        results = list(func.CallOp(
            [*mctx.token_types(names), *mctx.types_of(jaxpr.out_avals)],
            ir.FlatSymbolRefAttr.get(function),
            [*(self.tokens.get(n) for n in names), *constants, *flat(operands)]).results)
        if names:
            self.tokens = self.tokens.update_tokens(TokenSet(
                zip(names, results[:len(names)], strict=True)))
        return results[len(names):]

    def lower_traced(self, rule: traced, operands: Sequence[Any], params: dict[str, Any]
                     ) -> list[Any]:
        """Lowers the function of a marker at the insertion point, for the types `avals_in`."""
        return self.inline(self.stage_traced(rule, params), *operands)

    def stage_traced(self, rule: traced, params: dict[str, Any]) -> Jaxpr:
        """The jaxpr of a marker's function, for the types `avals_in`."""

        def f(*args: Any) -> Any:
            out = rule.function(*args, **params)
            if not rule.multiple_results:
                if isinstance(out, (list, tuple)):
                    bad_rule_result(self.primitive, "lowering", lambda: (
                        f"is a function that returned {describe_value(out)}; it must return one "
                        "array, or be marked with multiple_results=True."), self.source)
                return [out]
            if not isinstance(out, (list, tuple)):
                bad_rule_result(self.primitive, "lowering", lambda: (
                    f"is a function that returned {describe_value(out)}; it must return a list, or "
                    "be marked with multiple_results=False."), self.source)
            return out

        # Equations staged for one equation alone take its source.
        outer = thread.source
        if not self.primitive.types_cacheable:
            thread.source = self.source
        try:
            return trace_to_jaxpr(f, self.avals_in)
        except Exception as error:
            name_rule(error, self.primitive, "lowering", params, self.source, rule)
            raise
        finally:
            thread.source = outer


def nested_constants(jaxpr: Jaxpr) -> list[Any]:
    """The constants of a jaxpr and of those in its params, each object once."""

    def make() -> list[Any]:
        found: dict[int, Any] = {id(c): c for c in jaxpr.consts}
        for eqn in jaxpr.eqns:
            for value in eqn.params.values():
                for inner in value if isinstance(value, (tuple, list)) else (value,):
                    if isinstance(inner, Jaxpr):
                        found.update((id(c), c) for c in nested_constants(inner))
        return list(found.values())

    return jaxpr.cached("nested_constants", make)
