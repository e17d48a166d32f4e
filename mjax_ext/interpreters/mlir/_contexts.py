"""Contexts of MLIR, and of modules under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.lowering import context as engine
from mjax._engine.lowering.facts import (
    NO_OPTIONS,
    ONE_DEVICE,
    LoweringParameters,
    ReplicaAxisContext,
    ShardingContext,
    SPMDAxisContext,
)
from mjax._engine.lowering.module import lower_jaxpr
from mjax._engine.runtime.arrays.devices import client as client_of
from mjax._engine.tracing.rule_errors import describe_value
from mjaxlib_shim.mlir import full_context, ir

#: The axes over which the lowered program runs, and who shards it.
AxisContext = SPMDAxisContext | ReplicaAxisContext | ShardingContext


def make_ir_context() -> Any:
    """A fresh `ir.Context` that knows the dialects of StableHLO, CHLO, Shardy and of MLIR itself.

    One thread at a time uses a context. It keeps everything that is built in it.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> with mlir.make_ir_context():
      ...   print(mlir.ir.Module.parse("func.func @main() { return }").operation.verify())
      True
    """
    return full_context()


class _Contexts(type):
    """The engine's own contexts, which rules are given, are instances too."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, engine.ModuleContext)


class ModuleContext(engine.ModuleContext, metaclass=_Contexts):
    """A module under construction; rules find theirs as `ctx.module_context`.

    Args:
      platforms: the platform it is lowered for, alone.
      backend: the client that will compile it, for Python callbacks.
      axis_context: its devices; by default one.
      keepalives: a list that gets the objects which have to live as long as the program.
      channel_iterator: gives the numbers of channels.
      host_callbacks: a list that gets the handles of Python callbacks.
      lowering_parameters: options.
      context: the `ir.Context`; by default a new one.
      module: the `ir.Module`; by default a new one.
      ignored: further arguments of JAX's class, which keep caches.

    Raises:
      NotImplementedError: there are several platforms.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> ctx = mlir.ModuleContext(platforms=["cpu"])
      >>> with ctx.context, mlir.ir.Location.unknown():
      ...   f = mlir.lower_jaxpr_to_fun(ctx, "f", mjax.make_jaxpr(lax.sin)(1.0), [])
      >>> "func.func private @f" in str(ctx.module)
      True
    """

    def __init__(self, *, platforms: Sequence[str], backend: Any = None,
                 axis_context: Any = ONE_DEVICE, keepalives: list[Any] | None = None,
                 channel_iterator: Iterator[int] | None = None,
                 host_callbacks: list[Any] | None = None,
                 lowering_parameters: LoweringParameters = NO_OPTIONS,
                 context: Any = None, module: Any = None, **ignored: Any):
        platform = one_platform("ModuleContext", platforms)
        if module is None:
            context = make_ir_context() if context is None else context
            module = ir.Module.create(loc=ir.Location.unknown(context))
        devices, mesh = devices_of("ModuleContext", axis_context)
        super().__init__(platform, module, lower_jaxpr, False, client_for(platform, backend),
                         devices, mesh)
        if keepalives is not None:
            self.keepalives = keepalives
        if host_callbacks is not None:
            self.host_callbacks.kept = host_callbacks
        self.channel_iterator = channel_iterator
        prepare(self, lowering_parameters)

    def new_channel(self) -> int:
        """The number of a channel, unique in the module."""
        if self.channel_iterator is None:
            return super().new_channel()
        return next(self.channel_iterator)


def prepare(mctx: engine.ModuleContext, parameters: LoweringParameters) -> None:
    """Gives a context its options."""
    mctx.lowering_parameters = parameters
    rules = dict(parameters.override_lowering_rules or ())
    if rules:
        mctx.walk = _overriding({p: _Overridden(p, rule) for p, rule in rules.items()}, mctx.walk)


class _Overridden:
    """A primitive as the lowering pass sees it, with another lowering rule."""

    structural = False

    def __init__(self, primitive: Any, rule: Any):
        self.original = primitive
        self.lowerings = {None: rule}
        self.foreign = {("lowering", None)}
        self.executables = ProgramCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)

    def __repr__(self) -> str:
        return repr(self.original)


def _overriding(rules: dict[Any, Any], walk: Callable[..., Any]) -> Callable[..., Any]:
    """A walk over programs in which some primitives have other rules."""

    def walk_with(mctx: Any, jaxpr: Jaxpr, *args: Any) -> Any:
        eqns = [eqn.replace(primitive=rules.get(eqn.primitive, eqn.primitive))
                for eqn in jaxpr.eqns]
        return walk(mctx, jaxpr.replace(eqns=eqns), *args)

    return walk_with


def one_platform(who: str, platforms: Sequence[str]) -> str:
    if isinstance(platforms, str) or len(platforms) != 1:
        msg = (f"{who} takes a list of one platform, got {platforms!r}. For one module of several "
               "platforms there is mjax.export.")
        raise NotImplementedError(msg)
    return platforms[0]


def devices_of(who: str, context: Any) -> tuple[tuple[Any, ...] | None, Any]:
    """The devices of an axis context, and a mesh; None: one device."""
    if isinstance(context, SPMDAxisContext):
        return context.mesh.flat_devices, context.mesh
    if isinstance(context, ShardingContext):
        if context.num_devices > 1 and context.device_assignment is None:
            msg = (f"{who}: a program over {context.num_devices} devices needs them, as the "
                   "device_assignment of its ShardingContext.")
            raise ValueError(msg)
        return (context.device_assignment if context.num_devices > 1 else None,
                context.abstract_mesh)
    names = getattr(getattr(context, "axis_env", None), "names", ())
    if context is None or (isinstance(context, ReplicaAxisContext) and not names):
        return None, None
    msg = (f"{who} takes an axis context of a mesh or of XLA's partitions (SPMDAxisContext, "
           f"ShardingContext), got {describe_value(context)}: replicas of pmap are gone.")
    raise NotImplementedError(msg)


def client_for(platform: str, backend: Any) -> Callable[[], Any]:
    return lambda: client_of(platform) if backend is None else backend
