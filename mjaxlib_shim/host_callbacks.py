"""Python functions that a compiled program (on CPU and GPU) or its compiler calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import foreign_gates, gates
from .mlir import hlo, ir
from .native import ext, xc

__all__ = ["HostCallbacks", "Inspection", "Signature", "keeps_results", "lacks_pieces",
           "one_device_calls"]

#: Shape and dtype of each operand or result; None for a token.
Signature = Sequence[tuple[tuple[int, ...], np.dtype[Any]] | None]


def one_device_calls(has_side_effect: bool, results: int) -> bool:
    """Whether a sharding can let one device of a partitioned program call a function for all; or
    each may call it, without side effects.

    Args:
      has_side_effect: whether the function has side effects.
      results: the number of results; 1 if a token is among them.

    Returns:
      A bool.

    Example:
      >>> from mjaxlib_shim import host_callbacks
      >>> host_callbacks.one_device_calls(True, 1) in (True, False)
      True
    """
    if results > 1 and foreign_gates.NO_DEVICE_OF_SEVERAL.open:
        return False
    return gates.FFI_CALLBACKS.open or not has_side_effect


def keeps_results() -> bool:
    """Whether results of a function with side effects come out of a `shard_map` that leaves axes
    of the mesh to XLA.

    Example:
      >>> from mjaxlib_shim import host_callbacks
      >>> host_callbacks.keeps_results() in (True, False)
      True
    """
    return gates.FFI_CALLBACKS.open


def lacks_pieces() -> str:
    """The release that lets each device call a function with its own pieces of a sharded array.

    It is empty if this release can do so.

    Example:
      >>> from mjaxlib_shim import host_callbacks
      >>> isinstance(host_callbacks.lacks_pieces(), str)
      True
    """
    gate = gates.FFI_CALLBACKS
    return "" if gate.open else f"jaxlib {gate.since_release} or newer"


class HostCallbacks:
    """The Python functions of one module.

    Attributes:
      kept: the `host_callbacks` for `compile_module`; they keep the functions alive.

    Example:
      >>> from mjaxlib_shim import client, host_callbacks, mlir
      >>> callbacks = host_callbacks.HostCallbacks()
      >>> cpu = client.client_for("cpu")
      >>> kind = ((4,), np.dtype("float32"))
      >>> context = mlir.full_context()
      >>> with context, mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.parse(
      ...     "func.func @main(%x: tensor<4xf32>) { return }")
      ...   block = module.body.operations[0].regions[0].blocks[0]
      ...   x = block.arguments[0]
      ...   with mlir.ir.InsertionPoint.at_block_begin(block):
      ...     results = callbacks.emit(
      ...       lambda x: (2 * x,), [x], [kind], [kind], [x.type], has_side_effect=False,
      ...       client=lambda: cpu)
      >>> len(results), len(callbacks.kept)
      (1, 1)
    """

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def emit(
        self,
        function: Callable[..., tuple[Any, ...]],
        operands: Sequence[Any],
        operand_signature: Signature,
        result_signature: Signature,
        result_types: Sequence[Any],
        *,
        has_side_effect: bool,
        client: Callable[[], Any],
        platform: str = "cpu",
        sharding: Callable[[int], Any] | None = None,
        partitioned: bool = False,
    ) -> list[Any]:
        """Emits a call of a Python function at the insertion point.

        Args:
          function: gets a read-only array per operand, which it may keep, and returns a
            tuple of arrays of exactly the declared shapes and dtypes. Tokens are passed and
            returned as None. An exception ends the execution with an error of its text.
          operands: `ir.Value`s.
          operand_signature: their shapes and dtypes.
          result_signature: those of the results.
          result_types: the results' MLIR types.
          has_side_effect: whether the call stays if its results are unused.
          client: gives the client that will compile the module.
          platform: "cpu", or "gpu" of any vendor.
          sharding: in a partitioned program gives the sharding attribute of an operation
            with so many results, or None: each device calls the function. Without
            `one_device_calls` each does in any case.
          partitioned: whether each device calls the function with its own pieces, as XLA cuts
            the operands. The function then has no results; see `lacks_pieces`.

        Returns:
          The results' `ir.Value`s.
        """
        if gates.FFI_CALLBACKS.open:
            index = ir.IntegerAttr.get(
                ir.IntegerType.get_unsigned(64), len(self.kept)
            )
            self.kept.append(function)
            config = ir.DictAttr.get({"index": index})
            target = f"xla_ffi_{'partitioned_' if partitioned else ''}python_{platform}_callback"
            attribute = sharding and sharding(len(result_types))
            # XLA ends the process when it partitions a call without layouts.
            return list(_custom_call(target, 4, config, operands, result_types, has_side_effect,
                                     attribute, layouts=partitioned))
        return self._emit_by_address(function, operands, operand_signature, result_signature,
                                     result_types, has_side_effect, client, platform, sharding)

    def _emit_by_address(
        self,
        function: Callable[..., tuple[Any, ...]],
        operands: Sequence[Any],
        operand_signature: Signature,
        result_signature: Signature,
        result_types: Sequence[Any],
        has_side_effect: bool,
        client: Callable[[], Any],
        platform: str,
        sharding: Callable[[int], Any] | None,
    ) -> list[Any]:
        """`emit` for jaxlibs on which modules refer to functions by the address of a descriptor."""
        count = len(result_types)
        if sharding is not None and count == 1:
            # XLA needs several results or a packed one, and unpacks only packed ones.
            single, result_types = function, [*result_types, ir.RankedTensorType.get(
                [], ir.F32Type.get())]
            result_signature = [*result_signature, ((), np.dtype(np.float32))]

            def function(*args: Any) -> tuple[Any, ...]:
                return *single(*args), np.zeros((), np.float32)

        descriptor, kept = client().get_emit_python_callback_descriptor(
            function, [_shape(s) for s in operand_signature], [_shape(s) for s in result_signature]
        )
        self.kept.append(kept)
        config = ir.StringAttr.get(str(descriptor))
        address = hlo.constant(ir.DenseElementsAttr.get(np.array(descriptor, np.int64)))
        types = list(result_types)
        results = _custom_call(
            f"xla_python_{platform}_callback", 2, config, [address, *operands],
            [ir.TupleType.get_tuple(types)] if sharding is None else types, has_side_effect,
            layouts=True,
        )
        if sharding is not None:
            if has_side_effect and count:
                # jaxlib 0.5 removes unused results, and crashes. So an operation that stays reads
                # one.
                self._emit_by_address(_read, [results[-1]], result_signature[-1:], [], [], True,
                                      client, platform, sharding)
            return list(results)[:count]
        i32 = ir.IntegerType.get_signless(32)
        return [
            hlo.get_tuple_element(results[0], ir.IntegerAttr.get(i32, i)) for i in range(count)
        ]


def _read(_: Any) -> tuple[Any, ...]:
    return ()


class Inspection:
    """A value of a partitioned program whose sharding the compiler reports.

    It has to live as long as the module can be compiled, because the module has its address.

    Example:
      >>> from mjaxlib_shim import host_callbacks, mlir
      >>> inspection = host_callbacks.Inspection()
      >>> context = mlir.full_context()
      >>> with context, mlir.ir.Location.unknown():
      ...   module = mlir.ir.Module.parse(
      ...     "func.func @main(%x: tensor<4xf32>) { return }")
      ...   block = module.body.operations[0].regions[0].blocks[0]
      ...   x = block.arguments[0]
      ...   with mlir.ir.InsertionPoint.at_block_begin(block):
      ...     inspection.emit(x)
      >>> "@InspectSharding" in str(module), inspection.take()
      (True, [])
    """

    __slots__ = ("_found", "_note")

    def __init__(self) -> None:
        self._found: list[Any] = []
        self._note = self._found.append

    def emit(self, value: Any) -> None:
        """Emits the operation at the insertion point; the compiled program does not contain it.

        Args:
          value: an `ir.Value`.
        """
        key = ir.StringAttr.get(ext.encode_inspect_sharding_callback(self._note))
        _custom_call("InspectSharding", 1, key, [value], [value.type], True)

    def take(self) -> list[Any]:
        """The HloShardings of the value reported since the last call, one for each place where the
        partitioner met it.

        In a manual computation over some axes they number the devices along the others, in an
        unknown order.
        """
        found = list(self._found)
        self._found.clear()
        return found


def _custom_call(
    target: str, api_version: int, config: Any, operands: Sequence[Any], types: Sequence[Any],
    has_side_effect: bool, sharding: Any = None, layouts: bool = False,
) -> Any:
    i32 = ir.IntegerType.get_signless(32)
    named = {}
    if layouts:
        named = {
            "operand_layouts": ir.ArrayAttr.get([_layout(v.type) for v in operands]),
            "result_layouts": ir.ArrayAttr.get([_layout(t) for t in _parts(types)]),
        }
    return hlo.CustomCallOp.build_generic(
        results=list(types),
        operands=list(operands),
        attributes={
            "call_target_name": ir.StringAttr.get(target),
            "has_side_effect": ir.BoolAttr.get(has_side_effect),
            "api_version": ir.IntegerAttr.get(i32, api_version),
            "called_computations": ir.ArrayAttr.get([]),
            "backend_config": config,
            **({} if sharding is None else {"sdy.sharding": sharding}),
            **named,
        },
    ).results


def _parts(types: Sequence[Any]) -> list[Any]:
    """The types, with those of a packed result in its place."""
    return [part for t in types for part in (
        [t.get_type(i) for i in range(t.num_types)] if isinstance(t, ir.TupleType) else [t])]


def _layout(kind: Any) -> Any:
    """The row-major layout: the last axis is contiguous. Tokens do not have one."""
    rank = kind.rank if isinstance(kind, ir.RankedTensorType) else 0
    return ir.DenseIntElementsAttr.get(
        np.arange(rank, dtype=np.int64)[::-1].copy(), type=ir.IndexType.get()
    )


def _shape(entry: tuple[tuple[int, ...], np.dtype[Any]] | None) -> Any:
    """An XLA shape; callbacks do not take dtypes such as int4."""
    if entry is None:
        return xc.Shape.token_shape()
    shape, dtype = entry
    return xc.Shape.array_shape(dtype, shape)
