"""Checks that run no rule: rules are functions, and params are hashable."""

from __future__ import annotations

import gc
from typing import Any

from mjax._engine.base.util import counted
from mjax._engine.tracing import primitive as record
from mjax._engine.tracing.primitive import Primitive, registry
from mjax._engine.tracing.rule_errors import where
from mjax_ext.check._report import RULES
from mjax_ext.check._run import Run

#: Rules of the record that belong to a rule of the report.
_BELONGS = {"axis_batch": "batch", "typecheck": "abstract_eval", "cast_varying": "varying",
            "collective_axes": "varying", "scope": "varying", "discharge": "effects",
            "pretty": "params", "users_rule": "jvp"}


def check_params(run: Run) -> str | None:
    """They are hashable, and those that the primitive declares."""
    schema, given = run.primitive.schema, run.application.params
    if schema is not None and (wrong := schema.misnamed(given)):
        run.fault("params", f"the schema is ({schema}): {wrong}.",
                  "Give the check the params of the schema, or change the schema.",
                  "bind refuses them.")
    if schema is not None and (wrong := schema.mistyped(given)):
        run.report("params", f"{wrong}.", "Give a value of that type, or change the schema.",
                   "check_jaxpr refuses the equations.", usable=True)
    for name, value in given.items():
        try:
            hash(value)
        except TypeError:
            run.fault("params", (
                f"{name!r} is not hashable: {value!r} of type {type(value).__name__}."),
                "Params are static: pass arrays as operands, lists as tuples, and dicts as tuples "
                "of pairs.", "Caches cannot hold the params, so every transformation refuses them.")
    return None


def check_functions(run: Run) -> None:
    """Every rule is a function."""
    p = run.primitive
    fields = [(field, getattr(p, field)) for field in record._RULES]
    rules = [*fields, *(("lowering", rule) for rule in p.lowerings.values())]
    for field, rule in rules:
        if rule is not None and not callable(rule):
            name = _BELONGS.get(field, field)
            run.report(name, f"it is {rule!r}, which is not a function.",
                       f"Register a function: {p.name}_p.def_{field}(rule).",
                       "Transformations that need it fail when they call it.")


def check_name(run: Run) -> str | None:
    """No other primitive has the name."""
    twins = _twins(run.primitive)
    if twins:
        gc.collect()
        twins = _twins(run.primitive)
    if twins:
        places = sorted(filter(None, map(_place, twins)))
        run.report("determinism", (
            f"{counted(len(twins), 'other primitive')} of the name "
            f"{run.primitive.name!r} exist{'' if len(twins) > 1 else 's'}"
            + (f", defined at {', '.join(places)}." if places else ".")),
            "Rename one of them, or import the one that exists instead of making it again.",
            "Printed programs, exported ones and interpreters that go by names take one for the "
            "other.", usable=True)
    return None


def _twins(primitive: Primitive) -> list[Primitive]:
    """The other primitives of this name. The same definition, run again, makes none.

    Those of the engine do not count: authors need not know their names.
    """
    mine = set(_rules_of(primitive).values())
    twins = [p for p in list(registry)
             if p is not primitive and p.name == primitive.name and p.foreign]
    return [p for p in twins if mine.isdisjoint(_rules_of(p).values())]


def _rules_of(primitive: Primitive) -> dict[Any, str]:
    """The places of the rules that an author wrote."""
    rules = {field: getattr(primitive, field) for field in RULES if hasattr(primitive, field)}
    rules |= {("lowering", k): rule for k, rule in primitive.lowerings.items()}
    return {field: where(rule) for field, rule in rules.items()
            if rule is not None and field not in primitive.derived}


def _place(primitive: Primitive) -> str | None:
    return next(iter(_rules_of(primitive).values()), None)
