"""Calls of functions with rules: the function and its rules as functions of flat values, and
facts about them from their traces.

Each interpreter interprets such a call in its own way (`Interpreter.process_custom`):

- Evaluation runs the function, on values, with Python's control flow.
- Differentiation, if an argument carries a tangent, runs the rule in place of the function,
  with the interpreter below current. The function is not traced.
- vmap passes on the call of the batch (`custom_batching.BatchedRule`).
- Staging traces the function to a jaxpr and applies a primitive that holds it and the rule.
  The rule runs when the equation is differentiated.

A function is traced once for its static arguments and the types of the others, a rule once for
the types it is run on. An equation holds rules that run later, maybe in another program. So
closed-over values of other traces are its leading operands; when a rule is staged, inputs replace
these values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mjax._engine.base.errors import LazyNotImplementedError, LazyTypeError, UnexpectedTracerError
from mjax._engine.base.folding import calling
from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.control.cast_varying import vary_over
from mjax._engine.control.custom.custom_batching import Rule
from mjax._engine.control.trace_body import Body, Typed, check_alike
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var
from mjax._engine.ir.pytree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
)
from mjax._engine.ir.source import current_traceback, unnamed
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.tracing.flat import check_arguments, debug_info_of
from mjax._engine.tracing.interpreter import Tracer, interpreters, staging
from mjax._engine.tracing.rule_errors import applied_at, describe_value, refuse_effects_in
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage
from mjax._engine.tracing.symbolic import Zero, among_zeros, without_zeros, zeros_among
from mjax._engine.tracing.variance import sorted_axes, typed_axes


class Trace(Record):
    """A staged rule: its jaxpr, the tracers it closed over, which of its results are zero, and its
    further results."""

    jaxpr: Jaxpr
    consts: list[Any]
    zeros: list[Zero | None]
    known: Any


class Call(Rule):
    """A call of a function with rules, without its operands.

    Args:
      custom: the function.
      static: arguments that rules get separately. Function and rules close over the tracers among
        them.
      in_tree: structure of the others, which are pytrees of arrays.

    Attributes:
      out_tree: the tree of results; known once the function or a rule has run.
      names_in_scope: the axes that its rules may refer to.
      representative: the call that stands for all with equal static arguments and types. Equations
        hold its rules, and it has the facts that follow.
      body: the staged function, unless it closes over tracers without an operand for them.
      results: structure and types of the function's results, once it was staged.
      traces: staged rules, by kind, types and known zeros.
      outer: closed-over tracers of function and rules. They are the leading operands of an
        equation, which replace them when the rules run.
    """

    __slots__ = ("body", "custom", "in_tree", "names_in_scope", "out_tree", "outer",
                 "representative", "results", "static", "traces")
    custom: Any
    static: tuple[Any, ...]
    in_tree: PyTreeDef
    names_in_scope: tuple[Any, ...]
    body: Body | None
    results: Typed | None
    traces: ProgramCache

    def __init__(self, custom: Any, static: tuple[Any, ...], in_tree: Any):
        self.custom, self.static, self.in_tree = custom, static, in_tree
        self.out_tree: Any = None
        self.names_in_scope = tuple([axis.name for axis in thread.axis_env])
        self.representative: Call | None = None
        self.outer: Sequence[Tracer] = ()

    # -- methods for interpreters --

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Applies the primitive that holds the function and its rules."""
        leading, params = self.equation(list(map(typeof, values)))
        outs: list[Any] = thread.interpreter.process(
            self.frame.primitive, (*leading, *values), params)
        return outs

    def equation(self, avals: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The leading operands of an equation, in front of the function's, and its params."""
        body = self.staged(avals)
        # Tracers of other traces are there by side effects.
        chain = list(interpreters())
        more = [t for t in (*self.custom.closed_over(), *self.hidden()) if t.interp in chain
                and all(t is not c for c in body.consts)]
        outer, n = [*body.consts, *more], len(body.consts)
        if not outer:
            # Equal calls hold the same rules, so programs derived from them are made once.
            return (), self.frame.params(self.known(avals), body.jaxpr)
        rule = copy.copy(self.known(avals))
        jaxpr = body.jaxpr.replace(invars=[
            *body.jaxpr.invars[:n], *(Var(t.aval) for t in more), *body.jaxpr.invars[n:]])
        # Its traces have inputs for these.
        rule.outer, rule.representative, rule.traces = outer, rule, ProgramCache(64)
        rule.body = Body(jaxpr, outer, body.out_tree)
        return outer, self.frame.params(rule, jaxpr, n)

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return (f"{self.custom.describe()} uses a value of type {tracer.aval} that is being "
                f"differentiated and is not among its arguments. {_REMEDY}")

    # -- arguments --

    def hidden(self) -> list[Tracer]:
        """The tracers among the static arguments."""
        return [x for x in tree_leaves(self.static) if isinstance(x, Tracer)] if self.static else []

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The leading operands, for closed-over values, and those of the function."""
        n = len(operands) - self.in_tree.num_leaves
        return operands[:n], operands[n:]

    def arguments(self, values: Sequence[Any]) -> list[Any]:
        """All arguments of the function, from its operands."""
        joined: list[Any] = self.custom.arguments.join(
            self.static, self.in_tree.unflatten(values))
        return joined

    def path(self, i: int) -> str:
        """The name of the leaf `i` of the arguments in messages."""
        return _path(self.in_tree, i)

    # -- the function --

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        out = self.custom.fun(*self.arguments(values))
        leaves, self.out_tree = tree_flatten(out)
        check_arguments(self.custom.describe, out, "output")
        return leaves

    def known(self, avals: Sequence[Any]) -> Call:
        """The representative at these types of the operands."""
        found = self.representative
        if found is None:
            key = self._key(avals)
            found = self.custom.signatures.get(key)
            if found is None:
                self.body, self.results, self.traces = None, None, ProgramCache(64)
                found = self if key is None else self.custom.signatures.put(key, self)
            self.representative = found
        return found

    def _key(self, avals: Sequence[Any]) -> Any:
        """The key of equal calls; None if it may hold tracers, which would pin a trace."""
        if self.outer or self.hidden():
            return None
        key = (tuple(map(exact, self.static)), self.in_tree, tuple(avals), thread.settings,
               thread.axis_env)
        try:
            hash(key)
        except TypeError:  # a static argument is not hashable
            return None
        return key

    def staged(self, avals: Sequence[Any]) -> Body:
        """The function as a jaxpr; staged once per types."""
        known = self.known(avals)
        if known.body is not None:
            self.out_tree = known.body.out_tree
            return known.body
        with users_code():
            jaxpr, consts = lift_tracers(stage(self.run, avals, self.debug_info()))
        refuse_effects_in(
            [jaxpr], "custom_derivatives", lambda: f"{self.custom.describe()} has",
            "Move them out of it.", LazyNotImplementedError)
        body = Body(jaxpr, consts, self.out_tree)
        known.results = Typed("the function's output", self.out_tree,
                              list(map(invariant, jaxpr.out_avals)))
        if not consts:
            known.body = body
        return body

    def debug_info(self) -> DebugInfo:
        """Names for messages about the trace."""
        arguments = self.custom.arguments
        return debug_info_of(
            arguments.parameters.who, self.custom.fun,
            self.arguments([0] * self.in_tree.num_leaves), {}, arguments.nondiff)

    # -- rules --

    def pair(self, kind: str, parts: str, output: str, given: str, *args: Any
             ) -> tuple[list[Any], Any, Any]:
        """Calls a user's rule, which returns a pair.

        Args:
          kind: which rule.
          parts: the parts of the pair, for messages.
          output: the name of the first part.
          given: a description of `args`.
          args: the arguments of the rule.

        Returns:
          The leaves and the tree of the first result, and the second result.

        Raises:
          TypeError: it does not return a pair, or the first result is not like the function's
            output.
        """
        rule = getattr(self.custom, self.custom.kinds[kind])
        with calling(lambda: f"The {self.custom.rule_name(kind)} is given {given}."):
            result = rule(*args)
        check_pair(lambda: self.custom.rule_name(kind), parts, result)
        outs, tree = tree_flatten(result[0])
        check_arguments(lambda: f"the {self.custom.rule_name(kind)}", result[0], output)
        expected = None if self.representative is None else self.representative.results
        actual = Typed(f"the first result of the {kind} rule", tree,
                       [invariant(typeof(out)) for out in outs])
        if expected is not None:
            check_alike(expected, actual, "output", lambda: (
                f"the {kind} rule of {self.custom.describe()} must return the function's output as "
                "its first result, but they differ:"))
        return outs, tree, result[1]

    def traced(self, kind: str, rule: Callable[..., tuple[list[Any], Any]], avals: Sequence[Any],
               args: Sequence[Any], outer: Sequence[Any], key: Any = ()) -> tuple[list[Any], Any]:
        """Runs a rule; while a program is being staged, the rule is traced at most once.

        Args:
          kind: its kind, for messages.
          rule: from values, or `Zero`s, to a list of these and further facts.
          avals: types of the function's operands.
          args: its arguments.
          outer: values of closed-over tracers.
          key: further facts that it depends on, beside types.

        Returns:
          The results of `rule`.
        """
        if not staging() and not self.outer:
            with users_code():
                return rule(*[a if type(a) is Zero else array_of(a) for a in args])
        trace = self.trace(kind, rule, avals, args, outer, key)
        values = eval_jaxpr(trace.jaxpr, trace.jaxpr.consts, *trace.consts, *outer,
                            *without_zeros(args))
        return among_zeros(trace.zeros, values), trace.known

    def trace(self, kind: str, rule: Callable[..., tuple[list[Any], Any]], avals: Sequence[Any],
              args: Sequence[Any], outer: Sequence[Any], key: Any = ()) -> Trace:
        """Stages a rule, once per types of its arguments. See `traced`."""
        traces = self.known(avals).traces
        in_avals, zeros = list(map(typeof, without_zeros(args))), zeros_among(args)
        key = (kind, key, *in_avals, *map(bool, zeros), thread.settings, thread.axis_env)
        found = traces.get(key)
        if found is None:
            found = self._stage_rule(kind, rule, zeros, in_avals, list(map(typeof, outer)))
            if not found.consts:
                traces.put(key, found)
        return found

    def _stage_rule(self, kind: str, rule: Callable[..., tuple[list[Any], Any]],
                    zeros: Sequence[Zero | None], in_avals: Sequence[Any],
                    outer_avals: Sequence[Any]) -> Trace:
        known: list[Any] = []

        def values(*args: Any) -> list[Any]:
            for tracer, value in zip(self.outer, args, strict=False):
                thread.interpreter.stand_in(tracer, value)
            outs, more = rule(*among_zeros(zeros, args[len(outer_avals):]))
            known.extend((zeros_among(outs), more))
            return without_zeros(outs)

        who = f"{kind} rule of {self.custom.describe()}"
        info = DebugInfo(self.custom.who, f"the {who}")
        try:
            with accepting(self.outer), users_code():
                jaxpr, consts = lift_tracers(stage(values, [*outer_avals, *in_avals], info))
        except UnexpectedTracerError as error:
            raise UnexpectedTracerError(f"{error}\n{_LATER.format(who=who)}") from None
        chain = list(interpreters())
        foreign = [const for const in consts if const.interp not in chain]
        if foreign:
            raise UnexpectedTracerError(lambda: (
                f"The {who} closes over a value of type {foreign[0].aval} of a "
                f"{foreign[0].interp.name} trace that is not among those in which the rule runs. "
                "Pass what a rule needs to the function, as an argument."))
        return Trace(jaxpr, consts, *known)

    def as_function(self, rule: str, avals: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """A rule's output, cast to vary along the same mesh axes as the function's own output. Its
        cotangents then are those of the function.

        Args:
          rule: which rule, for messages.
          avals: types of the operands.
          outs: the output.

        Raises:
          TypeError: it varies along more axes.
        """
        if not typed_axes():
            return list(outs)
        return vary_as_function(f"{rule} of {self.custom.describe()}", outs,
                                self.staged(avals).jaxpr.out_avals,
                                lambda i: _path(self.out_tree, i))


def vary_as_function(rule: str, outs: Sequence[Any], declared: Sequence[Any],
                     path: Callable[[int], str]) -> list[Any]:
    """A rule's output, cast to vary along the same mesh axes as the function's own output.

    Args:
      rule: which rule, for messages.
      outs: the output.
      declared: types of the function's own.
      path: from an index to the name of that output in messages.

    Raises:
      TypeError: it varies along more axes.
    """
    for i, (out, aval) in enumerate(zip(outs, declared, strict=True)):
        more = sorted_axes(typeof(out).varying - aval.varying)
        if more:
            raise LazyTypeError(lambda i=i, out=out, aval=aval, more=more: (  # type: ignore[misc]
                f"the {rule} gives an output{path(i)} of type {typeof(out)}, which may differ "
                f"between devices along {', '.join(map(repr, more))}; that of the function has "
                f"type {aval}. Communicate in the rule as in the function (lax.psum, lax.pmax, "
                "lax.all_gather_invariant)."))
    return [vary_over(aval.varying, out) for out, aval in zip(outs, declared, strict=True)]


def _path(tree: Any, i: int) -> str:
    return keystr(tree_flatten_with_path(tree.unflatten(range(tree.num_leaves)))[0][i][0])


# ---- messages and checks -------------------------------------------------------------------

_REMEDY = ("Its rule says nothing about such values: pass the value as an argument "
           "(mjax.closure_convert finds those that a function closes over), or hold it constant "
           "with mjax.lax.stop_gradient.")
_LATER = ("It was used by the {who}. Rules run when the function is differentiated, which may be "
          "after the traces around its call have ended: pass what a rule needs to the function, "
          "as an argument.")


def refuse_differentiated(custom: Any, primals: Sequence[Any], nonzeros: Sequence[bool]) -> None:
    """Refuses values that a custom function closes over and that carry a tangent.

    Raises:
      UnexpectedTracerError: one does.
    """
    if any(nonzeros):
        source = applied_at(thread.source or current_traceback())
        raise UnexpectedTracerError(lambda: (
            f"{custom.describe()} closes over a value of type "
            f"{typeof(primals[list(nonzeros).index(True)])} that is being differentiated. "
            f"{_REMEDY}\n{source}"))


def check_pair(who: Callable[[], str], parts: str, result: Any) -> None:
    """Refuses results of a rule that are not a pair.

    Raises:
      TypeError: it is not.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise LazyTypeError(lambda: (
            f"the {who()} must return a pair {parts}, but returned {describe_value(result)}."))


@contextmanager
def accepting(outer: Sequence[Tracer]) -> Iterator[None]:
    """Allows values of ended traces in the body of a `with`, where inputs replace them; others of
    these traces are refused afterwards."""
    ended = {id(t.interp): t.interp for t in outer if t.interp.alive is False}.values()
    for interp in ended:
        interp.alive = True
    try:
        yield
    finally:
        for interp in ended:
            interp.alive = False


@contextmanager
def users_code() -> Iterator[None]:
    """Gives equations the sources of the code in the body of a `with`, not that of the equation
    whose rule it is."""
    outer = thread.source
    thread.source = unnamed(outer)
    try:
        yield
    finally:
        thread.source = outer


def invariant(aval: Any) -> Any:
    """A type without the mesh axes along which it varies: results of rules may vary less."""
    return aval.with_varying(frozenset()) if aval.varying else aval


__all__ = ["Call", "check_pair", "invariant", "refuse_differentiated",
           "users_code", "vary_as_function"]
