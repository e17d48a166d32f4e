"""The staging interpreter: records the operations that run under it as a jaxpr.

Everything is staged, operations on constants included (omnistaging). So the meaning of a traced
function does not depend on which values are known.
"""

from __future__ import annotations

import gc
import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mjax._engine.base.config import is_set_here
from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.records import Record
from mjax._engine.base.sockets import sockets
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import counted
from mjax._engine.ir.check import check_jaxpr
from mjax._engine.ir.dtypes import PYTHON_SCALARS, is_wide
from mjax._engine.ir.effects import Effects, no_effects
from mjax._engine.ir.jaxpr import (
    Atom,
    DebugInfo,
    Jaxpr,
    JaxprEqn,
    JaxprEqnContext,
    Literal,
    Var,
    no_debug_info,
    used_variables,
)
from mjax._engine.ir.source import (
    Scope,
    current_traceback,
    here,
    replayed,
    summarize,
    with_annotations,
    without_names,
)
from mjax._engine.ir.types import is_object_value, typeof
from mjax._engine.tracing.flat import check_arguments
from mjax._engine.tracing.interpreter import (
    Interpreter,
    Tracer,
    refuse_dead,
    register_tracer,
    running,
)
from mjax._engine.tracing.leaks import refuse_leaks
from mjax._engine.tracing.operands import OperandsVaryError, no_axes
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.rule_errors import as_jaxpr
from mjax._engine.tracing.rule_results import cast_varying, staged
from mjax._engine.tracing.variance import vary_alike, vary_along

_new_eqn = tuple.__new__
_new = object.__new__


@register_tracer
class StageTracer(Tracer):
    """A variable of a jaxpr under construction."""

    __slots__ = ("variable",)
    val = property(operator.attrgetter("variable"), doc="The variable, as JAX calls it.")

    def __init__(self, interp: StageInterpreter, var: Var):
        self.interp = interp
        self.aval = var.aval
        self.variable = var

    def concrete(self) -> Any:
        return self.interp.value_of(self.variable)  # type: ignore[attr-defined]

    def provenance(self) -> str:
        return self.interp.provenance_of(self.variable)  # type: ignore[attr-defined]


class TracingEqn(Record):
    """An equation of a program that is being staged, whose operands are tracers.

    Rules of `custom_staging_rules` make and record some: `trace.make_eqn(in_tracers, out_avals,
    primitive, params, effects, source_info, ctx)` gives one with the tracers of its results,
    `trace.frame.add_eqn(eqn)` records it, and `trace.emit_eqn` does both.

    Attributes:
      in_tracers: the operands.
      outvars: variables of the results.
      primitive, params, effects, source_info, ctx: those of the equation.

    Example:
      >>> from mjax_ext import core
      >>> from mjax_ext.interpreters import partial_eval as pe
      >>> trace = pe.DynamicJaxprTrace(None)
      >>> x = trace.new_arg(core.ShapedArray((3,), "float32"))
      >>> eqn, (y,) = trace.make_eqn([x], [x.aval], core.primitives.sin_p, {}, core.no_effects)
      >>> isinstance(eqn, pe.TracingEqn), trace.frame.add_eqn(eqn)
      (True, None)
      >>> trace.to_jaxpr([y])[0].eqns
      [a:f32[3] = sin b]

    Source: JAX, `partial_eval.TracingEqn` of release 0.10.2.
    """

    in_tracers: list[Any]
    outvars: list[Var]
    primitive: Primitive
    params: dict[str, Any]
    effects: Effects
    source_info: Any
    ctx: JaxprEqnContext

    @property
    def invars(self) -> list[Any]:
        """The operands."""
        return self.in_tracers


