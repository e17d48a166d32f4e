"""Facts that lowering rules written for JAX read from their context."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.records import Record
from mjax._engine.ir.source import NameStack, source_info_of
from mjaxlib_shim.mlir import ir


class SPMDAxisContext(Record):
    """The devices of a program as a mesh, some of whose axes the program knows.

    Attributes:
      mesh: the `Mesh`.
      manual_axes: names of the axes that a surrounding shard_map cuts.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.SPMDAxisContext(mjax.make_mesh((2,), ("x",))).manual_axes
      frozenset()
    """

    mesh: Any
    manual_axes: frozenset[Any] = frozenset()


class ShardingContext(Record):
    """The devices of a program, which XLA partitions.

    Attributes:
      num_devices: their number.
      device_assignment: the devices, in the order of the partitions; None: not known yet.
      abstract_mesh: a mesh of their shape, or None.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.ShardingContext(1).device_assignment is None
      True
    """

    num_devices: int
    device_assignment: tuple[Any, ...] | None = None
    abstract_mesh: Any = None


class ReplicaAxisContext(Record):
    """The axes of a pmap (jax to 0.8). mjax's pmap is a shard_map: see `SPMDAxisContext`.

    Attributes:
      axis_env: the environment: an object with `names` and `sizes`.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.ReplicaAxisContext(None).axis_env is None
      True
    """

    axis_env: Any


class ShapePolyLoweringState(Record):
    """The symbols of a module's sizes.

    Attributes:
      dim_vars: their names, in the order in which functions take their values.
      lowering_platforms: the platforms of the module.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.ShapePolyLoweringState(("n",)).uses_dim_vars
      True
    """

    dim_vars: tuple[str, ...]
    lowering_platforms: tuple[str, ...] | None = None

    @property
    def uses_dim_vars(self) -> bool:
        """Whether there are symbols."""
        return bool(self.dim_vars)

    @property
    def has_platform_index_argument(self) -> bool:
        """Always false: a module is lowered for one platform, and `mjax.export` joins several."""
        return False


class LoweringParameters(Record):
    """Options of a lowering.

    Attributes:
      override_lowering_rules: pairs of a primitive and a rule, which come before registered rules.
      global_constant_computation: not read: sizes are values of the program in each function.
      for_export: whether the module is exported. Rules see it; modules always have the oldest
        spelling that every jaxlib reads.
      export_ignore_forward_compatibility: seen by rules alone, too.
      hoist_constants_as_args: whether `main` takes large constants as arguments.

    Example:
      >>> from mjax_ext.interpreters import mlir
      >>> mlir.LoweringParameters().for_export
      False
    """

    override_lowering_rules: tuple[tuple[Any, Any], ...] | None = None
    global_constant_computation: bool = False
    for_export: bool = False
    export_ignore_forward_compatibility: bool = False
    hoist_constants_as_args: bool = False


#: Defaults.
ONE_DEVICE, NO_OPTIONS = ShardingContext(1), LoweringParameters()


class ModuleFacts:
    """Base of `ModuleContext`."""

    platform: str
    module: Any
    client: Any
    devices: tuple[Any, ...] | None
    dimensions: tuple[str, ...]
    lowering_parameters = NO_OPTIONS
    #: Whether all arguments and results are in the default memory of their devices.
    all_default_mem_kind = True

    def __init__(self) -> None:
        #: Objects that have to live as long as the compiled program.
        self.keepalives: list[Any] = []
        #: A place for rules to remember the functions that they made in this module.
        self.cached_primitive_lowerings: dict[Any, Any] = {}

    def add_keepalive(self, keepalive: Any) -> None:
        """Keeps an object, such as one whose address is in the module, as long as the program."""
        self.keepalives.append(keepalive)

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform it is lowered for, alone."""
        return (self.platform,)

    @property
    def context(self) -> Any:
        """The `ir.Context`."""
        return self.module.context

    @property
    def ip(self) -> Any:
        """An `ir.InsertionPoint` at the end of the module."""
        return ir.InsertionPoint(self.module.body)

    @property
    def symbol_table(self) -> Any:
        """An `ir.SymbolTable` of the module."""
        return ir.SymbolTable(self.module.operation)

    @property
    def shape_poly_state(self) -> ShapePolyLoweringState:
        """The symbols of the module's sizes."""
        return ShapePolyLoweringState(self.dimensions, self.platforms)

    @property
    def backend(self) -> Any:
        """The client that will compile it.

        Raises:
          RuntimeError: there is none.
        """
        return self.client()

    def get_backend(self, optional: bool = False) -> Any:
        """The client that will compile it; None if there is none and it is `optional`."""
        try:
            return self.client()
        except RuntimeError:
            if optional:
                return None
            raise


class RuleFacts:
    """Base of the context of lowering rules."""

    __slots__ = ()
    module_context: Any
    constants: Any
    source: Any
    tokens: Any
    #: Nothing is remembered about the context of an equation.
    jaxpr_eqn_ctx = None
    axis_size_env = None

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform of the module, alone."""
        return (self.module_context.platform,)

    @property
    def tokens_out(self) -> Any:
        """The tokens after everything lowered so far."""
        return self.tokens

    @property
    def name_stack(self) -> NameStack:
        """The names of the scopes around the equation."""
        return NameStack((*self.module_context.scope, *source_info_of(self.source).name_stack))

    @property
    def traceback(self) -> Any:
        """The traceback of the call that made the equation; None: it is not known."""
        return source_info_of(self.source).traceback

    @property
    def const_lowering(self) -> Any:
        """The values of constants in this function, for `jaxpr_subcomp` and `ir_constants`."""
        return self.constants

    @property
    def dim_var_values(self) -> tuple[Any, ...]:
        """The values of the symbols of sizes in this function."""
        return tuple(self.module_context.symbol_values())

    def is_forward_compat(self) -> bool:
        """Whether the module is exported, for jaxlibs of other releases.

        It has the oldest spelling that they read in any case; this is for rules that call foreign
        functions, whose conventions may have changed.
        """
        parameters = self.module_context.lowering_parameters
        return parameters.for_export and not parameters.export_ignore_forward_compatibility
