"""Transformations of programs in equations that touch references.

Such an equation is equivalent to three steps: it reads the references, applies a program without
references to their contents, and writes the final contents. So the rules of a frame transform only
programs without references, and the rules of reading and writing do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mjax._engine.control.references.primitives import (
    read_all,
    refuse_shared,
    refuse_tangent,
    write_all,
)
from mjax._engine.ir.references import touched, written
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import zeros_of
from mjax._engine.primitives.tangents import instantiate, with_zeros, zero_tangent
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData, batch_flat, to_dim
from mjax._engine.transforms.jvp import jvp_flat
from mjax._engine.transforms.linearize import linearize_flat


def _plan(frame: Any, params: dict[str, Any], args: Sequence[Any]
          ) -> tuple[Any, list[Any], set[int], list[int]]:
    """A function that applies the program to contents, its arguments, and the operands read and
    written. The references themselves are its last arguments, for backward rules."""
    effects = frame.effects(frame.open(params).body)  # numbered as its operands are
    refs, finals = touched(effects), sorted(written(effects))
    run = frame.discharged(params, sorted(refs), finals, kept=sorted(refs))
    return run, [*(read_all(a) if i in refs else a for i, a in enumerate(args)),
                 *(args[i] for i in sorted(refs))], refs, finals


def jvp(frame: Any, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]) -> Any:
    """The forward derivative."""
    run, given, refs, finals = _plan(frame, params, primals)
    outs, out_tangents = jvp_flat(lambda *args: run(args), given, [
        *(t if i not in refs else zero_tangent(given[i]) if type(t) is Zero else read_all(t)
          for i, t in enumerate(tangents)), *(map(zero_tangent, given[len(tangents):]))])
    n = len(outs) - len(finals)
    for i, value, tangent in zip(finals, outs[n:], out_tangents[n:], strict=True):
        write_all(primals[i], value)
        _write_tangent(frame, primals[i], tangents[i], tangent)
    return outs[:n], out_tangents[:n]


def _write_tangent(frame: Any, primal: Any, ref: Any, tangent: Any) -> None:
    """Writes the tangent of final contents to the reference of tangents."""
    if type(ref) is not Zero:
        write_all(ref, instantiate(tangent))
    elif type(tangent) is not Zero:
        refuse_tangent(frame.primitive.name, primal)


def taylor(frame: Any, push: Callable[..., Any], order: int, primals: Sequence[Any],
           terms: Sequence[list[Any] | None], params: dict[str, Any]) -> Any:
    """The results and their terms; see `Frame.taylor`."""
    run, given, refs, finals = _plan(frame, params, primals)
    jaxpr, nonzeros = push(
        trace_to_jaxpr(lambda *args: run(args), list(map(typeof, given))),
        [*(t is not None for t in terms), *([False] * (len(given) - len(terms)))], False)
    found = iter(eval_jaxpr(jaxpr, jaxpr.consts, *given, *(
        read_all(t) if i in refs else t for i, series in enumerate(terms) for t in series or ())))
    outs = [next(found) for _ in nonzeros]
    results = [[next(found) for _ in range(order)] if nz else None for nz in nonzeros]
    n = len(outs) - len(finals)
    for i, value, series in zip(finals, outs[n:], results[n:], strict=True):
        write_all(primals[i], value)
        for k, ref in enumerate(terms[i] or ()):
            write_all(ref, series[k] if series else zeros_of(typeof(value)))
        if series and not terms[i]:
            refuse_tangent(frame.primitive.name, primals[i])
    return outs[:n], results[:n]


def linearize(frame: Any, nonzeros: Sequence[bool], primals: Sequence[Any], params: dict[str, Any]
              ) -> Any:
    """The results, and the linear program of their tangents."""
    run, given, refs, finals = _plan(frame, params, primals)
    outs, jaxpr, nonzero_outs = linearize_flat(
        lambda *args: run(args), given, [*nonzeros, *([False] * (len(given) - len(nonzeros)))])
    n, avals = len(outs) - len(finals), list(map(typeof, outs))
    for i, value, nonzero in zip(finals, outs[n:], nonzero_outs[n:], strict=True):
        write_all(primals[i], value)
        if nonzero and not nonzeros[i]:
            refuse_tangent(frame.primitive.name, primals[i])

    def linear(residuals: Sequence[Any], *tangents: Any) -> list[Any]:
        given = [instantiate(read_all(t) if i in refs else t)
                 for i, t in enumerate(tangents) if nonzeros[i]]
        found = with_zeros(nonzero_outs, eval_jaxpr(jaxpr, residuals, *given), avals)
        for i, tangent in zip(finals, found[n:], strict=True):
            if nonzeros[i]:
                write_all(tangents[i], instantiate(tangent))
        return found[:n]

    return outs[:n], nonzero_outs[:n], jaxpr.consts, linear


def batch(frame: Any, axis: AxisData, args: Sequence[Any], dims: Sequence[int | None],
          params: dict[str, Any]) -> Any:
    """The same for a batch. A reference is batched before and after along the same axis."""
    run, given, refs, finals = _plan(frame, params, args)
    for i in finals:
        if dims[i] is None:
            refuse_shared(frame.primitive.name, args[i])
    outs, out_dims = batch_flat(
        lambda *a: run(a), axis, given, [*dims, *(dims[i] for i in sorted(refs))])
    n = len(outs) - len(finals)
    for i, value, dim in zip(finals, outs[n:], out_dims[n:], strict=True):
        write_all(args[i], to_dim(value, dim, dims[i], axis.size))
    return outs[:n], out_dims[:n]