class StageInterpreter(Interpreter):
    """Collects equations. One instance traces one function once."""

    __slots__ = ("_const_vars", "casts", "consts", "constvars", "debug_info", "effects", "eqns",
                 "from_inputs", "invars", "originals")
    stages_all = True
    #: Whether the program is that of all arguments of these types.
    general = True

    def __init__(self, parent: Interpreter, debug_info: DebugInfo = no_debug_info):
        self.parent = parent
        self.alive = True
        self.debug_info = debug_info
        self.invars: list[Var] = []
        self.eqns: list[JaxprEqn] = []
        self.constvars: list[Var] = []
        self.consts: list[Any] = []
        self._const_vars: dict[int, Var] = {}
        #: Closed-over values that arrays replace as constants.
        self.originals: list[Any] = []
        self.effects = no_effects
        #: (variable, axes) -> that variable cast to vary along the axes.
        self.casts: dict[Any, Var] = {}
        #: The number of equations visited, and the variables that depend on inputs. Used only
        #: where authors write the casts.
        self.from_inputs: tuple[int, set[Any]] = (0, set())

    @property
    def name(self) -> str:  # type: ignore[override]  # in messages only
        return self.debug_info.traced_for or "jit"

    def new_arg(self, aval: Any) -> StageTracer:
        """A fresh input of the program."""
        var = Var(aval)
        self.invars.append(var)
        return StageTracer(self, var)

    def atom(self, value: Any) -> Atom:
        """The atom that stands for a value: its variable, a literal, or a constant's variable."""
        if type(value) is StageTracer and value.interp is self:
            return value.variable
        return self._lift(value)

    def _lift(self, value: Any) -> Atom:
        if type(value) in PYTHON_SCALARS:
            return Literal(value, typeof(value))
        known = self._const_vars.get(id(value))
        if known is not None:
            return known
        if isinstance(value, Tracer):
            if not value.interp.alive:
                refuse_dead(value)
            return self.constant(value, value.aval)
        aval = typeof(value)
        if aval.literal:
            # Scalars of this dtype stay as they are. Arrays do not: their owner may change them.
            if type(value) is not aval.dtype.type and isinstance(value, (np.generic, np.ndarray)):
                value = np.asarray(value, aval.dtype)[()]
            return Literal(value, aval)
        return self.constant(value, aval)

    def constant(self, value: Any, aval: Any) -> Var:
        """The variable of a closed-over value; one per object, however often it is used."""
        var = self._const_vars.get(id(value))
        if var is None:
            # Kept alive, here or in `consts`, so that its id is not reused.
            var = self._const_vars[id(value)] = Var(aval)
            if type(value) is np.ndarray and is_wide(value.dtype) and is_set_here("enable_x64"):
                # A literal would be typed anew elsewhere, where x64 may differ.
                self.originals.append(value)
                value = sockets.array_of_type(value, aval)
            self.constvars.append(var)
            self.consts.append(value)
        return var

    def stand_in(self, value: Any, tracer: StageTracer) -> None:
        """Makes a variable of the program stand for a value of another trace.

        Args:
          value: the value; the caller keeps it alive as long as this interpreter.
          tracer: the variable's.
        """
        self._const_vars[id(value)] = tracer.variable

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        invars: list[Any] = []
        key: list[Any] = [thread.settings]
        for arg in args:
            atom = (arg.variable if type(arg) is StageTracer and arg.interp is self
                    else self._lift(arg))
            invars.append(atom)
            key.append(atom.aval)
        if params:
            key += primitive.params_key(params) if primitive.exact_params else params.items()
        try:
            typed = primitive.types.get(tuple(key))
        except TypeError:  # a param is not hashable, as `type_of` will say
            typed = None
        if typed is None:
            if primitive.staging is not None and self.stages_all:
                return staged(primitive, [here(self), *map(self.tracer_of, invars)], params, self)
            if primitive.cast_varying is not None and thread.axis_env:
                invars, params = self.retyped(primitive, invars, params)
            typed = self.type_of(primitive, invars, params)
        out, effects = typed
        if effects:
            self.effects |= effects
        source = thread.source
        if source is None:
            source = current_traceback()
        elif type(source) is Scope:
            source = source.source_for(self)
        if primitive.multiple_results:
            outvars = [Var(aval) for aval in out]
            self.eqns.append(_new_eqn(JaxprEqn, (invars, outvars, primitive, params, effects,
                                                 source)))
            return [StageTracer(self, var) for var in outvars]
        # The same as `Var(out)` and `StageTracer(self, var)`, at half the cost.
        var, tracer = _new(Var), _new(StageTracer)
        var.aval = tracer.aval = out
        tracer.interp, tracer.variable = self, var
        self.eqns.append(_new_eqn(JaxprEqn, (invars, [var], primitive, params, effects, source)))
        return tracer

    def tracer_of(self, atom: Any) -> StageTracer:
        """The tracer of an atom of the program."""
        return StageTracer(self, atom)

    def default_process_primitive(self, primitive: Primitive, tracers: Sequence[Any],
                                  params: dict[str, Any], source_info: Any = None) -> Any:
        """Records one equation, whether the primitive has a rule `staging` or not.

        Args:
          primitive: the primitive.
          tracers: its operands.
          params: its params.
          source_info: the equation's; None: that of the present call.
        """
        invars: list[Any] = list(map(self.atom, tracers))
        if primitive.cast_varying is not None and thread.axis_env:
            invars, params = self.retyped(primitive, invars, params)
        out, effects = self.type_of(primitive, invars, params)
        self.effects |= effects
        outs = list(map(Var, out if primitive.multiple_results else [out]))
        self.eqns.append(JaxprEqn(invars, outs, primitive, params, effects,
                                  source_info or here(self)))
        found = list(map(self.tracer_of, outs))
        return found if primitive.multiple_results else found[0]

    @property
    def frame(self) -> StageInterpreter:
        """The part of the trace that JAX adds equations to: itself."""
        return self

    def make_eqn(self, in_tracers: Sequence[Any], out_avals: Sequence[Any], primitive: Primitive,
                 params: dict[str, Any], effects: Effects, source_info: Any = None,
                 ctx: JaxprEqnContext | None = None) -> tuple[TracingEqn, list[StageTracer]]:
        """An equation of these types that is not recorded yet, and the tracers of its results."""
        outvars = list(map(Var, out_avals))
        eqn = TracingEqn(list(in_tracers), outvars, primitive, params, effects,
                         source_info or here(self), ctx or JaxprEqnContext())
        return eqn, list(map(self.tracer_of, outvars))

    def add_eqn(self, eqn: TracingEqn) -> None:
        """Records an equation. Nobody compares its types with the primitive's."""
        self.effects |= eqn.effects
        self.eqns.append(JaxprEqn(
            list(map(self.atom, eqn.in_tracers)), list(eqn.outvars), eqn.primitive, eqn.params,
            frozenset(eqn.effects), with_annotations(eqn.source_info, eqn.ctx.annotations)))

    def emit_eqn(self, *args: Any, **kwargs: Any) -> list[StageTracer]:
        """Makes and records an equation, with the arguments of `make_eqn`; gives its results."""
        eqn, outs = self.make_eqn(*args, **kwargs)
        self.add_eqn(eqn)
        return outs

    def type_of(self, primitive: Primitive, invars: list[Any], params: dict[str, Any]) -> Any:
        """Result types and effects of an equation; `invars` are made to vary alike, in place."""
        try:
            return primitive.type_of(tuple([v.aval for v in invars]), params)
        except OperandsVaryError as error:
            invars[:] = vary_alike(self, invars, error)
            return primitive.type_of(tuple([v.aval for v in invars]), params)

    def retyped(self, primitive: Primitive, invars: list[Any], params: dict[str, Any]
                ) -> tuple[list[Any], dict[str, Any]]:
        """The application of a primitive that holds jaxprs, with matching types."""
        given = [v.aval.varying for v in invars]
        wanted, params = cast_varying(primitive, given, params)
        operands = invars
        if wanted != given:
            invars = vary_along(self, invars, wanted, OperandsVaryError(lambda: (
                f"the programs inside of {primitive.name} make carries or results vary along more "
                "mesh axes than its operands do: "
                + ", ".join(f"{v.aval} has to vary along {set(w)}" for v, w in
                            zip(operands, wanted, strict=True) if v.aval.varying != w)
                + ". Cast these with mjax.lax.pcast(x, axes, to='varying').")))
        return invars, params

    def emit(self, primitive: Primitive, invars: list[Any], params: dict[str, Any]) -> Var:
        """Adds an equation with one result on atoms."""
        out, effects = primitive.type_of(tuple([v.aval for v in invars]), params)
        var = Var(out)
        self.eqns.append(JaxprEqn(invars, [var], primitive, params, effects,
                                  here(self)))
        return var

    def build(self, outs: Sequence[Atom]) -> Jaxpr:
        """The jaxpr with these results."""
        jaxpr = Jaxpr(self.constvars, self.invars, outs, self.eqns, self.effects,
                      self.debug_info, consts=self.consts)
        if thread.options.enable_checks:
            check_jaxpr(jaxpr)
        return jaxpr

    def value_of(self, variable: Var) -> Any:
        """The value of a variable if Python code may read it; else None."""
        return None

    # -- texts --

    def describe_origin(self, tracer: StageTracer) -> str:
        """Says where a tracer of this interpreter came from."""
        where = f" It was made while tracing {self.debug_info.func_src_info}"
        for eqn in self.eqns:
            if tracer.variable in eqn.outvars:
                return f"{where}, by {eqn.primitive.name} at {summarize(eqn.source)}."
        if tracer.variable in self.invars:
            return f"{where}, as {self.debug_info.arg_name(self.invars.index(tracer.variable))}."
        return where + "."

    def provenance_of(self, var: Var) -> str:
        """Names the arguments that a variable depends on."""
        needed: set[Any] = {var}
        for eqn in reversed(self.eqns):
            if needed.intersection(eqn.outvars):
                needed.update(v for v in eqn.invars if type(v) is not Literal)
        names = [self.debug_info.arg_name(i).removeprefix("argument ")
                 for i, v in enumerate(self.invars) if v in needed]
        text = f"\nThe function is {self.debug_info.func_src_info}"
        if names:
            text += f"; the value depends on its {'arguments' if len(names) > 1 else 'argument'} "
            text += ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        return text + "."


