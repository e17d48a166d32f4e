"""Public functions for forward-mode derivatives: `jvp`, `linearize`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.folding import boundary
from mjax._engine.base.signatures import A, R
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr
from mjax._engine.ir.pytree import (
    Partial,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    treedef_tuple,
)
from mjax._engine.ir.types import ShapedArray, typeof
from mjax._engine.primitives.shapes import held
from mjax._engine.primitives.tangents import instantiate
from mjax._engine.tracing.flat import FlatFunction, check_arguments, check_callable, function_name
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.tracing.variance import fitted
from mjax._engine.transforms.dce import dce_jaxpr
from mjax._engine.transforms.jvp import jvp_flat
from mjax._engine.transforms.linearize import linearize_flat


def check_tangents(who: str, primals: Any, tangents: Any, what: str = "tangent") -> list[Any]:
    """The leaves of tangents, which have the types of their primals or are cast to them.

    Raises:
      ValueError: a shape differs; names the leaf, its type and the expected one.
      TypeError: a dtype does, likewise.
    """
    pairs = tree_flatten_with_path(primals)[0]
    leaves = []
    for (path, primal), tangent in zip(pairs, tree_flatten(tangents)[0], strict=True):
        expected = typeof(primal).to_tangent()
        leaves.append(fitted(tangent, expected))
        if leaves[-1] is None:
            name = keystr(path)
            msg = (f"{who}: {what}{name} has type {typeof(tangent)}, but its primal has type "
                   f"{typeof(primal)}, whose {what}s have type {expected}.")
            arrays = isinstance(expected, ShapedArray) and isinstance(typeof(tangent), ShapedArray)
            if arrays and expected.dtype == dtypes.float0:
                msg += " (float0: numpy.zeros(shape, mjax.dtypes.float0).)"
            same = not arrays or typeof(tangent).shape == expected.shape
            raise (TypeError if same else ValueError)(msg)
    return leaves


def same_structure(who: str, first: Any, second: Any, names: tuple[str, str],
                   error: type[Exception] = TypeError) -> None:
    """Refuses trees whose structures differ."""
    if first != second:
        msg = (f"{who}: {names[0]} and {names[1]} must have the same structure; got {first} and "
               f"{second}.")
        raise error(msg)


@overload
def jvp(fun: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: Literal[False] = False) -> tuple[R, R]: ...
@overload
def jvp(fun: Callable[..., tuple[R, A]], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: Literal[True]) -> tuple[R, R, A]: ...
@overload
def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool
        ) -> tuple[Any, ...]: ...
@boundary
def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any],
        has_aux: bool = False) -> Any:
    """Evaluates a function and its directional derivative.

    Args:
      fun: a function of pytrees of arrays.
      primals: tuple of its arguments.
      tangents: tuple of the directions: trees of the same structure, shapes and dtypes
        (float0 for integers and booleans).
      has_aux: whether `fun` returns a pair whose second part is not differentiated.

    Returns:
      `(outputs, output tangents)`, or with `has_aux` `(outputs, output tangents, aux)`.

    Raises:
      TypeError: primals and tangents differ in structure or dtype.
      ValueError: they differ in shape.

    Example:
      >>> y, dy = mjax.jvp(lax.sin, (0.0,), (1.0,))
      >>> float(dy)
      1.0
    """
    check_callable("jvp", fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        msg = (f"jvp: primals and tangents must be tuples, one entry per argument of "
               f"{function_name(fun)}; got {type(primals).__name__} and "
               f"{type(tangents).__name__}.")
        raise TypeError(msg)
    leaves, tree = tree_flatten(tuple(primals))
    if type(primals) is not type(tangents):
        same_structure("jvp", tree_flatten(primals)[1], tree_flatten(tangents)[1],
                       ("primals", "tangents"))
    same_structure("jvp", tree, tree_flatten(tuple(tangents))[1], ("primals", "tangents"))
    check_arguments("jvp", primals, "primals")
    check_arguments("jvp", tangents, "tangents")
    tangent_leaves = check_tangents("jvp", tuple(primals), tuple(tangents))
    flat = FlatFunction(fun, treedef_tuple((tree, tree_flatten({})[1])), has_aux)
    given = [t if typeof(t).inexact else Zero(typeof(t)) for t in tangent_leaves]
    which = [type(t) is not Zero for t in given]
    outs, out_tangents = jvp_flat(flat, held(leaves, which), held(given, which))
    results = (flat.out_tree.unflatten(outs),
               flat.out_tree.unflatten(map(instantiate, out_tangents)))
    return (*results, flat.aux) if has_aux else results


def apply_linear(jaxpr: Jaxpr, types: Any, consts: Sequence[Any], *tangents: Any) -> Any:
    """Evaluates a linear program on trees of tangents; `linearize` returns it as a `Partial`.

    Raises:
      TypeError: the tangents do not have the structure of the primals.
      ValueError: they have other types.
    """
    in_tree, out_tree, in_avals, used, out_zeros = types
    leaves, tree = tree_flatten(tangents)
    same_structure("linearized function", in_tree, tree, ("its arguments", "the tangents given"))
    for i, expected in enumerate(in_avals):
        leaf, leaves[i] = leaves[i], fitted(leaves[i], expected)
        if leaves[i] is None:
            raise LazyValueError(
                lambda leaf=leaf, expected=expected:  # type: ignore[misc]
                f"linearized function: a tangent has type {typeof(leaf)}, expected {expected}.")
    outs = iter(eval_jaxpr(jaxpr, consts, *[t for t, u in zip(leaves, used, strict=True) if u]))
    return out_tree.unflatten([next(outs) if zero is None else instantiate(zero)
                               for zero in out_zeros])


class LinearProgram:
    """A linear jaxpr with the trees of its arguments and results; structure of a `Partial`."""

    __slots__ = ("jaxpr", "types")

    def __init__(self, jaxpr: Jaxpr, types: Any):
        self.jaxpr = jaxpr
        self.types = types

    @boundary
    def __call__(self, consts: Sequence[Any], *tangents: Any) -> Any:
        return apply_linear(self.jaxpr, self.types, consts, *tangents)

    def __repr__(self) -> str:
        found = iter(self.jaxpr.out_avals)
        results = [next(found) if zero is None else zero.aval for zero in self.types[4]]
        ins, outs = (", ".join(map(str, avals)) for avals in (self.types[2], results))
        return f"<derivative of {self.jaxpr.debug_info.func_name}: ({ins}) -> ({outs})>"


@overload
def linearize(fun: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
              ) -> tuple[R, Callable[..., R]]: ...
@overload
def linearize(fun: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
              ) -> tuple[R, Callable[..., R], A]: ...
@overload
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool) -> tuple[Any, ...]: ...
@boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Evaluates a function at a point and gives its derivative there as a linear function.

    Args:
      fun: a function of pytrees of arrays.
      primals: the point.
      has_aux: whether `fun` returns a pair whose second part is not differentiated.

    Returns:
      `(outputs, f_jvp)`, or with `has_aux` `(outputs, f_jvp, aux)`. `f_jvp` maps tangents of
      the arguments to those of the outputs, without evaluating `fun` again; it is a pytree
      whose leaves are the values it keeps.

    Raises:
      TypeError: `fun` is not a function, an argument or result is not an array, or the result is
        not a pair with `has_aux`; at calls of `f_jvp`: the tangents have another structure.
      ValueError: at calls of `f_jvp`: a tangent has another type.
      OverflowError: a Python int that the default integer dtype cannot hold.

    Example:
      >>> y, tangent_of = mjax.linearize(lambda x: x ** 2, 3.0)
      >>> y, tangent_of(1.0)
      (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))

    Source: Radul et al. 2022, arXiv:2204.10923.
    """
    check_callable("linearize", fun)
    check_arguments("linearize", primals)
    leaves, tree = tree_flatten(primals)
    flat = FlatFunction(fun, treedef_tuple((tree, tree_flatten({})[1])), has_aux)
    avals = [typeof(leaf).to_tangent() for leaf in leaves]
    nonzeros = [a.inexact for a in avals]
    outs, jaxpr, nonzero_outs = linearize_flat(
        flat, held(leaves, nonzeros), nonzeros,
        debug_info=DebugInfo("linearize", function_name(fun)))
    jaxpr, _ = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), True)
    consts = jaxpr.consts
    zeros = [None if nz else Zero(typeof(o).to_tangent())
             for o, nz in zip(outs, nonzero_outs, strict=True)]
    types = (tree, flat.out_tree, avals, nonzeros, zeros)
    results = (flat.out_tree.unflatten(outs),
               Partial(LinearProgram(jaxpr.replace(consts=[None] * len(consts)), types), consts))
    return (*results, flat.aux) if has_aux else results
