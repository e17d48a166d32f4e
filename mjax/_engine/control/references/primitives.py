"""Primitives that make, read, write and end references; all rules of each in one block.

    new_ref x                    -> ref
    get[indexer] ref *operands        reads the selection of the indexer
    swap[indexer] ref x *operands     writes x there, and returns the old contents
    addupdate[indexer] ref x *operands    adds x there
    freeze ref                   -> its array; the reference ends
    free_ref ref                 ends it

Source: the public interface of `jax.ref`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.thread import thread
from mjax._engine.control.references.indexers import WHOLE, Batched, Replacing
from mjax._engine.ir.references import (
    INSIDE,
    AbstractRef,
    AccumEffect,
    ReadEffect,
    WriteEffect,
    is_reference,
)
from mjax._engine.ir.source import here
from mjax._engine.ir.types import same_array_type, typeof
from mjax._engine.primitives.shapes import batch_to_front, copy_p, zeros_of
from mjax._engine.primitives.tangents import instantiate, zero_tangent
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.operands import no_axes
from mjax._engine.tracing.primitive import EnginePrimitive, Primitive
from mjax._engine.tracing.reference import Ref
from mjax._engine.tracing.stage import trace_to_jaxpr
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms.batching import AxisData


def _checked(who: str, ref: Any) -> Any:
    """The type of the array behind a reference.

    Raises:
      ValueError: it is an array.
    """
    if not is_reference(ref):
        raise LazyValueError(lambda: (
            f"{who} takes a reference, but was given a value of type {ref}: make a reference to "
            "it with mjax.new_ref, or index arrays with x[i] and x.at[i]."))
    return ref.inner_aval


# ---- making --------------------------------------------------------------------------------

new_ref_p = EnginePrimitive("new_ref", params={})
#: Derivatives have a reference of tangents beside each, and each element of a batch has its own.
new_ref_p.always = True


@new_ref_p.def_impl
def _new_ref_impl(x: Any) -> Ref:
    return Ref(copy_p.bind(x), here())


@new_ref_p.def_effectful_abstract_eval
def _new_ref_type(x: Any) -> Any:
    if is_reference(x):
        msg = f"new_ref takes an array, but was given a reference of type {x}: give it ref[...]."
        raise ValueError(msg)
    return AbstractRef(x), {INSIDE}


@new_ref_p.def_jvp
def _new_ref_jvp(primals: Any, tangents: Any) -> Any:
    out = new_ref_p.bind(primals[0])
    if not typeof(out).inexact:
        return out, Zero(typeof(out).to_tangent())
    return out, new_ref_p.bind(instantiate(tangents[0]))


@new_ref_p.def_linearize
def _new_ref_linearize(nonzeros: Any, x: Any) -> Any:
    out = new_ref_p.bind(x)
    return out, typeof(out).inexact, [], lambda residuals, tangent: (
        new_ref_p.bind(instantiate(tangent)) if typeof(out).inexact
        else Zero(typeof(out).to_tangent()))


new_ref_p.def_axis_batch(lambda axis, args, dims: (
    new_ref_p.bind(batch_to_front(args[0], dims[0], axis.size)), 0))
new_ref_p.def_discharge(lambda x: (x, {}))
#: The tangent that users' rules get for a reference without tangents.
AbstractRef.zeros = lambda self: (  # type: ignore[method-assign]
    new_ref_p.bind(zeros_of(self.inner_aval)) if self.inexact else zeros_of(self.inner_aval))


# ---- ending --------------------------------------------------------------------------------


def _ending(name: str) -> Primitive:
    """A primitive that ends a reference and gives its array."""
    p = EnginePrimitive(name, params={})

    @p.def_impl
    def impl(ref: Any) -> Any:
        _checked(name, typeof(ref))
        return ref.end(name, here())

    p.def_effectful_abstract_eval(lambda ref: (_checked(name, ref), {WriteEffect(0)}))
    p.def_jvp(lambda primals, tangents: (p.bind(*primals), (
        Zero(typeof(primals[0]).inner_aval.to_tangent()) if type(tangents[0]) is Zero
        else p.bind(*tangents))))
    p.def_batch(lambda args, dims: (p.bind(*args), dims[0]))
    p.def_discharge(lambda x: (x, {0: None}))
    return p


freeze_p, free_ref_p = map(_ending, ("freeze", "free_ref"))


# ---- reading and writing -------------------------------------------------------------------


def _selected(inner: Any, indexer: Any, operands: Sequence[Any]) -> Any:
    """The type of the part that an indexer selects."""
    varying = no_axes.union(inner.varying, *(a.varying for a in operands))
    avals = [a.with_varying(no_axes) for a in (inner, *operands)]
    jaxpr = trace_to_jaxpr(lambda x, *rest: [indexer.take(x, *rest)], avals)
    return jaxpr.out_avals[0].strip_weak_type().with_varying(varying)


def _check_written(who: str, ref: Any, selected: Any, value: Any) -> None:
    """Compares a value with the place that it is written to.

    Raises:
      ValueError: its shape, its dtype, or the axes along which it varies do not fit.
    """
    if is_reference(value):
        msg = f"{who} takes an array, but was given a reference of type {value}: give it ref[...]."
        raise ValueError(msg)
    if not same_array_type(value, selected):
        what = "dtype" if value.shape == selected.shape else "shape"
        remedy = (f"broadcast or reshape it to {selected.shape}" if what == "shape" else
                  f"write a value of dtype {selected.dtype}" if selected.extended or value.extended
                  else f"cast it with .astype({str(selected.dtype)!r})")
        msg = (f"{who}: invalid {what} for a reference of type {ref}: the value has type "
               f"{value}, but its place has type {selected}; {remedy}.")
        raise ValueError(msg)
    if not value.varying <= ref.varying:
        msg = (f"{who}: the value of type {value} varies along mesh axes along which the reference "
               f"of type {ref} does not. Make the reference of a value cast with "
               "mjax.lax.pcast(x, axes, to='varying').")
        raise ValueError(msg)


def refuse_shared(who: str, ref: Any) -> NoReturn:
    """Raises the error for a write of each batch element to a reference that is not batched."""
    raise LazyValueError(lambda: (
        f"vmap of {who}: a reference of type {typeof(ref)} that all batch elements share is "
        "written. Map over the reference, too (in_axes), or make one in the mapped "
        f"function.{ref.origin()}"))


def refuse_tangent(who: str, ref: Any) -> NoReturn:
    """Raises the error for writing a value with tangents to a reference without."""
    raise LazyValueError(lambda: (
        f"{who}: a value that is differentiated is written to a reference of type {typeof(ref)} "
        "that is not. Make the reference in the function that is differentiated, make it an "
        f"argument of it, or write mjax.lax.stop_gradient(x).{ref.origin()}"))


get_p = EnginePrimitive("get", params={"indexer": Any}, own_varying=True)


@get_p.def_effectful_abstract_eval
def _get_type(ref: Any, *operands: Any, indexer: Any) -> Any:
    return _selected(_checked("get", ref), indexer, operands), {ReadEffect(0)}


@get_p.def_jvp
def _get_jvp(primals: Any, tangents: Any, *, indexer: Any) -> Any:
    out = get_p.bind(*primals, indexer=indexer)
    if type(tangents[0]) is Zero:
        return out, zero_tangent(out)
    return out, get_p.bind(tangents[0], *primals[1:], indexer=indexer)


@get_p.def_axis_batch
def _get_batch(axis: AxisData, args: Any, dims: Any, *, indexer: Any) -> Any:
    return get_p.bind(*args, indexer=Batched(indexer, axis, dims[0], tuple(dims[1:]))), 0


get_p.def_discharge(lambda x, *operands, indexer: (indexer.take(x, *operands), {}))

get_p.spelled = lambda outs, args, params: (
    f"{outs[0] if outs else '_'} <- {args[0]}[{params['indexer'].text(args[1:])}]")

swap_p = EnginePrimitive("swap", params={"indexer": Any}, own_varying=True)
swap_p.always = True


@swap_p.def_effectful_abstract_eval
def _swap_type(ref: Any, value: Any, *operands: Any, indexer: Any) -> Any:
    selected = _selected(_checked("swap", ref), indexer, operands)
    _check_written("swap", ref, selected, value)
    return selected, {WriteEffect(0)}


@swap_p.def_jvp
def _swap_jvp(primals: Any, tangents: Any, *, indexer: Any) -> Any:
    if type(tangents[0]) is Zero:
        if type(tangents[1]) is not Zero:
            refuse_tangent("swap", primals[0])
        out = exchanged(*primals, indexer=indexer)
        return out, zero_tangent(out)
    return exchanged(*primals, indexer=indexer), exchanged(
        tangents[0], instantiate(tangents[1]), *primals[2:], indexer=indexer)


@swap_p.def_axis_batch
def _swap_batch(axis: AxisData, args: Any, dims: Any, *, indexer: Any) -> Any:
    if dims[0] is None:
        refuse_shared("swap", args[0])
    args = [args[0], batch_to_front(args[1], dims[1], axis.size), *args[2:]]
    return exchanged(*args, indexer=Batched(indexer, axis, dims[0], tuple(dims[2:]))), 0


swap_p.def_discharge(lambda x, value, *operands, indexer: (
    indexer.take(x, *operands), {0: indexer.put(x, value, *operands)}))


def _spelled_swap(outs: Sequence[str], args: Sequence[str], params: dict[str, Any]) -> str:
    place = f"{args[0]}[{params['indexer'].text(args[2:])}]"
    return f"{outs[0]}, {place} <- {place}, {args[1]}" if outs else f"{place} <- {args[1]}"


swap_p.spelled = _spelled_swap


def exchanged(ref: Any, value: Any, *operands: Any, indexer: Any, wanted: bool = True) -> Any:
    """Writes, and gives the old contents if these are wanted.

    Outside of programs it reads and writes in two programs: XLA would copy the array in one.
    """
    if thread.interpreter is not evaluation or (wanted and indexer is WHOLE):
        return swap_p.bind(ref, value, *operands, indexer=indexer)
    old = get_p.bind(ref, *operands, indexer=indexer) if wanted else None
    addupdate_p.bind(ref, value, *operands, indexer=Replacing(indexer))
    return old


addupdate_p = EnginePrimitive("addupdate", params={
    "indexer": Any}, multiple_results=True, own_varying=True)
addupdate_p.always = True


@addupdate_p.def_effectful_abstract_eval
def _addupdate_type(ref: Any, value: Any, *operands: Any, indexer: Any) -> Any:
    who = "swap" if type(indexer) is Replacing else "addupdate"
    selected = _selected(_checked(who, ref), indexer, operands)
    _check_written(who, ref, selected, value)
    if selected.extended and who == "addupdate":
        msg = f"addupdate: values of type {selected} cannot be added; write them, ref[...] = x."
        raise TypeError(msg)
    return [], {AccumEffect(0)}


@addupdate_p.def_jvp
def _addupdate_jvp(primals: Any, tangents: Any, *, indexer: Any) -> Any:
    if type(tangents[1]) is not Zero:
        if type(tangents[0]) is Zero:
            refuse_tangent("addupdate", primals[0])
        addupdate_p.bind(*tangents[:2], *primals[2:], indexer=indexer)
    return addupdate_p.bind(*primals, indexer=indexer), []


@addupdate_p.def_axis_batch
def _addupdate_batch(axis: AxisData, args: Any, dims: Any, *, indexer: Any) -> Any:
    if dims[0] is None:
        refuse_shared("addupdate", args[0])
    args = [args[0], batch_to_front(args[1], dims[1], axis.size), *args[2:]]
    return addupdate_p.bind(*args, indexer=Batched(indexer, axis, dims[0], tuple(dims[2:]))), []


addupdate_p.def_discharge(lambda x, value, *operands, indexer: (
    [], {0: indexer.add(x, value, *operands)}))


addupdate_p.spelled = lambda outs, args, params: (
    f"{args[0]}[{params['indexer'].text(args[2:])}] += {args[1]}")


def read_all(ref: Any) -> Any:
    """The contents of a reference."""
    return get_p.bind(ref, indexer=WHOLE)


def cotangent_type(aval: Any) -> Any:
    """The type of an operand's cotangent; that of a reference is of its contents before."""
    return (aval.inner_aval if is_reference(aval) else aval).to_tangent()


def tangent_of(tangent: Any) -> Any:
    """A tangent, or the contents of a reference of tangents."""
    return read_all(tangent) if is_reference(typeof(tangent)) else tangent


def write_all(ref: Any, value: Any) -> None:
    """Writes the contents of a reference."""
    exchanged(ref, value, indexer=WHOLE, wanted=False)
