"""The engine's applications of rules without any check, for `benchmarks.checks`.

These are the same functions as the engine would have them if it trusted all rules and operands:
they unpack results and make tracers, but look at no form, at no number and at no effect, and type
no application. They compare tangents with primals and cotangents with operands, by identity, as
rules may return ones that vary along fewer mesh axes: these are cast.
"""

from __future__ import annotations

from typing import Any

from mjax._engine.base.thread import thread
from mjax._engine.control.calls.call_primitive import TakesFunctions
from mjax._engine.ir.jaxpr import Literal
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.tangents import add_tangents, zero_tangent
from mjax._engine.tracing.evaluate import evaluation
from mjax._engine.tracing.interpreter import call_with
from mjax._engine.tracing.rule_errors import name_rule
from mjax._engine.tracing.rule_results import apply_rule
from mjax._engine.tracing.stage import StageInterpreter, StageTracer
from mjax._engine.tracing.symbolic import UndefinedPrimal, Zero
from mjax._engine.tracing.variance import vary_as
from mjax._engine.transforms.batching import BatchTracer, _element_types
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer, tracer_of


def cast(interp: Any, out: Any, tangent: Any) -> Any:
    """A tracer whose tangent varies along the mesh axes of its primal."""
    wanted = typeof(out).to_tangent()
    varying = call_with(interp.parent, vary_as, tangent, typeof(tangent), wanted)
    return tracer_of(interp, out, tangent if varying is None else varying, typeof(out))


def jvp_process(self: Any, primitive: Any, args: Any, params: Any) -> Any:
    """`JVPInterpreter.process`."""
    primals: list[Any] = []
    tangents: list[Any] = []
    constants: list[int] = []
    constant = True
    for arg in args:
        if type(arg) is JVPTracer and arg.interp is self:
            primals.append(arg.primal)
            tangents.append(arg.tangent)
            constant = False
        else:
            constants.append(len(primals))
            primals.append(arg)
            tangents.append(None)
    thread.interpreter = self.parent
    if constant and not primitive.always:
        try:
            return self.parent.process(primitive, args, params)
        finally:
            thread.interpreter = self
    try:
        for i in constants:
            tangents[i] = Zero(typeof(primals[i]).to_tangent())
        out, tangent = self.differentiate(primitive, primals, tangents, params)
        thread.interpreter = self
        if primitive.multiple_results:
            return [o if type(t) is Zero else tracer_of(self, o, t, o.aval)
                    if t.aval is o.aval else cast(self, o, t) for o, t in zip(out, tangent)]
        if type(tangent) is Zero:
            return out
        aval = out.aval
        return tracer_of(self, out, tangent, aval) if tangent.aval is aval else cast(
            self, out, tangent)
    except BaseException:
        thread.interpreter = self
        raise


def batch_process(self: Any, primitive: Any, args: Any, params: Any) -> Any:
    """`BatchInterpreter.process`."""
    values: list[Any] = []
    dims: list[int | None] = []
    batched = False
    for arg in args:
        if type(arg) is BatchTracer and arg.interp is self:
            values.append(arg.value)
            dims.append(arg.dim)
            batched = True
        else:
            values.append(arg)
            dims.append(None)
    thread.interpreter = self.parent
    if (not batched and not primitive.always
            and (primitive.axis_batch is None or not self.names_axis(primitive, params))
            and (primitive.frame is None or not primitive.frame.writes(params))):
        try:
            return self.parent.process(primitive, args, params)
        finally:
            thread.interpreter = self
    try:
        out, dim = self.apply(primitive, args, values, dims, params)
        thread.interpreter = self
        if primitive.multiple_results:
            try:
                return [o if d is None else BatchTracer(self, o, d, _element_types.get((o.aval, d)))
                        for o, d in zip(out, dim)]
            except TypeError:  # One dimension for all.
                return [BatchTracer(self, o, dim, _element_types.get((o.aval, dim))) for o in out]
        return out if dim is None else BatchTracer(
            self, out, dim, _element_types.get((out.aval, dim)))
    except BaseException:
        thread.interpreter = self
        raise


