"""The stages of ahead-of-time compilation: traced, lowered, compiled."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import pickled_by
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import Mesh
from mjax._engine.ir.pytree import (
    PyTreeDef,
    keystr,
    prefix_pairs,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_structure,
)
from mjax._engine.ir.references import is_reference, written
from mjax._engine.ir.sizes import is_constant_shape
from mjax._engine.ir.types import ShapedArray, is_object_value, typeof
from mjax._engine.lowering.module import LoweredModule
from mjax._engine.runtime.arrays.array import Array, is_array
from mjax._engine.runtime.arrays.constraints import mesh_in_force
from mjax._engine.runtime.arrays.devices import default_device, devices
from mjax._engine.runtime.arrays.layouts import Format, Layout, format_of
from mjax._engine.runtime.arrays.placement import placement_of
from mjax._engine.runtime.arrays.shape_dtype_struct import ShapeDtypeStruct
from mjax._engine.runtime.arrays.shardings import NamedSharding, SingleDeviceSharding
from mjax._engine.runtime.arrays.transfer import move, sharding_of, to_array
from mjax._engine.runtime.dispatch.arguments import compiler_options_of
from mjax._engine.runtime.dispatch.executable import (
    Asked,
    Loaded,
    Program,
    compile_module,
    lower,
    place,
    shard,
)
from mjax._engine.runtime.dispatch.nan_checks import nan_checks_enabled, refuse_invalid
from mjax._engine.runtime.dispatch.references import discharged, run_on_contents
from mjax._engine.runtime.dispatch.runners import refuse_execution, run
from mjax._engine.runtime.dispatch.user_types import has_packed, of_arrays, with_packed
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.reference import Ref, check_aliases
from mjax._engine.tracing.user_types import SINGLE, Packed, PackedPlacement, types_of_parts
from mjaxlib_shim import executables as shim

_placement_of = operator.attrgetter("_placement")


@pickled_by("arg_info_v1")
class ArgInfo(Record):
    """The facts of an argument known ahead of time: its type, and whether it is donated.

    Attributes:
      shape: sizes of the axes.
      dtype: the dtype.
      donated: whether the program may take over its memory.

    Example:
      >>> (x,), _ = mjax.jit(jnp.sin).lower(1.0).args_info
      >>> x.shape, x.dtype, x.donated
      ((), dtype('float32'), False)
    """

    shape: tuple[int, ...]
    dtype: Any
    donated: bool


def out_info(jaxpr: Jaxpr, out_tree: Any, shardings: Sequence[Any] | None = None) -> Any:
    """The tree of types of a program's results, with their shardings if these are known."""
    avals = jaxpr.out_avals
    return out_tree.unflatten([
        ShapeDtypeStruct.of(a, s) if isinstance(a, ShapedArray) else a
        for a, s in zip(avals, shardings or [None] * len(avals), strict=True)])


