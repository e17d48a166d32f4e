"""Calls of functions with rules: the function and its rules as functions of flat values, and
what is known of them once they were traced.

Each interpreter says what such a call means to it (`Interpreter.process_custom`):

- Evaluation runs the function, on values, with Python's control flow.
- Differentiation, if an argument carries a tangent, runs the rule in place of the function,
  with the interpreter below current. The function is not traced.
- vmap hands on the call of the batch (`custom_batching.BatchedCall`).
- Staging traces the function to a jaxpr and applies a primitive that holds it and the rule.
  The rule runs when the equation is differentiated.

A function is traced once for its static arguments and the types of the others, a rule once for
the types it is run on. An equation holds rules that run later, maybe in another program: what
function or rules close over of other traces are its leading operands, and when a rule is
staged, inputs stand for these values.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn

from mjax._engine.base.errors import (
    LazyNotImplementedError,
    LazyTypeError,
    UnexpectedTracerError,
)
from mjax._engine.base.programs import ProgramCache
from mjax._engine.base.records import Record
from mjax._engine.base.thread import thread
from mjax._engine.base.util import exact
from mjax._engine.control.cast_varying import vary_over
from mjax._engine.control.custom.custom_batching import BatchedCall, Rule
from mjax._engine.control.trace_body import Body, Typed, agree, differences
from mjax._engine.ir.effects import describe, forbidden
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var
from mjax._engine.ir.pytree import keystr, tree_flatten, tree_flatten_with_path
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.tracing.flat import check_arguments, debug_info_of
from mjax._engine.tracing.interpreter import Tracer, interpreters, staging
from mjax._engine.tracing.rule_errors import applied_at, carriers
from mjax._engine.tracing.stage import eval_jaxpr, lift_tracers, stage
from mjax._engine.tracing.symbolic import Zero, among_zeros, without_zeros, zeros_among
from mjax._engine.tracing.variance import sorted_axes, typed_axes
from mjax._engine.transforms.batching import BatchInterpreter


class Signature:
    """What is known of a function with rules at one abstract signature.

    Attributes:
      body: the staged function, unless it closes over tracers that no operands stand for.
      results: structure and types of what the function gives, once it was staged.
      call: a call at this signature, whose rules equations hold.
      traces: rules staged, by kind, types and what is known to be zero.
    """

    __slots__ = ("body", "call", "results", "traces")

    def __init__(self, call: Call):
        self.body: Body | None = None
        self.results: Typed | None = None
        self.call = call
        self.traces = ProgramCache(64)


class Trace(Record):
    """A staged rule: its jaxpr, the tracers it closed over, which of its results are zero, and what
    else it gave."""

    jaxpr: Jaxpr
    consts: list[Any]
    zeros: list[Zero | None]
    known: Any


class Call(Rule):
    """A call of a function with rules, but for its operands.

    Args:
      custom: the function.
      static: arguments that are handed to rules by themselves.
      in_tree: structure of the others, which are pytrees of arrays.

    Attributes:
      frame: that of the primitive whose equations hold function and rules.
      hidden: how many tracers are among the static arguments; they lead the operands.
      out_tree: how results are nested; known once the function or a rule has run.
      names_in_scope: the axes that its rules may refer to.
      outer: tracers that function or rules close over and that an equation has as its leading
        operands; those stand for them when the rules run.
    """

    __slots__ = ("custom", "hidden", "in_tree", "names_in_scope", "out_tree", "outer",
                 "places", "signature", "static")
    frame: ClassVar[Any]

    def __init__(self, custom: Any, static: tuple[Any, ...], in_tree: Any):
        self.custom = custom
        self.static, self.places = _without_tracers(static)
        self.hidden = sum(len(where) for *_, where in self.places)
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.names_in_scope = tuple([axis.name for axis in thread.axis_env])
        self.signature: Signature | None = None
        self.outer: Sequence[Tracer] = ()

    # -- what interpreters make of it --

    def evaluate(self, values: Sequence[Any]) -> list[Any]:
        """Runs the function, on values."""
        return self.run(*map(array_of, values))

    def at_once(self) -> dict[str, Any]:
        """Params for a rule that runs at once."""
        return self.frame.params(self)

    def mapped(self, interp: BatchInterpreter, dims: Sequence[int | None]) -> BatchedCall:
        """The same for a batch."""
        return BatchedCall(self, interp, dims)

    def apply(self, values: Sequence[Any]) -> list[Any]:
        """Applies the primitive that holds the function and its rules."""
        leading, params = self.equation(list(map(typeof, values)))
        outs: list[Any] = thread.interpreter.process(
            self.frame.primitive, (*leading, *values), params)
        return outs

    def equation(self, avals: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The operands of an equation that lead the function's, and its params."""
        body = self.staged(avals)
        # Tracers of other traces were left there by side effects.
        chain = list(interpreters())
        more = [t for t in self.custom.closed_over() if t.interp in chain
                and all(t is not c for c in body.consts)]
        outer, n = [*body.consts, *more], len(body.consts)
        if not outer:
            # Equal calls hold the same rules, so that what is made of these is made once.
            return (), self.frame.params(self.known(avals).call, body.jaxpr)
        rule = copy.copy(self)
        rule.outer = outer
        jaxpr = body.jaxpr if not more else body.jaxpr.replace(invars=[
            *body.jaxpr.invars[:n], *(Var(t.aval) for t in more), *body.jaxpr.invars[n:]])
        # Its traces have inputs for these.
        rule.signature = Signature(rule)
        rule.signature.results = self.known(avals).results
        rule.signature.body = Body(jaxpr, outer, body.out_tree)
        return outer, self.frame.params(rule, jaxpr, n)

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return (f"{self.custom.describe()} uses a value of type {tracer.aval} that is being "
                f"differentiated and is not among its arguments. {_REMEDY}")

    # -- arguments --

    def take(self, values: Sequence[Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        """Static arguments, with values for the tracers among them, and dynamic arguments, from
        operands."""
        static, hidden = list(self.static), iter(values[:self.hidden])
        for i, tree, leaves, where in self.places:
            static[i] = tree.unflatten([next(hidden) if j in where else leaf
                                        for j, leaf in enumerate(leaves)])
        return tuple(static), self.in_tree.unflatten(values[self.hidden:])

    def split(self, operands: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The leading operands, which stand for what is closed over, and the function's."""
        n = len(operands) - self.hidden - self.in_tree.num_leaves
        return operands[:n], operands[n:]

    def path(self, i: int) -> str:
        """How messages name the leaf `i` of the arguments."""
        return _path(self.in_tree, i)

    # -- the function --

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        out = self.custom.fun(*self.custom.arguments.join(*self.take(values)))
        leaves, self.out_tree = tree_flatten(out)
        check_arguments(self.custom.describe(), out, "output")
        return leaves

    def known(self, avals: Sequence[Any]) -> Signature:
        """What is known at these types of the operands."""
        if self.signature is None:
            key = self._key(avals)
            found = None if key is None else self.custom.signatures.get(key)
            self.signature = Signature(self) if found is None else found
        return self.signature

    def _key(self, avals: Sequence[Any]) -> Any:
        """The key of what is known; None where it may hold tracers, which would pin a trace."""
        key = (tuple(map(exact, self.static)), self.in_tree, tuple(avals), thread.settings,
               thread.axis_env)
        try:
            hash(key)
        except TypeError:  # a static argument is not hashable
            return None
        return None if self.hidden or self.outer else key

    def _keep(self, avals: Sequence[Any]) -> None:
        key = self._key(avals)
        if key is not None:
            self.custom.signatures.setdefault(key, self.signature)

    def staged(self, avals: Sequence[Any]) -> Body:
        """The function as a jaxpr; staged once per types."""
        known = self.known(avals)
        if known.body is not None:
            self.out_tree = known.body.out_tree
            return known.body
        jaxpr, consts = lift_tracers(stage(self.run, avals, self.debug_info()))
        refused = forbidden(jaxpr.effects, "custom_derivatives")
        if refused:
            raise LazyNotImplementedError(lambda: (
                f"{self.custom.describe()} has the effects {describe(refused)}, whose policy says "
                f"custom_derivatives=False. Move them out of it.\n{carriers(jaxpr, refused)}"))
        body = Body(jaxpr, consts, self.out_tree)
        known.results = Typed("the function's output", self.out_tree,
                              list(map(invariant, jaxpr.out_avals)))
        if not consts:
            known.body = body
            self._keep(avals)
        return body

    def debug_info(self) -> DebugInfo:
        """Names for messages about what is traced."""
        arguments = self.custom.arguments
        args = arguments.join(self.static, self.in_tree.unflatten([0] * self.in_tree.num_leaves))
        info = debug_info_of(arguments.parameters.who, self.custom.fun, args, {}, arguments.nondiff)
        hidden = ["a static argument"] * self.hidden
        return info._replace(arg_names=(*hidden, *(info.arg_names or ())))

    # -- rules --

    def traced(self, kind: str, rule: Callable[..., tuple[list[Any], Any]], avals: Sequence[Any],
               args: Sequence[Any], outer: Sequence[Any], key: Any = ()) -> tuple[list[Any], Any]:
        """Runs a rule: traced at most once where a program is being staged.

        Args:
          kind: which it is, for messages.
          rule: from values, or `Zero`s, to a list of these and what else there is to know.
          avals: types of the function's operands.
          args: what it is run on.
          outer: values of what is closed over.
          key: what it depends on beside types.

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
        """Stages a rule; once per types of what it is run on. See `traced`."""
        traces = self.known(avals).traces
        in_avals, zeros = list(map(typeof, without_zeros(args))), zeros_among(args)
        key = (kind, key, *in_avals, *map(bool, zeros), thread.settings, thread.axis_env)
        found = traces.get(key)
        if found is None:
            found = self._stage_rule(kind, rule, zeros, in_avals, list(map(typeof, outer)))
            if not found.consts:
                traces.put(key, found)
                self._keep(avals)
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
        for const in consts:
            if const.interp not in chain:
                _refuse_foreign(who, const)
        return Trace(jaxpr, consts, *known)

    def as_function(self, rule: str, avals: Sequence[Any], primals: Sequence[Any],
                    outer: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        """What a rule gives as the function's output, cast to vary along the mesh axes along
        which the function's own output does: its cotangents are those of the function.

        Args:
          rule: which rule, for messages.
          avals: types of the operands.
          primals: the operands.
          outer: values of what is closed over.
          outs: the output.

        Raises:
          TypeError: it varies along more axes.
        """
        if not typed_axes():
            return list(outs)
        function = self.trace("function", lambda *values: (self.run(*values), None), avals,
                              primals, outer)
        return vary_as_function(f"{rule} of {self.custom.describe()}", outs,
                                function.jaxpr.out_avals, lambda i: _path(self.out_tree, i))


def vary_as_function(rule: str, outs: Sequence[Any], declared: Sequence[Any],
                     path: Callable[[int], str]) -> list[Any]:
    """What a rule gives as a function's output, cast to vary along the mesh axes along which the
    function's own output does.

    Args:
      rule: which rule, for messages.
      outs: the output.
      declared: types of the function's own.
      path: from an index to how messages call that output.

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


def _without_tracers(static: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    """Static arguments, and of those with tracers index, structure, leaves, and indices of the
    tracers, which are replaced by None: equations must not hold them."""
    kept, places = list(static), []
    for i, value in enumerate(static):
        leaves, tree = tree_flatten(value)
        where = [j for j, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]
        if where:
            places.append((i, tree, [None if j in where else leaf
                                     for j, leaf in enumerate(leaves)], where))
            kept[i] = None
    return tuple(kept), places


# ---- messages and checks -------------------------------------------------------------------

_REMEDY = ("Its rule says nothing about such values: pass the value as an argument "
           "(mjax.closure_convert finds those that a function closes over), or hold it constant "
           "with mjax.lax.stop_gradient.")
_LATER = ("It was used by the {who}. Rules run when the function is differentiated, which may be "
          "after the traces around its call have ended: pass what a rule needs to the function, "
          "as an argument.")


def _refuse_foreign(who: str, tracer: Tracer) -> NoReturn:
    raise UnexpectedTracerError(lambda: (
        f"The {who} closes over a value of type {tracer.aval} of a {tracer.interp.name} trace "
        "that is not among those in which the rule runs. Pass what a rule needs to the function, "
        "as an argument."))


def refuse_differentiated(who: str, primals: Sequence[Any], nonzeros: Sequence[bool]) -> None:
    """Refuses values that a function closes over and that carry a tangent.

    Raises:
      UnexpectedTracerError: one does.
    """
    if any(nonzeros):
        source = applied_at(thread.source or current_traceback())
        raise UnexpectedTracerError(lambda: (
            f"{who} closes over a value of type {typeof(primals[list(nonzeros).index(True)])} that "
            f"is being differentiated. {_REMEDY}\n{source}"))


def check_primal_output(call: Call, rule: str, tree: Any, avals: Sequence[Any]) -> None:
    """Compares a rule's first result with what the function gives, where that is known.

    Raises:
      TypeError: they do not have the same structure or types; names the leaves.
    """
    expected = None if call.signature is None else call.signature.results
    given = Typed(f"the first result of the {rule}", tree, list(map(invariant, avals)))
    if expected is not None and not agree(expected, given):
        raise LazyTypeError(lambda: (
            f"the {rule} of {call.custom.describe()} must give the function's output as its first "
            f"result, but they differ:\n{differences(expected, given, 'output')}"))


@contextmanager
def accepting(outer: Sequence[Tracer]) -> Iterator[None]:
    """Lets values of traces that have ended be used in the body of a `with`, where inputs
    stand for them; others of these traces are refused afterwards."""
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
    """Lets equations be traced back to what runs in the body of a `with`, not to the equation
    whose rule it is."""
    outer, thread.source = thread.source, None
    try:
        yield
    finally:
        thread.source = outer


def invariant(aval: Any) -> Any:
    """A type without the mesh axes along which it varies: what rules give may vary less."""
    return aval.with_varying(frozenset()) if aval.varying else aval


__all__ = ["Call", "check_primal_output", "invariant", "refuse_differentiated", "users_code",
           "vary_as_function"]
