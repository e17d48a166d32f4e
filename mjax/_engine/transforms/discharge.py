"""Discharge of references: programs that read and write references become pure ones.

An input that is a reference becomes an array. If it is written, its final contents become a
result. A reference made inside becomes a value that is threaded through the equations. A
first-order primitive has a rule `discharge`. The program that a primitive holds is discharged too,
and its frame threads the values through it.

Source: the state effects of JAX, by their public behaviour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mjax._engine.base.errors import LazyArgumentError, LazyValueError
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn, Literal, Var
from mjax._engine.ir.references import INSIDE, is_reference, touched, written
from mjax._engine.ir.source import Scope, replayed, summarize
from mjax._engine.tracing.reference import refuse_returned
from mjax._engine.tracing.rule_results import discharged
from mjax._engine.tracing.stage import settled, trace_to_jaxpr


class Discharged(Record):
    """A program without references.

    Attributes:
      jaxpr: the program with arrays in place of references. Written ones are its last inputs;
        their final contents come after the results.
      written: the written inputs, in order.
    """

    jaxpr: Jaxpr
    written: tuple[int, ...]


class _Ended(Record):
    """Marks a reference that has ended, with the equation that ended it."""

    eqn: JaxprEqn


def discharge_jaxpr(jaxpr: Jaxpr, places: Sequence[int] | None = None,
                    finals: Sequence[int] | None = None, last: bool = False,
                    same: tuple[tuple[int, int], ...] = (), kept: Sequence[int] = ()
                    ) -> Discharged:
    """The discharge of a program; cached on it.

    Args:
      jaxpr: the program.
      places: the references to discharge among the inputs; None: those that it touches.
      finals: those of them whose final contents are wanted; None: those that it writes.
      last: whether no derivatives will follow, so that derivative rules of functions that touch
        references may be dropped.
      same: pairs of inputs that are one reference; only the second of each pair is in `places`.
      kept: those of `places` that it takes as references, too, behind its inputs: users' backward
        rules, which run later, may read and write them.
    """
    places = tuple(sorted(touched(jaxpr.effects) if places is None else places))
    finals = tuple(sorted(written(jaxpr.effects) if finals is None else finals))
    key = ("discharged", places, finals, last, same, tuple(kept), thread.settings, thread.axis_env)
    return Discharged(jaxpr.cached(key, lambda: _discharge(
        settled(jaxpr), places, finals, last, same, kept)), finals)


def without_references(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the references that it makes, if it makes some."""
    return discharge_jaxpr(jaxpr, (), ()).jaxpr if INSIDE in jaxpr.effects else jaxpr


def _discharge(jaxpr: Jaxpr, places: Sequence[int], finals: Sequence[int], last: bool,
               same: Sequence[tuple[int, int]], kept: Sequence[int]) -> Jaxpr:
    n = len(jaxpr.constvars)
    refuse_returned(jaxpr.debug_info.traced_for or "a transformation", jaxpr, LazyArgumentError)
    if same:
        names: dict[Any, Any] = {jaxpr.invars[i]: jaxpr.invars[j] for i, j in same}
        jaxpr = jaxpr.replace(
            invars=[Var(v.aval.inner_aval) if v in names else v for v in jaxpr.invars],
            eqns=[eqn.replace(invars=[a if type(a) is Literal else names.get(a, a)
                                      for a in eqn.invars]) for eqn in jaxpr.eqns])
    order = moved_last(len(jaxpr.invars), finals)
    invars = [jaxpr.invars[i] for i in order]
    boxes = {jaxpr.invars[i] for i in places}

    def run(*args: Any) -> list[Any]:
        m = len(args) - len(kept)
        state = _State(dict(zip([*jaxpr.constvars, *invars], args[:m], strict=True)), boxes, last,
                       dict(zip([jaxpr.invars[i] for i in kept], args[m:], strict=True)))
        state.run(jaxpr.eqns)
        return [*map(state.result, jaxpr.outvars),
                *(state.contents(jaxpr.invars[i], None) for i in finals)]

    avals = [v.aval.inner_aval if v in boxes else v.aval for v in (*jaxpr.constvars, *invars)]
    made = trace_to_jaxpr(run, [*avals, *(jaxpr.invars[i].aval for i in kept)], jaxpr.debug_info)
    return made.replace(
        constvars=[*made.invars[:n], *made.constvars], consts=[*jaxpr.consts, *made.consts],
        invars=made.invars[n:], debug_info=jaxpr.debug_info._replace(
            arg_names=jaxpr.debug_info.arg_names and tuple(
                map(jaxpr.debug_info.arg_name, [*order, *kept]))))


def in_order(jaxpr: Jaxpr, last: Sequence[int]) -> Jaxpr:
    """A discharged program with its inputs in the order that they had before.

    Args:
      jaxpr: the program.
      last: the numbers that its last inputs had.
    """
    n = len(jaxpr.invars)
    invars = dict(zip(moved_last(n, last), jaxpr.invars, strict=True))
    info = jaxpr.debug_info
    names = dict(zip(invars, info.arg_names or (), strict=False))
    return jaxpr.replace(invars=[invars[i] for i in range(n)], debug_info=info._replace(
        arg_names=tuple(names[i] for i in range(n)) if names else info.arg_names))


def moved_last(n: int, last: Sequence[int]) -> list[int]:
    """The numbers below `n`, with these at the end."""
    return [*(i for i in range(n) if i not in last), *last]


