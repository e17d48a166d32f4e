"""Concrete traces and tracers under JAX's names, for those who make or look for them.

Each class is the engine's in JAX's spelling: `isinstance` is true for what the engine made, too.
Interpreters of one's own derive from `mjax_ext.core.Interpreter` or `mjax_ext.core.Trace`, not from
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var, no_debug_info
from mjax._engine.ir.types import typeof
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.stage import StageInterpreter, StageTracer
from mjax._engine.tracing.symbolic import Zero
from mjax._engine.transforms import batching as engine_batching
from mjax._engine.transforms.batching import AxisData, BatchInterpreter
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter


class _Spelling(type):
    """The class of classes whose instances are all those of a class of the engine."""

    def __instancecheck__(cls, instance: Any) -> bool:
        engine = vars(cls).get("engine")
        return type.__instancecheck__(cls, instance) if engine is None else (
            isinstance(instance, engine) and cls.is_one(instance))

    def is_one(cls, instance: Any) -> bool:
        """Whether an instance of the engine's class is one of this class."""
        return True


class JVPTrace(JVPInterpreter, metaclass=_Spelling):
    """The trace of forward-mode differentiation.

    `mjax.jvp` is the function for it. A trace by hand pushes the tangents of `JVPTracer`s.

    Args:
      parent_trace: the trace that runs the rules.
      tag: kept for those who look for it. A tracer belongs to the trace that made it.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import ad
      >>> with core.take_current_trace() as parent:
      ...   trace = ad.JVPTrace(parent, core.TraceTag())
      ...   with core.set_current_trace(trace):
      ...     out = lax.mul(ad.JVPTracer(trace, 3.0, 1.0), 2.0)
      >>> float(out.primal), float(out.tangent)
      (6.0, 2.0)

    Source: JAX, `jax.interpreters.ad.JVPTrace`.
    """

    __slots__ = ("tag",)
    engine = JVPInterpreter

    def __init__(self, parent_trace: Any, tag: Any = None):
        super().__init__(parent_trace)
        self.tag: Any = tag

    def to_primal_tangent_pair(self, val: Any) -> tuple[Any, Any]:
        """A value's primal and its tangent, a `Zero` for a constant."""
        if type(val) is JVPTracer and val.interp is self:
            return val.primal, val.tangent
        return val, Zero.from_primal_value(val)


class BatchTrace(BatchInterpreter, metaclass=_Spelling):
    """The trace of vectorization.

    `mjax.vmap` is the function for it. A trace by hand applies batching rules to `BatchTracer`s.

    Args:
      parent_trace: the trace that runs the rules.
      tag: kept for those who look for it. A tracer belongs to the trace that made it.
      axis_data: the axis, an `AxisData`.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import batching
      >>> with core.take_current_trace() as parent:
      ...   trace = batching.BatchTrace(parent, core.TraceTag(), batching.AxisData("i", 3))
      ...   with core.set_current_trace(trace):
      ...     out = lax.neg(batching.BatchTracer(trace, jnp.arange(3), 0))
      >>> out.val, out.batch_dim, out.shape
      (Array([ 0, -1, -2], dtype=int32), 0, ())

    Source: JAX, `batching.BatchTrace` of release 0.10.2.
    """

    __slots__ = ("tag",)
    engine = BatchInterpreter

    def __init__(self, parent_trace: Any, tag: Any, axis_data: AxisData):
        super().__init__(parent_trace, axis_data)
        self.tag: Any = tag

    def to_batch_info(self, val: Any) -> tuple[Any, int | None]:
        """A value's batch and its batch dimension; the value and None for a constant."""
        if type(val) is engine_batching.BatchTracer and val.interp is self:
            return val.value, val.dim
        return val, None


class BatchTracer(metaclass=_Spelling):
    """A batch of values, seen as one of them.

    Args:
      trace: its `BatchTrace`.
      val: the batch.
      batch_dim: the axis of the batch.
      source_info: not kept.

    Attributes:
      val, batch_dim: those of the batch.
      aval, shape, dtype: those of one element.

    Raises:
      ValueError: the batch does not have this axis.

    Example:
      >>> from mjax_ext.interpreters import batching
      >>> mjax.vmap(lambda x: (print(isinstance(x, batching.BatchTracer)), x)[1])(jnp.ones(2))
      True
      Array([1., 1.], dtype=float32)

    Source: JAX, `batching.BatchTracer` of release 0.10.2.
    """

    engine = engine_batching.BatchTracer

    def __new__(cls, trace: Any, val: Any, batch_dim: int,
                source_info: Any = None) -> Any:
        if isinstance(batch_dim, np.integer):
            batch_dim = int(batch_dim)
        if not isinstance(batch_dim, int) or typeof(val).axis_size(batch_dim) is None:
            msg = (f"BatchTracer: a value of type {typeof(val)} has no axis {batch_dim!r}. A value "
                   "that is the same for all elements needs no tracer.")
            raise ValueError(msg)
        return engine_batching.BatchTracer(trace, val, batch_dim)


