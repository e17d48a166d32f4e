"""The primitives of operations that are objects (`VJPHiPrimitive`), and their rules.

`call_hi_primitive` applies an operation, its param `_prim`. Each rule makes trees of operands, asks
the operation's method, and takes the results apart. `call_hi_primitive_linearized` is the
derivative of one that has `vjp_fwd`: it occurs in linear programs, and asks `vjp_bwd` when these
are transposed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyNoForwardModeError, LazyTypeError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import keeps_equation
from mjax._engine.ir.pytree import broadcast_prefix_to, tree_flatten
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import same_array_type, typeof
from mjax._engine.primitives.tangents import add_tangents, instantiate, with_zeros
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero, without_zeros
from mjax._engine.tracing.user_types import on_objects
from mjax._engine.transforms.batching import AxisData, batch_flat, element_type
from mjax._engine.transforms.jvp import jvp_flat

call_hi_primitive_p = EnginePrimitive(
    "call_hi_primitive", params={"_prim": Any}, multiple_results=True, types_cacheable=False)
linearized_p = EnginePrimitive(
    "call_hi_primitive_linearized", params={
        "_prim": Any, "residuals_tree": Any, "nz_in_flat": tuple[bool, ...]},
    multiple_results=True, types_cacheable=False)
call_hi_primitive_p.on_objects = True


# ---- methods that may be left out ------------------------------------------------------


def unwritten(needed: str) -> Callable[[Any], Any]:
    """Decorator of methods that subclasses may define.

    Args:
      needed: what the method is needed for.
    """
    def refusing(method: Any) -> Any:
        @functools.wraps(method)
        def refuse(self: Any, *args: Any) -> NoReturn:
            raise NotImplementedError(
                f"{type(self).__name__} does not define {method.__name__}, which is needed "
                f"{needed}.")

        refuse.unwritten = True  # type: ignore[attr-defined]
        return refuse

    return refusing


def has(operation: Any, method: str) -> bool:
    """Whether the class of an operation defines a method; of a vectorized one, that of its own."""
    operation = operation.vectorizes or operation
    return not getattr(getattr(type(operation), method), "unwritten", False)


def leaves_of(operation: Any, tree: Any, values: Any, what: str) -> list[Any]:
    """The leaves of a tree that an operation's user or rule gave.

    Raises:
      TypeError: it has another structure.
    """
    leaves, given = tree_flatten(values)
    if given != tree:
        raise LazyTypeError(lambda: (
            f"{type(operation).__name__}: the {what} have the structure {given}, but its types "
            f"have {tree}."))
    return leaves


def results_of(operation: Any, values: Any, method: str) -> list[Any]:
    """The leaves of the results that a method of an operation gave.

    Raises:
      TypeError: they have another structure, or other types, than the operation says.
    """
    leaves = leaves_of(operation, operation.out_tree, values, f"results of {method}")
    check_types(operation, [*map(typeof, leaves)], method)
    return leaves


def check_types(operation: Any, avals: Sequence[Any], method: str) -> None:
    """Refuses results of other types than an operation says.

    Raises:
      TypeError: some are.
    """
    if not all(map(same_array_type, avals, operation.out_avals_flat)):
        raise LazyTypeError(lambda: (
            f"{type(operation).__name__}.{method} gave results of types "
            f"{', '.join(map(str, avals))}, but out_aval says "
            f"{', '.join(map(str, operation.out_avals_flat))}."))


def prefix_leaves(operation: Any, tree: Any, values: Any, what: str) -> list[Any]:
    """The same for values that may be None, may be zero, or may stand for whole subtrees."""
    try:
        return broadcast_prefix_to(values, tree, is_leaf=lambda x: x is None)
    except ValueError as error:
        text = str(error)
        raise LazyValueError(lambda: (
            f"{type(operation).__name__}: the {what} are not a tree prefix of its types: {text}"
        )) from None


class Accumulator:
    """Where a rule for reverse mode puts the cotangents of an operand.

    Args:
      aval: their type.
      wanted: whether they are needed.

    Attributes:
      total: their sum; a `Zero` before the first one.
    """

    __slots__ = ("aval", "total", "wanted")

    def __init__(self, aval: Any, wanted: bool = True):
        self.aval, self.wanted = aval, wanted
        self.total: Any = Zero(aval)

    def accum(self, ct: Any) -> None:
        """Adds a cotangent; None and zeros add nothing.

        Raises:
          TypeError: it is of another type.
        """
        if ct is None or type(ct) is Zero or not self.wanted:
            return
        if not same_array_type(typeof(ct), self.aval):
            raise LazyTypeError(lambda: (
                f"a cotangent of type {typeof(ct)} was given for an operand whose cotangents are "
                f"of type {self.aval}."))
        self.total = add_tangents(self.total, ct)


# ---- call_hi_primitive -----------------------------------------------------------------


def computed(operation: Any, *values: Any) -> list[Any]:
    """The leaves of an operation's results, by `expand`."""
    check_operands(operation, [*map(typeof, values)])
    return results_of(operation, operation.expand(*operation.in_tree.unflatten(values)), "expand")