class Stage:
    """The facts that all stages know.

    Attributes:
      in_tree: structure of `(args, kwargs)`, static arguments left out.
      out_tree: structure of the results.
      in_avals, out_avals: trees of the types of arguments and results.
      args_info: tree of `ArgInfo`s.
      donate_argnums: which leaves of the arguments are donated.
      out_info: tree of `ShapeDtypeStruct`s of the results.
    """

    __slots__ = ("_donated", "_jaxpr", "_out_shardings", "in_tree", "out_tree")
    _program: Program
    in_tree: PyTreeDef
    out_tree: PyTreeDef

    def __init__(self, jaxpr: Jaxpr, in_tree: Any, out_tree: Any, donated: Sequence[bool],
                 out_shardings: Sequence[Any]):
        self._jaxpr = jaxpr
        self.in_tree = in_tree
        self.out_tree = out_tree
        self._donated = tuple(donated)
        self._out_shardings = out_shardings

    @property
    def _name(self) -> str:
        """The function's name."""
        return self._program.name

    def __repr__(self) -> str:
        ins, outs = (", ".join(map(str, avals)) for avals in (self._avals(), self._jaxpr.out_avals))
        return f"<{type(self).__name__} {self._name}: ({ins}) -> ({outs})>"

    def _avals(self) -> list[Any]:
        # Values of outer traces that the function closed over come before the arguments.
        return self._jaxpr.in_avals[len(self._jaxpr.invars) - self.in_tree.num_leaves:]

    @property
    def in_avals(self) -> Any:
        """The tree `(args, kwargs)` of the arguments' types."""
        return self.in_tree.unflatten(self._avals())

    @property
    def out_avals(self) -> Any:
        """The tree of the results' types."""
        return self.out_tree.unflatten(self._jaxpr.out_avals)

    @property
    def args_info(self) -> Any:
        """The tree `(args, kwargs)` of `ArgInfo`s."""
        return self.in_tree.unflatten([ArgInfo(a.shape, a.dtype, d) for a, d in zip(
            self._avals(), self._donated, strict=True)])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Indices of the leaves that are donated."""
        return tuple(i for i, d in enumerate(self._donated) if d)

    @property
    def out_info(self) -> Any:
        """Tree of `ShapeDtypeStruct`s of the results, with requested shardings; after compilation
        with all of them."""
        return out_info(self._jaxpr, self.out_tree, self._out_shardings)


class Traced(Stage):
    """A traced function, from `jit(f).trace(...)`.

    Attributes:
      fun_name: the function's name.

    Example:
      >>> traced = mjax.jit(lambda x: x + 1).trace(1.0)
      >>> print(traced.jaxpr)
      { lambda  ; a:~f32[]. let
          b:~f32[] = add a 1.0:~f32[]
        in (b,) }
    """

    __slots__ = ("_asked", "_call", "_closed_over", "_options", "fun_name")
    fun_name: str

    def __init__(self, jaxpr: Jaxpr, closed_over: tuple[Any, ...], name: str, call: Any,
                 out_tree: Any, donated: tuple[bool, ...], options: Any, asked: Any):
        super().__init__(jaxpr, call.tree, out_tree, donated, asked[1])
        self.fun_name, self._closed_over = name, closed_over
        self._call = call
        self._options = options
        self._asked = asked

    @property
    def _name(self) -> str:
        return self.fun_name

    @property
    def jaxpr(self) -> Jaxpr:
        """The program."""
        return self._jaxpr

    @boundary
    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Lowers to StableHLO, for the device of the arguments or the default device.

        Args:
          lowering_platforms: one platform to lower for instead. The result can be read; it can be
            compiled only for the device's own platform.

        Raises:
          TypeError: the function uses values of an outer trace.
          ValueError: `lowering_platforms` does not name exactly one.
        """
        program = self.program()
        if lowering_platforms is not None and len(lowering_platforms) != 1:
            msg = (f"lowering_platforms={lowering_platforms!r}: a module is lowered for one "
                   "platform.")
            raise ValueError(msg)
        return Lowered(program, lower(program, (lowering_platforms or (None,))[0]), self)

    def program(self) -> Program:
        """The program that `lower` lowers.

        Raises:
          TypeError: the function uses values of an outer trace.
        """
        if any(type(value) is not Ref for value in self._closed_over):
            msg = (f"{self.fun_name} uses values of an outer trace (grad, vmap, jit) and cannot be "
                   "lowered on its own: pass them as arguments.")
            raise TypeError(msg)
        n, avals = len(self._closed_over), self._jaxpr.in_avals
        placements = list(map(_placement, [*self._closed_over, *self._call.leaves], avals))
        # Symbols of sizes are read from the arguments, also from unused ones.
        keep = self._options.keep_unused or not all(
            is_constant_shape(getattr(a, "shape", ())) for a in self._jaxpr.in_avals)
        into, out_of = self._asked
        asked = Asked(self._jaxpr, self.fun_name, placements, (*[False] * n, *self._donated), keep,
                      self._options.device, into and (*[None] * n, *into), out_of)
        refs = _references(self._jaxpr)
        if refs:
            asked, _ = discharged(asked, refs)
        if has_packed(asked):
            asked = of_arrays(asked)
        return shard(asked, place(asked))


def _grouped(avals: Sequence[Any], facts: Iterable[Any]) -> list[Any]:
    """A fact for each value, given those of arrays; of users' types the tuple for their arrays."""
    given = iter(facts)
    return [next(given) if isinstance(a, SINGLE) or is_reference(a) else
            tuple([next(given) for _ in types_of_parts(a)]) for a in avals]


def _references(jaxpr: Jaxpr) -> list[int]:
    """The numbers of the arguments that are references."""
    return [i for i, aval in enumerate(jaxpr.in_avals) if is_reference(aval)]


