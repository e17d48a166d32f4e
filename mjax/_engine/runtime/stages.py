"""The stages of ahead-of-time compilation: traced, lowered, compiled."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_unflatten
from mjax._engine.ir.types import ShapedArray
from mjax._engine.runtime.array import Array, SingleDeviceSharding, placement_of
from mjax._engine.runtime.devices import default_device
from mjax._engine.runtime.executable import Program
from mjax._engine.runtime.transfer import move, to_array
from mjax._engine.tracing.interpreter import Tracer
from mjaxlib_shim import executables as shim


class ShapeDtypeStruct:
    """The type of an array, where an array is not needed.

    Args:
      shape: its shape.
      dtype: its dtype.
      sharding: where it is; None: on the default device.
      weak_type: whether promotion may pick the other operand's dtype.
    """

    __slots__ = ("aval", "sharding")

    def __init__(self, shape: Sequence[int], dtype: Any, *, sharding: Any = None,
                 weak_type: bool = False):
        self.aval = ShapedArray(tuple(shape), dtypes.canonical_dtype(dtype), weak_type)
        self.sharding = sharding

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        """Whether promotion may pick the other operand's dtype."""
        return self.aval.weak_type

    def update(self, **fields: Any) -> ShapeDtypeStruct:
        """A copy with some of `shape, dtype, sharding, weak_type` replaced."""
        values = {"shape": self.shape, "dtype": self.dtype, "sharding": self.sharding,
                  "weak_type": self.weak_type} | fields
        return ShapeDtypeStruct(values.pop("shape"), values.pop("dtype"), **values)

    def __len__(self) -> int:
        return self.aval.length()

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, ShapeDtypeStruct) and self.aval is other.aval
                and self.sharding == other.sharding)

    def __hash__(self) -> int:
        return hash((self.aval, self.sharding))

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype}{weak})"


def out_info(jaxpr: Jaxpr, out_tree: Any) -> Any:
    """The tree of types of a program's results."""
    return tree_unflatten(out_tree, [ShapeDtypeStruct(a.shape, a.dtype, weak_type=a.weak_type)
                                     for a in jaxpr.out_avals])


class Traced:
    """A traced function; what `jit(f).trace(...)` gives.

    Attributes:
      jaxpr: the program.
      out_info: tree of `ShapeDtypeStruct`s of the results.
    """

    __slots__ = ("_call", "_donated", "_options", "_out_tree", "fun_name", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, name: str, call: Any, out_tree: Any,
                 donated: tuple[bool, ...], options: Any):
        self.jaxpr = jaxpr
        self.fun_name = name
        self._call = call
        self._out_tree = out_tree
        self._donated = donated
        self._options = options

    @property
    def out_info(self) -> Any:
        """Tree of `ShapeDtypeStruct`s of the results."""
        return out_info(self.jaxpr, self._out_tree)

    @boundary
    def lower(self) -> Lowered:
        """Lowers to StableHLO, for the devices that the arguments or the default name."""
        if len(self._call.leaves) != len(self.jaxpr.invars):
            msg = (f"{self.fun_name} uses values of an outer trace (grad, vmap, jit) and cannot be "
                   "lowered on its own: pass them as arguments.")
            raise TypeError(msg)
        placements = []
        for leaf, aval in zip(self._call.leaves, self.jaxpr.in_avals, strict=True):
            if type(leaf) is Array:
                placements.append(leaf._placement)
            else:
                sharding = getattr(leaf, "sharding", None)
                placements.append(placement_of(
                    aval, sharding or SingleDeviceSharding(default_device()),
                    sharding is not None))
        program = Program(self.jaxpr, self.fun_name, placements, self._donated,
                          self._options.keep_unused, self._options.device)
        program.lower()
        return Lowered(program, self)


class Lowered:
    """A lowered function; what `jit(f).lower(...)` gives."""

    __slots__ = ("_program", "_traced")

    def __init__(self, program: Program, traced: Traced):
        self._program = program
        self._traced = traced

    @property
    def out_info(self) -> Any:
        """Tree of `ShapeDtypeStruct`s of the results."""
        return self._traced.out_info

    @property
    def in_tree(self) -> Any:
        """Structure of `(args, kwargs)`."""
        return self._traced._call.tree

    @property
    def out_tree(self) -> Any:
        """Structure of the results."""
        return self._traced._out_tree

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The StableHLO module as text, with source locations if asked for."""
        if dialect not in (None, "stablehlo"):
            msg = f"as_text: dialect {dialect!r} is unknown; there is 'stablehlo'."
            raise ValueError(msg)
        return self._program.lower().text(debug_info)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The `ir.Module`."""
        return self._program.lower().module

    @boundary
    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compiles for the devices it was lowered for.

        Args:
          compiler_options: XLA options (`xla_...`) by name.
        """
        options = {**dict(self._traced._options.compiler_options), **(compiler_options or {})}
        # A copy, because a program keeps what was compiled, under whichever options.
        return Compiled(copy.copy(self._program), self._traced, options)


class Compiled:
    """A compiled function, callable with arguments of the types it was made for."""

    __slots__ = ("_program", "_run", "_traced")

    def __init__(self, program: Program, traced: Traced, options: dict[str, Any]):
        self._program = program
        self._traced = traced
        program.compile(options)
        self._run = program.runner(options)

    @property
    def out_info(self) -> Any:
        """Tree of `ShapeDtypeStruct`s of the results."""
        return self._traced.out_info

    def as_text(self) -> str:
        """The optimized HLO."""
        return shim.hlo_text(self._program.compile())

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates by name ("flops", "bytes accessed", ...)."""
        return shim.cost_analysis(self._program.compile())

    def memory_analysis(self) -> Any:
        """Sizes of arguments, results and temporaries, in bytes."""
        return shim.memory_analysis(self._program.compile())

    def runtime_executable(self) -> Any:
        """jaxlib's loaded executable."""
        return self._program.compile()

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self._traced._call.tree:
            msg = (f"the compiled function was made for arguments of structure "
                   f"{self._traced._call.tree}, not {tree}. (Static arguments are left out.)")
            raise TypeError(msg)
        arrays = [move_like(leaf, aval, self._program)
                  for leaf, aval in zip(leaves, self._traced.jaxpr.in_avals, strict=True)]
        return tree_unflatten(self._traced._out_tree, self._run(*arrays))


def move_like(leaf: Any, aval: ShapedArray, program: Program) -> Array:
    """An argument on the program's device.

    Raises:
      TypeError: it is traced, or has not the type the program was compiled for.
    """
    if isinstance(leaf, Tracer):
        msg = (f"a compiled function was called with a traced value of type {leaf.aval}: it cannot "
               "be differentiated, batched or traced. Call the jitted function instead.")
        raise TypeError(msg)
    array = to_array(leaf, not program.donated)
    if array.aval.strip_weak_type() is not aval.strip_weak_type():
        msg = (f"the compiled function was made for an argument of type {aval}, not "
               f"{array.aval}; call the jitted function to compile for other types.")
        raise TypeError(msg)
    if array.sharding is not program.sharding:
        return move(array, program.sharding, program.committed)
    return array