def stage(f: Callable[..., Sequence[Any]], in_avals: Sequence[Any],
          debug_info: DebugInfo = no_debug_info,
          interp: StageInterpreter | None = None) -> Jaxpr:
    """Traces a function of flat values to a jaxpr.

    Args:
      f: takes one value per type and gives a sequence of values.
      in_avals: types of the inputs.
      debug_info: names for messages.
      interp: a fresh interpreter for it, whose parent is the current one.

    Returns:
      A jaxpr whose `consts` are the values `f` closed over: arrays and tracers of outer traces.
    """
    if interp is None:
        interp = StageInterpreter(thread.interpreter)
    interp.debug_info = debug_info
    jaxpr = interp.build(_run(interp, f, in_avals))
    refuse_leaks(interp)
    return jaxpr


def _run(interp: StageInterpreter, f: Callable[..., Sequence[Any]], in_avals: Sequence[Any]
         ) -> list[Atom]:
    """Calls the function; returns the atoms of its results, and keeps no tracer."""
    with patient_collector, without_names(), running(interp):
        outs = f(*[interp.new_arg(aval) for aval in in_avals])
        try:
            return [interp.atom(out) for out in outs]
        except (TypeError, OverflowError):
            _name_bad_result(f, outs, interp.debug_info)
            raise