def linearized(self: Any, primitive: Any, primals: Any, tangents: Any, params: Any) -> Any:
    """`LinearizeInterpreter.differentiate`."""
    rule = primitive.linearize
    if rule is None:
        pair = JVPInterpreter.differentiate(self, primitive, primals, tangents, params)
        outs, _ = pair
        unknown = any([type(out) is StageTracer and out.interp is self.parent for out in outs]) if (
            primitive.multiple_results) else type(outs) is StageTracer and (
                outs.interp is self.parent)
        if unknown:
            msg = "the programs of the benchmark have no such rule"
            raise NotImplementedError(msg)
        return pair
    nonzeros = [type(t) is not Zero for t in tangents]
    try:
        out, nonzero_out, residuals, linear = self.parent.call_known(
            rule, nonzeros, *primals, **params)
        tangent = self.parent.call_staged(linear, residuals, *tangents)
    except Exception as error:
        name_rule(error, primitive, "linearize", params)
        raise
    if not primitive.multiple_results:
        return out, tangent if nonzero_out else zero_tangent(out)
    return out, [t if nz else zero_tangent(o)
                 for o, nz, t in zip(out, nonzero_out, tangent, strict=True)]


def transpose_equation(eqn: Any, values: Any, cotangents: Any) -> None:
    """`transpose._transpose_equation`."""
    invars, outvars, primitive, params, _, _ = eqn
    if primitive.multiple_results:
        ct: Any = [cotangents.pop(v, None) for v in outvars]
        if all(c is None for c in ct):
            return
        ct = [Zero(v.aval.to_cotangent()) if c is None else c
              for v, c in zip(outvars, ct, strict=True)]
    else:
        ct = cotangents.pop(outvars[0], None)
        if ct is None:
            return
    rule = primitive.transpose or primitive.missing(
        "transpose", operands=len(invars), params=params)
    operands = [a.val if type(a) is Literal else values[a] if a in values
                else UndefinedPrimal(a.aval) for a in invars]
    try:
        results = rule(ct, *operands, **params)
    except Exception as error:
        name_rule(error, primitive, "transpose", params)
        raise
    for atom, operand, result in zip(invars, operands, results):
        if type(operand) is UndefinedPrimal and result is not None and type(result) is not Zero:
            try:
                if result.aval is not atom.aval:
                    varying = vary_as(result, typeof(result), atom.aval.to_cotangent())
                    result = result if varying is None else varying
            except AttributeError:  # NumPy arrays do not vary.
                pass
            known = cotangents.get(atom)
            cotangents[atom] = result if known is None else add_tangents(known, result)


def partial_eval_process(self: Any, primitive: Any, args: Any, params: Any) -> Any:
    """`PartialEvalInterpreter.process`."""
    for arg in args:
        if type(arg) is StageTracer and arg.interp is self:
            if primitive.partial_eval is None:
                return StageInterpreter.process(self, primitive, args, params)
            return apply_rule(primitive, "partial_eval", [self, *args], params)
    if not self.effects_known and primitive.effects_of(list(map(typeof, args)), params):
        return StageInterpreter.process(self, primitive, args, params)
    thread.interpreter = self.parent
    try:
        return self.parent.process(primitive, args, params)
    finally:
        thread.interpreter = self


def trace_process(self: Any, primitive: Any, args: Any, params: Any) -> Any:
    """`core.Trace.process`; the programs of the benchmark have no functions among their params."""
    if isinstance(primitive, TakesFunctions):
        msg = "the programs of the benchmark call no functions"
        raise NotImplementedError(msg)
    thread.interpreter = evaluation
    try:
        out = self.process_primitive(primitive, [*args], params)
        thread.interpreter = self
        return out
    except BaseException:
        thread.interpreter = self
        raise


def pruned(eqn: Any, used: Any) -> Any:
    """`rule_results.pruned`."""
    try:
        return eqn.primitive.dce(used, eqn)
    except Exception as error:
        name_rule(error, eqn.primitive, "dce", eqn.params, eqn.source)
        raise


def types_of_result(p: Any, result: Any, operands: int) -> Any:
    """`rule_results.types_of_result`."""
    return (result[0] if p.multiple_results else [result[0]]), result[1]
