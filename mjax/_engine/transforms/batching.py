"""Vectorization: applies a function of one element to a whole batch at once.

A tracer carries a batched value and the axis along which it is batched. Rules run with the
parent current, on bare values and their batch dims (None: the same for all elements).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from mjax._engine.base.errors import LazyValueError
from mjax._engine.base.program_caches import PlainCache
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import BoundedCache, per_item, pickled_by
from mjax._engine.ir.jaxpr import Jaxpr, named_axes
from mjax._engine.ir.types import (
    AbstractValue,
    ShapedArray,
    is_object_value,
    same_array_type,
    typeof,
)
from mjax._engine.primitives.shapes import batch_to_front, moveaxis
from mjax._engine.tracing.agreed import LONGEST, note
from mjax._engine.tracing.interpreter import (
    Interpreter,
    Tracer,
    axes_in_scope,
    call_with,
    register_tracer,
    running,
)
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import (
    as_pair,
    bad_rule_result,
    check_lists,
    describe_value,
    name_rule,
    refuse_results,
)
from mjax._engine.tracing.rule_results import refuse_misfits
from mjax._engine.tracing.stage import eval_jaxpr, trace_to_jaxpr


@pickled_by("axis_data_v1")
class AxisData(Record):
    """The axis that is mapped over.

    Attributes:
      name: its name in collectives; None: they cannot refer to it.
      size: its size.
      spmd_name: mesh axes over which it is spread.
      explicit_mesh_axis: always None, as no axes of meshes are Explicit.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> batching.AxisData("i", 3).size
      3
    """

    name: Hashable | None
    size: int
    spmd_name: Any = None
    explicit_mesh_axis: None = None


_element_types = BoundedCache()
#: (settings, size of the axis) -> what agreed, by the primitive's identity with types of operands,
#: and types and dims of results.
_agreed = BoundedCache(256)


def element_type(aval: AbstractValue, dim: Any, size: int | None = None) -> AbstractValue:
    """The type of one batch element, for a batch along axis `dim`.

    Args:
      aval: the type of the batch.
      dim: the axis; for a type that `is_high`, an object of its author's.
      size: the size of the axis, which such types may ask for.
    """
    if aval.is_high:
        return aval.dec_rank(size, _spec(aval, dim))
    known = _element_types.get((aval, dim))
    return _element_types.put((aval, dim), aval.element(dim)) if known is None else known


def _spec(aval: Any, dim: Any) -> Any:
    """The author's object for an axis; the engine calls the axis of loops 0."""
    if not isinstance(dim, int):
        return dim
    if dim == 0:
        return aval.leading_axis_spec()
    raise LazyValueError(lambda: (
        f"vmap: values of type {aval}, of which a loop stacks one for each iteration, cannot be "
        "batched: their type does not say how. Put the vmap into the loop, or let the loop stack "
        "the arrays that the values are made of."))


def batched_type(aval: AbstractValue, dim: Any, size: int) -> AbstractValue:
    """The type of a batch along a new axis `dim`."""
    if dim is not None and aval.is_high:
        return aval.inc_rank(size, _spec(aval, dim))
    return aval if dim is None else aval.batched(dim, size)


@register_tracer
class BatchTracer(Tracer):
    """A batch of values, seen as one of them."""

    __slots__ = ("dim", "value")

    def __init__(self, interp: BatchInterpreter, value: Any, dim: Any, aval: Any = None):
        self.interp = interp
        self.value = value
        self.dim = dim
        self.aval = element_type(typeof(value), dim, interp.axis.size) if aval is None else aval

    # JAX's spellings, for those who read tracers.
    val = property(operator.attrgetter("value"), doc="The batch.")
    batch_dim = property(operator.attrgetter("dim"), doc="The axis of the batch.")

    def below(self) -> Any:
        return self.value

    def provenance(self) -> str:
        return "\nUnder vmap a value has no one truth: each batch element has its own."


