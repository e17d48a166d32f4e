"""Functions with rules, and their rules, for a batch or with some results only.

A rule is an object with `jvp(primals, tangents) -> outs, tangents`, or with
`forward(nonzeros, primals) -> outs, residuals, pull`, where `pull(residuals, cts) -> cotangents`,
on lists of values among which may be `Zero`s; or, for `custom_vmap`, with `batch(size, batched,
args) -> outs, out_batched`. Each transformation of a function is one of its rule, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyTypeError, LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.base.util import merge_lists, selected
from mjax._engine.control.held import Held, Runner
from mjax._engine.control.references.primitives import cotangent_type, new_ref_p, read_all
from mjax._engine.ir.jaxpr import Jaxpr
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.dynamic_slicing import dynamic_index_in_dim
from mjax._engine.primitives.shapes import array_of, batch_to_front, reduce_sum
from mjax._engine.primitives.tangents import instantiate, with_zeros, zero_tangent
from mjax._engine.tracing.stage import eval_jaxpr, stage
from mjax._engine.tracing.symbolic import (
    UndefinedPrimal,
    Zero,
    among_zeros,
    without_zeros,
    zeros_among,
)
from mjax._engine.transforms.batching import (
    AxisData,
    BatchInterpreter,
    BatchTracer,
    batch_flat,
    batch_jaxpr,
    batched_type,
    element_type,
    split_results,
    to_dim,
)
from mjax._engine.transforms.jvp import jvp_flat
from mjax._engine.transforms.transpose import backward_pass

Dims = Sequence[int | None]


class Rule:
    """A rule, which its frame transforms along with the function.

    Attributes:
      frame: that of the primitive whose equations hold function and rule.
      run: the function of a call.
    """

    __slots__ = ()
    frame: Any
    run: Callable[..., list[Any]]

    def at_once(self) -> Any:
        """Params for a rule that runs at once."""
        return self.frame.params(self)

    def evaluate(self, values: Sequence[Any]) -> list[Any]:
        """Runs the function of a call, on values."""
        return self.run(*map(array_of, values))

    def mapped(self, interp: BatchInterpreter, dims: Dims) -> Rule:
        """The same call for a batch."""
        return BatchedRule(self, interp.axis, dims, True, interp)

    def batched(self, held: Held, axis: AxisData, dims: Dims, out_dims: Dims) -> Rule:
        """The rule of a batch.

        Args:
          held: the program for the batch.
          axis: the axis.
          dims: batch dims of the operands.
          out_dims: those of the results: all are batched, or none.
        """
        return BatchedRule(self, axis, dims, out_dims[:1] != [None])

    def pruned(self, kept: Sequence[int]) -> Rule:
        """The rule of the function that gives these results only."""
        return ThreadingRule(self, kept)

    def threading(self, held: Held, n: int) -> Rule:
        """The rule of the function that takes and gives n more values, as this program does."""
        return ThreadingRule(self, range(len(held.outs) - n), held.body, n)

    def of_contents(self, frame: Any, held: Held, order: Sequence[int], refs: Sequence[int],
                    ends: Sequence[int], kept: Sequence[int]) -> Runner:
        """Applies a discharged program, whose rule is discharged along with it.

        Args:
          frame: of the program.
          held: the program, whose operands are in this order.
          order: where they were before.
          refs: which of them, by their numbers before, are contents of references.
          ends: those of them whose final contents are given.
          kept: those of them that come as references, too, behind the others.
        """
        held = frame.ruled(held, lambda rule: DischargedRule(rule, order, refs, ends, kept))
        n, m = held.rest.get("num_consts", 0), len(held.outs) - len(ends)
        run = frame.runner(held._replace(rest={
            **held.rest, "num_consts": n - sum(i < n for i in ends)}) if n else held)

        def apply(args: Sequence[Any]) -> list[Any]:
            outs, before = run(args), args[:len(order)][len(order) - len(ends):]
            return [*outs[:m], *map(self.written, outs[m:], before)]

        return apply

    def written(self, after: Any, before: Any) -> Any:
        """Final contents of a reference for outer programs, from its final and first ones."""
        return after

    def pushed(self, held: Held, nonzeros: Sequence[bool]) -> Rule:
        """The rule of the derivative, which takes tangents of these operands."""
        return PushedRule(self, held, nonzeros)

    def transposed(self, held: Held, undefined: Sequence[bool], nonzeros: Sequence[bool]
                   ) -> Rule:
        """The rule of the transpose in these operands, which takes cotangents of these results."""
        return TransposedRule(self, held, undefined, nonzeros)


def run_batched(within: Callable[..., Any], f: Callable[..., Sequence[Any]], args: Sequence[Any],
                dims: Dims) -> list[Any]:
    """Runs a function from and to values and `Zero`s for a batch.

    Args:
      within: evaluates a function of values for the batch, like `BatchedRule.within`.
      f: the function.
      args: the batch.
      dims: batch dims of these.

    Returns:
      Pairs of a value and its batch dim; for a `Zero`, the `Zero` and None.
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


