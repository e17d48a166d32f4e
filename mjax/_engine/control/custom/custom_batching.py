"""Functions with rules, and their rules, for a batch or with some results only.

A rule is an object with `jvp(primals, tangents) -> outs, tangents`, or with
`forward(nonzeros, primals) -> outs, residuals, info` and `backward(info, residuals, cts) ->
cotangents`, on lists of values among which may be `Zero`s; or, for `custom_vmap`, with
`batch(size, batched, args) -> outs, out_batched`. Each transformation of a function is one of its
rule, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.errors import LazyTypeError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of, reduce_sum
from mjax._engine.primitives.tangents import zero_tangent
from mjax._engine.tracing.interpreter import Tracer
from mjax._engine.tracing.symbolic import Zero, among_zeros, without_zeros, zeros_among
from mjax._engine.transforms.batching import (
    AxisData,
    BatchInterpreter,
    BatchTracer,
    batch_flat,
    element_type,
    split_results,
    to_dim,
)

Dims = Sequence[int | None]


class Rule:
    """A rule, which its frame transforms along with the function."""

    __slots__ = ()

    def batched(self, held: Any, axis: AxisData, dims: Dims, out_dims: Dims) -> BatchedRule:
        """The rule of a batch.

        Args:
          held: the program for the batch.
          axis: the axis.
          dims: batch dims of the operands.
          out_dims: those of the results: all are batched, or none.
        """
        return BatchedRule(self, axis, dims, out_dims[:1] != [None])

    def pruned(self, kept: Sequence[int]) -> PrunedRule:
        """The rule of the function that gives these results only."""
        return PrunedRule(self, kept)


class BatchedCall:
    """A call under vmap, as the interpreters below see it: of a function of batches.

    The function and its rules run under the interpreter of the vmap, put on top of whichever
    runs them, so that they may close over values of the batch.

    Args:
      call: the call of one element.
      interp: the interpreter of the vmap.
      dims: batch dims of the operands.

    Attributes:
      out_dims: batch dims of the results; known once something has run.
    """

    __slots__ = ("call", "dims", "frame", "interp", "out_dims")

    def __init__(self, call: Any, interp: BatchInterpreter, dims: Dims):
        self.call, self.interp, self.dims, self.frame = call, interp, dims, call.frame
        self.out_dims: list[int | None] = []

    @contextmanager
    def on_top(self) -> Iterator[BatchInterpreter]:
        """Puts the interpreter of the vmap on top of the current one."""
        interp = self.interp
        parent, interp.parent = interp.parent, thread.interpreter
        thread.interpreter = interp
        try:
            yield interp
        finally:
            thread.interpreter, interp.parent = interp.parent, parent

    def within(self, f: Callable[..., Any], args: Sequence[Any], dims: Dims
               ) -> tuple[list[Any], list[int | None]]:
        """Evaluates a function for the batch; gives values with their batch dims."""
        with self.on_top() as interp:
            return split_results(interp, f(*[
                arg if dim is None else BatchTracer(interp, arg, dim)
                for arg, dim in zip(args, dims, strict=True)]))

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        outs, self.out_dims = self.within(self.call.run, values, self.dims)
        return outs

    def evaluate(self, values: Sequence[Any]) -> list[Any]:
        """Runs the function, on values."""
        return self.run(*map(array_of, values))

    def at_once(self) -> dict[str, Any]:
        """Params for a rule that runs at once."""
        params = self.call.at_once()
        rule = self.frame.rule
        return {**params, rule: BatchedRule(params[rule], self.interp.axis, self.dims, True, self)}

    def mapped(self, interp: BatchInterpreter, dims: Dims) -> BatchedCall:
        """The same for a batch of batches."""
        return BatchedCall(self, interp, dims)

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Applies the primitive for a batch."""
        outs, self.out_dims = self.within(lambda *args: self.call.apply(args), values, self.dims)
        return outs

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return self.call.outside(tracer)