def _placement(leaf: Any, aval: Any) -> Any:
    if is_reference(aval):
        return _placement(leaf.content() if type(leaf) is Ref else leaf, aval.inner_aval)
    if is_object_value(leaf):
        leaf = to_array(leaf)
    if is_array(leaf) or type(leaf) is Packed:
        return leaf._placement
    single: bool = isinstance(aval, SINGLE)
    if not single:  # a type in the place of an argument
        return PackedPlacement(aval, tuple([_placement(None, a) for a in types_of_parts(aval)]))
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:
        return placement_of(aval, SingleDeviceSharding(default_device()), False)
    sharding = sharding_of(sharding)
    if type(sharding) is NamedSharding and sharding.is_abstract:
        # It is lowered and compiled for the first devices.
        mesh = mesh_in_force()
        found = mesh.flat_devices if isinstance(mesh, Mesh) else devices()[:sharding.mesh.size]
        sharding = sharding.over(found, "the sharding of a ShapeDtypeStruct")
    return placement_of(aval, sharding, True)


class _Bound(Stage):
    """A stage that holds objects of this process."""

    __slots__ = ()

    def __copy__(self) -> _Bound:
        return self

    def __deepcopy__(self, memo: Any) -> _Bound:
        return self

    @boundary
    def __reduce__(self) -> Any:
        msg = (f"{self} belongs to this process and cannot be pickled. Pickle the function; the "
               "compilation cache (jax_compilation_cache_dir) keeps compiled programs.")
        raise TypeError(msg)


