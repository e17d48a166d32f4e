"""The scalar functions of reductions, applied to arrays, in derivatives, in batches.

A reduction takes `(*operands, *initial values)`; its param `jaxpr` goes from two scalars for each
operand to one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.base.util import split_list
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir import dtypes
from mjax._engine.ir.jaxpr import Jaxpr, jaxprs_in_params
from mjax._engine.ir.types import ShapedArray, same_type_but_weak, typeof
from mjax._engine.primitives.along_axis import batched_alike
from mjax._engine.primitives.shapes import batch_size, broadcast_in_dim_p
from mjax._engine.primitives.special import (
    igamma_grad_a_p,
    igamma_p,
    igammac_p,
    random_gamma_grad_p,
    regularized_incomplete_beta_p,
)
from mjax._engine.primitives.tangents import instantiate, with_zeros
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import eval_jaxpr
from mjax._engine.tracing.symbolic import without_zeros
from mjax._engine.transforms.batching import AxisData, batch_flat, to_dim
from mjax._engine.transforms.jvp import jvp_jaxpr
from mjax._engine.transforms.linearize import linearize_flat


def elementwise(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a jaxpr of scalars for each element of arrays of one shape."""
    shape = typeof(args[0]).shape
    if not shape:
        return eval_jaxpr(jaxpr, jaxpr.consts, *args)
    outs, dims = batch_flat(lambda *rows: elementwise(jaxpr, rows), AxisData(None, shape[0]),
                            args, [0] * len(args))
    return [to_dim(o, d, 0, shape[0]) for o, d in zip(outs, dims, strict=True)]


def after_init(jaxpr: Jaxpr, inits: Sequence[Any], totals: Sequence[Any]) -> list[Any]:
    """The function of initial values and of results that were reduced without them."""
    return elementwise(jaxpr, [*filled(inits, typeof(totals[0]).shape), *totals])


def filled(inits: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Arrays of a shape that hold the initial values."""
    return [broadcast_in_dim_p.bind(i, shape=shape, broadcast_dimensions=()) for i in inits]


def define_rules(primitive: Primitive, by_arrays: Callable[..., list[Any]],
                 in_order: Callable[..., list[Any]],
                 batched_params: Callable[[Any, int], tuple[Any, int]]) -> None:
    """Gives a reduction its derivatives and its batching rule.

    Args:
      primitive: takes `(*operands, *initial values)` and its function's `jaxpr`.
      by_arrays: the same by primitives with transposes.
      in_order: the same on arrays, in XLA's order; for batched initial values.
      batched_params: from params and the batch dim of operands to params and the dim of results.
    """

    @primitive.def_jvp
    def jvp(primals: Any, tangents: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        n = len(primals) // 2
        smooth = [a.inexact for a in jaxpr.out_avals]
        xs, inits = split_list(primals, [n])
        dxs, dinits = ([instantiate(t) for t, s in zip(ts, smooth, strict=True) if s]
                       for ts in split_list(tangents, [n]))
        outs = primitive.bind(*xs, *dxs, *inits, *dinits, jaxpr=_in_pairs(jaxpr, smooth), **params)
        return outs[:n], with_zeros(smooth, outs[n:], map(typeof, outs))

    def linearize(nonzeros: Any, *primals: Any, **params: Any) -> Any:
        outs = primitive.bind(*primals, **params)
        linear = linearize_flat(lambda *args: by_arrays(*args, **params), primals, nonzeros)
        flags = linear.nonzero_outs

        def tangents_of(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
            found = eval_jaxpr(linear.jaxpr, residuals, *without_zeros(tangents))
            return with_zeros(flags, found, map(typeof, outs))

        return outs, flags, linear.jaxpr.consts, tangents_of

    primitive.def_linearize(linearize)

    @primitive.def_batch
    def batch(args: Any, dims: Any, **params: Any) -> Any:
        n = len(args) // 2
        if any(d is not None for d in dims[n:]):
            axis = AxisData(None, batch_size(args, dims))
            return batch_flat(lambda *elements: in_order(*elements, **params), axis, args, dims)
        xs, dim = batched_alike(args[:n], dims[:n])
        params, out_dim = batched_params(params, dim)
        return primitive.bind(*xs, *args[n:], **params), [out_dim] * n


def _in_pairs(jaxpr: Jaxpr, smooth: Sequence[bool]) -> Jaxpr:
    """The function of scalars and of the tangents of those that have one."""

    def make() -> Jaxpr:
        n = len(smooth)
        both, _ = jvp_jaxpr(jaxpr, [*smooth, *smooth], smooth)
        # From (a, b, tangents of a, of b) to (a, tangents of a, b, tangents of b).
        a, b, da, db = split_list(both.invars, [n, n, sum(smooth)])
        return both.replace(invars=[*a, *da, *b, *db])

    return jaxpr.cached(("in pairs", thread.settings), make)


def combined_operands(name: str, avals: Sequence[ShapedArray], jaxpr: Jaxpr) -> list[ShapedArray]:
    """The operands among `(*operands, *initial values)`; checks that they fit the jaxpr."""
    xs, inits = split_list(avals, [len(avals) // 2])
    shape = xs[0].shape
    if any(x.shape != shape for x in xs):
        msg = (f"{name} requires operands of one shape, got "
               f"{', '.join(str(x.shape) for x in xs)}.")
        raise TypeError(msg)
    for x, init in zip(xs, inits, strict=True):
        if init.shape or init.dtype != x.dtype:
            msg = (f"{name}: an initial value must be a scalar of its operand's dtype, got {init} "
                   f"for an operand of type {x}.")
            raise TypeError(msg)
    scalars = [ShapedArray((), x.dtype) for x in xs]
    if not all(map(same_type_but_weak, jaxpr.in_avals, scalars * 2)) or not all(
            map(same_type_but_weak, jaxpr.out_avals, scalars)):
        msg = (f"{name}: its jaxpr must go from two scalars for each operand to one, here from "
               f"{', '.join(map(str, scalars * 2))} to {', '.join(map(str, scalars))}.")
        raise TypeError(msg)
    return xs


def is_plain(jaxpr: Jaxpr) -> bool:
    """Whether a jaxpr consists of operations on scalars that are not lowered as loops."""

    def scan() -> bool:
        for eqn in jaxpr.eqns:
            if eqn.primitive is jit_p:
                if not is_plain(eqn.params["jaxpr"]):
                    return False
            elif eqn.primitive in _LOOPS or any(jaxprs_in_params(eqn.params)) or any(
                    v.aval.shape or dtypes.is_extended(v.aval.dtype)
                    for v in (*eqn.invars, *eqn.outvars)):
                return False
        return True

    return bool(jaxpr.cached("is_plain", scan))


#: Primitives whose lowerings are loops.
_LOOPS = frozenset([igamma_p, igammac_p, igamma_grad_a_p, random_gamma_grad_p,
                    regularized_incomplete_beta_p])
