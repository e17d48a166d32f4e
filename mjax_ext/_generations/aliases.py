"""Primitives whose params changed, as older generations know them.

An alias is a primitive with the old params, in front of the one that the engine applies. Its `bind`
applies that one; rules that it is given become rules of that one, and receive the old params; rules
that are read from it are that one's, with the old params. So tables, helpers that register rules,
and evaluation take it as they take any primitive, and the engine does not know of it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from mjax._engine.base.program_caches import ProgramCache
from mjax._engine.ir.jaxpr import Jaxpr, JaxprEqn
from mjax._engine.ir.schema import Schema, schema_of
from mjax._engine.tracing.marked import traced
from mjax._engine.tracing.primitive import Primitive
from mjax._engine.tracing.registration import CALLS, Call, check_rule, is_traceable
from mjax_ext._generations.translation import Translation

Params = dict[str, Any]


class Alias(Primitive):
    """A primitive under its former params.

    Args:
      target: the primitive that applications apply; it may be an alias too.
      schema: the former params.
      to_new: the params of the target from the former ones: param -> expression.
      to_old: the former params from those of the target, likewise.
      scope: what expressions may use beside params.
      before: the generation that has the new ones first, for messages.
    """

    __slots__ = ("before", "bind", "target", "to_new", "to_old")
    before: str
    target: Primitive
    to_new: Translation
    to_old: Translation

    def __init__(self, target: Primitive, schema: Schema, to_new: Mapping[str, str],
                 to_old: Mapping[str, str], scope: Mapping[str, Any], *, before: str):
        new = target.schema or schema_of({})
        forth, back = Translation(schema, new, to_new, scope), Translation(
            new, schema, to_old, scope)
        facts = {name: getattr(target, name) for name in (
            "name", "multiple_results", "types_cacheable", "structural", "own_varying",
            "exact_params")}
        # As `Primitive.__init__`, but it is not a primitive of its own in the tables.
        for name, value in {
                **facts, "schema": schema, "target": target, "to_new": forth, "to_old": back,
                "bind": forth.application(target, self.check_params), "before": before,
                "frame": None, "derived": set(), "foreign": set(), "used": False,
                "applied": False, "types": ProgramCache(), "executables": ProgramCache()}.items():
            object.__setattr__(self, name, value)

    @property
    def lowerings(self) -> dict[str | None, Any]:  # type: ignore[override]
        """Platform -> lowering, with the old params."""
        return {platform: self.converted("lowering", rule, self.to_new, self.to_old)
                for platform, rule in self.target.lowerings.items()}

    @property
    def root(self) -> Primitive:
        """The engine's primitive behind all aliases."""
        return self.target.root if isinstance(self.target, Alias) else self.target

    def from_root(self, params: Params) -> Params:
        """The former params of an equation of the engine's primitive."""
        target = self.target
        return self.to_old(target.from_root(params) if isinstance(target, Alias) else params)

    def for_root(self, params: Params) -> Params:
        """The params of the engine's primitive from the former ones."""
        target = self.target
        new = self.to_new(params)
        return target.for_root(new) if isinstance(target, Alias) else new

    # -- application --

    def bind_with_trace(self, trace: Any, args: Sequence[Any], /, *more: Any) -> Any:
        self.check_params(more[-1])
        return self.target.bind_with_trace(trace, args, *more[:-1], self.to_new(more[-1]))

    # -- registration --

    def define(self, field: str, rule: Any, *, derived: bool = False) -> Any:
        self._refuse(field, rule)
        self.target.define(field, self.converted(field, rule, self.to_old, self.to_new),
                           derived=derived)
        return rule

    def undefine(self, field: str) -> None:
        self.target.undefine(field)

    def def_lowering(self, rule: Any, platform: str | None = None) -> Any:
        self._refuse("lowering", rule)
        self.target.def_lowering(
            self.converted("lowering", rule, self.to_old, self.to_new), platform)
        return rule

    @property
    def exceptions(self) -> Mapping[str, str]:  # type: ignore[override]
        """Rule -> why it was left out of the target, or deviates there."""
        return self.target.exceptions

    def without(self, rule: str, reason: str) -> None:
        self.target.without(rule, reason)

    def deviates(self, rule: str, reason: str) -> None:
        self.target.deviates(rule, reason)

    def _refuse(self, field: str, rule: Any) -> None:
        try:
            check_rule(self, field, rule)
        except TypeError as error:
            error.add_note(f"{self.name!r} is the primitive of generations before {self.before}, "
                           f"with their params ({self.schema}). Rules for the params of "
                           f"{self.before} belong to its {self.name!r}.")
            raise

    def converted(self, field: str, rule: Any, convert: Translation, back: Translation) -> Any:
        """A rule that takes other params.

        Args:
          field: the kind of the rule.
          rule: it.
          convert: the params that it takes, from those that the new rule takes.
          back: the reverse, for equations that rules give.
        """
        if is_traceable(rule):
            return traced(convert.rule(rule.function, Call((), True)), rule.multiple_results)
        call = CALLS[field]
        if call.leading[-1:] == ("eqn",):
            return functools.wraps(rule)(functools.partial(_on_equation, rule, convert, back))
        if not call.params:
            return functools.wraps(rule)(lambda params: rule(convert(params)))
        return convert.rule(rule, call)