# ---- rules derived from rules --------------------------------------------------------------


class DerivedRule(Rule):
    """A rule derived from another.

    Args:
      rule: the other rule.
      axis: the name of an axis that it may not refer to any more.
    """

    def __init__(self, rule: Any, axis: Any = None):
        self.rule, self.custom = rule, rule.custom
        names = rule.names_in_scope
        self.names_in_scope = names if axis is None else tuple([n for n in names if n != axis])

    def output(self, i: int) -> str:
        """The name of an output of the backward pass in messages."""
        return str(self.rule.output(i))

    def written(self, after: Any, before: Any) -> Any:
        return self.rule.written(after, before)


class BatchedRule(DerivedRule):
    """A rule for a batch; or a call under vmap, in the form for lower interpreters.

    The function and the rules of a call run under the interpreter of the vmap, on top of the one
    that runs them. So they may close over values of the batch.

    Args:
      rule: the rule for one element, or the call of one element.
      axis: the axis.
      dims: batch dims of the operands.
      batched: whether results are a batch, along axis 0; a call finds out.
      interp: the interpreter of the vmap, for a call.

    Attributes:
      out_dims: batch dims of a call's results; known once something has run.
    """

    out_dims: Dims = ()

    def __init__(self, rule: Any, axis: AxisData, dims: Dims, batched: bool,
                 interp: BatchInterpreter | None = None):
        super().__init__(rule, axis.name)
        self.axis, self.dims, self.is_batch, self.interp = axis, dims, batched, interp
        if interp is not None:  # Interpreters ask calls for these.
            self.frame, self.hidden, self.outside = rule.frame, rule.hidden, rule.outside

    def within(self, f: Callable[..., Any], args: Sequence[Any], dims: Dims
               ) -> tuple[list[Any], Dims]:
        """Evaluates a function for the batch; gives values with their batch dims."""
        interp = self.interp
        if interp is None:
            return batch_flat(f, self.axis, args, dims)
        parent, interp.parent = interp.parent, thread.interpreter
        thread.interpreter = interp
        try:
            return split_results(interp, f(*[
                arg if dim is None else BatchTracer(interp, arg, dim)
                for arg, dim in zip(args, dims, strict=True)]))
        finally:
            thread.interpreter, interp.parent = interp.parent, parent

    # -- methods for interpreters --

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        outs, self.out_dims = self.within(self.rule.run, values, self.dims)
        return outs

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Applies the primitive for a batch."""
        outs, self.out_dims = self.within(lambda *args: self.rule.apply(args), values, self.dims)
        return outs

    # -- rules --

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results and their tangents, batched alike."""
        m = len(primals)

        def f(*args: Any) -> list[Any]:
            outs, out_tangents = self.rule.jvp(args[:m], args[m:])
            return [*outs, *out_tangents]

        found = run_batched(self.within, f, [*primals, *tangents], [*self.dims, *self.dims])
        n, size = len(found) // 2, self.axis.size
        dims = self._settled([None if o is None and t is None else 0
                              for (_, o), (_, t) in zip(found[:n], found[n:], strict=True)])
        outs = [to_dim(o, dim, d, size) for (o, dim), d in zip(found, dims, strict=False)]
        return outs, [zero_tangent(o) if type(t) is Zero else to_dim(t, dim, d, size)
                      for o, (t, dim), d in zip(outs, found[n:], dims, strict=True)]

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        """Results, residuals, and the backward pass."""
        known: list[Any] = []

        def f(*args: Any) -> list[Any]:
            outs, residuals, pull = self.rule.forward(nonzeros, args)
            known.extend((len(outs), pull))
            return [*outs, *residuals]

        values, dims = self.within(f, primals, self.dims)
        n, pull = known
        if self.interp is not None:
            # Each element has cotangents of its own, even of a common result.
            self.is_batch = any(d is not None for d in [*self.dims, *dims[:n]])
        out_dims = self._settled(dims[:n], True)
        outs = [to_dim(o, d, wanted, self.axis.size)
                for o, d, wanted in zip(values, dims, out_dims, strict=False)]
        return outs, values[n:], batched_pullback(
            pull, self.axis, dims[n:], [cotangent_type(typeof(p)) for p in primals], self.dims,
            self.is_batch)

    def _settled(self, dims: Dims, alike: bool = False) -> Dims:
        """Batch dims of the results, from those of a rule's results.

        Raises:
          TypeError: the rule returned a batch, but the function was called once for all elements.
        """
        if self.interp is None and not self.is_batch and any(d is not None for d in dims):
            raise LazyTypeError(lambda: (
                f"a rule of {self.custom.describe()} gives each element of the axis "
                f"{self.axis.name!r} another result, though all have the same arguments and the "
                "same output of the function. Reduce the rule's results over the axis (lax.psum, "
                "lax.pmean)."))
        if alike or self.interp is None:
            dims = [0 if self.is_batch else None] * len(dims)
        self.out_dims = dims
        return dims