class DynamicJaxprTrace(StageInterpreter, metaclass=_Spelling):
    """The trace that stages a program.

    `mjax.make_jaxpr` is the function for it, and `core.JaxprBuilder` writes a program without a
    trace. A trace by hand makes inputs with `new_arg`, records what runs under it, and ends with
    `to_jaxpr`.

    Args:
      debug_info: names for messages.
      parent_trace: the trace around it; by default evaluation.
      lower: not needed: mjax does not have high-level types.
      auto_dce: not done. `partial_eval.dce_jaxpr` removes equations without a reader.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> trace = partial_eval.DynamicJaxprTrace(None)
      >>> x = trace.new_arg(core.ShapedArray((3,), "float32"))
      >>> with core.set_current_trace(trace):
      ...   y = lax.sin(x)
      >>> jaxpr, consts = trace.to_jaxpr([y])
      >>> jaxpr.eqns
      [a:f32[3] = sin b]

    Source: JAX, `partial_eval.DynamicJaxprTrace` of release 0.10.2.
    """

    __slots__ = ("tag",)
    engine = StageInterpreter

    def __init__(self, debug_info: DebugInfo | None = None, parent_trace: Any = None,
                 lower: bool = False, auto_dce: bool = False):
        super().__init__(parent_trace or evaluation, debug_info or no_debug_info)

    def new_arg(self, aval: Any, source_info: Any = None) -> StageTracer:
        """A new input of a type."""
        return super().new_arg(aval)

    def to_jaxpr_tracer(self, x: Any, source_info: Any = None) -> Any:
        """The tracer of a value; one of another trace, or an array, becomes a constant."""
        if type(x) is StageTracer and x.interp is self:
            return x
        atom = self.atom(x)
        return StageTracer(self, atom) if isinstance(atom, Var) else x

    def to_jaxpr(self, out_tracers: Sequence[Any], debug_info: DebugInfo | None = None,
                 source_info: Any = None) -> tuple[Jaxpr, list[Any]]:
        """Ends the trace; gives the program of these results, and the values of its constants."""
        if debug_info is not None:
            self.debug_info = debug_info
        jaxpr = self.build(list(map(self.atom, out_tracers)))
        self.invalidate()
        return jaxpr, jaxpr.consts

    @classmethod
    def is_one(cls, instance: Any) -> bool:
        """Not the unknown part of a partial evaluation."""
        return not isinstance(instance, PartialEvalInterpreter)


class DynamicJaxprTracer(metaclass=_Spelling):
    """A variable of a program that is being staged.

    Only a trace makes them: `DynamicJaxprTrace.new_arg`.

    Attributes:
      val: the variable.
      aval: its type.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> seen = []
      >>> jaxpr = mjax.make_jaxpr(lambda x: (seen.append(x), x)[1])(1.0)
      >>> isinstance(seen[0], partial_eval.DynamicJaxprTracer)
      True

    Source: JAX, `jax.interpreters.partial_eval.DynamicJaxprTracer`.
    """

    engine = StageTracer

    def __new__(cls, trace: Any, aval: Any, val: Var,  # type: ignore[misc]
                line_info: Any = None, parent: Any = None) -> StageTracer:
        return StageTracer(trace, val)

    @classmethod
    def is_one(cls, instance: Any) -> bool:
        """Not the unknown values of a partial evaluation."""
        return not isinstance(instance.interp, PartialEvalInterpreter)


class JaxprTrace(PartialEvalInterpreter, metaclass=_Spelling):
    """The trace of partial evaluation: known values are computed, and the rest is staged.

    `partial_eval.trace_to_jaxpr_nounits` is the function for it. A trace by hand makes unknown
    inputs with `new_arg`; `partial_eval.tracers_to_jaxpr` gives the program between its values.

    Args:
      parent_trace: the trace that runs what is known.
      name_stack: not kept.
      tag: kept for those who look for it. A tracer belongs to the trace that made it.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval
      >>> with core.take_current_trace() as parent:
      ...   trace = partial_eval.JaxprTrace(parent, (), core.TraceTag())
      ...   x = trace.new_arg(partial_eval.PartialVal.unknown(mjax.typeof(1.0)))
      ...   with core.set_current_trace(trace):
      ...     outs = lax.mul(lax.sin(2.0), x), lax.cos(2.0)
      >>> [isinstance(out, partial_eval.JaxprTracer) for out in outs]
      [True, False]

    Source: JAX, `partial_eval.JaxprTrace` of release 0.10.2.
    """

    __slots__ = ("tag",)
    engine = PartialEvalInterpreter

    def __init__(self, parent_trace: Any, name_stack: Any = (), tag: Any = None):
        super().__init__(parent_trace)
        self.tag: Any = tag

    def new_arg(self, pval: Any) -> Any:
        """An input: an unknown value of the type, or the known value, of a `PartialVal`."""
        if not isinstance(pval, tuple):
            return super().new_arg(pval)
        aval, value = pval
        return value if aval is None else super().new_arg(aval)

    def new_const(self, val: Any) -> Any:
        """A known value is itself."""
        return val

    def to_jaxpr_tracer(self, x: Any) -> Any:
        """The same."""
        return x

    def instantiate_const(self, tracer: Any) -> StageTracer:
        """A value as an unknown one."""
        atom = self.atom(tracer)
        return self.tracer_of(atom if isinstance(atom, Var) else self.constant(tracer, atom.aval))


class JaxprTracer(metaclass=_Spelling):
    """An unknown value of a partial evaluation, which makes it. Known values do not have tracers.

    Example:
      >>> from mjax_ext.interpreters import partial_eval
      >>> isinstance(1.0, partial_eval.JaxprTracer)
      False

    Source: JAX, `jax.interpreters.partial_eval.JaxprTracer`.
    """

    engine = StageTracer

    def __new__(cls, *args: Any) -> Any:
        msg = ("JaxprTracer: only a partial evaluation makes unknown values. "
               "partial_eval.partial_eval_jaxpr does it for jaxprs.")
        raise TypeError(msg)

    @classmethod
    def is_one(cls, instance: Any) -> bool:
        """Only the unknown values of a partial evaluation."""
        return isinstance(instance.interp, PartialEvalInterpreter)

