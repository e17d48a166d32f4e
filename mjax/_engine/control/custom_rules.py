"""Functions with rules of their users': what `custom_jvp` and `custom_vjp` have in common.

Who gets such a call depends on what interprets it:

- Evaluation runs the function, on values, with Python's control flow.
- Differentiation, if an argument carries a tangent, runs the rule in place of the function,
  with the interpreter below current. The function is not traced.
- vmap hands on a function of batches, if it is differentiated below; else it runs the function.
- Staging traces the function to a jaxpr and applies a primitive that holds it and the rule.
  The rule runs when the equation is differentiated; it is traced once per types.

A rule speaks of arguments only. What the function closes over becomes an operand, and is
refused if it carries a tangent; what only the rule closes over is used as it is, and refused
if it belongs to a trace that is not there when the rule runs.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple, NoReturn

from mjax._engine.base.context import ctx
from mjax._engine.base.errors import (
    LazyNotImplementedError,
    LazyTypeError,
    UnexpectedTracerError,
)
from mjax._engine.base.programs import ProgramCache
from mjax._engine.base.util import exact
from mjax._engine.control.bodies import Body, Typed, agree, differences
from mjax._engine.control.closures import closed_over
from mjax._engine.ir.effects import describe, forbidden
from mjax._engine.ir.jaxpr import DebugInfo, Jaxpr, Var
from mjax._engine.ir.pytree import tree_flatten, tree_leaves
from mjax._engine.ir.source import current_traceback
from mjax._engine.ir.types import typeof
from mjax._engine.primitives.shapes import array_of
from mjax._engine.primitives.tangents import stop_gradient_p
from mjax._engine.tracing.authoring import applied_at, carriers
from mjax._engine.tracing.flat import (
    check_arguments,
    check_callable,
    debug_info_of,
    describe_function,
    function_name,
)
from mjax._engine.tracing.interpreter import Interpreter, Tracer, call_with, refusing
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.stage import StageInterpreter, eval_jaxpr, lift_tracers, stage
from mjax._engine.transforms.batching import (
    AxisData,
    BatchInterpreter,
    BatchTracer,
    batch_jaxpr,
    element_type,
    split_results,
)
from mjax._engine.transforms.jvp import JVPInterpreter, JVPTracer
from mjax._engine.transforms.partial_eval import PartialEvalInterpreter

# ---- arguments -------------------------------------------------------------------------


class Arguments(NamedTuple):
    """How the arguments of a function with custom rules are taken apart.

    Attributes:
      who: the decorator, for messages.
      function: name of the function, for messages.
      signature: that of the function, if it has one.
      nondiff: positions of the arguments that are handed to rules by themselves.
    """

    who: str
    function: str
    signature: inspect.Signature | None
    nondiff: tuple[int, ...]

    @classmethod
    def of(cls, who: str, f: Callable[..., Any], numbers: Any, names: Any) -> Arguments:
        """From what users give as `nondiff_argnums` and `nondiff_argnames`.

        Raises:
          TypeError: a number is no integer.
          ValueError: the function has no such argument.
        """
        function = function_name(f)
        try:
            signature = inspect.signature(f)
        except (TypeError, ValueError):
            signature = None
        positional, fixed = _positional(signature)
        places = set()
        for n in (numbers,) if hasattr(numbers, "__index__") else numbers:
            n = operator.index(n)
            if fixed and not -len(positional) <= n < len(positional):
                msg = (f"{who}: nondiff_argnums has {n}, but {function} takes {len(positional)} "
                       "positional arguments.")
                raise ValueError(msg)
            places.add(n + len(positional) if n < 0 else n)
        for name in (names,) if isinstance(names, str) else names:
            if name not in positional:
                msg = (f"{who}: nondiff_argnames has {name!r}, which is no positional argument of "
                       f"{function}.")
                raise ValueError(msg)
            places.add(positional.index(name))
        return cls(who, function, signature, tuple(sorted(places)))

    def resolve(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call by position, defaults among them: rules take them so.

        Raises:
          TypeError: they do not fit the signature, or one has no position.
        """
        if self.signature is None:
            if kwargs:
                msg = (f"{self.who} of {self.function}: it has no signature to be seen, so that "
                       f"the keyword arguments {', '.join(kwargs)} have no position.")
                raise TypeError(msg)
            return args
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            msg = f"{self.who} of {self.function}: {error}."
            raise TypeError(msg) from None
        bound.apply_defaults()
        # Those left out of the call take their defaults when the function is called.
        without_position = [name for name in bound.kwargs if name in kwargs]
        if without_position:
            msg = (f"{self.who} of {self.function}: the keyword arguments "
                   f"{', '.join(without_position)} have no position, and rules take arguments by "
                   "position. Make them positional parameters.")
            raise TypeError(msg)
        return bound.args

    def split(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Those that are handed to rules by themselves, and the others."""
        return (tuple([args[i] for i in self.nondiff if i < len(args)]),
                tuple([a for i, a in enumerate(args) if i not in self.nondiff]))

    def join(self, static: Sequence[Any], dynamic: Sequence[Any]) -> list[Any]:
        """Inverse of `split`."""
        given, rest = dict(zip(self.nondiff, static, strict=False)), iter(dynamic)
        return [given[i] if i in given else next(rest)
                for i in range(len(static) + len(dynamic))]


def _positional(signature: inspect.Signature | None) -> tuple[list[str], bool]:
    """Names of the positional parameters, and whether there are no others."""
    if signature is None:
        return [], False
    parameters = signature.parameters.values()
    return ([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)],
            all(p.kind is not p.VAR_POSITIONAL for p in parameters))


class Custom:
    """A function with rules: base of `custom_jvp` and `custom_vjp`."""

    who: ClassVar[str]
    #: Methods by which rules are given; asked of the function inside if this class has none.
    definers: ClassVar[tuple[str, ...]] = ("defjvp", "defjvps", "defvjp", "def_vmap")

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Any, nondiff_argnames: Any):
        check_callable(self.who, fun)
        # Not its dict: another such class keeps its own fields there.
        functools.update_wrapper(self, fun, updated=())  # type: ignore[arg-type]
        self.fun = fun
        self.arguments = Arguments.of(self.who, fun, nondiff_argnums, nondiff_argnames)
        self.nondiff_argnums = self.arguments.nondiff
        #: What is known of the function, per static arguments and types of the others.
        self.signatures = ProgramCache(64)
        self._closed_over: list[Tracer] | None = None

    def rules(self) -> Sequence[Any]:
        """The functions that were given as rules."""
        raise NotImplementedError

    def ruled(self) -> None:
        """Forgets what was made by other rules."""
        self.signatures.clear()
        self._closed_over = None

    def closed_over(self) -> list[Tracer]:
        """The traced values that the rules close over."""
        if self._closed_over is None:
            found = closed_over(*self.rules())
            if found:
                return found  # and is not kept alive
            self._closed_over = []
        return self._closed_over

    def __getattr__(self, name: str) -> Any:
        if name in self.definers and "fun" in self.__dict__:
            return getattr(self.fun, name)
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def describe(self) -> str:
        """How messages speak of the function."""
        return f"{self.who} function {describe_function(self.fun)}"

    def check_static(self, static: tuple[Any, ...]) -> None:
        """Refuses values of `nondiff_argnums`."""

    def call(self, make: type[Call], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls the function with its rules."""
        static, dynamic = self.arguments.split(self.arguments.resolve(args, kwargs))
        self.check_static(static)
        leaves, in_tree = tree_flatten(dynamic)
        try:
            for leaf in leaves:
                typeof(leaf)
        except (TypeError, OverflowError):
            check_arguments(f"{self.who} of {self.arguments.function}", dynamic)
            raise
        hidden = [x for x in tree_leaves(static) if isinstance(x, Tracer)] if static else []
        call = make(self, static, in_tree)
        outs = apply(call, [*map(stop_gradient_p.bind, hidden), *leaves])
        return call.out_tree.unflatten(outs)


# ---- calls -----------------------------------------------------------------------------


class Signature:
    """What is known of a function with rules at one abstract signature.

    Attributes:
      body: the staged function, unless it closes over tracers.
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


class Call:
    """A call of a function with rules, but for its operands.

    Args:
      custom: the function.
      static: arguments that are handed to rules by themselves.
      in_tree: structure of the others, which are pytrees of arrays.

    Attributes:
      hidden: how many tracers are among the static arguments; they lead the operands.
      out_tree: how results are nested; known once the function or a rule has run.
      names_in_scope: the axes that its rules may refer to.
      outer: tracers that function or rules close over and that an equation has as its leading
        operands; those stand for them when the rules run.
      jaxpr: that of such an equation.
    """

    __slots__ = ("custom", "hidden", "in_tree", "jaxpr", "names_in_scope", "out_tree", "outer",
                 "places", "signature", "static")
    primitive: ClassVar[Primitive]

    def __init__(self, custom: Any, static: tuple[Any, ...], in_tree: Any):
        self.custom = custom
        self.static, self.places = _without_tracers(static)
        self.hidden = sum(len(where) for *_, where in self.places)
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.names_in_scope = tuple([name for name, _ in ctx.axis_env])
        self.signature: Signature | None = None
        self.outer: Sequence[Tracer] = ()
        self.jaxpr: Jaxpr | None = None

    def params(self, rule: Any, jaxpr: Jaxpr | None = None, num_consts: int = 0
               ) -> dict[str, Any]:
        """The params of the primitive; without a jaxpr where the rule runs at once."""
        raise NotImplementedError

    def rule(self) -> Any:
        """The rule of this call, to be run at once."""
        return self

    def batched(self, rule: Any, axis: AxisData, dims: Sequence[int | None], batched: bool,
                live: BatchedCall | None = None) -> Any:
        """A rule for a batch; one that lives runs at once, under the interpreter of a call."""
        raise NotImplementedError

    def equation(self, avals: Sequence[Any]) -> Equation:
        """What an equation holds, and the operands that lead the function's."""
        body = self.staged(avals)
        # Tracers of other traces were left there by side effects.
        chain = list(interpreters())
        more = [t for t in self.custom.closed_over() if t.interp in chain
                and all(t is not c for c in body.consts)]
        outer = [*body.consts, *more]
        if not outer:
            # Equal calls hold the same rules, so that what is made of these is made once.
            return Equation(body.jaxpr, self.known(avals).call, [], 0)
        n = len(body.consts)
        rule = copy.copy(self)
        rule.outer = outer
        rule.jaxpr = body.jaxpr if not more else body.jaxpr.replace(invars=[
            *body.jaxpr.invars[:n], *(Var(t.aval) for t in more), *body.jaxpr.invars[n:]])
        return Equation(rule.jaxpr, rule, outer, n)

    # -- arguments --

    def take(self, values: Sequence[Any]) -> tuple[Sequence[Any], tuple[Any, ...]]:
        """Static and dynamic arguments, from operands."""
        n = self.hidden
        return self.static_from(values[:n]), self.in_tree.unflatten(values[n:])

    def static_from(self, hidden: Sequence[Any]) -> Sequence[Any]:
        """The static arguments with other values in place of the tracers among them."""
        static, values = list(self.static), iter(hidden)
        for i, tree, leaves, where in self.places:
            static[i] = tree.unflatten([next(values) if j in where else leaf
                                        for j, leaf in enumerate(leaves)])
        return tuple(static)

    def own(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands without the leading ones, which stand for what is closed over."""
        return operands[len(operands) - self.hidden - self.in_tree.num_leaves:]

    def leading(self, operands: Sequence[Any]) -> Sequence[Any]:
        """Those that stand for what is closed over."""
        return operands[:len(operands) - self.hidden - self.in_tree.num_leaves]

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
        key = (tuple(map(exact, self.static)), self.in_tree, tuple(avals), ctx.settings,
               ctx.axis_env)
        try:
            hash(key)
        except TypeError:  # a static argument is not hashable
            return None
        return None if self.hidden else key

    def _keep(self, avals: Sequence[Any]) -> None:
        """Remembers what is known; only where it holds no tracers, which would pin a trace."""
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
        known.results = Typed("the function's output", self.out_tree, jaxpr.out_avals)
        if not consts:
            known.body = body
            self._keep(avals)
        return body

    def debug_info(self) -> DebugInfo:
        """Names for messages about what is traced."""
        arguments = self.custom.arguments
        args = arguments.join(self.static, self.in_tree.unflatten([0] * self.in_tree.num_leaves))
        info = debug_info_of(arguments.who, self.custom.fun, args, {}, arguments.nondiff)
        hidden = ["a static argument"] * self.hidden
        return info._replace(arg_names=(*hidden, *(info.arg_names or ())))

    # -- rules --

    def traced(self, rule: RuleRun, avals: Sequence[Any], args: Sequence[Any],
               outer: Sequence[Any]) -> Any:
        """Runs a rule: traced at most once where a program is being staged.

        Args:
          rule: what is run.
          avals: types of the function's operands.
          args: what it is run on.
          outer: values of what is closed over.

        Returns:
          What `rule.f` gives.
        """
        if not staging() and not self.outer:
            return rule.f(*map(array_of, args))
        trace = self.trace(rule, avals, list(map(typeof, args)), list(map(typeof, outer)))
        values = eval_jaxpr(trace.jaxpr, trace.jaxpr.consts, *trace.consts, *outer, *args)
        return values, trace.known

    def trace(self, rule: RuleRun, avals: Sequence[Any], in_avals: Sequence[Any],
              outer_avals: Sequence[Any]) -> Trace:
        """Stages a rule, for arguments of the types `in_avals`; once per types."""
        traces = self.known(avals).traces
        key = (rule.kind, rule.key, tuple(in_avals), ctx.settings, ctx.axis_env)
        found = traces.get(key)
        if found is None:
            found = self._stage_rule(rule, in_avals, outer_avals)
            if not found.consts:
                traces.put(key, found)
                if not self.outer:
                    self._keep(avals)
        return found

    def _stage_rule(self, rule: RuleRun, in_avals: Sequence[Any], outer_avals: Sequence[Any]
                    ) -> Trace:
        known: list[Any] = []
        n = len(outer_avals)

        def values(*args: Any) -> Any:
            for tracer, value in zip(self.outer, args, strict=False):
                ctx.interpreter.stand_in(tracer, value)
            out, more = rule.f(*args[n:])
            known.append(more)
            return out

        who = f"{rule.kind} rule of {self.custom.describe()}"
        info = DebugInfo(self.custom.who, f"the {who}")
        try:
            with accepting(self.outer):
                jaxpr, consts = lift_tracers(stage(values, [*outer_avals, *in_avals], info))
        except UnexpectedTracerError as error:
            raise UnexpectedTracerError(f"{error}\n{_LATER.format(who=who)}") from None
        chain = list(interpreters())
        for const in consts:
            if const.interp not in chain:
                _refuse_foreign(who, const)
        return Trace(jaxpr, consts, known[0])

    # -- messages --

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return (f"{self.custom.describe()} uses a value of type {tracer.aval} that is being "
                f"differentiated and is not among its arguments. {_REMEDY}")


class BatchedCall:
    """A call under vmap, as the interpreters below see it: of a function of batches.

    The function and its rules run under the interpreter of the vmap, put on top of whichever
    runs them, so that they may close over values of the batch.

    Args:
      call: the call of one element.
      interp: the interpreter of the vmap.
      dims: batch dims of the operands.

    Attributes:
      out_dims: batch dims of the results; known once the function or a rule has run.
    """

    __slots__ = ("call", "custom", "dims", "interp", "out_dims", "primitive")

    def __init__(self, call: Any, interp: BatchInterpreter, dims: Sequence[int | None]):
        self.call, self.interp, self.dims = call, interp, dims
        self.custom, self.primitive = call.custom, call.primitive
        self.out_dims: Sequence[int | None] = ()

    @property
    def names_in_scope(self) -> Any:
        """The axes that the rules may refer to."""
        return self.call.names_in_scope

    def params(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The params of the primitive."""
        return self.call.params(*args, **kwargs)

    def outside(self, tracer: Tracer) -> str:
        """Why a value is refused that is not among the arguments."""
        return self.call.outside(tracer)

    def within(self, f: Callable[..., Any], args: Sequence[Any], dims: Sequence[int | None]
               ) -> tuple[list[Any], list[int | None]]:
        """Evaluates a function for the batch; gives values with their batch dims."""
        interp = self.interp
        parent, interp.parent = interp.parent, ctx.interpreter
        ctx.interpreter = interp
        try:
            outs = f(*[arg if dim is None else BatchTracer(interp, arg, dim)
                       for arg, dim in zip(args, dims, strict=True)])
            return split_results(interp, outs)
        finally:
            ctx.interpreter, interp.parent = interp.parent, parent

    def run(self, *values: Any) -> list[Any]:
        """Runs the function."""
        outs, self.out_dims = self.within(self.call.run, values, self.dims)
        return outs

    def rule(self) -> Any:
        """The rule of this call, to be run at once."""
        return self.batched(self.call.rule(), self.interp.axis, self.dims, True, self)

    def batched(self, *args: Any) -> Any:
        """A rule for a batch."""
        return self.call.batched(*args)

    def equation(self, avals: Sequence[Any]) -> Equation:
        """What an equation holds, and the operands that lead the function's."""
        elements = [a if d is None else element_type(a, d)
                    for a, d in zip(avals, self.dims, strict=True)]
        one = self.call.equation(elements)
        leading, dims = split_results(self.interp, one.leading)
        dims = [*dims, *self.dims]
        batched, self.out_dims = batched_call(one.jaxpr, self.interp.axis, dims)
        rule = self.batched(one.rule, self.interp.axis, dims, self.out_dims[:1] != [None])
        return one._replace(jaxpr=batched, rule=rule, leading=leading)


def batched_call(call_jaxpr: Jaxpr, axis: AxisData, dims: Sequence[int | None]
                 ) -> tuple[Jaxpr, list[int | None]]:
    """The jaxpr of a function with rules for a batch: all results are batched, or none.

    A rule may make a batch of what the function gives once.
    """
    if all(d is None for d in dims):
        batched, out_dims = batch_jaxpr(call_jaxpr, axis, dims)
        if all(d is None for d in out_dims):
            return batched, out_dims
    return batch_jaxpr(call_jaxpr, axis, dims, True)


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


class Equation(NamedTuple):
    """What an equation of a function with rules is made of.

    Attributes:
      jaxpr: the function's.
      rule: its rule.
      leading: operands in front of the function's: what it closes over, then what its rules do.
      num_consts: how many of them the function closes over.
    """

    jaxpr: Jaxpr
    rule: Any
    leading: list[Any]
    num_consts: int


class RuleRun(NamedTuple):
    """A user's rule about to be run.

    Attributes:
      kind: which it is, for messages.
      key: what it depends on beside types.
      f: from flat values to a list of values and what else there is to know of them.
    """

    kind: str
    key: Any
    f: Callable[..., tuple[list[Any], Any]]


class Trace(NamedTuple):
    """A staged rule: its jaxpr, the tracers it closed over, and what else it gave."""

    jaxpr: Jaxpr
    consts: list[Any]
    known: Any


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


def refuse_differentiated(who: str, aval: Any) -> NoReturn:
    """Raises the error for a value a function closes over that carries a tangent."""
    source = applied_at(ctx.source or current_traceback())
    raise UnexpectedTracerError(lambda: (
        f"{who} closes over a value of type {aval} that is being differentiated. {_REMEDY}\n"
        f"{source}"))


def check_primal_output(call: Call, rule: str, tree: Any, avals: Sequence[Any]) -> None:
    """Compares a rule's first result with what the function gives, where that is known.

    Raises:
      TypeError: they have not the same structure or types; names the leaves.
    """
    expected = None if call.signature is None else call.signature.results
    given = Typed(f"the first result of the {rule}", tree, avals)
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


def invariant(aval: Any) -> Any:
    """A type without the mesh axes along which it varies: what rules give may vary less."""
    return aval.update(varying=frozenset()) if aval.varying else aval


# ---- dispatch --------------------------------------------------------------------------


def interpreters() -> Iterator[Interpreter]:
    """The current interpreter and those below it."""
    interp: Interpreter | None = ctx.interpreter
    while interp is not None:
        yield interp
        interp = interp.parent


def staging() -> bool:
    """Whether a program is being staged, so that values are known by type only."""
    return any(type(i) is StageInterpreter for i in interpreters())


def apply(call: Any, values: Sequence[Any]) -> list[Any]:
    """Applies a function with rules to operands, under the current interpreter.

    Args:
      call: a `Call` or a `BatchedCall`.
      values: the operands.
    """
    interp = ctx.interpreter
    if interp.parent is None:
        return call.run(*map(array_of, values))
    if isinstance(interp, JVPInterpreter):
        with refusing(interp, call.outside):
            if any(type(v) is JVPTracer and v.interp is interp for v in values):
                return interp.process(call.primitive, tuple(values), call.params(call.rule()))
            return call_with(interp.parent, apply, call, values)
    if isinstance(interp, PartialEvalInterpreter) and not any(map(interp.is_unknown, values)):
        with refusing(interp, call.outside):
            return call_with(interp.parent, apply, call, values)
    if isinstance(interp, BatchInterpreter):
        if all(i.parent is None or isinstance(i, BatchInterpreter) for i in interpreters()):
            return call.run(*map(array_of, values))  # nobody will ask for the rule
        if _differentiates_now():
            return _apply_batched(call, interp, values)
    jaxpr, rule, leading, num_consts = call.equation(list(map(typeof, values)))
    return call.primitive.bind(*leading, *values, **call.params(rule, jaxpr, num_consts))


def _differentiates_now() -> bool:
    """Whether what the current interpreter does is differentiated now rather than later, so
    that function or rule run now, and on values if there are any."""
    for interp in interpreters():
        if isinstance(interp, (JVPInterpreter, PartialEvalInterpreter)):
            return True
        if type(interp) is StageInterpreter:
            return False
    return False


def _apply_batched(call: Any, interp: BatchInterpreter, values: Sequence[Any]) -> list[Any]:
    mine = [type(v) is BatchTracer and v.interp is interp for v in values]
    below = BatchedCall(call, interp, [v.dim if m else None
                                       for v, m in zip(values, mine, strict=True)])
    outs = call_with(interp.parent, apply, below, [
        v.value if m else v for v, m in zip(values, mine, strict=True)])
    return [o if d is None else BatchTracer(interp, o, d)
            for o, d in zip(outs, below.out_dims, strict=True)]


__all__ = ["Arguments", "BatchedCall", "Call", "Custom", "RuleRun", "Signature", "apply",
           "batched_call", "check_primal_output", "interpreters", "invariant",
           "refuse_differentiated", "staging"]