class _State:
    """Values of a program, and contents of its references, during its evaluation.

    Args:
      env: values of its constants and inputs.
      boxes: the references among them.
      last: see `discharge_jaxpr`.
      kept: the references themselves, as far as they are known.
    """

    def __init__(self, env: dict[Any, Any], boxes: set[Any], last: bool, kept: dict[Any, Any]):
        self.env, self.boxes, self.last, self.kept = env, boxes, last, kept

    def result(self, atom: Any) -> Any:
        if type(atom) is Literal:
            return atom.val
        return self.env[atom]

    def contents(self, var: Any, eqn: JaxprEqn | None) -> Any:
        """The contents of a reference.

        Raises:
          ValueError: it has ended.
        """
        found = self.env[var]
        if type(found) is _Ended:
            if eqn is None:
                raise LazyValueError(lambda: (
                    f"a reference of type {var.aval} is ended by {found.eqn.primitive.name} at "
                    f"{summarize(found.eqn.source)}, in a program that is given it. End it where "
                    "it was made, and read it here, ref[...]."))
            raise LazyValueError(lambda: (
                f"a reference of type {var.aval} is used by {eqn.primitive.name} at "
                f"{summarize(eqn.source)} after {found.eqn.primitive.name} at "
                f"{summarize(found.eqn.source)}. Use it before, or make another one with new_ref."))
        return found

    def run(self, eqns: Sequence[JaxprEqn]) -> None:
        outer = thread.source
        scoped = type(outer) is Scope
        env = self.env
        try:
            for eqn in eqns:
                thread.source = replayed(eqn.source, outer) if scoped else eqn.source
                refs = [i for i, v in enumerate(eqn.invars)
                        if type(v) is not Literal and v in self.boxes]
                operands = [v.val if type(v) is Literal else
                            self.contents(v, eqn) if i in refs else env[v]
                            for i, v in enumerate(eqn.invars)]
                if refs or INSIDE in eqn.effects:
                    outs = self.discharged(eqn, operands, refs)
                else:
                    outs = thread.interpreter.process(eqn.primitive, tuple(operands), eqn.params)
                    outs = outs if eqn.primitive.multiple_results else [outs]
                env.update(zip(eqn.outvars, outs, strict=True))
        finally:
            thread.source = outer

    def discharged(self, eqn: JaxprEqn, operands: list[Any], refs: Sequence[int]) -> Any:
        """The results of an equation that touches references."""
        primitive = eqn.primitive
        if primitive.discharge is not None:
            out, new = discharged(eqn, operands)
            for i, value in new.items():
                self.env[eqn.invars[i]] = _Ended(eqn) if value is None else value
            self.boxes.update(v for v in eqn.outvars if is_reference(v.aval))
            return out if primitive.multiple_results else [out]
        if primitive.frame is None:
            primitive.missing("discharge", operands=len(operands), params=eqn.params)
        first: dict[Any, int] = {}
        same = []
        for i in refs:
            j = first.setdefault(eqn.invars[i], i)
            if i != j:
                same.append((i, j))
        finals = sorted({first[eqn.invars[i]] for i in written(eqn.effects).intersection(refs)})
        kept = [i for i in sorted(first.values()) if eqn.invars[i] in self.kept]
        found = primitive.frame.discharged(
            eqn.params, sorted(first.values()), finals, self.last, tuple(same), kept)(
                [*operands, *(self.kept[eqn.invars[i]] for i in kept)])
        n = len(eqn.outvars)
        for i, value in zip(finals, found[n:], strict=True):
            self.env[eqn.invars[i]] = value
        return found[:n]



def discharge_state(jaxpr: Jaxpr, consts: Sequence[Any], *,
                    should_discharge: bool | Sequence[bool] = True) -> tuple[Jaxpr, list[Any]]:
    """A pure program for one that reads and writes references among its inputs.

    Args:
      jaxpr: the program.
      consts: values of its constants.
      should_discharge: which of its inputs, if they are references, become arrays; True: all.

    Returns:
      The program, with arrays in place of references, whose final contents come after its results
      in the order of the inputs; and the values of its constants.

    Raises:
      ValueError: there are more or fewer values than constants, or flags than inputs; or the
        program ends a reference that becomes an array, by `mjax.freeze`.
      TypeError: `should_discharge` is neither a bool nor iterable, or `consts` is not a
        sequence.
      AttributeError: `jaxpr` is not a program.

    Example:
      >>> from mjax_ext.state.discharge import discharge_state
      >>> jaxpr = mjax.make_jaxpr(lambda ref: ref.set(ref[...] * 2))(mjax.new_ref(1.0))
      >>> print(discharge_state(jaxpr, jaxpr.consts)[0])
      { lambda  ; a:f32[]. let
          b:f32[] = mul a 2.0:f32[]
        in (b,) }

    Source: the public behaviour of `jax._src.state.discharge`.
    """
    wanted = ([should_discharge] * len(jaxpr.invars) if isinstance(should_discharge, bool)
              else should_discharge)
    places = [i for i, (v, w) in enumerate(zip(jaxpr.invars, wanted, strict=True))
              if w and is_reference(v.aval)]
    pure = in_order(discharge_jaxpr(Jaxpr(jaxpr, consts), places, places).jaxpr, places)
    return pure, pure.consts