def run_batched(within: Callable[..., Any], f: Callable[..., Sequence[Any]], args: Sequence[Any],
                dims: Dims) -> list[Any]:
    """Runs a function from and to values and `Zero`s for a batch.

    Args:
      within: evaluates a function of values for the batch, as `BatchedCall.within`.
      f: the function.
      args: the batch.
      dims: batch dims of these.

    Returns:
      Pairs of a value and its batch dim; for a `Zero` that and None.
    """
    zeros = [a if a is None or d is None else Zero(element_type(a.aval, d))
             for a, d in zip(zeros_among(args), dims, strict=True)]
    known: list[Any] = []

    def nonzero(*given: Any) -> list[Any]:
        outs = f(*among_zeros(zeros, given))
        known.extend(zeros_among(outs))
        return without_zeros(outs)

    values, out_dims = within(nonzero, without_zeros(args), [
        d for d, z in zip(dims, zeros, strict=True) if z is None])
    return among_zeros([None if z is None else (z, None) for z in known],
                       zip(values, out_dims, strict=True))


# ---- rules made of rules -------------------------------------------------------------------


class _Derived(Rule):
    """A rule made of another."""

    def __init__(self, rule: Any, names_in_scope: Sequence[Any]):
        self.rule, self.custom, self.names_in_scope = rule, rule.custom, names_in_scope

    def output(self, i: int) -> str:
        """How messages call an output of the backward pass."""
        return str(self.rule.output(i))


class BatchedRule(_Derived):
    """A rule for a batch.

    Args:
      rule: that for one element.
      axis: the axis.
      dims: batch dims of the operands.
      batched: whether results are a batch, along axis 0.
      live: the call whose rule it is, where that runs at once; it settles what is batched.
    """

    def __init__(self, rule: Any, axis: AxisData, dims: Dims, batched: bool,
                 live: BatchedCall | None = None):
        super().__init__(rule, tuple(n for n in rule.names_in_scope if n != axis.name))
        self.axis, self.dims, self.is_batch, self.live = axis, dims, batched, live
        self.within = _on(axis) if live is None else live.within

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results and their tangents, batched alike."""
        m = len(primals)

        def f(*args: Any) -> list[Any]:
            outs, out_tangents = self.rule.jvp(args[:m], args[m:])
            return [*outs, *out_tangents]

        found = run_batched(self.within, f, [*primals, *tangents], [*self.dims, *self.dims])
        n, size = len(found) // 2, self.axis.size
        dims = [None if o is None and t is None else 0
                for (_, o), (_, t) in zip(found[:n], found[n:], strict=True)]
        if self.live is not None:
            self.live.out_dims = dims
        else:
            self._refuse_batched(dims)
            dims = [0 if self.is_batch else None] * n
        outs = [to_dim(o, dim, d, size) for (o, dim), d in zip(found, dims, strict=False)]
        return outs, [zero_tangent(o) if type(t) is Zero else to_dim(t, dim, d, size)
                      for o, (t, dim), d in zip(outs, found[n:], dims, strict=True)]

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        """Results, residuals, and what the backward pass has to know."""
        known: list[Any] = []

        def f(*args: Any) -> list[Any]:
            outs, residuals, info = self.rule.forward(nonzeros, args)
            known.extend((len(outs), info))
            return [*outs, *residuals]

        values, dims = self.within(f, primals, self.dims)
        n, inner = known
        batched = self.is_batch
        if self.live is not None:
            # Each element has cotangents of its own, those of a common result too.
            batched = any(d is not None for d in [*self.dims, *dims[:n]])
            self.live.out_dims = [0 if batched else None] * n
        else:
            self._refuse_batched(dims[:n])
        outs = [to_dim(o, d, 0 if batched else None, self.axis.size)
                for o, d in zip(values[:n], dims, strict=False)]
        avals = [typeof(p).to_tangent() for p in primals]
        return outs, values[n:], BatchedInfo(self.axis, inner, dims[n:], avals, self.dims, batched)

    def backward(self, info: BatchedInfo, residuals: Sequence[Any], cts: Sequence[Any]
                 ) -> list[Any]:
        """Cotangents of the batch's operands."""
        return batched_backward(functools.partial(self.rule.backward, info.inner), info, residuals,
                                cts)

    def _refuse_batched(self, dims: Dims) -> None:
        """Refuses a batch of results where the function, called once for all elements, has one."""
        if not self.is_batch and any(d is not None for d in dims):
            raise LazyTypeError(lambda: (
                f"a rule of {self.custom.describe()} gives each element of the axis "
                f"{self.axis.name!r} another result, though all have the same arguments and the "
                "same output of the function. Reduce the rule's results over the axis (lax.psum, "
                "lax.pmean)."))