class ThreadingRule(DerivedRule):
    """The rule of a function with fewer results, or with more values that it takes and returns,
    which are not differentiated.

    Args:
      rule: that of the original function.
      kept: the indices of the results that it returns.
      program: the function's program with more values, if it has some.
      n: their number.
    """

    def __init__(self, rule: Any, kept: Sequence[int], program: Jaxpr | None = None, n: int = 0):
        super().__init__(rule)
        self.kept, self.program, self.n = kept, program, n

    def _kept(self, outs: Sequence[Any]) -> list[Any]:
        return [outs[i] for i in self.kept]

    def _more(self, program: Jaxpr | None, args: Sequence[Any]) -> list[Any]:
        return [] if program is None else eval_jaxpr(
            program, program.consts, *args)[len(self.kept):]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results and their tangents, and the values."""
        n, more = len(primals) - self.n, self._more(self.program, primals)
        outs, out_tangents = self.rule.jvp(primals[:n], tangents[:n])
        return [*self._kept(outs), *more], [*self._kept(out_tangents), *map(zero_tangent, more)]

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        """Results and the values, residuals, and the backward pass."""
        n, more = len(primals) - self.n, self._more(self.program, primals)
        outs, residuals, pull = self.rule.forward(nonzeros[:n], primals[:n])
        zeros, of_values = list(map(zero_tangent, outs)), list(map(zero_tangent, primals[n:]))

        def pullback(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            given = dict(zip(self.kept, cts, strict=False))
            return [*pull(residuals, [given.get(i, z) for i, z in enumerate(zeros)]), *of_values]

        return [*self._kept(outs), *more], residuals, pullback

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Results of a batch and the values, and which of them are batched."""
        n, program = len(args) - self.n, self.program
        outs, flags = self.rule.batch(size, batched[:n], args[:n])
        if program is not None:
            program, _ = batch_jaxpr(program, AxisData(None, size), [
                0 if b else None for b in batched], True)
        return ([*self._kept(outs), *self._more(program, args)],
                [*self._kept(flags), *[True] * self.n])


