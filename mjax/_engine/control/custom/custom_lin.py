"""The derivative of a `custom_vjp` function, which only has a transpose: `custom_lin`.

It occurs in linear programs. Its operands are residuals, then nonzero tangents;
`bwd(residuals, cotangents)` returns the cotangents. It can only be transposed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyNoForwardModeError, LazyNotImplementedError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.control.custom.custom_batching import DerivedRule, batched_pullback
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import AbstractValue, typeof
from mjax._engine.tracing.primitive import EnginePrimitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import not_summed
from mjax._engine.transforms.batching import AxisData, batched_type

custom_lin_p: EnginePrimitive = EnginePrimitive("custom_lin", params={
    "bwd": Any, "in_zeros": tuple[bool, ...], "num_res": int,
    "out_avals": tuple[AbstractValue, ...], "symbolic_zeros": bool},
    multiple_results=True, types_cacheable=False, own_varying=True)
custom_lin_p.takes_references = True  # among the residuals


class Backward(DerivedRule):
    """The backward pass of one application.

    Args:
      rule: the rules of the function.
      pull: from residuals and cotangents to the cotangents of the operands that are
        differentiated; may be `Zero`s.
      axis: see `DerivedRule`.
    """

    def __init__(self, rule: Any, pull: Callable[..., list[Any]], axis: Any = None):
        super().__init__(rule, axis)
        self.pull = pull


def refuse_forward_mode(*args: Any, bwd: Any, **params: Any) -> NoReturn:
    """The impl, lowering and jvp of a derivative that only has a backward pass: an error."""
    source = applied_at(thread.source or current_traceback())
    raise LazyNoForwardModeError(lambda: (
        "forward-mode differentiation (jvp, jacfwd, linearize) reached the "
        f"{bwd.custom.describe()}, whose rule says how to pull cotangents back and not how to push "
        "tangents forward. Use reverse mode (grad, vjp, jacrev; jacrev(jacrev(f)) for a hessian), "
        f"or define the derivative with mjax.custom_jvp, from which both modes follow.\n{source}"))


custom_lin_p.def_impl(refuse_forward_mode)
custom_lin_p.def_lowering(refuse_forward_mode)
custom_lin_p.def_jvp(refuse_forward_mode)
for _rule in "impl", "lowering", "jvp":
    custom_lin_p.deviates(_rule, "It is a backward pass, which is only transposed.")


@custom_lin_p.def_abstract_eval
def _type(*avals: Any, out_avals: tuple[Any, ...], **params: Any) -> list[Any]:
    return list(out_avals)


@custom_lin_p.def_transpose
def _transpose(cts: Any, *args: Any, num_res: int, bwd: Any, in_zeros: tuple[bool, ...],
               **params: Any) -> list[Any]:
    if any(type(a) is UndefinedPrimal for a in args[:num_res]):
        source = applied_at(thread.source or current_traceback())
        raise LazyNotImplementedError(lambda: (
            f"the {bwd.custom.describe()} cannot be transposed as a linear function: its fwd "
            "rule gives residuals that depend on the arguments in which it is linear, and "
            f"these have no values here.\n{source}"))
    found = bwd.pull(args[:num_res], cts)
    places = [i for i, zero in enumerate(in_zeros) if not zero]
    for i, ct, operand in zip(places, found, args[num_res:], strict=True):
        _refuse_unsummed(bwd, i, ct, operand)
    return [None] * num_res + found


def _refuse_unsummed(rule: Any, i: int, ct: Any, operand: Any) -> None:
    """Refuses a cotangent that varies along more mesh axes than its operand does.

    Args:
      rule: the rules of the function.
      i: which of the function's operands it is.
      ct: the result of the backward pass.
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
           **params: Any) -> Any:
    batched = any(d is not None for d in dims)
    pull = batched_pullback(bwd.pull, axis, dims[:num_res], list(map(typeof, args[num_res:])),
                            dims[num_res:], batched)
    dim = 0 if batched else None
    outs = custom_lin_p.bind(
        *args, num_res=num_res, **params, bwd=Backward(bwd, pull, axis.name),
        out_avals=tuple([batched_type(a, dim, axis.size) for a in out_avals]))
    return outs, [dim] * len(outs)


@custom_lin_p.def_pretty
def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "bwd": params["bwd"].custom.bwd}

__all__ = ["Backward", "custom_lin_p", "refuse_forward_mode"]
