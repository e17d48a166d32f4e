"""Operations that XLA cuts over devices by functions of Python, and rules that say how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import foreign_gates
from .mlir import ir
from .native import ext, xc

__all__ = ["Part", "Partitioner", "lacks_factor_kinds", "register_partitioner",
           "sharding_rule", "tile_shape"]


class Part(NamedTuple):
    """An operand or a result of an operation that XLA cuts.

    Attributes:
      shape, dtype: those of the whole array.
      sharding: how XLA cuts it, a HloSharding; None: not known.

    Example:
      >>> from mjaxlib_shim import partitioners
      >>> partitioners.Part((2, 3), np.dtype("float32"), None).shape
      (2, 3)
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sharding: Any


class Partitioner:
    """Base of objects that XLA asks about one operation.

    Example:
      >>> from mjaxlib_shim import partitioners
      >>> class Elementwise(partitioners.Partitioner):
      ...   def __init__(self, module):
      ...     self.module = module
      ...   def partition(self, operands, results):
      ...     return self.module, [x.sharding for x in operands], [operands[0].sharding]
      >>> part = partitioners.Part((4,), np.dtype("float32"), None)
      >>> Elementwise(b"").partition([part], [part])
      (b'', [None], [None])
    """

    def partition(self, operands: Sequence[Part], results: Sequence[Part]
                  ) -> tuple[bytes, Sequence[Any], Sequence[Any]]:
        """The module of one device, and how operands and results have to be cut."""
        raise NotImplementedError


def register_partitioner(target: str, find: Callable[[bytes], Partitioner]) -> None:
    """Lets XLA ask about the calls of a target when it cuts a program.

    Args:
      target: the target of the custom calls.
      find: the object for the configuration of a call.

    Raises:
      TypeError: `target` is not a string.

    Example:
      >>> from mjaxlib_shim import partitioners
      >>> partitioners.register_partitioner("example.cut", {}.__getitem__)
    """

    def partition(shapes: Any, shardings: Any, result_shape: Any, result_sharding: Any,
                  key: bytes) -> Any:
        results = _parts(result_shape, result_sharding)
        module, given, wanted = find(key).partition(
            list(map(_part, shapes, shardings)), results)
        return module, list(given), _packed(result_shape, list(wanted))

    # Only the older partitioner asks these two, and mjax always uses Shardy.
    ext.register_custom_call_partitioner(
        target, lambda sharding, shape, key: sharding, partition,
        lambda shapes, shardings, shape, key: _packed(
            shape, [xc.HloSharding.replicate()] * len(_parts(shape, None))),
        can_side_effecting_have_replicated_sharding=True)


def _part(shape: Any, sharding: Any) -> Part:
    return Part(tuple(shape.dimensions()), shape.numpy_dtype(), sharding)


def _parts(shape: Any, sharding: Any) -> list[Part]:
    if not shape.is_tuple():
        return [_part(shape, sharding)]
    shapes = shape.tuple_shapes()
    parts = [None] * len(shapes) if sharding is None else sharding.tuple_elements()
    return list(map(_part, shapes, parts))


def _packed(shape: Any, shardings: list[Any]) -> Any:
    return xc.HloSharding.tuple_sharding(shape, shardings) if shape.is_tuple() else shardings[0]


def tile_shape(sharding: Any, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of the piece on each device; the last one may be shorter.

    Args:
      sharding: an HloSharding.
      shape: the shape of the whole array.

    Returns:
      A tuple of ints.

    Raises:
      AttributeError: `sharding` is not an HloSharding.
      TypeError: `shape` is not iterable.
      RuntimeError: a size is negative, or is not an int.

    Example:
      >>> from mjaxlib_shim import partitioners, shardings
      >>> partitioners.tile_shape(shardings.tiled((2, 1)), (4, 3))
      (2, 3)
    """
    whole = xc.Shape.array_shape(np.dtype(np.float32), tuple(shape))
    return tuple(sharding.tile(whole).dimensions())


# ---- rules -----------------------------------------------------------------------------


def lacks_factor_kinds(need_replication: bool, permutation: bool) -> str:
    """The release whose rules tell these kinds of factors; empty if this one's do.

    Args:
      need_replication: whether factors that need replication are told.
      permutation: whether factors of permutations are told.

    Returns:
      A string.

    Example:
      >>> from mjaxlib_shim import partitioners
      >>> partitioners.lacks_factor_kinds(False, False)
      ''
    """
    replicated, permuted = foreign_gates.RULE_REDUCTIONS, foreign_gates.RULE_PERMUTATIONS
    if permutation and not foreign_gates.RULE_PERMUTATIONS.open:
        return f"jaxlib {permuted.since_release} or newer"
    if need_replication and not foreign_gates.RULE_REDUCTIONS.open:
        return f"jaxlib {replicated.since_release} or newer"
    return ""


#: The factors of each dimension of an array.
Factors = Sequence[Sequence[int]]


def sharding_rule(sizes: Sequence[int], operands: Sequence[Factors], results: Sequence[Factors], *,
                  reduction: Sequence[int] = (), need_replication: Sequence[int] = (),
                  permutation: Sequence[int] = ()) -> Any:
    """The attribute `sdy.sharding_rule` of an operation: which dimensions are cut alike.

    Args:
      sizes: the sizes of factors.
      operands: per operand and dimension the factors that it consists of, the slowest first.
      results: the same of the results.
      reduction: the factors over which the operation reduces. Before jaxlib 0.5.0 a rule does not
        tell them; XLA cuts them as any other.
      need_replication: those that must not be cut; see `lacks_factor_kinds`.
      permutation: those whose pieces have to be exchanged; see `lacks_factor_kinds`.

    Returns:
      An `ir.Attribute`.

    Raises:
      RuntimeError: no `ir.Context` is current.
      TypeError: an argument is not made of sequences, or a factor is not an int.
      ValueError: a factor is negative.
      MLIRError: a size is not an int.

    Example:
      >>> from mjaxlib_shim import mlir, partitioners
      >>> with mlir.full_context():
      ...   partitioners.sharding_rule([4], [[[0]]], [[[0]]])
      Attribute(#sdy.op_sharding_rule<([i])->([i]) {i=4}>)
    """
    def array(dims: Factors) -> str:
        return f"[{', '.join(''.join(map(_name, dim)) for dim in dims)}]"

    def listed(arrays: Sequence[Factors]) -> str:
        return f"({', '.join(map(array, arrays))})"

    kinds = [("reduction", reduction if foreign_gates.RULE_REDUCTIONS.open else ()),
             ("need_replication", need_replication), ("permutation", permutation)]
    text = f"{listed(operands)}->{listed(results)}"
    if sizes:
        text += f" {{{', '.join(f'{_name(i)}={size}' for i, size in enumerate(sizes))}}}"
    text += "".join(f" {kind}={{{', '.join(map(_name, sorted(factors)))}}}"
                    for kind, factors in kinds if factors)
    # Rules marked as custom are refused before jaxlib 0.6.1, and mean the same.
    return ir.Attribute.parse(f"#sdy.op_sharding_rule<{text}>")


def _name(index: int) -> str:
    """The name of a factor in the text of a rule: i, j, ..., z, z_1, z_2, ..."""
    if index < 0:
        raise ValueError(f"the factors of a rule are numbered from 0, not {index}")
    return "ijklmnopqrstuvwxyz"[index] if index < 18 else f"z_{index - 17}"