def _rule(field: str) -> Any:
    """The property of a rule: that of the primitive behind, with the old params."""

    def read(self: Alias) -> Any:
        rule = getattr(self.target, field)
        return None if rule is None else self.converted(field, rule, self.to_new, self.to_old)

    return property(read)


for _field in CALLS.keys() - {"lowering"}:  # a primitive has several of these
    setattr(Alias, _field, _rule(_field))


def _on_equation(rule: Any, convert: Translation, back: Translation, *args: Any) -> Any:
    """A rule whose last argument is an equation, and that may give equations."""
    *first, eqn = args
    out = rule(*first, eqn.replace(params=convert(eqn.params)))
    return tuple(x.replace(params=back(x.params)) if isinstance(x, JaxprEqn)
                 and x.primitive is eqn.primitive else x for x in out)


def program(jaxpr: Jaxpr, aliases: Mapping[Primitive, Alias]) -> Jaxpr:
    """A program as a generation writes it: with its own params, in inner programs too.

    Args:
      jaxpr: the program.
      aliases: the engine's primitives -> the generation's, where they differ.

    Returns:
      A program that computes the same; the program itself if nothing in it differs.
    """
    if not aliases or not isinstance(jaxpr, Jaxpr):
        return jaxpr
    key = "generation", *aliases.values()
    found: Jaxpr = jaxpr.cached(key, lambda: _program(jaxpr, aliases))
    return found


def _program(jaxpr: Jaxpr, aliases: Mapping[Primitive, Alias]) -> Jaxpr:
    eqns = [_equation(eqn, aliases) for eqn in jaxpr.eqns]
    if all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
        return jaxpr
    return jaxpr.replace(eqns=eqns)


def _equation(eqn: JaxprEqn, aliases: Mapping[Primitive, Alias]) -> JaxprEqn:
    primitive, params = application(eqn.primitive, eqn.params, aliases)
    return eqn if params is eqn.params else eqn.replace(primitive=primitive, params=params)


def application(primitive: Primitive, params: Params, aliases: Mapping[Primitive, Alias]
                ) -> tuple[Primitive, Params]:
    """A primitive and its params as a generation writes them; the same dict if nothing differs."""
    alias = aliases.get(primitive)
    known = params if alias is None else alias.from_root(params)
    inner = {name: _within(value, aliases) for name, value in known.items()}
    if alias is None and all(inner[name] is known[name] for name in known):
        return primitive, params
    return alias or primitive, inner


def with_applications(cls: type, method: str, aliases: Mapping[Primitive, Alias]) -> Any:
    """A class whose subclasses interpret primitives as a generation writes them.

    Args:
      cls: the class of the head, `core.Interpreter` or `core.Trace`.
      method: the method that its subclasses define: `(self, primitive, values, params)`.
      aliases: the engine's primitives -> the generation's, where they differ.
    """
    class Meta(type(cls)):  # type: ignore[misc]
        def __instancecheck__(self, instance: Any) -> bool:
            return isinstance(instance, cls) if self is made else (
                super().__instancecheck__(instance))

    def __init_subclass__(subclass: Any, /, **kwargs: Any) -> None:
        cls.__init_subclass__(**kwargs)
        own = vars(subclass).get(method)
        if own is not None:
            @functools.wraps(own)
            def interpret(self: Any, primitive: Primitive, values: Any, params: Params) -> Any:
                primitive, params = application(primitive, params, aliases)
                return own(self, primitive, values, params)

            setattr(subclass, method, interpret)

    def enter(self: Any, primitive: Primitive, carried: Any, params: Params) -> Any:
        if isinstance(primitive, Alias):
            params = primitive.for_root(params)
            primitive = primitive.root
        return cls.enter(self, primitive, carried, params)  # type: ignore[attr-defined]

    made: Any = Meta(cls.__name__, (cls,), {
        "__doc__": cls.__doc__, "__module__": cls.__module__, "__qualname__": cls.__qualname__,
        "__init_subclass__": classmethod(__init_subclass__),
        **({"enter": functools.wraps(cls.enter)(enter)} if hasattr(cls, "enter") else {})})
    return made


def _within(value: Any, aliases: Mapping[Primitive, Alias]) -> Any:
    if isinstance(value, Jaxpr):
        return program(value, aliases)
    if type(value) in (tuple, list):
        found = [_within(v, aliases) for v in value]
        return value if all(a is b for a, b in zip(found, value)) else type(value)(found)
    return value