class DischargedRule(DerivedRule):
    """The rule of a function with contents in place of references. It makes references for `rule`.

    Args:
      rule: that of the function.
      order: the places of its operands among the function's own.
      refs: the references among the function's own operands.
      ends: those of them whose final contents are returned, too, after the results.
      kept: those of them that are its last operands, too: the backward pass gets them.
    """

    def __init__(self, rule: Any, order: Sequence[int], refs: Sequence[int], ends: Sequence[int],
                 kept: Sequence[int]):
        super().__init__(rule)
        self.order, self.refs, self.ends, self.kept = order, refs, ends, kept

    def _sorted(self, values: Sequence[Any]) -> list[Any]:
        """Values of the operands in the function's own order."""
        return [value for _, value in sorted(zip(self.order, values, strict=False),
                                             key=operator.itemgetter(0))]

    def _boxed(self, contents: Sequence[Any]) -> list[Any]:
        """The function's own operands. A reference has a tangent if its dtype has some."""
        return [x if i not in self.refs else new_ref_p.bind(instantiate(x))
                if type(x) is not Zero or x.aval.inexact else x
                for i, x in enumerate(self._sorted(contents))]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Results and final contents with their tangents."""
        given, dots, before = self._boxed(primals), self._boxed(tangents), self._sorted(tangents)
        outs, out_tangents = self.rule.jvp(given, dots)
        ends = [read_all(given[i]) for i in self.ends]
        return [*outs, *ends], [*out_tangents, *(  # the tangents that it made are not used
            zero_tangent(x) if type(before[i]) is Zero else read_all(dots[i])
            for i, x in zip(self.ends, ends, strict=True))]

    def forward(self, nonzeros: Sequence[bool], primals: Sequence[Any]) -> Any:
        """Results and final contents, residuals, and the backward pass."""
        given, nonzeros = self._boxed(primals), self._sorted(nonzeros)
        outs, residuals, pull = self.rule.forward(nonzeros, given)
        residuals = [self._kept(r, given, primals) for r in residuals]
        zeros = [Zero(cotangent_type(typeof(given[i]))) for i in self.kept]

        def pullback(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            found = pull(residuals, cts[:len(cts) - len(self.ends)])
            return [*(found[i] for i in self.order), *zeros]

        return [*outs, *(read_all(given[i]) for i in self.ends)], residuals, pullback

    def _kept(self, residual: Any, given: Sequence[Any], primals: Sequence[Any]) -> Any:
        """A residual; for a reference that the function was given, the one that still exists when
        the backward pass runs.

        Raises:
          ValueError: none does.
        """
        place = next((i for i in self.refs if given[i] is residual), None)
        if place is None:
            return residual
        if place not in self.kept:
            raise LazyValueError(lambda: (
                f"{self.custom.describe()} reads or writes a reference that the program around it "
                "makes, and hands it to its bwd rule, which runs after that program. Make the "
                "reference outside of the program, or hand over arrays, ref[...]."))
        return primals[len(self.order) + self.kept.index(place)]

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Results and final contents of a batch, and which of them are batched."""
        given, flags = self._boxed(args), self._sorted(batched)
        outs, out_flags = self.rule.batch(size, flags, given)
        return ([*outs, *(read_all(given[i]) for i in self.ends)],
                [*out_flags, *(flags[i] for i in self.ends)])


class PushedRule(DerivedRule):
    """The rule of a derivative, `(primals, nonzero tangents) -> (outs, smooth tangents)`.

    Args:
      rule: that of the function.
      held: the function's program.
      nonzeros: which operands have a tangent.
    """

    def __init__(self, rule: Any, held: Held, nonzeros: Sequence[bool]):
        super().__init__(rule)
        self.nonzeros, self.smooth = nonzeros, [a.inexact for a in held.body.out_avals]

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Results and tangents of a batch, and which of them are batched."""
        n = len(self.nonzeros)
        dots = iter(batched[n:])
        flags, dot_flags = batched[:n], [nz and next(dots) for nz in self.nonzeros]
        if not any(map(operator.and_, flags, dot_flags)):
            return self._by_elements(size, batched, args)
        wanted = list(map(operator.or_, flags, dot_flags))
        args = [x if f == w else batch_to_front(x, None, size) for x, f, w in zip(
            args, batched, [*wanted, *selected(self.nonzeros, wanted)], strict=True)]
        return self._pushed(size, wanted, args[:n], args[n:])

    def _pushed(self, size: int, flags: Sequence[bool], primals: Sequence[Any],
                tangents: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        """Results of the function's rule with their smooth tangents, and which are batched."""
        known: list[bool] = []

        def f(*values: Any) -> list[Any]:
            outs, out_batched = self.rule.batch(size, flags, values)
            known.extend(out_batched)
            return outs

        outs, out_tangents = jvp_flat(f, primals, with_zeros(
            self.nonzeros, tangents, map(typeof, primals)))
        smooth = selected(self.smooth, out_tangents)
        return [*outs, *map(instantiate, smooth)], [*known, *selected(self.smooth, known)]

    def _by_elements(self, size: int, batched: Sequence[bool], args: Sequence[Any]
                     ) -> tuple[list[Any], list[bool]]:
        """The case in which no primal is batched together with its tangent: the function's rule
        gets no batch, and its derivative is mapped over batched values."""
        n = len(self.nonzeros)

        def element(i: Any, *values: Any) -> list[Any]:
            outs, flags = self._pushed(size, [False] * n, values[:n], values[n:])
            return [dynamic_index_in_dim(o, i, 0, False) if flag else o
                    for o, flag in zip(outs, flags, strict=True)]

        outs, dims = batch_flat(element, AxisData(None, size), [np.arange(size, dtype=np.int32),
                                                                *args],
                                [0, *[0 if b else None for b in batched]])
        return ([o if d is None else batch_to_front(o, d, size)
                 for o, d in zip(outs, dims, strict=True)], [d is not None for d in dims])


