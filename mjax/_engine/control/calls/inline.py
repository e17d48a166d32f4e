"""Replaces calls in jaxprs by their bodies: `inline_calls`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mjax._engine.base.folding import boundary
from mjax._engine.control.calls.call_primitive import call_p
from mjax._engine.control.calls.closed_call import closed_call_p
from mjax._engine.control.calls.jit import jit_p
from mjax._engine.ir.jaxpr import DropVar, Jaxpr, JaxprEqn, Literal, Var
from mjax._engine.ir.source import NameStack, SourceInfo, source_info_of

_JAXPRS = {jit_p: "jaxpr", closed_call_p: "call_jaxpr", call_p: "call_jaxpr"}


def runs_here(eqn: JaxprEqn) -> bool:
    """Whether a call has the device and the options of the program around it."""
    return not eqn.params.get("device") and not eqn.params.get("compiler_options_kvs")


@boundary
def inline_calls(jaxpr: Jaxpr, which: Callable[[JaxprEqn], bool] = runs_here) -> Jaxpr:
    """The program with the bodies of calls in place of the calls.

    Args:
      jaxpr: a program; calls in its bodies of loops and branches stay.
      which: whether an equation of `jit`, `call` or `closed_call` is replaced. By default it is,
        unless it has a device or compiler options of its own.

    Returns:
      A program of the same inputs and results. Calls inside of the bodies are replaced too.

    Raises:
      AttributeError: the program is not a jaxpr.
      TypeError: the program has calls, and `which` is not a function.
      Exception: the error of `which`, if it raises one.

    Example:
      >>> from mjax_ext import core
      >>> f = mjax.jit(lambda x: lax.sin(x))
      >>> print(core.inline_calls(mjax.make_jaxpr(lambda x: f(f(x)))(1.0)))
      { lambda  ; a:~f32[]. let
          b:~f32[] = sin a
          c:~f32[] = sin b
        in (c,) }
    """
    program = _Inlined(which)
    env: dict[Any, Any] = {v: v for v in jaxpr.invars}
    env.update((v, program.constant(v, c))
               for v, c in zip(jaxpr.constvars, jaxpr.consts, strict=True))
    program.add(jaxpr, env, SourceInfo(None))
    return jaxpr.replace(
        constvars=list(program.consts.values()), consts=program.values, eqns=program.eqns,
        outvars=[v if type(v) is Literal else env[v] for v in jaxpr.outvars])


class _Inlined:
    """The program under construction."""

    def __init__(self, which: Callable[[JaxprEqn], bool]):
        self.which = which
        self.eqns: list[JaxprEqn] = []
        #: id of a constant -> its variable.
        self.consts: dict[int, Var] = {}
        self.values: list[Any] = []

    def constant(self, var: Var, value: Any) -> Var:
        """The variable of a constant, which calls may share."""
        known = self.consts.get(id(value))
        if known is None:
            known = self.consts[id(value)] = var
            self.values.append(value)
        return known

    def add(self, jaxpr: Jaxpr, env: dict[Any, Any], around: SourceInfo) -> None:
        """Adds the equations of a jaxpr, or of those it calls.

        Args:
          jaxpr: the program.
          env: its variables -> their atoms here; extended by the call.
          around: the source of the call of it.
        """
        for eqn in jaxpr.eqns:
            operands = [v if type(v) is Literal else env[v] for v in eqn.invars]
            info = source_info_of(eqn.source)
            names = (*around.name_stack, *info.name_stack)
            asked = info.annotations or around.annotations
            source = SourceInfo(info.traceback, NameStack(names), asked) if names or asked else (
                info.traceback)
            param = _JAXPRS.get(eqn.primitive)
            if param is None or not self.which(eqn):
                outvars = [v if type(v) is DropVar else Var(v.aval) for v in eqn.outvars]
                env.update(zip(eqn.outvars, outvars, strict=True))
                self.eqns.append(eqn.replace(invars=operands, outvars=outvars, source=source))
                continue
            body = eqn.params[param]
            inner = dict(zip(body.invars, operands, strict=True))
            inner.update((v, self.constant(Var(v.aval), c))
                         for v, c in zip(body.constvars, body.consts, strict=True))
            self.add(body, inner, source_info_of(source))
            env.update((v, o if type(o) is Literal else inner[o])
                       for v, o in zip(eqn.outvars, body.outvars, strict=True))