call_hi_primitive_p.def_impl(lambda *args, _prim: computed(_prim, *args))
call_hi_primitive_p.def_lowering(traced(
    lambda *args, _prim: on_objects(lambda *values: computed(_prim, *values), *args),
    multiple_results=True))


def check_operands(operation: Any, avals: Sequence[Any]) -> None:
    """Refuses operands of other types than an operation is for.

    Raises:
      TypeError: some are.
    """
    if len(avals) != len(operation.in_avals_flat) or not all(
            map(same_array_type, avals, operation.in_avals_flat)):
        raise LazyTypeError(lambda: (
            f"{operation!r} is for operands of types {', '.join(map(str, operation.in_avals_flat))}"
            f", but was applied to {', '.join(map(str, avals))}."))


@call_hi_primitive_p.def_effectful_abstract_eval
def _types(*avals: Any, _prim: Any) -> Any:
    check_operands(_prim, avals)
    return _prim.out_avals_flat, frozenset(_prim.effects)


@call_hi_primitive_p.def_typecheck
def _typecheck(*avals: Any, _prim: Any) -> None:
    _prim.check(*_prim.in_avals)


@call_hi_primitive_p.def_staging
def _staging(trace: Any, source_info: Any, *tracers: Any, _prim: Any) -> list[Any]:
    outs = _prim.staging(trace, source_info, *_prim.in_tree.unflatten(tracers))
    return results_of(_prim, outs, "staging")


@call_hi_primitive_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, _prim: Any) -> Any:
    outs, dots = _prim.jvp(_prim.in_tree.unflatten(primals), _prim.in_tree.unflatten(tangents))
    return (results_of(_prim, outs, "jvp"),
            leaves_of(_prim, _prim.out_tree, dots, "tangents of jvp"))


@call_hi_primitive_p.def_linearize
def _linearize(nonzeros: Sequence[bool], *primals: Any, _prim: Any) -> Any:
    args, nzs_in = _prim.in_tree.unflatten(primals), _prim.in_tree.unflatten(nonzeros)
    if has(_prim, "vjp_fwd") or not (has(_prim, "lin") or has(_prim, "jvp")):
        outs, kept, *more = _prim.vjp_fwd(nzs_in, *args)
        # For linearize and jacfwd; programs that do not use them drop them.
        pushed = (_prim.lin(nzs_in, *args)[1] if has(_prim, "lin") else
                  args if has(_prim, "jvp") else None)
        residuals, tree = tree_flatten((kept, pushed))

        def linear(residuals: Any, *tangents: Any) -> Any:
            return linearized_p.bind(
                *residuals, *without_zeros(tangents), _prim=_prim, residuals_tree=tree,
                nz_in_flat=tuple(nonzeros))
    elif has(_prim, "lin"):
        outs, kept, *more = _prim.lin(nzs_in, *args)
        residuals, tree = tree_flatten(kept)

        def linear(residuals: Any, *tangents: Any) -> Any:
            return pushed_forward(_prim, tree.unflatten(residuals), tangents)
    else:
        outs, residuals, more = _prim(*args), list(primals), []

        def linear(residuals: Any, *tangents: Any) -> Any:
            return _jvp(residuals, tangents, _prim=_prim)[1]

    flat = results_of(_prim, outs, "vjp_fwd" if has(_prim, "vjp_fwd") else "lin")
    nonzero_outs = prefix_leaves(_prim, _prim.out_tree, more[0] if more else True,
                                 "flags of nonzero results")
    return flat, nonzero_outs, residuals, linear


def pushed_forward(operation: Any, residuals: Any, tangents: Sequence[Any]) -> list[Any]:
    """The tangents of results, by `linearized`."""
    dots = operation.linearized(residuals, *operation.in_tree.unflatten(tangents))
    return leaves_of(operation, operation.out_tree, dots, "results of linearized")


@call_hi_primitive_p.def_transpose
def _transpose(cts: Any, *args: Any, _prim: Any) -> list[Any]:
    given = [Accumulator(a.aval.to_cotangent()) if type(a) is UndefinedPrimal else a for a in args]
    _prim.transpose(_prim.out_tree.unflatten(cts), *_prim.in_tree.unflatten(given))
    return [g.total if type(a) is UndefinedPrimal else None
            for a, g in zip(args, given, strict=True)]