class PrunedRule(_Derived):
    """A rule some of whose results nobody wants.

    Args:
      rule: the rule.
      kept: the indices of the results that are wanted.
    """

    def __init__(self, rule: Any, kept: Sequence[int]):
        super().__init__(rule, rule.names_in_scope)
        self.kept = kept

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The results that are wanted, and their tangents."""
        outs, out_tangents = self.rule.jvp(primals, tangents)
        return [outs[i] for i in self.kept], [out_tangents[i] for i in self.kept]

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        """The results that are wanted, residuals, and what the backward pass has to know."""
        outs, residuals, info = self.rule.forward(nonzeros, primals)
        return [outs[i] for i in self.kept], residuals, (info, list(map(zero_tangent, outs)))

    def backward(self, info: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the operands; those of dropped results are zero."""
        inner, zeros = info
        all_cts = list(zeros)
        for i, ct in zip(self.kept, cts, strict=True):
            all_cts[i] = ct
        return self.rule.backward(inner, residuals, all_cts)

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """The results of a batch that are wanted, and which of them are batched."""
        outs, flags = self.rule.batch(size, batched, args)
        return [outs[i] for i in self.kept], [flags[i] for i in self.kept]


# ---- backward passes -----------------------------------------------------------------------


class BatchedInfo(Record):
    """Facts that the backward pass of a batch needs.

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
    residuals: Dims
    avals: Sequence[Any]
    dims: Dims
    batched: bool


def batched_backward(backward: Callable[..., Any], info: BatchedInfo, residuals: Sequence[Any],
                     cts: Sequence[Any]) -> list[Any]:
    """Cotangents of the operands of a batch, the last ones if there are less.

    That of an operand which all elements share is the sum over the batch.

    Args:
      backward: the pass of one element, from residuals and cotangents.
      info: how things are batched.
      residuals: those of the batch.
      cts: cotangents of the batch's results.
    """
    n, size = len(residuals), info.axis.size
    found = run_batched(_on(info.axis), lambda *args: backward(args[:n], args[n:]),
                        [*residuals, *cts],
                        [*info.residuals, *[0 if info.batched else None] * len(cts)])

    def match(ct: Any, dim: int | None, wanted: int | None, aval: Any) -> Any:
        if type(ct) is Zero:
            return Zero(aval)
        if wanted is not None:
            return to_dim(ct, dim, wanted, size)
        if not info.batched and dim is None:
            return ct  # applied once, not once per element
        return reduce_sum(to_dim(ct, dim, 0, size), (0,))

    skip = len(info.avals) - len(found)
    return [match(ct, dim, wanted, aval) for (ct, dim), wanted, aval in zip(
        found, info.dims[skip:], info.avals[skip:], strict=True)]


def _on(axis: AxisData) -> Callable[..., Any]:
    return lambda f, args, dims: batch_flat(f, axis, args, dims)


__all__ = ["BatchedCall", "BatchedInfo", "PrunedRule", "Rule", "batched_backward"]