class BatchInterpreter(Interpreter):
    """Applies batching rules."""

    __slots__ = ("agreed", "axis")
    name = mark = "vmap"
    axis: AxisData

    def __init__(self, parent: Interpreter, axis: AxisData):
        super().__init__(parent)
        self.axis = axis
        key = (thread.settings, axis.size)
        found = _agreed.get(key)
        self.agreed: dict[Any, Any] = (
            _agreed.put(key, PlainCache()) if found is None else found).entries

    @property
    def axis_data(self) -> AxisData:
        """The axis, as JAX calls it."""
        return self.axis

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        values: list[Any] = []
        dims: list[int | None] = []
        types: Any = primitive.identity
        batched = False
        for arg in args:
            if type(arg) is BatchTracer and arg.interp is self:
                values.append(arg.value)
                dims.append(arg.dim)
                types = types, arg.aval
                batched = True
            else:
                values.append(arg)
                dims.append(None)
                types = types, arg.__class__, getattr(arg, "aval", arg)
        if (not batched and not primitive.always
                and (primitive.axis_batch is None or not self.names_axis(primitive, params))
                and (primitive.frame is None or not primitive.frame.writes(params))):
            thread.interpreter = self.parent
            try:
                return self.parent.process(primitive, args, params)  # type: ignore[union-attr]
            finally:
                thread.interpreter = self
        thread.interpreter = self.parent
        try:
            pair = self.apply(primitive, args, values, dims, params)
            thread.interpreter = self
            out, dim = pair
            if not primitive.multiple_results:
                if primitive._narrow or len(args) < LONGEST:
                    known = self.agreed[types, out.aval, dim, dim.__class__]
                    if params in known:
                        return out if dim is None else BatchTracer(self, out, dim, known.made)
            elif primitive.types_cacheable:
                results = []
                key: Any = types, out.__class__
                for o, d in zip(out, dim):  # `strict` takes longer than `len`
                    aval = o.aval
                    key = key, aval, d, d.__class__  # 0.0 equals 0
                    results.append(o if d is None else BatchTracer(
                        self, o, d, _element_types.get((aval, d))))
                if (len(out) == len(dim) < LONGEST and (primitive._narrow or len(args) < LONGEST)
                        and params in self.agreed[key]):
                    return results
            elif primitive.frame is not None and not primitive.compared:
                return self._of_programs(out, dim)
        except Exception:
            if thread.interpreter is not self or "pair" not in locals():  # The rule raised it.
                thread.interpreter = self
                refuse_misfits(primitive, args, params, "batchable")
                raise
        except BaseException:
            thread.interpreter = self
            raise
        return self._compare(primitive, args, types, params, pair)

    def _of_programs(self, outs: Sequence[Any], dims: Sequence[Any]) -> list[Any]:
        """The results of a primitive of the engine, whose types the programs in its params say."""
        return [out if dim is None else BatchTracer(
            self, out, dim, _element_types.get((out.aval, dim))) for out, dim in zip(outs, dims)]

    def _compare(self, primitive: Primitive, args: tuple[Any, ...], types: Any,
                params: dict[str, Any], pair: Any) -> Any:
        """The results of a rule, compared with the abstract evaluation; notes types that agree."""
        several = primitive.multiple_results
        out, dim = as_pair(primitive, "batch", pair, "the result and its batch dimension")
        declared = primitive.declared(list(map(typeof, args)), params, "batchable")
        if several and (dim is None or isinstance(dim, (int, np.integer))) and isinstance(
                out, (list, tuple)):
            dim = [dim] * len(out)
        if several:
            check_lists(primitive, "batch", (out, dim), None if declared is None else len(declared),
                        "a list of results and one of batch dimensions")
        outs, dims = (out, dim) if several else ([out], [dim])
        known = repeat(None) if declared is None else declared if several else [declared]
        results = list(map(self.result, repeat(primitive), outs, dims, known))
        if declared is not None and len(args) < LONGEST > len(outs) and not any(
                map(is_object_value, args)):  # which may change
            places = [None if d is None else r.dim for d, r in zip(dims, results, strict=True)]
            note(self.agreed, ((o.aval, d, type(d)) for o, d in zip(outs, places, strict=True)),
                 params, None if several or dim is None else results[0].aval,
                 (types, type(out)) if several else types)
        return results if several else results[0]

    def process_custom(self, call: Any, values: Sequence[Any]) -> list[Any]:
        parent: Any = self.parent
        if parent.parent is None:  # evaluation does not use the rule
            return call.evaluate(values)
        mine = [type(v) is BatchTracer and v.interp is self for v in values]
        batch = call.mapped(self, [v.dim if m else None
                                    for v, m in zip(values, mine, strict=True)])
        outs = call_with(parent, parent.process_custom, batch, [
            v.value if m else v for v, m in zip(values, mine, strict=True)])
        return [o if d is None else BatchTracer(self, o, d)
                for o, d in zip(outs, batch.out_dims, strict=True)]

    def apply(self, primitive: Primitive, args: Sequence[Any], values: list[Any],
              dims: list[int | None], params: dict[str, Any]) -> Any:
        """The results of the primitive's rule; runs with the parent current."""
        rule = primitive.free_batch
        if rule is None:  # An effect that is refused must not happen.
            primitive.declared([typeof(arg) for arg in args], params, "batchable")
            rule = primitive.axis_batch or primitive.batch or primitive.missing(
                "batch", operands=len(values), params=params)
        given: Any = (values, dims)
        if not primitive.own:  # tuples, as JAX gives them: authors make them params
            given = tuple(values), tuple(dims)
        try:
            return (rule(*given, **params) if primitive.axis_batch is None else
                    rule(self.axis, *given, **params))
        except Exception as error:
            name_rule(error, primitive, "batch", params)
            raise

    def names_axis(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Whether a collective refers to this interpreter's axis."""
        name = self.axis.name
        if primitive.axis_batch is None or name is None:
            return False
        return name in named_axes(params)

    def result(self, primitive: Primitive, value: Any, dim: int | None, declared: Any) -> Any:
        """A tracer, or the bare value if it is the same for all elements; checks its type."""
        try:
            aval = typeof(value)
        except TypeError:
            bad_rule_result(primitive, "batch", lambda: (
                f"returned {describe_value(value)} for an array."))
        if dim is not None and aval.is_high:
            aval = element_type(aval, dim, self.axis.size)
        elif dim is not None:
            if type(dim) is not int:
                if not isinstance(dim, (int, np.integer)):
                    bad_rule_result(primitive, "batch", lambda: (
                        f"returned the batch dimension {describe_value(dim)}; it must be an axis "
                        "of the result, an int, or None."))
                dim = int(dim)
            if aval.axis_size(dim) != self.axis.size:
                what = f"shape {aval.shape}" if isinstance(aval, ShapedArray) else f"type {aval}"
                bad_rule_result(primitive, "batch", lambda: (
                    f"returned a result of {what} with batch dimension {dim!r}; that axis must "
                    f"exist and have size {self.axis.size}."))
            aval = element_type(aval, dim)
        if declared is not None and aval is not declared and not same_array_type(aval, declared):
            bad_rule_result(primitive, "batch", lambda: (
                f"returned {typeof(value)} with batch dimension {dim}, that is {aval} for each "
                f"batch element, but the abstract evaluation says {declared}."))
        return value if dim is None else BatchTracer(self, value, dim, aval)


def batch_flat(f: Callable[..., Sequence[Any]], axis: AxisData, args: Sequence[Any],
               dims: Sequence[int | None]) -> tuple[list[Any], list[int | None]]:
    """Evaluates a function of flat values for a batch; gives values with their batch dims."""
    interp = BatchInterpreter(thread.interpreter, axis)
    interp.function = f
    names = () if axis.name is None else ((axis.name, axis.size),)
    with axes_in_scope(names), running(interp):
        results = split_results(interp, f(*[
            arg if dim is None else BatchTracer(interp, arg, dim)
            for arg, dim in zip(args, dims, strict=True)]))
    refuse_leaks(interp)
    return results


def split_results(interp: Interpreter, outs: Sequence[Any]) -> tuple[list[Any], list[int | None]]:
    """Values and batch dims of a function's results under a batching interpreter."""
    values, dims = [], []
    if not isinstance(outs, (list, tuple)):
        refuse_results(interp.function, outs)
    for out in outs:
        mine = type(out) is BatchTracer and out.interp is interp
        values.append(out.value if mine else out)
        dims.append(out.dim if mine else None)
    return values, dims


def to_dim(value: Any, dim: int | None, wanted: int | None, size: int) -> Any:
    """A value with its batch axis at the wanted place, repeated along it if it has none."""
    if wanted is None or dim == wanted:
        return value
    if is_object_value(value) or (isinstance(value, Tracer) and value.aval.is_high):
        return _object_to_dim(value, dim, wanted)
    if dim is None:
        return moveaxis(batch_to_front(value, None, size), 0, wanted)
    return moveaxis(value, dim, wanted)


def _object_to_dim(value: Any, dim: Any, wanted: Any) -> Any:
    """The same for an object of an author's class, which cannot be moved."""
    aval = typeof(value)
    place, wanted = [_spec(aval, d) for d in (dim, wanted)]
    if place is not None and place == wanted:
        return value
    raise LazyValueError(lambda: (
        f"vmap: a value of type {aval} is "
        f"{'the same for all elements' if dim is None else f'batched along {place}'}, but needed "
        f"along {wanted}; its type does not say how to move it. Make it with primitives that give "
        "it there."))


def batch_jaxpr(jaxpr: Jaxpr, axis: AxisData, in_dims: Sequence[int | None],
                out_batched: bool | Sequence[bool] = False
                ) -> tuple[Jaxpr, list[int | None]]:
    """The jaxpr of a jaxpr for a batch, cached on it.

    Args:
      jaxpr: the program for one element.
      axis: the axis.
      in_dims: batch dim of each input.
      out_batched: which results must be batched; those are repeated along axis 0 if they
        are not.

    Returns:
      The batched program, with every batch dim of its results 0 or None, and those dims.
    """
    wanted = per_item(out_batched, len(jaxpr.outvars))
    in_dims = tuple(in_dims)

    def make() -> tuple[Jaxpr, list[int | None]]:
        out_dims: list[int | None] = []

        def f(*args: Any) -> list[Any]:
            outs, dims = batch_flat(lambda *a: eval_jaxpr(jaxpr, jaxpr.consts, *a), axis, args,
                                    in_dims)
            out_dims.extend(0 if w or d is not None else None
                            for d, w in zip(dims, wanted, strict=True))
            return [to_dim(o, d, w, axis.size)
                    for o, d, w in zip(outs, dims, out_dims, strict=True)]

        avals = [batched_type(a, d, axis.size)
                 for a, d in zip(jaxpr.in_avals, in_dims, strict=True)]
        return trace_to_jaxpr(f, avals, jaxpr.debug_info), out_dims

    return jaxpr.cached(("batch", axis, in_dims, wanted, thread.settings), make)