def _name_bad_result(f: Callable[..., Any], outs: Sequence[Any], debug_info: DebugInfo) -> None:
    """Raises the error for a result that is not an array, with its key path if there is one."""
    tree = getattr(f, "out_tree", None)
    check_arguments(debug_info.func_src_info, list(outs) if tree is None else tree.unflatten(outs),
                    "result")


def trace_to_jaxpr(f: Callable[..., Sequence[Any]], in_avals: Sequence[Any],
                           debug_info: DebugInfo = no_debug_info) -> Jaxpr:
    """`stage` with evaluation as outer interpreter, for programs that outlive this trace."""
    previous, thread.interpreter = thread.interpreter, ThreadState.interpreter
    try:
        return stage(f, in_avals, debug_info)
    finally:
        thread.interpreter = previous


def eval_jaxpr(jaxpr: Jaxpr, consts: Sequence[Any], *args: Any,
               propagate_source_info: bool = True) -> list[Any]:
    """Evaluates a jaxpr under the current interpreter.

    Args:
      jaxpr: the program.
      consts: values of its constants (`jaxpr.consts`).
      args: values of its inputs.
      propagate_source_info: whether what is staged has the sources of its equations, rather than
        that of this call.

    Returns:
      The list of results. Goes through the current interpreter, so that it can itself be
      transformed. No value is held after its last use.

    Raises:
      TypeError: `jaxpr` is not a jaxpr; there are more or fewer values than constants or inputs; a
        ValueError, too.

    Example:
      >>> from mjax_ext import core
      >>> jaxpr = mjax.make_jaxpr(lambda x: lax.mul(x, 2.0))(1.0)
      >>> core.eval_jaxpr(jaxpr, jaxpr.consts, 3.0)
      [Array(6., dtype=float32, weak_type=True)]
    """
    try:
        jaxpr = settled(jaxpr)
    except AttributeError:
        as_jaxpr("eval_jaxpr", jaxpr)
        raise
    try:
        env = constants_of(jaxpr, consts)
        env.update(zip(jaxpr.invars, args, strict=True))
    except ValueError:
        raise LazyArgumentError(lambda: (
            f"a jaxpr of {counted(len(jaxpr.constvars), 'constant')} and "
            f"{counted(len(jaxpr.invars), 'input')}, of types "
            f"{', '.join(map(str, jaxpr.in_avals)) or 'none'}, was called with "
            f"{counted(len(consts), 'constant')} and {counted(len(args), 'argument')}.")) from None
    outer = thread.source
    scoped = type(outer) is Scope
    try:
        for (invars, outvars, primitive, params, _, source), last in zip(
                jaxpr.eqns, last_uses(jaxpr), strict=True):
            if propagate_source_info:
                thread.source = replayed(source, outer) if scoped else source
            values = tuple([v.val if type(v) is Literal else env[v] for v in invars])
            out = thread.interpreter.process(primitive, values, params)
            if primitive.multiple_results:
                env.update(zip(outvars, out, strict=True))
            else:
                env[outvars[0]] = out
            for var in last:
                del env[var]
    finally:
        thread.source = outer
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def settled(jaxpr: Jaxpr) -> Jaxpr:
    """The program with arrays for literals whose types would differ now.

    Types of Python and NumPy numbers depend on x64, which may have changed since the trace.
    """
    return jaxpr.cached(("settled", thread.settings.enable_x64),
                        lambda: _settled(jaxpr) or False) or jaxpr


