"""The arguments `in_shardings` and `out_shardings` of `jit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.mesh import UNCONSTRAINED, PartitionSpec
from mjax._engine.ir.pytree import prefix_leaves, tree_flatten
from mjax._engine.runtime.arrays.constraints import check_fits, resolved, sharding_constraint_p
from mjax._engine.runtime.arrays.layouts import Format, layout_behind, sharding_behind
from mjax._engine.runtime.arrays.shardings import Sharding
from mjax._engine.runtime.dispatch.arguments import JitCall
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr


class Asked(Record):
    """A hashable prefix tree of shardings, partition specs, formats with layouts, and None."""

    leaves: tuple[Any, ...]
    tree: Any

    def over(self, full: Any, what: str, whole: str) -> list[Any]:
        """A sharding, a format with a layout, or None, per leaf of a tree.

        Args:
          full: the tree, or its structure.
          what: the name of the prefix tree, for messages.
          whole: the name of the tree, for messages.

        Raises:
          ValueError: it is not a tree prefix; or a spec, but no mesh is set.
        """
        given = prefix_leaves(what, self.tree.unflatten(self.leaves), full, whole, _is_none)
        return [None if s is None else
                Format(s.layout, resolved(s.sharding, what)) if type(s) is Format else
                resolved(s, what) for s in given]


def _is_none(value: Any) -> bool:
    return value is None


def asked(given: Any, what: str) -> Asked | None:
    """The argument `in_shardings` or `out_shardings` of `jit`; None if it asks for nothing.

    Raises:
      TypeError: a leaf is not a sharding, a spec or None.
      ValueError: a spec has `UNCONSTRAINED` entries.
    """
    if what == "in_shardings" and isinstance(given, list):
        given = tuple(given)  # a prefix of the tuple of arguments
    leaves, tree = tree_flatten(given, is_leaf=_is_none)
    leaves = [leaf if layout_behind(leaf, f"jit: {what}") else sharding_behind(leaf)
              for leaf in leaves]
    for leaf in leaves:
        _check(sharding_behind(leaf), what)
    if all(leaf is None for leaf in leaves):
        return None
    return Asked(tuple(leaves), tree)


def _check(leaf: Any, what: str) -> None:
    if not (leaf is None or isinstance(leaf, (Sharding, PartitionSpec))):
        raise LazyTypeError(lambda: (
            f"jit: {what} must be a tree of NamedShardings, other shardings, PartitionSpecs and "
            f"None, got {leaf!r} of type {type(leaf).__name__}."))
    if UNCONSTRAINED in (leaf if isinstance(leaf, PartitionSpec) else getattr(leaf, "spec", ())):
        raise LazyValueError(lambda: (
            f"jit: {what} has {leaf}: a dimension can be UNCONSTRAINED in "
            "lax.with_sharding_constraint only. None for the whole array leaves it to XLA."))


def in_shardings_of(name: str, prefix: Asked | None, call: JitCall) -> tuple[Any, ...]:
    """A sharding, a format with a layout, or None, per leaf of a call.

    Raises:
      ValueError: the call has arguments by keyword; or the tree does not fit.
    """
    if prefix is None:
        return (None,) * len(call.leaves)
    args, kwargs = call.given()
    if kwargs:
        msg = (f"jit of {name}: in_shardings are of arguments given by position, and "
               f"{', '.join(map(repr, kwargs))} was given by keyword.")
        raise ValueError(msg)
    return tuple(prefix.over(args, f"jit of {name}: in_shardings",
                             f"the tuple of the {len(args)} arguments that are not static"))


def out_shardings_of(name: str, prefix: Asked | None, out_tree: Any) -> tuple[Any, ...]:
    """A sharding, a format with a layout, or None, per leaf of the results.

    Raises:
      ValueError: the tree does not fit.
    """
    count = out_tree.num_leaves
    if prefix is None:
        return (None,) * count
    return tuple(prefix.over(out_tree, f"jit of {name}: out_shardings", "what it returns"))


def constrained(jaxpr: Jaxpr, ins: Sequence[Any], outs: Sequence[Any]) -> Jaxpr:
    """A jaxpr with constraints on its last inputs and on its results: a `jit` with shardings as
    part of another program.

    Args:
      jaxpr: the program.
      ins: a sharding or None per input; closed-over values come before these.
      outs: a sharding or None per result.
    """

    ins, outs = (list(map(sharding_behind, given)) for given in (ins, outs))

    def f(*args: Any) -> list[Any]:
        closed = len(args) - len(ins)
        args = (*args[:closed], *map(_constrain, args[closed:], ins))
        return list(map(_constrain, eval_jaxpr(jaxpr, jaxpr.consts, *args), outs))

    def make() -> Jaxpr:
        for avals, shardings, what in ((jaxpr.in_avals[len(jaxpr.invars) - len(ins):], ins, "in"),
                                       (jaxpr.out_avals, outs, "out")):
            for i, (aval, sharding) in enumerate(zip(avals, shardings, strict=True)):
                if sharding is not None:
                    check_fits(sharding, aval, f"{what}_shardings of {i}")
        return trace_to_jaxpr(f, jaxpr.in_avals, jaxpr.debug_info)

    return jaxpr.cached(("constrained", tuple(ins), tuple(outs), thread.axis_env), make)


def _constrain(value: Any, sharding: Any) -> Any:
    return value if sharding is None else sharding_constraint_p.bind(value, sharding=sharding)
