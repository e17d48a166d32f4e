"""The Primitive record: all facts and all rules of a primitive in one place.

Rules follow JAX's signatures, for the engine's own primitives as for users':

    impl(*args, **params)                    -> value
    abstract_eval(*avals, **params)          -> aval
    lowering(ctx, *operands, **params)       -> sequence of ir.Value
    jvp(primals, tangents, **params)         -> primal, tangent
    linearize(nonzeros, *primals, **params)  -> primal, nonzero, residuals, linear
        and linear(residuals, *tangents)     -> tangent; tangents may be `Zero`s
    partial_eval(interp, *args, **params)    -> value; `interp.is_unknown(arg)`, `.call_known`
    transpose(cotangent, *args, **params)    -> a cotangent or None per operand
    batch(args, dims, **params)              -> value, dim
    axis_batch(axis, args, dims, **params)   -> value, dim; for rules that need axis data
    dce(used_outputs, eqn)                   -> used inputs, new equation or None
    discharge(*args, **params)               -> value, and by the number of the operand the new
                                                contents of references (None: it has ended);
                                                contents stand for references
    recompute(saveable, used_outputs, eqn)   -> equation that also gives what it saves, equation
                                                that gives the used outputs again, or None; used
                                                outputs that it does not give are saved
    staging(interp, source, *tracers, **params) -> tracers, of equations that it records itself
    typecheck(*avals, **params)              -> None; raises where jaxprs in params do not fit
    collective_axes(*avals, **params)        -> named axes over which devices wait for each other
    cast_varying(varying, **params)          -> along which mesh axes operands have to vary, and
                                                params whose jaxprs are of these types
    pretty(params)                           -> params to print

Transpose rules are called only where some cotangent is not zero. With `multiple_results`
values, avals, tangents and dims in results are lists.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NoReturn

from mjax._engine.base.errors import LazyArgumentError, LazyTypeError
from mjax._engine.base.folding import fold
from mjax._engine.base.program_caches import ProgramCache, forget_programs
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import exact
from mjax._engine.ir.effects import Effects, OperandEffect, no_effects
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.types import AbstractValue
from mjax._engine.tracing.rule_errors import (
    bad_rule_result,
    describe_value,
    missing_rule,
    name_rule,
    refuse_effects,
    where,
)

Rule = Callable[..., Any]

#: All primitives, for the rule tables of `mjax_ext.interpreters`.
registry: weakref.WeakSet[Primitive] = weakref.WeakSet()


#: The fields that hold rules.
_RULES = (
    "abstract_eval", "axis_batch", "batch", "cast_varying", "collective_axes", "dce", "discharge",
    "impl", "jvp", "linearize", "partial_eval", "pretty", "recompute", "scope", "staging",
    "transpose", "typecheck", "users_rule",
)


class Primitive:
    """A primitive operation.

    Args:
      name: its name in jaxprs and messages.

    Attributes:
      multiple_results: `bind` returns a list, and rules take and give lists.
      types_cacheable: abstract evaluation depends on types and hashable params alone.
      structural: moves elements without looking at them. So it works for extended dtypes through
        their physical arrays, by the rule in `batch`.
      own_varying: the abstract evaluation sets the mesh axes along which results vary; otherwise
        they vary as the operands do.
      exact_params: names of params whose equal values cache keys tell apart, such as 1, 1.0 and
        True, or 0.0 and -0.0 (`base.util.exact`). True means all; it is the default for users'
        primitives. The engine's primitives name params with numbers that are not sizes, axes or
        flags.

    Example:
      >>> from mjax_ext.core import Primitive
      >>> double_p = Primitive("double")
      >>> double_p.def_impl(lambda x: x + x)  # doctest: +ELLIPSIS
      <function ...>
      >>> double_p.bind(3)
      6
    """

    __slots__ = (
        *_RULES,
        "__dict__",
        "__weakref__",
        "applied",
        "derived",
        "exact_params",
        "executables",
        "foreign",
        "frame",
        "lowerings",
        "multiple_results",
        "name",
        "own_varying",
        "structural",
        "types",
        "types_cacheable",
        "used",
    )

    #: Whether it calls a function that `bind` takes (`core.CallPrimitive`); none maps one.
    call_primitive = map_primitive = False
    #: Whether it is one of the engine's.
    own = False
    #: Whether a transformation applies its rule although none of its tracers is an operand.
    always = False
    #: Whether references may be operands, although it has neither a rule `discharge` nor a frame.
    takes_references = False
    impl: Rule | None
    #: Gives (avals, effects); `def_abstract_eval` adapts rules that give avals only.
    abstract_eval: Rule | None
    typecheck: Rule | None
    scope: Rule | None
    jvp: Rule | None
    linearize: Rule | None
    partial_eval: Rule | None
    transpose: Rule | None
    batch: Rule | None
    axis_batch: Rule | None
    dce: Rule | None
    discharge: Rule | None
    recompute: Rule | None
    staging: Rule | None
    cast_varying: Rule | None
    collective_axes: Rule | None
    pretty: Rule | None
    users_rule: Rule | None

    def __init__(self, name: str, *, multiple_results: bool = False,
                 types_cacheable: bool = True, structural: bool = False,
                 own_varying: bool = False, exact_params: tuple[str, ...] | Literal[True] = ()):
        self.name = name
        self.multiple_results = multiple_results
        self.types_cacheable = types_cacheable
        self.structural = structural
        self.own_varying = own_varying
        self.exact_params = exact_params
        for field in _RULES:
            object.__setattr__(self, field, None)
        #: Platform (None: any) -> rule.
        self.lowerings: dict[str | None, Any] = {}
        #: Describes the programs in its params, if there are some (`control.frame.Frame`).
        self.frame: Any = None
        #: Names of rules that a helper derived.
        self.derived: set[str] = set()
        #: Names of rules that are not the engine's, and ("lowering", platform) for each lowering.
        self.foreign: set[Any] = set()
        #: (settings, avals, params) -> (type or list of types, effects).
        self.types = ProgramCache()
        #: The executor's compiled forms of single applications.
        self.executables = ProgramCache()
        #: Whether its types were computed since all programs were forgotten. If not, caches hold
        #: no results of its rules.
        self.used = False
        #: Whether its types were ever computed.
        self.applied = False
        registry.add(self)

    def __repr__(self) -> str:
        return self.name

    # -- application --

    def bind(self, *args: Any, **params: Any) -> Any:
        """Applies the primitive under the current interpreter.

        Args:
          args: arrays, tracers, NumPy or Python scalars.
          params: static parameters; hashable.

        Returns:
          One value, or a list of them if `multiple_results`.
        """
        try:
            return thread.interpreter.process(self, args, params)
        except Exception as error:
            fold(error)
            raise

    def bind_with_trace(self, trace: Any, args: Sequence[Any], /, *more: Any) -> Any:
        """Applies the primitive by an interpreter, whichever one is current.

        Args:
          trace: the interpreter (`mjax_ext.core.Trace`).
          args: the operands.
          more: their types, which are not needed and may be left out; then a dict of the params.
        """
        previous, thread.interpreter = thread.interpreter, trace
        try:
            return trace.process(self, tuple(args), more[-1])
        except Exception as error:
            fold(error)
            raise
        finally:
            thread.interpreter = previous

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The params with which `bind` repeats an equation: those of the equation."""
        return params

    # -- registration of rules --

    def def_impl(self, impl: Rule) -> Rule:
        """Sets how the primitive is evaluated outside of any transformation."""
        return self.define("impl", impl)

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types."""
        adapted = lambda *avals, **params: (rule(*avals, **params), no_effects)
        adapted.__wrapped__ = rule  # type: ignore[attr-defined]
        self.define("abstract_eval", adapted)
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types and a set of effects."""
        return self.define("abstract_eval", rule)

    def def_lowering(self, rule: Any, platform: str | None = None) -> Any:
        """Sets how the primitive becomes StableHLO, for one platform or all."""
        self.lowerings[platform] = rule
        self._mark(("lowering", platform))
        self._forget()
        return rule

    def def_jvp(self, rule: Rule) -> Rule:
        """Sets the forward derivative."""
        return self.define("jvp", rule)

    def def_linearize(self, rule: Rule) -> Rule:
        """Sets the forward derivative in two parts: the result, and a linear function."""
        return self.define("linearize", rule)

    def def_partial_eval(self, rule: Rule) -> Rule:
        """Sets the rule for operands of which only some are known."""
        return self.define("partial_eval", rule)

    def def_transpose(self, rule: Rule) -> Rule:
        """Sets the transpose of the operation in its undefined operands."""
        return self.define("transpose", rule)

    def def_batch(self, rule: Rule) -> Rule:
        """Sets how the operation is done for a batch at once."""
        return self.define("batch", rule)

    def def_axis_batch(self, rule: Rule) -> Rule:
        """`def_batch` for rules that need the axis; it takes precedence."""
        return self.define("axis_batch", rule)

    def def_dce(self, rule: Rule) -> Rule:
        """Sets the rule that removes unused results of an equation."""
        return self.define("dce", rule)

    def def_discharge(self, rule: Rule) -> Rule:
        """Sets the operation on the contents of references; without it operands have none."""
        return self.define("discharge", rule)

    def def_typecheck(self, rule: Rule) -> Rule:
        """Sets the comparison of the jaxprs in the params with the operands."""
        return self.define("typecheck", rule)

    def def_cast_varying(self, rule: Rule) -> Rule:
        """Sets the mesh axes along which operands have to vary."""
        return self.define("cast_varying", rule)

    def def_collective_axes(self, rule: Rule | None) -> Rule | None:
        """Sets the named axes over which devices wait for each other; None: no axes."""
        return self.define("collective_axes", rule)

    def def_scope(self, rule: Rule) -> Rule:
        """Sets a function of the params that gives a context manager: it brings the named axes of
        the jaxprs in the params into scope."""
        return self.define("scope", rule)

    def def_pretty(self, rule: Rule) -> Rule:
        """Sets the params that are printed."""
        return self.define("pretty", rule)

    def def_users_rule(self, rule: Rule) -> Rule:
        """Sets `params -> text`, which names the user's rule that the jvp rule runs."""
        return self.define("users_rule", rule)

    def define(self, field: str, rule: Rule | None, *, derived: bool = False) -> Any:
        """Sets a rule; results of the old one are forgotten.

        Args:
          field: the rule's name.
          rule: the rule, or None.
          derived: a helper made it, rather than an author.
        """
        object.__setattr__(self, field, rule)
        self._mark(field, derived)
        if field in ("impl", "abstract_eval") and field in self.foreign:
            self.exact_params = True
        if field == "staging":
            # Staging looks for the rule where it does not know the type.
            self.types = ProgramCache() if rule is None else _Unkept()
        (self.derived.add if derived else self.derived.discard)(field)
        self._forget()
        return rule

    def _mark(self, name: Any, derived: bool = False) -> None:
        """Notes whose a rule is: the engine's own primitives have theirs before they are applied,
        and a frame's rules are the engine's on any primitive."""
        ours = not self.applied if self.own else derived and self.frame is not None
        (self.foreign.discard if ours else self.foreign.add)(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """An assignment to a rule defines it."""
        if name in _RULES:
            self.define(name, value)
        else:
            object.__setattr__(self, name, value)

    def _forget(self) -> None:
        if self.used:
            self.used = False
            forget_programs()

    def params_key(self, params: dict[str, Any]) -> Iterable[Any]:
        """The form of params in a cache key."""
        names = self.exact_params
        if not names:
            return params.items()
        return [(name, exact(value) if names is True or name in names else value)
                for name, value in params.items()]

    def rules(self) -> Rules:
        """The rules: name -> `file:line`, `derived ...`, `default ...` or `missing ...`.

        Shown as a table; see `Rules`.
        """
        table = Rules()
        for field, without in _WITHOUT.items():
            rule = getattr(self, field) or (self.axis_batch if field == "batch" else None)
            table[field] = without(self) if rule is None else where(rule)
            if rule is not None and field in self.derived:
                table[field] = f"derived at {table[field]}"
        for platform, rule in (self.lowerings or {None: None}).items():
            table[f"lowering[{platform or 'any'}]"] = (
                "missing" if rule is None else
                f"derived from {where(rule)}" if type(rule) is traced else where(rule))
        return table

    def programs_of(self, params: dict[str, Any]) -> ProgramCache:
        """The store of the compiled forms of an application.

        It belongs to a jaxpr in the params, if there is one: they live as long as that.
        """
        if not self.types_cacheable:
            for jaxpr in jaxprs_in_params(params):
                return jaxpr.cached("programs", lambda: ProgramCache(64))
        return self.executables

    # -- typing --

    def type_of(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, Effects]:
        """Cached result types (one, or a list with `multiple_results`) and effects."""
        if not self.types_cacheable:
            return self._type_of(avals, params)
        # The staging interpreter, which is on the hot path, builds the same key itself.
        key = (thread.settings, *avals, *self.params_key(params))
        try:
            known = self.types.get(key)
        except TypeError:
            self.refuse_unhashable(params)
            raise
        # Computed here rather than in an `except KeyError`, which would show in tracebacks.
        return self.types.put(key, self._type_of(avals, params)) if known is None else known

    def declared(self, avals: Sequence[Any], params: dict[str, Any], policy: str) -> Any:
        """The result types by `type_of`, to compare with the results of other rules.

        None where they are not known, or follow from the jaxprs in the params.

        Args:
          avals: types of the operands.
          params: the params.
          policy: the field of `EffectPolicy` that must allow the effects.

        Raises:
          ValueError: the policy of an effect forbids it.
        """
        if self.abstract_eval is None or not self.types_cacheable:
            return None
        try:
            known = self.types[thread.settings, *avals, *self.params_key(params)]
        except (KeyError, TypeError):
            known = None
        if known is None:
            try:
                known = self.type_of(tuple(avals), params)
            except OperandsVaryError:
                return None
        if known[1]:
            refuse_effects(self, known[1], policy)
        return known[0]

    def infer(self, avals: Sequence[Any], params: dict[str, Any]) -> tuple[list[Any], Effects]:
        """Result types as a list, and effects."""
        out, effects = self.type_of(tuple(avals), params)
        return (out if self.multiple_results else [out]), effects

    def effects_of(self, avals: Sequence[Any], params: dict[str, Any]) -> Effects:
        """The effects alone; operands may not vary alike yet."""
        try:
            return self.type_of(tuple(avals), params)[1]
        except OperandsVaryError:
            varying = no_axes.union(*(a.varying for a in avals))
            return self.type_of(tuple(a.with_varying(varying) for a in avals), params)[1]

    def _type_of(self, avals: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, Effects]:
        if not self.used:
            self.used = self.applied = True
        if self.abstract_eval is None:
            self.missing("abstract_eval", operands=len(avals), params=params)
        if self.discharge is None and self.frame is None and not self.takes_references and any(
                map(is_reference, avals)):
            raise LazyArgumentError(lambda: (
                f"{self.name} takes arrays, but was given a reference of type "
                f"{next(filter(is_reference, avals))}: read it with ref[...]."))
        varying = no_axes if self.own_varying else joint_varying(self, avals)
        # Helpers that the rule calls must not be staged into the program under construction.
        previous, thread.interpreter = thread.interpreter, ThreadState.interpreter
        try:
            result = self.abstract_eval(*avals, **params)
        except Exception as error:
            name_rule(error, self, "abstract_eval")
            raise
        finally:
            thread.interpreter = previous
        if not (isinstance(result, tuple) and len(result) == 2
                and isinstance(result[1], (frozenset, set))):
            bad_rule_result(self, "abstract_eval", lambda: (
                f"returned {describe_value(result)}; an effectful one must return a pair of types "
                "and a set of effects."))
        out, effects = result
        beyond = effects and [e for e in effects if isinstance(e, OperandEffect)
                              and e.index not in (None, *range(len(avals)))]
        if beyond:
            bad_rule_result(self, "abstract_eval", lambda: (
                f"returned the effect {beyond[0]!r} for {len(avals)} operands; the first one is "
                "0."))
        outs: Any = out if self.multiple_results else [out]
        if not isinstance(outs, (list, tuple)) or not all(
                isinstance(aval, AbstractValue) for aval in outs):
            bad_rule_result(self, "abstract_eval", lambda: (
                f"returned {describe_value(out)}; " + (
                    "since multiple_results=True it must return a list of types"
                    if self.multiple_results else
                    "it must return one type, or the primitive be made with multiple_results=True")
                + " (mjax_ext.core.ShapedArray)."))
        if varying:
            outs = [aval.with_varying(varying) for aval in outs]
        return (outs if self.multiple_results else outs[0]), frozenset(effects)

    # -- errors --

    def missing(self, rule: str, **facts: Any) -> NoReturn:
        """Raises the error for a missing rule; see `rule_errors.missing_rule`."""
        missing_rule(self, rule, **facts)

    def refuse_unhashable(self, params: dict[str, Any]) -> None:
        """Raises the error for a param that is not hashable, if there is one."""
        for name, value in params.items():
            try:
                hash(value)
            except TypeError:
                msg = (f"Parameter {name!r} of primitive {self.name!r} is not hashable: "
                       f"{value!r} of type {type(value).__name__}. Params are static; pass "
                       "arrays as operands and lists as tuples.")
                raise TypeError(msg) from None


class EnginePrimitive(Primitive):
    """A primitive of the engine's own: its rules are tested, so their results are not checked."""

    __slots__ = ()
    own = True


class _Unkept(ProgramCache):
    """A cache that keeps nothing."""

    __slots__ = ()

    def put(self, key: Any, value: Any) -> Any:
        return value


#: The axes along which an invariant value varies: none.
no_axes: frozenset[Any] = frozenset()


class OperandsVaryError(LazyTypeError, shown_as=TypeError):
    """Operands vary along different mesh axes; staging makes them vary alike.

    Args:
      text: the text.
      least: axes along which all operands have to vary, besides their own.
    """

    def __init__(self, text: str | Callable[[], str], least: frozenset[Any] = no_axes):
        super().__init__(text)
        self.least = least


def joint_varying(primitive: Primitive | str, avals: Sequence[Any]) -> frozenset[Any]:
    """The manual mesh axes along which all operands of a primitive vary.

    Raises:
      OperandsVaryError: they do not vary alike.
    """
    found = {a.varying for a in avals if a.varies}
    if len(found) > 1:
        raise OperandsVaryError(lambda: (
            f"the operands of {primitive} vary along different mesh axes: "
            f"{', '.join(map(str, avals))}. Cast those that vary less with "
            "mjax.lax.pcast(x, axes, to='varying')."))
    return found.pop() if found else no_axes


#: Rule -> the text of `Primitive.rules` if it is not defined.
_WITHOUT: dict[str, Callable[[Primitive], str]] = {
    "impl": lambda p: "derived from the lowering" if p.lowerings else "missing",
    "abstract_eval": lambda p: "missing",
    "jvp": lambda p: "missing",
    "linearize": lambda p: "derived from jvp" if p.jvp else "missing",
    "partial_eval": lambda p: "default: all unknown if an operand is",
    "transpose": lambda p: "missing",
    "batch": lambda p: "missing",
    "dce": lambda p: "default: dropped if unused and without effects",
    "recompute": lambda p: "default: repeated as it is",
    "staging": lambda p: "default: one equation",
    "typecheck": lambda p: "default: by the abstract evaluation",
    "cast_varying": lambda p: "default: operands vary alike",
    "collective_axes": lambda p: "default: no devices wait for each other",
    "pretty": lambda p: "default",
}


class Rules(dict[str, str]):
    """A dict that prints as a table, one rule a line."""

    def __repr__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:{width}}  {what}" for name, what in self.items())


class traced:
    """Marks a lowering given as a traceable function; the lowering pass traces it.

    Args:
      function: takes values and the primitive's params, gives values.
      multiple_results: whether it gives a sequence.
    """

    __slots__ = ("function", "multiple_results")

    def __init__(self, function: Rule, multiple_results: bool = False):
        self.function = function
        self.multiple_results = multiple_results

    def __call__(self, ctx: Any, *operands: Any, **params: Any) -> Any:
        """Lowers the function for the types `ctx.avals_in`, from inside of another rule."""
        return ctx.lower_traced(self, operands, params)
