"""Users' functions as arguments of fused ones: staged once, hashable, free of tracers.

A solver that takes a function is one program with that function in it. `staged` traces the function
to an object that is a static argument for `fused`; objects of equal programs are equal. Traced
values that the function closes over become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.control.calls.jit import call
from mjax._engine.control.trace_body import found_again, stage_body
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.pytree import tree_flatten, tree_structure, treedef_tuple
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.flat import check_arguments, check_callable, function_name
from mjax._numpy.core import cast


class Staged:
    """A function of pytrees as a program.

    Args:
      name: the function's name, for programs.
      jaxpr: from closed-over values and the leaves of its arguments to those of its
        results.
      in_tree, out_tree: the tree structures of arguments and results.
    """

    __slots__ = ("in_tree", "jaxpr", "name", "out_tree")

    def __init__(self, name: str, jaxpr: Jaxpr, in_tree: Any, out_tree: Any):
        self.name, self.jaxpr, self.in_tree, self.out_tree = name, jaxpr, in_tree, out_tree

    def __call__(self, consts: Sequence[Any], *args: Any) -> Any:
        """The results of the function, with these values instead of those it closed over.

        Raises:
          TypeError: the arguments have another tree structure than those it was staged for.
        """
        leaves, tree = tree_flatten(args)
        if tree != self.in_tree:
            raise LazyTypeError(lambda: (
                f"{self.name} was traced for arguments of the tree structure {self.in_tree}, but "
                f"called with {tree}."))
        types = self.jaxpr.in_avals[len(consts):]
        outs = call(self.jaxpr, self.name, [*consts, *[
            cast(x, t.dtype, t.weak_type) for x, t in zip(leaves, types, strict=True)]])
        return self.out_tree.unflatten(outs)

    @property
    def result_types(self) -> Any:
        """The types of the results, in the results' tree structure."""
        return self.out_tree.unflatten(self.jaxpr.out_avals)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Staged) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return id(self.jaxpr), self.in_tree, self.out_tree


def staged(who: str, f: Callable[..., Any], *args: Any) -> tuple[Staged, list[Any]]:
    """A function as a program for arguments of the types of these.

    Args:
      who: the public function, for messages.
      f: the function, without side effects.
      args: pytrees of arrays.

    Returns:
      The program, and the traced values that the function closes over.

    Raises:
      TypeError: `f` is not a function, or an argument is not an array.
    """
    check_callable(who, f)
    check_arguments(who, args)
    leaves, in_tree = tree_flatten(args)
    body = stage_body(who, f, treedef_tuple((in_tree, tree_structure({}))),
                      list(map(typeof, leaves)))
    jaxpr = found_again(staged, (who, in_tree, body.out_tree), body.jaxpr)
    return Staged(function_name(f), jaxpr, in_tree, body.out_tree), body.consts


__all__ = ["Staged", "staged"]
