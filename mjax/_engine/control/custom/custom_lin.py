"""The derivative of a `custom_vjp` function, of which only the transpose is known: `custom_lin`.

It stands in linear programs. Its operands are residuals, then those tangents that are not
zero; `bwd(residuals, cotangents)` gives the cotangents. It can be transposed, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir import dtypes
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import reduce_sum
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import applied_at
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.tracing.variance import not_summed
from mjax._engine.transforms.batching import (
    AxisData,
    batch_flat,
    batched_type,
    element_type,
    to_dim,
)

custom_lin_p = Primitive("custom_lin", multiple_results=True, types_cacheable=False,
                         own_varying=True)


class Backward:
    """The backward pass of one application.

    Args:
      rule: the rules of the function, with a method `backward`.
      info: what that has to know beside residuals and cotangents.
      tangents: types of the results' tangents; those of dtype float0 are not results here.
    """

    __slots__ = ("info", "names_in_scope", "rule", "tangents")

    def __init__(self, rule: Any, info: Any, tangents: Sequence[Any]):
        self.rule, self.info, self.tangents = rule, info, tangents
        self.names_in_scope = rule.names_in_scope

    def describe(self) -> str:
        """The function."""
        return self.rule.custom.describe()

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the operands, the last ones if there are less; may be `Zero`s."""
        given = iter(cts)
        return self.rule.backward(self.info, residuals, [
            Zero(a) if a.dtype == dtypes.float0 else next(given) for a in self.tangents])


def refuse_forward_mode(who: str) -> NoReturn:
    """Raises the error for a derivative that is only known backwards."""
    source = applied_at(thread.source or current_traceback())
    raise LazyTypeError(lambda: (
        f"forward-mode differentiation (jvp, jacfwd, linearize) reached the {who}, whose rule "
        "says how to pull cotangents back and not how to push tangents forward. Use reverse mode "
        "(grad, vjp, jacrev; jacrev(jacrev(f)) for a hessian), or define the derivative with "
        f"mjax.custom_jvp, from which both modes follow.\n{source}"))


@custom_lin_p.def_impl
def _impl(*args: Any, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.describe())


@custom_lin_p.def_abstract_eval
def _type(*avals: Any, out_avals: tuple[Any, ...], **params: Any) -> list[Any]:
    return list(out_avals)


@custom_lin_p.def_lowering
def _lowering(ctx: Any, *operands: Any, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.describe())


@custom_lin_p.def_jvp
def _jvp(primals: Any, tangents: Any, *, bwd: Any, **params: Any) -> NoReturn:
    refuse_forward_mode(bwd.describe())


@custom_lin_p.def_transpose
def _transpose(cts: Any, *args: Any, num_res: int, bwd: Any, in_zeros: tuple[bool, ...],
               **params: Any) -> list[Any]:
    found = bwd(args[:num_res], cts)
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


class BatchedInfo(Record):
    """What the backward pass of a batch has to know.

    Attributes:
      axis: the axis.
      inner: what that of one element has to know.
      residuals: batch dims of the residuals.
      avals: types of the operands' cotangents, batched; None where nobody asks for one.
      dims: their batch dims.
      batched: whether the results are a batch, along axis 0.
    """

    axis: AxisData
    inner: Any
    residuals: Sequence[int | None]
    avals: Sequence[Any]
    dims: Sequence[int | None]
    batched: bool


def batched_backward(backward: Any, info: BatchedInfo, residuals: Sequence[Any],
                     cts: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands of a batch.

    That of an operand which all elements share is the sum over the batch.

    Args:
      backward: the pass of one element, from `info.inner`, residuals and cotangents.
      info: how things are batched.
      residuals: those of the batch.
      cts: cotangents of the batch's results.
    """
    axis, n = info.axis, len(residuals)
    dim = 0 if info.batched else None
    zeros = [Zero(element_type(ct.aval, 0) if info.batched else ct.aval)
             if type(ct) is Zero else None for ct in cts]
    known: list[bool] = []

    def f(*args: Any) -> list[Any]:
        given = iter(args[n:])
        found = backward(info.inner, args[:n], [next(given) if z is None else z for z in zeros])
        known.extend(type(ct) is not Zero for ct in found)
        return [ct for ct in found if type(ct) is not Zero]

    given = [ct for ct in cts if type(ct) is not Zero]
    values, dims = batch_flat(f, axis, [*residuals, *given], [*info.residuals, *[dim] * len(given)])
    found = iter(zip(values, dims, strict=True))
    skip = len(info.avals) - len(known)
    return [_match(*next(found), d, info) if nz else Zero(a)
            for nz, a, d in zip(known, info.avals[skip:], info.dims[skip:], strict=True)]


def _match(ct: Any, dim: int | None, wanted: int | None, info: BatchedInfo) -> Any:
    size = info.axis.size
    if wanted is not None:
        return to_dim(ct, dim, wanted, size)
    if not info.batched and dim is None:
        return ct  # applied once, not once per element
    return reduce_sum(to_dim(ct, dim, 0, size), (0,))


class BatchedBackward(Backward):
    """The backward pass of one application, for a batch of it."""

    __slots__ = ("of",)

    def __init__(self, of: Backward, info: BatchedInfo):
        super().__init__(of.rule, info, of.tangents)
        self.of = of
        self.names_in_scope = tuple(n for n in of.names_in_scope if n != info.axis.name)

    def __call__(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        return batched_backward(lambda _, *args: self.of(*args), self.info, residuals, cts)


def _batch(axis: AxisData, args: Any, dims: Any, *, num_res: int, bwd: Any, out_avals: Any,
           in_zeros: tuple[bool, ...], **params: Any) -> Any:
    batched = any(d is not None for d in dims)
    given = iter(zip(args[num_res:], dims[num_res:], strict=True))
    operands = [(None, None) if zero else next(given) for zero in in_zeros]
    info = BatchedInfo(axis, None, dims[:num_res],
                       [None if x is None else typeof(x) for x, _ in operands],
                       [d for _, d in operands], batched)
    dim = 0 if batched else None
    outs = custom_lin_p.bind(*args, num_res=num_res, bwd=BatchedBackward(bwd, info),
                             out_avals=tuple([batched_type(a, dim, axis.size) for a in out_avals]),
                             in_zeros=in_zeros, **params)
    return outs, [dim] * len(outs)


custom_lin_p.axis_batch = _batch


def _pretty(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "bwd": params["bwd"].rule.custom.bwd}


custom_lin_p.pretty = _pretty

__all__ = ["Backward", "BatchedInfo", "batched_backward", "custom_lin_p", "refuse_forward_mode",
           "refuse_unsummed"]