class TransposedRule(DerivedRule):
    """The rule of the transpose, `(defined operands, nonzero cotangents) -> cotangents`.

    Args:
      rule: that of the linear function.
      held: its program.
      undefined: in which operands it is linear.
      nonzeros: which results have a cotangent.
    """

    def __init__(self, rule: Any, held: Held, undefined: Sequence[bool],
                 nonzeros: Sequence[bool]):
        super().__init__(rule)
        self.call, self.undefined, self.nonzeros = held.body, undefined, nonzeros

    def batch(self, size: int, batched: Sequence[bool], args: Sequence[Any]
              ) -> tuple[list[Any], list[bool]]:
        """Cotangents of a batch; each element has its own."""
        undefined, call = self.undefined, self.call
        places = [UndefinedPrimal(batched_type(a, 0, size))
                  for a in selected(undefined, call.in_avals)]
        n, m = len(undefined) - len(places), len(places)
        in_batched = merge_lists(undefined, batched[:n], [True] * m)
        operands = merge_lists(undefined, args[:n], places)

        def linear(*values: Any) -> list[Any]:
            outs, out_batched = self.rule.batch(size, in_batched, values)
            return [batch_to_front(o, 0 if b else None, size)
                    for o, b in zip(outs, out_batched, strict=True)]

        jaxpr = stage(linear, [x.aval if u else typeof(x)
                               for x, u in zip(operands, undefined, strict=True)])
        cts = [batch_to_front(ct, 0 if b else None, size)
               for ct, b in zip(args[n:], batched[n:], strict=True)]
        found = backward_pass(jaxpr, jaxpr.consts, operands, with_zeros(
            self.nonzeros, cts, jaxpr.out_avals))
        return list(map(instantiate, selected(undefined, found))), [True] * m


# ---- backward passes -----------------------------------------------------------------------


def batched_pullback(pull: Callable[..., Sequence[Any]], axis: AxisData, res_dims: Dims,
                     avals: Sequence[Any], dims: Dims, batched: bool
                     ) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]]:
    """The backward pass of a batch; the cotangent of an operand that all elements share is the sum
    over the batch.

    Args:
      pull: the pass of one element, from residuals and cotangents.
      axis: the axis.
      res_dims: batch dims of the residuals.
      avals: types of the operands' cotangents, batched.
      dims: their batch dims.
      batched: whether the results are a batch, along axis 0.
    """
    n = len(res_dims)
    within = lambda f, args, dims: batch_flat(f, axis, args, dims)

    def match(ct: Any, dim: int | None, wanted: int | None, aval: Any) -> Any:
        if type(ct) is Zero:
            return Zero(aval)
        if wanted is not None:
            return to_dim(ct, dim, wanted, axis.size)
        if not batched and dim is None:
            return ct  # applied once, not once per element
        return reduce_sum(to_dim(ct, dim, 0, axis.size), (0,))

    def pullback(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        found = run_batched(within, lambda *args: pull(args[:n], args[n:]), [*residuals, *cts],
                            [*res_dims, *[0 if batched else None] * len(cts)])
        return [match(ct, dim, wanted, aval) for (ct, dim), wanted, aval in zip(
            found, dims, avals, strict=True)]

    return pullback


__all__ = ["DerivedRule", "Rule", "batched_pullback"]