class Lowered(_Bound):
    """A lowered function, from `jit(f).lower(...)`.

    Example:
      >>> lowered = mjax.jit(lambda x: x + 1).lower(1.0)
      >>> "stablehlo.add" in lowered.as_text()
      True
    """

    __slots__ = ("_closed_over", "_lowered", "_options", "_program", "_static")

    def __init__(self, program: Program, lowered: LoweredModule, traced: Traced):
        super().__init__(traced.jaxpr, traced.in_tree, traced.out_tree, traced._donated,
                         traced._out_shardings)
        self._program, self._lowered = program, lowered
        self._options = dict(traced._options.compiler_options)
        self._static = [name for name, _ in traced._call.static]
        self._closed_over = traced._closed_over

    @boundary
    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The module as text.

        Args:
          dialect: "stablehlo" (the default) or "hlo".
          debug_info: whether to show source locations (of StableHLO).

        Raises:
          ValueError: another dialect.
        """
        if _dialect(dialect) == "hlo":
            return shim.to_hlo(self._lowered.module).as_hlo_text()
        return self._lowered.text(debug_info)

    @boundary
    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The module as an `ir.Module`, or for the dialect "hlo" as jaxlib's `XlaComputation`.

        Raises:
          ValueError: another dialect.
        """
        module = self._lowered.module
        return shim.to_hlo(module) if _dialect(dialect) == "hlo" else module

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates before optimization, by name ("flops", "bytes accessed", ...)."""
        client = self._program.devices[0].client
        return shim.cost_before_compiling(client, self._lowered.module)

    @boundary
    def compile(self, compiler_options: dict[str, Any] | None = None, *,
                device_assignment: Sequence[Any] | None = None) -> Compiled:
        """Compiles for the devices it was lowered for.

        Args:
          compiler_options: XLA options (`xla_...`) by name; they go before those of `jit`.
          device_assignment: the devices it was lowered for, in order, or None. It cannot be
            compiled for others, because shardings in the program name its devices.

        Raises:
          TypeError: the options are not a dict of values that XLA takes.
          ValueError: `device_assignment` names other devices.
        """
        if device_assignment is not None and tuple(device_assignment) != tuple(
                self._program.devices):
            msg = (f"{self._program.name} was lowered for {list(self._program.devices)}, and "
                   f"device_assignment={device_assignment!r} names other devices, or another "
                   "order. Lower it for arguments on those, or leave device_assignment out.")
            raise ValueError(msg)
        options = self._options | dict(compiler_options_of(compiler_options))
        return Compiled(compile_module(self._program, self._lowered, options), self)


def _dialect(name: str | None) -> str:
    if name not in (None, "stablehlo", "hlo"):
        msg = f"dialect {name!r} is unknown; there are 'stablehlo' and 'hlo'."
        raise ValueError(msg)
    return name or "stablehlo"


class Compiled(_Bound):
    """A compiled function, from `jit(f).lower(...).compile()`, for arguments of the same types.

    Attributes:
      input_shardings, output_shardings: trees of the shardings of arguments and results.

    Example:
      >>> compiled = mjax.jit(lambda x: x + 1).lower(1.0).compile()
      >>> compiled(2.0)
      Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ("_closed_over", "_executable", "_known", "_packed", "_program", "_refs", "_run",
                 "_static")

    def __init__(self, loaded: Loaded, lowered: Lowered):
        shardings = loaded.program.shardings
        outs = lowered._jaxpr.out_avals
        super().__init__(lowered._jaxpr, lowered.in_tree, lowered.out_tree, lowered._donated,
                         _grouped(outs, [shardings.moved_to.get(n, s)
                                         for n, s in enumerate(shardings.outputs)]))
        self._program, self._executable = loaded.program, loaded.executable
        self._static, self._closed_over = lowered._static, lowered._closed_over
        self._refs = _references(self._jaxpr)
        #: Whether arguments or results are of users' types.
        self._packed = not all(isinstance(a, SINGLE) or is_reference(a)
                               for a in (*self._jaxpr.in_avals, *outs))
        self._run = run(loaded, tree_structure([0] * len(shardings.outputs))
                        if self._refs or self._packed else self.out_tree).arrays
        #: Tuples of placements of arguments that were checked and need no move.
        self._known: set[tuple[Any, ...]] = set()

    @property
    def input_shardings(self) -> Any:
        """The tree `(args, kwargs)` of the shardings of the arguments."""
        first = len(self._closed_over)
        return self.in_tree.unflatten(_grouped(self._avals(), map(
            self._program.shardings.of_argument, itertools.count(first))))

    @property
    def output_shardings(self) -> Any:
        """The tree of the shardings of the results."""
        return self.out_tree.unflatten(self._out_shardings)

    @property
    def input_formats(self) -> Any:
        """The tree `(args, kwargs)` of the formats of the arguments."""
        n = len(self._closed_over)
        return self.in_tree.unflatten(self._formats(
            self.in_avals, self.input_shardings,
            {i - n: layout for i, layout in self._program.in_layouts.items()}))

    @property
    def output_formats(self) -> Any:
        """The tree of the formats of the results."""
        return self.out_tree.unflatten(self._formats(
            self.out_avals, self.output_shardings, self._program.out_layouts))

    def _formats(self, avals: Any, shardings: Any, layouts: dict[int, Layout]) -> list[Any]:
        avals = tree_leaves(avals)
        parts = [part for a in avals for part in ([a] if is_reference(a) else types_of_parts(a))]
        return _grouped(avals, [
            Format(layouts[i], s) if i in layouts else format_of(a.ndim, s)
            for i, (a, s) in enumerate(zip(parts, tree_leaves(shardings), strict=True))])

    def as_text(self) -> str:
        """The optimized HLO."""
        return shim.hlo_text(self._executable)

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates by name ("flops", "bytes accessed", ...)."""
        return shim.cost_analysis(self._executable)

    def memory_analysis(self) -> Any:
        """Sizes of arguments, results and temporaries, in bytes."""
        return shim.memory_analysis(self._executable)

    def runtime_executable(self) -> Any:
        """jaxlib's loaded executable."""
        return self._executable

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise TypeError(self._wrong_structure((args, kwargs)))
        if self._packed:
            check_arguments(self._program.name, args)
            return with_packed(lambda *arrays: self._applied(arrays), self._jaxpr.out_avals,
                               self.out_tree)(*[
                to_array(leaf) if is_object_value(leaf) else leaf for leaf in leaves])
        return self._with_references(leaves) if self._refs else self._applied(leaves)

    call = __call__

    def _with_references(self, leaves: Sequence[Any]) -> Any:
        """The results, after the final contents of references are stored."""
        operands, info = [*self._closed_over, *leaves], self._jaxpr.debug_info
        for i in self._refs:
            if type(operands[i]) is not Ref:
                msg = (f"{self._program.name}: {info.arg_name(i)} was compiled for a reference of "
                       f"type {self._jaxpr.in_avals[i]}, and called with {operands[i]!r}: make a "
                       "reference with mjax.new_ref.")
                raise TypeError(msg)
        check_aliases(lambda: info, operands)
        return self.out_tree.unflatten(run_on_contents(
            self._applied, operands, self._refs, sorted(written(self._jaxpr.effects))))

    def _applied(self, leaves: Sequence[Any]) -> Any:
        """The results for arguments of the right structure."""
        try:
            arrays, key = leaves, tuple(map(_placement_of, leaves))
        except AttributeError:
            arrays, key = leaves, ()
        if not key or key not in self._known:
            arrays = self._examined(leaves)
            if key and all(map(operator.is_, arrays, leaves)):
                self._known.add(key)
        if thread.settings.no_execution:
            refuse_execution(self._program.name)
        out = self._run(*arrays)
        if nan_checks_enabled():
            refuse_invalid(tree_leaves(out), self._jaxpr, self._program.name, arrays)
        return out

    def _examined(self, leaves: Sequence[Any]) -> list[Array]:
        """The arguments as arrays where the program takes them.

        Raises:
          TypeError: one is traced, or does not have the type the program was compiled for.
          ValueError: one is committed to other devices, or to another sharding.
        """
        program = self._program
        for leaf in leaves:
            if isinstance(leaf, Tracer) and type(leaf) is not Ref:
                msg = (f"{program.name} is compiled and was called with a traced value of type "
                       f"{leaf.aval}: it cannot be differentiated, batched or traced. Call the "
                       "jitted function instead.")
                raise TypeError(msg)
        if not self._packed:
            check_arguments(program.name, self.in_tree.unflatten(
                leaves[len(self._closed_over):]))
        wrong = [f"  {program.names(i)}: compiled for {aval}, called with {typeof(leaf)}"
                 for i, (leaf, aval) in enumerate(zip(
                     leaves, program.asked.jaxpr.in_avals, strict=True))
                 if typeof(leaf).strip_weak_type() is not aval.strip_weak_type()]
        if wrong:
            raise TypeError("\n".join([
                f"{program.name}: types of arguments differ from those it was compiled for:",
                *wrong, "Call the jitted function to compile for other types. (Settings count: "
                "enable_x64 decides whether 64-bit types stay.)"]))
        arrays = [to_array(leaf, not program.donation.aliases) for leaf in leaves]
        targets = [program.shardings.of_argument(i) for i in range(len(arrays))]
        elsewhere = [f"  {program.names(i)}: compiled for {targets[i]}, committed to "
                     f"{arrays[i].sharding}" for i in program.kept
                     if program.asked.device is None and arrays[i].committed
                     and not program.shardings.accept(i, arrays[i].sharding)]
        if elsewhere:
            raise ValueError("\n".join([
                f"{program.name}: arguments are on other devices, or cut otherwise, than it was "
                "compiled for:", *elsewhere, "Move them with mjax.device_put."]))
        return [a if a.sharding is s else move(a, s, program.place.committed)
                for a, s in zip(arrays, targets, strict=True)]

    def _wrong_structure(self, given: Any) -> str:
        """The message for arguments with another structure."""
        expected = self.in_tree.unflatten([object()] * self.in_tree.num_leaves)
        left, right = ({_path(path) for path, _ in tree_flatten_with_path(tree)[0]}
                       for tree in (expected, given))
        lines = [f"  {path} is missing" for path in sorted(left - right)]
        lines += [f"  {path} is not expected" for path in sorted(right - left)]
        if not lines:
            lines = [f"  {_first_difference(expected, given)}"]
        if self._static:
            lines.append(f"Static arguments ({', '.join(map(str, self._static))}) are part of the "
                         "compiled function: leave them out.")
        return "\n".join([f"{self._program.name}: structure of arguments differs from the one it "
                          "was compiled for:", *lines])


#: Options of XLA, by name.
CompilerOptions = dict[str, str | bool]


def _path(path: Any) -> str:
    """A key path of the pair `(args, kwargs)`."""
    return ("args", "kwargs")[path[0].idx] + keystr(path[1:])


def _first_difference(expected: Any, given: Any) -> str:
    for one, other in ((expected, given), (given, expected)):
        try:
            prefix_pairs(one, other)
        except ValueError as error:
            return str(error)
    return "the metadata of some node differs"
