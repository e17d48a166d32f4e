"""Values of the variables of a `shard_map` that is called outside of programs.

The body is staged. When Python asks for a value that all devices share (`if lax.psum(...) > 0`),
the equations staged since the last question run, once, effects included. Results that Python still
refers to stay on the devices, and the body continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from mjax._engine.base.thread import thread
from mjax._engine.ir.effects import no_effects
from mjax._engine.ir.jaxpr import Atom, Jaxpr, JaxprEqn, Var, used_variables
from mjax._engine.ir.mesh import PartitionSpec
from mjax._engine.primitives.shapes import broadcast_in_dim_p, squeeze_p
from mjax._engine.spmd.shard_map_rules import residual_spec
from mjax._engine.spmd.shard_map_types import WHOLE, Region
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import Tracer, call_with
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import StageInterpreter, StageTracer, lift_tracers
from mjax._engine.transforms.jvp import JVPInterpreter
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter

Given = list[tuple[Any, PartitionSpec]]


class ValuesInterpreter(StageInterpreter):
    """Stages a body whose arguments have values, and runs it as far as Python asks for values.

    Args:
      region: the mesh and its axes.
      given: the arguments to be cut, and their specs.
      check: refuses programs, before they run.
      once: replaces a program by an equal one that may have run before.
    """

    __slots__ = ("around", "check", "general", "given", "known", "once", "ran", "region",
                 "tracers")

    def __init__(self, region: Region, given: Given, check: Callable[[Jaxpr], None],
                 once: Callable[[int, Jaxpr], Jaxpr]):
        super().__init__(thread.interpreter)
        self.region, self.given, self.check, self.once = region, given, check, once
        self.around = thread.axis_env
        self.general = True
        #: The number of equations that have run.
        self.ran = 0
        #: Variables of these that may be needed: their values in whole, and specs.
        self.known: dict[Var, tuple[Any, PartitionSpec]] = {}
        self.tracers: WeakValueDictionary[Var, StageTracer] = WeakValueDictionary()

    def process(self, primitive: Primitive, args: tuple[Any, ...], params: dict[str, Any]) -> Any:
        out = super().process(primitive, args, params)
        for tracer in out if primitive.multiple_results else (out,):
            self.tracers[tracer.variable] = tracer
        return out

    def value_of(self, variable: Var) -> Any:
        """The value of a variable that is the same on all devices."""
        if variable.aval.varying & self.region.manual_axes or not has_values(self.parent):
            return None
        if variable not in self.known:
            self.run(variable)
        value = self.known[variable][0]
        return value.concrete() if isinstance(value, Tracer) else value

    def run(self, variable: Var) -> None:
        """Runs the remaining equations, and keeps all results that may be needed."""
        eqns = self.eqns[self.ran:]
        alive = {variable, *self.tracers, *self.casts.values(), *self._const_vars.values()}
        outs = [v for eqn in eqns for v in eqn.outvars if v in alive]
        if variable not in outs:
            outs.append(variable)  # an input
        specs = [residual_spec(self.region, v.aval, frozenset()) for v in outs]
        leaving, stored = [], []
        for v, spec in zip(outs, specs, strict=True):
            w = v if spec is WHOLE else Var(v.aval.update(shape=(1, *v.aval.shape)))
            stored.append(w)
            if w is not v:
                leaving.append(_equation(broadcast_in_dim_p, v, w, {
                    "shape": w.aval.shape,
                    "broadcast_dimensions": tuple(range(1, w.aval.ndim))}))
        jaxpr, held = self.program([*eqns, *leaving], stored)
        jaxpr, consts = lift_tracers(jaxpr)
        self.check(jaxpr)
        args: Given = [*((c, WHOLE) for c in consts), *self.given, *held]
        inside, thread.axis_env = thread.axis_env, self.around
        try:
            values = call_with(self.parent, self.region.apply, self.once(self.ran, jaxpr),
                               [x for x, _ in args], [s for _, s in args], specs)
        finally:
            thread.axis_env = inside
        self.known = {v: x for v, x in self.known.items() if v in alive}
        self.known.update(zip(outs, zip(values, specs, strict=True), strict=True))
        self.ran, self.general = len(self.eqns), False

    def program(self, eqns: Sequence[JaxprEqn], outs: Sequence[Atom]) -> tuple[Jaxpr, Given]:
        """A program of the inputs and of known values, and these with their specs."""
        used = used_variables([*outs, *(a for eqn in eqns for a in eqn.invars)])
        entering, invars, held = [], list(self.invars), []
        for v, (value, spec) in self.known.items():
            if v in used and v not in self.invars:
                w = v if spec is WHOLE else Var(v.aval.update(shape=(1, *v.aval.shape)))
                if w is not v:
                    entering.append(_equation(squeeze_p, w, v, {"dimensions": (0,)}))
                invars.append(w)
                held.append((value, spec))
        eqns = [*entering, *eqns]
        return Jaxpr(self.constvars, invars, outs, eqns,
                     no_effects.union(*(eqn.effects for eqn in eqns)), self.debug_info,
                     consts=self.consts), held

    def build(self, outs: Sequence[Atom]) -> Jaxpr:
        """The remaining program, as a function of the inputs and of values now in `given`."""
        if self.general:
            return super().build(outs)
        jaxpr, held = self.program(self.eqns[self.ran:], outs)
        self.given = [*self.given, *held]
        return self.once(self.ran, jaxpr)


def has_values(interp: Any) -> bool:
    """Whether an interpreter computes at once: evaluation, and derivatives outside of programs."""
    while isinstance(interp, (JVPInterpreter, PartialEvalInterpreter)):
        interp = interp.parent
    return interp is evaluation


def _equation(primitive: Primitive, given: Var, result: Var, params: dict[str, Any]) -> JaxprEqn:
    return JaxprEqn([given], [result], primitive, params, no_effects, None)


__all__ = ["ValuesInterpreter"]
