"""The derivative of a `custom_vjp` function, of which only the transpose is known: `custom_lin`.

It stands in linear programs. Its operands are residuals, then those tangents that are not
zero; `bwd(residuals, cotangents)` gives the cotangents. It can be transposed, and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.control.custom.custom_batching import BatchedInfo, batched_backward
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.tracing.variance import not_summed
from mjax._engine.transforms.batching import AxisData, batched_type

custom_lin_p = Primitive("custom_lin", multiple_results=True, types_cacheable=False,
                         own_varying=True)


class Backward:
    """The backward pass of one application.

    Args:
      rule: the rules of the function.
      names_in_scope: the axes that they may refer to.
      f: from residuals and cotangents to the operands' cotangents, the last ones if there are less;
        may be `Zero`s.
    """

    __slots__ = ("f", "names_in_scope", "rule")

    def __init__(self, rule: Any, names_in_scope: Sequence[Any], f: Callable[..., list[Any]]):
        self.rule, self.names_in_scope, self.f = rule, names_in_scope, f


def refuse_forward_mode(custom: Any) -> NoReturn:
    """Raises the error for a derivative that is only known backwards."""
    source = applied_at(thread.source or current_traceback())
    raise LazyTypeError(lambda: (
        "forward-mode differentiation (jvp, jacfwd, linearize) reached the "
        f"{custom.describe()}, whose rule says how to pull cotangents back and not how to push "
        "tangents forward. Use reverse mode (grad, vjp, jacrev; jacrev(jacrev(f)) for a hessian), "
        f"or define the derivative with mjax.custom_jvp, from which both modes follow.\n{source}"))


@custom_lin_p.def_impl
def _impl(*args: Any, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.rule.custom)


@custom_lin_p.def_abstract_eval
def _type(*avals: Any, out_avals: tuple[Any, ...], **params: Any) -> list[Any]:
    return list(out_avals)


@custom_lin_p.def_lowering
def _lowering(ctx: Any, *operands: Any, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.rule.custom)


@custom_lin_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.rule.custom)


@custom_lin_p.def_transpose
def _transpose(cts: Any, *args: Any, num_res: int, bwd: Any, in_zeros: tuple[bool, ...],
               **params: Any) -> list[Any]:
    found = bwd.f(args[:num_res], cts)
    # The leading operands stand for what is closed over.
    skip = len(in_zeros) - len(found)
    given = [(i, ct) for i, (ct, zero) in enumerate(
        zip([None] * skip + found, in_zeros, strict=True)) if not zero]
    for (i, ct), operand in zip(given, args[num_res:], strict=True):
        refuse_unsummed(bwd.rule, i - skip, ct, operand)
    return [None] * num_res + [ct for _, ct in given]


def refuse_unsummed(rule: Any, i: int, ct: Any, operand: Any) -> None:
    """Refuses a cotangent that varies along more mesh axes than its operand does.

    Args:
      rule: the rules of the function.
      i: which of the function's operands it is.
      ct: what the backward pass gave.
      operand: the `UndefinedPrimal`.

    Raises:
      ValueError: it does; names the rule, its output, and the remedy.
    """
    if ct is None or type(ct) is Zero:
        return
    actual, expected = typeof(ct), operand.aval.to_tangent()
    if not actual.varying <= expected.varying:
        raise LazyValueError(lambda: (
            f"{rule.output(i)} is of type {actual}, and the argument of type {expected}."
            f"{not_summed(actual, expected)}"))


@custom_lin_p.def_axis_batch
def _batch(axis: AxisData, args: Any, dims: Any, *, num_res: int, bwd: Backward, out_avals: Any,
           in_zeros: tuple[bool, ...], **params: Any) -> Any:
    batched = any(d is not None for d in dims)
    given = iter(zip(args[num_res:], dims[num_res:], strict=True))
    operands = [(None, None) if zero else next(given) for zero in in_zeros]
    info = BatchedInfo(axis, None, dims[:num_res],
                       [None if x is None else typeof(x) for x, _ in operands],
                       [d for _, d in operands], batched)
    dim = 0 if batched else None
    names = tuple(n for n in bwd.names_in_scope if n != axis.name)
    outs = custom_lin_p.bind(
        *args, num_res=num_res, in_zeros=in_zeros, **params,
        bwd=Backward(bwd.rule, names, functools.partial(batched_backward, bwd.f, info)),
        out_avals=tuple([batched_type(a, dim, axis.size) for a in out_avals]))
    return outs, [dim] * len(outs)


@custom_lin_p.def_pretty
def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "bwd": params["bwd"].rule.custom.bwd}

__all__ = ["Backward", "custom_lin_p", "refuse_forward_mode", "refuse_unsummed"]
