"""The Primitive record: all facts and all rules of a primitive in one place."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from mjax._engine.base.errors import LazyArgumentError
from mjax._engine.base.folding import fold
from mjax._engine.base.program_caches import PlainCache, ProgramCache, Unkept, forget_programs
from mjax._engine.base.thread import ThreadState, thread
from mjax._engine.base.util import exact
from mjax._engine.ir.effects import Effects, no_effects
from mjax._engine.ir.jaxpr import jaxprs_in_params
from mjax._engine.ir.references import is_reference
from mjax._engine.ir.schema import Examples, Schema, schema_of
from mjax._engine.tracing.exceptions import Exceptions
from mjax._engine.tracing.flat import refuse_operands
from mjax._engine.tracing.operands import OperandsVaryError, joint_varying, no_axes
from mjax._engine.tracing.registration import (
    BEFORE,
    CALLS,
    check_platform,
    check_rule,
    check_rules,
    has_fixed_arity,
    mark_derived,
    note_birth,
    note_owner,
    refuse_derived,
    refuse_examples,
    sort_out,
    take_back,
)
from mjax._engine.tracing.rule_errors import (
    missing_rule,
    name_rule,
    refuse_effects,
    refuse_params,
    refuse_unhashable,
)
from mjax._engine.tracing.rule_results import types_of_result
from mjax._engine.tracing.rule_table import Rules, rules_of

Rule = Callable[..., Any]

#: All primitives, for the rule tables of `mjax_ext.interpreters`.
registry: weakref.WeakSet[Primitive] = weakref.WeakSet()

#: The fields that hold rules; lowerings have a table.
_RULES = tuple(field for field in CALLS if field != "lowering")


class Primitive(Exceptions):
    """A primitive operation.

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
        collective_axes(*avals, **params)        -> named axes over which devices wait
        cast_varying(varying, **params)          -> along which mesh axes operands have to vary, and
                                                    params whose jaxprs are of these types
        pretty(params)                           -> params to print

    Transpose rules are called only where some cotangent is not zero. With `multiple_results`
    values, avals, tangents and dims in results are lists.

    Args:
      name: its name in jaxprs and messages.
      params: the types of its params by name: a schema, as `def_schema` takes it. None: equations
        may have any params.
      examples: operands and params of some applications; see `def_schema`.

    Attributes:
      schema: names and types of its params (`ir.schema.Schema`), or None if it declares none.
      multiple_results: `bind` returns a list, and rules take and give lists.
      types_cacheable: abstract evaluation depends on types and hashable params alone.
      structural: moves elements without looking at them. So it works for extended dtypes through
        their physical arrays, by the rule in `batch`.
      own_varying: the abstract evaluation sets the mesh axes along which results vary; otherwise
        they vary as the operands do.
      exact_params: names of params whose equal values cache keys tell apart, such as 1, 1.0 and
        True, or 0.0 and -0.0 (`base.util.exact`). True: all, as for users' primitives; those of the
        engine name params with numbers that are not sizes, axes or flags.

    Example:
      >>> from mjax_ext.core import Primitive
      >>> scale_p = Primitive("scale", params={"factor": float})
      >>> scale_p.def_impl(lambda x, *, factor: factor * x)  # doctest: +ELLIPSIS
      <function ...>
      >>> scale_p.bind(3, factor=2.0)
      6.0
    """

    __slots__ = (*_RULES, "__dict__", "__weakref__", "agreed", "applied", "compared",
                 "compares_list", "compares_one", "comparisons", "derived",
                 "effectful", "exact_params", "executables", "foreign", "frame",
                 "free_batch", "free_jvp", "identity", "lowerings",
                 "multiple_results", "name", "_narrow", "own_varying", "schema",
                 "structural", "types", "types_cacheable", "used")

    #: Whether it calls a function that `bind` takes (`core.CallPrimitive`); none maps one.
    call_primitive = map_primitive = False
    #: Whether it is one of the engine's.
    own = False
    #: Whether a transformation applies its rule although none of its tracers is an operand.
    always = False
    #: Whether its impl takes and gives objects of authors' classes (`tracing.user_types`).
    on_objects = False
    #: Whether references may be operands, although it has neither a rule `discharge` nor a frame.
    takes_references = False
    schema: Schema | None
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
    compared: bool
    compares_one: bool
    compares_list: bool
    #: Whether keys of types are short: the abstract evaluation takes a fixed number of operands.
    _narrow: bool
    free_jvp: Rule | None
    free_batch: Rule | None
    identity: object
    #: Whether its types were computed since all programs were forgotten. If not, caches hold no
    #: results of its rules.
    used: bool
    #: Whether its types were ever computed.
    applied: bool

    def __init__(self, name: str, *, params: Mapping[str, Any] | Schema | None = None,
                 examples: Examples = (), multiple_results: bool = False,
                 types_cacheable: bool = True, structural: bool = False,
                 own_varying: bool = False, exact_params: tuple[str, ...] | Literal[True] = ()):
        self.name = name
        if params is None and examples:
            refuse_examples(name)
        self.schema = None if params is None else schema_of(params, examples)
        # A subclass may say it for all of its primitives, as those that are written for JAX do.
        self.multiple_results: bool = multiple_results or (
            getattr(type(self), "multiple_results", False) is True)
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
        #: Whether the abstract evaluation gives effects, too.
        self.effectful: bool = False
        #: Types of results and operands, as tuples or as dicts in dicts -> params for which they
        #: agree (`tracing.agreed`), and what clears it with all programs.
        self.comparisons: PlainCache = PlainCache()
        self.agreed: dict[Any, Any] = self.comparisons.entries
        #: Stands for it in keys of tables that do not keep it alive.
        object.__setattr__(self, "identity", object())
        #: (settings, avals, params) -> (type or list of types, effects).
        self.types: ProgramCache = ProgramCache()
        #: The executor's compiled forms of single applications.
        self.executables: ProgramCache = ProgramCache()
        for field in "used", "applied":
            object.__setattr__(self, field, False)
        registry.add(self)
        object.__setattr__(self, "_narrow", self.own and not self.multiple_results)
        sort_out(self)
        note_birth(self)

    def __repr__(self) -> str:
        return self.name

    def __copy__(self, memo: Any = None) -> Primitive:
        """Itself: programs and tables of rules know a primitive by its identity."""
        return self

    __deepcopy__ = __copy__

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
            if self.frame is not None and not self.own:
                self.frame.check_operands(args, params)
            return thread.interpreter.process(self, args, params)
        except Exception as error:
            self.fold_error(error, args)
            raise

    def fold_error(self, error: Exception, args: Sequence[Any]) -> None:
        """Makes an error of an application one that users read.

        Raises:
          TypeError: an operand is not an array.
        """
        if type(error) is LazyArgumentError:
            refuse_operands(self.name, args)
        fold(error)

    def bind_with_trace(self, trace: Any, args: Sequence[Any], /, *more: Any) -> Any:
        """Applies the primitive by an interpreter, whichever one is current.

        Args:
          trace: the interpreter (`mjax_ext.core.Trace`).
          args: the operands.
          more: their types, which are not needed and may be left out; then a dict of the params.
        """
        if not more or not isinstance(more[-1], Mapping):
            msg = f"{self.name}.bind_with_trace: the last argument is a dict of the params."
            raise TypeError(msg)
        previous, thread.interpreter = thread.interpreter, trace
        try:
            return Primitive.bind(self, *args, **more[-1])
        finally:
            thread.interpreter = previous

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        """The params with which `bind` repeats an equation: those of the equation."""
        return params

    # -- registration of params and rules --

    def def_schema(self, params: Mapping[str, Any] | Schema, examples: Examples = ()) -> Schema:
        """Declares the params: `bind` and `check_jaxpr` refuse others, and tools read `schema`.

        Args:
          params: name -> type. A type is a class, `tuple[int, ...]`, `int | None`,
            `Literal["a", "b"]` or `typing.Any`; `NotRequired[...]` says that equations may lack the
            param. `Jaxpr` is the type of a program; `int` includes symbolic sizes.
          examples: operands and params of some applications, `(operands, params)` each, for
            `python -m mjax_ext check`; or a function that gives them.

        Returns:
          The schema.

        Raises:
          TypeError: a type is not a type, or a rule does not take the params.

        Example:
          >>> from mjax_ext import core
          >>> p = core.Primitive("window")
          >>> print(p.def_schema({"sizes": tuple[int, ...], "mode": str},
          ...                    [((1.0,), {"sizes": (2,), "mode": "same"})]))
          sizes: tuple[int, ...], mode: str
        """
        schema = schema_of(params, examples)
        before, self.schema = self.schema, schema
        try:
            check_rules(self)
        except TypeError:
            self.schema = before
            raise
        self._forget()
        return schema

    def def_impl(self, impl: Rule) -> Rule:
        """Sets how the primitive is evaluated outside of any transformation."""
        return self.define("impl", impl)

    def def_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types."""
        adapted: Any = lambda *avals, **params: (rule(*avals, **params), no_effects)
        adapted.__wrapped__ = adapted.adapts = rule
        self.define("abstract_eval", adapted)
        return rule

    def def_effectful_abstract_eval(self, rule: Rule) -> Rule:
        """Sets the rule from operand types to result types and a set of effects."""
        return self.define("abstract_eval", rule)

    def def_lowering(self, rule: Any, platform: str | None = None) -> Any:
        """Sets how the primitive becomes StableHLO.

        Args:
          rule: `(ctx, *operands, **params) -> list of ir.Value`, or a `traced` function.
          platform: the one platform it is for; "gpu": CUDA and ROCm, where these have no rule of
            their own; None: all that have none.

        Raises:
          TypeError: it is not a function, or does not take these arguments.
          NotImplementedError: the platform is unknown.
        """
        check_platform(self, platform)
        if self.applied or not self.own:
            check_rule(self, "lowering", rule)
        self.lowerings[platform] = rule
        note_owner(self, ("lowering", platform), rule)
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

    def def_recompute(self, rule: Rule) -> Rule:
        """Sets the rule that cuts an equation for rematerialization."""
        return self.define("recompute", rule)

    def def_staging(self, rule: Rule) -> Rule:
        """Sets the rule that records its equations itself while a program is staged."""
        return self.define("staging", rule)

    def def_typecheck(self, rule: Rule) -> Rule:
        """Sets the comparison of the jaxprs in the params with the operands."""
        return self.define("typecheck", rule)

    def def_cast_varying(self, rule: Rule) -> Rule:
        """Sets the mesh axes along which operands have to vary."""
        return self.define("cast_varying", rule)

    def def_collective_axes(self, rule: Rule | None) -> Rule | None:
        """Sets the named axes over which devices wait for each other; None: no axes."""
        if rule is None:
            self.undefine("collective_axes")
            return None
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

    def define(self, field: str, rule: Any, *, derived: bool = False) -> Any:
        """Sets a rule; results of the old one are forgotten.

        An author's rule replaces those that helpers derived and that would take precedence.

        Args:
          field: the rule's name. "abstract_eval" is that of `def_effectful_abstract_eval`, as is
            an assignment to `p.abstract_eval` in JAX: it gives types and effects.
          rule: the rule.
          derived: a helper made it, rather than an author.

        Raises:
          TypeError: it is not a function, its signature does not fit this kind of rule, the schema
            or the other rules, or it was derived for another primitive.
          AttributeError: there is no rule of this name.
        """
        if field not in _RULES or not (derived or (self.own and not self.applied)):
            check_rule(self, field, rule)
        if derived:
            mark_derived(rule, self)
        else:
            refuse_derived(self, field, rule)
            if (before := BEFORE.get(field)) in self.derived:
                self.undefine(before)
        object.__setattr__(self, field, rule)
        if field == "abstract_eval" and self.effectful is hasattr(rule, "adapts"):
            self.effectful = not self.effectful
            sort_out(self)
        elif field == "staging":  # Staging looks for the rule where it does not know the type.
            self.types = Unkept()
        note_owner(self, field, rule, derived)
        if field in ("impl", "abstract_eval") and field in self.foreign:
            self.exact_params = True
            if field == "abstract_eval":
                object.__setattr__(self, "_narrow", has_fixed_arity(rule))
        (self.derived.add if derived else self.derived.discard)(field)
        self._forget()
        return rule

    def undefine(self, field: str) -> None:
        """Removes a rule, if there is one; its results are forgotten."""
        if getattr(self, field) is not None:
            take_back(self, field)
        object.__setattr__(self, field, None)
        if field == "staging":
            self.types = ProgramCache()
        elif field == "abstract_eval":
            object.__setattr__(self, "_narrow", False)
        self.foreign.discard(field)
        sort_out(self)
        self.derived.discard(field)
        self._forget()

    def __setattr__(self, name: str, value: Any) -> None:
        """An assignment to a rule defines it."""
        if name in _RULES:
            self.undefine(name) if value is None else self.define(name, value)
        else:
            object.__setattr__(self, name, value)
            if name == "multiple_results" and hasattr(self, "applied"):
                sort_out(self)

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
        return rules_of(self)

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
            refuse_unhashable(self, params)
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
        self.check_params(params)
        rule = self.abstract_eval or self.missing(
            "abstract_eval", operands=len(avals), params=params)
        if self.discharge is None and self.frame is None and not self.takes_references and any(
                map(is_reference, avals)):
            raise LazyArgumentError(lambda: (
                f"{self.name} takes arrays, but was given a reference of type "
                f"{next(filter(is_reference, avals))}: read it with ref[...]."))
        varying = no_axes if self.own_varying else joint_varying(self, avals)
        # Helpers that the rule calls must not be staged into the program under construction.
        previous, thread.interpreter = thread.interpreter, ThreadState.interpreter
        try:
            result = rule(*avals, **params)
        except Exception as error:
            name_rule(error, self, "abstract_eval", params)
            raise
        finally:
            thread.interpreter = previous
        outs, effects = types_of_result(self, result, len(avals))
        if varying:
            outs = [aval.with_varying(varying) for aval in outs]
        return (outs if self.multiple_results else outs[0]), frozenset(effects)

    # -- errors --

    def missing(self, rule: str, **facts: Any) -> Any:
        """Raises the error for a missing rule; see `rule_errors.missing_rule`."""
        return missing_rule(self, rule, **facts)

    def check_params(self, params: dict[str, Any]) -> None:
        """Refuses params that the schema does not have. Called once per types and params."""
        schema = self.schema
        if schema is not None and params.keys() != schema.required and not schema.admits(params):
            refuse_params(self, params)


class EnginePrimitive(Primitive):
    """A primitive of the engine's own: tests hold its rules to each other, no check at run time."""

    __slots__ = ()
    own = True