@call_hi_primitive_p.def_axis_batch
def _batch(axis: AxisData, args: Any, dims: Any, *, _prim: Any) -> Any:
    # The engine calls the axis of loops 0; authors have objects for it.
    dims = [a.leading_axis_spec() if a.is_high and type(d) is int else d
            for a, d in zip(_prim.in_avals_flat, dims, strict=True)]
    outs, out_dims = _prim.batch(
        axis, _prim.in_tree.unflatten(args), _prim.in_tree.unflatten(dims))
    leaves = leaves_of(_prim, _prim.out_tree, outs, "results of batch")
    flat_dims = prefix_leaves(_prim, _prim.out_tree, out_dims, "dims of batch")
    check_types(_prim, [typeof(x) if d is None else element_type(typeof(x), d, axis.size)
                        for x, d in zip(leaves, flat_dims, strict=True)], "batch")
    return leaves, flat_dims


@call_hi_primitive_p.def_dce
def _dce(used_outputs: Sequence[bool], eqn: Any) -> Any:
    if keeps_equation(eqn.effects):
        return [True] * len(eqn.invars), eqn
    operation = eqn.params["_prim"]
    used_ins, given, smaller = operation.dce(operation.out_tree.unflatten(used_outputs))
    if smaller is None:
        return [False] * len(eqn.invars), None
    ins = prefix_leaves(operation, operation.in_tree, used_ins, "used operands of dce")
    outs = prefix_leaves(operation, operation.out_tree, given, "given results of dce")
    return ins, eqn.replace(
        invars=[v for v, u in zip(eqn.invars, ins, strict=True) if u],
        outvars=[v for v, g in zip(eqn.outvars, outs, strict=True) if g],
        params={"_prim": smaller})


# ---- call_hi_primitive_linearized ------------------------------------------------------


@linearized_p.def_abstract_eval
def _linearized_types(*avals: Any, _prim: Any, **params: Any) -> list[Any]:
    return [aval.to_tangent() for aval in _prim.out_avals_flat]


def _linearized(*args: Any, _prim: Any, residuals_tree: Any, nz_in_flat: Sequence[bool]
                ) -> list[Any]:
    """The tangents of results, where `linearized` or `jvp` says them."""
    n = residuals_tree.num_leaves
    given = with_zeros(nz_in_flat, args[n:], _prim.in_avals_flat)
    _, pushed = residuals_tree.unflatten(args[:n])
    if has(_prim, "linearized"):
        return [*map(instantiate, pushed_forward(_prim, pushed, given))]
    if has(_prim, "jvp"):
        primals = leaves_of(_prim, _prim.in_tree, pushed, "operands")
        return [*map(instantiate, _jvp(primals, given, _prim=_prim)[1])]
    source = applied_at(thread.source or current_traceback())
    raise LazyNoForwardModeError(lambda: (
        f"forward-mode differentiation reached {_prim!r} through its rule for reverse mode, which "
        "says how to pull cotangents back and not how to push tangents forward. Use reverse mode, "
        f"or define jvp.\n{source}"))


linearized_p.def_lowering(traced(_linearized, multiple_results=True))
linearized_p.def_impl(_linearized)


@linearized_p.def_transpose
def _linearized_transpose(cts: Any, *args: Any, _prim: Any, residuals_tree: Any,
                          nz_in_flat: Sequence[bool]) -> list[Any]:
    n = residuals_tree.num_leaves
    residuals, _ = residuals_tree.unflatten(args[:n])
    accums = [Accumulator(aval.to_ct_aval(), nz)
              for aval, nz in zip(_prim.in_avals_flat, nz_in_flat, strict=True)]
    _prim.vjp_bwd(residuals, _prim.out_tree.unflatten(cts), *_prim.in_tree.unflatten(accums))
    return [None] * n + [a.total for a in accums if a.wanted]


@linearized_p.def_jvp
def _linearized_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return jvp_flat(lambda *args: _linearized(*args, **params), primals, tangents)


@linearized_p.def_axis_batch
def _linearized_batch(axis: AxisData, args: Any, dims: Any, **params: Any) -> Any:
    return batch_flat(lambda *args: _linearized(*args, **params), axis, args, dims)


@linearized_p.def_pretty
def _linearized_pretty(params: dict[str, Any]) -> dict[str, Any]:
    return {"_prim": type(params["_prim"]).__name__}


__all__ = ["Accumulator", "call_hi_primitive_p", "computed", "has", "leaves_of", "linearized_p",
           "prefix_leaves", "results_of", "unwritten"]