def _settled(jaxpr: Jaxpr) -> Jaxpr | None:
    changed = False

    def atom(a: Atom) -> Atom:
        nonlocal changed
        if type(a) is not Literal or _has_type(a.val, a.aval):
            return a
        changed = True
        return Literal(sockets.array_of_type(a.val, a.aval.with_varying(no_axes)), a.aval)

    eqns = [eqn._replace(invars=list(map(atom, eqn.invars))) for eqn in jaxpr.eqns]
    outvars = list(map(atom, jaxpr.outvars))
    return jaxpr.replace(eqns=eqns, outvars=outvars) if changed else None


def _has_type(value: Any, aval: Any) -> bool:
    """Whether a value has a dtype under the settings in force."""
    try:
        return bool(typeof(value).dtype == aval.dtype)
    except OverflowError:
        return False


def constants_of(jaxpr: Jaxpr, consts: Sequence[Any]) -> dict[Any, Any]:
    """Pairs of each constant's variable and its value, which has the variable's type.

    Raises:
      ValueError: there are more or fewer values than variables.
    """
    return {v: c if type(c) is not np.ndarray or _has_type(c, v.aval) else
            sockets.array_of_type(c, v.aval) for v, c in zip(jaxpr.constvars, consts, strict=True)}


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation, the variables without a later reader; cached on the jaxpr."""

    def make() -> list[list[Var]]:
        used: set[Any] = used_variables(jaxpr.outvars)
        uses = []
        for eqn in reversed(jaxpr.eqns):
            last = used_variables([*eqn.invars, *eqn.outvars]) - used
            used |= last
            uses.append(list(last))
        return uses[::-1]

    return jaxpr.cached("last_uses", make)


def lift_tracers(jaxpr: Jaxpr) -> tuple[Jaxpr, list[Any]]:
    """Turns constants that are tracers into leading inputs; returns the program and the tracers.

    Jaxprs that outlive a trace (those in params, those in caches) hold no tracer of it. Objects of
    authors' classes, which stand for several arrays, are treated alike. Arrays stay constants.
    """
    moved = [isinstance(c, Tracer) or is_object_value(c) for c in jaxpr.consts]
    if not any(moved):
        return jaxpr, []
    kept = [i for i, m in enumerate(moved) if not m]
    values = [c for c, m in zip(jaxpr.consts, moved, strict=True) if m]
    lifted = jaxpr.replace(
        constvars=[jaxpr.constvars[i] for i in kept], consts=[jaxpr.consts[i] for i in kept],
        invars=[v for v, m in zip(jaxpr.constvars, moved, strict=True) if m] + jaxpr.invars,
        debug_info=jaxpr.debug_info._replace(arg_names=(
            *("a closed-over value" for _ in values), *(jaxpr.debug_info.arg_names or ()))))
    return lifted, values


# ---- the collector ---------------------------------------------------------------------

class _PatientCollector:
    """Raises the collector's threshold while any trace is open.

    A trace allocates objects that all stay alive; scanning them again and again is most of
    the cost of tracing a long program (1.0 µs per equation grows to 3.3 at 100,000).
    """

    def __init__(self) -> None:
        self.lock, self.open_traces, self.threshold = threading.Lock(), 0, (0, 0, 0)

    def __enter__(self) -> None:
        with self.lock:
            if self.open_traces == 0:
                self.threshold = gc.get_threshold()
                if 0 < self.threshold[0] < 200_000:
                    gc.set_threshold(200_000, 50, 1000)
            self.open_traces += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.open_traces -= 1
            if self.open_traces == 0:
                gc.set_threshold(*self.threshold)


patient_collector = _PatientCollector()
